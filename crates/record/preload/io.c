/* Calls that move bytes, and calls on files. */
#include "internal.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define ALIAS(name, of) extern EXPORT __typeof__(name) name __attribute__((alias(#of)))

/* Returns the kind of a blocking transfer on a descriptor of this class. */
static uint32_t kind_of(const struct descriptor *d, int out) {
    switch (d == NULL ? CLASS_ANY : d->class) {
    case CLASS_FILE: return out ? (d->sync ? KIND_SYNC : KIND_WRITE) : KIND_READ;
    case CLASS_TCP: return out ? KIND_SEND : KIND_RECEIVE;
    case CLASS_DATAGRAMS: return KIND_WAIT_NETWORK;
    case CLASS_UNKNOWN: return KIND_WAIT_OTHER;
    default: return KIND_WAIT_LOCK;
    }
}

static uint32_t expected(int fd, int out) { return (unsigned)fd < DESCRIPTORS ? kind_of(&descriptors[fd], out) : KIND_WAIT_OTHER; }

static void end_transfer_slow(struct call *call, int fd, int out, int64_t size, uint64_t at) {
    int saved = errno;
    if (size < 0) size = -(int64_t)saved;
    struct descriptor *d = find_descriptor(fd, out ? size : 0, out ? 0 : size);
    uint32_t kind = kind_of(d, out), object = 0;
    if (d != NULL) {
        object = atomic_load_explicit(&d->object, memory_order_relaxed);
        if (d->class == CLASS_TCP) {
            _Atomic uint64_t *position = out ? &d->sent : &d->received;
            if (size >= 0) {
                at = atomic_fetch_add_explicit(position, (uint64_t)size, memory_order_relaxed);
            } else if (saved == EAGAIN && !out) {
                me.fruitless = object;
            }
            if (!d->known) at = ABSENT;
        }
    }
    if (size > 0 && !out) me.fruitless = 0;
    end_call(call, kind, object, size, at, 0, 0);
    if (d != NULL && d->class == CLASS_TCP && ticks() - call->start >= long_ticks) poll_tcp(fd, d);
    errno = saved;
}

static inline void end_transfer(struct call *call, int fd, int out, int64_t size, uint64_t at) {
    if (likely(call->on && enabled)) end_transfer_slow(call, fd, out, size, at);
}

/* Ends a call that read one file and wrote another. */
static void end_transfer_of_both(struct call *call, int out, int64_t size) {
    me.both = 1;
    end_transfer(call, out, 1, size, ABSENT);
    me.both = 0;
}

/* Adds bytes that a call also moved on another descriptor, without a duration of their own. */
static void beside(int fd, int out, int64_t size) {
    if (!enabled || size <= 0 || me.slot == NULL || me.generation != *generation) return;
    int saved = errno;
    struct descriptor *d = find_descriptor(fd, out ? size : 0, out ? 0 : size);
    uint32_t kind = kind_of(d, out);
    if (d != NULL && kind < KIND_WAIT_NETWORK && !me.busy) {
        uint64_t at = ABSENT;
        if (d->class == CLASS_TCP) at = atomic_fetch_add_explicit(out ? &d->sent : &d->received, (uint64_t)size, memory_order_relaxed);
        me.busy = 1;
        add_run(kind, atomic_load_explicit(&d->object, memory_order_relaxed), size, d->known ? at : ABSENT, 0);
        me.busy = 0;
    }
    errno = saved;
}

#define TRANSFER(fd, out, at, expression)                                                                            \
    struct call call;                                                                                                \
    begin(&call, expected(fd, out), fd);                                                                             \
    ssize_t result = (expression);                                                                                   \
    end_transfer(&call, fd, out, result, at);                                                                        \
    return result

