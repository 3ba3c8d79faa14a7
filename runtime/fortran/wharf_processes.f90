! SPDX-License-Identifier: MIT
!
! Workers and published buffers for Fortran (worker.h, join.h).
!
!   use wharf_f08
!   use wharf_processes
!
!   ! In a rank. Messages are variables with the target attribute.
!   status = wharf_worker_start(node, [character(8) :: "filter", "--fast"], &
!                               worker, buffers=[frames])
!   do
!     status = wharf_worker_send(worker, c_loc(task), c_sizeof(task))
!     if (status == WHARF_OK) &
!       status = wharf_worker_receive(worker, c_loc(answer), c_sizeof(answer))
!     if (status /= WHARF_EWORKER) exit       ! died: the next one gets it
!   end do
!   status = wharf_worker_stop(worker)
!
!   ! In the worker's program, without MPI.
!   status = wharf_worker_join(worker)
!   status = wharf_worker_buffer(worker, 0, frames)
!   do while (wharf_worker_receive(worker, c_loc(task), c_sizeof(task)) &
!             == WHARF_OK)
!     ...
!   end do
!   status = wharf_worker_leave(worker)
!
!   ! In a rank, and in a program outside the job, without MPI.
!   status = wharf_buffer_publish(buffer, "field")
!   status = wharf_join("field", joined)
!   status = wharf_joined_buffer(joined, buffer)
!
! As in module wharf every procedure is the C call of its name, and returns its
! status. Indices of buffers count from 0.
module wharf_processes
  use, intrinsic :: iso_c_binding
  use wharf_types
  use wharf_calls
  implicit none
  private

  public :: wharf_worker, wharf_worker_options, wharf_worker_death
  public :: wharf_worker_report
  public :: wharf_worker_start, wharf_worker_lend, wharf_worker_send
  public :: wharf_worker_receive, wharf_worker_state_get
  public :: wharf_worker_report_get, wharf_worker_death_get, wharf_worker_stop
  public :: wharf_worker_join, wharf_worker_leave, wharf_worker_node
  public :: wharf_worker_buffers, wharf_worker_buffer, wharf_worker_alive
  public :: wharf_worker_fault
  public :: wharf_joined, wharf_joined_options
  public :: wharf_buffer_publish, wharf_buffer_unpublish, wharf_buffer_joiners
  public :: wharf_join, wharf_leave, wharf_joined_check, wharf_joined_buffer
  public :: wharf_joined_node, wharf_joined_note
  public :: WHARF_NO_WAIT
  public :: WHARF_WORKER_STARTING, WHARF_WORKER_RUNNING, WHARF_WORKER_DEAD
  public :: WHARF_WORKER_GIVEN_UP, WHARF_WORKER_ENDED, WHARF_DEATH_NONE
  public :: WHARF_DEATH_EXIT, WHARF_DEATH_SIGNAL, WHARF_DEATH_FAULT
  public :: WHARF_DEATH_SILENCE, WHARF_DEATH_ABSENCE, WHARF_DEATH_START

  integer(c_int), parameter :: WHARF_NO_WAIT = -1 ! a timeout_ms
  enum, bind(c)
    enumerator :: WHARF_WORKER_STARTING = 0, WHARF_WORKER_RUNNING = 1, &
      WHARF_WORKER_DEAD = 2, WHARF_WORKER_GIVEN_UP = 3, WHARF_WORKER_ENDED = 4
    enumerator :: WHARF_DEATH_NONE = 0, WHARF_DEATH_EXIT = 1, &
      WHARF_DEATH_SIGNAL = 2, WHARF_DEATH_FAULT = 3, WHARF_DEATH_SILENCE = 4, &
      WHARF_DEATH_ABSENCE = 5, WHARF_DEATH_START = 6
  end enum

  type :: wharf_worker
    type(c_ptr) :: handle = c_null_ptr
  end type
  type :: wharf_joined
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! buffers and their number are wharf_worker_start's to fill in.
  type, bind(c) :: wharf_worker_options
    integer(c_size_t) :: struct_size = 0
    type(c_ptr) :: buffers = c_null_ptr
    integer(c_int) :: buffer_count = 0, read_only = 0, join_ms = 0
    integer(c_int) :: silence_ms = 0, stop_ms = 2000, restarts = 16
    integer(c_int) :: backoff_ms = 100, backoff_most_ms = 10000, tag = 0
  end type

  type, bind(c) :: wharf_worker_death
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: number = 0, pid = 0, how = 0, code = 0, joined = 0
    integer(c_int64_t) :: ran_us = 0, recover_us = -1
    character(kind=c_char) :: cause(160) = c_null_char
  end type

  type, bind(c) :: wharf_worker_report
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: state = 0, pid = 0, starts = 0, deaths = 0, exits = 0
    integer(c_int) :: signals = 0, faults = 0, silences = 0, absences = 0
    integer(c_int) :: failed_starts = 0
    integer(c_int64_t) :: sent = 0, received = 0, recover_us = -1
    integer(c_int64_t) :: recover_least_us = -1, recover_most_us = -1
    type(wharf_worker_death) :: last
  end type

  type, bind(c) :: publish_options
    integer(c_size_t) :: struct_size = 0
    type(c_ptr) :: note = c_null_ptr, uids = c_null_ptr
    integer(c_int) :: uid_count = 0, writable = 0
  end type

  ! uid: -1 is the caller's own.
  type, bind(c) :: wharf_joined_options
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: uid = -1, writable = 0, wait_ms = 0, timeout_ms = 0
    integer(c_int) :: keep_current = 0
  end type

  interface

    integer(c_int) function c_worker_start(node, argv, options, worker) &
      bind(c, name="wharf_worker_start")
      import
      type(c_ptr), value :: node
      type(c_ptr), intent(in) :: argv(*)
      type(wharf_worker_options), intent(in) :: options
      type(c_ptr), intent(inout) :: worker
    end function

    integer(c_int) function c_worker_lend(worker, buffer, read_only) &
      bind(c, name="wharf_worker_lend")
      import
      type(c_ptr), value :: worker, buffer
      integer(c_int), value :: read_only
    end function

    integer(c_int) function c_worker_send(worker, message, bytes, timeout_ms) &
      bind(c, name="wharf_worker_send")
      import
      type(c_ptr), value :: worker, message
      integer(c_size_t), value :: bytes
      integer(c_int), value :: timeout_ms
    end function

    integer(c_int) function c_worker_receive(worker, message, capacity, &
                                             bytes, timeout_ms) &
      bind(c, name="wharf_worker_receive")
      import
      type(c_ptr), value :: worker, message
      integer(c_size_t), value :: capacity
      integer(c_size_t), intent(inout) :: bytes
      integer(c_int), value :: timeout_ms
    end function

    integer(c_int) function c_worker_state_get(worker, state) &
      bind(c, name="wharf_worker_state_get")
      import
      type(c_ptr), value :: worker
      integer(c_int), intent(inout) :: state
    end function

    integer(c_int) function c_worker_report_get(worker, report) &
      bind(c, name="wharf_worker_report_get")
      import
      type(c_ptr), value :: worker
      type(wharf_worker_report), intent(inout) :: report
    end function

    integer(c_int) function c_worker_death_get(worker, number, death) &
      bind(c, name="wharf_worker_death_get")
      import
      type(c_ptr), value :: worker
      integer(c_int), value :: number
      type(wharf_worker_death), intent(inout) :: death
    end function

    integer(c_int) function c_worker_stop(worker, report) &
      bind(c, name="wharf_worker_stop")
      import
      type(c_ptr), intent(inout) :: worker
      type(wharf_worker_report), intent(inout) :: report
    end function

    integer(c_int) function c_worker_join(options, worker) &
      bind(c, name="wharf_worker_join")
      import
      type(c_ptr), value :: options
      type(c_ptr), intent(inout) :: worker
    end function

    integer(c_int) function c_worker_leave(worker) &
      bind(c, name="wharf_worker_leave")
      import
      type(c_ptr), intent(inout) :: worker
    end function

    integer(c_int) function c_worker_node(worker, node) &
      bind(c, name="wharf_worker_node")
      import
      type(c_ptr), value :: worker
      type(c_ptr), intent(inout) :: node
    end function

    integer(c_int) function c_worker_buffers(worker) &
      bind(c, name="wharf_worker_buffers")
      import
      type(c_ptr), value :: worker
    end function

    integer(c_int) function c_worker_buffer(worker, index, buffer) &
      bind(c, name="wharf_worker_buffer")
      import
      type(c_ptr), value :: worker
      integer(c_int), value :: index
      type(c_ptr), intent(inout) :: buffer
    end function

    integer(c_int) function c_worker_alive(worker) &
      bind(c, name="wharf_worker_alive")
      import
      type(c_ptr), value :: worker
    end function

    subroutine c_worker_fault(worker, native, what) &
      bind(c, name="wharf_worker_fault")
      import
      type(c_ptr), value :: worker
      integer(c_int), value :: native
      character(kind=c_char), intent(in) :: what(*)
    end subroutine

    integer(c_int) function c_buffer_publish(buffer, name, options) &
      bind(c, name="wharf_buffer_publish")
      import
      type(c_ptr), value :: buffer
      character(kind=c_char), intent(in) :: name(*)
      type(publish_options), intent(in) :: options
    end function

    integer(c_int) function c_buffer_unpublish(buffer) &
      bind(c, name="wharf_buffer_unpublish")
      import
      type(c_ptr), value :: buffer
    end function

    integer(c_int) function c_buffer_joiners(buffer, count) &
      bind(c, name="wharf_buffer_joiners")
      import
      type(c_ptr), value :: buffer
      integer(c_int), intent(inout) :: count
    end function

    integer(c_int) function c_join(name, options, joined) &
      bind(c, name="wharf_join")
      import
      character(kind=c_char), intent(in) :: name(*)
      type(wharf_joined_options), intent(in) :: options
      type(c_ptr), intent(inout) :: joined
    end function

    integer(c_int) function c_leave(joined) bind(c, name="wharf_leave")
      import
      type(c_ptr), intent(inout) :: joined
    end function

    integer(c_int) function c_joined_check(joined) &
      bind(c, name="wharf_joined_check")
      import
      type(c_ptr), value :: joined
    end function

    integer(c_int) function c_joined_buffer(joined, buffer) &
      bind(c, name="wharf_joined_buffer")
      import
      type(c_ptr), value :: joined
      type(c_ptr), intent(inout) :: buffer
    end function

    integer(c_int) function c_joined_node(joined, node) &
      bind(c, name="wharf_joined_node")
      import
      type(c_ptr), value :: joined
      type(c_ptr), intent(inout) :: node
    end function

    type(c_ptr) function c_joined_note(joined) &
      bind(c, name="wharf_joined_note")
      import
      type(c_ptr), value :: joined
    end function

  end interface

