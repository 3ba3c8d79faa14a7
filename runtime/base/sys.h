/* SPDX-License-Identifier: MIT */
/*
 * The system calls that Wharf acquires things with: counted, close-on-exec,
 * with the error record filled (wi_fail_os) on failure, and able to fail on
 * demand in tests. What they acquire is given back by the second group, which
 * never fails.
 */
#ifndef WI_BASE_SYS_H
#define WI_BASE_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "wharf/status.h"

/* Nameless shared memory of `bytes` zeroed bytes. */
wharf_status wi_sys_memfd(const char *label, size_t bytes, int *fd);

/* A second descriptor of the same open file description. */
wharf_status wi_sys_duplicate(int fd, int *again);
/* A second open file description of the same memfd (for locks of one's own). */
wharf_status wi_sys_reopen(int fd, int *again);
/* The same for reading alone: it cannot be mapped for writing. */
wharf_status wi_sys_reopen_reading(int fd, int *again);

/* Shared mapping of a descriptor, `prot` of mmap(2). `fixed` NULL: anywhere;
 * else replaces a part of a range made by wi_sys_reserve. */
wharf_status wi_sys_map(int fd, size_t offset, size_t bytes, int prot,
                        void *fixed, void **pointer);

/* Address range without memory; `wish` NULL or an address that is taken
 * exactly, or WHARF_EUNSUPPORTED if something is there already. */
wharf_status wi_sys_reserve(void *wish, size_t bytes, void **pointer);

/* mprotect(2). */
wharf_status wi_sys_protect(void *pointer, size_t bytes, int prot);

/* Unix socket of a type (SOCK_SEQPACKET, ...), non-blocking. */
wharf_status wi_sys_socket(int type, int *fd);
wharf_status wi_sys_bind(int fd, const struct sockaddr *address,
                         socklen_t length);
wharf_status wi_sys_listen(int fd, int backlog);

/* accept4/connect on non-blocking sockets: WHARF_ENOTREADY (no record) when
 * the call would block. */
wharf_status wi_sys_accept(int fd, int *peer);
wharf_status wi_sys_connect(int fd, const struct sockaddr *address,
                            socklen_t length);

/* sendmsg/recvmsg, MSG_NOSIGNAL and MSG_CMSG_CLOEXEC added; WHARF_ENOTREADY
 * (no record) when the call would block. *bytes is what went over. Received
 * descriptors are counted by wi_sys_adopt. */
wharf_status wi_sys_sendmsg(int fd, const struct msghdr *message,
                            size_t *bytes);
wharf_status wi_sys_recvmsg(int fd, struct msghdr *message, size_t *bytes);

/* Sleeps until the descriptor may be ready for `events` of poll(2), or it is
 * time to look at the deadline (wi_deadline_run_out) again. */
wharf_status wi_sys_poll(int fd, short events, wi_deadline deadline);

/* Of the call above that failed just now: its errno (0: it was no system call
 * that failed), and whether that says that the other end of a socket is gone,
 * or that too many descriptors are on their way: then try again in a ms. */
int wi_sys_errno(void);
bool wi_sys_peer_gone(void);
bool wi_sys_crowded(void);

/* Descriptors that go with a message, the most that the kernel takes. */
#define WI_SYS_FDS 253
typedef union wi_sys_room {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(WI_SYS_FDS * sizeof(int))];
} wi_sys_room;

/* Before a sendmsg; they stay the caller's. */
void wi_sys_fds_put(struct msghdr *message, wi_sys_room *room, const int *fds,
                    int count);
/* Before a recvmsg: room for `most`. */
void wi_sys_fds_expect(struct msghdr *message, wi_sys_room *room, int most);
/* After it: how many came, which are counted and the caller's; -1: some found
 * no room, all are closed. */
int wi_sys_fds_take(struct msghdr *message, int *fds);

/* Two connected Unix sockets of a type, a pipe (reader first), a counter that
 * can be polled; all of them non-blocking but for the pipe's writer, which a
 * program gets that expects nothing of the kind. */
wharf_status wi_sys_socketpair(int type, int fds[2]);
wharf_status wi_sys_pipe(int fds[2]);
wharf_status wi_sys_eventfd(int *fd);
/* Makes such a counter readable. */
void wi_sys_wake(int fd);

/* After printing: WHARF_EOS if not all of `what` went to the file. */
wharf_status wi_sys_flush(FILE *file, const char *what);

/* Random bytes from the kernel. */
wharf_status wi_sys_random(void *bytes, size_t count);

/* Moves a new descriptor, close-on-exec, off 0, 1 and 2, which are free when
 * the program closed its standard streams: whatever prints would write into it.
 * Where it is now; -1, with errno and `fd` closed, if it could not be moved;
 * a negative one stays as it is. All of the above have done so. */
int wi_sys_move_off(int fd);

/* After a failed call of others, such as the driver, that makes descriptors:
 * what to do if this process has none left; NULL if it has. */
const char *wi_sys_descriptors_short(void);

/* Takes a descriptor that came by other ways (recvmsg, CUDA export) into the
 * count of live descriptors. */
void wi_sys_adopt(int fd);

/* The opposite: another owner closes it from here on (CUDA import). */
void wi_sys_disown(int fd);

/* Giving back. -1 and NULL are ignored; *fd becomes -1. */
void wi_sys_close(int *fd);
void wi_sys_unmap(void *pointer, size_t bytes);
/* Puts a part of a reserved range back to no memory. */
void wi_sys_unmap_fixed(void *pointer, size_t bytes);
void wi_sys_unreserve(void *pointer, size_t bytes);

#endif
