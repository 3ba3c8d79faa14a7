/* SPDX-License-Identifier: MIT */
/*
 * Processes beside the ranks in C++: workers, and programs outside the job.
 * Included by wharf.hpp, whose first lines say how the classes behave. Nothing
 * here is collective, destructors neither.
 *
 *   wharf::worker worker(node, {"filter", "--fast"}, {frames});    in a rank
 *   do
 *       worker.send(task);
 *   while (worker.receive(answer) == wharf::mail::lost);
 *
 *   wharf::worker_end rank;                            in the worker's main
 *   auto frames = rank.buffer(0);
 *   while (rank.receive(task) == wharf::mail::passed)
 *       rank.send(work_on(frames.segment<float>(0), task));
 *
 *   wharf::joined field("field");                      in a viewer
 *   draw(field.buffer().segment<const float>(0));
 */
#ifndef WHARF_PROCESS_HPP
#define WHARF_PROCESS_HPP

#include "wharf/wharf.hpp"

#include <cstring>
#include <functional>

namespace wharf
{

/* ---- Buffers of others -------------------------------------------------- */

/* A buffer that is lent to this process, or joined; not owned. */
class buffer_view : public detail::buffer_calls<buffer_view>
{
  public:
    buffer_view() noexcept = default;
    /* `rank`: whose segment is "mine". */
    buffer_view(wharf_buffer *handle, int rank) noexcept
        : handle_(handle), rank_(rank)
    {
    }
    wharf_buffer *get() const noexcept
    {
        return handle_;
    }
    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }
    int rank() const noexcept
    {
        return rank_;
    }

  private:
    wharf_buffer *handle_ = nullptr;
    int rank_ = -1;
};

/* ---- Messages ------------------------------------------------------------ */

/* What came of a send or receive. Everything else is thrown. */
enum class mail {
    passed, /* it went, or came */
    none,   /* with no_wait: no room, or nothing there */
    lost,   /* in a rank: the worker died (wharf_last_error says how); the next
               call deals with the next one, so send the task again */
    closed  /* in a worker: the rank stops it; leave */
};

/* A timeout of send and receive: do not wait. A timeout of 0, the default, is
 * the node's deadline, and in a worker's receive none at all. */
inline constexpr std::chrono::nanoseconds no_wait{-1};

namespace detail
{

inline int mail_milliseconds(std::chrono::nanoseconds timeout)
{
    return timeout.count() < 0 ? WHARF_NO_WAIT : milliseconds(timeout);
}

inline mail mail_of(wharf_status status)
{
    switch (status) {
    case WHARF_ENOTREADY:
        return mail::none;
    case WHARF_EWORKER:
        return mail::lost;
    case WHARF_ECLOSED:
        return mail::closed;
    default:
        check(status);
        return mail::passed;
    }
}

/* What both ends of a worker have. */
template <typename Self> class messages
{
  public:
    mail send_bytes(const void *data, std::size_t size,
                    std::chrono::nanoseconds timeout = no_timeout) const
    {
        return mail_of(wharf_worker_send(self().get(), data, size,
                                         mail_milliseconds(timeout)));
    }
    template <typename T>
    mail send(const T &message,
              std::chrono::nanoseconds timeout = no_timeout) const
    {
        static_assert(std::is_trivially_copyable_v<T> &&
                          sizeof(T) <= WHARF_MAX_MESSAGE,
                      "messages are bytes, and not many");
        return send_bytes(&message, sizeof(T), timeout);
    }
    /* A message of any size; `message` is changed only by one that passed. */
    mail receive_bytes(std::vector<std::byte> &message,
                       std::chrono::nanoseconds timeout = no_timeout) const
    {
        std::vector<std::byte> room(WHARF_MAX_MESSAGE);
        std::size_t size = 0;
        mail came =
            mail_of(wharf_worker_receive(self().get(), room.data(), room.size(),
                                         &size, mail_milliseconds(timeout)));

        if (came == mail::passed) {
            room.resize(size);
            message = std::move(room);
        }
        return came;
    }
    /* Throws WHARF_EARG for a message of another size: a longer one stays
     * where it is, a shorter one is dropped. */
    template <typename T>
    mail receive(T &message,
                 std::chrono::nanoseconds timeout = no_timeout) const
    {
        static_assert(std::is_trivially_copyable_v<T> &&
                          sizeof(T) <= WHARF_MAX_MESSAGE,
                      "messages are bytes, and not many");
        alignas(T) std::byte room[sizeof(T)];
        std::size_t size = 0;
        mail came = mail_of(wharf_worker_receive(
            self().get(), room, sizeof(T), &size, mail_milliseconds(timeout)));

        if (came == mail::passed && size != sizeof(T))
            throw error(record_of(WHARF_EARG, "the message is a shorter one",
                                  "receive what the other end sends"));
        if (came == mail::passed)
            std::memcpy(static_cast<void *>(&message), room, sizeof(T));
        return came;
    }

  private:
    const Self &self() const noexcept
    {
        return static_cast<const Self &>(*this);
    }
};

inline wharf_status worker_stop(wharf_worker **worker)
{
    return wharf_worker_stop(worker, nullptr);
}

} // namespace detail

