! SPDX-License-Identifier: MIT
!
! Neighbour exchange for Fortran (exchange.h).
!
!   use wharf_f08
!   use wharf_exchanges
!
!   ! u(0:n+1, 0:m+1) in the caller's segment of `buffer`, ghosts of width 1;
!   ! grid: a Cartesian communicator with dimensions (ranks in j, ranks in i).
!   type(wharf_exchange) :: halo
!   type(wharf_exchange_block) :: block
!   block%cell = 8
!   block%extent(1:2) = [m, n]
!   block%ghost(1:2) = 1
!   block%buffer(1) = buffer%handle
!   status = wharf_exchange_create_cart(node, grid%MPI_VAL, block, halo)
!   do
!     status = wharf_exchange_start(halo)
!     ...
!     status = wharf_exchange_finish(halo)
!   end do
!
! Dimensions are C's: the last one is contiguous in memory, which is the first
! one of a Fortran array. So a block's dimensions, and those of its
! communicator, are those of the array backwards.
!
! As in module wharf every procedure is the C call of its name, and returns its
! status. Communicators are integers here: MPI_VAL of a type(MPI_Comm).
module wharf_exchanges
  use, intrinsic :: iso_c_binding
  use wharf_types
  use wharf_calls
  implicit none
  private

  public :: wharf_exchange, wharf_exchange_box, wharf_exchange_transfer
  public :: wharf_exchange_options, wharf_exchange_block, wharf_exchange_info
  public :: wharf_exchange_plan
  public :: wharf_exchange_create, wharf_exchange_create_cart
  public :: wharf_exchange_destroy, wharf_exchange_start, wharf_exchange_finish
  public :: wharf_exchange_run, wharf_exchange_info_get
  public :: wharf_exchange_plan_get
  public :: WHARF_MAX_EXCHANGE_SETS, WHARF_EXCHANGE_DIMS
  public :: WHARF_EXCHANGE_NOTHING, WHARF_EXCHANGE_LOCAL, WHARF_EXCHANGE_KERNEL
  public :: WHARF_EXCHANGE_ENGINE, WHARF_EXCHANGE_HOST, WHARF_EXCHANGE_MPI
  public :: WHARF_EXCHANGE_MPI_STAGED

  integer, parameter :: WHARF_MAX_EXCHANGE_SETS = 8, WHARF_EXCHANGE_DIMS = 3
  enum, bind(c)
    enumerator :: WHARF_EXCHANGE_NOTHING = 0, WHARF_EXCHANGE_LOCAL = 1, &
      WHARF_EXCHANGE_KERNEL = 2, WHARF_EXCHANGE_ENGINE = 3, &
      WHARF_EXCHANGE_HOST = 4, WHARF_EXCHANGE_MPI = 5, &
      WHARF_EXCHANGE_MPI_STAGED = 6
  end enum

  type :: wharf_exchange
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! buffer: the handle of a wharf_buffer. size: bytes of a row, rows, planes.
  type, bind(c) :: wharf_exchange_box
    type(c_ptr) :: buffer = c_null_ptr
    integer(c_size_t) :: offset = 0
    integer(c_size_t) :: size(WHARF_EXCHANGE_DIMS) = 0
    integer(c_size_t) :: pitch(2) = 0
  end type

  ! send, receive: c_loc of an array of boxes, one a set; or null.
  type, bind(c) :: wharf_exchange_transfer
    integer(c_int) :: peer = 0, send_id = 0, receive_id = 0
    type(c_ptr) :: send = c_null_ptr, receive = c_null_ptr
  end type

  type, bind(c) :: wharf_exchange_options
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: sets = 1, ready = 0, capturable = 0
  end type

  ! buffer: the handle of each set's wharf_buffer.
  type, bind(c) :: wharf_exchange_block
    integer(c_size_t) :: struct_size = 0
    integer(c_size_t) :: cell = 0
    integer(c_size_t) :: extent(WHARF_EXCHANGE_DIMS) = 0
    integer(c_size_t) :: ghost(WHARF_EXCHANGE_DIMS) = 0
    integer(c_size_t) :: pitch(2) = 0
    integer(c_int) :: diagonals = 0
    type(c_ptr) :: buffer(WHARF_MAX_EXCHANGE_SETS) = c_null_ptr
    integer(c_size_t) :: offset(WHARF_MAX_EXCHANGE_SETS) = 0
  end type

  type, bind(c) :: wharf_exchange_info
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: peer = 0, node_rank = -1, send_id = 0, receive_id = 0
    integer(c_int64_t) :: send_bytes(WHARF_MAX_EXCHANGE_SETS) = 0
    integer(c_int64_t) :: receive_bytes(WHARF_MAX_EXCHANGE_SETS) = 0
    integer(c_int) :: path = 0, way = 0, mechanism = 0, ready = 0
    character(kind=c_char) :: reason(96) = c_null_char
  end type

  type, bind(c) :: wharf_exchange_plan
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: transfers = 0, sets = 0, next_set = 0, local_peers = 0
    integer(c_int) :: remote_peers = 0, ready_pairs = 0, capturable = 0
    integer(c_int) :: cuda_aware = 0
    integer(c_int64_t) :: staging_bytes = 0
    integer(c_int) :: progress = 0
    character(kind=c_char) :: reason(96) = c_null_char
  end type

  interface

    integer(c_int) function c_exchange_create(node, comm, count, transfers, &
                                              options, exchange) &
      bind(c, name="wharf_exchange_create_f")
      import
      type(c_ptr), value :: node
      integer(c_int), value :: comm, count
      type(wharf_exchange_transfer), intent(in) :: transfers(*)
      type(wharf_exchange_options), intent(in) :: options
      type(c_ptr), intent(inout) :: exchange
    end function

    integer(c_int) function c_exchange_create_cart(node, comm, block, options, &
                                                   exchange) &
      bind(c, name="wharf_exchange_create_cart_f")
      import
      type(c_ptr), value :: node
      integer(c_int), value :: comm
      type(wharf_exchange_block), intent(in) :: block
      type(wharf_exchange_options), intent(in) :: options
      type(c_ptr), intent(inout) :: exchange
    end function

    integer(c_int) function c_exchange_destroy(exchange) &
      bind(c, name="wharf_exchange_destroy")
      import
      type(c_ptr), intent(inout) :: exchange
    end function

    integer(c_int) function c_exchange_start(exchange, stream) &
      bind(c, name="wharf_exchange_start")
      import
      type(c_ptr), value :: exchange, stream
    end function

    integer(c_int) function c_exchange_finish(exchange, stream) &
      bind(c, name="wharf_exchange_finish")
      import
      type(c_ptr), value :: exchange, stream
    end function

    integer(c_int) function c_exchange_run(exchange, stream) &
      bind(c, name="wharf_exchange_run")
      import
      type(c_ptr), value :: exchange, stream
    end function

    integer(c_int) function c_exchange_info_get(exchange, index, info) &
      bind(c, name="wharf_exchange_info_get")
      import
      type(c_ptr), value :: exchange
      integer(c_int), value :: index
      type(wharf_exchange_info), intent(inout) :: info
    end function

    integer(c_int) function c_exchange_plan_get(exchange, plan) &
      bind(c, name="wharf_exchange_plan_get")
      import
      type(c_ptr), value :: exchange
      type(wharf_exchange_plan), intent(inout) :: plan
    end function

  end interface

