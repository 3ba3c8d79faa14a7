! SPDX-License-Identifier: MIT
!
! Rings for Fortran (ring.h): one producer, several consumers, some slots.
!
!   use wharf_f08
!   use wharf_rings
!
!   type(wharf_ring) :: ring
!   type(wharf_ring_options) :: options
!   type(wharf_ring_slot) :: slot
!   real(real64), pointer :: array(:)
!   options%slots = 4
!   options%slot_bytes = 8 * n
!   options%space = WHARF_SPACE_HOST
!   status = wharf_ring_create(node, options, ring)
!   ! rank 0
!   status = wharf_ring_produce_begin(ring, array, stream=wharf_ring_cpu())
!   array = ...
!   status = wharf_ring_produce_end(ring, 8 * n, wharf_ring_cpu())
!   status = wharf_ring_close(ring)
!   ! the others
!   do while (wharf_ring_consume_begin(ring, array, slot, wharf_ring_cpu()) &
!             == WHARF_OK)
!     ...
!     status = wharf_ring_consume_end(ring, wharf_ring_cpu())
!   end do
!
! As in module wharf every procedure is the C call of its name, and returns its
! status. Slots of GPU memory are for kernels: the CPU must not touch the array.
module wharf_rings
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use wharf_types
  use wharf_calls
  implicit none
  private

  public :: wharf_ring, wharf_ring_options, wharf_ring_slot, wharf_ring_info
  public :: wharf_ring_cpu, wharf_ring_create, wharf_ring_destroy
  public :: wharf_ring_produce_begin, wharf_ring_produce_end, wharf_ring_close
  public :: wharf_ring_drain, wharf_ring_consume_begin, wharf_ring_consume_end
  public :: wharf_ring_join, wharf_ring_leave, wharf_ring_check
  public :: wharf_ring_info_get
  public :: WHARF_RING_ALL, WHARF_RING_SHARED, WHARF_RING_NOBODY

  enum, bind(c)
    enumerator :: WHARF_RING_ALL = 0, WHARF_RING_SHARED = 1
    enumerator :: WHARF_RING_NOBODY = -1
  end enum

  type :: wharf_ring
    type(c_ptr) :: handle = c_null_ptr
    integer(c_size_t) :: slot_bytes = 0
  end type

  ! consumers: c_loc of an array of node ranks.
  type, bind(c) :: wharf_ring_options
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: slots = 0
    integer(c_size_t) :: slot_bytes = 0
    integer(c_int) :: producer = 0, mode = 0, space = 0, consumer_count = 0
    type(c_ptr) :: consumers = c_null_ptr
    integer(c_int) :: timeout_ms = 0, mechanism = 0, ahead = 0
  end type

  type, bind(c) :: wharf_ring_slot
    integer(c_int64_t) :: index = 0
    integer(c_size_t) :: bytes = 0
  end type

  type, bind(c) :: wharf_ring_info
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: slots = 0
    integer(c_size_t) :: slot_bytes = 0, slot_stride = 0
    integer(c_int) :: producer = 0, mode = 0, space = 0, handle = 0, path = 0
    integer(c_int) :: mechanism = 0, consumers = 0, consuming = 0, closed = 0
    integer(c_int64_t) :: issued = 0, mine = 0
    character(kind=c_char) :: reason(96) = c_null_char
  end type

  interface

    integer(c_int) function c_ring_create(node, options, ring) &
      bind(c, name="wharf_ring_create")
      import
      type(c_ptr), value :: node
      type(wharf_ring_options), intent(in) :: options
      type(c_ptr), intent(inout) :: ring
    end function

    integer(c_int) function c_ring_destroy(ring) &
      bind(c, name="wharf_ring_destroy")
      import
      type(c_ptr), intent(inout) :: ring
    end function

    integer(c_int) function c_ring_produce_begin(ring, stream, start, number) &
      bind(c, name="wharf_ring_produce_begin")
      import
      type(c_ptr), value :: ring, stream
      type(c_ptr), intent(inout) :: start
      integer(c_int64_t), intent(inout) :: number
    end function

    integer(c_int) function c_ring_produce_end(ring, bytes, stream) &
      bind(c, name="wharf_ring_produce_end")
      import
      type(c_ptr), value :: ring, stream
      integer(c_size_t), value :: bytes
    end function

    integer(c_int) function c_ring_close(ring) bind(c, name="wharf_ring_close")
      import
      type(c_ptr), value :: ring
    end function

    integer(c_int) function c_ring_drain(ring, timeout_ms) &
      bind(c, name="wharf_ring_drain")
      import
      type(c_ptr), value :: ring
      integer(c_int), value :: timeout_ms
    end function

    integer(c_int) function c_ring_consume_begin(ring, stream, start, slot) &
      bind(c, name="wharf_ring_consume_begin")
      import
      type(c_ptr), value :: ring, stream
      type(c_ptr), intent(inout) :: start
      type(wharf_ring_slot), intent(inout) :: slot
    end function

    integer(c_int) function c_ring_consume_end(ring, stream) &
      bind(c, name="wharf_ring_consume_end")
      import
      type(c_ptr), value :: ring, stream
    end function

    integer(c_int) function c_ring_join(ring) bind(c, name="wharf_ring_join")
      import
      type(c_ptr), value :: ring
    end function

    integer(c_int) function c_ring_leave(ring, stream) &
      bind(c, name="wharf_ring_leave")
      import
      type(c_ptr), value :: ring, stream
    end function

    integer(c_int) function c_ring_check(ring) bind(c, name="wharf_ring_check")
      import
      type(c_ptr), value :: ring
    end function

    integer(c_int) function c_ring_info_get(ring, info) &
      bind(c, name="wharf_ring_info_get")
      import
      type(c_ptr), value :: ring
      type(wharf_ring_info), intent(inout) :: info
    end function

  end interface

  ! A slot as an array of as many whole elements as fit, or, for a consumer, as
  ! the producer filled; or as a C pointer.
  interface wharf_ring_produce_begin
    module procedure produce_raw, produce_int32, produce_int64
    module procedure produce_real32, produce_real64
  end interface
  interface wharf_ring_consume_begin
    module procedure consume_raw, consume_int32, consume_int64
    module procedure consume_real32, consume_real64
  end interface

