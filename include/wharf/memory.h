/* SPDX-License-Identifier: MIT */
/*
 * Sharing memory that already exists: arrays of cudaMalloc, of a framework's
 * pool, of the program's own heap.
 *
 *     cudaMalloc(&field, bytes);
 *     wharf_buffer_attach_memory(node, field, bytes, NULL, &buffer);
 *     wharf_buffer_segment(buffer, peer, &theirs, &size);
 *     ...
 *     wharf_buffer_detach(&buffer);
 *     cudaFree(field);
 *
 * What is shared directly, without a copy (each rank may pass another kind):
 *
 *   cudaMalloc, any pointer into it   by legacy handle. It opens the whole
 *                                     allocation, and whole 2 MiB blocks of
 *                                     the driver, so memory of an allocation
 *                                     below 2 MiB needs
 *                                     WHARF_BUFFER_EXPOSE_NEIGHBOURS
 *   cuMemMap ranges, also of many     if the pieces were created with POSIX
 *   pieces and parts of them          descriptors (PyTorch's expandable
 *                                     segments are)
 *   pools (cudaMallocFromPoolAsync)   if the pool was created with POSIX
 *                                     descriptors
 *
 * Everything else - host memory of any sort, managed memory, the default pool,
 * memory of another GPU - cannot be opened by another process. It is refused by
 * its name, with what to do, or, with WHARF_BUFFER_STAGE_ALLOWED, mirrored: the
 * other ranks see a copy in shared host memory, which wharf_buffer_sync_to and
 * wharf_buffer_sync_from bring up to date. On the host backend every segment is
 * a mirror, so that STAGE_ALLOWED is always needed there.
 *
 *     options.flags = WHARF_BUFFER_STAGE_ALLOWED;
 *     wharf_buffer_attach_memory(node, field, bytes, &options, &buffer);
 *     ...                                         the owner writes its field
 *     wharf_buffer_sync_to(buffer, 0, 0, stream); then an event or a barrier:
 *                                                 others see it
 *     ...                                         others write, a barrier
 *     wharf_buffer_sync_from(buffer, 0, 0, stream);
 *
 * Puts of other ranks (copy.h) go into the mirror, and are seen by its owner
 * after a wharf_buffer_sync_from of just those bytes: the owner's own puts, and
 * all else that it wrote, are in its memory and would be overwritten. For the
 * same reason receive boxes of an exchange (exchange.h) do not belong in
 * mirrored memory: what others send lands in the mirror, what a rank sends to
 * itself in its memory.
 *
 * Such a buffer has events, information and a detach like any other. It is
 * never pooled, cannot be lent to workers nor published. wharf_buffer_base
 * works if one rank alone has memory in it.
 */
#ifndef WHARF_MEMORY_H
#define WHARF_MEMORY_H

#include "wharf/base.h"
#include "wharf/buffer.h"
#include "wharf/node.h"
#include "wharf/status.h"

WHARF_BEGIN_DECLS

/**
 * Attaches memory that the caller has already: a buffer whose segments are
 * those pieces of memory.
 *
 * Collective on node. The memory stays the caller's: Wharf never writes to it
 * nor frees it. It must not be freed before wharf_buffer_detach has returned on
 * this rank, and must not be written while this call runs: work that the caller
 * has issued to its GPU is waited for, and a few words of every segment are
 * read by its rank and by all others and compared. A mirror starts as a copy of
 * the memory.
 *
 * The same allocation may be attached several times and in parts. What an
 * allocation is goes by the driver's number for it, not by its address, so
 * memory freed and allocated again is another allocation. The application, MPI
 * and other libraries may open the same memory for themselves, before and
 * after. A segment of a Wharf buffer is refused: it is shared already.
 *
 * Flags: WHARF_BUFFER_STAGE_ALLOWED; WHARF_BUFFER_EXPOSE_NEIGHBOURS;
 * WHARF_BUFFER_READ_ONLY, which legacy handles and pools do not have. The
 * others speak of memory that Wharf allocates and are refused by name.
 * options.space is not looked at.
 *
 * @param node    an open node
 * @param pointer start of the caller's memory, on its own GPU unless it is to
 *                be mirrored; any alignment; not looked at if size is 0
 * @param size    bytes, may be 0 and differ by rank
 * @param options NULL for defaults; the same on all ranks
 * @param[out] buffer to be given to wharf_buffer_detach; wharf_buffer_segment
 *                    gives the caller's own pointer for its own rank. Untouched
 *                    on failure
 * @return WHARF_OK; WHARF_EARG (NULL, no memory there or freed, size beyond the
 *         allocation, a flag that is not for existing memory, a segment of a
 *         Wharf buffer); WHARF_EUNSUPPORTED (memory of this kind cannot be
 *         shared, and STAGE_ALLOWED was not given; two GPUs do not reach each
 *         other); WHARF_EDEGRADED (strict: memory that could be shared directly
 *         would have to be mirrored); WHARF_EMISMATCH; WHARF_ESTATE;
 *         WHARF_ENOMEM; WHARF_EDEVMEM; WHARF_ELIMIT; WHARF_EDATA;
 *         WHARF_EDRIVER, WHARF_EOS; WHARF_ETIMEDOUT; WHARF_EPEER, WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_buffer_attach_memory(
    wharf_node *node, void *pointer, size_t size,
    const wharf_buffer_options *options, wharf_buffer **buffer);

/**
 * Copies a part of the caller's memory to its mirror, where the other ranks
 * see it. Nothing to do, and WHARF_OK, where the memory is shared directly.
 *
 * Local, any thread. Ordered in the stream: record an event behind it, and wait
 * for that event before reading the mirror. Where the memory is ordinary
 * (pageable) host memory the call waits for the stream and is complete on
 * return, as it is on the host backend.
 *
 * @param buffer a buffer of wharf_buffer_attach_memory
 * @param offset first byte, from the start of the caller's segment
 * @param bytes  how many; 0: up to the end of the segment
 * @param stream a stream of the caller's GPU, NULL for its default stream
 * @return WHARF_OK; WHARF_EARG (beyond the segment, stream of another device);
 *         WHARF_ESTATE (no such buffer, or not of attach_memory);
 *         WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_buffer_sync_to(
    wharf_buffer *buffer, size_t offset, size_t bytes, wharf_stream stream);

/**
 * Copies a part of the mirror into the caller's memory: what other ranks wrote
 * there arrives. Nothing to do, and WHARF_OK, where the memory is shared
 * directly.
 *
 * Local, any thread. As wharf_buffer_sync_to, the other way. WHARF_EUNSUPPORTED
 * if the memory is mapped read-only in the caller's process.
 *
 * @param buffer a buffer of wharf_buffer_attach_memory
 * @param offset first byte, from the start of the caller's segment
 * @param bytes  how many; 0: up to the end of the segment
 * @param stream a stream of the caller's GPU, NULL for its default stream
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_EUNSUPPORTED;
 *         WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_buffer_sync_from(
    wharf_buffer *buffer, size_t offset, size_t bytes, wharf_stream stream);

WHARF_END_DECLS

#endif
