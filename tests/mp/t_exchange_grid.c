/* SPDX-License-Identifier: MIT */
/*
 * Ghost cells of Cartesian communicators. Every cell of the whole grid has a
 * value that its place and the round give, so what a ghost cell must hold is
 * known without any message: the value of the place that it stands for, or what
 * was in it before where there is no neighbour.
 */
#include "t_exchange.h"

enum { SETS_MOST = 3, CELLS_MOST = 8192 };

typedef struct grid {
    int dims;
    int ranks[3], periodic[3], at[3];
    int ghost[3];
    int extent[3]; /* of this rank */
    int start[3];  /* of its cells in the whole grid */
    int whole[3];
    bool diagonals;
    int padding; /* cells between rows that belong to nobody */
    size_t row, plane, bytes;
} grid;

/* Cells of a rank along a dimension: unequal, if asked for. */
static int extent_of(int dim, int at, bool unequal)
{
    return 4 + dim + (unequal ? (at * 3 + dim) % 4 : 0);
}

static void grid_place(grid *g, bool unequal)
{
    for (int d = 0; d < 3; d++) {
        g->start[d] = 0;
        g->whole[d] = 0;
        for (int r = 0; r < g->ranks[d]; r++) {
            int extent = d < g->dims ? extent_of(d, r, unequal) : 1;

            if (r < g->at[d])
                g->start[d] += extent;
            if (r == g->at[d])
                g->extent[d] = extent;
            g->whole[d] += extent;
        }
    }
}

/* Dimensions that the grid has not come last here: one cell, no ghosts. */
static MPI_Comm grid_make(grid *g, int dims, const int *periodic, int ghost,
                          bool unequal)
{
    int ranks[3] = {0, 0, 0};
    MPI_Comm comm;

    *g = (grid){.dims = dims, .ranks = {1, 1, 1}};
    MPI_Dims_create(t_ranks, dims, ranks);
    MPI_Cart_create(MPI_COMM_WORLD, dims, ranks, periodic, 1, &comm);
    MPI_Cart_get(comm, dims, g->ranks, g->periodic, g->at);
    for (int d = 0; d < dims; d++)
        g->ghost[d] = ghost + (d == 1);
    grid_place(g, unequal);
    return comm;
}

/* In C's order: the last dimension of the grid is contiguous. */
static size_t cells(const grid *g, int d)
{
    return (size_t)(g->extent[d] + 2 * g->ghost[d]);
}

static void grid_measure(grid *g, int padding)
{
    int last = g->dims - 1;

    g->padding = padding;
    g->row = (cells(g, last) + (size_t)padding) * sizeof(uint32_t);
    g->plane = g->row * (g->dims > 1 ? cells(g, last - 1) : 1) +
               (size_t)padding * sizeof(uint32_t);
    g->bytes = g->plane * (g->dims > 2 ? cells(g, 0) : 1);
    T_CHECK(g->bytes / sizeof(uint32_t) < CELLS_MOST);
}

/* Index of the cell with these coordinates, ghosts counted from 0. */
static size_t index_of(const grid *g, const int *cell)
{
    int last = g->dims - 1;
    size_t bytes = (size_t)cell[last] * sizeof(uint32_t);

    if (g->dims > 1)
        bytes += (size_t)cell[last - 1] * g->row;
    if (g->dims > 2)
        bytes += (size_t)cell[0] * g->plane;
    return bytes / sizeof(uint32_t);
}

static uint32_t value_of(const int *place, int round)
{
    return 1000003u * (uint32_t)round + 10007u * (uint32_t)place[0] +
           101u * (uint32_t)place[1] + (uint32_t)place[2] + 5u;
}

/* What a cell stands for: false if it is beyond an edge, or a ghost that only
 * diagonal neighbours fill. own: a cell of this rank. */
static bool stands_for(const grid *g, const int *cell, int *place, bool *own)
{
    int away = 0;

    for (int d = 0; d < 3; d++) {
        int at = cell[d] - g->ghost[d];

        away += at < 0 || at >= g->extent[d];
        place[d] = g->start[d] + at;
        if (place[d] >= 0 && place[d] < g->whole[d])
            continue;
        if (!g->periodic[d])
            return false;
        place[d] = (place[d] + g->whole[d]) % g->whole[d];
    }
    *own = away == 0;
    return away < 2 || g->diagonals;
}

typedef void (*cell_visit)(const grid *g, const int *cell, uint32_t *values,
                           int round);

static void visit_all(const grid *g, uint32_t *values, int round,
                      cell_visit visit)
{
    int cell[3];

    for (cell[0] = 0; cell[0] < (int)cells(g, 0); cell[0]++)
        for (cell[1] = 0; cell[1] < (int)cells(g, 1); cell[1]++)
            for (cell[2] = 0; cell[2] < (int)cells(g, 2); cell[2]++)
                visit(g, cell, values, round);
}

static void set_own(const grid *g, const int *cell, uint32_t *values, int round)
{
    int place[3];
    bool own = false;

    if (stands_for(g, cell, place, &own) && own)
        values[index_of(g, cell)] = value_of(place, round);
}

