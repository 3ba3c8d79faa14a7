/* SPDX-License-Identifier: MIT */
/*
 * Buffers by name, for programs outside the job: a viewer or an analysis that
 * looks at a running simulation, in place.
 *
 *     a rank of the job                     another program, without MPI
 *     wharf_buffer_publish(buffer,          wharf_join("field", NULL, &joined);
 *         "field", NULL);                   wharf_joined_buffer(joined, &b);
 *     ...                                   wharf_buffer_segment(b, rank, ...);
 *     wharf_buffer_detach(&buffer);         wharf_leave(&joined);
 *
 * "Without MPI" means that the joiner neither initialises it nor is launched by
 * it. These headers and the library name its types, so the joiner is compiled
 * and linked like a rank's program (mpicc).
 *
 * A joiner runs on the same machine, as the same user unless others are named,
 * and gets the memory for reading unless writing is offered. The job neither
 * waits for joiners nor does it notice them: what a joiner reads may be half
 * written. Where that matters, put a counter into the buffer, or hand over by
 * other means.
 *
 * Names live in the abstract namespace of Unix sockets: no file is made and
 * none is left behind. They are this user's own, in one network namespace:
 * a container with a network of its own does not see those of the host.
 *
 * A joiner that maps memory keeps it. If the buffer is detached, or its ranks
 * have ended, the memory is given back when the last joiner leaves; no later
 * buffer is laid into it meanwhile. Memory that comes by legacy CUDA handles
 * does not last so and is not published.
 *
 * How much "for reading" means: a joiner's store to host memory is a
 * segmentation fault, a kernel's store to GPU memory an illegal access. A
 * program that means to write finds no way where the memory is a memfd
 * (wharf_buffer_info.handle; host space with WHARF_HOST_MEMORY=memfd, the host
 * backend) and the program another user's. Memory that the CUDA driver made is
 * protected against mistakes alone. Against a hostile program of the same user
 * nothing protects: it may as well attach a debugger to the rank.
 */
#ifndef WHARF_JOIN_H
#define WHARF_JOIN_H

#include "wharf/base.h"
#include "wharf/buffer.h"
#include "wharf/node.h"
#include "wharf/status.h"

/* Most characters of a name, most bytes of a note, most joiners of one
 * published buffer at a time. */
#define WHARF_MAX_PUBLISHED_NAME 63
#define WHARF_MAX_NOTE 1023
#define WHARF_MAX_JOINERS 64

/** Options of wharf_buffer_publish. Start from WHARF_PUBLISH_OPTIONS_INIT. */
typedef struct wharf_publish_options {
    size_t struct_size;
    const char *note;     /* text for joiners, such as the shape of an array; up
                             to WHARF_MAX_NOTE bytes; NULL: none */
    const uint32_t *uids; /* users that may join, besides the caller's own */
    int uid_count;        /* of uids, 0 .. 64 */
    int writable;         /* 1: joiners that ask for it may write */
} wharf_publish_options;

#define WHARF_PUBLISH_OPTIONS_INIT                                             \
    {                                                                          \
        sizeof(wharf_publish_options), NULL, NULL, 0, 0                        \
    }

/* A published buffer, in a program that has joined it. */
typedef struct wharf_joined wharf_joined;

/* Of wharf_joined_options.uid: the caller's own. */
#define WHARF_OWN_UID UINT32_MAX

/** Options of wharf_join. Start from WHARF_JOINED_OPTIONS_INIT. */
typedef struct wharf_joined_options {
    size_t struct_size;
    uint32_t uid;   /* who publishes; WHARF_OWN_UID: the caller's user */
    int writable;   /* 1: map for writing, if the owner allows it */
    int wait_ms;    /* how long to wait for the name to appear, in ms; 0: not
                       at all */
    int timeout_ms; /* deadline once it is there, in ms; 0:
                       WHARF_TIMEOUT_MS */
    wharf_switch keep_current; /* on: leave the thread's current CUDA device;
                                  else WHARF_KEEP_CURRENT, else off */
} wharf_joined_options;

#define WHARF_JOINED_OPTIONS_INIT                                              \
    {                                                                          \
        sizeof(wharf_joined_options), WHARF_OWN_UID, 0, 0, 0,                  \
            WHARF_SWITCH_UNSET                                                 \
    }

WHARF_BEGIN_DECLS

