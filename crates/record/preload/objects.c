/* Identifies descriptors: examined on first use, recorded once, forgotten when closed. */
#include "internal.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SIOCINQ
#define SIOCINQ 0x541B
#endif
#define TCP_INFO_RECORDS 4
/* Length of a struct sockaddr_storage. */
#define ADDRESS_RECORDS 2
/* Offset of `tcpi_bytes_received` and following fields, which older headers lack. */
#define AT_RECEIVED 128
#define AT_UNSENT 144
#define AT_SENT 200
#define AT_RETRANSMITTED 208

struct descriptor descriptors[DESCRIPTORS];
static _Atomic uint32_t last_object;
/* No descriptor above this was examined. */
static _Atomic int highest = -1;

/* Returns how a file was opened, as `context` of an object's record. */
static uint8_t way_of(int flags) {
    int way = flags & O_ACCMODE;
    return (uint8_t)((way == O_RDONLY ? 1 : way == O_WRONLY ? 2 : 3) | (flags & O_DIRECT ? OPENED_DIRECT : 0));
}

/* Object of the mapped large file's descriptor; a special value if there are, or were, several. */
static _Atomic uint32_t mapped_one;
#define SEVERAL UINT32_MAX

void forked_objects(void) {
    /* The child records objects anew under its own numbers; stream positions continue. */
    int top = atomic_load(&highest);
    for (int fd = 0; fd <= top; fd++) atomic_store_explicit(&descriptors[fd].object, 0, memory_order_relaxed);
    atomic_store(&last_object, 0);
    atomic_store(&mapped_one, 0);
}

void forget(int fd) {
    if ((unsigned)fd >= DESCRIPTORS) return;
    struct descriptor *d = &descriptors[fd];
    if (d->class == CLASS_UNKNOWN && d->way == 0) return;
    atomic_store_explicit(&d->object, 0, memory_order_relaxed);
    d->class = CLASS_UNKNOWN;
    d->way = d->sync = d->known = 0;
    atomic_store_explicit(&d->sent, 0, memory_order_relaxed);
    atomic_store_explicit(&d->received, 0, memory_order_relaxed);
    atomic_store_explicit(&d->polled_ns, 0, memory_order_relaxed);
}

void forget_range(unsigned first, unsigned last) {
    unsigned top = (unsigned)(atomic_load(&highest) + 1);
    for (unsigned fd = first; fd < top && fd <= last; fd++) forget((int)fd);
}

static void used(int fd) {
    int top = atomic_load_explicit(&highest, memory_order_relaxed);
    while (fd > top && !atomic_compare_exchange_weak(&highest, &top, fd)) {}
}

void opened(int fd, int flags) {
    if (fd < 0) return;
    forget(fd);
    if ((unsigned)fd >= DESCRIPTORS) return;
    used(fd);
    descriptors[fd].way = way_of(flags);
    descriptors[fd].sync = (flags & (O_SYNC | O_DSYNC)) != 0;
}

void connected(int fd, int accepted) {
    if (fd < 0) return;
    if (accepted || (unsigned)fd >= DESCRIPTORS || descriptors[fd].class == CLASS_UNKNOWN) forget(fd);
    if ((unsigned)fd >= DESCRIPTORS || descriptors[fd].way != 0) return;
    used(fd);
    atomic_store_explicit(&descriptors[fd].object, 0, memory_order_relaxed);
    descriptors[fd].class = CLASS_UNKNOWN;
    descriptors[fd].way = accepted ? 2 : 1;
    descriptors[fd].known = 1;
}

/* Copies `length` bytes into the records after the first. */
static uint32_t fill(struct record *records, const void *bytes, size_t length) {
    uint32_t many = (uint32_t)((length + sizeof(struct record) - 1) / sizeof(struct record));
    memset(&records[1], 0, many * sizeof(struct record));
    memcpy(&records[1], bytes, length);
    records[0].count = many;
    return many + 1;
}

static int get_option(int fd, int level, int name, void *value, socklen_t *length) {
    return (int)raw(SYS_getsockopt, fd, level, name, (long)value, (long)length, 0);
}

static uint64_t word_at(const unsigned char *bytes, size_t at) {
    uint64_t value;
    memcpy(&value, bytes + at, sizeof value);
    return value;
}