EXPORT ssize_t read(int fd, void *to, size_t n) { TRANSFER(fd, 0, ABSENT, REAL(read)(fd, to, n)); }
EXPORT ssize_t pread(int fd, void *to, size_t n, off_t at) { TRANSFER(fd, 0, (uint64_t)at, REAL(pread)(fd, to, n, at)); }
EXPORT ssize_t readv(int fd, const struct iovec *v, int n) { TRANSFER(fd, 0, ABSENT, REAL(readv)(fd, v, n)); }
EXPORT ssize_t preadv(int fd, const struct iovec *v, int n, off_t at) { TRANSFER(fd, 0, (uint64_t)at, REAL(preadv)(fd, v, n, at)); }
EXPORT ssize_t preadv2(int fd, const struct iovec *v, int n, off_t at, int flags) {
    TRANSFER(fd, 0, at < 0 ? ABSENT : (uint64_t)at, REAL(preadv2)(fd, v, n, at, flags));
}
EXPORT ssize_t write(int fd, const void *from, size_t n) { TRANSFER(fd, 1, ABSENT, REAL(write)(fd, from, n)); }
EXPORT ssize_t pwrite(int fd, const void *from, size_t n, off_t at) { TRANSFER(fd, 1, (uint64_t)at, REAL(pwrite)(fd, from, n, at)); }
EXPORT ssize_t writev(int fd, const struct iovec *v, int n) { TRANSFER(fd, 1, ABSENT, REAL(writev)(fd, v, n)); }
EXPORT ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) { TRANSFER(fd, 1, (uint64_t)at, REAL(pwritev)(fd, v, n, at)); }
EXPORT ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags) {
    TRANSFER(fd, 1, at < 0 ? ABSENT : (uint64_t)at, REAL(pwritev2)(fd, v, n, at, flags));
}
ALIAS(pread64, pread);
ALIAS(preadv64, preadv);
ALIAS(preadv64v2, preadv2);
ALIAS(pwrite64, pwrite);
ALIAS(pwritev64, pwritev);
ALIAS(pwritev64v2, pwritev2);

EXPORT ssize_t recv(int fd, void *to, size_t n, int flags) { TRANSFER(fd, 0, ABSENT, REAL(recv)(fd, to, n, flags)); }
EXPORT ssize_t recvfrom(int fd, void *restrict to, size_t n, int flags, struct sockaddr *restrict from, socklen_t *restrict length) {
    TRANSFER(fd, 0, ABSENT, REAL(recvfrom)(fd, to, n, flags, from, length));
}
EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags) { TRANSFER(fd, 0, ABSENT, REAL(recvmsg)(fd, message, flags)); }
EXPORT ssize_t send(int fd, const void *from, size_t n, int flags) { TRANSFER(fd, 1, ABSENT, REAL(send)(fd, from, n, flags)); }
/* A datagram socket that is not connected is named by where it sends to first. (The kernel has read the address.) */
#define SENT_TO(to, length, expression)                                                                              \
    struct call call;                                                                                                \
    begin(&call, expected(fd, 1), fd);                                                                               \
    ssize_t result = (expression);                                                                                   \
    if (result >= 0) addressed(to, length);                                                                          \
    end_transfer(&call, fd, 1, result, ABSENT);                                                                      \
    addressed(NULL, 0);                                                                                              \
    return result

EXPORT ssize_t sendto(int fd, const void *from, size_t n, int flags, const struct sockaddr *to, socklen_t length) {
    SENT_TO(to, length, REAL(sendto)(fd, from, n, flags, to, length));
}
EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    SENT_TO(message->msg_name, message->msg_namelen, REAL(sendmsg)(fd, message, flags));
}

