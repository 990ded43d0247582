/* Records calls: a short call joins a run of like calls, a long one becomes a record of its own, with the thread's
 * off-CPU time in it. */
#include "internal.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* A forked process gets a ring after this many calls, or after a long one. */
#define CALLS_WORTH_A_RING 32
/* Maximum calls lost to a stuck `busy` (a signal handler jumped out of the middle). */
#define BUSY_PATIENCE 1000

static uint64_t ns_of(uint64_t ticks) { return (uint64_t)((unsigned __int128)ticks * tick_scale >> 32); }

static void lose(void) { atomic_fetch_add_explicit(&me.slot->lost, 1, memory_order_relaxed); }

static void push_or_lose(const struct record *record) {
    if (!push(record, 1)) lose();
}

static struct record bare(uint32_t type, uint32_t kind, uint64_t start_ns, uint64_t duration_ns) {
    struct record record = {.type = (uint8_t)type, .kind = (uint8_t)kind, .count = 1, .start_ns = start_ns, .duration_ns = duration_ns,
                            .offset = ABSENT, .cpu_ns = ABSENT, .runqueue_ns = ABSENT};
    return record;
}

/* Pushes the runs, one after another, up to `end_ns`. Returns the start of the first. A run that does not fit stays
 * open, so nothing is lost. */
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

/* Reads both clocks. The thread may be interrupted in between, so the counter is read last: a call's start is its end
 * less its ticks, and must not be computed too late, or bytes would seem unsent when they were already in flight. */
static void set_anchor(uint64_t *tick_now, uint64_t *ns_now) {
    uint64_t before;
    int tries = 0;
    do {
        before = ticks();
        *ns_now = me.slot->anchor_ns = now_ns();
        *tick_now = me.slot->anchor_ticks = ticks();
    } while (ns_of(*tick_now - before) > ANCHOR_NS && ++tries < ANCHOR_TRIES);
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

/* Whether the thread may be recorded now; gives it a slot when it qualifies for one. */
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

/* Returns the calling thread's page faults that read from a disk. */
uint64_t disk_faults(void) {
    struct rusage usage;
    return raw(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0, 0, 0, 0) == 0 ? (uint64_t)usage.ru_majflt : 0;
}

static void emit_ran(uint64_t from_ns, uint64_t ran) {
    if (ran < RAN_NS) return;
    struct record record = bare(RECORD_SPAN, KIND_RUN, from_ns, ran);
    record.context = CONTEXT_BETWEEN;
    record.cpu_ns = ran;
    record.runqueue_ns = 0;
    push_or_lose(&record);
}

/* Records `off` ns off the CPU, between `from_ns` and `to_ns`, that no other record covers: queued, by the kernel's
 * count; reading mapped pages from a disk, if there were such faults; otherwise of unknown reason (a C library lock,
 * a direct system call, a stop). The rest is running, recorded if long, so that a gap is known to be work. */
static void emit_off(uint64_t from_ns, uint64_t to_ns, uint64_t off) {
    uint64_t gap = to_ns > from_ns ? to_ns - from_ns : 0;
    if (off > gap) off = gap;
    if (off < OFF_NS) {
        emit_ran(from_ns, gap);
        return;
    }
    uint64_t runqueue = read_runqueue(), queued = 0;
    if (runqueue != ABSENT) {
        queued = runqueue - me.runqueue_ns;
        if (queued > off) queued = off;
        /* The remainder may belong to the next call. */
        me.runqueue_ns += queued;
    }
    uint64_t faults = disk_faults(), blocked = off - queued;
    uint32_t object = faults != me.faults ? mapped_object() : 0;
    me.faults = faults;
    if (blocked >= LONG_NS) {
        struct record record = bare(RECORD_SPAN, object != 0 ? KIND_READ : KIND_WAIT_OTHER, from_ns, blocked);
        record.object = object;
        record.context = CONTEXT_BETWEEN;
        record.cpu_ns = record.runqueue_ns = 0;
        push_or_lose(&record);
    }
    if (queued >= LONG_NS) {
        struct record record = bare(RECORD_SPAN, KIND_WAIT_RUNQUEUE, from_ns + blocked, queued);
        record.context = CONTEXT_BETWEEN;
        record.cpu_ns = 0;
        record.runqueue_ns = queued;
        push_or_lose(&record);
    }
    emit_ran(from_ns + off, gap - off);
}

/* Returns the unrecorded off-CPU time. The thread ran for `ran` since its CPU time was last read; up to `until_ns`
 * some of the time is recorded as waiting. */
static uint64_t off_since_asked(uint64_t ran, uint64_t until_ns) {
    uint64_t passed = until_ns > me.cpu_at_ns ? until_ns - me.cpu_at_ns : 0;
    passed = passed > me.waited_ns ? passed - me.waited_ns : 0;
    return passed > ran ? passed - ran : 0;
}

static void asked(uint64_t cpu, uint64_t at_ns) {
    me.cpu_ns = cpu;
    me.cpu_at_ns = at_ns;
    me.waited_ns = 0;
}

/* Pushes the runs and a record of the time before them. A child in its parent's memory (vfork) has a CPU time of its
 * own, which says nothing about the parent. */
static void settle(uint64_t cpu, uint64_t end_ns) {
    if (cpu < me.cpu_ns) {
        flush_runs(end_ns);
        return;
    }
    uint64_t before = me.slot->covered_ns, off = off_since_asked(cpu - me.cpu_ns, end_ns);
    uint64_t first = flush_runs(end_ns);
    emit_off(before, first, off);
    asked(cpu, end_ns);
}

/* Returns how long the thread ran in a call from `start_ns`: from its CPU time before the call or, failing that, from
 * the last reading, assuming that it ran in between where nothing else was recorded. */
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

/* Ends a long call that did not block: the thread worked throughout. */
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
    uint64_t cpu = waits ? 0 : ABSENT, cpu_end = ABSENT;
    uint64_t uncovered = end_ns > slot->covered_ns ? end_ns - slot->covered_ns : 0;
    if (uncovered >= ASK_NS || kind == KIND_READ || kind == KIND_WRITE || waker != 0) {
        cpu_end = cpu_time_ns();
        if (cpu_end < me.cpu_ns) cpu_end = me.cpu_ns;
        cpu = cpu_within(call, cpu_end, start_ns, duration);
        if (waits && cpu < LONG_NS) cpu = 0;
        if (!waits && duration >= ASK_BEFORE_NS) me.expect_long |= 1u << kind;
    }
    uint64_t off = cpu == ABSENT ? duration : duration - cpu;
    if (off < LONG_NS && waits) {
        /* It polled and did not wait. */
        settle(cpu_end != ABSENT ? cpu_end : cpu_time_ns(), end_ns);
        return;
    }
    if (off < LONG_NS) {
        end_worked(kind, object, size, offset, took);
        settle(cpu_end, end_ns);
        return;
    }
    uint64_t before = slot->covered_ns, first = flush_runs(start_ns);
    if (cpu_end != ABSENT) emit_off(before, first, off_since_asked(cpu_end - me.cpu_ns - cpu, start_ns));
    struct record record = bare(RECORD_SPAN, kind, start_ns, duration);
    record.object = object;
    record.both = (uint8_t)me.both;
    record.context = (uint8_t)context;
    record.waker = waker;
    record.offset = offset;
    record.size = size;
    record.cpu_ns = cpu;
    if (off >= RUNQUEUE_NS) {
        uint64_t runqueue = read_runqueue();
        if (runqueue != ABSENT) {
            uint64_t waited = runqueue - me.runqueue_ns;
            record.runqueue_ns = waited < off ? waited : off;
            me.runqueue_ns = runqueue;
        }
    }
    push_or_lose(&record);
    slot->covered_ns = end_ns;
    if (cpu_end != ABSENT) asked(cpu_end, end_ns);
    else me.waited_ns += duration;
}

