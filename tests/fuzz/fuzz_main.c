/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target without libFuzzer: the files of a corpus, then so many
 * inputs made from them by random changes. The same count and seed give the
 * same inputs everywhere, so that a failure can be had again.
 *
 *   fuzz_x CORPUS [COUNT [SEED]]   CORPUS: a directory, or one file to repeat
 *
 * When the target fails, the input is printed so that printf(1) can write it.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define SEEDS_MOST 64
#define INPUT_MOST 65536
/* An input that takes longer hangs. Sanitizers on a busy machine are slow. */
#define HANG_S 60

typedef struct seed {
    uint8_t *data;
    size_t size;
} seed;

static seed seeds[SEEDS_MOST];
static int seed_count;

static uint8_t input[INPUT_MOST];
static size_t input_size;
static unsigned long input_number;

/* ---- When it fails ------------------------------------------------------- */

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(1);
}

/* Async-signal-safe. */
static void input_print(void)
{
    static const char digits[] = "0123456789abcdef";
    char number[24];
    size_t at = sizeof number - 1;
    unsigned long rest = input_number;

    number[at] = 0;
    do
        number[--at] = digits[rest % 10];
    while (rest /= 10);
    say("\ninput ");
    say(number + at);
    say(":\nprintf '");
    for (size_t i = 0; i < input_size; i++) {
        char piece[5] = {'\\', 'x', digits[input[i] >> 4],
                         digits[input[i] & 15], 0};
        say(piece);
    }
    say("' > input\n");
}

static void on_signal(int number)
{
    if (number == SIGALRM)
        say("\nthe target hangs\n");
    input_print();
    signal(number, SIG_DFL);
    raise(number == SIGALRM ? SIGABRT : number);
}

/* Of the sanitizers' runtime, where there is one: it takes crashes itself. */
void __sanitizer_set_death_callback(void (*callback)(void))
    __attribute__((weak));

static void watch(void)
{
    static const int signals[] = {SIGABRT, SIGALRM, SIGSEGV,
                                  SIGBUS,  SIGFPE,  SIGILL};
    size_t count = sizeof signals / sizeof *signals;

    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(input_print);
        count = 2;
    }
    for (size_t i = 0; i < count; i++)
        signal(signals[i], on_signal);
}

/* ---- The corpus ---------------------------------------------------------- */

