/* SPDX-License-Identifier: MIT */
/*
 * Who shares memory with whom.
 *
 * MPI's answer is not believed blindly: libraries have shipped in which it put
 * every rank alone. Every rank shows a card; ranks belong together if they run
 * on one kernel and either MPI says so or host name and network namespace are
 * the same. Where this differs from MPI's answer, it is done our way and said.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "comm/private.h"

int wi_split_test_shatter;

static bool card_same_host(const wi_card *a, const wi_card *b)
{
    return a->identity.net_ns == b->identity.net_ns &&
           wi_identity_same_kernel(&a->identity, &b->identity) &&
           strcmp(a->identity.host, b->identity.host) == 0;
}

static bool card_same_leader(const wi_card *a, const wi_card *b)
{
    return a->leader == b->leader &&
           wi_identity_same_kernel(&a->identity, &b->identity);
}

typedef bool (*card_relation)(const wi_card *a, const wi_card *b);

/* Groups are trees in the array: each entry names one at or below itself, a
 * root itself. */
static int group_root(int *groups, int i)
{
    while (groups[i] != i) {
        groups[i] = groups[groups[i]];
        i = groups[i];
    }
    return i;
}

static void group_join(int *groups, int a, int b)
{
    a = group_root(groups, a);
    b = group_root(groups, b);
    if (a < b)
        groups[b] = a;
    else
        groups[a] = b;
}

/* Joins i with one earlier rank of the relation (an equivalence: one is
 * enough). The neighbour and the leader are asked first, so that the usual
 * layouts of ranks on hosts cost one comparison a rank. */
static void group_place(const wi_card *cards, int *groups, int i,
                        card_relation related)
{
    int leader = cards[i].leader;

    if (i > 0 && related(&cards[i], &cards[i - 1])) {
        group_join(groups, i, i - 1);
        return;
    }
    if (leader >= 0 && leader < i && related(&cards[i], &cards[leader])) {
        group_join(groups, i, leader);
        return;
    }
    for (int j = 0; j < i - 1; j++)
        if (related(&cards[i], &cards[j])) {
            group_join(groups, i, j);
            return;
        }
}

bool wi_split_groups(const wi_card *cards, int count, int *groups)
{
    bool as_mpi = true;

    for (int i = 0; i < count; i++) {
        groups[i] = i;
        group_place(cards, groups, i, card_same_leader);
        group_place(cards, groups, i, card_same_host);
    }
    /* Roots are the lowest of their trees, and parents come before children:
     * one pass flattens. */
    for (int i = 0; i < count; i++)
        groups[i] = group_root(groups, i);
    for (int i = 0; i < count; i++) {
        int leader = cards[i].leader;

        if (leader < 0 || leader >= count)
            leader = i;
        if (leader != cards[groups[i]].leader || groups[leader] != groups[i])
            as_mpi = false;
    }
    return as_mpi;
}

void wi_split_remark(const wi_card *cards, int count, const int *groups,
                     int group, char *text, size_t capacity)
{
    int leaders = 0, strangers = 0;

    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        bool member = groups[i] == group;
        bool first = true;

        if (!member && cards[i].leader == cards[group].leader)
            strangers++;
        for (int j = 0; member && first && j < i; j++)
            first = groups[j] != group || cards[j].leader != cards[i].leader;
        if (member && first)
            leaders++;
    }
    if (leaders > 1)
        snprintf(text, capacity,
                 "MPI split the node into %d groups; regrouped by boot id and "
                 "host name",
                 leaders);
    else if (strangers > 0)
        snprintf(text, capacity,
                 "MPI counted %d ranks of another kernel to the node; "
                 "regrouped by boot id",
                 strangers);
}

/* MPI's answer, and the lowest rank of it in the whole. */
static wharf_status split_ask(wi_opening *o, MPI_Comm *shared)
{
    MPI_Group whole = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    const int first = 0;
    int leader = o->whole_rank;
    int code;

    if (wi_split_test_shatter)
        code = MPI_Comm_split(o->whole, o->whole_rank, 0, shared);
    else
        code = MPI_Comm_split_type(o->whole, MPI_COMM_TYPE_SHARED,
                                   o->whole_rank, MPI_INFO_NULL, shared);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Comm_split_type");
    MPI_Comm_set_errhandler(*shared, MPI_ERRORS_RETURN);
    MPI_Comm_group(o->whole, &whole);
    MPI_Comm_group(*shared, &group);
    code = MPI_Group_translate_ranks(group, 1, &first, whole, &leader);
    MPI_Group_free(&group);
    MPI_Group_free(&whole);
    o->card.leader = leader;
    return code == MPI_SUCCESS ? WHARF_OK
                               : wi_mpi_fail(code, "MPI_Group_translate_ranks");
}

/* Every rank of the whole computes the same groups, so all split or none. */
static wharf_status split_correct(wi_opening *o, MPI_Comm *shared)
{
    int code;

    if (wi_split_groups(o->cards, o->whole_size, o->groups)) {
        o->node = *shared;
        *shared = MPI_COMM_NULL;
        return WHARF_OK;
    }
    code = MPI_Comm_split(o->whole, o->groups[o->whole_rank], o->whole_rank,
                          &o->node);
    if (code != MPI_SUCCESS) {
        o->node = MPI_COMM_NULL;
        return wi_mpi_fail(code, "MPI_Comm_split");
    }
    MPI_Comm_set_errhandler(o->node, MPI_ERRORS_RETURN);
    return WHARF_OK;
}

wharf_status wi_split_run(wi_opening *o)
{
    MPI_Comm shared = MPI_COMM_NULL;
    wharf_status status = split_ask(o, &shared);
    int code;

    if (status != WHARF_OK)
        goto undo;
    code = MPI_Iallgather(&o->card, (int)sizeof o->card, MPI_BYTE, o->cards,
                          (int)sizeof o->card, MPI_BYTE, o->whole, &o->request);
    status = code == MPI_SUCCESS ? wi_opening_wait(o, "MPI_Iallgather")
                                 : wi_mpi_fail(code, "MPI_Iallgather");
    if (status == WHARF_OK)
        status = split_correct(o, &shared);
undo:
    if (shared != MPI_COMM_NULL)
        MPI_Comm_free(&shared);
    return status;
}
