/* SPDX-License-Identifier: MIT */
/*
 * What moves data between ranks in C++: exchanges and rings. Included by
 * wharf.hpp, whose first lines say how the classes behave.
 *
 *   wharf::exchange halo = wharf::exchange::cart(node, grid, block, options);
 *   halo.start(stream);
 *   ...
 *   halo.finish(stream);
 *
 *   wharf::ring ring(node, options);
 *   if (node.rank() == 0) {
 *       auto slot = ring.produce_begin<float>(stream);
 *       ...                                   slot.data, a span of the slot
 *       ring.produce_end(count * sizeof(float), stream);
 *       ring.close();
 *   } else {
 *       while (auto slot = ring.consume_begin<float>(stream)) {
 *           ...                               slot->data, what was filled
 *           ring.consume_end(stream);
 *       }
 *   }
 */
#ifndef WHARF_TRANSFER_HPP
#define WHARF_TRANSFER_HPP

#include "wharf/wharf.hpp"

#include <optional>

namespace wharf
{

/* ---- Exchange ---------------------------------------------------------- */

/* Neighbours' boxes, round after round (exchange.h). Buffers must outlive it:
 * make it after them. */
class exchange
{
  public:
    exchange() noexcept = default;
    /* Collective on node and comm: wharf_exchange_create. */
    exchange(
        const node &node, MPI_Comm comm,
        const std::vector<wharf_exchange_transfer> &transfers,
        const wharf_exchange_options &options = WHARF_EXCHANGE_OPTIONS_INIT)
    {
        wharf_exchange *handle = nullptr;

        check(wharf_exchange_create(
            node.get(), comm, static_cast<int>(transfers.size()),
            transfers.empty() ? nullptr : transfers.data(), &options, &handle));
        own_ = {node.state(), handle};
    }
    /* Collective: wharf_exchange_create_cart. */
    static exchange
    cart(const node &node, MPI_Comm comm, const wharf_exchange_block &block,
         const wharf_exchange_options &options = WHARF_EXCHANGE_OPTIONS_INIT)
    {
        wharf_exchange *handle = nullptr;

        check(wharf_exchange_create_cart(node.get(), comm, &block, &options,
                                         &handle));
        return exchange(node, handle);
    }
    /* Collective: wharf_exchange_create_graph. One box a set for every
     * destination, and for every source. */
    static exchange
    graph(const node &node, MPI_Comm comm,
          const std::vector<wharf_exchange_box> &sends,
          const std::vector<wharf_exchange_box> &receives,
          const wharf_exchange_options &options = WHARF_EXCHANGE_OPTIONS_INIT)
    {
        wharf_exchange *handle = nullptr;

        check(wharf_exchange_create_graph(node.get(), comm, sends.data(),
                                          receives.data(), &options, &handle));
        return exchange(node, handle);
    }
    /* Collective: wharf_exchange_destroy. Throws WHARF_ESTATE while a round is
     * started. */
    void destroy()
    {
        own_.give();
    }
    /* The C handle, still owned by this object; NULL if there is none. */
    wharf_exchange *get() const noexcept
    {
        return own_.get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }
    void start(wharf_stream stream = nullptr) const
    {
        check(wharf_exchange_start(get(), stream));
    }
    void finish(wharf_stream stream = nullptr) const
    {
        check(wharf_exchange_finish(get(), stream));
    }
    /* Both in one. */
    void run(wharf_stream stream = nullptr) const
    {
        check(wharf_exchange_run(get(), stream));
    }
    wharf_exchange_info info(int transfer) const
    {
        wharf_exchange_info info = WHARF_EXCHANGE_INFO_INIT;

        check(wharf_exchange_info_get(get(), transfer, &info));
        return info;
    }
    wharf_exchange_plan plan() const
    {
        wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;

        check(wharf_exchange_plan_get(get(), &plan));
        return plan;
    }

