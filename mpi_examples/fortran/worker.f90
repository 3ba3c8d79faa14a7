! SPDX-License-Identifier: MIT
!
! Risky work in Fortran: every rank hands numbers to a worker, a process of its
! own that at times dies of one. The rank goes on: it sends the number again,
! and the next worker does it. What lies in the buffer stays.
!
! Run: mpirun -n 2 worker_fortran
program worker
  use, intrinsic :: iso_c_binding, only: c_sizeof, c_loc
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use wharf_f08
  use wharf_processes
  implicit none

  type, bind(c) :: task
    integer(c_int) :: number = 0
    integer(c_int) :: tries = 0 ! the first try of each fifth number is fatal
  end type

  character(len=4096) :: argument

  call get_command_argument(1, argument)
  if (argument == 'worker') then
    call work()
  else
    call MPI_Init()
    call command()
    call MPI_Finalize()
  end if

contains

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == WHARF_OK) return
    print '(a)', wharf_error_message()
    error stop
  end subroutine

  ! The worker: this program again, without MPI.
  subroutine work()
    type(wharf_worker) :: me
    type(wharf_node) :: node
    type(wharf_buffer) :: buffer
    real(real64), pointer :: results(:)
    type(task), target :: now

    call check(wharf_worker_join(me))
    call check(wharf_worker_node(me, node))
    call check(wharf_worker_buffer(me, 0, buffer))
    call check(wharf_buffer_segment(buffer, wharf_node_rank(node), results))
    do while (wharf_worker_receive(me, c_loc(now), c_sizeof(now)) == WHARF_OK)
      if (mod(now%number, 5) == 0 .and. now%tries == 0) stop 3
      results(now%number) = 1.0_real64/now%number
      call check(wharf_worker_send(me, c_loc(now), c_sizeof(now)))
    end do
    call check(wharf_worker_leave(me))
  end subroutine

  subroutine command()
    type(wharf_node) :: node
    type(wharf_buffer) :: buffer
    type(wharf_worker) :: helper
    type(wharf_worker_report) :: report
    real(real64), pointer :: results(:)
    type(task), target :: now
    integer(c_int) :: status
    integer :: number

    call get_command_argument(0, argument)
    call check(wharf_node_open(MPI_COMM_WORLD, node))
    call check(wharf_buffer_attach(node, 160_c_size_t, buffer, &
                                   space=WHARF_SPACE_HOST))
    call check(wharf_worker_start(node, [character(len=4096) :: argument, &
                                         'worker'], helper, buffers=[buffer]))
    do number = 1, 20
      now = task(number, 0)
      do
        status = wharf_worker_send(helper, c_loc(now), c_sizeof(now))
        if (status == WHARF_OK) &
          status = wharf_worker_receive(helper, c_loc(now), c_sizeof(now))
        if (status == WHARF_OK) exit
        if (status /= WHARF_EWORKER) call check(status)
        now%tries = now%tries + 1
      end do
    end do
    call check(wharf_buffer_segment(buffer, wharf_node_rank(node), results))
    call check(wharf_worker_stop(helper, report))
    print '(a, i0, a, f9.6, 2(a, i0), a)', 'rank ', wharf_node_rank(node), &
      ': sum ', sum(results), ', ', report%starts, ' workers, ', &
      report%deaths, ' died'
    call check(wharf_buffer_detach(buffer))
    call check(wharf_node_close(node))
  end subroutine

end program
