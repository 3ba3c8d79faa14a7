/* SPDX-License-Identifier: MIT */
/* The choice of a way, from every combination of facts, wishes and sizes. */
#include <string.h>

#include "core/copy_way.h"
#include "t_test.h"

static const uint64_t sizes[] = {1,
                                 100,
                                 4096,
                                 65536,
                                 65537,
                                 1 << 20,
                                 16 << 20,
                                 (16 << 20) + 1,
                                 UINT64_C(1) << 40};

static const wi_copy_facts between_gpus = {
    .kernels = true, .to = WI_COPY_PLACE_PEER, .from = WI_COPY_PLACE_DEVICE};

static wi_copy_box line(uint64_t bytes)
{
    static char memory[64];

    return (wi_copy_box){.to = memory,
                         .from = memory + 32,
                         .width = bytes,
                         .rows = 1,
                         .planes = 1};
}

static bool out_of_reach(wi_copy_place place)
{
    return place == WI_COPY_PLACE_FAR || place == WI_COPY_PLACE_PAGEABLE;
}

static void check_one(const wi_copy_facts *f, const wi_copy_box *box)
{
    char reason[96] = "";
    wharf_copy_way way = wi_copy_choose(f, box, reason);

    T_EQ_INT(way, wi_copy_choose(f, box, NULL));
    T_CHECK(reason[0] != '\0');
    if (wi_copy_box_bytes(box) == 0) {
        T_EQ_INT(WHARF_COPY_NOTHING, way);
        return;
    }
    if (f->host) {
        T_EQ_INT(WHARF_COPY_HOST, way);
        return;
    }
    /* Never a kernel where kernels do not reach, or do not run. */
    if (!f->kernels || out_of_reach(f->to) || out_of_reach(f->from))
        T_EQ_INT(WHARF_COPY_ENGINE, way);
    else if (f->wanted == WI_COPY_WANTED_ENGINE)
        T_EQ_INT(WHARF_COPY_ENGINE, way);
    else if (f->wanted == WI_COPY_WANTED_KERNEL)
        T_EQ_INT(WHARF_COPY_KERNEL, way);
    else if (box->rows == 1 &&
             box->width > wi_copy_kernel_most(f, wi_copy_between(f)))
        T_EQ_INT(WHARF_COPY_ENGINE, way);
}

/* What a size goes by does not change back with more bytes. */
static void check_order(const wi_copy_facts *f)
{
    char reason[96];
    bool engine = false;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        wi_copy_box box = line(sizes[i]);
        bool now = wi_copy_choose(f, &box, reason) == WHARF_COPY_ENGINE;

        T_CHECK(now || !engine);
        engine = now;
    }
}

static void expect(const wi_copy_facts *f, wi_copy_box box, wharf_copy_way way,
                   const char *why)
{
    char reason[96];

    T_EQ_STR(wharf_copy_way_name(way),
             wharf_copy_way_name(wi_copy_choose(f, &box, reason)));
    T_CONTAINS(why, reason);
}

/* In either direction. */
static void between(void)
{
    static const struct {
        wi_copy_place here, there;
        wharf_copy_between expected;
    } rows[] = {
        {WI_COPY_PLACE_DEVICE, WI_COPY_PLACE_DEVICE, WHARF_COPY_ONE_GPU},
        {WI_COPY_PLACE_DEVICE, WI_COPY_PLACE_PEER, WHARF_COPY_TWO_GPUS},
        {WI_COPY_PLACE_DEVICE, WI_COPY_PLACE_FAR, WHARF_COPY_TWO_GPUS},
        {WI_COPY_PLACE_PEER, WI_COPY_PLACE_PEER, WHARF_COPY_TWO_GPUS},
        {WI_COPY_PLACE_DEVICE, WI_COPY_PLACE_HOST, WHARF_COPY_WITH_HOST},
        {WI_COPY_PLACE_PEER, WI_COPY_PLACE_PAGEABLE, WHARF_COPY_WITH_HOST},
        {WI_COPY_PLACE_DEVICE, WI_COPY_PLACE_CPU, WHARF_COPY_WITH_HOST},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wi_copy_facts f = {.to = rows[i].here, .from = rows[i].there};
        wi_copy_facts back = {.to = rows[i].there, .from = rows[i].here};

        T_EQ_INT(rows[i].expected, wi_copy_between(&f));
        T_EQ_INT(rows[i].expected, wi_copy_between(&back));
    }
}

/* What is asked for, and what cannot be, comes before any limit. */
static void most(void)
{
    const wi_copy_facts good = {.kernels = true, .wanted_most = 8192};
    wi_copy_facts f = good;

    T_EQ_INT(8192, (intmax_t)wi_copy_kernel_most(&f, WHARF_COPY_ONE_GPU));
    f.wanted = WI_COPY_WANTED_KERNEL;
    T_CHECK(wi_copy_kernel_most(&f, WHARF_COPY_ONE_GPU) == UINT64_MAX);
    f.wanted = WI_COPY_WANTED_ENGINE;
    T_EQ_INT(0, (intmax_t)wi_copy_kernel_most(&f, WHARF_COPY_ONE_GPU));
    f = good;
    f.host = true;
    T_EQ_INT(0, (intmax_t)wi_copy_kernel_most(&f, WHARF_COPY_ONE_GPU));
    f = good;
    f.kernels = false;
    T_EQ_INT(0, (intmax_t)wi_copy_kernel_most(&f, WHARF_COPY_ONE_GPU));
}

