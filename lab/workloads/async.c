/* async SOURCE [SINK]: reads a file with many requests in flight, through io_uring or libaio, and writes it elsewhere the same way.
 *
 * It shows I/O that no read or write system call stands for: the thread waits in io_uring_enter or io_getevents, or never waits at all
 * (--spin-wait), and requests finish in any order. With --depth 1 nothing overlaps, which is the fault; a larger one mends it. libaio is
 * asynchronous only with --direct; io_uring may hand buffered reads to kernel workers of its own. Both are used by bare system calls. */
#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t block = 128 << 10, depth = 8;
static bool direct, direct_sink, sqpoll, spin_wait, sync_end, verify;
static const char *engine = "io_uring";

static const struct option_row rows[] = {
    { "--engine", TEXT, &engine, "io_uring or libaio (io_uring)" },
    { "--block", SIZE, &block, "bytes of a request (128Ki)" },
    { "--depth", COUNT, &depth, "requests in flight (8)" },
    { "--direct", FLAG, &direct, "read with O_DIRECT" },
    { "--direct-sink", FLAG, &direct_sink, "write with O_DIRECT (sizes that are multiples of 4096)" },
    { "--sqpoll", FLAG, &sqpoll, "io_uring: a kernel thread takes the requests, without system calls" },
    { "--spin-wait", FLAG, &spin_wait, "look for completions without ever blocking" },
    { "--sync", FLAG, &sync_end, "fdatasync the sink at the end" },
    { "--verify", FLAG, &verify, "read the sink again and compare" },
    { NULL, 0, NULL, NULL },
};

/* A request: one block, first read, then written. */
struct slot {
    char *buffer;
    uint64_t offset;
    size_t length;
    bool writing;
};
static struct slot *slots;

/* What an engine does: put one request in the line, hand the line to the kernel, and give the next completion (false: there is none and
 * `wait` is false). */
struct engine {
    const char *name;
    void (*set_up)(void);
    void (*prepare)(uint64_t slot, int fd);
    void (*submit)(void);
    bool (*complete)(bool wait, uint64_t *slot, int64_t *result);
};

/* ---- io_uring ---- */

static struct {
    int fd;
    unsigned *sq_tail, *sq_mask, *sq_flags, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *requests;
    struct io_uring_cqe *completions;
    unsigned unsubmitted;
} ring;

static void *map_ring(size_t length, uint64_t what)
{
    void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, (off_t)what);
    if (at == MAP_FAILED)
        die("mapping io_uring's rings");
    return at;
}

static void uring_set_up(void)
{
    struct io_uring_params parameters;
    memset(&parameters, 0, sizeof parameters);
    if (sqpoll)
        parameters.flags = IORING_SETUP_SQPOLL;
    ring.fd = (int)syscall(SYS_io_uring_setup, (unsigned)depth, &parameters);
    if (ring.fd < 0)
        die("io_uring");
    if (!(parameters.features & IORING_FEAT_SINGLE_MMAP))
        corrupt("this kernel's io_uring is too old (5.4 is enough)");
    size_t sq_bytes = parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned);
    size_t cq_bytes = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
    char *rings = map_ring(sq_bytes > cq_bytes ? sq_bytes : cq_bytes, IORING_OFF_SQ_RING);
    ring.requests = map_ring(parameters.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    ring.sq_tail = (unsigned *)(rings + parameters.sq_off.tail);
    ring.sq_mask = (unsigned *)(rings + parameters.sq_off.ring_mask);
    ring.sq_flags = (unsigned *)(rings + parameters.sq_off.flags);
    ring.cq_head = (unsigned *)(rings + parameters.cq_off.head);
    ring.cq_tail = (unsigned *)(rings + parameters.cq_off.tail);
    ring.cq_mask = (unsigned *)(rings + parameters.cq_off.ring_mask);
    ring.completions = (struct io_uring_cqe *)(rings + parameters.cq_off.cqes);
    unsigned *array = (unsigned *)(rings + parameters.sq_off.array);
    for (unsigned i = 0; i < parameters.sq_entries; i++)
        array[i] = i;
}

