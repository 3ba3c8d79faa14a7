/* SPDX-License-Identifier: MIT */
/* One process of a worker, from its start to the last line that it wrote. All
 * of it is the watcher's. */
#include <errno.h>
#include <poll.h>
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

/* ---- Lines --------------------------------------------------------------- */

/* How long the last lines of a dead process wait for a stream that is full. */
#define LAST_MS 500

/* Whether a write would not wait; one that would fail does not. */
static bool takes_more(int to, int ms)
{
    struct pollfd one = {.fd = to, .events = POLLOUT};
    return poll(&one, 1, ms) != 0;
}

/* What is left when the stream, which may be a non-blocking one, takes no more
 * for long is lost. */
static void write_all(int to, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t went = write(to, text, length);
        if (went < 0 && errno == EINTR)
            continue;
        if (went < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) &&
            takes_more(to, LAST_MS))
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
    char line[WI_LINE_TAG + WI_LINE_TEXT];
    int tag = snprintf(line, WI_LINE_TAG - 1, "[worker of rank %d, pid %d] ",
                       w->node->rank, life->pid);
    memcpy(line + tag, text, length);
    line[(size_t)tag + length] = '\n';
    write_all(to, line, (size_t)tag + length + 1);
}

/* Passes the whole lines on; what is longer than the room goes in pieces.
 * False: the rank's stream is full, and the rest is still here. */
static bool put_lines(const wharf_worker *w, const wi_life *life,
                      wi_lines *lines)
{
    size_t from = 0;
    bool full = false;
    while (from < lines->used) {
        const char *start = lines->text + from;
        const char *stop = memchr(start, '\n', lines->used - from);
        size_t length = stop ? (size_t)(stop - start) : lines->used - from;
        if (!stop && !lines->ended && length < sizeof lines->text)
            break;
        full = !takes_more(lines->to, 0);
        if (full)
            break;
        put_line(w, life, lines->to, start, length);
        from += length + (stop != NULL);
    }
    lines->used -= from;
    memmove(lines->text, lines->text + from, lines->used);
    return !full;
}

/* Reads for as long as there is something, but not for ever: a worker that
 * writes without end must not keep the watcher from its other duties. Nor must
 * a stream of the rank's that nobody reads: the worker waits for it instead. */
#define READS_MOST 64

static void drain_one(const wharf_worker *w, const wi_life *life,
                      wi_lines *lines)
{
    for (int i = 0; lines->fd >= 0; i++) {
        lines->full = !put_lines(w, life, lines);
        if (lines->full || i == READS_MOST)
            return;
        if (lines->ended) {
            wi_sys_close(&lines->fd);
            return;
        }
        ssize_t got = read(lines->fd, lines->text + lines->used,
                           sizeof lines->text - lines->used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got > 0)
            lines->used += (size_t)got;
        else
            lines->ended = true;
    }
}

void wi_life_drain(const wharf_worker *w, wi_life *life)
{
    drain_one(w, life, &life->out);
    drain_one(w, life, &life->err);
}

void wi_life_drain_last(const wharf_worker *w, wi_life *life)
{
    wi_deadline until = wi_deadline_in_ms(LAST_MS);
    wi_lines *both[] = {&life->out, &life->err};
    for (int i = 0; i < 2; i++)
        do
            drain_one(w, life, both[i]);
        while (both[i]->fd >= 0 && both[i]->full &&
               !wi_deadline_passed(until) &&
               takes_more(both[i]->to, wi_deadline_poll_ms(until, LAST_MS)));
    /* A line without an end, of a stream that others still hold open. */
    for (int i = 0; i < 2; i++)
        if (both[i]->fd >= 0 && !both[i]->full) {
            both[i]->ended = true;
            put_lines(w, life, both[i]);
        }
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
    wharf_status status = wi_sys_pipe(pair);
    if (status != WHARF_OK)
        return status;
    life->out.fd = pair[0];
    life->out.to = STDOUT_FILENO;
    far->out = pair[1];
    status = wi_sys_pipe(pair);
    if (status != WHARF_OK)
        return status;
    life->err.fd = pair[0];
    life->err.to = STDERR_FILENO;
    far->err = pair[1];
    return WHARF_OK;
}

static wharf_status connect_all(const wharf_worker *w, wi_life *life,
                                far_ends *far)
{
    int pair[2];
    wharf_status status = wi_sys_socketpair(SOCK_SEQPACKET, pair);
    if (status != WHARF_OK)
        return status;
    life->control = pair[0];
    far->control = pair[1];
    status = wi_sys_socketpair(SOCK_SEQPACKET, pair);
    if (status != WHARF_OK)
        return status;
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
    wharf_status status = life_new(&life);
    if (status != WHARF_OK)
        return status;
    status = connect_all(w, life, &far);
    if (status == WHARF_OK) {
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
        status = wi_spawn_start(&what, &life->pid);
    }
    far_close(&far);
    if (status != WHARF_OK) {
        wi_tube_drop(life->tube);
        wi_life_free(life);
        return status;
    }
    life->pidfd = wi_spawn_pidfd(life->pid);
    wi_sys_adopt(life->pidfd);
    life->join_by_ns = life->started_ns + w->options.join_ms * WI_NS_PER_MS;
    wi_stat_add(WI_STAT_live_workers, 1);
    wi_stat_add(WI_STAT_worker_starts_count, 1);
    *out = life;
    return WHARF_OK;
}
