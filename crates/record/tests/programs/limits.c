/* limits FILE: waits that time out, a lock on a file held by a child, and a child that works without calls and exits
 * immediately. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct timespec in_ms(long ms)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_nsec += ms * 1000000;
    now.tv_sec += now.tv_nsec / 1000000000;
    now.tv_nsec %= 1000000000;
    return now;
}

/* Computes for this much CPU time, read so rarely that it does not form a run of calls. */
static unsigned compute(long ms)
{
    struct timespec used;
    unsigned value = 1;
    do {
        for (int i = 0; i < 2000000; i++)
            value = value * 1664525 + 1013904223;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    } while (used.tv_sec == 0 && used.tv_nsec < ms * 1000000);
    return value;
}

int main(int n, char **words)
{
    if (n < 2)
        return 2;
    int file = open(words[1], O_RDWR | O_CREAT, 0666), sides[2];
    struct flock whole = { .l_type = F_WRLCK };
    if (file < 0 || pipe(sides) != 0)
        return 3;
    /* A child holds the lock for a while. */
    pid_t child = fork();
    if (child == 0) {
        int locked = fcntl(file, F_SETLKW, &whole);
        write(sides[1], "!", 1);
        usleep(300000);
        _exit(locked != 0);
    }
    char byte;
    read(sides[0], &byte, 1);
    if (fcntl(file, F_SETLKW, &whole) != 0)
        return 4;
    waitpid(child, NULL, 0);
    /* A question without an answer. */
    struct sockaddr_in nobody = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int asks = socket(AF_INET, SOCK_DGRAM, 0);
    bind(asks, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, sizeof nobody);
    struct pollfd one = { .fd = asks, .events = POLLIN };
    poll(&one, 1, 30);
    /* It is never posted: there is no other thread. */
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    struct timespec until = in_ms(200);
    if (sem_timedwait(&semaphore, &until) == 0 || errno != ETIMEDOUT)
        return 5;
    /* Another process could have posted or signalled these. */
    sem_init(&semaphore, 1, 0);
    until = in_ms(200);
    if (sem_timedwait(&semaphore, &until) == 0 || errno != ETIMEDOUT)
        return 6;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    pthread_condattr_t shared;
    pthread_condattr_init(&shared);
    pthread_condattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&condition, &shared);
    until = in_ms(200);
    pthread_mutex_lock(&mutex);
    if (pthread_cond_timedwait(&condition, &mutex, &until) != ETIMEDOUT)
        return 7;
    pthread_mutex_unlock(&mutex);
    /* A child that works, and exits without notifying its parent. */
    child = fork();
    if (child == 0) {
        usleep(1000);
        _exit(compute(60) == 0);
    }
    waitpid(child, NULL, 0);
    return 0;
}
