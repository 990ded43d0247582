/*
 * Files as the other half of the library opens, views and closes them: what wrap.h says is called.
 *
 * A file is a group like a communicator: all ranks that opened it make its collective calls in one order. It is called on all of them what
 * the communicator, and how many collectives that had before, make of it.
 */
#include "hints/internal.h"
#include "record/internal.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

/* A view of more runs is told without them. */
#define MOST_RUNS 4096
#define MOST_ATTRIBUTE (64 << 10)

uint64_t record_file_begin(void)
{
    return record_begin();
}

void record_file_opened(uint64_t begun, MPI_Comm comm, const char *path, int amode, MPI_File file, int result)
{
    (void)amode;
    if (begun == 0) {
        record_end_unrecorded();
        return;
    }
    struct record record = record_blank(CALL_MPI_File_open, begun);
    struct group *from = record_group(comm);
    struct group *opened = result == MPI_SUCCESS && file != MPI_FILE_NULL ? calloc(1, sizeof *opened) : NULL;
    record.result = record_class(result);
    if (from != NULL) {
        record.object = from->number;
        record.sequence = atomic_fetch_add(&from->sequence, 1);
        record.flags = RECORD_COLLECTIVE;
    }
    if (opened != NULL) {
        opened->number = record_next_number();
        opened->size = from != NULL ? from->size : 1;
        opened->id = from != NULL && from->id != 0 ? record_hash(record_hash(from->id, record.sequence), 4) : 0;
        struct record told = record_blank(CALL_file, begun);
        told.end_ns = begun;
        told.object = opened->number;
        told.serial = opened->id;
        told.count = (uint32_t)opened->size;
        record_append(&told, path, strlen(path));
        /* `thal:`, `ufs:` and the like are the implementation's. */
        const char *colon = strchr(path, ':'), *slash = strchr(path, '/');
        opened->path = strdup(colon != NULL && colon != path && (slash == NULL || colon < slash) ? colon + 1 : path);
        record_file_add(file, opened);
    }
    record_put(&record);
}

static struct record collective_of(enum record_call call, uint64_t begun, struct group *group, int result)
{
    struct record record = record_blank(call, begun);
    if (group != NULL) {
        record.object = group->number;
        record.flags = RECORD_COLLECTIVE;
        record.sequence = atomic_fetch_add(&group->sequence, 1);
    }
    record.result = record_class(result);
    return record;
}

/* The bytes that can be seen through a view: `DISPLACEMENT,EXTENT:OFFSET+LENGTH,...`. */
static void tell_view(uint64_t begun, struct group *group, uint64_t displacement, MPI_Datatype filetype)
{
    struct strips_view view = {0};
    struct record told = record_blank(CALL_view, begun);
    told.end_ns = begun;
    told.object = group->number;
    const char *why_not = hints_flatten(filetype, &view);
    size_t room = 64 + (why_not == NULL && view.count <= MOST_RUNS ? view.count * 42 : 0);
    char *text = malloc(room);
    if (text != NULL) {
        size_t length = (size_t)snprintf(text, room, "%llu,%llu:", (unsigned long long)displacement, (unsigned long long)view.extent);
        for (size_t i = 0; why_not == NULL && view.count <= MOST_RUNS && i < view.count; i++)
            length += (size_t)snprintf(text + length, room - length, "%s%llu+%llu", i ? "," : "", (unsigned long long)view.runs[i].offset,
                                       (unsigned long long)view.runs[i].length);
        record_append(&told, text, length);
    }
    free(text);
    free((void *)view.runs);
}

void record_file_viewed(uint64_t begun, MPI_File file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, int result)
{
    (void)etype;
    if (begun == 0) {
        record_end_unrecorded();
        return;
    }
    struct group *group = record_file(file);
    struct record record = collective_of(CALL_MPI_File_set_view, begun, group, result);
    record.end_ns = record_now();
    if (group != NULL && result == MPI_SUCCESS)
        tell_view(begun, group, (uint64_t)displacement, filetype);
    record_put(&record);
}

/* What a file in a mounted store says of itself, when its layout is decided. Others say nothing. */
static void tell_attribute(struct group *group, enum record_call call, const char *name)
{
    char *text = malloc(MOST_ATTRIBUTE);
    ssize_t length = text != NULL ? getxattr(group->path, name, text, MOST_ATTRIBUTE) : -1;
    if (length > 0) {
        struct record told = record_blank(call, record_now());
        told.end_ns = told.start_ns;
        told.object = group->number;
        record_append(&told, text, (size_t)length);
    }
    free(text);
}

void record_file_local(MPI_File file, const char *text)
{
    struct group *group = record_state == 1 ? record_file(file) : NULL;
    if (group == NULL)
        return;
    struct record told = record_blank(CALL_local, record_now());
    told.end_ns = told.start_ns;
    told.object = group->number;
    record_append(&told, text, strlen(text));
}

void *record_file_closing(MPI_File file)
{
    struct group *group = record_state == 1 ? record_file(file) : NULL;
    if (group != NULL && group->path != NULL) {
        tell_attribute(group, CALL_store, STORE_ATTRIBUTE);
        tell_attribute(group, CALL_layout, LAYOUT_ATTRIBUTE);
        tell_attribute(group, CALL_map, MAP_ATTRIBUTE);
    }
    record_file_gone(file);
    return group;
}

void record_file_closed(uint64_t begun, void *closing, int result)
{
    if (begun == 0) {
        record_end_unrecorded();
        return;
    }
    struct record record = collective_of(CALL_MPI_File_close, begun, closing, result);
    record_put(&record);
}

void record_file_other(uint64_t begun, MPI_File file, const char *name, int result)
{
    enum record_call call = record_call_named(name);
    if (begun == 0 || call == CALLS) {
        record_end_unrecorded();
        return;
    }
    struct record record = record_blank(call, begun);
    struct group *group = file != MPI_FILE_NULL ? record_file(file) : NULL;
    record.object = group != NULL ? group->number : 0;
    record.result = record_class(result);
    record_put(&record);
}
