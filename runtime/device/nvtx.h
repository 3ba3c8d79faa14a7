/* SPDX-License-Identifier: MIT */
/* Ranges by NVTX, which Nsight Systems and others show. */
#ifndef WI_DEVICE_NVTX_H
#define WI_DEVICE_NVTX_H

#include "base/trace.h"

/* NULL in a build that had no nvtx3/nvToolsExt.h. The tool's library is found
 * and loaded by NVTX itself, at the first range; without one nothing happens.
 */
const wi_trace_ops *wi_nvtx_ops(void);

#endif
