/* copy SOURCE SINK: copies a file block by block, and can have each of a copying program's faults.
 *
 * - It sleeps between blocks (--sleep-between), computes between them (--spin), or polls a pipe that has nothing yet (--poll).
 * - It syncs every so many bytes (--sync-every) or at the end (--sync).
 * - It waits for a lock that another thread holds, by sleeping or computing (--lock-hold, --lock-spin), or another process
 *   (--flock, see lockholder.c).
 * - It reads and writes in turn, so that source and sink never work at once; --readers and --threads change that.
 * - It reads or writes past the page cache (--direct-source, --direct-sink).
 * - It moves the bytes in every way the kernel offers (--how read|mmap|mmap-both|sendfile|splice|copy_file_range). */
#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t block = 1 << 20, size_limit = UINT64_MAX, sleep_between_ns, spin_ns, poll_ns, sync_every, lock_hold_ns, lock_spin_ns;
static uint64_t readers, threads = 1;
static bool sync_end, direct_source, direct_sink, verify;
static const char *how = "read", *flock_path;

static const struct option_row rows[] = {
    { "--block", SIZE, &block, "bytes of a block (1Mi)" },
    { "--size", SIZE, &size_limit, "stop after this many bytes" },
    { "--how", TEXT, &how, "read, mmap, mmap-both, sendfile, splice or copy_file_range (read)" },
    { "--sleep-between", TIME, &sleep_between_ns, "sleep after each block" },
    { "--spin", TIME, &spin_ns, "processor time to use after each block" },
    { "--poll", TIME, &poll_ns, "do not block in reading a pipe: sleep this long and try again" },
    { "--sync-every", SIZE, &sync_every, "fdatasync whenever this many bytes were written" },
    { "--sync", FLAG, &sync_end, "fdatasync at the end" },
    { "--lock-hold", TIME, &lock_hold_ns, "after each block, wait for a mutex that another thread holds this long, asleep" },
    { "--lock-spin", TIME, &lock_spin_ns, "the same, with the other thread computing for this long" },
    { "--flock", TEXT, &flock_path, "take flock(2) of this file around each block" },
    { "--direct-source", FLAG, &direct_source, "read with O_DIRECT" },
    { "--direct-sink", FLAG, &direct_sink, "write with O_DIRECT" },
    { "--threads", COUNT, &threads, "threads that each read and write every n-th block (1)" },
    { "--readers", COUNT, &readers, "threads that read ahead while this one writes (0: none)" },
    { "--verify", FLAG, &verify, "read the sink again and compare" },
    { NULL, 0, NULL, NULL },
};

static int source, sink, flock_fd = -1;
static uint64_t source_size;
static atomic_uint_fast64_t copied, unsynced, source_sum;

