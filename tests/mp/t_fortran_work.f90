! SPDX-License-Identifier: MIT
!
! The Fortran modules of exchanges, rings, workers and published buffers:
! structs are laid out as in C, and every procedure does what its C call does.
! Started as "worker" this program is a worker.
program t_fortran_work
  use, intrinsic :: iso_c_binding, only: c_sizeof, c_loc, c_associated
  use, intrinsic :: iso_fortran_env, only: error_unit, int8, int32, int64, &
                                           real32, real64
  use mpi_f08
  use wharf_f08
  use wharf_exchanges
  use wharf_rings
  use wharf_processes
  implicit none

  interface
    ! The C half, t_fortran_work_c.c.
    integer(c_size_t) function t_work_layout(index) bind(c)
      import
      integer(c_int), value :: index
    end function
    subroutine t_kill_me() bind(c)
    end subroutine
    integer(c_int) function t_pid() bind(c)
      import
    end function
  end interface

  type, bind(c) :: task
    integer(c_int) :: order = 0 ! 0: add up, 1: die, 2: count buffers
    integer(c_int) :: rank = 0
    integer(c_int64_t) :: answer = -1
  end type

  integer :: me = 0, ranks = 0
  character(len=8) :: mode

  call get_command_argument(1, mode)
  if (mode == 'worker') then
    call worker_main()
    stop
  end if
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call layouts()
  call workers()
  call published()
  call exchanges()
  if (ranks > 1) call rings()
  call MPI_Finalize()

