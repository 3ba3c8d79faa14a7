/* SPDX-License-Identifier: MIT */
/*
 * Rounds on GPUs. Boxes, signals and waits of a set are one launch, prepared
 * once (device/copy.h). Beside it go what is not for a kernel: signals and
 * waits by memory operations, waits that must not spin on a GPU shared by time
 * slices, and boxes for the copy engine.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/copy_way.h"
#include "core/exchange.h"

/* More signals than any number of queued waits, and not negative. */
#define PLENTY UINT32_C(0x40000000)

#define START_FLAGS                                                            \
    (WI_COPY_READY_SIGNAL | WI_COPY_READY_WAIT | WI_COPY_PUT | WI_COPY_SIGNAL)

/* Steps that the set's launch does not do: signals, then waits. */
typedef struct outside {
    wi_sync_step *step;
    int signals, count;
} outside;

typedef struct launch {
    wi_copy_set *set;
    uint32_t flags;     /* phases that there is something to do in */
    wi_copy_box *large; /* for the copy engine */
    int larges;
} launch;

struct wi_exchange_stream {
    launch launch[WHARF_MAX_EXCHANGE_SETS]; /* one a set */
    wi_sync_how how;                        /* of the steps that follow */
    outside ready, arrived;
    /* The first round's handshake with peers that need none later. */
    launch first;
    outside first_ready;
    bool epochs; /* a pair signals by numbers, which no graph can hold */
};

/* ---- Steps
 * ---------------------------------------------------------------------- */

static bool waits_in_kernel(const wi_signal_way *way)
{
    return way->mechanism == WHARF_MECHANISM_KERNEL;
}

/* Numbers count rounds from the first epoch; a launch adds the round. */
static wi_sync_step signal_of(const wi_signal_way *way, uint32_t *word)
{
    return (wi_sync_step){
        .kind = way->counts ? WI_SYNC_ADD : WI_SYNC_WRITE,
        .value = way->counts ? 1 : wi_signal_first_epoch + 1,
        .address = word,
    };
}

static wi_sync_step wait_of(const wi_signal_way *way, uint32_t *word)
{
    return (wi_sync_step){
        .kind = way->counts ? WI_SYNC_TAKE : WI_SYNC_WAIT,
        .value = way->counts ? 1 : wi_signal_first_epoch + 1,
        .address = word,
    };
}

/* The four runs of a plan's steps. */
typedef struct steps {
    wi_sync_step *run[WI_COPY_RUNS];
    int count[WI_COPY_RUNS];
} steps;

static void add(steps *all, int run, wi_sync_step step)
{
    all->run[run][all->count[run]++] = step;
}

/* All signals come before the first wait. A pair by memory operations signals
 * by them as well: a kernel would have to wait for its time slice. */
static void add_signal(steps *all, int run, outside *out,
                       const wi_signal_way *way, uint32_t *word)
{
    if (way->mechanism != WHARF_MECHANISM_MEM_OPS) {
        add(all, run, signal_of(way, word));
        return;
    }
    out->step[out->count++] = signal_of(way, word);
    out->signals++;
}

static void add_wait(wi_exchange_stream *s, steps *all, int run, outside *out,
                     const wi_signal_way *way, uint32_t *word)
{
    if (waits_in_kernel(way)) {
        add(all, run, wait_of(way, word));
        return;
    }
    s->how = wi_signal_how(way->mechanism);
    out->step[out->count++] = wait_of(way, word);
}

/* Handshakes with those peers for which `first` tells whether they need one in
 * the first round only. */
static void ready_fill(const wharf_exchange *x, wi_exchange_stream *s,
                       bool first, steps *all, outside *out)
{
    int me = x->node->rank;
    for (int p = 0; p < x->peers; p++) {
        const wi_exchange_peer *peer = &x->peer[p];
        if (peer->receives && peer->owes != first)
            add_signal(all, WI_COPY_RUN_READY_SIGNALS, out, &peer->to,
                       wi_exchange_readiness(x, peer->node_rank, me));
    }
    for (int p = 0; p < x->peers; p++) {
        const wi_exchange_peer *peer = &x->peer[p];
        if (peer->sends && peer->waits != first)
            add_wait(s, all, WI_COPY_RUN_READY_WAITS, out, &peer->from,
                     wi_exchange_readiness(x, me, peer->node_rank));
    }
}

