! SPDX-License-Identifier: MIT
!
! The C calls as Fortran sees them. Programs use module wharf; those of its
! procedures that would add nothing (wharf_version, wharf_last_error) are these.
module wharf_calls
  use, intrinsic :: iso_c_binding
  use wharf_types
  implicit none

  interface

    integer(c_int) function c_node_open(comm, options, node) &
      bind(c, name="wharf_node_open_f")
      import
      integer(c_int), value :: comm
      type(wharf_node_options), intent(in) :: options
      type(c_ptr), intent(inout) :: node
    end function

    integer(c_int) function c_node_close(node) &
      bind(c, name="wharf_node_close")
      import
      type(c_ptr), intent(inout) :: node
    end function

    integer(c_int) function c_node_rank(node) &
      bind(c, name="wharf_node_rank")
      import
      type(c_ptr), value :: node
    end function

    integer(c_int) function c_node_size(node) &
      bind(c, name="wharf_node_size")
      import
      type(c_ptr), value :: node
    end function

    integer(c_int) function c_node_gpus(node) &
      bind(c, name="wharf_node_gpus")
      import
      type(c_ptr), value :: node
    end function

    integer(c_int) function c_node_backend(node) &
      bind(c, name="wharf_node_backend")
      import
      type(c_ptr), value :: node
    end function

    integer(c_int) function c_node_owner(node, gpu, rank) &
      bind(c, name="wharf_node_owner")
      import
      type(c_ptr), value :: node
      integer(c_int), value :: gpu
      integer(c_int), intent(inout) :: rank
    end function

    integer(c_int) function c_node_communicator(node, comm) &
      bind(c, name="wharf_node_communicator_f")
      import
      type(c_ptr), value :: node
      integer(c_int), intent(inout) :: comm
    end function

    integer(c_int) function c_node_device(node, rank, device) &
      bind(c, name="wharf_node_device")
      import
      type(c_ptr), value :: node
      integer(c_int), value :: rank
      type(wharf_device), intent(inout) :: device
    end function

    integer(c_int) function c_node_link(node, a, b, link) &
      bind(c, name="wharf_node_link")
      import
      type(c_ptr), value :: node
      integer(c_int), value :: a, b
      type(wharf_link), intent(inout) :: link
    end function

    integer(c_int) function c_pool_trim(node) &
      bind(c, name="wharf_pool_trim")
      import
      type(c_ptr), value :: node
    end function

    integer(c_int) function c_buffer_attach(node, bytes, options, buffer) &
      bind(c, name="wharf_buffer_attach")
      import
      type(c_ptr), value :: node
      integer(c_size_t), value :: bytes
      type(wharf_buffer_options), intent(in) :: options
      type(c_ptr), intent(inout) :: buffer
    end function

    integer(c_int) function c_buffer_attach_memory(node, memory, bytes, &
                                                   options, buffer) &
      bind(c, name="wharf_buffer_attach_memory")
      import
      type(c_ptr), value :: node, memory
      integer(c_size_t), value :: bytes
      type(wharf_buffer_options), intent(in) :: options
      type(c_ptr), intent(inout) :: buffer
    end function

    integer(c_int) function c_buffer_sync_to(buffer, offset, bytes, stream) &
      bind(c, name="wharf_buffer_sync_to")
      import
      type(c_ptr), value :: buffer, stream
      integer(c_size_t), value :: offset, bytes
    end function

    integer(c_int) function c_buffer_sync_from(buffer, offset, bytes, stream) &
      bind(c, name="wharf_buffer_sync_from")
      import
      type(c_ptr), value :: buffer, stream
      integer(c_size_t), value :: offset, bytes
    end function

    integer(c_int) function c_buffer_detach(buffer) &
      bind(c, name="wharf_buffer_detach")
      import
      type(c_ptr), intent(inout) :: buffer
    end function

    integer(c_int) function c_buffer_segment(buffer, rank, start, bytes) &
      bind(c, name="wharf_buffer_segment")
      import
      type(c_ptr), value :: buffer
      integer(c_int), value :: rank
      type(c_ptr), intent(inout) :: start
      integer(c_size_t), intent(inout) :: bytes
    end function

    integer(c_int) function c_buffer_base(buffer, base, bytes) &
      bind(c, name="wharf_buffer_base")
      import
      type(c_ptr), value :: buffer
      type(c_ptr), intent(inout) :: base
      integer(c_size_t), intent(inout) :: bytes
    end function

    integer(c_int) function c_buffer_info_get(buffer, rank, info) &
      bind(c, name="wharf_buffer_info_get")
      import
      type(c_ptr), value :: buffer
      integer(c_int), value :: rank
      type(wharf_buffer_info), intent(inout) :: info
    end function

    integer(c_int) function c_buffer_event(buffer, rank, event) &
      bind(c, name="wharf_buffer_event")
      import
      type(c_ptr), value :: buffer
      integer(c_int), value :: rank
      type(c_ptr), intent(inout) :: event
    end function

    integer(c_int) function c_buffer_granularity(node, space, bytes) &
      bind(c, name="wharf_buffer_granularity")
      import
      type(c_ptr), value :: node
      integer(c_int), value :: space
      integer(c_size_t), intent(inout) :: bytes
    end function

    integer(c_int) function c_event_create(node, owner, event) &
      bind(c, name="wharf_event_create")
      import
      type(c_ptr), value :: node
      integer(c_int), value :: owner
      type(c_ptr), intent(inout) :: event
    end function

    integer(c_int) function c_event_destroy(event) &
      bind(c, name="wharf_event_destroy")
      import
      type(c_ptr), intent(inout) :: event
    end function

    integer(c_int) function c_event_record(event, stream, number) &
      bind(c, name="wharf_event_record")
      import
      type(c_ptr), value :: event, stream
      integer(c_int64_t), intent(inout) :: number
    end function

    integer(c_int) function c_event_wait(event, number, stream) &
      bind(c, name="wharf_event_wait")
      import
      type(c_ptr), value :: event, stream
      integer(c_int64_t), value :: number
    end function

    integer(c_int) function c_event_query(event, number) &
      bind(c, name="wharf_event_query")
      import
      type(c_ptr), value :: event
      integer(c_int64_t), value :: number
    end function

    integer(c_int) function c_event_synchronize(event, number, timeout_ms) &
      bind(c, name="wharf_event_synchronize")
      import
      type(c_ptr), value :: event
      integer(c_int64_t), value :: number
      integer(c_int), value :: timeout_ms
    end function

    integer(c_int) function c_stream_synchronize(node, stream, timeout_ms) &
      bind(c, name="wharf_stream_synchronize")
      import
      type(c_ptr), value :: node, stream
      integer(c_int), value :: timeout_ms
    end function

    integer(c_int) function c_notify_create(node, waiter, options, notify) &
      bind(c, name="wharf_notify_create")
      import
      type(c_ptr), value :: node
      integer(c_int), value :: waiter
      type(wharf_notify_options), intent(in) :: options
      type(c_ptr), intent(inout) :: notify
    end function

    integer(c_int) function c_notify_destroy(notify) &
      bind(c, name="wharf_notify_destroy")
      import
      type(c_ptr), intent(inout) :: notify
    end function

    integer(c_int) function c_notify_record(notify, stream) &
      bind(c, name="wharf_notify_record")
      import
      type(c_ptr), value :: notify, stream
    end function

    integer(c_int) function c_notify_wait(notify, from, stream, timeout_ms) &
      bind(c, name="wharf_notify_wait")
      import
      type(c_ptr), value :: notify, stream
      integer(c_int), value :: from, timeout_ms
    end function

    integer(c_int) function c_notify_wait_host(notify, from, timeout_ms) &
      bind(c, name="wharf_notify_wait_host")
      import
      type(c_ptr), value :: notify
      integer(c_int), value :: from, timeout_ms
    end function

    integer(c_int) function c_notify_check(notify) &
      bind(c, name="wharf_notify_check")
      import
      type(c_ptr), value :: notify
    end function

    integer(c_int) function c_barrier_create(node, count, ranks, options, &
                                             barrier) &
      bind(c, name="wharf_barrier_create")
      import
      type(c_ptr), value :: node, ranks
      integer(c_int), value :: count
      type(wharf_notify_options), intent(in) :: options
      type(c_ptr), intent(inout) :: barrier
    end function

    integer(c_int) function c_barrier_destroy(barrier) &
      bind(c, name="wharf_barrier_destroy")
      import
      type(c_ptr), intent(inout) :: barrier
    end function

    integer(c_int) function c_barrier_enter(barrier, stream) &
      bind(c, name="wharf_barrier_enter")
      import
      type(c_ptr), value :: barrier, stream
    end function

    integer(c_int) function c_barrier_check(barrier) &
      bind(c, name="wharf_barrier_check")
      import
      type(c_ptr), value :: barrier
    end function

    integer(c_int) function wharf_version() &
      bind(c, name="wharf_version")
      import
    end function

    subroutine wharf_last_error(error) bind(c, name="wharf_last_error")
      import
      type(wharf_error), intent(out) :: error
    end subroutine

    type(c_ptr) function c_error_format(error, text, capacity) &
      bind(c, name="wharf_error_format")
      import
      type(wharf_error), intent(in) :: error
      character(kind=c_char), intent(out) :: text(*)
      integer(c_size_t), value :: capacity
    end function

    type(c_ptr) function c_status_name(status) &
      bind(c, name="wharf_status_name")
      import
      integer(c_int), value :: status
    end function

    integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
      import
      type(c_ptr), value :: text
    end function

  end interface

contains

  ! ---- Arguments that may be left out ---------------------------------------

  function or_default(stream) result(value)
    type(c_ptr), intent(in), optional :: stream
    type(c_ptr) :: value
    value = c_null_ptr
    if (present(stream)) value = stream
  end function

  function or_none(bytes) result(value)
    integer(c_size_t), intent(in), optional :: bytes
    integer(c_size_t) :: value
    value = 0
    if (present(bytes)) value = bytes
  end function

  function or_zero(number) result(value)
    integer(c_int), intent(in), optional :: number
    integer(c_int) :: value
    value = 0
    if (present(number)) value = number
  end function

  ! Text for C, without blanks at its end.
  function or_c_text(text) result(value)
    character(len=*), intent(in) :: text
    character(len=:, kind=c_char), allocatable :: value
    value = trim(text)//c_null_char
  end function

  ! ---- Text that C returns --------------------------------------------------

  function text_at(start) result(text)
    type(c_ptr), intent(in) :: start
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: chars(:)
    integer :: i

    call c_f_pointer(start, chars, [c_strlen(start)])
    allocate (character(len=size(chars)) :: text)
    do i = 1, size(chars)
      text(i:i) = chars(i)
    end do
  end function

end module wharf_calls
