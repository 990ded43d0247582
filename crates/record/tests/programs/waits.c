/* Waits of known kinds, one per thread; prints the numbers of its threads. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES 3000000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int begun, signalled;
static struct sockaddr_in address = {.sin_family = AF_INET};

static void rest(long ms) {
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}
static void name(const char *name) { pthread_setname_np(pthread_self(), name); }

static void *holder(void *unused) {
    name("holder");
    pthread_mutex_lock(&mutex);
    begun = 1;
    rest(30);
    pthread_mutex_unlock(&mutex);
    return unused;
}
static void *signaller(void *unused) {
    name("signaller");
    rest(30);
    pthread_mutex_lock(&mutex);
    signalled = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return unused;
}
static void *client(void *unused) {
    static char bytes[BYTES];
    name("client");
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    connect(fd, (struct sockaddr *)&address, sizeof address);
    for (size_t n = 0; n < BYTES;) {
        ssize_t sent = write(fd, bytes, BYTES - n > 100000 ? 100000 : BYTES - n);
        if (sent <= 0) exit(1);
        n += (size_t)sent;
    }
    char reply;
    if (read(fd, &reply, 1) != 1) exit(1);
    close(fd);
    return unused;
}
static void *poller(void *given) {
    char byte;
    name("poller");
    int fd = *(int *)given;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN) rest(2);
    return given;
}

int main(void) {
    pthread_t a, b, c;
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 8);
    getsockname(listener, (struct sockaddr *)&address, &length);

    pthread_create(&a, NULL, holder, NULL);
    while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE)) sched_yield();
    pthread_mutex_lock(&mutex); /* lock: holder */
    pthread_mutex_unlock(&mutex);
    pthread_join(a, NULL);
    pthread_create(&b, NULL, signaller, NULL);
    pthread_mutex_lock(&mutex);
    while (!signalled) pthread_cond_wait(&condition, &mutex); /* lock: signaller */
    pthread_mutex_unlock(&mutex);
    pthread_join(b, NULL);

    pthread_create(&c, NULL, client, NULL);
    int fd = accept(listener, NULL, NULL);
    static char bytes[65536];
    size_t got = 0;
    rest(20); /* the client's send buffer is full meanwhile */
    while (got < BYTES) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n <= 0) return 1;
        got += (size_t)n;
    }
    rest(30);
    if (write(fd, "r", 1) != 1) return 1;
    struct pollfd ended = {fd, POLLIN, 0};
    poll(&ended, 1, -1);
    pthread_join(c, NULL);

    int pair = socket(AF_INET, SOCK_STREAM, 0);
    connect(pair, (struct sockaddr *)&address, sizeof address);
    int other = accept(listener, NULL, NULL);
    pthread_create(&a, NULL, poller, &other);
    rest(30);
    if (send(pair, "x", 1, 0) != 1) return 1;
    pthread_join(a, NULL);

    pid_t child = fork();
    if (child == 0) {
        rest(30);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}
