/* SPDX-License-Identifier: MIT */
/* Memory that a program had before, as far as the system alone can tell: what
 * it is, where it ends, and what it is called. */
#include "device/foreign.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "t_test.h"

static wi_foreign look(void *pointer, size_t bytes)
{
    wi_foreign found;

    T_OK(wi_foreign_inspect_host(pointer, bytes, &found));
    T_EQ_PTR(pointer, found.pointer);
    T_EQ_INT(bytes, found.bytes);
    T_CHECK(found.pageable);
    return found;
}

static void absent(void *pointer, size_t bytes, size_t from)
{
    wi_foreign found = {.bytes = 99};
    char text[64];

    T_STATUS(WHARF_EARG, wi_foreign_inspect_host(pointer, bytes, &found));
    snprintf(text, sizeof text, "from byte %zu on", from);
    T_CONTAINS(text, wi_error_record()->cause);
    T_EQ_INT(99, found.bytes);
}

static void *on_its_stack(void *argument)
{
    char array[3000];

    (void)argument;
    memset(array, 1, sizeof array);
    T_EQ_INT(WI_FOREIGN_STACK, look(array, sizeof array).kind);
    return NULL;
}

static void kinds(void)
{
    static const char text[] = "constant";
    char array[3000] = {0};
    char *heap = malloc(100000);
    pthread_t thread;

    T_EQ_INT(WI_FOREIGN_HOST, look(heap, 100000).kind);
    T_CHECK(!look(heap, 100000).read_only);
    free(heap);
    T_CHECK(look((void *)(uintptr_t)text, sizeof text).read_only);
    T_EQ_INT(WI_FOREIGN_STACK, look(array, sizeof array).kind);
    T_EQ_INT(0, pthread_create(&thread, NULL, on_its_stack, NULL));
    pthread_join(thread, NULL);
}

static void edges(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int rw = PROT_READ | PROT_WRITE;
    char *range = mmap(NULL, 6 * page, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    T_CHECK(range != MAP_FAILED);
    T_EQ_INT(WI_FOREIGN_HOST, look(range, 6 * page).kind);
    T_EQ_INT(0, mprotect(range + 2 * page, page, PROT_READ));
    T_CHECK(look(range, 6 * page).read_only);
    T_CHECK(!look(range, 2 * page).read_only);
    T_CHECK(look(range, 2 * page + 1).read_only);
    T_EQ_INT(0, mprotect(range + 4 * page, page, PROT_NONE));
    absent(range + 5, 4 * page, 4 * page - 5);
    T_CHECK(!look(range, 2 * page).read_only);
    T_EQ_INT(0, munmap(range + 4 * page, page));
    absent(range, 5 * page, 4 * page);
    absent(range + 4 * page, 1, 0);
    look(range + 5 * page, page);
    munmap(range, 6 * page);
    absent((void *)(uintptr_t)1, 10, 0);
    absent((void *)(UINTPTR_MAX - 10), 100, 0);
}

static void shared(void)
{
    int fd = memfd_create("t_foreign", MFD_CLOEXEC);
    void *at;

    T_CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    at = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    T_CHECK(at != MAP_FAILED);
    T_EQ_INT(WI_FOREIGN_HOST_SHARED, look(at, 8192).kind);
    T_CHECK(look(at, 8192).read_only);
    munmap(at, 8192);
    close(fd);
}

static void within(void)
{
    char base[100] = {0};

    T_OK(wi_foreign_within(base, 100, base, 100));
    T_OK(wi_foreign_within(base, 100, base + 40, 60));
    T_OK(wi_foreign_within(base, 100, base + 99, 1));
    T_STATUS(WHARF_EARG, wi_foreign_within(base, 100, base + 40, 61));
    T_CONTAINS("has 60 bytes from", wi_error_record()->cause);
    T_STATUS(WHARF_EARG, wi_foreign_within(base, 100, base, SIZE_MAX));
    T_STATUS(WHARF_EARG, wi_foreign_within(base + 1, 99, base, 1));
}

static void names(void)
{
    for (int k = 0; k < WI_FOREIGN_KINDS; k++) {
        wi_foreign memory = {.kind = (wi_foreign_kind)k};

        T_CHECK(wi_foreign_name((wi_foreign_kind)k)[0] != '\0');
        for (int other = 0; other < k; other++)
            T_CHECK(strcmp(wi_foreign_name((wi_foreign_kind)k),
                           wi_foreign_name((wi_foreign_kind)other)) != 0);
        if (k == WI_FOREIGN_NOTHING || wi_foreign_direct((wi_foreign_kind)k))
            continue;
        T_STATUS(WHARF_EUNSUPPORTED, wi_foreign_refuse(&memory));
        T_CONTAINS(wi_foreign_name((wi_foreign_kind)k),
                   wi_error_record()->cause);
        T_CONTAINS("STAGE_ALLOWED", wi_error_record()->remedy);
    }
    T_CONTAINS("unknown", wi_foreign_name((wi_foreign_kind)-1));
    T_CONTAINS("unknown", wi_foreign_name(WI_FOREIGN_KINDS));
}

static void unreadable(void)
{
    wi_foreign found;

    wi_fault_arm(WI_FAULT_SYS, 1, 13);
    T_STATUS(WHARF_EOS, wi_foreign_inspect_host(&found, 1, &found));
    T_CHECK(wi_fault_disarm(NULL));
}

int main(void)
{
    kinds();
    edges();
    shared();
    within();
    names();
    unreadable();
    return 0;
}
