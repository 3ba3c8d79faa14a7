/* SPDX-License-Identifier: MIT */
/*
 * What notifies and barriers are made of: words in every rank's memory that
 * streams signal through (pad.c), and the choice of how (mechanism.c).
 *
 * A word holds one of three things, never mixed:
 *   counts  a semaphore: signals add one, waits take one; needs atomics that
 *           reach the word, stands in a graph as it is
 *   epochs  a number that only grows, and wraps: signals write the next one,
 *           waits wait for it; needs writes only, but each use has a new value
 *   marks   1 set by a signal, 0 by the wait that saw it; needs writes only
 *           and constant values, but the next signal must not come before the
 *           wait is through (barrier_plan.h shows how)
 */
#ifndef WI_CORE_SIGNAL_H
#define WI_CORE_SIGNAL_H

#include "core/core.h"
#include "wharf/notify.h"

/* ---- Pads ---------------------------------------------------------------- */

/* Words lie a sector of the GPU's L2 cache apart, so that two pollers never
 * fetch the same one. */
#define WI_PAD_STRIDE 32
#define WI_PAD_WORDS 2048
#define WI_PAD_BYTES ((size_t)WI_PAD_STRIDE * WI_PAD_WORDS)

/*
 * Words of one rank: replicated, every rank takes and gives the same ones in
 * the same collective calls. The first user of a node, and whoever finds all
 * taken, makes 64 KiB a rank in an internal mapping.
 */
typedef struct wi_pad_run {
    int rank;  /* whose memory */
    int page;  /* which internal mapping, 0 up; -1: none */
    int first; /* word in the rank's part of it */
    int count;
} wi_pad_run;

/*
 * Collective: `runs` runs, rank and count given by the caller, all or none.
 * WHARF_ELIMIT beyond WI_PAD_WORDS for one run or WI_PAD_PAGES pages; what
 * an attach returns. Contents are what the last user left: see wi_pad_set.
 */
wharf_status wi_pad_take(wharf_node *node, int runs, wi_pad_run *run,
                         wi_deadline deadline);
/* Gives runs back; those that were not taken are skipped. */
void wi_pad_give(wharf_node *node, int runs, wi_pad_run *run);

/* Collective, after a create that failed: frees pages that nobody uses. Keeps
 * the error record. */
void wi_pad_trim(wharf_node *node, wi_deadline deadline);

/* Where a word is mapped on the calling rank. */
uint32_t *wi_pad_word(const wharf_node *node, const wi_pad_run *run, int word);

/* Owner: sets all words of a run; complete on return. Before the others may
 * use them there must be an agreement. */
wharf_status wi_pad_set(const wharf_node *node, const wi_pad_run *run,
                        uint32_t value);

/* Do the words of this node's pads lie in host memory? Without pads yet: will
 * they, as far as is known? */
bool wi_pad_on_host(const wharf_node *node);

/* Collective, at the end: frees all pages. */
void wi_pad_close(wharf_node *node, wi_deadline deadline);

/* ---- Mechanism ----------------------------------------------------------- */

/* What the choice for a signal from one rank to another depends on. */
typedef struct wi_signal_facts {
    bool host;          /* host backend */
    bool same_gpu;      /* both ranks use one GPU */
    bool mps;           /* under MPS: kernels of several processes together */
    bool native;        /* native atomics between the two GPUs */
    bool mem_ops_from;  /* the recorder's GPU can do memory operations */
    bool mem_ops_to;    /* the waiter's GPU can */
    bool words_on_host; /* pads lie in host memory */
} wi_signal_facts;

typedef struct wi_signal_way {
    wharf_mechanism mechanism; /* never AUTO */
    bool counts;               /* else epochs */
    bool slow;                 /* waits for time slices of the GPU */
    char reason[WHARF_MAX_REASON + 1];
} wi_signal_way;

/* Do atomics of the one reach the words of the other? */
bool wi_signal_atomics(const wi_signal_facts *facts);

/*
 * Pure. WHARF_EUNSUPPORTED (record filled) when `wanted` (AUTO: whatever is
 * best) is not possible or cannot be captured though `capturable` says so. The
 * host backend has one mechanism, whatever is wanted.
 */
wharf_status wi_signal_choose(const wi_signal_facts *facts,
                              wharf_mechanism wanted, bool capturable,
                              wi_signal_way *way);

/* The facts of a signal from rank `from` to rank `to`: the same on all ranks.
 */
void wi_signal_facts_find(const wharf_node *node, int from, int to,
                          wi_signal_facts *facts);

/* With what the environment asks for, where that is possible for the pair. */
void wi_signal_way_find(const wharf_node *node, int from, int to,
                        wi_signal_way *way);

/* The mechanism that options ask for, else the environment. */
wharf_mechanism wi_signal_wanted(const wharf_node *node,
                                 const wharf_notify_options *options);

/* Reads and checks the options of a create; `known` gets defaults and what the
 * caller set. */
wharf_status wi_signal_options(const wharf_notify_options *options,
                               wharf_notify_options *known);

/* One warning a node when a slow way has to be taken. */
void wi_signal_tell_slow(wharf_node *node, int from, int to,
                         const wi_signal_way *way);

/* How the devices seam does a mechanism of the CUDA backend. */
wi_sync_how wi_signal_how(wharf_mechanism mechanism);

/* First number of epochs; tests set it near the wrap, equally on all ranks. */
extern uint32_t wi_signal_first_epoch;

/* ---- At the end of a node ------------------------------------------------ */

/* Discards all notifies and barriers still there, each named in a warning.
 * Local: after a meeting of all ranks, or what is left of them. */
void wi_notify_close_all(wharf_node *node);
void wi_barrier_close_all(wharf_node *node);
void wi_exchange_close_all(wharf_node *node);

/*
 * As the device's quiesce: all work of this rank is complete. If that work
 * waits for a signal of a rank that is dead, or past the node's deadline, it is
 * let go without the signal (signal_rescue.c). Under node->collective.
 */
wharf_status wi_signal_quiesce(wharf_node *node);

/* The thread that watches meanwhile, from open to close; not on the host
 * backend, whose quiesce waits for nothing. */
wharf_status wi_rescue_start(wharf_node *node);
void wi_rescue_stop(wharf_node *node);

/* ---- Holding for a stream (stream.c) ------------------------------------- */

/* Can a stream of this process be waiting for another rank at all? Any thread,
 * at no cost. */
bool wi_stream_may_wait(const wharf_node *node);

/* Until all work of the stream so far is complete: WHARF_OK, WHARF_ETIMEDOUT,
 * WHARF_EPEER if a rank is dead. Not on the host backend, not capturing. */
wharf_status wi_stream_hold(const wharf_node *node, wharf_stream stream,
                            wi_deadline deadline);

#endif
