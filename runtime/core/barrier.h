/* SPDX-License-Identifier: MIT */
/* The body of a barrier, for the barrier*.c files and signal_rescue.c. */
#ifndef WI_CORE_BARRIER_H
#define WI_CORE_BARRIER_H

#include "core/core.h"
#include "core/signal.h"

/* Steps of the calling rank with their addresses. */
typedef struct wi_barrier_steps {
    wi_sync_step *step;
    int count;
} wi_barrier_steps;

struct wharf_barrier {
    wharf_node *node;
    uint64_t serial;
    int members;
    int *rank;       /* of each member */
    int me;          /* the calling rank's member number; -1: none */
    wi_pad_run *run; /* of each member */
    wi_signal_way way;
    bool two_level;
    wi_barrier_steps plain; /* counts, or epochs */
    wi_barrier_steps marks; /* in graphs, where plain has epochs */
    uint32_t *report;       /* member, where kernels can enter */
    void *table;            /* of the view, lazily */
    pthread_mutex_t lock;   /* guards what follows, table and plain's values */
    uint32_t epoch;         /* of the last use, issued or passed */
    bool arrived;           /* host: in a use that is not over */
    wharf_barrier *next;
};

/* This rank's part of a new barrier whose words are taken. */
wharf_status wi_barrier_prepare(wharf_barrier *barrier);
/* Gives back what prepare made and the view. */
void wi_barrier_unprepare(wharf_barrier *barrier);

/* Marks lie behind the words of epochs. */
int wi_barrier_run_words(const wharf_barrier *barrier, bool marks);

#endif