/* The checked variants abort the program if the buffer is too small; the C library's function does that. */
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
EXPORT ssize_t __read_chk(int fd, void *to, size_t n, size_t room) { TRANSFER(fd, 0, ABSENT, REAL(__read_chk)(fd, to, n, room)); }
EXPORT ssize_t __pread_chk(int fd, void *to, size_t n, off_t at, size_t room) {
    TRANSFER(fd, 0, (uint64_t)at, REAL(__pread_chk)(fd, to, n, at, room));
}
ALIAS(__pread64_chk, __pread_chk);
EXPORT ssize_t __recv_chk(int fd, void *to, size_t n, size_t room, int flags) {
    TRANSFER(fd, 0, ABSENT, REAL(__recv_chk)(fd, to, n, room, flags));
}
EXPORT ssize_t __recvfrom_chk(int fd, void *to, size_t n, size_t room, int flags, struct sockaddr *from, socklen_t *length) {
    TRANSFER(fd, 0, ABSENT, REAL(__recvfrom_chk)(fd, to, n, room, flags, from, length));
}

static int is_tcp(int fd) { return (unsigned)fd < DESCRIPTORS && descriptors[fd].class == CLASS_TCP; }

EXPORT ssize_t sendfile(int out, int in, off_t *at, size_t n) {
    struct call call;
    begin(&call, expected(out, 1), out);
    ssize_t result = REAL(sendfile)(out, in, at, n);
    end_transfer_of_both(&call, out, result);
    beside(in, 0, result);
    return result;
}
ALIAS(sendfile64, sendfile);

EXPORT ssize_t splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t n, unsigned flags) {
    /* One of the two is a pipe: the call is charged to the other. */
    int to_pipe = is_tcp(in) || ((unsigned)out < DESCRIPTORS && descriptors[out].class == CLASS_PIPE);
    int fd = to_pipe ? in : out;
    struct call call;
    begin(&call, expected(fd, !to_pipe), fd);
    ssize_t result = REAL(splice)(in, in_at, out, out_at, n, flags);
    end_transfer(&call, fd, !to_pipe, result, ABSENT);
    return result;
}

EXPORT ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t n, unsigned flags) {
    struct call call;
    begin(&call, KIND_WRITE, out);
    ssize_t result = REAL(copy_file_range)(in, in_at, out, out_at, n, flags);
    end_transfer_of_both(&call, out, result);
    beside(in, 0, result);
    return result;
}

/* C library streams read and write internally: only the call on the stream can be seen. */
EXPORT size_t fread(void *restrict to, size_t size, size_t n, FILE *restrict file) {
    int fd = fileno(file);
    struct call call;
    begin(&call, expected(fd, 0), fd);
    size_t result = REAL(fread)(to, size, n, file);
    end_transfer(&call, fd, 0, (int64_t)(result * size), ABSENT);
    return result;
}
EXPORT size_t fwrite(const void *restrict from, size_t size, size_t n, FILE *restrict file) {
    int fd = fileno(file);
    struct call call;
    begin(&call, expected(fd, 1), fd);
    size_t result = REAL(fwrite)(from, size, n, file);
    end_transfer(&call, fd, 1, (int64_t)(result * size), ABSENT);
    return result;
}
ALIAS(fread_unlocked, fread);
ALIAS(fwrite_unlocked, fwrite);
EXPORT ssize_t getdelim(char **restrict line, size_t *restrict room, int end, FILE *restrict file) {
    TRANSFER(fileno(file), 0, ABSENT, REAL(getdelim)(line, room, end, file));
}
EXPORT ssize_t getline(char **restrict line, size_t *restrict room, FILE *restrict file) {
    TRANSFER(fileno(file), 0, ABSENT, REAL(getline)(line, room, file));
}
EXPORT int fflush(FILE *file) {
    int fd = file == NULL ? -1 : fileno(file);
    struct call call;
    begin(&call, expected(fd, 1), fd);
    int result = REAL(fflush)(file);
    /* Usually there is nothing to write, so a short call is not recorded. */
    if (call.on && ticks() - call.start >= long_ticks) end_transfer(&call, fd, 1, result, ABSENT);
    return result;
}

/* ---- calls on files that move no bytes ---- */

