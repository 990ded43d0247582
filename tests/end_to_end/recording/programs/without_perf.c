/* without_perf kill|refuse WORDS: runs the words under a system call filter that ends whoever calls perf_event_open, or
 * refuses the call (as container runtimes do). */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int n, char **words)
{
    if (n < 3)
        return 2;
    unsigned verdict = strcmp(words[1], "kill") ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS;
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { .len = sizeof steps / sizeof *steps, .filter = steps };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) || prctl(PR_SET_SECCOMP, (long)SECCOMP_MODE_FILTER, &filter, 0L, 0L))
        return 3;
    execvp(words[2], words + 2);
    return 4;
}
