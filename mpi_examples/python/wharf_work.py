# SPDX-License-Identifier: MIT
"""Exchanges, rings and workers for Python, beside wharf.py.

    halo = wharf_work.Exchange.cart(node, grid, 8, extent=(100, 100),
                                    ghost=(1, 1), buffers=[field])
    halo.start()
    ...
    halo.finish()

    ring = wharf_work.Ring(node, slots=4, nbytes=8 * 1000)
    if node.rank == 0:
        with ring.fill() as slot:
            slot.numpy("f8")[:] = 1
        ring.close()
    else:
        for slot in ring:                     # released behind each round
            print(slot.numpy("f8").sum())

    worker = wharf_work.Worker(node, [sys.executable, "filter.py"], [frames])
    try:
        worker.send(task)                     # bytes
        answer = worker.receive()
    except wharf_work.Lost:                   # it died; send the task again
        ...

    rank = wharf_work.WorkerEnd()             # in filter.py, without MPI
    while (task := rank.receive()) is not None:
        rank.send(work_on(rank.buffer(0), task))

exchange.h, ring.h and worker.h say what the calls mean.
"""
import contextlib
import ctypes

import wharf

_P, _I, _S = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_R, _L = ctypes.POINTER, ctypes.c_int64
_lib = wharf._lib

# ---- Exchanges -------------------------------------------------------------

_SETS, _DIMS = 8, 3


class Box(ctypes.Structure):
    """wharf_exchange_box: size bytes of a row, rows, planes."""
    _fields_ = [("buffer", _P), ("offset", _S), ("size", _S * _DIMS),
                ("pitch", _S * 2)]

    def __init__(self, buffer, offset, size, pitch=()):
        size = (size,) if isinstance(size, int) else tuple(size)
        super().__init__(buffer.handle, offset,
                         (_S * _DIMS)(*(size + (1, 1))[:_DIMS]),
                         (_S * 2)(*pitch))


class _Transfer(ctypes.Structure):
    _fields_ = [("peer", _I), ("send_id", _I), ("receive_id", _I),
                ("send", _R(Box)), ("receive", _R(Box))]


class _ExchangeOptions(ctypes.Structure):
    _fields_ = [("struct_size", _S), ("sets", _I), ("ready", _I),
                ("capturable", _I)]


class _Block(ctypes.Structure):
    _fields_ = [("struct_size", _S), ("cell", _S), ("extent", _S * _DIMS),
                ("ghost", _S * _DIMS), ("pitch", _S * 2), ("diagonals", _I),
                ("buffer", _P * _SETS), ("offset", _S * _SETS)]


