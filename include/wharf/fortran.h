/* SPDX-License-Identifier: MIT */
/* What Wharf's Fortran module calls besides the C interface: communicators as
 * Fortran holds them, in integers. */
#ifndef WHARF_FORTRAN_H
#define WHARF_FORTRAN_H

#include "wharf/base.h"
#include "wharf/node.h"
#include "wharf/status.h"

WHARF_BEGIN_DECLS

/**
 * wharf_node_open for a Fortran communicator.
 *
 * Collective on comm.
 *
 * @param comm an integer handle of mpif.h, or MPI_VAL of a type(MPI_Comm)
 * @param options as in wharf_node_open
 * @param[out] node as in wharf_node_open
 * @return as wharf_node_open; WHARF_EARG also for an integer that names no
 *         communicator
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_node_open_f(
    int comm, const wharf_node_options *options, wharf_node **node);

/**
 * wharf_node_communicator for Fortran.
 *
 * Local, any thread.
 *
 * @param[out] comm an integer handle, owned by the node
 * @return WHARF_OK; WHARF_EARG
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_node_communicator_f(const wharf_node *node, int *comm);

WHARF_END_DECLS

#endif
