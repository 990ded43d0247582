/* What the two halves of the library, hints and recording, ask of each other.
 *
 * Each function of MPI has one wrapper. Those of hints/open.c (MPI_File_open, _close, _set_view, _get_info, _get_amode, _delete)
 * tell the recording half about the call through the functions `record_file_*`; they are weak, and a library without that half
 * does without them. The wrappers of everything else belong to the recording half; those that move data of a file tell the
 * hints half first, through `hints_data`. */
#ifndef THALWEG_WRAP_H
#define THALWEG_WRAP_H

#include "thalweg_mpi.h"
#include <stdint.h>

/* The recording half. `record_file_begin` is the time a call began (CLOCK_MONOTONIC, nanoseconds), 0 when nothing is recorded;
 * the others end it. A handle is valid when they are called, save for one that was never opened (MPI_FILE_NULL). */
#pragma weak record_file_begin
#pragma weak record_file_opened
#pragma weak record_file_viewed
#pragma weak record_file_local
#pragma weak record_file_closing
#pragma weak record_file_closed
#pragma weak record_file_other
uint64_t record_file_begin(void);
void record_file_opened(uint64_t begun_ns, MPI_Comm comm, const char *path, int amode, MPI_File file, int result);
void record_file_viewed(uint64_t begun_ns, MPI_File file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, int result);
/* Before that: what is said of its bytes that are not local. */
void record_file_local(MPI_File file, const char *text);
/* Before the file is closed, when its handle can still be looked up; what it returns is given to `record_file_closed`. */
void *record_file_closing(MPI_File file);
void record_file_closed(uint64_t begun_ns, void *closing, int result);
/* A call on a file that neither moves data nor changes what the file is; `name` lives for ever. */
void record_file_other(uint64_t begun_ns, MPI_File file, const char *name, int result);

#define RECORD_FILE_BEGIN() (record_file_begin ? record_file_begin() : 0)

/* The hints half. Called before each call that moves data of a file; `how` says how all its ranks take part. A file
 * that asked for local bytes is laid out here, collectively, when a blocking collective call writes first; and what is written to one is
 * counted. Costs one load when there are none. */
enum hints_how {
    HINTS_COLLECTIVE = 1, /* every rank makes this call, and may wait for the others in it: *_all, *_all_begin, *_ordered */
    HINTS_EXPLICIT = 2,   /* the call names an offset (in etypes): *_at, *_at_all */
    HINTS_SHARED = 4,     /* through the shared file pointer: *_shared, *_ordered */
    HINTS_WRITE = 8,      /* it writes */
};
extern int hints_asked; /* open files of this process that asked for local bytes */
void hints_data_slowly(MPI_File file, int how, MPI_Offset offset, int count, MPI_Datatype type);

static inline void hints_data(MPI_File file, int how, MPI_Offset offset, int count, MPI_Datatype type)
{
    if (__atomic_load_n(&hints_asked, __ATOMIC_RELAXED))
        hints_data_slowly(file, how, offset, count, type);
}

/* Open MPI's collective calls gather everything at a few ranks before it is written, and no hint keeps them from it. For a file
 * whose ranks each have their own bytes on their own node, a collective call is therefore made as each rank's own: a wrapper that calls
 * PMPI_File_write_all calls one of these. (ROMIO takes a hint instead, which hints/open.c gives.) */
#ifdef OPEN_MPI
extern int hints_local_files; /* open files of this process with such a layout */
int hints_alone_slowly(MPI_File file);

static inline int hints_alone(MPI_File file)
{
    return __atomic_load_n(&hints_local_files, __ATOMIC_RELAXED) && hints_alone_slowly(file);
}

#define HINTS_ALONE(all, own, buffer, last)                                                                                            \
    static inline int hints_##all(MPI_File file, buffer bytes, int count, MPI_Datatype type, last *end)                                \
    {                                                                                                                                  \
        return hints_alone(file) ? PMPI_File_##own(file, bytes, count, type, end) : PMPI_File_##all(file, bytes, count, type, end);    \
    }
#define HINTS_ALONE_AT(all, own, buffer, last)                                                                                         \
    static inline int hints_##all(MPI_File file, MPI_Offset at, buffer bytes, int count, MPI_Datatype type, last *end)                 \
    {                                                                                                                                  \
        return hints_alone(file) ? PMPI_File_##own(file, at, bytes, count, type, end) : PMPI_File_##all(file, at, bytes, count, type, end); \
    }
HINTS_ALONE(read_all, read, void *, MPI_Status)
HINTS_ALONE(write_all, write, const void *, MPI_Status)
HINTS_ALONE(iread_all, iread, void *, MPI_Request)
HINTS_ALONE(iwrite_all, iwrite, const void *, MPI_Request)
HINTS_ALONE_AT(read_at_all, read_at, void *, MPI_Status)
HINTS_ALONE_AT(write_at_all, write_at, const void *, MPI_Status)
HINTS_ALONE_AT(iread_at_all, iread_at, void *, MPI_Request)
HINTS_ALONE_AT(iwrite_at_all, iwrite_at, const void *, MPI_Request)
#define PMPI_File_read_all hints_read_all
#define PMPI_File_write_all hints_write_all
#define PMPI_File_iread_all hints_iread_all
#define PMPI_File_iwrite_all hints_iwrite_all
#define PMPI_File_read_at_all hints_read_at_all
#define PMPI_File_write_at_all hints_write_at_all
#define PMPI_File_iread_at_all hints_iread_at_all
#define PMPI_File_iwrite_at_all hints_iwrite_at_all
#endif

/* What MPI promises of MPI_File_sync, a mount that keeps what it has read until the file is opened again does not: so it is opened again.
 * The same after a call by which one rank gives the file its size for all. */
int hints_sync(MPI_File file);
int hints_set_size(MPI_File file, MPI_Offset size);
int hints_preallocate(MPI_File file, MPI_Offset size);
#ifndef HINTS_HERE
#define PMPI_File_sync hints_sync
#define PMPI_File_set_size hints_set_size
#define PMPI_File_preallocate hints_preallocate
#endif

#endif
