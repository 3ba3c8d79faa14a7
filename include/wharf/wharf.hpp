/* SPDX-License-Identifier: MIT */
/*
 * Wharf for C++17: the C calls as classes that own what they made, with spans
 * and exceptions. Nothing to link but Wharf itself.
 *
 *   wharf::node node(MPI_COMM_WORLD);
 *   wharf::buffer field(node, 1024 * sizeof(float));
 *   for (float &x : field.mine<float>())   (host space, or host backend)
 *       x = 0;
 *
 * Exchanges and rings are in transfer.hpp, workers and buffers of other
 * programs in process.hpp, which this header includes.
 *
 * What a call means, who must call it and each status is said in the C header
 * of the same name; here only what C++ adds.
 *
 * Failures throw wharf::error, which carries the status and the record. A
 * collective call throws on every rank or on none.
 *
 * Ownership. Objects are moved, never copied. An object keeps its node open:
 * the node is closed when it and all that was made on it are gone, or by
 * node::close, after which its objects are empty.
 *
 * Destructors are collective, like the calls they stand for: every rank
 * destroys its objects in the same order, as the same program does by itself,
 * and as it does when the same failure unwinds every rank. They throw nothing.
 * If an exception unwinds one rank alone, its destructors wait for the others:
 * at most the node's deadline once, for the first object, and once more for
 * the node, which takes the remaining objects with it. The others learn it by
 * WHARF_ETIMEDOUT, WHARF_EMISMATCH or WHARF_EPEER in their next collective
 * call, within their own deadline. So catch an exception of one rank where its
 * objects still live and let the ranks agree, if others are to go on.
 *
 * Threads: as in C. One object must not be moved or destroyed by one thread
 * while another uses it.
 */
#ifndef WHARF_WHARF_HPP
#define WHARF_WHARF_HPP

#include "wharf/own.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <vector>

namespace wharf
{

/* ---- Node -------------------------------------------------------------- */

/* The ranks that can share memory, and their GPUs (node.h). */
class node
{
  public:
    node() noexcept = default;
    /* Collective on comm: wharf_node_open. */
    explicit node(MPI_Comm comm,
                  const wharf_node_options &options = WHARF_NODE_OPTIONS_INIT)
    {
        wharf_node *handle = nullptr;

        check(wharf_node_open(comm, &options, &handle));
        try {
            state_ = std::make_shared<detail::node_state>(handle);
        } catch (...) {
            wharf_ignore(wharf_node_close(&handle));
            throw;
        }
    }
    node(node &&) noexcept = default;
    node &operator=(node &&) noexcept = default;
    node(const node &) = delete;
    node &operator=(const node &) = delete;
    ~node() = default;

    /* Collective: wharf_node_close, also while objects of the node exist. They
     * are empty afterwards, and their destructors do nothing. */
    void close()
    {
        wharf_node *handle = get();
        wharf_status status = wharf_node_close(&handle);

        if (state_)
            state_->handle = handle;
        check(status);
    }

    /* The C handle, still owned by this object; NULL if there is none. */
    wharf_node *get() const noexcept
    {
        return state_ ? state_->handle : nullptr;
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }
    int rank() const noexcept
    {
        return wharf_node_rank(get());
    }
    int size() const noexcept
    {
        return wharf_node_size(get());
    }
    int gpus() const noexcept
    {
        return wharf_node_gpus(get());
    }
    wharf_backend backend() const noexcept
    {
        return wharf_node_backend(get());
    }
    const char *backend_reason() const noexcept
    {
        return wharf_node_backend_reason(get());
    }
    MPI_Comm communicator() const
    {
        MPI_Comm comm = MPI_COMM_NULL;

        check(wharf_node_communicator(get(), &comm));
        return comm;
    }
    int owner(int gpu) const
    {
        int rank = -1;

        check(wharf_node_owner(get(), gpu, &rank));
        return rank;
    }
    wharf_device device(int rank) const
    {
        wharf_device device = WHARF_DEVICE_INIT;

        check(wharf_node_device(get(), rank, &device));
        return device;
    }
    wharf_link link(int a, int b) const
    {
        wharf_link link = WHARF_LINK_INIT;

        check(wharf_node_link(get(), a, b, &link));
        return link;
    }
    std::size_t granularity(wharf_space space = WHARF_SPACE_DEVICE) const
    {
        std::size_t bytes = 0;

        check(wharf_buffer_granularity(get(), space, &bytes));
        return bytes;
    }
    void print(std::FILE *file, wharf_format format = WHARF_FORMAT_TEXT) const
    {
        check(wharf_node_print(get(), file, format));
    }
    /* Holds until a stream's work is complete: wharf_stream_synchronize.
     * timeout 0: the node's deadline. */
    void
    synchronize(wharf_stream stream = nullptr,
                std::chrono::nanoseconds timeout = detail::no_timeout) const
    {
        check(wharf_stream_synchronize(get(), stream,
                                       detail::milliseconds(timeout)));
    }
    /* Collective: wharf_pool_trim. */
    void trim()
    {
        check(wharf_pool_trim(get()));
    }

