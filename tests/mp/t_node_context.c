/* SPDX-License-Identifier: MIT */
/*
 * Contexts: after open a rank has one on its own GPU and nowhere else, open is
 * the only call that changes the current one, and every call works whatever is
 * current, nothing included.
 */
#include "t_driver.h"
#include "t_group.h"

#include <mpi.h>
#include <pthread.h>

static wharf_device my_device(const wharf_node *node)
{
    wharf_device device = WHARF_DEVICE_INIT;

    T_OK(wharf_node_device(node, t_me, &device));
    return device;
}

static void own_gpu_only(void)
{
    wharf_node *node = t_open();
    int mine = my_device(node).ordinal;
    wharf_buffer *buffer;

    T_CHECK(t_context_current(node) != 0);
    T_EQ_INT(mine, t_context_device(node));
    buffer = t_attach(node, 100000, 0);
    t_share(node, buffer, 1);
    for (int i = 0; i < t_device_count(node); i++)
        T_EQ_INT(i == mine, t_context_active(node, i));
    t_detach(buffer);
    t_close(node);
}

/* What is current before a call is current after it, on every path. */
static void each_call(wharf_node *node, uintptr_t current)
{
    wharf_buffer *buffer = NULL;
    wharf_event *event = NULL;
    void *const *table = NULL;
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

#define KEEPS(call)                                                            \
    do {                                                                       \
        t_context_set(node, current);                                          \
        T_OK(call);                                                            \
        T_EQ_INT(current, t_context_current(node));                            \
    } while (0)
    KEEPS(wharf_buffer_attach(node, 5000, NULL, &buffer));
    KEEPS(wharf_buffer_pointer_table(buffer, &table));
    KEEPS(wharf_event_create(node, 0, &event));
    if (t_me == 0)
        KEEPS(wharf_event_record(event, NULL, NULL));
    KEEPS(wharf_event_wait(event, 1, NULL));
    KEEPS(wharf_event_synchronize(event, 1, 0));
    KEEPS(wharf_event_query(event, 1));
    KEEPS(wharf_event_destroy(&event));
    KEEPS(wharf_buffer_detach(&buffer));
    options.flags = WHARF_BUFFER_ZERO | WHARF_BUFFER_READ_ONLY;
    KEEPS(wharf_buffer_attach(node, 5000, &options, &buffer));
    KEEPS(wharf_buffer_detach(&buffer));
    options.space = WHARF_SPACE_HOST;
    KEEPS(wharf_buffer_attach(node, 5000, &options, &buffer));
    KEEPS(wharf_buffer_detach(&buffer));
    KEEPS(wharf_pool_trim(node));
    t_context_set(node, current);
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, NULL,
            wharf_buffer_attach(node, SIZE_MAX, NULL, &buffer));
    T_EQ_INT(current, t_context_current(node));
#undef KEEPS
}

static void calls_restore(void)
{
    wharf_node *node = t_open();
    uintptr_t own = t_context_current(node);

    each_call(node, own);
    each_call(node, 0);
    t_context_set(node, own);
    t_close(node);
    t_live_check(NULL);
}

/* Close leaves no context of Wharf's current or alive. */
static void closed(void)
{
    wharf_node *keep = t_open();
    wharf_node *node = t_open();

    t_context_set(keep, 0);
    t_close(node);
    T_EQ_INT(0, t_context_current(keep));
    t_close(keep);
    T_EQ_INT(0, t_stats().live_contexts);
}

static void keep_current(void)
{
    wharf_node *other = t_open();
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;
    wharf_buffer *buffer;

    t_context_set(other, 0);
    options.keep_current = WHARF_SWITCH_ON;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    T_EQ_INT(0, t_context_current(node));
    buffer = t_attach(node, 400, 0);
    T_EQ_INT(0, t_context_current(node));
    t_detach(buffer);
    t_close(node);
    T_EQ_INT(0, t_context_current(other));
    t_close(other);
    t_live_check(NULL);
}

/* A stream of a context that the program made beside the primary one: the
 * driver may record no event there, and then it is said what would do. */
static void other_context(void)
{
    wharf_node *node = t_open();
    uintptr_t own = t_context_current(node);
    int (*create)(void **, unsigned, int), (*destroy)(void *);
    void *context = NULL;
    wharf_stream stream;
    wharf_status status;
    wharf_event *event;

    if (!t_argument("other", 0)) {
        t_close(node);
        return;
    }
    t_driver_find("cuCtxCreate_v2", &create);
    t_driver_find("cuCtxDestroy_v2", &destroy);
    T_OK(wharf_event_create(node, 0, &event));
    t_driver_must(create(&context, 0, t_context_device(node)), "cuCtxCreate");
    stream = t_stream_create(node);
    status = t_me ? WHARF_OK : wharf_event_record(event, stream, NULL);
    if (t_me == 0 && (t_mode_get() == T_FAKE || status != WHARF_OK))
        t_check_refusal(__FILE__, __LINE__, "wharf_event_record", WHARF_EARG,
                        status, "another context");
    T_EQ_INT((uintptr_t)context, t_context_current(node));
    t_stream_sync(node, stream);
    t_stream_destroy(node, stream);
    t_driver_must(destroy(context), "cuCtxDestroy");
    t_context_set(node, own);
    T_OK(wharf_event_destroy(&event));
    t_close(node);
}

static void *in_thread(void *argument)
{
    wharf_node *node = argument;

    T_EQ_INT(0, t_context_current(node));
    each_call(node, 0);
    return NULL;
}

/* A thread that has never seen CUDA makes all calls. */
static void new_thread(void)
{
    wharf_node *node = t_open();
    pthread_t thread;

    T_CHECK(pthread_create(&thread, NULL, in_thread, node) == 0);
    T_CHECK(pthread_join(thread, NULL) == 0);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"own_gpu_only", own_gpu_only, T_CUDA},
    {"calls_restore", calls_restore, T_CUDA},
    {"closed", closed, T_CUDA},
    {"keep_current", keep_current, T_CUDA},
    {"new_thread", new_thread, T_CUDA},
    {"other_context", other_context, T_CUDA},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
