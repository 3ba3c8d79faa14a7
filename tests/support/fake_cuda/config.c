/* SPDX-License-Identifier: MIT */
/*
 * The machine that the fake driver pretends to run on, from the environment,
 * read once at cuInit.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static const struct {
    const char *name;
    unsigned cap;
} cap_names[] = {
    {"no_vmm", FC_CAP_NO_VMM},
    {"no_memops", FC_CAP_NO_MEMOPS},
    {"no_ipc_event", FC_CAP_NO_IPC_EVENT},
    {"no_ipc", FC_CAP_NO_IPC},
    {"exclusive", FC_CAP_EXCLUSIVE},
    {"prohibited", FC_CAP_PROHIBITED},
    {"old_driver", FC_CAP_OLD_DRIVER},
    {"mps", FC_CAP_MPS},
    {"fabric", FC_CAP_FABRIC},
    {"fabric_denied", FC_CAP_FABRIC_DENIED},
    {"fabric_no_export", FC_CAP_FABRIC_NO_EXPORT},
    {"fabric_no_import", FC_CAP_FABRIC_NO_IMPORT},
    {"fabric_unsaid", FC_CAP_FABRIC_UNSAID},
    {"mig", FC_CAP_MIG},
    {"no_fd_handle", FC_CAP_NO_FD},
    {"no_map_host", FC_CAP_NO_MAP_HOST},
    {"no_pools", FC_CAP_NO_POOLS},
    {"no_host_vmm", FC_CAP_NO_HOST_VMM},
    {"host_vmm_denied", FC_CAP_HOST_VMM_DENIED},
    {"memlock", FC_CAP_MEMLOCK},
    {"reverse_pci", FC_CAP_REVERSE_PCI},
};

static void config_wrong(const char *name, const char *value)
{
    fprintf(stderr, "fake_cuda: %s: cannot use \"%s\"\n", name, value);
    abort(); /* a test that is set up wrongly must not pass */
}

static uint64_t read_size(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !*text)
        return otherwise;
    uint64_t n = strtoull(text, &end, 0);
    switch (tolower((unsigned char)*end)) {
    case 'g':
        n <<= 10; /* fall through */
    case 'm':
        n <<= 10; /* fall through */
    case 'k':
        n <<= 10;
        end++;
        break;
    default:
        break;
    }
    if (end == text || *end || !n)
        config_wrong(name, text);
    return n;
}

/* Calls `use` for each comma-separated word. */
static void each_word(const char *name,
                      void (*use)(const char *name, const char *word))
{
    const char *text = getenv(name);
    char *copy, *rest, *word;

    if (!text)
        return;
    copy = strdup(text);
    if (!copy)
        abort();
    for (word = strtok_r(copy, ", ", &rest); word;
         word = strtok_r(NULL, ", ", &rest))
        use(name, word);
    free(copy);
}

static void use_cap(const char *name, const char *word)
{
    for (size_t i = 0; i < sizeof cap_names / sizeof cap_names[0]; i++)
        if (!strcmp(word, cap_names[i].name)) {
            fc.config.caps |= cap_names[i].cap;
            return;
        }
    config_wrong(name, word);
}

static void use_deny(const char *name, const char *word)
{
    char *end;
    long n = strtol(word, &end, 10);

    if (*end || n < 0 || n >= fc.config.gpus)
        config_wrong(name, word);
    fc.device[n].denied = true;
}

static void use_prohibit(const char *name, const char *word)
{
    char *end;
    long n = strtol(word, &end, 10);

    if (*end || n < 0 || n >= fc.config.gpus)
        config_wrong(name, word);
    fc.device[n].prohibited = true;
}

static void peer_set(int a, int b, bool broken)
{
    fc.device[a].peers |= 1ull << b;
    fc.device[b].peers |= 1ull << a;
    if (broken) {
        fc.device[a].broken |= 1ull << b;
        fc.device[b].broken |= 1ull << a;
    }
}

static void use_peer(const char *name, const char *word)
{
    bool broken = !strncmp(word, "broken:", 7);
    int a, b, n = 0;

    if (!strcmp(word, "none"))
        return;
    if (!strcmp(word, "all")) {
        for (a = 0; a < fc.config.gpus; a++)
            for (b = 0; b < a; b++)
                peer_set(a, b, false);
        return;
    }
    if (sscanf(word + (broken ? 7 : 0), "%d-%d%n", &a, &b, &n) != 2 ||
        word[(broken ? 7 : 0) + n] || a < 0 || b < 0 || a == b ||
        a >= fc.config.gpus || b >= fc.config.gpus)
        config_wrong(name, word);
    peer_set(a, b, broken);
}

/* Deterministic, and different in the first bytes so that short prefixes can
 * be unique. */
static CUuuid make_uuid(unsigned seed)
{
    uint64_t x = 0x9e3779b97f4a7c15u * (seed + 1);
    CUuuid u;

    for (int i = 0; i < 16; i++) {
        x ^= x >> 27;
        x *= 0x94d049bb133111ebu;
        x ^= x >> 31;
        u.bytes[i] = (char)(x >> 32);
    }
    return u;
}

