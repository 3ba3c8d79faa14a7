/* SPDX-License-Identifier: MIT */
/* What Wharf's Fortran module calls besides the C interface: communicators as
 * Fortran holds them, in integers. */
#ifndef WHARF_FORTRAN_H
#define WHARF_FORTRAN_H

#include "wharf/base.h"
#include "wharf/exchange.h"
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
 * @param node an open node
 * @param[out] comm an integer handle, owned by the node
 * @return as wharf_node_communicator
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_node_communicator_f(const wharf_node *node, int *comm);

/**
 * wharf_exchange_create for a Fortran communicator.
 *
 * Collective on node and on comm.
 *
 * @param node      as in wharf_exchange_create
 * @param comm      an integer handle
 * @param count     as in wharf_exchange_create
 * @param transfers as in wharf_exchange_create
 * @param options   as in wharf_exchange_create
 * @param[out] exchange as in wharf_exchange_create
 * @return as wharf_exchange_create
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_exchange_create_f(
    wharf_node *node, int comm, int count,
    const wharf_exchange_transfer *transfers,
    const wharf_exchange_options *options, wharf_exchange **exchange);

/**
 * wharf_exchange_create_cart for a Fortran communicator.
 *
 * Collective on node and on comm.
 *
 * @param node    as in wharf_exchange_create_cart
 * @param comm    an integer handle
 * @param block   as in wharf_exchange_create_cart
 * @param options as in wharf_exchange_create_cart
 * @param[out] exchange as in wharf_exchange_create_cart
 * @return as wharf_exchange_create_cart
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_exchange_create_cart_f(
    wharf_node *node, int comm, const wharf_exchange_block *block,
    const wharf_exchange_options *options, wharf_exchange **exchange);

WHARF_END_DECLS

#endif