static void end_plain_slow(struct call *call, uint32_t kind, int fd, int64_t result) {
    int saved = errno;
    struct descriptor *d = fd >= 0 ? find_descriptor(fd, 0, 0) : NULL;
    if (d != NULL && d->class != CLASS_FILE && kind != KIND_OTHER) d = NULL;
    uint32_t object = d == NULL ? 0 : atomic_load_explicit(&d->object, memory_order_relaxed);
    end_call(call, kind, object, result < 0 ? -(int64_t)saved : 0, ABSENT, 0, 0);
    errno = saved;
}

#define PLAIN(type, kind, fd, expression)                                                                            \
    struct call call;                                                                                                \
    begin(&call, kind, fd);                                                                                          \
    type result = (expression);                                                                                      \
    if (likely(call.on)) end_plain_slow(&call, kind, fd, (int64_t)result);                                           \
    return result

/* A call on the name `path` in directory `at`. */
#define NAMED(kind, at, path, expression)                                                                            \
    struct call call;                                                                                                \
    begin(&call, kind, -1);                                                                                          \
    int result = (expression);                                                                                       \
    if (likely(call.on)) {                                                                                           \
        end_plain_slow(&call, kind, -1, result);                                                                     \
        looked(kind, at, path, result);                                                                              \
    }                                                                                                                \
    return result

static int end_open(struct call *call, int fd, int flags, int at, const char *path) {
    if (likely(call->on)) {
        int saved = errno;
        opened(fd, flags);
        errno = saved;
        end_plain_slow(call, KIND_OPEN, -1, fd);
        looked(KIND_OPEN, at, path, fd);
    }
    return fd;
}

#define MODE(flags)                                                                                                  \
    mode_t mode = 0;                                                                                                 \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) {                                                   \
        va_list more;                                                                                                \
        va_start(more, flags);                                                                                       \
        mode = va_arg(more, mode_t);                                                                                 \
        va_end(more);                                                                                                \
    }                                                                                                                \
    struct call call;                                                                                                \
    begin(&call, KIND_OPEN, -1)

EXPORT int open(const char *path, int flags, ...) {
    MODE(flags);
    return end_open(&call, REAL(open)(path, flags, mode), flags, AT_FDCWD, path);
}
EXPORT int openat(int at, const char *path, int flags, ...) {
    MODE(flags);
    return end_open(&call, REAL(openat)(at, path, flags, mode), flags, at, path);
}
ALIAS(open64, open);
ALIAS(openat64, openat);
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
EXPORT int __open_2(const char *path, int flags) {
    struct call call;
    begin(&call, KIND_OPEN, -1);
    return end_open(&call, REAL(__open_2)(path, flags), flags, AT_FDCWD, path);
}
EXPORT int __openat_2(int at, const char *path, int flags) {
    struct call call;
    begin(&call, KIND_OPEN, -1);
    return end_open(&call, REAL(__openat_2)(at, path, flags), flags, at, path);
}
ALIAS(__open64_2, __open_2);
ALIAS(__openat64_2, __openat_2);
EXPORT int creat(const char *path, mode_t mode) {
    struct call call;
    begin(&call, KIND_OPEN, -1);
    return end_open(&call, REAL(creat)(path, mode), O_WRONLY, AT_FDCWD, path);
}
ALIAS(creat64, creat);

static FILE *end_fopen(struct call *call, FILE *file, const char *path) {
    if (likely(call->on)) {
        int saved = errno;
        if (file != NULL) forget(fileno(file));
        errno = saved;
        end_plain_slow(call, KIND_OPEN, -1, file == NULL ? -1 : 0);
        looked(KIND_OPEN, AT_FDCWD, path, file == NULL ? -1 : 0);
    }
    return file;
}
EXPORT FILE *fopen(const char *restrict path, const char *restrict mode) {
    struct call call;
    begin(&call, KIND_OPEN, -1);
    return end_fopen(&call, REAL(fopen)(path, mode), path);
}
ALIAS(fopen64, fopen);

