/* SPDX-License-Identifier: MIT */
/* Transfers from a communicator's topology: grids and graphs. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/product.h"
#include "base/versioned.h"
#include "core/exchange.h"

/* 3 * 3 * 3 directions, the middle included. */
#define DIRECTIONS 27

/* ---- Grids
 * ---------------------------------------------------------------------- */

/* A block in three dimensions, the contiguous one last: those that the
 * communicator has not come first, with one cell and no ghosts. */
typedef struct grid {
    int dims; /* of the communicator */
    int sets;
    uint64_t cell;
    uint64_t extent[3], ghost[3];
    uint64_t row, plane; /* pitches */
    bool diagonals;
    const wharf_exchange_block *block;
} grid;

static wharf_status block_read(const wharf_exchange_block *block,
                               wharf_exchange_block *known)
{
    *known = (wharf_exchange_block)WHARF_EXCHANGE_BLOCK_INIT;
    wharf_status status =
        wi_versioned_read(known, sizeof *known, block, "block");
    if (status == WHARF_OK && known->cell == 0)
        status = wi_fail(WHARF_EARG, "pass the bytes of one cell",
                         "block.cell is 0");
    if (status == WHARF_OK && known->diagonals != 0 && known->diagonals != 1)
        status = wi_fail(WHARF_EARG, "pass 0 or 1", "block.diagonals is %d",
                         known->diagonals);
    return status;
}

static wharf_status grid_fill(const wharf_exchange_block *block, grid *g)
{
    int shift = 3 - g->dims;
    for (int d = 0; d < 3; d++) {
        g->extent[d] = d < shift ? 1 : block->extent[d - shift];
        g->ghost[d] = d < shift ? 0 : block->ghost[d - shift];
        if (g->ghost[d] > g->extent[d])
            return wi_fail(WHARF_EARG, "make blocks as wide as their ghosts",
                           "block.ghost[%d] is %llu and block.extent[%d] is "
                           "%llu",
                           d - shift, (unsigned long long)g->ghost[d],
                           d - shift, (unsigned long long)g->extent[d]);
    }
    if (g->ghost[0] == 0 && g->ghost[1] == 0 && g->ghost[2] == 0)
        return wi_fail(WHARF_EARG, "set how many ghost cells there are",
                       "block.ghost is 0 in every dimension: there is nothing "
                       "to exchange");
    uint64_t row, plane, size, offset = 0;
    for (int s = 0; s < g->sets; s++)
        if (block->offset[s] > offset)
            offset = block->offset[s];
    if (g->extent[0] > INT64_MAX / 4 || g->extent[1] > INT64_MAX / 4 ||
        g->extent[2] > INT64_MAX / 4 ||
        !wi_product(g->cell, g->extent[2] + 2 * g->ghost[2], &row) ||
        !wi_product(block->pitch[0] ? block->pitch[0] : row,
                    g->extent[1] + 2 * g->ghost[1], &plane) ||
        !wi_product(block->pitch[1] ? block->pitch[1] : plane,
                    g->extent[0] + 2 * g->ghost[0], &size) ||
        offset > INT64_MAX - size)
        return wi_fail(WHARF_EARG, "see wharf_exchange_block",
                       "the block is beyond every address space");
    g->row = block->pitch[0] ? block->pitch[0] : row;
    g->plane = block->pitch[1] ? block->pitch[1] : plane;
    return WHARF_OK;
}

static wharf_status grid_make(const wi_exchange_ask *ask,
                              const wharf_exchange_block *block, grid *g)
{
    *g = (grid){
        .sets = ask->options.sets,
        .cell = block->cell,
        .diagonals = block->diagonals != 0,
        .block = block,
    };
    wharf_status status =
        wi_cart_dims(ask->comm, WHARF_EXCHANGE_DIMS, &g->dims);
    return status == WHARF_OK ? grid_fill(block, g) : status;
}

