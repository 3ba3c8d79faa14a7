/* SPDX-License-Identifier: MIT */
/* Memory that the ranks had before and that cannot be shared: refused on all
 * ranks with one sentence that names the kind and the remedy. */
#include "attach_memory.h"
#include "unit/t_stderr.h"

#include <mpi.h>
#include <string.h>

/* Every kind that is not shared directly, brought by one rank alone. */
static void refused(void)
{
    static const char *const names[T_KINDS] = {
        [T_KIND_HOST] = "ordinary host memory",
        [T_KIND_SHARED] = "shared mapping",
        [T_KIND_PINNED] = "page-locked",
        [T_KIND_REGISTERED] = "page-locked",
        [T_KIND_MANAGED] = "managed memory",
        [T_KIND_ASYNC] = "pool without descriptors",
        [T_KIND_PRIVATE] = "without descriptors",
        [T_KIND_OTHER_DEVICE] = "not this rank's",
    };
    wharf_node *node = t_open();
    int bad = t_ranks - 1;

    for (int k = 0; k < T_KINDS; k++) {
        wharf_buffer *buffer = NULL;
        wharf_error error;
        t_memory m;

        if (names[k] == NULL || !t_kind_possible(node, (t_kind)k))
            continue;
        m = t_memory_new(node, t_me == bad ? (t_kind)k : t_mine_usual(), 0,
                         3 << 20, 0);
        T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED,
                t_mode_get() == T_HOST ? 0 : bad,
                t_mode_get() == T_HOST && bad != 0 ? NULL : names[k],
                t_mine_attach(node, m.pointer, m.bytes, 0, &buffer));
        T_CHECK(buffer == NULL);
        wharf_last_error(&error);
        T_CONTAINS("STAGE_ALLOWED", error.remedy);
        t_memory_free(node, &m);
    }
    t_close(node);
    t_live_check(NULL);
}

static void on_stack(void)
{
    wharf_node *node = t_open();
    unsigned char array[5000];
    wharf_buffer *buffer = NULL;
    t_memory m = {.kind = T_KIND_HOST,
                  .pointer = (char *)array,
                  .bytes = sizeof array,
                  .base = (char *)array,
                  .whole = sizeof array};

    T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, 0, "stack",
            t_mine_attach(node, array, sizeof array, 0, &buffer));
    t_mine_fill(node, &m, 50);
    buffer = t_mine_attached(node, array, sizeof array, STAGE);
    t_mine_use(node, buffer, &m, 50);
    t_detach(buffer);
    t_close(node);
}

static void sync_bad_input(void)
{
    wharf_node *node = t_open();
    t_memory m = t_memory_new(node, t_mine_usual(), 0, 3 << 20, 0);
    wharf_buffer *plain = t_attach(node, 4096, 0);
    wharf_buffer *buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE);

    T_REFUSES(WHARF_EARG, "NULL", wharf_buffer_sync_to(NULL, 0, 0, NULL));
    T_REFUSES(WHARF_ESTATE, "attach_memory",
              wharf_buffer_sync_to(plain, 0, 0, NULL));
    T_REFUSES(WHARF_EARG, "not within",
              wharf_buffer_sync_to(buffer, m.bytes + 1, 0, NULL));
    T_REFUSES(WHARF_EARG, "not within",
              wharf_buffer_sync_from(buffer, 1, m.bytes, NULL));
    T_REFUSES(WHARF_EARG, "not within",
              wharf_buffer_sync_from(buffer, 1, SIZE_MAX, NULL));
    T_OK(wharf_buffer_sync_to(buffer, m.bytes, 0, NULL));
    t_detach(buffer);
    t_detach(plain);
    t_memory_free(node, &m);
    t_close(node);
}

static void bad_options(wharf_node *node, t_memory *m)
{
    static const struct {
        unsigned flag;
        const char *name;
    } bad[] = {
        {WHARF_BUFFER_CONTIGUOUS, "CONTIGUOUS"},
        {WHARF_BUFFER_SAME_ADDRESS, "SAME_ADDRESS"},
        {WHARF_BUFFER_SAME_ADDRESS_REQUIRED, "SAME_ADDRESS_REQUIRED"},
        {WHARF_BUFFER_ZERO, "ZERO"},
        {0x40000000u, "unknown bits"},
    };
    wharf_buffer *buffer = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, bad[i].name,
                t_mine_attach(node, m->pointer, m->bytes, STAGE | bad[i].flag,
                              &buffer));
    /* And the flags of existing memory are none of wharf_buffer_attach's. */
    {
        wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

        options.flags = STAGE;
        T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "unknown bits",
                wharf_buffer_attach(node, 4096, &options, &buffer));
    }
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, t_ranks - 1, "flags",
            t_mine_attach(node, m->pointer, m->bytes,
                          t_me == t_ranks - 1 ? STAGE | EXPOSE : STAGE,
                          &buffer));
    T_CHECK(buffer == NULL);
}

