/* SPDX-License-Identifier: MIT */
/* How a member enters a barrier, and what its kernels need to do so. */
#include <string.h>

#include "base/error.h"
#include "base/futex.h"
#include "base/handles.h"
#include "base/mem.h"
#include "core/barrier.h"
#include "core/barrier_plan.h"
#include "core/core.h"
#include "core/signal.h"
#include "wharf/view.h"

/*
 * Words on the host backend. The first member's: how many have arrived in all
 * uses together, and the number of the last use that is over. Each member's:
 * the number of the last use in which it arrived.
 */
#define HOST_ARRIVALS 0
#define HOST_OVER 1
#define HOST_MINE 2
#define HOST_WORDS 3

/* ---- This rank's steps
 * ---------------------------------------------------------- */

static wi_barrier_shape shape_of(const wharf_barrier *barrier, bool marks,
                                 int group[WHARF_MAX_RANKS])
{
    for (int m = 0; m < barrier->members; m++)
        group[m] = barrier->node->gpu_of_rank[barrier->rank[m]];
    return (wi_barrier_shape){
        .members = barrier->members,
        .group = group,
        .two_level = barrier->two_level,
        .marks = marks,
    };
}

int wi_barrier_run_words(const wharf_barrier *barrier, bool marks)
{
    wi_barrier_shape shape = {.members = barrier->members};
    int words = wi_barrier_words(&shape);
    if (barrier->way.mechanism == WHARF_MECHANISM_HOST)
        return HOST_WORDS;
    if (!marks || barrier->way.counts)
        return words;
    shape.marks = true;
    return words + wi_barrier_words(&shape);
}

static uint32_t kind_of(const wharf_barrier *barrier, bool marks, bool waits)
{
    if (barrier->way.counts)
        return waits ? WI_SYNC_TAKE : WI_SYNC_ADD;
    if (!waits)
        return WI_SYNC_WRITE;
    return marks ? WI_SYNC_EXPECT : WI_SYNC_WAIT;
}

static wharf_status steps_make(const wharf_barrier *barrier, bool marks,
                               wi_barrier_steps *out)
{
    int group[WHARF_MAX_RANKS];
    wi_barrier_shape shape = shape_of(barrier, marks, group);
    int base = marks ? wi_barrier_run_words(barrier, false) : 0;
    int count = wi_barrier_plan(&shape, barrier->me, NULL);
    wi_barrier_step *plan = wi_calloc((size_t)count, sizeof *plan);
    out->step = wi_calloc((size_t)count, sizeof *out->step);
    if (!plan || !out->step) {
        wi_free(plan);
        return WHARF_ENOMEM;
    }
    wi_barrier_plan(&shape, barrier->me, plan);
    for (int i = 0; i < count; i++)
        out->step[i] = (wi_sync_step){
            .kind = kind_of(barrier, marks, plan[i].waits),
            .value = 1,
            .address = wi_pad_word(barrier->node, &barrier->run[plan[i].member],
                                   base + plan[i].word),
        };
    out->count = count;
    wi_free(plan);
    return WHARF_OK;
}

static wharf_status words_start(const wharf_barrier *barrier)
{
    const wharf_node *node = barrier->node;
    const wi_pad_run *run = &barrier->run[barrier->me];
    uint32_t first = wi_signal_first_epoch;
    wharf_status status = wi_pad_set(node, run, 0);
    if (status != WHARF_OK || first == 0 || barrier->way.counts)
        return status;
    bool host = barrier->way.mechanism == WHARF_MECHANISM_HOST;
    int words = wi_barrier_run_words(barrier, false);
    for (int w = 0; w < words && status == WHARF_OK; w++) {
        uint32_t value = host && w == HOST_ARRIVALS
                             ? first * (uint32_t)barrier->members
                             : first;
        status = node->device->ops->write(
            node->device, wi_pad_word(node, run, w), &value, sizeof value);
    }
    return status;
}

wharf_status wi_barrier_prepare(wharf_barrier *barrier)
{
    wharf_node *node = barrier->node;
    const wi_device_ops *ops = node->device->ops;
    if (barrier->me < 0)
        return WHARF_OK;
    wharf_status status = words_start(barrier);
    if (status != WHARF_OK || node->backend == WHARF_BACKEND_HOST)
        return status;
    status =
        ops->sync_prepare(node->device, wi_signal_how(barrier->way.mechanism));
    if (status == WHARF_OK)
        status = steps_make(barrier, false, &barrier->plain);
    if (status == WHARF_OK && !barrier->way.counts)
        status = steps_make(barrier, true, &barrier->marks);
    if (status == WHARF_OK && barrier->way.counts)
        status = ops->report_alloc(node->device, 1, &barrier->report);
    return status;
}

