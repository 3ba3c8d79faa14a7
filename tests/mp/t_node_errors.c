/* SPDX-License-Identifier: MIT */
/* Opening a node with wrong options or settings: every rank learns the same,
 * with rank and field or variable named, and the next open works. */
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static bool odd_one(void)
{
    return t_me == t_ranks - 1;
}

/* Opens what must fail, then what must work. */
static void refuse(wharf_status expected, int rank, const char *part,
                   const wharf_node_options *options)
{
    wharf_node *mark = (wharf_node *)&mark;
    wharf_node *node = mark;

    T_FAILS(MPI_COMM_WORLD, expected, rank, part,
            wharf_node_open(MPI_COMM_WORLD, options, &node));
    T_EQ_PTR(mark, node);
    t_live_check(NULL);
}

static void works(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 500, 0);

    t_share(node, buffer, 1);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static void mismatches(void)
{
    const wharf_node_options preset = WHARF_NODE_OPTIONS_INIT;
    wharf_node_options options = preset;

    options.timeout_ms = odd_one() ? 20000 : 25000;
    refuse(WHARF_EMISMATCH, t_ranks - 1, "timeout", &options);
    options = preset;
    options.strict = odd_one() ? WHARF_SWITCH_ON : WHARF_SWITCH_OFF;
    refuse(WHARF_EMISMATCH, t_ranks - 1, "strict", &options);
    options = preset;
    options.pool = odd_one() ? WHARF_SWITCH_OFF : WHARF_SWITCH_ON;
    refuse(WHARF_EMISMATCH, t_ranks - 1, "pool", &options);
    options = preset;
    options.bind = odd_one() ? WHARF_SWITCH_ON : WHARF_SWITCH_OFF;
    refuse(WHARF_EMISMATCH, t_ranks - 1, "bind", &options);
    options = preset;
    options.refuse_bad = odd_one() ? WHARF_SWITCH_ON : WHARF_SWITCH_OFF;
    refuse(WHARF_EMISMATCH, t_ranks - 1, "refuse_bad", &options);
    options = preset;
    options.device_map = odd_one() ? "0,0,0,0" : "0,0,0,1";
    refuse(WHARF_EMISMATCH, t_ranks - 1, "device_map", &options);
    options = preset;
    options.pool_bytes = odd_one() ? 1 << 20 : 1 << 21;
    refuse(WHARF_EMISMATCH, t_ranks - 1, "pool", &options);
    options = preset;
    options.placement =
        odd_one() ? WHARF_PLACEMENT_BLOCK : WHARF_PLACEMENT_ROUND_ROBIN;
    refuse(WHARF_EMISMATCH, t_ranks - 1, "placement", &options);
    options = preset;
    options.backend = odd_one() ? WHARF_BACKEND_AUTO : WHARF_BACKEND_HOST;
    /* auto is what the environment says here: the host, so no mismatch, or
     * cuda. */
    if (t_mode_get() != T_HOST)
        refuse(WHARF_EMISMATCH, t_ranks - 1, "backend", &options);
    works();
}

/* What the environment says and what the options say are the same thing. */
static void environment_and_options_agree(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    if (odd_one())
        T_CHECK(setenv("WHARF_TIMEOUT_MS", "21000", 1) == 0);
    else
        options.timeout_ms = 21000;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    t_close(node);
    unsetenv("WHARF_TIMEOUT_MS");
    T_CHECK(setenv("WHARF_TIMEOUT_MS", odd_one() ? "5000" : "6000", 1) == 0);
    node = NULL;
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, t_ranks - 1, "timeout",
            wharf_node_open(MPI_COMM_WORLD, NULL, &node));
    unsetenv("WHARF_TIMEOUT_MS");
    works();
}

/* keep_current is each rank's own affair. */
static void keep_current_may_differ(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    options.keep_current = odd_one() ? WHARF_SWITCH_ON : WHARF_SWITCH_OFF;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    t_close(node);
    t_live_check(NULL);
}

static void bad_values(void)
{
    const wharf_node_options preset = WHARF_NODE_OPTIONS_INIT;
    wharf_node_options options = preset;

    options.backend = (wharf_backend)9;
    refuse(WHARF_EARG, -1, "backend", &options);
    options.backend = odd_one() ? (wharf_backend)-1 : WHARF_BACKEND_AUTO;
    refuse(WHARF_EARG, t_ranks - 1, "backend", &options);
    options = preset;
    options.placement = (wharf_placement)77;
    refuse(WHARF_EARG, -1, "placement", &options);
    options = preset;
    options.timeout_ms = -1;
    refuse(WHARF_EARG, -1, "timeout", &options);
    options = preset;
    options.strict = (wharf_switch)3;
    refuse(WHARF_EARG, -1, "strict", &options);
    options = preset;
    options.bind = (wharf_switch)7;
    refuse(WHARF_EARG, -1, "bind", &options);
    options = preset;
    options.refuse_bad = odd_one() ? (wharf_switch)-1 : WHARF_SWITCH_OFF;
    refuse(WHARF_EARG, t_ranks - 1, "refuse_bad", &options);
    options = preset;
    options.struct_size = 0;
    refuse(WHARF_EARG, -1, "size", &options);
    options.struct_size = odd_one() ? 5 : sizeof options;
    refuse(WHARF_EARG, t_ranks - 1, "size", &options);
    works();
}

