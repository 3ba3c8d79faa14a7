/* SPDX-License-Identifier: MIT */
/*
 * CPU versions of the library's own kernels, by the names under which the
 * library asks for them. One call runs the whole grid. To add one: write the
 * function, the list of the sizes of its parameters, and a line in the table;
 * fake_cuda.h says what it may call. Tests add their own at run time with
 * fakeCudaRegisterKernel.
 */
#include "fake.h"

const fc_kernel fc_kernel_table[] = {
    {NULL, NULL, NULL, NULL, 0},
};
