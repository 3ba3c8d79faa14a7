/* SPDX-License-Identifier: MIT */
/*
 * System calls that acquire: each asks for a fault first, is counted when it
 * succeeds, and says what to do about the limits that users really meet.
 */
#define _GNU_SOURCE /* memfd_create, accept4, pipe2 */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/stat.h"

/* Since Linux 4.17. An older kernel takes the flag for a mere hint, which is
 * why the address that comes back is compared. */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* True, with errno set, if this call is to fail. */
static bool call_faulted(const char *name)
{
    int code;

    if (!wi_fault(WI_FAULT_SYS, name, &code))
        return false;
    errno = code;
    return true;
}

/* Remedy of a failed call that makes or moves descriptors. */
static const char *descriptor_remedy(int errnum)
{
    switch (errnum) {
    case EMFILE:
        return "raise the limit of open files of this process (ulimit -n)";
    case ENFILE:
        return "raise the system's limit of open files (fs.file-max; ulimit -n "
               "is the limit of one process)";
    case ETOOMANYREFS:
        return "raise the limit of open files (ulimit -n), it bounds "
               "descriptors on their way as well";
    default:
        return NULL;
    }
}

/* Remedy of a failed call that maps or reserves addresses. */
static const char *memory_remedy(int errnum)
{
    switch (errnum) {
    case ENOMEM:
        return "raise the limits of address space (ulimit -v), mappings "
               "(vm.max_map_count) or locked memory (ulimit -l)";
    case EAGAIN:
        return "raise the limit of locked memory (ulimit -l)";
    default:
        return NULL;
    }
}

int wi_sys_move_off(int fd)
{
    int moved, errnum;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    errnum = errno;
    close(fd);
    errno = errnum;
    return moved;
}

/* Counts a new descriptor, off the standard streams. */
static wharf_status descriptor_take(int got, int *fd)
{
    int moved = wi_sys_move_off(got);

    if (moved < 0)
        return wi_fail_os(errno, descriptor_remedy(errno),
                          "cannot move descriptor %d", got);
    wi_stat_add(WI_STAT_live_descriptors, 1);
    *fd = moved;
    return WHARF_OK;
}

/*
 * Size and rights. Who gets the descriptor for reading, a process of another
 * user perhaps, must not open the file anew for writing, and nobody may shrink
 * it under the others. The size limit of files (ulimit -f), which holds for
 * memory like this one, too, is an error and no signal.
 */
static int memfd_shape(int fd, off_t bytes)
{
    static const struct timespec none;
    sigset_t limit, before, pending;
    int failed;

    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &limit, &before);
    failed = ftruncate(fd, bytes) != 0 ? errno : 0;
    if (failed == EFBIG && !sigismember(&pending, SIGXFSZ))
        sigtimedwait(&limit, NULL, &none);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0 && (fchmod(fd, S_IRUSR | S_IWUSR) != 0 ||
                        fcntl(fd, F_ADD_SEALS,
                              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0))
        failed = errno;
    errno = failed;
    return failed ? -1 : 0;
}

wharf_status wi_sys_memfd(const char *label, size_t bytes, int *fd)
{
    int got = -1, errnum;

    if (bytes > INT64_MAX)
        return wi_fail_os(EFBIG, NULL, "shared memory of %zu bytes", bytes);
    if (!call_faulted("memfd_create"))
        got = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (got < 0)
        return wi_fail_os(errno, descriptor_remedy(errno),
                          "memfd_create of \"%s\"", label);
    if (call_faulted("ftruncate") || memfd_shape(got, (off_t)bytes) != 0) {
        errnum = errno;
        close(got);
        return wi_fail_os(errnum,
                          errnum == EFBIG
                              ? "raise the size limit of files (ulimit -f)"
                              : NULL,
                          "ftruncate of \"%s\" to %zu bytes", label, bytes);
    }
    return descriptor_take(got, fd);
}

wharf_status wi_sys_duplicate(int fd, int *again)
{
    int got = -1;

    if (!call_faulted("dup"))
        got = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (got < 0)
        return wi_fail_os(errno, descriptor_remedy(errno),
                          "a second descriptor of a file");
    return descriptor_take(got, again);
}

