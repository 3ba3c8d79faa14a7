/* SPDX-License-Identifier: MIT */
/* What every Wharf header needs: symbol visibility, checked returns, version.
 */
#ifndef WHARF_BASE_H
#define WHARF_BASE_H

#include <stddef.h>
#include <stdint.h>

#include "wharf/version.h"

#ifdef __cplusplus
#define WHARF_BEGIN_DECLS extern "C" {
#define WHARF_END_DECLS }
#else
#define WHARF_BEGIN_DECLS
#define WHARF_END_DECLS
#endif

#if defined(__GNUC__)
#define WHARF_API __attribute__((visibility("default")))
#define WHARF_MUSTCHECK __attribute__((warn_unused_result))
#else
#define WHARF_API
#define WHARF_MUSTCHECK
#endif

/* A CUDA stream; cudaStream_t and CUstream fit without a cast. On the host
 * backend pass NULL: calls act at once. */
struct CUstream_st;
typedef struct CUstream_st *wharf_stream;

/* Most bytes of a reason that a call or a struct gives, without its end. */
#define WHARF_MAX_REASON 95

WHARF_BEGIN_DECLS

/**
 * The version of the library that is running, as WHARF_VERSION_NUMBER spells
 * it (major * 10000 + minor * 100 + patch).
 *
 * Local, any thread. Needs neither MPI nor an open node.
 *
 * @return the version number
 */
WHARF_API int wharf_version(void);

WHARF_END_DECLS

#endif
