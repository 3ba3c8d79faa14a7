/* SPDX-License-Identifier: MIT */
/*
 * The C++ header: every class does what its C call does, moves, throws, and
 * gives back; and destructors that run on one rank alone end in time.
 */
#include "t_cpp.hpp"

#include <algorithm>

/* ---- Every class ------------------------------------------------------- */

static void nodes_answer()
{
    wharf::node node(MPI_COMM_WORLD);

    CHECK(node && node.rank() == me && node.size() == ranks);
    int size = 0;
    MPI_Comm_size(node.communicator(), &size);
    CHECK(size == ranks);
    CHECK(std::strlen(node.backend_reason()) > 0);
    CHECK(node.device(ranks - 1).users >= 1);
    CHECK(node.link(me, me).path == WHARF_PATH_SAME_PROCESS);
    CHECK(node.granularity(WHARF_SPACE_HOST) > 0);
    if (node.gpus() > 0)
        CHECK(node.owner(0) >= 0 && node.backend() == WHARF_BACKEND_CUDA);
    FILE *null = std::fopen("/dev/null", "w");
    CHECK(null != nullptr);
    node.print(null, WHARF_FORMAT_JSON);
    std::fclose(null);
    node.trim();

    wharf::node moved = std::move(node);
    CHECK(moved && !node && node.rank() == -1);
    THROWS(WHARF_EARG, node.communicator());
    node = std::move(moved);
    node.close();
    CHECK(!node);
    THROWS(WHARF_EARG, node.close());
}

static void buffers_share()
{
    wharf::node node(MPI_COMM_WORLD);
    int next = (me + 1) % ranks;
    /* Segments of different sizes, the last one with half a number. */
    wharf::buffer buffer(node, 8 * static_cast<std::size_t>(me + 1) + 4,
                         in_host_memory());

    wharf::span<double> mine = buffer.mine<double>();
    CHECK(mine.size() == static_cast<std::size_t>(me + 1));
    CHECK(mine.size_bytes() == 8 * mine.size() && !mine.empty());
    std::fill(mine.begin(), mine.end(), me + 0.5);
    barrier_of_all();
    auto theirs = buffer.segment<const double>(next);
    CHECK(theirs.size() == static_cast<std::size_t>(next + 1));
    CHECK(theirs.front() == next + 0.5 && theirs.back() == next + 0.5);
    CHECK(theirs[0] == theirs.first(1)[0] && theirs.data() == theirs.begin());
    CHECK(theirs.subspan(theirs.size(), 0).empty());
    CHECK(buffer.segment(next).size() == 8 * theirs.size() + 4);
    CHECK(!buffer.whole().empty() && buffer.info(me).space == WHARF_SPACE_HOST);
    CHECK(buffer.pointer_table() != nullptr);
    if (node.backend() == WHARF_BACKEND_CUDA)
        CHECK(buffer.view().ranks == ranks);
    else
        THROWS(WHARF_EUNSUPPORTED, buffer.view());
    THROWS(WHARF_EARG, buffer.segment(ranks));
    barrier_of_all();

    std::vector<wharf::buffer> many =
        wharf::buffer::attach_many(node, {64, 0, 4096}, {3, in_host_memory()});
    CHECK(many.size() == 3 && many[1].mine().empty());
    CHECK(many[2].mine().size() == 4096);
    THROWS(WHARF_EARG,
           wharf::buffer::attach_many(node, {64, 64}, {in_host_memory()}));

    wharf::buffer moved = std::move(buffer);
    CHECK(moved && !buffer);
    THROWS(WHARF_EARG, buffer.mine());
    /* Detaches what it held, on every rank. */
    moved = std::move(many[0]);
    CHECK(moved.mine().size() == 64 && stats().live_buffers == 3);
    moved.detach();
    CHECK(!moved && stats().live_buffers == 2);
    THROWS(WHARF_EARG, moved.detach());
}

