/* SPDX-License-Identifier: MIT */
/* Whom a waiting rank looks at: all in small nodes, in large ones a part at a
 * time that eight looks make whole. */
#include <string.h>

#include "comm/private.h"
#include "t_test.h"

static int covered(const wi_patience *patience, const wi_comm *comm, bool *seen)
{
    int count = 0;

    for (int r = 0; r < comm->size; r++) {
        if (!wi_patience_covers(patience, comm, r))
            continue;
        seen[r] = true;
        count++;
    }
    return count;
}

static void node_of(int size, int rank)
{
    bool seen[WHARF_MAX_RANKS] = {false};
    wi_comm comm = {.size = size, .rank = rank};
    wi_patience patience;
    int most = size <= 32 ? size : size / 8 < 32 ? 32 : (size + 7) / 8;

    wi_patience_begin(&patience, &comm, false);
    T_CHECK(!wi_patience_watch(&patience, &comm)); /* not at once */
    for (int turn = 0; turn < 8; turn++) {
        patience.next_watch = 0;
        T_CHECK(wi_patience_watch(&patience, &comm));
        T_EQ_INT(most, covered(&patience, &comm, seen));
    }
    for (int r = 0; r < size; r++)
        T_CHECK(seen[r]);
}

/* Ranks that wait together look at different ones. */
static void spread(int size)
{
    bool seen[WHARF_MAX_RANKS] = {false};

    for (int rank = 0; rank < size; rank += 32) {
        wi_comm comm = {.size = size, .rank = rank};
        wi_patience patience;

        wi_patience_begin(&patience, &comm, false);
        patience.next_watch = 0;
        T_CHECK(wi_patience_watch(&patience, &comm));
        (void)covered(&patience, &comm, seen);
    }
    for (int r = 0; r < size; r++)
        T_CHECK(seen[r]);
}

int main(void)
{
    static const int sizes[] = {1, 2, 31, 32, 33, 100, 128, 255, 256, 511, 512};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int rank = 0; rank < sizes[i]; rank += 1 + sizes[i] / 7)
            node_of(sizes[i], rank);
    spread(128);
    spread(256);
    return 0;
}
