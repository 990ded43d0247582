/* Spends CPU time at the end of a chain of calls, without frame pointers: `chain MS MODE`, where MODE is `calls`
 * (first, second, third), `library` (first, chain_relay of chain_library.c, third) or `thread` (as `calls`, in a
 * second thread). Prints its mode, its number, and the CPU time it used in nanoseconds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef LIBRARY
void chain_relay(long (*to)(long), long rounds);
#endif

static long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static long until_ns;
static const char *mode;
volatile long sink;

/* Each function uses the value returned to it, so that no call is a tail call, and keeps registers in its frame. The
 * frame pointer is an ordinary register here, so it is given a value. */
__attribute__((noinline)) long third(long rounds) {
    register long in_fp = rounds;
    for (long i = 0; i < rounds; i++) {
        in_fp = in_fp * 6364136223846793005L + i;
#if defined(__x86_64__)
        __asm__ volatile("mov %0, %%rbp\n\tadd $1, %%rbp" : : "r"(in_fp) : "rbp");
#else
        __asm__ volatile("" : "+r"(in_fp));
#endif
    }
    sink = in_fp;
    return in_fp;
}
__attribute__((noinline)) long second(long rounds) {
    char room[200];
    memset(room, (int)rounds, sizeof room);
    long got = third(rounds);
    sink = room[got & 127];
    return got + sink;
}
__attribute__((noinline)) long first(long rounds) {
    long got = 0;
    while (now_ns() < until_ns) {
#ifdef LIBRARY
        if (!strcmp(mode, "library")) {
            chain_relay(third, rounds);
            continue;
        }
#endif
        got += second(rounds);
    }
    return got;
}
static void *in_thread(void *rounds) {
    sink = first(*(long *)rounds);
    return NULL;
}

int main(int count, char **words) {
    long rounds = 200000;
    if (count < 3)
        return 2;
    mode = words[2];
    until_ns = now_ns() + atol(words[1]) * 1000000;
    if (!strcmp(mode, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, &rounds);
        pthread_join(thread, NULL);
    } else {
        sink = first(rounds);
    }
    printf("%s %d %ld\n", mode, getpid(), now_ns());
    return 0;
}
