/* SPDX-License-Identifier: MIT */
/*
 * The C++ classes of exchanges, rings, workers and published buffers. Started
 * as "worker" this program is a worker.
 */
#include "t_cpp.hpp"

#include <csignal>
#include <numeric>
#include <sys/types.h>

/* ---- The worker ---------------------------------------------------------- */

struct task {
    int order; /* 0: add up a rank's segment, 1: die, 2: a long answer,
                  3: how many buffers are lent */
    int rank;
    double answer;
};

static double sum_of(wharf::span<const double> numbers)
{
    return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

static int worker_main()
{
    wharf::worker_end rank;
    task now;

    CHECK(rank && rank.rank() == wharf_node_rank(rank.node()));
    THROWS(WHARF_EARG, rank.buffer(rank.buffers()));
    THROWS(WHARF_ESTATE, wharf::worker_end());
    while (rank.receive(now) == wharf::mail::passed) {
        if (now.order == 1)
            raise(SIGKILL);
        if (now.order == 2) {
            const char text[100] = "long";
            CHECK(rank.send(text) == wharf::mail::passed);
            continue;
        }
        if (now.order == 3)
            now.answer = rank.buffers();
        if (now.order == 0)
            now.answer = sum_of(rank.buffer(0).segment<const double>(now.rank));
        rank.alive();
        CHECK(rank.send(now) == wharf::mail::passed);
    }
    rank.leave();
    CHECK(!rank && rank.buffers() == -1);
    THROWS(WHARF_EARG, rank.alive());
    nothing_is_left(__LINE__);
    return 0;
}

static wharf::worker
start(const wharf::node &node,
      const std::vector<std::reference_wrapper<const wharf::buffer>> &lent)
{
    char path[4096] = "";

    CHECK(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    return wharf::worker(node, {path, "worker"}, lent);
}

static task ask(const wharf::worker &worker, int order, int rank = 0)
{
    task now = {order, rank, -1}, answer = {};

    while (worker.send(now) == wharf::mail::lost)
        continue;
    CHECK(worker.receive(answer) == wharf::mail::passed);
    return answer;
}

static void workers_work()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf::buffer buffer(node, 100 * sizeof(double), in_host_memory());
    wharf::buffer second(node, 64, in_host_memory());

    for (double &x : buffer.mine<double>())
        x = me + 1;
    MPI_Barrier(node.communicator());
    {
        wharf::worker worker = start(node, {buffer}), moved, none;
        task now = {}, last = {1, 0, 0};
        std::vector<std::byte> bytes;

        CHECK(ask(worker, 0, ranks - 1).answer == 100.0 * ranks);
        CHECK(worker.state() == WHARF_WORKER_RUNNING);
        CHECK(worker.receive(now, wharf::no_wait) == wharf::mail::none);
        moved = std::move(worker);
        CHECK(!worker && moved);
        THROWS(WHARF_EARG, worker.send(now));
        moved.lend(second, true);
        CHECK(ask(moved, 3).answer == 2);
        THROWS(WHARF_ESTATE, second.detach());

        /* It dies, and the next one does the task. */
        CHECK(moved.send(last) == wharf::mail::passed);
        CHECK(moved.receive(now) == wharf::mail::lost);
        CHECK(moved.death(1).how == WHARF_DEATH_SIGNAL);
        CHECK(ask(moved, 0, 0).answer == 100.0);
        CHECK(moved.report().deaths == 1);

        /* Of another size. */
        now.order = 2;
        CHECK(moved.send(now) == wharf::mail::passed);
        THROWS(WHARF_EARG, moved.receive(now));
        CHECK(moved.receive_bytes(bytes) == wharf::mail::passed);
        CHECK(bytes.size() == 100 && bytes[0] == std::byte{'l'});
        wharf::worker &itself = moved;
        moved = std::move(itself);
        CHECK(moved.stop().starts == 2);
        CHECK(!moved && !none);
        THROWS(WHARF_EARG, none.stop());
        THROWS(WHARF_EOS, wharf::worker(node, {"/no/such/program"}));
        THROWS(WHARF_EARG, wharf::worker(node, {}));
        worker = start(node, {buffer}); /* stopped by its destructor */
        moved = start(node, {});
        moved = std::move(worker); /* stops the one that was there */
    }
    CHECK(stats().live_workers == 0);
    MPI_Barrier(node.communicator());
}

/* The node's close stops it, and nothing is left to its destructor. */
static void worker_outlived()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf::worker worker = start(node, {});

    node.close();
    CHECK(!worker);
}