/* ---- Worker, the rank's end ---------------------------------------------- */

/* A process to which a rank hands work that may go wrong (worker.h). Its
 * destructor stops it. Buffers that it was lent must outlive it: make it after
 * them. */
class worker : public detail::messages<worker>
{
  public:
    worker() noexcept = default;
    /* Local: wharf_worker_start. argv[0] is the program. What is lent comes
     * behind the buffers of the options. */
    worker(const node &node, const std::vector<std::string> &argv,
           const std::vector<std::reference_wrapper<const buffer>> &lent = {},
           const wharf_worker_options &options = WHARF_WORKER_OPTIONS_INIT)
    {
        std::vector<const char *> texts;
        std::vector<wharf_buffer *> buffers;
        wharf_worker_options all = options;
        wharf_worker *handle = nullptr;

        for (const std::string &text : argv)
            texts.push_back(text.c_str());
        texts.push_back(nullptr);
        for (int i = 0; i < options.buffer_count && options.buffers; i++)
            buffers.push_back(options.buffers[i]);
        for (const buffer &one : lent)
            buffers.push_back(one.get());
        if (!lent.empty()) {
            all.buffers = buffers.data();
            all.buffer_count = static_cast<int>(buffers.size());
        }
        check(wharf_worker_start(node.get(), texts.data(), &all, &handle));
        own_ = {node.state(), handle};
    }
    /* Local: wharf_worker_stop; what became of it. */
    wharf_worker_report stop()
    {
        wharf_worker_report last = report();

        own_.give_by([&last](wharf_worker **handle) {
            return wharf_worker_stop(handle, &last);
        });
        return last;
    }
    void lend(const buffer &buffer, bool read_only = false) const
    {
        check(wharf_worker_lend(get(), buffer.get(), read_only));
    }
    /* The C handle, still owned by this object; NULL if there is none. */
    wharf_worker *get() const noexcept
    {
        return own_.get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }
    wharf_worker_state state() const
    {
        wharf_worker_state state = WHARF_WORKER_STARTING;

        check(wharf_worker_state_get(get(), &state));
        return state;
    }
    wharf_worker_report report() const
    {
        wharf_worker_report report = WHARF_WORKER_REPORT_INIT;

        check(wharf_worker_report_get(get(), &report));
        return report;
    }
    wharf_worker_death death(int number) const
    {
        wharf_worker_death death = WHARF_WORKER_DEATH_INIT;

        check(wharf_worker_death_get(get(), number, &death));
        return death;
    }
    void print(std::FILE *file) const
    {
        check(wharf_worker_print(get(), file));
    }

