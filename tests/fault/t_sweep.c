/* SPDX-License-Identifier: MIT */
/*
 * The fault sweep: every call that can fail is made to fail once, on every
 * rank in turn, in every scenario.
 *
 * For a scenario, a kind of call and a rank: the rank arms "fail your n-th call
 * of this kind" for n = 1, 2, ...; all ranks run the scenario; then
 *   - all ranks have the same status, and none that says "late" or "dead";
 *   - after a failure outputs are untouched and each process holds what it
 *     held before;
 *   - the same scenario without a fault works.
 * When the fault no longer fires, the scenario has no n-th call: next.
 *
 * Arguments: most=N (injection points for one kind, code and rank, default
 * all), codes=N (error codes tried for each, default 1), verbose=1, fresh=1
 * (a node of its own for every injection, see sweep_node.c). T_SWEEP in
 * the environment: names of scenarios, comma separated (default: all).
 */
#include "base/fault.h"
#include "sweep.h"

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The sweep --------------------------------------------------------- */

static const struct {
    wi_fault_kind kind;
    const char *name;
    int codes[3]; /* errno values or CUresults */
    int count;
    unsigned modes;
} kinds[] = {
    {WI_FAULT_MEM, "MEM", {0}, 1, T_ANY},
    {WI_FAULT_SYS, "SYS", {EMFILE, ENOMEM, EPERM}, 3, T_ANY},
    /* Out of memory, unknown error, not supported. */
    {WI_FAULT_DRIVER, "DRIVER", {2, 999, 801}, 3, T_CUDA},
    {WI_FAULT_AGREE, "AGREE", {0}, 1, T_ANY},
};

/* Where a fault goes. */
typedef struct point {
    const scenario *what;
    size_t kind;
    int code;
    int rank;
    long nth;
} point;

static const char *point_name(const point *p, const char *where)
{
    static char text[200];

    snprintf(text, sizeof text, "%s: %s %ld (%s, code %d) on rank %d",
             p->what->name, kinds[p->kind].name, p->nth,
             where != NULL ? where : "?", p->code, p->rank);
    return text;
}

/* All ranks have the same status; a wait for somebody has no part in it. */
static void check_statuses(const point *p, const char *where,
                           wharf_status status)
{
    int all[64];
    int mine = (int)status;

    T_CHECK(t_ranks <= 64);
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int rank = 0; rank < t_ranks; rank++) {
        if (!p->what->local && all[rank] != all[0])
            T_FAIL("%s: %s on rank 0, %s on rank %d", point_name(p, where),
                   wharf_status_name((wharf_status)all[0]),
                   wharf_status_name((wharf_status)all[rank]), rank);
        if (p->what->local && rank != p->rank && all[rank] != WHARF_OK)
            T_FAIL("%s: rank %d failed with %s", point_name(p, where), rank,
                   wharf_status_name((wharf_status)all[rank]));
    }
    if (status == WHARF_ETIMEDOUT ||
        wharf_status_scope(status) == WHARF_SCOPE_NODE)
        T_FAIL("%s: %s", point_name(p, where), wharf_status_name(status));
}

/* The record says which rank, the same on all. */
static void check_record(const point *p, const char *where, wharf_status status)
{
    wharf_error error;

    if (status == WHARF_OK || p->what->local)
        return;
    wharf_last_error(&error);
    if (error.status != status || error.rank != p->rank ||
        error.cause[0] == '\0')
        T_FAIL("%s: the record says rank %d, %s, \"%s\"", point_name(p, where),
               error.rank, wharf_status_name(error.status), error.cause);
}

