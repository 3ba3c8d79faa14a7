/* SPDX-License-Identifier: MIT */
/*
 * What the processes of a job share: who is alive, which physical memory is
 * held by whom, who has a context where. With WHARF_FAKE_STATE it lies in that
 * file; without, in this process alone, and then only its own memory counts.
 *
 * A process that was killed leaves its entries; whoever looks next finds that
 * it is gone and takes them out.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

#define STATE_MAGIC 0x77686661u
#define PROCS 256
#define LEDGER 8192
#define KERNEL_PF_EXITING 0x4u

typedef struct ledger_entry {
    uint64_t id[2];
    uint64_t bytes; /* 0: free */
    int32_t phys;
    int32_t pad;
    uint64_t holders[PROCS / 64];
} ledger_entry;

typedef struct shared_state {
    uint32_t magic;
    uint32_t bytes; /* of this struct, by the library that made it */
    uint32_t next;  /* where to look for a free entry first */
    pthread_mutex_t lock;
    struct {
        int32_t pid; /* 0: free */
        uint32_t contexts[FC_MAX_DEVICES];
        uint64_t start;
    } proc[PROCS];
    uint64_t used[FC_MAX_DEVICES];
    ledger_entry ledger[LEDGER];
} shared_state;

static shared_state *state;
static int me = -1;
static bool job_wide;

uint64_t fc_random64(void)
{
    uint64_t x = 0;

    if (getrandom(&x, sizeof x, 0) != (ssize_t)sizeof x)
        x = fc_now_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid();
    return x;
}

uint64_t fc_process_start(int pid, bool *zombie)
{
    char path[32], text[512];
    unsigned long long start = 0;
    unsigned flags = 0;
    char letter = 'Z';

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        *zombie = errno != EMFILE && errno != ENFILE;
        return 0;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    /* The name in parentheses may hold anything: count from its end. */
    const char *p = strrchr(text, ')');
    if (p)
        sscanf(p + 1,
               " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d "
               "%*d %*d %*d %*d %llu",
               &letter, &flags, &start);
    /* A process that is exiting has closed its sockets a moment before it is a
     * zombie, so others may know of its death by then. */
    *zombie = letter == 'Z' || letter == 'X' || flags & KERNEL_PF_EXITING;
    return start;
}

bool fc_process_alive(int pid, uint64_t start)
{
    bool zombie;

    if (pid == fc.pid)
        return start == fc.start;
    uint64_t now = fc_process_start(pid, &zombie);
    return !zombie && (now == start || now == 0);
}

static void state_lock(void)
{
    if (pthread_mutex_lock(&state->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&state->lock);
}

static void state_unlock(void)
{
    pthread_mutex_unlock(&state->lock);
}

static void lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t a;

    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &a);
    pthread_mutexattr_destroy(&a);
}

static void entry_unhold(ledger_entry *e, int proc)
{
    e->holders[proc / 64] &= ~(1ull << proc % 64);
    for (int i = 0; i < PROCS / 64; i++)
        if (e->holders[i])
            return;
    state->used[e->phys] -= e->bytes;
    e->bytes = 0;
}

static void proc_clear(int proc)
{
    for (int i = 0; i < LEDGER; i++) {
        ledger_entry *e = &state->ledger[i];

        if (e->bytes && e->holders[proc / 64] & 1ull << proc % 64)
            entry_unhold(e, proc);
    }
    memset(&state->proc[proc], 0, sizeof state->proc[proc]);
}

static void sweep(void)
{
    for (int i = 0; i < PROCS; i++)
        if (i != me && state->proc[i].pid &&
            !fc_process_alive(state->proc[i].pid, state->proc[i].start))
            proc_clear(i);
}

/* Is anybody in it? Otherwise it is left over from an earlier job, perhaps
 * from one that was killed while it held the lock. */
static bool in_use(void)
{
    if (state->magic != STATE_MAGIC || state->bytes != sizeof *state)
        return false;
    for (int i = 0; i < PROCS; i++)
        if (state->proc[i].pid &&
            fc_process_alive(state->proc[i].pid, state->proc[i].start))
            return true;
    return false;
}