    /* For the classes below. */
    const std::shared_ptr<detail::node_state> &state() const noexcept
    {
        return state_;
    }

  private:
    std::shared_ptr<detail::node_state> state_;
};

/* ---- Events ------------------------------------------------------------ */

/* What a stream of one rank did, for streams of others to wait for; not owned:
 * an event of a buffer, good while the buffer is attached (event.h). */
class event_view
{
  public:
    event_view() noexcept = default;
    explicit event_view(wharf_event *handle) noexcept : handle_(handle)
    {
    }
    wharf_event *get() const noexcept
    {
        return handle_;
    }
    /* The record's number. */
    std::uint64_t record(wharf_stream stream = nullptr) const
    {
        std::uint64_t number = 0;

        check(wharf_event_record(handle_, stream, &number));
        return number;
    }
    void wait(std::uint64_t number = WHARF_LATEST,
              wharf_stream stream = nullptr) const
    {
        check(wharf_event_wait(handle_, number, stream));
    }
    /* Is the record complete? */
    bool query(std::uint64_t number = WHARF_LATEST) const
    {
        wharf_status status = wharf_event_query(handle_, number);

        if (status == WHARF_ENOTREADY)
            return false;
        check(status);
        return true;
    }
    /* timeout 0: the node's deadline. */
    void
    synchronize(std::uint64_t number = WHARF_LATEST,
                std::chrono::nanoseconds timeout = detail::no_timeout) const
    {
        check(wharf_event_synchronize(handle_, number,
                                      detail::milliseconds(timeout)));
    }

  private:
    wharf_event *handle_ = nullptr;
};

/* An event of one's own. */
class event
{
  public:
    event() noexcept = default;
    /* Collective: wharf_event_create. `owner` is the rank that records. */
    event(const node &node, int owner)
    {
        wharf_event *handle = nullptr;

        check(wharf_event_create(node.get(), owner, &handle));
        own_ = {node.state(), handle};
    }
    /* Collective: wharf_event_destroy. */
    void destroy()
    {
        own_.give();
    }
    wharf_event *get() const noexcept
    {
        return own_.get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }
    event_view view() const noexcept
    {
        return event_view(get());
    }
    std::uint64_t record(wharf_stream stream = nullptr) const
    {
        return view().record(stream);
    }
    void wait(std::uint64_t number = WHARF_LATEST,
              wharf_stream stream = nullptr) const
    {
        view().wait(number, stream);
    }
    bool query(std::uint64_t number = WHARF_LATEST) const
    {
        return view().query(number);
    }
    void
    synchronize(std::uint64_t number = WHARF_LATEST,
                std::chrono::nanoseconds timeout = detail::no_timeout) const
    {
        view().synchronize(number, timeout);
    }

