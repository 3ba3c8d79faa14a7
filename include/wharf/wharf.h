/* SPDX-License-Identifier: MIT */
/*
 * All of Wharf. To read: status.h, node.h, buffer.h and event.h, which most
 * programs need (event.h also has the wait of a CPU for a stream); then
 * notify.h, view.h and device.cuh for signals between streams and from kernels;
 * copy.h for moving data, exchange.h for halos, ring.h for batches that one
 * rank makes and others use; memory.h for memory that exists; worker.h for work
 * that may go wrong; join.h for programs outside the job; topo.h for planning,
 * stats.h for counters.
 *
 * Arguments come in one order: the object, what of it, the stream; behind the
 * stream what comes back and how long to wait.
 */
#ifndef WHARF_WHARF_H
#define WHARF_WHARF_H

#include "wharf/base.h"
#include "wharf/buffer.h"
#include "wharf/copy.h"
#include "wharf/event.h"
#include "wharf/exchange.h"
#include "wharf/join.h"
#include "wharf/memory.h"
#include "wharf/node.h"
#include "wharf/notify.h"
#include "wharf/ring.h"
#include "wharf/stats.h"
#include "wharf/status.h"
#include "wharf/topo.h"
#include "wharf/view.h"
#include "wharf/worker.h"

#endif
