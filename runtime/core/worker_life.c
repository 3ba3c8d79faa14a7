/* SPDX-License-Identifier: MIT */
/* One process of a worker, from its start to the last line that it wrote. All
 * of it is the watcher's. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/stat.h"
#include "base/sys.h"
#include "core/worker.h"

/* ---- Lines ------------------------------------------------------------------
 */

/* The rank's stream may be a pipe that is full for a while. */
static void write_all(int to, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t went = write(to, text, length);
        if (went < 0 && errno == EINTR)
            continue;
        if (went < 0)
            return;
        text += went;
        length -= (size_t)went;
    }
}

/* One line with its tag in one write, so that lines of several workers do not
 * mix. */
static void put_line(const wharf_worker *w, const wi_life *life, int to,
                     const char *text, size_t length)
{
    char line[sizeof life->out.text + 64];
    int tag = snprintf(line, 64, "[worker of rank %d, pid %d] ", w->node->rank,
                       life->pid);
    memcpy(line + tag, text, length);
    line[(size_t)tag + length] = '\n';
    write_all(to, line, (size_t)tag + length + 1);
}

/* Passes the whole lines on; what is longer than the room goes in pieces. */
static void put_lines(const wharf_worker *w, const wi_life *life,
                      wi_lines *lines, bool end)
{
    size_t from = 0;
    for (;;) {
        const char *start = lines->text + from;
        const char *stop = memchr(start, '\n', lines->used - from);
        if (!stop)
            break;
        put_line(w, life, lines->to, start, (size_t)(stop - start));
        from += (size_t)(stop - start) + 1;
    }
    lines->used -= from;
    memmove(lines->text, lines->text + from, lines->used);
    if (lines->used == sizeof lines->text || (end && lines->used > 0)) {
        put_line(w, life, lines->to, lines->text, lines->used);
        lines->used = 0;
    }
}

/* Reads for as long as there is something, but not for ever: a worker that
 * writes without end must not keep the watcher from its other duties. */
#define READS_MOST 64

static void drain_one(const wharf_worker *w, const wi_life *life,
                      wi_lines *lines)
{
    for (int i = 0; i < READS_MOST && lines->fd >= 0; i++) {
        ssize_t got = read(lines->fd, lines->text + lines->used,
                           sizeof lines->text - lines->used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got <= 0) {
            put_lines(w, life, lines, true);
            wi_sys_close(&lines->fd);
            return;
        }
        lines->used += (size_t)got;
        put_lines(w, life, lines, false);
    }
}

bool wi_life_drain(const wharf_worker *w, wi_life *life)
{
    drain_one(w, life, &life->out);
    drain_one(w, life, &life->err);
    return life->out.fd >= 0 || life->err.fd >= 0;
}

/* ---- Start and end
 * ----------------------------------------------------------- */

/* The worker's ends, closed here once it has them. */
typedef struct far_ends {
    int control, data, out, err;
} far_ends;

static void far_close(far_ends *far)
{
    wi_sys_close(&far->control);
    wi_sys_close(&far->data);
    wi_sys_close(&far->out);
    wi_sys_close(&far->err);
}

static wharf_status connect_streams(wi_life *life, far_ends *far)
{
    int pair[2];
    wharf_status st = wi_sys_pipe(pair);
    if (st != WHARF_OK)
        return st;
    life->out.fd = pair[0];
    life->out.to = STDOUT_FILENO;
    far->out = pair[1];
    st = wi_sys_pipe(pair);
    if (st != WHARF_OK)
        return st;
    life->err.fd = pair[0];
    life->err.to = STDERR_FILENO;
    far->err = pair[1];
    return WHARF_OK;
}

static wharf_status connect_all(const wharf_worker *w, wi_life *life,
                                far_ends *far)
{
    int pair[2];
    wharf_status st = wi_sys_socketpair(SOCK_SEQPACKET, pair);
    if (st != WHARF_OK)
        return st;
    life->control = pair[0];
    far->control = pair[1];
    st = wi_sys_socketpair(SOCK_SEQPACKET, pair);
    if (st != WHARF_OK)
        return st;
    life->tube->fd = pair[0];
    far->data = pair[1];
    return w->options.tag == WHARF_SWITCH_OFF ? WHARF_OK
                                              : connect_streams(life, far);
}

void wi_life_free(wi_life *life)
{
    if (!life)
        return;
    wi_sys_close(&life->control);
    wi_sys_close(&life->pidfd);
    wi_sys_close(&life->out.fd);
    wi_sys_close(&life->err.fd);
    wi_free(life);
}

static wharf_status life_new(wi_life **life)
{
    wi_life *made;
    if (!WI_NEW(made))
        return WHARF_ENOMEM;
    made->pidfd = made->control = made->out.fd = made->err.fd = -1;
    if (!WI_NEW(made->tube)) {
        wi_free(made);
        return WHARF_ENOMEM;
    }
    made->tube->fd = -1;
    *life = made;
    return WHARF_OK;
}

wharf_status wi_life_start(const wharf_worker *w, wi_life **out)
{
    far_ends far = {-1, -1, -1, -1};
    wi_life *life = NULL;
    wharf_status st = life_new(&life);
    if (st != WHARF_OK)
        return st;
    st = connect_all(w, life, &far);
    if (st == WHARF_OK) {
        wi_spawn what = {
            .path = w->path,
            .argv = w->argv,
            .envp = w->envp,
            .output = far.out,
            .error = far.err,
            .fds = {far.control, far.data},
            .count = 2,
        };
        life->started_ns = wi_now_ns();
        st = wi_spawn_start(&what, &life->pid);
    }
    far_close(&far);
    if (st != WHARF_OK) {
        wi_tube_drop(life->tube);
        wi_life_free(life);
        return st;
    }
    life->pidfd = wi_spawn_pidfd(life->pid);
    wi_sys_adopt(life->pidfd);
    life->join_by_ns = life->started_ns + (int64_t)w->options.join_ms * 1000000;
    wi_stat_add(WI_STAT_live_workers, 1);
    wi_stat_add(WI_STAT_worker_starts_count, 1);
    *out = life;
    return WHARF_OK;
}
