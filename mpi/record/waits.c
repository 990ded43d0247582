/*
 * Waits and tests for what was begun: the wrappers. What one of them ended is told before it, each request by a record of its own.
 */
#include "record/internal.h"
#include <stdlib.h>
#include <string.h>

/* Handles and statuses on the stack; more are allocated. */
#define FEW 64

/* Tells of the end of one request within a wait. `status` may be null: then what was known when it began holds. */
static void completed(uint64_t begun, uint64_t ended, MPI_Request request, const MPI_Status *status)
{
    struct pending pending;
    if (request == MPI_REQUEST_NULL || !record_pending_end(request, &pending))
        return;
    struct record record = record_blank(CALL_completed, begun);
    record.end_ns = ended;
    record.serial = pending.serial;
    record.object = pending.object;
    record.peer = pending.peer;
    record.tag = pending.tag;
    record.size_bytes = pending.size_bytes;
    record.flags = pending.flags;
    record.sequence = pending.sequence;
    if (status != NULL && pending.receives) {
        record.tag = status->MPI_TAG;
        /* The source is a rank of the communicator; where it was named when it was posted that is known already. */
        if (pending.peer == RECORD_ANY)
            record.peer = pending.group != NULL ? record_world_rank(pending.group, status->MPI_SOURCE) : RECORD_ANY;
        record.size_bytes = record_status_bytes(status, pending.size_bytes);
    } else if (status != NULL && pending.moves_file) {
        record.size_bytes = record_status_bytes(status, pending.size_bytes);
    }
    record_append(&record, NULL, 0);
}

static void waited(enum record_call call, uint64_t begun, uint64_t ended, int fruitless, int result)
{
    struct record record = record_blank(call, begun);
    record.end_ns = fruitless ? 0 : ended;
    record.flags = fruitless ? RECORD_FRUITLESS : 0;
    record.result = record_class(result);
    if (fruitless)
        record_put_mergeable(&record);
    else
        record_put(&record);
}

THALWEG_WRAPPER int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    uint64_t begun = record_begin();
    MPI_Status own;
    MPI_Status *told = begun != 0 && status == MPI_STATUS_IGNORE ? &own : status;
    MPI_Request before = *request;
    int result = PMPI_Wait(request, told);
    if (begun != 0) {
        uint64_t ended = record_now();
        if (result == MPI_SUCCESS)
            completed(begun, ended, before, told);
        waited(CALL_MPI_Wait, begun, ended, 0, result);
    } else {
        record_end_unrecorded();
    }
    return result;
}

THALWEG_WRAPPER int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    uint64_t begun = record_begin();
    MPI_Status own;
    MPI_Status *told = begun != 0 && status == MPI_STATUS_IGNORE ? &own : status;
    MPI_Request before = *request;
    int result = PMPI_Test(request, flag, told);
    if (begun != 0) {
        int done = result == MPI_SUCCESS && *flag;
        uint64_t ended = done ? record_now() : 0;
        if (done)
            completed(begun, ended, before, told);
        waited(CALL_MPI_Test, begun, ended, result == MPI_SUCCESS && !done, result);
    } else {
        record_end_unrecorded();
    }
    return result;
}

/* Copies of handles and room for statuses, for calls that change the ones they are given. */
struct many {
    MPI_Request few[FEW];
    MPI_Status few_told[FEW];
    MPI_Request *before;
    MPI_Status *told;
};

/* `count` handles as they are now; room for statuses where the program wants none. */
static void copy(struct many *many, int count, const MPI_Request *requests, MPI_Status *statuses)
{
    size_t number = count > 0 ? (size_t)count : 0;
    many->before = number <= FEW ? many->few : malloc(number * sizeof *many->before);
    many->told = statuses;
    if (statuses == MPI_STATUSES_IGNORE) {
        many->told = number <= FEW ? many->few_told : malloc(number * sizeof *many->told);
        if (many->told == NULL)
            many->told = MPI_STATUSES_IGNORE;
    }
    if (many->before != NULL && number > 0)
        memcpy(many->before, requests, number * sizeof *requests);
}

static void done_with(struct many *many, const MPI_Status *statuses)
{
    if (many->before != many->few)
        free(many->before);
    if (many->told != many->few_told && many->told != statuses && many->told != MPI_STATUSES_IGNORE)
        free(many->told);
}

