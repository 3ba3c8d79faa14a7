# SPDX-License-Identifier: MIT
"""Wharf for Python: a thin layer of ctypes over libwharf.so, to be copied
beside a program. Needs no build; mpi4py for what is collective.

    from mpi4py import MPI
    import wharf

    node = wharf.Node(MPI.COMM_WORLD)
    buffer = node.attach(8 * 1000, space="host")
    mine = buffer.segment(node.rank).numpy("f8")      # no copy
    tensor = buffer.segment(peer).torch("f4", (64, 64))

Calls are those of the C headers, which say what they mean and who must call
them; a failure raises wharf.Error, which carries the status and the sentence.
An array of a segment is good until its buffer is detached.

The library is $LIBWHARF, else the one of a build or an installation around
this file, else what the system finds.
"""
import ctypes
import ctypes.util
import os
import re

_here = os.path.dirname(os.path.abspath(__file__))


def _candidates():
    if os.environ.get("LIBWHARF"):
        return [os.environ["LIBWHARF"]]
    top = os.path.join(_here, "..", "..")
    places = [os.path.join(top, place, "libwharf.so")
              for place in ("build/runtime", "lib", "lib64")]
    found = [place for place in places if os.path.exists(place)]
    return found + [ctypes.util.find_library("wharf") or "libwharf.so.0.1"]


def _load():
    reasons = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    raise ImportError("no libwharf.so: set LIBWHARF to it, or "
                      "LD_LIBRARY_PATH to where it lies (%s)" %
                      "; ".join(reasons))


_lib = _load()

OK, EARG, EMISMATCH, ECONFIG, ESTATE, ENOMEM, EDEVMEM, ENODEV = range(8)
EUNSUPPORTED, EDEGRADED, ELIMIT, ETIMEDOUT, ENOTREADY, EOS = range(8, 14)
EDRIVER, EMPI, ECLOSED, EWORKER, EDATA = 14, 15, 16, 17, 20
EPEER, EFAULT, EPROTOCOL = 40, 41, 42

CONTIGUOUS, SAME_ADDRESS, SAME_ADDRESS_REQUIRED, ZERO = 1, 2, 4, 8
READ_ONLY, STAGE_ALLOWED, EXPOSE_NEIGHBOURS = 16, 32, 64

_BACKENDS = {None: 0, "auto": 0, "cuda": 1, "host": 2}
_SPACES = {"device": 0, "host": 1}


class _Record(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("source", ctypes.c_int),
                ("native", ctypes.c_int), ("rank", ctypes.c_int),
                ("call", ctypes.c_char * 40), ("cause", ctypes.c_char * 208),
                ("remedy", ctypes.c_char * 120)]


class _NodeOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("backend", ctypes.c_int),
                ("placement", ctypes.c_int), ("device_map", ctypes.c_char_p),
                ("timeout_ms", ctypes.c_int), ("strict", ctypes.c_int),
                ("keep_current", ctypes.c_int), ("pool", ctypes.c_int),
                ("pool_bytes", ctypes.c_size_t), ("bind", ctypes.c_int),
                ("refuse_bad", ctypes.c_int)]


class _BufferOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("space", ctypes.c_int),
                ("flags", ctypes.c_uint), ("name", ctypes.c_char_p)]


class _PublishOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("note", ctypes.c_char_p),
                ("uids", ctypes.c_void_p), ("uid_count", ctypes.c_int),
                ("writable", ctypes.c_int)]


class _JoinedOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("uid", ctypes.c_uint32),
                ("writable", ctypes.c_int), ("wait_ms", ctypes.c_int),
                ("timeout_ms", ctypes.c_int), ("keep_current", ctypes.c_int)]


class Device(ctypes.Structure):
    """wharf_device: the device of a rank."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("gpu", ctypes.c_int),
                ("ordinal", ctypes.c_int), ("owner", ctypes.c_int),
                ("users", ctypes.c_int), ("uuid", ctypes.c_char * 48),
                ("pci", ctypes.c_char * 16), ("name", ctypes.c_char * 64),
                ("memory_bytes", ctypes.c_uint64), ("distance", ctypes.c_int),
                ("reason", ctypes.c_char * 96)]


class Info(ctypes.Structure):
    """wharf_buffer_info: how the caller reaches a segment."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("handle", ctypes.c_int),
                ("space", ctypes.c_int), ("path", ctypes.c_int),
                ("owner", ctypes.c_int), ("chunks", ctypes.c_int),
                ("chunk_bytes", ctypes.c_uint64),
                ("mapped_bytes", ctypes.c_uint64),
                ("same_address", ctypes.c_int),
                ("write_protected", ctypes.c_int), ("pooled", ctypes.c_int),
                ("reason", ctypes.c_char * 96), ("existing", ctypes.c_int),
                ("mirrored", ctypes.c_int)]


