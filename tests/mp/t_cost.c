/* SPDX-License-Identifier: MIT */
/*
 * What opening a node, attaching, a barrier and their ends cost, counted rank
 * by rank: driver calls, system calls, heap blocks, handles made, taken and
 * mapped, messages and their bytes, rounds of agreement. Counts are exact and
 * checked; times are printed and decide nothing.
 *
 * One line a call and shape, for people and for scripts/bench/scale_fit.awk.
 * "most" is the rank with the highest count, "all" the sum over the ranks.
 *
 *   mpirun -n 32 t_cost               the shapes of one job, checked
 *   mpirun -n 32 t_cost table rounds=3     this job's own shape, printed
 */
#include "t_group.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/fault.h"
#include "comm/private.h"
#include "core/core.h"

/* ---- Counting ----------------------------------------------------------- */

enum {
    DRIVER,   /* driver calls that may fail */
    SYSTEM,   /* system calls that acquire something */
    HEAP,     /* blocks of host memory */
    EXPORTED, /* handles made of physical memory */
    IMPORTED, /* handles taken */
    MAPPED,   /* pieces mapped */
    SENT,     /* messages on Unix sockets */
    RECEIVED,
    BYTES, /* that were sent */
    ROUNDS,
    CPU, /* us, of all threads; not exact */
    COUNTS
};

static const char *const names[COUNTS] = {
    "driver", "system", "heap",  "exported", "imported", "mapped",
    "sent",   "came",   "bytes", "rounds",   "cpu"};

/* Of this process, so far; atomic. */
static long counted[COUNTS];

static void count(int what, long by)
{
    __atomic_add_fetch(&counted[what], by, __ATOMIC_RELAXED);
}

/*
 * Takes the place of base/fault.c in this program: whoever would ask whether a
 * call is to fail is counted, and told no.
 */
int wi_fault_armed = 1;

static long cpu_us(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
           (long)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void count_driver(const char *where)
{
    count(DRIVER, 1);
    if (strcmp(where, "cuMemExportToShareableHandle") == 0)
        count(EXPORTED, 1);
    else if (strcmp(where, "cuMemImportFromShareableHandle") == 0)
        count(IMPORTED, 1);
    else if (strcmp(where, "cuMemMap") == 0)
        count(MAPPED, 1);
}

/* How often one asks a socket that has nothing yet depends on time. */
static bool depends_on_time(const char *where)
{
    return strcmp(where, "sendmsg") == 0 || strcmp(where, "recvmsg") == 0 ||
           strcmp(where, "accept4") == 0 || strcmp(where, "connect") == 0;
}

bool wi_fault_slow(wi_fault_kind kind, const char *where, int *code)
{
    (void)code;
    if (kind == WI_FAULT_DRIVER)
        count_driver(where);
    else if (kind == WI_FAULT_SYS && !depends_on_time(where))
        count(SYSTEM, 1);
    else if (kind == WI_FAULT_MEM)
        count(HEAP, 1);
    return false;
}

/* The linker puts these in the place of the library's (--wrap). */
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t sent = __real_sendmsg(fd, message, flags);

    if (sent > 0) {
        count(SENT, 1);
        count(BYTES, (long)sent);
    }
    return sent;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t came = __real_recvmsg(fd, message, flags);

    if (came > 0)
        count(RECEIVED, 1);
    return came;
}

/* ---- One shape ---------------------------------------------------------- */

enum { OPEN, ATTACH, CREATE, ENTER, DETACH, CLOSE, CALLS };

static const char *const call_names[CALLS] = {"open",  "attach", "create",
                                              "enter", "detach", "close"};

typedef struct cost {
    long mine[COUNTS], most[COUNTS], all[COUNTS];
    double start, end; /* of the last round; one clock for all ranks */
    double us;         /* from the last start to the last end; best round */
} cost;

typedef struct shape {
    MPI_Comm comm;
    int rank, ranks, gpus;
    cost of[CALLS];
    /* While a call is measured: */
    long before[COUNTS];
    uint64_t round;
} shape;

static uint64_t rounds_of(const wharf_node *node)
{
    return node != NULL ? node->comm->round : 0;
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* MPI's own barrier never sleeps, and many ranks share few cores here. */
static void rest_until_all(MPI_Comm comm)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    MPI_Request request;
    int done = 0;

    MPI_Ibarrier(comm, &request);
    for (;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        nanosleep(&nap, NULL);
    }
}

static void begin(shape *s, int call, const wharf_node *node)
{
    rest_until_all(s->comm);
    for (int i = 0; i < COUNTS; i++)
        s->before[i] = __atomic_load_n(&counted[i], __ATOMIC_RELAXED);
    s->round = rounds_of(node);
    s->before[CPU] = cpu_us();
    s->of[call].start = now_us();
}

