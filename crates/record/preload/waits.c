/* Calls that wait: for descriptors, time, locks, threads, children, the other end of a connection. */
#include "internal.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <netdb.h>
#include <poll.h>
#include <semaphore.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Last signaller of each address, so that the waiter can name it. A collision names the wrong thread. */
#define SIGNALLERS 1024
static struct {
    _Atomic uintptr_t what;
    _Atomic uint32_t who;
} signallers[SIGNALLERS];

/* Descriptors that an epoll set reports on, by set and the program's own number. */
#define EVENTS 4096
static struct {
    _Atomic uint64_t what;
    _Atomic int fd;
} events[EVENTS];

static uint32_t place(uint64_t what, uint32_t of) { return (uint32_t)(what * 0x9E3779B97F4A7C15ull >> 40) % of; }

static int tracked(void) { return enabled && me.slot != NULL && me.generation == *generation; }

static void signals(const void *what) {
    if (!tracked()) return;
    uint32_t at = place((uintptr_t)what, SIGNALLERS);
    atomic_store_explicit(&signallers[at].what, (uintptr_t)what, memory_order_relaxed);
    atomic_store_explicit(&signallers[at].who, me.slot->tid, memory_order_relaxed);
}

static uint32_t who_signalled(const void *what) {
    uint32_t at = place((uintptr_t)what, SIGNALLERS);
    if (atomic_load_explicit(&signallers[at].what, memory_order_relaxed) != (uintptr_t)what) return 0;
    return atomic_load_explicit(&signallers[at].who, memory_order_relaxed);
}

static void end_wait(struct call *call, uint32_t kind, uint32_t object, uint32_t waker, uint32_t context) {
    int saved = errno;
    end_call(call, kind, object, 0, ABSENT, waker, context);
    if (context == CONTEXT_TIMER) paused(call);
    errno = saved;
}

static int was_long(const struct call *call) { return call->on && enabled && ticks() - call->start >= long_ticks; }

/* ---- descriptors ---- */

/* Ends a wait for descriptors: `fd` was ready first (-1: none, the wait timed out). A timed-out wait has a known
 * object only if it had a single descriptor, which is then `fd`. */
static void end_ready(struct call *call, int fd, int result, int endless) {
    if (!call->on) return;
    if (!was_long(call)) {
        end_wait(call, KIND_WAIT_NETWORK, 0, 0, 0);
        return;
    }
    int saved = errno;
    struct descriptor *d = fd >= 0 ? find_descriptor(fd, 0, 0) : NULL;
    uint32_t object = d == NULL ? 0 : atomic_load_explicit(&d->object, memory_order_relaxed);
    if (result == 0 && !endless) {
        end_call(call, KIND_WAIT_NETWORK, object != 0 ? object : me.fruitless, 0, ABSENT, 0, CONTEXT_TIMER);
        paused(call);
    } else if (d != NULL && d->class == CLASS_TIMER) {
        end_call(call, KIND_WAIT_TIMER, 0, 0, ABSENT, 0, CONTEXT_TIMER);
        paused(call);
    } else if (d != NULL && (d->class == CLASS_TCP || d->class == CLASS_DATAGRAMS)) {
        int is_tcp = d->class == CLASS_TCP && object != 0;
        end_call(call, KIND_WAIT_NETWORK, object, 0, ABSENT, 0, is_tcp ? CONTEXT_SOFTIRQ : 0);
        if (is_tcp) poll_tcp(fd, d);
    } else {
        end_call(call, result < 0 ? KIND_WAIT_OTHER : KIND_WAIT_LOCK, object, 0, ABSENT, 0, 0);
    }
    errno = saved;
}

/* Returns the descriptor of a poll that timed out, if there was only one. */
static int polled_one(const struct pollfd *fds, nfds_t n) { return fds != NULL && n == 1 ? fds[0].fd : -1; }

/* Returns the first ready descriptor, preferring connections. */
static int ready_of(const struct pollfd *fds, nfds_t n) {
    int found = -1;
    for (nfds_t i = 0; fds != NULL && i < n; i++) {
        if (fds[i].revents == 0 || fds[i].fd < 0) continue;
        if ((unsigned)fds[i].fd < DESCRIPTORS && descriptors[fds[i].fd].class == CLASS_TCP) return fds[i].fd;
        if (found < 0) found = fds[i].fd;
    }
    return found;
}

