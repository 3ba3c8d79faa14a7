/* SPDX-License-Identifier: MIT */
/*
 * What an offer looks like on its way, shared by the visit files and offer.c.
 *
 * The description is one run of bytes: a head, the node's arrays, then each
 * buffer with its arrays, every part padded to 8 bytes. Descriptors come in the
 * order of the handles. Both travel in pieces, one message each.
 */
#ifndef WI_CORE_VISIT_WIRE_H
#define WI_CORE_VISIT_WIRE_H

#include "core/visit.h"

/* "WHVI"; the rest of a description is this library version's own. */
#define WI_VISIT_MAGIC UINT32_C(0x49564857)

/* What a guest takes at most: bytes of one description, descriptors of one
 * offer, buffers of one node. */
#define WI_VISIT_BYTES ((size_t)64 << 20)
#define WI_VISIT_FDS 65536
#define WI_VISIT_BUFFERS WHARF_MAX_BUFFERS

typedef struct wi_wire_head {
    uint32_t magic;
    uint32_t version; /* WHARF_VERSION_NUMBER */
    uint64_t node;    /* the same in all offers of one node, and no other's */
    int32_t rank, size, gpus, backend;
    int32_t buffers, fds;
    int64_t timeout_ms;
    char backend_reason[192];
    /* gpus of wi_gpu, gpus * gpus of wi_peer, size of int32_t (GPU of each
     * rank), size of wi_topo_line */
} wi_wire_head;

typedef struct wi_wire_buffer {
    uint64_t serial;
    uint64_t base; /* address in the lender; 0: none */
    uint64_t bytes;
    uint32_t kind, space, flags;
    int32_t blocks;
    int32_t same_address, pooled, read_only;
    char name[32];
    char reason[WHARF_MAX_REASON + 1];
    /* size of uint64_t (sizes), size of uint64_t (offsets), size of int32_t
     * (block of each rank), blocks of wi_wire_block */
} wi_wire_buffer;

typedef struct wi_wire_block {
    int32_t owner, place, sole_rank;
    uint32_t pad;
    uint64_t offset, bytes;
    wi_handle handle;
} wi_wire_block;

/* A description and its descriptors. */
typedef struct wi_bundle {
    unsigned char *bytes;
    size_t length, room;
    int *fds;
    int count;
    size_t fd_room;
} wi_bundle;

/* Appends a part, or a descriptor, which is then the bundle's. */
wharf_status wi_bundle_put(wi_bundle *bundle, const void *part, size_t bytes);
wharf_status wi_bundle_put_fd(wi_bundle *bundle, int fd);
/* Closes and frees what is in it; it is empty then. */
void wi_bundle_clear(wi_bundle *bundle);

/* Over a connected SOCK_SEQPACKET socket; as wi_offer_send and wi_visit_begin
 * say. Receiving fills an empty bundle. */
wharf_status wi_bundle_send(const wi_bundle *bundle, int socket,
                            wi_deadline deadline);
wharf_status wi_bundle_send_on(const wi_bundle *bundle, int socket,
                               wi_sending *sending);
wharf_status wi_bundle_receive(wi_bundle *bundle, int socket,
                               wi_deadline deadline);

/* Where reading has got to. */
typedef struct wi_bundle_cursor {
    wi_bundle *bundle;
    size_t at;
    int fd; /* the next one that a handle takes */
} wi_bundle_cursor;

/* Copies the next `count` elements out. WHARF_EPROTOCOL at the end. */
wharf_status wi_bundle_take(wi_bundle_cursor *cursor, void *to, size_t each,
                            size_t count);

/* Makes a node from the head's part of a description (visit_node.c): everything
 * but its device and buffers. */
wharf_status wi_visit_read_node(wi_bundle_cursor *cursor,
                                const wi_wire_head *head, wharf_node *node);

/* The way of a kind of memory in a guest, found when it is first asked for;
 * NULL: this process cannot map it. */
const wi_way *wi_visit_way(wharf_node *node, wharf_handle_kind kind);

/* Maps one buffer of a description and links it into the node
 * (visit_buffer.c). */
wharf_status wi_visit_read_buffer(wi_bundle_cursor *cursor, wharf_node *node,
                                  bool read_only, wharf_buffer **buffer);
void wi_visit_drop_buffer(wharf_buffer *buffer);

#endif
