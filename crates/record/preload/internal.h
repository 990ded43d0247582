/* What the library's files share. See core.c for the idea. */
#ifndef THALWEG_INTERNAL_H
#define THALWEG_INTERNAL_H

#define _GNU_SOURCE
#include "shared.h"
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* A call that lasted longer may have blocked. */
#define LONG_NS 20000u
/* Asking for the CPU time costs up to a microsecond, for the run queue several: only where a call is long enough to bear it. */
#define ASK_NS 100000u
/* Unrecorded time off the processor is looked into from this length on. */
#define OFF_NS 100000u
/* Running between calls is recorded from here on. */
#define RAN_NS 10000000u
#define ASK_BEFORE_NS 200000u
#define RUNQUEUE_NS 400000u
/* Both clocks are read again where the thread was interrupted between them for longer, a few times. */
#define ANCHOR_NS 1000u
#define ANCHOR_TRIES 4
/* Runs are handed over after this time at the latest. */
#define RUN_NS 10000000u
/* Time between two polls of TCP's figures of one connection. */
#define TCP_NS 5000000u
#define DESCRIPTORS 16384
#define NAME_BYTES 4096
#define RING_DIRECTORY_BYTES 256

/* The function that we stand in front of. All are looked up when the library is loaded. */
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

/* One descriptor. Offsets are positions in a connection's two streams. */
struct descriptor {
    _Atomic uint32_t object;
    uint8_t class;
    uint8_t way;   /* as `context` of an object's record */
    uint8_t sync;  /* opened so that writes are on stable storage when they return */
    uint8_t known; /* the offsets are known */
    _Atomic uint64_t sent;
    _Atomic uint64_t received;
    _Atomic uint64_t polled_ns; /* when TCP was last asked */
};

/* The calling thread, as far as it is recorded. */
struct thread {
    struct slot *slot;
    uint32_t generation; /* of the process this is true of */
    uint32_t index;
    uint32_t calls; /* before it has a slot */
    uint8_t busy;   /* in the middle of the slot's data: a signal handler keeps out */
    uint8_t over;   /* the thread is ending */
    uint16_t skipped;
    uint32_t expect_long; /* kinds whose last call was so long that asking before is worth it: bits */
    uint32_t fruitless;   /* connection of the last receive that got nothing, if nothing else came between */
    uint64_t cpu_ns;      /* CPU time at cpu_at_ns */
    uint64_t cpu_at_ns;
    uint64_t waited_ns;   /* recorded since then as waiting */
    uint64_t usual_ticks[2]; /* of reads and writes of files that were long and did not block */
    uint64_t runqueue_ns; /* accumulated, when last asked */
    uint64_t faults;      /* page faults that read from a disk, when last asked */
    uint64_t covered_ticks; /* about when its time was last recorded */
};

/* One call, from before to after. */
struct call {
    uint64_t start;
    uint64_t cpu_ns;
    int on;
};

extern __thread struct thread me __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern struct descriptor descriptors[DESCRIPTORS] __attribute__((visibility("hidden")));
/* 0: nothing is recorded (any longer), and no system call is made that the program did not ask for. */
extern int enabled __attribute__((visibility("hidden")));
extern uint64_t long_ticks __attribute__((visibility("hidden")));
extern uint64_t run_ticks __attribute__((visibility("hidden")));
/* Nanoseconds of a tick, times 2^32. */
extern uint64_t tick_scale __attribute__((visibility("hidden")));
/* Where rings are made. */
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
/* Whether the calling thread has met the process' ring: not so in a forked child that has not noticed yet. */
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
void poll_tcp(int fd, struct descriptor *d);
/* A large file is mapped at `fd`; or some mapping is gone. Its number as an object, where only one can be meant. */
void mapped(int fd);
uint32_t mapped_object(void);
void forked_objects(void);

/* Copies a text and gives its end. */
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

/* Before a call on `fd` (-1: on none). */
static inline void begin(struct call *call, uint32_t kind, int fd) {
    call->on = enabled;
    if (unlikely(!enabled)) return;
    call->cpu_ns = ABSENT;
    /* In a forked child the slot is its parent's and not mapped: the generation shows it. */
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
