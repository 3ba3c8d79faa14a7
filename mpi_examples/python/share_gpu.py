# SPDX-License-Identifier: MIT
"""PyTorch tensors or CuPy arrays shared between ranks, in GPU memory, both
ways: memory that the framework has allocated is shared as it is, and memory
that Wharf has allocated becomes tensors; in either case without a copy.

Run: mpirun -n 2 python3 -m mpi4py share_gpu.py torch
     mpirun -n 2 python3 -m mpi4py share_gpu.py cupy
     PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True mpirun ... torch

What PyTorch allocates by itself can be shared with its default allocator and
with expandable segments. With backend:cudaMallocAsync it comes from a pool that
no other process can open: Wharf refuses it and says so. CuPy's own pool, the
default, can be shared as well; cupy.cuda.MemoryAsyncPool cannot.
"""
import sys

try:
    from mpi4py import MPI
    FRAMEWORK = sys.argv[1] if len(sys.argv) > 1 else "torch"
    if FRAMEWORK == "torch":
        import torch
    elif FRAMEWORK == "cupy":
        import cupy
    else:
        sys.exit("usage: share_gpu.py torch|cupy")
    import numpy  # what a dtype is called
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
import wharf

COUNT = 4 << 20


# What the example needs of a framework, for each of the two.
class Torch:
    @staticmethod
    def use(ordinal):
        torch.cuda.set_device(ordinal)

    @staticmethod
    def pattern(rank):
        return torch.arange(COUNT, dtype=torch.int32, device="cuda") + rank

    @staticmethod
    def of(segment):
        return segment.torch("i4")

    @staticmethod
    def address(tensor):
        return tensor.data_ptr()

    @staticmethod
    def synchronize():
        torch.cuda.synchronize()


class Cupy:
    @staticmethod
    def use(ordinal):
        cupy.cuda.Device(ordinal).use()

    @staticmethod
    def pattern(rank):
        return cupy.arange(COUNT, dtype=cupy.int32) + cupy.int32(rank)

    @staticmethod
    def of(segment):
        return segment.cupy("i4")

    @staticmethod
    def address(array):
        return array.data.ptr

    @staticmethod
    def synchronize():
        cupy.cuda.get_current_stream().synchronize()


def meet(comm, framework):
    """Everybody's GPU work is done and visible."""
    framework.synchronize()
    comm.Barrier()


def exchange(node, framework, buffer, what):
    """Each rank has filled its segment; reads all, and writes to its
    neighbour's. Returns the number of errors."""
    comm = node.comm
    meet(comm, framework)
    wrong = 0
    for rank in range(node.size):
        theirs = framework.of(buffer.segment(rank))
        wrong += int((theirs != framework.pattern(rank)).sum())
    meet(comm, framework)
    neighbour = (node.rank + 1) % node.size
    framework.of(buffer.segment(neighbour))[5:105] = 7000 + node.rank
    meet(comm, framework)
    mine = framework.of(buffer.segment(node.rank))
    writer = (node.rank - 1) % node.size
    wrong += int((mine[5:105] != 7000 + writer).sum())
    if node.rank == 0:
        how = buffer.info(neighbour).reason.decode()
        print("%s: %d errors (%s)" % (what, wrong, how))
    meet(comm, framework)
    return wrong


def share(comm, framework):
    with wharf.Node(comm, backend="cuda") as node:
        framework.use(node.device(node.rank).ordinal)

        # A tensor that is there already.
        tensor = framework.pattern(node.rank)
        framework.synchronize()
        buffer = node.attach_memory(tensor, name="existing")
        wrong = exchange(node, framework, buffer, "tensor shared")
        # What the neighbour wrote is in the tensor itself.
        writer = (node.rank - 1) % node.size
        wrong += int((tensor[5:105] != 7000 + writer).sum())
        buffer.detach()

        # Memory of Wharf, used as a tensor.
        buffer = node.attach(4 * COUNT, name="new")
        segment = buffer.segment(node.rank)
        mine = framework.of(segment)
        wrong += int(framework.address(mine) != segment.address)
        mine[:] = framework.pattern(node.rank)
        wrong += exchange(node, framework, buffer, "segment used")
        buffer.detach()
    return wrong


def main():
    world = MPI.COMM_WORLD
    try:
        wrong = share(world, Torch if FRAMEWORK == "torch" else Cupy)
    except wharf.Error as error:
        # Collective calls fail on all ranks alike.
        skip = error.status == wharf.ENODEV
        if skip or error.rank in (world.rank, -1):
            print("%s%s" % ("skipped: " if skip else "", error),
                  file=sys.stderr)
        return 77 if skip else 1
    return int(world.allreduce(wrong) != 0)


if __name__ == "__main__":
    sys.exit(main())
