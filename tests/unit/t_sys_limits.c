/* SPDX-License-Identifier: MIT */
/* Real limits of the process: no descriptors left, and standard streams that
 * the program has closed. */
#include "base/error.h"
#include "base/spawn.h"
#include "base/stat.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "t_child.h"

#define FILES 32

static void no_descriptors(void *argument)
{
    struct rlimit limit = {FILES, FILES};
    int fds[FILES];
    int count = 0, fd = -77;

    (void)argument;
    T_EQ_INT(0, setrlimit(RLIMIT_NOFILE, &limit));
    while (count < FILES &&
           wi_sys_memfd("limit", 4096, &fds[count]) == WHARF_OK)
        count++;
    T_CHECK(count > 0 && count < FILES);
    T_EQ_INT(EMFILE, wi_error_record()->native);
    T_CONTAINS("ulimit -n", wi_error_record()->remedy);
    T_STATUS(WHARF_EOS, wi_sys_socket(SOCK_SEQPACKET, &fd));
    T_CONTAINS("ulimit -n", wi_error_record()->remedy);
    T_STATUS(WHARF_EOS, wi_sys_reopen(fds[0], &fd));
    T_CONTAINS("ulimit -n", wi_error_record()->remedy);
    T_EQ_INT(-77, fd);
    T_EQ_INT(count, wi_stat_get(WI_STAT_live_descriptors));

    wi_sys_close(&fds[--count]);
    T_OK(wi_sys_memfd("limit", 4096, &fds[count++]));
    while (count > 0)
        wi_sys_close(&fds[--count]);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
}

/* Nothing that Wharf holds becomes descriptor 0, 1 or 2, where any print of
 * the program would write into it. */
static void no_streams(void *argument)
{
    int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    int memory = -1, socket_fd = -1, process = -1;

    (void)argument;
    close(0);
    close(1);
    close(2);
    if (wi_sys_memfd("streams", 4096, &memory) != WHARF_OK ||
        wi_sys_socket(SOCK_SEQPACKET, &socket_fd) != WHARF_OK)
        _exit(1);
    process = wi_spawn_pidfd(getpid());
    T_EQ_INT(2, dup2(kept, 2));
    T_CHECK(process < 0 || process > 2);
    T_CHECK(memory > 2 && socket_fd > 2);
    T_CHECK(fcntl(memory, F_GETFD) & FD_CLOEXEC);
    T_CHECK(fcntl(socket_fd, F_GETFD) & FD_CLOEXEC);
    T_EQ_INT(-1, fcntl(0, F_GETFD));
    T_EQ_INT(-1, fcntl(1, F_GETFD));
    T_EQ_INT(2, wi_stat_get(WI_STAT_live_descriptors));
    wi_sys_close(&memory);
    wi_sys_close(&socket_fd);
    if (process >= 0)
        close(process);
}

int main(void)
{
    t_child_run(no_descriptors, NULL);
    t_child_run(no_streams, NULL);
    return 0;
}
