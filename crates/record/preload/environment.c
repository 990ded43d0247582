/* The settings that came in the environment, and handing them on: whatever the program executes has the library in it again, also where the
 * program makes the new environment itself and leaves us out. */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

static char library[512];
static char setting[512];

/* The settings: DIRECTORY|LIBRARY|scale of the processor's counter, or 0. */
int keep_setting(const char *text, char *directory, size_t directory_bytes, uint64_t *scale) {
    size_t length = strlen(text);
    if (length >= sizeof setting) return 0;
    memcpy(setting, text, length + 1);
    const char *first = strchr(text, '|');
    const char *second = first ? strchr(first + 1, '|') : NULL;
    if (second == NULL || (size_t)(first - text) >= directory_bytes || (size_t)(second - first - 1) >= sizeof library) return 0;
    memcpy(directory, text, (size_t)(first - text));
    memcpy(library, first + 1, (size_t)(second - first - 1));
    *scale = strtoull(second + 1, NULL, 10);
    return 1;
}

static int begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* How many pointers and bytes of strings `with_library` needs. */
size_t environment_room(char *const environment[], size_t *strings_bytes) {
    size_t many = 0;
    *strings_bytes = sizeof library + sizeof setting + 64;
    for (; environment != NULL && environment[many] != NULL; many++)
        if (begins(environment[many], "LD_PRELOAD=")) *strings_bytes += strlen(environment[many]);
    return many + 3;
}

/* The environment with our library in it: itself if it is there already. */
char **with_library(char *const environment[], char **room, size_t strings_bytes, char *strings) {
    if (!enabled) return (char **)environment;
    size_t out = 0;
    const char *others = NULL;
    int has_setting = 0;
    for (size_t n = 0; environment != NULL && environment[n] != NULL; n++) {
        if (begins(environment[n], "LD_PRELOAD=")) {
            others = environment[n] + 11;
        } else {
            has_setting |= begins(environment[n], "THALWEG_PRELOAD=");
            room[out++] = environment[n];
        }
    }
    if (has_setting && others != NULL && strstr(others, library) != NULL) return (char **)environment;
    room[out++] = strings;
    char *end = append(append(strings, "LD_PRELOAD="), library);
    if (others != NULL && strstr(others, library) == NULL && *others) end = append(append(end, ":"), others);
    if (!has_setting) {
        room[out++] = ++end;
        append(append(end, "THALWEG_PRELOAD="), setting);
    }
    room[out] = NULL;
    (void)strings_bytes;
    return room;
}
