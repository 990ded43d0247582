/* slowdisk: a disk whose speed is known.
 *
 *     slowdisk FILE SIZE_BYTES CONTROL
 *
 * FILE (an existing, empty one) becomes an image of SIZE_BYTES that lies in memory, for a loop device to be made over it with direct
 * I/O. What a request takes is what CONTROL says, four numbers of 64 bits in memory order that may be changed at any time:
 *
 *     read_bytes_per_s, write_bytes_per_s, latency_ns, spare           0: as fast as memory
 *
 * The disk serves one request at a time. A request that finds it busy begins when the one before it is done, and not when we get to
 * see it: our own copying is within the time, not on top of it. (A control group's throttle gives the first tenth of a second after
 * every pause away; a disk does not, so faults of known size need this.)
 *
 * It speaks the kernel's FUSE protocol itself: a file system that is one regular file. Prints `ready` when the file is there; ends,
 * and takes the file system down, with SIGTERM or SIGINT. Needs root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MAX_TRANSFER (1u << 20)
#define BLOCK_BYTES 4096u

struct control {
    volatile uint64_t read_bytes_per_s, write_bytes_per_s, latency_ns, spare;
};

static char *image;
static uint64_t image_bytes;
static const struct control *control;
static int device;
static const char *mount_point;
static uint64_t free_at_ns;

static void fail(const char *what)
{
    fprintf(stderr, "slowdisk: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void leave(int number)
{
    (void)number;
    umount2(mount_point, MNT_DETACH);
    _exit(0);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Be busy with a request for as long as the disk would be. `queued`: it was there when the last one was done. */
static void serve_time(uint64_t bytes, uint64_t bytes_per_s, int queued)
{
    uint64_t now = now_ns();
    uint64_t begin = queued && free_at_ns && free_at_ns < now ? free_at_ns : now;
    uint64_t takes = control->latency_ns;
    if (bytes_per_s)
        takes += (uint64_t)((double)bytes * 1e9 / (double)bytes_per_s);
    free_at_ns = begin + takes;
    struct timespec until = {.tv_sec = (time_t)(free_at_ns / 1000000000u), .tv_nsec = (long)(free_at_ns % 1000000000u)};
    if (free_at_ns > now)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
        }
}

static void reply(uint64_t unique, int error, const void *body, size_t bytes)
{
    struct fuse_out_header header = {.len = (uint32_t)(sizeof header + bytes), .error = -error, .unique = unique};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)body, bytes}};
    /* ENOENT: whoever asked was interrupted and does not wait any more. */
    if (writev(device, parts, bytes ? 2 : 1) < 0 && errno != ENOENT)
        fail("reply");
}

static struct fuse_attr attributes(void)
{
    return (struct fuse_attr){
        .ino = FUSE_ROOT_ID, .size = image_bytes, .blocks = image_bytes / 512, .mode = S_IFREG | 0600, .nlink = 1, .blksize = BLOCK_BYTES};
}

static void initialise(uint64_t unique, const struct fuse_init_in *asked)
{
    struct fuse_init_out answer = {
        .major = FUSE_KERNEL_VERSION,
        .minor = FUSE_KERNEL_MINOR_VERSION,
        .max_readahead = 0,
        .flags = asked->flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES),
        .max_background = 64,
        .congestion_threshold = 64,
        .max_write = MAX_TRANSFER,
        .max_pages = MAX_TRANSFER / BLOCK_BYTES,
    };
    reply(unique, 0, &answer, sizeof answer);
}

static void read_image(uint64_t unique, const struct fuse_read_in *asked, int queued)
{
    uint64_t bytes = asked->offset >= image_bytes ? 0 : image_bytes - asked->offset;
    if (bytes > asked->size)
        bytes = asked->size;
    serve_time(bytes, control->read_bytes_per_s, queued);
    reply(unique, 0, image + asked->offset, bytes);
}

static void write_image(uint64_t unique, const struct fuse_write_in *asked, const void *data, int queued)
{
    if (asked->offset > image_bytes || asked->size > image_bytes - asked->offset) {
        reply(unique, ENOSPC, NULL, 0);
        return;
    }
    memcpy(image + asked->offset, data, asked->size);
    serve_time(asked->size, control->write_bytes_per_s, queued);
    struct fuse_write_out answer = {.size = asked->size};
    reply(unique, 0, &answer, sizeof answer);
}

static void serve(const struct fuse_in_header *request, int queued)
{
    const void *body = request + 1;
    struct fuse_attr_out attribute_answer = {.attr_valid = 3600, .attr = attributes()};
    struct fuse_open_out open_answer = {0};
    switch (request->opcode) {
    case FUSE_INIT: initialise(request->unique, body); break;
    case FUSE_GETATTR:
    case FUSE_SETATTR: reply(request->unique, 0, &attribute_answer, sizeof attribute_answer); break;
    case FUSE_OPEN: reply(request->unique, 0, &open_answer, sizeof open_answer); break;
    case FUSE_READ: read_image(request->unique, body, queued); break;
    case FUSE_WRITE: write_image(request->unique, body, (const char *)body + sizeof(struct fuse_write_in), queued); break;
    case FUSE_FSYNC: serve_time(0, 0, queued); reply(request->unique, 0, NULL, 0); break;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_ACCESS: reply(request->unique, 0, NULL, 0); break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: break;
    default: reply(request->unique, ENOSYS, NULL, 0);
    }
}

static void map_image(const char *size)
{
    image_bytes = strtoull(size, NULL, 10) / BLOCK_BYTES * BLOCK_BYTES;
    /* Populated: memory that is touched for the first time is slow. */
    image = mmap(NULL, image_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (image == MAP_FAILED)
        fail("memory for the image");
}

static void map_control(const char *path)
{
    int descriptor = open(path, O_RDWR);
    control = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, descriptor, 0);
    if (descriptor < 0 || control == MAP_FAILED)
        fail(path);
}

static void mount_image(void)
{
    char options[128];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0)
        fail("/dev/fuse");
    snprintf(options, sizeof options, "fd=%d,rootmode=100600,user_id=0,group_id=0,max_read=%u", device, MAX_TRANSFER);
    if (mount("slowdisk", mount_point, "fuse.slowdisk", MS_NOSUID | MS_NODEV, options))
        fail(mount_point);
}

int main(int count, char **words)
{
    if (count != 4) {
        fprintf(stderr, "usage: slowdisk FILE SIZE_BYTES CONTROL\n");
        return 2;
    }
    mount_point = words[1];
    map_image(words[2]);
    map_control(words[3]);
    prctl(PR_SET_TIMERSLACK, 1000UL);
    /* A disk's own processor is not taken by others. Where this is not allowed, a busy machine makes the disk a little slower. */
    struct sched_param priority = {.sched_priority = 5};
    sched_setscheduler(0, SCHED_FIFO, &priority);
    size_t room = MAX_TRANSFER + BLOCK_BYTES * 2;
    char *request = aligned_alloc(BLOCK_BYTES, room);
    if (!request)
        fail("memory for requests");
    mount_image();
    struct sigaction action = {.sa_handler = leave};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd ready = {.fd = device, .events = POLLIN};
        int queued = poll(&ready, 1, 0) > 0;
        ssize_t got = read(device, request, room);
        if (got > 0)
            serve((const struct fuse_in_header *)request, queued);
        else if (errno == ENODEV)
            return 0;
        else if (errno != EINTR && errno != ENOENT && errno != EAGAIN)
            fail("request");
    }
}
