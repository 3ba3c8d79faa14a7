/* SPDX-License-Identifier: MIT */
/* What the fault sweep tries: scenarios as data. */
#ifndef SWEEP_H
#define SWEEP_H

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

/* Each ends with a NULL name. */
extern const scenario scenarios[];
extern const scenario signal_scenarios[];
extern const scenario memory_scenarios[];
extern const scenario ring_scenarios[];
extern const scenario copy_scenarios[];
extern const scenario exchange_scenarios[];

#endif
