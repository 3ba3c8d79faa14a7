/* SPDX-License-Identifier: MIT */
/* The calls that Fortran's integer communicators need (runtime/fortran). */
#include "wharf/fortran.h"
#include "comm/comm.h"

wharf_status wharf_node_open_f(int comm, const wharf_node_options *options,
                               wharf_node **node)
{
    return wharf_node_open(wi_comm_of_fortran(comm), options, node);
}

wharf_status wharf_node_communicator_f(const wharf_node *node, int *comm)
{
    MPI_Comm found = MPI_COMM_NULL;
    wharf_status status =
        wharf_node_communicator(node, comm != NULL ? &found : NULL);

    if (status == WHARF_OK && comm)
        *comm = wi_comm_to_fortran(found);
    return status;
}

wharf_status wharf_exchange_create_f(wharf_node *node, int comm, int count,
                                     const wharf_exchange_transfer *transfers,
                                     const wharf_exchange_options *options,
                                     wharf_exchange **exchange)
{
    return wharf_exchange_create(node, wi_comm_of_fortran(comm), count,
                                 transfers, options, exchange);
}

wharf_status wharf_exchange_create_cart_f(wharf_node *node, int comm,
                                          const wharf_exchange_block *block,
                                          const wharf_exchange_options *options,
                                          wharf_exchange **exchange)
{
    return wharf_exchange_create_cart(node, wi_comm_of_fortran(comm), block,
                                      options, exchange);
}
