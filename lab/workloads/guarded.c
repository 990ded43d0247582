/* guarded: a mutex that another thread of the same process holds while it works.
 *
 * --times times the other thread takes the mutex, says so, does what --hold says and lets go; the main thread wants it meanwhile, and
 * works 0.2 ms with it. How long it waits is what the other's work takes: the mutex is only how. */
#define _GNU_SOURCE
#include "workload.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { APPENDED_BYTES = 4096, OWN_WORK_NS = 200000 };

static uint64_t times = 20, for_ns = 10000000, port;
static const char *hold = "sleep", *path;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t wanted, held;
static int file = -1, server = -1;

static const struct option_row rows[] = {
    { "--times", COUNT, &times, "how often (20)" },
    { "--hold", TEXT, &hold, "what its holder does: sleep, compute, sync (of --path), ask (a server on loopback at --port)" },
    { "--for", TIME, &for_ns, "how long it sleeps or computes (10ms)" },
    { "--path", TEXT, &path, "what is appended to" },
    { "--port", COUNT, &port, "who is asked, with one byte, and answers with one" },
    { NULL, 0, NULL, NULL },
};

static void prepare(void)
{
    if (strcmp(hold, "sync") == 0) {
        file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
        if (file < 0)
            die("--path %s", path ? path : "is missing");
    } else if (strcmp(hold, "ask") == 0) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        server = socket(AF_INET, SOCK_STREAM, 0);
        if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof address) != 0)
            die("port %u", (unsigned)port);
    }
}

static void work(void)
{
    static const char block[APPENDED_BYTES];
    char answer;
    if (file >= 0) {
        if (write(file, block, sizeof block) != sizeof block || fdatasync(file) != 0)
            die("%s", path);
    } else if (server >= 0) {
        if (write(server, "?", 1) != 1 || read(server, &answer, 1) != 1)
            die("the server");
    } else if (strcmp(hold, "compute") == 0) {
        spin_for(for_ns);
    } else {
        sleep_for(for_ns);
    }
}

static void *holder(void *unused)
{
    for (uint64_t done = 0; done < times; done++) {
        while (sem_wait(&wanted) != 0)
            ;
        pthread_mutex_lock(&mutex);
        sem_post(&held);
        work();
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(int argc, char **argv)
{
    if (parse_options(argc, argv, "[OPTION]...", rows) != 0) {
        fprintf(stderr, "%s: expected options only; --help lists them\n", argv[0]);
        return 2;
    }
    prepare();
    sem_init(&wanted, 0, 0);
    sem_init(&held, 0, 0);
    pthread_t other;
    if (pthread_create(&other, NULL, holder, NULL) != 0)
        die("a second thread");
    uint64_t begun_ns = now_ns();
    for (uint64_t done = 0; done < times; done++) {
        sem_post(&wanted);
        while (sem_wait(&held) != 0)
            ;
        uint64_t from_ns = now_ns();
        pthread_mutex_lock(&mutex);
        inject(LOCKED, now_ns() - from_ns);
        spin_for(OWN_WORK_NS);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(other, NULL);
    print_result(0, begun_ns, "");
    return 0;
}