static void closing(int fd) {
    if (enabled) {
        int saved = errno;
        forget(fd);
        errno = saved;
    }
}
/* Short closes are alike, whatever they close; a long one waited for its file's server. */
static void end_close(struct call *call, uint32_t class, uint32_t object, int result) {
    if (unlikely(!call->on) || (class != CLASS_FILE && class != CLASS_UNKNOWN)) return;
    int saved = errno;
    if (ticks() - call->start < long_ticks) object = 0;
    end_call(call, KIND_CLOSE, object, result < 0 ? -(int64_t)saved : 0, ABSENT, 0, 0);
    errno = saved;
}
EXPORT int close(int fd) {
    uint32_t class = (unsigned)fd < DESCRIPTORS ? descriptors[fd].class : CLASS_ANY;
    uint32_t object = class == CLASS_FILE ? atomic_load_explicit(&descriptors[fd].object, memory_order_relaxed) : 0;
    struct call call;
    begin(&call, KIND_CLOSE, fd);
    closing(fd);
    int result = REAL(close)(fd);
    end_close(&call, class, object, result);
    return result;
}
EXPORT int fclose(FILE *file) {
    int fd = fileno(file);
    uint32_t object = (unsigned)fd < DESCRIPTORS ? atomic_load_explicit(&descriptors[fd].object, memory_order_relaxed) : 0;
    struct call call;
    begin(&call, KIND_CLOSE, -1);
    closing(fd);
    int result = REAL(fclose)(file);
    end_close(&call, CLASS_FILE, object, result);
    return result;
}
EXPORT int closedir(DIR *directory) {
    closing(dirfd(directory));
    return REAL(closedir)(directory);
}
EXPORT int close_range(unsigned first, unsigned last, int flags) {
    int result = REAL(close_range)(first, last, flags);
    if (enabled && result == 0 && flags == 0) forget_range(first, last);
    return result;
}
EXPORT void closefrom(int first) {
    REAL(closefrom)(first);
    if (enabled) forget_range(first < 0 ? 0 : (unsigned)first, ~0u);
}
EXPORT int dup2(int fd, int to) {
    closing(to);
    return REAL(dup2)(fd, to);
}
EXPORT int dup3(int fd, int to, int flags) {
    closing(to);
    return REAL(dup3)(fd, to, flags);
}

EXPORT int fsync(int fd) { PLAIN(int, KIND_SYNC, fd, REAL(fsync)(fd)); }
EXPORT int fdatasync(int fd) { PLAIN(int, KIND_SYNC, fd, REAL(fdatasync)(fd)); }
EXPORT int syncfs(int fd) { PLAIN(int, KIND_SYNC, fd, REAL(syncfs)(fd)); }
EXPORT int sync_file_range(int fd, off64_t at, off64_t n, unsigned flags) {
    PLAIN(int, KIND_SYNC, fd, REAL(sync_file_range)(fd, at, n, flags));
}
EXPORT int msync(void *at, size_t n, int flags) { PLAIN(int, KIND_SYNC, -1, REAL(msync)(at, n, flags)); }
EXPORT void sync(void) {
    struct call call;
    begin(&call, KIND_SYNC, -1);
    REAL(sync)();
    if (call.on) end_plain_slow(&call, KIND_SYNC, -1, 0);
}

EXPORT int stat(const char *restrict path, struct stat *restrict to) { NAMED(KIND_STAT, AT_FDCWD, path, REAL(stat)(path, to)); }
EXPORT int lstat(const char *restrict path, struct stat *restrict to) { NAMED(KIND_STAT, AT_FDCWD, path, REAL(lstat)(path, to)); }
EXPORT int fstat(int fd, struct stat *to) { PLAIN(int, KIND_STAT, -1, REAL(fstat)(fd, to)); }
EXPORT int fstatat(int at, const char *restrict path, struct stat *restrict to, int flags) {
    NAMED(KIND_STAT, at, path, REAL(fstatat)(at, path, to, flags));
}
EXPORT int statx(int at, const char *restrict path, int flags, unsigned mask, struct statx *restrict to) {
    NAMED(KIND_STAT, at, path, REAL(statx)(at, path, flags, mask, to));
}
EXPORT int access(const char *path, int mode) { NAMED(KIND_STAT, AT_FDCWD, path, REAL(access)(path, mode)); }
ALIAS(stat64, stat);
ALIAS(lstat64, lstat);
ALIAS(fstat64, fstat);
ALIAS(fstatat64, fstatat);