static void expect(const grid *g, const int *cell, uint32_t *values, int round)
{
    int place[3];
    bool own = false;

    if (stands_for(g, cell, place, &own))
        values[index_of(g, cell)] = value_of(place, round);
}

/* Own cells only: ghosts may be under way. */
static void write_own(const t_field *f, const grid *g, int set, int round)
{
    uint32_t *copy = (uint32_t *)(void *)f->copy[set];
    int cell[3] = {g->ghost[0], g->ghost[1], g->ghost[2]};
    int last = g->dims - 1;

    visit_all(g, copy, round, set_own);
    for (int z = 0; z < (g->dims > 2 ? g->extent[0] : 1); z++)
        for (int y = 0; y < (g->dims > 1 ? g->extent[last - 1] : 1); y++) {
            size_t at;

            if (g->dims > 2)
                cell[0] = g->ghost[0] + z;
            if (g->dims > 1)
                cell[last - 1] = g->ghost[last - 1] + y;
            at = index_of(g, cell) * sizeof(uint32_t);
            t_dev_write(t_field_place(f, set), t_field_memory(f, set) + at,
                        f->copy[set] + at,
                        (size_t)g->extent[last] * sizeof(uint32_t));
        }
}

static wharf_exchange *grid_exchange(const t_field *f, const grid *g,
                                     MPI_Comm comm)
{
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange_block block = WHARF_EXCHANGE_BLOCK_INIT;
    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    wharf_exchange *x = NULL;

    options.sets = f->sets;
    block.cell = sizeof(uint32_t);
    block.diagonals = g->diagonals;
    for (int d = 0; d < g->dims; d++) {
        block.extent[d] = (size_t)g->extent[d];
        block.ghost[d] = (size_t)g->ghost[d];
    }
    if (g->padding) {
        block.pitch[0] = g->row;
        block.pitch[1] = g->plane;
    }
    for (int s = 0; s < f->sets; s++)
        block.buffer[s] = f->buffer[s];
    T_OK(wharf_exchange_create_cart(f->node, comm, &block, &options, &x));
    T_OK(wharf_exchange_plan_get(x, &plan));
    T_EQ_INT(g->diagonals ? (g->dims == 3   ? 26
                             : g->dims == 2 ? 8
                                            : 2)
                          : 2 * g->dims,
             plan.transfers);
    return x;
}

static void grid_run(int dims, const int *periodic, int ghost, bool unequal,
                     bool diagonals, int sets, int padding)
{
    wharf_node *node = t_open();
    grid g;
    MPI_Comm comm = grid_make(&g, dims, periodic, ghost, unequal);
    wharf_exchange *x;
    t_field f;

    g.diagonals = diagonals;
    grid_measure(&g, padding);
    f = t_field_begin(node, sets, g.bytes);
    x = grid_exchange(&f, &g, comm);
    for (int round = 0; round < 2 * sets + 1; round++) {
        int set = round % sets;

        write_own(&f, &g, set, round);
        t_round(x, f.stream, round);
        visit_all(&g, (uint32_t *)(void *)f.copy[set], round, expect);
        t_field_check(&f, set);
    }
    t_exchange_destroy(x);
    t_field_end(&f);
    MPI_Comm_free(&comm);
    t_close(node);
}

static const int open_edges[3] = {0, 0, 0};
static const int closed[3] = {1, 1, 1};
static const int mixed[3] = {1, 0, 1};

static void one_dimension(void)
{
    grid_run(1, open_edges, 1, true, false, 1, 0);
    grid_run(1, closed, 2, true, true, 2, 0);
}

static void two_dimensions(void)
{
    grid_run(2, open_edges, 1, false, false, 1, 0);
    grid_run(2, closed, 1, false, false, 2, 0);
    grid_run(2, mixed, 2, false, true, 2, 3);
    grid_run(2, closed, 1, false, true, 3, 0);
}

/* Unequal along a dimension: faces fit, since ranks side by side in the others
 * have the same extent there. */
static void two_dimensions_unequal(void)
{
    grid_run(2, open_edges, 1, true, true, 1, 1);
    grid_run(2, closed, 2, true, true, 2, 0);
}

static void three_dimensions(void)
{
    grid_run(3, mixed, 1, false, false, 2, 0);
    grid_run(3, open_edges, 1, true, true, 1, 0);
    grid_run(3, closed, 1, true, true, 2, 0);
    grid_run(3, mixed, 1, true, true, 2, 2);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"one_dimension", one_dimension, T_ANY},
        {"two_dimensions", two_dimensions, T_ANY},
        {"two_dimensions_unequal", two_dimensions_unequal, T_ANY},
        {"three_dimensions", three_dimensions, T_ANY},
        {NULL, NULL, 0},
    };
    int level = MPI_THREAD_SINGLE;

    t_arguments(argc, argv);
    if (t_argument("threads", 0))
        level = MPI_THREAD_MULTIPLE;
    return t_main(argc, argv, level, cases);
}