/* ---- Published ----------------------------------------------------------- */

static void published()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf::buffer buffer(node, 1000, in_host_memory());
    std::string name = "t_cpp-" + std::to_string(getpid());
    wharf_publish_options options = WHARF_PUBLISH_OPTIONS_INIT;

    for (std::byte &x : buffer.mine())
        x = std::byte(me + 1);
    MPI_Barrier(node.communicator());
    if (me == 0) {
        options.note = "a note";
        wharf::error none = thrown(__LINE__, [&] { wharf::joined{name}; });
        CHECK(none.status() == WHARF_ENOTREADY);
        CHECK(std::string(none.what()).find(name) != std::string::npos);
        buffer.publish(name, options);
        THROWS(WHARF_ESTATE, buffer.publish(name));
        THROWS(WHARF_EARG, buffer.publish("no good name"));

        wharf::joined first(name), second(std::move(first));
        CHECK(!first && second.published() && second.note() == "a note");
        CHECK(buffer.joiners() == 1);
        wharf::buffer_view view = second.buffer();
        CHECK(view.rank() == 0 && view.mine().size() == 1000);
        for (int r = 0; r < ranks; r++)
            CHECK(view.segment<const std::byte>(r)[999] == std::byte(r + 1));
        buffer.unpublish();
        CHECK(!second.published());
        THROWS(WHARF_ESTATE, second.buffer());
        CHECK(view.mine()[0] == std::byte(1)); /* until the leave */
        second.leave();
        THROWS(WHARF_EARG, second.leave());
    }
    MPI_Barrier(node.communicator());
}

/* ---- Rings --------------------------------------------------------------- */

static wharf_ring_options few_slots()
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;

    options.slots = 3;
    options.slot_bytes = 10 * sizeof(double);
    options.space = WHARF_SPACE_HOST;
    return options;
}

static void produce(const wharf::ring &ring, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        auto slot = ring.produce_begin<double>(WHARF_RING_CPU);

        CHECK(slot.index == static_cast<std::uint64_t>(i));
        CHECK(slot.data.size() == 10);
        for (double &x : slot.data)
            x = i;
        ring.produce_end(7 * sizeof(double), WHARF_RING_CPU);
    }
    ring.close();
    ring.drain();
}

static void consume(const wharf::ring &ring, int rounds)
{
    std::uint64_t next = 0;

    while (auto slot = ring.consume_begin<double>(WHARF_RING_CPU)) {
        CHECK(slot->index == next && slot->data.size() == 7);
        CHECK(sum_of(slot->data) == 7.0 * static_cast<double>(next));
        ring.consume_end(WHARF_RING_CPU);
        next++;
    }
    CHECK(next == static_cast<std::uint64_t>(rounds));
}

static void rings_turn()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf::ring ring(node, few_slots()), other;

    CHECK(ring.info().slots == 3 && ring.info().consumers == ranks - 1);
    if (me == 0)
        produce(ring, 20);
    else
        consume(ring, 20);
    ring.check_slots();
    other = std::move(ring);
    CHECK(other && !ring);
    THROWS(WHARF_EARG, ring.close());
    THROWS(WHARF_EARG, wharf::ring(node, WHARF_RING_OPTIONS_INIT));
    other.destroy();
}