class Exchange:
    """wharf_exchange: neighbours' boxes, round after round. Buffers stay
    attached until the destroy."""

    def __init__(self, node, comm, transfers, sets=1, capturable=False):
        """Collective on node and comm. transfers: tuples (peer, send, receive)
        or (peer, send, receive, send_id, receive_id); send and receive are a
        Box for every set, one Box, or None."""
        made = (_Transfer * max(len(transfers), 1))()
        for one, (peer, send, receive, *ids) in zip(made, transfers):
            one.peer = peer
            one.send_id, one.receive_id = ids or (0, 0)
            one.send, one.receive = self._boxes(send), self._boxes(receive)
        kind, value = wharf._comm_argument(comm)
        _lib.wharf_exchange_create.argtypes = [
            _P, kind, _I, _R(_Transfer), _R(_ExchangeOptions), _R(_P)]
        self.handle = _P()
        wharf.check(_lib.wharf_exchange_create(
            node.handle, value, len(transfers), made,
            self._options(sets, capturable), ctypes.byref(self.handle)))

    @classmethod
    def cart(cls, node, comm, cell, extent, ghost, buffers, offsets=(),
             pitch=(), diagonals=False, capturable=False):
        """Collective on node and comm, a Cartesian one. cell: bytes; extent,
        ghost: a number a dimension, the last one contiguous; buffers: one a
        set."""
        block = _Block(ctypes.sizeof(_Block), cell, (_S * _DIMS)(*extent),
                       (_S * _DIMS)(*ghost), (_S * 2)(*pitch), int(diagonals),
                       (_P * _SETS)(*[one.handle for one in buffers]),
                       (_S * _SETS)(*offsets))
        kind, value = wharf._comm_argument(comm)
        _lib.wharf_exchange_create_cart.argtypes = [
            _P, kind, _R(_Block), _R(_ExchangeOptions), _R(_P)]
        made = cls.__new__(cls)
        made.handle = _P()
        wharf.check(_lib.wharf_exchange_create_cart(
            node.handle, value, ctypes.byref(block),
            cls._options(len(buffers), capturable),
            ctypes.byref(made.handle)))
        return made

    @staticmethod
    def _boxes(boxes):
        if boxes is None:
            return None
        boxes = [boxes] if isinstance(boxes, Box) else boxes
        return (Box * len(boxes))(*boxes)

    @staticmethod
    def _options(sets, capturable):
        return ctypes.byref(_ExchangeOptions(
            ctypes.sizeof(_ExchangeOptions), sets, 0, 1 if capturable else 0))

    def start(self, stream=None):
        wharf.check(_lib.wharf_exchange_start(self.handle, stream))

    def finish(self, stream=None):
        wharf.check(_lib.wharf_exchange_finish(self.handle, stream))

    def run(self, stream=None):
        """Both in one."""
        wharf.check(_lib.wharf_exchange_run(self.handle, stream))

    def destroy(self):
        """Collective."""
        wharf.check(_lib.wharf_exchange_destroy(ctypes.byref(self.handle)))


# ---- Rings -----------------------------------------------------------------

CPU = (1 << (8 * ctypes.sizeof(_P))) - 1  # the calling thread, as a stream


class _RingOptions(ctypes.Structure):
    _fields_ = [("struct_size", _S), ("slots", _I), ("slot_bytes", _S),
                ("producer", _I), ("mode", _I), ("space", _I),
                ("consumer_count", _I), ("consumers", _R(_I)),
                ("timeout_ms", _I), ("mechanism", _I), ("ahead", _I)]


class _RingSlot(ctypes.Structure):
    _fields_ = [("index", ctypes.c_uint64), ("nbytes", _S)]


class Slot(wharf.Segment):
    """Memory of one slot: make arrays from it. Good until it is ended."""

    def __init__(self, ring, address, nbytes, index, readonly):
        self.buffer, self.rank = ring, ring.producer
        self.address, self.nbytes, self.index = address, nbytes, index
        self.on_gpu = ring.on_gpu
        self.readonly = readonly