/* Bad pointers and sizes, on the last rank alone. */
static void bad_input(void)
{
    wharf_node *node = t_open();
    t_memory m = t_memory_new(node, t_mine_usual(), 0, 3 << 20, 0);
    t_memory gone = t_memory_new(node, t_mine_usual(), 0, 3 << 20, 0);
    bool bad = t_me == t_ranks - 1;
    int rank = t_ranks - 1;
    wharf_buffer *buffer = NULL;
    void *freed = gone.pointer;
    wharf_buffer *own;

    t_memory_free(node, &gone);
    bad_options(node, &m);
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, rank, "NULL",
            t_mine_attach(node, bad ? NULL : m.pointer, 4096, STAGE, &buffer));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, rank, "buffer is NULL",
            t_mine_attach(node, m.pointer, 4096, STAGE, bad ? NULL : &buffer));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, rank, "negative",
            t_mine_attach(node, m.pointer, bad ? (size_t)-5 : 4096, STAGE,
                          &buffer));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, rank, "64 TiB",
            t_mine_attach(node, m.pointer, bad ? (size_t)1 << 47 : 4096, STAGE,
                          &buffer));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, rank,
            t_mode_get() == T_HOST ? "no memory" : "beyond the allocation",
            t_mine_attach(node, m.pointer, bad ? (size_t)1 << 45 : 4096, STAGE,
                          &buffer));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, rank, "no memory",
            t_mine_attach(node, bad ? (void *)(uintptr_t)64 : m.pointer, 4096,
                          STAGE, &buffer));
    if (t_mode_get() != T_HOST) /* a heap may keep what was freed */
        T_FAILS(
            MPI_COMM_WORLD, WHARF_EARG, rank, "freed",
            t_mine_attach(node, bad ? freed : m.pointer, 4096, STAGE, &buffer));
    own = t_attach(node, 8192, 0);
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, rank, "lies in buffer",
            t_mine_attach(node,
                          bad ? t_mine_segment(own, 0, NULL) + 100 : m.pointer,
                          4096, STAGE, &buffer));
    t_detach(own);
    T_CHECK(buffer == NULL);
    /* Different calls. */
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, rank, "wharf_buffer_attach",
            bad ? wharf_buffer_attach(node, 4096, NULL, &buffer)
                : t_mine_attach(node, m.pointer, 4096, STAGE, &buffer));
    buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE);
    t_detach(buffer);
    t_memory_free(node, &m);
    t_close(node);
    t_live_check(NULL);
}

/* Pieces with a hole, and a size that ends behind the last one. */
static void beyond_pieces(void)
{
    wharf_node *node = t_open();
    t_memory m = t_memory_new(node, T_KIND_PIECES, 0, 6 << 20, 0);
    wharf_buffer *buffer = NULL;

    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "beyond the mapped memory",
            t_mine_attach(node, m.pointer, m.whole + 1, 0, &buffer));
    t_memory_free(node, &m);
    t_close(node);
}

/* Of another rank: it was opened here, so it is not ours to pass on. */
static void passed_on(void)
{
    wharf_node *node = t_open();
    t_memory m = t_memory_new(node, t_mine_usual(), 0, 3 << 20, 0);
    wharf_buffer *again = NULL;
    wharf_buffer *buffer;
    int peer = (t_me + 1) % t_ranks;

    buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE);
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "lies in buffer",
            t_mine_attach(node, t_mine_segment(buffer, peer, NULL), 4096, STAGE,
                          &again));
    t_detach(buffer);
    t_memory_free(node, &m);
    t_close(node);
}

/* What cannot be refused any more is told. */
static void freed_before_detach(void)
{
    wharf_node *node = NULL;

    T_OK(wharf_node_open(MPI_COMM_SELF, NULL, &node));
    for (int early = 0; early < 2; early++) {
        t_memory m = t_memory_new(node, t_mine_usual(), 0, 3 << 20, 0);
        wharf_buffer *buffer = t_mine_attached(node, m.pointer, m.bytes, 0);
        wharf_status status;
        t_stderr caught;
        char text[1000];

        if (early)
            t_memory_free(node, &m);
        t_stderr_catch(&caught);
        status = wharf_buffer_detach(&buffer);
        t_stderr_release(&caught);
        T_OK(status);
        T_CONTAINS(early ? "was freed before its buffer was detached" : "",
                   t_stderr_next(&caught, text, sizeof text));
        T_EQ_INT(early, text[0] != '\0');
        t_stderr_done(&caught);
        if (!early)
            t_memory_free(node, &m);
    }
    t_close(node);
}

static const t_case cases[] = {
    {"refused", refused, T_ANY},
    {"on_stack", on_stack, T_ANY},
    {"sync_bad_input", sync_bad_input, T_ANY},
    {"bad_input", bad_input, T_ANY},
    {"beyond_pieces", beyond_pieces, T_CUDA},
    {"passed_on", passed_on, T_ANY},
    {"freed_before_detach", freed_before_detach, T_FAKE},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
