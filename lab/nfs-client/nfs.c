/* See nfs.h. */
#include "nfs.h"

#include <errno.h>
#include <fcntl.h>
/* libnfs.h first: it defines what libnfs-raw.h uses. */
#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../workloads/workload.h"

struct nfs_fh3 nfs_handle3(struct handle *handle)
{
    struct nfs_fh3 handle3;
    handle3.data.data_len = handle->length;
    handle3.data.data_val = handle->bytes;
    return handle3;
}

void nfs_keep_handle(struct handle *to, const struct nfs_fh3 *from)
{
    if (from->data.data_len == 0 || from->data.data_len > sizeof to->bytes)
        corrupt("the server gave a file handle of %u bytes", from->data.data_len);
    to->length = from->data.data_len;
    memcpy(to->bytes, from->data.data_val, to->length);
}

void nfs_encode(struct call *call, zdrproc_t encode, void *arguments)
{
    ZDR zdr;
    zdrmem_create(&zdr, (caddr_t)call->header + call->header_length, (uint32_t)(CALL_HEADER_MAX - call->header_length), ZDR_ENCODE);
    if (!encode(&zdr, arguments))
        corrupt("the arguments of procedure %u do not fit", call->procedure);
    call->header_length += zdr_getpos(&zdr);
    zdr_destroy(&zdr);
}

void nfs_decode(ZDR *zdr, zdrproc_t decode, void *into, const uint8_t *results, size_t length, const char *what)
{
    zdrmem_create(zdr, (caddr_t)(uintptr_t)results, (uint32_t)length, ZDR_DECODE);
    if (!decode(zdr, into))
        corrupt("%s: the server's results cannot be read", what);
    /* Every NFSv3 result begins with its status. */
    nfsstat3 status = *(nfsstat3 *)into;
    if (status != NFS3_OK)
        corrupt("%s: the server says NFSv3 error %d", what, (int)status);
}

/* The value of a URL's parameter, or its default. */
static void parameter(const char *url, const char *name, const char *otherwise, char *into, size_t room)
{
    const char *at = strchr(url, '?');
    size_t length = strlen(name);
    for (; at; at = strchr(at, '&')) {
        at++;
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            size_t digits = strspn(at + length + 1, "0123456789");
            snprintf(into, room, "%.*s", (int)digits, at + length + 1);
            return;
        }
    }
    snprintf(into, room, "%s", otherwise);
}

/* Opens the file, an empty one for writing. The root of the mount is a directory, and opens like a file. */
static struct nfsfh *open_file(struct nfs_context *nfs, const char *path, enum purpose purpose)
{
    struct nfsfh *file = NULL;
    int code = purpose == TO_WRITE ? nfs_creat(nfs, path, 0644, &file) : nfs_open(nfs, path, O_RDONLY, &file);
    if (code != 0 || (purpose == TO_WRITE && nfs_ftruncate(nfs, file, 0) != 0))
        corrupt("%s: %s", path, nfs_get_error(nfs));
    return file;
}

void nfs_find(const char *url, enum purpose purpose, struct place *place)
{
    struct nfs_context *nfs = nfs_init_context();
    if (!nfs)
        die("memory for libnfs");
    struct nfs_url *parsed = purpose == TO_WALK ? nfs_parse_url_dir(nfs, url) : nfs_parse_url_full(nfs, url);
    if (!parsed)
        corrupt("%s: %s", url, nfs_get_error(nfs));
    snprintf(place->host, sizeof place->host, "%s", parsed->server);
    parameter(url, "nfsport", "2049", place->port, sizeof place->port);
    if (nfs_mount(nfs, parsed->server, parsed->path) != 0)
        corrupt("%s: %s", url, nfs_get_error(nfs));
    place->read_max = nfs_get_readmax(nfs);
    place->write_max = nfs_get_writemax(nfs);
    struct nfsfh *file = open_file(nfs, purpose == TO_WALK ? "/" : parsed->file, purpose);
    struct nfs_stat_64 found;
    if (nfs_fstat64(nfs, file, &found) != 0)
        corrupt("%s: %s", url, nfs_get_error(nfs));
    place->size = found.nfs_size;
    /* libnfs's handle is there to be given to the raw calls, whose type has the same two members. */
    nfs_keep_handle(&place->handle, (const struct nfs_fh3 *)(const void *)nfs_get_fh(file));
    nfs_close(nfs, file);
    nfs_destroy_url(parsed);
    nfs_destroy_context(nfs);
}
