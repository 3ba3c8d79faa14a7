/* SPDX-License-Identifier: MIT */
/* Each system call made to fail: the status, the record with errno and call,
 * outputs untouched, counters and descriptors of the process unchanged. */
#define _GNU_SOURCE
#include "base/error.h"
#include "base/fault.h"
#include "base/stat.h"
#include "base/sys.h"

#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/un.h>

#include "t_test.h"

static int memory = -1, unix_socket = -1;
static void *range;

static const struct sockaddr_un autobind = {.sun_family = AF_UNIX};

#define ADDRESS ((const struct sockaddr *)&autobind), sizeof(sa_family_t)

/* The calls; `fd` and `pointer` are outputs that must stay as they are. */
static int fd;
static void *pointer;
static size_t bytes;

static wharf_status do_memfd(void)
{
    return wi_sys_memfd("fault", 4096, &fd);
}

static wharf_status do_reopen(void)
{
    return wi_sys_reopen(memory, &fd);
}

static wharf_status do_map(void)
{
    return wi_sys_map(memory, 0, 4096, PROT_READ, NULL, &pointer);
}

static wharf_status do_reserve(void)
{
    return wi_sys_reserve(NULL, 4096, &pointer);
}

static wharf_status do_protect(void)
{
    return wi_sys_protect(range, 4096, PROT_NONE);
}

static wharf_status do_socket(void)
{
    return wi_sys_socket(SOCK_SEQPACKET, &fd);
}

static wharf_status do_bind(void)
{
    return wi_sys_bind(unix_socket, ADDRESS);
}

static wharf_status do_listen(void)
{
    return wi_sys_listen(unix_socket, 1);
}

static wharf_status do_accept(void)
{
    return wi_sys_accept(unix_socket, &fd);
}

static wharf_status do_connect(void)
{
    return wi_sys_connect(unix_socket, ADDRESS);
}

static wharf_status do_sendmsg(void)
{
    struct msghdr message = {0};

    return wi_sys_sendmsg(unix_socket, &message, &bytes);
}

static wharf_status do_recvmsg(void)
{
    struct msghdr message = {0};

    return wi_sys_recvmsg(unix_socket, &message, &bytes);
}

static wharf_status do_random(void)
{
    char room[8];

    return wi_sys_random(room, sizeof room);
}

static const struct row {
    const char *call;
    long nth;
    wharf_status (*body)(void);
    bool waits; /* EAGAIN means "come again" */
} rows[] = {
    {"memfd_create", 1, do_memfd, false}, {"ftruncate", 2, do_memfd, false},
    {"open", 1, do_reopen, false},        {"mmap", 1, do_map, false},
    {"mmap", 1, do_reserve, false},       {"mprotect", 1, do_protect, false},
    {"socket", 1, do_socket, false},      {"bind", 1, do_bind, false},
    {"listen", 1, do_listen, false},      {"accept4", 1, do_accept, true},
    {"connect", 1, do_connect, true},     {"sendmsg", 1, do_sendmsg, true},
    {"recvmsg", 1, do_recvmsg, true},     {"getrandom", 1, do_random, false},
};

static int open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    T_CHECK(directory != NULL);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void fail_once(const struct row *row, int code, wharf_status expected)
{
    int before = open_descriptors();
    const wharf_error *error = wi_error_record();
    int64_t counters[WI_STAT_COUNT];
    const char *where;
    wharf_status status;

    for (int i = 0; i < WI_STAT_COUNT; i++)
        counters[i] = wi_stat_get((wi_stat)i);
    fd = -77;
    pointer = &fd;
    bytes = 77;
    wi_error_record()->status = WHARF_OK;
    wi_fault_arm(WI_FAULT_SYS, row->nth, code);
    status = row->body();
    T_CHECK(wi_fault_disarm(&where));
    T_EQ_STR(row->call, where);
    T_EQ_INT(expected, status);
    T_EQ_INT(-77, fd);
    T_EQ_PTR(&fd, pointer);
    T_EQ_INT(77, bytes);
    for (int i = 0; i < WI_STAT_COUNT; i++)
        T_EQ_INT(counters[i], wi_stat_get((wi_stat)i));
    T_EQ_INT(before, open_descriptors());
    if (expected == WHARF_ENOTREADY) {
        T_EQ_INT(WHARF_OK, error->status);
        return;
    }
    T_EQ_INT(expected, error->status);
    T_EQ_INT(WHARF_SOURCE_OS, error->source);
    T_EQ_INT(code, error->native);
    T_CONTAINS(row->call, error->cause);
    T_CONTAINS(strerror(code), error->cause);
}

static void check_remedies(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool descriptor = strstr("memfd_create open socket accept4 sendmsg "
                                 "recvmsg",
                                 rows[i].call) != NULL;
        bool map = strcmp(rows[i].call, "mmap") == 0;

        fail_once(&rows[i], EMFILE, WHARF_EOS);
        if (descriptor)
            T_CONTAINS("ulimit -n", wi_error_record()->remedy);
        fail_once(&rows[i], ENFILE, WHARF_EOS);
        if (descriptor)
            T_CONTAINS("ulimit -n", wi_error_record()->remedy);
        fail_once(&rows[i], ETOOMANYREFS, WHARF_EOS);
        if (descriptor)
            T_CONTAINS("on their way", wi_error_record()->remedy);
        fail_once(&rows[i], ENOMEM, WHARF_ENOMEM);
        if (map) {
            T_CONTAINS("address space", wi_error_record()->remedy);
            T_CONTAINS("locked", wi_error_record()->remedy);
        }
    }
}

/* An interrupted call is made again; a call that would block says so. */
static void check_again(void)
{
    wharf_status status;

    wi_fault_arm(WI_FAULT_SYS, 1, EINTR);
    T_OK(do_random());
    T_EQ_INT(2, wi_fault_count());
    wi_fault_arm(WI_FAULT_SYS, 1, EINTR);
    status = do_recvmsg();
    T_CHECK(status != WHARF_OK);
    T_EQ_INT(2, wi_fault_count());
    T_CHECK(wi_error_record()->native != EINTR);
    wi_fault_disarm(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].waits)
            fail_once(&rows[i], EAGAIN, WHARF_ENOTREADY);
        else
            fail_once(&rows[i], EAGAIN, WHARF_EOS);
}

int main(void)
{
    T_OK(wi_sys_memfd("fault", 4096, &memory));
    T_OK(wi_sys_socket(SOCK_SEQPACKET, &unix_socket));
    T_OK(wi_sys_reserve(NULL, 4096, &range));
    check_remedies();
    check_again();
    wi_sys_close(&memory);
    wi_sys_close(&unix_socket);
    wi_sys_unreserve(range, 4096);
    return 0;
}
