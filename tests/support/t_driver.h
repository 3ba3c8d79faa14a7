/* SPDX-License-Identifier: MIT */
/*
 * How the helpers of tests call the driver without the CUDA toolkit: entry
 * points found at run time in the library that Wharf takes as well, with the
 * types of cuda.h spelled plainly.
 */
#ifndef T_DRIVER_H
#define T_DRIVER_H

#include <stdint.h>

/* CUdeviceptr. */
typedef unsigned long long t_device_ptr;

static inline t_device_ptr t_driver_address(const void *pointer)
{
    return (t_device_ptr)(uintptr_t)pointer;
}

/* The real driver's name, or that of the one in its place. */
const char *t_driver_path(void);

/* Puts the address of an entry point into a pointer to a function; ends the
 * test where there is none. Loads the driver. */
void t_driver_find(const char *name, void *slot);

/* Ends the test unless a call that cannot fail in a right program gave 0. */
void t_driver_must(int result, const char *call);

#endif
