/* SPDX-License-Identifier: MIT */
/* Which ranks form a node, from what they tell about themselves. */
#include "comm/private.h"
#include "t_test.h"

#define KERNEL_A "1c0e3a54-58d1-4c5c-9d4e-0d9f4a8c0001"
#define KERNEL_B "1c0e3a54-58d1-4c5c-9d4e-0d9f4a8c0002"

static wi_card card(const char *boot_id, const char *host, uint64_t net_ns,
                    int leader)
{
    wi_card made = {.leader = leader};

    snprintf(made.identity.boot_id, sizeof made.identity.boot_id, "%s",
             boot_id);
    snprintf(made.identity.host, sizeof made.identity.host, "%s", host);
    made.identity.net_ns = net_ns;
    made.identity.pid_ns = 1;
    made.identity.pid = 100;
    return made;
}

static void check(const wi_card *cards, int count, const int *expected,
                  bool as_mpi)
{
    int groups[16];

    T_EQ_INT(as_mpi, wi_split_groups(cards, count, groups));
    for (int i = 0; i < count; i++)
        T_EQ_INT(expected[i], groups[i]);
}

static void check_remark(const wi_card *cards, int count, int group,
                         const char *part)
{
    char text[256];
    int groups[16];

    wi_split_groups(cards, count, groups);
    wi_split_remark(cards, count, groups, group, text, sizeof text);
    if (part[0])
        T_CONTAINS(part, text);
    else
        T_EQ_STR("", text);
}

static void one_host(void)
{
    wi_card cards[] = {card(KERNEL_A, "a", 7, 0), card(KERNEL_A, "a", 7, 0),
                       card(KERNEL_A, "a", 7, 0)};

    check(cards, 3, (int[]){0, 0, 0}, true);
    check_remark(cards, 3, 0, "");
    check(cards, 1, (int[]){0}, true);
}

/* Ranks dealt out to two hosts in turn. Inodes of namespaces are equal on
 * different kernels. */
static void two_hosts(void)
{
    wi_card cards[] = {card(KERNEL_A, "a", 7, 0), card(KERNEL_B, "b", 7, 1),
                       card(KERNEL_A, "a", 7, 0), card(KERNEL_B, "b", 7, 1)};

    check(cards, 4, (int[]){0, 1, 0, 1}, true);
    check_remark(cards, 4, 1, "");
}

/* Two hosts of one name: the kernel tells them apart. */
static void same_name(void)
{
    wi_card cards[] = {card(KERNEL_A, "localhost", 7, 0),
                       card(KERNEL_B, "localhost", 7, 1)};

    check(cards, 2, (int[]){0, 1}, true);
}

/* Libraries with a broken split put every rank alone. */
static void shattered(void)
{
    wi_card cards[] = {card(KERNEL_A, "a", 7, 0), card(KERNEL_B, "b", 7, 1),
                       card(KERNEL_A, "a", 7, 2), card(KERNEL_B, "b", 7, 3),
                       card(KERNEL_A, "a", 7, 4)};

    check(cards, 5, (int[]){0, 1, 0, 1, 0}, false);
    check_remark(cards, 5, 0, "split the node into 3 groups");
    check_remark(cards, 5, 1, "split the node into 2 groups");
}

/* Containers with host names of their own on one kernel: MPI's word counts. */
static void names_differ(void)
{
    wi_card cards[] = {card(KERNEL_A, "x", 7, 0), card(KERNEL_A, "y", 8, 0)};

    check(cards, 2, (int[]){0, 0}, true);
    cards[1].leader = 1;
    check(cards, 2, (int[]){0, 1}, true);
    check_remark(cards, 2, 1, "");
}

/* One kernel and one name, but other networks: no socket reaches across. */
static void networks_differ(void)
{
    wi_card cards[] = {card(KERNEL_A, "x", 7, 0), card(KERNEL_A, "x", 8, 1)};

    check(cards, 2, (int[]){0, 1}, true);
}

/* Equal pids in two pid namespaces are two processes of one node. */
static void equal_pids(void)
{
    wi_card cards[] = {card(KERNEL_A, "a", 7, 0), card(KERNEL_A, "a", 7, 0)};

    cards[1].identity.pid_ns = 2;
    check(cards, 2, (int[]){0, 0}, true);
    T_CHECK(wi_identity_number(&cards[0].identity) !=
            wi_identity_number(&cards[1].identity));
}

/* MPI says shared where it cannot be: two kernels. */
static void too_large(void)
{
    wi_card cards[] = {card(KERNEL_A, "a", 7, 0), card(KERNEL_B, "a", 7, 0),
                       card(KERNEL_A, "a", 7, 0), card(KERNEL_B, "a", 7, 0)};

    check(cards, 4, (int[]){0, 1, 0, 1}, false);
    check_remark(cards, 4, 0, "2 ranks of another kernel");
}

/* 0 and 2 by host name, 1 and 2 by MPI: all three. */
static void chained(void)
{
    wi_card cards[] = {card(KERNEL_A, "x", 7, 0), card(KERNEL_A, "y", 7, 1),
                       card(KERNEL_A, "x", 7, 1)};

    check(cards, 3, (int[]){0, 0, 0}, false);
}

/* A leader that no rank can be must not lead out of the table. */
static void bad_leader(void)
{
    wi_card cards[] = {card(KERNEL_A, "a", 7, 99), card(KERNEL_A, "a", 7, -5)};

    check(cards, 2, (int[]){0, 0}, false);
}

int main(void)
{
    one_host();
    two_hosts();
    same_name();
    shattered();
    names_differ();
    networks_differ();
    equal_pids();
    too_large();
    chained();
    bad_leader();
    return 0;
}
