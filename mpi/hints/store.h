/* A mounted store, seen through extended attributes of what is in it: `user.thalweg.store` says which store a path is in and who
 * its servers are, `user.thalweg.layout` is a file's layout. No MPI: each call is one process's own. */
#ifndef THALWEG_HINTS_STORE_H
#define THALWEG_HINTS_STORE_H

#include "hints/text.h"
#include "mount_description.h"
#include <sys/types.h>

#define LAYOUT_ATTRIBUTE "user.thalweg.layout"
#define MAP_ATTRIBUTE "user.thalweg.map"

/* A file's name without the prefix `thal:`; the rest is the same string. */
const char *store_strip(const char *name);
/* The same without the prefixes that MPI implementations take off themselves. */
const char *store_path(const char *name);

/* Whether `path`'s directory is in a mounted store, and which. 0: yes, free with `store_forget`; -1: no. */
int store_find(const char *path, struct store *store);

/* The layout in force, to be freed; null: none can be read. */
char *store_layout(const char *path);
/* Gives a file that never had a byte, and that nobody has open, a layout. Returns 0 or an errno, with the store's reason. */
int store_lay_out(const char *path, const char *layout, char *reason, size_t room);

/* Makes an empty file with the layout that the wish asks for; with a null wish, the layout that any file there gets. The name appears
 * at once with its layout, or not at all. Returns 0, or an errno with a reason; EEXIST: there is one. */
int store_create(const char *path, mode_t mode, const struct hints_wish *wish, char *reason, size_t room);

#endif
