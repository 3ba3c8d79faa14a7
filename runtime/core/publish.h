/* SPDX-License-Identifier: MIT */
/*
 * Published buffers: what publish.c (the owner's thread) and join.c (the other
 * program) share. Over the offer of visit.h it is one question and one answer:
 *
 *   joiner                                  owner
 *   connect, who listens (SO_PEERCRED)      accept, who is it (SO_PEERCRED)
 *   question ---------------------------->
 *            <---------------------------- answer: admitted, or why not
 *            <---------------------------- the offer, if admitted
 *            <---------------------------- answer: revoked, some time later
 *
 * The connection stays: its end tells the owner that the joiner has left, and
 * the joiner that the owner has ended.
 */
#ifndef WI_CORE_PUBLISH_H
#define WI_CORE_PUBLISH_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "core/core.h"
#include "wharf/join.h"

/* "WHJN" */
#define WI_JOIN_MAGIC UINT32_C(0x4e4a4857)

typedef struct wi_join_question {
    uint32_t magic;
    uint32_t version; /* WHARF_VERSION_NUMBER */
    uint32_t writable;
    uint32_t pad;
} wi_join_question;

typedef enum wi_join_word {
    WI_JOIN_ADMITTED = 1,
    WI_JOIN_REFUSED = 2,
    WI_JOIN_REVOKED = 3
} wi_join_word;

typedef struct wi_join_answer {
    uint32_t magic;
    uint32_t word;   /* wi_join_word */
    int32_t status;  /* of a refusal */
    int32_t native;  /* errno of WHARF_EOS */
    char cause[160]; /* of a refusal */
    char note[WHARF_MAX_NOTE + 1];
} wi_join_answer;

/* WHARF_EARG for a name that is not one. */
wharf_status wi_join_check_name(const char *name);

/* The abstract address of a user's name; its length in bytes. */
socklen_t wi_join_address(uid_t uid, const char *name,
                          struct sockaddr_un *address);

/* Who is at the other end of a connected socket; of a joiner's socket: who
 * listens. */
wharf_status wi_join_peer(int socket, uid_t *uid, pid_t *pid);

/* One message of fixed size, non-blocking: WHARF_ENOTREADY when it must wait.
 * Receiving: WHARF_EPEER at the end of the connection, WHARF_EPROTOCOL for a
 * message of another size. No record with either, nor with ENOTREADY. */
wharf_status wi_join_send(int socket, const void *message, size_t bytes);
wharf_status wi_join_receive(int socket, void *message, size_t bytes);

/* ---- Owner --------------------------------------------------------------- */

typedef struct wi_publication wi_publication;

/* Ends a buffer's publication, if there is one: joiners are told. */
void wi_publish_end(wharf_buffer *buffer);

/* May programs outside the job still have the buffer mapped? Then its memory
 * must not become another buffer's. */
bool wi_publish_seen(wharf_buffer *buffer);

#endif
