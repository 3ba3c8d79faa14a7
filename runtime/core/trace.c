/* SPDX-License-Identifier: MIT */
/* WHARF_TRACE: decided once, by the first call that can meet other processes.
 */
#include <pthread.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "base/trace.h"
#include "core/core.h"
#include "device/nvtx.h"

/* A bad value is no failure here: opening a node refuses it. */
static void decide(void)
{
    wharf_error kept = *wi_error_record();
    int64_t wanted = 0;
    const wi_trace_ops *ops = NULL;

    if (wi_config_number(WI_SETTING_TRACE, &wanted, NULL) != WHARF_OK)
        wanted = 0;
    *wi_error_record() = kept;
    if (!wanted)
        return;
    ops = wi_nvtx_ops();
    if (ops)
        wi_trace_start(ops);
    else
        wi_log(WI_LOG_WARN,
               "WHARF_TRACE is \"nvtx\", but this build has no "
               "NVTX: its header nvtx3/nvToolsExt.h was not found");
}

void wi_trace_decide(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, decide);
}