class Error(RuntimeError):
    """A failed call; str() is Wharf's sentence: rank, call, cause, remedy."""

    def __init__(self, status):
        record = _Record()
        text = ctypes.create_string_buffer(512)
        _lib.wharf_last_error(ctypes.byref(record))
        if record.status != status:  # ENOTREADY and ECLOSED leave no record
            record = _Record(status=status, rank=-1,
                             cause=_lib.wharf_status_text(status))
        _lib.wharf_error_format(ctypes.byref(record), text, len(text))
        self.status = status
        self.rank = record.rank
        super().__init__(text.value.decode(errors="replace"))


def check(status):
    """Raises what a C call left in this thread's record."""
    if status != OK:
        raise Error(status)


def _arguments(**table):
    for name, types in table.items():
        function = getattr(_lib, "wharf_" + name, None)
        if function:  # an older library lacks some
            function.argtypes = types


_P, _I, _S = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_R, _T = ctypes.POINTER, ctypes.c_char_p
_lib.wharf_status_text.restype = _T
_arguments(
    last_error=[_R(_Record)], error_format=[_R(_Record), _T, _S],
    node_close=[_R(_P)], node_rank=[_P], node_size=[_P], node_backend=[_P],
    node_device=[_P, _I, _R(Device)], stream_synchronize=[_P, _P, _I],
    buffer_attach=[_P, _S, _R(_BufferOptions), _R(_P)],
    buffer_attach_memory=[_P, _P, _S, _R(_BufferOptions), _R(_P)],
    buffer_detach=[_R(_P)], buffer_segment=[_P, _I, _R(_P), _R(_S)],
    buffer_sync_to=[_P, _S, _S, _P], buffer_sync_from=[_P, _S, _S, _P],
    buffer_info_get=[_P, _I, _R(Info)],
    buffer_publish=[_P, _T, _R(_PublishOptions)], buffer_unpublish=[_P],
    join=[_T, _R(_JoinedOptions), _R(_P)], joined_check=[_P],
    joined_buffer=[_P, _R(_P)], joined_node=[_P, _R(_P)], joined_note=[_P],
    leave=[_R(_P)])


# ---- MPI -------------------------------------------------------------------


def _comm_argument(comm):
    """An mpi4py communicator as the C type of this MPI library: a pointer in
    Open MPI, an int in MPICH and what descends from it."""
    from mpi4py import MPI

    libraries = set()
    with open("/proc/self/maps") as maps:
        for line in maps:
            found = re.search(r"/\S*/libmpi(?:ch)?\.so\S*", line)
            if found:
                libraries.add(os.path.realpath(found.group()))
    if len(libraries) > 1:
        raise ImportError("mpi4py and Wharf use different MPI libraries, so "
                          "that a communicator of one is nothing to the other: "
                          "%s; install mpi4py for Wharf's" %
                          " and ".join(sorted(libraries)))
    kind = _I if MPI._sizeof(MPI.Comm) == ctypes.sizeof(_I) else _P
    return kind, kind.from_address(MPI._addressof(comm))


class Node:
    """wharf_node: the ranks that can share memory, and their GPUs."""

    def __init__(self, comm, backend=None, timeout_ms=0, keep_current=True):
        """Collective. keep_current: frameworks choose the current device
        themselves; use device(rank).ordinal."""
        options = _NodeOptions(ctypes.sizeof(_NodeOptions),
                               backend=_BACKENDS[backend],
                               timeout_ms=timeout_ms,
                               keep_current=1 if keep_current else 0)
        kind, value = _comm_argument(comm)
        _lib.wharf_node_open.argtypes = [kind, _R(_NodeOptions), _R(_P)]
        self.handle = _P()
        self.comm = comm
        check(_lib.wharf_node_open(value, ctypes.byref(options),
                                   ctypes.byref(self.handle)))
        self._ask()

    def _ask(self):
        self.rank = _lib.wharf_node_rank(self.handle)
        self.size = _lib.wharf_node_size(self.handle)
        self.backend = {1: "cuda", 2: "host"}[
            _lib.wharf_node_backend(self.handle)]

    def close(self):
        """Collective."""
        check(_lib.wharf_node_close(ctypes.byref(self.handle)))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        # After an exception of this rank alone the others are not here.
        if kind is None:
            self.close()

    def device(self, rank):
        device = Device(ctypes.sizeof(Device))
        check(_lib.wharf_node_device(self.handle, rank, ctypes.byref(device)))
        return device

    def synchronize(self, stream=None, timeout_ms=0):
        """Until the stream's work is complete, or a rank is dead."""
        check(_lib.wharf_stream_synchronize(self.handle, stream, timeout_ms))

    def attach(self, nbytes, space="device", flags=0, name=None):
        """Collective: a new buffer, nbytes of it this rank's segment."""
        options = _buffer_options(space, flags, name)
        handle = _P()
        check(_lib.wharf_buffer_attach(self.handle, nbytes,
                                       ctypes.byref(options),
                                       ctypes.byref(handle)))
        return Buffer(self, handle)

    def attach_memory(self, array, flags=0, name=None):
        """Collective: shares the memory of an array of NumPy, CuPy or PyTorch
        that is there already; None: an empty segment. The array must stay alive
        and where it is until the detach: the buffer holds a reference."""
        pointer, nbytes, problem = _memory_of(array)
        options = _buffer_options("device", flags, name)
        handle = _P()
        # With a problem here the others are told by the call itself.
        status = _lib.wharf_buffer_attach_memory(
            self.handle, pointer, nbytes, ctypes.byref(options),
            ctypes.byref(handle))
        if problem:
            raise ValueError(problem)
        check(status)
        return Buffer(self, handle, array)


