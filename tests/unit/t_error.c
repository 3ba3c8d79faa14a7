/* SPDX-License-Identifier: MIT */
/* What the wi_fail calls write into the thread's record. */
#include "base/error.h"

#include <errno.h>
#include <pthread.h>

#include "t_test.h"

static void check_start(void)
{
    wharf_error error;

    wharf_last_error(&error);
    T_EQ_INT(WHARF_OK, error.status);
    T_EQ_INT(-1, error.rank);
    T_EQ_STR("", error.call);
    T_EQ_STR("", error.cause);
    T_EQ_STR("", error.remedy);
    wharf_last_error(NULL);
}

static void check_fields(void)
{
    wharf_error error;

    wi_call_begin("wharf_buffer_attach", 3);
    T_EQ_INT(WHARF_EARG, wi_fail(WHARF_EARG, "pass a size", "size %d", -1));
    wharf_last_error(&error);
    T_EQ_INT(WHARF_EARG, error.status);
    T_EQ_INT(WHARF_SOURCE_WHARF, error.source);
    T_EQ_INT(0, error.native);
    T_EQ_INT(3, error.rank);
    T_EQ_STR("wharf_buffer_attach", error.call);
    T_EQ_STR("size -1", error.cause);
    T_EQ_STR("pass a size", error.remedy);

    T_EQ_INT(WHARF_EDRIVER, wi_fail_native(WHARF_EDRIVER, WHARF_SOURCE_CUDA,
                                           801, NULL, "cuMemCreate"));
    wharf_last_error(&error);
    T_EQ_INT(WHARF_SOURCE_CUDA, error.source);
    T_EQ_INT(801, error.native);
    T_EQ_STR("", error.remedy);
    T_EQ_INT(WHARF_EDRIVER, wi_call_end(WHARF_EDRIVER));
    wharf_last_error(&error);
    T_EQ_STR("cuMemCreate", error.cause);
}

/* A call that succeeds leaves the record of an earlier failed one, though
 * something failed in it too; so does one with an answer, unless the record is
 * the answer's own. */
static void check_kept(void)
{
    const wharf_status ends[] = {WHARF_OK, WHARF_ENOTREADY, WHARF_ECLOSED};
    wharf_error error;

    wi_call_begin("wharf_first", 1);
    wi_fail(WHARF_EARG, NULL, "of the first");
    T_EQ_INT(WHARF_EARG, wi_call_end(WHARF_EARG));
    for (int i = 0; i < 3; i++) {
        wi_call_begin("wharf_second", 2);
        wi_fail(WHARF_EUNSUPPORTED, "do so", "the first way");
        wi_call_begin("wharf_inner", 3);
        wi_fail(WHARF_ELIMIT, NULL, "the second way");
        T_EQ_INT(WHARF_ELIMIT, wi_call_end(WHARF_ELIMIT));
        wi_error_record()->rank = 7;
        T_EQ_INT(ends[i], wi_call_end(ends[i]));
        wharf_last_error(&error);
        T_EQ_INT(WHARF_EARG, error.status);
        T_EQ_INT(1, error.rank);
        T_EQ_STR("wharf_first", error.call);
        T_EQ_STR("of the first", error.cause);
    }
    wi_call_begin("wharf_join", -1);
    wi_fail(WHARF_ENOTREADY, NULL, "not published");
    T_EQ_INT(WHARF_ENOTREADY, wi_call_end(WHARF_ENOTREADY));
    T_EQ_STR("not published", wi_error_record()->cause);
}

static void check_os(void)
{
    const wharf_error *error = wi_error_record();

    T_EQ_INT(WHARF_EOS, wi_fail_os(EMFILE, "raise it", "open of %s", "/x"));
    T_EQ_INT(WHARF_SOURCE_OS, error->source);
    T_EQ_INT(EMFILE, error->native);
    T_EQ_STR("open of /x: Too many open files", error->cause);
    T_EQ_STR("raise it", error->remedy);
    T_EQ_INT(WHARF_ENOMEM, wi_fail_os(ENOMEM, NULL, "mmap"));
    T_EQ_INT(ENOMEM, error->native);
    /* A number that no system call gives must not crash. */
    T_EQ_INT(WHARF_EOS, wi_fail_os(123456, NULL, "odd"));
    T_CONTAINS("123456", error->cause);
}

/* Texts too long for the record end in "..."; all fits stays whole. */
static void check_length(void)
{
    const wharf_error *error = wi_error_record();
    char text[400];

    memset(text, 'x', sizeof text);
    text[sizeof error->cause - 1] = '\0';
    wi_fail(WHARF_EARG, NULL, "%s", text);
    T_EQ_STR(text, error->cause);
    wi_fail_os(EIO, NULL, "%s", text);
    T_EQ_INT(sizeof error->cause - 1, strlen(error->cause));
    T_EQ_STR("x...", error->cause + sizeof error->cause - 5);
    wi_fail_os(EIO, NULL, "%s", text + 1);
    T_EQ_STR("x...", error->cause + sizeof error->cause - 5);

    text[sizeof error->cause - 1] = 'x';
    text[sizeof text - 1] = '\0';
    wi_call_begin(text, 0);
    wi_fail(WHARF_EARG, text, "%s", text);
    wi_call_end(WHARF_EARG);
    T_EQ_INT(sizeof error->cause - 1, strlen(error->cause));
    T_EQ_INT(sizeof error->remedy - 1, strlen(error->remedy));
    T_EQ_INT(sizeof error->call - 1, strlen(error->call));
    T_EQ_STR("x...", error->cause + sizeof error->cause - 5);
    T_EQ_STR("x...", error->remedy + sizeof error->remedy - 5);
}

/* A new record may be made of the parts of the old one. */
static void check_alias(void)
{
    wharf_error *error = wi_error_record();

    wi_fail(WHARF_EARG, "do so", "first");
    wi_fail(WHARF_ECONFIG, error->remedy, "%s, then %s", error->cause,
            "second");
    T_EQ_STR("first, then second", error->cause);
    T_EQ_STR("do so", error->remedy);
}

static void *other_thread(void *argument)
{
    (void)argument;
    T_EQ_INT(WHARF_OK, wi_error_record()->status);
    T_EQ_INT(-1, wi_error_record()->rank);
    wi_fail(WHARF_ELIMIT, NULL, "other");
    return NULL;
}

static void check_threads(void)
{
    pthread_t thread;

    wi_fail(WHARF_EARG, NULL, "mine");
    T_EQ_INT(0, pthread_create(&thread, NULL, other_thread, NULL));
    T_EQ_INT(0, pthread_join(thread, NULL));
    T_EQ_INT(WHARF_EARG, wi_error_record()->status);
    T_EQ_STR("mine", wi_error_record()->cause);
}

int main(void)
{
    check_start();
    check_fields();
    check_kept();
    check_os();
    check_length();
    check_alias();
    check_threads();
    return 0;
}
