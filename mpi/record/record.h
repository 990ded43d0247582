/*
 * Recording of MPI calls: what the library writes, and the hooks its halves share.
 *
 * Active only if the environment has THALWEG_MPI_RECORD=DIR when the program initialises MPI. Each rank then has a file
 * DIR/rank-N.mpi (rank-N.PID.mpi where that name is taken: several jobs in one recording), mapped into memory and appended to,
 * so that what a killed rank had written is there. It takes at most THALWEG_MPI_RECORD_LIMIT bytes (default 256 MiB); what
 * comes after is counted as lost.
 *
 * The file, all numbers little-endian: a `struct record_header`; from byte 512 on the names of calls, each ended by a newline, in the
 * order of their numbers, ended by a zero; from byte `header_bytes` on records of `record_bytes` bytes each. Records are in the order
 * in which their calls ended; a slot whose `state` is 0 was reserved and never written. Times are CLOCK_MONOTONIC, nanoseconds.
 *
 * Names that are no MPI function describe something, with a text that fills the `extra` records after theirs (zero-padded):
 *   communicator  object: its number; serial: what it is called on all its ranks alike (0: not known); count: its size; peer: this rank in it;
 *                 text: the members' ranks in MPI_COMM_WORLD, `0-3,7` (empty: too many to tell, or not of that world)
 *   file          object: its number (numbers of communicators and files are one sequence); serial: what it is called on all ranks
 *                 that opened it together; count: how many; text: its path as it was given
 *   view          object: the file's number; text: `DISPLACEMENT,EXTENT:OFFSET+LENGTH,...`, the filetype's runs of bytes, repeated every
 *                 EXTENT bytes from DISPLACEMENT on; without runs they are too many
 *   store, layout, map  object: the file's number; text: what a file in a mounted store says by the extended attributes of these names when it
 *                 is closed (`user.thalweg.store`, ...)
 *   local         object: the file's number; text: how many of its bytes are not on the node of the rank that wrote them, and why
 *   completed     the end of what `serial` names and an earlier record began, within the wait that ended at the same instant: peer, tag and
 *                 size as they became known
 */
#ifndef THALWEG_RECORD_H
#define THALWEG_RECORD_H

#include "wrap.h"

#define RECORD_VERSION 1
#define RECORD_HEADER_BYTES 8192
#define RECORD_NAMES_AT 512
#define RECORD_UNKNOWN UINT64_MAX

struct record_header {
    char magic[8]; /* "thalmpi\n" */
    uint32_t version;
    uint32_t header_bytes;
    uint32_t record_bytes;
    int32_t rank;
    int32_t world_size;
    uint32_t pid;
    uint32_t tid;   /* of the thread that initialised MPI */
    uint32_t ended; /* 1: MPI_Finalize was called */
    uint64_t start_ns;
    uint64_t limit_records;
    uint64_t used_records; /* reserved so far: may be more than the limit */
    uint64_t lost_records;
    char host[64];
    char library[64]; /* as MPI_Get_library_version says it, its first line */
    char job[64];     /* what the launcher calls the job, where it says so: equal on all ranks */
    char directory[240]; /* the working directory when MPI was initialised; empty: longer */
};

struct record {
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t size_bytes;
    uint64_t offset_bytes; /* of a file: absolute; RECORD_UNKNOWN */
    uint64_t serial;       /* of a non-blocking operation: its number in this rank, from 1 on */
    uint32_t tid;
    uint32_t count; /* calls merged: posts, and looks that found nothing */
    int32_t peer;   /* rank in MPI_COMM_WORLD; RECORD_ANY, RECORD_NOBODY; of a rooted collective: its root */
    int32_t tag;
    uint32_t object; /* communicator or file; 0: none */
    int32_t result;  /* MPI's error class */
    uint16_t call;
    uint8_t state; /* 0: not written, 1: whole */
    uint8_t flags;
    uint32_t extra; /* how many records of text follow */
    uint64_t sequence; /* of a collective: how many the communicator (or file) had before */
};

_Static_assert(sizeof(struct record) == 80, "the record's size is part of the format");
_Static_assert(sizeof(struct record_header) <= RECORD_NAMES_AT, "names of calls begin after the header");

#define RECORD_ANY (-2)
#define RECORD_NOBODY (-1)

/* flags */
#define RECORD_POSTED 1      /* began something that goes on: `serial` */
#define RECORD_FRUITLESS 2   /* a test or probe that found nothing */
#define RECORD_COLLECTIVE 4  /* all ranks of `object` make it, in the same order: `sequence` */
#define RECORD_SEND 8        /* one of the two parts of a call that sends and receives */
#define RECORD_RECEIVE 16

/* Begins a recorded call: when it is, or 0 if nothing is to be recorded (recording is off, or the call is made within another one).
 * One of the functions that end it follows. What the other half of the library calls is in wrap.h. */
uint64_t record_begin(void);
/* Ends what record_begin began without recording it. */
void record_end_unrecorded(void);

#endif
