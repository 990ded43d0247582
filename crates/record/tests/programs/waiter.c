/* Waits in known places: `waiter FILE`. Sleeps, reads from a pipe that another process fills late, and syncs FILE,
 * each in a function of its own that another calls. The system calls are inlined: a C library's functions have no
 * frames of their own, and their callers would be skipped. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline __attribute__((always_inline)) long kernel(long number, long a, long b, long c) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#else
    return syscall(number, a, b, c);
#endif
}

volatile int sink;
volatile int never;
/* The call that is never made gives each a frame of its own. */
#define CHAIN(name, argument, body)                                  \
    void name##_outer(argument);                                     \
    __attribute__((noinline)) void name##_inner(argument value) {    \
        if (never)                                                   \
            name##_outer(value);                                     \
        body;                                                        \
        sink += 1;                                                   \
    }                                                                \
    __attribute__((noinline)) void name##_outer(argument value) {    \
        name##_inner(value);                                         \
        sink += 1;                                                   \
    }

static char byte;
CHAIN(rest, const struct timespec *, kernel(SYS_nanosleep, (long)value, 0, 0))
CHAIN(take, long, kernel(SYS_read, value, (long)&byte, 1))
CHAIN(sync, long, kernel(SYS_fsync, value, 0, 0))

static void fill(int fd, size_t bytes) {
    char *block = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        block[i] = (char)(i * 2654435761u >> 13);
    if (pwrite(fd, block, bytes, 0) != (ssize_t)bytes)
        exit(3);
    free(block);
}

int main(int argc, char **argv) {
    const struct timespec pause = {0, 20000000}, shorter = {0, 200000};
    int ends[2];
    if (argc != 2 || pipe(ends))
        return 2;
    for (int i = 0; i < 5; i++)
        rest_outer(&pause);
    /* None of these is long enough for a stack. */
    for (int i = 0; i < 50; i++)
        rest_outer(&shorter);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 5; i++) {
            nanosleep(&pause, NULL);
            if (write(ends[1], "x", 1) != 1)
                _exit(3);
        }
        _exit(0);
    }
    for (int i = 0; i < 5; i++)
        take_outer(ends[0]);
    waitpid(child, NULL, 0);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return 3;
    for (int i = 0; i < 5; i++) {
        fill(fd, 4 << 20);
        sync_outer(fd);
    }
    return 0;
}
