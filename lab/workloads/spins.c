/* spins: asks a server one byte after the other, and waits for each answer with its processor busy.
 *
 *     spins poll PORT       poll(2) with no time limit to wait for, again and again
 *     spins again PORT      recv(2) that does not block (EAGAIN), again and again
 *     spins flag PORT       a child asks, and says in shared memory that the answer has come: the parent looks there, again and again
 *
 * What the processor does meanwhile is no work: the time is the server's. With --asleep each waits as it should. */
#define _GNU_SOURCE
#include "workload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t times = 60;
static bool asleep;

static const struct option_row rows[] = {
    { "--times", COUNT, &times, "questions (60)" },
    { "--asleep", FLAG, &asleep, "wait without using a processor" },
    { NULL, 0, NULL, NULL },
};

static int connected(uint64_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int server = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof address) != 0)
        die("port %u", (unsigned)port);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return server;
}

static void question(int server)
{
    if (send(server, "?", 1, 0) != 1)
        die("the server");
}

static void answer(int server, int flags)
{
    char got;
    ssize_t length;
    do
        length = recv(server, &got, 1, flags);
    while (length < 0 && errno == EAGAIN);
    if (length != 1 || got != '!')
        die("the server");
}

static void by_poll(int server)
{
    for (uint64_t number = 0; number < times; number++) {
        struct pollfd readable = { .fd = server, .events = POLLIN };
        question(server);
        while (poll(&readable, 1, asleep ? -1 : 0) == 0)
            ;
        answer(server, 0);
    }
}

static void by_trying_again(int server)
{
    for (uint64_t number = 0; number < times; number++) {
        question(server);
        answer(server, asleep ? 0 : MSG_DONTWAIT);
    }
}

static void wait_for(_Atomic uint32_t *counter, uint32_t reached, bool sleeps)
{
    for (uint32_t seen; (seen = atomic_load(counter)) != reached;)
        if (sleeps)
            syscall(SYS_futex, counter, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void reach(_Atomic uint32_t *counter, uint32_t number)
{
    atomic_store(counter, number);
    syscall(SYS_futex, counter, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* What both processes count: the questions wanted, and the answers there. */
struct shared {
    _Atomic uint32_t wanted;
    char apart[60];
    _Atomic uint32_t done;
};

static void by_flag(int server)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap");
    pid_t child = fork();
    if (child < 0)
        die("fork");
    for (uint32_t number = 1; number <= times; number++) {
        if (child == 0) {
            wait_for(&shared->wanted, number, true);
            question(server);
            answer(server, 0);
            reach(&shared->done, number);
        } else {
            reach(&shared->wanted, number);
            wait_for(&shared->done, number, asleep);
        }
    }
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(int); } kinds[] = { { "poll", by_poll }, { "again", by_trying_again }, { "flag", by_flag } };
    int others = parse_options(argc, argv, "poll | again | flag PORT", rows);
    for (size_t at = 0; others == 2 && at < sizeof kinds / sizeof *kinds; at++) {
        if (strcmp(argv[1], kinds[at].name) != 0)
            continue;
        int server = connected(parse_size(argv[2]));
        uint64_t begun = now_ns();
        kinds[at].run(server);
        print_result(times, begun, "");
        return 0;
    }
    return 2;
}
