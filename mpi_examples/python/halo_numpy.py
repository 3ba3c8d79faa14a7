# SPDX-License-Identifier: MIT
"""Ghost cells of NumPy arrays: each rank has a block of a field, and averages
every point with its four neighbours. The rows and columns around the block come
from the neighbours, round after round, written by them in place.

Run: mpirun -n 4 python3 -m mpi4py halo_numpy.py
(-m mpi4py ends all ranks when one raises)
"""
import sys

try:
    import numpy
    from mpi4py import MPI
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
import wharf
import wharf_work

ROWS, COLUMNS, ROUNDS = 40, 60, 50


def smooth(u):
    u[1:-1, 1:-1] = 0.5 * u[1:-1, 1:-1] + 0.125 * (
        u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


def run(grid):
    with wharf.Node(grid) as node:
        shape = (ROWS + 2, COLUMNS + 2)
        buffer = node.attach(8 * shape[0] * shape[1], space="host")
        u = buffer.segment(node.rank).numpy("f8", shape)
        u[:] = grid.rank + 1
        halo = wharf_work.Exchange.cart(node, grid, 8, extent=(ROWS, COLUMNS),
                                        ghost=(1, 1), buffers=[buffer])
        for _ in range(ROUNDS):
            halo.start()
            halo.finish()
            node.synchronize()
            smooth(u)
        mean = grid.allreduce(float(u[1:-1, 1:-1].mean())) / grid.size
        halo.destroy()

        # The same by a list: the last row goes to the next rank's first.
        row = 8 * shape[1]
        next_rank = (grid.rank + 1) % grid.size
        u[:] = grid.rank
        last = wharf_work.Box(buffer, row * (shape[0] - 1), row)
        first = wharf_work.Box(buffer, 0, row)
        shift = wharf_work.Exchange(node, grid, [
            (next_rank, last, None),
            ((grid.rank - 1) % grid.size, None, first)])
        shift.run()
        node.synchronize()
        wrong = int((u[0] != (grid.rank - 1) % grid.size).sum())
        wrong += int((u[1:] != grid.rank).sum())
        shift.destroy()
        buffer.detach()
    # Periodic, so that nothing is gained or lost.
    wrong += int(abs(mean - (grid.size + 1) / 2) > 1e-9)
    if grid.rank == 0:
        print("mean of the field: %.6f" % mean)
    return wrong


def main(comm):
    sizes = MPI.Compute_dims(comm.size, 2)
    return run(comm.Create_cart(sizes, [True, True]))


sys.exit(main(MPI.COMM_WORLD))
