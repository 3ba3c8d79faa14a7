/* SPDX-License-Identifier: MIT */
/* A rank dies before others attach memory that they had, or let it go. Same
 * rules as t_death.c. */
#define _GNU_SOURCE
#include "attach_memory.h"
#include "death_board.h"

/* Each rank another kind, shared directly where that can be. */
static t_memory own_memory(void)
{
    static const t_kind kinds[] = {T_KIND_PLAIN, T_KIND_PIECES, T_KIND_POOL};
    t_kind kind = kinds[t_me % 3];
    t_memory m;

    if (!t_kind_possible(node, kind))
        kind = T_KIND_HOST;
    m = t_memory_new(node, kind, 0, 3 << 20, 0);
    t_mine_fill(node, &m, 1);
    return m;
}

static void killed_before_attach(void)
{
    t_memory m = own_memory();
    wharf_buffer *buffer = NULL;

    if (t_me == victim)
        vanish(SIGKILL);
    told(t_mine_attach(node, m.pointer, m.bytes, STAGE, &buffer), WHARF_EPEER,
         LATE_MS);
    T_CHECK(buffer == NULL);
    t_memory_free(node, &m);
    close_after_death(false);
    finish();
}

/* What the dead rank shared stays readable until the others let go; what is
 * theirs they may free once all survivors have. */
static void killed_before_detach(void)
{
    t_memory m = own_memory();
    int64_t imported = t_stats().live_blocks_imported; /* the node's own */
    wharf_buffer *buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE);

    T_CHECK(t_stats().live_blocks_imported > imported);
    t_mine_check_all(node, buffer, 1, "before the death");
    t_barrier();
    if (t_me == victim)
        vanish(SIGKILL);
    while (atomic_load(&shared->died_ms) == 0)
        t_pause_us(1000);
    t_mine_check_all(node, buffer, 1, "after the death");
    atomic_store(&shared->ready[t_me], 1);
    T_CHECK(survivors_all(shared->ready));
    told(wharf_buffer_detach(&buffer), WHARF_EPEER, LATE_MS);
    T_CHECK(buffer == NULL);
    T_EQ_INT(imported, t_stats().live_blocks_imported);
    atomic_store(&shared->ready[t_me], 2);
    for (int rank = 0; rank < t_ranks; rank++)
        while (rank != victim && atomic_load(&shared->ready[rank]) < 2)
            t_pause_us(1000);
    t_mine_check(node, &m, 1);
    t_memory_free(node, &m);
    close_after_death(false);
    finish();
}

int main(int argc, char **argv)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;

    t_arguments(argc, argv);
    alarm(100);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    victim = (int)t_argument("victim", 0);
    T_CHECK(argc > 1 && victim >= 0 && victim < t_ranks);
    board_open();
    options.timeout_ms = 30000;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    t_barrier();
    if (strcmp(argv[1], "killed_before_attach") == 0)
        killed_before_attach();
    else if (strcmp(argv[1], "killed_before_detach") == 0)
        killed_before_detach();
    T_FAIL("no such case: %s", argv[1]);
}
