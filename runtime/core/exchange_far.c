/* SPDX-License-Identifier: MIT */
/*
 * What goes to other nodes. Boxes are cut into messages, alike on both sides,
 * which MPI sends (comm/remote.h). On GPUs the stream and MPI meet in words of
 * page-locked memory:
 *
 *   start    stream: begun = round; boxes into the staging memory, batch by
 *            batch, filled = messages so far        -> receives, sends may go
 *   finish   stream: wait for arrived, batch by batch; staging memory into the
 *            boxes; wait for sent                   <- MPI's answers
 *
 * The staging memory holds a whole round, so a start never waits for MPI: if
 * it did, ranks could wait for one another in a circle. It is used again when
 * the stream has passed the finish, which the next `begun` and `filled` say.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/stat.h"
#include "core/exchange_far.h"

/* What a message and a batch of copies hold at least, where messages go
 * through staging memory. */
#define STAGED_BYTES (UINT64_C(1) << 20)

static bool any_far(const wharf_exchange *x)
{
    for (int i = 0; i < x->items; i++)
        for (int s = 0; wi_far_is(&x->item[i]) && s < x->sets; s++)
            if (x->item[i].out[s].width || x->item[i].in[s].width)
                return true;
    return false;
}

/* ---- Staging memory
 * ------------------------------------------------------------- */

static uint64_t message_bytes(const wi_remote_box *box)
{
    return box->width * box->rows * box->planes;
}

/* Device pointers go to MPI as they are where a box has no gaps. */
static bool goes_direct(const wi_exchange_far *far, const wi_remote_box *box)
{
    return far->host || (far->aware && box->rows == 1 && box->planes == 1);
}

/* Bytes of staging memory, each message on a line of its own. */
static uint64_t load_stage(const wi_exchange_far *far, const wi_far_load *l)
{
    uint64_t bytes = 0;
    for (int i = 0; i < l->count; i++)
        if (!goes_direct(far, &l->box[i]))
            bytes += (message_bytes(&l->box[i]) + 255) & ~UINT64_C(255);
    return bytes;
}

/* Messages are sent from, or received in, the staging memory from here on. */
static void load_place(const wi_exchange_far *far, wi_far_load *l, bool sends,
                       char *stage)
{
    for (int i = 0; i < l->count; i++) {
        wi_remote_box *box = &l->box[i];
        uint64_t bytes = message_bytes(box);
        if (goes_direct(far, box))
            continue;
        wi_copy_box *copy = &l->copy[i];
        copy->width = box->width;
        copy->rows = box->rows;
        copy->planes = box->planes;
        uint64_t dense = box->width, dense_plane = box->width * box->rows;
        copy->from = sends ? box->address : stage;
        copy->from_pitch = sends ? box->pitch : dense;
        copy->from_plane = sends ? box->plane : dense_plane;
        copy->to = sends ? stage : box->address;
        copy->to_pitch = sends ? dense : box->pitch;
        copy->to_plane = sends ? dense_plane : box->plane;
        *box = (wi_remote_box){box->peer, stage, bytes, 1, 1, 0, 0};
        stage += (bytes + 255) & ~UINT64_C(255);
    }
}

/* One batch a STAGED_BYTES or so; its copies are one launch, and on the
 * sending side the signal is in it. */
static wharf_status batch_make(const wharf_exchange *x, wi_far_load *l,
                               bool sends, int from, int to)
{
    wi_device *device = x->node->device;
    wi_sync_step filled = {
        .kind = WI_SYNC_WRITE,
        .value = (uint32_t)to,
        .address = &x->far->words[WI_FAR_FILLED * WI_FAR_LINE],
    };
    wi_copy_plan plan = {.box = l->copy + from, .boxes = 0};
    wi_far_batch *b = &l->batch[l->batches++];
    b->end = to;
    /* Copies of direct messages are empty, and are left out. */
    wi_copy_box *boxes = wi_calloc((size_t)(to - from), sizeof *boxes);
    if (!boxes)
        return WHARF_ENOMEM;
    for (int i = from; i < to; i++)
        if (l->copy[i].width)
            boxes[plan.boxes++] = l->copy[i];
    plan.box = boxes;
    if (sends)
        plan.run[WI_COPY_RUN_SIGNALS] = (wi_copy_steps){&filled, 1};
    wharf_status status = WHARF_OK;
    if (sends || plan.boxes)
        status = device->ops->copy->set_make(device, &plan, &b->set);
    wi_free(boxes);
    return status;
}

