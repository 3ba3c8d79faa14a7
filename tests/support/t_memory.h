/* SPDX-License-Identifier: MIT */
/*
 * Memory of every kind that a program may have before it meets Wharf, for the
 * tests of wharf_buffer_attach_memory. Like t_device.h without the CUDA
 * toolkit: the driver is called at run time.
 */
#ifndef T_MEMORY_H
#define T_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include <wharf/wharf.h>

typedef enum t_kind {
    T_KIND_PLAIN = 0,    /* cuMemAlloc, at least 2 MiB */
    T_KIND_SMALL,        /* cuMemAlloc, shares a block with others */
    T_KIND_PIECES,       /* mapped physical pieces of several sizes */
    T_KIND_POOL,         /* of a pool with descriptors */
    T_KIND_HOST,         /* malloc */
    T_KIND_SHARED,       /* a shared mapping of a memfd */
    T_KIND_PINNED,       /* cuMemHostAlloc */
    T_KIND_REGISTERED,   /* malloc and cuMemHostRegister */
    T_KIND_MANAGED,      /* cuMemAllocManaged */
    T_KIND_ASYNC,        /* cuMemAllocAsync, the default pool */
    T_KIND_PRIVATE,      /* mapped physical pieces without descriptors */
    T_KIND_OTHER_DEVICE, /* cuMemAlloc on a GPU that is not this rank's */
    T_KINDS
} t_kind;

#define T_PIECES_MOST 256

typedef struct t_memory {
    t_kind kind;
    char *pointer; /* `offset` bytes into what was allocated */
    size_t bytes;
    char *base;
    size_t whole;
    int fd;
    size_t piece[T_PIECES_MOST]; /* of mapped pieces */
    int pieces;
    void *pool;
    void *context;
} t_memory;

const char *t_kind_name(t_kind kind);

/* Can this process have memory of the kind at all? */
bool t_kind_possible(const wharf_node *node, t_kind kind);

/* Does the CPU reach it as ordinary memory? */
bool t_kind_on_host(t_kind kind);

/* `bytes` of memory, `offset` bytes into an allocation that goes on behind them
 * for `rest` bytes. The whole of it holds 0x5b. */
t_memory t_memory_new(const wharf_node *node, t_kind kind, size_t offset,
                      size_t bytes, size_t rest);
/* Most pieces that mapped memory has from now on, at first 8. */
void t_memory_pieces(int most);

void t_memory_free(const wharf_node *node, t_memory *memory);

/* What t_device.h wants as its first argument for this memory. */
const wharf_node *t_memory_place(const wharf_node *node,
                                 const t_memory *memory);

/* The program opens another rank's memory for itself, by legacy handle. */
typedef struct t_handle {
    unsigned char bytes[64];
} t_handle;
t_handle t_memory_handle(const t_memory *memory);
void *t_handle_open(t_handle handle);
void t_handle_close(void *opened);

#endif
