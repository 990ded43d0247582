/* Spends a known time in each of two functions, and prints its user and system time as the kernel counts it:
 *   hot both       two parts in `twice`, one in `once`, called by `work` (without frame pointers a stack is only the leaf)
 *   hot exec       `once`, then the same program executes itself and spends the rest in `twice`
 *   hot threads N  N threads, a few milliseconds each, in `once`
 *   hot children N N processes that end at once */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

static double thread_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

#define SPIN(name)                                                    \
    __attribute__((noinline)) void name(double seconds)               \
    {                                                                 \
        for (double until = thread_s() + seconds; thread_s() < until;) \
            for (unsigned long n = 0; n < 400000; n++)                \
                sink += n * n;                                        \
    }
SPIN(once)
SPIN(twice)

__attribute__((noinline)) void work(double part)
{
    twice(2 * part);
    once(part);
    sink++;
}

static void *briefly(void *nothing)
{
    once(0.001);
    return nothing;
}

static void print_times(void)
{
    struct rusage a, b;
    getrusage(RUSAGE_SELF, &a);
    getrusage(RUSAGE_CHILDREN, &b);
    printf("%f %f\n", a.ru_utime.tv_sec + b.ru_utime.tv_sec + (a.ru_utime.tv_usec + b.ru_utime.tv_usec) / 1e6,
           a.ru_stime.tv_sec + b.ru_stime.tv_sec + (a.ru_stime.tv_usec + b.ru_stime.tv_usec) / 1e6);
    fflush(stdout);
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "both";
    int many = count > 2 ? atoi(words[2]) : 0;
    if (!strcmp(mode, "exec")) {
        once(0.5);
        execl(words[0], words[0], "rest", NULL);
        return 1;
    }
    if (!strcmp(mode, "rest"))
        twice(1.0);
    if (!strcmp(mode, "both"))
        work(0.5);
    if (!strcmp(mode, "threads")) {
        pthread_t *all = calloc(many, sizeof *all);
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 64 << 10);
        for (int i = 0; i < many; i++)
            if (pthread_create(&all[i], &small, briefly, NULL))
                return 2;
        for (int i = 0; i < many; i++)
            pthread_join(all[i], NULL);
    }
    if (!strcmp(mode, "children"))
        for (int i = 0; i < many; i++) {
            if (!fork())
                _exit(0);
            wait(NULL);
        }
    print_times();
    return 5;
}
