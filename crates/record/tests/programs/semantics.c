/* Prints what a program sees of the C library: results, errno, signals, forks, threads. The output must be the same,
 * line by line, with and without our library in front of it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf out_of_it;
static int pipe_of_handler[2];

#define SAY(what, ...) (printf("%-28s ", what), printf(__VA_ARGS__), printf("\n"))
#define TRY(expression)                                                                                              \
    do {                                                                                                             \
        errno = 4242;                                                                                                \
        long result = (long)(expression);                                                                            \
        int error = errno;                                                                                           \
        SAY(#expression, "%ld %d", result, error);                                                                   \
    } while (0)

static void jump(int signal) {
    (void)signal;
    siglongjmp(out_of_it, 1);
}
static void note(int signal) {
    (void)signal;
    if (write(pipe_of_handler[1], "s", 1) != 1) _exit(9);
}
static void set(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}
static void alarm_in_ms(int ms) {
    struct itimerval time = {.it_value = {.tv_usec = ms * 1000}};
    setitimer(ITIMER_REAL, &time, NULL);
}

static void files(void) {
    char name[] = "/tmp/thalweg-semantics-XXXXXX", buffer[64];
    int fd = mkstemp(name);
    struct iovec v[2] = {{"ab", 2}, {"cd", 2}};
    struct stat status;
    TRY(write(fd, "hello", 5));
    TRY(pwrite(fd, "H", 1, 0));
    TRY(writev(fd, v, 2));
    TRY(pread(fd, buffer, 64, 0));
    SAY("read back", "%.9s", buffer);
    TRY(lseek(fd, 0, SEEK_SET));
    TRY(read(fd, buffer, 3));
    TRY(read(-1, buffer, 3));
    TRY(read(fd, (void *)1, 3));
    TRY(write(99999, "x", 1));
    TRY(fsync(fd));
    TRY(fsync(-1));
    TRY(open("/no/such", O_RDONLY));
    TRY(open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
    TRY(stat("/no/such", &status));
    TRY(fstat(fd, &status));
    SAY("size and mode", "%ld %o", (long)status.st_size, status.st_mode);
    TRY(ftruncate(fd, 4));
    TRY(posix_fallocate(-1, 0, 1));
    TRY(mkdir("/proc/x", 0700));
    TRY(rename("/no/such", "/no/other"));
    off_t at = 0;
    int other = open("/dev/null", O_WRONLY);
    TRY(sendfile(other, fd, &at, 4));
    TRY(copy_file_range(fd, NULL, fd, NULL, 1, 1));
    TRY(close(other));
    TRY(close(other));
    FILE *file = fdopen(fd, "r+");
    rewind(file);
    TRY(fread(buffer, 1, 64, file));
    TRY(feof(file));
    TRY(fwrite("tail", 2, 2, file));
    TRY(fflush(file));
    TRY(fclose(file));
    TRY(fsync(fd));
    TRY(unlink(name));
    TRY((long)mmap(NULL, 4096, PROT_READ, MAP_SHARED, -1, 0));
    mode_t mask = umask(022);
    int created = open(name, O_CREAT | O_WRONLY, 0666);
    fstat(created, &status);
    SAY("mode of a new file", "%o", status.st_mode);
    umask(mask);
    close(created);
    unlink(name);
}

static void waits(void) {
    int ends[2];
    char buffer[16];
    if (pipe(ends) != 0) exit(1);
    struct pollfd fds = {ends[0], POLLIN, 0};
    struct timespec time = {0, 1000000};
    TRY(poll(&fds, 1, 0));
    TRY(poll(&fds, 1, 2));
    TRY(poll(NULL, 0, 1));
    TRY(write(ends[1], "x", 1));
    TRY(poll(&fds, 1, -1));
    SAY("revents", "%d", fds.revents);
    fd_set set_of;
    FD_ZERO(&set_of);
    FD_SET(ends[0], &set_of);
    TRY(select(ends[0] + 1, &set_of, NULL, NULL, NULL));
    int set_fd = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.u64 = 77}}, found;
    TRY(epoll_ctl(set_fd, EPOLL_CTL_ADD, ends[0], &event));
    TRY(epoll_ctl(set_fd, EPOLL_CTL_ADD, ends[0], &event));
    TRY(epoll_wait(set_fd, &found, 1, -1));
    SAY("event", "%ld", (long)found.data.u64);
    TRY(epoll_ctl(set_fd, EPOLL_CTL_DEL, ends[0], NULL));
    TRY(read(ends[0], buffer, 16));
    TRY(nanosleep(&time, NULL));
    time.tv_nsec = -1;
    TRY(nanosleep(&time, NULL));
    TRY(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    TRY(read(ends[0], buffer, 16));
    TRY(accept(ends[0], NULL, NULL));
    TRY(connect(-1, NULL, 0));
    TRY(waitpid(-1, NULL, 0));
    TRY(syscall(SYS_getpid) == getpid());
    TRY(syscall(SYS_futex, NULL, 0, 0, NULL, NULL, 0));
    TRY(syscall(999999));
}

static void interrupted(void) {
    char buffer[4];
    int ends[2];
    if (pipe(ends) != 0 || pipe(pipe_of_handler) != 0) exit(1);
    set(SIGALRM, note, 0);
    alarm_in_ms(5);
    TRY(read(ends[0], buffer, 4));
    TRY(read(pipe_of_handler[0], buffer, 4));
    set(SIGALRM, note, SA_RESTART);
    alarm_in_ms(5);
    TRY(poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, -1));
    set(SIGALRM, jump, 0);
    for (int n = 0; n < 20; n++) {
        if (sigsetjmp(out_of_it, 1) == 0) {
            alarm_in_ms(1);
            TRY(read(ends[0], buffer, 4));
        }
    }
    SAY("jumped out of reads", "yes");
    if (write(ends[1], "go", 2) != 2) exit(1);
    TRY(read(ends[0], buffer, 4));
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int turn;
static pthread_key_t key;

static char last[64];
static void last_words(void *value) {
    char byte = 0;
    if (read(-1, &byte, 1) != -1) _exit(9);
    snprintf(last, sizeof last, "%s", (char *)value);
}
static void *worker(void *argument) {
    pthread_setspecific(key, argument);
    pthread_mutex_lock(&mutex);
    turn = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    sem_wait(&semaphore);
    return "value";
}
static void *blocked(void *argument) {
    char byte;
    pthread_setspecific(key, argument);
    if (read(*(int *)(void *)&((int *)argument)[8], &byte, 1) < 0) return NULL;
    return "read";
}
static void threads(void) {
    pthread_t thread;
    void *value = NULL;
    pthread_mutexattr_t attributes;
    pthread_mutex_t checked;
    struct timespec until;
    sem_init(&semaphore, 0, 0);
    pthread_key_create(&key, last_words);
    pthread_create(&thread, NULL, worker, "worker");
    pthread_mutex_lock(&mutex);
    while (!turn) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    TRY(sem_post(&semaphore));
    TRY(pthread_join(thread, &value));
    SAY("value", "%s; destructor of %s", (char *)value, last);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checked, &attributes);
    TRY(pthread_mutex_lock(&checked));
    TRY(pthread_mutex_lock(&checked));
    clock_gettime(CLOCK_REALTIME, &until);
    TRY(pthread_cond_timedwait(&condition, &checked, &until));
    TRY(pthread_mutex_unlock(&checked));
    int ends[2];
    if (pipe(ends) != 0) exit(1);
    struct {
        char name[32];
        int fd;
    } given = {"cancelled", ends[0]};
    pthread_create(&thread, NULL, blocked, &given);
    usleep(2000);
    TRY(pthread_cancel(thread));
    TRY(pthread_join(thread, &value));
    SAY("cancelled", "%d; destructor of %s", value == PTHREAD_CANCELED, last);
}
static void *never(void *unused) { return unused; }

static void processes(char *self) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int n = 0; n < 100; n++) close(open("/dev/null", O_RDONLY));
        printf("child writes\n");
        exit(3);
    }
    TRY(waitpid(child, &status, 0) == child);
    SAY("status", "%d", WEXITSTATUS(status));
    fflush(stdout);
    child = vfork();
    if (child == 0) {
        execl(self, self, "hello", "from vfork", (char *)NULL);
        _exit(9);
    }
    TRY(waitpid(child, &status, 0) == child);
    char *arguments[] = {self, "hello", "from spawn", NULL}, *environment[] = {"ONLY=this", NULL};
    fflush(stdout);
    TRY(posix_spawn(&child, self, NULL, NULL, arguments, environment));
    TRY(waitpid(child, &status, 0) == child);
    TRY(execl("/no/such", "x", (char *)NULL));
    TRY(execve("/no/such", arguments, environment));
    TRY(execvp("no-such-program", arguments));
    for (int n = 0; n < 3; n++) {
        fflush(stdout);
        child = fork();
        if (child == 0) {
            /* All descriptors are closed, including the standard ones: nothing breaks, and the exit code reports the
             * result. */
            for (int fd = 0; fd < 1024; fd++) close(fd);
            int fd = open("/dev/null", O_RDWR);
            struct timespec time = {0, 1000000};
            nanosleep(&time, NULL);
            _exit(fd == 0 ? 5 : 6);
        }
        waitpid(child, &status, 0);
        SAY("all closed", "%d", WEXITSTATUS(status));
    }
    fflush(stdout);
    child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_NOFILE, &none);
        pthread_t thread;
        _exit(pthread_create(&thread, NULL, never, NULL) == 0 && pthread_join(thread, NULL) == 0 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    SAY("no descriptors to be had", "%d", status);
    if (system("echo from the shell") != 0) SAY("system", "failed");
    FILE *from = popen("echo through a pipe", "r");
    char line[64] = "";
    TRY(fgets(line, sizeof line, from) == line);
    SAY("line", "%s", line);
    TRY(pclose(from));
}

int main(int words, char **word) {
    if (words > 2) {
        printf("%s %s, ONLY=%s\n", word[1], word[2], getenv("ONLY") ? getenv("ONLY") : "");
        return 0;
    }
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    files();
    waits();
    interrupted();
    if (words < 2) threads();
    processes(word[0]);
    return 17;
}
