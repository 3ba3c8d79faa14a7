/* SPDX-License-Identifier: MIT */
/* What the two halves of foreign memory share: cuda_foreign.c is its owner's
 * side, cuda_foreign_open.c that of the other ranks. */
#ifndef WI_DEVICE_CUDA_FOREIGN_H
#define WI_DEVICE_CUDA_FOREIGN_H

#include "device/foreign.h"

wharf_status wi_cuda_foreign_open(wi_device *device,
                                  const wi_foreign_card *card, uint64_t owner,
                                  wi_access access, wi_block **block);
wharf_status wi_cuda_foreign_add(wi_device *device, wi_block *block,
                                 const uint32_t *pages, const int *fds,
                                 int count);
wharf_status wi_cuda_foreign_map(wi_device *device, wi_block *block,
                                 void **pointer);
void wi_cuda_foreign_close(wi_device *device, wi_block *block);

#endif