#define POLL(endless, expression)                                                                                    \
    struct call call;                                                                                                \
    begin(&call, KIND_WAIT_NETWORK, -1);                                                                             \
    int result = (expression);                                                                                       \
    end_ready(&call, result < 0 || !was_long(&call) ? -1 : result > 0 ? ready_of(fds, n) : polled_one(fds, n), result, endless); \
    return result

/* Treats a poll without descriptors as a sleep. */
static int poll_as_sleep(struct pollfd *fds, nfds_t n, int timeout) {
    struct call call;
    begin(&call, KIND_WAIT_TIMER, -1);
    int result = REAL(poll)(fds, n, timeout);
    end_wait(&call, me.fruitless ? KIND_WAIT_NETWORK : KIND_WAIT_TIMER, me.fruitless, 0, CONTEXT_TIMER);
    return result;
}
EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout) {
    if (n == 0) return poll_as_sleep(fds, n, timeout);
    POLL(timeout < 0, REAL(poll)(fds, n, timeout));
}
EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask) {
    POLL(timeout == NULL, REAL(ppoll)(fds, n, timeout, mask));
}
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room) {
    POLL(timeout < 0, REAL(__poll_chk)(fds, n, timeout, room));
}
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t room) {
    POLL(timeout == NULL, REAL(__ppoll_chk)(fds, n, timeout, mask, room));
}

static int ready_in(int n, const fd_set *a, const fd_set *b) {
    int found = -1;
    for (int fd = 0; fd < n && fd < FD_SETSIZE; fd++) {
        if (!((a != NULL && FD_ISSET(fd, a)) || (b != NULL && FD_ISSET(fd, b)))) continue;
        if (descriptors[fd].class == CLASS_TCP) return fd;
        if (found < 0) found = fd;
    }
    return found;
}

#define SELECT(endless, expression)                                                                                  \
    struct call call;                                                                                                \
    uint32_t kind = n == 0 ? KIND_WAIT_TIMER : KIND_WAIT_NETWORK;                                                    \
    begin(&call, kind, -1);                                                                                          \
    int result = (expression);                                                                                       \
    if (n == 0) end_wait(&call, me.fruitless ? KIND_WAIT_NETWORK : kind, me.fruitless, 0, CONTEXT_TIMER);            \
    else end_ready(&call, result > 0 && was_long(&call) ? ready_in(n, a, b) : -1, result, endless);                  \
    return result

EXPORT int select(int n, fd_set *restrict a, fd_set *restrict b, fd_set *restrict c, struct timeval *restrict timeout) {
    SELECT(timeout == NULL, REAL(select)(n, a, b, c, timeout));
}
EXPORT int pselect(int n, fd_set *restrict a, fd_set *restrict b, fd_set *restrict c, const struct timespec *restrict timeout,
                   const sigset_t *restrict mask) {
    SELECT(timeout == NULL, REAL(pselect)(n, a, b, c, timeout, mask));
}

EXPORT int epoll_ctl(int set, int operation, int fd, struct epoll_event *event) {
    if (enabled && event != NULL && operation != EPOLL_CTL_DEL) {
        uint64_t what = event->data.u64 ^ (uint64_t)set << 48;
        uint32_t at = place(what, EVENTS);
        atomic_store_explicit(&events[at].what, what, memory_order_relaxed);
        atomic_store_explicit(&events[at].fd, fd, memory_order_relaxed);
    }
    return REAL(epoll_ctl)(set, operation, fd, event);
}
static int ready_event(int set, const struct epoll_event *found, int n) {
    int first = -1;
    for (int i = 0; i < n; i++) {
        uint64_t what = found[i].data.u64 ^ (uint64_t)set << 48;
        uint32_t at = place(what, EVENTS);
        if (atomic_load_explicit(&events[at].what, memory_order_relaxed) != what) continue;
        int fd = atomic_load_explicit(&events[at].fd, memory_order_relaxed);
        if ((unsigned)fd < DESCRIPTORS && descriptors[fd].class == CLASS_TCP) return fd;
        if (first < 0) first = fd;
    }
    return first;
}
#define EPOLL(endless, expression)                                                                                   \
    struct call call;                                                                                                \
    begin(&call, KIND_WAIT_NETWORK, -1);                                                                             \
    int result = (expression);                                                                                       \
    end_ready(&call, result > 0 && was_long(&call) ? ready_event(set, found, result) : -1, result, endless);         \
    return result
