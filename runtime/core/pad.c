/* SPDX-License-Identifier: MIT */
/*
 * Pads: the words that signals go to. They lie in internal mappings of 64 KiB
 * a rank, so every rank reaches every word as it reaches a buffer. Which words
 * are taken is replicated state.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/core.h"
#include "core/signal.h"

struct wi_pad_page {
    wi_mapping *mapping;
    uint8_t *taken; /* bits: WI_PAD_WORDS for each rank */
};

/* ---- Which words are taken
 * ---------------------------------------------------- */

static uint8_t *taken_of(const wi_pad_page *page, int rank)
{
    return page->taken + (size_t)rank * (WI_PAD_WORDS / 8);
}

static bool is_taken(const uint8_t *taken, int word)
{
    return taken[word / 8] >> (word % 8) & 1;
}

static void mark(uint8_t *taken, int first, int count, bool on)
{
    for (int w = first; w < first + count; w++) {
        uint8_t bit = (uint8_t)(1u << (w % 8));
        taken[w / 8] = (uint8_t)(on ? taken[w / 8] | bit : taken[w / 8] & ~bit);
    }
}

static bool run_find(const wi_pad_page *page, wi_pad_run *run)
{
    const uint8_t *taken = taken_of(page, run->rank);
    int free_words = 0;
    for (int w = 0; w < WI_PAD_WORDS; w++) {
        free_words = is_taken(taken, w) ? 0 : free_words + 1;
        if (free_words == run->count) {
            run->first = w - run->count + 1;
            return true;
        }
    }
    return false;
}

static void toggle(wharf_node *node, const wi_pad_run *run)
{
    wi_node_toggle(node, 1 + (uint32_t)(run->page * node->size + run->rank),
                   (uint32_t)run->first, (uint32_t)run->count);
}

/* In the pages that are there. */
static bool run_take(wharf_node *node, wi_pad_run *run)
{
    for (int p = 0; p < node->pad_pages; p++)
        if (run_find(node->pads[p], run)) {
            mark(taken_of(node->pads[p], run->rank), run->first, run->count,
                 true);
            run->page = p;
            toggle(node, run);
            return true;
        }
    return false;
}

void wi_pad_give(wharf_node *node, int runs, wi_pad_run *run)
{
    for (int i = 0; i < runs; i++) {
        if (run[i].page >= 0) {
            mark(taken_of(node->pads[run[i].page], run[i].rank), run[i].first,
                 run[i].count, false);
            toggle(node, &run[i]);
        }
        run[i].page = -1;
    }
}

/* ---- Pages
 * ---------------------------------------------------------------------- */

static void page_delete(wi_pad_page *page)
{
    if (!page)
        return;
    wi_free(page->taken);
    wi_free(page);
}

static wharf_status page_map(wharf_node *node, uint64_t *sizes,
                             wi_pad_page *page, wi_deadline deadline)
{
    for (int r = 0; r < node->size; r++)
        sizes[r] = WI_PAD_BYTES;
    wi_attach attach = {
        .flags = WI_MAPPING_NO_EVENTS,
        .space = WHARF_SPACE_DEVICE,
        .sizes = sizes,
    };
    return wi_mapping_make(node, 1, &attach, &page->mapping, deadline);
}

/* Collective. */
static wharf_status page_add(wharf_node *node, wi_deadline deadline)
{
    if (node->pad_pages == WI_PAD_PAGES)
        return wi_decided_alike(
            wi_fail(WHARF_ELIMIT, "destroy notifies or barriers",
                    "the node's %d words for signals are all in use",
                    WI_PAD_PAGES * WI_PAD_WORDS));
    wi_pad_page *page = NULL;
    uint64_t *sizes = wi_calloc((size_t)node->size, sizeof *sizes);
    wharf_status status = WHARF_ENOMEM;
    if (sizes && WI_NEW(page)) {
        page->taken = wi_calloc((size_t)node->size, WI_PAD_WORDS / 8);
        if (page->taken)
            status = WHARF_OK;
    }
    status = wi_comm_agree(node->comm, status, deadline);
    if (status == WHARF_OK)
        status = page_map(node, sizes, page, deadline);
    wi_free(sizes);
    if (status != WHARF_OK) {
        page_delete(page);
        return status;
    }
    node->pads[node->pad_pages++] = page;
    return WHARF_OK;
}

