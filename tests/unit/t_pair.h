/* SPDX-License-Identifier: MIT */
/*
 * Two processes, each with a device and a pad of memory that the other one has
 * mapped too: what tests of signals start from. Over the real driver or the
 * fake one; needs no MPI.
 */
#ifndef T_PAIR_H
#define T_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "device/driver.h"

/* Words of a pad lie 32 bytes apart; behind them is room for data. */
#define T_PAD_WORDS 1024
#define T_PAD_DATA ((size_t)T_PAD_WORDS * 32)

typedef struct t_pair {
    int rank;      /* 0 or 1 */
    bool together; /* both on one device */
    int socket;    /* to the other process */
    wi_device *device;
    char *mine; /* own pad */
    char *peer; /* the other's, as seen from here */
    CUstream stream;
    const wi_memory_ops *memory;
    wi_block *block[2]; /* own, the other's */
    wi_range range[2];
} t_pair;

static inline void *t_pad_word(char *pad, int word)
{
    return pad + (size_t)word * 32;
}

/*
 * Runs `body` in two new processes, on the first and the last device or, with
 * `together`, both on the first. The caller must not have used the driver.
 * False if there are not two devices to be apart on. Skips the test where
 * there is no device at all.
 */
bool t_pair_run(bool together, void (*body)(t_pair *));

/* Both processes have come here. */
void t_pair_meet(const t_pair *pair);

/* One word of the own pad, and setting it; and zeroing all of the pad. */
uint32_t t_pair_read(const t_pair *pair, int word);
void t_pair_write(const t_pair *pair, int word, uint32_t value);
void t_pair_clear(const t_pair *pair);

/* Waits for the own stream. */
void t_pair_finish(const t_pair *pair);

/* Capture of the own stream, and the calls on what came out. */
void t_pair_capture(const t_pair *pair);
CUgraphExec t_pair_captured(const t_pair *pair);
void t_pair_replay(const t_pair *pair, CUgraphExec graph, int times);
void t_pair_forget(CUgraphExec graph);

/* Is the driver the fake one? Fails the test if it complains. */
bool t_fake_fine(void);

#endif