static void uring_prepare(uint64_t slot, int fd)
{
    unsigned tail = *ring.sq_tail;
    struct io_uring_sqe *request = &ring.requests[tail & *ring.sq_mask];
    memset(request, 0, sizeof *request);
    request->opcode = slots[slot].writing ? IORING_OP_WRITE : IORING_OP_READ;
    request->fd = fd;
    request->addr = (uint64_t)(uintptr_t)slots[slot].buffer;
    request->len = (unsigned)slots[slot].length;
    request->off = slots[slot].offset;
    request->user_data = slot;
    __atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
    ring.unsubmitted++;
}

static void uring_enter(unsigned submit, unsigned complete, unsigned flags)
{
    while (syscall(SYS_io_uring_enter, ring.fd, submit, complete, flags, NULL, 0) < 0)
        if (errno != EINTR && errno != EAGAIN)
            die("io_uring_enter");
}

static void uring_submit(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!sqpoll && ring.unsubmitted)
        uring_enter(ring.unsubmitted, 0, 0);
    else if (sqpoll && (__atomic_load_n(ring.sq_flags, __ATOMIC_ACQUIRE) & IORING_SQ_NEED_WAKEUP))
        uring_enter(ring.unsubmitted, 0, IORING_ENTER_SQ_WAKEUP);
    ring.unsubmitted = 0;
}

static bool uring_complete(bool wait, uint64_t *slot, int64_t *result)
{
    unsigned head = *ring.cq_head;
    while (head == __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE)) {
        if (!wait)
            return false;
        if (!spin_wait)
            uring_enter(0, 1, IORING_ENTER_GETEVENTS);
    }
    struct io_uring_cqe *completion = &ring.completions[head & *ring.cq_mask];
    *slot = completion->user_data;
    *result = completion->res;
    __atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
    return true;
}

/* ---- libaio ---- */

static aio_context_t context;
static struct iocb *blocks, **line;
static long in_line;

static void aio_set_up(void)
{
    blocks = calloc(depth, sizeof *blocks);
    line = calloc(depth, sizeof *line);
    if (!blocks || !line || syscall(SYS_io_setup, (unsigned)depth, &context) != 0)
        die("libaio's context");
}

static void aio_prepare(uint64_t slot, int fd)
{
    struct iocb *request = &blocks[slot];
    memset(request, 0, sizeof *request);
    request->aio_lio_opcode = slots[slot].writing ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
    request->aio_fildes = (unsigned)fd;
    request->aio_buf = (uint64_t)(uintptr_t)slots[slot].buffer;
    request->aio_nbytes = slots[slot].length;
    request->aio_offset = (int64_t)slots[slot].offset;
    request->aio_data = slot;
    line[in_line++] = request;
}

static void aio_submit(void)
{
    for (long done = 0; done < in_line;) {
        long taken = syscall(SYS_io_submit, context, in_line - done, line + done);
        if (taken < 0 && errno != EAGAIN && errno != EINTR)
            die("io_submit");
        done += taken > 0 ? taken : 0;
    }
    in_line = 0;
}

static bool aio_complete(bool wait, uint64_t *slot, int64_t *result)
{
    struct io_event event;
    for (;;) {
        struct timespec at_once = { 0, 0 };
        bool block_here = wait && !spin_wait;
        long got = syscall(SYS_io_getevents, context, block_here ? 1L : 0L, 1L, &event, block_here ? NULL : &at_once);
        if (got < 0 && errno != EINTR)
            die("io_getevents");
        if (got == 1)
            break;
        if (!wait)
            return false;
    }
    *slot = event.data;
    *result = event.res;
    return true;
}

static const struct engine engines[] = {
    { "io_uring", uring_set_up, uring_prepare, uring_submit, uring_complete },
    { "libaio", aio_set_up, aio_prepare, aio_submit, aio_complete },
};

/* ---- the copy ---- */

static uint64_t sum, done_bytes;

