/* SPDX-License-Identifier: MIT */
/*
 * One rank dies or falls silent; the others learn it, name it, close their
 * node and end by themselves.
 *
 * Arguments: the case, victim=RANK. The launcher must let a job go on without
 * one of its ranks, and its exit status then says nothing: the verdict is the
 * line "death: ... all right", printed by one survivor when all are through.
 * Survivors share a board in memory, since MPI collectives are out of reach.
 */
#define _GNU_SOURCE
#include "death_board.h"

/* ---- Deaths ------------------------------------------------------------ */

static void killed_before_attach(void)
{
    wharf_buffer *buffer = NULL;

    if (t_me == victim)
        vanish(SIGKILL);
    told(wharf_buffer_attach(node, 4096, NULL, &buffer), WHARF_EPEER, LATE_MS);
    T_CHECK(buffer == NULL);
    close_after_death(false);
    finish();
}

/* What the dead rank wrote stays readable for the others until they let go. */
static void killed_before_detach(void)
{
    wharf_buffer *buffer = t_attach(node, 30000, 0);
    bool owned;

    t_share(node, buffer, 1);
    if (t_me == victim)
        vanish(SIGKILL);
    while (atomic_load(&shared->died_ms) == 0)
        t_pause_us(1000);
    for (int rank = 0; rank < t_ranks; rank++)
        t_check_segment(node, buffer, rank, 1);
    owned = t_info(buffer, 0).handle == WHARF_HANDLE_IPC &&
            t_stats().live_blocks_owned > 0;
    told(wharf_buffer_detach(&buffer), WHARF_EPEER, LATE_MS);
    T_CHECK(buffer == NULL);
    /* Physical memory lives until its last user lets go. Legacy memory would
     * be pulled from under a process that might not be dead after all. */
    T_EQ_INT(owned, t_stats().kept_bytes > 0);
    close_after_death(false);
    finish();
}

/* A child of the dead rank lives on and holds all that it inherited. */
static void killed_leaving_child(void)
{
    wharf_buffer *buffer = NULL;

    if (t_me == victim) {
        if (fork() == 0) {
            survivors_all(shared->done);
            _exit(0);
        }
        vanish(SIGKILL);
    }
    told(wharf_buffer_attach(node, 4096, NULL, &buffer), WHARF_EPEER, LATE_MS);
    T_CHECK(buffer == NULL);
    close_after_death(false);
    finish();
}

static void killed_before_record(void)
{
    wharf_event *event = NULL;

    T_OK(wharf_event_create(node, victim, &event));
    t_barrier();
    if (t_me == victim)
        vanish(SIGKILL);
    if (t_me % 2)
        told(wharf_event_wait(event, 1, NULL), WHARF_EPEER, LATE_MS);
    else
        told(wharf_event_synchronize(event, 1, 20000), WHARF_EPEER, LATE_MS);
    T_STATUS(WHARF_EPEER, wharf_event_query(event, 1));
    close_after_death(false);
    finish();
}

/* A rank that waits for the dead one's signal: what was recorded before the
 * death counts. */
static void killed_before_notify(void)
{
    int waiter = verdict_rank();
    wharf_notify *notify = NULL;

    T_OK(wharf_notify_create(node, waiter, NULL, &notify));
    if (t_me == victim) {
        T_OK(wharf_notify_record(notify, NULL));
        t_stream_sync(node, NULL);
    }
    t_barrier();
    if (t_me == victim)
        vanish(SIGKILL);
    if (t_me == waiter) {
        T_OK(wharf_notify_wait_host(notify, victim, 0));
        told(wharf_notify_wait_host(notify, victim, 0), WHARF_EPEER, LATE_MS);
    } else {
        told(wharf_notify_destroy(&notify), WHARF_EPEER, LATE_MS);
    }
    close_after_death(false);
    finish();
}

/* Who only asks, and never waits, is told too. */
static wharf_status ask_until_told(wharf_event *event)
{
    wharf_status status;

    while ((status = wharf_event_query(event, 1)) == WHARF_ENOTREADY)
        t_pause_us(1000);
    return status;
}