/* Rows, and how the two sides are aligned. */
static void shapes(void)
{
    wi_copy_facts f = between_gpus;
    wi_copy_box rows = line(8191), odd = line(65536);

    rows.rows = 1 << 20;
    rows.to_pitch = rows.from_pitch = 16384;
    expect(&f, rows, WHARF_COPY_KERNEL, "rows below 8 KiB");
    rows.width = 8192;
    expect(&f, rows, WHARF_COPY_ENGINE, "more bytes");
    rows.width = 64;
    f.from = WI_COPY_PLACE_HOST;
    expect(&f, rows, WHARF_COPY_ENGINE, "more bytes");
    f.from = WI_COPY_PLACE_DEVICE;
    odd.to = (char *)odd.to + 1;
    expect(&f, odd, WHARF_COPY_KERNEL, "few bytes");
    odd.width = 65537;
    expect(&f, odd, WHARF_COPY_ENGINE, "aligned");
    f.wanted = WI_COPY_WANTED_KERNEL;
    expect(&f, odd, WHARF_COPY_KERNEL, "WHARF_COPY=kernel");
    f.wanted = WI_COPY_WANTED_AUTO;
    odd.from = (const char *)odd.from + 1; /* both alike */
    expect(&f, odd, WHARF_COPY_KERNEL, "few bytes");
}

static void known(void)
{
    wi_copy_facts f = between_gpus;
    wi_copy_box narrow = line(64), odd = line(70000);

    narrow.rows = 1 << 20;
    narrow.to_pitch = narrow.from_pitch = 256;
    expect(&f, line(65536), WHARF_COPY_KERNEL, "few bytes");
    expect(&f, line(64 << 20), WHARF_COPY_ENGINE, "more bytes");
    expect(&f, narrow, WHARF_COPY_KERNEL, "rows");
    odd.to = (char *)odd.to + 1;
    expect(&f, odd, WHARF_COPY_ENGINE, "aligned");
    f.notify = true;
    expect(&f, line(16 << 20), WHARF_COPY_KERNEL, "one launch");
    expect(&f, line(256 << 20), WHARF_COPY_ENGINE, "more bytes");
    f.slices = true;
    expect(&f, line(4096), WHARF_COPY_ENGINE, "time slices");
    f.wanted_most = 8192;
    expect(&f, line(8192), WHARF_COPY_KERNEL, "one launch");
    expect(&f, line(8193), WHARF_COPY_ENGINE, "more bytes");
    f.from = WI_COPY_PLACE_HOST;
    T_EQ_INT(WHARF_COPY_WITH_HOST, wi_copy_between(&f));
    f.from = WI_COPY_PLACE_PAGEABLE;
    expect(&f, line(16), WHARF_COPY_ENGINE, "pageable");
    f.from = WI_COPY_PLACE_FAR;
    expect(&f, line(16), WHARF_COPY_ENGINE, "reach");
    f.from = f.to = WI_COPY_PLACE_DEVICE;
    T_EQ_INT(WHARF_COPY_ONE_GPU, wi_copy_between(&f));
    f.wanted_most = 0;
    expect(&f, line(4096), WHARF_COPY_ENGINE, "time slices");
    f.notify = false;
    expect(&f, line(1 << 20), WHARF_COPY_KERNEL, "few bytes");
    expect(&f, line((1 << 20) + 1), WHARF_COPY_ENGINE, "more bytes");
    f.from = WI_COPY_PLACE_PEER;
    expect(&f, line(4096), WHARF_COPY_ENGINE, "time slices");
    f.from = WI_COPY_PLACE_HOST;
    expect(&f, line(4096), WHARF_COPY_ENGINE, "time slices");
    f.to = WI_COPY_PLACE_PAGEABLE;
    expect(&f, line(16), WHARF_COPY_ENGINE, "pageable");
}

int main(void)
{
    for (unsigned bits = 0; bits < 16; bits++)
        for (int to = 1; to <= 6; to++)
            for (int from = 1; from <= 6; from++)
                for (int wanted = 0; wanted < 3; wanted++) {
                    wi_copy_facts f = {
                        .host = bits & 1,
                        .kernels = bits & 2,
                        .slices = bits & 4,
                        .notify = bits & 8,
                        .to = (wi_copy_place)to,
                        .from = (wi_copy_place)from,
                        .wanted = wanted,
                    };

                    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                        wi_copy_box box = line(sizes[i]);

                        check_one(&f, &box);
                        box.rows = 3;
                        box.to_pitch = box.from_pitch = 2 * sizes[i];
                        check_one(&f, &box);
                    }
                    check_one(&f, &(wi_copy_box){0});
                    check_order(&f);
                }
    between();
    most();
    shapes();
    known();
    return 0;
}
