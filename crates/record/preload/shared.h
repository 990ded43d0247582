/* Shared memory between the library in the program and the reader in the recorder: one file per process, mapped by
 * both.
 *
 *   file    | header page | slot 0 | slot 1 | ... |            a slot belongs to one thread at a time
 *   slot    | slot page   | ring of RING_RECORDS records |     one producer (the thread), one consumer (the reader)
 *
 * The file is sparse: a slot's pages are allocated before they are touched, so that a full file system is an error
 * here and never a SIGBUS in the program. Each side checks what the other wrote: without a reader the rings merely
 * fill, and a corrupt ring loses only its own events. src/preload/shared.rs has the same layout. */
#ifndef THALWEG_SHARED_H
#define THALWEG_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#define MAGIC 0x3130474557414854ull /* "THAWEG01" */
#define SLOTS 256
#define RING_RECORDS 4096
#define PAGE 4096
#define RUNS 6
#define SLOT_BYTES (PAGE + RING_RECORDS * 64)
#define FILE_BYTES (PAGE + (uint64_t)SLOTS * SLOT_BYTES)
#define ABSENT UINT64_MAX

/* A slot being made is not read: its pages may not be allocated yet. */
enum slot_state { SLOT_FREE = 0, SLOT_USED = 1, SLOT_ENDED = 2, SLOT_BEING_MADE = 3 };

enum record_type {
    RECORD_SPAN = 1,     /* one call */
    RECORD_RUN = 2,      /* calls of one kind on one object that never blocked */
    RECORD_OBJECT = 3,   /* names an object; `count` records of text or addresses follow */
    RECORD_TCP = 4,      /* TCP state of a connection; `count` records follow: struct tcp_info */
    RECORD_LISTEN = 5,   /* the process listens on the port in `size` */
    RECORD_LOOK = 6,     /* a call that found nothing, or then did: `size` is 0 or -errno. `count` records follow, with `offset` bytes of the
                            name, or with both addresses (`context` 1) */
    RECORD_STATUS = 7,   /* the process in `waker` was waited for: `size` is its status */
};

enum kind {
    KIND_NONE = 0,
    KIND_OPEN = 1,
    KIND_READ = 2,
    KIND_WRITE = 3,
    KIND_SYNC = 4,
    KIND_STAT = 5,
    KIND_LIST = 6,
    KIND_CLOSE = 7,
    KIND_OTHER = 8,
    KIND_CONNECT = 9,
    KIND_SEND = 10,
    KIND_RECEIVE = 11,
    KIND_WAIT_NETWORK = 12,
    KIND_WAIT_LOCK = 13,
    KIND_WAIT_TIMER = 14,
    KIND_WAIT_DISK = 15,
    KIND_WAIT_OTHER = 16,
    KIND_APP = 17,
    KIND_WAIT_RUNQUEUE = 18,
    KIND_RUN = 19, /* running, between calls */
};

/* A holder is a task that had what was waited for; other tasks are only known to have ended the wait. */
enum context { CONTEXT_NONE = 0, CONTEXT_TASK = 1, CONTEXT_TIMER = 2, CONTEXT_SOFTIRQ = 3, CONTEXT_HOLDER = 4,
               CONTEXT_BETWEEN = 5 /* not in the call of the kind: inferred from the time between two calls */ };

/* The class of a descriptor. */
enum class {
    CLASS_UNKNOWN = 0,
    CLASS_FILE = 1,
    CLASS_TCP = 2,
    CLASS_SOCKET = 3, /* a Unix socket */
    CLASS_PIPE = 4,
    CLASS_TERMINAL = 5,
    CLASS_TIMER = 6,
    CLASS_ANY = 7,
    CLASS_DATAGRAMS = 8,
};

/* Bit of how a file was opened: with O_DIRECT. */
#define OPENED_DIRECT 4u

/* Times are CLOCK_MONOTONIC in nanoseconds; ABSENT is all ones. */
struct record {
    uint8_t type;
    uint8_t kind;    /* for an object: its class */
    uint8_t context; /* for an object: how it was opened (1 read, 2 write, 3 both), or which end it is (1 client, 2 server); 0 unknown */
    uint8_t both; /* the call also reads another file: which of the two it waited for is not known */
    uint32_t count;
    uint32_t object; /* number within the process; 0: none */
    uint32_t waker;  /* thread or process; 0: none */
    uint64_t start_ns;
    uint64_t duration_ns;
    uint64_t offset;   /* for a pipe or socket: its inode */
    int64_t size;      /* bytes, or -errno */
    uint64_t cpu_ns;
    uint64_t runqueue_ns;
};

/* Calls merged so far. In the slot page, so that the reader can read them even if the process was killed. */
struct run {
    uint8_t kind;
    uint8_t used;
    uint16_t spare;
    uint32_t object;
    uint32_t count;
    int32_t error; /* errno of fruitless calls, otherwise 0 */
    uint64_t sum_ticks;
    uint64_t bytes;
    uint64_t offset;
};

struct slot {
    /* Written by the thread. */
    _Atomic uint64_t head; /* records written */
    _Atomic uint64_t lost;
    uint32_t tid;
    uint32_t pid;
    char name[16];
    uint64_t attached_ns;
    /* Simultaneous readings of both clocks, to convert ticks. */
    uint64_t anchor_ticks;
    uint64_t anchor_ns;
    /* The thread's time is recorded up to here. */
    uint64_t covered_ns;
    uint64_t last_end_ticks;
    /* The call in progress: kind, object, start; kind 0: none. */
    _Atomic uint32_t call_kind;
    uint32_t call_object;
    uint64_t call_ticks;
    struct run runs[RUNS];
    char pad[1024 - 96 - RUNS * 40];
    /* Written by the reader. */
    _Atomic uint64_t tail;
    char rest[PAGE - 1024 - 8];
    struct record ring[RING_RECORDS];
};

struct header {
    uint64_t magic;
    uint32_t pid;
    uint32_t parent;
    uint64_t created_ns;
    /* Nanoseconds per tick, times 2^32. */
    uint64_t tick_scale;
    _Atomic uint32_t ended; /* 1: the process called exit; BECAME_ANOTHER */
    _Atomic uint32_t untracked; /* threads that found no slot */
    _Atomic uint32_t unseen; /* bits: features in use that the library cannot see */
    uint32_t spare;
    _Atomic uint32_t states[SLOTS];
    /* Creation time of the process in clock ticks since boot; 0 if unknown. */
    uint64_t born_ticks;
};

/* The process executed another program: the next file with its number belongs to the same process. */
#define BECAME_ANOTHER 2

#define UNSEEN_MAPPED 1u
#define UNSEEN_URING 2u
#define UNSEEN_AIO 4u
#define UNSEEN_CONFINED 8u

_Static_assert(sizeof(struct record) == 64, "a record is 64 bytes");
_Static_assert(sizeof(struct run) == 40, "a run is 40 bytes");
_Static_assert(sizeof(struct slot) == SLOT_BYTES, "a slot is a page and its ring");
_Static_assert(sizeof(struct header) <= PAGE, "the header is a page");

#endif
