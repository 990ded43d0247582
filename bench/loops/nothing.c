/* nothing [-s BYTES] MOUNTPOINT: a FUSE server that does nothing, as a ceiling for mounts: what is written is received and
   dropped, what is read is zeros. Descriptors that are only for writing are direct, and requests and st_blksize are 1 MiB, as with the
   store's mount. It ends when it is unmounted. There is one directory; `-s`: with a file `source` of so many bytes in it.

   The protocol is that of <linux/fuse.h>. Two threads, each with a descriptor of its own.
   Long because each kind of request has its few lines in one place. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { THREADS = 2, FILES = 1 << 20, BUCKETS = 1 << 18, REQUEST = 1 << 20, PAGES = REQUEST / 4096, ROOM = REQUEST + 4096 };

struct file {
    char *name;
    uint64_t size;
    uint32_t next;
};

static struct file *files;
static uint32_t *buckets, known = FUSE_ROOT_ID + 1;
static pthread_mutex_t names = PTHREAD_MUTEX_INITIALIZER;
static char *zeros;

static uint32_t *place(const char *name) {
    uint64_t hash = 14695981039346656037u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 1099511628211u;
    uint32_t *at = &buckets[hash % BUCKETS];
    while (*at && strcmp(files[*at].name, name))
        at = &files[*at].next;
    return at;
}

static uint32_t made(const char *name, uint64_t size) {
    uint32_t *at = place(name);
    if (!*at && known < FILES) {
        files[known] = (struct file){strdup(name), size, 0};
        *at = known++;
    }
    return *at;
}

static void attributes(uint64_t node, struct fuse_attr *to) {
    *to = (struct fuse_attr){.ino = node, .blksize = REQUEST, .nlink = 1, .mode = S_IFREG | 0644};
    if (node == FUSE_ROOT_ID)
        to->mode = S_IFDIR | 0755, to->nlink = 2;
    else
        to->size = files[node].size, to->blocks = to->size / 512;
}

static void entry(uint64_t node, struct fuse_entry_out *to) {
    *to = (struct fuse_entry_out){.nodeid = node, .generation = 1, .entry_valid = 1, .attr_valid = 1};
    attributes(node, &to->attr);
}

static void reply(int device, uint64_t unique, int error, const void *body, size_t bytes) {
    struct fuse_out_header head = {sizeof head + bytes, error, unique};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)body, bytes}};
    if (writev(device, parts, 2) < 0 && errno != ENOENT)
        perror("nothing: an answer");
}

static struct fuse_open_out opened(uint32_t flags) {
    return (struct fuse_open_out){.open_flags = (flags & O_ACCMODE) == O_WRONLY ? FOPEN_DIRECT_IO : 0};
}

static void serve(int device, struct fuse_in_header *head) {
    void *in = head + 1;
    uint64_t node = head->nodeid;
    switch (head->opcode) {
    case FUSE_INIT: {
        struct fuse_init_in *asked = in;
        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 8 << 20, .max_background = 128,
                                    .congestion_threshold = 96, .max_write = REQUEST, .time_gran = 1, .max_pages = PAGES};
        out.flags = asked->flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | FUSE_ATOMIC_O_TRUNC);
        return reply(device, head->unique, 0, &out, sizeof out);
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out out;
        pthread_mutex_lock(&names);
        uint32_t found = *place(in);
        pthread_mutex_unlock(&names);
        if (!found)
            return reply(device, head->unique, -ENOENT, 0, 0);
        entry(found, &out);
        return reply(device, head->unique, 0, &out, sizeof out);
    }
    case FUSE_CREATE: {
        struct fuse_create_in *asked = in;
        struct { struct fuse_entry_out entry; struct fuse_open_out open; } out = {.open = opened(asked->flags)};
        pthread_mutex_lock(&names);
        uint32_t file = made((char *)(asked + 1), 0);
        pthread_mutex_unlock(&names);
        if (!file)
            return reply(device, head->unique, -ENOSPC, 0, 0);
        entry(file, &out.entry);
        return reply(device, head->unique, 0, &out, sizeof out);
    }
    case FUSE_GETATTR:
    case FUSE_SETATTR: {
        struct fuse_setattr_in *asked = in;
        if (head->opcode == FUSE_SETATTR && asked->valid & FATTR_SIZE)
            files[node].size = asked->size;
        struct fuse_attr_out out = {.attr_valid = 1};
        attributes(node, &out.attr);
        return reply(device, head->unique, 0, &out, sizeof out);
    }
    case FUSE_OPEN: {
        struct fuse_open_in *asked = in;
        if (asked->flags & O_TRUNC)
            files[node].size = 0;
        struct fuse_open_out out = opened(asked->flags);
        return reply(device, head->unique, 0, &out, sizeof out);
    }
    case FUSE_WRITE: {
        struct fuse_write_in *asked = in;
        struct fuse_write_out out = {.size = asked->size};
        if (files[node].size < asked->offset + asked->size)
            files[node].size = asked->offset + asked->size;
        return reply(device, head->unique, 0, &out, sizeof out);
    }
    case FUSE_READ: {
        struct fuse_read_in *asked = in;
        uint64_t left = files[node].size > asked->offset ? files[node].size - asked->offset : 0;
        return reply(device, head->unique, 0, zeros, left < asked->size ? left : asked->size);
    }
    case FUSE_UNLINK: {
        pthread_mutex_lock(&names);
        uint32_t *at = place(in);
        uint32_t found = *at;
        *at = files[found].next;
        pthread_mutex_unlock(&names);
        return reply(device, head->unique, found ? 0 : -ENOENT, 0, 0);
    }
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.blocks = 1 << 28, .bfree = 1 << 28, .bavail = 1 << 28, .bsize = 4096, .namelen = 255, .frsize = 4096}};
        return reply(device, head->unique, 0, &out, sizeof out);
    }
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        return;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_FSYNC:
    case FUSE_ACCESS:
        return reply(device, head->unique, 0, 0, 0);
    default:
        return reply(device, head->unique, -ENOSYS, 0, 0);
    }
}

static void *serves(void *device) {
    int from = (int)(intptr_t)device;
    char *memory = malloc(ROOM);
    for (;;) {
        ssize_t bytes = read(from, memory, ROOM);
        if (bytes < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
            continue;
        if (bytes <= 0)
            return 0;
        serve(from, (struct fuse_in_header *)memory);
    }
}

static int failed(const char *what) {
    fprintf(stderr, "nothing: %s: %s\n", what, strerror(errno));
    return 1;
}

int main(int count, char **words) {
    uint64_t size = 0;
    int letter;
    while ((letter = getopt(count, words, "s:")) != -1) {
        if (letter != 's')
            return 2;
        size = strtoull(optarg, 0, 10);
    }
    if (optind + 1 != count) {
        fprintf(stderr, "usage: nothing [-s BYTES] MOUNTPOINT\n");
        return 2;
    }
    files = calloc(FILES, sizeof *files), buckets = calloc(BUCKETS, sizeof *buckets), zeros = calloc(1, 8 << 20);
    if (size)
        made("source", size);
    int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0)
        return failed("/dev/fuse");
    char options[100];
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", device);
    if (mount("nothing", words[optind], "fuse.nothing", MS_NOSUID | MS_NODEV, options))
        return failed(words[optind]);
    pthread_t threads[THREADS];
    for (int number = 0; number < THREADS; number++) {
        int own = number ? open("/dev/fuse", O_RDWR | O_CLOEXEC) : device;
        uint32_t original = device;
        if (number && ioctl(own, FUSE_DEV_IOC_CLONE, &original))
            return failed("another descriptor");
        pthread_create(&threads[number], 0, serves, (void *)(intptr_t)own);
    }
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], 0);
    return 0;
}
