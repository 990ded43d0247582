/* See workload.h. */
#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *program = "workload";
static atomic_uint_fast64_t injected_ns[FAULTS], injected_times[FAULTS];
static const char *const fault_names[FAULTS] = { "sleep", "spin", "lock", "sync", "poll" };

static _Noreturn void misuse(const char *text, const char *expected)
{
    fprintf(stderr, "%s: %s: expected %s; --help lists the options\n", program, text, expected);
    exit(2);
}

struct unit {
    const char *name;
    uint64_t scale;
};

static uint64_t scaled(const char *text, const struct unit *units, const char *expected)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || number < 0)
        misuse(text, expected);
    for (; units->name; units++)
        if (strcmp(units->name, end) == 0 && number * (double)units->scale < 9e18)
            return (uint64_t)(number * (double)units->scale + 0.5);
    if (number == 0 && *end == 0)
        return 0;
    misuse(text, expected);
}

uint64_t parse_size(const char *text)
{
    static const struct unit units[] = { { "", 1 }, { "Ki", 1 << 10 }, { "Mi", 1 << 20 }, { "Gi", 1 << 30 }, { NULL, 0 } };
    return scaled(text, units, "a size like 1Mi (Ki, Mi, Gi or bytes)");
}

uint64_t parse_time_ns(const char *text)
{
    static const struct unit units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { NULL, 0 } };
    return scaled(text, units, "a time like 5ms (ns, us, ms or s)");
}

static void print_help(const char *usage, const struct option_row *rows)
{
    static const char *const values[] = { "", " N", " SIZE", " TIME", " TEXT" };
    printf("usage: %s %s\n", program, usage);
    for (; rows->name; rows++)
        printf("  %s%s%*s %s\n", rows->name, values[rows->kind], (int)(24 - strlen(rows->name) - strlen(values[rows->kind])), "", rows->help);
}

static void set_option(const struct option_row *row, const char *text)
{
    switch (row->kind) {
    case FLAG: *(bool *)row->value = true; break;
    case COUNT: {
        char *end;
        *(uint64_t *)row->value = strtoull(text, &end, 10);
        if (*end || end == text)
            misuse(text, "a number");
        break;
    }
    case SIZE: *(uint64_t *)row->value = parse_size(text); break;
    case TIME: *(uint64_t *)row->value = parse_time_ns(text); break;
    case TEXT: *(const char **)row->value = text; break;
    }
}

int parse_options(int argc, char **argv, const char *usage, const struct option_row *rows)
{
    program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    int others = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help(usage, rows);
            exit(0);
        }
        if (strncmp(argv[i], "--", 2) != 0) {
            argv[++others] = argv[i];
            continue;
        }
        const struct option_row *row = rows;
        while (row->name && strcmp(row->name, argv[i]) != 0)
            row++;
        if (!row->name || (row->kind != FLAG && i + 1 >= argc))
            misuse(argv[i], row->name ? "a value after it" : "an option");
        set_option(row, row->kind == FLAG ? NULL : argv[++i]);
    }
    return others;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

void inject(enum fault fault, uint64_t duration_ns)
{
    atomic_fetch_add(&injected_ns[fault], duration_ns);
    atomic_fetch_add(&injected_times[fault], 1);
}

void sleep_for(uint64_t duration_ns)
{
    if (duration_ns == 0)
        return;
    uint64_t begun_ns = now_ns(), until_ns = begun_ns + duration_ns;
    struct timespec until = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
    inject(SLEPT, now_ns() - begun_ns);
}

void spin_for(uint64_t cpu_ns)
{
    if (cpu_ns == 0)
        return;
    uint64_t begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), used_ns;
    do {
        for (volatile int i = 0; i < 1000; i++)
            ;
        used_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
    } while (used_ns < cpu_ns);
    inject(SPUN, used_ns);
}

uint64_t sample(uint64_t sum, const void *buffer, size_t length, uint64_t offset)
{
    const uint8_t *bytes = buffer;
    for (uint64_t at = (offset + 511) & ~UINT64_C(511); at < offset + length; at += 512)
        sum += (bytes[at - offset] + 1) * ((at >> 8 | 1) * UINT64_C(0x9e3779b97f4a7c15));
    return sum;
}

void fill(void *buffer, size_t length, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t i = 0; i < length; i += sizeof state) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t word = state ^ state >> 29;
        memcpy((char *)buffer + i, &word, length - i < sizeof word ? length - i : sizeof word);
    }
}

void *block_memory(size_t length)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, (length + 4095) & ~(size_t)4095) != 0)
        die("memory for a block of %zu bytes", length);
    memset(memory, 0, length);
    return memory;
}

void die(const char *what, ...)
{
    int code = errno;
    va_list arguments;
    va_start(arguments, what);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, what, arguments);
    fprintf(stderr, ": %s\n", strerror(code));
    exit(1);
}

void corrupt(const char *what, ...)
{
    va_list arguments;
    va_start(arguments, what);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, what, arguments);
    fprintf(stderr, "\n");
    exit(1);
}

void print_result(uint64_t bytes, uint64_t begun_ns, const char *more)
{
    printf("{\"program\": \"%s\", \"bytes\": %llu, \"seconds\": %.6f, \"injected_s\": {", program, (unsigned long long)bytes,
           (double)(now_ns() - begun_ns) / 1e9);
    const char *comma = "";
    for (int fault = 0; fault < FAULTS; fault++)
        if (injected_times[fault]) {
            printf("%s\"%s\": %.6f, \"%s_times\": %llu", comma, fault_names[fault], (double)injected_ns[fault] / 1e9, fault_names[fault],
                   (unsigned long long)injected_times[fault]);
            comma = ", ";
        }
    printf("}%s}\n", more);
    fflush(stdout);
}

void print_ready(const char *more)
{
    printf("ready%s%s\n", *more ? " " : "", more);
    fflush(stdout);
}
