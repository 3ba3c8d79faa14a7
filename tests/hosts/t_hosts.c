/* SPDX-License-Identifier: MIT */
/* Two hosts with the same number of ranks each, started by two_hosts.sh: what
 * one node is, what it shares, and that the other one has no part in it. */
#include "t_group.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAME = 65 };

/* Ranks of MPI_COMM_WORLD on my host, and the host's number. */
static int here(void)
{
    return t_ranks / 2;
}

static int host(void)
{
    return t_me / here();
}

static void two_nodes(void)
{
    char names[16][NAME] = {{0}};
    char boot[NAME] = "";
    wharf_node *node = t_open();
    uint64_t sum = 0;
    MPI_Comm comm;
    FILE *file;
    int size;

    T_EQ_INT(here() * 2, t_ranks);
    T_EQ_INT(wharf_node_size(node), here());
    T_EQ_INT(wharf_node_rank(node), t_me % here());
    T_OK(wharf_node_communicator(node, &comm));
    MPI_Comm_size(comm, &size);
    T_EQ_INT(size, here());

    /* As many names as hosts. */
    T_CHECK(t_ranks <= 16);
    T_EQ_INT(gethostname(names[t_me], NAME - 1), 0);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, names, NAME, MPI_CHAR,
                  MPI_COMM_WORLD);
    for (int rank = 0; rank < t_ranks; rank++)
        T_EQ_INT(strcmp(names[rank], names[t_me]) == 0,
                 rank / here() == host());

    /* One kernel under both: a boot id alone would make them one node. */
    file = fopen("/proc/sys/kernel/random/boot_id", "r");
    T_CHECK(file != NULL);
    T_CHECK(fgets(boot, sizeof boot, file) != NULL);
    fclose(file);
    for (const char *c = boot; *c != '\0'; c++)
        sum = sum * 31 + (unsigned char)*c;
    T_SAME(sum);
    t_close(node);
}

static void own_memory(void)
{
    wharf_node *node = t_open();
    /* Hosts attach different numbers of different sizes. */
    for (int i = 0; i < 1 + host() * 2; i++) {
        wharf_buffer *buffer =
            t_attach(node, (size_t)(1 + host()) * 70000, WHARF_BUFFER_ZERO);

        t_share(node, buffer, (uint64_t)(100 * host() + i));
        t_detach(buffer);
    }
    t_barrier();
    t_close(node);
}

static void own_signals(void)
{
    wharf_node *node = t_open();
    wharf_barrier *barrier = NULL;
    wharf_notify *notify = NULL;
    int me = wharf_node_rank(node);

    T_OK(wharf_barrier_create(node, 0, NULL, NULL, &barrier));
    T_OK(wharf_notify_create(node, 0, NULL, &notify));
    for (int round = 0; round < 20 * (1 + host()); round++) {
        T_OK(wharf_barrier_enter(barrier, NULL));
        if (me != 0)
            T_OK(wharf_notify_record(notify, NULL));
        for (int from = 1; me == 0 && from < here(); from++)
            T_OK(wharf_notify_wait(notify, from, NULL, 0));
    }
    T_OK(wharf_notify_destroy(&notify));
    T_OK(wharf_barrier_destroy(&barrier));
    t_barrier();
    t_close(node);
}

/* What fails on one host fails on all its ranks, and there only. */
static void own_failures(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = NULL;
    size_t size = t_me == t_ranks - 1 ? (size_t)1 << 60 : 4096;
    wharf_status status = wharf_buffer_attach(node, size, NULL, &buffer);

    if (host() == 1) {
        T_STATUS(WHARF_EARG, status);
        T_CHECK(buffer == NULL);
    } else {
        T_OK(status);
        t_share(node, buffer, 7);
        t_detach(buffer);
    }
    buffer = t_attach(node, 4096, 0);
    t_share(node, buffer, 8);
    t_detach(buffer);
    t_barrier();
    t_close(node);
}

/* ---- Exchange ---------------------------------------------------------- */

enum { SETS = 2, EXCHANGES = 12, RANKS_MOST = 8 };

/* Bytes from one rank to another: nothing, a few, more than one piece. */
static size_t bytes_between(int from, int to)
{
    static const size_t sizes[] = {1, 4096, 0, 70001, 3000000};

    return sizes[(from * 3 + to) % 5];
}

static unsigned char byte_of(int round, int from, int to, size_t i)
{
    return (unsigned char)(round * 31 + from * 7 + to * 3 + (int)(i % 251));
}

