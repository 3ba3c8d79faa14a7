/* SPDX-License-Identifier: MIT */
/* Opening and closing over MPI: what is shared, what is refused, what stays. */
#define _GNU_SOURCE /* unshare */
#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/stat.h"
#include "comm/private.h"
#include "t_test.h"
#include "unit/t_stderr.h"

#include <wharf/wharf.h>

static int me, ranks;

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(20000);
}

static void check_nothing_live(void)
{
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_communicators));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_map_bytes));
}

static wi_comm *open_on(MPI_Comm user)
{
    wi_comm *comm = NULL;

    T_OK(wi_comm_open(user, 100, soon(), &comm));
    return comm;
}

static void close_comm(wi_comm *comm)
{
    T_OK(wi_comm_close(&comm, soon()));
    T_CHECK(comm == NULL);
}

static int world_rank(const wi_comm *comm, int rank)
{
    MPI_Group node, world;
    int found;

    MPI_Comm_group(wi_comm_mpi(comm), &node);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_translate_ranks(node, 1, &rank, world, &found);
    MPI_Group_free(&node);
    MPI_Group_free(&world);
    return found;
}

static void check_works(wi_comm *comm)
{
    int32_t mine = 1000 + me, all[64];
    int sum = 0;

    T_OK(wi_comm_allgather(comm, &mine, sizeof mine, all, soon()));
    for (int r = 0; r < wi_comm_size(comm); r++)
        T_EQ_INT(1000 + world_rank(comm, r), all[r]);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, wi_comm_mpi(comm));
    for (int r = 0; r < wi_comm_size(comm); r++)
        sum -= world_rank(comm, r);
    T_EQ_INT(0, sum);
}

static void whole_world(void)
{
    wi_identity self;
    wi_comm *comm = open_on(MPI_COMM_WORLD);

    T_EQ_INT(me, wi_comm_rank(comm));
    T_EQ_INT(ranks, wi_comm_size(comm));
    wi_identity_self(&self);
    T_CHECK(wi_identity_number(&self) ==
            wi_identity_number(wi_comm_identity(comm, me)));
    T_EQ_STR("", wi_comm_remark(comm));
    check_works(comm);
    close_comm(comm);
    check_nothing_live();
}

/* Node ranks are in the order of the user's communicator. */
static void reversed(void)
{
    MPI_Comm user;
    wi_comm *comm;

    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &user);
    comm = open_on(user);
    T_EQ_INT(ranks - 1 - me, wi_comm_rank(comm));
    T_EQ_INT(me, world_rank(comm, wi_comm_rank(comm)));
    check_works(comm);
    close_comm(comm);
    MPI_Comm_free(&user);
    check_nothing_live();
}

/* Two halves open at the same time, in a different number of nodes. */
static void halves(void)
{
    MPI_Comm user;

    MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &user);
    for (int k = 0; k <= me % 2; k++) {
        wi_comm *comm = open_on(user);

        T_EQ_INT((ranks + 1 - me % 2) / 2, wi_comm_size(comm));
        check_works(comm);
        close_comm(comm);
    }
    MPI_Comm_free(&user);
    check_nothing_live();
}

/* Nodes on one communicator share its duplicate, which ends with it. */
static void one_duplicate(void)
{
    int before = wi_dup_count();
    MPI_Comm user;
    wi_comm *a, *b;

    MPI_Comm_dup(MPI_COMM_WORLD, &user);
    a = open_on(user);
    T_EQ_INT(before + 1, wi_dup_count());
    b = open_on(user);
    T_EQ_INT(before + 1, wi_dup_count());
    T_EQ_INT(2, wi_stat_get(WI_STAT_live_communicators));
    check_works(a);
    check_works(b);
    close_comm(a);
    check_works(b);
    close_comm(b);
    a = open_on(user);
    T_EQ_INT(before + 1, wi_dup_count());
    /* The user frees its communicator first. */
    MPI_Comm_free(&user);
    T_EQ_INT(before, wi_dup_count());
    check_works(a);
    close_comm(a);
    check_nothing_live();
}

/* A user's duplicate does not inherit ours. */
static void not_inherited(void)
{
    MPI_Comm first, second;
    int before = wi_dup_count();

    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    close_comm(open_on(first));
    MPI_Comm_dup(first, &second);
    close_comm(open_on(second));
    T_EQ_INT(before + 2, wi_dup_count());
    MPI_Comm_free(&first);
    close_comm(open_on(second));
    MPI_Comm_free(&second);
    T_EQ_INT(before, wi_dup_count());
}

/* MPI puts every rank alone; the identities do not. */
static void shattered(void)
{
    wi_comm *comm;

    wi_split_test_shatter = 1;
    comm = open_on(MPI_COMM_WORLD);
    wi_split_test_shatter = 0;
    T_EQ_INT(ranks, wi_comm_size(comm));
    T_EQ_INT(me, wi_comm_rank(comm));
    T_CONTAINS("regrouped", wi_comm_remark(comm));
    check_works(comm);
    close_comm(comm);
    check_nothing_live();
}

