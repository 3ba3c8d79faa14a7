/* SPDX-License-Identifier: MIT */
/*
 * In the place of a profiler: NVTX loads this library when the environment's
 * NVTX_INJECTION64_PATH names it, and lets it take over the functions that it
 * wants. It remembers what it is told; t_nvtx_events gives it out.
 */
#define _GNU_SOURCE
#include "t_nvtx.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
t_nvtx_list t_nvtx_events;

static t_nvtx_event events[T_NVTX_EVENTS];
static int used;

/* Each event has a place of its own; whoever reads has made sure that its
 * thread is not in the middle of one. */
static void note(t_nvtx_kind kind, int thread, const char *name)
{
    int at = __atomic_fetch_add(&used, 1, __ATOMIC_ACQ_REL);

    if (at >= T_NVTX_EVENTS)
        abort();
    events[at].kind = kind;
    events[at].thread = thread;
    snprintf(events[at].name, sizeof events[at].name, "%s", name);
}

const t_nvtx_event *t_nvtx_events(int *count)
{
    *count = __atomic_load_n(&used, __ATOMIC_ACQUIRE);
    return events;
}

/* Handles of domains point here. */
static char domains[1];

static nvtxDomainHandle_t domain_create(const char *name)
{
    note(T_NVTX_DOMAIN, gettid(), name);
    return (nvtxDomainHandle_t)(void *)domains;
}

static int range_push(nvtxDomainHandle_t domain,
                      const nvtxEventAttributes_t *what)
{
    if ((void *)domain != (void *)domains ||
        what->messageType != NVTX_MESSAGE_TYPE_ASCII)
        abort();
    note(T_NVTX_PUSH, gettid(), what->message.ascii);
    return 0;
}

static int range_pop(nvtxDomainHandle_t domain)
{
    if ((void *)domain != (void *)domains)
        abort();
    note(T_NVTX_POP, gettid(), "");
    return 0;
}

static void name_thread(uint32_t thread, const char *name)
{
    note(T_NVTX_THREAD, (int)thread, name);
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *table = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable core, core2;
    unsigned int size;

    if (table == NULL ||
        !table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) ||
        size <= NVTX_CBID_CORE_NameOsThreadA ||
        !table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &size) ||
        size <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *core[NVTX_CBID_CORE_NameOsThreadA] = (NvtxFunctionPointer)name_thread;
    *core2[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *core2[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)range_push;
    *core2[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)range_pop;
    return 1;
}
