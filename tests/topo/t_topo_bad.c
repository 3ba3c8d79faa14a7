/* SPDX-License-Identifier: MIT */
/* Topology files that are missing, broken, foreign or hostile: a clear error,
 * nothing left behind, and the next good file loads. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/stat.h"
#include "t_test.h"
#include "topo/xml_file.h"
#include "topo_gen.h"
#include "wharf/stats.h"

#define MUTATIONS 240

static void cause_has(const char *part)
{
    wharf_error error;
    wharf_last_error(&error);
    T_CONTAINS(part, error.cause);
}

static void refused(const char *text, wharf_status status, const char *cause)
{
    t_text_load(text, strlen(text), status);
    cause_has(cause);
}

static void no_files(void)
{
    wharf_topo *topo = NULL;

    T_STATUS(WHARF_EOS, wharf_topo_load("/nonexistent/topology.xml", &topo));
    cause_has("/nonexistent/topology.xml");
    T_STATUS(WHARF_EOS, wharf_topo_load("", &topo));
    T_STATUS(WHARF_ECONFIG, wharf_topo_load("/", &topo));
    cause_has("no regular file");
    T_STATUS(WHARF_ECONFIG, wharf_topo_load("/dev/null", &topo));
    T_STATUS(WHARF_EARG, wharf_topo_load("/dev/null", NULL));
    T_CHECK(topo == NULL);
}

/* A FIFO that nobody writes to must not hold the caller. */
static void fifo(void)
{
    wharf_topo *topo = NULL;
    char path[64];
    int ends[2];

    T_EQ_INT(0, pipe(ends));
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    T_STATUS(WHARF_ECONFIG, wharf_topo_load(path, &topo));
    close(ends[0]);
    close(ends[1]);
}

static void foreign(void)
{
    refused("", WHARF_ECONFIG, "no XML element");
    refused("rank 0: GPU 1\n", WHARF_ECONFIG, "no XML element");
    refused("<svg/>", WHARF_ECONFIG, "root element is not <topology>");
    refused("<topologyx/>", WHARF_ECONFIG, "root element is not <topology>");
    refused("<?xml version=\"1.0\"?><html><body/></html>", WHARF_ECONFIG,
            "root element");
    refused("{\"ranks\":[]}", WHARF_ECONFIG, "no XML element");
    refused("<topology version=\"2.0\"/>", WHARF_ECONFIG, "hwloc");
    refused("<topology version=\"2.0\"></topology>", WHARF_ECONFIG, "hwloc");
    refused("<topology version=\"9.0\"><thing/></topology>", WHARF_ECONFIG,
            "hwloc");
    refused("<topology/><topology/>", WHARF_ECONFIG, "more than one root");
    refused("<topology></topology></topology>", WHARF_ECONFIG, "closes more");
    t_text_load("<topology>\0</topology>", 22, WHARF_ECONFIG);
    cause_has("binary");
    t_text_load("\x7f\x45LF\x02\x01\x01\0\0\0", 10, WHARF_ECONFIG);
}

static void hostile(void)
{
    char *text = NULL;
    size_t length;
    FILE *out;
    char path[64];
    wharf_topo *topo = NULL;
    int fd;

    refused("<!DOCTYPE t [<!ENTITY a \"aaaa\">]><topology/>", WHARF_ECONFIG,
            "document type of its own");
    refused("<!DOCTYPE t [\n<topology/>", WHARF_ECONFIG, "");
    refused("<topology><![CDATA[<object/>]]></topology>", WHARF_ECONFIG,
            "entities or holds raw data");
    refused("<!ENTITY a SYSTEM \"file:///etc/passwd\"><topology/>",
            WHARF_ECONFIG, "entities");
    /* Deep. */
    out = open_memstream(&text, &length);
    fputs("<topology>", out);
    for (int i = 0; i < 100000; i++)
        fputs("<object type=\"Misc\">", out);
    fclose(out);
    refused(text, WHARF_ELIMIT, "levels");
    free(text);
    /* Long. */
    out = open_memstream(&text, &length);
    fputs("<topology>", out);
    for (int i = 0; i < WI_XML_ELEMENTS + 1; i++)
        fputs("<a/>", out);
    fputs("</topology>", out);
    fclose(out);
    refused(text, WHARF_ELIMIT, "elements");
    free(text);
    /* Huge: a hole of 1 TiB is refused by its size, unread. */
    fd = memfd_create("huge", MFD_CLOEXEC);
    T_CHECK(fd >= 0);
    if (!ftruncate(fd, (off_t)1 << 40)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        T_STATUS(WHARF_ELIMIT, wharf_topo_load(path, &topo));
    }
    close(fd);
}