EXPORT int epoll_wait(int set, struct epoll_event *found, int n, int timeout) {
    EPOLL(timeout < 0, REAL(epoll_wait)(set, found, n, timeout));
}
EXPORT int epoll_pwait(int set, struct epoll_event *found, int n, int timeout, const sigset_t *mask) {
    EPOLL(timeout < 0, REAL(epoll_pwait)(set, found, n, timeout, mask));
}

/* The thread's call that was under way when `connect` returned: its error is asked for later. */
static __thread struct {
    int fd;
    socklen_t length;
    struct sockaddr_storage to;
} calling __attribute__((tls_model("initial-exec")));

EXPORT int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict length) {
    int result = REAL(getsockopt)(fd, level, name, value, length);
    if (unlikely(level == SOL_SOCKET && name == SO_ERROR && calling.length != 0 && calling.fd == fd) && enabled && result == 0) {
        int error, saved = errno;
        memcpy(&error, value, sizeof error);
        if (error != 0) called(fd, (struct sockaddr *)&calling.to, calling.length, -1, error);
        calling.length = 0;
        errno = saved;
    }
    return result;
}
EXPORT int connect(int fd, const struct sockaddr *to, socklen_t length) {
    struct call call;
    begin(&call, KIND_CONNECT, -1);
    if (call.on && to != NULL && (to->sa_family == AF_INET || to->sa_family == AF_INET6)) {
        int saved = errno;
        forget(fd);
        connected(fd, 0);
        errno = saved;
    }
    int result = REAL(connect)(fd, to, length);
    if (call.on) {
        int saved = errno;
        struct descriptor *d = find_descriptor(fd, 0, 0);
        uint32_t object = d == NULL ? 0 : atomic_load_explicit(&d->object, memory_order_relaxed);
        int tcp = d != NULL && d->class == CLASS_TCP;
        end_call(&call, tcp ? KIND_CONNECT : KIND_WAIT_LOCK, object, result < 0 ? -(int64_t)saved : 0, ABSENT, 0, 0);
        called(fd, to, length, result, result < 0 ? saved : 0);
        if (result < 0 && saved == EINPROGRESS && to != NULL && length <= sizeof calling.to) {
            calling.fd = fd;
            calling.length = length;
            memcpy(&calling.to, to, length);
        }
        errno = saved;
    }
    return result;
}

static int end_accept(struct call *call, int fd) {
    if (call->on) {
        int saved = errno;
        connected(fd, 1);
        struct descriptor *d = fd >= 0 ? find_descriptor(fd, 0, 0) : NULL;
        uint32_t object = d == NULL ? 0 : atomic_load_explicit(&d->object, memory_order_relaxed);
        end_call(call, KIND_WAIT_NETWORK, object, fd < 0 ? -(int64_t)saved : 0, ABSENT, 0, 0);
        errno = saved;
    }
    return fd;
}
EXPORT int accept(int fd, struct sockaddr *restrict from, socklen_t *restrict length) {
    struct call call;
    begin(&call, KIND_WAIT_NETWORK, -1);
    return end_accept(&call, REAL(accept)(fd, from, length));
}
EXPORT int accept4(int fd, struct sockaddr *restrict from, socklen_t *restrict length, int flags) {
    struct call call;
    begin(&call, KIND_WAIT_NETWORK, -1);
    return end_accept(&call, REAL(accept4)(fd, from, length, flags));
}
EXPORT int listen(int fd, int backlog) {
    int result = REAL(listen)(fd, backlog);
    int saved = errno;
    if (result == 0) listens(fd);
    errno = saved;
    return result;
}
EXPORT int getaddrinfo(const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
                       struct addrinfo **restrict found) {
    struct call call;
    begin(&call, KIND_WAIT_NETWORK, -1);
    int result = REAL(getaddrinfo)(node, service, hints, found);
    end_wait(&call, KIND_WAIT_NETWORK, 0, 0, 0);
    return result;
}

