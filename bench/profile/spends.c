/* Spends processor time in parts of known kinds, and counts each itself.
 *
 *     spends COUNTS SECONDS PART=WEIGHT...
 *
 * The parts take turns, in chunks of random length, so long that each has its weight; around each chunk the thread's own clock is read.
 * COUNTS is written at the end: a line `PART NANOSECONDS` for each. What a part spends its time in:
 *
 *     spin    this program          jit     code made at run time, named by /tmp/perf-PID.map (x86-64)
 *     memcpy  the C library         crc32   another library (libz)
 *     write   files in memory       send    TCP over loopback, sent and received by this thread
 *     fault   pages touched for the first time
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 256 << 10, FILE_BYTES = 16 << 20, PIECE = 64 << 10, FAULTS = 2 << 20, PAGE = 4096 };

static char *from, *to;
static volatile double sink;

static void fail(const char *what) {
    perror(what);
    exit(3);
}

static long now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void spin(void) {
    double x = sink;
    for (int i = 0; i < 30000; i++)
        x = x * 0.999 + 1;
    sink = x;
}

static void copy(void) {
    for (int i = 0; i < 8; i++) {
        memcpy(to, from, BUFFER);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
}

static unsigned long (*crc32_of)(unsigned long, const unsigned char *, unsigned);
static void hash(void) {
    if (!crc32_of) {
        void *library = dlopen("libz.so.1", RTLD_NOW);
        crc32_of = library ? dlsym(library, "crc32") : NULL;
        if (!crc32_of)
            fail("libz.so.1");
    }
    sink += (double)crc32_of(0, (unsigned char *)from, BUFFER);
}

static void write_file(void) {
    static int file = -1;
    static off_t at;
    if (file < 0 && (file = memfd_create("spends", 0)) < 0)
        fail("memfd_create");
    for (int i = 0; i < 4; i++, at = (at + PIECE) % FILE_BYTES)
        if (pwrite(file, from, PIECE, at) != PIECE)
            fail("pwrite");
}

/* Both ends are this thread's: what it sends is received in its own software interrupts. */
static void send_over_loopback(void) {
    static int one = -1, other;
    if (one < 0) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof address;
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        one = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listener, (void *)&address, length) || listen(listener, 1) || getsockname(listener, (void *)&address, &length) ||
            connect(one, (void *)&address, length) || (other = accept(listener, NULL, NULL)) < 0)
            fail("loopback");
    }
    for (int i = 0; i < 4; i++) {
        if (send(one, from, PIECE / 2, 0) != PIECE / 2)
            fail("send");
        for (int left = PIECE / 2; left > 0;) {
            int got = recv(other, to, left, 0);
            if (got <= 0)
                fail("recv");
            left -= got;
        }
    }
}

static void fault(void) {
    char *pages = mmap(NULL, FAULTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        fail("mmap");
    madvise(pages, FAULTS, MADV_NOHUGEPAGE);
    for (int at = 0; at < FAULTS; at += PAGE)
        pages[at] = 1;
    munmap(pages, FAULTS);
}

static void made(void) {
#if defined(__x86_64__)
    static void (*code)(long);
    if (!code) {
        static const unsigned char loop[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}; /* 1: dec rdi; jnz 1b; ret */
        char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), path[64];
        memcpy(page, loop, sizeof loop);
        mprotect(page, PAGE, PROT_READ | PROT_EXEC);
        snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
        FILE *map = fopen(path, "w");
        if (!map)
            fail(path);
        fprintf(map, "%lx %zx made_at_run_time\n", (unsigned long)page, sizeof loop);
        fclose(map);
        code = (void (*)(long))page;
    }
    code(200000);
#else
    fail("code made at run time is for x86-64");
#endif
}

static struct part {
    const char *name;
    void (*work)(void);
    double weight;
    long ns;
} parts[] = {
    {"spin", spin, 0, 0},       {"jit", made, 0, 0},                {"memcpy", copy, 0, 0},  {"crc32", hash, 0, 0},
    {"write", write_file, 0, 0}, {"send", send_over_loopback, 0, 0}, {"fault", fault, 0, 0},
};
enum { PARTS = sizeof parts / sizeof *parts };

int main(int count, char **words) {
    if (count < 4)
        return 2;
    double weights = 0;
    for (int i = 3; i < count; i++) {
        char *equals = strchr(words[i], '=');
        struct part *part = NULL;
        for (int p = 0; equals && p < PARTS; p++)
            if (strlen(parts[p].name) == (size_t)(equals - words[i]) && !strncmp(parts[p].name, words[i], equals - words[i]))
                part = &parts[p];
        if (!part || (part->weight = atof(equals + 1)) <= 0)
            return 2;
        weights += part->weight;
    }
    from = malloc(BUFFER);
    to = malloc(BUFFER);
    memset(from, 1, BUFFER);
    memset(to, 1, BUFFER);
    /* What is set up at the first call is set up before anything counts. */
    for (int p = 0; p < PARTS; p++)
        if (parts[p].weight > 0)
            parts[p].work();
    long begun = now_ns(CLOCK_MONOTONIC), until = begun + (long)(atof(words[2]) * 1e9), all = 0;
    unsigned seed = 1;
    while (now_ns(CLOCK_MONOTONIC) < until) {
        /* Whose turn: the part that is furthest behind. */
        struct part *next = NULL;
        double behind = -1e18;
        for (int p = 0; p < PARTS; p++) {
            double is = parts[p].weight / weights * (double)all - (double)parts[p].ns;
            if (parts[p].weight > 0 && is > behind) {
                behind = is;
                next = &parts[p];
            }
        }
        /* The thread's clock is a system call: it is read around a chunk only. */
        long start = now_ns(CLOCK_THREAD_CPUTIME_ID), end = now_ns(CLOCK_MONOTONIC) + 500000 + rand_r(&seed) % 3000000, spent;
        do
            next->work();
        while (now_ns(CLOCK_MONOTONIC) < end);
        spent = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        next->ns += spent;
        all += spent;
    }
    FILE *counts = fopen(words[1], "w");
    if (!counts)
        fail(words[1]);
    for (int p = 0; p < PARTS; p++)
        if (parts[p].weight > 0)
            fprintf(counts, "%s %ld\n", parts[p].name, parts[p].ns);
    fclose(counts);
    return 0;
}