  private:
    detail::owner<wharf_worker, detail::worker_stop> own_;
};

/* ---- Worker, its own end ------------------------------------------------- */

/* In the program that a worker runs: what its rank lends (worker.h). Once in a
 * process. */
class worker_end : public detail::messages<worker_end>
{
  public:
    /* Local: wharf_worker_join. Throws WHARF_ECLOSED if the rank stops this
     * worker already: end. */
    explicit worker_end(const wharf_worker_join_options &options =
                            WHARF_WORKER_JOIN_OPTIONS_INIT)
    {
        wharf_worker *handle = nullptr;

        check(wharf_worker_join(&options, &handle));
        own_ = detail::local_owner<wharf_worker, wharf_worker_leave>(handle);
    }
    /* Local: wharf_worker_leave. */
    void leave()
    {
        own_.give();
    }
    /* The C handle, still owned by this object; NULL if there is none. */
    wharf_worker *get() const noexcept
    {
        return own_.get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }
    /* The rank's node, for local calls; owned by this object. */
    wharf_node *node() const
    {
        wharf_node *node = nullptr;

        check(wharf_worker_node(get(), &node));
        return node;
    }
    /* Of the rank that lends. */
    int rank() const
    {
        return wharf_node_rank(node());
    }
    /* How many were lent so far. */
    int buffers() const noexcept
    {
        return wharf_worker_buffers(get());
    }
    /* Good until the leave. */
    buffer_view buffer(int index) const
    {
        wharf_buffer *handle = nullptr;

        check(wharf_worker_buffer(get(), index, &handle));
        return buffer_view(handle, rank());
    }
    /* Still at work. */
    void alive() const
    {
        check(wharf_worker_alive(get()));
    }
    /* The CUDA context is ruined: tells the rank, and ends the process. */
    void fault(int native, const char *what = nullptr) const
    {
        wharf_worker_fault(get(), native, what);
    }

  private:
    detail::local_owner<wharf_worker, wharf_worker_leave> own_;
};

/* ---- Programs outside the job -------------------------------------------- */

/* A buffer that a rank has published (join.h). */
class joined
{
  public:
    joined() noexcept = default;
    /* Local: wharf_join. */
    explicit joined(
        const std::string &name,
        const wharf_joined_options &options = WHARF_JOINED_OPTIONS_INIT)
    {
        wharf_joined *handle = nullptr;
        wharf_status status = wharf_join(name.c_str(), &options, &handle);
        if (status != WHARF_OK)
            detail::fail(status); /* WHARF_ENOTREADY has a record too */

        own_ = detail::local_owner<wharf_joined, wharf_leave>(handle);
    }
    /* Local: wharf_leave. */
    void leave()
    {
        own_.give();
    }
    /* The C handle, still owned by this object; NULL if there is none. */
    wharf_joined *get() const noexcept
    {
        return own_.get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }
    /* Is it still published? What was mapped stays valid until the leave. */
    bool published() const
    {
        wharf_status status = wharf_joined_check(get());

        if (status == WHARF_ESTATE || status == WHARF_EPEER)
            return false;
        check(status);
        return true;
    }
    /* For all local calls, good until the leave. Throws WHARF_ESTATE or
     * WHARF_EPEER when it is no longer published. */
    buffer_view buffer() const
    {
        wharf_buffer *handle = nullptr;

        check(wharf_joined_buffer(get(), &handle));
        return buffer_view(handle, wharf_node_rank(node()));
    }
    /* The ranks' node, for local calls; owned by this object. */
    wharf_node *node() const
    {
        wharf_node *node = nullptr;

        check(wharf_joined_node(get(), &node));
        return node;
    }
    std::string note() const
    {
        return wharf_joined_note(get());
    }

  private:
    detail::local_owner<wharf_joined, wharf_leave> own_;
};

} // namespace wharf

#endif
