/* SPDX-License-Identifier: MIT */
/* All of Wharf, in reading order. */
#ifndef WHARF_WHARF_H
#define WHARF_WHARF_H

#include "wharf/base.h"
#include "wharf/buffer.h"
#include "wharf/event.h"
#include "wharf/node.h"
#include "wharf/notify.h"
#include "wharf/stats.h"
#include "wharf/status.h"
#include "wharf/topo.h"
#include "wharf/view.h"

#endif