/* Finds the stream positions of a connection made before recording: TCP's counts, less the bytes of this call. */
static void find_positions(int fd, struct descriptor *d, int64_t moved_out, int64_t moved_in) {
    unsigned char info[256] = {0};
    socklen_t length = sizeof info;
    int unread = 0;
    if (get_option(fd, IPPROTO_TCP, TCP_INFO, info, &length) != 0 || length < AT_RETRANSMITTED + 8) return;
    raw(SYS_ioctl, fd, SIOCINQ, (long)&unread, 0, 0, 0);
    uint32_t unsent;
    memcpy(&unsent, info + AT_UNSENT, sizeof unsent);
    uint64_t written = word_at(info, AT_SENT) - word_at(info, AT_RETRANSMITTED) + unsent;
    uint64_t read = word_at(info, AT_RECEIVED) - (uint64_t)unread;
    atomic_store(&d->sent, written - (uint64_t)(moved_out > 0 ? moved_out : 0));
    atomic_store(&d->received, read - (uint64_t)(moved_in > 0 ? moved_in : 0));
    d->known = 1;
}

static int classify_socket(int fd, struct descriptor *d) {
    int domain = 0, type = 0;
    socklen_t length = sizeof domain;
    get_option(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
    length = sizeof type;
    get_option(fd, SOL_SOCKET, SO_TYPE, &type, &length);
    int is_internet = domain == AF_INET || domain == AF_INET6;
    d->class = !is_internet ? CLASS_SOCKET : type == SOCK_STREAM ? CLASS_TCP : CLASS_DATAGRAMS;
    return d->class == CLASS_TCP;
}

/* Writes the name of the link to what a descriptor refers to. */
void link_of(char *link, int fd) {
    char digits[12], *to = append(link, "/proc/self/fd/");
    int n = 0, number = fd;
    do digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (n > 0) *to++ = digits[--n];
    *to = 0;
}

static int is_timer(int fd) {
    char link[64], name[64] = {0};
    link_of(link, fd);
    return raw(SYS_readlinkat, AT_FDCWD, (long)link, (long)name, sizeof name - 1, 0, 0) > 0 && strcmp(name, "anon_inode:[timerfd]") == 0;
}

static void classify(int fd, struct descriptor *d) {
    struct stat status;
#if defined(SYS_fstat)
    long failed = raw(SYS_fstat, fd, (long)&status, 0, 0, 0, 0);
#else
    long failed = raw(SYS_newfstatat, fd, (long)"", (long)&status, AT_EMPTY_PATH, 0, 0);
#endif
    d->class = CLASS_ANY;
    if (failed != 0) {
        d->class = CLASS_UNKNOWN;
        return;
    }
    switch (status.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFBLK:
    case S_IFDIR: d->class = CLASS_FILE; break;
    case S_IFIFO: d->class = CLASS_PIPE; break;
    case S_IFSOCK: classify_socket(fd, d); break;
    case S_IFCHR: {
        char terminal[64]; /* struct termios */
        d->class = raw(SYS_ioctl, fd, 0x5401 /* TCGETS */, (long)terminal, 0, 0, 0) == 0 ? CLASS_TERMINAL : CLASS_FILE;
        break;
    }
    /* A timer, an eventfd, an epoll set. */
    case 0: if (is_timer(fd)) d->class = CLASS_TIMER; break;
    default: break;
    }
    used(fd);
}

static __thread const struct sockaddr *sent_to __attribute__((tls_model("initial-exec")));
static __thread socklen_t sent_to_bytes __attribute__((tls_model("initial-exec")));

void addressed(const struct sockaddr *to, socklen_t length) {
    sent_to = length <= ADDRESS_RECORDS * sizeof(struct record) ? to : NULL;
    sent_to_bytes = length;
}

/* Names a file by its path, a pipe or socket also by its inode, a datagram socket also by where it sends to. */
static void name_link(int fd, struct descriptor *d) {
    struct record records[1 + NAME_BYTES / sizeof(struct record) + ADDRESS_RECORDS];
    char link[64], path[NAME_BYTES];
    link_of(link, fd);
    long length = raw(SYS_readlinkat, AT_FDCWD, (long)link, (long)path, sizeof path, 0, 0);
    if (length <= 0) return;
    if (d->way == 0) {
        long flags = raw(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0);
        if (flags >= 0) {
            d->way = way_of((int)flags);
            d->sync = (flags & (O_SYNC | O_DSYNC)) != 0;
        }
    }
    uint32_t object = atomic_fetch_add(&last_object, 1) + 1;
    struct stat status;
    int failed = d->class == CLASS_FILE || raw(SYS_newfstatat, fd, (long)"", (long)&status, AT_EMPTY_PATH, 0, 0) != 0;
    struct record first = {.type = RECORD_OBJECT, .kind = d->class, .context = d->way, .object = object, .size = length};
    first.offset = failed ? ABSENT : status.st_ino;
    records[0] = first;
    uint32_t many = fill(records, path, (size_t)length);
    if (d->class == CLASS_DATAGRAMS && sent_to != NULL) {
        memset(&records[many], 0, ADDRESS_RECORDS * sizeof(struct record));
        memcpy(&records[many], sent_to, sent_to_bytes);
        records[0].count += ADDRESS_RECORDS;
        many += ADDRESS_RECORDS;
    }
    if (push(records, many)) atomic_store_explicit(&d->object, object, memory_order_release);
}

static void name_connection(int fd, struct descriptor *d, int64_t moved_out, int64_t moved_in) {
    struct record records[6];
    struct {
        struct sockaddr_storage ends[2];
    } addresses;
    memset(&addresses, 0, sizeof addresses);
    socklen_t length = sizeof addresses.ends[0];
    if (raw(SYS_getsockname, fd, (long)&addresses.ends[0], (long)&length, 0, 0, 0) != 0) return;
    length = sizeof addresses.ends[1];
    if (raw(SYS_getpeername, fd, (long)&addresses.ends[1], (long)&length, 0, 0, 0) != 0) {
        /* Not connected (yet, or any longer): a later call looks again. */
        return;
    }
    if (!d->known) find_positions(fd, d, moved_out, moved_in);
    uint32_t object = atomic_fetch_add(&last_object, 1) + 1;
    struct record first = {.type = RECORD_OBJECT, .kind = CLASS_TCP, .context = d->way, .object = object};
    records[0] = first;
    uint32_t many = fill(records, &addresses, sizeof addresses);
    if (push(records, many)) atomic_store_explicit(&d->object, object, memory_order_release);
}

/* Returns the descriptor state of `fd`, for a call that just moved this many bytes out or in; NULL if out of bounds.
 * The thread has a slot or is about to get one: names go into its ring. */
struct descriptor *find_descriptor(int fd, int64_t moved_out, int64_t moved_in) {
    if ((unsigned)fd >= DESCRIPTORS || !enabled) return NULL;
    struct descriptor *d = &descriptors[fd];
    if (likely(atomic_load_explicit(&d->object, memory_order_acquire) != 0)) return d;
    if (d->class == CLASS_UNKNOWN) classify(fd, d);
    int has_name = d->class != CLASS_UNKNOWN && d->class != CLASS_ANY && d->class != CLASS_TIMER;
    if (!has_name || me.slot == NULL || me.generation != *generation || me.busy) return d;
    me.busy = 1;
    if (d->class == CLASS_TCP) name_connection(fd, d, moved_out, moved_in);
    else name_link(fd, d);
    me.busy = 0;
    return d;
}

void mapped(int fd) {
    struct descriptor *d = find_descriptor(fd, 0, 0);
    uint32_t object = d == NULL ? 0 : atomic_load_explicit(&d->object, memory_order_relaxed), none = 0;
    if (object == 0 || d->class != CLASS_FILE) object = SEVERAL;
    if (!atomic_compare_exchange_strong(&mapped_one, &none, object) && none != object) atomic_store(&mapped_one, SEVERAL);
}

uint32_t mapped_object(void) {
    uint32_t object = atomic_load_explicit(&mapped_one, memory_order_relaxed);
    return object == SEVERAL ? 0 : object;
}

void listens(int fd) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (!enabled || me.slot == NULL || me.generation != *generation || me.busy) return;
    if (raw(SYS_getsockname, fd, (long)&address, (long)&length, 0, 0, 0) != 0) return;
    struct record record = {.type = RECORD_LISTEN};
    if (address.ss_family == AF_INET) record.size = ntohs(((struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET6) record.size = ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    me.busy = 1;
    if (record.size != 0) push(&record, 1);
    me.busy = 0;
}

/* Records a connection's TCP state, rate-limited. */
void poll_tcp(int fd, struct descriptor *d) {
    if (!enabled || me.slot == NULL || me.generation != *generation || me.busy) return;
    uint64_t now = now_ns(), before = atomic_load_explicit(&d->polled_ns, memory_order_relaxed);
    uint32_t object = atomic_load_explicit(&d->object, memory_order_relaxed);
    if (object == 0 || now - before < TCP_NS || !atomic_compare_exchange_strong(&d->polled_ns, &before, now)) return;
    struct record records[1 + TCP_INFO_RECORDS];
    memset(records, 0, sizeof records);
    socklen_t length = TCP_INFO_RECORDS * sizeof(struct record), size_length = sizeof(int);
    int buffer = 0, unread = 0;
    if (get_option(fd, IPPROTO_TCP, TCP_INFO, &records[1], &length) != 0) return;
    get_option(fd, SOL_SOCKET, SO_SNDBUF, &buffer, &size_length);
    raw(SYS_ioctl, fd, SIOCINQ, (long)&unread, 0, 0, 0);
    records[0].type = RECORD_TCP;
    records[0].count = TCP_INFO_RECORDS;
    records[0].object = object;
    records[0].start_ns = now;
    records[0].duration_ns = length;
    records[0].offset = (uint64_t)buffer;
    records[0].size = unread;
    me.busy = 1;
    push(records, 1 + TCP_INFO_RECORDS);
    me.busy = 0;
}