def _buffer_options(space, flags, name):
    return _BufferOptions(ctypes.sizeof(_BufferOptions), _SPACES[space], flags,
                          name.encode() if name else None)


def _memory_of(array):
    """(address, bytes, problem) of any array."""
    if array is None:
        return None, 0, None
    if hasattr(array, "data_ptr"):  # PyTorch
        if not array.is_contiguous():
            return None, 1, "the tensor is not contiguous"
        return (array.data_ptr(), array.numel() * array.element_size(), None)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        interface = array.__array_interface__
    if interface.get("strides") is not None:
        return None, 1, "the array is not contiguous"
    count = 1
    for extent in interface["shape"]:
        count *= extent
    return (interface["data"][0], count * int(interface["typestr"][2:]), None)


class Buffer:
    """wharf_buffer: one segment of memory a rank, all of them mapped here."""

    def __init__(self, node, handle, keep=None):
        self.node = node
        self.handle = handle
        self._keep = keep

    def segment(self, rank):
        """A rank's segment; make arrays from it."""
        pointer, size = _P(), _S()
        check(_lib.wharf_buffer_segment(self.handle, rank,
                                        ctypes.byref(pointer),
                                        ctypes.byref(size)))
        return Segment(self, rank, pointer.value or 0, size.value)

    def info(self, rank):
        info = Info(ctypes.sizeof(Info))
        check(_lib.wharf_buffer_info_get(self.handle, rank,
                                         ctypes.byref(info)))
        return info

    def sync_to(self, offset=0, nbytes=0, stream=None):
        """Brings the mirror of attach_memory up to date, if there is one."""
        check(_lib.wharf_buffer_sync_to(self.handle, offset, nbytes, stream))

    def sync_from(self, offset=0, nbytes=0, stream=None):
        check(_lib.wharf_buffer_sync_from(self.handle, offset, nbytes, stream))

    def publish(self, name, note="", writable=False):
        """For programs outside the job: see Joined."""
        options = _PublishOptions(ctypes.sizeof(_PublishOptions),
                                  note=note.encode(), writable=int(writable))
        check(_lib.wharf_buffer_publish(self.handle, name.encode(),
                                        ctypes.byref(options)))

    def unpublish(self):
        check(_lib.wharf_buffer_unpublish(self.handle))

    def detach(self):
        """Collective. No array of a segment may be touched afterwards: the
        memory is gone, and Python does not know."""
        check(_lib.wharf_buffer_detach(ctypes.byref(self.handle)))
        self._keep = None


