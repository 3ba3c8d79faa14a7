/* SPDX-License-Identifier: MIT */
/* The body of what an exchange sends to other nodes, for exchange_far.c and
 * exchange_cut.c. */
#ifndef WI_CORE_EXCHANGE_FAR_H
#define WI_CORE_EXCHANGE_FAR_H

#include "core/exchange.h"

/* Most messages of one direction in one set. */
#define WI_FAR_MESSAGES 1000000

/* Words lie a cache line apart. */
#define WI_FAR_LINE (64 / sizeof(uint32_t))
enum { WI_FAR_BEGUN, WI_FAR_FILLED, WI_FAR_SENT, WI_FAR_ARRIVED, WI_FAR_WORDS };

/* Copies that come before one signal, or after one wait. */
typedef struct wi_far_batch {
    wi_copy_set *set; /* NULL: nothing to copy */
    int end;          /* messages of the round up to here */
} wi_far_batch;

/* One direction in one set. */
typedef struct wi_far_load {
    wi_remote_box *box;
    wi_copy_box *copy; /* between box and staging memory; width 0: none */
    int count;
    wi_far_batch *batch;
    int batches;
} wi_far_load;

struct wi_exchange_far {
    wi_remote *remote;
    bool host;  /* host backend: no stream, no staging */
    bool aware; /* MPI takes device pointers */
    char aware_reason[WHARF_MAX_REASON + 1];
    uint64_t piece; /* bytes of a message */
    wi_sync_how how;
    wi_far_load out[WHARF_MAX_EXCHANGE_SETS], in[WHARF_MAX_EXCHANGE_SETS];
    char *stage; /* sends, then receives; page-locked, or (aware) of the GPU */
    uint64_t stage_out, stage_in; /* bytes of each */
    uint32_t *words;
    uint32_t own_words[WI_FAR_WORDS * WI_FAR_LINE]; /* host backend */
    uint32_t base_out, base_in; /* messages of all rounds before this one */
    bool enqueued;              /* this round's finish is */
};

/* Is the transfer one that MPI carries? */
bool wi_far_is(const wi_exchange_item *item);

/* Cuts all boxes into messages, both sides of each alike. */
wharf_status wi_far_cut(wharf_exchange *x);

#endif
