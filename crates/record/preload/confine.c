/* Detects a system call filter (seccomp) on the process that its recorder does not have. */
#include "internal.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* Returns the number after `name` in a file of /proc; -1 if it is missing. */
static long number_after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at == NULL ? -1 : strtol(at + strlen(name), NULL, 10);
}

/* Whether system calls may be made that the program does not make itself. Querying with prctl would be such a call;
 * opening, reading and closing a file is what the loader did just now to load this library. Filters are only ever
 * added: up to the recorder's own number of filters, they are the recorder's, which permit its work. If in doubt, no. */
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
    /* A kernel without seccomp does not report it. */
    if (mode <= 0) return have > 0 && (mode == 0 || strstr(text, "\nvoluntary_ctxt_switches:") != NULL);
    return filters > 0 && number_after(text, "\nSeccomp_filters:") == filters;
}
