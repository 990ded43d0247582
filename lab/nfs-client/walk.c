/* Visiting every file below a directory: see jobs.h.
 *
 * The classic `ls -lR` of a network file system: names come many at a time, attributes one file after the other, each for a round trip or two.
 * With a depth of 1 that is the fault; a larger depth, or READDIRPLUS, mends it. Work that is found is done in the order in which it was
 * found: a queue of directories to list (or list on) and of names to look up. */
#include "jobs.h"

#include <stdlib.h>
#include <string.h>

#include "../workloads/workload.h"

enum task { LIST, LOOK_UP, GET_ATTRIBUTES };

struct item {
    enum task task;
    struct handle handle;
    char *name;
    cookie3 cookie;
    cookieverf3 verifier;
    struct item *next;
};

static enum walk_how how;
static uint32_t list_bytes;
static struct item *first, **last = &first;
static uint64_t files, directories, total_bytes;

static struct item *add(enum task task, const struct handle *handle)
{
    struct item *item = calloc(1, sizeof *item);
    if (!item)
        die("memory for the walk");
    item->task = task;
    item->handle = *handle;
    *last = item;
    last = &item->next;
    return item;
}

/* Counts what was found, and has a directory listed. */
static void visit(const fattr3 *attributes, const struct handle *handle)
{
    if (attributes->type == NF3DIR) {
        directories++;
        add(LIST, handle);
        return;
    }
    files++;
    total_bytes += attributes->size;
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void release(struct item *item)
{
    free(item->name);
    free(item);
}

static void list_on(const struct item *item, cookie3 cookie, const cookieverf3 verifier)
{
    struct item *rest = add(LIST, &item->handle);
    rest->cookie = cookie;
    memcpy(rest->verifier, verifier, sizeof rest->verifier);
}

static void listed(struct call *call, const uint8_t *results, size_t length)
{
    struct item *item = call->job;
    ZDR zdr;
    READDIR3res result;
    memset(&result, 0, sizeof result);
    nfs_decode(&zdr, (zdrproc_t)zdr_READDIR3res, &result, results, length, "READDIR");
    READDIR3resok *ok = &result.READDIR3res_u.resok;
    cookie3 cookie = item->cookie;
    for (entry3 *entry = ok->reply.entries; entry; entry = entry->nextentry) {
        cookie = entry->cookie;
        if (!is_dot(entry->name) && !(add(LOOK_UP, &item->handle)->name = strdup(entry->name)))
            die("memory for a name");
    }
    if (!ok->reply.eof && cookie != item->cookie)
        list_on(item, cookie, ok->cookieverf);
    zdr_destroy(&zdr);
    release(item);
}

static void listed_with_attributes(struct call *call, const uint8_t *results, size_t length)
{
    struct item *item = call->job;
    ZDR zdr;
    READDIRPLUS3res result;
    memset(&result, 0, sizeof result);
    nfs_decode(&zdr, (zdrproc_t)zdr_READDIRPLUS3res, &result, results, length, "READDIRPLUS");
    READDIRPLUS3resok *ok = &result.READDIRPLUS3res_u.resok;
    cookie3 cookie = item->cookie;
    for (entryplus3 *entry = ok->reply.entries; entry; entry = entry->nextentry) {
        cookie = entry->cookie;
        if (is_dot(entry->name))
            continue;
        if (!entry->name_attributes.attributes_follow || !entry->name_handle.handle_follows) {
            if (!(add(LOOK_UP, &item->handle)->name = strdup(entry->name)))
                die("memory for a name");
            continue;
        }
        struct handle handle;
        nfs_keep_handle(&handle, &entry->name_handle.post_op_fh3_u.handle);
        visit(&entry->name_attributes.post_op_attr_u.attributes, &handle);
    }
    if (!ok->reply.eof && cookie != item->cookie)
        list_on(item, cookie, ok->cookieverf);
    zdr_destroy(&zdr);
    release(item);
}

static void looked_up(struct call *call, const uint8_t *results, size_t length)
{
    struct item *item = call->job;
    ZDR zdr;
    LOOKUP3res result;
    memset(&result, 0, sizeof result);
    nfs_decode(&zdr, (zdrproc_t)zdr_LOOKUP3res, &result, results, length, item->name);
    LOOKUP3resok *ok = &result.LOOKUP3res_u.resok;
    struct handle handle;
    nfs_keep_handle(&handle, &ok->object);
    if (how == LOOKUP_GETATTR || !ok->obj_attributes.attributes_follow)
        add(GET_ATTRIBUTES, &handle);
    else
        visit(&ok->obj_attributes.post_op_attr_u.attributes, &handle);
    zdr_destroy(&zdr);
    release(item);
}

static void got_attributes(struct call *call, const uint8_t *results, size_t length)
{
    struct item *item = call->job;
    ZDR zdr;
    GETATTR3res result;
    memset(&result, 0, sizeof result);
    nfs_decode(&zdr, (zdrproc_t)zdr_GETATTR3res, &result, results, length, "GETATTR");
    visit(&result.GETATTR3res_u.resok.obj_attributes, &item->handle);
    zdr_destroy(&zdr);
    release(item);
}

static struct call *call_for(struct item *item)
{
    nfs_fh3 handle = nfs_handle3(&item->handle);
    struct call *call;
    if (item->task == LIST && how == READDIRPLUS_ONLY) {
        READDIRPLUS3args arguments = { .dir = handle, .cookie = item->cookie, .dircount = list_bytes, .maxcount = list_bytes };
        memcpy(arguments.cookieverf, item->verifier, sizeof item->verifier);
        call = rpc_call(NFS3_READDIRPLUS);
        nfs_encode(call, (zdrproc_t)zdr_READDIRPLUS3args, &arguments);
        call->done = listed_with_attributes;
    } else if (item->task == LIST) {
        READDIR3args arguments = { .dir = handle, .cookie = item->cookie, .count = list_bytes };
        memcpy(arguments.cookieverf, item->verifier, sizeof item->verifier);
        call = rpc_call(NFS3_READDIR);
        nfs_encode(call, (zdrproc_t)zdr_READDIR3args, &arguments);
        call->done = listed;
    } else if (item->task == LOOK_UP) {
        LOOKUP3args arguments = { .what = { .dir = handle, .name = item->name } };
        call = rpc_call(NFS3_LOOKUP);
        nfs_encode(call, (zdrproc_t)zdr_LOOKUP3args, &arguments);
        call->done = looked_up;
    } else {
        GETATTR3args arguments = { .object = handle };
        call = rpc_call(NFS3_GETATTR);
        nfs_encode(call, (zdrproc_t)zdr_GETATTR3args, &arguments);
        call->done = got_attributes;
    }
    call->job = item;
    return call;
}

static bool walk_issue(void)
{
    struct item *item = first;
    if (!item)
        return false;
    first = item->next;
    if (!first)
        last = &first;
    rpc_submit(call_for(item));
    return true;
}

static bool walk_finished(void)
{
    return !first && rpc_outstanding() == 0;
}

static void walk_print(FILE *out)
{
    fprintf(out, ", \"files\": %llu, \"directories\": %llu, \"file_bytes\": %llu", (unsigned long long)files, (unsigned long long)directories,
            (unsigned long long)total_bytes);
}

const struct job *walk_job(enum walk_how given, uint32_t bytes, struct place *place)
{
    static const struct job job = { walk_issue, walk_finished, walk_print };
    how = given;
    list_bytes = bytes;
    add(LIST, &place->handle);
    return &job;
}