  private:
    detail::owner<wharf_event, wharf_event_destroy> own_;
};

/* ---- Buffer ------------------------------------------------------------ */

/* One segment of memory a rank, all of them mapped here (buffer.h). */
class buffer : public detail::buffer_calls<buffer>
{
  public:
    buffer() noexcept = default;
    /* Collective: wharf_buffer_attach. `bytes` may differ by rank, or be 0. */
    buffer(const node &node, std::size_t bytes,
           const wharf_buffer_options &options = WHARF_BUFFER_OPTIONS_INIT)
    {
        wharf_buffer *handle = nullptr;

        check(wharf_buffer_attach(node.get(), bytes, &options, &handle));
        own_ = {node.state(), handle};
    }
    /* Takes over what a C call attached on this node. Local. */
    buffer(const node &node, wharf_buffer *handle) noexcept
        : own_(node.state(), handle)
    {
    }
    /* Collective: wharf_buffer_attach_many. All or none. options: one a
     * buffer, or none for defaults. */
    static std::vector<buffer>
    attach_many(const node &node, const std::vector<std::size_t> &bytes,
                const std::vector<wharf_buffer_options> &options = {})
    {
        std::vector<wharf_buffer *> handles(bytes.size());
        std::vector<buffer> buffers(bytes.size());

        /* Too few options would be read beyond their end. A count of 0 is
         * refused on every rank together, and so does no rank wait. */
        bool fits = options.empty() || options.size() == bytes.size();
        check(wharf_buffer_attach_many(
            node.get(), fits ? static_cast<int>(bytes.size()) : 0, bytes.data(),
            options.empty() ? nullptr : options.data(), handles.data()));
        for (std::size_t i = 0; i < handles.size(); i++)
            buffers[i] = buffer(node, handles[i]);
        return buffers;
    }
    /* Collective: wharf_buffer_attach_memory. The memory stays the caller's and
     * must outlive the buffer. */
    template <typename T>
    static buffer
    of_memory(const node &node, span<T> memory,
              const wharf_buffer_options &options = WHARF_BUFFER_OPTIONS_INIT)
    {
        static_assert(!std::is_const_v<T> && std::is_trivially_copyable_v<T>,
                      "ranks share bytes that may be written");
        wharf_buffer *handle = nullptr;

        check(wharf_buffer_attach_memory(node.get(), memory.data(),
                                         memory.size() * sizeof(T), &options,
                                         &handle));
        return buffer(node, handle);
    }
    /* Between memory and its mirror, if it has one (memory.h). */
    void sync_to(wharf_stream stream = nullptr, std::size_t offset = 0,
                 std::size_t bytes = 0) const
    {
        check(wharf_buffer_sync_to(get(), offset, bytes, stream));
    }
    void sync_from(wharf_stream stream = nullptr, std::size_t offset = 0,
                   std::size_t bytes = 0) const
    {
        check(wharf_buffer_sync_from(get(), offset, bytes, stream));
    }
    /* Collective: wharf_buffer_detach. */
    void detach()
    {
        own_.give();
    }

    /* The C handle, still owned by this object; NULL if there is none. */
    wharf_buffer *get() const noexcept
    {
        return own_.get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }
    /* The caller's; -1: there is no buffer. */
    int rank() const noexcept
    {
        const auto &node = own_.node();

        return node ? wharf_node_rank(node->handle) : -1;
    }
    /* The event that came with a rank's segment; good until the detach. */
    event_view event_of(int rank) const
    {
        wharf_event *handle = nullptr;

        check(wharf_buffer_event(get(), rank, &handle));
        return event_view(handle);
    }
    /* For programs outside the job, until unpublish or the detach. Local to
     * one rank: wharf_buffer_publish. */
    void publish(const std::string &name, const wharf_publish_options &options =
                                              WHARF_PUBLISH_OPTIONS_INIT) const
    {
        check(wharf_buffer_publish(get(), name.c_str(), &options));
    }
    void unpublish() const
    {
        check(wharf_buffer_unpublish(get()));
    }
    /* How many programs have joined it. */
    int joiners() const
    {
        int count = 0;

        check(wharf_buffer_joiners(get(), &count));
        return count;
    }