static void steps_fill(const wharf_exchange *x, wi_exchange_stream *s,
                       steps *all)
{
    int me = x->node->rank;
    ready_fill(x, s, false, all, &s->ready);
    for (int p = 0; p < x->peers; p++) {
        const wi_exchange_peer *peer = &x->peer[p];
        s->epochs |= !peer->to.counts || !peer->from.counts;
        if (peer->sends)
            add_signal(all, WI_COPY_RUN_SIGNALS, &s->arrived, &peer->to,
                       wi_exchange_arrival(x, peer->node_rank, me));
    }
    for (int p = 0; p < x->peers; p++) {
        const wi_exchange_peer *peer = &x->peer[p];
        if (peer->receives)
            add_wait(s, all, WI_COPY_RUN_WAITS, &s->arrived, &peer->from,
                     wi_exchange_arrival(x, me, peer->node_rank));
    }
}

static wharf_status steps_alloc(const wharf_exchange *x, steps *all)
{
    bool made = true;
    for (int run = 0; run < WI_COPY_RUNS; run++) {
        all->count[run] = 0;
        all->run[run] = wi_calloc((size_t)x->peers, sizeof(wi_sync_step));
        made &= all->run[run] != NULL;
    }
    return made ? WHARF_OK : WHARF_ENOMEM;
}

static void steps_free(steps *all)
{
    for (int run = 0; run < WI_COPY_RUNS; run++)
        wi_free(all->run[run]);
}

static wharf_status outside_alloc(const wharf_exchange *x,
                                  wi_exchange_stream *s)
{
    size_t most = 2 * (size_t)x->peers;
    s->how = WI_SYNC_MEM_OPS;
    s->ready.step = wi_calloc(most, sizeof(wi_sync_step));
    s->arrived.step = wi_calloc(most, sizeof(wi_sync_step));
    s->first_ready.step = wi_calloc(most, sizeof(wi_sync_step));
    return s->ready.step && s->arrived.step && s->first_ready.step
               ? WHARF_OK
               : WHARF_ENOMEM;
}

/* ---- Sets
 * ----------------------------------------------------------------------- */

/* The measured choice of puts with a signal behind them. */
static bool for_engine(const wharf_exchange *x, const wi_copy_box *box)
{
    wi_device *device = x->node->device;
    wi_copy_box simple = wi_copy_box_simple(box);
    wi_copy_memory to, from;
    wi_copy_facts facts;
    char reason[WHARF_MAX_REASON + 1];
    wi_copy_facts_find(x->node, true, &facts);
    if (device->ops->copy->look(device, box->to, &to) != WHARF_OK ||
        device->ops->copy->look(device, box->from, &from) != WHARF_OK)
        return false;
    facts.to = to.place;
    facts.from = from.place;
    return wi_copy_choose(&facts, &simple, reason) == WHARF_COPY_ENGINE;
}

bool wi_exchange_by_engine(const wharf_exchange *x,
                           const wi_exchange_item *item)
{
    for (int s = 0; s < x->sets; s++)
        if (item->out[s].width && for_engine(x, &item->out[s]))
            return true;
    return false;
}

/* Sorts a set's boxes into those of the kernel and those of the engine. */
static int boxes_sort(const wharf_exchange *x, int set, wi_copy_box *small,
                      launch *l)
{
    int count = 0;
    for (int i = 0; i < x->items; i++) {
        const wi_copy_box *box = &x->item[i].out[set];
        if (!box->width || x->item[i].node_rank < 0)
            continue;
        if (for_engine(x, box))
            l->large[l->larges++] = *box;
        else
            small[count++] = *box;
    }
    return count;
}

/* Boxes of a set, -1: none. */
static wharf_status launch_make(const wharf_exchange *x, const steps *all,
                                int set, launch *l)
{
    static const uint32_t flag[WI_COPY_RUNS] = {
        WI_COPY_READY_SIGNAL, WI_COPY_READY_WAIT, WI_COPY_SIGNAL, WI_COPY_WAIT};
    wi_device *device = x->node->device;
    wi_copy_plan plan = {.boxes = 0};
    wi_copy_box *small = wi_calloc((size_t)x->items, sizeof *small);
    l->large = wi_calloc((size_t)x->items, sizeof *l->large);
    wharf_status status = WHARF_ENOMEM;
    if (small && l->large) {
        plan.box = small;
        plan.boxes = set >= 0 ? boxes_sort(x, set, small, l) : 0;
        l->flags = plan.boxes ? WI_COPY_PUT : 0;
        for (int run = 0; run < WI_COPY_RUNS; run++) {
            plan.run[run] = (wi_copy_steps){all->run[run], all->count[run]};
            l->flags |= all->count[run] ? flag[run] : 0;
        }
        status = WHARF_OK;
        if (l->flags)
            status = device->ops->copy->set_make(device, &plan, &l->set);
    }
    wi_free(small);
    return status;
}