class Joined:
    """wharf_joined: a buffer that a job on this machine has published, in a
    program outside the job. Needs no MPI."""

    def __init__(self, name, wait_ms=0, writable=False, uid=0xffffffff):
        options = _JoinedOptions(ctypes.sizeof(_JoinedOptions), uid=uid,
                                 writable=int(writable), wait_ms=wait_ms,
                                 keep_current=1)
        self.name = name
        self.handle = _P()
        check(_lib.wharf_join(name.encode(), ctypes.byref(options),
                              ctypes.byref(self.handle)))
        try:
            self._look()
        except BaseException:  # taken back meanwhile
            self.leave()
            raise

    def _look(self):
        _lib.wharf_joined_note.restype = _T
        self.note = _lib.wharf_joined_note(self.handle).decode(
            errors="replace")
        self.node = Node.__new__(Node)
        self.node.handle, self.node.comm = _P(), None
        check(_lib.wharf_joined_node(self.handle,
                                     ctypes.byref(self.node.handle)))
        self.node._ask()
        buffer = _P()
        check(_lib.wharf_joined_buffer(self.handle, ctypes.byref(buffer)))
        self.buffer = Buffer(self.node, buffer)

    def check(self):
        """Raises Error once the owner has taken the name back (ESTATE) or has
        ended (EPEER). What is mapped stays valid until leave."""
        check(_lib.wharf_joined_check(self.handle))

    def leave(self):
        """No array of a segment may be touched afterwards."""
        check(_lib.wharf_leave(ctypes.byref(self.handle)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()


# ---- Arrays without a copy -------------------------------------------------


class Segment:
    """Memory of one rank, as this process sees it."""

    def __init__(self, buffer, rank, address, nbytes):
        self.buffer = buffer
        self.rank = rank
        self.address = address
        self.nbytes = nbytes
        info = buffer.info(rank)
        self.on_gpu = info.space == 0 and buffer.node.backend == "cuda"
        self.readonly = bool(info.write_protected)

    def numpy(self, dtype="u1", shape=None):
        if self.on_gpu:
            raise TypeError("the segment is in GPU memory: use torch or cupy")
        import numpy
        return numpy.asarray(View(self, numpy.dtype(dtype), shape))

    def torch(self, dtype="u1", shape=None):
        """A tensor on this rank's own device, whose kernels reach the memory
        wherever it is."""
        import numpy
        import torch
        return torch.from_dlpack(View(self, numpy.dtype(dtype), shape))

    def cupy(self, dtype="u1", shape=None):
        import cupy
        return cupy.from_dlpack(View(self, cupy.dtype(dtype), shape))


class View:
    """A segment with a type and a shape, as the protocols for arrays want it:
    __array_interface__ for NumPy, DLPack for the others. DLPack names the
    device that is to work on the memory; __cuda_array_interface__ would have
    the framework ask the driver where it lies, and a peer's GPU come out."""

    def __init__(self, segment, dtype, shape):
        if shape is None:
            shape = (segment.nbytes // dtype.itemsize,)
        elif isinstance(shape, int):
            shape = (shape,)
        count = 1
        for extent in shape:
            count *= extent
        if count * dtype.itemsize > segment.nbytes:
            raise ValueError("%d bytes are asked for, the segment has %d" %
                             (count * dtype.itemsize, segment.nbytes))
        self.segment, self.dtype, self.shape = segment, dtype, tuple(shape)

    @property
    def __array_interface__(self):
        # An empty array must have an address all the same.
        address = self.segment.address or ctypes.addressof(_nothing)
        return {"shape": self.shape, "typestr": self.dtype.str, "version": 3,
                "data": (address, self.segment.readonly)}

    def __dlpack_device__(self):
        if not self.segment.on_gpu:
            return (1, 0)  # kDLCPU
        node = self.segment.buffer.node
        return (2, node.device(node.rank).ordinal)  # kDLCUDA

    def __dlpack__(self, **_):
        # No stream is waited for: order is made by events and barriers.
        managed = _Managed()
        tensor = managed.tensor
        count = len(self.shape)
        managed.keep = ((ctypes.c_int64 * count)(*self.shape), self)
        tensor.data = self.segment.address
        tensor.device_type, tensor.device_id = self.__dlpack_device__()
        tensor.ndim = count
        tensor.code = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}[self.dtype.kind]
        tensor.bits, tensor.lanes = 8 * self.dtype.itemsize, 1
        tensor.shape = managed.keep[0]
        managed.deleter = _forget
        _managed[ctypes.addressof(managed)] = managed
        return _capsule_new(ctypes.addressof(managed), _name, _forget_capsule)


class _Tensor(ctypes.Structure):
    """DLTensor, of the DLPack interface."""
    _fields_ = [("data", _P), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", _R(ctypes.c_int64)),
                ("strides", _R(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    """DLManagedTensor: what a capsule called "dltensor" holds."""
    _fields_ = [("tensor", _Tensor), ("context", _P),
                ("deleter", ctypes.CFUNCTYPE(None, _P))]


_nothing = ctypes.c_char()
_managed = {}  # by address, until the array that took it lets go
_name = b"dltensor"


@ctypes.CFUNCTYPE(None, _P)
def _forget(address):
    _managed.pop(address, None)


_capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_valid.argtypes = [_P, _T]
_capsule_get = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_get.argtypes, _capsule_get.restype = [_P, _T], _P


@ctypes.PYFUNCTYPE(None, _P)
def _forget_capsule(capsule):
    # Whoever took the tensor has renamed the capsule.
    if _capsule_valid(capsule, _name):
        _managed.pop(_capsule_get(capsule, _name), None)


_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.argtypes = [_P, _T, type(_forget_capsule)]
_capsule_new.restype = ctypes.py_object
