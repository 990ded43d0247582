/* A library that is loaded into a program in front of the C library, and notes what the program's threads wait for.
 *
 * Each function here does what the one behind it does, with a clock read before and after. A call shorter than LONG_NS did not
 * block: it is added to a run of like calls, in memory, for some tens of nanoseconds. A longer one asks for the thread's CPU
 * time; if it was off the processor it becomes a record of its own in the thread's ring. The recorder drains the rings.
 *
 * What must stay true: errno is what the function behind left; nothing here takes a lock, allocates, or blocks; a signal
 * handler that calls in the middle finds `me.busy` and leaves the slot alone; after a fork the child has no ring (its
 * generation is wiped by the kernel) until it has made enough calls to be worth one; a full ring, or a recorder that is gone,
 * costs a count. */
#include "internal.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A forked process is given a ring after so many calls, or after one that was long. */
#define CALLS_WORTH_A_RING 32
/* What is allocated of a ring at first: many threads never fill it. */
#define FIRST_RECORDS 192
/* Calls that a stuck `busy` (a handler jumped out of the middle) may cost. */
#define BUSY_PATIENCE 1000

__thread struct thread me;
int enabled;
int use_counter;
uint64_t long_ticks = LONG_NS;
static uint64_t run_ticks = RUN_NS;
struct header *header;

static char directory[256];
static char file_path[320];
static uint64_t tick_scale = 1ull << 32;
static pthread_key_t at_thread_end;
uint32_t *generation;
static uint32_t generations;
static _Atomic uint32_t mapping; /* 0 no ring, 1 being made, 2 there, 3 not to be had */
static uint32_t allocated[SLOTS];
static struct {
    pthread_t who;
    uint32_t tid;
} threads[SLOTS];

extern struct real __start_thalweg_real[] __attribute__((visibility("hidden")));
extern struct real __stop_thalweg_real[] __attribute__((visibility("hidden")));

void *resolve(struct real *real) {
    void *found = NULL;
#if defined(__x86_64__)
    /* Functions of which older programs have an older version: ours is for today's. */
    if (strncmp(real->name, "pthread_cond_", 13) == 0) found = dlvsym(RTLD_NEXT, real->name, "GLIBC_2.3.2");
    if (strncmp(real->name, "posix_spawn", 11) == 0) found = dlvsym(RTLD_NEXT, real->name, "GLIBC_2.15");
#endif
    if (found == NULL) found = dlsym(RTLD_NEXT, real->name);
    real->function = found;
    return found;
}

long raw(long number, long a, long b, long c, long d, long e, long f) { return REAL(syscall)(number, a, b, c, d, e, f); }

