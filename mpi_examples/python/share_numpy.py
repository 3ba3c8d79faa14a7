# SPDX-License-Identifier: MIT
"""NumPy arrays shared between ranks: each rank's array lies in its segment of
host memory, and every other rank has it as an array too, without a copy.

Run: mpirun -n 4 python3 -m mpi4py share_numpy.py
(-m mpi4py ends all ranks when one raises)
"""
import os
import sys

# Some calls below are refused on purpose; their exceptions say so.
os.environ.setdefault("WHARF_LOG", "none")
try:
    import numpy
    from mpi4py import MPI
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
import wharf

ROWS, COLUMNS = 64, 1000


def share(comm):
    with wharf.Node(comm) as node:
        buffer = node.attach(8 * ROWS * COLUMNS, space="host", name="rows")
        arrays = [buffer.segment(rank).numpy("f8", (ROWS, COLUMNS))
                  for rank in range(node.size)]
        mine = arrays[node.rank]
        mine[:] = node.rank
        mine[0, 0] = -1
        comm.Barrier()  # every array is written

        # Views, so that what a rank writes later is seen by all.
        wrong = sum(int((a[1:] != rank).sum()) + int(a[0, 0] != -1)
                    for rank, a in enumerate(arrays))
        comm.Barrier()  # every array is read
        theirs = arrays[(node.rank + 1) % node.size]
        theirs[1, 1] = 1000 + node.rank
        comm.Barrier()
        writer = (node.rank - 1) % node.size
        wrong += int(mine[1, 1] != 1000 + writer)

        # The other way to make an array without a copy.
        same = numpy.from_dlpack(
            wharf.View(buffer.segment(node.rank), mine.dtype, mine.shape))
        wrong += int(same.ctypes.data != mine.ctypes.data)
        comm.Barrier()
        buffer.detach()
    return wrong


def share_existing(comm):
    """An array that is there already: host memory of a process cannot be
    opened by another one, so that the others see a mirror of it."""
    with wharf.Node(comm) as node:
        own = numpy.full(1000, node.rank, "i4")
        buffer = node.attach_memory(own, flags=wharf.STAGE_ALLOWED)
        following = (node.rank + 1) % node.size
        own[7] = 100 + node.rank
        buffer.sync_to()
        comm.Barrier()
        theirs = buffer.segment(following).numpy("i4")
        wrong = int(theirs[6] != following) + int(theirs[7] != 100 + following)
        comm.Barrier()
        if node.size > 1:  # one's own segment is the array itself
            theirs[8] = 200 + node.rank
            comm.Barrier()
            buffer.sync_from()
            wrong += int(own[8] != 200 + (node.rank - 1) % node.size)
        comm.Barrier()
        buffer.detach()

        # What cannot be shared raises on every rank alike.
        odd = own[::2] if node.rank == 0 else own
        try:
            node.attach_memory(odd, flags=wharf.STAGE_ALLOWED)
            return 1
        except ValueError:  # not contiguous
            wrong += int(node.rank != 0)
        except wharf.Error as error:
            wrong += int(error.status != wharf.EARG or node.rank == 0)
    return wrong


def refuse(comm):
    """What is wrong raises, with Wharf's sentence."""
    with wharf.Node(comm) as node:
        buffer = node.attach(100, space="host")
        try:
            buffer.segment(node.size)
            return 1
        except wharf.Error as error:
            wrong = int(error.status != wharf.EARG)
        try:
            buffer.segment(0).numpy("f8", 13)  # 104 bytes of 100
            return 1
        except ValueError:
            pass
        if node.size > 1:
            try:
                node.attach(100, space="host", name=str(node.rank))
                return 1
            except wharf.Error as error:
                wrong += int(error.status != wharf.EMISMATCH)
        buffer.detach()
    return wrong


if __name__ == "__main__":
    world = MPI.COMM_WORLD
    errors = world.allreduce(share(world) + share_existing(world) +
                             refuse(world))
    if world.rank == 0:
        print("%d ranks share arrays of %d x %d, %d errors" %
              (world.size, ROWS, COLUMNS, errors))
    sys.exit(errors != 0)
