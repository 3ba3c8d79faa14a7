/* SPDX-License-Identifier: MIT */
/* The counters: what reading them promises, and that they follow what is
 * held. */
#include "t_group.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reading(void)
{
    wharf_stats stats = t_stats();
    union {
        wharf_stats stats;
        unsigned char bytes[sizeof(wharf_stats)];
    } old;
    size_t known = offsetof(wharf_stats, live_events);

    T_EQ_INT(sizeof stats, stats.struct_size);
    T_REFUSES(WHARF_EARG, NULL, wharf_stats_get(NULL));
    stats.struct_size = 0;
    T_REFUSES(WHARF_EARG, "size", wharf_stats_get(&stats));
    /* An older caller's shorter struct is filled as far as it goes. */
    memset(&old, 0x5a, sizeof old);
    old.stats.struct_size = known;
    T_OK(wharf_stats_get(&old.stats));
    T_EQ_INT(0, old.stats.live_buffers);
    for (size_t i = known; i < sizeof old; i++)
        T_EQ_INT(0x5a, old.bytes[i]);
}

/* Every counter is printed, once, with its value. */
static void printing(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 4096, 0);
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    FILE *full = fopen("/dev/full", "w");

    T_CHECK(file != NULL);
    T_OK(wharf_stats_print(file));
    T_CHECK(fclose(file) == 0);
#define T_PRINTED(name, meaning)                                               \
    T_CONTAINS(#name, text);                                                   \
    T_CONTAINS(meaning, text);
    WHARF_STATS_LIST(T_PRINTED)
#undef T_PRINTED
    free(text);
    T_REFUSES(WHARF_EARG, NULL, wharf_stats_print(NULL));
    T_REFUSES(WHARF_EARG, NULL, wharf_environment_print(NULL));
    if (full != NULL) {
        T_REFUSES(WHARF_EOS, NULL, wharf_stats_print(full));
        T_REFUSES(WHARF_EOS, NULL, wharf_environment_print(full));
        fclose(full);
    }
    t_detach(buffer);
    t_close(node);
}

/* Counters of what is held go up and come back; those of what was done only
 * grow. */
static void follow(void)
{
    wharf_stats start = t_stats();
    wharf_node *node = t_open();
    wharf_stats opened = t_stats();
    wharf_event *event = NULL;
    wharf_buffer *a;
    wharf_buffer *b;
    wharf_stats held;

    T_EQ_INT(start.live_nodes + 1, opened.live_nodes);
    T_CHECK(opened.live_host_allocations > start.live_host_allocations);
    T_CHECK(opened.agreements_count > start.agreements_count);
    if (t_mode_get() != T_HOST)
        T_EQ_INT(start.live_contexts + 1, opened.live_contexts);
    a = t_attach(node, 65536, 0);
    b = t_attach(node, 65536, 0);
    T_OK(wharf_event_create(node, 0, &event));
    held = t_stats();
    T_EQ_INT(start.live_buffers + 2, held.live_buffers);
    T_EQ_INT(opened.live_events + 2 * t_ranks + 1, held.live_events);
    T_EQ_INT(opened.attaches_count + 2, held.attaches_count);
    T_CHECK(held.agreements_count > opened.agreements_count);
    T_EQ_INT(0, held.pooled_bytes);
    T_EQ_INT(0, held.kept_bytes);
    if (t_mode_get() == T_HOST) {
        T_CHECK(held.live_host_map_bytes >=
                opened.live_host_map_bytes + 2 * 65536 * t_ranks);
        T_EQ_INT(0, held.live_device_bytes_owned);
        T_EQ_INT(0, held.live_device_bytes_imported);
    } else {
        T_CHECK(held.live_device_bytes_owned +
                    held.live_device_bytes_imported >=
                2 * 65536 * t_ranks);
    }
    T_OK(wharf_event_destroy(&event));
    t_detach(b);
    t_detach(a);
    T_OK(wharf_pool_trim(node));
    t_live_check(&opened);
    t_close(node);
    t_live_check(NULL);
    T_EQ_INT(held.attaches_count, t_stats().attaches_count);
}

static const t_case cases[] = {
    {"reading", reading, T_ANY},
    {"printing", printing, T_ANY},
    {"follow", follow, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