static void launch_drop(const wharf_exchange *x, launch *l)
{
    if (l->set)
        x->node->device->ops->copy->set_free(l->set);
    wi_free(l->large);
}

static wharf_status launches_make(wharf_exchange *x, wi_exchange_stream *s)
{
    steps all;
    wharf_status status = steps_alloc(x, &all);
    if (status == WHARF_OK)
        steps_fill(x, s, &all);
    for (int set = 0; set < x->sets && status == WHARF_OK; set++)
        status = launch_make(x, &all, set, &s->launch[set]);
    if (status == WHARF_OK) {
        memset(all.count, 0, sizeof all.count);
        ready_fill(x, s, true, &all, &s->first_ready);
        status = launch_make(x, &all, -1, &s->first);
    }
    steps_free(&all);
    return status;
}

wharf_status wi_exchange_stream_prepare(wharf_exchange *x)
{
    wi_device *device = x->node->device;
    wi_exchange_stream *s;
    if (!WI_NEW(s))
        return WHARF_ENOMEM;
    x->stream = s;
    wharf_status status = outside_alloc(x, s);
    if (status == WHARF_OK)
        status = launches_make(x, s);
    if (status == WHARF_OK &&
        s->ready.count + s->arrived.count + s->first_ready.count)
        status = device->ops->sync_prepare(device, s->how);
    return status;
}

void wi_exchange_stream_drop(wharf_exchange *x)
{
    wi_exchange_stream *s = x->stream;
    if (!s)
        return;
    for (int set = 0; set < x->sets; set++)
        launch_drop(x, &s->launch[set]);
    launch_drop(x, &s->first);
    wi_free(s->ready.step);
    wi_free(s->arrived.step);
    wi_free(s->first_ready.step);
    wi_free(s);
    x->stream = NULL;
}

/* ---- Rounds
 * --------------------------------------------------------------------- */

/* Some phases of the set's launch, if there is anything to do in them. */
static wharf_status do_launch(const wharf_exchange *x, const launch *l,
                              uint32_t flags, wharf_stream stream)
{
    flags &= l->flags;
    if (!flags)
        return WHARF_OK;
    return x->node->device->ops->copy->set_launch(l->set, stream, flags,
                                                  (uint32_t)x->round, 0, NULL);
}

/* Steps `from` to before `to`. Numbers grow with the rounds. */
static wharf_status do_steps(const wharf_exchange *x, outside *out, int from,
                             int to, wharf_stream stream)
{
    wi_device *device = x->node->device;
    if (from == to)
        return WHARF_OK;
    for (int i = from; i < to; i++)
        if (out->step[i].kind == WI_SYNC_WRITE ||
            out->step[i].kind == WI_SYNC_WAIT)
            out->step[i].value = wi_signal_first_epoch + 1 + (uint32_t)x->round;
    return device->ops->sync(device, stream, x->stream->how, out->step + from,
                             to - from, 0, NULL);
}

static wharf_status do_all(const wharf_exchange *x, outside *out,
                           wharf_stream stream)
{
    return do_steps(x, out, 0, out->count, stream);
}

static wharf_status do_large(const wharf_exchange *x, const launch *l,
                             wharf_stream stream)
{
    wi_device *device = x->node->device;
    wharf_status status = WHARF_OK;
    for (int i = 0; i < l->larges && status == WHARF_OK; i++)
        status = device->ops->copy->copy(device, stream, WI_COPY_BY_ENGINE,
                                         &l->large[i]);
    return status;
}

/* Handshakes. Whatever makes others ready is enqueued before anything that
 * waits: a launch does its signals first, and so does a list of steps. */
static wharf_status greet(const wharf_exchange *x, const launch *l,
                          uint32_t *flags, wharf_stream stream)
{
    wi_exchange_stream *s = x->stream;
    outside *first = &s->first_ready;
    bool once = x->round == 0;
    wharf_status status = do_launch(x, l, WI_COPY_READY_SIGNAL, stream);
    *flags &= ~WI_COPY_READY_SIGNAL;
    if (status == WHARF_OK && once)
        status = do_launch(x, &s->first, WI_COPY_READY_SIGNAL, stream);
    if (status == WHARF_OK && once)
        status = do_steps(x, first, 0, first->signals, stream);
    if (status == WHARF_OK)
        status = do_all(x, &s->ready, stream);
    if (status == WHARF_OK && once)
        status = do_steps(x, first, first->signals, first->count, stream);
    if (status == WHARF_OK && once)
        status = do_launch(x, &s->first, WI_COPY_READY_WAIT, stream);
    if (status == WHARF_OK && l->larges) {
        status = do_launch(x, l, WI_COPY_READY_WAIT, stream);
        *flags &= ~WI_COPY_READY_WAIT;
    }
    return status;
}

