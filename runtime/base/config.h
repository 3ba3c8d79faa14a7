/* SPDX-License-Identifier: MIT */
/*
 * The settings that come from the environment. One table makes the parser, the
 * help text and the documentation.
 */
#ifndef WI_BASE_CONFIG_H
#define WI_BASE_CONFIG_H

#include <stdint.h>
#include <stdio.h>

#include "wharf/status.h"

/*
 * id, environment variable, type, values or range, default, meaning.
 *
 * Types: CHOICE (values "a|b|c", result is the position, 0 up), BOOL ("0|1",
 * also on/off, yes/no, true/false, result 0 or 1), INT (range "min..max"),
 * SIZE (bytes with optional k, m, g suffix, 1024-based; range as INT), TEXT.
 */
#define WI_SETTINGS(X)                                                         \
    X(BACKEND, "WHARF_BACKEND", CHOICE, "auto|cuda|host", "auto",              \
      "what holds device-space buffers")                                       \
    X(PLACEMENT, "WHARF_PLACEMENT", CHOICE, "auto|closest|block|round_robin",  \
      "auto", "how ranks are given GPUs")                                      \
    X(DEVICE_MAP, "WHARF_DEVICE_MAP", TEXT, "list", "",                        \
      "one GPU a rank, comma separated: index, UUID or PCI id")                \
    X(TIMEOUT_MS, "WHARF_TIMEOUT_MS", INT, "1..86400000", "30000",             \
      "deadline of collectives and waits, in ms")                              \
    X(STRICT, "WHARF_STRICT", BOOL, "0|1", "0",                                \
      "refuse slower paths instead of taking them with a warning")             \
    X(KEEP_CURRENT, "WHARF_KEEP_CURRENT", BOOL, "0|1", "0",                    \
      "leave the calling thread's current CUDA device as it is")               \
    X(BIND, "WHARF_BIND", BOOL, "0|1", "0",                                    \
      "bind ranks that came unbound to CPUs near their GPUs")                  \
    X(REFUSE_BAD, "WHARF_REFUSE_BAD", BOOL, "0|1", "0",                        \
      "refuse a plan in which a rank is far from its GPU, or the like")        \
    X(POOL, "WHARF_POOL", BOOL, "0|1", "1",                                    \
      "keep detached blocks mapped for the next attach of the same shape")     \
    X(POOL_BYTES, "WHARF_POOL_BYTES", SIZE, "0..1125899906842624", "1g",       \
      "most bytes of one GPU that the pool keeps")                             \
    X(HANDLE, "WHARF_HANDLE", CHOICE, "auto|vmm|ipc|fabric", "auto",           \
      "kind of CUDA handle that carries device memory")                        \
    X(CHUNK_BYTES, "WHARF_CHUNK_BYTES", SIZE, "0..1125899906842624", "0",      \
      "size of physical chunks; 0: by measured cost")                          \
    X(MECHANISM, "WHARF_MECHANISM", CHOICE, "auto|kernel|mem-ops|hybrid",      \
      "auto", "how notifies and barriers signal on GPUs")                      \
    X(HOST_MEMORY, "WHARF_HOST_MEMORY", CHOICE, "auto|vmm|memfd", "auto",      \
      "kind of memory of host-space buffers on a node with GPUs")              \
    X(CHECK_RACES, "WHARF_CHECK_RACES", BOOL, "0|1", "0",                      \
      "look for ring slots that are written while others hold them; slow")     \
    X(LEND, "WHARF_LEND", CHOICE, "keep|off", "keep",                          \
      "keep descriptors of imported memory, to lend it to workers")            \
    X(EXCHANGE_PIECE, "WHARF_EXCHANGE_PIECE", SIZE, "0..268435456", "0",       \
      "bytes of one message to another node; 0: 1 MiB where they are staged")  \
    X(EXCHANGE_REMOTE, "WHARF_EXCHANGE_REMOTE", BOOL, "0|1", "0",              \
      "exchanges reach every rank by MPI, as if each were a node of its own")  \
    X(COPY, "WHARF_COPY", CHOICE, "auto|engine|kernel", "auto",                \
      "what puts and gets go by on GPUs, where both are possible")             \
    X(COPY_KERNEL_MOST, "WHARF_COPY_KERNEL_MOST", SIZE, "0..1125899906842624", \
      "0", "bytes in one piece up to which a kernel copies; 0: as measured")   \
    X(COPY_BLOCKS, "WHARF_COPY_BLOCKS", INT, "1..4096", "64",                  \
      "most blocks of a kernel that copies")                                   \
    X(CUDA_AWARE, "WHARF_CUDA_AWARE", CHOICE, "auto|on|off", "auto",           \
      "give MPI device pointers; auto: if it says that it takes them")         \
    X(CUDA_DRIVER, "WHARF_CUDA_DRIVER", TEXT, "path", "",                      \
      "driver library to load instead of libcuda.so.1")                        \
    X(LOG, "WHARF_LOG", CHOICE, "none|error|warn|info|debug", "warn",          \
      "what is written to stderr")                                             \
    X(TRACE, "WHARF_TRACE", CHOICE, "off|nvtx", "off",                         \
      "ranges on the timeline of a profiler that knows NVTX")                  \
    X(STATS, "WHARF_STATS", BOOL, "0|1", "0",                                  \
      "print all counters when the last node is closed")

typedef enum wi_setting {
#define WI_SETTING_ENUM(id, variable, type, values, preset, text)              \
    WI_SETTING_##id,
    WI_SETTINGS(WI_SETTING_ENUM)
#undef WI_SETTING_ENUM
        WI_SETTING_COUNT
} wi_setting;

/* Value of a CHOICE, BOOL, INT or SIZE setting: from the environment, else the
 * default. WHARF_ECONFIG names variable, value, rank and what is allowed.
 * *given (may be NULL) tells whether the environment set it. */
wharf_status wi_config_number(wi_setting setting, int64_t *value, int *given);

/* Value of a TEXT setting; "" when unset. The string belongs to the
 * environment. */
const char *wi_config_text(wi_setting setting);

/* Checks the whole environment: WHARF_ECONFIG for a setting with a bad value. A
 * variable that starts with WHARF_ and is not in the table is no failure, but a
 * warning with the nearest name. */
wharf_status wi_config_check(void);

/* Parses one value as the table says; used by wi_config_number and by tests
 * and fuzzers. */
wharf_status wi_config_parse(wi_setting setting, const char *text,
                             int64_t *value);

/* The help text: one setting a paragraph. */
void wi_config_print(FILE *file);

/* Name of the environment variable. */
const char *wi_config_variable(wi_setting setting);

#endif