contains

  ! ---- Workers: the rank's end ----------------------------------------------

  ! argv: the program and its arguments, without blanks at their ends.
  function wharf_worker_start(node, argv, worker, buffers, options) &
    result(status)
    type(wharf_node), intent(in) :: node
    character(len=*), intent(in) :: argv(:)
    type(wharf_worker), intent(inout) :: worker
    type(wharf_buffer), intent(in), optional :: buffers(:)
    type(wharf_worker_options), intent(in), optional :: options
    integer(c_int) :: status
    type(wharf_worker_options) :: copy
    character(len=len(argv) + 1, kind=c_char), target :: texts(size(argv))
    type(c_ptr) :: places(size(argv) + 1)
    type(c_ptr), allocatable, target :: lent(:)
    integer :: i

    places = c_null_ptr
    do i = 1, size(argv)
      texts(i) = or_c_text(argv(i))
      places(i) = c_loc(texts(i))
    end do
    if (present(options)) copy = options
    if (present(buffers)) then
      lent = [(buffers(i)%handle, i=1, size(buffers))]
      copy%buffer_count = size(lent)
      if (size(lent) > 0) copy%buffers = c_loc(lent)
    end if
    copy%struct_size = c_sizeof(copy)
    status = c_worker_start(node%handle, places, copy, worker%handle)
  end function

  function wharf_worker_lend(worker, buffer, read_only) result(status)
    type(wharf_worker), intent(in) :: worker
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(in), optional :: read_only
    integer(c_int) :: status
    status = c_worker_lend(worker%handle, buffer%handle, or_zero(read_only))
  end function

  ! Both ends. message: c_loc of a variable with the target attribute.
  function wharf_worker_send(worker, message, bytes, timeout_ms) result(status)
    type(wharf_worker), intent(in) :: worker
    type(c_ptr), intent(in) :: message
    integer(c_size_t), intent(in) :: bytes
    integer(c_int), intent(in), optional :: timeout_ms
    integer(c_int) :: status
    status = c_worker_send(worker%handle, message, bytes, or_zero(timeout_ms))
  end function

  ! Both ends. capacity: bytes of the variable; bytes: of what came.
  function wharf_worker_receive(worker, message, capacity, bytes, timeout_ms) &
    result(status)
    type(wharf_worker), intent(in) :: worker
    type(c_ptr), intent(in) :: message
    integer(c_size_t), intent(in) :: capacity
    integer(c_size_t), intent(inout), optional :: bytes
    integer(c_int), intent(in), optional :: timeout_ms
    integer(c_int) :: status
    integer(c_size_t) :: came

    status = c_worker_receive(worker%handle, message, capacity, came, &
                              or_zero(timeout_ms))
    if (status == WHARF_OK .and. present(bytes)) bytes = came
  end function

  function wharf_worker_state_get(worker, state) result(status)
    type(wharf_worker), intent(in) :: worker
    integer(c_int), intent(inout) :: state
    integer(c_int) :: status
    status = c_worker_state_get(worker%handle, state)
  end function

  function wharf_worker_report_get(worker, report) result(status)
    type(wharf_worker), intent(in) :: worker
    type(wharf_worker_report), intent(inout) :: report
    integer(c_int) :: status
    report%struct_size = c_sizeof(report)
    status = c_worker_report_get(worker%handle, report)
  end function

  function wharf_worker_death_get(worker, number, death) result(status)
    type(wharf_worker), intent(in) :: worker
    integer(c_int), intent(in) :: number
    type(wharf_worker_death), intent(inout) :: death
    integer(c_int) :: status
    death%struct_size = c_sizeof(death)
    status = c_worker_death_get(worker%handle, number, death)
  end function

  function wharf_worker_stop(worker, report) result(status)
    type(wharf_worker), intent(inout) :: worker
    type(wharf_worker_report), intent(inout), optional :: report
    integer(c_int) :: status
    type(wharf_worker_report) :: last

    last%struct_size = c_sizeof(last)
    status = c_worker_stop(worker%handle, last)
    if (status == WHARF_OK .and. present(report)) report = last
  end function

  ! ---- Workers: their own end -----------------------------------------------

  function wharf_worker_join(worker) result(status)
    type(wharf_worker), intent(inout) :: worker
    integer(c_int) :: status
    status = c_worker_join(c_null_ptr, worker%handle)
  end function

  function wharf_worker_leave(worker) result(status)
    type(wharf_worker), intent(inout) :: worker
    integer(c_int) :: status
    status = c_worker_leave(worker%handle)
  end function

  function wharf_worker_node(worker, node) result(status)
    type(wharf_worker), intent(in) :: worker
    type(wharf_node), intent(inout) :: node
    integer(c_int) :: status
    status = c_worker_node(worker%handle, node%handle)
  end function

  function wharf_worker_buffers(worker) result(count)
    type(wharf_worker), intent(in) :: worker
    integer(c_int) :: count
    count = c_worker_buffers(worker%handle)
  end function

  function wharf_worker_buffer(worker, index, buffer) result(status)
    type(wharf_worker), intent(in) :: worker
    integer(c_int), intent(in) :: index
    type(wharf_buffer), intent(inout) :: buffer
    integer(c_int) :: status
    status = c_worker_buffer(worker%handle, index, buffer%handle)
  end function

  function wharf_worker_alive(worker) result(status)
    type(wharf_worker), intent(in) :: worker
    integer(c_int) :: status
    status = c_worker_alive(worker%handle)
  end function

  subroutine wharf_worker_fault(worker, native, what)
    type(wharf_worker), intent(in) :: worker
    integer(c_int), intent(in) :: native
    character(len=*), intent(in) :: what
    call c_worker_fault(worker%handle, native, or_c_text(what))
  end subroutine

  ! ---- Published buffers ----------------------------------------------------

  ! uids: users that may join besides the caller's own.
  function wharf_buffer_publish(buffer, name, note, writable, uids) &
    result(status)
    type(wharf_buffer), intent(in) :: buffer
    character(len=*), intent(in) :: name
    character(len=*), intent(in), optional :: note
    integer(c_int), intent(in), optional :: writable
    integer(c_int), intent(in), optional :: uids(:)
    integer(c_int) :: status
    type(publish_options) :: options
    character(len=:, kind=c_char), allocatable, target :: c_note
    integer(c_int), allocatable, target :: users(:)

    if (present(note)) then
      c_note = or_c_text(note)
      options%note = c_loc(c_note)
    end if
    if (present(uids)) then
      users = uids
      options%uid_count = size(users)
      if (size(users) > 0) options%uids = c_loc(users)
    end if
    options%writable = or_zero(writable)
    options%struct_size = c_sizeof(options)
    status = c_buffer_publish(buffer%handle, or_c_text(name), options)
  end function

  function wharf_buffer_unpublish(buffer) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int) :: status
    status = c_buffer_unpublish(buffer%handle)
  end function

  function wharf_buffer_joiners(buffer, count) result(status)
    type(wharf_buffer), intent(in) :: buffer
    integer(c_int), intent(inout) :: count
    integer(c_int) :: status
    status = c_buffer_joiners(buffer%handle, count)
  end function

  function wharf_join(name, joined, options) result(status)
    character(len=*), intent(in) :: name
    type(wharf_joined), intent(inout) :: joined
    type(wharf_joined_options), intent(in), optional :: options
    integer(c_int) :: status
    type(wharf_joined_options) :: copy

    if (present(options)) copy = options
    copy%struct_size = c_sizeof(copy)
    status = c_join(or_c_text(name), copy, joined%handle)
  end function

  function wharf_leave(joined) result(status)
    type(wharf_joined), intent(inout) :: joined
    integer(c_int) :: status
    status = c_leave(joined%handle)
  end function

  function wharf_joined_check(joined) result(status)
    type(wharf_joined), intent(in) :: joined
    integer(c_int) :: status
    status = c_joined_check(joined%handle)
  end function

  ! Good until wharf_leave.
  function wharf_joined_buffer(joined, buffer) result(status)
    type(wharf_joined), intent(in) :: joined
    type(wharf_buffer), intent(inout) :: buffer
    integer(c_int) :: status
    status = c_joined_buffer(joined%handle, buffer%handle)
  end function

  function wharf_joined_node(joined, node) result(status)
    type(wharf_joined), intent(in) :: joined
    type(wharf_node), intent(inout) :: node
    integer(c_int) :: status
    status = c_joined_node(joined%handle, node%handle)
  end function

  function wharf_joined_note(joined) result(text)
    type(wharf_joined), intent(in) :: joined
    character(len=:), allocatable :: text
    text = text_at(c_joined_note(joined%handle))
  end function

end module wharf_processes
