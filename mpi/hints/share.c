/* Of a file that asked for local bytes: what its ranks see of it and write to it, how much of that is on their own nodes, and what is said
 * when not all of it is.
 *
 * What is counted is what a call asks to be written, when it is made; bytes that are written twice count twice. */
#include "hints/internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct strips_run A_BYTE = {0, 1};

void hints_see(struct opened *opened, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep)
{
    struct seen *seen = &opened->seen;
    if (seen->view.runs != &A_BYTE)
        free((void *)seen->view.runs);
    *seen = (struct seen){{(uint64_t)displacement, 1, &A_BYTE, 1}, 1, NULL};
    if (!datarep)
        return;
    MPI_Count bytes = 1;
    PMPI_Type_size_x(etype, &bytes);
    seen->etype_bytes = (uint64_t)bytes;
    if (displacement < 0 || (strcmp(datarep, "native") && strcmp(datarep, "internal")))
        seen->why_not = "its view does not say where bytes are in the file";
    else
        seen->why_not = hints_flatten(filetype, &seen->view);
}

void hints_look_up(struct opened *opened)
{
    struct counted *counted = &opened->counted;
    where_free(counted->where);
    free(counted->own);
    counted->where = opened->layout ? where_of_layout(opened->layout) : NULL;
    counted->own = counted->where ? calloc(counted->where->datafiles, 1) : NULL;
    for (size_t d = 0; counted->own && d < counted->where->datafiles; d++)
        for (size_t t = 0; t < opened->here_count; t++)
            counted->own[d] |= opened->here[t] == counted->where->targets[d];
}

struct counting {
    const struct counted *counted;
    uint64_t local;
};

static void count_range(void *context, uint64_t start, uint64_t length)
{
    struct counting *counting = context;
    counting->local += where_count(counting->counted->where, start, length, counting->counted->own);
}

static void count(struct opened *opened, int64_t position, uint64_t length)
{
    struct counted *counted = &opened->counted;
    struct counting counting = {counted, 0};
    int known = position >= 0 && !opened->seen.why_not && counted->own;
    if (known)
        strips_seen(&opened->seen.view, (uint64_t)position, length, SIZE_MAX, count_range, &counting);
    __atomic_fetch_add(&counted->bytes, length, __ATOMIC_RELAXED);
    __atomic_fetch_add(known ? &counted->local_bytes : &counted->unknown_bytes, known ? counting.local : length, __ATOMIC_RELAXED);
}

/* The same through the shared file pointer: only in the order of ranks is it known who writes where. A sequential file does not say where
 * its pointer is; it is where our calls left it, if they all were in order. */
static int64_t position_in_order(struct opened *opened, MPI_File file, uint64_t length)
{
    uint64_t before = 0, all = 0;
    int64_t shared = -1;
    MPI_Offset position;
    /* The pointer is where it was left only when all ranks are back from the last such call. */
    PMPI_Allreduce(&length, &all, 1, MPI_UINT64_T, MPI_SUM, opened->comm);
    if (opened->amode & MPI_MODE_SEQUENTIAL)
        PMPI_Allreduce(&opened->ordered_bytes, &shared, 1, MPI_INT64_T, MPI_MIN, opened->comm);
    else if (opened->rank == 0 && PMPI_File_get_position_shared(file, &position) == MPI_SUCCESS)
        shared = (int64_t)position * (int64_t)opened->seen.etype_bytes;
    PMPI_Bcast(&shared, 1, MPI_INT64_T, 0, opened->comm);
    PMPI_Exscan(&length, &before, 1, MPI_UINT64_T, MPI_SUM, opened->comm);
    if (opened->ordered_bytes >= 0)
        opened->ordered_bytes += (int64_t)all;
    return shared < 0 ? -1 : shared + (int64_t)(opened->rank ? before : 0);
}

/* Where in what it sees a rank is about to write, in bytes; -1: it is not known. Collective where the call is. */
static int64_t position_of(struct opened *opened, MPI_File file, int how, MPI_Offset offset, uint64_t length)
{
    MPI_Offset position = offset;
    if (how & HINTS_SHARED)
        return how & HINTS_COLLECTIVE ? position_in_order(opened, file, length) : (opened->ordered_bytes = -1);
    if (!(how & HINTS_EXPLICIT) && PMPI_File_get_position(file, &position) != MPI_SUCCESS)
        return -1;
    return position < 0 ? -1 : (int64_t)position * (int64_t)opened->seen.etype_bytes;
}

void hints_data_slowly(MPI_File file, int how, MPI_Offset offset, int elements, MPI_Datatype type)
{
    struct opened *opened = hints_find(file);
    MPI_Count size = 0;
    if (!opened || !opened->asked || !(how & HINTS_WRITE))
        return;
    if (type != MPI_DATATYPE_NULL)
        PMPI_Type_size_x(type, &size);
    uint64_t length = elements > 0 && size > 0 ? (uint64_t)size * (uint64_t)elements : 0;
    int64_t position = position_of(opened, file, how, offset, length);
    if (!opened->settled && how & HINTS_COLLECTIVE)
        hints_decide_by_writes(opened, position, length);
    else if (!opened->settled && length)
        opened->written = 1;
    if (length)
        count(opened, position, length);
}

/* Why bytes are not local, in the words of rank 0. */
static void add_why(const struct opened *opened, char *text, size_t room)
{
    if (opened->local == LOCAL_NOT_ASKED)
        snprintf(text, room, "the file was there before, and keeps its layout");
    else if (opened->local == LOCAL_WAITING && !*opened->why)
        snprintf(text, room, "no view was set, and nothing was written collectively, before the first byte");
    else
        snprintf(text, room, "%s", opened->why);
}

void hints_say(struct opened *opened)
{
    uint64_t mine[3] = {opened->counted.bytes, opened->counted.local_bytes, opened->counted.unknown_bytes}, all[3] = {0};
    char why[HINTS_REASON_BYTES], text[1024];
    PMPI_Reduce(mine, all, 3, MPI_UINT64_T, MPI_SUM, 0, opened->comm);
    int nothing = opened->local == LOCAL_NONE || opened->local == LOCAL_WAITING;
    if (opened->rank != 0 || !all[0] || (all[1] == all[0] && !nothing))
        return;
    /* Rounded down: 100 % is all. */
    double share = (double)(uint64_t)((double)all[1] / (double)all[0] * 1000) / 10;
    add_why(opened, why, sizeof why);
    size_t at = (size_t)snprintf(text, sizeof text, "thalweg_layout=local%s: %.1f %% of %" PRIu64 " bytes are on the node of the rank that wrote them",
                                 nothing ? " came to nothing" : "", share, all[0]);
    if (all[0] > all[1] + all[2])
        at += (size_t)snprintf(text + at, sizeof text - at, ", %" PRIu64 " are not", all[0] - all[1] - all[2]);
    if (all[2])
        at += (size_t)snprintf(text + at, sizeof text - at, ", of %" PRIu64 " it is not known (a shared file pointer, or a view that cannot be read)", all[2]);
    at += (size_t)snprintf(text + at, sizeof text - at, ": %s", *why ? why : "what they wrote is not what was foreseen");
    if (nothing)
        snprintf(text + at, sizeof text - at, "; its layout stays %.80s", opened->layout ? opened->layout : "what it was");
    fprintf(stderr, "thalweg: %s: %s\n", opened->path, text);
    if (record_file_local)
        record_file_local(opened->file, text);
}