/* The record was issued, and the work before it will never be complete: streams
 * of the same GPU that wait for it are let go when the node is closed, even if
 * the event is gone by then. */
static void killed_after_record(void)
{
    wharf_notify *never = NULL;
    wharf_event *event = NULL;

    T_OK(wharf_notify_create(node, victim, NULL, &never));
    T_OK(wharf_event_create(node, victim, &event));
    if (t_me == victim) {
        T_OK(wharf_notify_wait(never, verdict_rank(), NULL, 0));
        T_OK(wharf_event_record(event, NULL, NULL));
    }
    T_OK(wharf_event_wait(event, 1, NULL));
    T_STATUS(WHARF_ENOTREADY, wharf_event_query(event, 1));
    t_barrier();
    if (t_me == victim)
        vanish(SIGKILL);
    told(ask_until_told(event), WHARF_EPEER, LATE_MS);
    told(wharf_event_destroy(&event), WHARF_EPEER, LATE_MS);
    T_CHECK(event == NULL);
    T_STATUS(WHARF_EPEER, wharf_notify_destroy(&never));
    close_after_death(false);
    finish();
}

/* On the host backend entering says so. A stream cannot: it waits for good, but
 * wharf_stream_synchronize looks at the ranks meanwhile, as a copy of pageable
 * memory does, and the end of the barrier lets it go. */
static void killed_before_barrier(void)
{
    wharf_buffer *buffer = t_attach(node, 4096, 0);
    wharf_barrier *barrier = NULL;
    int pageable;

    T_OK(wharf_barrier_create(node, 0, NULL, NULL, &barrier));
    T_OK(wharf_barrier_enter(barrier, NULL));
    t_stream_sync(node, NULL);
    t_barrier();
    if (t_me == victim)
        vanish(SIGKILL);
    if (t_mode_get() == T_HOST) {
        told(wharf_barrier_enter(barrier, NULL), WHARF_EPEER, LATE_MS);
    } else {
        T_OK(wharf_barrier_enter(barrier, NULL));
        T_OK(wharf_barrier_enter(barrier, NULL));
        told(wharf_stream_synchronize(node, NULL, 0), WHARF_EPEER, LATE_MS);
        told(wharf_get(buffer, t_me, 0, &pageable, sizeof pageable, NULL),
             WHARF_EPEER, LATE_MS);
        told(wharf_barrier_destroy(&barrier), WHARF_EPEER, LATE_MS);
        T_CHECK(barrier == NULL);
    }
    close_after_death(false);
    finish();
}

static void killed_before_close(void)
{
    wharf_buffer *buffer = t_attach(node, 30000, 0);
    wharf_stats stats;
    wharf_error error;

    t_share(node, buffer, 2);
    if (t_me == victim)
        vanish(SIGKILL);
    told(wharf_node_close(&node), WHARF_EPEER, LATE_MS);
    T_CHECK(node == NULL);
    wharf_last_error(&error);
    T_CONTAINS("is closed here", error.remedy);
    stats = t_stats();
    T_EQ_INT(0, stats.live_nodes);
    T_EQ_INT(0, stats.live_buffers);
    T_EQ_INT(0, stats.live_descriptors);
    finish();
}

/* Killed from outside at whatever point it has reached: a child of the victim
 * does it after some turns of its own, so every run hits another phase. */
static void kill_from_child(long delay_us)
{
    pid_t parent = getpid();

    if (fork() != 0)
        return;
    usleep((useconds_t)delay_us);
    atomic_store(&shared->died_ms, t_now_ms());
    kill(parent, SIGKILL);
    _exit(0);
}

