#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hand-over by PyTorch's symmetric memory, beside sync_latency: barrier of all
ranks, round trip of put_signal and wait_signal between rank 0 and the last.

Run: python3 -m torch.distributed.run --nproc-per-node 2 peer_torch_sync.py
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

OPERATIONS = 100


def slowest(mine):
    most = torch.tensor([mine], dtype=torch.float64, device="cuda")
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return most.item()


def measure(options, one, counts):
    """Medians are the table's business: all samples, GPU and host, in us."""
    gpu, host = [], []
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    for turn in range(-options.warmup, options.rounds):
        dist.barrier()
        torch.cuda.synchronize()
        start.record()
        begin = time.perf_counter()
        for _ in range(OPERATIONS):
            one()
        issued = (time.perf_counter() - begin) * 1e6 / OPERATIONS
        end.record()
        end.synchronize()
        took = start.elapsed_time(end) * 1e3 / OPERATIONS
        took = slowest(took if counts else 0.0)
        issued = slowest(issued)
        if turn >= 0:
            gpu.append(took)
            host.append(issued)
    return gpu, host


def show(op, samples):
    samples = sorted(samples)
    count = len(samples)
    median = (samples[(count - 1) // 2] + samples[count // 2]) / 2
    last = samples[(count * 99 + 99) // 100 - 1]
    print(f"#\n# op {op}")
    print(f"#{'bytes':>12}  {'min':>10} {'med':>10} {'p99':>10} {'rate':>9} "
          f"{'bad':>6}")
    print(f" {0:>12}  {samples[0]:10.2f} {median:10.2f} {last:10.2f} "
          f"{'-':>9} {0:6}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=2)
    options = parser.parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    last = size - 1
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl")
    memory = symmetric.empty(1024, dtype=torch.uint8, device="cuda")
    handle = symmetric.rendezvous(memory, dist.group.WORLD)

    def round_trip():
        if rank == 0:
            handle.put_signal(dst_rank=last, channel=1)
            handle.wait_signal(src_rank=last, channel=1)
        elif rank == last:
            handle.wait_signal(src_rank=0, channel=1)
            handle.put_signal(dst_rank=0, channel=1)

    barrier = measure(options, lambda: handle.barrier(channel=0), True)
    notify = measure(options, round_trip, rank == 0)
    if rank == 0:
        print(f"# torch {torch.__version__}  ranks {size}")
        for op, samples in (("barrier", barrier), ("notify", notify)):
            show(op, samples[0])
            show(op + "-issue", samples[1])
        print("# PASS", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
