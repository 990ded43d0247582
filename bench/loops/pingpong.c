// Two processes on one processor hand a byte to and fro through two pipes, so many times: a machine that does nothing but switch, the worst case for
// whatever watches its scheduler.   pingpong PROCESSOR TIMES
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int pass(int from, int to, long times, int begins) {
    char byte = 0;
    for (long i = 0; i < times; i++) {
        if (begins && write(to, &byte, 1) != 1) return 1;
        if (read(from, &byte, 1) != 1) return 1;
        if (!begins && write(to, &byte, 1) != 1) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    int there[2], back[2], status = 0;
    cpu_set_t one;
    if (argc != 3) {
        fprintf(stderr, "usage: pingpong PROCESSOR TIMES\n");
        return 2;
    }
    CPU_ZERO(&one);
    CPU_SET(atoi(argv[1]), &one);
    if (sched_setaffinity(0, sizeof one, &one) || pipe(there) || pipe(back)) {
        perror("pingpong");
        return 1;
    }
    pid_t other = fork();
    if (other == 0) _exit(pass(there[0], back[1], atol(argv[2]), 0));
    int failed = pass(back[0], there[1], atol(argv[2]), 1);
    waitpid(other, &status, 0);
    return failed || status != 0;
}
