/* Declarations shared by the library's files. core.c explains the design. */
#ifndef THALWEG_INTERNAL_H
#define THALWEG_INTERNAL_H

#define _GNU_SOURCE
#include "shared.h"
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* A longer call may have blocked. */
#define LONG_NS 20000u
/* Reading the CPU time costs up to a microsecond, the run-queue time several: done only for calls at least this long. */
#define ASK_NS 100000u
/* Minimum unrecorded off-CPU time that is looked into. */
#define OFF_NS 100000u
/* Minimum running time between calls that is recorded. */
#define RAN_NS 10000000u
#define ASK_BEFORE_NS 200000u
#define RUNQUEUE_NS 400000u
/* Both clocks are read again, a few times, if the thread was interrupted between them for longer than this. */
#define ANCHOR_NS 1000u
#define ANCHOR_TRIES 4
/* Maximum age of a run before it is pushed. */
#define RUN_NS 10000000u
/* Minimum time between two readings of a connection's TCP state. */
#define TCP_NS 5000000u
#define DESCRIPTORS 16384
#define NAME_BYTES 4096
#define RING_DIRECTORY_BYTES 256

/* The C library function behind ours. All are resolved when the library is loaded. */
struct real {
    void *function;
    const char *name;
};
void *resolve(struct real *real);
#define REAL(name)                                                                                                   \
    ({                                                                                                               \
        static struct real real_##name __attribute__((section("thalweg_real"), used)) = {0, #name};                 \
        (__typeof__(&name))(likely(real_##name.function != 0) ? real_##name.function : resolve(&real_##name));       \
    })

/* A descriptor. Offsets are positions in a connection's two streams. */
struct descriptor {
    _Atomic uint32_t object;
    uint8_t class;
    uint8_t way;   /* as `context` of an object's record */
    uint8_t sync;  /* opened for synchronous writes: on stable storage when they return */
    uint8_t known; /* the offsets are known */
    _Atomic uint64_t sent;
    _Atomic uint64_t received;
    _Atomic uint64_t polled_ns; /* when TCP was last read */
};

/* The calling thread's recording state. */
struct thread {
    struct slot *slot;
    uint32_t generation; /* generation of the process this state belongs to */
    uint32_t index;
    uint32_t calls; /* calls made before it has a slot */
    uint8_t busy;   /* inside the slot's data: a signal handler stays out */
    uint8_t over;   /* the thread is ending */
    uint16_t skipped;
    uint32_t expect_long; /* bit set of kinds whose last call was long enough to read the times beforehand */
    uint32_t fruitless;   /* connection of the last receive that got nothing, if nothing else happened since */
    uint64_t cpu_ns;      /* CPU time at cpu_at_ns */
    uint64_t cpu_at_ns;
    uint64_t waited_ns;   /* recorded as waiting since then */
    uint64_t usual_ticks[2]; /* of file reads and writes that were long but did not block */
    uint64_t runqueue_ns; /* accumulated, as last read */
    uint64_t faults;      /* page faults that read from a disk, as last read */
    int both; /* the present call reads one file and writes another */
    uint64_t covered_ticks; /* approximate end of its recorded time */
};

/* State of a call between its start and its end. */
struct call {
    uint64_t start;
    uint64_t cpu_ns;
    int on;
};

extern __thread struct thread me __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern struct descriptor descriptors[DESCRIPTORS] __attribute__((visibility("hidden")));
/* 0: nothing is recorded (any longer), and no system calls are made beyond the program's own. */
extern int enabled __attribute__((visibility("hidden")));
extern uint64_t long_ticks __attribute__((visibility("hidden")));
extern uint64_t run_ticks __attribute__((visibility("hidden")));
/* Nanoseconds per tick, times 2^32. */
extern uint64_t tick_scale __attribute__((visibility("hidden")));
/* Directory of the rings. */
extern char ring_directory[RING_DIRECTORY_BYTES] __attribute__((visibility("hidden")));
/* Wiped to 0 by the kernel in a forked child. */
extern uint32_t *generation __attribute__((visibility("hidden")));
extern struct header *header __attribute__((visibility("hidden")));

/* core.c */
uint64_t now_ns(void);
uint64_t cpu_time_ns(void);
void became_another_program(int failed);
int stop_recording(void);
void resume_recording(void);
long raw(long number, long a, long b, long c, long d, long e, long f);

/* ring.c */
void first_generation(uint32_t *page);
/* Whether the calling thread knows the process's ring; false in a forked child that has not noticed the fork yet. */
int acquainted(void);
int is_ringless_child(void);
void notice_fork(void);
int attach(void);
void end_slot(void);
int push(const struct record *records, uint32_t many);
uint32_t tid_of(pthread_t thread);
int alone(void);
void note_unseen(uint32_t bit);

/* calls.c */
void end_call(struct call *call, uint32_t kind, uint32_t object, int64_t size, uint64_t offset, uint32_t waker, uint32_t context);
void add_run(uint32_t kind, uint32_t object, int64_t size, uint64_t offset, uint64_t ticks);
void hand_over(void);
uint64_t disk_faults(void);
void detach(void);

void note_status(pid_t child, int status);

/* looks.c */
void looked(uint32_t kind, int at, const char *name, long result);
void tried_lock(int fd, int result);
void called(int fd, const struct sockaddr *to, socklen_t length, int result, int error);
void record_looks(void);
void paused(const struct call *call);
void forked_looks(void);

/* process.c */
void renamed(void);

/* environment.c */
int keep_setting(char *directory, size_t directory_bytes, uint64_t *scale, long *filters);
void hide(char **environment);
char **with_library(char *const environment[], char **room, char *strings);
size_t environment_room(char *const environment[], size_t *strings_bytes);
int lend(void);
void take_back(int was_lent);

/* confine.c */
int may_call(long filters);

/* objects.c */
struct descriptor *find_descriptor(int fd, int64_t moved_out, int64_t moved_in);
void forget(int fd);
void forget_range(unsigned first, unsigned last);
void opened(int fd, int flags);
void connected(int fd, int accepted);
void listens(int fd);
/* Where the call that names a datagram socket sent to; NULL: it sent nothing. */
void addressed(const struct sockaddr *to, socklen_t length);
void poll_tcp(int fd, struct descriptor *d);
/* A large file was mapped at `fd`, or a mapping was removed. mapped_object returns the mapped file's object if there
 * can be only one. */
void mapped(int fd);
void link_of(char *link, int fd);
uint32_t mapped_object(void);
void forked_objects(void);

/* Copies a text and returns its end. */
static inline char *append(char *to, const char *text) {
    while (*text) *to++ = *text++;
    *to = 0;
    return to;
}

#if defined(__x86_64__)
static inline uint64_t counter(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
#elif defined(__aarch64__)
static inline uint64_t counter(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}
#else
static inline uint64_t counter(void) { return now_ns(); }
#endif

extern int use_counter __attribute__((visibility("hidden")));

static inline uint64_t ticks(void) { return likely(use_counter) ? counter() : now_ns(); }

/* Called before a call on `fd` (-1: no descriptor). */
static inline void begin(struct call *call, uint32_t kind, int fd) {
    call->on = enabled;
    if (unlikely(!enabled)) return;
    call->cpu_ns = ABSENT;
    /* In a forked child the slot is the parent's and not mapped; the generation shows this. */
    if (unlikely(me.slot == NULL || me.generation != *generation)) {
        call->start = ticks();
        return;
    }
    if (unlikely(me.expect_long & 1u << kind)) call->cpu_ns = cpu_time_ns();
    struct slot *slot = me.slot;
    slot->call_object = (unsigned)fd < DESCRIPTORS ? atomic_load_explicit(&descriptors[fd].object, memory_order_relaxed) : 0;
    slot->call_ticks = call->start = ticks();
    atomic_store_explicit(&slot->call_kind, kind, memory_order_release);
}

#endif
