/* SPDX-License-Identifier: MIT */
/* Names of devices as people and launchers write them: in device maps and in
 * lists of visible devices. No global state; fit for a fuzzer. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "topo/plan.h"

#define TOKEN_SHOWN 48

static int shown(size_t length)
{
    return length > TOKEN_SHOWN ? TOKEN_SHOWN : (int)length;
}

int wi_entries_count(const char *text, char separator)
{
    int count = 1;
    for (; *text; text++)
        count += *text == separator;
    return count;
}

/* Takes the next entry off *text; blanks around it do not count. */
static void entry_take(const char **text, const char *stop, const char **token,
                       size_t *length)
{
    const char *at = *text;
    size_t size = strcspn(at, stop);

    *text = at + size;
    while (size && isspace((unsigned char)*at)) {
        at++;
        size--;
    }
    while (size && isspace((unsigned char)at[size - 1]))
        size--;
    *token = at;
    *length = size;
}

static bool all_digits(const char *token, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (token[i] < '0' || token[i] > '9')
            return false;
    return length > 0;
}

static bool starts(const char *uuid, const char *token, size_t length)
{
    return strlen(uuid) >= length && !strncasecmp(uuid, token, length);
}

static bool looks_like_uuid(const char *token, size_t length)
{
    return length > 4 &&
           (!strncasecmp(token, "GPU-", 4) || !strncasecmp(token, "MIG-", 4));
}

static wharf_status unique(int count, const char *token, size_t length,
                           const char *what)
{
    if (count == 1)
        return WHARF_OK;
    if (count > 1)
        return wi_fail(WHARF_EARG, "write more of the UUID",
                       "\"%.*s\" means %d GPUs of this node by %s",
                       shown(length), token, count, what);
    return wi_fail(WHARF_EARG,
                   "name a GPU of this node by index, UUID or PCI id",
                   "\"%.*s\" is the %s of no GPU of this node", shown(length),
                   token, what);
}

static wharf_status find_uuid(const wi_topo_gpu *gpu, int gpus,
                              const char *token, size_t length, int *index)
{
    int count = 0, found = 0;
    wharf_status status;

    for (int g = 0; g < gpus; g++)
        if (gpu[g].uuid[0] && starts(gpu[g].uuid, token, length)) {
            found = g;
            count++;
        }
    status = unique(count, token, length, "UUID");
    if (status == WHARF_OK)
        *index = found;
    return status;
}

static wharf_status find_pci(const wi_topo_gpu *gpu, int gpus,
                             const char *token, size_t length,
                             const unsigned part[4], int *index)
{
    int count = 0, found = 0;
    wharf_status status;

    for (int g = 0; g < gpus; g++) {
        unsigned own[4];
        if (wi_pci_parse(gpu[g].pci, strlen(gpu[g].pci), own) &&
            !memcmp(own, part, sizeof own)) {
            found = g;
            count++;
        }
    }
    status = unique(count, token, length, "PCI id");
    if (status == WHARF_OK)
        *index = found;
    return status;
}

wharf_status wi_device_find(const wi_topo_gpu *gpu, int gpus, const char *token,
                            size_t length, int *index)
{
    unsigned part[4];

    if (all_digits(token, length)) {
        int value = 0;
        for (size_t i = 0; i < length && value < gpus; i++)
            value = value * 10 + (token[i] - '0');
        if (value >= gpus)
            return wi_fail(WHARF_EARG, "indices count in PCI order from 0",
                           "GPU \"%.*s\" does not exist: this node has %d",
                           shown(length), token, gpus);
        *index = value;
        return WHARF_OK;
    }
    if (looks_like_uuid(token, length))
        return find_uuid(gpu, gpus, token, length, index);
    if (wi_pci_parse(token, length, part))
        return find_pci(gpu, gpus, token, length, part, index);
    return wi_fail(WHARF_EARG, "write an index, a UUID or a PCI id",
                   "\"%.*s\" names no GPU", shown(length), token);
}

wharf_status wi_map_parse(const wi_topo_gpu *gpu, int gpus, const char *text,
                          int ranks, int *map)
{
    int entries = wi_entries_count(text, ',');

    if (entries != ranks)
        return wi_fail(WHARF_EARG, "give one entry a rank",
                       "device map has %d entries for %d ranks", entries,
                       ranks);
    for (int r = 0; r < ranks; r++) {
        const char *token;
        size_t length;
        wharf_status status;
        entry_take(&text, ",", &token, &length);
        text += *text != 0;
        if (!length)
            return wi_fail(WHARF_EARG, "give one entry a rank",
                           "device map is empty at rank %d", r);
        status = wi_device_find(gpu, gpus, token, length, &map[r]);
        if (status != WHARF_OK)
            return status;
    }
    return WHARF_OK;
}

/*
 * One rank's list. CUDA cuts it at the first entry that is no device; so does
 * this, and takes an entry that repeats a device for a bad one too, since a
 * rank cannot use it.
 */
static void list_read(const wi_topo_gpu *gpu, int gpus, const char **text,
                      wi_plan_rank *rank)
{
    rank->visible = 0;
    if (**text == 0 || **text == '/')
        return;
    for (;;) {
        const char *token;
        size_t length;
        int index = 0;
        entry_take(text, ",/", &token, &length);
        if (!rank->cut) {
            if (wi_device_find(gpu, gpus, token, length, &index) != WHARF_OK ||
                rank->visible >> index & 1) {
                rank->cut = true;
                snprintf(rank->token, sizeof rank->token, "%.*s", shown(length),
                         token);
            } else {
                rank->visible |= UINT64_C(1) << index;
            }
        }
        if (**text != ',')
            return;
        ++*text;
    }
}

wharf_status wi_visible_parse(const wi_topo_gpu *gpu, int gpus,
                              const char *text, int ranks, wi_plan_rank *rank)
{
    int entries = wi_entries_count(text, '/');
    wharf_error kept = *wi_error_record();

    if (entries != ranks)
        return wi_fail(WHARF_EARG, "give one list a rank, '-' for none",
                       "there are %d lists of visible GPUs for %d ranks",
                       entries, ranks);
    for (int r = 0; r < ranks; r++) {
        if (text[0] == '-' && (text[1] == '/' || !text[1]))
            text++;
        else
            list_read(gpu, gpus, &text, &rank[r]);
        text += *text == '/';
    }
    /* A bad entry is a fact about the list, not a failure of this call. */
    *wi_error_record() = kept;
    return WHARF_OK;
}

void wi_device_locate(const wharf_topo *topo, const char *pci, const char *uuid,
                      bool mig, wi_topo_gpu *gpu)
{
    memset(gpu, 0, sizeof *gpu);
    gpu->node = -1;
    for (int g = 0; g < topo->gpus; g++)
        if (!wi_pci_compare(topo->gpu[g].pci, pci)) {
            *gpu = topo->gpu[g];
            gpu->listed = true;
            break;
        }
    snprintf(gpu->pci, sizeof gpu->pci, "%.15s", pci);
    snprintf(gpu->uuid, sizeof gpu->uuid, "%.47s", uuid);
    gpu->mig = mig;
}
