! SPDX-License-Identifier: MIT
!
! The Fortran module: structs are laid out as in C, constants have C's values,
! and every procedure does what its C call does, with communicators of mpi_f08
! and of mpif.h.
program t_fortran
  use, intrinsic :: iso_c_binding, only: c_sizeof, c_loc, c_intptr_t, &
                                         c_char, c_associated
  use, intrinsic :: iso_fortran_env, only: error_unit, int8, int32, int64, &
                                           real32, real64
  use mpi_f08
  use wharf_f08
  implicit none

  interface
    ! The C half, t_fortran_c.c: what a C compiler says, by number.
    integer(c_size_t) function t_layout(index) bind(c)
      import
      integer(c_int), value :: index
    end function
    integer(c_int) function t_constant(index) bind(c)
      import
      integer(c_int), value :: index
    end function
    ! mpif.h cannot stand beside mpi_f08 in one program unit.
    subroutine t_with_mpif()
    end subroutine
  end interface

  integer :: me, ranks

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call layouts()
  call constants()
  call nodes_and_buffers()
  call existing_memory()
  call signals()
  call errors()
  call t_with_mpif()
  call MPI_Finalize()

contains

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what

    if (condition) return
    write (error_unit, '(a, i0, 4a)') 't_fortran: rank ', me, ': ', what, &
      ': ', wharf_error_message()
    flush (error_unit)
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

  subroutine ok(status, what)
    integer(c_int), intent(in) :: status
    character(len=*), intent(in) :: what

    call check(status == WHARF_OK, what)
  end subroutine

  subroutine equal(index, got)
    integer, intent(in) :: index
    integer(c_size_t), intent(in) :: got
    character(len=120) :: text

    write (text, '(a, i0, a, i0, a, i0)') 'layout ', index, ' is ', got, &
      ', in C ', t_layout(index)
    call check(got == t_layout(index), trim(text))
  end subroutine

  ! Size of each struct and the place of its last component: with the same
  ! order of components nothing between can differ.
  subroutine layouts()
    type(wharf_node_options), target :: node_options
    type(wharf_buffer_options), target :: buffer_options
    type(wharf_notify_options), target :: notify_options
    type(wharf_device), target :: device
    type(wharf_link), target :: link
    type(wharf_buffer_info), target :: info
    type(wharf_error), target :: error

    call equal(0, c_sizeof(node_options))
    call equal(1, apart(c_loc(node_options), c_loc(node_options%refuse_bad)))
    call equal(2, c_sizeof(buffer_options))
    call equal(3, apart(c_loc(buffer_options), c_loc(buffer_options%name)))
    call equal(4, c_sizeof(notify_options))
    call equal(5, apart(c_loc(notify_options), &
                        c_loc(notify_options%capturable)))
    call equal(6, c_sizeof(device))
    call equal(7, apart(c_loc(device), c_loc(device%reason)))
    call equal(8, c_sizeof(link))
    call equal(9, apart(c_loc(link), c_loc(link%reason)))
    call equal(10, c_sizeof(info))
    call equal(11, apart(c_loc(info), c_loc(info%mirrored)))
    call equal(12, c_sizeof(error))
    call equal(13, apart(c_loc(error), c_loc(error%remedy)))
    call equal(14, apart(c_loc(node_options), c_loc(node_options%pool_bytes)))
    call equal(15, apart(c_loc(device), c_loc(device%memory_bytes)))
    call equal(16, apart(c_loc(info), c_loc(info%mapped_bytes)))
  end subroutine

  integer(c_size_t) function apart(from, to)
    type(c_ptr), intent(in) :: from, to

    apart = int(transfer(to, 0_c_intptr_t) - transfer(from, 0_c_intptr_t), &
                c_size_t)
  end function

  subroutine constants()
    integer(c_int), parameter :: here(*) = [ &
      WHARF_OK, WHARF_EARG, WHARF_EMISMATCH, WHARF_ECONFIG, WHARF_ESTATE, &
      WHARF_ENOMEM, WHARF_EDEVMEM, WHARF_ENODEV, WHARF_EUNSUPPORTED, &
      WHARF_EDEGRADED, WHARF_ELIMIT, WHARF_ETIMEDOUT, WHARF_ENOTREADY, &
      WHARF_EOS, WHARF_EDRIVER, WHARF_EMPI, WHARF_ECLOSED, WHARF_EWORKER, &
      WHARF_EDATA, WHARF_EPEER, WHARF_EFAULT, WHARF_EPROTOCOL, &
      WHARF_BACKEND_AUTO, &
      WHARF_BACKEND_CUDA, WHARF_BACKEND_HOST, WHARF_SPACE_DEVICE, &
      WHARF_SPACE_HOST, &
      WHARF_SWITCH_UNSET, WHARF_SWITCH_ON, WHARF_SWITCH_OFF, &
      WHARF_PATH_SAME_PROCESS, WHARF_PATH_SAME_GPU, WHARF_PATH_NVLINK, &
      WHARF_PATH_PCIE_PEER, WHARF_PATH_HOST, WHARF_BUFFER_CONTIGUOUS, &
      WHARF_BUFFER_SAME_ADDRESS, WHARF_BUFFER_SAME_ADDRESS_REQUIRED, &
      WHARF_BUFFER_ZERO, WHARF_BUFFER_READ_ONLY, &
      WHARF_BUFFER_STAGE_ALLOWED, WHARF_BUFFER_EXPOSE_NEIGHBOURS, -1]
    integer :: i
    character(len=60) :: text

    do i = 1, size(here)
      write (text, '(a, i0, a, i0)') 'constant ', i - 1, ' is ', here(i)
      call check(here(i) == t_constant(i - 1), trim(text))
    end do
    call check(wharf_status_name(WHARF_EPEER) == 'WHARF_EPEER', 'name')
    call check(wharf_version() > 0, 'version')
  end subroutine

  subroutine nodes_and_buffers()
    type(wharf_node) :: node
    type(wharf_node_options) :: options
    type(wharf_buffer) :: buffer
    type(wharf_buffer_info) :: info
    type(wharf_device) :: device
    type(wharf_link) :: link
    type(MPI_Comm) :: comm
    type(c_ptr) :: start
    integer(c_size_t) :: bytes
    integer :: next, result
    real(real64), pointer :: mine(:), theirs(:), field(:, :)
    complex(real32), pointer :: numbers(:)
    integer(int32), pointer :: words(:)

    options%timeout_ms = 20000
    call ok(wharf_node_open(MPI_COMM_WORLD, node, options), 'open')
    call check(wharf_node_rank(node) == me, 'rank')
    call check(wharf_node_size(node) == ranks, 'size')
    call check(wharf_node_gpus(node) >= 0, 'gpus')
    call ok(wharf_node_communicator(node, comm), 'communicator')
    call MPI_Comm_compare(comm, MPI_COMM_WORLD, result)
    call check(result == MPI_CONGRUENT, 'congruent')
    call ok(wharf_node_device(node, 0, device), 'device')
    call check(device%users >= 1, 'users')
    call check(len(wharf_text(device%name)) > 0, 'device name')
    call ok(wharf_node_link(node, 0, ranks - 1, link), 'link')
    call check(len(wharf_text(link%reason)) > 0, 'reason')
    call ok(wharf_buffer_granularity(node, WHARF_SPACE_HOST, bytes), 'unit')
    call check(bytes > 0, 'granularity')

    next = mod(me + 1, ranks)
    call ok(wharf_buffer_attach(node, 8_c_size_t*6*(me + 1) + 4, buffer, &
                                space=WHARF_SPACE_HOST, &
                                flags=WHARF_BUFFER_ZERO, name='field  '), &
            'attach')
    call ok(wharf_buffer_segment(buffer, me, mine), 'mine')
    call check(size(mine) == 6*(me + 1), 'whole numbers')
    call check(all(mine == 0), 'zero')
    field(1:6, 1:me + 1) => mine
    field(:, me + 1) = me + 0.5_real64
    call MPI_Barrier(MPI_COMM_WORLD)
    call ok(wharf_buffer_segment(buffer, next, theirs), 'theirs')
    call check(size(theirs) == 6*(next + 1), 'their size')
    call check(all(theirs(6*next + 1:) == next + 0.5_real64), 'their numbers')
    call ok(wharf_buffer_segment(buffer, next, words), 'words')
    call check(size(words) == 12*(next + 1) + 1, 'words')
    call ok(wharf_buffer_segment(buffer, next, numbers), 'complex')
    call check(size(numbers) == 6*(next + 1), 'complex')
    call ok(wharf_buffer_segment(buffer, next, start, bytes), 'raw')
    call check(c_associated(start, c_loc(theirs)), 'raw pointer')
    call check(bytes == 8*6*(next + 1) + 4, 'raw bytes')
    call ok(wharf_buffer_base(buffer, start, bytes), 'base')
    call ok(wharf_buffer_info_get(buffer, me, info), 'info')
    call check(info%space == WHARF_SPACE_HOST, 'space')
    call MPI_Barrier(MPI_COMM_WORLD)
    call ok(wharf_buffer_detach(buffer), 'detach')

    ! An empty segment gives an array that is not associated.
    call ok(wharf_buffer_attach(node, 64_c_size_t*me, buffer), 'attach')
    call ok(wharf_buffer_segment(buffer, 0, mine), 'empty')
    call check(.not. associated(mine), 'empty')
    call ok(wharf_buffer_detach(buffer), 'detach')
    call ok(wharf_pool_trim(node), 'trim')
    call ok(wharf_node_close(node), 'close')
    call check(.not. c_associated(node%handle), 'handle')
  end subroutine

  ! Memory of the program's own: shared by a mirror.
  subroutine existing_memory()
    type(wharf_node) :: node
    type(wharf_buffer) :: buffer
    type(wharf_buffer_info) :: info
    integer(int32), target :: own(1000)
    integer(int32), pointer :: theirs(:)
    integer :: next

    next = mod(me + 1, ranks)
    own = me
    call ok(wharf_node_open(MPI_COMM_WORLD, node), 'open')
    call check(wharf_buffer_attach_memory(node, c_loc(own), 4000_c_size_t, &
                                          buffer) == WHARF_EUNSUPPORTED, &
               'not staged')
    call ok(wharf_buffer_attach_memory(node, c_loc(own), 4000_c_size_t, &
                                       buffer, name='own', &
                                       flags=WHARF_BUFFER_STAGE_ALLOWED), &
            'attach_memory')
    own(8) = 100 + me
    call ok(wharf_buffer_sync_to(buffer, 28_c_size_t, 4_c_size_t), 'to')
    call MPI_Barrier(MPI_COMM_WORLD)
    call ok(wharf_buffer_info_get(buffer, next, info), 'info')
    call ok(wharf_buffer_segment(buffer, next, theirs), 'theirs')
    call check(info%existing == 1, 'existing')
    if (ranks > 1) then
      call check(theirs(7) == next .and. theirs(8) == 100 + next, 'mirror')
      theirs(9) = 200 + me
    end if
    call MPI_Barrier(MPI_COMM_WORLD)
    call ok(wharf_buffer_sync_from(buffer), 'from')
    call check(ranks == 1 .or. own(9) == 200 + mod(me + ranks - 1, ranks), &
               'written by another')
    call ok(wharf_buffer_detach(buffer), 'detach')
    call ok(wharf_node_close(node), 'close')
  end subroutine

  subroutine signals()
    type(wharf_node) :: node
    type(wharf_buffer) :: buffer
    type(wharf_event) :: event, of_buffer
    type(wharf_notify) :: notify
    type(wharf_barrier) :: everyone, first
    integer(c_int64_t) :: number
    integer :: from

    call ok(wharf_node_open(MPI_COMM_WORLD, node), 'open')
    call ok(wharf_buffer_attach(node, 64_c_size_t, buffer), 'attach')
    call ok(wharf_event_create(node, 0, event), 'event')
    call ok(wharf_buffer_event(buffer, 0, of_buffer), 'event of buffer')
    call check(wharf_event_query(event, 1_c_int64_t) == WHARF_ENOTREADY, &
               'query before the record')
    call MPI_Barrier(MPI_COMM_WORLD)
    if (me == 0) then
      call ok(wharf_event_record(event, number), 'record')
      call check(number == 1, 'number')
      call ok(wharf_event_record(of_buffer, number), 'record')
    end if
    call ok(wharf_event_wait(event, 1_c_int64_t), 'wait')
    call ok(wharf_event_synchronize(of_buffer, WHARF_LATEST, 20000), 'sync')
    call ok(wharf_event_synchronize(event, 1_c_int64_t), 'sync')
    call ok(wharf_event_query(event, 1_c_int64_t), 'query')

    call ok(wharf_notify_create(node, 0, notify), 'notify')
    if (me /= 0) then
      call ok(wharf_notify_record(notify), 'notify record')
    else
      do from = 1, ranks - 1
        call ok(wharf_notify_wait_host(notify, from), 'notify wait')
      end do
      call ok(wharf_notify_check(notify), 'notify check')
    end if
    call ok(wharf_barrier_create(node, everyone), 'barrier')
    call ok(wharf_barrier_create(node, first, ranks=[0]), 'barrier of one')
    call ok(wharf_barrier_enter(everyone), 'enter')
    if (me == 0) call ok(wharf_barrier_enter(first), 'enter alone')
    call ok(wharf_barrier_check(everyone), 'check')
    call ok(wharf_barrier_destroy(first), 'destroy')
    call ok(wharf_barrier_destroy(everyone), 'destroy')
    call ok(wharf_notify_destroy(notify), 'destroy')
    call ok(wharf_event_destroy(event), 'destroy')
    call ok(wharf_buffer_detach(buffer), 'detach')
    call ok(wharf_node_close(node), 'close')
  end subroutine

  ! Does MPI tell an integer that is no communicator from one that is? MPICH
  ! ends the program instead.
  logical function knows_handles()
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: text
    integer :: length

    call MPI_Get_library_version(text, length)
    knows_handles = index(text(:length), 'MPICH') == 0
  end function

  subroutine errors()
    type(wharf_node) :: node
    type(wharf_buffer) :: buffer
    type(wharf_error) :: error
    real(real64), pointer :: none(:)
    integer(int8), pointer :: bytes(:)
    integer :: flags

    call check(wharf_node_open(MPI_COMM_NULL, node) == WHARF_EARG, 'null comm')
    if (knows_handles()) then
      call check(wharf_node_open(-12345, node) == WHARF_EARG, 'no comm')
    end if
    call check(wharf_node_close(node) == WHARF_EARG, 'no node')
    call check(wharf_node_rank(node) == -1, 'no node')
    call ok(wharf_node_open(MPI_COMM_WORLD, node), 'open')
    if (ranks > 1) then
      flags = merge(WHARF_BUFFER_ZERO, 0, me == 1)
      call check(wharf_buffer_attach(node, 64_c_size_t, buffer, flags=flags) &
                 == WHARF_EMISMATCH, 'mismatch')
      call wharf_last_error(error)
      call check(error%rank == 1 .and. error%status == WHARF_EMISMATCH, 'rank')
      call check(wharf_text(error%call) == 'wharf_buffer_attach', 'call')
      call check(index(wharf_error_message(), 'rank 1: ') == 1, 'sentence')
    end if
    call check(.not. c_associated(buffer%handle), 'untouched')
    call check(wharf_buffer_segment(buffer, 0, none) == WHARF_EARG, 'none')
    call ok(wharf_buffer_attach(node, 64_c_size_t, buffer), 'attach')
    call check(wharf_buffer_segment(buffer, ranks, bytes) == WHARF_EARG, 'rank')
    call ok(wharf_buffer_detach(buffer), 'detach')
    call ok(wharf_node_close(node), 'close')
  end subroutine

