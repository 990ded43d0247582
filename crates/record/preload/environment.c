/* The environment: the program sees its own, as if unrecorded, and programs that it executes get the library again.
 *
 * The loader found us in LD_PRELOAD; on loading we remove ourselves from it, and add ourselves again for each program
 * executed, if that program can use us. Otherwise (another user, another root, another mount namespace, a recorder
 * that is gone) the loader would complain on the program's standard error, so we stay out. */
#include "internal.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MARK_BYTES 24
#define NAME "LD_PRELOAD="

/* The settings follow the mark; the recorder writes them into the library's file. Not static and not constant, so
 * that the compiler does not assume their contents. */
char setting[1024] __attribute__((visibility("hidden"))) = "thalweg-preload-setting:";
static char library[512];
static char rings[256];

static int begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Reads the settings: DIRECTORY OF THE RINGS|LIBRARY|scale of the CPU's counter, or 0|number of filters on the
 * recorder. */
int keep_setting(char *directory, size_t directory_bytes, uint64_t *scale, long *filters) {
    const char *text = setting + MARK_BYTES;
    const char *first = strchr(text, '|');
    const char *second = first ? strchr(first + 1, '|') : NULL;
    if (second == NULL || (size_t)(first - text) >= directory_bytes || (size_t)(first - text) >= sizeof rings ||
        (size_t)(second - first - 1) >= sizeof library)
        return 0;
    memcpy(directory, text, (size_t)(first - text));
    memcpy(rings, text, (size_t)(first - text));
    memcpy(library, first + 1, (size_t)(second - first - 1));
    char *end;
    *scale = strtoull(second + 1, &end, 10);
    *filters = *end == '|' ? strtol(end + 1, NULL, 10) : 0;
    return 1;
}

/* Returns the library's place in an LD_PRELOAD list; NULL if it is missing. */
static char *find_in(char *list) {
    size_t length = strlen(library);
    for (char *at = list; length != 0 && (at = strstr(at, library)) != NULL; at += length) {
        int begin = at == list || at[-1] == ':' || at[-1] == ' ';
        if (begin && (at[length] == 0 || at[length] == ':' || at[length] == ' ')) return at;
    }
    return NULL;
}

/* Removes the library from an environment, in place: the strings are the program's own and writable. */
void hide(char **environment) {
    for (char **entry = environment; environment != NULL && *entry != NULL;) {
        char *at = begins(*entry, NAME) ? find_in(*entry + sizeof NAME - 1) : NULL;
        if (at == NULL) {
            entry++;
            continue;
        }
        size_t length = strlen(library);
        char *rest = at[length] == 0 ? at + length : at + length + 1;
        size_t old = strlen(*entry);
        memmove(at, rest, strlen(rest) + 1);
        size_t left = strlen(*entry);
        if (left > sizeof NAME - 1 && *rest == 0 && ((*entry)[left - 1] == ':' || (*entry)[left - 1] == ' ')) left--;
        if (left == sizeof NAME - 1) left = 0;
        memset(*entry + left, 0, old - left);
        if (left != 0) {
            entry++;
            continue;
        }
        for (char **to = entry; (to[0] = to[1]) != NULL;) to++;
    }
}

/* Whether a program executed from here could load the library and write rings. */
static int usable(void) {
    if (!enabled) return 0;
    int saved = errno;
    int can = raw(SYS_faccessat, AT_FDCWD, (long)rings, W_OK | X_OK, 0, 0, 0) == 0 &&
              raw(SYS_faccessat, AT_FDCWD, (long)library, R_OK, 0, 0, 0) == 0;
    errno = saved;
    return can;
}

/* Returns how many pointers and bytes of strings `with_library` needs. */
size_t environment_room(char *const environment[], size_t *strings_bytes) {
    size_t many = 0;
    *strings_bytes = sizeof library + 64;
    for (; environment != NULL && environment[many] != NULL; many++)
        if (begins(environment[many], NAME)) *strings_bytes += strlen(environment[many]);
    return many + 3;
}

/* Writes `LD_PRELOAD=` with the library before `others` (may be NULL). */
static void name_library(char *to, const char *others) {
    char *end = append(append(to, NAME), library);
    if (others != NULL && *others) append(append(end, ":"), others);
}

/* Returns the environment with our library in it, or unchanged if the program could not use it. */
char **with_library(char *const environment[], char **room, char *strings) {
    if (!usable()) return (char **)environment;
    size_t out = 0;
    const char *others = NULL;
    for (size_t n = 0; environment != NULL && environment[n] != NULL; n++) {
        if (begins(environment[n], NAME)) others = environment[n] + sizeof NAME - 1;
        else room[out++] = environment[n];
    }
    if (others != NULL && find_in((char *)others) != NULL) return (char **)environment;
    name_library(strings, others);
    room[out++] = strings;
    room[out] = NULL;
    return room;
}

/* ---- functions of the C library that execute a shell with the current environment ---- */

static _Atomic int lent;
static char lent_text[2048];
static char *replaced;

/* Puts the library into `environ` for the duration of a call; returns 0 if it cannot. If another thread does the same
 * or changes the environment meanwhile, the worst outcome is an unrecorded shell. */
int lend(void) {
    int none = 0;
    if (!usable() || !atomic_compare_exchange_strong(&lent, &none, 1)) return 0;
    static char **room;
    static size_t capacity;
    size_t many = 0;
    char **of_name = NULL;
    for (; environ != NULL && environ[many] != NULL; many++)
        if (begins(environ[many], NAME)) of_name = &environ[many];
    replaced = of_name == NULL ? NULL : *of_name;
    if (replaced != NULL && strlen(replaced) + sizeof library + 2 > sizeof lent_text) {
        atomic_store(&lent, 0);
        return 0;
    }
    name_library(lent_text, replaced == NULL ? NULL : replaced + sizeof NAME - 1);
    if (of_name != NULL) {
        *of_name = lent_text;
        return 1;
    }
    if (environ != room || many + 2 > capacity) {
        /* The program may still hold our previous array, so it is not freed. */
        char **more = malloc((many + 64) * sizeof *more);
        if (more == NULL) {
            atomic_store(&lent, 0);
            return 0;
        }
        if (many > 0) memcpy(more, environ, many * sizeof *more);
        room = more;
        capacity = many + 64;
    }
    room[many] = lent_text;
    room[many + 1] = NULL;
    environ = room;
    return 1;
}

void take_back(int was_lent) {
    if (!was_lent) return;
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (*entry != lent_text) continue;
        if (replaced != NULL) *entry = replaced;
        else for (char **to = entry; (to[0] = to[1]) != NULL;) to++;
        break;
    }
    atomic_store(&lent, 0);
}
