/* SPDX-License-Identifier: MIT */
/*
 * Published buffers: ranks publish, programs outside the job join. Those are
 * this program again, started by rank 0 without MPI (t_join_child.c).
 */
#include "t_join.h"

#include <signal.h>
#include <unistd.h>

#include "t_group.h"

/* The name of a test must be nobody else's on this machine. */
static const char *name_of(const char *suffix)
{
    static char name[WHARF_MAX_PUBLISHED_NAME + 1];
    long job = getpid();

    MPI_Bcast(&job, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    snprintf(name, sizeof name, "t_join-%ld.%s", job, suffix);
    return name;
}

static const char *ranks_text(void)
{
    static char text[12];

    snprintf(text, sizeof text, "%d", t_ranks);
    return text;
}

/* A buffer with a pattern in it. */
static wharf_buffer *filled(wharf_node *node)
{
    wharf_buffer *buffer = t_attach(node, SEGMENT(t_me), 0);

    t_share(node, buffer, SEED);
    return buffer;
}

static void publish(wharf_buffer *buffer, const char *name)
{
    wharf_publish_options options = WHARF_PUBLISH_OPTIONS_INIT;

    options.note = "two words";
    T_OK(wharf_buffer_publish(buffer, name, &options));
}

static void expect_joiners(const wharf_buffer *buffer, int expected)
{
    int count = -1;

    /* The thread learns by and by that one has left. */
    for (int i = 0; i < 400 && count != expected; i++) {
        T_OK(wharf_buffer_joiners(buffer, &count));
        if (count != expected)
            usleep(5000);
    }
    T_EQ_INT(expected, count);
}

/* Every rank publishes in turn, owners and those that imported; two join. */
static void published_by_each(wharf_buffer *buffer)
{
    for (int r = 0; r < t_ranks; r++) {
        const char *name = name_of("field");

        if (t_me == r) {
            publish(buffer, name);
            program a = joiner_begin("stay", name, ranks_text(), NULL);
            program b = joiner_begin("stay", name, ranks_text(), NULL);
            joiner_expect(&a, 'j');
            joiner_expect(&b, 'j');
            expect_joiners(buffer, 2);
            joiner_order(&a, 'c');
            joiner_finish(&a);
            expect_joiners(buffer, 1);
            joiner_order(&b, 'c');
            joiner_finish(&b);
            expect_joiners(buffer, 0);
            T_OK(wharf_buffer_unpublish(buffer));
        }
        t_barrier();
    }
}

/* ---- Cases --------------------------------------------------------------- */

static void joined_and_left(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);

    published_by_each(buffer);
    t_detach(buffer);
    t_close(node);
}

static void host_memory(void)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_node *node = t_open();
    wharf_buffer *buffer = NULL;
    const char *name = name_of("host");

    options.space = WHARF_SPACE_HOST;
    T_OK(wharf_buffer_attach(node, SEGMENT(t_me), &options, &buffer));
    t_share(node, buffer, SEED);
    published_by_each(buffer);
    if (t_me == 0) {
        publish(buffer, name);
        joiner_run("read_only", name, NULL, NULL);
    }
    t_detach(buffer);

    /* With GPUs the driver makes memory of this size. */
    buffer = NULL;
    T_OK(wharf_buffer_attach(node, 2 << 20, &options, &buffer));
    if (t_me == 0) {
        publish(buffer, name);
        joiner_run("read_only", name, NULL, NULL);
    }
    t_detach(buffer);
    t_close(node);
}

/* Segments of all sizes, also no bytes at all. */
static void empty(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 0, 0), *seen = NULL;
    const char *name = name_of("empty");
    wharf_joined *joined = NULL;
    void *segment = node;
    size_t size = 1;

    if (t_me == 0) {
        publish(buffer, name);
        T_OK(wharf_join(name, NULL, &joined));
        T_OK(wharf_joined_buffer(joined, &seen));
        T_OK(wharf_buffer_segment(seen, t_ranks - 1, &segment, &size));
        T_CHECK(segment == NULL);
        T_EQ_INT(0, size);
        T_OK(wharf_leave(&joined));
    }
    t_detach(buffer);
    t_close(node);
}

