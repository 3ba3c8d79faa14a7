/* SPDX-License-Identifier: MIT */
/*
 * Physical memory. Each process that creates memory on a device keeps one
 * memfd for that device, its arena; an allocation is a header followed by its
 * bytes, somewhere in the arena. A process that has the allocation maps that
 * part. So memory costs no descriptor, as with the real driver, and lives as
 * long as anybody maps it, whatever becomes of its creator.
 *
 * An exported descriptor is the arena opened once more, with its file offset
 * at the allocation. It carries a lock on the header's first byte, which the
 * kernel drops with the last copy of the descriptor, wherever that is: so the
 * creator knows whether memory that nobody maps may still be imported.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

#define HEADER_MAGIC 0x77686172666d656du

typedef struct piece {
    struct piece *next;
    uint64_t offset, bytes; /* with the header */
} piece;

typedef struct arena {
    int fd; /* -1: none yet */
    uint64_t end;
    piece *free;
    piece *pending; /* let go here, perhaps still held elsewhere */
} arena;

static arena arenas[FC_MAX_DEVICES + 1];
static bool arenas_ready;
static fc_phys *all;

_Static_assert(sizeof(fc_header) <= FC_HEADER, "header grew too large");

static arena *arena_of(int phys)
{
    if (!arenas_ready) {
        for (int i = 0; i <= FC_MAX_DEVICES; i++)
            arenas[i].fd = -1;
        arenas_ready = true;
    }
    return &arenas[phys < 0 ? FC_HOST_ARENA : phys];
}

int fc_phys_arena_fd(int phys)
{
    return arena_of(phys)->fd;
}

void fc_phys_lock(fc_header *header)
{
    if (pthread_mutex_lock(&header->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&header->lock);
}

void fc_phys_unlock(fc_header *header)
{
    pthread_mutex_unlock(&header->lock);
}

static int range_lock(int fd, int command, short type, uint64_t offset,
                      struct flock *l)
{
    *l = (struct flock){.l_type = type,
                        .l_whence = SEEK_SET,
                        .l_start = (off_t)offset,
                        .l_len = 1};
    return fcntl(fd, command, l);
}

/* ---- Openers ------------------------------------------------------------ */

bool fc_phys_open_elsewhere(fc_header *header, uint64_t serial, int *pid)
{
    bool found = false;

    fc_phys_lock(header);
    for (int i = 0; i < FC_OPENERS && !found; i++) {
        fc_opener *o = &header->opener[i];

        if (!o->pid || o->pid == fc.pid || (serial && o->sub != serial))
            continue;
        if (fc_process_alive(o->pid, o->start)) {
            *pid = o->pid;
            found = true;
        } else {
            memset(o, 0, sizeof *o);
        }
    }
    fc_phys_unlock(header);
    return found;
}

/* A killed process leaves its entries: where all are taken, one of those. */
static fc_opener *opener_of_dead(fc_header *header)
{
    for (int i = 0; i < FC_OPENERS; i++) {
        fc_opener *o = &header->opener[i];

        if (!fc_process_alive(o->pid, o->start)) {
            memset(o, 0, sizeof *o);
            return o;
        }
    }
    return NULL;
}

bool fc_phys_opener(fc_header *header, uint64_t serial, int change)
{
    fc_opener *slot = NULL;

    fc_phys_lock(header);
    for (int i = 0; i < FC_OPENERS; i++) {
        fc_opener *o = &header->opener[i];

        if (o->pid == fc.pid && o->start == fc.start && o->sub == serial) {
            slot = o;
            break;
        }
        if (!slot && !o->pid)
            slot = o;
    }
    if (!slot && change > 0)
        slot = opener_of_dead(header);
    if (slot && !slot->pid && change > 0) {
        slot->pid = fc.pid;
        slot->start = fc.start;
        slot->sub = serial;
        slot->count = 0;
    }
    if (slot && slot->pid) {
        slot->count += (uint32_t)change;
        if (!slot->count)
            memset(slot, 0, sizeof *slot);
    }
    fc_phys_unlock(header);
    return slot != NULL;
}

/* ---- Creating ----------------------------------------------------------- */

/* Takes back what nobody else has any more. */
static void arena_sweep(arena *a)
{
    for (piece **at = &a->pending; *at;) {
        piece *p = *at;
        struct flock l;
        int pid;
        fc_header *h = mmap(NULL, FC_HEADER, PROT_READ | PROT_WRITE, MAP_SHARED,
                            a->fd, (off_t)p->offset);
        bool held = h == MAP_FAILED || fc_phys_open_elsewhere(h, 0, &pid);

        if (!held && (range_lock(a->fd, F_OFD_GETLK, F_WRLCK, p->offset, &l) ||
                      l.l_type != F_UNLCK))
            held = true;
        if (h != MAP_FAILED) {
            if (!held)
                fc_ledger_drop(h->id);
            munmap(h, FC_HEADER);
        }
        if (held) {
            at = &p->next;
            continue;
        }
        fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)p->offset, (off_t)p->bytes);
        *at = p->next;
        p->next = a->free;
        a->free = p;
    }
}

