/* SPDX-License-Identifier: MIT */
/*
 * Copying and filling memory, as a stream does it: row by row, piece by piece,
 * each piece with the rights of the device.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* Over a broken link writes vanish and reads bring rubbish. */
static void move(fc_pin *to, fc_pin *from, const unsigned char *staged,
                 uint64_t bytes)
{
    if (to->lost)
        return;
    if (from->lost)
        memset(to->at, 0xdb, bytes);
    else
        memmove(to->at, staged ? staged : from->at, bytes);
}

static bool copy_row(int phys, uint64_t dst, uint64_t src,
                     const unsigned char *staged, uint64_t width)
{
    while (width) {
        fc_pin to, from = {.bytes = width};

        if (!fc_pin_get(&to, phys, dst, width, true, FC_COPY))
            return false;
        if (!staged && !fc_pin_get(&from, phys, src, width, false, FC_COPY)) {
            fc_pin_put(&to, false);
            return false;
        }
        uint64_t n = to.bytes < from.bytes ? to.bytes : from.bytes;
        move(&to, &from, staged, n);
        fc_pin_put(&from, false);
        fc_pin_put(&to, true);
        dst += n;
        src += n;
        staged = staged ? staged + n : NULL;
        width -= n;
    }
    return true;
}

void fc_copy_run(int phys, const fc_copy *c)
{
    const unsigned char *staged = c->staged;

    for (uint64_t z = 0; z < c->depth; z++)
        for (uint64_t y = 0; y < c->height; y++) {
            if (!copy_row(phys, c->dst + z * c->dst_slice + y * c->dst_pitch,
                          c->src + z * c->src_slice + y * c->src_pitch, staged,
                          c->width))
                return;
            staged = staged ? staged + c->width : NULL;
        }
}

static void fill(unsigned char *at, uint64_t bytes, uint64_t phase,
                 uint32_t value, uint32_t element)
{
    const unsigned char *pattern = (const unsigned char *)&value;

    if (element == 1 || value == 0) {
        memset(at, (int)(value & 0xff), bytes);
        return;
    }
    for (uint64_t i = 0; i < bytes; i++)
        at[i] = pattern[(phase + i) % element];
}

void fc_set_run(const fc_op *op)
{
    uint64_t row = op->u.set.width * op->u.set.element;

    for (uint64_t y = 0; y < op->u.set.height; y++) {
        uint64_t at = op->u.set.dst + y * op->u.set.pitch;

        for (uint64_t done = 0; done < row;) {
            fc_pin pin;

            if (!fc_pin_get(&pin, op->phys, at + done, row - done, true,
                            FC_COPY))
                return;
            uint64_t n = pin.bytes;
            if (!pin.lost)
                fill(pin.at, n, done, op->u.set.value, op->u.set.element);
            fc_pin_put(&pin, true);
            done += n;
        }
    }
}
