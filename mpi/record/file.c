/*
 * The rank's file: made when MPI is there, mapped, appended to by any thread without a lock.
 *
 * A slot is reserved by adding to `used_records`, and whole when its `state` says so. The file grows by pieces that are allocated on
 * the disk before they are touched: where that fails, what comes is counted as lost, and the program goes on. Nothing here waits for
 * anybody but the thread that makes the file larger.
 */
#define _GNU_SOURCE
#include "record/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES (256u << 10)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define DEFAULT_LIMIT_BYTES (256ull << 20)
/* Calls are merged into one record while each of them, and the pause before it, is shorter than this, ... */
#define MERGE_NS 20000
/* ... and all of them together are no longer than this. */
#define MERGED_NS 10000000

static const char *const names[] = {
#define CALL(name) #name,
#include "record/calls.h"
#undef CALL
};

int record_state = -1;

static struct record_header *header;
static struct record *records;
static _Atomic uint64_t *used;
static _Atomic uint64_t *lost;
static _Atomic uint64_t allocated; /* records that may be touched */
static uint64_t limit;
static int file_descriptor = -1;
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t next_number = 1;
static _Atomic uint64_t next_serial = 1;

/* A rank is one process; TLS of the initial kind is a register and an offset. */
static __thread int depth __attribute__((tls_model("initial-exec")));
static __thread uint32_t own_tid __attribute__((tls_model("initial-exec")));
static __thread struct record *last __attribute__((tls_model("initial-exec")));

uint64_t record_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t thread_number(void)
{
    if (own_tid == 0)
        own_tid = (uint32_t)syscall(SYS_gettid);
    return own_tid;
}

/* What the launcher calls the job, where it tells its ranks. */
static const char *job_name(void)
{
    static const char *const variables[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (value != NULL && *value != 0)
            return value;
    }
    return "";
}

static int create(const char *directory, int rank)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/rank-%d.mpi", directory, rank) >= (int)sizeof path)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        if (snprintf(path, sizeof path, "%s/rank-%d.%ld.mpi", directory, rank, (long)getpid()) >= (int)sizeof path)
            return -1;
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    return fd;
}

static void describe_header(int rank, uint64_t begun)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    header->version = RECORD_VERSION;
    header->header_bytes = RECORD_HEADER_BYTES;
    header->record_bytes = sizeof(struct record);
    header->rank = rank;
    PMPI_Comm_size(MPI_COMM_WORLD, &header->world_size);
    header->pid = (uint32_t)getpid();
    header->tid = thread_number();
    header->start_ns = begun;
    header->limit_records = limit;
    gethostname(header->host, sizeof header->host - 1);
    PMPI_Get_library_version(version, &length);
    version[strcspn(version, "\n,")] = 0;
    snprintf(header->library, sizeof header->library, "%s", version);
    snprintf(header->job, sizeof header->job, "%s", job_name());
    if (getcwd(header->directory, sizeof header->directory) == NULL)
        header->directory[0] = 0;
    char *at = (char *)header + RECORD_NAMES_AT;
    for (size_t i = 0; i < CALLS; i++)
        at += sprintf(at, "%s\n", names[i]);
    memcpy(header->magic, "thalmpi\n", 8);
}

void record_start(uint64_t begun)
{
    int rank = 0, there = 0;
    if (record_state >= 0 || PMPI_Initialized(&there) != MPI_SUCCESS || !there)
        return;
    pthread_mutex_lock(&growing);
    const char *directory = getenv("THALWEG_MPI_RECORD");
    int state = 0;
    if (record_state < 0 && directory != NULL && *directory != 0 && PMPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS) {
        const char *most = getenv("THALWEG_MPI_RECORD_LIMIT");
        uint64_t bytes = most != NULL ? strtoull(most, NULL, 10) : DEFAULT_LIMIT_BYTES;
        bytes = bytes < 2 * PIECE_BYTES ? 2 * PIECE_BYTES : bytes;
        limit = (bytes - RECORD_HEADER_BYTES) / sizeof(struct record);
        file_descriptor = create(directory, rank);
        if (file_descriptor >= 0 && posix_fallocate(file_descriptor, 0, PIECE_BYTES) == 0) {
            /* Address space for all of it; only what has been allocated is touched. */
            void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_descriptor, 0);
            if (map != MAP_FAILED) {
                header = map;
                records = (struct record *)((char *)map + RECORD_HEADER_BYTES);
                used = (_Atomic uint64_t *)&header->used_records;
                lost = (_Atomic uint64_t *)&header->lost_records;
                allocated = (PIECE_BYTES - RECORD_HEADER_BYTES) / sizeof(struct record);
                describe_header(rank, begun);
                state = 1;
            }
        }
    }
    if (record_state < 0)
        record_state = state;
    pthread_mutex_unlock(&growing);
}

void record_finish(void)
{
    if (record_state != 1)
        return;
    header->ended = 1;
    uint64_t have = atomic_load(used);
    have = have < limit ? have : limit;
    /* What was allocated and not used goes back; the map stays, for whoever calls MPI after MPI_Finalize. */
    if (ftruncate(file_descriptor, (off_t)(RECORD_HEADER_BYTES + have * sizeof(struct record))) == 0)
        record_state = 0;
}

