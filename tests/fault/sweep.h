/* SPDX-License-Identifier: MIT */
/* What the fault sweep tries: scenarios as data. */
#ifndef SWEEP_H
#define SWEEP_H

#include "base/fault.h"
#include "t_group.h"

/* One scenario: what is there before, what is tried, what is undone. `act` is
 * the part that is made to fail; it leaves what it made in `state`. */
typedef struct state {
    wharf_node *node;
    wharf_buffer *buffers[3];
    wharf_event *event;
    wharf_notify *notify;
    wharf_barrier *barrier;
    wharf_ring *ring;
} state;

typedef struct scenario {
    const char *name;
    void (*prepare)(state *s);
    wharf_status (*act)(state *s);
    void (*check)(state *s);  /* after success: it works */
    void (*finish)(state *s); /* what prepare and act made goes away */
    unsigned modes;
    bool local;    /* ranks may answer differently: no collective in it */
    bool consumes; /* a failed act has used up what prepare made */
} scenario;

/* A node for prepare, and back with it in finish. */
void sweep_node_open(state *s, wharf_switch pool);
void sweep_node_close(state *s);

/* For the sweep, on all ranks together. Learns from two runs without a fault
 * whether one node may serve several injections of a kind. */
void sweep_node_learn(const scenario *what, wi_fault_kind kind);

/* Before an injection: if so, the node is there. */
void sweep_node_ready(const scenario *what);

/* Did the scenario, run again after an injection, make this number of calls on
 * every rank as on a fresh node? */
bool sweep_node_as_before(long calls);

/* The next injection gets a fresh node; all do from now on. */
void sweep_node_retire(void);
void sweep_node_forget(void);

/* Each ends with a NULL name. */
extern const scenario scenarios[];
extern const scenario signal_scenarios[];
extern const scenario memory_scenarios[];
extern const scenario ring_scenarios[];
extern const scenario copy_scenarios[];
extern const scenario exchange_scenarios[];

#endif