static bool arena_place(arena *a, uint64_t bytes, uint64_t *offset)
{
    if (a->fd < 0) {
        a->fd = memfd_create("fake_cuda", MFD_CLOEXEC);
        if (a->fd < 0)
            return false;
    }
    arena_sweep(a);
    for (piece **at = &a->free; *at; at = &(*at)->next)
        if ((*at)->bytes == bytes) {
            piece *p = *at;

            *offset = p->offset;
            *at = p->next;
            free(p);
            return true;
        }
    if (ftruncate(a->fd, (off_t)(a->end + bytes)))
        return false;
    *offset = a->end;
    a->end += bytes;
    return true;
}

static void arena_return(arena *a, uint64_t offset, uint64_t bytes)
{
    piece *p = fc_zalloc(sizeof *p);

    p->offset = offset;
    p->bytes = bytes;
    p->next = a->pending;
    a->pending = p;
    arena_sweep(a);
}

static fc_phys *phys_map(int fd, uint64_t offset, uint64_t bytes)
{
    void *at = mmap(NULL, FC_HEADER + bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                    fd, (off_t)offset);

    if (at == MAP_FAILED)
        return NULL;
    fc_phys *p = fc_zalloc(sizeof *p);
    p->header = at;
    p->data = (unsigned char *)at + FC_HEADER;
    p->bytes = bytes;
    p->offset = offset;
    p->refs = 1;
    p->next = all;
    all = p;
    return p;
}

/* What was there before must not be mistaken for zeros: all of a small piece,
 * the head of each 64 KiB (2 MiB, when large) of others. */
static void poison(unsigned char *data, uint64_t bytes)
{
    uint64_t step = bytes > 64u << 20 ? 2u << 20 : 64u << 10;

    if (bytes <= 64u << 10) {
        memset(data, 0xfa, bytes);
        return;
    }
    for (uint64_t at = 0; at < bytes; at += step)
        memset(data + at, 0xfa, 256);
}

static void header_fill(fc_header *h, const fc_header *wanted, int phys,
                        const uint64_t id[2])
{
    pthread_mutexattr_t a;

    h->id[0] = id[0];
    h->id[1] = id[1];
    h->cookie = fc.cookie;
    h->bytes = wanted->bytes;
    h->phys = phys;
    h->numa = wanted->numa;
    h->legacy = wanted->legacy;
    h->handles = wanted->handles;
    h->location = wanted->location;
    h->pool = wanted->pool;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&h->lock, &a);
    pthread_mutexattr_destroy(&a);
    h->magic = HEADER_MAGIC;
}