  private:
    exchange(const node &node, wharf_exchange *handle) noexcept
        : own_(node.state(), handle)
    {
    }
    detail::owner<wharf_exchange, wharf_exchange_destroy> own_;
};

/* ---- Ring -------------------------------------------------------------- */

/* A slot to be filled, as many whole T as fit; and which it is. */
template <typename T> struct slot_to_fill {
    span<T> data;
    std::uint64_t index;
};

/* A filled slot, as many whole T as the producer said; and which it is. */
template <typename T> struct filled_slot {
    span<const T> data;
    std::uint64_t index;
};

/* One producer, several consumers, some slots (ring.h). A stream of
 * WHARF_RING_CPU stands for the calling thread. */
class ring
{
  public:
    ring() noexcept = default;
    /* Collective: wharf_ring_create. Start from WHARF_RING_OPTIONS_INIT. */
    ring(const node &node, const wharf_ring_options &options)
        : slot_bytes_(options.slot_bytes)
    {
        wharf_ring *handle = nullptr;

        check(wharf_ring_create(node.get(), &options, &handle));
        own_ = {node.state(), handle};
    }
    /* Collective: wharf_ring_destroy. */
    void destroy()
    {
        own_.give();
    }
    /* The C handle, still owned by this object; NULL if there is none. */
    wharf_ring *get() const noexcept
    {
        return own_.get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }

    /* The producer. In device space data is for kernels and copies. */
    template <typename T = std::byte>
    slot_to_fill<T> produce_begin(wharf_stream stream = nullptr) const
    {
        static_assert(std::is_trivially_copyable_v<T>,
                      "ranks share bytes, not objects with pointers");
        void *pointer = nullptr;
        std::uint64_t index = 0;

        check(wharf_ring_produce_begin(get(), stream, &pointer, &index));
        return {span<T>(static_cast<T *>(pointer), slot_bytes_ / sizeof(T)),
                index};
    }
    void produce_end(std::size_t bytes, wharf_stream stream = nullptr) const
    {
        check(wharf_ring_produce_end(get(), bytes, stream));
    }
    /* No slot will follow. */
    void close() const
    {
        check(wharf_ring_close(get()));
    }
    /* Until all is consumed. timeout 0: the ring's deadline. */
    void drain(std::chrono::nanoseconds timeout = detail::no_timeout) const
    {
        check(wharf_ring_drain(get(), detail::milliseconds(timeout)));
    }

    /* A consumer. Nothing, when the producer has closed the ring and all of it
     * was seen. */
    template <typename T = std::byte>
    std::optional<filled_slot<T>>
    consume_begin(wharf_stream stream = nullptr) const
    {
        static_assert(std::is_trivially_copyable_v<T>,
                      "ranks share bytes, not objects with pointers");
        const void *pointer = nullptr;
        wharf_ring_slot slot = {};
        wharf_status status =
            wharf_ring_consume_begin(get(), stream, &pointer, &slot);

        if (status == WHARF_ECLOSED)
            return std::nullopt;
        check(status);
        return filled_slot<T>{span<const T>(static_cast<const T *>(pointer),
                                            slot.bytes / sizeof(T)),
                              slot.index};
    }
    void consume_end(wharf_stream stream = nullptr) const
    {
        check(wharf_ring_consume_end(get(), stream));
    }
    void join() const
    {
        check(wharf_ring_join(get()));
    }
    void leave(wharf_stream stream = nullptr) const
    {
        check(wharf_ring_leave(get(), stream));
    }

    /* Throws what was found wrong with slots: wharf_ring_check. */
    void check_slots() const
    {
        check(wharf_ring_check(get()));
    }
    wharf_ring_info info() const
    {
        wharf_ring_info info = WHARF_RING_INFO_INIT;

        check(wharf_ring_info_get(get(), &info));
        return info;
    }

  private:
    detail::owner<wharf_ring, wharf_ring_destroy> own_;
    std::size_t slot_bytes_ = 0;
};

} // namespace wharf

#endif