class Ring:
    """wharf_ring: one producer, several consumers, some slots. consumers: node
    ranks, None: all but the producer. shared: each slot goes to one of them."""

    def __init__(self, node, slots, nbytes, producer=0, consumers=None,
                 shared=False, space="host", timeout_ms=0):
        """Collective."""
        options = _RingOptions(ctypes.sizeof(_RingOptions), slots=slots,
                               slot_bytes=nbytes, producer=producer,
                               mode=int(shared), space=wharf._SPACES[space],
                               timeout_ms=timeout_ms)
        if consumers is not None:
            options.consumers = (_I * max(len(consumers), 1))(*consumers)
            options.consumer_count = len(consumers) or -1
        self.node, self.nbytes, self.producer = node, nbytes, producer
        self.on_gpu = space == "device" and node.backend == "cuda"
        self.handle = _P()
        wharf.check(_lib.wharf_ring_create(node.handle, ctypes.byref(options),
                                           ctypes.byref(self.handle)))

    @contextlib.contextmanager
    def fill(self, stream=CPU):
        """The producer: the next slot, handed over at the end. slot.nbytes may
        be made smaller; after an exception nothing is in it."""
        pointer, index = _P(), ctypes.c_uint64()
        wharf.check(_lib.wharf_ring_produce_begin(
            self.handle, stream, ctypes.byref(pointer), ctypes.byref(index)))
        slot = Slot(self, pointer.value, self.nbytes, index.value, False)
        filled = 0
        try:
            yield slot
            filled = slot.nbytes
        finally:
            wharf.check(_lib.wharf_ring_produce_end(self.handle, filled,
                                                    stream))

    def take(self, stream=CPU):
        """A consumer: the next slot, to be given to release; None: there will
        be none."""
        pointer, slot = _P(), _RingSlot()
        status = _lib.wharf_ring_consume_begin(
            self.handle, stream, ctypes.byref(pointer), ctypes.byref(slot))
        if status == wharf.ECLOSED:
            return None
        wharf.check(status)
        return Slot(self, pointer.value, slot.nbytes, slot.index, True)

    def release(self, stream=CPU):
        wharf.check(_lib.wharf_ring_consume_end(self.handle, stream))

    def __iter__(self):
        while (slot := self.take()) is not None:
            try:
                yield slot
            finally:
                self.release()

    def close(self):
        """The producer: no slot will follow."""
        wharf.check(_lib.wharf_ring_close(self.handle))

    def drain(self, timeout_ms=0):
        """The producer: until all is consumed."""
        wharf.check(_lib.wharf_ring_drain(self.handle, timeout_ms))

    def join(self):
        wharf.check(_lib.wharf_ring_join(self.handle))

    def leave(self, stream=CPU):
        wharf.check(_lib.wharf_ring_leave(self.handle, stream))

    def destroy(self):
        """Collective. No array of a slot may be touched afterwards."""
        wharf.check(_lib.wharf_ring_destroy(ctypes.byref(self.handle)))


# ---- Workers ---------------------------------------------------------------


class Lost(wharf.Error):
    """The worker died; the next call deals with the next one."""


class _WorkerOptions(ctypes.Structure):
    _fields_ = [("struct_size", _S), ("buffers", _R(_P)),
                ("buffer_count", _I), ("read_only", _I), ("join_ms", _I),
                ("silence_ms", _I), ("stop_ms", _I), ("restarts", _I),
                ("backoff_ms", _I), ("backoff_most_ms", _I), ("tag", _I)]


class Death(ctypes.Structure):
    """wharf_worker_death."""
    _fields_ = [("struct_size", _S), ("number", _I), ("pid", _I), ("how", _I),
                ("code", _I), ("joined", _I), ("ran_us", _L),
                ("recover_us", _L), ("cause", ctypes.c_char * 160)]


class Report(ctypes.Structure):
    """wharf_worker_report."""
    _fields_ = [("struct_size", _S), ("state", _I), ("pid", _I),
                ("starts", _I), ("deaths", _I), ("exits", _I),
                ("signals", _I), ("faults", _I), ("silences", _I),
                ("absences", _I), ("failed_starts", _I), ("sent", _L),
                ("received", _L), ("recover_us", _L),
                ("recover_least_us", _L), ("recover_most_us", _L),
                ("last", Death)]


NO_WAIT = -1  # a timeout_ms of send and receive


class _End:
    """What both ends of a worker have."""

    MESSAGE = 65536  # most bytes of one

    def send(self, data, timeout_ms=0):
        """False: the rank stops this worker; or timeout_ms is NO_WAIT and
        there is no room."""
        return self._passed(_lib.wharf_worker_send(self.handle, data,
                                                   len(data), timeout_ms))

    def receive(self, timeout_ms=0):
        """bytes. None: the rank stops this worker; or timeout_ms is NO_WAIT
        and there is none."""
        room, size = ctypes.create_string_buffer(self.MESSAGE), _S()
        passed = self._passed(_lib.wharf_worker_receive(
            self.handle, room, self.MESSAGE, ctypes.byref(size), timeout_ms))
        return room.raw[:size.value] if passed else None

    def _passed(self, status):
        if status in (wharf.ENOTREADY, wharf.ECLOSED):
            return False
        if status == wharf.EWORKER:
            raise Lost(status)
        wharf.check(status)
        return True