CUresult fc_phys_new(int phys, const fc_header *wanted, fc_phys **made)
{
    uint64_t id[2] = {fc_random64(), fc_random64()};
    uint64_t bytes = (wanted->bytes + 4095) & ~(uint64_t)4095;
    arena *a = arena_of(phys);
    uint64_t offset;

    if (a->fd >= 0)
        arena_sweep(a); /* may free what the ledger still counts */
    CUresult r = fc_ledger_take(id, phys, wanted->bytes);
    if (r != CUDA_SUCCESS)
        return r;
    if (!arena_place(a, FC_HEADER + bytes, &offset)) {
        r = errno == EMFILE || errno == ENFILE ? CUDA_ERROR_OPERATING_SYSTEM
                                               : CUDA_ERROR_OUT_OF_MEMORY;
        goto undo_ledger;
    }
    fc_phys *p = phys_map(a->fd, offset, bytes);
    if (!p) {
        arena_return(a, offset, FC_HEADER + bytes);
        r = CUDA_ERROR_OUT_OF_MEMORY;
        goto undo_ledger;
    }
    p->phys = phys;
    p->bytes = wanted->bytes;
    p->creator = true;
    header_fill(p->header, wanted, phys, id);
    fc_phys_opener(p->header, 0, 1);
    poison(p->data, bytes);
    *made = p;
    return CUDA_SUCCESS;
undo_ledger:
    fc_ledger_drop(id);
    return r;
}

bool fc_phys_map_at(fc_phys *p, void *at, int prot)
{
    uint64_t bytes = (p->bytes + 4095) & ~(uint64_t)4095;

    /* A second mapping of the same pages, without a descriptor. By system call:
     * UCX, which MPICH brings along, puts a mremap of its own before the
     * library's that forgets where to. */
    void *got = (void *)syscall(SYS_mremap, p->data, 0, bytes,
                                MREMAP_MAYMOVE | MREMAP_FIXED, at);

    return got == at && !mprotect(got, bytes, prot);
}

/* ---- Passing on --------------------------------------------------------- */

CUresult fc_phys_export(fc_phys *p, int *fd)
{
    char path[40];
    struct flock l;

    if (!p->creator)
        return CUDA_ERROR_NOT_PERMITTED; /* imports are not passed on */
    snprintf(path, sizeof path, "/proc/self/fd/%d", arena_of(p->phys)->fd);
    int n = open(path, O_RDWR | O_CLOEXEC);
    if (n < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (lseek(n, (off_t)p->offset, SEEK_SET) < 0 ||
        range_lock(n, F_OFD_SETLK, F_RDLCK, p->offset, &l)) {
        close(n);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *fd = n;
    return CUDA_SUCCESS;
}

CUresult fc_phys_import(int fd, uint64_t offset, fc_phys **found)
{
    struct {
        uint64_t magic, id[2], cookie, bytes;
        int32_t phys;
    } head;
    struct stat st;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
        pread(fd, &head, sizeof head, (off_t)offset) != (ssize_t)sizeof head ||
        head.magic != HEADER_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    for (fc_phys *p = all; p; p = p->next)
        if (p->header->id[0] == head.id[0] && p->header->id[1] == head.id[1]) {
            p->refs++;
            *found = p;
            return CUDA_SUCCESS;
        }
    if (head.phys >= fc.config.gpus ||
        (head.phys >= 0 && fc.device[head.phys].denied))
        return CUDA_ERROR_OPERATING_SYSTEM;
    uint64_t bytes = (head.bytes + 4095) & ~(uint64_t)4095;
    if (offset + FC_HEADER + bytes > (uint64_t)st.st_size)
        return CUDA_ERROR_INVALID_VALUE;
    fc_phys *p = phys_map(fd, offset, bytes);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->phys = head.phys;
    p->bytes = head.bytes;
    if (!fc_phys_opener(p->header, 0, 1)) {
        fc_phys_unref(p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    fc_ledger_hold(head.id, head.phys, head.bytes);
    *found = p;
    return CUDA_SUCCESS;
}

void fc_phys_ref(fc_phys *p)
{
    p->refs++;
}

void fc_phys_unref(fc_phys *p)
{
    uint64_t bytes = (p->bytes + 4095) & ~(uint64_t)4095;
    int pid;

    if (--p->refs)
        return;
    for (fc_phys **at = &all; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    fc_phys_opener(p->header, 0, -1);
    /* While others have it, the ledger counts it for them; while only a
     * descriptor on its way has it, for its creator. */
    if (!p->creator || fc_phys_open_elsewhere(p->header, 0, &pid))
        fc_ledger_drop(p->header->id);
    munmap(p->header, FC_HEADER + bytes);
    if (p->creator)
        arena_return(arena_of(p->phys), p->offset, FC_HEADER + bytes);
    free(p);
}