static void end(shape *s, int call, const wharf_node *node)
{
    cost *c = &s->of[call];

    c->end = now_us();
    for (int i = 0; i < COUNTS; i++)
        c->mine[i] =
            __atomic_load_n(&counted[i], __ATOMIC_RELAXED) - s->before[i];
    c->mine[CPU] = cpu_us() - s->before[CPU];
    if (node != NULL)
        c->mine[ROUNDS] = (long)(rounds_of(node) - s->round);
}

static void gather(shape *s)
{
    for (int call = 0; call < CALLS; call++) {
        cost *c = &s->of[call];
        double times[2] = {c->start, c->end};

        MPI_Allreduce(c->mine, c->most, COUNTS, MPI_LONG, MPI_MAX, s->comm);
        MPI_Allreduce(c->mine, c->all, COUNTS, MPI_LONG, MPI_SUM, s->comm);
        MPI_Allreduce(MPI_IN_PLACE, times, 2, MPI_DOUBLE, MPI_MAX, s->comm);
        if (c->us == 0 || times[1] - times[0] < c->us)
            c->us = times[1] - times[0];
    }
}

/* GPU r modulo gpus for rank r; NULL: all are used anyhow. */
static const char *map_of(const shape *s, int visible, char map[256])
{
    size_t used = 0;

    if (s->gpus == visible)
        return NULL;
    for (int r = 0; r < s->ranks; r++)
        used += (size_t)snprintf(map + used, 256 - used, "%s%d", r ? "," : "",
                                 r % s->gpus);
    T_CHECK(used < 256);
    return map;
}

static void round_run(shape *s, int visible)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;
    wharf_barrier *barrier = NULL, *first = NULL;
    wharf_node *node = NULL;
    char map[256];

    options.device_map = map_of(s, visible, map);
    options.pool = WHARF_SWITCH_OFF;
    begin(s, OPEN, NULL);
    T_OK(wharf_node_open(s->comm, &options, &node));
    end(s, OPEN, node);
    T_EQ_INT(s->gpus, wharf_node_gpus(node));
    begin(s, ATTACH, node);
    T_OK(wharf_buffer_attach(node, 4096, NULL, &buffer));
    end(s, ATTACH, node);
    /* The first barrier of a node makes memory for the words of all. */
    T_OK(wharf_barrier_create(node, 0, NULL, NULL, &first));
    begin(s, CREATE, node);
    T_OK(wharf_barrier_create(node, 0, NULL, NULL, &barrier));
    end(s, CREATE, node);
    begin(s, ENTER, node);
    T_OK(wharf_barrier_enter(barrier, NULL));
    t_stream_sync(node, NULL);
    end(s, ENTER, node);
    T_OK(wharf_barrier_destroy(&barrier));
    T_OK(wharf_barrier_destroy(&first));
    begin(s, DETACH, node);
    T_OK(wharf_buffer_detach(&buffer));
    end(s, DETACH, node);
    begin(s, CLOSE, NULL);
    T_OK(wharf_node_close(&node));
    end(s, CLOSE, NULL);
}

static void print(const shape *s)
{
    static bool headed;

    if (s->rank != 0)
        return;
    for (int call = 0; call < CALLS; call++) {
        const cost *c = &s->of[call];

        if (!headed) {
            printf("%-7s %5s %4s %9s", "# call", "ranks", "gpus", "us");
            for (int i = 0; i < COUNTS; i++)
                printf(" %8s %8s", names[i], "all");
            printf("\n");
        }
        headed = true;
        printf("%-7s %5d %4d %9.0f", call_names[call], s->ranks, s->gpus,
               c->us);
        for (int i = 0; i < COUNTS; i++)
            printf(" %8ld %8ld", c->most[i], c->all[i]);
        printf("\n");
    }
    fflush(stdout);
}

/* ---- What must hold ------------------------------------------------------ */

/* What was imported is never exported again, not even to see whether it can be:
 * drivers refuse it, and tools that watch them count an error. */
static void check_open(const shape *s)
{
    const cost *c = &s->of[OPEN];

    /* The keeper's blocks, and once more those that are kept open. */
    T_EQ_INT(2 * s->gpus, c->all[EXPORTED]);
}

static void check_attach(const shape *s)
{
    const cost *c = &s->of[ATTACH];
    long others = s->ranks - 1;
    bool owner = s->rank < s->gpus; /* of one GPU each: map_of, and "auto" */

    /* One handle a GPU, taken by everybody else; one mapping a GPU and rank. */
    T_EQ_INT(s->gpus, c->all[EXPORTED]);
    T_EQ_INT(s->gpus * others, c->all[IMPORTED]);
    T_EQ_INT(s->gpus, c->mine[MAPPED]);
    T_EQ_INT(s->gpus, c->mine[EXPORTED] + c->mine[IMPORTED]);
    /* One message a GPU and rank, all but the owners' own through rank 0. */
    T_EQ_INT(s->gpus * others, c->all[SENT]);
    T_EQ_INT(s->gpus * others, c->all[RECEIVED]);
    T_EQ_INT((long)sizeof(wi_message) * c->all[SENT], c->all[BYTES]);
    if (s->rank == 0)
        T_EQ_INT(others + (s->gpus - 1) * (others - 1), c->mine[SENT]);
    else if (s->gpus == 1 || owner)
        T_CHECK(c->mine[SENT] <= 1);
    T_EQ_INT(c->most[ROUNDS] * s->ranks, c->all[ROUNDS]);
}