  private:
    detail::owner<wharf_buffer, wharf_buffer_detach> own_;
};

/* ---- Notify and barrier ------------------------------------------------ */

/* One rank waits, every other may record (notify.h). */
class notify
{
  public:
    notify() noexcept = default;
    /* Collective: wharf_notify_create. */
    notify(const node &node, int waiter,
           const wharf_notify_options &options = WHARF_NOTIFY_OPTIONS_INIT)
    {
        wharf_notify *handle = nullptr;

        check(wharf_notify_create(node.get(), waiter, &options, &handle));
        own_ = {node.state(), handle};
    }
    /* Collective: wharf_notify_destroy. */
    void destroy()
    {
        own_.give();
    }
    wharf_notify *get() const noexcept
    {
        return own_.get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }
    void record(wharf_stream stream = nullptr) const
    {
        check(wharf_notify_record(get(), stream));
    }
    /* timeout 0: none on a GPU, the node's deadline on the host backend. */
    void wait(int from, wharf_stream stream = nullptr,
              std::chrono::nanoseconds timeout = detail::no_timeout) const
    {
        check(wharf_notify_wait(get(), from, stream,
                                detail::milliseconds(timeout)));
    }
    /* timeout 0: the node's deadline. */
    void wait_host(int from,
                   std::chrono::nanoseconds timeout = detail::no_timeout) const
    {
        check(
            wharf_notify_wait_host(get(), from, detail::milliseconds(timeout)));
    }
    /* Throws WHARF_ETIMEDOUT if a stream's wait gave up. */
    void check_waits() const
    {
        check(wharf_notify_check(get()));
    }
    wharf_mechanism mechanism(int from) const
    {
        wharf_mechanism mechanism = WHARF_MECHANISM_AUTO;

        check(wharf_notify_mechanism(get(), from, &mechanism));
        return mechanism;
    }
    wharf_notify_view view() const
    {
        wharf_notify_view view = {};

        check(wharf_notify_view_get(get(), &view));
        return view;
    }

  private:
    detail::owner<wharf_notify, wharf_notify_destroy> own_;
};

/* Streams of several ranks wait for each other (notify.h). */
class barrier
{
  public:
    barrier() noexcept = default;
    /* Collective: wharf_barrier_create over all ranks of the node. */
    explicit barrier(const node &node, const wharf_notify_options &options =
                                           WHARF_NOTIFY_OPTIONS_INIT)
        : barrier(node, std::vector<int>(), options)
    {
    }
    /* The same over some ranks; every rank of the node calls. */
    barrier(const node &node, const std::vector<int> &ranks,
            const wharf_notify_options &options = WHARF_NOTIFY_OPTIONS_INIT)
    {
        wharf_barrier *handle = nullptr;

        check(wharf_barrier_create(node.get(), static_cast<int>(ranks.size()),
                                   ranks.empty() ? nullptr : ranks.data(),
                                   &options, &handle));
        own_ = {node.state(), handle};
    }
    barrier(const node &node, std::initializer_list<int> ranks)
        : barrier(node, std::vector<int>(ranks))
    {
    }
    /* Collective: wharf_barrier_destroy. */
    void destroy()
    {
        own_.give();
    }
    wharf_barrier *get() const noexcept
    {
        return own_.get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }
    /* Collective on the members. */
    void enter(wharf_stream stream = nullptr) const
    {
        check(wharf_barrier_enter(get(), stream));
    }
    /* Throws WHARF_ETIMEDOUT if a kernel's wait gave up. */
    void check_waits() const
    {
        check(wharf_barrier_check(get()));
    }
    wharf_mechanism mechanism() const
    {
        wharf_mechanism mechanism = WHARF_MECHANISM_AUTO;

        check(wharf_barrier_mechanism(get(), &mechanism));
        return mechanism;
    }
    wharf_barrier_view view() const
    {
        wharf_barrier_view view = {};

        check(wharf_barrier_view_get(get(), &view));
        return view;
    }

  private:
    detail::owner<wharf_barrier, wharf_barrier_destroy> own_;
};

} // namespace wharf

/* What stands on these. */
#include "wharf/process.hpp"
#include "wharf/transfer.hpp"

#endif