/* Every cut of a good file is refused, wherever the cut is. */
static void truncated(void)
{
    char *text = t_shape_xml("power-6");
    size_t length = strlen(text);
    uint64_t seed = 3;

    for (int n = 0; n < 300; n++) {
        size_t cut = (size_t)t_random(&seed) % (length - 12);
        t_text_load(text, cut, WHARF_ECONFIG);
    }
    free(text);
}

/* A set or an attribute that hwloc would trust. */
static void damaged(const char *from, const char *to, const char *cause)
{
    char *text = t_shape_xml("mig-2");
    char *at = strstr(text, from);
    char *made = NULL;
    size_t length;
    FILE *out = open_memstream(&made, &length);

    T_CHECK(at != NULL);
    fprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(out);
    refused(made, WHARF_ECONFIG, cause);
    free(made);
    free(text);
}

static void attributes(void)
{
    damaged(" cpuset=\"0x", " cpuset=\"9x", "has cpuset");
    damaged(" cpuset=\"", " cpuset=\"0x,", "has cpuset");
    damaged(" cpuset=\"0xffffffff\"", " cpuset=\"\"", "has cpuset");
    damaged(" cpuset=\"", " cpuset=\"0xfffffffff,", "has cpuset");
    damaged(" complete_cpuset=", " comp_cpuset=", "lacks sets");
    damaged(" nodeset=", " noteset=", "lacks sets");
    damaged("type=\"Machine\"", "type=\"Maschine\"", "hwloc");
    damaged("nbobjs=\"2\"", "nbobjs=\"65536\"", "hwloc");
    damaged("nbobjs=\"2\"", "nbobjs=\"4294967295\"", "hwloc");
    damaged("<indexes length=\"", "<indexes length=\"9999999", "hwloc");
    damaged("type=\"PU\"", "type=\"Bridge\"", "hwloc");
}

/*
 * Random damage. hwloc is not proof against all of it, so each load has a
 * process of its own; what our own check lets through and hwloc does not
 * survive would be counted as a crash.
 */
static bool survives(const char *text, size_t length)
{
    int status = 0;
    pid_t child = fork();

    T_CHECK(child >= 0);
    if (!child) {
        wharf_topo *topo = NULL;
        wharf_plan *plan = NULL;
        char path[64];
        t_file(text, length, path);
        alarm(20);
        if (wharf_topo_load(path, &topo) == WHARF_OK &&
            wharf_plan_make(topo, 3, NULL, NULL, &plan) == WHARF_OK)
            wharf_plan_free(&plan);
        wharf_topo_free(&topo);
        _exit(0);
    }
    T_EQ_INT(child, waitpid(child, &status, 0));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void mutated(void)
{
    uint64_t seed = 11;

    for (int n = 0; n < MUTATIONS; n++) {
        char *text = t_shape_xml(t_shape_name(n % 12));
        int length = (int)strlen(text);
        for (int i = t_below(&seed, 4); i >= 0; i--) {
            int at = t_below(&seed, length - 200);
            int gone = 1 + t_below(&seed, 150);
            switch (t_below(&seed, 3)) {
            case 0:
                text[at] = (char)(32 + t_below(&seed, 95));
                break;
            case 1:
                memmove(text + at, text + at + gone,
                        (size_t)(length - at - gone + 1));
                length -= gone;
                break;
            default:
                while (text[at + 1] && (text[at] < '0' || text[at] > '9'))
                    at++;
                text[at] = (char)('0' + t_below(&seed, 10));
            }
        }
        if (!survives(text, (size_t)length))
            T_FAIL("mutation %d of %s ends the process", n,
                   t_shape_name(n % 12));
        free(text);
    }
}

int main(void)
{
    wharf_topo *topo;

    setenv("WHARF_LOG", "none", 1);
    no_files();
    fifo();
    foreign();
    hostile();
    truncated();
    attributes();
    mutated();
    topo = t_shape_load("two-socket-8");
    T_EQ_INT(8, wharf_topo_gpus(topo));
    wharf_topo_free(&topo);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    return 0;
}