static void bad_arguments(void)
{
    static const char *const names[] = {
        NULL,
        "",
        "a b",
        "a/b",
        "\xc3\xa4",
        "1234567890123456789012345678901234567890123456789012345678901234"};
    wharf_publish_options options = WHARF_PUBLISH_OPTIONS_INIT;
    wharf_joined_options wish = WHARF_JOINED_OPTIONS_INIT;
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    wharf_joined *joined = NULL;
    char note[WHARF_MAX_NOTE + 2];
    int count;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        T_REFUSES(WHARF_EARG, "name",
                  wharf_buffer_publish(buffer, names[i], NULL));
        T_REFUSES(WHARF_EARG, "name", wharf_join(names[i], NULL, &joined));
    }
    memset(note, 'n', sizeof note);
    note[sizeof note - 1] = '\0';
    options.note = note;
    T_REFUSES(WHARF_EARG, "note", wharf_buffer_publish(buffer, "x", &options));
    options = (wharf_publish_options)WHARF_PUBLISH_OPTIONS_INIT;
    options.uid_count = 1;
    T_REFUSES(WHARF_EARG, "uids is NULL",
              wharf_buffer_publish(buffer, "x", &options));
    options.uid_count = 65;
    T_REFUSES(WHARF_EARG, "uid_count",
              wharf_buffer_publish(buffer, "x", &options));
    options = (wharf_publish_options)WHARF_PUBLISH_OPTIONS_INIT;
    options.writable = 2;
    T_REFUSES(WHARF_EARG, "writable",
              wharf_buffer_publish(buffer, "x", &options));
    wish.wait_ms = -1;
    T_REFUSES(WHARF_EARG, "wait_ms", wharf_join("x", &wish, &joined));
    wish = (wharf_joined_options)WHARF_JOINED_OPTIONS_INIT;
    wish.keep_current = (wharf_switch)7;
    T_REFUSES(WHARF_EARG, "keep_current", wharf_join("x", &wish, &joined));
    T_REFUSES(WHARF_EARG, "NULL", wharf_join("x", NULL, NULL));
    T_REFUSES(WHARF_EARG, "NULL", wharf_buffer_publish(NULL, "x", NULL));
    T_REFUSES(WHARF_EARG, "NULL", wharf_buffer_joiners(buffer, NULL));
    T_OK(wharf_buffer_joiners(buffer, &count));
    T_EQ_INT(0, count);
    T_REFUSES(WHARF_ESTATE, "not published", wharf_buffer_unpublish(buffer));
    T_REFUSES(WHARF_ENOTREADY, "published nothing",
              wharf_join(name_of("nothing"), NULL, &joined));
    T_CHECK(joined == NULL);
    t_detach(buffer);
    t_close(node);
}

static void name_taken(void)
{
    wharf_node *node = t_open();
    wharf_buffer *one = filled(node), *two = filled(node);
    const char *name = name_of("taken");

    if (t_me == 0) {
        publish(one, name);
        T_REFUSES(WHARF_ESTATE, "published as",
                  wharf_buffer_publish(one, "another", NULL));
        T_REFUSES(WHARF_ESTATE, "taken", wharf_buffer_publish(two, name, NULL));
    }
    t_barrier();
    if (t_me != 0)
        T_REFUSES(WHARF_ESTATE, "taken", wharf_buffer_publish(one, name, NULL));
    t_barrier();
    if (t_me == 0)
        T_OK(wharf_buffer_unpublish(one));
    t_barrier();
    if (t_me == t_ranks - 1)
        publish(two, name); /* ends with the detach */
    t_detach(one);
    t_detach(two);
    t_close(node);
}

static void appears_later(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    const char *name = name_of("later");

    if (t_me == 0) {
        program p = joiner_begin("stay", name, ranks_text(), "20000");
        usleep(200000);
        publish(buffer, name);
        joiner_expect(&p, 'j');
        joiner_finish(&p);
        T_OK(wharf_buffer_unpublish(buffer));
    }
    t_detach(buffer);
    t_close(node);
}

static void reading_and_writing(void)
{
    wharf_publish_options options = WHARF_PUBLISH_OPTIONS_INIT;
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    const char *name = name_of("access");

    options.writable = 1;
    if (t_me == 0) {
        publish(buffer, name);
        joiner_run("read_only", name, NULL, NULL);
        joiner_run("guest_calls", name, NULL, NULL);
        T_OK(wharf_buffer_unpublish(buffer));
        T_OK(wharf_buffer_publish(buffer, name, &options));
        joiner_run("writer", name, NULL, NULL);
        T_OK(wharf_buffer_unpublish(buffer));
    }
    t_barrier();
    T_EQ_INT(-1, t_dev_check_value(t_place(node, buffer, 0),
                                   t_segment(buffer, 0, NULL), 100, 42));
    t_barrier();
    t_detach(buffer);
    t_close(node);
}