static bool seed_load(const char *path)
{
    seed *to = &seeds[seed_count];
    FILE *file = fopen(path, "rb");

    if (!file || seed_count == SEEDS_MOST) {
        fprintf(stderr, "%s cannot be read, or is one too many\n", path);
        if (file)
            fclose(file);
        return false;
    }
    to->data = malloc(INPUT_MOST);
    FUZZ_CHECK(to->data != NULL);
    to->size = fread(to->data, 1, INPUT_MOST, file);
    fclose(file);
    seed_count++;
    return true;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool corpus_load(const char *path)
{
    struct dirent **entries = NULL;
    struct stat about;
    bool good = true;
    int count;

    if (stat(path, &about) == 0 && S_ISREG(about.st_mode))
        return seed_load(path);
    count = scandir(path, &entries, visible, alphasort);
    if (count < 1)
        fprintf(stderr, "%s holds no corpus\n", path);
    for (int i = 0; i < count; i++) {
        char name[4096];

        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        good = good && seed_load(name);
        free(entries[i]);
    }
    free(entries);
    return good && count > 0;
}

/* ---- Changes ------------------------------------------------------------- */

/* xorshift64*: the same numbers on every machine. */
static uint64_t random_state;

static size_t below(size_t limit)
{
    uint64_t x = random_state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    random_state = x;
    return limit ? (size_t)(x * UINT64_C(2685821657736338717) >> 16) % limit
                 : 0;
}

static void take_out(size_t at, size_t gone)
{
    memmove(input + at, input + at + gone, input_size - at - gone);
    input_size -= gone;
}

static void put_in(size_t at, const void *bytes, size_t size)
{
    if (size > INPUT_MOST - input_size)
        return;
    memmove(input + at + size, input + at, input_size - at);
    memcpy(input + at, bytes, size);
    input_size += size;
}

/* A number in the text becomes one at the edge of something. */
static void edge_text(void)
{
    static const char *const edges[] = {"0",
                                        "-1",
                                        "1",
                                        "00",
                                        "63",
                                        "64",
                                        "127",
                                        "128",
                                        "255",
                                        "256",
                                        "1023",
                                        "1024",
                                        "65536",
                                        "2147483647",
                                        "2147483648",
                                        "4294967295",
                                        "4294967296",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "-9223372036854775808",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "99999999999999999999999",
                                        "0x7fffffff",
                                        "1e9",
                                        "0x"};
    const char *edge = edges[below(sizeof edges / sizeof *edges)];
    size_t at = below(input_size), end;

    while (at < input_size && (input[at] < '0' || input[at] > '9'))
        at++;
    for (end = at; end < input_size && input[end] >= '0' && input[end] <= '9';)
        end++;
    take_out(at, end - at);
    put_in(at, edge, strlen(edge));
}

static void edge_binary(void)
{
    static const uint64_t edges[] = {
        0,        1,          0x7f,       0x80,       0xff,
        0xffff,   0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX,
        1u << 20, UINT64_MAX, 64,         65,         UINT64_MAX - 7};
    uint64_t edge = edges[below(sizeof edges / sizeof *edges)];
    size_t size = (size_t)1 << below(4);

    if (input_size >= size)
        memcpy(input + below((input_size - size) / size + 1) * size, &edge,
               size);
}

/* What separates things in what Wharf reads. */
static void separator(void)
{
    static const char marks[] = ",,//::--==..|<>\"' \t\n\\&;0x-GUMIcpunma";
    put_in(below(input_size + 1), &marks[below(sizeof marks)], 1);
}

static void splice(void)
{
    const seed *other = &seeds[below((size_t)seed_count)];
    size_t from = below(other->size + 1);
    size_t size = below(other->size - from + 1);

    if (below(2))
        take_out(0, 0);
    else
        input_size = below(input_size + 1);
    put_in(below(2) ? input_size : below(input_size + 1), other->data + from,
           size);
}

static void change(void)
{
    uint8_t piece[64];
    size_t at = below(input_size), left = input_size - at, size;

    switch (below(10)) {
    case 0:
        if (input_size)
            input[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        if (input_size)
            input[at] = (uint8_t)below(256);
        break;
    case 2:
        if (input_size)
            input[at] = (uint8_t)(32 + below(95));
        break;
    case 3:
        take_out(at, below((left < 64 ? left : 64) + 1));
        break;
    case 4: /* again, somewhere */
        size = below((left < sizeof piece ? left : sizeof piece) + 1);
        memcpy(piece, input + at, size);
        put_in(below(input_size + 1), piece, size);
        break;
    case 5:
        if (below(8) == 0)
            input_size = at;
        break;
    case 6:
        edge_text();
        break;
    case 7:
        edge_binary();
        break;
    case 8:
        separator();
        break;
    default:
        splice();
    }
}

static void input_make(void)
{
    const seed *base = &seeds[below((size_t)seed_count)];

    input_size = base->size;
    memcpy(input, base->data, base->size);
    for (size_t i = below(5); i < 5; i++)
        change();
}

static void input_run(void)
{
    /* The target must not see what is behind the input, nor change it. */
    uint8_t *exact = fuzz_copy(input, input_size, false);

    alarm(HANG_S);
    LLVMFuzzerTestOneInput(exact, input_size);
    alarm(0);
    input_number++;
    free(exact);
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: %s CORPUS [COUNT [SEED]]\n", argv[0]);
        return 2;
    }
    if (!corpus_load(argv[1]))
        return 1;
    random_state = (argc > 3 ? strtoull(argv[3], NULL, 10) : 0) + 88172645463;
    watch();
    input_run(); /* nothing at all */
    for (int i = 0; i < seed_count; i++) {
        input_size = seeds[i].size;
        memcpy(input, seeds[i].data, input_size);
        input_run();
    }
    for (unsigned long n = 0; n < count; n++) {
        input_make();
        input_run();
    }
    for (int i = 0; i < seed_count; i++)
        free(seeds[i].data);
    printf("%lu inputs, %d from files\n", input_number, seed_count);
    return 0;
}
