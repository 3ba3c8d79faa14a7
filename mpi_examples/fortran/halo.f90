! SPDX-License-Identifier: MIT
!
! Ghost cells of a Fortran array: each rank has a block of columns of a field,
! and averages every point with its neighbours to the left and right. The
! columns beside the block come from the neighbours, round after round, written
! by them in place.
!
! Run: mpirun -n 4 halo_fortran
program halo
  use, intrinsic :: iso_c_binding, only: c_f_pointer
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use wharf_f08
  use wharf_exchanges
  implicit none

  integer, parameter :: rows = 100, columns = 50, rounds = 200
  type(wharf_node) :: node
  type(wharf_buffer) :: buffer
  type(wharf_exchange) :: exchange
  type(wharf_exchange_block) :: block
  type(MPI_Comm) :: ring
  real(real64), pointer :: u(:, :)
  type(c_ptr) :: memory
  integer(c_size_t) :: bytes
  real(real64) :: sums(2)
  integer :: ranks, me, round

  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., ring)
  call MPI_Comm_rank(ring, me)
  call check(wharf_node_open(ring, node))
  call check(wharf_buffer_attach(node, 8_c_size_t*rows*(columns + 2), buffer, &
                                 space=WHARF_SPACE_HOST))
  call check(wharf_buffer_segment(buffer, wharf_node_rank(node), memory, bytes))
  call c_f_pointer(memory, u, [rows, columns + 2])
  u(:, :) = me + 1

  ! A cell is a whole column: they are divided, and contiguous.
  block%cell = 8*rows
  block%extent(1) = columns
  block%ghost(1) = 1
  block%buffer(1) = buffer%handle
  call check(wharf_exchange_create_cart(node, ring%MPI_VAL, block, exchange))
  do round = 1, rounds
    call check(wharf_exchange_run(exchange))
    call check(wharf_stream_synchronize(node))
    u(:, 2:columns + 1) = 0.5_real64*u(:, 2:columns + 1) &
      + 0.25_real64*(u(:, 1:columns) + u(:, 3:columns + 2))
  end do

  sums(1) = sum(u(:, 2:columns + 1))
  call MPI_Reduce(sums(1), sums(2), 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, ring)
  if (me == 0) print '(a, f9.6)', 'mean of the field: ', &
    sums(2)/(rows*columns*ranks)
  if (me == 0 .and. abs(sums(2)/(rows*columns*ranks) - (ranks + 1)/2.0) &
      > 1e-9) error stop 'the sum has changed'
  call check(wharf_exchange_destroy(exchange))
  call check(wharf_buffer_detach(buffer))
  call check(wharf_node_close(node))
  call MPI_Comm_free(ring)
  call MPI_Finalize()

contains

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == WHARF_OK) return
    print '(a)', wharf_error_message()
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

end program
