/* SPDX-License-Identifier: MIT */
/*
 * What a rank lends to a worker: a list of offers, each of them sent to every
 * process in turn. Those that are there when a process says hello are its
 * welcome, without which it has not joined; later ones come singly.
 *
 * The watcher sends and never waits for a process to read: it has others'
 * deaths to hear of.
 */
#include "base/error.h"
#include "base/mem.h"
#include "core/worker.h"

/* ---- The list ------------------------------------------------------------ */

static void count_lent(const wi_lent *lent, int change)
{
    for (int i = 0; i < lent->count; i++)
        __atomic_add_fetch(&lent->buffer[i]->lent, change, __ATOMIC_ACQ_REL);
}

static wharf_status lent_new(const wharf_worker *w, int count,
                             wharf_buffer *const *buffers, bool read_only,
                             wi_lent **out)
{
    wi_offer *offer = NULL;
    wharf_status status =
        wi_offer_make(w->node, count, buffers, read_only, &offer);
    if (status != WHARF_OK)
        return status;
    wi_lent *lent =
        wi_calloc(1, sizeof *lent + (size_t)count * sizeof lent->buffer[0]);
    if (!lent) {
        wi_offer_free(offer);
        return WHARF_ENOMEM;
    }
    lent->offer = offer;
    lent->count = count;
    for (int i = 0; i < count; i++)
        lent->buffer[i] = buffers[i];
    *out = lent;
    return WHARF_OK;
}

static void lent_free(wi_lent *lent)
{
    wi_offer_free(lent->offer);
    wi_free(lent);
}

/* Under the lock, once there is a watcher. */
static wharf_status lent_add(wharf_worker *w, wi_lent *lent)
{
    size_t offers = (size_t)w->offers;
    if (offers >= WHARF_MAX_BUFFERS)
        return wi_fail(WHARF_ELIMIT, "lend several buffers at the start",
                       "buffers were lent %d times; the most is %d", w->offers,
                       WHARF_MAX_BUFFERS);
    wi_lent **list =
        wi_grow(w->lent, &w->lent_room, offers, offers + 1, sizeof *list);
    if (!list)
        return WHARF_ENOMEM;
    w->lent = list;
    w->lent[w->offers++] = lent;
    count_lent(lent, 1);
    return WHARF_OK;
}

wharf_status wi_lend_first(wharf_worker *w)
{
    const wharf_worker_options *o = &w->options;
    wi_lent *lent = NULL;
    wharf_status status =
        lent_new(w, o->buffer_count, o->buffers, o->read_only != 0, &lent);
    if (status == WHARF_OK) {
        status = lent_add(w, lent);
        if (status != WHARF_OK)
            lent_free(lent);
    }
    /* The caller's array is not looked at again. */
    w->options.buffers = NULL;
    return status;
}

void wi_lend_free(wharf_worker *w)
{
    for (int i = 0; i < w->offers; i++) {
        count_lent(w->lent[i], -1);
        lent_free(w->lent[i]);
    }
    wi_free(w->lent);
}

/* ---- The watcher
 * -------------------------------------------------------------
 */

bool wi_lend_under_way(const wi_life *life)
{
    return life->noted || life->offers_sent < life->welcome;
}

/* The next offer that the process is to get, NULL: none now. What was promised
 * comes to its end; a process that is to stop gets nothing else. */
static const wi_offer *offer_due(wharf_worker *w, wi_life *life)
{
    const wi_offer *offer = NULL;
    pthread_mutex_lock(&w->lock);
    while (!life->noted && life->offers_sent < w->offers &&
           !w->lent[life->offers_sent]->offer)
        life->offers_sent++;
    bool more = life->joined && !w->stopping && life->offers_sent < w->offers;
    if (more || wi_lend_under_way(life))
        offer = w->lent[life->offers_sent]->offer;
    pthread_mutex_unlock(&w->lock);
    return offer;
}

wharf_status wi_lend_send(wharf_worker *w, wi_life *life)
{
    const wi_offer *offer;
    wharf_status status = WHARF_OK;
    life->blocked = false;
    while (status == WHARF_OK && life->control >= 0 &&
           (offer = offer_due(w, life)) != NULL) {
        bool single = life->offers_sent >= life->welcome;
        if (single && !life->noted)
            status = wi_note_send(life->control, WI_NOTE_LEND,
                                  life->offers_sent + 1, NULL);
        life->noted = single && status == WHARF_OK;
        if (status == WHARF_OK)
            status = wi_offer_send_on(offer, life->control, &life->sending);
        if (status != WHARF_OK)
            break;
        life->offers_sent++;
        life->noted = false;
        life->sending = (wi_sending){0};
    }
    life->blocked = status == WHARF_ENOTREADY;
    return life->blocked ? WHARF_OK : status;
}

wharf_status wi_lend_welcome(wharf_worker *w, wi_life *life)
{
    int number = 0;
    pthread_mutex_lock(&w->lock);
    life->welcome = w->offers;
    for (int i = 0; i < w->offers; i++)
        number += w->lent[i]->offer != NULL;
    pthread_mutex_unlock(&w->lock);
    wharf_status status =
        wi_note_send(life->control, WI_NOTE_WELCOME, number, NULL);
    return status == WHARF_OK ? wi_lend_send(w, life) : status;
}

void wi_lend_mapped(wharf_worker *w, wi_life *life, const wi_note *note)
{
    wi_offer *gone = NULL;
    pthread_mutex_lock(&w->lock);
    if (note->number > life->offers_mapped &&
        note->number <= life->offers_sent) {
        wi_lent *lent = w->lent[note->number - 1];
        life->offers_mapped = note->number;
        if (note->record.status != WHARF_OK && lent->offer) {
            gone = lent->offer;
            lent->offer = NULL;
            lent->why = note->record;
            count_lent(lent, -1);
            lent->count = 0;
        }
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    wi_offer_free(gone);
}

/* ---- The call
 * ----------------------------------------------------------------
 */

/* Under the lock. Waits until the process that was there has mapped offer
 * number `number`, or is no longer there. */
static wharf_status wait_mapped(wharf_worker *w, int number)
{
    wi_deadline deadline = wi_node_deadline(w->node);
    int deaths = w->report.deaths;
    wi_worker_wake(w);
    while (w->report.deaths == deaths && w->now &&
           w->now->offers_mapped < number)
        if (!wi_worker_wait(w, deadline))
            return wi_worker_late("has not mapped the buffer yet");
    const wi_lent *lent = w->lent[number - 1];
    if (lent->offer)
        return WHARF_OK;
    *wi_error_record() = lent->why;
    return lent->why.status;
}

wharf_status wharf_worker_lend(wharf_worker *worker, wharf_buffer *buffer,
                               int read_only)
{
    wi_lent *lent = NULL;
    wharf_status status = wi_worker_enter(__func__, worker, false);
    if (status == WHARF_OK && (read_only < 0 || read_only > 1))
        status =
            wi_fail(WHARF_EARG, "pass 0 or 1", "read_only is %d", read_only);
    if (status == WHARF_OK)
        status = lent_new(worker, 1, &buffer, read_only != 0, &lent);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&worker->lock);
    status = lent_add(worker, lent);
    if (status == WHARF_OK)
        status = wait_mapped(worker, worker->offers);
    else
        lent_free(lent);
    pthread_mutex_unlock(&worker->lock);
    return wi_call_end(status);
}
