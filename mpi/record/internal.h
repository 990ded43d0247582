/* What the files of the recording half share; record.h says what is written. */
#ifndef THALWEG_RECORD_INTERNAL_H
#define THALWEG_RECORD_INTERNAL_H

#include "record/record.h"
#include <stddef.h>

enum record_call {
#define CALL(name) CALL_##name,
#include "record/calls.h"
#undef CALL
    CALLS
};

/* A communicator, or a file that one opened. */
struct group {
    uint32_t number; /* in this rank's file */
    uint64_t id;     /* on all ranks alike; 0: not known */
    int size;
    int rank;
    int inter;      /* an intercommunicator: peers are in the other group */
    int world_like; /* ranks are those of MPI_COMM_WORLD */
    int *world;     /* rank in MPI_COMM_WORLD of each (remote) rank, or null */
    _Atomic uint64_t sequence; /* collectives so far */
    _Atomic uint64_t children; /* communicators and files made of it so far */
    char *path;      /* of a file, as the file system has it */
    _Atomic uint64_t split;    /* serial of the split collective under way */
    int view_etype_bytes;
};

/* ---- the file (file.c) */

/* 0: recording is off for good; 1: it is on; -1: it is not known yet. */
extern int record_state;

uint64_t record_now(void);
/* Looks at the environment and makes the rank's file; called when MPI is there. */
void record_start(uint64_t begun);
/* Ends recording, at MPI_Finalize. */
void record_finish(void);
/* A record with everything absent but its times, call and thread; `state` stays 0. */
struct record record_blank(enum record_call call, uint64_t begun);
/* Ends what record_begin began, and appends the record. */
void record_put(struct record *record);
/* Appends without ending anything. */
void record_append(const struct record *record, const char *text, size_t length);
/* The same, but is merged with this thread's last record where that is the same call on the same thing and ended just before. */
void record_put_mergeable(struct record *record);
uint32_t record_next_number(void);
uint64_t record_next_serial(void);
/* MPI's class of an error. */
int record_class(int result);
uint64_t record_hash(uint64_t one, uint64_t other);

/* ---- communicators (groups.c) */

/* The communicator, told of if it was not; null: it cannot be (MPI_COMM_NULL, or no memory). */
struct group *record_group(MPI_Comm comm);
/* A communicator that all ranks of `parent` made together. */
void record_group_made(MPI_Comm parent, MPI_Comm made, uint64_t key, int result);
void record_group_gone(MPI_Comm comm);
/* The rank in MPI_COMM_WORLD of a rank of this communicator. */
int record_world_rank(struct group *group, int rank);
struct group *record_file(MPI_File file);
/* A file that was opened: from now on it is found. */
void record_file_add(MPI_File file, struct group *group);
void record_file_gone(MPI_File file);
/* The call with this name; `CALLS`: there is none. */
enum record_call record_call_named(const char *name);

/* ---- requests (requests.c) */

struct pending {
    uint64_t serial;
    uint32_t object;
    int32_t peer, tag;
    uint16_t call;
    uint8_t flags;
    uint8_t persistent;
    uint8_t receives;
    uint8_t moves_file; /* its status tells how many bytes a file gave or took */
    uint64_t size_bytes;
    uint64_t sequence;
    struct group *group; /* of a receive: whose ranks its source is one of */
};

void record_pending_add(MPI_Request request, const struct pending *pending);
/* What a request stands for, if it is known; takes it out unless it is persistent. */
int record_pending_end(MPI_Request request, struct pending *found);
/* A persistent request begins: gets a new serial. */
int record_pending_restart(MPI_Request request, struct pending *found);
void record_pending_forget(MPI_Request request);

static inline uint64_t record_type_bytes(int count, MPI_Datatype type)
{
    int size = 0;
    if (count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS || size <= 0)
        return 0;
    return (uint64_t)count * (uint64_t)size;
}

/* Bytes that a status tells of, or `otherwise`. */
static inline uint64_t record_status_bytes(const MPI_Status *status, uint64_t otherwise)
{
    MPI_Count bytes = -1;
    if (PMPI_Get_elements_x(status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < 0)
        return otherwise;
    return (uint64_t)bytes;
}

#endif
