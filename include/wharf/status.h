/* SPDX-License-Identifier: MIT */
/*
 * What a Wharf call answers, and how to learn why.
 *
 *   if (wharf_buffer_attach(node, bytes, NULL, &buffer) != WHARF_OK)
 *       MPI_Abort(MPI_COMM_WORLD, 1);           stderr has the reason
 *
 * The rank on which a call failed writes one sentence to stderr, with cause and
 * remedy, unless WHARF_LOG=none; wharf_last_error gives it to every rank.
 *
 * Alike in all calls: an object that is NULL is WHARF_EARG; one that was given
 * back, or that belongs to the parent of a forked process, is WHARF_ESTATE.
 */
#ifndef WHARF_STATUS_H
#define WHARF_STATUS_H

#include "wharf/base.h"

/*
 * Every status: name, number, meaning. Numbers are never reused.
 *
 * The number says what is unusable afterwards (wharf_status_scope):
 *   1-19   only this call failed,
 *   20-39  the buffer (or event, ...) that was passed,
 *   40-59  the node, on all ranks: no collective call works any more but those
 *          that give back, up to wharf_node_close.
 */
#define WHARF_STATUS_LIST(X)                                                   \
    X(OK, 0, "success")                                                        \
    X(EARG, 1, "argument outside its documented range")                        \
    X(EMISMATCH, 2, "ranks passed different arguments to a collective call")   \
    X(ECONFIG, 3, "setting with an unusable value")                            \
    X(ESTATE, 4, "call not allowed in this state")                             \
    X(ENOMEM, 5, "host memory exhausted")                                      \
    X(EDEVMEM, 6, "device memory exhausted")                                   \
    X(ENODEV, 7, "no usable device")                                           \
    X(EUNSUPPORTED, 8, "not supported by this device, driver or system")       \
    X(EDEGRADED, 9, "only a slower path exists and strict mode refuses it")    \
    X(ELIMIT, 10, "a stated limit is reached")                                 \
    X(ETIMEDOUT, 11, "a rank did not come before the deadline")                \
    X(ENOTREADY, 12, "not complete yet")                                       \
    X(EOS, 13, "the operating system refused a call")                          \
    X(EDRIVER, 14, "the CUDA driver refused a call")                           \
    X(EMPI, 15, "the MPI library refused a call")                              \
    X(ECLOSED, 16, "the other end closed it and nothing is left")              \
    X(EWORKER, 17, "a worker process died")                                    \
    X(EDATA, 20, "data written by one rank does not arrive at another")        \
    X(EPEER, 40, "a rank of the node died or left")                            \
    X(EFAULT, 41, "a kernel fault ruined this process's CUDA context")         \
    X(EPROTOCOL, 42, "ranks run incompatible versions of Wharf")

typedef enum wharf_status {
#define WHARF_STATUS_ENUM(name, number, text) WHARF_##name = number,
    WHARF_STATUS_LIST(WHARF_STATUS_ENUM)
#undef WHARF_STATUS_ENUM
} wharf_status;

/* What a failed call leaves unusable. */
typedef enum wharf_scope {
    WHARF_SCOPE_NONE = 0,   /* the call succeeded */
    WHARF_SCOPE_CALL = 1,   /* nothing: only this call failed */
    WHARF_SCOPE_OBJECT = 2, /* the buffer or event that was passed */
    WHARF_SCOPE_NODE = 3    /* the node: close it on every rank */
} wharf_scope;

/* Whose error number wharf_error.native is. */
typedef enum wharf_source {
    WHARF_SOURCE_WHARF = 0, /* Wharf itself; native is 0 */
    WHARF_SOURCE_OS = 1,    /* errno */
    WHARF_SOURCE_CUDA = 2,  /* CUresult */
    WHARF_SOURCE_MPI = 3    /* MPI error class */
} wharf_source;

/* Most bytes of a record as a sentence (wharf_error_format), without its end.
 */
#define WHARF_MAX_ERROR_TEXT 511

/* Everything known about one failure. Plain data of fixed size, the same on
 * every rank after a collective call. */
typedef struct wharf_error {
    wharf_status status;
    wharf_source source;
    int native;       /* number of the failing native call, see source */
    int rank;         /* node rank where it happened, -1: unknown */
    char call[40];    /* the Wharf call, such as "wharf_buffer_attach" */
    char cause[208];  /* what went wrong, with names and values */
    char remedy[120]; /* what to do about it, may be empty */
} wharf_error;

WHARF_BEGIN_DECLS

/**
 * The name of a status, such as "WHARF_EARG".
 *
 * Local, any thread.
 *
 * @param status any value
 * @return a constant string; "WHARF_UNKNOWN" for a value outside the list
 */
WHARF_API const char *wharf_status_name(wharf_status status);

/**
 * The meaning of a status in one phrase, such as "no usable device".
 *
 * Local, any thread.
 *
 * @param status any value
 * @return a constant string; "unknown status" for a value outside the list
 */
WHARF_API const char *wharf_status_text(wharf_status status);

/**
 * What a status leaves unusable: nothing, the object, or the node.
 *
 * Local, any thread.
 *
 * @param status any value
 * @return the scope; WHARF_SCOPE_NODE for a value outside the list
 */
WHARF_API wharf_scope wharf_status_scope(wharf_status status);

/**
 * The record of this thread's last failed Wharf call.
 *
 * Local, any thread. A successful call leaves the record of an earlier failure
 * in place, and so do WHARF_ENOTREADY and WHARF_ECLOSED, which are answers and
 * not failures (that of wharf_join alone has a record of its own). After a
 * failed collective call every rank holds the same record: that of the lowest
 * rank that failed.
 *
 * @param[out] error the record, owned by the caller; status WHARF_OK and empty
 *                   strings if no call of this thread has failed yet.
 *                   NULL is ignored.
 * @return nothing
 */
WHARF_API void wharf_last_error(wharf_error *error);

/**
 * Writes a record as one sentence:
 * "rank 2: wharf_buffer_attach: WHARF_EARG: size -1 is negative; pass ...".
 *
 * Local, any thread.
 *
 * @param error      the record; NULL: the text is empty
 * @param[out] text  buffer of the caller, always terminated;
 *                   WHARF_MAX_ERROR_TEXT + 1 bytes hold every record
 * @param capacity   its size in bytes
 * @return text
 */
WHARF_API const char *wharf_error_format(const wharf_error *error, char *text,
                                         size_t capacity);

/* For the rare status that really does not matter (in a destructor, say). */
static inline void wharf_ignore(wharf_status status)
{
    (void)status;
}

WHARF_END_DECLS

#endif
