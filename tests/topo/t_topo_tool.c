/* SPDX-License-Identifier: MIT */
/* The offline planner as a command: what it prints and how it exits. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "t_test.h"
#include "tools/wharf_info_plan.h"
#include "topo_gen.h"

#define MOST_ARGUMENTS 16
#define MOST_OUTPUT (1 << 20)

static char output[MOST_OUTPUT]; /* stdout and stderr of the last run */

/* Runs the command on arguments separated by spaces. */
static int run(const char *arguments)
{
    char line[1024];
    char *argv[MOST_ARGUMENTS] = {(char *)"wharf-info"};
    char *save = NULL;
    int argc = 1, code, fd, old[2];
    ssize_t got;

    snprintf(line, sizeof line, "%s", arguments);
    for (char *one = strtok_r(line, " ", &save); one && argc < MOST_ARGUMENTS;
         one = strtok_r(NULL, " ", &save))
        argv[argc++] = one;
    fd = memfd_create("output", MFD_CLOEXEC);
    T_CHECK(fd >= 0);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        old[i] = dup(i + 1);
        T_CHECK(dup2(fd, i + 1) == i + 1);
    }
    code = info_plan(argc, argv);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        T_CHECK(dup2(old[i], i + 1) == i + 1);
        close(old[i]);
    }
    got = pread(fd, output, MOST_OUTPUT - 1, 0);
    T_CHECK(got >= 0);
    output[got] = 0;
    close(fd);
    return code;
}

/* Is there one JSON value, and nothing after it? */
static const char *json_skip(const char *at);

static const char *json_blank(const char *at)
{
    while (at && isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *json_string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    for (; *at && *at != '"'; at++) {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at == '\\' && !*++at)
            return NULL;
    }
    return *at ? at + 1 : NULL;
}

static const char *json_list(const char *at, char end, bool keys)
{
    at = json_blank(at + 1);
    if (*at == end)
        return at + 1;
    for (;;) {
        if (keys) {
            at = json_blank(json_string(at));
            if (!at || *at++ != ':')
                return NULL;
            at = json_blank(at);
        }
        at = json_blank(json_skip(at));
        if (!at)
            return NULL;
        if (*at == end)
            return at + 1;
        if (*at++ != ',')
            return NULL;
        at = json_blank(at);
    }
}

static const char *json_skip(const char *at)
{
    if (*at == '{')
        return json_list(at, '}', true);
    if (*at == '[')
        return json_list(at, ']', false);
    if (*at == '"')
        return json_string(at);
    if (*at != '-' && !isdigit((unsigned char)*at))
        return NULL;
    for (at++; isdigit((unsigned char)*at);)
        at++;
    return at;
}

static void json_check(void)
{
    const char *end = json_blank(json_skip(output));
    if (!end || *end)
        T_FAIL("no JSON: %s", output);
}

static void ask(int code, const char *arguments, const char *part)
{
    int got = run(arguments);
    if (got != code)
        T_FAIL("%s: exit code %d, not %d: %s", arguments, got, code, output);
    T_CONTAINS(part, output);
}

/* The same with the topology in front. */
static void plan(const char *path, int code, const char *arguments,
                 const char *part)
{
    char line[1024];
    snprintf(line, sizeof line, "--topology %s %s", path, arguments);
    ask(code, line, part);
}

static void usage(const char *path)
{
    char *wanted[] = {(char *)"x", (char *)"--topology=a"};
    char *other[] = {(char *)"x", (char *)"--json"};

    T_CHECK(info_plan_wanted(2, wanted));
    T_CHECK(!info_plan_wanted(2, other));
    ask(0, "--topology --help", "topology");
    ask(0, "--help", "usage:");
    ask(2, "--topology", "no value for --topology");
    ask(2, "--bindings -", "--topology is missing");
    plan(path, 2, "", "--bindings is missing");
    plan(path, 2, "--bindings - --placement best", "unknown placement best");
    plan(path, 2, "--bindings - --colour red", "unknown argument --colour");
    plan(path, 2, "--bindings - --bindings -", "given twice: --bindings");
    plan(path, 2, "--bindings numa:0/core:1", "core:1");
    plan(path, 2, "--bindings numa:x", "\"x\" is no list");
    plan(path, 2, "--bindings -/- --visible 0/1/0", "--visible needs one");
    plan(path, 2, "--bindings -/- --device-map 0,1,0",
         "--device-map needs one");
    plan(path, 2, "--bindings - stray", "unknown argument stray");
}

static void failures(const char *path)
{
    ask(1, "--topology /nonexistent.xml --bindings -", "/nonexistent.xml");
    ask(1, "--topology /dev/null --bindings -", "no regular file");
    plan(path, 1, "--bindings numa:9", "names no CPU");
    plan(path, 1, "--bindings cpu:1000", "names no CPU");
    plan(path, 1, "--bindings -/- --device-map 0,9", "does not exist");
    plan(path, 1, "--bindings -/- --device-map 0,GPU-nope", "no GPU");
    plan(path, 1, "--bindings -/- --device-map 0,1 --visible 1/1",
         "does not see");
    plan(path, 1, "--bindings numa:0/numa:0/numa:0/numa:0 --refuse-bad",
         "refused");
}

static void plans(const char *path)
{
    plan(path, 0, "--bindings numa:1/numa:0", "local");
    plan(path, 0, "--bindings=numa:1/numa:0 --json",
         "{\"rank\":0,\"gpu_index\":2,\"pci\":\"0000:86:00.0\","
         "\"distance\":10,\"reason\":\"local\"");
    json_check();
    T_CONTAINS("\"cost\":20", output);
    plan(path, 0, "--bindings -/-/-/- --json --placement round_robin",
         "\"warnings\":[]");
    json_check();
    plan(path, 0, "--json --bindings -/- --visible 0/7\"\\\x01\xff",
         "\\\"\\\\\\u0001\\u00ff");
    json_check();
    plan(path, 0, "--bindings - --device-map 3", "forced: device map");
    ask(0, "--topology here --bindings -", "# 1 rank,");
}

int main(void)
{
    char *text = t_shape_xml("format-1");
    char path[64];

    t_file(text, strlen(text), path);
    free(text);
    usage(path);
    failures(path);
    plans(path);
    return 0;
}