void wi_barrier_unprepare(wharf_barrier *barrier)
{
    wi_device *device = barrier->node->device;
    wi_free(barrier->plain.step);
    wi_free(barrier->marks.step);
    if (barrier->report)
        device->ops->report_free(device, barrier->report);
    if (barrier->table)
        device->ops->local_free(device, barrier->table);
    barrier->plain.step = NULL;
    barrier->marks.step = NULL;
    barrier->report = NULL;
    barrier->table = NULL;
}

/* ---- Entering on the host
 * ------------------------------------------------------- */

typedef struct arrival {
    const uint32_t *over;
    uint32_t epoch;
} arrival;

static bool is_over(void *argument)
{
    const arrival *a = argument;
    uint32_t over = __atomic_load_n(a->over, __ATOMIC_ACQUIRE);
    return (int32_t)(over - a->epoch) >= 0;
}

/* The first member that has not arrived in a use, or -1. */
static int find_missing(const wharf_barrier *barrier, uint32_t epoch)
{
    for (int m = 0; m < barrier->members; m++) {
        uint32_t *mine =
            wi_pad_word(barrier->node, &barrier->run[m], HOST_MINE);
        uint32_t last = __atomic_load_n(mine, __ATOMIC_ACQUIRE);
        if ((int32_t)(last - epoch) < 0)
            return barrier->rank[m];
    }
    return -1;
}

static wharf_status overdue(const wharf_barrier *barrier, uint32_t epoch,
                            uint32_t arrivals)
{
    wi_fail(WHARF_ETIMEDOUT, "let every member enter, then enter again",
            "rank %d did not come to the barrier, %u of %d members did",
            find_missing(barrier, epoch),
            arrivals - (epoch - 1) * (uint32_t)barrier->members,
            barrier->members);
    return wi_error_about(barrier->node->rank);
}

/*
 * The last to arrive says that the use is over. Who gave up waiting has arrived
 * all the same, so entering again goes on with the same use.
 */
static wharf_status enter_on_host(wharf_barrier *barrier)
{
    const wharf_node *node = barrier->node;
    uint32_t *arrivals = wi_pad_word(node, &barrier->run[0], HOST_ARRIVALS);
    uint32_t *over = wi_pad_word(node, &barrier->run[0], HOST_OVER);
    arrival a = {.over = over, .epoch = barrier->epoch + 1};
    if (!barrier->arrived) {
        __atomic_store_n(
            wi_pad_word(node, &barrier->run[barrier->me], HOST_MINE), a.epoch,
            __ATOMIC_RELEASE);
        uint32_t came = __atomic_add_fetch(arrivals, 1, __ATOMIC_ACQ_REL);
        barrier->arrived = true;
        if (came == a.epoch * (uint32_t)barrier->members) {
            __atomic_store_n(over, a.epoch, __ATOMIC_RELEASE);
            wi_futex_wake(over);
        }
    }
    wharf_status status =
        wi_comm_wait(node->comm, -1, over, is_over, &a, wi_node_deadline(node));
    if (status == WHARF_OK) {
        barrier->arrived = false;
        barrier->epoch++;
    }
    if (status == WHARF_ETIMEDOUT)
        status = overdue(barrier, a.epoch,
                         __atomic_load_n(arrivals, __ATOMIC_RELAXED));
    return status;
}

/* ---- Entering on a stream
 * ------------------------------------------------------- */

static bool is_wait(const wi_sync_step *step)
{
    return step->kind != WI_SYNC_ADD && step->kind != WI_SYNC_WRITE;
}

/* A kernel does all its signals before its waits: one call up to where a
 * signal comes after a wait. Memory operations keep any order. */
static wharf_status steps_issue(const wharf_barrier *barrier,
                                const wi_barrier_steps *steps,
                                wharf_stream stream)
{
    wi_device *device = barrier->node->device;
    wi_sync_how how = wi_signal_how(barrier->way.mechanism);
    for (int from = 0, to; from < steps->count; from = to) {
        for (to = from + 1; to < steps->count; to++)
            if (how != WI_SYNC_MEM_OPS && is_wait(&steps->step[to - 1]) &&
                !is_wait(&steps->step[to]))
                break;
        wharf_status status = device->ops->sync(
            device, stream, how, &steps->step[from], to - from, 0, NULL);
        if (status != WHARF_OK)
            return status;
    }
    return WHARF_OK;
}

static wharf_status enter_on_stream(wharf_barrier *barrier, wharf_stream stream)
{
    wi_device *device = barrier->node->device;
    bool capturing = false;
    if (barrier->way.counts)
        return steps_issue(barrier, &barrier->plain, stream);
    wharf_status status = device->ops->capturing(device, stream, &capturing);
    if (status != WHARF_OK)
        return status;
    if (capturing)
        return steps_issue(barrier, &barrier->marks, stream);
    for (int i = 0; i < barrier->plain.count; i++)
        barrier->plain.step[i].value = barrier->epoch + 1;
    status = steps_issue(barrier, &barrier->plain, stream);
    if (status == WHARF_OK)
        barrier->epoch++;
    return status;
}

