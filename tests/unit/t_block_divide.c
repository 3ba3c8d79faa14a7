/* SPDX-License-Identifier: MIT */
/* How blocks are cut into physical pieces, and which handles are believed. */
#include "device/block.h"

#include "t_test.h"

#define MIB ((size_t)1 << 20)

static void divide(size_t bytes, size_t most, size_t chunk, int count)
{
    size_t got_chunk = 0;
    int got_count = 0;

    wi_block_divide(bytes, most, 2 * MIB, &got_chunk, &got_count);
    T_EQ_INT(count, got_count);
    T_EQ_INT(chunk, got_chunk);
}

/* For any size: whole units, no piece empty, no more of them than travel. */
static void check_sane(size_t bytes, size_t most)
{
    size_t chunk = 0;
    int count = 0;

    wi_block_divide(bytes, most, 2 * MIB, &chunk, &count);
    T_CHECK(count >= 1 && count <= WI_BLOCK_CHUNKS);
    T_EQ_INT(0, chunk % (2 * MIB));
    T_CHECK((size_t)(count - 1) * chunk < bytes);
    T_CHECK((size_t)count * chunk >= bytes);
    if (most >= 2 * MIB && bytes <= most * WI_BLOCK_CHUNKS / 2)
        T_CHECK(chunk <= most);
}

/* Handles that name their pieces themselves. */
static void plain(void)
{
    wi_handle handle = {
        .kind = WHARF_HANDLE_FABRIC, .bytes = 10 * MIB, .chunk_bytes = 4 * MIB};
    int pieces = 0;

    T_OK(wi_handle_plain_valid(&handle, WHARF_HANDLE_FABRIC, 8, &pieces));
    T_EQ_INT(3, pieces);
    T_STATUS(WHARF_EPROTOCOL,
             wi_handle_plain_valid(&handle, WHARF_HANDLE_FABRIC, 2, &pieces));
    T_STATUS(WHARF_EPROTOCOL,
             wi_handle_plain_valid(&handle, WHARF_HANDLE_VMM, 8, &pieces));
    handle.fds = 3; /* there are none with it */
    T_STATUS(WHARF_EPROTOCOL,
             wi_handle_plain_valid(&handle, WHARF_HANDLE_FABRIC, 8, &pieces));
    handle.fds = 0;
    handle.chunk_bytes = 0;
    T_STATUS(WHARF_EPROTOCOL,
             wi_handle_plain_valid(&handle, WHARF_HANDLE_FABRIC, 8, &pieces));
    handle.chunk_bytes = 11 * MIB; /* more than the block */
    T_STATUS(WHARF_EPROTOCOL,
             wi_handle_plain_valid(&handle, WHARF_HANDLE_FABRIC, 8, &pieces));
    handle.bytes = handle.chunk_bytes = 0;
    T_STATUS(WHARF_EPROTOCOL,
             wi_handle_plain_valid(&handle, WHARF_HANDLE_FABRIC, 8, &pieces));
    handle.bytes = UINT64_MAX;
    handle.chunk_bytes = 1;
    T_STATUS(WHARF_EPROTOCOL,
             wi_handle_plain_valid(&handle, WHARF_HANDLE_FABRIC, 8, &pieces));
    T_EQ_INT(3, pieces);
}

int main(void)
{
    wi_handle handle = {.kind = WHARF_HANDLE_VMM,
                        .fds = 3,
                        .bytes = 10 * MIB,
                        .chunk_bytes = 4 * MIB};

    divide(2 * MIB, 0, 2 * MIB, 1);
    divide(1024 * MIB, 0, 1024 * MIB, 1);
    divide(256 * MIB, 510 * MIB, 256 * MIB, 1);
    divide(512 * MIB, 510 * MIB, 256 * MIB, 2);
    divide(1024 * MIB, 510 * MIB, 342 * MIB, 3);
    divide(10 * MIB, 4 * MIB, 4 * MIB, 3);
    divide(10 * MIB, 5 * MIB, 4 * MIB, 3); /* rounded down to whole units */
    divide(10 * MIB, 1, 2 * MIB, 5);
    divide(256 * MIB, 2 * MIB, 4 * MIB, 64); /* no more than travel */
    for (size_t bytes = 2 * MIB; bytes <= 600 * MIB; bytes += 2 * MIB) {
        for (size_t most = 0; most <= 64 * MIB; most += 3 * MIB)
            check_sane(bytes, most);
    }

    T_OK(wi_handle_valid(&handle, WHARF_HANDLE_VMM, WI_BLOCK_CHUNKS));
    T_STATUS(WHARF_EPROTOCOL, wi_handle_valid(&handle, WHARF_HANDLE_VMM, 2));
    handle.fds = 4;
    T_STATUS(WHARF_EPROTOCOL,
             wi_handle_valid(&handle, WHARF_HANDLE_VMM, WI_BLOCK_CHUNKS));
    handle.fds = 2;
    T_STATUS(WHARF_EPROTOCOL,
             wi_handle_valid(&handle, WHARF_HANDLE_VMM, WI_BLOCK_CHUNKS));
    handle.fds = 64;
    handle.chunk_bytes = UINT64_MAX / 32;
    handle.bytes = UINT64_MAX;
    T_STATUS(WHARF_EPROTOCOL,
             wi_handle_valid(&handle, WHARF_HANDLE_VMM, WI_BLOCK_CHUNKS));
    plain();
    return 0;
}
