/*
 * Collectives, the making of communicators, and the beginning and the end of MPI: the wrappers.
 *
 * All ranks of a communicator make its collectives in one order, so their number in it is equal on all of them. The size is what this
 * rank gives and takes itself, as its arguments say; of those with a count for each rank, the sum.
 */
#include "record/internal.h"
#include <stdatomic.h>

static void fill(struct record *record, MPI_Comm comm, int root, uint64_t bytes, int result)
{
    struct group *group = record_group(comm);
    if (group != NULL) {
        record->object = group->number;
        record->sequence = atomic_fetch_add(&group->sequence, 1);
        record->flags = RECORD_COLLECTIVE;
    }
    record->peer = root >= 0 ? record_world_rank(group, root) : RECORD_NOBODY;
    record->size_bytes = bytes;
    record->result = record_class(result);
}

static uint64_t sum(const int *counts, MPI_Datatype type, MPI_Comm comm)
{
    struct group *group = record_group(comm);
    uint64_t bytes = 0;
    /* Of an intercommunicator the counts are the other group's, whose size is not kept. */
    for (int i = 0; counts != NULL && group != NULL && !group->inter && i < group->size; i++)
        bytes += record_type_bytes(counts[i], type);
    return bytes;
}

static uint64_t sum_of_types(const int *counts, const MPI_Datatype *types, MPI_Comm comm)
{
    struct group *group = record_group(comm);
    uint64_t bytes = 0;
    for (int i = 0; counts != NULL && types != NULL && group != NULL && !group->inter && i < group->size; i++)
        bytes += record_type_bytes(counts[i], types[i]);
    return bytes;
}

static int is_root(MPI_Comm comm, int root)
{
    struct group *group = record_group(comm);
    return group != NULL && group->rank == root;
}

static void posted(enum record_call call, struct record *record, MPI_Request request, int result)
{
    if (result == MPI_SUCCESS) {
        struct pending pending = {
            .serial = record_next_serial(),
            .object = record->object,
            .peer = record->peer,
            .tag = RECORD_NOBODY,
            .call = (uint16_t)call,
            .flags = record->flags,
            .size_bytes = record->size_bytes,
            .sequence = record->sequence,
        };
        record->serial = pending.serial;
        record_pending_add(request, &pending);
    }
    record->flags |= RECORD_POSTED;
    record_put(record);
}

#define UNPAREN(...) __VA_ARGS__
/* A collective and its non-blocking form. `bytes` is evaluated only where something is recorded. */
#define COLLECTIVE(name, iname, root, bytes, parameters, arguments)                                                                        \
    THALWEG_WRAPPER int MPI_##name(UNPAREN parameters)                                                                                     \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        int result = PMPI_##name(UNPAREN arguments);                                                                                       \
        if (begun != 0) {                                                                                                                  \
            struct record record = record_blank(CALL_MPI_##name, begun);                                                                   \
            record.end_ns = record_now();                                                                                                  \
            fill(&record, comm, root, bytes, result);                                                                                      \
            record_put(&record);                                                                                                           \
        } else {                                                                                                                           \
            record_end_unrecorded();                                                                                                       \
        }                                                                                                                                  \
        return result;                                                                                                                     \
    }                                                                                                                                      \
    THALWEG_WRAPPER int MPI_##iname(UNPAREN parameters, MPI_Request *request)                                                              \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        int result = PMPI_##iname(UNPAREN arguments, request);                                                                             \
        if (begun != 0) {                                                                                                                  \
            struct record record = record_blank(CALL_MPI_##iname, begun);                                                                  \
            record.end_ns = record_now();                                                                                                  \
            fill(&record, comm, root, bytes, result);                                                                                      \
            posted(CALL_MPI_##iname, &record, *request, result);                                                                           \
        } else {                                                                                                                           \
            record_end_unrecorded();                                                                                                       \
        }                                                                                                                                  \
        return result;                                                                                                                     \
    }

#define NOBODY (-1)
#define TYPE MPI_Datatype
#define SENT record_type_bytes(sendcount, sendtype)
#define RECEIVED record_type_bytes(recvcount, recvtype)

COLLECTIVE(Barrier, Ibarrier, NOBODY, 0, (MPI_Comm comm), (comm))
COLLECTIVE(Bcast, Ibcast, root, record_type_bytes(count, type), (void *buf, int count, TYPE type, int root, MPI_Comm comm),
           (buf, count, type, root, comm))
COLLECTIVE(Reduce, Ireduce, root, record_type_bytes(count, type),
           (const void *sendbuf, void *recvbuf, int count, TYPE type, MPI_Op op, int root, MPI_Comm comm),
           (sendbuf, recvbuf, count, type, op, root, comm))
COLLECTIVE(Allreduce, Iallreduce, NOBODY, record_type_bytes(count, type),
           (const void *sendbuf, void *recvbuf, int count, TYPE type, MPI_Op op, MPI_Comm comm), (sendbuf, recvbuf, count, type, op, comm))
COLLECTIVE(Scan, Iscan, NOBODY, record_type_bytes(count, type),
           (const void *sendbuf, void *recvbuf, int count, TYPE type, MPI_Op op, MPI_Comm comm), (sendbuf, recvbuf, count, type, op, comm))
COLLECTIVE(Exscan, Iexscan, NOBODY, record_type_bytes(count, type),
           (const void *sendbuf, void *recvbuf, int count, TYPE type, MPI_Op op, MPI_Comm comm), (sendbuf, recvbuf, count, type, op, comm))
COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, NOBODY, record_type_bytes(recvcount, type),
           (const void *sendbuf, void *recvbuf, int recvcount, TYPE type, MPI_Op op, MPI_Comm comm),
           (sendbuf, recvbuf, recvcount, type, op, comm))