/* ---- time ---- */

/* A sleep between fruitless receives on a connection polls that connection. */
#define SLEEP(type, expression)                                                                                      \
    struct call call;                                                                                                \
    begin(&call, KIND_WAIT_TIMER, -1);                                                                               \
    type result = (expression);                                                                                      \
    end_wait(&call, me.fruitless ? KIND_WAIT_NETWORK : KIND_WAIT_TIMER, me.fruitless, 0, CONTEXT_TIMER);             \
    return result

EXPORT int nanosleep(const struct timespec *time, struct timespec *left) { SLEEP(int, REAL(nanosleep)(time, left)); }
EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    SLEEP(int, REAL(clock_nanosleep)(clock, flags, time, left));
}
EXPORT int usleep(useconds_t time) { SLEEP(int, REAL(usleep)(time)); }
EXPORT unsigned sleep(unsigned time) { SLEEP(unsigned, REAL(sleep)(time)); }

/* ---- locks ---- */

#define HELD(waker, expression) LOCKED_BY(waker, CONTEXT_HOLDER, expression)
#define LOCKED(waker, expression) LOCKED_BY(waker, CONTEXT_TASK, expression)
#define LOCKED_BY(waker, context, expression)                                                                                    \
    struct call call;                                                                                                \
    begin(&call, KIND_WAIT_LOCK, -1);                                                                                \
    int result = (expression);                                                                                       \
    end_wait(&call, KIND_WAIT_LOCK, 0, waker, context);                                                              \
    return result

/* Returns the thread that ended a wait by unlocking a contended mutex; it may have had several owners meanwhile. */
static uint32_t who_let_go(const pthread_mutex_t *mutex, uint32_t owner) {
    uint32_t last = who_signalled(mutex);
    return last != 0 ? last : owner;
}
EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (!enabled) return REAL(pthread_mutex_lock)(mutex);
    int at_once = REAL(pthread_mutex_trylock)(mutex);
    if (likely(at_once != EBUSY)) return at_once;
    uint32_t owner = (uint32_t)mutex->__data.__owner;
    HELD(who_let_go(mutex, owner), REAL(pthread_mutex_lock)(mutex));
}
EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    uint32_t owner = (uint32_t)mutex->__data.__owner;
    HELD(owner, REAL(pthread_mutex_timedlock)(mutex, until));
}
EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    if (unlikely(mutex->__data.__lock > 1) && enabled) signals(mutex);
    return REAL(pthread_mutex_unlock)(mutex);
}
EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    uint32_t owner = (uint32_t)lock->__data.__cur_writer;
    HELD(owner, REAL(pthread_rwlock_rdlock)(lock));
}
EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    uint32_t owner = (uint32_t)lock->__data.__cur_writer;
    HELD(owner, REAL(pthread_rwlock_wrlock)(lock));
}
EXPORT int pthread_cond_signal(pthread_cond_t *condition) {
    signals(condition);
    return REAL(pthread_cond_signal)(condition);
}
EXPORT int pthread_cond_broadcast(pthread_cond_t *condition) {
    signals(condition);
    return REAL(pthread_cond_broadcast)(condition);
}
/* Waiting for a condition unlocks the mutex inside the C library. */
static void lets_go(const pthread_mutex_t *mutex) {
    if (enabled && mutex->__data.__lock > 1) signals(mutex);
}
EXPORT int pthread_cond_wait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex) {
    lets_go(mutex);
    LOCKED(who_signalled(condition), REAL(pthread_cond_wait)(condition, mutex));
}
/* No thread ended a wait that timed out. If the object is the process's `own`, and the process has no other thread,
 * the wait can only have been a pause. */
