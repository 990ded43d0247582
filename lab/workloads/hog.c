/* hog: uses a processor, and nothing else.
 *
 * Pinned to one processor (--cpu) it takes a known share of it from whoever is pinned there too: with equal weights, half. With --duty
 * it computes that share of each --period and sleeps the rest. It is a neighbour, not a part of any transfer. Ends after --for, or at
 * SIGTERM or SIGINT; `ready` says that it has begun. */
#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t cpu = UINT64_MAX, lasts_ns, threads = 1, period_ns = 10000000, duty_percent = 100;

static const struct option_row rows[] = {
    { "--cpu", COUNT, &cpu, "the processor to stay on (any)" },
    { "--for", TIME, &lasts_ns, "how long (until a signal)" },
    { "--threads", COUNT, &threads, "how many threads (1)" },
    { "--duty", COUNT, &duty_percent, "per cent of each period to compute (100)" },
    { "--period", TIME, &period_ns, "length of a period (10ms)" },
    { NULL, 0, NULL, NULL },
};

static void *burn(void *unused)
{
    (void)unused;
    for (;;) {
        spin_for(period_ns / 100 * duty_percent);
        sleep_for(period_ns / 100 * (100 - duty_percent));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t begun_ns = now_ns();
    if (parse_options(argc, argv, "[OPTION]...", rows) != 0 || duty_percent == 0 || duty_percent > 100 || period_ns < 1000) {
        fprintf(stderr, "%s: expected options only, --duty from 1 to 100; --help lists them\n", argv[0]);
        return 2;
    }
    if (cpu != UINT64_MAX) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (cpu >= CPU_SETSIZE || sched_setaffinity(0, sizeof set, &set) != 0)
            die("staying on processor %llu", (unsigned long long)cpu);
    }
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    for (uint64_t i = 0; i < threads; i++) {
        pthread_t thread;
        if ((errno = pthread_create(&thread, NULL, burn, NULL)) != 0)
            die("starting a thread");
    }
    print_ready("");
    struct timespec left = { (time_t)(lasts_ns / 1000000000), (long)(lasts_ns % 1000000000) };
    if (lasts_ns)
        sigtimedwait(&ends, NULL, &left);
    else
        sigwaitinfo(&ends, NULL);
    print_result(0, begun_ns, "");
    return 0;
}