static wharf_status batches_make(const wharf_exchange *x, wi_far_load *l,
                                 bool sends)
{
    wharf_status status = WHARF_OK;
    l->batch = wi_calloc((size_t)l->count, sizeof *l->batch);
    if (!l->batch)
        return WHARF_ENOMEM;
    for (int from = 0, to; from < l->count && status == WHARF_OK; from = to) {
        uint64_t bytes = 0;
        for (to = from; to < l->count && bytes < STAGED_BYTES; to++)
            bytes += l->copy[to].width * l->copy[to].rows * l->copy[to].planes;
        status = batch_make(x, l, sends, from, to);
    }
    return status;
}

static wharf_status stage_alloc(wharf_exchange *x)
{
    wi_exchange_far *far = x->far;
    wi_device *device = x->node->device;
    for (int s = 0; s < x->sets; s++) {
        uint64_t out = load_stage(far, &far->out[s]);
        uint64_t in = load_stage(far, &far->in[s]);
        far->stage_out = out > far->stage_out ? out : far->stage_out;
        far->stage_in = in > far->stage_in ? in : far->stage_in;
    }
    uint64_t bytes = far->stage_out + far->stage_in;
    if (bytes == 0)
        return WHARF_OK;
    if (far->aware)
        return device->ops->local_alloc(device, bytes, (void **)&far->stage);
    uint32_t *stage;
    wharf_status status =
        device->ops->report_alloc(device, bytes / sizeof *stage, &stage);
    if (status == WHARF_OK)
        far->stage = (char *)stage;
    return status;
}

/* GPUs: everything that lies between the stream and MPI. */
static wharf_status stream_prepare(wharf_exchange *x)
{
    wi_exchange_far *far = x->far;
    wi_device *device = x->node->device;
    far->how =
        device->desc.caps & WI_CAP_MEM_OPS ? WI_SYNC_MEM_OPS : WI_SYNC_KERNEL;
    wharf_status status = device->ops->sync_prepare(device, far->how);
    if (status == WHARF_OK)
        status = device->ops->report_alloc(device, WI_FAR_WORDS * WI_FAR_LINE,
                                           &far->words);
    if (status == WHARF_OK)
        status = stage_alloc(x);
    for (int s = 0; s < x->sets && status == WHARF_OK; s++) {
        load_place(far, &far->out[s], true, far->stage);
        load_place(far, &far->in[s], false, far->stage + far->stage_out);
        status = batches_make(x, &far->out[s], true);
        if (status == WHARF_OK)
            status = batches_make(x, &far->in[s], false);
    }
    return status;
}

/* ---- Life
 * ----------------------------------------------------------------------- */

/* Also what the ranks of a group tell one another before they cut boxes. */
bool wi_exchange_far_direct(const wharf_exchange *x,
                            char reason[WHARF_MAX_REASON + 1])
{
    if (x->node->backend == WHARF_BACKEND_HOST) {
        snprintf(reason, WHARF_MAX_REASON + 1, "host memory");
        return true;
    }
    if (x->node->settings.cuda_aware) {
        bool on = x->node->settings.cuda_aware == 1;
        snprintf(reason, WHARF_MAX_REASON + 1, "WHARF_CUDA_AWARE is %s",
                 on ? "on" : "off");
        return on;
    }
    return wi_remote_cuda_aware(reason);
}

static wharf_status remote_make(wharf_exchange *x)
{
    wi_exchange_far *far = x->far;
    wi_remote_list sends[WHARF_MAX_EXCHANGE_SETS];
    wi_remote_list receives[WHARF_MAX_EXCHANGE_SETS];
    for (int s = 0; s < x->sets; s++) {
        sends[s] = (wi_remote_list){far->out[s].box, far->out[s].count};
        receives[s] = (wi_remote_list){far->in[s].box, far->in[s].count};
    }
    wi_remote_plan plan = {
        .sets = x->sets,
        .sends = sends,
        .receives = receives,
        .filled = far->host ? NULL : &far->words[WI_FAR_FILLED * WI_FAR_LINE],
        .begun = far->host ? NULL : &far->words[WI_FAR_BEGUN * WI_FAR_LINE],
        .sent = &far->words[WI_FAR_SENT * WI_FAR_LINE],
        .arrived = &far->words[WI_FAR_ARRIVED * WI_FAR_LINE],
    };
    return wi_remote_new(x->group, &plan, x->number, &far->remote);
}

