/* stopper PID: stops a process for a while, again and again: a server that hangs.
 *
 * SIGSTOP after --after, SIGCONT --for later, and again each --every, --times times. Whatever happens to the stopper short of SIGKILL,
 * the process is left running. The result's `stopped_s` is how long it really stood. */
#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t stop_ns = 200000000, every_ns = 1000000000, times = 1, after_ns;

static const struct option_row rows[] = {
    { "--for", TIME, &stop_ns, "how long each stop lasts (200ms)" },
    { "--every", TIME, &every_ns, "time from one stop's begin to the next one's (1s)" },
    { "--times", COUNT, &times, "how many stops (1); 0: until a signal or the process's end" },
    { "--after", TIME, &after_ns, "wait this long before the first" },
    { NULL, 0, NULL, NULL },
};

/* Waits until a moment. True: a signal says to end. */
static bool wait_until(const sigset_t *ends, uint64_t at_ns)
{
    for (;;) {
        uint64_t now = now_ns(), left_ns = at_ns > now ? at_ns - now : 0;
        struct timespec left = { (time_t)(left_ns / 1000000000), (long)(left_ns % 1000000000) };
        if (sigtimedwait(ends, NULL, &left) > 0)
            return true;
        if (errno == EAGAIN && now_ns() >= at_ns)
            return false;
    }
}

int main(int argc, char **argv)
{
    if (parse_options(argc, argv, "PID [OPTION]...", rows) != 1 || atoi(argv[1]) <= 1) {
        fprintf(stderr, "%s: expected one process; --help lists the options\n", argv[0]);
        return 2;
    }
    pid_t pid = atoi(argv[1]);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    if (kill(pid, 0) != 0)
        die("process %d", pid);
    print_ready("");
    uint64_t begun_ns = now_ns(), next_ns = begun_ns + after_ns, stopped_ns = 0, stops = 0;
    bool ended = false;
    while (!ended && (times == 0 || stops < times)) {
        if (wait_until(&ends, next_ns))
            break;
        uint64_t from_ns = now_ns();
        if (kill(pid, SIGSTOP) != 0)
            break;
        ended = wait_until(&ends, from_ns + stop_ns);
        kill(pid, SIGCONT);
        stopped_ns += now_ns() - from_ns;
        stops++;
        next_ns += every_ns;
    }
    char more[100];
    snprintf(more, sizeof more, ", \"stops\": %llu, \"stopped_s\": %.6f", (unsigned long long)stops, (double)stopped_ns / 1e9);
    print_result(0, begun_ns, more);
    return 0;
}
