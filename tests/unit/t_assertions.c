/* SPDX-License-Identifier: MIT */
/* The assertions themselves: each that must fail ends its process with the
 * right exit code and says both values, the place and the rank. */
#include <stdbool.h>
#include <sys/wait.h>

#include "support/t_test.h"

typedef struct t_failure {
    void (*run)(void);
    int code;
    const char *said;
} t_failure;

static void check(void)
{
    int zero = 0;

    T_CHECK(zero > 1);
}

static void eq_int(void)
{
    size_t two = 2;

    T_EQ_INT(3, two);
}

static void eq_int_wide(void)
{
    T_EQ_INT(1, UINT64_C(0x100000001));
}

static void eq_str(void)
{
    const char *got = "left";

    T_EQ_STR("right", got);
}

static void eq_str_null(void)
{
    const char *got = NULL;

    T_EQ_STR("right", got);
}

static void eq_ptr(void)
{
    T_EQ_PTR(NULL, (void *)0x10);
}

static void eq_mem(void)
{
    T_EQ_MEM("abcd", "abxd", 4);
}

static void contains(void)
{
    T_CONTAINS("needle", "hay");
}

static void ok(void)
{
    T_OK(WHARF_ELIMIT);
}

static void status(void)
{
    T_STATUS(WHARF_EARG, WHARF_OK);
}

static void fail(void)
{
    T_FAIL("by %s", "wish");
}

static void skip(void)
{
    T_SKIP("no %d-sided coin", 3);
}

static const t_failure failures[] = {
    {check, 1, "not true: zero > 1"},
    {eq_int, 1, "two: expected 3 (0x3), got 2 (0x2)"},
    {eq_int_wide, 1, "expected 1 (0x1), got 4294967297 (0x100000001)"},
    {eq_str, 1, "got: expected \"right\", got \"left\""},
    {eq_str_null, 1, "got: expected \"right\", got \"(NULL)\""},
    {eq_ptr, 1, "got 0x10"},
    {eq_mem, 1, "byte 2 of 4: expected 0x63, got 0x78"},
    {contains, 1, "expected to find \"needle\" in \"hay\""},
    {ok, 1, "WHARF_ELIMIT: expected WHARF_OK, got WHARF_ELIMIT"},
    {status, 1, "WHARF_OK: expected WHARF_EARG, got WHARF_OK"},
    {fail, 1, "by wish"},
    {skip, 77, "skipped: no 3-sided coin"},
};

/* Runs one of them as rank 5 in a child and compares what it said. */
static void failure_check(const t_failure *failure)
{
    char text[2048];
    ssize_t length;
    size_t all = 0;
    int ends[2], state;
    pid_t child;

    T_EQ_INT(0, pipe(ends));
    child = fork();
    T_CHECK(child >= 0);
    if (child == 0) {
        setenv("OMPI_COMM_WORLD_RANK", "5", 1);
        dup2(ends[1], STDERR_FILENO);
        failure->run();
        _exit(0);
    }
    close(ends[1]);
    while ((length = read(ends[0], text + all, sizeof(text) - 1 - all)) > 0)
        all += (size_t)length;
    text[all] = '\0';
    close(ends[0]);
    T_EQ_INT(child, waitpid(child, &state, 0));
    T_CHECK(WIFEXITED(state));
    T_EQ_INT(failure->code, WEXITSTATUS(state));
    T_CONTAINS(failure->said, text);
    T_CONTAINS("t_assertions.c:", text);
    T_CONTAINS(": rank 5: ", text);
}

/* What must pass, passes, and evaluates its arguments once. */
static void passes(void)
{
    int count = 0;

    T_CHECK(++count == 1);
    T_EQ_INT(2, ++count);
    T_EQ_INT(-1, (signed char)-1);
    T_EQ_STR("same", "same");
    T_EQ_PTR(&count, &count);
    T_EQ_MEM("ab", "ac", 1);
    T_CONTAINS("", "");
    T_OK((++count, WHARF_OK));
    T_STATUS(WHARF_EARG, (++count, WHARF_EARG));
    T_EQ_INT(4, count);
}

int main(void)
{
    passes();
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
        failure_check(&failures[i]);
    return 0;
}