COLLECTIVE(Reduce_scatter, Ireduce_scatter, NOBODY, sum(recvcounts, type, comm),
           (const void *sendbuf, void *recvbuf, const int recvcounts[], TYPE type, MPI_Op op, MPI_Comm comm),
           (sendbuf, recvbuf, recvcounts, type, op, comm))
COLLECTIVE(Gather, Igather, root, is_root(comm, root) ? RECEIVED : SENT,
           (const void *sendbuf, int sendcount, TYPE sendtype, void *recvbuf, int recvcount, TYPE recvtype, int root, MPI_Comm comm),
           (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm))
COLLECTIVE(Gatherv, Igatherv, root, is_root(comm, root) ? sum(recvcounts, recvtype, comm) : SENT,
           (const void *sendbuf, int sendcount, TYPE sendtype, void *recvbuf, const int recvcounts[], const int displs[], TYPE recvtype,
            int root, MPI_Comm comm),
           (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm))
COLLECTIVE(Scatter, Iscatter, root, is_root(comm, root) ? SENT : RECEIVED,
           (const void *sendbuf, int sendcount, TYPE sendtype, void *recvbuf, int recvcount, TYPE recvtype, int root, MPI_Comm comm),
           (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm))
COLLECTIVE(Scatterv, Iscatterv, root, is_root(comm, root) ? sum(sendcounts, sendtype, comm) : RECEIVED,
           (const void *sendbuf, const int sendcounts[], const int displs[], TYPE sendtype, void *recvbuf, int recvcount, TYPE recvtype,
            int root, MPI_Comm comm),
           (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm))
