/* See store.h. */
#define _GNU_SOURCE
#include "hints/store.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ERROR "user.thalweg.error"

const char *store_strip(const char *name)
{
    return !strncmp(name, "thal:", 5) ? name + 5 : name;
}

const char *store_path(const char *name)
{
    name = store_strip(name);
    return !strncmp(name, "ufs:", 4) || !strncmp(name, "nfs:", 4) ? name + 4 : name;
}

/* The directory that a path's last name is in, or would be. */
static int directory_of(const char *path, char *directory, size_t room)
{
    const char *slash = strrchr(path, '/');
    size_t length = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= room)
        return -1;
    memcpy(directory, slash ? path : ".", length);
    directory[length] = 0;
    return 0;
}

/* An extended attribute as text, to be freed; null: it is not there. */
static char *attribute(const char *path, const char *name)
{
    char *value = malloc(HINTS_LAYOUT_BYTES + 1);
    ssize_t length = value ? getxattr(path, name, value, HINTS_LAYOUT_BYTES) : -1;
    if (length < 0) {
        free(value);
        return NULL;
    }
    value[length] = 0;
    return value;
}

int store_find(const char *path, struct store *store)
{
    char directory[PATH_MAX];
    memset(store, 0, sizeof *store);
    if (directory_of(path, directory, sizeof directory))
        return -1;
    char *text = attribute(directory, STORE_ATTRIBUTE);
    int failed = !text || store_read(text, strlen(text), store);
    if (text && failed)
        fprintf(stderr, "thalweg: %s: %s says nothing that this library understands\n", directory, STORE_ATTRIBUTE);
    free(text);
    return failed ? -1 : 0;
}

char *store_layout(const char *path)
{
    return attribute(path, LAYOUT_ATTRIBUTE);
}

int store_lay_out(const char *path, const char *layout, char *reason, size_t room)
{
    if (!setxattr(path, LAYOUT_ATTRIBUTE, layout, strlen(layout), 0))
        return 0;
    int error = errno;
    char *said = error == EINVAL || error == EBUSY ? attribute(path, ERROR) : NULL;
    snprintf(reason, room, "%.*s", (int)(room - 1), said && *said ? said : strerror(error));
    free(said);
    return error;
}

/* Makes `path` another name's file unless there is one. Where a file system cannot do that in one step, a hard link does it in two. */
static int name_file(const char *temporary, const char *path)
{
    if (!renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE))
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    if (link(temporary, path))
        return errno;
    unlink(temporary);
    return 0;
}

int store_create(const char *path, mode_t mode, const struct hints_wish *wish, char *reason, size_t room)
{
    char directory[PATH_MAX], temporary[PATH_MAX], value[HINTS_LAYOUT_BYTES];
    struct stat there;
    uint64_t unique;
    if (!lstat(path, &there)) {
        snprintf(reason, room, "it exists");
        return EEXIST;
    }
    if (getrandom(&unique, sizeof unique, 0) != sizeof unique || directory_of(path, directory, sizeof directory) ||
        (size_t)snprintf(temporary, sizeof temporary, "%s/.thalweg-%016llx", directory, (unsigned long long)unique) >= sizeof temporary) {
        snprintf(reason, room, "the name is too long");
        return ENAMETOOLONG;
    }
    if (mknod(temporary, S_IFREG | mode, 0)) {
        int error = errno;
        snprintf(reason, room, "%s", strerror(error));
        return error;
    }
    int error = 0;
    if (wish) {
        char *inherited = attribute(temporary, LAYOUT_ATTRIBUTE);
        if (hints_layout(wish, inherited ? inherited : "", value, sizeof value)) {
            snprintf(reason, room, "the layout is longer than %d bytes", HINTS_LAYOUT_BYTES);
            error = E2BIG;
        } else {
            error = store_lay_out(temporary, value, reason, room);
        }
        free(inherited);
    }
    if (!error && (error = name_file(temporary, path)))
        snprintf(reason, room, "%s", error == EEXIST ? "it exists" : strerror(error));
    if (error)
        unlink(temporary);
    return error;
}