static void check_held(const point *p, const char *where,
                       const wharf_stats *before, const t_holdings *holdings)
{
    wharf_stats now = t_stats();

    /* What a failed agreement leaves in doubt is kept and told. */
    if (now.kept_bytes != before->kept_bytes)
        return;
#define T_HELD(name, text)                                                     \
    if (strncmp(#name, "live_", 5) == 0 &&                                     \
        strcmp(#name, "live_communicators") != 0 && now.name != before->name)  \
        T_FAIL("%s: %s went from %lld to %lld", point_name(p, where), #name,   \
               (long long)before->name, (long long)now.name);
    WHARF_STATS_LIST(T_HELD)
#undef T_HELD
    if (t_holdings_get().descriptors != holdings->descriptors)
        T_FAIL("%s: descriptors went from %d to %d", point_name(p, where),
               holdings->descriptors, t_holdings_get().descriptors);
}

static void check_untouched(const point *p, const char *where, const state *s,
                            const state *prepared)
{
    if (!p->what->consumes && memcmp(s, prepared, sizeof *s) != 0)
        T_FAIL("%s: an output was written", point_name(p, where));
}

/* The scenario undisturbed; false if this machine cannot do it at all. */
static bool run_clean(const scenario *what)
{
    wharf_status status;
    state s;

    memset(&s, 0, sizeof s);
    what->prepare(&s);
    status = what->act(&s);
    if (status != WHARF_EUNSUPPORTED) {
        T_OK(status);
        what->check(&s);
    }
    what->finish(&s);
    return status == WHARF_OK;
}

/* Whether the fault fired on p->rank, known to all; *where is its name there
 * and on the others. */
static bool learn(const point *p, bool fired, const char *here, char where[64])
{
    int did = fired;

    snprintf(where, 64, "%s", here != NULL ? here : "");
    MPI_Bcast(&did, 1, MPI_INT, p->rank, MPI_COMM_WORLD);
    MPI_Bcast(where, 64, MPI_CHAR, p->rank, MPI_COMM_WORLD);
    return did != 0;
}

/* Injections that the library got over: the call succeeded all the same. */
static long overcome;

/* After a failure of a call that is no local one: undisturbed it works. False
 * if the node is no longer what it was before. */
static bool act_again(const point *p, state *s, wharf_status status)
{
    wharf_status now;
    long calls;

    if (status == WHARF_OK)
        return false; /* the library may have found another way, for good */
    wi_fault_arm(kinds[p->kind].kind, LONG_MAX, 0);
    now = p->what->act(s);
    calls = wi_fault_count();
    wi_fault_disarm(NULL);
    T_OK(now);
    return sweep_node_as_before(calls);
}

/* One injection; false when there was no n-th call. */
static bool inject(const point *p)
{
    t_holdings holdings_start = t_holdings_get();
    wharf_stats start = t_stats();
    t_holdings holdings;
    wharf_stats before;
    state prepared;
    state s;
    const char *here = NULL;
    char where[64];
    wharf_status status;
    bool fired = false;
    bool same = true;
    int there; /* status on the rank with the fault */

    memset(&s, 0, sizeof s);
    p->what->prepare(&s);
    t_barrier();
    prepared = s;
    before = t_stats();
    holdings = t_holdings_get();
    if (t_me == p->rank)
        wi_fault_arm(kinds[p->kind].kind, p->nth, p->code);
    status = p->what->act(&s);
    if (t_me == p->rank)
        fired = wi_fault_disarm(&here);
    fired = learn(p, fired, here, where);
    if (t_me == 0 && t_argument("verbose", 0))
        printf("%s: %s\n", point_name(p, where), wharf_status_name(status));
    check_statuses(p, where, status);
    if (!fired)
        T_OK(status);
    there = (int)status;
    MPI_Bcast(&there, 1, MPI_INT, p->rank, MPI_COMM_WORLD);
    if (fired && there == (int)WHARF_OK)
        overcome++;
    if (fired && status != WHARF_OK) {
        check_record(p, where, status);
        check_untouched(p, where, &s, &prepared);
        /* Local calls may keep what they made for the next try. */
        if (!p->what->consumes && !p->what->local)
            check_held(p, where, &before, &holdings);
    }
    if (p->what->local) {
        if (status != WHARF_OK)
            T_OK(p->what->act(&s)); /* again, undisturbed */
        t_barrier();
    } else if (!p->what->consumes) {
        same = act_again(p, &s, status);
    }
    if (p->what->local || !p->what->consumes || status == WHARF_OK)
        p->what->check(&s);
    p->what->finish(&s);
    check_held(p, where, &start, &holdings_start);
    if (fired && !same)
        sweep_node_retire();
    return fired;
}

static long sweep_kind(const scenario *what, size_t kind, int code)
{
    long most = t_argument("most", 100000);
    long points = 0;

    for (int rank = 0; rank < t_ranks; rank++) {
        for (long nth = 1; nth <= most; nth++) {
            point p = {what, kind, code, rank, nth};

            /* The alarm of t_main is for the sweep's longest injection. */
            alarm(60);
            sweep_node_ready(what);
            if (!inject(&p))
                break;
            points++;
        }
    }
    return points;
}

static long sweep(const scenario *what)
{
    long codes = t_argument("codes", 1);
    long points = 0;

    overcome = 0;
    if (!run_clean(what)) {
        if (t_me == 0)
            printf("sweep: scenario %s: not possible here\n", what->name);
        return 0;
    }
    run_clean(what); /* so that first uses are over */
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (!(kinds[k].modes & (unsigned)t_mode_get()))
            continue;
        sweep_node_learn(what, kinds[k].kind);
        for (int c = 0; c < kinds[k].count && c < codes; c++)
            points += sweep_kind(what, k, kinds[k].codes[c]);
    }
    sweep_node_forget();
    T_CHECK(run_clean(what));
    if (t_me == 0) {
        printf("sweep: scenario %s: %ld injection points, all passed "
               "(%ld overcome)\n",
               what->name, points, overcome);
        fflush(stdout);
    }
    return points;
}

static bool wanted(const char *name)
{
    const char *list = getenv("T_SWEEP");
    size_t length = strlen(name);

    if (list == NULL)
        return true;
    for (const char *at = list; (at = strstr(at, name)) != NULL; at++) {
        if ((at == list || at[-1] == ',') &&
            (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* How many scenarios of a list were swept. */
static int sweep_list(const scenario *list, long *total)
{
    int count = 0;

    for (size_t i = 0; list[i].name != NULL; i++) {
        if (!(list[i].modes & (unsigned)t_mode_get()) || !wanted(list[i].name))
            continue;
        *total += sweep(&list[i]);
        count++;
    }
    return count;
}

static void sweep_all(void)
{
    long total = 0;
    int count = sweep_list(scenarios, &total);

    count += sweep_list(signal_scenarios, &total);
    /* Tests of their own (sweep.cmake), of two ranks: that is enough there. */
    if (getenv("T_SWEEP") != NULL)
        count += sweep_list(memory_scenarios, &total) +
                 sweep_list(ring_scenarios, &total) +
                 sweep_list(copy_scenarios, &total) +
                 sweep_list(exchange_scenarios, &total);
    if (t_me == 0)
        printf("sweep: %d scenarios, %d ranks, %ld injection points, all "
               "passed\n",
               count, t_ranks, total);
    T_CHECK(total > 0);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"sweep", sweep_all, T_HOST | T_FAKE},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
