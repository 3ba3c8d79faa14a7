/* SPDX-License-Identifier: MIT */
/*
 * Numbers near the end of their 32 bits: signals go on across the wrap, by
 * every mechanism that counts on the host. Sees the internals, to start there.
 */
#include "core/exchange.h"
#include "core/signal.h"
#include "t_group.h"

#include <mpi.h>

enum { BYTES = 512, ROUNDS = 60 };

static void data_round(wharf_node *node, wharf_buffer *data, wharf_buffer *own,
                       wharf_barrier *barrier, wharf_stream stream, int round)
{
    unsigned char value = (unsigned char)(round + 1);
    int left = (t_me + t_ranks - 1) % t_ranks;

    t_stream_fill(node, stream, t_segment(data, t_me, NULL), value, BYTES);
    T_OK(wharf_barrier_enter(barrier, stream));
    t_stream_copy(node, stream, t_segment(own, t_me, NULL),
                  t_segment(data, left, NULL), BYTES);
    T_OK(wharf_barrier_enter(barrier, stream));
    t_stream_sync(node, stream);
    T_EQ_INT(-1, t_dev_check_value(t_place(node, own, t_me),
                                   t_segment(own, t_me, NULL), BYTES, value));
}

static void barrier_wraps(void)
{
    wharf_node *node = t_open();
    wharf_buffer *data = t_attach(node, BYTES, 0);
    wharf_buffer *own = t_attach(node, BYTES, 0);
    wharf_stream stream = t_stream_create(node);
    wharf_barrier *barrier = NULL;

    wi_signal_first_epoch = UINT32_MAX - 2 * ROUNDS / 2;
    T_OK(wharf_barrier_create(node, 0, NULL, NULL, &barrier));
    for (int i = 0; i < ROUNDS; i++)
        data_round(node, data, own, barrier, stream, i);
    t_barrier();
    T_OK(wharf_barrier_destroy(&barrier));
    wi_signal_first_epoch = 0;
    t_stream_destroy(node, stream);
    t_detach(own);
    t_detach(data);
    t_close(node);
    t_live_check(NULL);
}

/* Records ahead of the waits, and waits ahead of the records. */
static void notify_wraps(void)
{
    wharf_node *node = t_open();
    wharf_stream stream = t_stream_create(node);
    wharf_notify *notify = NULL;

    wi_signal_first_epoch = UINT32_MAX - ROUNDS / 2;
    T_OK(wharf_notify_create(node, 0, NULL, &notify));
    for (int part = 0; part < 4; part++) {
        bool records_first = part % 2 == 0;

        if (t_me != 0 && records_first)
            for (int i = 0; i < ROUNDS / 4; i++)
                T_OK(wharf_notify_record(notify, stream));
        if (records_first || t_mode_get() == T_HOST) {
            t_stream_sync(node, stream);
            t_barrier();
        }
        if (t_me != 0 && !records_first)
            for (int i = 0; i < ROUNDS / 4; i++)
                T_OK(wharf_notify_record(notify, stream));
        for (int from = 1; t_me == 0 && from < t_ranks; from++)
            for (int i = 0; i < ROUNDS / 4; i++) {
                if (i % 3 == 0) {
                    t_stream_sync(node, stream);
                    T_OK(wharf_notify_wait_host(notify, from, 0));
                } else {
                    T_OK(wharf_notify_wait(notify, from, stream, 0));
                }
            }
    }
    t_stream_sync(node, stream);
    if (t_me == 0)
        T_STATUS(WHARF_ETIMEDOUT, wharf_notify_wait_host(notify, 1, 5));
    t_barrier();
    T_OK(wharf_notify_destroy(&notify));
    wi_signal_first_epoch = 0;
    t_stream_destroy(node, stream);
    t_close(node);
    t_live_check(NULL);
}

/* Events between ranks of one GPU have numbers of 32 bits below their public
 * ones. */
