/* SPDX-License-Identifier: MIT */
/* The two messages by which a rank and rank 0 know each other. The first byte
 * says how many descriptors came along, the rest is the message. */
#include "comm/private.h"
#include "fuzz.h"

#define RANKS 5
#define CONTROL_BYTES 0x3000

/* Both the token and the answer of this opening. */
static const unsigned char secret[17] = "0123456789abcdef";

static bool holds_secret(const uint8_t *data, size_t size)
{
    return size >= 16 && memcmp(data + size - 16, secret, 16) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fds = size ? (int8_t)data[0] : 0;
    void *message;
    wharf_status status;
    int rank;

    wi_log_set_level(WI_LOG_NONE);
    data += size > 0;
    size -= size > 0;
    message = fuzz_copy(data, size, false);
    rank = wi_hello_join_rank(message, size, secret, RANKS);
    FUZZ_CHECK(rank == -1 || (rank > 0 && rank < RANKS));
    FUZZ_CHECK(rank == -1 || holds_secret(data, size));
    status = wi_hello_welcome_check(message, size, fds, secret, CONTROL_BYTES,
                                    RANKS - 1);
    if (fuzz_answer(status, FUZZ_BIT(WHARF_EOS) | FUZZ_BIT(WHARF_EMISMATCH)))
        FUZZ_CHECK(fds == 1 && holds_secret(data, size));
    free(message);
    fuzz_nothing_left();
    return 0;
}
