/* SPDX-License-Identifier: MIT */
/*
 * Which way a copy goes, and why: a pure function of size, shape and place,
 * over limits that were measured on two H200 with NVLink.
 *
 * Both ways at once with a signal, a kernel needs 5.6 us for 64 KiB, 8.3 for
 * 1 MiB, 17 for 4 MiB and 51 for 16 MiB where engine and signal take 8.0, 11,
 * 19.7 and 52.8; at 256 MiB the engine is ahead by 386 to 362 GB/s. Without a
 * signal the engine's pieces follow one another in 2.6 us (64 KiB), 5.0 us (1
 * MiB) and 46 us (16 MiB), so there it is ahead much earlier. Over PCIe it
 * reaches 55.5 GB/s, kernels 51 to 52.
 *
 * Small plain copies by kernels, 1.6 to 2.1 us of the GPU's time each, are
 * ahead of the engine's 2.2 to 2.5, and need no way from kernels to the engine
 * and back (some 8 us, derived from the exchange of 1 MiB by either); their
 * launch costs the host 1 us more.
 *
 * Within one GPU a kernel is ahead in everything up to 1 MiB: 1.4 to 1.8 us of
 * the GPU's time where the driver's copy takes 1.7 to 2.0, and 2.8 of the
 * host's to its 3.6. Where ranks share the GPU by time slices too: the driver's
 * copy waits for the same slice (0.4 to 2.4 ms beside a rank that computes).
 */
#include <stdio.h>

#include "base/error.h"
#include "core/copy_way.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1024) * 1024)

/* Most bytes of one piece that a kernel copies. */
static const struct {
    uint64_t plain, notify;
} limits[] = {
    [WHARF_COPY_ONE_GPU] = {1 * MIB, 16 * MIB},
    [WHARF_COPY_TWO_GPUS] = {256 * KIB, 16 * MIB},
    [WHARF_COPY_WITH_HOST] = {64 * KIB, 64 * KIB},
};

/* Rows below this are narrow: the engines then move little per row. */
#define NARROW_ROW (8 * KIB)

/* Source and destination that share no alignment of 4 bytes make a kernel copy
 * less than that at a time: not for long. */
#define MISALIGNED_MOST (64 * KIB)

static wharf_copy_way because(wharf_copy_way way, char *reason,
                              const char *text)
{
    if (reason)
        snprintf(reason, WHARF_MAX_REASON + 1, "%.95s", text);
    return way;
}

static bool is_host(wi_copy_place place)
{
    return place == WI_COPY_PLACE_HOST || place == WI_COPY_PLACE_PAGEABLE ||
           place == WI_COPY_PLACE_CPU;
}

wharf_copy_between wi_copy_between(const wi_copy_facts *f)
{
    if (is_host(f->to) || is_host(f->from))
        return WHARF_COPY_WITH_HOST;
    return f->to == WI_COPY_PLACE_DEVICE && f->from == WI_COPY_PLACE_DEVICE
               ? WHARF_COPY_ONE_GPU
               : WHARF_COPY_TWO_GPUS;
}

uint64_t wi_copy_kernel_most(const wi_copy_facts *f, wharf_copy_between between)
{
    if (f->host || !f->kernels || f->wanted == WI_COPY_WANTED_ENGINE)
        return 0;
    if (f->wanted == WI_COPY_WANTED_KERNEL)
        return UINT64_MAX;
    if (f->wanted_most)
        return f->wanted_most;
    if (f->slices && (f->notify || between != WHARF_COPY_ONE_GPU))
        return 0;
    return f->notify ? limits[between].notify : limits[between].plain;
}