/* Attach and detach for ever; the survivors must fall out of the same call. */
static void killed_at_any_point(void)
{
    wharf_buffer *buffer = NULL;
    wharf_status status = WHARF_OK;
    int calls = 0;

    t_barrier();
    if (t_me == victim)
        kill_from_child(t_argument("delay_us", 20000));
    while (status == WHARF_OK) {
        status = wharf_buffer_attach(node, 20000 + (size_t)(calls % 7) * 5000,
                                     NULL, &buffer);
        if (status != WHARF_OK)
            break;
        calls++;
        t_fill_mine(node, buffer, (uint64_t)calls);
        status = wharf_buffer_detach(&buffer);
        T_CHECK(buffer == NULL);
        if (status == WHARF_OK)
            calls++;
    }
    atomic_store(&shared->call[t_me], calls);
    told(status, WHARF_EPEER, LATE_MS);
    close_after_death(false);
    finish();
}

/* A node opened with somebody missing. */
static void killed_before_open(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *late = NULL;
    wharf_status status;

    if (t_me == victim)
        vanish(SIGKILL);
    options.timeout_ms = 1000; /* all of it passes */
    status = wharf_node_open(MPI_COMM_WORLD, &options, &late);
    /* Without a node the dead cannot be told from the silent. */
    T_CHECK(status == WHARF_EPEER || status == WHARF_ETIMEDOUT);
    T_CHECK(late == NULL);
    close_after_death(true);
    finish();
}

/* ---- Silence ----------------------------------------------------------- */

enum { TIMEOUT_MS = 1500 };

/* Wakes the victim again once all others have been told. */
static void wake_victim(void)
{
    atomic_store(&shared->ready[t_me], 1);
    if (t_me == verdict_rank()) {
        T_CHECK(survivors_all(shared->ready));
        t_wait_stopped(shared->pid[victim], VERDICT_MS);
        T_CHECK(kill(shared->pid[victim], SIGCONT) == 0);
    }
}

/* A rank that is away too long: the others time out at the deadline, the late
 * one learns that it came too late, and afterwards all go on together. */
static void stopped_before_attach(void)
{
    wharf_buffer *buffer = NULL;

    if (t_me == victim) {
        vanish(SIGSTOP);
        T_STATUS(WHARF_ETIMEDOUT,
                 wharf_buffer_attach(node, 4096, NULL, &buffer));
    } else {
        told(wharf_buffer_attach(node, 4096, NULL, &buffer), WHARF_ETIMEDOUT,
             TIMEOUT_MS + LATE_MS);
        wake_victim();
    }
    T_CHECK(buffer == NULL);
    t_barrier();
    buffer = t_attach(node, 5000, 0);
    t_share(node, buffer, 3);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
    if (t_me != victim)
        finish();
}

/* Its events as well: the silent rank has opened those of the others, which
 * must not go before it lets go of them. */
static void stopped_before_detach(void)
{
    wharf_buffer *buffer = t_attach(node, 30000, 0);
    wharf_event *event = NULL;

    t_share(node, buffer, 4);
    T_OK(wharf_buffer_event(buffer, t_me, &event));
    T_OK(wharf_event_record(event, NULL, NULL));
    for (int rank = 0; rank < t_ranks; rank++) {
        T_OK(wharf_buffer_event(buffer, rank, &event));
        T_OK(wharf_event_wait(event, 1, NULL));
    }
    t_stream_sync(node, NULL);
    t_barrier();
    if (t_me == victim) {
        vanish(SIGSTOP);
        /* Its own pointers still are what they were. */
        t_check_segment(node, buffer, t_me, 4);
        T_STATUS(WHARF_ETIMEDOUT, wharf_buffer_detach(&buffer));
    } else {
        told(wharf_buffer_detach(&buffer), WHARF_ETIMEDOUT,
             TIMEOUT_MS + LATE_MS);
        wake_victim();
    }
    T_CHECK(buffer == NULL);
    t_barrier();
    buffer = t_attach(node, 5000, 0);
    t_share(node, buffer, 5);
    t_detach(buffer);
    t_close(node);
    if (t_me != victim)
        finish();
}