static wharf_status reopen(int fd, int mode, int *again)
{
    char path[40];
    int got = -1;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!call_faulted("open"))
        got = open(path, mode | O_CLOEXEC);
    if (got < 0)
        return wi_fail_os(errno,
                          errno == ENOENT ? "mount /proc in this container"
                                          : descriptor_remedy(errno),
                          "open of %s", path);
    return descriptor_take(got, again);
}

wharf_status wi_sys_reopen(int fd, int *again)
{
    return reopen(fd, O_RDWR, again);
}

wharf_status wi_sys_reopen_reading(int fd, int *again)
{
    return reopen(fd, O_RDONLY, again);
}

wharf_status wi_sys_map(int fd, size_t offset, size_t bytes, int prot,
                        void *fixed, void **pointer)
{
    int flags = MAP_SHARED | (fixed ? MAP_FIXED : 0);
    void *got = MAP_FAILED;

    if (!call_faulted("mmap"))
        got = mmap(fixed, bytes, prot, flags, fd, (off_t)offset);
    if (got == MAP_FAILED)
        return wi_fail_os(errno, memory_remedy(errno),
                          "mmap of %zu bytes of shared memory", bytes);
    wi_stat_add(WI_STAT_live_host_map_bytes, (int64_t)bytes);
    *pointer = got;
    return WHARF_OK;
}

static wharf_status wish_refuse(void *wish, size_t bytes)
{
    return wi_fail(WHARF_EUNSUPPORTED, NULL,
                   "%zu bytes at address %p are taken in this process", bytes,
                   wish);
}

wharf_status wi_sys_reserve(void *wish, size_t bytes, void **pointer)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                (wish ? MAP_FIXED_NOREPLACE : 0);
    void *got = MAP_FAILED;

    if (!call_faulted("mmap"))
        got = mmap(wish, bytes, PROT_NONE, flags, -1, 0);
    if (got == MAP_FAILED && wish && errno == EEXIST)
        return wish_refuse(wish, bytes);
    if (got == MAP_FAILED)
        return wi_fail_os(errno, memory_remedy(errno),
                          "mmap to reserve %zu bytes of addresses", bytes);
    if (wish && got != wish) {
        munmap(got, bytes);
        return wish_refuse(wish, bytes);
    }
    wi_stat_add(WI_STAT_live_ranges, 1);
    *pointer = got;
    return WHARF_OK;
}

wharf_status wi_sys_protect(void *pointer, size_t bytes, int prot)
{
    if (call_faulted("mprotect") || mprotect(pointer, bytes, prot) != 0)
        return wi_fail_os(errno, memory_remedy(errno), "mprotect of %zu bytes",
                          bytes);
    return WHARF_OK;
}

wharf_status wi_sys_socket(int type, int *fd)
{
    int got = -1;

    if (!call_faulted("socket"))
        got = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (got < 0)
        return wi_fail_os(errno, descriptor_remedy(errno),
                          "socket of the Unix domain");
    return descriptor_take(got, fd);
}

/* Counts two new descriptors, or closes both. */
static wharf_status pair_take(const int got[2], int fds[2])
{
    int first = -1;
    wharf_status status = descriptor_take(got[0], &first);

    if (status != WHARF_OK) {
        close(got[1]);
        return status;
    }
    status = descriptor_take(got[1], &fds[1]);
    if (status == WHARF_OK)
        fds[0] = first;
    else
        wi_sys_close(&first);
    return status;
}

wharf_status wi_sys_socketpair(int type, int fds[2])
{
    int got[2];

    if (call_faulted("socketpair") ||
        socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, got) != 0)
        return wi_fail_os(errno, descriptor_remedy(errno),
                          "pair of Unix sockets");
    return pair_take(got, fds);
}

wharf_status wi_sys_pipe(int fds[2])
{
    int got[2];

    if (call_faulted("pipe2") || pipe2(got, O_CLOEXEC | O_NONBLOCK) != 0)
        return wi_fail_os(errno, descriptor_remedy(errno), "pipe");
    fcntl(got[1], F_SETFL, 0);
    return pair_take(got, fds);
}

wharf_status wi_sys_eventfd(int *fd)
{
    int got = -1;

    if (!call_faulted("eventfd"))
        got = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (got < 0)
        return wi_fail_os(errno, descriptor_remedy(errno), "eventfd");
    return descriptor_take(got, fd);
}