uint64_t now_ns(void) {
    struct timespec time;
    REAL(clock_gettime)(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t cpu_time_ns(void) {
    struct timespec time;
    REAL(clock_gettime)(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t ns_of(uint64_t ticks) { return (uint64_t)((unsigned __int128)ticks * tick_scale >> 32); }

/* Whether the calling thread has met the process' ring: not so in a forked child that has not noticed yet. */
static int acquainted(void) { return *generation != 0 && me.generation == *generation && header != NULL; }

void note_unseen(uint32_t bit) {
    if (acquainted()) atomic_fetch_or_explicit(&header->unseen, bit, memory_order_relaxed);
}

/* ---- the process' file ---- */

static int allocate(int fd, uint32_t index, uint32_t records) {
    uint64_t from = PAGE + (uint64_t)index * SLOT_BYTES;
    uint64_t length = PAGE + (uint64_t)records * sizeof(struct record);
    return (int)raw(SYS_fallocate, fd, 0, (long)from, (long)length, 0, 0);
}

static char *append_number(char *to, uint64_t number) {
    char digits[24];
    int n = 0;
    do digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (n > 0) *to++ = digits[--n];
    *to = 0;
    return to;
}

/* Whether the process may have a file so large, and a mapping of it, without meeting a limit earlier than it would have: beyond the one
 * there is a signal, and the other is the program's to use up. */
static int affordable(void) {
    struct rlimit file = {0, 0}, space = {0, 0};
    return raw(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&file, 0, 0) == 0 && file.rlim_cur >= FILE_BYTES &&
           raw(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&space, 0, 0) == 0 && space.rlim_cur == RLIM_INFINITY;
}

static int make_file(void) {
    if (!affordable()) return 0;
    uint64_t created = now_ns();
    uint32_t pid = (uint32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
    char hidden[sizeof file_path + 8];
    char *end = append(append(file_path, directory), "/");
    end = append_number(append(append_number(end, pid), "."), created);
    append(append(hidden, file_path), ".new");
    append(end, ".ring");
    int fd = (int)raw(SYS_openat, AT_FDCWD, (long)hidden, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600, 0, 0);
    if (fd < 0) return 0;
    void *at = MAP_FAILED;
    if (raw(SYS_ftruncate, fd, (long)FILE_BYTES, 0, 0, 0, 0) == 0 && raw(SYS_fallocate, fd, 0, 0, PAGE, 0, 0) == 0 &&
        allocate(fd, 0, FIRST_RECORDS) == 0) {
        at = REAL(mmap)(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    }
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    if (at == MAP_FAILED) {
        raw(SYS_unlink, (long)hidden, 0, 0, 0, 0, 0);
        return 0;
    }
    madvise(at, FILE_BYTES, MADV_DONTFORK);
    header = at;
    memset(allocated, 0, sizeof allocated);
    allocated[0] = FIRST_RECORDS;
    header->magic = MAGIC;
    header->pid = pid;
    header->parent = (uint32_t)raw(SYS_getppid, 0, 0, 0, 0, 0, 0);
    header->created_ns = created;
    header->tick_scale = tick_scale;
    /* Its name is the reader's sign that it is whole. */
    return raw(SYS_rename, (long)hidden, (long)file_path, 0, 0, 0, 0) == 0;
}

static int have_file(void) {
    uint32_t state = atomic_load_explicit(&mapping, memory_order_acquire);
    if (likely(state == 2)) return 1;
    uint32_t none = 0;
    if (state != 0 || !atomic_compare_exchange_strong(&mapping, &none, 1)) return 0;
    int made = make_file();
    atomic_store_explicit(&mapping, made ? 2 : 3, memory_order_release);
    return made;
}

static struct slot *slot_at(uint32_t index) { return (struct slot *)((char *)header + PAGE + (uint64_t)index * SLOT_BYTES); }

static int grow(uint32_t index, uint32_t records) {
    if (allocated[index] >= records) return 1;
    int fd = (int)raw(SYS_openat, AT_FDCWD, (long)file_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0, 0, 0);
    if (fd < 0) return 0;
    int grown = allocate(fd, index, records) == 0;
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    if (grown) allocated[index] = records;
    return grown;
}

static uint32_t find_slot(void) {
    for (uint32_t index = 0; index < SLOTS; index++) {
        uint32_t free_one = SLOT_FREE;
        if (atomic_load_explicit(&header->states[index], memory_order_relaxed) == SLOT_FREE &&
            atomic_compare_exchange_strong(&header->states[index], &free_one, SLOT_BEING_MADE)) {
            return index;
        }
    }
    return SLOTS;
}

/* In a forked child the ring is its parent's, and not mapped. */
static void notice_fork(void) {
    if (*generation == 0) {
        *generation = ++generations;
        header = NULL;
        memset(threads, 0, sizeof threads);
        forked_objects();
        atomic_store(&mapping, 0);
    }
    memset(&me, 0, sizeof me);
    me.generation = *generation;
}

/* Gives the calling thread a slot; 0: there is none. */
int attach(void) {
    if (!enabled) return 0;
    if (me.generation != *generation || *generation == 0) notice_fork();
    if (me.over || me.busy || !have_file()) return 0;
    me.busy = 1;
    me.generation = *generation;
    uint32_t index = find_slot();
    if (index == SLOTS || !grow(index, FIRST_RECORDS)) {
        if (index < SLOTS) atomic_store(&header->states[index], SLOT_FREE);
        atomic_fetch_add(&header->untracked, 1);
        me.over = 1; /* It will not be different next time. */
        me.busy = 0;
        return 0;
    }
    struct slot *slot = slot_at(index);
    slot->tid = (uint32_t)raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
    slot->pid = header->pid;
    REAL(prctl)(PR_GET_NAME, slot->name);
    memset(slot->runs, 0, sizeof slot->runs);
    atomic_store(&slot->call_kind, 0);
    slot->anchor_ticks = ticks();
    slot->attached_ns = slot->covered_ns = slot->anchor_ns = now_ns();
    slot->last_end_ticks = me.covered_ticks = slot->anchor_ticks;
    me.cpu_ns = cpu_time_ns();
    me.cpu_at_ns = slot->anchor_ns;
    me.index = index;
    me.expect_long = me.fruitless = 0;
    threads[index].who = pthread_self();
    threads[index].tid = slot->tid;
    atomic_store_explicit(&header->states[index], SLOT_USED, memory_order_release);
    me.slot = slot;
    me.busy = 0;
    return 1;
}

uint32_t tid_of(pthread_t thread) {
    for (uint32_t index = 0; index < SLOTS; index++) {
        if (threads[index].tid != 0 && pthread_equal(threads[index].who, thread)) return threads[index].tid;
    }
    return 0;
}

/* ---- records ---- */

/* Appends records, all or none. */
int push(const struct record *records, uint32_t many) {
    struct slot *slot = me.slot;
    uint64_t head = atomic_load_explicit(&slot->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&slot->tail, memory_order_acquire);
    uint64_t used = head - tail;
    if (unlikely(used + many > RING_RECORDS)) return 0;
    if (unlikely(head + many > allocated[me.index]) && !grow(me.index, RING_RECORDS)) return 0;
    for (uint32_t n = 0; n < many; n++) slot->ring[(head + n) % RING_RECORDS] = records[n];
    atomic_store_explicit(&slot->head, head + many, memory_order_release);
    return 1;
}

static void lose(void) { atomic_fetch_add_explicit(&me.slot->lost, 1, memory_order_relaxed); }

static void push_or_lose(const struct record *record) {
    if (!push(record, 1)) lose();
}

static struct record bare(uint32_t type, uint32_t kind, uint64_t start_ns, uint64_t duration_ns) {
    struct record record = {.type = (uint8_t)type, .kind = (uint8_t)kind, .count = 1, .start_ns = start_ns, .duration_ns = duration_ns,
                            .offset = ABSENT, .cpu_ns = ABSENT, .runqueue_ns = ABSENT};
    return record;
}

/* Hands over the runs: one after the other, up to `end_ns`. Returns where the first begins. A run for which there is no room
 * goes on: nothing of it is lost. */
static uint64_t flush_runs(uint64_t end_ns) {
    struct slot *slot = me.slot;
    uint64_t sum = 0, begin = end_ns, window = end_ns > slot->covered_ns ? end_ns - slot->covered_ns : 0;
    for (int n = 0; n < RUNS; n++)
        if (slot->runs[n].used) sum += ns_of(slot->runs[n].sum_ticks);
    if (sum == 0 && window == 0) sum = 1;
    for (int n = 0; n < RUNS; n++) {
        struct run *run = &slot->runs[n];
        if (!run->used) continue;
        uint64_t length = ns_of(run->sum_ticks);
        if (sum > window) length = (uint64_t)((unsigned __int128)length * window / sum);
        struct record record = bare(RECORD_RUN, run->kind, begin - length, length);
        record.count = run->count;
        record.object = run->object;
        record.offset = run->offset;
        record.size = run->error ? -(int64_t)run->error : (int64_t)run->bytes;
        record.cpu_ns = length;
        if (!push(&record, 1)) continue;
        begin -= length;
        run->used = 0;
    }
    if (end_ns > slot->covered_ns) slot->covered_ns = end_ns;
    me.covered_ticks = ticks();
    return begin;
}

static void set_anchor(uint64_t *tick_now, uint64_t *ns_now) {
    *tick_now = me.slot->anchor_ticks = ticks();
    *ns_now = me.slot->anchor_ns = now_ns();
}

/* Adds a call to the run of its kind and object. */
void add_run(uint32_t kind, uint32_t object, int64_t size, uint64_t offset, uint64_t took) {
    struct slot *slot = me.slot;
    int32_t error = size < 0 ? (int32_t)-size : 0;
    struct run *room = NULL;
    for (int n = 0; n < RUNS; n++) {
        struct run *run = &slot->runs[n];
        if (run->used && run->kind == kind && run->object == object && run->error == error) {
            run->count++;
            run->sum_ticks += took;
            if (size > 0) run->bytes += (uint64_t)size;
            return;
        }
        if (!run->used && room == NULL) room = run;
    }
    if (room == NULL) {
        uint64_t tick_now, ns;
        set_anchor(&tick_now, &ns);
        flush_runs(ns);
        for (int n = 0; n < RUNS; n++)
            if (!slot->runs[n].used && room == NULL) room = &slot->runs[n];
        if (room == NULL) {
            lose();
            return;
        }
    }
    room->kind = (uint8_t)kind;
    room->object = object;
    room->count = 1;
    room->error = error;
    room->sum_ticks = took;
    room->bytes = size > 0 ? (uint64_t)size : 0;
    room->offset = offset;
    room->used = 1;
}

/* ---- a call ---- */

/* Whether the thread may be recorded now; gives it a slot when it is time for one. */
static int ready(int worth_it) {
    if (unlikely(me.generation != *generation || *generation == 0)) notice_fork();
    if (likely(me.slot != NULL)) return 1;
    if (me.over || (!worth_it && ++me.calls < CALLS_WORTH_A_RING)) return 0;
    return attach();
}

static int enter_slot(void) {
    if (likely(!me.busy)) {
        me.busy = 1;
        return 1;
    }
    if (++me.skipped > BUSY_PATIENCE) me.busy = me.skipped = 0;
    return 0;
}

static uint64_t read_runqueue(void) {
    char text[96];
    int fd = (int)raw(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return ABSENT;
    long n = raw(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    if (n <= 0) return ABSENT;
    text[n] = 0;
    char *at = text;
    while (*at && *at != ' ') at++;
    uint64_t value = 0;
    for (at++; *at >= '0' && *at <= '9'; at++) value = value * 10 + (uint64_t)(*at - '0');
    return value;
}

/* The time since the thread's last span that no run covers: taken as running unless its CPU time says otherwise. */
static uint64_t tell_gap(uint64_t from_ns, uint64_t to_ns, uint64_t cpu_gap, uint64_t runs_ns) {
    if (to_ns <= from_ns || cpu_gap == ABSENT) return 0;
    uint64_t gap = to_ns - from_ns;
    uint64_t cpu = cpu_gap > runs_ns ? cpu_gap - runs_ns : 0;
    if (gap < LONG_NS || cpu + LONG_NS > gap) return 0;
    struct record record = bare(RECORD_SPAN, KIND_APP, from_ns, gap);
    record.cpu_ns = cpu;
    push_or_lose(&record);
    return gap - cpu;
}

/* How long the thread ran in a call from `start_ns`: by the time it had before, else by what it had when last asked, taking it to
 * have run in between where nothing else was told. */
static uint64_t cpu_within(const struct call *call, uint64_t cpu_end, uint64_t start_ns, uint64_t duration) {
    uint64_t cpu = 0;
    if (call->cpu_ns != ABSENT) {
        cpu = cpu_end - call->cpu_ns;
    } else {
        uint64_t ran = cpu_end - me.cpu_ns, passed = start_ns > me.cpu_at_ns ? start_ns - me.cpu_at_ns : 0;
        passed = passed > me.waited_ns ? passed - me.waited_ns : 0;
        cpu = ran > passed ? ran - passed : 0;
    }
    return cpu < duration ? cpu : duration;
}

/* Ends a long call that did not block: it worked all the while. */
static void end_worked(uint32_t kind, uint32_t object, int64_t size, uint64_t offset, uint64_t took) {
    if (kind == KIND_READ || kind == KIND_WRITE) {
        uint64_t *usual = &me.usual_ticks[kind - KIND_READ];
        *usual = *usual == 0 ? took : *usual - *usual / 4 + took / 4;
    }
    add_run(kind, object, size, offset, took);
}

static void end_long(struct call *call, uint32_t kind, uint32_t object, int64_t size, uint64_t offset, uint32_t waker, uint32_t context) {
    struct slot *slot = me.slot;
    uint64_t tick_now, end_ns;
    set_anchor(&tick_now, &end_ns);
    uint64_t took = tick_now - call->start, duration = ns_of(took);
    uint64_t start_ns = end_ns - duration;
    if (start_ns < slot->covered_ns) start_ns = slot->covered_ns;
    duration = end_ns - start_ns;
    slot->last_end_ticks = tick_now;
    int waits = kind >= KIND_WAIT_NETWORK;
    int fresh = me.cpu_at_ns == slot->covered_ns;
    uint64_t cpu = waits ? 0 : ABSENT, cpu_gap = ABSENT, cpu_end = me.cpu_ns;
    if (!waits && (duration >= ASK_NS || kind == KIND_READ || kind == KIND_WRITE)) {
        cpu_end = cpu_time_ns();
        cpu = cpu_within(call, cpu_end, start_ns, duration);
        if (call->cpu_ns != ABSENT && fresh) cpu_gap = call->cpu_ns - me.cpu_ns;
        if (duration >= ASK_BEFORE_NS) me.expect_long |= 1u << kind;
    }
    uint64_t off = cpu == ABSENT ? duration : duration - cpu;
    if (off < LONG_NS && !waits) {
        end_worked(kind, object, size, offset, took);
        uint64_t before = slot->covered_ns, first = flush_runs(end_ns);
        if (fresh && call->cpu_ns != ABSENT) tell_gap(before, first, cpu_end - me.cpu_ns, end_ns - first);
        me.cpu_ns = cpu_end;
        me.cpu_at_ns = end_ns;
        me.waited_ns = 0;
        return;
    }
    uint64_t before = slot->covered_ns, first = flush_runs(start_ns);
    uint64_t preempted = tell_gap(before, first, cpu_gap, start_ns - first);
    struct record record = bare(RECORD_SPAN, kind, start_ns, duration);
    record.object = object;
    record.context = (uint8_t)context;
    record.waker = waker;
    record.offset = offset;
    record.size = size;
    record.cpu_ns = cpu;
    if (off >= RUNQUEUE_NS) {
        uint64_t runqueue = read_runqueue();
        if (runqueue != ABSENT) {
            uint64_t waited = runqueue - me.runqueue_ns;
            waited = waited > preempted ? waited - preempted : 0;
            record.runqueue_ns = waited < off ? waited : off;
            me.runqueue_ns = runqueue;
        }
    }
    push_or_lose(&record);
    slot->covered_ns = end_ns;
    if (cpu_end != me.cpu_ns) {
        me.cpu_ns = cpu_end;
        me.cpu_at_ns = end_ns;
        me.waited_ns = 0;
    } else {
        me.waited_ns += duration;
    }
}

/* A read or write of a file that took about as long as those that were found to have worked all the while. */
static int is_usual(uint32_t kind, uint64_t took) {
    if (kind != KIND_READ && kind != KIND_WRITE) return 0;
    uint64_t usual = me.usual_ticks[kind - KIND_READ];
    return took < usual + usual / 2 && took < long_ticks * (ASK_BEFORE_NS / LONG_NS);
}

/* Ends a call: `size` are bytes, or -errno. errno itself is kept by the caller. */
void end_call(struct call *call, uint32_t kind, uint32_t object, int64_t size, uint64_t offset, uint32_t waker, uint32_t context) {
    if (!call->on || unlikely(!enabled)) return;
    uint64_t now = ticks();
    uint64_t took = now - call->start;
    int is_long = took >= long_ticks;
    if (!ready(is_long) || !enter_slot()) return;
    struct slot *slot = me.slot;
    atomic_store_explicit(&slot->call_kind, 0, memory_order_relaxed);
    if (unlikely(is_long && !is_usual(kind, took))) {
        end_long(call, kind, object, size, offset, waker, context);
    } else {
        me.expect_long &= ~(1u << kind);
        if (kind < KIND_WAIT_NETWORK) {
            add_run(kind, object, size, offset, took);
            slot->last_end_ticks = now;
            if (unlikely(now - me.covered_ticks > run_ticks)) {
                uint64_t tick_now, ns;
                set_anchor(&tick_now, &ns);
                flush_runs(ns);
            }
        }
    }
    me.busy = 0;
}

/* ---- beginning and end ---- */

static void thread_ends(void *unused) {
    (void)unused;
    detach();
}

/* Hands over what the calling thread has, and gives its slot to the reader. */
void detach(void) {
    if (!enabled || me.slot == NULL || me.generation != *generation || !enter_slot()) return;
    uint64_t tick_now, ns;
    set_anchor(&tick_now, &ns);
    uint64_t cpu = cpu_time_ns(), before = me.slot->covered_ns, first = flush_runs(ns);
    if (me.cpu_at_ns == before) tell_gap(before, first, cpu - me.cpu_ns, ns - first);
    threads[me.index].tid = 0;
    atomic_store_explicit(&header->states[me.index], SLOT_ENDED, memory_order_release);
    me.slot = NULL;
    me.over = 1;
    me.busy = 0;
}

/* Hands over the calling thread's runs. */
static void hand_over(void) {
    if (me.slot == NULL || me.generation != *generation || !enter_slot()) return;
    uint64_t tick_now, ns;
    set_anchor(&tick_now, &ns);
    flush_runs(ns);
    me.busy = 0;
}

/* Before `exec`: this image's file has ended, unless the call fails. */
void became_another_program(int failed) {
    if (!acquainted()) return;
    if (!failed) hand_over();
    atomic_store(&header->ended, failed ? 0 : BECAME_ANOTHER);
}

/* Before the process gives up calls that we need, for good: nothing is recorded from here on. 0: nothing was anyway. */
int stop_recording(void) {
    if (!enabled) return 0;
    int saved = errno;
    /* A forked child that does this first of all is told of too. */
    if (!acquainted() || me.slot == NULL) attach();
    note_unseen(UNSEEN_CONFINED);
    hand_over();
    enabled = 0;
    int others = 0;
    for (uint32_t index = 0; acquainted() && index < SLOTS; index++)
        others += atomic_load_explicit(&header->states[index], memory_order_relaxed) == SLOT_USED;
    /* A filter may be for all threads: let those that are in the middle of ours come out. */
    struct timespec moment = {.tv_nsec = 1000000};
    if (others > 1) raw(SYS_nanosleep, (long)&moment, 0, 0, 0, 0, 0);
    errno = saved;
    return 1;
}

/* It could not. */
void resume_recording(void) {
    enabled = 1;
    if (acquainted()) atomic_fetch_and_explicit(&header->unseen, ~UNSEEN_CONFINED, memory_order_relaxed);
}

/* Whether the clock may be read here: where the processor's counter may not, neither may the clock that the kernel maps into programs.
 * A kernel that does not say is asked for the time only. */
static int may_read_clock(uint64_t *scale) {
#if defined(__x86_64__)
    int allowed = 0;
    if (REAL(prctl)(PR_GET_TSC, &allowed) != 0) *scale = 0;
    else return allowed == PR_TSC_ENABLE;
#endif
    (void)scale;
    return 1;
}

static void begin_recording(uint64_t scale) {
    void *page = REAL(mmap)(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, PAGE, MADV_WIPEONFORK) != 0 || pthread_key_create(&at_thread_end, thread_ends) != 0) return;
    if (scale != 0) {
        tick_scale = scale;
        use_counter = 1;
        long_ticks = (uint64_t)(((unsigned __int128)LONG_NS << 32) / scale);
        run_ticks = (uint64_t)(((unsigned __int128)RUN_NS << 32) / scale);
    }
    generation = page;
    *generation = generations = 1;
    enabled = 1;
    me.generation = 1;
    attach();
}

/* A program that runs under a filter of system calls from its start is left alone: until that is known, only what the loader itself
 * has just done is done. */
__attribute__((constructor)) static void start(int argc, char **argv, char **environment) {
    (void)argc, (void)argv;
    int saved = errno;
    uint64_t scale;
    long filters;
    for (struct real *real = __start_thalweg_real; real < __stop_thalweg_real; real++)
        if (real->function == NULL) resolve(real);
    if (keep_setting(directory, sizeof directory, &scale, &filters)) {
        hide(environment);
        if (may_call(filters) && may_read_clock(&scale)) begin_recording(scale);
    }
    errno = saved;
}

__attribute__((destructor)) static void stop(void) {
    if (enabled && acquainted()) {
        detach();
        atomic_store(&header->ended, 1);
    }
}

void watch_thread_end(void) { pthread_setspecific(at_thread_end, &me); }
