/* lockholder PATH: another process that holds flock(2) of a file most of the time.
 *
 * It holds the lock for --hold, asleep or computing (--spin), leaves it for --gap, and takes it again. Who wants the lock for each of its
 * blocks (copy --flock PATH) waits for it. `ready` says that the lock is held for the first time. Ends after --for, or at SIGTERM or
 * SIGINT, with the lock released. */
#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static uint64_t hold_ns = 20000000, gap_ns = 1000000, lasts_ns;
static bool spin;
static volatile sig_atomic_t ended;

static const struct option_row rows[] = {
    { "--hold", TIME, &hold_ns, "how long the lock is held (20ms)" },
    { "--gap", TIME, &gap_ns, "how long it is free in between (1ms)" },
    { "--spin", FLAG, &spin, "compute while holding it, instead of sleeping" },
    { "--for", TIME, &lasts_ns, "how long all of this lasts (until a signal)" },
    { NULL, 0, NULL, NULL },
};

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

int main(int argc, char **argv)
{
    if (parse_options(argc, argv, "PATH [OPTION]...", rows) != 1) {
        fprintf(stderr, "%s: expected one file; --help lists the options\n", argv[0]);
        return 2;
    }
    int fd = open(argv[1], O_RDWR | O_CREAT, 0666);
    if (fd < 0)
        die("%s", argv[1]);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = end;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    uint64_t begun_ns = now_ns(), held_ns = 0, holds = 0;
    while (!ended && (lasts_ns == 0 || now_ns() < begun_ns + lasts_ns)) {
        if (flock(fd, LOCK_EX) != 0) {
            if (errno == EINTR)
                continue;
            die("flock of %s", argv[1]);
        }
        uint64_t from_ns = now_ns();
        if (holds++ == 0)
            print_ready("");
        if (spin)
            spin_for(hold_ns);
        else
            sleep_for(hold_ns);
        flock(fd, LOCK_UN);
        held_ns += now_ns() - from_ns;
        sleep_for(gap_ns);
    }
    char more[100];
    snprintf(more, sizeof more, ", \"holds\": %llu, \"held_s\": %.6f", (unsigned long long)holds, (double)held_ns / 1e9);
    print_result(0, begun_ns, more);
    return 0;
}