static void make_device(int i)
{
    bool mig = fc.config.caps & FC_CAP_MIG;
    fc_device *d = &fc.device[i];
    int gpu = mig ? i / 2 : i; /* two instances on each GPU */
    int place = gpu;

    if (fc.config.caps & FC_CAP_REVERSE_PCI)
        place = (mig ? (fc.config.gpus + 1) / 2 : fc.config.gpus) - 1 - gpu;
    d->parent = make_uuid((unsigned)gpu);
    d->uuid = mig ? make_uuid(1000u + (unsigned)i) : d->parent;
    d->prohibited = (fc.config.caps & FC_CAP_PROHIBITED) != 0;
    d->bus = 6 + place;
    snprintf(d->pci, sizeof d->pci, "0000:%02x:00.0", (unsigned)d->bus);
    snprintf(d->name, sizeof d->name, mig ? "Fake GPU MIG 1g.1gb" : "Fake GPU");
}

static void uuid_text(const fc_device *d, char text[48])
{
    const CUuuid *u = &d->uuid;
    bool mig = fc.config.caps & FC_CAP_MIG;
    int n = snprintf(text, 48, mig ? "MIG-" : "GPU-");

    for (int i = 0; i < 16; i++)
        n += snprintf(text + n, 48 - (size_t)n, "%s%02x",
                      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      (unsigned)(unsigned char)u->bytes[i]);
}

/* Physical index that a word of the mask names, or -1. `order` maps what the
 * mask counts in to physical indices. */
static int mask_word(const char *word, const int *order)
{
    char *end;
    int found = -1;

    if (!strncmp(word, "GPU-", 4) || !strncmp(word, "MIG-", 4)) {
        for (int i = 0; i < fc.config.gpus; i++) {
            char text[48];

            uuid_text(&fc.device[i], text);
            if (strncmp(word, text, strlen(word)) || strlen(word) < 5)
                continue;
            if (found >= 0)
                return -1; /* not unique */
            found = i;
        }
        return found;
    }
    long n = strtol(word, &end, 10);
    if (end == word || *end || n < 0 || n >= fc.config.gpus)
        return -1;
    if (fc.config.caps & FC_CAP_MIG)
        n = n * 2 < fc.config.gpus ? n * 2 : -1; /* counts whole GPUs */
    return n < 0 ? -1 : order[n];
}

static void apply_mask(const int *order)
{
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    uint64_t seen = 0;
    char *copy, *rest, *word;

    fc.visible_count = 0;
    if (!mask) {
        for (int i = 0; i < fc.config.gpus; i++)
            fc.visible[fc.visible_count++] = order[i];
        return;
    }
    copy = strdup(mask);
    if (!copy)
        abort();
    for (word = strtok_r(copy, ",", &rest); word;
         word = strtok_r(NULL, ",", &rest)) {
        while (*word == ' ')
            word++;
        for (char *e = word + strlen(word); e > word && e[-1] == ' ';)
            *--e = '\0';
        int i = mask_word(word, order);
        if (i < 0)
            break; /* the driver stops at the first word it cannot use */
        if (seen & 1ull << i) {
            fc.visible_count = 0; /* twice the same: none at all */
            break;
        }
        seen |= 1ull << i;
        fc.visible[fc.visible_count++] = i;
    }
    free(copy);
}

CUresult fc_config_read(void)
{
    const char *by_pci = getenv("CUDA_DEVICE_ORDER");
    int order[FC_MAX_DEVICES];
    fc_config *c = &fc.config;

    c->gpus = (int)read_size("WHARF_FAKE_DEVICES", 2);
    if (c->gpus < 1 || c->gpus > FC_MAX_DEVICES)
        config_wrong("WHARF_FAKE_DEVICES", getenv("WHARF_FAKE_DEVICES"));
    c->memory = read_size("WHARF_FAKE_MEMORY", 1u << 30);
    c->granularity = read_size("WHARF_FAKE_GRANULARITY", 2u << 20);
    if (c->granularity & (c->granularity - 1) || c->granularity < 4096)
        config_wrong("WHARF_FAKE_GRANULARITY", "not a power of two >= 4096");
    each_word("WHARF_FAKE_CAPS", use_cap);
    c->driver_version = (int)read_size(
        "WHARF_FAKE_DRIVER", c->caps & FC_CAP_OLD_DRIVER ? 11040 : 13000);
    c->lenient = getenv("WHARF_FAKE_LENIENT") != NULL;
    c->state_path = getenv("WHARF_FAKE_STATE");
    for (int i = 0; i < c->gpus; i++)
        make_device(i);
    each_word("WHARF_FAKE_DENY", use_deny);
    each_word("WHARF_FAKE_PROHIBIT", use_prohibit);
    if (c->caps & FC_CAP_MIG)
        ; /* instances never reach one another */
    else if (getenv("WHARF_FAKE_PEERS"))
        each_word("WHARF_FAKE_PEERS", use_peer);
    else
        use_peer("", "all");
    for (int i = 0; i < c->gpus; i++)
        order[i] = i;
    if (c->caps & FC_CAP_REVERSE_PCI && by_pci && !strcmp(by_pci, "PCI_BUS_ID"))
        for (int i = 0; i < c->gpus; i++)
            order[i] = c->gpus - 1 - i;
    apply_mask(order);
    if (c->caps & FC_CAP_MIG && fc.visible_count > 1)
        fc.visible_count = 1; /* one instance a process */
    int denied = 0;
    for (int i = 0; i < fc.visible_count; i++)
        denied += fc.device[fc.visible[i]].denied;
    if (denied == fc.visible_count)
        return CUDA_ERROR_NO_DEVICE;
    return CUDA_SUCCESS;
}

int fc_ordinal_of(int phys)
{
    for (int i = 0; i < fc.visible_count; i++)
        if (fc.visible[i] == phys)
            return i;
    return -1;
}
