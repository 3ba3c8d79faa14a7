#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What it costs to share memory by PyTorch's symmetric memory, beside
wharf-bench attach: allocate and rendezvous, then read a word of every peer's
last page. PyTorch keeps no memory between rounds: each is a new allocation.

Run: python3 -m torch.distributed.run --nproc-per-node 2 peer_torch_attach.py
"""
import argparse
import gc
import os
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse_size(text):
    return int(text.rstrip("kmg")) * UNITS.get(text[-1], 1)


def largest(mine):
    most = torch.tensor([mine], dtype=torch.float64, device="cuda")
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return most.item()


def attach(size, rank, ranks, mark):
    """Time of the slowest rank in us, and wrong bytes."""
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    memory = symmetric.empty(size, dtype=torch.uint8, device="cuda")
    handle = symmetric.rendezvous(memory, dist.group.WORLD)
    took = (time.perf_counter() - begin) * 1e6
    memory[-8:] = (mark + rank) % 251
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    bad = 0
    for peer in range(ranks):
        theirs = handle.get_buffer(peer, (size,), torch.uint8)[-8:]
        bad += int((theirs != (mark + peer) % 251).sum().item())
    dist.barrier()
    torch.cuda.synchronize()
    del theirs, handle, memory
    gc.collect()
    return largest(took), bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="2m,64m,256m,1g")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=2)
    options = parser.parse_args()
    sizes = [parse_size(text) for text in options.sizes.split(",")]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl")
    samples = {size: [] for size in sizes}
    wrong = {size: 0 for size in sizes}
    for turn in range(-options.warmup, options.rounds):
        for at, size in enumerate(sizes):
            took, bad = attach(size, rank, ranks, 7 * turn + at + 100)
            wrong[size] += bad
            if turn >= 0:
                samples[size].append(took)
    wrong = {size: int(largest(float(bad))) for size, bad in wrong.items()}
    if rank == 0:
        print(f"# torch {torch.__version__}  ranks {ranks}, symmetric memory: "
              "allocate and rendezvous; bad: of 8 bytes of every segment")
        print("#\n# op attach")
        print(f"#{'bytes':>12}  {'min':>10} {'med':>10} {'p99':>10} "
              f"{'rate':>9} {'bad':>6}")
        for size in sizes:
            of = sorted(samples[size])
            count = len(of)
            median = (of[(count - 1) // 2] + of[count // 2]) / 2
            last = of[(count * 99 + 99) // 100 - 1]
            print(f" {size:>12}  {of[0]:10.2f} {median:10.2f} {last:10.2f} "
                  f"{'-':>9} {wrong[size]:6}")
        print("# PASS" if not any(wrong.values()) else "# FAIL", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