/* Takes one completion: a read becomes a write where there is a sink. True: the slot is free again. */
static bool take(const struct engine *with, uint64_t index, int64_t result, uint64_t size, int sink)
{
    struct slot *slot = &slots[index];
    uint64_t expected = size - slot->offset < slot->length ? size - slot->offset : slot->length;
    if (result < 0 || (uint64_t)result != expected) {
        errno = result < 0 ? (int)-result : EIO;
        die("%s %zu bytes at %llu", slot->writing ? "writing" : "reading", slot->length, (unsigned long long)slot->offset);
    }
    if (!slot->writing) {
        sum = sample(sum, slot->buffer, expected, slot->offset);
        if (sink >= 0) {
            slot->writing = true;
            slot->length = expected;
            with->prepare(index, sink);
            return false;
        }
    }
    done_bytes += expected;
    return true;
}

static void copy(const struct engine *with, int source, int sink, uint64_t size)
{
    uint64_t next = 0, in_flight = 0, *idle = calloc(depth, sizeof *idle), idle_count = 0;
    slots = calloc(depth, sizeof *slots);
    if (!slots || !idle)
        die("memory for %llu requests", (unsigned long long)depth);
    for (uint64_t i = 0; i < depth; i++) {
        slots[i].buffer = block_memory(block);
        idle[idle_count++] = i;
    }
    with->set_up();
    while (next < size || in_flight > 0) {
        while (next < size && idle_count > 0) {
            uint64_t index = idle[--idle_count];
            slots[index].offset = next;
            /* A direct read asks for whole pages; the file's end makes it shorter. */
            slots[index].length = size - next < block ? (direct ? (size - next + 4095) & ~UINT64_C(4095) : size - next) : block;
            slots[index].writing = false;
            with->prepare(index, source);
            next += block;
            in_flight++;
        }
        with->submit();
        uint64_t index;
        int64_t result;
        for (bool wait = true; in_flight > 0 && with->complete(wait, &index, &result); wait = false)
            if (take(with, index, result, size, sink)) {
                idle[idle_count++] = index;
                in_flight--;
            }
    }
    free(idle);
}

static void check_sink(const char *path)
{
    int fd = open(path, O_RDONLY);
    char *buffer = block_memory(1 << 20);
    uint64_t again = 0, offset = 0;
    for (ssize_t got; (got = pread(fd, buffer, 1 << 20, (off_t)offset)) != 0; offset += (uint64_t)got) {
        if (got < 0)
            die("%s", path);
        again = sample(again, buffer, (size_t)got, offset);
    }
    if (again != sum || offset != done_bytes)
        corrupt("%s is not what was read", path);
    free(buffer);
    close(fd);
}

int main(int argc, char **argv)
{
    int others = parse_options(argc, argv, "SOURCE [SINK] [OPTION]...", rows);
    const struct engine *with = strcmp(engine, engines[0].name) == 0 ? &engines[0] : strcmp(engine, engines[1].name) == 0 ? &engines[1] : NULL;
    if (others < 1 || others > 2 || !with || block == 0 || depth == 0 || depth > 4096 || (direct && block % 4096)) {
        fprintf(stderr, "%s: expected SOURCE [SINK], --engine io_uring or libaio, --depth 1 to 4096, a block above 0; --help lists the options\n",
                argv[0]);
        return 2;
    }
    uint64_t begun_ns = now_ns();
    int source = open(argv[1], O_RDONLY | (direct ? O_DIRECT : 0));
    int sink = others == 2 ? open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | (direct_sink ? O_DIRECT : 0), 0666) : -1;
    struct stat found;
    if (source < 0 || fstat(source, &found) != 0)
        die("%s", argv[1]);
    if (others == 2 && sink < 0)
        die("%s", argv[2]);
    copy(with, source, sink, (uint64_t)found.st_size);
    if (sync_end && sink >= 0) {
        uint64_t from_ns = now_ns();
        if (fdatasync(sink) != 0)
            die("fdatasync of %s", argv[2]);
        inject(SYNCED, now_ns() - from_ns);
    }
    print_result(done_bytes, begun_ns, "");
    if (verify && sink >= 0)
        check_sink(argv[2]);
    return 0;
}
