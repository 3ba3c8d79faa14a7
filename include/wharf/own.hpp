/* SPDX-License-Identifier: MIT */
/* What the classes of wharf.hpp stand on: exceptions, spans, and the owner of
 * one C object. Include wharf.hpp. */
#ifndef WHARF_OWN_HPP
#define WHARF_OWN_HPP

/* MPI's own C++ interface was removed from the standard and would have to be
 * linked. A program that includes mpi.h before this must say the same. */
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#if __cplusplus >= 202002L
#include <span>
#endif

#include "wharf/wharf.h"

namespace wharf
{

/* ---- Failures ---------------------------------------------------------- */

/* A failed call. what() is the sentence of wharf_error_format. */
class error : public std::runtime_error
{
  public:
    explicit error(const wharf_error &record)
        : std::runtime_error(sentence(record)), record_(record)
    {
    }
    wharf_status status() const noexcept
    {
        return record_.status;
    }
    /* What is unusable now: nothing, the object, or the node. */
    wharf_scope scope() const noexcept
    {
        return wharf_status_scope(record_.status);
    }
    const wharf_error &record() const noexcept
    {
        return record_;
    }

  private:
    static std::string sentence(const wharf_error &record)
    {
        char text[WHARF_MAX_ERROR_TEXT + 1];

        return wharf_error_format(&record, text, sizeof(text));
    }
    wharf_error record_;
};

namespace detail
{

inline wharf_error record_of(wharf_status status, const char *cause,
                             const char *remedy)
{
    wharf_error record = {};

    record.status = status;
    record.rank = -1;
    std::snprintf(record.cause, sizeof(record.cause), "%s", cause);
    std::snprintf(record.remedy, sizeof(record.remedy), "%s", remedy);
    return record;
}

} // namespace detail

namespace detail
{

/* For calls all of whose failures leave a record. */
[[noreturn]] inline void fail(wharf_status status)
{
    wharf_error record;
    wharf_last_error(&record);
    if (record.status != status)
        record = record_of(status, wharf_status_text(status), "");
    throw error(record);
}

} // namespace detail

/* Throws what a call of the C interface left in this thread's record, unless
 * its status is WHARF_OK. WHARF_ENOTREADY and WHARF_ECLOSED leave none: there
 * the status speaks for itself. Local. */
inline void check(wharf_status status)
{
    if (status == WHARF_ENOTREADY || status == WHARF_ECLOSED)
        throw error(detail::record_of(status, wharf_status_text(status), ""));
    if (status != WHARF_OK)
        detail::fail(status);
}

/* ---- Spans ------------------------------------------------------------- */

#if __cplusplus >= 202002L
template <typename T> using span = std::span<T>;
#else
/* As much of C++20's std::span as a segment needs. */
template <typename T> class span
{
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using iterator = T *;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept
        : data_(data), size_(size)
    {
    }
    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr std::size_t size() const noexcept
    {
        return size_;
    }
    constexpr std::size_t size_bytes() const noexcept
    {
        return size_ * sizeof(T);
    }
    constexpr bool empty() const noexcept
    {
        return size_ == 0;
    }
    constexpr T *begin() const noexcept
    {
        return data_;
    }
    constexpr T *end() const noexcept
    {
        return data_ + size_;
    }
    constexpr T &operator[](std::size_t index) const
    {
        return data_[index];
    }
    constexpr T &front() const
    {
        return data_[0];
    }
    constexpr T &back() const
    {
        return data_[size_ - 1];
    }
    constexpr span first(std::size_t count) const
    {
        return span(data_, count);
    }
    constexpr span subspan(std::size_t offset, std::size_t count) const
    {
        return span(data_ + offset, count);
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
#endif

/* ---- What the classes stand on ----------------------------------------- */

namespace detail
{

/* A node that is closed when nothing needs it any more. */
struct node_state {
    wharf_node *handle = nullptr;
    /* A destructor's collective call failed, so that the ranks are not
     * together: the objects that are left wait for nobody, close takes them. */
    bool apart = false;

    explicit node_state(wharf_node *node) noexcept : handle(node)
    {
    }
    node_state(const node_state &) = delete;
    node_state &operator=(const node_state &) = delete;
    ~node_state()
    {
        /* WHARF_EMISMATCH: others are still in the destructor of an object,
         * or in the call that told them; each time they get further. */
        for (int i = 0; i < 16 && handle != nullptr; i++) {
            if (wharf_node_close(&handle) != WHARF_EMISMATCH)
                break;
        }
    }
};

/* Owner of one C object; Give is the call that destroys it. */
template <typename Object, wharf_status (*Give)(Object **)> class owner
{
  public:
    owner() noexcept = default;
    owner(std::shared_ptr<node_state> node, Object *object) noexcept
        : node_(std::move(node)), object_(object)
    {
    }
    owner(owner &&other) noexcept
        : node_(std::move(other.node_)),
          object_(std::exchange(other.object_, nullptr))
    {
    }
    owner &operator=(owner &&other) noexcept
    {
        if (this != &other) {
            drop();
            node_ = std::move(other.node_);
            object_ = std::exchange(other.object_, nullptr);
        }
        return *this;
    }
    ~owner()
    {
        drop();
    }

    /* NULL when the object is gone, or its node closed: every C call answers
     * that with WHARF_EARG. */
    Object *get() const noexcept
    {
        return node_ && node_->handle != nullptr ? object_ : nullptr;
    }
    const std::shared_ptr<node_state> &node() const noexcept
    {
        return node_;
    }
    /* After WHARF_EMISMATCH nothing was done, and the object lives on. */
    void give()
    {
        give_by(Give);
    }
    template <typename Call> void give_by(Call call)
    {
        Object *object = get();
        wharf_status status = call(&object);

        object_ = object;
        if (object == nullptr)
            node_.reset();
        check(status);
    }

  private:
    void drop() noexcept
    {
        if (get() != nullptr && !node_->apart)
            node_->apart = !together(Give(&object_));
        object_ = nullptr;
        node_.reset();
    }
    /* A ruined context is this rank's own: the others came. */
    static bool together(wharf_status status) noexcept
    {
        return status == WHARF_OK || status == WHARF_EFAULT;
    }
    std::shared_ptr<node_state> node_;
    Object *object_ = nullptr;
};

/* Owner of one C object that no other rank has a part in. */
template <typename Object, wharf_status (*Give)(Object **)> class local_owner
{
  public:
    local_owner() noexcept = default;
    explicit local_owner(Object *object) noexcept : object_(object)
    {
    }
    local_owner(local_owner &&other) noexcept
        : object_(std::exchange(other.object_, nullptr))
    {
    }
    local_owner &operator=(local_owner &&other) noexcept
    {
        if (this != &other) {
            drop();
            object_ = std::exchange(other.object_, nullptr);
        }
        return *this;
    }
    ~local_owner()
    {
        drop();
    }
    Object *get() const noexcept
    {
        return object_;
    }
    void give()
    {
        check(Give(&object_));
    }

  private:
    void drop() noexcept
    {
        if (object_ != nullptr)
            wharf_ignore(Give(&object_));
        object_ = nullptr;
    }
    Object *object_ = nullptr;
};

/* The local calls that every kind of buffer has; Self has get() and rank(). */
template <typename Self> class buffer_calls
{
  public:
    /* A rank's segment, as many whole T as fit. In device space the span's
     * data() is for kernels and copies, not for the CPU. */
    template <typename T = std::byte> span<T> segment(int rank) const
    {
        static_assert(std::is_trivially_copyable_v<T>,
                      "ranks share bytes, not objects with pointers");
        void *pointer = nullptr;
        std::size_t bytes = 0;

        check(wharf_buffer_segment(handle(), rank, &pointer, &bytes));
        return span<T>(static_cast<T *>(pointer), bytes / sizeof(T));
    }
    /* The calling rank's own. */
    template <typename T = std::byte> span<T> mine() const
    {
        return segment<T>(static_cast<const Self &>(*this).rank());
    }
    /* All segments, with CONTIGUOUS one behind the other. */
    template <typename T = std::byte> span<T> whole() const
    {
        static_assert(std::is_trivially_copyable_v<T>,
                      "ranks share bytes, not objects with pointers");
        void *pointer = nullptr;
        std::size_t bytes = 0;

        check(wharf_buffer_base(handle(), &pointer, &bytes));
        return span<T>(static_cast<T *>(pointer), bytes / sizeof(T));
    }
    wharf_buffer_info info(int rank) const
    {
        wharf_buffer_info info = WHARF_BUFFER_INFO_INIT;

        check(wharf_buffer_info_get(handle(), rank, &info));
        return info;
    }
    /* One pointer a rank, in the memory of the caller's GPU. */
    void *const *pointer_table() const
    {
        void *const *table = nullptr;

        check(wharf_buffer_pointer_table(handle(), &table));
        return table;
    }
    /* For kernels, see device.cuh. */
    wharf_segments_view view() const
    {
        wharf_segments_view view = {};

        check(wharf_buffer_view_get(handle(), &view));
        return view;
    }

  private:
    wharf_buffer *handle() const noexcept
    {
        return static_cast<const Self &>(*this).get();
    }
};

/* 0 is "the node's deadline" to the C calls, so that less than a millisecond
 * must not become 0. */
inline int milliseconds(std::chrono::nanoseconds time)
{
    if (time.count() <= 0)
        return 0;
    auto count = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    auto most = std::numeric_limits<int>::max();

    return count > most ? most : static_cast<int>(count);
}

inline constexpr std::chrono::nanoseconds no_timeout{0};

} // namespace detail

} // namespace wharf

#endif
