/* SPDX-License-Identifier: MIT */
/*
 * The private duplicate of a user's communicator, kept as an attribute of it,
 * and the notice that MPI ends.
 *
 * The attribute's value is the duplicate's handle itself, so that it needs no
 * memory that would outlive the last node.
 */
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "comm/private.h"

_Static_assert(sizeof(MPI_Comm) <= sizeof(void *),
               "a communicator's handle fits an attribute's value");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int keyval = MPI_KEYVAL_INVALID;
static int finalize_keyval = MPI_KEYVAL_INVALID;
static int kept; /* duplicates tied to communicators */
/* The delete callback, called in this thread, must not free. */
static _Thread_local bool forgetting;

/* Runs when the user frees the communicator, which is collective as freeing
 * the duplicate must be. In MPI_Finalize it is too late for that, and the
 * library takes the duplicate down itself. */
static int dup_delete(MPI_Comm user, int key, void *value, void *extra)
{
    MPI_Comm dup = MPI_COMM_NULL;

    (void)user, (void)key, (void)extra;
    memcpy(&dup, &value, sizeof dup);
    __atomic_sub_fetch(&kept, 1, __ATOMIC_RELAXED);
    if (forgetting || !wi_mpi_alive())
        return MPI_SUCCESS;
    return MPI_Comm_free(&dup);
}

static int finalize_delete(MPI_Comm self, int key, void *value, void *extra)
{
    (void)self, (void)key, (void)value, (void)extra;
    wi_registry_finalize();
    return MPI_SUCCESS;
}

static int dup_keyval(int *code)
{
    int key;

    *code = MPI_SUCCESS;
    pthread_mutex_lock(&lock);
    if (keyval == MPI_KEYVAL_INVALID)
        *code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, dup_delete,
                                       &keyval, NULL);
    key = keyval;
    pthread_mutex_unlock(&lock);
    return key;
}

wharf_status wi_dup_find(MPI_Comm user, MPI_Comm *dup)
{
    void *value = NULL;
    int code, found = 0;
    int key = dup_keyval(&code);

    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Comm_create_keyval");
    code = MPI_Comm_get_attr(user, key, &value, &found);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Comm_get_attr");
    *dup = MPI_COMM_NULL;
    if (found)
        memcpy(dup, &value, sizeof *dup);
    return WHARF_OK;
}

wharf_status wi_dup_keep(MPI_Comm user, MPI_Comm dup)
{
    void *value = NULL;
    int code;
    int key = dup_keyval(&code);

    if (code == MPI_SUCCESS) {
        memcpy(&value, &dup, sizeof dup);
        code = MPI_Comm_set_attr(user, key, value);
    }
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Comm_set_attr");
    __atomic_add_fetch(&kept, 1, __ATOMIC_RELAXED);
    return WHARF_OK;
}

void wi_dup_forget(MPI_Comm user)
{
    MPI_Comm dup = MPI_COMM_NULL;
    int code, key;

    if (wi_dup_find(user, &dup) != WHARF_OK || dup == MPI_COMM_NULL)
        return;
    key = dup_keyval(&code);
    forgetting = true;
    MPI_Comm_delete_attr(user, key);
    forgetting = false;
}

int wi_dup_count(void)
{
    return __atomic_load_n(&kept, __ATOMIC_RELAXED);
}

wharf_status wi_dup_watch_finalize(void)
{
    int code = MPI_SUCCESS;

    pthread_mutex_lock(&lock);
    if (finalize_keyval == MPI_KEYVAL_INVALID) {
        code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize_delete,
                                      &finalize_keyval, NULL);
        if (code == MPI_SUCCESS)
            code = MPI_Comm_set_attr(MPI_COMM_SELF, finalize_keyval, NULL);
    }
    pthread_mutex_unlock(&lock);
    return code == MPI_SUCCESS ? WHARF_OK
                               : wi_mpi_fail(code, "MPI_Comm_set_attr");
}
