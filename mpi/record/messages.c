/*
 * Messages from rank to rank: the wrappers.
 *
 * Peers are told as ranks of MPI_COMM_WORLD. What a receive took is known when it ends: its source, tag and size come from the status, for
 * which we hand in our own where the program wants none. Messages are matched later, by reading all ranks' files: the nth message of
 * one rank to another with one tag in one communicator is taken by the nth receive, in the order of posting, that took such a one.
 */
#include "record/internal.h"

static void fill(struct record *record, MPI_Comm comm, int peer, int tag, uint64_t bytes)
{
    struct group *group = record_group(comm);
    record->object = group != NULL ? group->number : 0;
    record->peer = record_world_rank(group, peer);
    record->tag = tag == MPI_ANY_TAG ? RECORD_ANY : tag;
    record->size_bytes = bytes;
}

/* What a receive took, as its status says. */
static void took(struct record *record, MPI_Comm comm, const MPI_Status *status, uint64_t otherwise)
{
    fill(record, comm, status->MPI_SOURCE, status->MPI_TAG, record_status_bytes(status, otherwise));
}

#define SENDS(name)                                                                                                                        \
    THALWEG_WRAPPER int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)                        \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        int result = PMPI_##name(buf, count, type, dest, tag, comm);                                                                       \
        if (begun != 0) {                                                                                                                  \
            struct record record = record_blank(CALL_MPI_##name, begun);                                                                   \
            record.end_ns = record_now();                                                                                                  \
            fill(&record, comm, dest, tag, record_type_bytes(count, type));                                                                \
            record.flags = RECORD_SEND;                                                                                                    \
            record.result = record_class(result);                                                                                          \
            record_put(&record);                                                                                                           \
        } else {                                                                                                                           \
            record_end_unrecorded();                                                                                                       \
        }                                                                                                                                  \
        return result;                                                                                                                     \
    }
SENDS(Send)
SENDS(Ssend)
SENDS(Bsend)
SENDS(Rsend)

static void begun_operation(struct record *record, MPI_Comm comm, MPI_Request request, int receives, int result)
{
    record->flags |= RECORD_POSTED | (receives ? RECORD_RECEIVE : RECORD_SEND);
    record->result = record_class(result);
    if (result == MPI_SUCCESS) {
        struct pending pending = {
            .serial = record_next_serial(),
            .object = record->object,
            .peer = record->peer,
            .tag = record->tag,
            .call = record->call,
            .receives = (uint8_t)receives,
            .flags = record->flags,
            .size_bytes = record->size_bytes,
            .group = comm != MPI_COMM_NULL ? record_group(comm) : NULL,
        };
        record->serial = pending.serial;
        record_pending_add(request, &pending);
    }
    record_put(record);
}

#define ISENDS(name)                                                                                                                       \
    THALWEG_WRAPPER int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)  \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        int result = PMPI_##name(buf, count, type, dest, tag, comm, request);                                                              \
        if (begun != 0) {                                                                                                                  \
            struct record record = record_blank(CALL_MPI_##name, begun);                                                                   \
            record.end_ns = record_now();                                                                                                  \
            fill(&record, comm, dest, tag, record_type_bytes(count, type));                                                                \
            begun_operation(&record, comm, *request, 0, result);                                                                           \
        } else {                                                                                                                           \
            record_end_unrecorded();                                                                                                       \
        }                                                                                                                                  \
        return result;                                                                                                                     \
    }
ISENDS(Isend)
ISENDS(Issend)
ISENDS(Ibsend)
ISENDS(Irsend)

THALWEG_WRAPPER int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    uint64_t begun = record_begin();
    MPI_Status own;
    MPI_Status *told = begun != 0 && status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Recv(buf, count, type, source, tag, comm, told);
    if (begun != 0) {
        struct record record = record_blank(CALL_MPI_Recv, begun);
        record.end_ns = record_now();
        if (result == MPI_SUCCESS)
            took(&record, comm, told, record_type_bytes(count, type));
        else
            fill(&record, comm, source, tag, 0);
        record.flags = RECORD_RECEIVE;
        record.result = record_class(result);
        record_put(&record);
    } else {
        record_end_unrecorded();
    }
    return result;
}

THALWEG_WRAPPER int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    uint64_t begun = record_begin();
    int result = PMPI_Irecv(buf, count, type, source, tag, comm, request);
    if (begun != 0) {
        struct record record = record_blank(CALL_MPI_Irecv, begun);
        record.end_ns = record_now();
        fill(&record, comm, source, tag, record_type_bytes(count, type));
        begun_operation(&record, comm, *request, 1, result);
    } else {
        record_end_unrecorded();
    }
    return result;
}

