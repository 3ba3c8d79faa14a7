/* SPDX-License-Identifier: MIT */
/*
 * Plans of barriers, run by members that take steps in random order: nobody
 * leaves a use before all have entered it, however the members interleave, over
 * many uses; numbers, counts and marks alike.
 */
#include "core/barrier_plan.h"
#include "t_test.h"

enum { MOST = 24, USES = 30, STEPS = 4 * MOST + 8 };

typedef enum flavour { EPOCHS, COUNTS, MARKS } flavour;

typedef struct run {
    flavour flavour;
    wi_barrier_shape shape;
    int words;
    uint32_t word[MOST][3 * MOST];
    wi_barrier_step steps[MOST][STEPS];
    int count[MOST];
    int at[MOST];  /* next step */
    int use[MOST]; /* uses that the member is through with */
    uint32_t first;
} run;

static uint32_t random_state = 1;

static uint32_t random_next(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

/* One step of one member; false if it has to wait. */
static int step(run *r, int member)
{
    const wi_barrier_step *s = &r->steps[member][r->at[member]];
    uint32_t *word = &r->word[s->member][s->word];
    uint32_t number = r->first + (uint32_t)r->use[member] + 1;

    T_CHECK(s->member >= 0 && s->member < r->shape.members);
    T_CHECK(s->word >= 0 && s->word < r->words);
    switch (r->flavour) {
    case EPOCHS:
        if (!s->waits)
            *word = number;
        else if ((int32_t)(*word - number) < 0)
            return 0;
        break;
    case COUNTS:
        if (!s->waits)
            ++*word;
        else if (*word == 0)
            return 0;
        else
            --*word;
        break;
    case MARKS:
        if (!s->waits) {
            /* A signal on top of one that nobody has taken yet is lost. */
            T_EQ_INT(0, *word);
            *word = 1;
        } else if (*word != 1) {
            return 0;
        } else {
            *word = 0;
        }
        break;
    }
    r->at[member]++;
    return 1;
}

/* A member at the end of its steps is through with one more use: everybody must
 * have entered it. */
static void leave(run *r, int member)
{
    r->use[member]++;
    r->at[member] = 0;
    for (int m = 0; m < r->shape.members; m++) {
        int entered = r->use[m] + (r->at[m] > 0 || r->count[m] == 0);

        T_CHECK(entered >= r->use[member] || m == member);
    }
}

static void simulate(run *r)
{
    int n = r->shape.members, done = 0, stuck = 0;

    while (done < n) {
        int member = (int)random_next((uint32_t)n);
        int burst = 1 + (int)random_next(6);

        if (r->use[member] == USES)
            continue;
        while (burst-- > 0 && r->use[member] < USES) {
            if (!step(r, member)) {
                T_CHECK(++stuck < 1000000);
                break;
            }
            if (r->at[member] == r->count[member]) {
                leave(r, member);
                done += r->use[member] == USES;
            }
        }
    }
}

static void prepare(run *r, flavour kind, int members, const int *group,
                    int two_level)
{
    memset(r, 0, sizeof *r);
    r->flavour = kind;
    r->shape.members = members;
    r->shape.group = group;
    r->shape.two_level = two_level;
    r->shape.marks = kind == MARKS;
    r->words = wi_barrier_words(&r->shape);
    T_CHECK(r->words <= 3 * MOST);
    r->first = kind == EPOCHS ? UINT32_MAX - 10 : 0;
    for (int m = 0; m < members; m++) {
        r->count[m] = wi_barrier_plan(&r->shape, m, NULL);
        T_CHECK(r->count[m] <= STEPS);
        T_EQ_INT(r->count[m], wi_barrier_plan(&r->shape, m, r->steps[m]));
        for (int w = 0; w < r->words; w++)
            r->word[m][w] = r->first;
    }
}

static void try_all(int members, const int *group)
{
    static run r;

    for (int again = 0; again < 20; again++) {
        prepare(&r, COUNTS, members, group, 0);
        simulate(&r);
        for (int two_level = 0; two_level < 2; two_level++) {
            prepare(&r, EPOCHS, members, group, two_level);
            simulate(&r);
            prepare(&r, MARKS, members, group, two_level);
            simulate(&r);
        }
    }
}

/* 16 members on two GPUs: seven signals come in, one goes over, one goes out.
 */
static void costs(void)
{
    int group[16];
    wi_barrier_shape shape = {.members = 16, .group = group};

    for (int m = 0; m < 16; m++)
        group[m] = m % 2;
    T_EQ_INT(30, wi_barrier_plan(&shape, 3, NULL));
    shape.two_level = true;
    T_EQ_INT(7 + 2 + 1, wi_barrier_plan(&shape, 0, NULL));
    T_EQ_INT(7 + 2 + 1, wi_barrier_plan(&shape, 1, NULL));
    T_EQ_INT(2, wi_barrier_plan(&shape, 2, NULL));
    T_EQ_INT(8, wi_barrier_crowd(16, group));
    T_CHECK(wi_barrier_wants_levels(16, group));
    T_CHECK(!wi_barrier_wants_levels(4, group));
    T_CHECK(!wi_barrier_wants_levels(2, group));
    T_CHECK(wi_barrier_wants_levels(5, group));
}

static void one_each_is_flat(void)
{
    int group[8] = {0, 1, 2, 3, 4, 5, 6, 7};

    T_EQ_INT(1, wi_barrier_crowd(8, group));
    T_CHECK(!wi_barrier_wants_levels(8, group));
    try_all(8, group);
}

int main(void)
{
    int group[MOST];

    for (int members = 2; members <= 9; members++)
        for (int groups = 1; groups <= members; groups++) {
            for (int m = 0; m < members; m++)
                group[m] = m % groups;
            try_all(members, group);
            for (int m = 0; m < members; m++)
                group[m] = (int)random_next((uint32_t)groups);
            try_all(members, group);
        }
    for (int m = 0; m < MOST; m++)
        group[m] = m / 7;
    try_all(MOST, group);
    costs();
    one_each_is_flat();
    return 0;
}
