! SPDX-License-Identifier: MIT
!
! Module wharf for programs that use mpi_f08: communicators may be of
! type(MPI_Comm) as well as integers.
module wharf_f08
  use mpi_f08, only: MPI_Comm
  use wharf
  implicit none

  interface wharf_node_open
    module procedure node_open_f08
  end interface
  interface wharf_node_communicator
    module procedure node_communicator_f08
  end interface
  private :: node_open_f08, node_communicator_f08, MPI_Comm

contains

  function node_open_f08(comm, node, options) result(status)
    type(MPI_Comm), intent(in) :: comm
    type(wharf_node), intent(inout) :: node
    type(wharf_node_options), intent(in), optional :: options
    integer(c_int) :: status
    status = wharf_node_open(comm%MPI_VAL, node, options)
  end function

  function node_communicator_f08(node, comm) result(status)
    type(wharf_node), intent(in) :: node
    type(MPI_Comm), intent(inout) :: comm
    integer(c_int) :: status
    status = wharf_node_communicator(node, comm%MPI_VAL)
  end function

end module wharf_f08