static void revoked(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    const char *name = name_of("revoked");

    if (t_me == 0) {
        publish(buffer, name);
        program p = joiner_begin("stay", name, ranks_text(), NULL);
        joiner_expect(&p, 'j');
        T_OK(wharf_buffer_unpublish(buffer));
        joiner_order(&p, 'r');
        joiner_order(&p, 'r');
        /* The name is free, and the other one keeps what it has. */
        publish(buffer, name);
        joiner_run("read_only", name, NULL, NULL);
        joiner_order(&p, 'r');
        joiner_finish(&p);
    }
    t_detach(buffer);
    t_close(node);
}

/* Detached, and the next attach of the same shape: the joiner still sees what
 * it joined, and nothing of the new buffer. */
static void detached_under_joiner(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    const char *name = name_of("detached");
    program p = {0};

    if (t_me == 0) {
        publish(buffer, name);
        p = joiner_begin("stay", name, ranks_text(), NULL);
        joiner_expect(&p, 'j');
    }
    t_barrier();
    t_detach(buffer);
    buffer = t_attach(node, SEGMENT(t_me), 0);
    for (int r = 0; r < t_ranks; r++)
        T_EQ_INT(0, t_info(buffer, r).pooled);
    t_share(node, buffer, SEED + 1);
    if (t_me == 0)
        joiner_order(&p, 'r');
    t_barrier();
    t_detach(buffer);
    t_close(node);
    if (t_me == 0) {
        joiner_order(&p, 'r');
        joiner_finish(&p);
    }
    t_barrier();
}

static void closed_under_joiner(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    const char *name = name_of("closed");
    program p = {0};

    if (t_me == 0) {
        publish(buffer, name);
        p = joiner_begin("stay", name, ranks_text(), NULL);
        joiner_expect(&p, 'j');
    }
    t_barrier();
    T_OK(wharf_node_close(&node));
    if (t_me == 0) {
        joiner_order(&p, 'r');
        joiner_finish(&p);
    }
    t_barrier();
}

static void other_users(void)
{
    static const uint32_t uids[] = {4242, 65534};
    wharf_publish_options options = WHARF_PUBLISH_OPTIONS_INIT;
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    const char *name = name_of("users");
    wharf_joined *joined = NULL;

    if (t_me == 0 && geteuid() != 0)
        printf("only root can become another user: left out\n");
    if (t_me == 0 && geteuid() == 0) {
        publish(buffer, name);
        joiner_run("other_user", name, "65534", NULL);
        T_OK(wharf_buffer_unpublish(buffer));
        options.uids = uids;
        options.uid_count = 2;
        T_OK(wharf_buffer_publish(buffer, name, &options));
        /* GPUs of the real driver may be closed to that user. */
        if (t_mode_get() == T_HOST)
            joiner_run("other_user", name, "65534", "admitted");
        joiner_run("other_user", name, "4343", NULL);
        T_OK(wharf_buffer_unpublish(buffer));

        program p = joiner_begin("squatter", name, "65534", NULL);
        joiner_expect(&p, 'l');
        T_REFUSES(WHARF_ESTATE, "taken",
                  wharf_buffer_publish(buffer, name, NULL));
        T_REFUSES(WHARF_EOS, "held by process",
                  wharf_join(name, NULL, &joined));
        T_CHECK(joined == NULL);
        joiner_finish(&p);
    }
    t_detach(buffer);
    t_close(node);
}

static void false_owners(void)
{
    wharf_joined_options wish = WHARF_JOINED_OPTIONS_INIT;
    const char *name = name_of("false");
    wharf_joined *joined = NULL;

    if (t_me == 0) {
        program p = joiner_begin("false_owner", name, NULL, NULL);
        joiner_expect(&p, 'l');
        wish.timeout_ms = 100;
        T_EQ_INT(1, write(p.orders, "s", 1));
        T_REFUSES(WHARF_ETIMEDOUT, "does not answer",
                  wharf_join(name, &wish, &joined));
        joiner_order(&p, 's');
        T_EQ_INT(1, write(p.orders, "n", 1));
        T_REFUSES(WHARF_EPROTOCOL, "no owner", wharf_join(name, NULL, &joined));
        T_EQ_INT(1, write(p.orders, "e", 1));
        T_REFUSES(WHARF_EPEER, "has ended", wharf_join(name, NULL, &joined));
        T_CHECK(joined == NULL);
        joiner_finish(&p);
    }
    t_barrier();
}