/* The cells next to the neighbour, or (ghosts) those that it fills. */
static wharf_exchange_box grid_box(const grid *g, int set, const int *direction,
                                   bool ghosts)
{
    uint64_t from[3], count[3];
    for (int d = 0; d < 3; d++) {
        count[d] = direction[d] ? g->ghost[d] : g->extent[d];
        from[d] = g->ghost[d];
        if (direction[d] > 0)
            from[d] = ghosts ? g->ghost[d] + g->extent[d] : g->extent[d];
        else if (direction[d] < 0)
            from[d] = ghosts ? 0 : g->ghost[d];
    }
    return (wharf_exchange_box){
        .buffer = g->block->buffer[set],
        .offset = g->block->offset[set] + from[0] * g->plane +
                  from[1] * g->row + from[2] * g->cell,
        .size = {count[2] * g->cell, count[1], count[0]},
        .pitch = {g->row, g->plane},
    };
}

/* What a direction is called on the wire: the neighbour's is the opposite. */
static int direction_id(const int *direction, int sign)
{
    int id = 0;
    for (int d = 0; d < 3; d++)
        id = 3 * id + 1 + sign * direction[d];
    return id;
}

static bool wanted(const grid *g, const int *direction)
{
    int away = 0;
    for (int d = 0; d < 3; d++) {
        away += direction[d] != 0;
        if (d < 3 - g->dims && direction[d])
            return false;
    }
    return away == 1 || (away > 1 && g->diagonals);
}

static wharf_status grid_transfers(const grid *g, MPI_Comm comm,
                                   wharf_exchange_transfer *transfers,
                                   wharf_exchange_box *boxes, int *count)
{
    for (int k = 0; k < DIRECTIONS; k++) {
        int direction[3] = {k / 9 - 1, k / 3 % 3 - 1, k % 3 - 1};
        if (!wanted(g, direction))
            continue;
        wharf_exchange_transfer *t = &transfers[*count];
        wharf_exchange_box *send = boxes + 2 * (size_t)*count * (size_t)g->sets;
        wharf_exchange_box *receive = send + g->sets;
        wharf_status status =
            wi_cart_neighbour(comm, g->dims, direction + 3 - g->dims, &t->peer);
        if (status != WHARF_OK)
            return status;
        t->send_id = direction_id(direction, 1);
        t->receive_id = direction_id(direction, -1);
        t->send = send;
        t->receive = receive;
        for (int s = 0; s < g->sets; s++) {
            send[s] = grid_box(g, s, direction, false);
            receive[s] = grid_box(g, s, direction, true);
        }
        ++*count;
    }
    return WHARF_OK;
}

/* What one creation from a topology holds until it is over. */
typedef struct building {
    wharf_exchange_transfer *transfers;
    wharf_exchange_box *boxes;
} building;

static wharf_status cart_build(wi_exchange_ask *ask,
                               const wharf_exchange_block *block, building *b)
{
    wharf_exchange_block known;
    grid g;
    if (ask->comm == MPI_COMM_NULL)
        return WHARF_OK;
    wharf_status status = block_read(block, &known);
    if (status == WHARF_OK)
        status = grid_make(ask, &known, &g);
    if (status != WHARF_OK)
        return status;
    b->transfers = wi_calloc(DIRECTIONS, sizeof *b->transfers);
    b->boxes = wi_calloc((size_t)g.sets * 2 * DIRECTIONS, sizeof *b->boxes);
    if (!b->transfers || !b->boxes)
        return WHARF_ENOMEM;
    ask->transfers = b->transfers;
    return grid_transfers(&g, ask->comm, b->transfers, b->boxes, &ask->count);
}

/* ---- Graphs
 * --------------------------------------------------------------------- */

/* How many of the first `at` entries are the same as entry `at`. */
static int occurrence(const int *ranks, int at)
{
    int before = 0;
    for (int i = 0; i < at; i++)
        before += ranks[i] == ranks[at];
    return before;
}