/* Whether a file read or write took about as long as earlier ones that did not block. */
static int is_usual(uint32_t kind, uint64_t took) {
    if (kind != KIND_READ && kind != KIND_WRITE) return 0;
    uint64_t usual = me.usual_ticks[kind - KIND_READ];
    return took < usual + usual / 2 && took < long_ticks * (ASK_BEFORE_NS / LONG_NS);
}

/* Ends a call: `size` is bytes or -errno. The caller preserves errno. */
void end_call(struct call *call, uint32_t kind, uint32_t object, int64_t size, uint64_t offset, uint32_t waker, uint32_t context) {
    if (!call->on || unlikely(!enabled)) return;
    uint64_t now = ticks();
    uint64_t took = now - call->start;
    int is_long = took >= long_ticks;
    int is_first = me.slot == NULL || me.generation != *generation;
    if (!ready(is_long) || !enter_slot()) return;
    struct slot *slot = me.slot;
    /* The wait for which a forked process got its ring is recorded as well. (The age of any other thread is unknown.) */
    if (unlikely(is_first && is_long && slot->tid == slot->pid && kind >= KIND_WAIT_NETWORK)) me.cpu_at_ns = slot->covered_ns -= ns_of(took);
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
                settle(cpu_time_ns(), ns);
            }
        }
    }
    me.busy = 0;
}

/* Pushes what the calling thread has, and gives its slot to the reader. */
void detach(void) {
    if (!enabled || me.slot == NULL || me.generation != *generation || !enter_slot()) return;
    uint64_t tick_now, ns;
    set_anchor(&tick_now, &ns);
    settle(cpu_time_ns(), ns);
    end_slot();
    me.busy = 0;
}

/* Pushes the calling thread's runs. */
void hand_over(void) {
    if (me.slot == NULL || me.generation != *generation || !enter_slot()) return;
    uint64_t tick_now, ns;
    set_anchor(&tick_now, &ns);
    settle(cpu_time_ns(), ns);
    me.busy = 0;
}

/* Records how a child ended, which only its parent is told. */
void note_status(pid_t child, int status) {
    if (!enabled || me.slot == NULL || me.generation != *generation || !enter_slot()) return;
    struct record record = bare(RECORD_STATUS, KIND_NONE, 0, 0);
    record.waker = (uint32_t)child;
    record.size = status;
    push_or_lose(&record);
    me.busy = 0;
}