wharf_status wi_exchange_far_prepare(wharf_exchange *x)
{
    wi_exchange_far *far;
    if (!any_far(x))
        return WHARF_OK;
    if (!WI_NEW(far))
        return WHARF_ENOMEM;
    x->far = far;
    far->host = x->node->backend == WHARF_BACKEND_HOST;
    far->aware = wi_exchange_far_direct(x, far->aware_reason) && !far->host;
    far->piece = (uint64_t)x->node->settings.exchange_piece;
    if (far->piece == 0)
        far->piece = x->all_direct ? WI_REMOTE_MOST : STAGED_BYTES;
    far->words = far->host ? far->own_words : NULL;
    wharf_status status = wi_far_cut(x);
    if (status == WHARF_OK && !far->host)
        status = stream_prepare(x);
    return status == WHARF_OK ? remote_make(x) : status;
}

static void load_drop(const wharf_exchange *x, wi_far_load *l)
{
    for (int b = 0; b < l->batches; b++)
        if (l->batch[b].set)
            x->node->device->ops->copy->set_free(l->batch[b].set);
    wi_free(l->batch);
    wi_free(l->box);
    wi_free(l->copy);
}

static void memory_drop(const wharf_exchange *x, bool clean)
{
    wi_exchange_far *far = x->far;
    wi_device *device = x->node->device;
    if (far->host)
        return;
    if (!clean) {
        /* A message is under way for good: MPI may still touch its memory. */
        wi_stat_add(WI_STAT_kept_bytes,
                    (int64_t)(far->stage_out + far->stage_in));
        return;
    }
    if (far->words)
        device->ops->report_free(device, far->words);
    if (far->stage && far->aware)
        device->ops->local_free(device, far->stage);
    else if (far->stage)
        device->ops->report_free(device, (uint32_t *)(void *)far->stage);
}

void wi_exchange_far_drop(wharf_exchange *x)
{
    wi_exchange_far *far = x->far;
    if (!far)
        return;
    bool clean = wi_remote_free(far->remote);
    for (int s = 0; s < x->sets; s++) {
        load_drop(x, &far->out[s]);
        load_drop(x, &far->in[s]);
    }
    memory_drop(x, clean);
    wi_free(far);
    x->far = NULL;
}

/* ---- Rounds
 * --------------------------------------------------------------------- */

static wharf_status step(const wharf_exchange *x, wharf_stream stream,
                         uint32_t kind, int word, uint32_t value)
{
    wi_device *device = x->node->device;
    wi_sync_step one = {kind, value, &x->far->words[word * WI_FAR_LINE]};
    return device->ops->sync(device, stream, x->far->how, &one, 1, 0, NULL);
}

static wharf_status launch(const wharf_exchange *x, const wi_far_batch *b,
                           uint32_t flags, wharf_stream stream)
{
    if (!b->set)
        return WHARF_OK;
    return x->node->device->ops->copy->set_launch(b->set, stream, flags,
                                                  x->far->base_out, 0, NULL);
}

static wharf_status fill(wharf_exchange *x, wharf_stream stream)
{
    const wi_far_load *out = &x->far->out[wi_exchange_set(x)];
    wharf_status status =
        step(x, stream, WI_SYNC_WRITE, WI_FAR_BEGUN, (uint32_t)x->round + 1);
    for (int b = 0; b < out->batches && status == WHARF_OK; b++)
        status =
            launch(x, &out->batch[b], WI_COPY_PUT | WI_COPY_SIGNAL, stream);
    return status;
}

static wharf_status empty(wharf_exchange *x, wharf_stream stream)
{
    wi_exchange_far *far = x->far;
    const wi_far_load *out = &far->out[wi_exchange_set(x)];
    const wi_far_load *in = &far->in[wi_exchange_set(x)];
    wharf_status status = WHARF_OK;
    for (int b = 0; b < in->batches && status == WHARF_OK; b++) {
        status = step(x, stream, WI_SYNC_WAIT, WI_FAR_ARRIVED,
                      far->base_in + (uint32_t)in->batch[b].end);
        if (status == WHARF_OK)
            status = launch(x, &in->batch[b], WI_COPY_PUT, stream);
    }
    if (status == WHARF_OK && out->count)
        status = step(x, stream, WI_SYNC_WAIT, WI_FAR_SENT,
                      far->base_out + (uint32_t)out->count);
    return status;
}