void wi_sys_wake(int fd)
{
    const uint64_t one = 1;

    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

wharf_status wi_sys_bind(int fd, const struct sockaddr *address,
                         socklen_t length)
{
    if (call_faulted("bind") || bind(fd, address, length) != 0)
        return wi_fail_os(errno, NULL, "bind of a Unix socket");
    return WHARF_OK;
}

wharf_status wi_sys_listen(int fd, int backlog)
{
    if (call_faulted("listen") || listen(fd, backlog) != 0)
        return wi_fail_os(errno, NULL, "listen on a Unix socket");
    return WHARF_OK;
}

/* Does errno say "not now"? */
static bool errno_later(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINPROGRESS ||
           errno == EALREADY;
}

wharf_status wi_sys_accept(int fd, int *peer)
{
    int got;

    do {
        got = call_faulted("accept4")
                  ? -1
                  : accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    } while (got < 0 && errno == EINTR);
    /* A peer that gave up before it was accepted leaves nothing to accept. */
    if (got < 0 && (errno_later() || errno == ECONNABORTED))
        return WHARF_ENOTREADY;
    if (got < 0)
        return wi_fail_os(errno, descriptor_remedy(errno),
                          "accept4 on a Unix socket");
    return descriptor_take(got, peer);
}

wharf_status wi_sys_connect(int fd, const struct sockaddr *address,
                            socklen_t length)
{
    int answer;

    do {
        answer = call_faulted("connect") ? -1 : connect(fd, address, length);
    } while (answer != 0 && errno == EINTR);
    if (answer == 0)
        return WHARF_OK;
    /* A full backlog: EAGAIN in the Unix domain, and poll(2) does not tell
     * when it has room. */
    if (errno_later())
        return WHARF_ENOTREADY;
    return wi_fail_os(errno, NULL, "connect of a Unix socket");
}

/* MSG_DONTWAIT in both, so that a socket that somebody else made blocking
 * cannot hold a rank beyond its deadline. */

wharf_status wi_sys_sendmsg(int fd, const struct msghdr *message, size_t *bytes)
{
    ssize_t sent;

    do {
        sent = call_faulted("sendmsg")
                   ? -1
                   : sendmsg(fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        *bytes = (size_t)sent;
        return WHARF_OK;
    }
    if (errno_later())
        return WHARF_ENOTREADY;
    return wi_fail_os(errno, descriptor_remedy(errno),
                      "sendmsg on a Unix socket");
}

wharf_status wi_sys_recvmsg(int fd, struct msghdr *message, size_t *bytes)
{
    ssize_t got;

    do {
        got = call_faulted("recvmsg")
                  ? -1
                  : recvmsg(fd, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got >= 0) {
        *bytes = (size_t)got;
        return WHARF_OK;
    }
    if (errno_later())
        return WHARF_ENOTREADY;
    return wi_fail_os(errno, descriptor_remedy(errno),
                      "recvmsg on a Unix socket");
}

wharf_status wi_sys_poll(int fd, short events, wi_deadline deadline)
{
    struct pollfd one = {.fd = fd, .events = events};
    int ms =
        deadline == WI_NEVER ? -1 : wi_deadline_poll_ms(deadline, WI_LOOK_MS);

    if (poll(&one, 1, ms) < 0 && errno != EINTR)
        return wi_fail_os(errno, NULL, "poll of a Unix socket");
    return WHARF_OK;
}

int wi_sys_errno(void)
{
    const wharf_error *record = wi_error_record();

    return record->source == WHARF_SOURCE_OS ? record->native : 0;
}

bool wi_sys_peer_gone(void)
{
    int errnum = wi_sys_errno();

    return errnum == EPIPE || errnum == ECONNRESET || errnum == ENOTCONN;
}

bool wi_sys_crowded(void)
{
    return wi_sys_errno() == ETOOMANYREFS;
}

void wi_sys_fds_put(struct msghdr *message, wi_sys_room *room, const int *fds,
                    int count)
{
    size_t length = (size_t)count * sizeof *fds;
    struct cmsghdr *head;

    if (count == 0)
        return;
    memset(room->bytes, 0, CMSG_SPACE(length));
    message->msg_control = room->bytes;
    message->msg_controllen = CMSG_SPACE(length);
    head = CMSG_FIRSTHDR(message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(length);
    memcpy(CMSG_DATA(head), fds, length);
}

void wi_sys_fds_expect(struct msghdr *message, wi_sys_room *room, int most)
{
    message->msg_control = room->bytes;
    message->msg_controllen = CMSG_SPACE((size_t)most * sizeof(int));
}

int wi_sys_fds_take(struct msghdr *message, int *fds)
{
    int count = 0;

    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head;
         head = CMSG_NXTHDR(message, head)) {
        size_t length = head->cmsg_len - CMSG_LEN(0);

        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        memcpy(&fds[count], CMSG_DATA(head), length);
        for (size_t i = 0; i < length / sizeof(int); i++)
            wi_sys_adopt(fds[count++]);
    }
    if (!(message->msg_flags & MSG_CTRUNC))
        return count;
    while (count > 0)
        wi_sys_close(&fds[--count]);
    return -1;
}

/* Only a failed flush has an errno; an earlier failed write has lost its own.
 */
wharf_status wi_sys_flush(FILE *file, const char *what)
{
    int errnum = fflush(file) != 0 ? errno : ferror(file) ? EIO : 0;

    if (errnum == 0)
        return WHARF_OK;
    return wi_fail_os(errnum, "check the file's disk and permissions",
                      "%s could not be written", what);
}

wharf_status wi_sys_random(void *bytes, size_t count)
{
    unsigned char *at = bytes;
    ssize_t got;

    while (count > 0) {
        got = call_faulted("getrandom") ? -1 : getrandom(at, count, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return wi_fail_os(errno, NULL, "getrandom of %zu bytes", count);
        at += got;
        count -= (size_t)got;
    }
    return WHARF_OK;
}

/* By trying: what failed may have needed several, and has left no errno. */
const char *wi_sys_descriptors_short(void)
{
    int fds[4], count = 0, errnum;

    while (count < 4 && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    errnum = count < 4 ? errno : 0;
    while (count > 0)
        close(fds[--count]);
    return descriptor_remedy(errnum);
}

void wi_sys_adopt(int fd)
{
    if (fd >= 0)
        wi_stat_add(WI_STAT_live_descriptors, 1);
}

void wi_sys_disown(int fd)
{
    if (fd >= 0)
        wi_stat_add(WI_STAT_live_descriptors, -1);
}

void wi_sys_close(int *fd)
{
    int kept = errno;

    if (!fd || *fd < 0)
        return;
    /* Not repeated after EINTR: on Linux the descriptor is gone all the same,
     * and may be another thread's by now. */
    if (close(*fd) != 0 && errno != EINTR)
        wi_log(WI_LOG_WARN, "close of descriptor %d: %m", *fd);
    wi_stat_add(WI_STAT_live_descriptors, -1);
    *fd = -1;
    errno = kept;
}

/* munmap that stays counted when it fails (vm.max_map_count makes it fail
 * when it would split a mapping): the memory is then still held. */
static void range_unmap(void *pointer, size_t bytes, wi_stat stat,
                        int64_t count)
{
    if (!pointer || bytes == 0)
        return;
    if (munmap(pointer, bytes) != 0) {
        wi_log(WI_LOG_WARN, "munmap of %zu bytes at %p: %m", bytes, pointer);
        return;
    }
    wi_stat_add(stat, -count);
}

void wi_sys_unmap(void *pointer, size_t bytes)
{
    range_unmap(pointer, bytes, WI_STAT_live_host_map_bytes, (int64_t)bytes);
}

void wi_sys_unmap_fixed(void *pointer, size_t bytes)
{
    if (!pointer || bytes == 0)
        return;
    if (mmap(pointer, bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED) {
        wi_log(WI_LOG_WARN, "mmap to clear %zu bytes at %p: %m", bytes,
               pointer);
        return;
    }
    wi_stat_add(WI_STAT_live_host_map_bytes, -(int64_t)bytes);
}

void wi_sys_unreserve(void *pointer, size_t bytes)
{
    range_unmap(pointer, bytes, WI_STAT_live_ranges, 1);
}
