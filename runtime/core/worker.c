/* SPDX-License-Identifier: MIT */
/* The rank's end of a worker: start, lend, messages, stop. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/stat.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/versioned.h"
#include "core/worker.h"

/* Variables by which a launcher tells a process that it is a rank of a job. A
 * worker that had them would join the job, or wait for it for ever. */
static const char *const launcher_variables[] = {
    "OMPI_", "PMIX_", "PMI_",     "ORTE_", "PRTE_", "HYD",
    "MPIR_", "MPI_L", "MPIEXEC_", "PALS_", NULL,
};

/* Guards the lists of all nodes. */
static pthread_mutex_t lists = PTHREAD_MUTEX_INITIALIZER;

wharf_status wi_worker_enter(const char *call, const wharf_worker *worker,
                             bool child)
{
    wi_call_begin(call, -1);
    wharf_status status = wi_handle_check(worker, WI_HANDLE_WORKER, "worker");
    if (status != WHARF_OK)
        return status;
    wi_call_set_rank(worker->node->rank);
    if (child == (worker->child != NULL))
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE, "see worker.h, which calls are for which end",
                   child ? "this is the rank's end of the worker"
                         : "this is the worker's own end");
}

void wi_worker_wake(const wharf_worker *worker)
{
    wi_sys_wake(worker->wake);
}

void wi_tube_drop(wi_tube *tube)
{
    if (!tube)
        return;
    tube->retired = true;
    if (tube->users > 0)
        return;
    wi_sys_close(&tube->fd);
    wi_free(tube);
}

/* ---- Options ------------------------------------------------------------- */

static wharf_status check_ms(const char *name, int value)
{
    if (value >= 0 && value <= 86400000)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "see wharf_worker_options",
                   "options.%s is %d, not in 0 to 86400000", name, value);
}

static wharf_status read_options(const wharf_node *node,
                                 const wharf_worker_options *options,
                                 wharf_worker_options *known)
{
    wharf_worker_options preset = WHARF_WORKER_OPTIONS_INIT;
    wharf_status status = WHARF_OK;
    *known = preset;
    if (options)
        status = wi_versioned_read(known, sizeof *known, options, "options");
    if (status == WHARF_OK &&
        (known->buffer_count < 0 || known->buffer_count > WHARF_MAX_BUFFERS ||
         (known->buffer_count > 0 && !known->buffers)))
        status = wi_fail(WHARF_EARG, "pass the buffers and their number",
                         "options.buffer_count is %d", known->buffer_count);
    if (status == WHARF_OK && (known->read_only < 0 || known->read_only > 1))
        status = wi_fail(WHARF_EARG, "pass 0 or 1", "options.read_only is %d",
                         known->read_only);
    if (status == WHARF_OK &&
        (known->restarts < -1 || known->restarts > 1000000))
        status = wi_fail(WHARF_EARG, "see wharf_worker_options",
                         "options.restarts is %d, not in -1 to 1000000",
                         known->restarts);
    if (status == WHARF_OK &&
        (known->tag < WHARF_SWITCH_UNSET || known->tag > WHARF_SWITCH_OFF))
        status = wi_fail(WHARF_EARG, "use WHARF_SWITCH_...",
                         "options.tag is %d", (int)known->tag);
    const struct {
        const char *name;
        int value;
    } times[] = {
        {"join_ms", known->join_ms},
        {"silence_ms", known->silence_ms},
        {"stop_ms", known->stop_ms},
        {"backoff_ms", known->backoff_ms},
        {"backoff_most_ms", known->backoff_most_ms},
    };
    for (size_t i = 0; i < sizeof times / sizeof *times && status == WHARF_OK;
         i++)
        status = check_ms(times[i].name, times[i].value);
    if (known->join_ms == 0)
        known->join_ms = (int)node->settings.timeout_ms;
    return status;
}

/* ---- Objects ------------------------------------------------------------- */

static void worker_delete(wharf_worker *w)
{
    wi_handle_remove(w);
    wi_lend_free(w);
    wi_tube_drop(w->tube);
    wi_tube_drop(w->fresh);
    wi_sys_close(&w->wake);
    wi_free(w->path);
    for (char **a = w->argv; a && *a; a++)
        wi_free(*a);
    wi_free(w->argv);
    wi_free(w->envp);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    wi_free(w);
}

static wharf_status copy_arguments(wharf_worker *w, const char *const *argv)
{
    size_t count = 0;
    while (argv[count])
        count++;
    w->argv = wi_calloc(count + 1, sizeof *w->argv);
    if (!w->argv)
        return WHARF_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        w->argv[i] = wi_strdup(argv[i]);
        if (!w->argv[i])
            return WHARF_ENOMEM;
    }
    w->envp = wi_spawn_environment(launcher_variables, WI_WORKER_VARIABLE "=1");
    return w->envp ? WHARF_OK : WHARF_ENOMEM;
}

static wharf_status worker_new(wharf_node *node,
                               const wharf_worker_options *options,
                               wharf_worker **out)
{
    wharf_worker *w;
    if (!WI_NEW(w))
        return WHARF_ENOMEM;
    w->node = node;
    w->options = *options;
    w->wake = -1;
    w->report.struct_size = sizeof w->report;
    w->report.last.struct_size = sizeof w->report.last;
    w->report.recover_us = -1;
    w->report.recover_least_us = -1;
    w->report.recover_most_us = -1;
    w->report.last.recover_us = -1;
    pthread_mutex_init(&w->lock, NULL);
    wi_cond_init(&w->changed);
    wharf_status status = wi_handle_add(w, WI_HANDLE_WORKER);
    if (status == WHARF_OK)
        status = wi_sys_eventfd(&w->wake);
    if (status == WHARF_OK)
        *out = w;
    else
        worker_delete(w);
    return status;
}

