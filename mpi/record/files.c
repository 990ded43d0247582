/*
 * Files: reads, writes, and what else MPI does to an open file: the wrappers.
 *
 * Offsets are absolute, in bytes, computed before the call from the file view (which no other rank is asked for): of a view with gaps
 * where the first byte is; the view's runs of bytes say the rest. With a shared pointer the offset is not known without asking the file
 * system for it, so it is left out. Sizes are what was asked for, until the status says how much it was. The other half of the library
 * is told first (`hints_data`).
 */
#include "record/internal.h"
#include <stdatomic.h>

/* What is known before the call; `how` as in wrap.h. `offset` is in etypes of the view. */
static void before(struct record *record, MPI_File file, int how, MPI_Offset offset, uint64_t bytes)
{
    struct group *group = record_file(file);
    MPI_Offset position = offset, at = 0;
    if (group != NULL) {
        record->object = group->number;
        if (how & HINTS_COLLECTIVE) {
            record->sequence = atomic_fetch_add(&group->sequence, 1);
            record->flags = RECORD_COLLECTIVE;
        }
    }
    record->size_bytes = bytes;
    if (how & HINTS_SHARED)
        return;
    if (!(how & HINTS_EXPLICIT) && PMPI_File_get_position(file, &position) != MPI_SUCCESS)
        return;
    if (PMPI_File_get_byte_offset(file, position, &at) == MPI_SUCCESS && at >= 0)
        record->offset_bytes = (uint64_t)at;
}

static void after(struct record *record, int result, const MPI_Status *status)
{
    record->end_ns = record_now();
    record->result = record_class(result);
    if (result == MPI_SUCCESS && status != NULL)
        record->size_bytes = record_status_bytes(status, record->size_bytes);
    record_put(record);
}

#define MOVES(name, how, buffer, offset, parameters, arguments)                                                                            \
    THALWEG_WRAPPER int MPI_File_##name(MPI_File file, UNPAREN parameters buffer buf, int count, MPI_Datatype type, MPI_Status *status)    \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        hints_data(file, how, offset, count, type);                                                                                        \
        if (begun == 0) {                                                                                                                  \
            int result = PMPI_File_##name(file, UNPAREN arguments buf, count, type, status);                                               \
            record_end_unrecorded();                                                                                                       \
            return result;                                                                                                                 \
        }                                                                                                                                  \
        MPI_Status own, *told = status == MPI_STATUS_IGNORE ? &own : status;                                                               \
        struct record record = record_blank(CALL_MPI_File_##name, begun);                                                                  \
        before(&record, file, how, offset, record_type_bytes(count, type));                                                                \
        int result = PMPI_File_##name(file, UNPAREN arguments buf, count, type, told);                                                     \
        after(&record, result, told);                                                                                                      \
        return result;                                                                                                                     \
    }
#define UNPAREN(...) __VA_ARGS__
#define C HINTS_COLLECTIVE
#define E HINTS_EXPLICIT
#define S HINTS_SHARED
#define W HINTS_WRITE
#define AT (MPI_Offset offset, )
#define AT_ (offset, )
#define NONE ()

MOVES(read_at, E, void *, offset, AT, AT_)
MOVES(read_at_all, C | E, void *, offset, AT, AT_)
MOVES(write_at, E | W, const void *, offset, AT, AT_)
MOVES(write_at_all, C | E | W, const void *, offset, AT, AT_)
MOVES(read, 0, void *, 0, NONE, NONE)
MOVES(read_all, C, void *, 0, NONE, NONE)
MOVES(write, W, const void *, 0, NONE, NONE)
MOVES(write_all, C | W, const void *, 0, NONE, NONE)
MOVES(read_shared, S, void *, 0, NONE, NONE)
MOVES(write_shared, S | W, const void *, 0, NONE, NONE)
MOVES(read_ordered, C | S, void *, 0, NONE, NONE)
MOVES(write_ordered, C | S | W, const void *, 0, NONE, NONE)

static void posted(struct record *record, MPI_Request request, int result)
{
    record->end_ns = record_now();
    record->result = record_class(result);
    if (result == MPI_SUCCESS) {
        struct pending pending = {
            .serial = record_next_serial(),
            .object = record->object,
            .peer = RECORD_NOBODY,
            .tag = RECORD_NOBODY,
            .call = record->call,
            .flags = record->flags,
            .moves_file = 1,
            .size_bytes = record->size_bytes,
            .sequence = record->sequence,
        };
        record->serial = pending.serial;
        record_pending_add(request, &pending);
    }
    record->flags |= RECORD_POSTED;
    record_put(record);
}

#define IMOVES(name, how, buffer, offset, parameters, arguments)                                                                           \
    THALWEG_WRAPPER int MPI_File_##name(MPI_File file, UNPAREN parameters buffer buf, int count, MPI_Datatype type, MPI_Request *request)  \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        struct record record = {0};                                                                                                        \
        hints_data(file, (how) & ~HINTS_COLLECTIVE, offset, count, type);                                                                \
        if (begun != 0) {                                                                                                                  \
            record = record_blank(CALL_MPI_File_##name, begun);                                                                            \
            before(&record, file, how, offset, record_type_bytes(count, type));                                                            \
        }                                                                                                                                  \
        int result = PMPI_File_##name(file, UNPAREN arguments buf, count, type, request);                                                  \
        if (begun != 0)                                                                                                                    \
            posted(&record, *request, result);                                                                                             \
        else                                                                                                                               \
            record_end_unrecorded();                                                                                                       \
        return result;                                                                                                                     \
    }