/* `more`: phases after the start's that the set's launch may do as well. */
static wharf_status put_all(const wharf_exchange *x, uint32_t more,
                            wharf_stream stream)
{
    wi_exchange_stream *s = x->stream;
    const launch *l = &s->launch[wi_exchange_set(x)];
    uint32_t flags = START_FLAGS | more;
    wharf_status status = WHARF_OK;
    if (x->round == 0 || s->ready.count || l->larges)
        status = greet(x, l, &flags, stream);
    if (status == WHARF_OK)
        status = do_large(x, l, stream);
    return status == WHARF_OK ? do_launch(x, l, flags, stream) : status;
}

wharf_status wi_exchange_stream_start(wharf_exchange *x, wharf_stream stream)
{
    outside *arrived = &x->stream->arrived;
    wharf_status status = put_all(x, 0, stream);
    if (status == WHARF_OK)
        status = do_steps(x, arrived, 0, arrived->signals, stream);
    return status;
}

wharf_status wi_exchange_stream_finish(wharf_exchange *x, wharf_stream stream)
{
    wi_exchange_stream *s = x->stream;
    outside *arrived = &s->arrived;
    wharf_status status =
        do_launch(x, &s->launch[wi_exchange_set(x)], WI_COPY_WAIT, stream);
    if (status == WHARF_OK)
        status = do_steps(x, arrived, arrived->signals, arrived->count, stream);
    return status;
}

/* One launch must not wait before the signals that are outside of it. */
wharf_status wi_exchange_stream_run(wharf_exchange *x, wharf_stream stream)
{
    wi_exchange_stream *s = x->stream;
    uint32_t more = s->arrived.signals ? 0 : WI_COPY_WAIT;
    wharf_status status = put_all(x, more, stream);
    if (status == WHARF_OK)
        status = do_all(x, &s->arrived, stream);
    if (status == WHARF_OK && !more)
        status =
            do_launch(x, &s->launch[wi_exchange_set(x)], WI_COPY_WAIT, stream);
    return status;
}

bool wi_exchange_stream_limited(const wharf_exchange *x)
{
    return x->stream && (x->stream->epochs || x->far);
}

wharf_status wi_exchange_stream_capturable(const wharf_exchange *x)
{
    if (x->far)
        return wi_fail(WHARF_EUNSUPPORTED,
                       "capture exchanges within one node only",
                       "the stream is being captured, and the exchange has "
                       "neighbours that are reached by MPI");
    for (int p = 0; x->stream && x->stream->epochs && p < x->peers; p++) {
        const wi_exchange_peer *peer = &x->peer[p];
        if (!peer->to.counts || !peer->from.counts)
            return wi_fail(WHARF_EUNSUPPORTED,
                           "create the exchange with options.capturable on",
                           "the stream is being captured, and signals between "
                           "rank %d and rank %d (%s: %s) cannot stand in a "
                           "graph",
                           x->node->rank, peer->node_rank,
                           wharf_mechanism_name(peer->to.mechanism),
                           peer->to.reason);
    }
    return WHARF_OK;
}

/* ---- A peer that never comes
 * ---------------------------------------------------- */

static void put(const wharf_exchange *x, void *word, const wi_signal_way *way)
{
    wi_device *device = x->node->device;
    uint32_t value =
        way->counts ? PLENTY : wi_signal_first_epoch + 1 + (uint32_t)x->round;
    wharf_ignore(device->ops->write(device, word, &value, sizeof value));
}

void wi_exchange_let_go(const wharf_exchange *x)
{
    int me = x->node->rank;
    for (int p = 0; p < x->peers; p++) {
        const wi_exchange_peer *peer = &x->peer[p];
        if (peer->sends)
            put(x, wi_exchange_readiness(x, me, peer->node_rank), &peer->from);
        if (peer->receives)
            put(x, wi_exchange_arrival(x, me, peer->node_rank), &peer->from);
    }
    wi_exchange_far_let_go(x);
}
