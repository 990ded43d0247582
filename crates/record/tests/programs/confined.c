/* confined WORDS: runs the words under a system call filter that allows everything, installed past any preloaded
 * library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int n, char **words)
{
    struct sock_filter all = { .code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW };
    struct sock_fprog filter = { .len = 1, .filter = &all };
    void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    int (*own)(int, ...) = library ? (int (*)(int, ...))dlsym(library, "prctl") : 0;
    if (n < 2 || !own)
        return 2;
    if (own(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) != 0 || own(PR_SET_SECCOMP, (long)SECCOMP_MODE_FILTER, &filter, 0L, 0L) != 0)
        return 3;
    execv(words[1], words + 1);
    return 4;
}
