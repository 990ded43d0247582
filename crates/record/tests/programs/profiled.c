/* Spends CPU time in known places. `profiled MS MODE...`: runs one process per mode, one after another, which is
 * named after it and prints its name, its number and the CPU time it used in nanoseconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static long until_ns;
static int goes_on(void) { return now_ns(CLOCK_PROCESS_CPUTIME_ID) < until_ns; }

volatile double sink;
volatile int never;
void outermost(void);
/* The call that is never made gives it a frame of its own: a leaf function has none, whatever the compiler's flags. */
__attribute__((noinline)) void innermost(void) {
    double x = sink;
    if (never)
        outermost();
    for (int i = 0; i < 200000; i++)
        x = x * 0.999 + 1;
    sink = x;
}
__attribute__((noinline)) void between(void) {
    innermost();
    sink += 1;
}
__attribute__((noinline)) void outermost(void) {
    between();
    sink += 1;
}

__attribute__((noinline)) static void spin(void) {
    while (goes_on())
        outermost();
}

__attribute__((noinline)) static void zeros(void) {
    static char buffer[1 << 20];
    int fd = open("/dev/zero", O_RDONLY);
    while (goes_on())
        for (int i = 0; i < 20; i++)
            if (read(fd, buffer, sizeof buffer) < 0)
                exit(3);
}

__attribute__((noinline)) static void faults(void) {
    size_t size = 8 << 20;
    while (goes_on()) {
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(p, size, MADV_NOHUGEPAGE);
        for (size_t i = 0; i < size; i += 4096)
            p[i] = 1;
        munmap(p, size);
    }
}

__attribute__((noinline)) static void clocks(void) {
    struct timespec t;
    while (goes_on())
        for (int i = 0; i < 20000; i++)
            clock_gettime(CLOCK_MONOTONIC, &t);
}

__attribute__((noinline)) static void made(void) {
#if defined(__x86_64__)
    static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}; /* 1: dec rdi; jnz 1b; ret */
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(p + 64, code, sizeof code);
    mprotect(p, 4096, PROT_READ | PROT_EXEC);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %zx render(int) [tier 2]\n", (unsigned long)(p + 64), sizeof code);
    fclose(map);
    while (goes_on())
        ((void (*)(long))(p + 64))(200000);
#endif
}

int main(int count, char **words) {
    long ms = atol(words[1]);
    for (int i = 2; i < count; i++) {
        if (!strcmp(words[i], "unlink")) {
            unlink(words[0]);
            continue;
        }
        pid_t child = fork();
        if (!child) {
            prctl(PR_SET_NAME, words[i]);
            until_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID) + ms * 1000000;
            if (!strcmp(words[i], "spin")) spin();
            if (!strcmp(words[i], "zeros")) zeros();
            if (!strcmp(words[i], "faults")) faults();
            if (!strcmp(words[i], "clocks")) clocks();
            if (!strcmp(words[i], "made")) made();
            printf("%s %d %ld\n", words[i], getpid(), now_ns(CLOCK_PROCESS_CPUTIME_ID));
            fflush(stdout);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        if (status) return 1;
    }
    return 0;
}
