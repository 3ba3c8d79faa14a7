/* SPDX-License-Identifier: MIT */
/* What became of a worker: deaths, times, and how they are told. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/stat.h"
#include "base/sys.h"
#include "base/versioned.h"
#include "core/worker.h"

const char *wharf_death_name(wharf_death how)
{
    switch (how) {
    case WHARF_DEATH_NONE:
        return "none";
    case WHARF_DEATH_EXIT:
        return "exit";
    case WHARF_DEATH_SIGNAL:
        return "signal";
    case WHARF_DEATH_FAULT:
        return "fault";
    case WHARF_DEATH_SILENCE:
        return "silence";
    case WHARF_DEATH_ABSENCE:
        return "absence";
    case WHARF_DEATH_START:
        return "start";
    }
    return "unknown";
}

const char *wharf_worker_state_name(wharf_worker_state state)
{
    switch (state) {
    case WHARF_WORKER_STARTING:
        return "starting";
    case WHARF_WORKER_RUNNING:
        return "running";
    case WHARF_WORKER_DEAD:
        return "dead";
    case WHARF_WORKER_GIVEN_UP:
        return "given up";
    case WHARF_WORKER_ENDED:
        return "ended";
    }
    return "unknown";
}

static int *count_of(wharf_worker_report *report, wharf_death how)
{
    switch (how) {
    case WHARF_DEATH_SIGNAL:
        return &report->signals;
    case WHARF_DEATH_FAULT:
        return &report->faults;
    case WHARF_DEATH_SILENCE:
        return &report->silences;
    case WHARF_DEATH_ABSENCE:
        return &report->absences;
    case WHARF_DEATH_START:
        return &report->failed_starts;
    default:
        return &report->exits;
    }
}

void wi_report_death(wharf_worker *w, const wi_life *life, wharf_death how,
                     int code, const char *cause)
{
    int64_t now = wi_now_ns();
    wharf_worker_death death = {
        .struct_size = sizeof death,
        .number = ++w->report.deaths,
        .pid = life ? life->pid : 0,
        .how = how,
        .code = code,
        .joined = life && life->joined,
        .ran_us = life ? (now - life->started_ns) / 1000 : 0,
        .recover_us = -1,
    };
    snprintf(death.cause, sizeof death.cause, "%.159s", cause);
    ++*count_of(&w->report, how);
    w->death[(death.number - 1) % WHARF_MAX_WORKER_DEATHS] = death;
    w->report.last = death;
    /* Of several deaths in a row the first one is when the outage began. */
    if (w->died_ns == 0)
        w->died_ns = now;
    wi_stat_add(WI_STAT_worker_deaths_count, 1);
    wi_log(WI_LOG_WARN, "worker %s, pid %d, died: %s", w->path, death.pid,
           death.cause);
}

void wi_report_joined(wharf_worker *w)
{
    if (w->report.state == WHARF_WORKER_STARTING)
        w->report.state = WHARF_WORKER_RUNNING;
    if (w->died_ns == 0)
        return;
    int64_t us = (wi_now_ns() - w->died_ns) / 1000;
    w->died_ns = 0;
    wharf_worker_report *r = &w->report;
    w->death[(r->deaths - 1) % WHARF_MAX_WORKER_DEATHS].recover_us = us;
    r->last.recover_us = us;
    r->recover_us = us;
    if (r->recover_least_us < 0 || us < r->recover_least_us)
        r->recover_least_us = us;
    if (us > r->recover_most_us)
        r->recover_most_us = us;
}

wharf_status wharf_worker_report_get(wharf_worker *worker,
                                     wharf_worker_report *report)
{
    wharf_status status = wi_worker_enter(__func__, worker, false);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&worker->lock);
    wharf_worker_report found = worker->report;
    pthread_mutex_unlock(&worker->lock);
    found.struct_size = sizeof found;
    return wi_call_end(
        wi_versioned_write(report, &found, sizeof found, "report"));
}

wharf_status wharf_worker_state_get(wharf_worker *worker,
                                    wharf_worker_state *state)
{
    wharf_status status = wi_worker_enter(__func__, worker, false);
    if (status == WHARF_OK && !state)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "state is NULL");
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&worker->lock);
    *state = worker->report.state;
    pthread_mutex_unlock(&worker->lock);
    return wi_call_end(WHARF_OK);
}

wharf_status wharf_worker_death_get(wharf_worker *worker, int number,
                                    wharf_worker_death *death)
{
    wharf_worker_death found = {0};
    wharf_status status = wi_worker_enter(__func__, worker, false);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&worker->lock);
    int deaths = worker->report.deaths;
    if (number >= 1 && number <= deaths)
        found = worker->death[(number - 1) % WHARF_MAX_WORKER_DEATHS];
    pthread_mutex_unlock(&worker->lock);
    if (found.number != number || number < 1)
        return wi_call_end(
            wi_fail(WHARF_EARG, "ask for one of the last deaths",
                    "death %d is asked for; there were %d and the last %d are "
                    "remembered",
                    number, deaths, WHARF_MAX_WORKER_DEATHS));
    return wi_call_end(
        wi_versioned_write(death, &found, sizeof found, "death"));
}

static void print_death(const wharf_worker_death *d, FILE *file)
{
    fprintf(file, "  %3d  pid %d  %s", d->number, d->pid, d->cause);
    if (d->recover_us >= 0)
        fprintf(file, "; next one at work after %.1f ms",
                (double)d->recover_us / 1000);
    fputc('\n', file);
}

wharf_status wharf_worker_print(wharf_worker *worker, FILE *file)
{
    wharf_status status = wi_worker_enter(__func__, worker, false);
    if (status == WHARF_OK && !file)
        status = wi_fail(WHARF_EARG, "pass an open file", "file is NULL");
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&worker->lock);
    wharf_worker_report r = worker->report;
    wharf_worker_death deaths[WHARF_MAX_WORKER_DEATHS];
    memcpy(deaths, worker->death, sizeof deaths);
    pthread_mutex_unlock(&worker->lock);
    fprintf(file,
            "worker %s: %s, %d started, %d died (%d exit, %d signal, %d fault, "
            "%d silence, %d absence, %d start), messages %" PRId64
            " sent, %" PRId64 " received\n",
            worker->path, wharf_worker_state_name(r.state), r.starts, r.deaths,
            r.exits, r.signals, r.faults, r.silences, r.absences,
            r.failed_starts, r.sent, r.received);
    if (r.recover_us >= 0)
        fprintf(file, "  at work again after %.1f to %.1f ms\n",
                (double)r.recover_least_us / 1000,
                (double)r.recover_most_us / 1000);
    int first = r.deaths > WHARF_MAX_WORKER_DEATHS
                    ? r.deaths - WHARF_MAX_WORKER_DEATHS + 1
                    : 1;
    for (int n = first; n <= r.deaths; n++)
        print_death(&deaths[(n - 1) % WHARF_MAX_WORKER_DEATHS], file);
    return wi_call_end(wi_sys_flush(file, "the report of a worker"));
}
