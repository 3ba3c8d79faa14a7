/* SPDX-License-Identifier: MIT */
/* The one thing that only NVML tells: how many NVLinks join two GPUs. */
#ifndef WI_DEVICE_NVML_H
#define WI_DEVICE_NVML_H

/* Active NVLinks between two GPUs, or to the switch that joins them; 0 if
 * there are none, or NVML is not there or does not know the GPUs. Any
 * thread. `pci` is the other GPU's id, "0000:06:00.0". */
int wi_nvml_links(const unsigned char uuid[16], const char *pci);

#endif
