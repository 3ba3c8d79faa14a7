/* SPDX-License-Identifier: MIT */
/* Memory of another process that arrives in a way that no rank sends it: said,
 * with nothing left open. Over the fake driver. */
#include "device/foreign.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/stat.h"
#include "base/sys.h"
#include "t_test.h"

static wi_device *device;
static const wi_foreign_ops *foreign;

static void expect(wharf_status status, const wi_foreign_card *card,
                   wi_access access)
{
    wi_block *block = NULL;

    T_STATUS(status, foreign->open(device, card, 7, access, &block));
    T_CHECK(block == NULL);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_blocks_imported));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_ranges));
}

static wi_foreign_card pieces(void)
{
    return (wi_foreign_card){.kind = WI_FOREIGN_PIECES,
                             .pieces = 2,
                             .bytes = 3u << 20,
                             .whole = 4u << 20};
}

static void bad_cards(void)
{
    wi_foreign_card card = pieces();

    card.kind = 0;
    expect(WHARF_EPROTOCOL, &card, WI_ACCESS_READ_WRITE);
    card.kind = WI_FOREIGN_HOST;
    expect(WHARF_EPROTOCOL, &card, WI_ACCESS_READ_WRITE);
    card.kind = 0xffffffffu;
    expect(WHARF_EPROTOCOL, &card, WI_ACCESS_READ_WRITE);
    card = pieces();
    card.bytes = 0;
    expect(WHARF_EPROTOCOL, &card, WI_ACCESS_READ_WRITE);
    card.bytes = card.whole + 1;
    expect(WHARF_EPROTOCOL, &card, WI_ACCESS_READ_WRITE);
    card = pieces();
    card.offset = (1u << 20) + 1;
    expect(WHARF_EPROTOCOL, &card, WI_ACCESS_READ_WRITE);
    card.offset = UINT64_MAX;
    expect(WHARF_EPROTOCOL, &card, WI_ACCESS_READ_WRITE);
    card = pieces();
    card.pieces = 0;
    expect(WHARF_EPROTOCOL, &card, WI_ACCESS_READ_WRITE);
    card.pieces = WI_FOREIGN_PIECES_MOST + 1;
    expect(WHARF_EPROTOCOL, &card, WI_ACCESS_READ_WRITE);
    card = pieces();
    card.kind = WI_FOREIGN_LEGACY;
    expect(WHARF_EUNSUPPORTED, &card, WI_ACCESS_READ);
    /* A handle of nobody: the driver's answer. */
    expect(WHARF_EDRIVER, &card, WI_ACCESS_READ_WRITE);
}

static int some_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    T_CHECK(fd >= 0);
    wi_sys_adopt(fd);
    return fd;
}

/* Whatever is wrong, descriptors are closed and the block can be closed. */
static void bad_pieces(uint32_t pages, int count, wharf_status status)
{
    wi_foreign_card card = pieces();
    wi_block *block = NULL;
    uint32_t sizes[3] = {pages, pages, pages};
    void *pointer = NULL;
    int fds[3];

    T_OK(foreign->open(device, &card, 7, WI_ACCESS_READ_WRITE, &block));
    for (int i = 0; i < count; i++)
        fds[i] = some_fd();
    T_STATUS(status, foreign->add(device, block, sizes, fds, count));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    T_STATUS(WHARF_EPROTOCOL, foreign->map(device, block, &pointer));
    T_CHECK(pointer == NULL);
    foreign->close(device, block);
}

static void bad_pool(void)
{
    wi_foreign_card card = pieces();
    wi_block *block = NULL;
    uint32_t sizes[2] = {0, 0};
    void *pointer = NULL;
    int fds[2];

    card.kind = WI_FOREIGN_POOL;
    T_OK(foreign->open(device, &card, 7, WI_ACCESS_READ_WRITE, &block));
    T_STATUS(WHARF_EPROTOCOL, foreign->map(device, block, &pointer));
    fds[0] = some_fd();
    fds[1] = some_fd();
    T_STATUS(WHARF_EPROTOCOL, foreign->add(device, block, sizes, fds, 2));
    fds[0] = some_fd();
    T_STATUS(WHARF_EDRIVER, foreign->add(device, block, sizes, fds, 1));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    foreign->close(device, block);
}

int main(void)
{
    wi_device_desc desc;
    int count = 0;

    T_OK(wi_device_cuda.enumerate(&desc, 1, &count));
    T_OK(wi_device_cuda.open(&desc, &device));
    foreign = device->ops->foreign;
    bad_cards();
    bad_pieces(512, 1, WHARF_EDRIVER);           /* no memory at all */
    bad_pieces(0, 1, WHARF_EPROTOCOL);           /* no size */
    bad_pieces(0xffffffffu, 1, WHARF_EPROTOCOL); /* more than announced */
    bad_pieces(512, 3, WHARF_EDRIVER);
    bad_pool();
    foreign->close(device, NULL);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_blocks_imported));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_device_bytes_imported));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_ranges));
    device->ops->close(device);
    return 0;
}
