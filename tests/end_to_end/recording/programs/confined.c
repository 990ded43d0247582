/* Programs that give up rights, calls or their session, in the ways that real ones do. The first word says which. Long because main
 * is one branch for each of them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0) _exit(90);
}

/* A filter that ends the process at any call that is not listed. */
static void filter(const int *allowed, size_t many, int through_syscall, unsigned flags) {
    struct sock_filter code[2 * 64 + 4];
    size_t n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < many; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(91);
    long failed = through_syscall ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program)
                                  : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    if (failed != 0) _exit(92);
}
#define FILTER(through_syscall, flags, ...)                                            \
    do {                                                                               \
        static const int calls[] = {__VA_ARGS__};                                      \
        filter(calls, sizeof calls / sizeof calls[0], through_syscall, flags);         \
    } while (0)

/* Files are read and time passes, so that a recorder has something to tell before it happens. */
static void work(void) {
    char bytes[4096];
    for (int i = 0; i < 200; i++) {
        int fd = open("/proc/self/stat", O_RDONLY);
        if (fd < 0 || read(fd, bytes, sizeof bytes) <= 0) _exit(93);
        close(fd);
    }
    poll(NULL, 0, 3);
}

static void read_and_write(int many) {
    char byte;
    for (int i = 0; i < many; i++) {
        if (read(0, &byte, 1) < 0) say("cannot read\n");
        if (i % 100 == 0) say("still here\n");
    }
}

static volatile int begun;

static void *reads(void *unused) {
    char bytes[64];
    (void)unused;
    begun = 1;
    for (int i = 0; i < 20000; i++)
        if (read(0, bytes, sizeof bytes) < 0) break;
    return NULL;
}

static void on_signal(int number) {
    (void)number;
    say("a signal came\n");
}

/* What a dynamic program calls before `main`, and a little. */
static void as_little_as_a_loader_needs(void) {
    FILTER(0, 0, SYS_execve, SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_openat, SYS_read, SYS_pread64, SYS_close, SYS_fstat, SYS_newfstatat,
#ifdef SYS_access
           SYS_access, SYS_arch_prctl,
#endif
           SYS_faccessat, SYS_set_tid_address, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_getrandom, SYS_write, SYS_exit_group);
}

/* A daemon: waits for a line in the pipe `go`, runs children in every way there is, and writes to `out` alone. */
static int daemonize(const char *go, const char *out) {
    if (fork() != 0) return 0;
    setsid();
    if (fork() != 0) _exit(0);
    int fd = open(out, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) _exit(94);
    int from = open(go, O_RDONLY);
    char byte;
    if (from < 0 || read(from, &byte, 1) != 1) _exit(95);
    if (system("/bin/echo by system; env | grep -c -e LD_PRELOAD -e THALWEG") < 0) say("no shell\n");
    FILE *pipe = popen("/bin/echo by popen", "w");
    if (pipe == NULL || pclose(pipe) != 0) say("no pipe\n");
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/echo", "echo", "by exec", NULL);
        _exit(96);
    }
    waitpid(child, NULL, 0);
    child = fork();
    if (child == 0) {
        char *words[] = {"sh", "-c", "/bin/echo by a system call", NULL};
        syscall(SYS_execve, "/bin/sh", words, environ);
        _exit(97);
    }
    waitpid(child, NULL, 0);
    say("over\n");
    _exit(0);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "under-a-filter") == 0) {
        read_and_write(500);
        return 14;
    }
    work();
    if (strcmp(what, "strict") == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) != 0) return 98;
        read_and_write(500);
        syscall(SYS_exit, 7);
    } else if (strcmp(what, "strict-and-clock") == 0) {
        /* Ends by SIGKILL or SIGSEGV, recorded or not. */
        struct timespec now;
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) != 0) return 98;
        say("now\n");
        clock_gettime(CLOCK_MONOTONIC, &now);
        syscall(SYS_getpid);
        say("never\n");
    } else if (strcmp(what, "filter") == 0) {
        FILTER(0, 0, SYS_read, SYS_write, SYS_exit_group, SYS_rt_sigreturn);
        read_and_write(500);
        _exit(8);
    } else if (strcmp(what, "filter-and-exit") == 0) {
        FILTER(1, 0, SYS_read, SYS_write, SYS_exit_group, SYS_newfstatat, SYS_fstat, SYS_getrandom, SYS_brk);
        printf("to be flushed at the end\n");
        return 9;
    } else if (strcmp(what, "filter-for-all-threads") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, reads, NULL);
        while (!begun) poll(NULL, 0, 1);
        FILTER(1, SECCOMP_FILTER_FLAG_TSYNC, SYS_read, SYS_write, SYS_exit_group, SYS_exit, SYS_futex, SYS_madvise, SYS_munmap, SYS_rt_sigprocmask);
        pthread_join(thread, NULL);
        say("joined\n");
        _exit(10);
    } else if (strcmp(what, "filter-and-forbidden") == 0) {
        FILTER(0, 0, SYS_read, SYS_write, SYS_exit_group);
        say("now\n");
        syscall(SYS_getpid);
        say("never\n");
    } else if (strcmp(what, "filter-that-cannot-be") == 0) {
        int result = prctl(PR_SET_SECCOMP, 77, 0, 0, 0);
        printf("%d %s\n", result, strerror(errno));
        return 11;
    } else if (strcmp(what, "filter-and-handler") == 0) {
        signal(SIGUSR1, on_signal);
        FILTER(0, 0, SYS_read, SYS_write, SYS_exit_group, SYS_rt_sigreturn, SYS_tgkill, SYS_getpid, SYS_gettid, SYS_rt_sigprocmask);
        raise(SIGUSR1);
        _exit(12);
    } else if (strcmp(what, "no-clock") == 0) {
#ifdef PR_SET_TSC
        if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) return 98;
#endif
        read_and_write(500);
        return 13;
    } else if (strcmp(what, "filter-then-exec") == 0) {
        as_little_as_a_loader_needs();
        execl(argv[0], argv[0], "under-a-filter", NULL);
        _exit(99);
    } else if (strcmp(what, "child-under-a-filter") == 0) {
        int status = 0;
        if (fork() == 0) {
            as_little_as_a_loader_needs();
            execl(argv[0], argv[0], "under-a-filter", NULL);
            _exit(99);
        }
        wait(&status);
        say(WIFEXITED(status) && WEXITSTATUS(status) == 14 ? "as it should\n" : "otherwise\n");
        work();
        return 15;
    } else if (strcmp(what, "exec") == 0) {
        execl("/usr/bin/env", "env", NULL);
        _exit(99);
    } else if (strcmp(what, "exec-without-environment") == 0) {
        char *words[] = {"env", NULL}, *none[] = {NULL};
        execve("/usr/bin/env", words, none);
        _exit(99);
    } else if (strcmp(what, "environment") == 0) {
        printf("%s %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none", getuid() == geteuid() ? "same" : "raised");
        for (char **entry = environ; *entry != NULL; entry++)
            if (strstr(*entry, "thalweg-preload") != NULL) printf("%s\n", *entry);
        fflush(stdout);
        return system("env | grep thalweg-preload") == 0 ? 17 : 16;
    } else if (strcmp(what, "daemon") == 0) {
        return daemonize(argv[2], argv[3]);
    }
    return 0;
}
