/* SPDX-License-Identifier: MIT */
/* What cannot be given back is said, and memory that is still held stays
 * counted. */
#include "base/log.h"
#include "base/stat.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "t_stderr.h"

static size_t page;
static char text[1024];

static int64_t mapped(void)
{
    return wi_stat_get(WI_STAT_live_host_map_bytes);
}

static const char *said_by_close(void)
{
    t_stderr caught;
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
    int closed_before = fd;

    wi_sys_adopt(fd);
    close(closed_before);
    t_stderr_catch(&caught);
    errno = EDOM;
    wi_sys_close(&fd);
    t_stderr_release(&caught);
    T_EQ_INT(-1, fd);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    t_stderr_next(&caught, text, sizeof text);
    t_stderr_done(&caught);
    return text;
}

/* An address off any page: the kernel refuses to unmap it. */
static const char *said_by_unmap(void (*unmap)(void *, size_t), void *pointer)
{
    t_stderr caught;

    t_stderr_catch(&caught);
    unmap((char *)pointer + 1, page);
    t_stderr_release(&caught);
    t_stderr_next(&caught, text, sizeof text);
    t_stderr_done(&caught);
    return text;
}

int main(void)
{
    void *range, *part;
    int fd = -1;

    wi_log_set_level(WI_LOG_WARN);
    page = (size_t)sysconf(_SC_PAGESIZE);
    T_CONTAINS("warn: close of descriptor", said_by_close());
    T_CONTAINS(strerror(EBADF), text);

    T_OK(wi_sys_memfd("give-back", page, &fd));
    T_OK(wi_sys_reserve(NULL, 2 * page, &range));
    T_OK(wi_sys_map(fd, 0, page, PROT_READ, range, &part));
    T_CONTAINS("warn: munmap of", said_by_unmap(wi_sys_unmap, range));
    T_EQ_INT(page, mapped());
    T_CONTAINS("warn: mmap to clear", said_by_unmap(wi_sys_unmap_fixed, range));
    T_EQ_INT(page, mapped());
    T_CONTAINS("warn: munmap of", said_by_unmap(wi_sys_unreserve, range));
    T_EQ_INT(1, wi_stat_get(WI_STAT_live_ranges));

    wi_sys_unmap_fixed(range, page);
    wi_sys_unreserve(range, 2 * page);
    wi_sys_close(&fd);
    T_EQ_INT(0, mapped());
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_ranges));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    return 0;
}
