/* SPDX-License-Identifier: MIT */
/* Shared memory and address ranges: what two mappings see, what is counted,
 * what is given back. */
#define _GNU_SOURCE
#include "base/error.h"
#include "base/stat.h"
#include "base/sys.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "t_test.h"

static size_t page;

static int64_t descriptors(void)
{
    return wi_stat_get(WI_STAT_live_descriptors);
}

static int64_t mapped(void)
{
    return wi_stat_get(WI_STAT_live_host_map_bytes);
}

static int64_t ranges(void)
{
    return wi_stat_get(WI_STAT_live_ranges);
}

static void check_memfd(void)
{
    void *a, *b;
    struct stat about;
    int fd = -1, again = -1;

    T_OK(wi_sys_memfd("wharf-test", 3 * page, &fd));
    T_EQ_INT(1, descriptors());
    T_CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    T_EQ_INT(0, fstat(fd, &about));
    T_EQ_INT(3 * page, about.st_size);

    T_OK(wi_sys_map(fd, 0, 3 * page, PROT_READ | PROT_WRITE, NULL, &a));
    T_OK(wi_sys_map(fd, page, page, PROT_READ, NULL, &b));
    T_EQ_INT(4 * page, mapped());
    for (size_t i = 0; i < 3 * page; i++)
        T_EQ_INT(0, ((char *)a)[i]);
    strcpy((char *)a + page + 100, "here");
    T_EQ_STR("here", (char *)b + 100);
    T_OK(wi_sys_protect(a, page, PROT_READ));

    /* The memory outlives every descriptor. */
    T_OK(wi_sys_reopen(fd, &again));
    T_CHECK(again != fd);
    T_CHECK(fcntl(again, F_GETFD) & FD_CLOEXEC);
    T_EQ_INT(2, descriptors());
    wi_sys_close(&fd);
    wi_sys_close(&again);
    T_EQ_INT(-1, fd);
    T_EQ_INT(0, descriptors());
    T_EQ_STR("here", (char *)b + 100);
    wi_sys_unmap(a, 3 * page);
    wi_sys_unmap(b, page);
    T_EQ_INT(0, mapped());
}

static int lock_set(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

    return fcntl(fd, F_OFD_SETLK, &lock);
}

/* A duplicate shares its locks; a second description has its own. */
static void check_reopen_locks(void)
{
    int fd = -1, again = -1;

    T_OK(wi_sys_memfd("wharf-test", page, &fd));
    T_OK(wi_sys_reopen(fd, &again));
    T_EQ_INT(0, lock_set(fd, F_WRLCK));
    T_EQ_INT(-1, lock_set(again, F_WRLCK));
    wi_sys_close(&fd);
    T_EQ_INT(0, lock_set(again, F_WRLCK));
    wi_sys_close(&again);
    T_EQ_INT(0, descriptors());
}

/* Two memories side by side in one reserved range, and a part taken back. */
static void check_range(void)
{
    void *range, *at, *kept = NULL;
    int first = -1, second = -1;

    T_OK(wi_sys_memfd("first", page, &first));
    T_OK(wi_sys_memfd("second", page, &second));
    T_OK(wi_sys_reserve(NULL, 4 * page, &range));
    T_EQ_INT(1, ranges());
    T_EQ_INT(0, mapped());
    T_OK(wi_sys_map(first, 0, page, PROT_READ | PROT_WRITE,
                    (char *)range + page, &at));
    T_EQ_PTR((char *)range + page, at);
    T_OK(wi_sys_map(second, 0, page, PROT_READ | PROT_WRITE,
                    (char *)range + 2 * page, &at));
    memset((char *)range + page, 'x', 2 * page);
    T_EQ_INT(2 * page, mapped());

    /* The place is free again, but still nobody else's. */
    wi_sys_unmap_fixed((char *)range + page, page);
    T_EQ_INT(page, mapped());
    T_STATUS(WHARF_EUNSUPPORTED,
             wi_sys_reserve((char *)range + page, page, &kept));
    T_EQ_PTR(NULL, kept);
    T_OK(wi_sys_map(second, 0, page, PROT_READ, (char *)range + page, &at));
    T_EQ_INT('x', *(char *)at);

    wi_sys_unmap_fixed((char *)range + page, 2 * page);
    T_EQ_INT(0, mapped());
    wi_sys_unreserve(range, 4 * page);
    T_EQ_INT(0, ranges());
    wi_sys_close(&first);
    wi_sys_close(&second);
}

static void check_wish(void)
{
    void *found, *got = NULL;

    T_OK(wi_sys_reserve(NULL, 8 * page, &found));
    T_STATUS(WHARF_EUNSUPPORTED, wi_sys_reserve(found, page, &got));
    T_STATUS(WHARF_EUNSUPPORTED,
             wi_sys_reserve((char *)found + 7 * page, 2 * page, &got));
    T_EQ_PTR(NULL, got);
    T_CONTAINS("taken", wi_error_record()->cause);
    T_EQ_INT(1, ranges());
    wi_sys_unreserve(found, 8 * page);

    T_OK(wi_sys_reserve(found, 8 * page, &got));
    T_EQ_PTR(found, got);
    wi_sys_unreserve(got, 8 * page);
    T_EQ_INT(0, ranges());
}

/* More than the machine has: an error with a remedy, nothing counted. */
static void check_too_much(void)
{
    void *got = NULL;
    int fd = -1;

    T_STATUS(WHARF_ENOMEM, wi_sys_reserve(NULL, (size_t)1 << 60, &got));
    T_CONTAINS("ulimit -v", wi_error_record()->remedy);
    T_STATUS(WHARF_EOS, wi_sys_memfd("huge", SIZE_MAX, &fd));
    T_STATUS(WHARF_EOS, wi_sys_map(-1, 0, page, PROT_READ, NULL, &got));
    T_STATUS(WHARF_EOS, wi_sys_map(-1, 0, 0, PROT_READ, NULL, &got));
    T_STATUS(WHARF_EOS, wi_sys_reopen(-1, &fd));
    T_EQ_PTR(NULL, got);
    T_EQ_INT(-1, fd);
}

static void check_give_back_nothing(void)
{
    int none = -1;

    wi_sys_close(NULL);
    wi_sys_close(&none);
    wi_sys_unmap(NULL, page);
    wi_sys_unmap(&none, 0);
    wi_sys_unmap_fixed(NULL, page);
    wi_sys_unmap_fixed(&none, 0);
    wi_sys_unreserve(NULL, page);
    wi_sys_adopt(-1);
    wi_sys_disown(-1);
    T_EQ_INT(0, descriptors());
    T_EQ_INT(0, mapped());
    T_EQ_INT(0, ranges());
}

int main(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    check_memfd();
    check_reopen_locks();
    check_range();
    check_wish();
    check_too_much();
    check_give_back_nothing();
    return 0;
}