/* That MPI was not believed stands in the log, once a node. */
static void shattering_is_said(void)
{
    wharf_node *node = NULL;
    wharf_status status;
    t_stderr caught;
    char text[512];

    wi_split_test_shatter = 1;
    t_stderr_catch(&caught);
    status = wharf_node_open(MPI_COMM_WORLD, NULL, &node);
    t_stderr_release(&caught);
    wi_split_test_shatter = 0;
    T_OK(status);
    t_stderr_next(&caught, text, sizeof text);
    if (me == 0)
        T_CONTAINS("regrouped", text);
    else
        T_EQ_STR("", text);
    t_stderr_done(&caught);
    T_OK(wharf_node_close(&node));
    check_nothing_live();
}

static void refused(void)
{
    MPI_Comm half, inter;
    wi_comm *comm = (wi_comm *)&me;

    T_STATUS(WHARF_EARG, wi_comm_open(MPI_COMM_NULL, 0, soon(), &comm));
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - me % 2, 7, &inter);
    T_STATUS(WHARF_EARG, wi_comm_open(inter, 0, soon(), &comm));
    T_CONTAINS("MPI_Intercomm_merge", wi_error_record()->remedy);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    T_STATUS(WHARF_ELIMIT,
             wi_comm_open(MPI_COMM_WORLD, (size_t)1 << 50, soon(), &comm));
    T_CHECK(comm == (wi_comm *)&me);
    check_nothing_live();
    close_comm(open_on(MPI_COMM_WORLD));
}

/* Ranks that ask for different sizes of shared state. */
static void sizes_differ(void)
{
    wi_comm *comm = NULL;

    T_STATUS(
        WHARF_EMISMATCH,
        wi_comm_open(MPI_COMM_WORLD, me == 2 ? 100000 : 100, soon(), &comm));
    T_EQ_INT(2, wi_error_record()->rank);
    check_nothing_live();
    close_comm(open_on(MPI_COMM_WORLD));
}

/* A rank closes while the others collect: nobody hangs, nothing stays. */
static void close_alone(void)
{
    wi_comm *comm = open_on(MPI_COMM_WORLD);
    int64_t kept;

    if (me == 1) {
        T_STATUS(WHARF_EMISMATCH, wi_comm_close(&comm, soon()));
        T_CHECK(comm == NULL);
    } else {
        T_STATUS(WHARF_EMISMATCH, wi_comm_agree(comm, WHARF_OK, soon()));
        T_STATUS(WHARF_EPEER, wi_comm_agree(comm, WHARF_OK, soon()));
        T_EQ_INT(1, wi_error_record()->rank);
        T_CONTAINS("has closed the node", wi_error_record()->cause);
        T_STATUS(WHARF_EPEER, wi_comm_close(&comm, soon()));
        T_CHECK(comm == NULL);
    }
    /* The node's communicator cannot be freed by some ranks only. */
    kept = wi_stat_get(WI_STAT_live_communicators);
    T_EQ_INT(1, kept);
    wi_stat_add(WI_STAT_live_communicators, -kept);
    check_nothing_live();
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A user whose ranks send large messages just before a collective: a rank that
 * waits in it lets the messages go on. */
static void user_traffic(void)
{
    enum { COUNT = 1 << 20 };
    static int data[COUNT];
    wi_comm *comm = open_on(MPI_COMM_WORLD);
    MPI_Request request = MPI_REQUEST_NULL;

    if (me == 0)
        MPI_Irecv(data, COUNT, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
    if (me == 2)
        MPI_Isend(data, COUNT, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    if (me == 1) {
        MPI_Send(data, COUNT, MPI_INT, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(data, COUNT, MPI_INT, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    close_comm(comm);
}

static void many_times(void)
{
    for (int k = 0; k < 50; k++) {
        wi_comm *comm = open_on(MPI_COMM_WORLD);

        check_works(comm);
        close_comm(comm);
    }
    check_nothing_live();
}

/* Goes on as pid 1 of a new pid namespace with a host name of its own: all
 * ranks have equal pids, and MPI's word alone says that they share memory. */
static void enter_namespaces(void)
{
    char name[80];
    pid_t child;
    int state = 0;

    if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS) != 0)
        T_SKIP("no new namespaces: %s", strerror(errno));
    child = fork();
    T_CHECK(child >= 0);
    if (child != 0) {
        T_EQ_INT(child, waitpid(child, &state, 0));
        _exit(WIFEXITED(state) ? WEXITSTATUS(state) : 1);
    }
    /* "/" is no mount point in a chroot, /proc is one everywhere. */
    T_EQ_INT(0, mount("none", "/proc", NULL, MS_REC | MS_PRIVATE, NULL));
    T_EQ_INT(0, mount("proc", "/proc", "proc", 0, NULL));
    T_EQ_INT(1, getpid());
    snprintf(name, sizeof name, "host-of-%s", t_rank());
    T_EQ_INT(0, sethostname(name, strlen(name)));
}

int main(int argc, char **argv)
{
    wi_comm *comm = NULL;
    bool apart = argc > 1 && strcmp(argv[1], "namespaces") == 0;

    if (apart)
        enter_namespaces();
    T_STATUS(WHARF_ESTATE, wi_comm_open(MPI_COMM_WORLD, 0, soon(), &comm));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    whole_world();
    reversed();
    halves();
    one_duplicate();
    not_inherited();
    if (!apart) {
        shattered();
        shattering_is_said();
    }
    refused();
    sizes_differ();
    close_alone();
    user_traffic();
    many_times();
    MPI_Finalize();
    T_STATUS(WHARF_ESTATE, wi_comm_open(MPI_COMM_WORLD, 0, soon(), &comm));
    return 0;
}