/* ---- faults after each block ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t hold, held;

/* The other thread: takes the mutex when told, and keeps it for a time of known length. */
static void *hold_lock(void *unused)
{
    (void)unused;
    for (;;) {
        while (sem_wait(&hold) != 0)
            ;
        pthread_mutex_lock(&mutex);
        sem_post(&held);
        if (lock_hold_ns) {
            struct timespec length = { (time_t)(lock_hold_ns / 1000000000), (long)(lock_hold_ns % 1000000000) };
            nanosleep(&length, NULL);
        }
        spin_for(lock_spin_ns);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void wait_for_lock(void)
{
    sem_post(&hold);
    while (sem_wait(&held) != 0)
        ;
    uint64_t begun_ns = now_ns();
    pthread_mutex_lock(&mutex);
    inject(LOCKED, now_ns() - begun_ns);
    pthread_mutex_unlock(&mutex);
}

static void sync_sink(void)
{
    uint64_t begun_ns = now_ns();
    if (fdatasync(sink) != 0)
        die("fdatasync of the sink");
    inject(SYNCED, now_ns() - begun_ns);
}

static void after_block(uint64_t bytes)
{
    copied += bytes;
    sleep_for(sleep_between_ns);
    spin_for(spin_ns);
    if (lock_hold_ns || lock_spin_ns)
        wait_for_lock();
    if (sync_every && atomic_fetch_add(&unsynced, bytes) + bytes >= sync_every) {
        unsynced = 0;
        sync_sink();
    }
}

static void lock_file(int operation)
{
    if (flock_fd < 0)
        return;
    uint64_t begun_ns = now_ns();
    while (flock(flock_fd, operation) != 0)
        if (errno != EINTR)
            die("flock of %s", flock_path);
    if (operation == LOCK_EX)
        inject(LOCKED, now_ns() - begun_ns);
}

/* ---- reading and writing a block; offset < 0 means the descriptor's own place ---- */

static size_t read_block(char *buffer, size_t length, off_t offset)
{
    size_t done = 0;
    while (done < length) {
        ssize_t got = offset < 0 ? read(source, buffer + done, length - done) : pread(source, buffer + done, length - done, offset + (off_t)done);
        if (got < 0 && errno == EAGAIN && poll_ns) {
            struct timespec pause = { (time_t)(poll_ns / 1000000000), (long)(poll_ns % 1000000000) };
            uint64_t begun_ns = now_ns();
            nanosleep(&pause, NULL);
            inject(POLLED, now_ns() - begun_ns);
            continue;
        }
        if (got < 0 && errno != EINTR)
            die("reading the source");
        if (got == 0)
            break;
        done += got > 0 ? (size_t)got : 0;
    }
    return done;
}

static void write_block(const char *buffer, size_t length, off_t offset)
{
    if (direct_sink && length % 4096 != 0 && fcntl(sink, F_SETFL, 0) != 0)
        die("leaving O_DIRECT for the last block");
    for (size_t done = 0; done < length;) {
        ssize_t put = offset < 0 ? write(sink, buffer + done, length - done) : pwrite(sink, buffer + done, length - done, offset + (off_t)done);
        if (put < 0 && errno != EINTR)
            die("writing the sink");
        done += put > 0 ? (size_t)put : 0;
    }
}

static void copy_in_turn(void)
{
    char *buffer = block_memory(block);
    for (uint64_t offset = 0; offset < size_limit;) {
        uint64_t left = size_limit - offset;
        lock_file(LOCK_EX);
        size_t got = read_block(buffer, left < block ? left : block, -1);
        source_sum = sample(source_sum, buffer, got, offset);
        write_block(buffer, got, -1);
        lock_file(LOCK_UN);
        if (got == 0)
            break;
        offset += got;
        after_block(got);
    }
    free(buffer);
}

/* ---- several threads, each every n-th block ---- */

static void *copy_part(void *number)
{
    char *buffer = block_memory(block);
    for (uint64_t offset = (uintptr_t)number * block; offset < source_size; offset += threads * block) {
        uint64_t left = source_size - offset;
        lock_file(LOCK_EX);
        size_t got = read_block(buffer, left < block ? left : block, (off_t)offset);
        atomic_fetch_add(&source_sum, sample(0, buffer, got, offset));
        write_block(buffer, got, (off_t)offset);
        lock_file(LOCK_UN);
        after_block(got);
    }
    free(buffer);
    return NULL;
}

static void run_threads(uint64_t count, void *(*work)(void *))
{
    pthread_t *started = calloc(count, sizeof *started);
    for (uintptr_t i = 0; i < count; i++)
        if (!started || (errno = pthread_create(&started[i], NULL, work, (void *)i)) != 0)
            die("starting a thread");
    for (uintptr_t i = 0; i < count; i++)
        pthread_join(started[i], NULL);
    free(started);
}

/* ---- readers that run ahead of one writer: two slots for each reader, filled in turn ---- */

struct slot {
    char *buffer;
    size_t length;
    sem_t full, empty;
};
static struct slot *slots;

static void *read_ahead(void *number)
{
    uint64_t slot_count = 2 * readers;
    for (uint64_t i = (uintptr_t)number; i * block < source_size; i += readers) {
        struct slot *slot = &slots[i % slot_count];
        while (sem_wait(&slot->empty) != 0)
            ;
        uint64_t left = source_size - i * block;
        slot->length = read_block(slot->buffer, left < block ? left : block, (off_t)(i * block));
        sem_post(&slot->full);
    }
    return NULL;
}

static void copy_with_readers(void)
{
    uint64_t slot_count = 2 * readers;
    slots = calloc(slot_count, sizeof *slots);
    pthread_t *started = calloc(readers, sizeof *started);
    if (!slots || !started)
        die("memory for the readers");
    for (uint64_t i = 0; i < slot_count; i++) {
        slots[i].buffer = block_memory(block);
        sem_init(&slots[i].full, 0, 0);
        sem_init(&slots[i].empty, 0, 1);
    }
    for (uintptr_t i = 0; i < readers; i++)
        if ((errno = pthread_create(&started[i], NULL, read_ahead, (void *)i)) != 0)
            die("starting a reader");
    for (uint64_t i = 0; i * block < source_size; i++) {
        struct slot *slot = &slots[i % slot_count];
        while (sem_wait(&slot->full) != 0)
            ;
        source_sum = sample(source_sum, slot->buffer, slot->length, i * block);
        write_block(slot->buffer, slot->length, -1);
        after_block(slot->length);
        sem_post(&slot->empty);
    }
    for (uintptr_t i = 0; i < readers; i++)
        pthread_join(started[i], NULL);
}

/* ---- the kernel's other ways ---- */

static void copy_mapped(bool both)
{
    if (source_size == 0)
        return;
    char *from = mmap(NULL, source_size, PROT_READ, MAP_SHARED, source, 0), *to = NULL;
    if (from == MAP_FAILED)
        die("mapping the source");
    if (both) {
        if (ftruncate(sink, (off_t)source_size) != 0)
            die("sizing the sink");
        to = mmap(NULL, source_size, PROT_READ | PROT_WRITE, MAP_SHARED, sink, 0);
        if (to == MAP_FAILED)
            die("mapping the sink");
    }
    for (uint64_t offset = 0; offset < source_size; offset += block) {
        size_t length = source_size - offset < block ? source_size - offset : block;
        if (both)
            memcpy(to + offset, from + offset, length);
        else
            write_block(from + offset, length, -1);
        source_sum = sample(source_sum, from + offset, length, offset);
        after_block(length);
    }
    munmap(from, source_size);
    if (both)
        munmap(to, source_size);
}

static ssize_t splice_block(size_t length)
{
    static int ends[2] = { -1, -1 };
    if (ends[0] < 0 && (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) < 0))
        die("a pipe for splice");
    ssize_t in = splice(source, NULL, ends[1], NULL, length, SPLICE_F_MOVE);
    for (ssize_t out = 0, put; out < in; out += put)
        if ((put = splice(ends[0], NULL, sink, NULL, (size_t)(in - out), SPLICE_F_MOVE)) <= 0)
            die("splicing into the sink");
    return in;
}

static void copy_in_kernel(void)
{
    for (uint64_t done = 0; done < source_size;) {
        size_t length = source_size - done < block ? source_size - done : block;
        ssize_t moved = strcmp(how, "sendfile") == 0 ? sendfile(sink, source, NULL, length)
                        : strcmp(how, "splice") == 0 ? splice_block(length)
                                                     : copy_file_range(source, NULL, sink, NULL, length, 0);
        if (moved <= 0)
            die("%s", how);
        done += (uint64_t)moved;
        after_block((uint64_t)moved);
    }
}

static uint64_t sum_of(int fd)
{
    char *buffer = block_memory(1 << 20);
    uint64_t sum = 0, offset = 0;
    for (ssize_t got; (got = pread(fd, buffer, 1 << 20, (off_t)offset)) != 0; offset += (uint64_t)got) {
        if (got < 0)
            die("reading again");
        sum = sample(sum, buffer, (size_t)got, offset);
    }
    free(buffer);
    return sum;
}

static void check(const char *source_path, const char *sink_path)
{
    struct stat found;
    if (stat(sink_path, &found) != 0)
        die("%s", sink_path);
    if (S_ISREG(found.st_mode) && (uint64_t)found.st_size != copied)
        corrupt("%s has %lld bytes, %llu were copied", sink_path, (long long)found.st_size, (unsigned long long)copied);
    if (!verify)
        return;
    int again = open(sink_path, O_RDONLY);
    uint64_t wanted = source_sum;
    if (wanted == 0)
        wanted = sum_of(open(source_path, O_RDONLY));
    if (again < 0 || sum_of(again) != wanted)
        corrupt("%s is not what was read from %s", sink_path, source_path);
}

int main(int argc, char **argv)
{
    if (parse_options(argc, argv, "SOURCE SINK [OPTION]...", rows) != 2 || block == 0 || threads == 0) {
        fprintf(stderr, "%s: expected SOURCE and SINK, and a block and threads above 0; --help lists the options\n", argv[0]);
        return 2;
    }
    const char *source_path = argv[1], *sink_path = argv[2];
    uint64_t begun_ns = now_ns();
    /* A pipe is opened blocking, so that its writer is there before the first look. */
    source = open(source_path, O_RDONLY | (direct_source ? O_DIRECT : 0));
    if (source < 0 || (poll_ns && fcntl(source, F_SETFL, O_NONBLOCK) != 0))
        die("%s", source_path);
    int access = strcmp(how, "mmap-both") == 0 ? O_RDWR : O_WRONLY;
    sink = open(sink_path, access | O_CREAT | O_TRUNC | (direct_sink ? O_DIRECT : 0), 0666);
    if (sink < 0)
        die("%s", sink_path);
    if (flock_path && (flock_fd = open(flock_path, O_RDWR | O_CREAT, 0666)) < 0)
        die("%s", flock_path);
    struct stat found;
    if (fstat(source, &found) != 0)
        die("%s", source_path);
    source_size = (uint64_t)found.st_size < size_limit ? (uint64_t)found.st_size : size_limit;
    pthread_t holder;
    if ((lock_hold_ns || lock_spin_ns) && (sem_init(&hold, 0, 0) || sem_init(&held, 0, 0) || pthread_create(&holder, NULL, hold_lock, NULL)))
        die("starting the lock's holder");

    if (strcmp(how, "read") == 0 && threads > 1)
        run_threads(threads, copy_part);
    else if (strcmp(how, "read") == 0 && readers > 0)
        copy_with_readers();
    else if (strcmp(how, "read") == 0)
        copy_in_turn();
    else if (strcmp(how, "mmap") == 0 || strcmp(how, "mmap-both") == 0)
        copy_mapped(strcmp(how, "mmap-both") == 0);
    else if (strcmp(how, "sendfile") == 0 || strcmp(how, "splice") == 0 || strcmp(how, "copy_file_range") == 0)
        copy_in_kernel();
    else {
        fprintf(stderr, "%s: --how %s: expected read, mmap, mmap-both, sendfile, splice or copy_file_range\n", argv[0], how);
        return 2;
    }
    if (sync_end)
        sync_sink();
    if (close(sink) != 0)
        die("closing %s", sink_path);
    print_result(copied, begun_ns, "");
    check(source_path, sink_path);
    return 0;
}