static void event_wraps(void)
{
    wharf_node *node;
    wharf_buffer *data, *own;
    wharf_stream stream;
    wharf_event *event = NULL;
    uint64_t number = 0;

    wi_signal_first_epoch = UINT32_MAX - ROUNDS / 2;
    node = t_open();
    data = t_attach(node, BYTES, 0);
    own = t_attach(node, BYTES, 0);
    stream = t_stream_create(node);
    T_OK(wharf_event_create(node, 0, &event));
    for (int i = 1; i <= ROUNDS; i++) {
        if (t_me == 0) {
            t_stream_fill(node, stream, t_segment(data, 0, NULL),
                          (unsigned char)i, BYTES);
            T_OK(wharf_event_record(event, stream, &number));
            T_EQ_INT(i, (long long)number);
        } else {
            T_OK(wharf_event_wait(event, (uint64_t)i, stream));
        }
        t_stream_copy(node, stream, t_segment(own, t_me, NULL),
                      t_segment(data, 0, NULL), BYTES);
        t_stream_sync(node, stream);
        T_EQ_INT(-1, t_dev_check_value(t_place(node, own, t_me),
                                       t_segment(own, t_me, NULL), BYTES,
                                       (unsigned char)i));
        T_OK(wharf_event_query(event, (uint64_t)i));
        t_barrier();
    }
    T_OK(wharf_event_destroy(&event));
    wi_signal_first_epoch = 0;
    t_stream_destroy(node, stream);
    t_detach(own);
    t_detach(data);
    t_close(node);
    t_live_check(NULL);
}

/* As if so many rounds had been made; no stream has work left. */
static void jump(wharf_exchange *x, uint32_t round)
{
    const wharf_node *node = x->node;
    uint32_t value = wi_signal_first_epoch + round;

    t_barrier();
    for (int p = 0; p < x->peers; p++) {
        const wi_exchange_peer *peer = &x->peer[p];

        if (t_mode_get() != T_HOST && peer->from.counts)
            continue;
        T_OK(node->device->ops->write(
            node->device, wi_exchange_arrival(x, t_me, peer->node_rank), &value,
            sizeof value));
        T_OK(node->device->ops->write(
            node->device, wi_exchange_readiness(x, t_me, peer->node_rank),
            &value, sizeof value));
    }
    x->round = round;
    t_barrier();
}

/* Rounds of three sets, which 32 bits do not hold a multiple of. */
static void exchange_wraps(void)
{
    enum { SETS = 3, BEFORE = 6, ALL = 18 };
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    wharf_exchange_box out[SETS], in[SETS];
    int left = (t_me + t_ranks - 1) % t_ranks;
    wharf_exchange_transfer ring[] = {{(t_me + 1) % t_ranks, 0, 1, out, NULL},
                                      {left, 1, 0, NULL, in}};
    wharf_node *node = t_open();
    wharf_buffer *data = t_attach(node, 2 * SETS * BYTES, 0);
    wharf_stream stream = t_stream_create(node);
    char *memory = t_segment(data, t_me, NULL);
    wharf_exchange *x = NULL;

    for (size_t s = 0; s < SETS; s++) {
        out[s] = (wharf_exchange_box){data, s * BYTES, {BYTES, 1, 1}, {0, 0}};
        in[s] = out[s];
        in[s].offset += SETS * BYTES;
    }
    options.sets = SETS;
    wi_signal_first_epoch = UINT32_MAX - BEFORE / 2;
    T_OK(wharf_exchange_create(node, MPI_COMM_WORLD, 2, ring, &options, &x));
    for (int i = 0; i < ALL; i++) {
        char *from = memory + i % SETS * BYTES;

        if (i == BEFORE)
            jump(x, UINT32_MAX - 3);
        T_OK(wharf_exchange_plan_get(x, &plan));
        T_EQ_INT(i % SETS, plan.next_set);
        t_stream_fill(node, stream, from, (unsigned char)(16 * i + t_me),
                      BYTES);
        T_OK(wharf_exchange_run(x, stream));
        t_stream_sync(node, stream);
        T_EQ_INT(-1, t_dev_check_value(t_place(node, data, t_me),
                                       from + SETS * BYTES, BYTES,
                                       (unsigned char)(16 * i + left)));
    }
    T_OK(wharf_exchange_destroy(&x));
    wi_signal_first_epoch = 0;
    t_stream_destroy(node, stream);
    t_detach(data);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"barrier_wraps", barrier_wraps, T_ANY},
    {"notify_wraps", notify_wraps, T_ANY},
    {"event_wraps", event_wraps, T_ANY},
    {"exchange_wraps", exchange_wraps, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