wharf_status wi_exchange_far_start(wharf_exchange *x, wharf_stream stream)
{
    wi_exchange_far *far = x->far;
    if (!far)
        return WHARF_OK;
    far->enqueued = false;
    wharf_status status = far->host ? WHARF_OK : fill(x, stream);
    return status == WHARF_OK ? wi_remote_start(far->remote) : status;
}

wharf_status wi_exchange_far_finish(wharf_exchange *x, wharf_stream stream,
                                    wi_deadline deadline)
{
    wi_exchange_far *far = x->far;
    wharf_status status = WHARF_OK;
    bool busy;
    if (!far)
        return WHARF_OK;
    if (!far->host && !far->enqueued) {
        status = empty(x, stream);
        if (status != WHARF_OK)
            return status;
        far->enqueued = true;
    }
    status = far->host || !wi_remote_threaded(far->remote)
                 ? wi_remote_wait(far->remote, deadline)
                 : wi_remote_move(far->remote, &busy);
    if (status != WHARF_OK)
        return status;
    far->base_out += (uint32_t)far->out[wi_exchange_set(x)].count;
    far->base_in += (uint32_t)far->in[wi_exchange_set(x)].count;
    return WHARF_OK;
}

wharf_status wi_exchange_far_move(wharf_exchange *x, bool *busy)
{
    if (!x->far)
        return WHARF_OK;
    return wi_remote_move(x->far->remote, busy);
}

/* MPI's answers in its place. */
void wi_exchange_far_let_go(const wharf_exchange *x)
{
    wi_exchange_far *far = x->far;
    if (!far || far->host)
        return;
    uint32_t most = UINT32_C(2) * WI_FAR_MESSAGES;
    __atomic_store_n(&far->words[WI_FAR_ARRIVED * WI_FAR_LINE],
                     far->base_in + most, __ATOMIC_RELEASE);
    __atomic_store_n(&far->words[WI_FAR_SENT * WI_FAR_LINE],
                     far->base_out + most, __ATOMIC_RELEASE);
}

/* ---- Queries
 * -------------------------------------------------------------------- */

void wi_exchange_far_info(const wharf_exchange *x, wharf_exchange_info *info)
{
    const wi_exchange_far *far = x->far;
    bool direct = far && (far->host || far->aware);
    info->way = direct ? WHARF_EXCHANGE_MPI : WHARF_EXCHANGE_MPI_STAGED;
    snprintf(info->reason, sizeof info->reason, "%.32s; %.60s",
             x->node->settings.exchange_remote ? "WHARF_EXCHANGE_REMOTE"
                                               : "another node",
             !far        ? "nothing to send"
             : far->host ? "host memory"
                         : far->aware_reason);
}

static int far_peers(const wharf_exchange *x)
{
    int peers = 0;
    for (int i = 0; i < x->items; i++) {
        bool known = !wi_far_is(&x->item[i]);
        for (int k = 0; k < i && !known; k++)
            known =
                wi_far_is(&x->item[k]) && x->item[k].peer == x->item[i].peer;
        peers += !known;
    }
    return peers;
}

void wi_exchange_far_plan(const wharf_exchange *x, wharf_exchange_plan *plan)
{
    const wi_exchange_far *far = x->far;
    if (!far) {
        snprintf(plan->reason, sizeof plan->reason,
                 "no neighbour is reached by MPI");
        return;
    }
    bool threaded = wi_remote_threaded(far->remote);
    plan->remote_peers = far_peers(x);
    plan->cuda_aware = far->aware;
    plan->staging_bytes = far->stage_out + far->stage_in;
    plan->progress = threaded ? WHARF_EXCHANGE_PROGRESS_THREAD
                              : WHARF_EXCHANGE_PROGRESS_FINISH;
    snprintf(plan->reason, sizeof plan->reason, "%s",
             threaded ? "MPI_THREAD_MULTIPLE is provided"
                      : "MPI is initialised below MPI_THREAD_MULTIPLE");
}
