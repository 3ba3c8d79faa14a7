/* SPDX-License-Identifier: MIT */
/*
 * Plans for every generated machine against the plans on record.
 *
 * golden/SHAPE.plan holds cases: a line "> key=value ..." with what is asked,
 * then the plan as it must be printed. Keys: bindings, placement, visible, map,
 * gpus (devices of the driver, "PCI@UUID,..."), refuse (1), all but bindings
 * may be left out. With --write the records are made anew from the cases in
 * them: look at the difference before you keep it.
 */
#define _GNU_SOURCE
#include <stdbool.h>

#include "t_test.h"
#include "topo_gen.h"

#define MOST_LINE 1024

typedef struct question {
    char line[MOST_LINE]; /* cut into the values below */
    const char *bindings;
    const char *placement;
    char *gpus;
    wharf_gpu gpu[16];
    wharf_plan_options options;
} question;

static void policy_set(question *q)
{
    for (int p = 0; q->placement && p <= WHARF_PLACEMENT_ROUND_ROBIN; p++)
        if (!strcmp(q->placement, wharf_placement_name((wharf_placement)p))) {
            q->options.placement = (wharf_placement)p;
            return;
        }
    T_CHECK(!q->placement);
}

static void gpus_set(question *q)
{
    char *save = NULL;
    for (char *one = q->gpus ? strtok_r(q->gpus, ",", &save) : NULL; one;
         one = strtok_r(NULL, ",", &save)) {
        wharf_gpu *gpu = &q->gpu[q->options.gpus++];
        char *uuid = strchr(one, '@');
        T_CHECK(uuid && q->options.gpus <= 16);
        *uuid++ = 0;
        gpu->struct_size = sizeof *gpu;
        snprintf(gpu->pci, sizeof gpu->pci, "%.15s", one);
        snprintf(gpu->uuid, sizeof gpu->uuid, "%.47s", uuid);
        gpu->mig = !strncmp(uuid, "MIG-", 4);
        q->options.gpu = q->gpu;
    }
}

static void question_read(const char *line, question *q)
{
    static const wharf_plan_options defaults = WHARF_PLAN_OPTIONS_INIT;
    char *save = NULL;

    memset(q, 0, sizeof *q);
    q->options = defaults;
    T_CHECK(strlen(line) < sizeof q->line);
    memcpy(q->line, line, strlen(line));
    for (char *pair = strtok_r(q->line, " ", &save); pair;
         pair = strtok_r(NULL, " ", &save)) {
        char *value = strchr(pair, '=');
        if (!strcmp(pair, ">"))
            continue;
        T_CHECK(value != NULL);
        *value++ = 0;
        if (!strcmp(pair, "bindings"))
            q->bindings = value;
        else if (!strcmp(pair, "placement"))
            q->placement = value;
        else if (!strcmp(pair, "visible"))
            q->options.visible = value;
        else if (!strcmp(pair, "map"))
            q->options.device_map = value;
        else if (!strcmp(pair, "gpus"))
            q->gpus = value;
        else if (!strcmp(pair, "refuse"))
            q->options.refuse_bad = 1;
        else
            T_FAIL("no key \"%s\" in \"%s\"", pair, line);
    }
    T_CHECK(q->bindings != NULL);
    policy_set(q);
    gpus_set(q);
}

static void answer_write(const wharf_topo *topo, const char *line, FILE *out)
{
    static wharf_binding bindings[WHARF_MAX_RANKS];
    wharf_plan *plan = NULL;
    question q;
    int ranks = 0;
    wharf_status status;

    question_read(line, &q);
    T_OK(wharf_binding_parse(q.bindings, bindings, WHARF_MAX_RANKS, &ranks));
    fprintf(out, "%s\n", line);
    status = wharf_plan_make(topo, ranks, bindings, &q.options, &plan);
    if (status == WHARF_OK) {
        T_OK(wharf_plan_print(plan, out, WHARF_FORMAT_TEXT));
    } else {
        wharf_error error;
        wharf_last_error(&error);
        fprintf(out, "%s: %s\n", wharf_status_name(status), error.cause);
    }
    wharf_plan_free(&plan);
}

static char *file_read(const char *path)
{
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t length = 0;

    if (!in)
        T_FAIL("cannot open %s", path);
    if (getdelim(&text, &length, 0, in) < 0)
        T_FAIL("cannot read %s", path);
    fclose(in);
    return text;
}

/* The same record, with today's plans. */
static char *record_make(const char *name, const char *record)
{
    wharf_topo *topo = t_shape_load(name);
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    int cases = 0;

    fprintf(out, "# %s\n", name);
    for (const char *at = record; *at;) {
        size_t size = strcspn(at, "\n");
        if (*at == '>') {
            char line[MOST_LINE];
            snprintf(line, sizeof line, "%.*s", (int)size, at);
            answer_write(topo, line, out);
            cases++;
        }
        at += size;
        at += *at == '\n';
    }
    fclose(out);
    wharf_topo_free(&topo);
    if (cases < 4)
        T_FAIL("%s has only %d cases", name, cases);
    return text;
}

static void first_difference(const char *path, const char *a, const char *b)
{
    int line = 1;
    size_t i = 0, start = 0;
    for (; a[i] && a[i] == b[i]; i++)
        if (a[i] == '\n') {
            line++;
            start = i + 1;
        }
    T_FAIL("%s:%d\nexpected: %.*s\ngot:      %.*s", path, line,
           (int)strcspn(a + start, "\n"), a + start,
           (int)strcspn(b + start, "\n"), b + start);
}

int main(int argc, char **argv)
{
    bool write = argc == 3 && !strcmp(argv[1], "--write");

    setenv("WHARF_LOG", "none", 1);
    if (argc != 2 && !write)
        T_FAIL("usage: t_topo_golden [--write] DIRECTORY");
    for (int i = 0; t_shape_name(i); i++) {
        char path[512];
        char *record, *now;
        snprintf(path, sizeof path, "%s/%s.plan", argv[argc - 1],
                 t_shape_name(i));
        record = file_read(path);
        now = record_make(t_shape_name(i), record);
        if (write) {
            FILE *out = fopen(path, "w");
            T_CHECK(out && fputs(now, out) >= 0 && !fclose(out));
        } else if (strcmp(record, now)) {
            first_difference(path, record, now);
        }
        free(record);
        free(now);
    }
    return 0;
}
