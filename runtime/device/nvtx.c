/* SPDX-License-Identifier: MIT */
/* NVTX 3 is headers alone: nothing is linked. Ranges are in a domain of their
 * own, "wharf", which a profiler can hide. */
#define _GNU_SOURCE
#include "device/nvtx.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <unistd.h>

static nvtxDomainHandle_t domain;
static pthread_once_t domain_once = PTHREAD_ONCE_INIT;

static void domain_make(void)
{
    domain = nvtxDomainCreateA("wharf");
}

static void push(const char *name)
{
    nvtxEventAttributes_t what = {0};

    what.version = NVTX_VERSION;
    what.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    what.messageType = NVTX_MESSAGE_TYPE_ASCII;
    what.message.ascii = name;
    nvtxDomainRangePushEx(domain, &what);
}

static void pop(void)
{
    nvtxDomainRangePop(domain);
}

static void name_thread(const char *name)
{
    nvtxNameOsThreadA((uint32_t)gettid(), name);
}

const wi_trace_ops *wi_nvtx_ops(void)
{
    static const wi_trace_ops ops = {push, pop, name_thread};

    pthread_once(&domain_once, domain_make);
    return &ops;
}
