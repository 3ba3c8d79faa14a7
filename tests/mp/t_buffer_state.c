/* SPDX-License-Identifier: MIT */
/* Calls in the wrong order: on buffers and nodes that are gone, twice, and
 * late. An error each time, never a crash. */
#include "t_group.h"

#include <mpi.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void use_after_detach(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 4096, 0);
    wharf_buffer *copy = buffer;
    wharf_buffer_info info = WHARF_BUFFER_INFO_INIT;
    wharf_event *event = NULL;
    void *const *table = NULL;
    void *pointer = NULL;
    size_t size = 0;

    T_OK(wharf_buffer_event(buffer, 0, &event));
    t_detach(buffer);
    T_REFUSES(WHARF_ESTATE, "buffer",
              wharf_buffer_segment(copy, 0, &pointer, &size));
    T_REFUSES(WHARF_ESTATE, "buffer", wharf_buffer_base(copy, &pointer, &size));
    T_REFUSES(WHARF_ESTATE, "buffer", wharf_buffer_info_get(copy, 0, &info));
    T_REFUSES(WHARF_ESTATE, "buffer", wharf_buffer_pointer_table(copy, &table));
    T_REFUSES(WHARF_ESTATE, "event", wharf_event_query(event, 1));
    T_REFUSES(WHARF_ESTATE, "event", wharf_event_record(event, NULL, NULL));
    T_REFUSES(WHARF_ESTATE, "event", wharf_event_wait(event, 1, NULL));
    T_REFUSES(WHARF_ESTATE, "buffer", wharf_buffer_event(copy, 0, &event));
    T_REFUSES(WHARF_ESTATE, "buffer", wharf_buffer_detach(&copy));
    T_CHECK(copy == NULL);
    t_close(node);
    t_live_check(NULL);
}

/* An object of one kind where another is wanted. */
static void wrong_object(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 64, 0);
    wharf_buffer *odd = (wharf_buffer *)node;
    wharf_node *other = (wharf_node *)buffer;
    char stranger[256] = {0};

    T_REFUSES(WHARF_ESTATE, "buffer", wharf_buffer_detach(&odd));
    T_REFUSES(WHARF_ESTATE, "node", wharf_node_close(&other));
    odd = (wharf_buffer *)(void *)stranger;
    T_REFUSES(WHARF_ESTATE, "buffer", wharf_buffer_detach(&odd));
    T_EQ_INT(-1, wharf_node_rank((wharf_node *)(void *)stranger));
    t_share(node, buffer, 1);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static void attach_after_close(void)
{
    wharf_node *node = t_open();
    wharf_node *copy = node;
    wharf_node *again = node;
    wharf_buffer *buffer = NULL;
    wharf_event *event = NULL;
    size_t size = 0;

    t_close(node);
    T_REFUSES(WHARF_ESTATE, "node",
              wharf_buffer_attach(copy, 64, NULL, &buffer));
    T_REFUSES(WHARF_ESTATE, "node", wharf_event_create(copy, 0, &event));
    T_REFUSES(WHARF_ESTATE, "node", wharf_pool_trim(copy));
    T_CHECK(buffer == NULL && event == NULL);
    T_CHECK(wharf_buffer_granularity(copy, WHARF_SPACE_DEVICE, &size) !=
            WHARF_OK);
    T_EQ_INT(-1, wharf_node_rank(copy));
    T_EQ_INT(-1, wharf_node_size(copy));
    T_EQ_INT(-1, wharf_node_gpus(copy));
    T_EQ_STR("", wharf_node_backend_reason(copy));
    T_REFUSES(WHARF_ESTATE, "node", wharf_node_close(&copy));
    T_CHECK(copy == NULL);
    T_REFUSES(WHARF_EARG, NULL, wharf_node_close(&copy));
    T_REFUSES(WHARF_EARG, NULL, wharf_node_close(NULL));
    T_REFUSES(WHARF_ESTATE, "node", wharf_node_close(&again));
    t_live_check(NULL);
}

/* Close takes what is still attached with it. */
static void close_with_buffers(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffers[3];
    wharf_event *event = NULL;

    for (int i = 0; i < 3; i++)
        buffers[i] = t_attach(node, 5000, i == 1 ? WHARF_BUFFER_CONTIGUOUS : 0);
    T_OK(wharf_event_create(node, 0, &event));
    t_share(node, buffers[0], 2);
    t_detach(buffers[2]); /* this one sleeps in the pool */
    t_close(node);
    t_live_check(NULL);
    T_REFUSES(WHARF_ESTATE, "buffer", wharf_buffer_detach(&buffers[0]));
    T_REFUSES(WHARF_ESTATE, "event", wharf_event_destroy(&event));
    T_CHECK(buffers[0] == NULL && event == NULL);
}

/* A child of fork gets errors; the parent goes on. */
static void forked_child(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 4096, 0);
    wharf_event *event = NULL;
    int status = 0;
    pid_t child;

    T_OK(wharf_event_create(node, 0, &event));
    t_share(node, buffer, 3);
    fflush(stdout);
    child = fork();
    T_CHECK(child >= 0);
    if (child == 0) {
        wharf_buffer *none = NULL;
        wharf_node *mine = NULL;
        void *pointer = NULL;

        T_STATUS(WHARF_ESTATE, wharf_buffer_attach(node, 1, NULL, &none));
        T_STATUS(WHARF_ESTATE, wharf_buffer_segment(buffer, 0, &pointer, NULL));
        T_STATUS(WHARF_ESTATE, wharf_event_record(event, NULL, NULL));
        T_STATUS(WHARF_ESTATE, wharf_event_query(event, 1));
        T_STATUS(WHARF_ESTATE, wharf_event_destroy(&event));
        T_STATUS(WHARF_ESTATE, wharf_buffer_detach(&buffer));
        T_STATUS(WHARF_ESTATE, wharf_node_open(MPI_COMM_WORLD, NULL, &mine));
        T_STATUS(WHARF_ESTATE, wharf_node_close(&node));
        _exit(0);
    }
    T_CHECK(waitpid(child, &status, 0) == child);
    T_CHECK(WIFEXITED(status));
    T_EQ_INT(0, WEXITSTATUS(status));
    t_share(node, buffer, 4);
    T_OK(wharf_event_destroy(&event));
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Two buffers detached in another order on one rank: seen, not deadlocked, and
 * nothing is detached; in the same order it works. */
static void detach_out_of_order(void)
{
    wharf_node *node = t_open();
    wharf_buffer *a = t_attach(node, 64, 0);
    wharf_buffer *b = t_attach(node, 128, 0);
    wharf_buffer *mine = t_me == t_ranks - 1 ? b : a;

    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, t_ranks - 1, NULL,
            wharf_buffer_detach(&mine));
    T_EQ_PTR(t_me == t_ranks - 1 ? b : a, mine);
    t_share(node, a, 5);
    t_share(node, b, 6);
    t_detach(b);
    t_detach(a);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"use_after_detach", use_after_detach, T_ANY},
    {"wrong_object", wrong_object, T_ANY},
    {"attach_after_close", attach_after_close, T_ANY},
    {"close_with_buffers", close_with_buffers, T_ANY},
    {"forked_child", forked_child, T_ANY},
    {"detach_out_of_order", detach_out_of_order, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
