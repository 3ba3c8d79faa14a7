/* SPDX-License-Identifier: MIT */
/* A plan for people and for programs. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "base/sys.h"
#include "wharf/topo.h"

static void number_or_dash(int number, char text[16])
{
    if (number < 0)
        snprintf(text, 16, "-");
    else
        snprintf(text, 16, "%d", number);
}

static void print_text(const wharf_plan *plan, FILE *file)
{
    fprintf(file,
            "# %d rank%s, %d GPU%s, placement %s, cost %" PRId64
            ", digest %016" PRIx64 "\n",
            plan->ranks, plan->ranks == 1 ? "" : "s", plan->gpus,
            plan->gpus == 1 ? "" : "s", wharf_placement_name(plan->placement),
            plan->cost, plan->digest);
    fprintf(file, "# %4s %4s %-13s %8s %6s %6s  %s\n", "rank", "gpu", "pci",
            "distance", "owner", "users", "reason");
    for (int r = 0; r < plan->ranks; r++) {
        const wharf_plan_line *line = &plan->line[r];
        char gpu[16], distance[16], owner[16];
        number_or_dash(line->gpu, gpu);
        number_or_dash(line->distance, distance);
        number_or_dash(line->owner, owner);
        fprintf(file, "  %4d %4s %-13s %8s %6s %6d  %s%s%s\n", line->rank, gpu,
                line->pci[0] ? line->pci : "-", distance, owner, line->users,
                wharf_reason_name(line->reason), line->detail[0] ? ": " : "",
                line->detail);
    }
    for (int w = 0; w < plan->warnings; w++)
        fprintf(file, "warning: %s\n", plan->warning[w].text);
}

static void print_json_line(const wharf_plan_line *line, FILE *file)
{
    fprintf(file, "{\"rank\":%d,\"gpu_index\":%d,\"pci\":", line->rank,
            line->gpu);
    wi_json_string(file, line->pci);
    fprintf(file, ",\"distance\":%d,\"reason\":", line->distance);
    wi_json_string(file, wharf_reason_name(line->reason));
    fputs(",\"detail\":", file);
    wi_json_string(file, line->detail);
    fprintf(file, ",\"owner\":%d,\"users\":%d,\"uuid\":", line->owner,
            line->users);
    wi_json_string(file, line->uuid);
    fputc('}', file);
}

static void print_json(const wharf_plan *plan, FILE *file)
{
    fputs("{\"ranks\":[", file);
    for (int r = 0; r < plan->ranks; r++) {
        fputs(r ? ",\n " : "", file);
        print_json_line(&plan->line[r], file);
    }
    fprintf(file,
            "],\n \"cost\":%" PRId64 ",\"gpus\":%d,\"placement\":\"%s\","
            "\"digest\":\"%016" PRIx64 "\",\n \"warnings\":[",
            plan->cost, plan->gpus, wharf_placement_name(plan->placement),
            plan->digest);
    for (int w = 0; w < plan->warnings; w++) {
        fputs(w ? ",\n " : "", file);
        wi_json_string(file, plan->warning[w].text);
    }
    fputs("]}\n", file);
}

static wharf_status plan_print(const wharf_plan *plan, FILE *file,
                               wharf_format format)
{
    if (!plan || !file)
        return wi_fail(WHARF_EARG, NULL, "plan or file is NULL");
    if (format == WHARF_FORMAT_TEXT)
        print_text(plan, file);
    else if (format == WHARF_FORMAT_JSON)
        print_json(plan, file);
    else
        return wi_fail(WHARF_EARG, NULL, "format %d does not exist",
                       (int)format);
    return wi_sys_flush(file, "the plan");
}

wharf_status wharf_plan_print(const wharf_plan *plan, FILE *file,
                              wharf_format format)
{
    wi_call_begin("wharf_plan_print", -1);
    return wi_call_end(plan_print(plan, file, format));
}