contains

  ! Stands for the calling thread where a stream is asked for (WHARF_RING_CPU).
  function wharf_ring_cpu() result(stream)
    type(c_ptr) :: stream
    stream = transfer(-1_c_intptr_t, c_null_ptr)
  end function

  function wharf_ring_create(node, options, ring) result(status)
    type(wharf_node), intent(in) :: node
    type(wharf_ring_options), intent(in) :: options
    type(wharf_ring), intent(inout) :: ring
    integer(c_int) :: status
    type(wharf_ring_options) :: copy

    copy = options
    copy%struct_size = c_sizeof(copy)
    status = c_ring_create(node%handle, copy, ring%handle)
    if (status == WHARF_OK) ring%slot_bytes = options%slot_bytes
  end function

  function wharf_ring_destroy(ring) result(status)
    type(wharf_ring), intent(inout) :: ring
    integer(c_int) :: status
    status = c_ring_destroy(ring%handle)
  end function

  ! ---- The producer ---------------------------------------------------------

  function produce_raw(ring, start, number, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    type(c_ptr), intent(inout) :: start
    integer(c_int64_t), intent(out), optional :: number
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    integer(c_int64_t) :: this

    this = -1
    status = c_ring_produce_begin(ring%handle, or_default(stream), start, this)
    if (present(number)) number = this
  end function

  function produce_int32(ring, array, number, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    integer(int32), pointer, intent(inout) :: array(:)
    integer(c_int64_t), intent(out), optional :: number
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    type(c_ptr) :: start

    status = produce_raw(ring, start, number, stream)
    if (status == WHARF_OK) &
      call c_f_pointer(start, array, [ring%slot_bytes/4])
  end function

  function produce_int64(ring, array, number, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    integer(int64), pointer, intent(inout) :: array(:)
    integer(c_int64_t), intent(out), optional :: number
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    type(c_ptr) :: start

    status = produce_raw(ring, start, number, stream)
    if (status == WHARF_OK) &
      call c_f_pointer(start, array, [ring%slot_bytes/8])
  end function

  function produce_real32(ring, array, number, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    real(real32), pointer, intent(inout) :: array(:)
    integer(c_int64_t), intent(out), optional :: number
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    type(c_ptr) :: start

    status = produce_raw(ring, start, number, stream)
    if (status == WHARF_OK) &
      call c_f_pointer(start, array, [ring%slot_bytes/4])
  end function

  function produce_real64(ring, array, number, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    real(real64), pointer, intent(inout) :: array(:)
    integer(c_int64_t), intent(out), optional :: number
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    type(c_ptr) :: start

    status = produce_raw(ring, start, number, stream)
    if (status == WHARF_OK) &
      call c_f_pointer(start, array, [ring%slot_bytes/8])
  end function

  function wharf_ring_produce_end(ring, bytes, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    integer(c_size_t), intent(in) :: bytes
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_ring_produce_end(ring%handle, bytes, or_default(stream))
  end function

  function wharf_ring_close(ring) result(status)
    type(wharf_ring), intent(in) :: ring
    integer(c_int) :: status
    status = c_ring_close(ring%handle)
  end function

  function wharf_ring_drain(ring, timeout_ms) result(status)
    type(wharf_ring), intent(in) :: ring
    integer(c_int), intent(in), optional :: timeout_ms
    integer(c_int) :: status
    status = c_ring_drain(ring%handle, or_zero(timeout_ms))
  end function

  ! ---- Consumers ------------------------------------------------------------

  ! WHARF_ECLOSED: the producer has closed the ring, and all of it was seen.
  function consume_raw(ring, start, slot, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    type(c_ptr), intent(inout) :: start
    type(wharf_ring_slot), intent(inout) :: slot
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_ring_consume_begin(ring%handle, or_default(stream), start, slot)
  end function

  function consume_int32(ring, array, slot, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    integer(int32), pointer, intent(inout) :: array(:)
    type(wharf_ring_slot), intent(inout) :: slot
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    type(c_ptr) :: start

    status = consume_raw(ring, start, slot, stream)
    if (status == WHARF_OK) call c_f_pointer(start, array, [slot%bytes/4])
  end function

  function consume_int64(ring, array, slot, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    integer(int64), pointer, intent(inout) :: array(:)
    type(wharf_ring_slot), intent(inout) :: slot
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    type(c_ptr) :: start

    status = consume_raw(ring, start, slot, stream)
    if (status == WHARF_OK) call c_f_pointer(start, array, [slot%bytes/8])
  end function

  function consume_real32(ring, array, slot, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    real(real32), pointer, intent(inout) :: array(:)
    type(wharf_ring_slot), intent(inout) :: slot
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    type(c_ptr) :: start

    status = consume_raw(ring, start, slot, stream)
    if (status == WHARF_OK) call c_f_pointer(start, array, [slot%bytes/4])
  end function

  function consume_real64(ring, array, slot, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    real(real64), pointer, intent(inout) :: array(:)
    type(wharf_ring_slot), intent(inout) :: slot
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    type(c_ptr) :: start

    status = consume_raw(ring, start, slot, stream)
    if (status == WHARF_OK) call c_f_pointer(start, array, [slot%bytes/8])
  end function

  function wharf_ring_consume_end(ring, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_ring_consume_end(ring%handle, or_default(stream))
  end function

  function wharf_ring_join(ring) result(status)
    type(wharf_ring), intent(in) :: ring
    integer(c_int) :: status
    status = c_ring_join(ring%handle)
  end function

  function wharf_ring_leave(ring, stream) result(status)
    type(wharf_ring), intent(in) :: ring
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_ring_leave(ring%handle, or_default(stream))
  end function

  ! ---- Both -----------------------------------------------------------------

  function wharf_ring_check(ring) result(status)
    type(wharf_ring), intent(in) :: ring
    integer(c_int) :: status
    status = c_ring_check(ring%handle)
  end function

  function wharf_ring_info_get(ring, info) result(status)
    type(wharf_ring), intent(in) :: ring
    type(wharf_ring_info), intent(inout) :: info
    integer(c_int) :: status
    info%struct_size = c_sizeof(info)
    status = c_ring_info_get(ring%handle, info)
  end function

end module wharf_rings
