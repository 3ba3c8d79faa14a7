! SPDX-License-Identifier: MIT
!
! 01_hello.c in Fortran: every rank writes its segment of host memory, a matrix,
! and reads its neighbour's, in place.
!
! Run: mpirun -n 4 hello_fortran
program hello
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use mpi_f08
  use wharf_f08
  implicit none

  integer, parameter :: n = 10, m = 100
  type(wharf_node) :: node
  type(wharf_buffer) :: buffer
  type(MPI_Comm) :: comm
  real(real64), pointer :: flat(:), mine(:, :), theirs(:, :)
  integer :: rank, neighbour

  call MPI_Init()
  call check(wharf_node_open(MPI_COMM_WORLD, node))
  call check(wharf_node_communicator(node, comm))
  rank = wharf_node_rank(node)
  neighbour = mod(rank + 1, wharf_node_size(node))

  call check(wharf_buffer_attach(node, 8_c_size_t*n*m, buffer, &
                                 space=WHARF_SPACE_HOST, name='hello'))
  call check(wharf_buffer_segment(buffer, rank, flat))
  mine(1:n, 1:m) => flat
  call check(wharf_buffer_segment(buffer, neighbour, flat))
  theirs(1:n, 1:m) => flat

  mine = rank
  call MPI_Barrier(comm) ! every segment is written
  print '(a, i0, a, i0, a, f0.1)', 'rank ', rank, ' reads: matrix of rank ', &
    neighbour, ', sum ', sum(theirs)
  call MPI_Barrier(comm) ! every segment is read

  call check(wharf_buffer_detach(buffer))
  call check(wharf_node_close(node))
  call MPI_Finalize()

contains

  subroutine check(status)
    integer(c_int), intent(in) :: status

    if (status == WHARF_OK) return
    write (error_unit, '(a)') wharf_error_message()
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

end program
