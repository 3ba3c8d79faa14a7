! SPDX-License-Identifier: MIT
!
! Wharf for Fortran: shared GPU and host memory for the MPI ranks of a node.
!
!   use wharf_f08        type(MPI_Comm) and integer communicators
!   use wharf            integer communicators only: mpif.h, use mpi
!
!   type(wharf_node) :: node
!   type(wharf_buffer) :: buffer
!   real(real64), pointer :: mine(:), field(:, :)
!   if (wharf_node_open(MPI_COMM_WORLD, node) /= WHARF_OK) call give_up()
!   if (wharf_buffer_attach(node, 8_c_size_t * n * m, buffer, &
!                           space=WHARF_SPACE_HOST) /= WHARF_OK) call give_up()
!   if (wharf_buffer_segment(buffer, wharf_node_rank(node), mine) &
!       /= WHARF_OK) call give_up()
!   field(1:n, 1:m) => mine
!
! Every procedure is the C call of its name, and returns its status; what it
! means, who must call it, and each status is said in the C headers. Arguments
! keep their order, but options come last and are optional. Ranks count from 0,
! as in MPI. Streams are C pointers (0: the default stream), such as CUDA
! Fortran and OpenACC give them.
!
! Object types hold a C handle. They may be copied, like a pointer; the call
! that destroys sets the handle of its argument to null.
module wharf
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use wharf_types
  use wharf_calls
  implicit none
  private

  public :: c_int, c_size_t, c_int64_t, c_ptr, c_null_ptr
  public :: wharf_node, wharf_buffer, wharf_event, wharf_notify, wharf_barrier
  public :: wharf_node_options, wharf_buffer_options, wharf_notify_options
  public :: wharf_device, wharf_link, wharf_buffer_info, wharf_error
  public :: wharf_version, wharf_text, wharf_status_name, wharf_error_message
  public :: wharf_last_error
  public :: wharf_node_open, wharf_node_close, wharf_node_rank
  public :: wharf_node_size, wharf_node_gpus, wharf_node_backend
  public :: wharf_node_communicator, wharf_node_device, wharf_node_link
  public :: wharf_node_owner, wharf_pool_trim
  public :: wharf_buffer_attach, wharf_buffer_detach, wharf_buffer_segment
  public :: wharf_buffer_base, wharf_buffer_info_get, wharf_buffer_event
  public :: wharf_buffer_granularity, wharf_buffer_attach_memory
  public :: wharf_buffer_sync_to, wharf_buffer_sync_from
  public :: wharf_event_create, wharf_event_destroy, wharf_event_record
  public :: wharf_event_wait, wharf_event_query, wharf_event_synchronize
  public :: wharf_stream_synchronize
  public :: wharf_notify_create, wharf_notify_destroy, wharf_notify_record
  public :: wharf_notify_wait, wharf_notify_wait_host, wharf_notify_check
  public :: wharf_barrier_create, wharf_barrier_destroy, wharf_barrier_enter
  public :: wharf_barrier_check
  public :: WHARF_OK, WHARF_EARG, WHARF_EMISMATCH, WHARF_ECONFIG, WHARF_ESTATE
  public :: WHARF_ENOMEM, WHARF_EDEVMEM, WHARF_ENODEV, WHARF_EUNSUPPORTED
  public :: WHARF_EDEGRADED, WHARF_ELIMIT, WHARF_ETIMEDOUT, WHARF_ENOTREADY
  public :: WHARF_EOS, WHARF_EDRIVER, WHARF_EMPI, WHARF_EDATA, WHARF_EPEER
  public :: WHARF_EFAULT, WHARF_EPROTOCOL, WHARF_ECLOSED
  public :: WHARF_EWORKER
  public :: WHARF_BACKEND_AUTO, WHARF_BACKEND_CUDA, WHARF_BACKEND_HOST
  public :: WHARF_SPACE_DEVICE, WHARF_SPACE_HOST
  public :: WHARF_BUFFER_CONTIGUOUS, WHARF_BUFFER_SAME_ADDRESS
  public :: WHARF_BUFFER_SAME_ADDRESS_REQUIRED, WHARF_BUFFER_ZERO
  public :: WHARF_BUFFER_READ_ONLY, WHARF_BUFFER_STAGE_ALLOWED
  public :: WHARF_BUFFER_EXPOSE_NEIGHBOURS
  public :: WHARF_SWITCH_UNSET, WHARF_SWITCH_ON, WHARF_SWITCH_OFF
  public :: WHARF_PATH_SAME_PROCESS, WHARF_PATH_SAME_GPU, WHARF_PATH_NVLINK
  public :: WHARF_PATH_PCIE_PEER, WHARF_PATH_HOST, WHARF_LATEST

  ! comm: integer here; wharf_f08 adds type(MPI_Comm).
  interface wharf_node_open
    module procedure node_open
  end interface
  interface wharf_node_communicator
    module procedure node_communicator
  end interface

  ! A segment as an array of one dimension, as many whole elements as fit; not
  ! associated where the segment is empty. More dimensions by
  ! field(1:n, 1:m) => array. Or as a C pointer with its bytes. Memory of a GPU
  ! (wharf_buffer_info%space) is for kernels: the CPU must not touch the array.
  interface wharf_buffer_segment
    module procedure segment_raw, segment_int8, segment_int32, segment_int64
    module procedure segment_real32, segment_real64
    module procedure segment_complex32, segment_complex64
  end interface