contains

  function sized(options) result(copy)
    type(wharf_exchange_options), intent(in), optional :: options
    type(wharf_exchange_options) :: copy
    if (present(options)) copy = options
    copy%struct_size = c_sizeof(copy)
  end function

  function wharf_exchange_create(node, comm, transfers, exchange, options) &
    result(status)
    type(wharf_node), intent(in) :: node
    integer, intent(in) :: comm
    type(wharf_exchange_transfer), intent(in) :: transfers(:)
    type(wharf_exchange), intent(inout) :: exchange
    type(wharf_exchange_options), intent(in), optional :: options
    integer(c_int) :: status
    status = c_exchange_create(node%handle, int(comm, c_int), &
                               size(transfers), transfers, sized(options), &
                               exchange%handle)
  end function

  function wharf_exchange_create_cart(node, comm, block, exchange, options) &
    result(status)
    type(wharf_node), intent(in) :: node
    integer, intent(in) :: comm
    type(wharf_exchange_block), intent(in) :: block
    type(wharf_exchange), intent(inout) :: exchange
    type(wharf_exchange_options), intent(in), optional :: options
    integer(c_int) :: status
    type(wharf_exchange_block) :: copy

    copy = block
    copy%struct_size = c_sizeof(copy)
    status = c_exchange_create_cart(node%handle, int(comm, c_int), copy, &
                                    sized(options), exchange%handle)
  end function

  function wharf_exchange_destroy(exchange) result(status)
    type(wharf_exchange), intent(inout) :: exchange
    integer(c_int) :: status
    status = c_exchange_destroy(exchange%handle)
  end function

  function wharf_exchange_start(exchange, stream) result(status)
    type(wharf_exchange), intent(in) :: exchange
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_exchange_start(exchange%handle, or_default(stream))
  end function

  function wharf_exchange_finish(exchange, stream) result(status)
    type(wharf_exchange), intent(in) :: exchange
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_exchange_finish(exchange%handle, or_default(stream))
  end function

  function wharf_exchange_run(exchange, stream) result(status)
    type(wharf_exchange), intent(in) :: exchange
    type(c_ptr), intent(in), optional :: stream
    integer(c_int) :: status
    status = c_exchange_run(exchange%handle, or_default(stream))
  end function

  ! index: from 0, as in C.
  function wharf_exchange_info_get(exchange, index, info) result(status)
    type(wharf_exchange), intent(in) :: exchange
    integer(c_int), intent(in) :: index
    type(wharf_exchange_info), intent(inout) :: info
    integer(c_int) :: status
    info%struct_size = c_sizeof(info)
    status = c_exchange_info_get(exchange%handle, index, info)
  end function

  function wharf_exchange_plan_get(exchange, plan) result(status)
    type(wharf_exchange), intent(in) :: exchange
    type(wharf_exchange_plan), intent(inout) :: plan
    integer(c_int) :: status
    plan%struct_size = c_sizeof(plan)
    status = c_exchange_plan_get(exchange%handle, plan)
  end function

end module wharf_exchanges