/* ---- Waiting ------------------------------------------------------------- */

bool wi_worker_wait(wharf_worker *w, wi_deadline deadline)
{
    if (wi_deadline_run_out(deadline))
        return false;
    if (deadline == WI_NEVER)
        return wi_cond_wait(&w->changed, &w->lock, WI_NEVER);
    wi_cond_wait(&w->changed, &w->lock,
                 wi_deadline_in_ms(wi_deadline_poll_ms(deadline, WI_LOOK_MS)));
    return true;
}

wharf_status wi_worker_late(const char *what)
{
    return wi_fail(WHARF_ETIMEDOUT,
                   "allow more time, or set options.silence_ms to have such a "
                   "worker replaced",
                   "the worker %s", what);
}

/* ---- Start --------------------------------------------------------------- */

static wharf_status start_first(wharf_worker *w)
{
    wharf_status status = wi_thread_start(&w->watcher, wi_worker_watch, w,
                                          "a thread that watches a worker");
    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&w->lock);
    while (!w->tried)
        wi_worker_wait(w, WI_NEVER);
    wharf_error why = w->why;
    pthread_mutex_unlock(&w->lock);
    if (why.status == WHARF_OK)
        return WHARF_OK;
    pthread_join(w->watcher, NULL);
    *wi_error_record() = why;
    return why.status;
}

static wharf_status check_count(const wharf_node *node)
{
    int count = 0;
    pthread_mutex_lock(&lists);
    for (const wharf_worker *w = node->workers; w; w = w->next)
        count++;
    pthread_mutex_unlock(&lists);
    if (count < WHARF_MAX_WORKERS)
        return WHARF_OK;
    return wi_fail(WHARF_ELIMIT, "stop one first",
                   "this rank has %d workers; the most is %d", count,
                   WHARF_MAX_WORKERS);
}

static wharf_status start(wharf_node *node, const char *const *argv,
                          const wharf_worker_options *options,
                          wharf_worker **out)
{
    wharf_worker_options known;
    wharf_worker *w = NULL;
    wharf_status status = wi_visit_refuse(node, "workers");
    if (status == WHARF_OK && (!argv || !argv[0] || !out))
        status =
            wi_fail(WHARF_EARG, "pass a program and the address of a variable",
                    "%s is NULL",
                    !argv      ? "argv"
                    : !argv[0] ? "argv[0]"
                               : "worker");
    if (status == WHARF_OK)
        status = read_options(node, options, &known);
    if (status == WHARF_OK)
        status = check_count(node);
    if (status == WHARF_OK)
        status = worker_new(node, &known, &w);
    if (status != WHARF_OK)
        return status;
    status = wi_spawn_find(argv[0], &w->path);
    if (status == WHARF_OK)
        status = copy_arguments(w, argv);
    if (status == WHARF_OK)
        status = wi_lend_first(w);
    if (status == WHARF_OK)
        status = start_first(w);
    if (status != WHARF_OK) {
        wharf_error cause = *wi_error_record();
        worker_delete(w);
        *wi_error_record() = cause;
        return status;
    }
    pthread_mutex_lock(&lists);
    w->next = node->workers;
    node->workers = w;
    pthread_mutex_unlock(&lists);
    *out = w;
    return WHARF_OK;
}

wharf_status wharf_worker_start(wharf_node *node, const char *const *argv,
                                const wharf_worker_options *options,
                                wharf_worker **worker)
{
    wharf_status status = wi_node_local(__func__, node);
    if (status == WHARF_OK)
        status = start(node, argv, options, worker);
    return wi_call_end(status);
}

/* ---- Stop ---------------------------------------------------------------- */

static void unlink_worker(wharf_worker *w)
{
    pthread_mutex_lock(&lists);
    for (wharf_worker **at = &w->node->workers; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    pthread_mutex_unlock(&lists);
}

static void stop(wharf_worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop_asked = true;
    wi_worker_wake(w);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->watcher, NULL);
    unlink_worker(w);
}

static wharf_status read_report(wharf_worker *w, wharf_worker_report *report)
{
    pthread_mutex_lock(&w->lock);
    wharf_worker_report now = w->report;
    pthread_mutex_unlock(&w->lock);
    return wi_versioned_write(report, &now, sizeof now, "report");
}

wharf_status wharf_worker_stop(wharf_worker **worker,
                               wharf_worker_report *report)
{
    wharf_status status =
        wi_worker_enter(__func__, worker ? *worker : NULL, false);
    /* One that cannot be filled is refused while nothing has happened. */
    if (status == WHARF_OK && report)
        status = read_report(*worker, report);
    if (status != WHARF_OK)
        return wi_call_end(status);
    stop(*worker);
    if (report)
        status = read_report(*worker, report);
    worker_delete(*worker);
    *worker = NULL;
    return wi_call_end(status);
}

void wi_worker_stop_all(wharf_node *node)
{
    while (node->workers) {
        wharf_worker *w = node->workers;
        wi_log(WI_LOG_WARN,
               "worker %s was not stopped before its node was closed", w->path);
        stop(w);
        worker_delete(w);
    }
}