static void ring_joined_and_left()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf_ring_options options = few_slots();
    options.consumer_count = WHARF_RING_NOBODY;
    wharf::ring ring(node, options);

    if (me == 1)
        ring.join();
    barrier_of_all();
    if (me == 0) {
        ring.produce_begin(WHARF_RING_CPU);
        ring.produce_end(0, WHARF_RING_CPU);
    }
    if (me == 1) {
        CHECK(ring.consume_begin(WHARF_RING_CPU)->data.empty());
        ring.consume_end(WHARF_RING_CPU);
        ring.leave(WHARF_RING_CPU);
        THROWS(WHARF_ESTATE, ring.leave(WHARF_RING_CPU));
    }
    barrier_of_all();
}

/* ---- Exchanges ----------------------------------------------------------- */

static void exchanges_swap()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf::buffer buffer(node, 64, in_host_memory());
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    wharf_exchange_box mine = {buffer.get(), 0, {16, 1, 1}, {0, 0}};
    wharf_exchange_box theirs = {buffer.get(), 32, {16, 1, 1}, {0, 0}};
    wharf::exchange exchange(
        node, MPI_COMM_WORLD,
        {{next, 0, 0, &mine, nullptr}, {before, 0, 0, nullptr, &theirs}});

    for (int round = 0; round < 5; round++) {
        for (std::byte &x : buffer.mine())
            x = std::byte(10 * round + me);
        if (round % 2)
            exchange.run();
        else {
            exchange.start();
            exchange.finish();
        }
        node.synchronize();
        CHECK(buffer.mine()[47] == std::byte(10 * round + before));
        CHECK(buffer.mine()[48] == std::byte(10 * round + me));
    }
    CHECK(exchange.plan().transfers == 2);
    CHECK(exchange.info(0).peer == next);
    THROWS(WHARF_EARG, exchange.info(2));
    THROWS(WHARF_ESTATE, exchange.finish());
    exchange.start();
    THROWS(WHARF_ESTATE, exchange.destroy());
    CHECK(exchange);
    exchange.finish();
    wharf::exchange moved = std::move(exchange);
    CHECK(moved && !exchange);
    moved.destroy();
}

static void exchange_of_a_grid()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf::buffer buffer(node, 6 * sizeof(int), in_host_memory());
    wharf_exchange_block block = WHARF_EXCHANGE_BLOCK_INIT;
    int sizes[1] = {ranks}, periodic[1] = {1};
    MPI_Comm line;

    MPI_Cart_create(MPI_COMM_WORLD, 1, sizes, periodic, 0, &line);
    block.cell = sizeof(int);
    block.extent[0] = 4;
    block.ghost[0] = 1;
    block.buffer[0] = buffer.get();
    {
        wharf::exchange halo = wharf::exchange::cart(node, line, block);
        wharf::span<int> cells = buffer.mine<int>();

        for (int &x : cells.subspan(1, 4))
            x = me;
        halo.run();
        node.synchronize();
        CHECK(cells[0] == (me + ranks - 1) % ranks);
        CHECK(cells[5] == (me + 1) % ranks);
    }
    MPI_Comm_free(&line);
}

static const t_case cases[] = {
    {"workers_work", workers_work, 1},
    {"worker_outlived", worker_outlived, 1},
    {"published", published, 1},
    {"rings_turn", rings_turn, 2},
    {"ring_joined_and_left", ring_joined_and_left, 2},
    {"exchanges_swap", exchanges_swap, 1},
    {"exchange_of_a_grid", exchange_of_a_grid, 1},
};

int main(int argc, char **argv)
{
    if (argc > 1 && std::strcmp(argv[1], "worker") == 0) {
        try {
            return worker_main();
        } catch (const wharf::error &error) {
            /* Stopped before it had begun. */
            if (error.status() == WHARF_ECLOSED)
                return 0;
            fail(__LINE__, "worker", error.what());
        }
    }
    return run_cases(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