static const MPI_Status *nth(const struct many *many, int n)
{
    return many->told == MPI_STATUSES_IGNORE ? NULL : &many->told[n];
}

THALWEG_WRAPPER int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    uint64_t begun = record_begin();
    if (begun == 0) {
        int result = PMPI_Waitall(count, requests, statuses);
        record_end_unrecorded();
        return result;
    }
    struct many many;
    copy(&many, count, requests, statuses);
    int result = PMPI_Waitall(count, requests, many.told);
    uint64_t ended = record_now();
    for (int i = 0; i < count && result == MPI_SUCCESS && many.before != NULL; i++)
        completed(begun, ended, many.before[i], nth(&many, i));
    done_with(&many, statuses);
    waited(CALL_MPI_Waitall, begun, ended, 0, result);
    return result;
}

THALWEG_WRAPPER int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    uint64_t begun = record_begin();
    if (begun == 0) {
        int result = PMPI_Testall(count, requests, flag, statuses);
        record_end_unrecorded();
        return result;
    }
    struct many many;
    copy(&many, count, requests, statuses);
    int result = PMPI_Testall(count, requests, flag, many.told);
    int done = result == MPI_SUCCESS && *flag;
    uint64_t ended = done ? record_now() : 0;
    for (int i = 0; i < count && done && many.before != NULL; i++)
        completed(begun, ended, many.before[i], nth(&many, i));
    done_with(&many, statuses);
    waited(CALL_MPI_Testall, begun, ended, result == MPI_SUCCESS && !done, result);
    return result;
}

/* Those that end one request of many. */
#define ANYS(name, parameters, arguments, found)                                                                                           \
    THALWEG_WRAPPER int MPI_##name parameters                                                                                              \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        if (begun == 0) {                                                                                                                  \
            int result = PMPI_##name arguments;                                                                                            \
            record_end_unrecorded();                                                                                                       \
            return result;                                                                                                                 \
        }                                                                                                                                  \
        MPI_Status own, *wanted = status;                                                                                                  \
        struct many many;                                                                                                                  \
        copy(&many, count, requests, &own);                                                                                                \
        status = wanted == MPI_STATUS_IGNORE ? &own : wanted;                                                                              \
        int result = PMPI_##name arguments;                                                                                                \
        int done = result == MPI_SUCCESS && (found);                                                                                       \
        uint64_t ended = record_now();                                                                                                     \
        if (done && *index != MPI_UNDEFINED && many.before != NULL)                                                                        \
            completed(begun, ended, many.before[*index], status);                                                                          \
        done_with(&many, &own);                                                                                                            \
        waited(CALL_MPI_##name, begun, ended, result == MPI_SUCCESS && !done, result);                                                     \
        return result;                                                                                                                     \
    }
ANYS(Waitany, (int count, MPI_Request requests[], int *index, MPI_Status *status), (count, requests, index, status), 1)
ANYS(Testany, (int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status), (count, requests, index, flag, status), *flag)

#define SOMES(name)                                                                                                                        \
    THALWEG_WRAPPER int MPI_##name(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])                 \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        if (begun == 0) {                                                                                                                  \
            int result = PMPI_##name(count, requests, outcount, indices, statuses);                                                        \
            record_end_unrecorded();                                                                                                       \
            return result;                                                                                                                 \
        }                                                                                                                                  \
        struct many many;                                                                                                                  \
        copy(&many, count, requests, statuses);                                                                                            \
        int result = PMPI_##name(count, requests, outcount, indices, many.told);                                                           \
        int done = result == MPI_SUCCESS && *outcount != 0;                                                                                \
        uint64_t ended = record_now();                                                                                                     \
        for (int i = 0; done && *outcount != MPI_UNDEFINED && i < *outcount && many.before != NULL; i++)                                   \
            completed(begun, ended, many.before[indices[i]], nth(&many, i));                                                               \
        done_with(&many, statuses);                                                                                                        \
        waited(CALL_MPI_##name, begun, ended, result == MPI_SUCCESS && !done, result);                                                     \
        return result;                                                                                                                     \
    }
SOMES(Waitsome)
SOMES(Testsome)
