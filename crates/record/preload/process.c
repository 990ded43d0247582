/* New threads and new programs. A forked child needs nothing here: its first calls notice that the generation is
 * gone. */
#include "internal.h"
#include <alloca.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void watch_thread_end(void);

struct start {
    void *(*routine)(void *);
    void *argument;
};

static void *run_thread(void *given) {
    struct start start = *(struct start *)given;
    free(given);
    int saved = errno;
    watch_thread_end();
    attach();
    errno = saved;
    return start.routine(start.argument);
}

EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*routine)(void *),
                          void *restrict argument) {
    struct start *start = enabled ? malloc(sizeof *start) : NULL;
    if (start == NULL) return REAL(pthread_create)(thread, attributes, routine, argument);
    start->routine = routine;
    start->argument = argument;
    int result = REAL(pthread_create)(thread, attributes, run_thread, start);
    if (result != 0) free(start);
    return result;
}

/* Records the calling thread's new name. */
void renamed(void) {
    if (enabled && me.slot != NULL && me.generation == *generation) REAL(prctl)(PR_GET_NAME, me.slot->name);
}

EXPORT int pthread_setname_np(pthread_t thread, const char *name) {
    int result = REAL(pthread_setname_np)(thread, name);
    if (result == 0 && pthread_equal(thread, pthread_self())) renamed();
    return result;
}

/* Builds the environment with our library on the caller's stack: this may run in a signal handler or a forked child. */
#define ENVIRONMENT(environment)                                                                                     \
    size_t strings_bytes = 0;                                                                                        \
    size_t room = environment_room(environment, &strings_bytes);                                                     \
    char **with = with_library(environment, alloca(room * sizeof(char *)), alloca(strings_bytes))

#define BECOME(expression)                                                                                           \
    if (!enabled) return (expression);                                                                               \
    became_another_program(0);                                                                                       \
    int result = (expression);                                                                                       \
    int saved = errno;                                                                                               \
    became_another_program(1);                                                                                       \
    errno = saved;                                                                                                   \
    return result

EXPORT int execve(const char *path, char *const arguments[], char *const environment[]) {
    ENVIRONMENT(environment);
    BECOME(REAL(execve)(path, arguments, with));
}
EXPORT int execv(const char *path, char *const arguments[]) {
    ENVIRONMENT(environ);
    BECOME(REAL(execve)(path, arguments, with));
}
EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[]) {
    ENVIRONMENT(environment);
    BECOME(REAL(execvpe)(file, arguments, with));
}
EXPORT int execvp(const char *file, char *const arguments[]) {
    ENVIRONMENT(environ);
    BECOME(REAL(execvpe)(file, arguments, with));
}
EXPORT int fexecve(int fd, char *const arguments[], char *const environment[]) {
    ENVIRONMENT(environment);
    BECOME(REAL(fexecve)(fd, arguments, with));
}

/* Collects words up to the null pointer; `environment` may follow it. */
#define WORDS(first, list)                                                                                           \
    size_t many = 1;                                                                                                 \
    va_list list, count;                                                                                             \
    va_start(list, first);                                                                                           \
    va_copy(count, list);                                                                                            \
    while (va_arg(count, char *) != NULL) many++;                                                                    \
    va_end(count);                                                                                                   \
    char **words = alloca((many + 1) * sizeof *words);                                                               \
    words[0] = (char *)(uintptr_t)first;                                                                             \
    for (size_t n = 1; n <= many; n++) words[n] = va_arg(list, char *)

EXPORT int execl(const char *path, const char *first, ...) {
    if (first == NULL) return execv(path, (char *[]){NULL});
    WORDS(first, list);
    va_end(list);
    return execv(path, words);
}
EXPORT int execlp(const char *file, const char *first, ...) {
    if (first == NULL) return execvp(file, (char *[]){NULL});
    WORDS(first, list);
    va_end(list);
    return execvp(file, words);
}
EXPORT int execle(const char *path, const char *first, ...) {
    if (first == NULL) {
        errno = EINVAL;
        return -1;
    }
    WORDS(first, list);
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    return execve(path, words, environment);
}

EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions,
                       const posix_spawnattr_t *restrict attributes, char *const arguments[restrict], char *const environment[restrict]) {
    ENVIRONMENT(environment);
    return REAL(posix_spawn)(pid, path, actions, attributes, arguments, with);
}
EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file, const posix_spawn_file_actions_t *restrict actions,
                        const posix_spawnattr_t *restrict attributes, char *const arguments[restrict], char *const environment[restrict]) {
    ENVIRONMENT(environment);
    return REAL(posix_spawnp)(pid, file, actions, attributes, arguments, with);
}

/* These start their shell inside the C library, bypassing the functions above. */
EXPORT int system(const char *command) {
    int was_lent = command != NULL && enabled ? lend() : 0;
    int result = REAL(system)(command);
    int saved = errno;
    take_back(was_lent);
    errno = saved;
    return result;
}
EXPORT FILE *popen(const char *command, const char *mode) {
    int was_lent = enabled ? lend() : 0;
    FILE *result = REAL(popen)(command, mode);
    int saved = errno;
    take_back(was_lent);
    errno = saved;
    return result;
}