/* What no rank may hold or do more of because there are more ranks. */
static void check_ranks(const shape *few, const shape *many)
{
    T_EQ_INT(few->gpus, many->gpus);
    for (int call = 0; call < CALLS; call++) {
        const cost *a = &few->of[call], *b = &many->of[call];

        if (call != OPEN)
            T_EQ_INT(a->most[DRIVER], b->most[DRIVER]);
        if (call != OPEN && call != CLOSE)
            T_EQ_INT(a->most[ROUNDS], b->most[ROUNDS]);
        T_EQ_INT(a->most[EXPORTED], b->most[EXPORTED]);
        T_EQ_INT(a->most[IMPORTED], b->most[IMPORTED]);
        T_EQ_INT(a->most[MAPPED], b->most[MAPPED]);
    }
    /* The links between GPUs are shared out: more ranks, fewer each. */
    T_CHECK(many->of[OPEN].most[DRIVER] <= few->of[OPEN].most[DRIVER]);
    T_EQ_INT(few->of[OPEN].most[SYSTEM], many->of[OPEN].most[SYSTEM]);
    T_EQ_INT(few->of[ATTACH].most[SYSTEM], many->of[ATTACH].most[SYSTEM]);
    T_EQ_INT(few->of[ATTACH].most[HEAP], many->of[ATTACH].most[HEAP]);
}

/* Messages of an open and an attach: linear in the ranks. Rank 0 is the hub. */
static void check_messages(const shape *few, const shape *many)
{
    for (int call = 0; call < CALLS; call++) {
        const long *a = few->of[call].all, *b = many->of[call].all;

        T_EQ_INT(a[SENT] * (many->ranks - 1), b[SENT] * (few->ranks - 1));
        T_EQ_INT(a[SENT], few->of[call].all[RECEIVED]);
        T_EQ_INT(b[SENT], many->of[call].all[RECEIVED]);
    }
}

/* Shapes of 1 : 2 : 4 GPUs: the second step costs twice the first. */
static void check_gpus(const shape *s)
{
    for (int i = 0; i < CPU; i++) {
        const long *one = s[0].of[ATTACH].most, *two = s[1].of[ATTACH].most,
                   *four = s[2].of[ATTACH].most;

        T_EQ_INT(2 * (two[i] - one[i]), four[i] - two[i]);
    }
}

/* ---- Runs ---------------------------------------------------------------- */

/* The ranks below `ranks`; the others wait. */
static void measure(shape *s, int ranks, int gpus, int visible, long rounds)
{
    *s = (shape){.ranks = ranks, .gpus = gpus};
    MPI_Comm_split(MPI_COMM_WORLD, t_me < ranks ? 0 : MPI_UNDEFINED, t_me,
                   &s->comm);
    if (s->comm != MPI_COMM_NULL) {
        MPI_Comm_rank(s->comm, &s->rank);
        for (long i = 0; i < rounds; i++) {
            round_run(s, visible);
            gather(s);
        }
        MPI_Comm_free(&s->comm);
    }
    rest_until_all(MPI_COMM_WORLD);
}

static void measured(const shape *s)
{
    if (t_me >= s->ranks)
        return;
    print(s);
    check_open(s);
    check_attach(s);
}

static void counts(void)
{
    int visible = (int)t_argument("devices", 8);
    shape few[3], many[3];

    measure(&many[0], t_ranks, visible, visible, 1); /* first uses */
    for (int i = 0; i < 3; i++) {
        int gpus = visible >> (2 - i);

        measure(&few[i], t_ranks / 2, gpus, visible, 1);
        measure(&many[i], t_ranks, gpus, visible, 1);
        measured(&few[i]);
        measured(&many[i]);
        if (t_me < t_ranks / 2) {
            check_ranks(&few[i], &many[i]);
            check_messages(&few[i], &many[i]);
        }
    }
    if (t_me < t_ranks / 2)
        check_gpus(few);
    check_gpus(many);
}

/* The whole job, for a table that is made of many jobs. */
static void table(void)
{
    int visible = (int)t_argument("devices", 8);
    int gpus = visible < t_ranks ? visible : t_ranks;
    shape s;

    measure(&s, t_ranks, gpus, visible, 1);
    measure(&s, t_ranks, gpus, visible, t_argument("rounds", 3));
    measured(&s);
}

static const t_case cases[] = {
    {"counts", counts, T_FAKE},
    {NULL, NULL, 0},
};

static const t_case by_hand[] = {
    {"table", table, T_FAKE},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    bool print_only = argc > 1 && strcmp(argv[1], "table") == 0;

    return t_main(argc, argv, MPI_THREAD_SERIALIZED,
                  print_only ? by_hand : cases);
}
