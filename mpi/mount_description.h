/* What a mounted store says of itself by its extended attribute `user.thalweg.store`, as far as this library needs it. The members are those
 * of crates/trace/src/mount_description.rs; both readers are held to crates/trace/tests/mount_descriptions.json. */
#ifndef THALWEG_MOUNT_DESCRIPTION_H
#define THALWEG_MOUNT_DESCRIPTION_H

#include <stddef.h>
#include <stdint.h>

#define STORE_ATTRIBUTE "user.thalweg.store"

/* Labels of nodes and identifiers of stores are shorter. */
#define STORE_LABEL_BYTES 256

struct store {
    char id[STORE_LABEL_BYTES];
    char node[STORE_LABEL_BYTES]; /* the label of the mount, and so of this process */
    uint32_t *here;               /* the targets of this node's servers, by number */
    size_t here_count;
    char *nodes;                  /* the labels of all servers, for errors: `a, b, c` */
};

/* Reads what a mount said. 0: free with `store_forget`; -1: it is no description. */
int store_read(const char *text, size_t length, struct store *store);
void store_forget(struct store *store);

#endif