/* Memory of the program's own: shared by a mirror. */
static void existing_memory()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    std::vector<int> own(1000, me);
    wharf::span<int> memory(own.data(), own.size());
    int next = (me + 1) % ranks;

    THROWS(WHARF_EUNSUPPORTED, wharf::buffer::of_memory(node, memory));
    options.flags = WHARF_BUFFER_STAGE_ALLOWED;
    wharf::buffer buffer = wharf::buffer::of_memory(node, memory, options);
    CHECK(buffer.mine<int>().data() == own.data());
    own[7] = 100 + me;
    buffer.sync_to(nullptr, 7 * sizeof(int), sizeof(int));
    barrier_of_all();
    if (node.size() > 1 && buffer.info(next).space == WHARF_SPACE_HOST) {
        wharf::span<int> theirs = buffer.segment<int>(next);
        CHECK(theirs[6] == next && theirs[7] == 100 + next);
        theirs[8] = 200 + me;
    }
    barrier_of_all();
    buffer.sync_from();
    CHECK(node.size() == 1 || own[8] == 200 + (me + ranks - 1) % ranks);
}

static void events_order()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf::buffer buffer(node, 64, in_host_memory());
    wharf::event event(node, 0);

    barrier_of_all();
    if (me == 0) {
        CHECK(!event.query(1));
        CHECK(event.record() == 1);
        CHECK(buffer.event_of(0).record() == 1);
    } else {
        event.wait(1);
        buffer.event_of(0).wait();
        THROWS(WHARF_ESTATE, event.record());
    }
    event.synchronize(1);
    buffer.event_of(0).synchronize(1, std::chrono::seconds(20));
    CHECK(event.query());
    THROWS(WHARF_ETIMEDOUT, event.synchronize(2, std::chrono::milliseconds(5)));
    wharf::event moved = std::move(event);
    CHECK(moved && !event);
    moved.destroy();
}

static void notifies_and_barriers()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf::notify notify(node, 0);
    wharf::barrier all(node), first(node, {0});

    if (me != 0) {
        notify.record();
        THROWS(WHARF_ESTATE, first.enter());
    } else {
        for (int from = 1; from < ranks; from++) {
            notify.wait_host(from);
            CHECK(notify.mechanism(from) == all.mechanism() || ranks > 2);
        }
        THROWS(WHARF_ETIMEDOUT,
               notify.wait_host(1, std::chrono::microseconds(1)));
        first.enter();
        notify.check_waits();
    }
    all.enter();
    all.check_waits();
    if (node.backend() != WHARF_BACKEND_CUDA) {
        THROWS(WHARF_EUNSUPPORTED, notify.view());
        THROWS(WHARF_EUNSUPPORTED, all.view());
    }
    wharf::barrier moved = std::move(all);
    CHECK(moved && !all);
    THROWS(WHARF_EARG, all.enter());
    moved.destroy();
    notify.destroy();
    THROWS(WHARF_EARG, wharf::notify(node, ranks));
}

/* ---- Errors and ends --------------------------------------------------- */

static void errors_tell()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf_buffer_options options = in_host_memory();

    options.flags = me == 1 ? WHARF_BUFFER_ZERO : 0u;
    try {
        wharf::buffer buffer(node, 64, options);
        fail(__LINE__, "ranks with different options attached", "");
    } catch (const std::runtime_error &base) {
        auto &error = dynamic_cast<const wharf::error &>(base);
        CHECK(error.status() == WHARF_EMISMATCH);
        CHECK(error.scope() == WHARF_SCOPE_CALL);
        CHECK(error.record().rank == 1);
        CHECK(std::strstr(error.what(), "wharf_buffer_attach") != nullptr);
    }
    wharf::check(WHARF_OK);
    THROWS(WHARF_EARG, wharf::node(MPI_COMM_NULL));
}

/* The node is closed when the last of its objects goes. */
static void object_outlives_node()
{
    wharf::buffer kept;
    {
        wharf::node node(MPI_COMM_WORLD);
        wharf::event passing(node, 0);

        kept = wharf::buffer(node, 4096, in_host_memory());
    }
    CHECK(stats().live_nodes == 1 && kept.mine().size() == 4096);
    kept.mine()[0] = std::byte{1};
}

