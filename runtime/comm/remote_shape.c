/* SPDX-License-Identifier: MIT */
/* Neighbours as a communicator's topology tells them. All local. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/private.h"
#include "comm/remote.h"

/* MPI's most are not bounded; nobody uses more. */
#define CART_MOST 16

static wharf_status kind_check(MPI_Comm user, int wanted, const char *name)
{
    int kind = MPI_UNDEFINED;
    int code;

    if (!wi_mpi_alive())
        return wi_fail(WHARF_ESTATE, "call between MPI_Init and MPI_Finalize",
                       "MPI is not initialised or already finalised");
    code = MPI_Topo_test(user, &kind);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Topo_test");
    if (kind != wanted)
        return wi_fail(WHARF_EARG,
                       "make the communicator by MPI's calls for "
                       "it, or list the transfers",
                       "the communicator has no %s topology", name);
    return WHARF_OK;
}

wharf_status wi_cart_dims(MPI_Comm user, int most, int *dims)
{
    wharf_status status = kind_check(user, MPI_CART, "Cartesian");
    int found = 0;
    int code;

    if (status != WHARF_OK)
        return status;
    code = MPI_Cartdim_get(user, &found);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Cartdim_get");
    if (found < 1 || found > most)
        return wi_fail(WHARF_EARG, "list the transfers",
                       "the communicator has %d dimensions, not 1 to %d", found,
                       most);
    *dims = found;
    return WHARF_OK;
}

wharf_status wi_cart_neighbour(MPI_Comm user, int dims, const int *direction,
                               int *rank)
{
    int size[CART_MOST], periodic[CART_MOST], at[CART_MOST];
    int code = MPI_Cart_get(user, dims, size, periodic, at);

    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Cart_get");
    for (int d = 0; d < dims; d++) {
        at[d] += direction[d];
        if (at[d] >= 0 && at[d] < size[d])
            continue;
        if (!periodic[d]) {
            *rank = MPI_PROC_NULL;
            return WHARF_OK;
        }
        at[d] = (at[d] + size[d]) % size[d];
    }
    code = MPI_Cart_rank(user, at, rank);
    return code == MPI_SUCCESS ? WHARF_OK : wi_mpi_fail(code, "MPI_Cart_rank");
}

wharf_status wi_graph_read(MPI_Comm user, wi_graph *graph)
{
    wi_graph found = {.in = 0};
    int *weights, weighted = 0, code;
    wharf_status status = kind_check(user, MPI_DIST_GRAPH, "distributed-graph");

    if (status != WHARF_OK)
        return status;
    code =
        MPI_Dist_graph_neighbors_count(user, &found.in, &found.out, &weighted);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Dist_graph_neighbors_count");
    /* Weights are asked for as well: some libraries want the arrays. */
    found.sources =
        wi_calloc(2 * ((size_t)found.in + (size_t)found.out), sizeof(int));
    if (!found.sources)
        return WHARF_ENOMEM;
    found.destinations = found.sources + found.in;
    weights = found.destinations + found.out;
    code = MPI_Dist_graph_neighbors(user, found.in, found.sources, weights,
                                    found.out, found.destinations,
                                    weights + found.in);
    if (code != MPI_SUCCESS) {
        wi_graph_free(&found);
        return wi_mpi_fail(code, "MPI_Dist_graph_neighbors");
    }
    *graph = found;
    return WHARF_OK;
}

void wi_graph_free(wi_graph *graph)
{
    wi_free(graph->sources);
    graph->sources = NULL;
    graph->destinations = NULL;
}