static void stopped_before_record(void)
{
    wharf_event *event = NULL;

    T_OK(wharf_event_create(node, victim, &event));
    t_barrier();
    if (t_me == victim) {
        vanish(SIGSTOP);
        T_OK(wharf_event_record(event, NULL, NULL));
    } else {
        told(wharf_event_wait(event, 1, NULL), WHARF_ETIMEDOUT,
             TIMEOUT_MS + LATE_MS);
        wake_victim();
        /* The same wait, repeated, passes when the record comes at last. */
        T_OK(wharf_event_wait(event, 1, NULL));
    }
    T_OK(wharf_event_destroy(&event));
    t_close(node);
    if (t_me != victim)
        finish();
}

static void stopped_before_barrier(void)
{
    wharf_barrier *barrier = NULL;
    wharf_status status;

    T_OK(wharf_barrier_create(node, 0, NULL, NULL, &barrier));
    t_barrier();
    if (t_me == victim) {
        vanish(SIGSTOP);
        T_OK(wharf_barrier_enter(barrier, NULL));
    } else {
        status = wharf_barrier_enter(barrier, NULL);
        if (t_mode_get() == T_HOST)
            told(status, WHARF_ETIMEDOUT, TIMEOUT_MS + LATE_MS);
        else
            T_OK(status);
        wake_victim();
        /* The same use, entered again, is over when the late one comes. */
        if (t_mode_get() == T_HOST)
            T_OK(wharf_barrier_enter(barrier, NULL));
    }
    t_stream_sync(node, NULL);
    T_OK(wharf_barrier_destroy(&barrier));
    t_close(node);
    if (t_me != victim)
        finish();
}

/* Closed by the others while one is away for good. */
static void stopped_for_good(void)
{
    wharf_buffer *buffer = t_attach(node, 30000, 0);
    wharf_status status;
    wharf_stats stats;

    t_share(node, buffer, 6);
    if (t_me == victim) {
        vanish(SIGSTOP);
        for (;;)
            pause();
    }
    status = wharf_node_close(&node);
    told(status, WHARF_ETIMEDOUT, 2 * TIMEOUT_MS + LATE_MS);
    T_CHECK(node == NULL);
    stats = t_stats();
    T_EQ_INT(0, stats.live_nodes);
    T_EQ_INT(0, stats.live_buffers);
    T_EQ_INT(0, stats.live_descriptors);
    finish();
}

static const struct {
    const char *name;
    void (*run)(void);
    int timeout_ms;
} cases[] = {
    {"killed_before_attach", killed_before_attach, 30000},
    {"killed_before_detach", killed_before_detach, 30000},
    {"killed_leaving_child", killed_leaving_child, 30000},
    {"killed_before_record", killed_before_record, 30000},
    {"killed_after_record", killed_after_record, 30000},
    {"killed_before_notify", killed_before_notify, 30000},
    {"killed_before_barrier", killed_before_barrier, 30000},
    {"killed_before_close", killed_before_close, 30000},
    {"killed_at_any_point", killed_at_any_point, 30000},
    {"killed_before_open", killed_before_open, 3000},
    {"stopped_before_attach", stopped_before_attach, TIMEOUT_MS},
    {"stopped_before_detach", stopped_before_detach, TIMEOUT_MS},
    {"stopped_before_record", stopped_before_record, TIMEOUT_MS},
    {"stopped_before_barrier", stopped_before_barrier, TIMEOUT_MS},
    {"stopped_for_good", stopped_for_good, TIMEOUT_MS},
};

static void run(size_t index)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;

    board_open();
    options.timeout_ms = cases[index].timeout_ms;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    t_barrier();
    cases[index].run();
}

int main(int argc, char **argv)
{
    t_arguments(argc, argv);
    /* Whoever hangs must go: the launcher would wait for it. */
    alarm(100);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    T_CHECK(t_ranks >= 2 && t_ranks <= MOST_RANKS);
    victim = (int)t_argument("victim", 0);
    T_CHECK(victim >= 0 && victim < t_ranks);
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            run(i);
            _exit(0);
        }
    }
    T_FAIL("no such case: %s", argc > 1 ? argv[1] : "(none)");
}