contains

  ! ---- Errors ---------------------------------------------------------------

  ! The characters before the first null, of a component of the types here.
  pure function wharf_text(chars) result(text)
    character(kind=c_char), intent(in) :: chars(:)
    character(len=:), allocatable :: text
    integer :: i, length

    length = size(chars)
    do i = 1, size(chars)
      if (chars(i) == c_null_char) then
        length = i - 1
        exit
      end if
    end do
    allocate (character(len=length) :: text)
    do i = 1, length
      text(i:i) = chars(i)
    end do
  end function

  ! The record of this thread's last failed call as one sentence: rank, call,
  ! cause, remedy.
  function wharf_error_message() result(text)
    character(len=:), allocatable :: text
    character(kind=c_char) :: chars(512)
    type(wharf_error) :: record
    type(c_ptr) :: ignored

    call wharf_last_error(record)
    ignored = c_error_format(record, chars, size(chars, kind=c_size_t))
    text = wharf_text(chars)
  end function

  function wharf_status_name(status) result(text)
    integer(c_int), intent(in) :: status
    character(len=:), allocatable :: text
    text = text_at(c_status_name(status))
  end function

  ! ---- Node -----------------------------------------------------------------

  function node_open(comm, node, options) result(status)
    integer, intent(in) :: comm
    type(wharf_node), intent(inout) :: node
    type(wharf_node_options), intent(in), optional :: options
    integer(c_int) :: status
    type(wharf_node_options) :: copy

    if (present(options)) copy = options
    copy%struct_size = c_sizeof(copy)
    status = c_node_open(int(comm, c_int), copy, node%handle)
  end function

  function wharf_node_close(node) result(status)
    type(wharf_node), intent(inout) :: node
    integer(c_int) :: status
    status = c_node_close(node%handle)
  end function

  function wharf_node_rank(node) result(rank)
    type(wharf_node), intent(in) :: node
    integer(c_int) :: rank
    rank = c_node_rank(node%handle)
  end function

  function wharf_node_size(node) result(size)
    type(wharf_node), intent(in) :: node
    integer(c_int) :: size
    size = c_node_size(node%handle)
  end function

  function wharf_node_gpus(node) result(gpus)
    type(wharf_node), intent(in) :: node
    integer(c_int) :: gpus
    gpus = c_node_gpus(node%handle)
  end function

  function wharf_node_backend(node) result(backend)
    type(wharf_node), intent(in) :: node
    integer(c_int) :: backend
    backend = c_node_backend(node%handle)
  end function

  function wharf_node_owner(node, gpu, rank) result(status)
    type(wharf_node), intent(in) :: node
    integer(c_int), intent(in) :: gpu
    integer(c_int), intent(inout) :: rank
    integer(c_int) :: status
    status = c_node_owner(node%handle, gpu, rank)
  end function

  function node_communicator(node, comm) result(status)
    type(wharf_node), intent(in) :: node
    integer, intent(inout) :: comm
    integer(c_int) :: status
    integer(c_int) :: found

    status = c_node_communicator(node%handle, found)
    if (status == WHARF_OK) comm = found
  end function

  function wharf_node_device(node, rank, device) result(status)
    type(wharf_node), intent(in) :: node
    integer(c_int), intent(in) :: rank
    type(wharf_device), intent(inout) :: device
    integer(c_int) :: status
    device%struct_size = c_sizeof(device)
    status = c_node_device(node%handle, rank, device)
  end function

  function wharf_node_link(node, a, b, link) result(status)
    type(wharf_node), intent(in) :: node
    integer(c_int), intent(in) :: a, b
    type(wharf_link), intent(inout) :: link
    integer(c_int) :: status
    link%struct_size = c_sizeof(link)
    status = c_node_link(node%handle, a, b, link)
  end function

  function wharf_pool_trim(node) result(status)
    type(wharf_node), intent(in) :: node
    integer(c_int) :: status
    status = c_pool_trim(node%handle)
  end function

  ! ---- Buffer ---------------------------------------------------------------

  ! bytes: of the caller's segment. Either options, or space, flags and name.
  function wharf_buffer_attach(node, bytes, buffer, options, space, flags, &
                               name) result(status)
    type(wharf_node), intent(in) :: node
    integer(c_size_t), intent(in) :: bytes
    type(wharf_buffer), intent(inout) :: buffer
    type(wharf_buffer_options), intent(in), optional :: options
    integer(c_int), intent(in), optional :: space, flags
    character(len=*), intent(in), optional :: name
    integer(c_int) :: status
    type(wharf_buffer_options) :: copy
    character(len=:, kind=c_char), allocatable, target :: c_name

    if (present(options)) copy = options
    if (present(space)) copy%space = space
    if (present(flags)) copy%flags = flags
    if (present(name)) then
      c_name = or_c_text(name)
      copy%name = c_loc(c_name)
    end if
    copy%struct_size = c_sizeof(copy)
    status = c_buffer_attach(node%handle, bytes, copy, buffer%handle)
  end function

  ! memory: c_loc of a variable with the target attribute, or memory of a GPU.
  function wharf_buffer_attach_memory(node, memory, bytes, buffer, flags, &
                                      name) result(status)
    type(wharf_node), intent(in) :: node
    type(c_ptr), intent(in) :: memory
    integer(c_size_t), intent(in) :: bytes
    type(wharf_buffer), intent(inout) :: buffer
    integer(c_int), intent(in), optional :: flags
    character(len=*), intent(in), optional :: name
    integer(c_int) :: status
    type(wharf_buffer_options) :: options
    character(len=:, kind=c_char), allocatable, target :: c_name

    options%flags = or_zero(flags)
    if (present(name)) then
      c_name = or_c_text(name)
      options%name = c_loc(c_name)
    end if
    options%struct_size = c_sizeof(options)
    status = c_buffer_attach_memory(node%handle, memory, bytes, options, &
                                    buffer%handle)
  end function

  ! offset, bytes: a part of the segment; left out, all of it.
  function wharf_buffer_sync_to(buffer, offset, bytes, stream) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_size_t), intent(in), optional :: offset, bytes
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_buffer_sync_to(buffer%handle, or_none(offset), or_none(bytes), &
                              or_default(stream))
  end function

  function wharf_buffer_sync_from(buffer, offset, bytes, stream) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_size_t), intent(in), optional :: offset, bytes
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_buffer_sync_from(buffer%handle, or_none(offset), &
                                or_none(bytes), or_default(stream))
  end function

  function wharf_buffer_detach(buffer) result(status)
    type(wharf_buffer), intent(inout) :: buffer
    integer(c_int) :: status
    status = c_buffer_detach(buffer%handle)
  end function

  function wharf_buffer_base(buffer, base, bytes) result(status)
    type(wharf_buffer), intent(in) :: buffer
    type(c_ptr), intent(inout) :: base
    integer(c_size_t), intent(inout) :: bytes
    integer(c_int) :: status
    status = c_buffer_base(buffer%handle, base, bytes)
  end function

  function wharf_buffer_info_get(buffer, rank, info) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: rank
    type(wharf_buffer_info), intent(inout) :: info
    integer(c_int) :: status
    info%struct_size = c_sizeof(info)
    status = c_buffer_info_get(buffer%handle, rank, info)
  end function

  function wharf_buffer_granularity(node, space, bytes) result(status)
    type(wharf_node), intent(in) :: node
    integer(c_int), intent(in) :: space
    integer(c_size_t), intent(inout) :: bytes
    integer(c_int) :: status
    status = c_buffer_granularity(node%handle, space, bytes)
  end function

  ! The event that came with a rank's segment; belongs to the buffer.
  function wharf_buffer_event(buffer, rank, event) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: rank
    type(wharf_event), intent(inout) :: event
    integer(c_int) :: status
    status = c_buffer_event(buffer%handle, rank, event%handle)
  end function

  function segment_raw(buffer, rank, pointer, bytes) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: rank
    type(c_ptr), intent(inout) :: pointer
    integer(c_size_t), intent(inout) :: bytes
    integer(c_int) :: status
    status = c_buffer_segment(buffer%handle, rank, pointer, bytes)
  end function

  function segment_int8(buffer, rank, array) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: rank
    integer(int8), pointer, intent(inout) :: array(:)
    integer(c_int) :: status
    type(c_ptr) :: start
    integer(c_size_t) :: bytes

    status = c_buffer_segment(buffer%handle, rank, start, bytes)
    if (status /= WHARF_OK) return
    nullify (array)
    if (bytes > 0) call c_f_pointer(start, array, [bytes/1])
  end function

  function segment_int32(buffer, rank, array) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: rank
    integer(int32), pointer, intent(inout) :: array(:)
    integer(c_int) :: status
    type(c_ptr) :: start
    integer(c_size_t) :: bytes

    status = c_buffer_segment(buffer%handle, rank, start, bytes)
    if (status /= WHARF_OK) return
    nullify (array)
    if (bytes > 0) call c_f_pointer(start, array, [bytes/4])
  end function

  function segment_int64(buffer, rank, array) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: rank
    integer(int64), pointer, intent(inout) :: array(:)
    integer(c_int) :: status
    type(c_ptr) :: start
    integer(c_size_t) :: bytes

    status = c_buffer_segment(buffer%handle, rank, start, bytes)
    if (status /= WHARF_OK) return
    nullify (array)
    if (bytes > 0) call c_f_pointer(start, array, [bytes/8])
  end function

  function segment_real32(buffer, rank, array) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: rank
    real(real32), pointer, intent(inout) :: array(:)
    integer(c_int) :: status
    type(c_ptr) :: start
    integer(c_size_t) :: bytes

    status = c_buffer_segment(buffer%handle, rank, start, bytes)
    if (status /= WHARF_OK) return
    nullify (array)
    if (bytes > 0) call c_f_pointer(start, array, [bytes/4])
  end function

  function segment_real64(buffer, rank, array) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: rank
    real(real64), pointer, intent(inout) :: array(:)
    integer(c_int) :: status
    type(c_ptr) :: start
    integer(c_size_t) :: bytes

    status = c_buffer_segment(buffer%handle, rank, start, bytes)
    if (status /= WHARF_OK) return
    nullify (array)
    if (bytes > 0) call c_f_pointer(start, array, [bytes/8])
  end function

  function segment_complex32(buffer, rank, array) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: rank
    complex(real32), pointer, intent(inout) :: array(:)
    integer(c_int) :: status
    type(c_ptr) :: start
    integer(c_size_t) :: bytes

    status = c_buffer_segment(buffer%handle, rank, start, bytes)
    if (status /= WHARF_OK) return
    nullify (array)
    if (bytes > 0) call c_f_pointer(start, array, [bytes/8])
  end function

  function segment_complex64(buffer, rank, array) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: rank
    complex(real64), pointer, intent(inout) :: array(:)
    integer(c_int) :: status
    type(c_ptr) :: start
    integer(c_size_t) :: bytes

    status = c_buffer_segment(buffer%handle, rank, start, bytes)
    if (status /= WHARF_OK) return
    nullify (array)
    if (bytes > 0) call c_f_pointer(start, array, [bytes/16])
  end function

  ! ---- Events ---------------------------------------------------------------

  function wharf_event_create(node, owner, event) result(status)
    type(wharf_node), intent(in) :: node
    integer(c_int), intent(in) :: owner
    type(wharf_event), intent(inout) :: event
    integer(c_int) :: status
    status = c_event_create(node%handle, owner, event%handle)
  end function

  function wharf_event_destroy(event) result(status)
    type(wharf_event), intent(inout) :: event
    integer(c_int) :: status
    status = c_event_destroy(event%handle)
  end function

  function wharf_event_record(event, number, stream) result(status)
    type(wharf_event), intent(in) :: event
    integer(c_int64_t), intent(inout) :: number
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_event_record(event%handle, or_default(stream), number)
  end function

  function wharf_event_wait(event, number, stream) result(status)
    type(wharf_event), intent(in) :: event
    integer(c_int64_t), intent(in) :: number
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_event_wait(event%handle, number, or_default(stream))
  end function

  function wharf_event_query(event, number) result(status)
    type(wharf_event), intent(in) :: event
    integer(c_int64_t), intent(in) :: number
    integer(c_int) :: status
    status = c_event_query(event%handle, number)
  end function

  function wharf_event_synchronize(event, number, timeout_ms) result(status)
    type(wharf_event), intent(in) :: event
    integer(c_int64_t), intent(in) :: number
    integer(c_int), intent(in), optional :: timeout_ms
    integer(c_int) :: status
    status = c_event_synchronize(event%handle, number, or_zero(timeout_ms))
  end function

  function wharf_stream_synchronize(node, stream, timeout_ms) result(status)
    type(wharf_node), intent(in) :: node
    type(c_ptr), intent(in), optional :: stream
    integer(c_int), intent(in), optional :: timeout_ms
    integer(c_int) :: status
    status = c_stream_synchronize(node%handle, or_default(stream), &
                                  or_zero(timeout_ms))
  end function

  ! ---- Notify and barrier ---------------------------------------------------

  function wharf_notify_create(node, waiter, notify, options) result(status)
    type(wharf_node), intent(in) :: node
    integer(c_int), intent(in) :: waiter
    type(wharf_notify), intent(inout) :: notify
    type(wharf_notify_options), intent(in), optional :: options
    integer(c_int) :: status
    type(wharf_notify_options) :: copy

    if (present(options)) copy = options
    copy%struct_size = c_sizeof(copy)
    status = c_notify_create(node%handle, waiter, copy, notify%handle)
  end function

  function wharf_notify_destroy(notify) result(status)
    type(wharf_notify), intent(inout) :: notify
    integer(c_int) :: status
    status = c_notify_destroy(notify%handle)
  end function

  function wharf_notify_record(notify, stream) result(status)
    type(wharf_notify), intent(in) :: notify
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_notify_record(notify%handle, or_default(stream))
  end function

  function wharf_notify_wait(notify, from, stream, timeout_ms) result(status)
    type(wharf_notify), intent(in) :: notify
    integer(c_int), intent(in) :: from
    type(c_ptr), intent(in), optional :: stream
    integer(c_int), intent(in), optional :: timeout_ms
    integer(c_int) :: status
    status = c_notify_wait(notify%handle, from, or_default(stream), &
                           or_zero(timeout_ms))
  end function

  function wharf_notify_wait_host(notify, from, timeout_ms) result(status)
    type(wharf_notify), intent(in) :: notify
    integer(c_int), intent(in) :: from
    integer(c_int), intent(in), optional :: timeout_ms
    integer(c_int) :: status
    status = c_notify_wait_host(notify%handle, from, or_zero(timeout_ms))
  end function

  function wharf_notify_check(notify) result(status)
    type(wharf_notify), intent(in) :: notify
    integer(c_int) :: status
    status = c_notify_check(notify%handle)
  end function

  ! ranks: the members; left out, all ranks of the node.
  function wharf_barrier_create(node, barrier, ranks, options) result(status)
    type(wharf_node), intent(in) :: node
    type(wharf_barrier), intent(inout) :: barrier
    integer(c_int), intent(in), optional :: ranks(:)
    type(wharf_notify_options), intent(in), optional :: options
    integer(c_int) :: status
    type(wharf_notify_options) :: copy
    integer(c_int), allocatable, target :: members(:)
    type(c_ptr) :: list

    if (present(options)) copy = options
    copy%struct_size = c_sizeof(copy)
    list = c_null_ptr
    allocate (members(0))
    if (present(ranks)) members = ranks
    if (size(members) > 0) list = c_loc(members)
    status = c_barrier_create(node%handle, size(members, kind=c_int), list, &
                              copy, barrier%handle)
  end function

  function wharf_barrier_destroy(barrier) result(status)
    type(wharf_barrier), intent(inout) :: barrier
    integer(c_int) :: status
    status = c_barrier_destroy(barrier%handle)
  end function

  function wharf_barrier_enter(barrier, stream) result(status)
    type(wharf_barrier), intent(in) :: barrier
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_barrier_enter(barrier%handle, or_default(stream))
  end function

  function wharf_barrier_check(barrier) result(status)
    type(wharf_barrier), intent(in) :: barrier
    integer(c_int) :: status
    status = c_barrier_check(barrier%handle)
  end function

end module wharf