/* Begins a call of a member. */
static wharf_status enter(const char *call, const wharf_barrier *barrier)
{
    wi_call_begin(call, -1);
    wharf_status status =
        wi_handle_check(barrier, WI_HANDLE_BARRIER, "barrier");
    if (status != WHARF_OK)
        return status;
    wi_call_set_rank(barrier->node->rank);
    if (barrier->me < 0)
        status =
            wi_fail(WHARF_ESTATE, "call it on the barrier's members only",
                    "rank %d is no member of the barrier", barrier->node->rank);
    return status;
}

wharf_status wharf_barrier_enter(wharf_barrier *barrier, wharf_stream stream)
{
    wharf_status status = enter(__func__, barrier);
    if (status != WHARF_OK)
        return wi_call_end(status);
    wi_device *device = barrier->node->device;
    status = device->ops->check_stream(device, stream);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&barrier->lock);
    status = barrier->way.mechanism == WHARF_MECHANISM_HOST
                 ? enter_on_host(barrier)
                 : enter_on_stream(barrier, stream);
    pthread_mutex_unlock(&barrier->lock);
    return wi_call_end(status);
}

/* ---- Queries and views
 * ---------------------------------------------------------- */

wharf_status wharf_barrier_mechanism(const wharf_barrier *barrier,
                                     wharf_mechanism *mechanism)
{
    wi_call_begin(__func__, -1);
    wharf_status status =
        wi_handle_check(barrier, WI_HANDLE_BARRIER, "barrier");
    if (status == WHARF_OK && !mechanism)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "mechanism is NULL");
    if (status == WHARF_OK)
        *mechanism = barrier->way.mechanism;
    return wi_call_end(status);
}

wharf_status wharf_barrier_check(wharf_barrier *barrier)
{
    wharf_status status = enter(__func__, barrier);
    if (status != WHARF_OK || !barrier->report)
        return wi_call_end(status);
    uint32_t late = __atomic_exchange_n(barrier->report, 0, __ATOMIC_ACQUIRE);
    if (late > 0 && late <= (uint32_t)barrier->members) {
        wi_fail(WHARF_ETIMEDOUT, "destroy the barrier and make a new one",
                "rank %d did not come to the barrier in time",
                barrier->rank[late - 1]);
        status = wi_error_about(barrier->node->rank);
    }
    return wi_call_end(status);
}

/* Where each member's words are, in the GPU's memory. */
static wharf_status table_make(wharf_barrier *barrier)
{
    void *words[WHARF_MAX_RANKS];
    for (int m = 0; m < barrier->members; m++)
        words[m] = wi_pad_word(barrier->node, &barrier->run[m], 0);
    return wi_table_make(barrier->node->device, words, barrier->members,
                         &barrier->table);
}

static wharf_status check_view(const wharf_barrier *barrier,
                               const wharf_barrier_view *view)
{
    if (!view)
        return wi_fail(WHARF_EARG, "pass the address of a variable",
                       "view is NULL");
    if (barrier->way.mechanism == WHARF_MECHANISM_HOST)
        return wi_fail(WHARF_EUNSUPPORTED, "use the host's calls",
                       "the host backend has no kernels");
    if (!barrier->way.counts)
        return wi_fail(WHARF_EUNSUPPORTED,
                       "create the barrier with options.mechanism kernel",
                       "kernels cannot meet by %s: %s",
                       wharf_mechanism_name(barrier->way.mechanism),
                       barrier->way.reason);
    return WHARF_OK;
}

wharf_status wharf_barrier_view_get(wharf_barrier *barrier,
                                    wharf_barrier_view *view)
{
    wharf_status status = enter(__func__, barrier);
    if (status == WHARF_OK)
        status = check_view(barrier, view);
    if (status != WHARF_OK)
        return wi_call_end(status);
    const wharf_node *node = barrier->node;
    pthread_mutex_lock(&barrier->lock);
    if (!barrier->table)
        status = table_make(barrier);
    if (status == WHARF_OK)
        *view = (wharf_barrier_view){
            .words = barrier->table,
            .report = barrier->report,
            .timeout_ns = (uint64_t)(node->settings.timeout_ms * WI_NS_PER_MS),
            .stride = WI_PAD_STRIDE / sizeof(uint32_t),
            .members = barrier->members,
            .member = barrier->me,
        };
    pthread_mutex_unlock(&barrier->lock);
    return wi_call_end(status);
}
