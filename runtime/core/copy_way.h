/* SPDX-License-Identifier: MIT */
/* The choice between copy engine, kernel and CPU: a pure function, and what it
 * is given. */
#ifndef WI_CORE_COPY_WAY_H
#define WI_CORE_COPY_WAY_H

#include "core/core.h"
#include "device/copy.h"
#include "wharf/copy.h"

/* WHARF_COPY, in the order of its values. */
typedef enum wi_copy_wanted {
    WI_COPY_WANTED_AUTO = 0,
    WI_COPY_WANTED_ENGINE = 1,
    WI_COPY_WANTED_KERNEL = 2
} wi_copy_wanted;

/* What the choice depends on, but for the box. */
typedef struct wi_copy_facts {
    bool host;              /* host backend */
    bool kernels;           /* the copy kernels run on this GPU */
    bool slices;            /* processes share it by time slices */
    bool notify;            /* a record follows */
    wi_copy_place to, from; /* where the two sides lie */
    int64_t wanted;         /* wi_copy_wanted */
    uint64_t wanted_most;   /* WHARF_COPY_KERNEL_MOST; 0: not set */
} wi_copy_facts;

/* Between what a copy with these facts goes. */
wharf_copy_between wi_copy_between(const wi_copy_facts *facts);

/* Most bytes in one piece that go by a kernel, as far as kernels reach. */
uint64_t wi_copy_kernel_most(const wi_copy_facts *facts,
                             wharf_copy_between between);

/* Pure. `simple`: of wi_copy_box_simple. reason: 96 bytes, or NULL. */
wharf_copy_way wi_copy_choose(const wi_copy_facts *facts,
                              const wi_copy_box *simple, char *reason);

/* The facts that are the node's; the sides' places are left to the caller. */
void wi_copy_facts_find(const wharf_node *node, bool notify,
                        wi_copy_facts *facts);

#endif
