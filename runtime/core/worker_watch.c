/* SPDX-License-Identifier: MIT */
/*
 * The thread of a rank that watches over one worker: starts processes, lets
 * them join, passes their output on, hears them die, and starts the next.
 *
 * It starts every process itself and lives as long as the worker: the kernel
 * kills a process that has not joined when the *thread* that started it ends.
 *
 * A process that reported a ruined context is killed at once, so that it writes
 * nothing more, and its successor starts while the driver still takes the dead
 * one's context down, which may take longer than making a new one.
 */
#define _GNU_SOURCE /* strsignal, sigdescr_np */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/stat.h"
#include "base/sys.h"
#include "base/trace.h"
#include "core/worker.h"

/* Dead processes whose end is still under way; beyond that the next death
 * waits for one of them. */
#define DYING_MOST 8

/* How often to look where no descriptor tells: without a pidfd, or while too
 * many descriptors of this user are under way in sockets. */
#define LOOK_MS 10

static void lock(wharf_worker *w)
{
    pthread_mutex_lock(&w->lock);
}

/* Every change under the lock is shown to who waits for one. */
static void unlock(wharf_worker *w)
{
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* ---- The dying
 * ---------------------------------------------------------------- */

static void bury(wharf_worker *w, wi_life *life)
{
    wi_life_drain_last(w, life);
    wi_life_free(life);
    w->dying_count--;
    wi_stat_add(WI_STAT_live_workers, -1);
}

/* Those that have ended. `wait`: the oldest one, however long it takes. */
static void bury_ended(wharf_worker *w, bool wait)
{
    wi_life **at = &w->dying;
    while (*at) {
        wi_life *life = *at;
        int value;
        wi_life_drain(w, life);
        if (!(wait && !life->next) &&
            wi_spawn_look(life->pid, &value) == WI_SPAWN_RUNS) {
            at = &life->next;
            continue;
        }
        wi_spawn_bury(life->pid);
        *at = life->next;
        bury(w, life);
    }
}

/* ---- Deaths
 * ------------------------------------------------------------------- */

static int64_t backoff_ns(const wharf_worker *w)
{
    const wharf_worker_options *o = &w->options;
    int64_t ms = o->backoff_ms;
    if (w->in_a_row == 0)
        return 0;
    for (int i = 1; i < w->in_a_row && ms < o->backoff_most_ms; i++)
        ms *= 2;
    return (ms < o->backoff_most_ms ? ms : o->backoff_most_ms) * WI_NS_PER_MS;
}

/* Under the lock: what comes after a death. */
static void plan_next(wharf_worker *w)
{
    const wharf_worker_options *o = &w->options;
    int restarts = w->report.deaths;
    w->in_a_row = w->at_work ? 0 : w->in_a_row + 1;
    w->restart_ns = 0;
    w->report.pid = 0;
    if (w->stopping) {
        w->report.state = WHARF_WORKER_ENDED;
    } else if (o->restarts >= 0 && restarts > o->restarts) {
        w->report.state = WHARF_WORKER_GIVEN_UP;
        wi_log(WI_LOG_WARN, "worker %s is given up after %d deaths", w->path,
               w->report.deaths);
    } else {
        w->report.state = WHARF_WORKER_DEAD;
        w->restart_ns = wi_now_ns() + backoff_ns(w);
    }
}

/* Under the lock: no call gets to the process any more, and those that wait are
 * woken. What it has sent can still be read. */
static void cut_off(wharf_worker *w, wi_life *life)
{
    if (life->tube == w->fresh) {
        wi_tube_drop(w->fresh);
        w->fresh = NULL;
    } else if (life->tube) {
        shutdown(life->tube->fd, SHUT_RDWR);
    }
    life->tube = NULL;
    w->pending = false;
}

/* The process that counts is no more: killed with its group, if it is not dead
 * yet, and waited for later. how NONE: it ended as it should. */
static void end_now(wharf_worker *w, wharf_death how, int code,
                    const char *cause)
{
    wi_life *life = w->now;
    if (!life->lost)
        wi_spawn_kill(life->pid);
    wi_life_drain(w, life);
    while (w->dying_count >= DYING_MOST)
        bury_ended(w, true);
    life->next = w->dying;
    w->dying = life;
    w->dying_count++;
    wi_sys_close(&life->control);

    lock(w);
    w->now = NULL;
    if (how != WHARF_DEATH_NONE) {
        wi_report_death(w, life, how, code, cause);
        plan_next(w);
    } else {
        w->report.state = WHARF_WORKER_ENDED;
        w->report.pid = 0;
        w->restart_ns = 0;
    }
    cut_off(w, life);
    unlock(w);
}

/* What a worker said of itself before it ended says more than its exit code. */
static void end_by_exit(wharf_worker *w, int code)
{
    const wi_life *life = w->now;
    char cause[160];
    if (code == 0 && (life->joined || w->stopping)) {
        end_now(w, WHARF_DEATH_NONE, 0, "");
        return;
    }
    if (life->trouble.status != WHARF_OK)
        snprintf(cause, sizeof cause, "exit code %d after %s: %.100s", code,
                 wharf_status_name(life->trouble.status), life->trouble.cause);
    else
        snprintf(cause, sizeof cause, "exit code %d%s", code,
                 life->joined ? "" : " before it had joined");
    end_now(w, WHARF_DEATH_EXIT, code, cause);
}

static void end_by_signal(wharf_worker *w, int number)
{
    char cause[160];
    const char *name = sigdescr_np(number);
    snprintf(cause, sizeof cause, "signal %d (%.60s)%s", number,
             name ? name : "no name",
             w->now->joined ? "" : " before it had joined");
    end_now(w, WHARF_DEATH_SIGNAL, number, cause);
}

static void end_by_fault(wharf_worker *w, const wharf_error *record)
{
    char cause[160];
    snprintf(cause, sizeof cause, "ruined CUDA context, error %d: %.110s",
             record->native, record->cause);
    end_now(w, WHARF_DEATH_FAULT, record->native, cause);
}

static bool take_note(wharf_worker *w);

/* Of a process's notes, those that are read at a time: one that sends without
 * end must not keep the watcher from its other duties. */
#define NOTES_MOST 64

/* False: the process is no longer the one that counts. */
static bool take_notes(wharf_worker *w, const wi_life *life)
{
    for (int i = 0; i < NOTES_MOST; i++)
        if (w->now != life || life->control < 0 || !take_note(w))
            break;
    return w->now == life;
}

static void look_at_now(wharf_worker *w)
{
    int value = 0;
    wi_spawn_end end = wi_spawn_look(w->now->pid, &value);
    /* What it said before it ended counts: that it had joined, or a fault. */
    if (end != WI_SPAWN_RUNS && !take_notes(w, w->now))
        return;
    switch (end) {
    case WI_SPAWN_RUNS:
        return;
    case WI_SPAWN_EXIT:
        end_by_exit(w, value);
        return;
    case WI_SPAWN_SIGNAL:
        end_by_signal(w, value);
        return;
    case WI_SPAWN_UNKNOWN:
        w->now->lost = true;
        end_now(w, WHARF_DEATH_EXIT, -1,
                "ended; this program waits for all children, so its exit code "
                "is not known");
    }
}

/* ---- Joining and lending
 * ------------------------------------------------------- */

/* A process that could not be sent what it needs is of no use; the end of one
 * that is gone is heard of by its process. */
static void after_lending(wharf_worker *w, wharf_status status)
{
    char cause[160];
    if (status == WHARF_OK || status == WHARF_EPEER)
        return;
    snprintf(cause, sizeof cause, "could not be lent buffers: %.120s",
             wi_error_record()->cause);
    end_now(w, WHARF_DEATH_ABSENCE, 0, cause);
}

static void has_joined(wharf_worker *w, const wi_note *note)
{
    wi_life *life = w->now;
    if (note->record.status != WHARF_OK) {
        life->trouble = note->record;
        return;
    }
    lock(w);
    life->joined = true;
    life->offers_mapped = life->welcome;
    w->heard_ns = wi_now_ns();
    wi_report_joined(w);
    unlock(w);
    wi_log(WI_LOG_INFO, "worker %s, pid %d, has joined", w->path, life->pid);
}

/* False: the process is no longer the one that counts, or has no more to say.
 */
static bool take_note(wharf_worker *w)
{
    wi_life *life = w->now;
    wi_note note;
    wharf_status status = wi_note_receive(life->control, &note);
    if (status == WHARF_ENOTREADY)
        return false;
    if (status != WHARF_OK) {
        /* Its end is heard of by its process. */
        wi_sys_close(&life->control);
        return false;
    }
    if (note.kind == WI_NOTE_HELLO && !life->joined && !life->welcome)
        after_lending(w, wi_lend_welcome(w, life));
    else if (note.kind == WI_NOTE_JOINED && !life->joined)
        has_joined(w, &note);
    else if (note.kind == WI_NOTE_LENT && life->joined)
        wi_lend_mapped(w, life, &note);
    else if (note.kind == WI_NOTE_FAULT)
        end_by_fault(w, &note.record);
    else if (note.kind == WI_NOTE_ALIVE) {
        lock(w);
        w->heard_ns = wi_now_ns();
        unlock(w);
    }
    return w->now == life && life->control >= 0;
}

/* ---- Starting
 * ------------------------------------------------------------------ */

/* Under the lock. */
static void take_in(wharf_worker *w, wi_life *life)
{
    w->now = life;
    w->at_work = false;
    w->report.starts++;
    w->report.pid = life->pid;
    w->report.state = WHARF_WORKER_STARTING;
    if (w->told == w->report.deaths && !w->tube)
        w->tube = life->tube;
    else
        w->fresh = life->tube;
}

static void start_next(wharf_worker *w)
{
    wi_life *life = NULL;
    w->restart_ns = 0;
    wharf_status status = wi_life_start(w, &life);
    lock(w);
    if (status == WHARF_OK) {
        take_in(w, life);
    } else if (!w->tried) {
        w->why = *wi_error_record();
    } else {
        wi_report_death(w, NULL, WHARF_DEATH_START, wi_error_record()->native,
                        wi_error_record()->cause);
        plan_next(w);
    }
    w->tried = true;
    unlock(w);
}

/* ---- Time
 * ---------------------------------------------------------------------- */

static void sooner(int64_t *when, int64_t other)
{
    if (other > 0 && (*when == 0 || other < *when))
        *when = other;
}

/* When silence becomes a death; 0: it does not. A message that the rank has not
 * fetched yet is no silence. */
static int64_t silence_ns(wharf_worker *w)
{
    int64_t when = 0;
    lock(w);
    if (w->options.silence_ms > 0 && w->pending && w->now && w->now->joined &&
        w->now->tube) {
        char any;
        if (recv(w->now->tube->fd, &any, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
            w->pending = false;
        else
            when = w->heard_ns + w->options.silence_ms * WI_NS_PER_MS;
    }
    unlock(w);
    return when;
}

/* Acts on what is due; when the next thing is, 0: nothing is. */
static int64_t act_in_time(wharf_worker *w)
{
    char cause[160];
    int64_t when = 0, silent = silence_ns(w);
    if (w->now && !w->now->joined && wi_deadline_run_out(w->now->join_by_ns)) {
        snprintf(cause, sizeof cause, "did not join within %d ms",
                 w->options.join_ms);
        end_now(w, WHARF_DEATH_ABSENCE, 0, cause);
    } else if (w->now && silent > 0 && wi_deadline_run_out(silent)) {
        snprintf(cause, sizeof cause, "no answer for %d ms",
                 w->options.silence_ms);
        end_now(w, WHARF_DEATH_SILENCE, 0, cause);
    } else if (w->now && w->stopping && wi_deadline_run_out(w->stop_by_ns)) {
        snprintf(cause, sizeof cause, "did not end within %d ms of the stop",
                 w->options.stop_ms);
        end_now(w, WHARF_DEATH_SILENCE, 0, cause);
    }
    if (!w->now && w->restart_ns > 0 && wi_deadline_passed(w->restart_ns) &&
        !w->stopping)
        start_next(w);
    if (w->now && !w->now->joined)
        sooner(&when, w->now->join_by_ns);
    if (w->now && w->stopping)
        sooner(&when, w->stop_by_ns);
    if (w->now)
        sooner(&when, silence_ns(w));
    else if (!w->stopping)
        sooner(&when, w->restart_ns);
    return when;
}

/* The order to stop is passed on once, behind what is half sent. */
static void tell_to_stop(wharf_worker *w)
{
    wi_life *life = w->now;
    if (!life || !w->stopping || life->stop_told)
        return;
    shutdown(life->tube->fd, SHUT_WR);
    if (life->control >= 0 && wi_lend_under_way(life))
        return;
    life->blocked =
        life->control >= 0 &&
        wi_note_send(life->control, WI_NOTE_STOP, 0, NULL) == WHARF_ENOTREADY;
    life->stop_told = !life->blocked;
}

/* ---- The loop
 * ------------------------------------------------------------------ */

typedef struct watch_list {
    struct pollfd polls[1 + 4 * (DYING_MOST + 2)];
    nfds_t count;
    bool blind; /* of something that no descriptor tells of */
} watch_list;

static void watch_fd(watch_list *list, int fd, short events)
{
    if (fd >= 0)
        list->polls[list->count++] =
            (struct pollfd){.fd = fd, .events = events};
}

static void watch_lines(watch_list *list, const wi_lines *lines)
{
    if (lines->fd >= 0 && lines->full)
        watch_fd(list, lines->to, POLLOUT);
    else
        watch_fd(list, lines->fd, POLLIN);
}

static void watch_life(watch_list *list, const wi_life *life)
{
    bool room = life->blocked && !life->sending.crowded;
    watch_fd(list, life->pidfd, POLLIN);
    watch_fd(list, life->control, room ? POLLIN | POLLOUT : POLLIN);
    watch_lines(list, &life->out);
    watch_lines(list, &life->err);
    list->blind |= life->pidfd < 0 || (life->blocked && !room);
}

static void sleep_until(const wharf_worker *w, int64_t when)
{
    watch_list list = {.count = 0};
    int ms = -1;
    watch_fd(&list, w->wake, POLLIN);
    if (w->now)
        watch_life(&list, w->now);
    for (const wi_life *life = w->dying; life; life = life->next)
        watch_life(&list, life);
    if (when > 0)
        ms = wi_deadline_poll_ms(when, WI_LOOK_MS);
    if (list.blind && (ms < 0 || ms > LOOK_MS))
        ms = LOOK_MS;
    if (poll(list.polls, list.count, ms) > 0 && list.polls[0].revents) {
        uint64_t count;
        wharf_ignore(read(w->wake, &count, sizeof count) < 0 ? WHARF_EOS
                                                             : WHARF_OK);
    }
}

static void hear_stop(wharf_worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->stopping = w->stop_asked;
    pthread_mutex_unlock(&w->lock);
    if (w->stopping && w->stop_by_ns == 0)
        w->stop_by_ns = wi_now_ns() + w->options.stop_ms * WI_NS_PER_MS;
}

static void attend_now(wharf_worker *w)
{
    wi_life *life = w->now;
    if (take_notes(w, life) && life->welcome && life->control >= 0)
        after_lending(w, wi_lend_send(w, life));
    if (w->now == life)
        wi_life_drain(w, w->now);
    if (w->now == life)
        look_at_now(w);
}

void *wi_worker_watch(void *argument)
{
    wharf_worker *w = argument;
    wi_trace_thread("wharf worker");
    wi_call_begin("wharf_worker_start", w->node->rank);
    start_next(w);
    while (w->why.status == WHARF_OK) {
        hear_stop(w);
        if (w->now)
            attend_now(w);
        tell_to_stop(w);
        bury_ended(w, false);
        int64_t when = act_in_time(w);
        if (w->stopping && !w->now && !w->dying)
            break;
        sleep_until(w, when);
    }
    wi_call_end(WHARF_OK);
    return NULL;
}