contains

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what

    if (condition) return
    write (error_unit, '(a, i0, 4a)') 't_fortran_work: rank ', me, ': ', &
      what, ': ', wharf_error_message()
    flush (error_unit)
    if (mode == 'worker') error stop
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

  subroutine ok(status, what)
    integer(c_int), intent(in) :: status
    character(len=*), intent(in) :: what
    call check(status == WHARF_OK, what)
  end subroutine

  ! ---- Structs --------------------------------------------------------------

  subroutine layouts()
    type(wharf_ring_options) :: ring
    type(wharf_ring_slot) :: slot
    type(wharf_ring_info) :: info
    type(wharf_worker_options) :: worker
    type(wharf_worker_death) :: death
    type(wharf_worker_report) :: report
    type(wharf_joined_options) :: joined
    type(wharf_exchange_box) :: box
    type(wharf_exchange_transfer) :: transfer
    type(wharf_exchange_options) :: exchange
    type(wharf_exchange_block) :: block
    type(wharf_exchange_info) :: how
    type(wharf_exchange_plan) :: plan
    integer(c_size_t) :: sizes(0:6), more(11:16)
    integer :: i

    sizes = [c_sizeof(ring), c_sizeof(slot), c_sizeof(info), &
             c_sizeof(worker), c_sizeof(death), c_sizeof(report), &
             c_sizeof(joined)]
    do i = 0, 6
      call check(sizes(i) == t_work_layout(int(i, c_int)), 'layout')
    end do
    more = [c_sizeof(box), c_sizeof(transfer), c_sizeof(exchange), &
            c_sizeof(block), c_sizeof(how), c_sizeof(plan)]
    do i = 11, 16
      call check(more(i) == t_work_layout(int(i, c_int)), 'layout')
    end do
    ! Values of the _INIT macros.
    call check(worker%stop_ms == t_work_layout(7), 'stop_ms')
    call check(worker%restarts == t_work_layout(8), 'restarts')
    call check(worker%backoff_ms == t_work_layout(9), 'backoff_ms')
    call check(worker%backoff_most_ms == t_work_layout(10), 'backoff_most_ms')
  end subroutine

  ! ---- Workers --------------------------------------------------------------

  subroutine worker_main()
    type(wharf_worker) :: worker
    type(wharf_node) :: node
    type(wharf_buffer) :: buffer
    integer(int64), pointer :: numbers(:)
    type(task), target :: now
    integer(c_int) :: status
    integer(c_size_t) :: bytes

    status = wharf_worker_join(worker)
    if (status == WHARF_ECLOSED) return
    call ok(status, 'join')
    call ok(wharf_worker_node(worker, node), 'node')
    call ok(wharf_worker_buffer(worker, 0, buffer), 'buffer')
    call check(wharf_worker_buffer(worker, 5, buffer) == WHARF_EARG, 'no 5')
    do
      status = wharf_worker_receive(worker, c_loc(now), c_sizeof(now), bytes)
      if (status /= WHARF_OK) exit
      call check(bytes == c_sizeof(now), 'bytes')
      select case (now%order)
      case (0)
        call ok(wharf_buffer_segment(buffer, now%rank, numbers), 'segment')
        now%answer = sum(numbers)
      case (1)
        call t_kill_me()
      case default
        now%answer = wharf_worker_buffers(worker)
      end select
      call ok(wharf_worker_alive(worker), 'alive')
      call ok(wharf_worker_send(worker, c_loc(now), c_sizeof(now)), 'send')
    end do
    call check(status == WHARF_ECLOSED, 'closed')
    call check(wharf_node_rank(node) >= 0, 'rank')
    call ok(wharf_worker_leave(worker), 'leave')
    call check(.not. c_associated(worker%handle), 'left')
  end subroutine

  function ask(worker, order, rank) result(answer)
    type(wharf_worker), intent(in) :: worker
    integer, intent(in) :: order, rank
    integer(c_int64_t) :: answer
    type(task), target :: now
    integer(c_int) :: status

    do
      now = task(order, rank, -1)
      status = wharf_worker_send(worker, c_loc(now), c_sizeof(now))
      if (status == WHARF_OK) &
        status = wharf_worker_receive(worker, c_loc(now), c_sizeof(now))
      if (status /= WHARF_EWORKER) exit
    end do
    call ok(status, 'ask')
    answer = now%answer
  end function

  subroutine workers()
    type(wharf_node) :: node
    type(wharf_buffer) :: buffer, second
    type(wharf_worker) :: worker
    type(wharf_worker_options) :: options
    type(wharf_worker_report) :: report
    type(wharf_worker_death) :: death
    type(task), target :: now
    integer(int64), pointer :: numbers(:)
    integer(c_int) :: state
    character(len=4096) :: self

    call get_command_argument(0, self)
    call ok(wharf_node_open(MPI_COMM_WORLD, node), 'open')
    call ok(wharf_buffer_attach(node, 800_c_size_t, buffer, &
                                space=WHARF_SPACE_HOST), 'attach')
    call ok(wharf_buffer_attach(node, 8_c_size_t, second, &
                                space=WHARF_SPACE_HOST), 'attach')
    call ok(wharf_buffer_segment(buffer, wharf_node_rank(node), numbers), 'own')
    numbers = me + 1
    call MPI_Barrier(MPI_COMM_WORLD)
    call check(wharf_worker_start(node, ['/no/such/program'], worker) &
               == WHARF_EOS, 'no program')
    options%read_only = 7
    call check(wharf_worker_start(node, ['true'], worker, options=options) &
               == WHARF_EARG, 'options')
    call ok(wharf_worker_start(node, [character(len=4096) :: self, 'worker'], &
                               worker, buffers=[buffer]), 'start')
    call check(ask(worker, 0, ranks - 1) == 100*ranks, 'sum')
    call ok(wharf_worker_state_get(worker, state), 'state')
    call check(state == WHARF_WORKER_RUNNING, 'running')
    call ok(wharf_worker_lend(worker, second, 1), 'lend')
    call check(ask(worker, 2, 0) == 2, 'buffers')
    call check(wharf_worker_receive(worker, c_loc(now), c_sizeof(now), &
                                    timeout_ms=WHARF_NO_WAIT) &
               == WHARF_ENOTREADY, 'none')
    now = task(1, 0, 0)
    call ok(wharf_worker_send(worker, c_loc(now), c_sizeof(now)), 'die')
    call check(wharf_worker_receive(worker, c_loc(now), c_sizeof(now)) &
               == WHARF_EWORKER, 'died')
    call ok(wharf_worker_death_get(worker, 1, death), 'death')
    call check(death%how == WHARF_DEATH_SIGNAL .and. death%code == 9, 'signal')
    call check(index(wharf_text(death%cause), 'signal 9') == 1, 'cause')
    call check(ask(worker, 0, 0) == 100, 'next')
    call ok(wharf_worker_report_get(worker, report), 'report')
    call check(report%deaths == 1 .and. report%last%code == 9, 'report')
    call ok(wharf_worker_stop(worker, report), 'stop')
    call check(report%starts == 2 .and. report%received == 3, 'last report')
    call check(.not. c_associated(worker%handle), 'stopped')
    call check(wharf_worker_stop(worker) == WHARF_EARG, 'stopped twice')
    call MPI_Barrier(MPI_COMM_WORLD)
    call ok(wharf_buffer_detach(second), 'detach')
    call ok(wharf_buffer_detach(buffer), 'detach')
    call ok(wharf_node_close(node), 'close')
  end subroutine

  ! ---- Published buffers ----------------------------------------------------

  subroutine published()
    type(wharf_node) :: node, other
    type(wharf_buffer) :: buffer, seen
    type(wharf_joined) :: joined
    type(wharf_joined_options) :: options
    integer(int8), pointer :: bytes(:)
    character(len=40) :: name
    integer(c_int) :: count
    integer :: rank

    write (name, '(a, i0)') 't_fortran-', t_pid()
    call ok(wharf_node_open(MPI_COMM_WORLD, node), 'open')
    call ok(wharf_buffer_attach(node, 100_c_size_t, buffer, &
                                space=WHARF_SPACE_HOST), 'attach')
    call ok(wharf_buffer_segment(buffer, wharf_node_rank(node), bytes), 'mine')
    bytes = int(me + 1, int8)
    call MPI_Barrier(MPI_COMM_WORLD)
    if (me == 0) then
      call check(wharf_join(name, joined) == WHARF_ENOTREADY, 'not yet')
      call check(wharf_buffer_publish(buffer, 'a b') == WHARF_EARG, 'name')
      call ok(wharf_buffer_publish(buffer, name, note='one two ', &
                                   uids=[4242]), 'publish')
      options%writable = 1
      call check(wharf_join(name, joined, options) == WHARF_EOS, 'writable')
      call ok(wharf_join(name, joined), 'join')
      call ok(wharf_buffer_joiners(buffer, count), 'joiners')
      call check(count == 1, 'one joiner')
      call check(wharf_joined_note(joined) == 'one two', 'note')
      call ok(wharf_joined_node(joined, other), 'node')
      call check(wharf_node_size(other) == ranks, 'size')
      call ok(wharf_joined_buffer(joined, seen), 'buffer')
      do rank = 0, ranks - 1
        call ok(wharf_buffer_segment(seen, rank, bytes), 'segment')
        call check(all(bytes == rank + 1), 'bytes')
      end do
      call ok(wharf_joined_check(joined), 'check')
      call ok(wharf_buffer_unpublish(buffer), 'unpublish')
      call check(wharf_joined_check(joined) == WHARF_ESTATE, 'taken back')
      call ok(wharf_leave(joined), 'leave')
      call check(wharf_leave(joined) == WHARF_EARG, 'left')
      call check(wharf_joined_note(joined) == '', 'no note')
    end if
    call MPI_Barrier(MPI_COMM_WORLD)
    call ok(wharf_buffer_detach(buffer), 'detach')
    call ok(wharf_node_close(node), 'close')
  end subroutine

  ! ---- Exchanges ------------------------------------------------------------

  subroutine exchanges()
    type(wharf_node) :: node
    type(wharf_buffer) :: buffer
    type(wharf_exchange) :: exchange
    type(wharf_exchange_box), target :: mine(1), theirs(1)
    type(wharf_exchange_transfer) :: transfers(2)
    type(wharf_exchange_options) :: options
    type(wharf_exchange_block) :: block
    type(wharf_exchange_info) :: info
    type(wharf_exchange_plan) :: plan
    integer(int8), pointer :: bytes(:)
    integer :: next, before, round

    next = mod(me + 1, ranks)
    before = mod(me + ranks - 1, ranks)
    call ok(wharf_node_open(MPI_COMM_WORLD, node), 'open')
    call ok(wharf_buffer_attach(node, 64_c_size_t, buffer, &
                                space=WHARF_SPACE_HOST), 'attach')
    call ok(wharf_buffer_segment(buffer, wharf_node_rank(node), bytes), 'own')
    mine = wharf_exchange_box(buffer%handle, 0, [16_c_size_t, 1_c_size_t, &
                                                 1_c_size_t])
    theirs = mine
    theirs%offset = 32
    transfers(1) = wharf_exchange_transfer(next, send=c_loc(mine))
    transfers(2) = wharf_exchange_transfer(before, receive=c_loc(theirs))
    options%sets = 9
    call check(wharf_exchange_create(node, MPI_COMM_WORLD%MPI_VAL, transfers, &
                                     exchange, options) == WHARF_EARG, 'sets')
    call ok(wharf_exchange_create(node, MPI_COMM_WORLD%MPI_VAL, transfers, &
                                  exchange), 'create')
    do round = 1, 4
      bytes = int(10*round + me, int8)
      if (mod(round, 2) == 0) then
        call ok(wharf_exchange_run(exchange), 'run')
      else
        call ok(wharf_exchange_start(exchange), 'start')
        call ok(wharf_exchange_finish(exchange), 'finish')
      end if
      call ok(wharf_stream_synchronize(node), 'wait')
      call check(all(bytes(33:48) == 10*round + before), 'theirs')
      call check(bytes(32) == 10*round + me .and. bytes(49) == bytes(32), 'own')
    end do
    call ok(wharf_exchange_info_get(exchange, 0, info), 'info')
    call check(info%peer == next .and. info%send_bytes(1) == 16, 'info')
    call ok(wharf_exchange_plan_get(exchange, plan), 'plan')
    call check(plan%transfers == 2 .and. plan%sets == 1, 'plan')
    call ok(wharf_exchange_destroy(exchange), 'destroy')
    call check(wharf_exchange_start(exchange) == WHARF_EARG, 'destroyed')
    ! MPI_COMM_WORLD is no grid.
    block%cell = 1
    call check(wharf_exchange_create_cart(node, MPI_COMM_WORLD%MPI_VAL, block, &
                                          exchange) == WHARF_EARG, 'no grid')
    call ok(wharf_buffer_detach(buffer), 'detach')
    call ok(wharf_node_close(node), 'close')
  end subroutine

  ! ---- Rings ----------------------------------------------------------------

  subroutine produce(ring)
    type(wharf_ring), intent(in) :: ring
    real(real64), pointer :: array(:)
    integer(int32), pointer :: words(:)
    integer(c_int64_t) :: number
    integer :: i

    do i = 0, 9
      call ok(wharf_ring_produce_begin(ring, array, number, wharf_ring_cpu()), &
              'produce')
      call check(number == i .and. size(array) == 10, 'slot')
      array = i
      call ok(wharf_ring_produce_end(ring, 56_c_size_t, wharf_ring_cpu()), &
              'end')
    end do
    call check(wharf_ring_produce_end(ring, 8_c_size_t, wharf_ring_cpu()) &
               == WHARF_ESTATE, 'nothing begun')
    call ok(wharf_ring_produce_begin(ring, words, stream=wharf_ring_cpu()), &
            'words')
    words = 7
    call ok(wharf_ring_produce_end(ring, 8_c_size_t, wharf_ring_cpu()), 'end')
    call ok(wharf_ring_close(ring), 'close')
    call ok(wharf_ring_drain(ring), 'drain')
  end subroutine

  subroutine consume(ring)
    type(wharf_ring), intent(in) :: ring
    real(real64), pointer :: array(:)
    integer(int32), pointer :: words(:)
    type(wharf_ring_slot) :: slot
    integer :: i

    do i = 0, 9
      call ok(wharf_ring_consume_begin(ring, array, slot, wharf_ring_cpu()), &
              'consume')
      call check(slot%index == i .and. slot%bytes == 56, 'slot')
      call check(size(array) == 7 .and. all(nint(array) == i), 'array')
      call ok(wharf_ring_consume_end(ring, wharf_ring_cpu()), 'end')
    end do
    call ok(wharf_ring_consume_begin(ring, words, slot, wharf_ring_cpu()), 'w')
    call check(size(words) == 2 .and. words(2) == 7, 'words')
    call ok(wharf_ring_consume_end(ring, wharf_ring_cpu()), 'end')
    call check(wharf_ring_consume_begin(ring, words, slot, wharf_ring_cpu()) &
               == WHARF_ECLOSED, 'closed')
    call ok(wharf_ring_leave(ring, wharf_ring_cpu()), 'leave')
    call check(wharf_ring_leave(ring, wharf_ring_cpu()) == WHARF_ESTATE, 'left')
  end subroutine

  subroutine rings()
    type(wharf_node) :: node
    type(wharf_ring) :: ring
    type(wharf_ring_options) :: options
    type(wharf_ring_info) :: info

    call ok(wharf_node_open(MPI_COMM_WORLD, node), 'open')
    call check(wharf_ring_create(node, options, ring) == WHARF_EARG, 'no slots')
    options%slots = 3
    options%slot_bytes = 80
    options%space = WHARF_SPACE_HOST
    call ok(wharf_ring_create(node, options, ring), 'create')
    call ok(wharf_ring_info_get(ring, info), 'info')
    call check(info%slots == 3 .and. info%slot_bytes == 80, 'info')
    call check(info%consumers == ranks - 1, 'consumers')
    if (me == 0) then
      call produce(ring)
    else
      call consume(ring)
    end if
    call ok(wharf_ring_check(ring), 'check')
    call ok(wharf_ring_destroy(ring), 'destroy')
    call check(wharf_ring_close(ring) == WHARF_EARG, 'destroyed')
    call ok(wharf_node_close(node), 'close')
  end subroutine

end program