/* Both parts of a call that sends and receives, with the same times. */
static void both(struct record *record, MPI_Comm comm, int dest, int sendtag, uint64_t sent, const MPI_Status *status, uint64_t most, int result)
{
    record->end_ns = record_now();
    record->result = record_class(result);
    struct record received = *record;
    fill(record, comm, dest, sendtag, sent);
    record->flags = RECORD_SEND;
    received.flags = RECORD_RECEIVE;
    if (result == MPI_SUCCESS)
        took(&received, comm, status, most);
    record_append(record, NULL, 0);
    record_put(&received);
}

THALWEG_WRAPPER int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, int recvcount,
                 MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    uint64_t begun = record_begin();
    MPI_Status own;
    MPI_Status *told = begun != 0 && status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag, comm, told);
    if (begun != 0) {
        struct record record = record_blank(CALL_MPI_Sendrecv, begun);
        both(&record, comm, dest, sendtag, record_type_bytes(sendcount, sendtype), told, record_type_bytes(recvcount, recvtype), result);
    } else {
        record_end_unrecorded();
    }
    return result;
}

THALWEG_WRAPPER int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,
                         MPI_Status *status)
{
    uint64_t begun = record_begin();
    MPI_Status own;
    MPI_Status *told = begun != 0 && status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Sendrecv_replace(buf, count, type, dest, sendtag, source, recvtag, comm, told);
    if (begun != 0) {
        struct record record = record_blank(CALL_MPI_Sendrecv_replace, begun);
        uint64_t bytes = record_type_bytes(count, type);
        both(&record, comm, dest, sendtag, bytes, told, bytes, result);
    } else {
        record_end_unrecorded();
    }
    return result;
}

/* ---- looking for messages */

THALWEG_WRAPPER int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    uint64_t begun = record_begin();
    MPI_Status own;
    MPI_Status *told = begun != 0 && status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Probe(source, tag, comm, told);
    if (begun != 0) {
        struct record record = record_blank(CALL_MPI_Probe, begun);
        record.end_ns = record_now();
        if (result == MPI_SUCCESS)
            took(&record, comm, told, 0);
        record.result = record_class(result);
        record_put(&record);
    } else {
        record_end_unrecorded();
    }
    return result;
}

THALWEG_WRAPPER int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    uint64_t begun = record_begin();
    MPI_Status own;
    MPI_Status *told = begun != 0 && status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Iprobe(source, tag, comm, flag, told);
    if (begun != 0) {
        struct record record = record_blank(CALL_MPI_Iprobe, begun);
        if (result == MPI_SUCCESS && *flag)
            took(&record, comm, told, 0);
        else
            fill(&record, comm, source, tag, 0);
        record.flags = result == MPI_SUCCESS && !*flag ? RECORD_FRUITLESS : 0;
        record.result = record_class(result);
        record_put_mergeable(&record);
    } else {
        record_end_unrecorded();
    }
    return result;
}

/* A message that a matched probe took hold of: kept as if it were a request, so that the receive knows its communicator. */
static void take_hold(MPI_Message message, MPI_Comm comm, const MPI_Status *status, uint64_t bytes)
{
    struct pending pending = {.serial = record_next_serial(), .receives = 1, .size_bytes = bytes};
    struct record about = {0};
    took(&about, comm, status, bytes);
    pending.object = about.object;
    pending.peer = about.peer;
    pending.tag = about.tag;
    record_pending_add((MPI_Request)(intptr_t)message, &pending);
}

THALWEG_WRAPPER int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    uint64_t begun = record_begin();
    MPI_Status own;
    MPI_Status *told = begun != 0 && status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Mprobe(source, tag, comm, message, told);
    if (begun != 0) {
        struct record record = record_blank(CALL_MPI_Mprobe, begun);
        record.end_ns = record_now();
        if (result == MPI_SUCCESS) {
            took(&record, comm, told, 0);
            take_hold(*message, comm, told, record.size_bytes);
        }
        record.result = record_class(result);
        record_put(&record);
    } else {
        record_end_unrecorded();
    }
    return result;
}

THALWEG_WRAPPER int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    uint64_t begun = record_begin();
    MPI_Status own;
    MPI_Status *told = begun != 0 && status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Improbe(source, tag, comm, flag, message, told);
    if (begun != 0) {
        struct record record = record_blank(CALL_MPI_Improbe, begun);
        if (result == MPI_SUCCESS && *flag) {
            took(&record, comm, told, 0);
            take_hold(*message, comm, told, record.size_bytes);
        } else {
            fill(&record, comm, source, tag, 0);
        }
        record.flags = result == MPI_SUCCESS && !*flag ? RECORD_FRUITLESS : 0;
        record.result = record_class(result);
        record_put_mergeable(&record);
    } else {
        record_end_unrecorded();
    }
    return result;
}

