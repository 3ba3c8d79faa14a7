# SPDX-License-Identifier: MIT
"""Risky work in Python: every rank hands numbers to a worker, a process of its
own that at times dies of one. The rank goes on: it sends the number again, and
the next worker does it. What lies in the array stays.

Run: mpirun -n 2 python3 -m mpi4py worker_numpy.py
(-m mpi4py ends all ranks when one raises)
"""
import os
import signal
import sys

try:
    import numpy
    if sys.argv[1:] != ["worker"]:
        from mpi4py import MPI
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
import wharf
import wharf_work

NUMBERS = 10


def work():
    """The worker: this file again, without MPI."""
    rank = wharf_work.WorkerEnd()
    results = rank.buffer(0).segment(rank.node.rank).numpy("f8")
    while (task := rank.receive()) is not None:
        number, tries = task
        if number % 10 == 5 and tries == 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        results[number] = 1 / (number + 1)
        rank.send(task)
    rank.leave()


def command(comm):
    with wharf.Node(comm) as node:
        buffer = node.attach(8 * NUMBERS, space="host")
        results = buffer.segment(node.rank).numpy("f8")
        argv = [sys.executable, os.path.abspath(__file__), "worker"]
        with wharf_work.Worker(node, argv, [buffer]) as worker:
            for number in range(NUMBERS):
                for tries in range(10):
                    try:
                        worker.send(bytes([number, tries]))
                        answer = worker.receive()
                        break
                    except wharf_work.Lost:
                        continue
                assert answer == bytes([number, tries])
            assert worker.receive(wharf_work.NO_WAIT) is None
            report = worker.stop()
        print("rank %d: sum %.6f, %d workers, %d died, the last by %s" %
              (node.rank, results.sum(), report.starts, report.deaths,
               report.last.cause.decode()))
        expected = (1 / numpy.arange(1, NUMBERS + 1)).sum()
        wrong = int(abs(results.sum() - expected) > 1e-12)
        wrong += int(report.deaths != 1) + int(report.signals != 1)
        comm.Barrier()
        buffer.detach()
    return wrong


if sys.argv[1:] == ["worker"]:
    work()
else:
    sys.exit(command(MPI.COMM_WORLD))