static void closed_under_objects()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf::buffer buffer(node, 64, in_host_memory());
    wharf::event event(node, 0);
    wharf::notify notify(node, 0);
    wharf::barrier barrier(node);

    node.close();
    CHECK(!buffer && !event && !notify && !barrier);
    THROWS(WHARF_EARG, buffer.mine());
    THROWS(WHARF_EARG, barrier.enter());
    nothing_is_left(__LINE__);
}

/* Contexts of real GPUs take their time, more so on a busy machine. */
static int slowness()
{
    const char *backend = std::getenv("WHARF_BACKEND");

    return backend && !std::strcmp(backend, "cuda") &&
                   !std::getenv("WHARF_CUDA_DRIVER")
               ? 10
               : 1;
}

static wharf_node_options short_deadline(int ms)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;

    options.timeout_ms = ms * slowness();
    return options;
}

/* The same failure on every rank: the destructors meet, nobody waits. */
static void all_unwind()
{
    double start = MPI_Wtime();
    try {
        wharf::node node(MPI_COMM_WORLD, short_deadline(10000));
        wharf::buffer a(node, 4096, in_host_memory());
        wharf::notify notify(node, 0);
        wharf::buffer b(node, 4096, in_host_memory());
        wharf::event event(node, me == 0 ? 0 : 1);
        fail(__LINE__, "events of different owners were made", "");
    } catch (const wharf::error &error) {
        CHECK(error.status() == WHARF_EMISMATCH);
    }
    CHECK(MPI_Wtime() - start < 5 * slowness());
}

/* Rank 0 alone leaves by an exception; the others go on to `next`. */
template <typename Next> static void one_unwinds(Next next, double most_s)
{
    double start = MPI_Wtime();

    try {
        wharf::node node(MPI_COMM_WORLD, short_deadline(400));
        wharf::buffer a(node, 4096, in_host_memory());
        wharf::buffer b(node, 4096, in_host_memory());
        wharf::notify notify(node, 0);
        wharf::event event(node, 0);
        wharf::barrier barrier(node);
        if (me == 0)
            throw std::runtime_error("of the program");
        next(node);
        fail(__LINE__, "a rank that left was not missed", "");
    } catch (const wharf::error &error) {
        CHECK(me != 0);
        CHECK(error.status() == WHARF_EMISMATCH ||
              error.status() == WHARF_ETIMEDOUT ||
              error.status() == WHARF_EPEER);
    } catch (const std::runtime_error &) {
        CHECK(me == 0);
    }
    double took = MPI_Wtime() - start;
    if (took > most_s)
        std::fprintf(stderr, "took %g s\n", took);
    CHECK(took < most_s * slowness());
    nothing_is_left(__LINE__);
    barrier_of_all();
}

/* The others are in another collective at that moment. */
static void one_unwinds_beside_attach()
{
    one_unwinds(
        [](wharf::node &node) { wharf::buffer c(node, 64, in_host_memory()); },
        3);
}

/* The others come to one long after. */
static void one_unwinds_before_attach()
{
    one_unwinds(
        [](wharf::node &node) {
            usleep(1200000);
            wharf::buffer c(node, 64, in_host_memory());
        },
        4.5);
}

static const t_case cases[] = {
    {"nodes_answer", nodes_answer, 1},
    {"buffers_share", buffers_share, 1},
    {"existing_memory", existing_memory, 1},
    {"events_order", events_order, 2},
    {"notifies_and_barriers", notifies_and_barriers, 2},
    {"errors_tell", errors_tell, 2},
    {"object_outlives_node", object_outlives_node, 1},
    {"closed_under_objects", closed_under_objects, 1},
    {"all_unwind", all_unwind, 2},
    {"one_unwinds_beside_attach", one_unwinds_beside_attach, 2},
    {"one_unwinds_before_attach", one_unwinds_before_attach, 2},
};

int main(int argc, char **argv)
{
    return run_cases(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
