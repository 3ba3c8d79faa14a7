# SPDX-License-Identifier: MIT
"""A ring of NumPy arrays: rank 0 fills slots of host memory, every other rank
reads each of them in place, without a copy.

Run: mpirun -n 3 python3 -m mpi4py ring_numpy.py
(-m mpi4py ends all ranks when one raises)
"""
import os
import sys

# Once, on purpose, a call below is refused; its exception says so.
os.environ.setdefault("WHARF_LOG", "none")
try:
    import numpy
    from mpi4py import MPI
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
import wharf
import wharf_work

BLOCKS, NUMBERS = 50, 1000


def produce(ring):
    for block in range(BLOCKS):
        with ring.fill() as slot:
            assert slot.index == block
            slot.numpy("f8")[:] = block
            slot.nbytes = 8 * (NUMBERS - block)
    try:
        with ring.fill() as slot:
            raise KeyError("nothing comes of this one")
    except KeyError:
        pass
    ring.close()
    ring.drain()


def consume(ring):
    blocks = 0
    for slot in ring:
        numbers = slot.numpy("f8")
        if slot.index == BLOCKS:
            assert numbers.size == 0
            continue
        assert slot.index == blocks and numbers.size == NUMBERS - blocks
        assert (numbers == blocks).all() and not numbers.flags.writeable
        blocks += 1
    return blocks


def stream(comm):
    with wharf.Node(comm) as node:
        ring = wharf_work.Ring(node, slots=4, nbytes=8 * NUMBERS)
        if node.rank == 0:
            produce(ring)
            print("rank 0 produced %d blocks for %d ranks" %
                  (BLOCKS, node.size - 1))
        else:
            print("rank %d reads: %d blocks" % (node.rank, consume(ring)))
        assert ring.handle
        ring.destroy()
        try:
            ring.close()
            assert False, "closed a ring that is gone"
        except wharf.Error as error:
            assert error.status == wharf.EARG, error


stream(MPI.COMM_WORLD)
