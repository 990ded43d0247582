/* NFSv3 on top of rpc.h: the mount and the file come from libnfs, and so does the encoding of arguments and results. */
#ifndef NFS_H
#define NFS_H

#include <nfsc/libnfs-zdr.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <stdbool.h>
#include <stdint.h>

#include "rpc.h"

/* A file handle. */
struct handle {
    uint32_t length;
    char bytes[64];
};

/* Where a server is and what of it was asked for. */
struct place {
    char host[256], port[16];
    struct handle handle;
    uint64_t size, read_max, write_max;
};

enum purpose { TO_WRITE, TO_READ, TO_WALK };

/* Mounts the URL's export, opens, makes (empty) or finds its file or directory, and takes libnfs's connection down again. Ends the
 * program when that fails. */
void nfs_find(const char *url, enum purpose purpose, struct place *place);

struct nfs_fh3 nfs_handle3(struct handle *handle);
void nfs_keep_handle(struct handle *to, const struct nfs_fh3 *from);
/* Adds a procedure's arguments to a call. */
void nfs_encode(struct call *call, zdrproc_t encode, void *arguments);
/* Decodes results into `into`, which the caller has zeroed, and ends the program unless the status is NFS3_OK. What was decoded lasts until
 * zdr_destroy(zdr). */
void nfs_decode(ZDR *zdr, zdrproc_t decode, void *into, const uint8_t *results, size_t length, const char *what);

#endif