static void null_arguments(void)
{
    wharf_node *node = NULL;

    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, NULL,
            wharf_node_open(MPI_COMM_WORLD, NULL, NULL));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, t_ranks - 1, NULL,
            wharf_node_open(MPI_COMM_WORLD, NULL, odd_one() ? NULL : &node));
    T_REFUSES(WHARF_EARG, "comm", wharf_node_open(MPI_COMM_NULL, NULL, &node));
    T_CHECK(node == NULL);
    works();
}

/* A communicator between two groups has no node. */
static void intercommunicator(void)
{
    wharf_node *node = NULL;
    MPI_Comm half;
    MPI_Comm inter;

    MPI_Comm_split(MPI_COMM_WORLD, t_me % 2, t_me, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, (t_me + 1) % 2, 5, &inter);
    T_REFUSES(WHARF_EARG, "comm", wharf_node_open(inter, NULL, &node));
    T_CHECK(node == NULL);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    works();
}

/* Each variable with a value that it cannot take, on one rank. */
static void bad_environment(void)
{
    static const struct {
        const char *variable;
        const char *value;
    } bad[] = {
        {"WHARF_BACKEND", "quantum"}, {"WHARF_PLACEMENT", "best"},
        {"WHARF_TIMEOUT_MS", "soon"}, {"WHARF_TIMEOUT_MS", "0"},
        {"WHARF_TIMEOUT_MS", "-5"},   {"WHARF_TIMEOUT_MS", "10s"},
        {"WHARF_STRICT", "maybe"},    {"WHARF_POOL", "2"},
        {"WHARF_POOL_BYTES", "lots"}, {"WHARF_HANDLE", "socket"},
        {"WHARF_BIND", "near"},       {"WHARF_REFUSE_BAD", "-1"},
        {"WHARF_CHUNK_BYTES", "-1"},  {"WHARF_KEEP_CURRENT", "x"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *before = getenv(bad[i].variable);
        char *copy = before != NULL ? strdup(before) : NULL;

        if (odd_one())
            T_CHECK(setenv(bad[i].variable, bad[i].value, 1) == 0);
        refuse(WHARF_ECONFIG, t_ranks - 1, bad[i].variable, NULL);
        {
            wharf_error error;

            wharf_last_error(&error);
            T_CONTAINS(bad[i].value, error.cause);
        }
        if (copy != NULL)
            setenv(bad[i].variable, copy, 1);
        else
            unsetenv(bad[i].variable);
        free(copy);
    }
    works();
}

/* A variable that Wharf does not know is no failure. */
static void unknown_variable(void)
{
    T_CHECK(setenv("WHARF_TIMOUT_MS", "5", 1) == 0);
    works();
    unsetenv("WHARF_TIMOUT_MS");
}

/* No GPU on any rank, or on one rank only: all say so. */
static void no_gpu(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;
    const char *reason;

    T_CHECK(setenv("WHARF_CUDA_DRIVER", "/nonexistent/libcuda.so", 1) == 0);
    options.backend = WHARF_BACKEND_CUDA;
    refuse(WHARF_ENODEV, -1, NULL, &options);
    options.backend = odd_one() ? WHARF_BACKEND_CUDA : WHARF_BACKEND_HOST;
    refuse(WHARF_EMISMATCH, t_ranks - 1, "backend", &options);
    /* auto goes on without, and tells why. */
    unsetenv("WHARF_BACKEND");
    options.backend = WHARF_BACKEND_AUTO;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    T_EQ_INT(WHARF_BACKEND_HOST, wharf_node_backend(node));
    reason = wharf_node_backend_reason(node);
    T_CHECK(strstr(reason, "libcuda") || strstr(reason, "without CUDA"));
    t_close(node);
    unsetenv("WHARF_CUDA_DRIVER");
    setenv("WHARF_BACKEND", "host", 1);
    works();
}

static const t_case cases[] = {
    {"mismatches", mismatches, T_ANY},
    {"environment_and_options_agree", environment_and_options_agree, T_ANY},
    {"keep_current_may_differ", keep_current_may_differ, T_ANY},
    {"bad_values", bad_values, T_ANY},
    {"null_arguments", null_arguments, T_ANY},
    {"intercommunicator", intercommunicator, T_ANY},
    {"bad_environment", bad_environment, T_ANY},
    {"unknown_variable", unknown_variable, T_ANY},
    {"no_gpu", no_gpu, T_HOST},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