COLLECTIVE(Allgather, Iallgather, NOBODY, RECEIVED,
           (const void *sendbuf, int sendcount, TYPE sendtype, void *recvbuf, int recvcount, TYPE recvtype, MPI_Comm comm),
           (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
COLLECTIVE(Allgatherv, Iallgatherv, NOBODY, sum(recvcounts, recvtype, comm),
           (const void *sendbuf, int sendcount, TYPE sendtype, void *recvbuf, const int recvcounts[], const int displs[], TYPE recvtype,
            MPI_Comm comm),
           (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm))
COLLECTIVE(Alltoall, Ialltoall, NOBODY, RECEIVED,
           (const void *sendbuf, int sendcount, TYPE sendtype, void *recvbuf, int recvcount, TYPE recvtype, MPI_Comm comm),
           (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
COLLECTIVE(Alltoallv, Ialltoallv, NOBODY, sum(recvcounts, recvtype, comm),
           (const void *sendbuf, const int sendcounts[], const int sdispls[], TYPE sendtype, void *recvbuf, const int recvcounts[],
            const int rdispls[], TYPE recvtype, MPI_Comm comm),
           (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm))
COLLECTIVE(Alltoallw, Ialltoallw, NOBODY, sum_of_types(recvcounts, recvtypes, comm),
           (const void *sendbuf, const int sendcounts[], const int sdispls[], const TYPE sendtypes[], void *recvbuf, const int recvcounts[],
            const int rdispls[], const TYPE recvtypes[], MPI_Comm comm),
           (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm))

/* ---- communicators */

/* A function with which all ranks of `comm` make a new one, `made`; `key` is 0 but where only its members make the call. */
#define MAKES(name, key, collective, parameters, arguments)                                                                                \
    THALWEG_WRAPPER int MPI_##name(UNPAREN parameters, MPI_Comm *made)                                                                     \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        int result = PMPI_##name(UNPAREN arguments, made);                                                                                 \
        if (begun != 0) {                                                                                                                  \
            struct record record = record_blank(CALL_MPI_##name, begun);                                                                   \
            record.end_ns = record_now();                                                                                                  \
            if (collective)                                                                                                                \
                fill(&record, comm, NOBODY, 0, result);                                                                                    \
            record_group_made(comm, *made, key, result);                                                                                   \
            record_put(&record);                                                                                                           \
        } else {                                                                                                                           \
            record_end_unrecorded();                                                                                                       \
        }                                                                                                                                  \
        return result;                                                                                                                     \
    }
MAKES(Comm_dup, 0, 1, (MPI_Comm comm), (comm))
MAKES(Comm_dup_with_info, 0, 1, (MPI_Comm comm, MPI_Info info), (comm, info))
MAKES(Comm_split, 0, 1, (MPI_Comm comm, int color, int order), (comm, color, order))
MAKES(Comm_split_type, 0, 1, (MPI_Comm comm, int kind, int order, MPI_Info info), (comm, kind, order, info))
MAKES(Comm_create, 0, 1, (MPI_Comm comm, MPI_Group group), (comm, group))
MAKES(Comm_create_group, record_hash((uint64_t)tag, 5), 0, (MPI_Comm comm, MPI_Group group, int tag), (comm, group, tag))
MAKES(Cart_create, 0, 1, (MPI_Comm comm, int dimensions, const int sizes[], const int periodic[], int reorder),
      (comm, dimensions, sizes, periodic, reorder))
MAKES(Cart_sub, 0, 1, (MPI_Comm comm, const int remain[]), (comm, remain))
MAKES(Graph_create, 0, 1, (MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder),
      (comm, nodes, index, edges, reorder))
MAKES(Dist_graph_create, 0, 1,
      (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[], const int weights[], MPI_Info info,
       int reorder),
      (comm, n, sources, degrees, destinations, weights, info, reorder))
MAKES(Dist_graph_create_adjacent, 0, 1,
      (MPI_Comm comm, int in, const int sources[], const int in_weights[], int out, const int destinations[], const int out_weights[],
       MPI_Info info, int reorder),
      (comm, in, sources, in_weights, out, destinations, out_weights, info, reorder))
MAKES(Intercomm_merge, 0, 0, (MPI_Comm comm, int high), (comm, high))

THALWEG_WRAPPER int MPI_Comm_free(MPI_Comm *comm)
{
    uint64_t begun = record_begin();
    MPI_Comm before = *comm;
    int result = PMPI_Comm_free(comm);
    if (begun != 0 && result == MPI_SUCCESS)
        record_group_gone(before);
    record_end_unrecorded();
    return result;
}

THALWEG_WRAPPER int MPI_Comm_disconnect(MPI_Comm *comm)
{
    uint64_t begun = record_begin();
    MPI_Comm before = *comm;
    int result = PMPI_Comm_disconnect(comm);
    if (begun != 0 && result == MPI_SUCCESS)
        record_group_gone(before);
    record_end_unrecorded();
    return result;
}

/* ---- the beginning and the end */

static void initialised(enum record_call call, uint64_t begun, int result)
{
    struct record record = record_blank(call, begun);
    record.end_ns = record_now();
    record_start(begun);
    fill(&record, MPI_COMM_WORLD, NOBODY, 0, result);
    record_put(&record);
}

THALWEG_WRAPPER int MPI_Init(int *argc, char ***argv)
{
    uint64_t begun = record_begin();
    int result = PMPI_Init(argc, argv);
    if (begun != 0 && result == MPI_SUCCESS)
        initialised(CALL_MPI_Init, begun, result);
    else
        record_end_unrecorded();
    return result;
}

THALWEG_WRAPPER int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    uint64_t begun = record_begin();
    int result = PMPI_Init_thread(argc, argv, required, provided);
    if (begun != 0 && result == MPI_SUCCESS)
        initialised(CALL_MPI_Init_thread, begun, result);
    else
        record_end_unrecorded();
    return result;
}

THALWEG_WRAPPER int MPI_Finalize(void)
{
    uint64_t begun = record_begin();
    if (begun == 0) {
        record_end_unrecorded();
        return PMPI_Finalize();
    }
    struct record record = record_blank(CALL_MPI_Finalize, begun);
    fill(&record, MPI_COMM_WORLD, NOBODY, 0, MPI_SUCCESS);
    int result = PMPI_Finalize();
    record.result = result;
    record_put(&record);
    record_finish();
    return result;
}

THALWEG_WRAPPER int MPI_Abort(MPI_Comm comm, int code)
{
    uint64_t begun = record_begin();
    if (begun != 0) {
        /* It does not come back. */
        struct record record = record_blank(CALL_MPI_Abort, begun);
        record.end_ns = begun;
        record.result = code;
        record_append(&record, NULL, 0);
    }
    record_end_unrecorded();
    return PMPI_Abort(comm, code);
}
