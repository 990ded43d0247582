/* Whether the process runs under a filter of system calls (seccomp) that its recorder is not under. */
#include "internal.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* The number after `name` in what /proc says; -1: it is not there. */
static long number_after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at == NULL ? -1 : strtol(at + strlen(name), NULL, 10);
}

/* Whether calls may be made that the program does not make itself. Asking the kernel with prctl is such a call; opening, reading and closing
 * a file is what the loader has just done to load us. Filters are only ever added: as many as the recorder has are the
 * recorder's own, under which it works. What cannot be found out is a no. */
int may_call(long filters) {
    char text[8192];
    long fd = raw(SYS_openat, AT_FDCWD, (long)"/proc/self/status", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return 0;
    size_t have = 0;
    long got;
    while (have < sizeof text - 1 && (got = raw(SYS_read, fd, (long)text + (long)have, (long)(sizeof text - 1 - have), 0, 0, 0)) > 0)
        have += (size_t)got;
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    text[have] = 0;
    long mode = number_after(text, "\nSeccomp:");
    /* A kernel without seccomp says nothing of it. */
    if (mode <= 0) return have > 0 && (mode == 0 || strstr(text, "\nvoluntary_ctxt_switches:") != NULL);
    return filters > 0 && number_after(text, "\nSeccomp_filters:") == filters;
}