/* Makes room for records up to `end`; 0: there is none. */
static int grow(uint64_t end)
{
    if (end > limit)
        return 0;
    pthread_mutex_lock(&growing);
    uint64_t have = atomic_load(&allocated);
    while (have < end) {
        off_t from = (off_t)(RECORD_HEADER_BYTES + have * sizeof(struct record));
        uint64_t more = have + PIECE_BYTES / sizeof(struct record);
        more = more < limit ? more : limit;
        off_t to = (off_t)(RECORD_HEADER_BYTES + more * sizeof(struct record));
        if (posix_fallocate(file_descriptor, from, to - from) != 0)
            break;
        /* Touched at once: 64 faults taken one by one cost several times as much. Where the kernel cannot, they are. */
        uintptr_t page = ((uintptr_t)header + (uintptr_t)from) & ~(uintptr_t)4095;
        madvise((void *)page, (uintptr_t)header + (uintptr_t)to - page, MADV_POPULATE_WRITE);
        have = more;
        atomic_store_explicit(&allocated, have, memory_order_release);
    }
    pthread_mutex_unlock(&growing);
    return have >= end;
}

/* `count` neighbouring slots, or null. */
static struct record *reserve(uint32_t count)
{
    if (record_state != 1)
        return NULL;
    uint64_t at = atomic_fetch_add_explicit(used, count, memory_order_relaxed);
    if (at + count > atomic_load_explicit(&allocated, memory_order_acquire) && !grow(at + count)) {
        atomic_fetch_add_explicit(lost, 1, memory_order_relaxed);
        return NULL;
    }
    return &records[at];
}

static void write_whole(struct record *slot, const struct record *record)
{
    memcpy(slot, record, offsetof(struct record, state));
    memcpy((char *)slot + offsetof(struct record, flags), (const char *)record + offsetof(struct record, flags),
           sizeof *record - offsetof(struct record, flags));
    atomic_store_explicit((_Atomic uint8_t *)&slot->state, 1, memory_order_release);
}

void record_append(const struct record *record, const char *text, size_t length)
{
    uint32_t extra = (uint32_t)((length + sizeof(struct record) - 1) / sizeof(struct record));
    struct record *slot = reserve(1 + extra);
    if (slot == NULL)
        return;
    struct record whole = *record;
    whole.extra = extra;
    memcpy(slot + 1, text, length);
    write_whole(slot, &whole);
}

uint64_t record_begin(void)
{
    if (record_state == 0)
        return 0;
    return depth++ == 0 ? record_now() : 0;
}

void record_end_unrecorded(void)
{
    if (depth > 0)
        depth--;
}

struct record record_blank(enum record_call call, uint64_t begun)
{
    struct record record = {
        .start_ns = begun,
        .offset_bytes = RECORD_UNKNOWN,
        .tid = thread_number(),
        .count = 1,
        .peer = RECORD_NOBODY,
        .tag = RECORD_NOBODY,
        .call = (uint16_t)call,
    };
    return record;
}

void record_put(struct record *record)
{
    if (depth > 0)
        depth--;
    if (record->start_ns == 0)
        return;
    if (record_state < 0)
        record_start(record->start_ns);
    if (record->end_ns == 0)
        record->end_ns = record_now();
    struct record *slot = reserve(1);
    last = slot;
    if (slot != NULL)
        write_whole(slot, record);
}

void record_put_mergeable(struct record *record)
{
    struct record *before = last;
    if (before != NULL && record_state == 1 && record->start_ns != 0 && before->call == record->call && before->object == record->object &&
        before->peer == record->peer && before->flags == record->flags && before->result == record->result && before->serial == 0) {
        record->end_ns = record_now();
        if (record->end_ns - before->end_ns < 2 * MERGE_NS && record->start_ns - before->end_ns < MERGE_NS &&
            record->end_ns - before->start_ns < MERGED_NS && before->count < UINT32_MAX) {
            before->end_ns = record->end_ns;
            before->size_bytes += record->size_bytes;
            before->count++;
            record_end_unrecorded();
            return;
        }
    }
    record_put(record);
}

uint32_t record_next_number(void)
{
    return atomic_fetch_add(&next_number, 1);
}

uint64_t record_next_serial(void)
{
    return atomic_fetch_add(&next_serial, 1);
}

int record_class(int result)
{
    int class = 0;
    if (result == MPI_SUCCESS || PMPI_Error_class(result, &class) != MPI_SUCCESS)
        return result == MPI_SUCCESS ? 0 : result;
    return class;
}

uint64_t record_hash(uint64_t one, uint64_t other)
{
    uint64_t x = one * 0x9E3779B97F4A7C15u ^ (other + 0x2545F4914F6CDD1Du);
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    return x == 0 ? 1 : x;
}

enum record_call record_call_named(const char *name)
{
    unsigned call = 0;
    while (call < CALLS && strcmp(names[call], name) != 0)
        call++;
    return (enum record_call)call;
}