/* Where kernels reach both sides and nothing was asked for. */
static wharf_copy_way choose_by_shape(const wi_copy_facts *f,
                                      const wi_copy_box *box, char *reason)
{
    wharf_copy_between between = wi_copy_between(f);
    uint64_t bytes = wi_copy_box_bytes(box);
    uint64_t most = wi_copy_kernel_most(f, between);

    if (box->rows > 1 && box->width < NARROW_ROW &&
        between != WHARF_COPY_WITH_HOST)
        return because(WHARF_COPY_KERNEL, reason, "rows below 8 KiB");
    if (bytes > most)
        return because(WHARF_COPY_ENGINE, reason,
                       f->slices && most == 0
                           ? "kernels of a GPU shared by time slices wait for "
                             "one another"
                           : "more bytes than a kernel copies faster");
    if (((uint64_t)box->to - (uint64_t)box->from) % 4 &&
        bytes > MISALIGNED_MOST)
        return because(WHARF_COPY_ENGINE, reason,
                       "source and destination are not aligned alike");
    return because(WHARF_COPY_KERNEL, reason,
                   f->notify ? "copy and signal are one launch" : "few bytes");
}

wharf_copy_way wi_copy_choose(const wi_copy_facts *f, const wi_copy_box *box,
                              char *reason)
{
    if (wi_copy_box_bytes(box) == 0)
        return because(WHARF_COPY_NOTHING, reason, "no bytes");
    if (f->host)
        return because(WHARF_COPY_HOST, reason, "host backend");
    if (f->to == WI_COPY_PLACE_PAGEABLE || f->from == WI_COPY_PLACE_PAGEABLE)
        return because(WHARF_COPY_ENGINE, reason,
                       "pageable memory on one side, staged by the driver");
    if (f->to == WI_COPY_PLACE_FAR || f->from == WI_COPY_PLACE_FAR)
        return because(WHARF_COPY_ENGINE, reason,
                       "kernels of this GPU do not reach one side");
    if (!f->kernels)
        return because(WHARF_COPY_ENGINE, reason,
                       "the copy kernels do not run on this GPU");
    if (f->wanted == WI_COPY_WANTED_ENGINE)
        return because(WHARF_COPY_ENGINE, reason, "WHARF_COPY=engine");
    if (f->wanted == WI_COPY_WANTED_KERNEL)
        return because(WHARF_COPY_KERNEL, reason, "WHARF_COPY=kernel");
    return choose_by_shape(f, box, reason);
}

void wi_copy_facts_find(const wharf_node *node, bool notify,
                        wi_copy_facts *facts)
{
    *facts = (wi_copy_facts){
        .host = node->backend == WHARF_BACKEND_HOST,
        .kernels = node->copy_kernels,
        .notify = notify,
        .wanted = node->settings.copy,
        .wanted_most = (uint64_t)node->settings.copy_kernel_most,
    };
    if (facts->host)
        return;
    int x = node->gpu_of_rank[node->rank], mates = 0;
    for (int r = 0; r < node->size; r++)
        mates += r != node->rank && node->gpu_of_rank[r] == x;
    facts->slices = mates > 0 && !(node->device->desc.caps & WI_CAP_MPS);
}

/* ---- Public queries
 * -------------------------------------------------------------- */

const char *wharf_copy_way_name(wharf_copy_way way)
{
    switch (way) {
    case WHARF_COPY_NOTHING:
        return "nothing";
    case WHARF_COPY_ENGINE:
        return "engine";
    case WHARF_COPY_KERNEL:
        return "kernel";
    case WHARF_COPY_HOST:
        return "host";
    }
    return "unknown";
}

wharf_status wharf_copy_kernel_most(const wharf_node *node,
                                    wharf_copy_between between, int notify,
                                    size_t *bytes)
{
    wharf_status status = wi_node_local(__func__, node);
    if (status == WHARF_OK &&
        ((int)between < 0 || between > WHARF_COPY_WITH_HOST))
        status = wi_fail(WHARF_EARG, "see wharf_copy_between", "between is %d",
                         (int)between);
    if (status == WHARF_OK && notify != 0 && notify != 1)
        status = wi_fail(WHARF_EARG, "pass 0 or 1", "notify is %d", notify);
    if (status == WHARF_OK && !bytes)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "bytes is NULL");
    if (status == WHARF_OK) {
        wi_copy_facts facts;
        wi_copy_facts_find(node, notify == 1, &facts);
        *bytes = wi_copy_kernel_most(&facts, between);
    }
    return wi_call_end(status);
}