static CUresult take_seat(void)
{
    if (!in_use()) {
        memset(state, 0, sizeof *state);
        lock_init(&state->lock);
        state->bytes = sizeof *state;
        state->magic = STATE_MAGIC;
    }
    state_lock();
    sweep();
    for (int i = 0; i < PROCS && me < 0; i++)
        if (!state->proc[i].pid)
            me = i;
    if (me >= 0) {
        state->proc[me].pid = fc.pid;
        state->proc[me].start = fc.start;
    }
    state_unlock();
    return me < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static CUresult map_file(int fd)
{
    struct stat st;

    if (fstat(fd, &st))
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (st.st_size < (off_t)sizeof *state &&
        ftruncate(fd, (off_t)sizeof *state))
        return CUDA_ERROR_OPERATING_SYSTEM;
    state =
        mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (state != MAP_FAILED)
        return CUDA_SUCCESS;
    state = NULL;
    return CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult open_shared(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0) {
        fprintf(stderr, "fake_cuda: WHARF_FAKE_STATE: %s: %s\n", path,
                strerror(errno));
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    flock(fd, LOCK_EX);
    CUresult r = map_file(fd);
    if (r == CUDA_SUCCESS)
        r = take_seat();
    flock(fd, LOCK_UN); /* by name: the mapping keeps the file open */
    close(fd);
    job_wide = true;
    return r;
}

CUresult fc_state_open(const char *path)
{
    if (path && *path)
        return open_shared(path);
    state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED) {
        state = NULL;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return take_seat();
}

void fc_state_leave(void)
{
    if (!state || me < 0)
        return;
    state_lock();
    proc_clear(me);
    me = -1;
    state_unlock();
}

static ledger_entry *entry_find(const uint64_t id[2])
{
    for (int i = 0; i < LEDGER; i++) {
        ledger_entry *e = &state->ledger[i];

        if (e->bytes && e->id[0] == id[0] && e->id[1] == id[1])
            return e;
    }
    return NULL;
}

static bool entry_add(const uint64_t id[2], int phys, uint64_t bytes)
{
    for (uint32_t n = 0; n < LEDGER; n++) {
        ledger_entry *e = &state->ledger[(state->next + n) % LEDGER];

        if (e->bytes)
            continue;
        memset(e, 0, sizeof *e);
        e->id[0] = id[0];
        e->id[1] = id[1];
        e->phys = phys;
        e->bytes = bytes;
        e->holders[me / 64] |= 1ull << me % 64;
        state->used[phys] += bytes;
        state->next = (state->next + n + 1) % LEDGER;
        return true;
    }
    return false;
}

CUresult fc_ledger_take(const uint64_t id[2], int phys, uint64_t bytes)
{
    CUresult r = CUDA_SUCCESS;

    if (phys < 0 || me < 0)
        return r; /* host memory is not counted */
    state_lock();
    if (state->used[phys] + bytes > fc.config.memory)
        sweep();
    if (state->used[phys] + bytes > fc.config.memory ||
        !entry_add(id, phys, bytes))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    state_unlock();
    return r;
}

void fc_ledger_hold(const uint64_t id[2], int phys, uint64_t bytes)
{
    if (phys < 0 || me < 0 || !job_wide)
        return;
    state_lock();
    ledger_entry *e = entry_find(id);
    if (e)
        e->holders[me / 64] |= 1ull << me % 64;
    else
        (void)entry_add(id, phys, bytes); /* its maker died meanwhile */
    state_unlock();
}

void fc_ledger_drop(const uint64_t id[2])
{
    if (me < 0)
        return;
    state_lock();
    ledger_entry *e = entry_find(id);
    if (e)
        entry_unhold(e, me);
    state_unlock();
}

uint64_t fc_ledger_used(int phys)
{
    state_lock();
    sweep();
    uint64_t used = state->used[phys];
    state_unlock();
    return used;
}

bool fc_state_context(int phys, int change)
{
    bool alone = fc.config.caps & FC_CAP_EXCLUSIVE;
    bool fine = true;

    if (me < 0)
        return true;
    state_lock();
    if (change > 0 && alone && !(fc.config.caps & FC_CAP_MPS)) {
        sweep();
        for (int i = 0; i < PROCS; i++)
            if (i != me && state->proc[i].contexts[phys])
                fine = false;
    }
    if (fine)
        state->proc[me].contexts[phys] += (uint32_t)change;
    state_unlock();
    return fine;
}

int fc_state_contexts(int phys)
{
    int n = 0;

    state_lock();
    sweep();
    for (int i = 0; i < PROCS; i++)
        n += state->proc[i].contexts[phys] > 0;
    state_unlock();
    return n;
}

int fakeCudaContexts(int ordinal)
{
    int n = -1;

    if (fc_begin("fakeCudaContexts", FC_RUINED, NULL) != CUDA_SUCCESS)
        return -1;
    if (ordinal >= 0 && ordinal < fc.visible_count)
        n = fc_state_contexts(fc.visible[ordinal]);
    fc_end(CUDA_SUCCESS);
    return n;
}