/**
 * Publishes a buffer under a name, for programs outside the job.
 *
 * Local to any one rank, any thread; the other ranks are not asked. A thread of
 * the library answers joiners from then on, without the caller's help. All
 * segments are published, those of other ranks too. A buffer has at most one
 * name a rank. Ends with wharf_buffer_unpublish, with the detach, with the
 * node, or with the process.
 *
 * A buffer that is published, or that somebody ever joined, is not kept in the
 * pool when it is detached.
 *
 * @param buffer  a buffer of this rank's node
 * @param name    1 .. WHARF_MAX_PUBLISHED_NAME characters of
 *                A-Z a-z 0-9 . _ -
 * @param options NULL for defaults
 * @return WHARF_OK; WHARF_EARG (NULL, a name or option outside its range);
 *         WHARF_ESTATE (the name is taken on this machine, also by a forked
 *         child of a process that published it; the buffer is published
 *         already; or this process is a guest itself);
 *         WHARF_EUNSUPPORTED (memory of legacy handles, or of
 *         wharf_buffer_attach_memory; memory that this rank cannot pass on, see
 *         WHARF_LEND); WHARF_ENOMEM; WHARF_EOS; WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_buffer_publish(wharf_buffer *buffer, const char *name,
                     const wharf_publish_options *options);

/**
 * Takes a name back. Programs that have joined are told, and keep what they
 * have mapped until they leave; no other can join.
 *
 * Local to the rank that published, any thread.
 *
 * @param buffer an attached buffer
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (not published by this rank)
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_buffer_unpublish(wharf_buffer *buffer);

/**
 * How many programs have joined a buffer at this moment.
 *
 * Local to the rank that published, any thread.
 *
 * @param buffer an attached buffer
 * @param[out] count 0 .. WHARF_MAX_JOINERS; 0 also if it is not published
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_buffer_joiners(const wharf_buffer *buffer, int *count);

/**
 * Joins a published buffer: maps all its segments into this process.
 *
 * Local, any thread. Needs no MPI, neither initialised nor launched. Where the
 * memory is that of a GPU, opens that GPU and makes its primary context current
 * in the calling thread, unless keep_current is on. Programs that ask for no
 * more than they may are never refused for what others do, up to
 * WHARF_MAX_JOINERS.
 *
 * @param name    what the owner passed to wharf_buffer_publish
 * @param options NULL for defaults
 * @param[out] joined to be given to wharf_leave; untouched on failure
 * @return WHARF_OK; WHARF_EARG (NULL, name or option outside its range);
 *         WHARF_ENOTREADY (nothing is published under the name, also not
 *         within wait_ms);
 *         WHARF_EOS with native EACCES (the owner does not admit this user, or
 *         does not offer writing; or the name is held by a process of another
 *         user than asked for); WHARF_ELIMIT (too many have joined);
 *         WHARF_EPEER (the owner ended meanwhile); WHARF_ETIMEDOUT (it does
 *         not answer); WHARF_EPROTOCOL (another version of Wharf);
 *         WHARF_ENODEV (the GPU is not visible here); WHARF_ECONFIG;
 *         WHARF_EUNSUPPORTED, WHARF_EDRIVER, WHARF_EOS, WHARF_ENOMEM,
 *         WHARF_EDEVMEM
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_join(const char *name, const wharf_joined_options *options,
           wharf_joined **joined);

/**
 * Asks whether the buffer is still published.
 *
 * Local, any thread; cheap enough for every picture of a viewer. What was
 * mapped stays valid in every case, until wharf_leave.
 *
 * @param joined the joined buffer
 * @return WHARF_OK; WHARF_ESTATE (the owner has taken the name back, or has
 *         detached the buffer); WHARF_EPEER (the owner has ended without a
 *         word); WHARF_EARG
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_joined_check(wharf_joined *joined);

/**
 * The buffer, for all local calls: segment, base, info, pointer table, view.
 * Events, and what is collective, answer WHARF_ESTATE. Host memory that is
 * mapped for reading is for the CPU where the GPU cannot lock such pages.
 *
 * Local, any thread.
 *
 * @param joined the joined buffer
 * @param[out] buffer owned by joined, good until wharf_leave
 * @return as wharf_joined_check: after WHARF_ESTATE or WHARF_EPEER nothing was
 *         written
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_joined_buffer(wharf_joined *joined, wharf_buffer **buffer);

/**
 * The node of the ranks, for local questions: size, devices, links. Its rank is
 * that of the rank that published.
 *
 * Local, any thread.
 *
 * @param joined the joined buffer
 * @param[out] node owned by joined: not to be closed
 * @return as wharf_joined_check
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_joined_node(wharf_joined *joined,
                                                         wharf_node **node);

/**
 * What the owner wrote for joiners.
 *
 * Local, any thread.
 *
 * @param joined the joined buffer
 * @return a string owned by joined; "" for none, or if joined is not joined
 */
WHARF_API const char *wharf_joined_note(const wharf_joined *joined);

/**
 * Leaves: unmaps the buffer and gives all back. Pointers into it are invalid.
 *
 * Local; no other call may use joined at the same time.
 *
 * @param[in,out] joined set to NULL
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (left before, forked child)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_leave(wharf_joined **joined);

WHARF_END_DECLS

#endif
