/* SPDX-License-Identifier: MIT */
/*
 * Handles of memory from another rank: checked for every kind, and imported and
 * mapped by the host backend. The first bytes say how many descriptors come
 * along and how large their memory is; the rest is the handle.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"
#include "device/block.h"
#include "device/device.h"
#include "fuzz.h"

#define HEAD 2
#define PAGE 4096

static const uint64_t documented =
    FUZZ_BIT(WHARF_EPROTOCOL) | FUZZ_BIT(WHARF_EOS);

static wi_device *device;
static const wi_memory_ops *memory;

/* Pieces of chunk_bytes make up the block exactly; nothing else is accepted. */
static void valid_check(const wi_handle *handle)
{
    unsigned __int128 pieces = handle->fds ? handle->fds : 1;
    unsigned __int128 all = pieces * handle->chunk_bytes;

    for (int k = WHARF_HANDLE_MEMFD; k <= WHARF_HANDLE_IPC; k++) {
        wharf_handle_kind kind = (wharf_handle_kind)k;

        if (!fuzz_answer(wi_handle_valid(handle, kind, WI_BLOCK_CHUNKS),
                         FUZZ_BIT(WHARF_EPROTOCOL)))
            continue;
        FUZZ_CHECK(handle->kind == (uint32_t)kind && handle->bytes > 0);
        FUZZ_CHECK(handle->fds <= WI_BLOCK_CHUNKS);
        FUZZ_CHECK(all >= handle->bytes &&
                   all - handle->chunk_bytes < handle->bytes);
    }
}

static void import_check(const wi_handle *handle, size_t bytes)
{
    int fds[WI_BLOCK_CHUNKS];
    wi_block *block = NULL;
    wharf_status status;

    /* More descriptors than the message held are refused before. */
    for (uint32_t i = 0; i < handle->fds && i < WI_BLOCK_CHUNKS; i++)
        FUZZ_CHECK(!wi_sys_memfd("fuzz", bytes, &fds[i]));
    status = memory->import(device, handle, fds, &block);
    FUZZ_CHECK((block != NULL) == (status == WHARF_OK));
    if (!fuzz_answer(status, documented))
        return;
    FUZZ_CHECK(handle->bytes <= bytes);
    memory->destroy(device, block);
}

static void device_open(void)
{
    wi_device_desc desc;
    char reason[96];
    int count = 0;

    FUZZ_CHECK(!wi_device_host.enumerate(&desc, 1, &count) && count == 1);
    FUZZ_CHECK(!wi_device_host.open(&desc, &device));
    memory = device->ops->memory(device, WHARF_HANDLE_MEMFD, reason);
    FUZZ_CHECK(memory != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    wi_handle handle = {0};
    size_t bytes = size > HEAD ? data[1] * (size_t)PAGE + 1 : 1;

    wi_log_set_level(WI_LOG_NONE);
    if (size > HEAD)
        memcpy(&handle, data + HEAD,
               size - HEAD < sizeof handle ? size - HEAD : sizeof handle);
    valid_check(&handle);
    device_open();
    if (size && data[0] & 1)
        handle.fds = 1;
    import_check(&handle, bytes);
    device->ops->close(device);
    fuzz_nothing_left();
    return 0;
}