static void strangers_and_crowds(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    const char *name = name_of("crowd");

    if (t_me == 0) {
        publish(buffer, name);
        joiner_run("stranger", name, NULL, NULL);
        expect_joiners(buffer, 0);
        program p = joiner_begin("crowd", name, NULL, NULL);
        joiner_expect(&p, 'j');
        expect_joiners(buffer, WHARF_MAX_JOINERS);
        joiner_finish(&p);
        expect_joiners(buffer, 0);
    }
    t_barrier();
    t_detach(buffer);
    t_close(node);
}

/* Nothing is left of many. */
static void cycles(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    const char *name = name_of("cycles");
    long rounds = t_argument("rounds", 100);
    t_holdings before;

    for (long i = 0; t_me == 0 && i < rounds; i++) {
        wharf_joined *joined = NULL;

        publish(buffer, name);
        T_OK(wharf_join(name, NULL, &joined)); /* a rank may join itself */
        T_OK(wharf_joined_check(joined));
        T_OK(wharf_buffer_unpublish(buffer));
        T_REFUSES(WHARF_ESTATE, "no longer", wharf_joined_check(joined));
        T_OK(wharf_leave(&joined));
        if (i == 2)
            before = t_holdings_get();
    }
    if (t_me == 0) {
        t_holdings after = t_holdings_get();

        T_EQ_INT(before.descriptors, after.descriptors);
        T_EQ_INT(before.mappings, after.mappings);
    }
    t_barrier();
    t_detach(buffer);
    t_close(node);
}

/* Memory that goes with its owner is not published. */
static void legacy(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);

    T_REFUSES(WHARF_EUNSUPPORTED, "legacy",
              wharf_buffer_publish(buffer, "x", NULL));
    t_detach(buffer);
    t_close(node);
}

/* Rank 1 publishes and is killed; the launcher lets the others live. */
static void owner_killed(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    const char *name = name_of("killed");

    long me = getpid(), victim = 0;

    if (t_me == 1) {
        publish(buffer, name);
        MPI_Send(&me, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD);
        pause();
    }
    if (t_me == 0) {
        MPI_Recv(&victim, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        program p = joiner_begin("stay", name, ranks_text(), NULL);
        joiner_expect(&p, 'j');
        kill((pid_t)victim, SIGKILL);
        usleep(100000);
        joiner_order(&p, 'g');
        joiner_order(&p, 'g');
        joiner_finish(&p);
        printf("join: the joiner has seen its owner's death\n");
        fflush(stdout);
    }
    _exit(0);
}

/* The process ends with everything open, a joiner and the thread too. */
static void exit_published(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = filled(node);
    const char *name = name_of("exit");

    if (t_me == 0) {
        publish(buffer, name);
        program p = joiner_begin("stay", name, ranks_text(), NULL);
        joiner_expect(&p, 'j');
    }
    t_barrier();
    t_driver_expect_leaks();
    MPI_Finalize();
    exit(0);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"joined_and_left", joined_and_left, T_ANY},
        {"host_memory", host_memory, T_ANY},
        {"empty", empty, T_ANY},
        {"bad_arguments", bad_arguments, T_ANY},
        {"name_taken", name_taken, T_ANY},
        {"appears_later", appears_later, T_ANY},
        {"reading_and_writing", reading_and_writing, T_ANY},
        {"revoked", revoked, T_ANY},
        {"detached_under_joiner", detached_under_joiner, T_ANY},
        {"closed_under_joiner", closed_under_joiner, T_ANY},
        {"other_users", other_users, T_ANY},
        {"false_owners", false_owners, T_HOST},
        {"strangers_and_crowds", strangers_and_crowds, T_HOST},
        {"cycles", cycles, T_ANY},
        {NULL, NULL, 0},
    };
    static const t_case others[] = {
        {"legacy", legacy, T_CUDA},
        {"owner_killed", owner_killed, T_ANY},
        {"exit_published", exit_published, T_ANY},
        {NULL, NULL, 0},
    };

    if (argc > 1 && strcmp(argv[1], "joiner") == 0)
        return joiner_main(argc, argv);
    for (int i = 1; i < argc; i++)
        for (int k = 0; others[k].name; k++)
            if (strcmp(argv[i], others[k].name) == 0)
                return t_main(argc, argv, MPI_THREAD_SINGLE, others);
    return t_main(argc, argv, MPI_THREAD_SINGLE, cases);
}
