/* SPDX-License-Identifier: MIT */
/* What wharf-info and wharf-bench have in common; see the header. */
#include "tool_text.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef WHARF_HWLOC_VERSION
#define WHARF_HWLOC_VERSION ""
#endif
const char tool_hwloc[] = WHARF_HWLOC_VERSION;

/* CPUs of this process as ranges. */
static void cpus_print(char *text, size_t capacity)
{
    cpu_set_t set;
    size_t at = 0;

    text[0] = '\0';
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE && at < capacity - 16; cpu++) {
        int last = cpu;

        if (!CPU_ISSET(cpu, &set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set))
            last++;
        at += (size_t)snprintf(text + at, capacity - at, "%s%d",
                               at == 0 ? "" : ",", cpu);
        if (last > cpu)
            at += (size_t)snprintf(text + at, capacity - at, "-%d", last);
        cpu = last;
    }
}

/* The kernel module says its version here, also in containers. */
static void driver_print(char *text, size_t capacity)
{
    FILE *file = fopen("/sys/module/nvidia/version", "r");

    text[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(text, (int)capacity, file) == NULL)
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

void tool_machine_fill(struct tool_machine *machine)
{
    struct utsname name;

    memset(machine, 0, sizeof *machine);
    gethostname(machine->host, sizeof machine->host - 1);
    cpus_print(machine->cpus, sizeof machine->cpus);
    driver_print(machine->driver, sizeof machine->driver);
    if (uname(&name) == 0)
        snprintf(machine->kernel, sizeof machine->kernel, "%.20s %.64s",
                 name.sysname, name.release);
}

void tool_mpi_name(char *text, size_t capacity)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;

    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = '\0';
    /* Open MPI goes on with package and build host. */
    version[strcspn(version, ",")] = '\0';
    snprintf(text, capacity, "%.*s", (int)capacity - 1, version);
}

const char *tool_version(char text[16])
{
    int version = wharf_version();

    snprintf(text, 16, "%d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    return text;
}

void tool_json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

void *tool_alloc(size_t count, size_t size)
{
    void *got = calloc(count == 0 ? 1 : count, size);

    if (got == NULL) {
        fprintf(stderr, "no memory for %zu times %zu bytes\n", count, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
    return got;
}

char *tool_gather(MPI_Comm comm, const char *mine, int *count)
{
    int rank, length = (int)strlen(mine) + 1;
    int *lengths, *starts;
    char *all = NULL;
    size_t total = 0;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, count);
    lengths = tool_alloc((size_t)*count, sizeof *lengths);
    starts = tool_alloc((size_t)*count, sizeof *starts);
    MPI_Gather(&length, 1, MPI_INT, lengths, 1, MPI_INT, 0, comm);
    for (int i = 0; i < *count; i++) {
        starts[i] = (int)total;
        total += (size_t)lengths[i];
    }
    if (rank == 0)
        all = tool_alloc(total, 1);
    MPI_Gatherv(mine, length, MPI_CHAR, all, lengths, starts, MPI_CHAR, 0,
                comm);
    free(lengths);
    free(starts);
    return all;
}

void tool_print_all(const char *texts, int count, const char *between)
{
    for (int i = 0; i < count; i++) {
        printf("%s%s", i == 0 ? "" : between, texts);
        texts += strlen(texts) + 1;
    }
}

int tool_report(const char *program)
{
    const char *log = getenv("WHARF_LOG");
    wharf_error error;
    char text[512];

    if (log == NULL || strcmp(log, "none") != 0)
        return 1;
    wharf_last_error(&error);
    fprintf(stderr, "%s: %s\n", program,
            wharf_error_format(&error, text, sizeof text));
    return 1;
}

int tool_report_once(const char *program, int rank)
{
    wharf_error error;

    wharf_last_error(&error);
    if (error.rank < 0 ? rank == 0 : error.rank == rank)
        tool_report(program);
    return 1;
}

int tool_flush(const char *program)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "%s: writing the output failed: %s\n", program,
            strerror(errno));
    return 1;
}

bool tool_terminal(void)
{
    char link[64], target[64];
    ssize_t length;

    if (isatty(STDERR_FILENO))
        return true;
    snprintf(link, sizeof link, "/proc/%d/fd/2", (int)getppid());
    length = readlink(link, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = '\0';
    return strncmp(target, "/dev/pts/", 9) == 0 ||
           strncmp(target, "/dev/tty", 8) == 0;
}
