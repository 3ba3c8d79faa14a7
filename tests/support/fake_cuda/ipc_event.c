/* SPDX-License-Identifier: MIT */
/*
 * Interprocess events: their state lies in a page of a memfd of the process
 * that made them; a handle says which process, descriptor and page.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

#define PAGE 4096u
#define HANDLE_MAGIC 0x77686576u
#define OPENERS 128

typedef struct event_page {
    fc_event_state state;
    uint64_t id; /* 0: destroyed */
    int32_t pid;
    uint64_t start;
    pthread_mutex_t lock; /* guards opener */
    struct {
        int32_t pid;
        uint32_t count;
        uint64_t start;
    } opener[OPENERS];
} event_page;

_Static_assert(sizeof(event_page) <= PAGE, "one page for each event");

typedef struct fc_ipc_event {
    event_page *page;
    uint32_t slot;
    bool imported;
} fc_ipc_event;

typedef struct event_handle {
    uint32_t magic;
    int32_t pid;
    uint64_t cookie;
    uint64_t id;
    int32_t fd;
    uint32_t slot;
} event_handle;

_Static_assert(sizeof(event_handle) <= sizeof(CUipcEventHandle), "handle");

static int pages_fd = -1;
static uint32_t page_count;
static uint32_t *free_pages;
static size_t free_count, free_room;

static void page_lock(event_page *page)
{
    if (pthread_mutex_lock(&page->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&page->lock);
}

static event_page *page_map(int fd, uint32_t slot)
{
    void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                    (off_t)slot * PAGE);

    return at == MAP_FAILED ? NULL : at;
}

static CUresult slot_take(uint32_t *slot)
{
    if (pages_fd < 0)
        pages_fd = memfd_create("fake_cuda_events", MFD_CLOEXEC);
    if (pages_fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (free_count) {
        *slot = free_pages[--free_count];
        return CUDA_SUCCESS;
    }
    if (ftruncate(pages_fd, (off_t)(page_count + 1) * PAGE))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *slot = page_count++;
    return CUDA_SUCCESS;
}

static void slot_give(uint32_t slot)
{
    if (free_count == free_room) {
        free_room = free_room ? free_room * 2 : 64;
        free_pages = realloc(free_pages, free_room * sizeof *free_pages);
        if (!free_pages)
            abort();
    }
    free_pages[free_count++] = slot;
}

CUresult fc_ipc_event_create(fc_ipc_event **ipc, fc_event_state **state)
{
    pthread_mutexattr_t a;
    uint32_t slot;
    CUresult r = slot_take(&slot);

    if (r != CUDA_SUCCESS)
        return r;
    event_page *page = page_map(pages_fd, slot);
    if (!page) {
        slot_give(slot);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memset(page, 0, sizeof *page);
    page->id = fc_random64() | 1;
    page->pid = fc.pid;
    page->start = fc.start;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&page->lock, &a);
    pthread_mutexattr_destroy(&a);
    *ipc = fc_zalloc(sizeof **ipc);
    (*ipc)->page = page;
    (*ipc)->slot = slot;
    *state = &page->state;
    return r;
}

static void opener_change(event_page *page, int change)
{
    int at = -1;

    page_lock(page);
    for (int i = 0; i < OPENERS; i++) {
        if (page->opener[i].pid == fc.pid &&
            page->opener[i].start == fc.start) {
            at = i;
            break;
        }
        if (at < 0 && !page->opener[i].pid)
            at = i;
    }
    if (at >= 0) {
        page->opener[at].pid = fc.pid;
        page->opener[at].start = fc.start;
        page->opener[at].count += (uint32_t)change;
        if (!page->opener[at].count)
            page->opener[at].pid = 0;
    }
    pthread_mutex_unlock(&page->lock);
}

static int opened_by(event_page *page)
{
    int pid = 0;

    page_lock(page);
    for (int i = 0; i < OPENERS && !pid; i++)
        if (page->opener[i].pid) {
            if (fc_process_alive(page->opener[i].pid, page->opener[i].start))
                pid = page->opener[i].pid;
            else
                page->opener[i].pid = 0;
        }
    pthread_mutex_unlock(&page->lock);
    return pid;
}

void fc_ipc_event_destroy(fc_ipc_event *ipc, bool imported)
{
    if (imported) {
        opener_change(ipc->page, -1);
        return;
    }
    int pid = opened_by(ipc->page);
    if (pid)
        fc_violate("cuEventDestroy: process %d still has the event open", pid);
    __atomic_store_n(&ipc->page->id, 0, __ATOMIC_SEQ_CST);
}

void fc_ipc_event_free(fc_ipc_event *ipc)
{
    /* A page that somebody has open is never used again. */
    bool reuse = !ipc->imported && !opened_by(ipc->page);

    munmap(ipc->page, PAGE);
    if (reuse)
        slot_give(ipc->slot);
    free(ipc);
}

bool fc_ipc_event_peer_alive(fc_ipc_event *ipc)
{
    return fc_process_alive(ipc->page->pid, ipc->page->start);
}

/* ---- Entry points ------------------------------------------------------- */

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    CUresult r = fc_begin(__func__, FC_CTX, NULL);
    event_handle h = {.magic = HANDLE_MAGIC};
    void *found;

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_EVENT, (uintptr_t)event, __func__, &found);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    fc_event *e = found;
    if (!handle || !e->ipc || e->imported)
        return fc_end(CUDA_ERROR_INVALID_HANDLE);
    h.pid = fc.pid;
    h.cookie = fc.cookie;
    h.id = e->ipc->page->id;
    h.fd = pages_fd;
    h.slot = e->ipc->slot;
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &h, sizeof h);
    return fc_end(r);
}

static CUresult handle_map(const event_handle *h, event_page **page)
{
    char path[48];
    struct stat st;

    if (h->magic != HANDLE_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE
                   ? CUDA_ERROR_OPERATING_SYSTEM
                   : CUDA_ERROR_INVALID_VALUE; /* its process is gone */
    *page = NULL;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) &&
        st.st_size >= (off_t)(h->slot + 1u) * PAGE)
        *page = page_map(fd, h->slot);
    close(fd);
    if (!*page)
        return CUDA_ERROR_INVALID_VALUE;
    if (__atomic_load_n(&(*page)->id, __ATOMIC_SEQ_CST) == h->id)
        return CUDA_SUCCESS;
    munmap(*page, PAGE);
    fc_violate("cuIpcOpenEventHandle: the event was destroyed");
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    event_handle h;
    event_page *page;
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(&h, &handle, sizeof h);
    if (fc.config.caps & FC_CAP_NO_IPC_EVENT)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    if (h.magic == HANDLE_MAGIC && h.cookie == fc.cookie) {
        fc_violate("%s: in the exporting process", __func__);
        return fc_end(CUDA_ERROR_INVALID_CONTEXT);
    }
    r = handle_map(&h, &page);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    opener_change(page, 1);
    fc_event *e =
        fc_event_new(ctx, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    e->imported = true;
    e->ipc = fc_zalloc(sizeof *e->ipc);
    e->ipc->page = page;
    e->ipc->slot = h.slot;
    e->ipc->imported = true;
    e->state = &page->state;
    e->handle = fc_handle_new(FC_K_EVENT, e);
    fc_live(FC_L_IPC_EVENT, 1);
    *event = (CUevent)(uintptr_t)e->handle;
    return fc_end(r);
}
