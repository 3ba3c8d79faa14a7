! SPDX-License-Identifier: MIT
!
! Constants and structs of Wharf's C headers. A struct's struct_size is set by
! the procedures of module wharf.
module wharf_types
  use, intrinsic :: iso_c_binding
  implicit none

  enum, bind(c)
    enumerator :: WHARF_OK = 0, WHARF_EARG = 1, WHARF_EMISMATCH = 2, &
      WHARF_ECONFIG = 3, WHARF_ESTATE = 4, WHARF_ENOMEM = 5, &
      WHARF_EDEVMEM = 6, WHARF_ENODEV = 7, WHARF_EUNSUPPORTED = 8, &
      WHARF_EDEGRADED = 9, WHARF_ELIMIT = 10, WHARF_ETIMEDOUT = 11, &
      WHARF_ENOTREADY = 12, WHARF_EOS = 13, WHARF_EDRIVER = 14, &
      WHARF_EMPI = 15, WHARF_ECLOSED = 16, &
      WHARF_EWORKER = 17, WHARF_EDATA = 20, WHARF_EPEER = 40, &
      WHARF_EFAULT = 41, WHARF_EPROTOCOL = 42
  end enum
  enum, bind(c)
    enumerator :: WHARF_BACKEND_AUTO = 0, WHARF_BACKEND_CUDA = 1, &
      WHARF_BACKEND_HOST = 2
    enumerator :: WHARF_SPACE_DEVICE = 0, WHARF_SPACE_HOST = 1
    enumerator :: WHARF_SWITCH_UNSET = 0, WHARF_SWITCH_ON = 1, &
      WHARF_SWITCH_OFF = 2
    enumerator :: WHARF_PATH_SAME_PROCESS = 0, WHARF_PATH_SAME_GPU = 1, &
      WHARF_PATH_NVLINK = 2, WHARF_PATH_PCIE_PEER = 3, WHARF_PATH_HOST = 4
    enumerator :: WHARF_BUFFER_CONTIGUOUS = 1, WHARF_BUFFER_SAME_ADDRESS = 2, &
      WHARF_BUFFER_SAME_ADDRESS_REQUIRED = 4, WHARF_BUFFER_ZERO = 8, &
      WHARF_BUFFER_READ_ONLY = 16, WHARF_BUFFER_STAGE_ALLOWED = 32, &
      WHARF_BUFFER_EXPOSE_NEIGHBOURS = 64
  end enum
  integer(c_int64_t), parameter :: WHARF_LATEST = 0_c_int64_t

  ! ---- Objects: a C handle each -----------------------------------------

  type :: wharf_node
    type(c_ptr) :: handle = c_null_ptr
  end type
  type :: wharf_buffer
    type(c_ptr) :: handle = c_null_ptr
  end type
  type :: wharf_event
    type(c_ptr) :: handle = c_null_ptr
  end type
  type :: wharf_notify
    type(c_ptr) :: handle = c_null_ptr
  end type
  type :: wharf_barrier
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! ---- Structs ----------------------------------------------------------

  type, bind(c) :: wharf_node_options
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: backend = 0, placement = 0
    type(c_ptr) :: device_map = c_null_ptr
    integer(c_int) :: timeout_ms = 0, strict = 0, keep_current = 0, pool = 0
    integer(c_size_t) :: pool_bytes = 0
    integer(c_int) :: bind = 0, refuse_bad = 0
  end type

  type, bind(c) :: wharf_buffer_options
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: space = 0, flags = 0
    type(c_ptr) :: name = c_null_ptr
  end type

  type, bind(c) :: wharf_notify_options
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: mechanism = 0, capturable = 0
  end type

  type, bind(c) :: wharf_device
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: gpu = -1, ordinal = -1, owner = -1, users = 0
    character(kind=c_char) :: uuid(48) = c_null_char
    character(kind=c_char) :: pci(16) = c_null_char
    character(kind=c_char) :: name(64) = c_null_char
    integer(c_int64_t) :: memory_bytes = 0
    integer(c_int) :: distance = -1
    character(kind=c_char) :: reason(96) = c_null_char
  end type

  type, bind(c) :: wharf_link
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: path = 0, nvlinks = 0
    character(kind=c_char) :: reason(96) = c_null_char
  end type

  type, bind(c) :: wharf_buffer_info
    integer(c_size_t) :: struct_size = 0
    integer(c_int) :: handle = 0, space = 0, path = 0, owner = -1, chunks = 0
    integer(c_int64_t) :: chunk_bytes = 0, mapped_bytes = 0
    integer(c_int) :: same_address = 0, write_protected = 0, pooled = 0
    character(kind=c_char) :: reason(96) = c_null_char
    integer(c_int) :: existing = 0, mirrored = 0
  end type

  type, bind(c) :: wharf_error
    integer(c_int) :: status = 0, source = 0, native = 0, rank = -1
    character(kind=c_char) :: call(40) = c_null_char
    character(kind=c_char) :: cause(208) = c_null_char
    character(kind=c_char) :: remedy(120) = c_null_char
  end type

end module wharf_types