IMOVES(iread_at, E, void *, offset, AT, AT_)
IMOVES(iread_at_all, C | E, void *, offset, AT, AT_)
IMOVES(iwrite_at, E | W, const void *, offset, AT, AT_)
IMOVES(iwrite_at_all, C | E | W, const void *, offset, AT, AT_)
IMOVES(iread, 0, void *, 0, NONE, NONE)
IMOVES(iread_all, C, void *, 0, NONE, NONE)
IMOVES(iwrite, W, const void *, 0, NONE, NONE)
IMOVES(iwrite_all, C | W, const void *, 0, NONE, NONE)
IMOVES(iread_shared, S, void *, 0, NONE, NONE)
IMOVES(iwrite_shared, S | W, const void *, 0, NONE, NONE)

/* Split collectives: begun by one call and ended by another, one at a time for each file. */
#define SPLIT(name, how, buffer, offset, parameters, arguments)                                                                            \
    THALWEG_WRAPPER int MPI_File_##name##_begin(MPI_File file, UNPAREN parameters buffer buf, int count, MPI_Datatype type)                \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        struct record record = {0};                                                                                                        \
        hints_data(file, how, offset, count, type);                                                                                        \
        if (begun != 0) {                                                                                                                  \
            record = record_blank(CALL_MPI_File_##name##_begin, begun);                                                                    \
            before(&record, file, how, offset, record_type_bytes(count, type));                                                            \
        }                                                                                                                                  \
        int result = PMPI_File_##name##_begin(file, UNPAREN arguments buf, count, type);                                                   \
        if (begun != 0) {                                                                                                                  \
            struct group *group = record_file(file);                                                                                       \
            record.flags |= RECORD_POSTED;                                                                                                 \
            record.serial = record_next_serial();                                                                                          \
            if (group != NULL)                                                                                                             \
                group->split = record.serial;                                                                                              \
            after(&record, result, NULL);                                                                                                  \
        } else {                                                                                                                           \
            record_end_unrecorded();                                                                                                       \
        }                                                                                                                                  \
        return result;                                                                                                                     \
    }                                                                                                                                      \
    THALWEG_WRAPPER int MPI_File_##name##_end(MPI_File file, buffer buf, MPI_Status *status)                                               \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        MPI_Status own, *told = begun != 0 && status == MPI_STATUS_IGNORE ? &own : status;                                                 \
        int result = PMPI_File_##name##_end(file, buf, told);                                                                              \
        if (begun != 0) {                                                                                                                  \
            struct record record = record_blank(CALL_MPI_File_##name##_end, begun);                                                        \
            struct group *group = record_file(file);                                                                                       \
            if (group != NULL) {                                                                                                           \
                record.object = group->number;                                                                                             \
                record.serial = atomic_exchange(&group->split, 0);                                                                         \
            }                                                                                                                              \
            after(&record, result, told);                                                                                                  \
        } else {                                                                                                                           \
            record_end_unrecorded();                                                                                                       \
        }                                                                                                                                  \
        return result;                                                                                                                     \
    }
SPLIT(read_at_all, C | E, void *, offset, AT, AT_)
SPLIT(write_at_all, C | E | W, const void *, offset, AT, AT_)
SPLIT(read_all, C, void *, 0, NONE, NONE)
SPLIT(write_all, C | W, const void *, 0, NONE, NONE)
SPLIT(read_ordered, C | S, void *, 0, NONE, NONE)
SPLIT(write_ordered, C | S | W, const void *, 0, NONE, NONE)

/* ---- other calls on an open file */

#define OTHER(name, collective, bytes, parameters, arguments)                                                                              \
    THALWEG_WRAPPER int MPI_File_##name(MPI_File file UNPAREN parameters)                                                                  \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        struct record record = {0};                                                                                                        \
        if (begun != 0) {                                                                                                                  \
            record = record_blank(CALL_MPI_File_##name, begun);                                                                            \
            before(&record, file, HINTS_SHARED | (collective), 0, (uint64_t)(bytes));                                                      \
        }                                                                                                                                  \
        int result = PMPI_File_##name(file UNPAREN arguments);                                                                             \
        if (begun != 0)                                                                                                                    \
            after(&record, result, NULL);                                                                                                  \
        else                                                                                                                               \
            record_end_unrecorded();                                                                                                       \
        return result;                                                                                                                     \
    }
OTHER(sync, C, 0, (), ())
OTHER(set_size, C, size, (, MPI_Offset size), (, size))
OTHER(preallocate, C, size, (, MPI_Offset size), (, size))
OTHER(get_size, 0, 0, (, MPI_Offset *size), (, size))
OTHER(seek, 0, 0, (, MPI_Offset offset, int whence), (, offset, whence))
OTHER(seek_shared, C, 0, (, MPI_Offset offset, int whence), (, offset, whence))
OTHER(set_atomicity, C, 0, (, int flag), (, flag))