wharf_status wi_pad_take(wharf_node *node, int runs, wi_pad_run *run,
                         wi_deadline deadline)
{
    for (int i = 0; i < runs; i++)
        run[i].page = -1;
    for (int i = 0; i < runs; i++) {
        if (run[i].count > WI_PAD_WORDS)
            return wi_decided_alike(
                wi_fail(WHARF_ELIMIT, "use fewer ranks",
                        "%d words for signals are needed in one rank's "
                        "memory; the most is %d",
                        run[i].count, WI_PAD_WORDS));
        while (!run_take(node, &run[i])) {
            wharf_status status = page_add(node, deadline);
            if (status != WHARF_OK) {
                wi_pad_give(node, i, run);
                return status;
            }
        }
    }
    return WHARF_OK;
}

static void page_drop(wharf_node *node, wi_deadline deadline)
{
    wi_pad_page *page = node->pads[--node->pad_pages];
    node->pads[node->pad_pages] = NULL;
    wharf_ignore(wi_mapping_free(node, 1, &page->mapping, deadline));
    page_delete(page);
}

void wi_pad_close(wharf_node *node, wi_deadline deadline)
{
    while (node->pad_pages)
        page_drop(node, deadline);
}

static bool page_is_free(const wharf_node *node, const wi_pad_page *page)
{
    size_t bytes = (size_t)node->size * (WI_PAD_WORDS / 8);
    for (size_t i = 0; i < bytes; i++)
        if (page->taken[i])
            return false;
    return true;
}

void wi_pad_trim(wharf_node *node, wi_deadline deadline)
{
    wharf_error cause = *wi_error_record();
    while (node->pad_pages &&
           page_is_free(node, node->pads[node->pad_pages - 1]))
        page_drop(node, deadline);
    *wi_error_record() = cause;
}

/* ---- Words
 * ---------------------------------------------------------------------- */

static char *run_start(const wharf_node *node, const wi_pad_run *run)
{
    char *segment =
        wi_mapping_segment(node->pads[run->page]->mapping, run->rank);
    return segment + (size_t)run->first * WI_PAD_STRIDE;
}

uint32_t *wi_pad_word(const wharf_node *node, const wi_pad_run *run, int word)
{
    return (uint32_t *)(void *)(run_start(node, run) +
                                (size_t)word * WI_PAD_STRIDE);
}

wharf_status wi_pad_set(const wharf_node *node, const wi_pad_run *run,
                        uint32_t value)
{
    wi_device *device = node->device;
    size_t bytes = (size_t)run->count * WI_PAD_STRIDE;
    if (value == 0)
        return device->ops->fill_zero(device, run_start(node, run), bytes);
    char *words = wi_calloc(1, bytes);
    if (!words)
        return WHARF_ENOMEM;
    for (int w = 0; w < run->count; w++)
        memcpy(words + (size_t)w * WI_PAD_STRIDE, &value, sizeof value);
    wharf_status status =
        device->ops->write(device, run_start(node, run), words, bytes);
    wi_free(words);
    return status;
}

bool wi_pad_on_host(const wharf_node *node)
{
    for (int p = 0; p < node->pad_pages; p++)
        if (node->pads[p]->mapping->way->ops->space == WHARF_SPACE_HOST)
            return true;
    if (node->pad_pages > 0 || node->device_first >= node->device_ways)
        return false;
    return node->device_way[node->device_first].ops->space == WHARF_SPACE_HOST;
}
