/* SPDX-License-Identifier: MIT */
/*
 * Publishing and joining with each call that can fail made to fail once. The
 * rank joins itself, so that a fault meets either side: its caller, or the
 * thread that answers. Nothing is held after a failure, outputs are untouched,
 * and the next try works.
 */
#include "base/fault.h"
#include "t_group.h"

#include <errno.h>
#include <unistd.h>

static const struct {
    wi_fault_kind kind;
    int code;
    unsigned modes;
} kinds[] = {
    {WI_FAULT_MEM, 0, T_ANY},
    {WI_FAULT_SYS, EMFILE, T_ANY},
    {WI_FAULT_DRIVER, 999, T_CUDA},
};

static const char *name_here(void)
{
    static char name[40];

    snprintf(name, sizeof name, "t_join_faults-%d", (int)getpid());
    return name;
}

static void same_as(const wharf_stats *before, const t_holdings *holdings,
                    const char *where, long nth)
{
    /* Threads of the library close what a joiner left by and by. */
    for (int i = 0; i < 200; i++) {
        if (t_holdings_get().descriptors == holdings->descriptors)
            break;
        usleep(5000);
    }
    if (t_holdings_get().descriptors != holdings->descriptors)
        T_FAIL("%s, call %ld: %d descriptors, before %d", where, nth,
               t_holdings_get().descriptors, holdings->descriptors);
    t_live_check(before);
}

/* Everything once, with the nth call of a kind failing; whether there was one.
 * `late`: armed only when the buffer is published. */
static bool once(wharf_buffer *buffer, size_t k, long nth, bool late)
{
    wharf_joined_options options = WHARF_JOINED_OPTIONS_INIT;
    wharf_stats before = t_stats();
    t_holdings holdings = t_holdings_get();
    wharf_joined *joined = NULL;
    const char *where = "?";
    wharf_status status;

    options.timeout_ms = 3000;
    if (!late)
        wi_fault_arm(kinds[k].kind, nth, kinds[k].code);
    status = wharf_buffer_publish(buffer, name_here(), NULL);
    if (late) {
        T_OK(status);
        wi_fault_arm(kinds[k].kind, nth, kinds[k].code);
        status = wharf_join(name_here(), &options, &joined);
        T_CHECK((status == WHARF_OK) == (joined != NULL));
    }
    bool fired = wi_fault_disarm(&where);
    if (!fired)
        T_OK(status);
    if (joined != NULL)
        T_OK(wharf_leave(&joined));
    if (late || status == WHARF_OK)
        T_OK(wharf_buffer_unpublish(buffer));
    same_as(&before, &holdings, where != NULL ? where : "?", nth);
    return fired;
}

static void sweep(wharf_space space, bool late)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_node *node = t_open();
    wharf_buffer *buffer = NULL;
    long points = 0;

    options.space = space;
    T_OK(wharf_buffer_attach(node, 5000, &options, &buffer));
    /* First uses are over after this. */
    while (once(buffer, 0, 1000000, late))
        continue;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (!(kinds[k].modes & (unsigned)t_mode_get()))
            continue;
        for (long nth = 1; once(buffer, k, nth, late); nth++)
            points++;
    }
    printf("%ld points\n", points);
    T_CHECK(points > 5);
    T_CHECK(!once(buffer, 0, 1000000, true));
    t_detach(buffer);
    t_close(node);
}

static void publishing(void)
{
    sweep(WHARF_SPACE_DEVICE, false);
}

static void joining(void)
{
    sweep(WHARF_SPACE_DEVICE, true);
}

/* Where pages cannot be locked the CPU still reads them. */
static void joining_host_memory(void)
{
    sweep(WHARF_SPACE_HOST, true);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"publishing", publishing, T_HOST | T_FAKE},
        {"joining", joining, T_HOST | T_FAKE},
        {"joining_host_memory", joining_host_memory, T_FAKE},
        {NULL, NULL, 0},
    };

    return t_main(argc, argv, MPI_THREAD_SINGLE, cases);
}
