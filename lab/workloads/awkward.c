/* awkward KIND: what programs do that recorders must survive. Each kind does a little I/O that is worth recording, in an awkward way.
 *
 *   processes     --count short-lived children, one after the other, each reads one block and ends
 *   threads       --count threads at once, each reads one block and ends
 *   orphan        the parent ends at once; its child goes on reading for --for, in a session of its own
 *   closes        closes every descriptor it has, then goes on reading for --for
 *   dies          ends by signal --signal in the middle of reading
 *   same-pid      two children, one after the other, with the same process number (needs root)
 *   execs         becomes another program (cat FILE) by exec in a second thread's process
 *   connections   --count TCP connections to itself at once, over loopback, a byte each way on each
 *
 * FILE (--file) is what is read; without it, the program itself. */
#define _GNU_SOURCE
#include "workload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK_BYTES 4096

static uint64_t count = 1000, lasts_ns = 200000000, signal_number = SIGTERM;
static const char *file = "/proc/self/exe";

static const struct option_row rows[] = {
    { "--count", COUNT, &count, "processes, threads or connections (1000)" },
    { "--for", TIME, &lasts_ns, "how long orphan and closes read (200ms)" },
    { "--signal", COUNT, &signal_number, "the signal that dies ends by (15)" },
    { "--file", TEXT, &file, "what is read (the program itself)" },
    { NULL, 0, NULL, NULL },
};

static atomic_uint_fast64_t bytes;

/* Reads one block and forgets it. */
static void read_block(void)
{
    char block[BLOCK_BYTES];
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("%s", file);
    ssize_t got = read(fd, block, sizeof block);
    if (got < 0)
        die("reading %s", file);
    bytes += (uint64_t)got;
    close(fd);
}

static void read_for(uint64_t duration_ns)
{
    for (uint64_t until_ns = now_ns() + duration_ns; now_ns() < until_ns;) {
        read_block();
        struct timespec pause = { 0, 1000000 };
        nanosleep(&pause, NULL);
    }
}

static void reap(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            die("waiting for a child");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        corrupt("a child ended with status %d", status);
}

static void processes(void)
{
    for (uint64_t i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0)
            die("fork");
        if (child == 0) {
            read_block();
            _exit(0);
        }
        reap(child);
        bytes += BLOCK_BYTES;
    }
}

static void *read_in_thread(void *unused)
{
    read_block();
    return unused;
}

static void threads(void)
{
    pthread_t *started = calloc(count, sizeof *started);
    for (uint64_t i = 0; i < count; i++)
        if (!started || (errno = pthread_create(&started[i], NULL, read_in_thread, NULL)) != 0)
            die("starting thread %llu", (unsigned long long)i);
    for (uint64_t i = 0; i < count; i++)
        pthread_join(started[i], NULL);
    free(started);
}

/* The child keeps the terminal's descriptors closed, so that who waits for the end of output waits for the parent only. */
static void orphan(void)
{
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child > 0)
        return;
    setsid();
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    read_for(lasts_ns);
    _exit(0);
}

static _Noreturn void closes(void)
{
    closefrom(0);
    read_for(lasts_ns);
    _exit(0);
}

static _Noreturn void dies(void)
{
    read_block();
    signal((int)signal_number, SIG_DFL);
    raise((int)signal_number);
    corrupt("signal %llu did not end it", (unsigned long long)signal_number);
}

static pid_t fork_as(pid_t pid)
{
    struct clone_args arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = (uint64_t)(uintptr_t)&pid;
    arguments.set_tid_size = 1;
    return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

static void same_pid(void)
{
    pid_t first = fork();
    if (first == 0) {
        read_block();
        _exit(0);
    }
    if (first < 0)
        die("fork");
    reap(first);
    pid_t second = fork_as(first);
    if (second == 0) {
        read_block();
        _exit(0);
    }
    if (second < 0)
        die("a child with process number %d", first);
    reap(second);
    bytes = 2 * BLOCK_BYTES;
}

static void *exec_in_thread(void *unused)
{
    execlp("cat", "cat", file, (char *)NULL);
    die("cat");
    return unused;
}

/* exec by a thread that is not the first: the kernel ends the others, and the new program takes the first one's number. */
static void execs(void)
{
    pthread_t thread;
    if ((errno = pthread_create(&thread, NULL, exec_in_thread, NULL)) != 0)
        die("starting a thread");
    pthread_join(thread, NULL);
}

static void pass_byte(int from, int to)
{
    char byte = 'x';
    if (send(from, &byte, 1, MSG_NOSIGNAL) != 1 || recv(to, &byte, 1, MSG_WAITALL) != 1 || byte != 'x')
        die("a byte over a connection");
    bytes++;
}

static void connections(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 2 * count + 16) {
        limit.rlim_cur = limit.rlim_max > 2 * count + 16 ? 2 * count + 16 : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), *ends = calloc(2 * count, sizeof *ends);
    if (!ends || listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 128) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        die("listening");
    for (uint64_t i = 0; i < count; i++) {
        ends[2 * i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (ends[2 * i] < 0 || connect(ends[2 * i], (struct sockaddr *)&address, sizeof address) != 0 ||
            (ends[2 * i + 1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
            die("connection %llu", (unsigned long long)i);
    }
    for (uint64_t i = 0; i < count; i++) {
        pass_byte(ends[2 * i], ends[2 * i + 1]);
        pass_byte(ends[2 * i + 1], ends[2 * i]);
    }
    for (uint64_t i = 0; i < 2 * count; i++)
        close(ends[i]);
    free(ends);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } kinds[] = { { "processes", processes }, { "threads", threads }, { "orphan", orphan }, { "closes", closes },
                  { "dies", dies }, { "same-pid", same_pid }, { "execs", execs }, { "connections", connections } };
    uint64_t begun_ns = now_ns();
    int others = parse_options(argc, argv, "processes|threads|orphan|closes|dies|same-pid|execs|connections [OPTION]...", rows);
    for (size_t i = 0; others == 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0) {
            kinds[i].run();
            print_result(bytes, begun_ns, "");
            return 0;
        }
    fprintf(stderr, "%s: expected one kind of awkwardness; --help lists them\n", argv[0]);
    return 2;
}
