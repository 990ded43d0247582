/* Calls that look for something in vain: a name that is not there, or is; a lock that is held; a program that does not
 * listen. A program that then pauses, and looks again, waits for that, and only these calls show it.
 *
 * Each thread keeps its latest failed calls, which costs other programs a copy of a name for each. They are recorded
 * when the thread pauses, or ends as failed; from then on, the first call that succeeds is recorded too. */
#include "internal.h"
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define LOOKS 8
#define LOOK_BYTES 256
/* Whole records: two addresses fit as well. */
_Static_assert(LOOK_BYTES == 2 * sizeof(struct sockaddr_storage), "two addresses");
#define HOPES 64
/* A pause shorter than this is no pause. */
#define PAUSE_NS 1000000u

struct look {
    uint64_t mark;
    uint64_t at; /* ticks */
    uint32_t object;
    int32_t error;
    uint16_t kind;
    uint16_t bytes;
    char name[LOOK_BYTES];
};

/* The thread's failed calls since it last paused; `noted` counts them, also those that no longer fit. */
static __thread struct look looks[LOOKS] __attribute__((tls_model("initial-exec")));
static __thread uint32_t noted __attribute__((tls_model("initial-exec")));
/* Marks of what was recorded as missing: its success is recorded too. */
static _Atomic uint64_t hopes[HOPES];
static _Atomic uint32_t hoped;

static uint64_t mark_of(uint64_t mark, const char *name, size_t bytes) {
    for (size_t n = 0; n < bytes; n++) mark = (mark ^ (unsigned char)name[n]) * 0x100000001b3ull;
    return mark | 1;
}

static void hope(uint64_t mark) {
    _Atomic uint64_t *one = &hopes[(mark >> 32) % HOPES];
    if (atomic_exchange_explicit(one, mark, memory_order_relaxed) == 0) atomic_fetch_add_explicit(&hoped, 1, memory_order_relaxed);
}

static int fulfils(uint64_t mark) {
    _Atomic uint64_t *one = &hopes[(mark >> 32) % HOPES];
    if (!atomic_compare_exchange_strong(one, &mark, 0)) return 0;
    atomic_fetch_sub_explicit(&hoped, 1, memory_order_relaxed);
    return 1;
}

static int may_push(void) { return enabled && me.slot != NULL && me.generation == *generation && !me.busy; }

static uint64_t ns_at(uint64_t at) {
    uint64_t anchor = me.slot->anchor_ticks, ns = me.slot->anchor_ns;
    uint64_t away = (uint64_t)((unsigned __int128)(at > anchor ? at - anchor : anchor - at) * tick_scale >> 32);
    return at > anchor ? ns + away : ns - away;
}

static void record_look(const struct look *look, int addresses) {
    struct record records[1 + LOOK_BYTES / sizeof(struct record)];
    if (!may_push()) return;
    uint32_t many = (uint32_t)((look->bytes + sizeof(struct record) - 1) / sizeof(struct record));
    memset(records, 0, sizeof records);
    memcpy(&records[1], look->name, look->bytes);
    struct record first = {.type = RECORD_LOOK, .kind = (uint8_t)look->kind, .context = (uint8_t)addresses, .count = many,
                           .object = look->object, .start_ns = ns_at(look->at), .offset = look->bytes, .size = -(int64_t)look->error};
    records[0] = first;
    me.busy = 1;
    push(records, 1 + many);
    me.busy = 0;
}

/* Makes a name absolute; returns its length, 0 if it is too long. */
static size_t absolute(char *to, int at, const char *name, size_t bytes) {
    size_t begun = 0;
    if (name[0] != '/' && at == AT_FDCWD) {
        long length = raw(SYS_getcwd, (long)to, LOOK_BYTES, 0, 0, 0, 0);
        if (length <= 0) return 0;
        begun = (size_t)length - 1; /* It counts the zero byte. */
    } else if (name[0] != '/') {
        char link[64];
        if (at < 0) return 0;
        link_of(link, at);
        long length = raw(SYS_readlinkat, AT_FDCWD, (long)link, (long)to, LOOK_BYTES, 0, 0);
        if (length <= 0 || length >= LOOK_BYTES) return 0;
        begun = (size_t)length;
    }
    if (name[0] != '/') {
        while (bytes > 2 && name[0] == '.' && name[1] == '/') name += 2, bytes -= 2;
        if (begun > 1) to[begun++] = '/';
    }
    if (begun + bytes > LOOK_BYTES) return 0;
    memcpy(to + begun, name, bytes);
    return begun + bytes;
}

static struct look *room_for(uint64_t mark) {
    for (uint32_t n = 0; n < LOOKS && n < noted; n++)
        if (looks[n].mark == mark) return &looks[n];
    return &looks[noted++ % LOOKS];
}

