! SPDX-License-Identifier: MIT
! The same as consumer.c, in Fortran, with the integers of mpif.h.
program consumer
  use wharf
  implicit none
  include 'mpif.h'
  type(wharf_node) :: node
  type(wharf_node_options) :: options
  type(wharf_buffer) :: buffer
  integer, pointer :: mine(:), next(:)
  integer :: comm, rank, size, ierror

  call MPI_Init(ierror)
  options%backend = WHARF_BACKEND_HOST
  call check(wharf_node_open(MPI_COMM_WORLD, node, options))
  call check(wharf_node_communicator(node, comm))
  rank = wharf_node_rank(node)
  size = wharf_node_size(node)
  call check(wharf_buffer_attach(node, 4_c_size_t, buffer))
  call check(wharf_buffer_segment(buffer, rank, mine))
  call check(wharf_buffer_segment(buffer, mod(rank + 1, size), next))
  mine(1) = 100 + rank
  call MPI_Barrier(comm, ierror)
  if (next(1) /= 100 + mod(rank + 1, size)) error stop 'wrong number'
  print '(a, i0, a, i0)', 'rank ', rank, ' read ', next(1)
  call MPI_Barrier(comm, ierror)
  call check(wharf_buffer_detach(buffer))
  call check(wharf_node_close(node))
  call MPI_Finalize(ierror)

contains

  subroutine check(status)
    integer(c_int), intent(in) :: status

    if (status == WHARF_OK) return
    print '(a)', wharf_error_message()
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine

end program
