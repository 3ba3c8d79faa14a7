#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies through PyTorch's symmetric memory, beside copy_move: every rank with
the next, all at once. put and get by copy_, exchange with a signal behind the
put and a wait for the one from before.

Run: python3 -m torch.distributed.run --nproc-per-node 2 peer_torch_copy.py
"""
import argparse
import os

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse_size(text):
    unit = UNITS.get(text[-1], 1)
    return int(text.rstrip("kmg")) * unit


def calls_of(size):
    return max(4, min(200, (512 << 20) // size))


def slowest(mine):
    most = torch.tensor([mine], dtype=torch.float64, device="cuda")
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return most.item()


def measure(options, handle, size, one):
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    calls, samples = calls_of(size), []
    for turn in range(-options.warmup, options.rounds):
        dist.barrier()
        torch.cuda.synchronize()
        handle.barrier(channel=0)
        start.record()
        for _ in range(calls):
            one()
        end.record()
        end.synchronize()
        took = slowest(start.elapsed_time(end) * 1e3 / calls)
        if turn >= 0:
            samples.append(took)
    return samples


def show(op, results):
    print(f"#\n# op {op}")
    print(f"#{'bytes':>12}  {'min':>10} {'med':>10} {'p99':>10} {'rate':>9} "
          f"{'bad':>6}")
    for size, samples, bad in results:
        samples = sorted(samples)
        count = len(samples)
        median = (samples[(count - 1) // 2] + samples[count // 2]) / 2
        last = samples[(count * 99 + 99) // 100 - 1]
        print(f" {size:>12}  {samples[0]:10.2f} {median:10.2f} {last:10.2f} "
              f"{size / median / 1e3:9.2f} {bad:6}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="64k,1m,16m,256m")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=2)
    options = parser.parse_args()
    sizes = [parse_size(text) for text in options.sizes.split(",")]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    following, last = (rank + 1) % ranks, (rank - 1) % ranks
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl")
    whole = symmetric.empty(2 * max(sizes), dtype=torch.uint8, device="cuda")
    handle = symmetric.rendezvous(whole, dist.group.WORLD)
    theirs = handle.get_buffer(following, (2 * max(sizes),), torch.uint8)
    results = {"put": [], "get": [], "exchange": []}

    for size in sizes:
        source, destination = whole[:size], whole[size:2 * size]

        def put():
            theirs[size:2 * size].copy_(source)

        def get():
            destination.copy_(theirs[:size])

        def exchange():
            put()
            handle.put_signal(dst_rank=following, channel=1)
            handle.wait_signal(src_rank=last, channel=1)

        for op, one, writer in (("put", put, last), ("get", get, following),
                                ("exchange", exchange, last)):
            source.fill_(rank + 1)
            destination.zero_()
            torch.cuda.synchronize()
            dist.barrier()
            samples = measure(options, handle, size, one)
            torch.cuda.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            bad = int(slowest(float((destination != writer + 1).sum().item())))
            results[op].append((size, samples, bad))
    if rank == 0:
        print(f"# torch {torch.__version__}  ranks {ranks}, all at once")
        for op, of in results.items():
            show(op, of)
        print("# PASS", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
