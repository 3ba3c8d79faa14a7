/* SPDX-License-Identifier: MIT */
/*
 * WHARF_TRACE=nvtx: every call is a range of its name, what it waits for lies
 * inside, and all ranges are closed, of failing calls too. The library of
 * support/t_nvtx.c stands in for the profiler.
 */
#include "t_group.h"
#include "t_nvtx.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static t_nvtx_list *list;

/* The recorder, if NVTX has loaded it or would. */
static void recorder_find(void)
{
    void *library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW);

    if (library == NULL)
        T_FAIL("the recorder: %s", dlerror());
    *(void **)&list = dlsym(library, "t_nvtx_events");
    T_CHECK(list != NULL);
}

static int events_count(void)
{
    int count;

    list(&count);
    return count;
}

/* Since `from`, this thread has opened and closed one range, `name`, and others
 * in it; how many of them are called `inner`. */
static int check_range(int from, const char *name, const char *inner)
{
    int me = (int)syscall(SYS_gettid);
    int depth = 0, outermost = 0, found = 0, count;
    const t_nvtx_event *all = list(&count);

    for (int i = from; i < count; i++) {
        if (all[i].thread != me || all[i].kind == T_NVTX_THREAD)
            continue;
        if (all[i].kind == T_NVTX_POP) {
            depth--;
            T_CHECK(depth >= 0);
        } else if (all[i].kind == T_NVTX_PUSH) {
            if (depth == 0) {
                T_EQ_STR(name, all[i].name);
                outermost++;
            } else if (inner != NULL && strcmp(inner, all[i].name) == 0) {
                found++;
            }
            depth++;
        }
    }
    T_EQ_INT(0, depth);
    T_EQ_INT(1, outermost);
    return found;
}

/* Runs the call, and checks its range. */
#define TRACED(name, inner, status, ...)                                       \
    (from = events_count(), T_STATUS(status, __VA_ARGS__),                     \
     check_range(from, name, inner))

static void opened_and_attached(void)
{
    wharf_node *node = NULL;
    wharf_buffer *buffer = NULL;
    int from, domains = 0, count;
    const t_nvtx_event *all;

    T_CHECK(TRACED("wharf_node_open", "agree", WHARF_OK,
                   wharf_node_open(MPI_COMM_WORLD, NULL, &node)) > 0);
    all = list(&count);
    for (int i = 0; i < count; i++) {
        if (all[i].kind == T_NVTX_DOMAIN && strcmp(all[i].name, "wharf") == 0)
            domains++;
    }
    T_EQ_INT(1, domains);
    T_CHECK(TRACED("wharf_buffer_attach", "agree", WHARF_OK,
                   wharf_buffer_attach(node, 5000, NULL, &buffer)) > 0);
    T_CHECK(check_range(from, "wharf_buffer_attach", "pass handles") > 0);
    T_CHECK(TRACED("wharf_buffer_detach", "agree", WHARF_OK,
                   wharf_buffer_detach(&buffer)) > 0);
    T_CHECK(TRACED("wharf_node_close", "agree", WHARF_OK,
                   wharf_node_close(&node)) > 0);
}

static void signals_and_copies(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 4096, 0);
    void *mine = t_segment(buffer, t_me, NULL);
    wharf_event *event = NULL;
    wharf_notify *notify = NULL;
    wharf_barrier *barrier = NULL;
    int from;

    TRACED("wharf_event_create", NULL, WHARF_OK,
           wharf_event_create(node, 0, &event));
    if (t_me == 0)
        TRACED("wharf_event_record", NULL, WHARF_OK,
               wharf_event_record(event, NULL, NULL));
    TRACED("wharf_event_wait", NULL, WHARF_OK,
           wharf_event_wait(event, 1, NULL));
    TRACED("wharf_event_synchronize", NULL, WHARF_OK,
           wharf_event_synchronize(event, 1, 0));
    TRACED("wharf_event_destroy", NULL, WHARF_OK, wharf_event_destroy(&event));
    T_OK(wharf_notify_create(node, 0, NULL, &notify));
    if (t_me == 1)
        TRACED("wharf_notify_record", NULL, WHARF_OK,
               wharf_notify_record(notify, NULL));
    else
        TRACED("wharf_notify_wait_host", NULL, WHARF_OK,
               wharf_notify_wait_host(notify, 1, 0));
    T_OK(wharf_notify_destroy(&notify));
    T_OK(wharf_barrier_create(node, 0, NULL, NULL, &barrier));
    TRACED("wharf_barrier_enter", NULL, WHARF_OK,
           wharf_barrier_enter(barrier, NULL));
    t_stream_sync(node, NULL);
    T_OK(wharf_barrier_destroy(&barrier));
    TRACED("wharf_put", NULL, WHARF_OK,
           wharf_put(buffer, 1 - t_me, (size_t)t_me * 64, mine, 64, NULL));
    t_stream_sync(node, NULL);
    t_detach(buffer);
    t_close(node);
}