/* Whether a failure says that something was not there, or not free: others are the program's own. */
static int is_in_vain(int error) { return error != EINTR && error != EBADF && error != EFAULT && error != EINVAL && error != ENAMETOOLONG; }

/* Ends a call on a name, with the C library's result and errno. */
void looked(uint32_t kind, int at, const char *name, long result) {
    int error = errno;
    if (result >= 0 && likely(atomic_load_explicit(&hoped, memory_order_relaxed) == 0)) return;
    if (name == NULL || (result < 0 && !is_in_vain(error))) return;
    size_t bytes = strnlen(name, LOOK_BYTES);
    if (bytes == 0 || bytes == LOOK_BYTES) return;
    uint64_t mark = mark_of(0xcbf29ce484222325ull ^ (name[0] == '/' ? 0 : (uint64_t)(unsigned)at), name, bytes);
    struct look found, *look = result < 0 ? room_for(mark) : fulfils(mark) ? &found : NULL;
    if (look != NULL) {
        look->mark = mark;
        look->at = ticks();
        look->object = 0;
        look->error = result < 0 ? error : 0;
        look->kind = (uint16_t)kind;
        look->bytes = (uint16_t)absolute(look->name, at, name, bytes);
        if (result >= 0 && look->bytes != 0) record_look(look, 0);
    }
    errno = error;
}

/* Ends an attempt to take a lock on a file without waiting. */
void tried_lock(int fd, int result) {
    int error = errno;
    if (result >= 0 && likely(atomic_load_explicit(&hoped, memory_order_relaxed) == 0)) return;
    if (result < 0 && error != EAGAIN && error != EACCES && error != EWOULDBLOCK) return;
    struct descriptor *d = find_descriptor(fd, 0, 0);
    uint32_t object = d == NULL ? 0 : atomic_load_explicit(&d->object, memory_order_relaxed);
    uint64_t mark = mark_of(object, "lock", 4);
    struct look found, *look = object == 0 ? NULL : result < 0 ? room_for(mark) : fulfils(mark) ? &found : NULL;
    if (look != NULL) {
        struct look one = {.mark = mark, .at = ticks(), .object = object, .error = result < 0 ? error : 0, .kind = KIND_WAIT_LOCK};
        memcpy(look, &one, offsetof(struct look, name));
        if (result >= 0) record_look(look, 0);
    }
    errno = error;
}

/* Ends a call to another program: a failed one, with both addresses, is recorded at once. */
void called(int fd, const struct sockaddr *to, socklen_t length, int result, int error) {
    if (to == NULL || (result < 0 && !is_in_vain(error)) || error == EISCONN) return;
    if (to->sa_family == AF_UNIX && length > offsetof(struct sockaddr_un, sun_path)) {
        const struct sockaddr_un *address = (const struct sockaddr_un *)to;
        char path[sizeof address->sun_path + 1] = {0};
        memcpy(path, address->sun_path, length - offsetof(struct sockaddr_un, sun_path) < sizeof address->sun_path
                                            ? length - offsetof(struct sockaddr_un, sun_path) : sizeof address->sun_path);
        int saved = errno;
        errno = error;
        if (path[0] != 0 && error != EINPROGRESS && error != EAGAIN) looked(KIND_CONNECT, AT_FDCWD, path, result);
        errno = saved;
        return;
    }
    int is_internet = to->sa_family == AF_INET || to->sa_family == AF_INET6;
    if (result >= 0 || !is_internet || error == EINPROGRESS || error == EALREADY || error == EAGAIN || length > sizeof(struct sockaddr_storage)) return;
    struct look look = {.at = ticks(), .error = error, .kind = KIND_CONNECT, .bytes = LOOK_BYTES};
    struct sockaddr_storage *ends = (struct sockaddr_storage *)(void *)look.name;
    socklen_t room = sizeof ends[0];
    if (raw(SYS_getsockname, fd, (long)&ends[0], (long)&room, 0, 0, 0) != 0) return;
    memcpy(&ends[1], to, length);
    record_look(&look, 1);
}

/* Records what the thread looked for in vain: it pauses, or its program ends as failed. */
void record_looks(void) {
    if (likely(noted == 0)) return;
    uint32_t many = noted < LOOKS ? noted : LOOKS;
    noted = 0;
    if (!may_push()) return;
    for (uint32_t n = 0; n < many; n++) {
        if (looks[n].bytes == 0 && looks[n].object == 0) continue;
        record_look(&looks[n], 0);
        hope(looks[n].mark);
    }
}

/* A child has looked for nothing yet. */
void forked_looks(void) { noted = 0; }

/* Ends a wait that may be a pause. */
void paused(const struct call *call) {
    if (likely(noted == 0) || !call->on) return;
    uint64_t pause_ticks = long_ticks * (PAUSE_NS / LONG_NS);
    if (ticks() - call->start >= pause_ticks) record_looks();
}