EXPORT DIR *opendir(const char *path) {
    struct call call;
    begin(&call, KIND_OPEN, -1);
    DIR *result = REAL(opendir)(path);
    if (call.on) {
        end_plain_slow(&call, KIND_OPEN, -1, result == NULL ? -1 : 0);
        looked(KIND_OPEN, AT_FDCWD, path, result == NULL ? -1 : 0);
    }
    return result;
}
EXPORT struct dirent *readdir(DIR *directory) {
    struct call call;
    begin(&call, KIND_LIST, -1);
    struct dirent *result = REAL(readdir)(directory);
    if (call.on) end_plain_slow(&call, KIND_LIST, -1, 0);
    return result;
}
ALIAS(readdir64, readdir);

EXPORT int unlink(const char *path) { NAMED(KIND_OTHER, AT_FDCWD, path, REAL(unlink)(path)); }
EXPORT int unlinkat(int at, const char *path, int flags) { NAMED(KIND_OTHER, at, path, REAL(unlinkat)(at, path, flags)); }
EXPORT int rename(const char *from, const char *to) { NAMED(KIND_OTHER, AT_FDCWD, from, REAL(rename)(from, to)); }
EXPORT int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    PLAIN(int, KIND_OTHER, -1, REAL(renameat2)(a, from, b, to, flags));
}
EXPORT int link(const char *from, const char *to) { NAMED(KIND_OTHER, AT_FDCWD, to, REAL(link)(from, to)); }
EXPORT int symlink(const char *from, const char *to) { NAMED(KIND_OTHER, AT_FDCWD, to, REAL(symlink)(from, to)); }
EXPORT int mkdirat(int at, const char *path, mode_t mode) { NAMED(KIND_OTHER, at, path, REAL(mkdirat)(at, path, mode)); }
EXPORT int faccessat(int at, const char *path, int mode, int flags) { NAMED(KIND_STAT, at, path, REAL(faccessat)(at, path, mode, flags)); }
EXPORT int mkdir(const char *path, mode_t mode) { NAMED(KIND_OTHER, AT_FDCWD, path, REAL(mkdir)(path, mode)); }
EXPORT int truncate(const char *path, off_t size) { PLAIN(int, KIND_OTHER, -1, REAL(truncate)(path, size)); }
EXPORT int ftruncate(int fd, off_t size) { PLAIN(int, KIND_OTHER, fd, REAL(ftruncate)(fd, size)); }
EXPORT int fallocate(int fd, int mode, off_t at, off_t n) { PLAIN(int, KIND_OTHER, fd, REAL(fallocate)(fd, mode, at, n)); }
EXPORT int posix_fallocate(int fd, off_t at, off_t n) { PLAIN(int, KIND_OTHER, fd, REAL(posix_fallocate)(fd, at, n)); }
ALIAS(truncate64, truncate);
ALIAS(ftruncate64, ftruncate);
ALIAS(fallocate64, fallocate);
ALIAS(posix_fallocate64, posix_fallocate);

EXPORT void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    void *result = REAL(mmap)(at, n, protection, flags, fd, offset);
    if (enabled && fd >= 0 && n >= (1u << 20) && result != MAP_FAILED) {
        int saved = errno;
        note_unseen(UNSEEN_MAPPED);
        mapped(fd);
        errno = saved;
    }
    return result;
}
ALIAS(mmap64, mmap);