/* One slot from rank 0 to rank 1. */
static void rings(void)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;
    wharf_node *node = t_open();
    wharf_ring *ring = NULL;
    wharf_ring_slot slot;
    const void *data = NULL;
    void *room = NULL;
    int from;

    options.slots = 2;
    options.slot_bytes = 64;
    TRACED("wharf_ring_create", "agree", WHARF_OK,
           wharf_ring_create(node, &options, &ring));
    if (t_me == 0) {
        TRACED("wharf_ring_produce_begin", NULL, WHARF_OK,
               wharf_ring_produce_begin(ring, NULL, &room, NULL));
        TRACED("wharf_ring_produce_end", NULL, WHARF_OK,
               wharf_ring_produce_end(ring, 64, NULL));
    } else {
        TRACED("wharf_ring_consume_begin", NULL, WHARF_OK,
               wharf_ring_consume_begin(ring, NULL, &data, &slot));
        TRACED("wharf_ring_consume_end", NULL, WHARF_OK,
               wharf_ring_consume_end(ring, NULL));
    }
    t_stream_sync(node, NULL);
    TRACED("wharf_ring_destroy", "agree", WHARF_OK, wharf_ring_destroy(&ring));
    t_close(node);
}

/* What rank 0 and rank 1 swap. */
static void exchanges(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 256, 0);
    wharf_exchange_box out = {buffer, 0, {128, 1, 1}, {0, 0}};
    wharf_exchange_box in = {buffer, 128, {128, 1, 1}, {0, 0}};
    wharf_exchange_transfer both = {1 - t_me, 0, 0, &out, &in};
    wharf_exchange *exchange = NULL;
    int from;

    TRACED(
        "wharf_exchange_create", NULL, WHARF_OK,
        wharf_exchange_create(node, MPI_COMM_WORLD, 1, &both, NULL, &exchange));
    TRACED("wharf_exchange_start", NULL, WHARF_OK,
           wharf_exchange_start(exchange, NULL));
    TRACED("wharf_exchange_finish", NULL, WHARF_OK,
           wharf_exchange_finish(exchange, NULL));
    TRACED("wharf_exchange_run", NULL, WHARF_OK,
           wharf_exchange_run(exchange, NULL));
    t_stream_sync(node, NULL);
    T_OK(wharf_exchange_destroy(&exchange));
    t_detach(buffer);
    t_close(node);
}

/* Failures close their ranges, wherever they turn back. */
static void failures(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = NULL;
    wharf_event *event = NULL;
    int from;

    TRACED("wharf_event_query", NULL, WHARF_EARG, wharf_event_query(NULL, 1));
    TRACED("wharf_barrier_enter", NULL, WHARF_EARG,
           wharf_barrier_enter(NULL, NULL));
    TRACED("wharf_put", NULL, WHARF_EARG,
           wharf_put(NULL, 0, 0, &from, sizeof from, NULL));
    TRACED("wharf_exchange_run", NULL, WHARF_EARG,
           wharf_exchange_run(NULL, NULL));
    TRACED("wharf_ring_produce_end", NULL, WHARF_EARG,
           wharf_ring_produce_end(NULL, 1, NULL));
    TRACED("wharf_worker_send", NULL, WHARF_EARG,
           wharf_worker_send(NULL, &from, sizeof from, WHARF_NO_WAIT));
    T_CHECK(TRACED("wharf_event_create", "agree", WHARF_EARG,
                   wharf_event_create(node, -1, &event)) > 0);
    T_CHECK(TRACED("wharf_buffer_attach", "agree", WHARF_EARG,
                   wharf_buffer_attach(node, SIZE_MAX, NULL, &buffer)) > 0);
    t_close(node);
}

static const t_case cases[] = {
    {"opened_and_attached", opened_and_attached, T_ANY},
    {"signals_and_copies", signals_and_copies, T_ANY},
    {"rings", rings, T_ANY},
    {"exchanges", exchanges, T_ANY},
    {"failures", failures, T_ANY},
    {NULL, NULL, 0},
};

/* ---- Not asked for, or nobody there -------------------------------------- */

static void off(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 100, 0);

    t_share(node, buffer, 1);
    t_detach(buffer);
    t_close(node);
    T_EQ_INT(0, events_count());
}

static void no_profiler(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 100, 0);

    t_share(node, buffer, 1);
    t_detach(buffer);
    t_close(node);
}

static const t_case others[] = {
    {"off", off, T_ANY},
    {"no_profiler", no_profiler, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    if (getenv("NVTX_INJECTION64_PATH") != NULL)
        recorder_find();
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, argc > 1 ? others : cases);
}