static wharf_status graph_check(const wi_graph *graph,
                                const wharf_exchange_box *sends,
                                const wharf_exchange_box *receives)
{
    if (graph->in + graph->out > WHARF_MAX_EXCHANGE_TRANSFERS)
        return wi_fail(WHARF_ELIMIT, "make several exchanges",
                       "the graph has %d edges here, at most %d are possible",
                       graph->in + graph->out, WHARF_MAX_EXCHANGE_TRANSFERS);
    if ((graph->out && !sends) || (graph->in && !receives))
        return wi_fail(WHARF_EARG, "pass a box for every edge and set",
                       "%s is NULL and there are %d such edges",
                       sends ? "receives" : "sends",
                       sends ? graph->in : graph->out);
    return WHARF_OK;
}

static wharf_status graph_build(wi_exchange_ask *ask,
                                const wharf_exchange_box *sends,
                                const wharf_exchange_box *receives, building *b)
{
    wi_graph graph;
    if (ask->comm == MPI_COMM_NULL)
        return WHARF_OK;
    wharf_status status = wi_graph_read(ask->comm, &graph);
    if (status != WHARF_OK)
        return status;
    status = graph_check(&graph, sends, receives);
    if (status == WHARF_OK) {
        b->transfers = wi_calloc((size_t)graph.in + (size_t)graph.out,
                                 sizeof *b->transfers);
        status = b->transfers ? WHARF_OK : WHARF_ENOMEM;
    }
    for (int i = 0; status == WHARF_OK && i < graph.out; i++)
        b->transfers[i] = (wharf_exchange_transfer){
            .peer = graph.destinations[i],
            .send_id = occurrence(graph.destinations, i),
            .send = sends + (size_t)i * (size_t)ask->options.sets,
        };
    for (int i = 0; status == WHARF_OK && i < graph.in; i++)
        b->transfers[graph.out + i] = (wharf_exchange_transfer){
            .peer = graph.sources[i],
            .receive_id = occurrence(graph.sources, i),
            .receive = receives + (size_t)i * (size_t)ask->options.sets,
        };
    ask->count = graph.in + graph.out;
    ask->transfers = b->transfers;
    wi_graph_free(&graph);
    return status;
}

/* ---- The calls
 * ------------------------------------------------------------------ */

static wharf_status check_out(wharf_exchange *const *exchange)
{
    if (exchange)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "pass the address of a variable",
                   "exchange is NULL");
}

static wharf_status make(wharf_node *node, const wi_exchange_ask *ask,
                         wharf_status own, building *b, wharf_exchange **out)
{
    wharf_status status = wi_exchange_make(node, ask, own, out);
    wi_free(b->transfers);
    wi_free(b->boxes);
    return wi_node_leave(node, status);
}

wharf_status wharf_exchange_create_cart(wharf_node *node, MPI_Comm comm,
                                        const wharf_exchange_block *block,
                                        const wharf_exchange_options *options,
                                        wharf_exchange **exchange)
{
    wi_exchange_ask ask = {.comm = comm};
    building b = {NULL, NULL};
    wharf_status status = wi_node_enter(__func__, node);
    if (status != WHARF_OK)
        return status;
    wharf_status own = wi_exchange_options_read(options, &ask.options);
    if (own == WHARF_OK)
        own = check_out(exchange);
    if (own == WHARF_OK)
        own = cart_build(&ask, block, &b);
    return make(node, &ask, own, &b, exchange);
}

wharf_status wharf_exchange_create_graph(wharf_node *node, MPI_Comm comm,
                                         const wharf_exchange_box *sends,
                                         const wharf_exchange_box *receives,
                                         const wharf_exchange_options *options,
                                         wharf_exchange **exchange)
{
    /* Alike: wharf_exchange_create_cart; the frame of a public call. */
    wi_exchange_ask ask = {.comm = comm};
    building b = {NULL, NULL};
    wharf_status status = wi_node_enter(__func__, node);
    if (status != WHARF_OK)
        return status;
    wharf_status own = wi_exchange_options_read(options, &ask.options);
    if (own == WHARF_OK)
        own = check_out(exchange);
    if (own == WHARF_OK)
        own = graph_build(&ask, sends, receives, &b);
    return make(node, &ask, own, &b, exchange);
}
