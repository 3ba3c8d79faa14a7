/* SPDX-License-Identifier: MIT */
/*
 * The frame around every entry point, and the complaints about the caller.
 */
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

fc_global fc = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Set by tests before cuInit too, hence not in fc and not under its lock. */
static int expect_leaks, expect_faults;
static long violations, calls;
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_text[256];

static const char *const live_names[FC_L_KINDS] = {"contexts",
                                                   "allocations",
                                                   "handles",
                                                   "reservations",
                                                   "mappings",
                                                   "ipc_memory",
                                                   "ipc_events",
                                                   "streams",
                                                   "events",
                                                   "host_allocations",
                                                   "host_registrations",
                                                   "modules",
                                                   "libraries",
                                                   "graphs",
                                                   "graph_execs",
                                                   "pools"};

void *fc_zalloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);

    if (!p) {
        fprintf(stderr, "fake_cuda: out of host memory (%zu bytes)\n", bytes);
        abort();
    }
    return p;
}

uint64_t fc_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One line, one write: processes of a job share stderr. */
static void complain(const char *head, const char *format, va_list args)
{
    char text[256], line[360];

    vsnprintf(text, sizeof text, format, args);
    pthread_mutex_lock(&last_lock);
    memcpy(last_text, text, sizeof last_text);
    pthread_mutex_unlock(&last_lock);
    int n = snprintf(line, sizeof line, "fake_cuda: %s: %s (pid %d)\n", head,
                     text, (int)getpid());
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* nobody left to complain to */
}

void fc_violate(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    complain("violation", format, args);
    va_end(args);
    __atomic_add_fetch(&violations, 1, __ATOMIC_RELAXED);
    if (getenv("WHARF_FAKE_TRACE")) {
        void *frames[32];

        backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
    }
}

void fc_fault(const char *format, ...)
{
    bool wanted = __atomic_load_n(&expect_faults, __ATOMIC_RELAXED);
    va_list args;

    if (fc.ruined)
        return;
    fc.ruined = CUDA_ERROR_ILLEGAL_ADDRESS;
    va_start(args, format);
    complain(wanted ? "illegal access" : "violation: illegal access", format,
             args);
    va_end(args);
    if (!wanted)
        __atomic_add_fetch(&violations, 1, __ATOMIC_RELAXED);
}

void fc_live(fc_live_kind kind, int change)
{
    fc.live[kind] += change;
}

static CUresult begin_locked(const char *call, unsigned need, fc_ctx **ctx)
{
    if (!fc.inited)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (fc.deinited)
        return CUDA_ERROR_DEINITIALIZED;
    if (fc.ruined && !(need & FC_RUINED))
        return fc.ruined;
    fc_ctx *current = fc_ctx_current();
    if (ctx)
        *ctx = current;
    if ((need & FC_CTX) && !current) {
        if (!(need & FC_QUIET))
            fc_violate("%s without a current context", call);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (need & FC_UNSAFE)
        return fc_capture_guard(call);
    return CUDA_SUCCESS;
}

CUresult fc_begin(const char *call, unsigned need, fc_ctx **ctx)
{
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    pid_t owner = __atomic_load_n(&fc.pid, __ATOMIC_RELAXED);
    if (owner && owner != getpid())
        return CUDA_ERROR_NOT_INITIALIZED; /* a forked child: the lock may be
                                              held by a thread it lacks */
    pthread_mutex_lock(&fc.lock);
    CUresult r = begin_locked(call, need, ctx);
    if (r != CUDA_SUCCESS)
        pthread_mutex_unlock(&fc.lock);
    return r;
}

CUresult fc_end(CUresult result)
{
    pthread_mutex_unlock(&fc.lock);
    return result;
}

static void report_leaks(void)
{
    for (int k = 0; k < FC_L_KINDS; k++) {
        long left = fc.live[k] + fc.orphans[k];

        if (left > 0)
            fc_violate("leak at exit: %ld %s (%ld of them destroyed with "
                       "their context)",
                       left, live_names[k], fc.orphans[k]);
    }
}

/* Registered by cuInit: runs before what the program registered earlier, and
 * from then on the driver is gone, as with the real one. */
void fc_exit_hook(void)
{
    if (fc.pid != getpid())
        return;
    pthread_mutex_lock(&fc.lock);
    fc.deinited = true;
    if (!fc.ruined && !__atomic_load_n(&expect_leaks, __ATOMIC_RELAXED))
        report_leaks();
    fc_state_leave();
    pthread_mutex_unlock(&fc.lock);
}

/* Last of all, so that what happens after the exit hook counts too. */
__attribute__((destructor)) static void verdict(void)
{
    if (fc.pid != getpid() || fc.config.lenient)
        return;
    if (!__atomic_load_n(&violations, __ATOMIC_RELAXED))
        return;
    fflush(NULL);
    _exit(86);
}

/* ---- Controls ----------------------------------------------------------- */

void fakeCudaRuinContext(void)
{
    pthread_mutex_lock(&fc.lock);
    fc.ruined = CUDA_ERROR_ILLEGAL_ADDRESS;
    pthread_mutex_unlock(&fc.lock);
}

void fakeCudaExpectLeaks(void)
{
    __atomic_store_n(&expect_leaks, 1, __ATOMIC_RELAXED);
}

void fakeCudaExpectFaults(void)
{
    __atomic_store_n(&expect_faults, 1, __ATOMIC_RELAXED);
}

long fakeCudaViolations(void)
{
    return __atomic_load_n(&violations, __ATOMIC_RELAXED);
}

long fakeCudaTakeViolations(char *last, size_t bytes)
{
    pthread_mutex_lock(&last_lock);
    if (last && bytes)
        snprintf(last, bytes, "%s", last_text);
    last_text[0] = '\0';
    pthread_mutex_unlock(&last_lock);
    return __atomic_exchange_n(&violations, 0, __ATOMIC_RELAXED);
}

long fakeCudaLive(const char *kind)
{
    long sum = kind ? -1 : 0;

    pthread_mutex_lock(&fc.lock);
    for (int k = 0; k < FC_L_KINDS; k++)
        if (!kind)
            sum += fc.live[k];
        else if (!strcmp(kind, live_names[k]))
            sum = fc.live[k];
    pthread_mutex_unlock(&fc.lock);
    return sum;
}

long fakeCudaCalls(void)
{
    return __atomic_load_n(&calls, __ATOMIC_RELAXED);
}