static uint32_t kind_of_limited(int own) { return own && enabled && alone() ? KIND_WAIT_TIMER : KIND_WAIT_LOCK; }
/* Whether the condition is private to the process, as the C library marks it. */
static int is_own_condition(const pthread_cond_t *condition) { return (condition->__data.__wrefs & 1) == 0; }
static int is_own_semaphore(const sem_t *semaphore) {
    int words[4];
    memcpy(words, semaphore, sizeof words);
    return sizeof(void *) == 8 && words[2] == 0;
}
/* (Ownership is read first: afterwards the object may be gone.) */
#define LIMITED(what, own, timed_out, expression)                                                                    \
    struct call call;                                                                                                \
    int is_own = enabled && own(what);                                                                               \
    begin(&call, KIND_WAIT_LOCK, -1);                                                                                \
    int result = (expression);                                                                                       \
    if (timed_out) end_wait(&call, kind_of_limited(is_own), 0, 0, CONTEXT_TIMER);                                    \
    else end_wait(&call, KIND_WAIT_LOCK, 0, who_signalled(what), CONTEXT_TASK);                                      \
    return result
EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    lets_go(mutex);
    LIMITED(condition, is_own_condition, result == ETIMEDOUT, REAL(pthread_cond_timedwait)(condition, mutex, until));
}
EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                                  const struct timespec *restrict until) {
    lets_go(mutex);
    LIMITED(condition, is_own_condition, result == ETIMEDOUT, REAL(pthread_cond_clockwait)(condition, mutex, clock, until));
}
EXPORT int pthread_join(pthread_t thread, void **value) {
    uint32_t tid = enabled ? tid_of(thread) : 0;
    LOCKED(tid, REAL(pthread_join)(thread, value));
}
EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier) {
    signals(barrier);
    LOCKED(who_signalled(barrier), REAL(pthread_barrier_wait)(barrier));
}
EXPORT int sem_post(sem_t *semaphore) {
    signals(semaphore);
    return REAL(sem_post)(semaphore);
}
EXPORT int sem_wait(sem_t *semaphore) { LOCKED(who_signalled(semaphore), REAL(sem_wait)(semaphore)); }
EXPORT int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    LIMITED(semaphore, is_own_semaphore, result < 0 && errno == ETIMEDOUT, REAL(sem_timedwait)(semaphore, until));
}
EXPORT int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict until) {
    LIMITED(semaphore, is_own_semaphore, result < 0 && errno == ETIMEDOUT, REAL(sem_clockwait)(semaphore, clock, until));
}
static uint32_t object_of(int fd) {
    struct descriptor *d = find_descriptor(fd, 0, 0);
    return d == NULL ? 0 : atomic_load_explicit(&d->object, memory_order_relaxed);
}
#define FILE_LOCKED(fd, expression)                                                                                  \
    struct call call;                                                                                                \
    begin(&call, KIND_WAIT_LOCK, fd);                                                                                \
    int result = (expression), saved = errno;                                                                        \
    uint32_t object = was_long(&call) ? object_of(fd) : 0;                                                           \
    end_wait(&call, KIND_WAIT_LOCK, object, 0, 0);                                                                   \
    errno = saved;                                                                                                   \
    return result
/* An attempt to take a lock without waiting. */
#define LOCK_TRIED(fd, expression)                                                                                   \
    int result = (expression);                                                                                       \
    if (enabled) tried_lock(fd, result);                                                                             \
    return result
EXPORT int flock(int fd, int operation) {
    if (operation & LOCK_NB) {
        LOCK_TRIED(fd, REAL(flock)(fd, operation));
    }
    FILE_LOCKED(fd, REAL(flock)(fd, operation));
}
EXPORT int lockf(int fd, int operation, off_t n) {
    if (operation == F_TLOCK) {
        LOCK_TRIED(fd, REAL(lockf)(fd, operation, n));
    }
    FILE_LOCKED(fd, REAL(lockf)(fd, operation, n));
}
EXPORT int fcntl(int fd, int command, ...) {
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    if (unlikely(command == F_SETLK || command == F_OFD_SETLK) && enabled) {
        int result = REAL(fcntl)(fd, command, argument);
        /* (A release of a lock is no attempt to take it. The kernel has read the argument.) */
        int told = result >= 0 || errno == EAGAIN || errno == EACCES;
        if (told && ((struct flock *)argument)->l_type != F_UNLCK) tried_lock(fd, result);
        return result;
    }
    if (likely(command != F_SETLKW && command != F_OFD_SETLKW)) return REAL(fcntl)(fd, command, argument);
    FILE_LOCKED(fd, REAL(fcntl)(fd, command, argument));
}
extern EXPORT __typeof__(fcntl) fcntl64 __attribute__((alias("fcntl")));

