/* SPDX-License-Identifier: MIT */
/* The C half of t_fortran.f90: sizes, places and values as C has them, in the
 * order in which the Fortran half asks. */
#include <stddef.h>

#include <wharf/wharf.h>

size_t t_layout(int index);
int t_constant(int index);

size_t t_layout(int index)
{
    static const size_t layout[] = {sizeof(wharf_node_options),
                                    offsetof(wharf_node_options, refuse_bad),
                                    sizeof(wharf_buffer_options),
                                    offsetof(wharf_buffer_options, name),
                                    sizeof(wharf_notify_options),
                                    offsetof(wharf_notify_options, capturable),
                                    sizeof(wharf_device),
                                    offsetof(wharf_device, reason),
                                    sizeof(wharf_link),
                                    offsetof(wharf_link, reason),
                                    sizeof(wharf_buffer_info),
                                    offsetof(wharf_buffer_info, mirrored),
                                    sizeof(wharf_error),
                                    offsetof(wharf_error, remedy),
                                    offsetof(wharf_node_options, pool_bytes),
                                    offsetof(wharf_device, memory_bytes),
                                    offsetof(wharf_buffer_info, mapped_bytes)};

    return layout[index];
}

int t_constant(int index)
{
    static const int constant[] = {
#define VALUE(name, number, text) WHARF_##name,
        WHARF_STATUS_LIST(VALUE)
#undef VALUE
            WHARF_BACKEND_AUTO,
        WHARF_BACKEND_CUDA,
        WHARF_BACKEND_HOST,
        WHARF_SPACE_DEVICE,
        WHARF_SPACE_HOST,
        WHARF_SWITCH_UNSET,
        WHARF_SWITCH_ON,
        WHARF_SWITCH_OFF,
        WHARF_PATH_SAME_PROCESS,
        WHARF_PATH_SAME_GPU,
        WHARF_PATH_NVLINK,
        WHARF_PATH_PCIE_PEER,
        WHARF_PATH_HOST,
        (int)WHARF_BUFFER_CONTIGUOUS,
        (int)WHARF_BUFFER_SAME_ADDRESS,
        (int)WHARF_BUFFER_SAME_ADDRESS_REQUIRED,
        (int)WHARF_BUFFER_ZERO,
        (int)WHARF_BUFFER_READ_ONLY,
        (int)WHARF_BUFFER_STAGE_ALLOWED,
        (int)WHARF_BUFFER_EXPOSE_NEIGHBOURS,
        -1 /* a status that Fortran lacks moves the end */};

    return index < (int)(sizeof constant / sizeof *constant) ? constant[index]
                                                             : -2;
}
