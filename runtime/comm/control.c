/* SPDX-License-Identifier: MIT */
/*
 * The control block: a memfd that all ranks of a node map. Its layout is
 * header, one slot a rank, then, from a page boundary on, the caller's bytes.
 * Nothing of it has a name, so nothing is left when the job is killed.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/futex.h"
#include "base/sys.h"
#include "comm/private.h"

/* Far beyond any use; keeps the sums below from wrapping. */
#define SHARED_MOST ((size_t)1 << 40)

static size_t page_round(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

wharf_status wi_control_layout(int size, size_t shared_bytes, size_t *bytes,
                               size_t *shared_offset)
{
    size_t slots = (size_t)size * sizeof(wi_slot);

    if (shared_bytes > SHARED_MOST)
        return wi_fail(WHARF_ELIMIT, NULL,
                       "%zu bytes of shared state are more than %zu",
                       shared_bytes, SHARED_MOST);
    *shared_offset = page_round(sizeof(wi_control) + slots);
    *bytes = *shared_offset + page_round(shared_bytes);
    return WHARF_OK;
}

wharf_status wi_control_create(wi_comm *comm, int *fd)
{
    void *pointer = NULL;
    wi_control *control;
    wharf_status status;
    int made = -1;

    status = wi_sys_memfd("wharf-control", comm->control_bytes, &made);
    if (status != WHARF_OK)
        return status;
    status = wi_sys_map(made, 0, sizeof *control, PROT_READ | PROT_WRITE, NULL,
                        &pointer);
    if (status != WHARF_OK) {
        wi_sys_close(&made);
        return status;
    }
    control = pointer;
    control->magic = WI_COMM_MAGIC;
    control->protocol = WI_COMM_PROTOCOL;
    control->size = (uint32_t)comm->size;
    wi_sys_unmap(pointer, sizeof *control);
    *fd = made;
    return WHARF_OK;
}

/* The lock needs a description of this rank's own. Without /proc there is
 * none; then deaths are seen by pid or by the deadline only. */
static wharf_status control_lock(wi_comm *comm, int fd)
{
    wharf_status status = wi_sys_reopen(fd, &comm->lock_fd);
    wi_presence presence = WI_PRESENT;

    if (status != WHARF_OK && wi_sys_errno() != ENOENT &&
        wi_sys_errno() != EACCES)
        return status;
    if (status == WHARF_OK && wi_alive_lock(comm))
        presence = WI_LOCKED;
    __atomic_store_n(&comm->control->slots[comm->rank].presence, presence,
                     __ATOMIC_SEQ_CST);
    return WHARF_OK;
}

wharf_status wi_control_join(wi_comm *comm, int fd)
{
    void *pointer = NULL;
    wharf_status status;

    status = wi_sys_map(fd, 0, comm->control_bytes, PROT_READ | PROT_WRITE,
                        NULL, &pointer);
    if (status != WHARF_OK)
        return status;
    comm->control = pointer;
    if (comm->control->magic != WI_COMM_MAGIC ||
        comm->control->protocol != WI_COMM_PROTOCOL ||
        comm->control->size != (uint32_t)comm->size)
        status = wi_fail(WHARF_EPROTOCOL, NULL,
                         "the control block of rank 0 has another layout");
    else
        status = control_lock(comm, fd);
    if (status != WHARF_OK) {
        comm->control = NULL;
        wi_sys_unmap(pointer, comm->control_bytes);
    }
    return status;
}

void wi_control_bump(wi_comm *comm)
{
    wi_control *control = comm->control;

    __atomic_add_fetch(&control->turn, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&control->sleepers, __ATOMIC_SEQ_CST))
        wi_futex_wake(&control->turn);
}

void wi_control_mark(wi_comm *comm, wi_presence presence)
{
    if (!comm->control)
        return;
    __atomic_store_n(&comm->control->slots[comm->rank].presence, presence,
                     __ATOMIC_SEQ_CST);
    wi_control_bump(comm);
}

/* Says good-bye before the lock goes, so that nobody takes it for a death. */
void wi_control_leave(wi_comm *comm)
{
    wi_control_mark(comm, WI_LEFT);
    wi_sys_unmap(comm->control, comm->control_bytes);
    comm->control = NULL;
    wi_sys_close(&comm->lock_fd);
}