end program

! A program of the older interface sees integers.
subroutine t_with_mpif()
  use, intrinsic :: iso_fortran_env, only: int64
  use wharf
  implicit none
  include 'mpif.h'
  type(wharf_node) :: node
  type(wharf_buffer) :: buffer
  integer(int64), pointer :: words(:)
  integer :: comm, rank, ierror, failed

  failed = 1
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  if (wharf_node_open(MPI_COMM_WORLD, node) /= WHARF_OK) goto 1
  if (wharf_node_communicator(node, comm) /= WHARF_OK) goto 1
  if (wharf_buffer_attach(node, 8_c_size_t, buffer, &
                          space=WHARF_SPACE_HOST) /= WHARF_OK) goto 1
  if (wharf_buffer_segment(buffer, rank, words) /= WHARF_OK) goto 1
  words(1) = rank
  call MPI_Barrier(comm, ierror)
  if (wharf_buffer_segment(buffer, 0, words) /= WHARF_OK) goto 1
  if (words(1) /= 0) goto 1
  call MPI_Barrier(comm, ierror)
  if (wharf_buffer_detach(buffer) /= WHARF_OK) goto 1
  if (wharf_node_close(node) /= WHARF_OK) goto 1
  failed = 0
1 if (failed /= 0) then
    print '(2a)', 't_fortran: mpif.h: ', wharf_error_message()
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end if
end subroutine