class Worker(_End):
    """wharf_worker, the rank's end: a process for work that may go wrong. Local
    to this rank; buffers that are lent stay attached until the stop."""

    def __init__(self, node, argv, buffers=(), read_only=False, join_ms=0,
                 silence_ms=0, stop_ms=2000, restarts=16, tag=True):
        texts = (ctypes.c_char_p * (len(argv) + 1))(
            *[text.encode() for text in argv], None)
        lent = (_P * max(len(buffers), 1))(*[one.handle for one in buffers])
        options = _WorkerOptions(
            ctypes.sizeof(_WorkerOptions), lent, len(buffers), int(read_only),
            join_ms, silence_ms, stop_ms, restarts, 100, 10000,
            1 if tag else 2)
        self.handle = _P()
        wharf.check(_lib.wharf_worker_start(
            node.handle, texts, ctypes.byref(options),
            ctypes.byref(self.handle)))

    def lend(self, buffer, read_only=False):
        wharf.check(_lib.wharf_worker_lend(self.handle, buffer.handle,
                                           int(read_only)))

    def report(self):
        report = Report(ctypes.sizeof(Report))
        wharf.check(_lib.wharf_worker_report_get(self.handle,
                                                 ctypes.byref(report)))
        return report

    def stop(self):
        """What became of it."""
        report = Report(ctypes.sizeof(Report))
        wharf.check(_lib.wharf_worker_stop(ctypes.byref(self.handle),
                                           ctypes.byref(report)))
        return report

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.handle:
            self.stop()


class WorkerEnd(_End):
    """wharf_worker in the program that a worker runs: what its rank lends."""

    def __init__(self):
        self.handle = _P()
        wharf.check(_lib.wharf_worker_join(None, ctypes.byref(self.handle)))
        self.node = wharf.Node.__new__(wharf.Node)
        self.node.handle, self.node.comm = _P(), None
        wharf.check(_lib.wharf_worker_node(self.handle,
                                           ctypes.byref(self.node.handle)))
        self.node._ask()

    def buffers(self):
        """How many are lent so far."""
        return _lib.wharf_worker_buffers(self.handle)

    def buffer(self, index):
        handle = _P()
        wharf.check(_lib.wharf_worker_buffer(self.handle, index,
                                             ctypes.byref(handle)))
        return wharf.Buffer(self.node, handle)

    def alive(self):
        """Still at work."""
        wharf.check(_lib.wharf_worker_alive(self.handle))

    def leave(self):
        """No array of a segment may be touched afterwards."""
        wharf.check(_lib.wharf_worker_leave(ctypes.byref(self.handle)))


wharf._arguments(
    exchange_start=[_P, _P], exchange_finish=[_P, _P], exchange_run=[_P, _P],
    exchange_destroy=[_R(_P)],
    ring_create=[_P, _R(_RingOptions), _R(_P)], ring_destroy=[_R(_P)],
    ring_produce_begin=[_P, _P, _R(_P), _R(ctypes.c_uint64)],
    ring_produce_end=[_P, _S, _P], ring_close=[_P], ring_drain=[_P, _I],
    ring_consume_begin=[_P, _P, _R(_P), _R(_RingSlot)],
    ring_consume_end=[_P, _P], ring_join=[_P], ring_leave=[_P, _P],
    worker_start=[_P, _R(ctypes.c_char_p), _R(_WorkerOptions), _R(_P)],
    worker_lend=[_P, _P, _I], worker_send=[_P, ctypes.c_char_p, _S, _I],
    worker_receive=[_P, _P, _S, _R(_S), _I],
    worker_report_get=[_P, _R(Report)], worker_stop=[_R(_P), _R(Report)],
    worker_join=[_P, _R(_P)], worker_node=[_P, _R(_P)],
    worker_buffers=[_P], worker_buffer=[_P, _I, _R(_P)], worker_alive=[_P],
    worker_leave=[_R(_P)])