/* ---- calls that give up system calls or the clock ---- */

static int confines(long option, long value) {
    return option == PR_SET_SECCOMP || (option == PR_SET_TSC && value != PR_TSC_ENABLE);
}
static int call_confines(long number, const long *a) {
    if (number == SYS_prctl) return confines(a[0], a[1]);
    return number == SYS_seccomp && (a[0] == SECCOMP_SET_MODE_STRICT || a[0] == SECCOMP_SET_MODE_FILTER);
}

EXPORT int prctl(int option, ...) {
    long a[4];
    va_list more;
    va_start(more, option);
    for (int n = 0; n < 4; n++) a[n] = va_arg(more, long);
    va_end(more);
    int stopped = confines(option, a[0]) ? stop_recording() : 0;
    int result = REAL(prctl)(option, a[0], a[1], a[2], a[3]);
    if (stopped && result < 0) resume_recording();
    if (option == PR_SET_NAME && result == 0) renamed();
    return result;
}

/* Runtimes that wait on futexes directly, and calls without a wrapper function. */
EXPORT long syscall(long number, ...) {
    long a[6];
    va_list more;
    va_start(more, number);
    for (int n = 0; n < 6; n++) a[n] = va_arg(more, long);
    va_end(more);
    uint32_t kind = KIND_NONE;
    if (number == SYS_futex) {
        int operation = (int)a[1] & FUTEX_CMD_MASK;
        if (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET || operation == FUTEX_LOCK_PI) kind = KIND_WAIT_LOCK;
        if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET) signals((void *)a[0]);
    } else if (number == SYS_io_getevents) {
        note_unseen(UNSEEN_AIO);
        kind = KIND_WAIT_DISK;
    } else if (number == 426 /* io_uring_enter */) {
        note_unseen(UNSEEN_URING);
        kind = KIND_WAIT_DISK;
    }
    if (likely(kind == KIND_NONE)) {
        if (number == SYS_execve) return execve((char *)a[0], (char **)a[1], (char **)a[2]);
        int stopped = call_confines(number, a) ? stop_recording() : 0;
        long result = REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        /* A positive number is a descriptor: the filter is installed. */
        if (stopped && result < 0) resume_recording();
        return result;
    }
    struct call call;
    begin(&call, kind, -1);
    long result = REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    int timed_out = result < 0 && errno == ETIMEDOUT && kind == KIND_WAIT_LOCK;
    if (timed_out) end_wait(&call, kind_of_limited((a[1] & FUTEX_PRIVATE_FLAG) != 0), 0, 0, CONTEXT_TIMER);
    else end_wait(&call, kind, 0, kind == KIND_WAIT_LOCK ? who_signalled((void *)a[0]) : 0, 0);
    return result;
}

/* ---- children ---- */

/* A shell's loop pauses by waiting for a child. */
#define CHILD(status, expression)                                                                                    \
    struct call call;                                                                                                \
    begin(&call, KIND_WAIT_LOCK, -1);                                                                                \
    pid_t result = (expression);                                                                                     \
    int error = errno;                                                                                               \
    end_wait(&call, KIND_WAIT_LOCK, 0, result > 0 ? (uint32_t)result : 0, CONTEXT_TASK);                             \
    paused(&call);                                                                                                   \
    if (result > 0 && (status) != NULL && (WIFEXITED(*(status)) || WIFSIGNALED(*(status)))) note_status(result, *(status)); \
    errno = error;                                                                                                   \
    return result
EXPORT pid_t wait(int *status) { CHILD(status, REAL(wait)(status)); }
EXPORT pid_t waitpid(pid_t pid, int *status, int options) { CHILD(status, REAL(waitpid)(pid, status, options)); }
EXPORT pid_t wait3(int *status, int options, struct rusage *usage) { CHILD(status, REAL(wait3)(status, options, usage)); }
EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage) { CHILD(status, REAL(wait4)(pid, status, options, usage)); }
EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options) {
    LOCKED(type == P_PID ? (uint32_t)id : 0, REAL(waitid)(type, id, info, options));
}