/* Says of a receive what was said of its message when it was matched. */
static void of_held(struct record *record, MPI_Request as_request)
{
    struct pending held;
    if (!record_pending_end(as_request, &held))
        return;
    record->object = held.object;
    record->peer = held.peer;
    record->tag = held.tag;
    record->size_bytes = held.size_bytes;
}

THALWEG_WRAPPER int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    uint64_t begun = record_begin();
    MPI_Request as_request = (MPI_Request)(intptr_t)*message;
    int result = PMPI_Mrecv(buf, count, type, message, status);
    if (begun != 0) {
        struct record record = record_blank(CALL_MPI_Mrecv, begun);
        record.end_ns = record_now();
        of_held(&record, as_request);
        record.flags = RECORD_RECEIVE;
        record.result = record_class(result);
        record_put(&record);
    } else {
        record_end_unrecorded();
    }
    return result;
}

THALWEG_WRAPPER int MPI_Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
    uint64_t begun = record_begin();
    MPI_Request as_request = (MPI_Request)(intptr_t)*message;
    int result = PMPI_Imrecv(buf, count, type, message, request);
    if (begun != 0) {
        struct record record = record_blank(CALL_MPI_Imrecv, begun);
        record.end_ns = record_now();
        of_held(&record, as_request);
        begun_operation(&record, MPI_COMM_NULL, *request, 1, result);
    } else {
        record_end_unrecorded();
    }
    return result;
}

/* ---- persistent requests: nothing happens when they are made, all of it when they start */

static void made_persistent(enum record_call call, MPI_Comm comm, int peer, int tag, uint64_t bytes, int receives, MPI_Request request)
{
    struct record about = {0};
    fill(&about, comm, peer, tag, bytes);
    struct pending pending = {
        .persistent = 1,
        .object = about.object,
        .peer = about.peer,
        .tag = about.tag,
        .size_bytes = bytes,
        .receives = (uint8_t)receives,
        .group = record_group(comm),
        .flags = receives ? RECORD_RECEIVE : RECORD_SEND,
        .call = (uint16_t)call,
    };
    record_pending_add(request, &pending);
}

#define SEND_INITS(name)                                                                                                                   \
    THALWEG_WRAPPER int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)  \
    {                                                                                                                                      \
        uint64_t begun = record_begin();                                                                                                   \
        int result = PMPI_##name(buf, count, type, dest, tag, comm, request);                                                              \
        if (begun != 0 && result == MPI_SUCCESS)                                                                                           \
            made_persistent(CALL_MPI_Start, comm, dest, tag, record_type_bytes(count, type), 0, *request);                                 \
        record_end_unrecorded();                                                                                                           \
        return result;                                                                                                                     \
    }
SEND_INITS(Send_init)
SEND_INITS(Ssend_init)
SEND_INITS(Bsend_init)
SEND_INITS(Rsend_init)

THALWEG_WRAPPER int MPI_Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    uint64_t begun = record_begin();
    int result = PMPI_Recv_init(buf, count, type, source, tag, comm, request);
    if (begun != 0 && result == MPI_SUCCESS)
        made_persistent(CALL_MPI_Start, comm, source, tag, record_type_bytes(count, type), 1, *request);
    record_end_unrecorded();
    return result;
}

static void started(enum record_call call, uint64_t begun, uint64_t ended, MPI_Request request, int result)
{
    struct pending pending;
    struct record record = record_blank(call, begun);
    record.end_ns = ended;
    record.result = record_class(result);
    if (result == MPI_SUCCESS && record_pending_restart(request, &pending)) {
        record.serial = pending.serial;
        record.object = pending.object;
        record.peer = pending.peer;
        record.tag = pending.tag;
        record.size_bytes = pending.size_bytes;
        record.flags = pending.flags | RECORD_POSTED;
    }
    record_append(&record, NULL, 0);
}

THALWEG_WRAPPER int MPI_Start(MPI_Request *request)
{
    uint64_t begun = record_begin();
    MPI_Request before = *request;
    int result = PMPI_Start(request);
    if (begun != 0)
        started(CALL_MPI_Start, begun, record_now(), before, result);
    record_end_unrecorded();
    return result;
}

THALWEG_WRAPPER int MPI_Startall(int count, MPI_Request requests[])
{
    uint64_t begun = record_begin();
    int result = PMPI_Startall(count, requests);
    if (begun != 0) {
        uint64_t ended = record_now();
        for (int i = 0; i < count; i++)
            started(CALL_MPI_Startall, begun, ended, requests[i], result);
    }
    record_end_unrecorded();
    return result;
}

THALWEG_WRAPPER int MPI_Request_free(MPI_Request *request)
{
    uint64_t begun = record_begin();
    MPI_Request before = *request;
    int result = PMPI_Request_free(request);
    if (begun != 0 && result == MPI_SUCCESS)
        record_pending_forget(before);
    record_end_unrecorded();
    return result;
}