typedef struct mesh {
    wharf_node *node;
    wharf_buffer *buffer;
    wharf_exchange *exchange;
    unsigned char *segment;
    wharf_exchange_box out[RANKS_MOST][SETS], in[RANKS_MOST][SETS];
} mesh;

/* Every rank to every rank, itself too, through boxes one after the other. */
static void mesh_open(mesh *m)
{
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange_transfer transfers[RANKS_MOST];
    size_t used = 0;

    T_CHECK(t_ranks <= RANKS_MOST);
    memset(m, 0, sizeof *m);
    for (int peer = 0; peer < t_ranks; peer++) {
        for (int set = 0; set < SETS; set++) {
            m->out[peer][set].offset = used;
            m->out[peer][set].size[0] = bytes_between(t_me, peer);
            used += bytes_between(t_me, peer);
            m->in[peer][set].offset = used;
            m->in[peer][set].size[0] = bytes_between(peer, t_me);
            used += bytes_between(peer, t_me);
            m->out[peer][set].size[1] = m->out[peer][set].size[2] = 1;
            m->in[peer][set].size[1] = m->in[peer][set].size[2] = 1;
        }
        transfers[peer] =
            (wharf_exchange_transfer){peer, 5, 5, m->out[peer], m->in[peer]};
    }
    m->node = t_open();
    m->buffer = t_attach(m->node, used, 0);
    m->segment = t_segment(m->buffer, wharf_node_rank(m->node), NULL);
    for (int peer = 0; peer < t_ranks; peer++)
        for (int set = 0; set < SETS; set++)
            m->out[peer][set].buffer = m->in[peer][set].buffer = m->buffer;
    options.sets = SETS;
    T_OK(wharf_exchange_create(m->node, MPI_COMM_WORLD, t_ranks, transfers,
                               &options, &m->exchange));
}

static void mesh_round(mesh *m, int round)
{
    int set = round % SETS;

    for (int peer = 0; peer < t_ranks; peer++)
        for (size_t i = 0; i < bytes_between(t_me, peer); i++)
            m->segment[m->out[peer][set].offset + i] =
                byte_of(round, t_me, peer, i);
    T_OK(wharf_exchange_start(m->exchange, NULL));
    T_OK(wharf_exchange_finish(m->exchange, NULL));
    for (int peer = 0; peer < t_ranks; peer++) {
        const unsigned char *came = m->segment + m->in[peer][set].offset;
        size_t wrong = 0;

        for (size_t i = 0; i < bytes_between(peer, t_me); i++)
            wrong += came[i] != byte_of(round, peer, t_me, i);
        T_EQ_INT(wrong, 0);
    }
}

/* The same exchange reaches ranks of this host and of the other one. */
static void exchange(void)
{
    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    mesh m;

    mesh_open(&m);
    T_OK(wharf_exchange_plan_get(m.exchange, &plan));
    T_CHECK(plan.remote_peers > 0);
    T_EQ_INT(plan.transfers, t_ranks);
    for (int peer = 0; peer < t_ranks; peer++) {
        wharf_exchange_info info = WHARF_EXCHANGE_INFO_INIT;

        T_OK(wharf_exchange_info_get(m.exchange, peer, &info));
        T_EQ_INT(info.node_rank, peer / here() == host() ? peer % here() : -1);
        if (bytes_between(t_me, peer) > 0)
            T_EQ_INT(info.way == WHARF_EXCHANGE_MPI ||
                         info.way == WHARF_EXCHANGE_MPI_STAGED,
                     peer / here() != host());
    }
    for (int round = 0; round < EXCHANGES; round++)
        mesh_round(&m, round);
    T_OK(wharf_exchange_destroy(&m.exchange));
    t_detach(m.buffer);
    t_barrier();
    t_close(m.node);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {{"two_nodes", two_nodes, T_ANY},
                                   {"own_memory", own_memory, T_ANY},
                                   {"own_signals", own_signals, T_ANY},
                                   {"own_failures", own_failures, T_ANY},
                                   {"exchange", exchange, T_HOST},
                                   {NULL, NULL, 0}};

    /* With threads=1 a thread of the exchange drives MPI. */
    t_arguments(argc, argv);
    return t_main(argc, argv,
                  t_argument("threads", 0) ? MPI_THREAD_MULTIPLE
                                           : MPI_THREAD_SINGLE,
                  cases);
}
