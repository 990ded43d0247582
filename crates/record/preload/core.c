/* A library preloaded in front of the C library that records what the program's threads wait for.
 *
 * Each function here calls the C library's, with a clock reading before and after. A call shorter than LONG_NS did
 * not block: it is added to an in-memory run of like calls, at a cost of some tens of nanoseconds. For a longer one
 * the thread's CPU time is read; if the thread was off the CPU, the call becomes a record of its own in the thread's
 * ring. The recorder drains the rings.
 *
 * Invariants: errno is as the C library left it; nothing here takes a lock, allocates, or blocks; a signal handler
 * that interrupts finds `me.busy` set and leaves the slot alone; after a fork the child has no ring (the kernel wipes
 * its generation) until it has made enough calls to qualify for one; a full ring, or a recorder that is gone, costs one
 * counter increment.
 *
 * This file begins and ends recording; ring.c has the process's file, calls.c the recording of calls. */
#include "internal.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int enabled;
int use_counter;
uint64_t long_ticks = LONG_NS;
uint64_t run_ticks = RUN_NS;
uint64_t tick_scale = 1ull << 32;
char ring_directory[RING_DIRECTORY_BYTES];
static pthread_key_t at_thread_end;

extern struct real __start_thalweg_real[] __attribute__((visibility("hidden")));
extern struct real __stop_thalweg_real[] __attribute__((visibility("hidden")));

void *resolve(struct real *real) {
    void *found = NULL;
#if defined(__x86_64__)
    /* Older programs use older versions of these functions; ours wraps today's. */
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

static void thread_ends(void *unused) {
    (void)unused;
    detach();
}

/* Called before `exec`: ends this image's file, unless the call fails. Leaves it alone in a child in its parent's
 * memory (vfork). */
void became_another_program(int failed) {
    if (!acquainted() || (uint32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0) != header->pid) return;
    if (!failed) hand_over();
    atomic_store(&header->ended, failed ? 0 : BECAME_ANOTHER);
}

/* Called before the process irrevocably gives up system calls that we need; stops recording. Returns 0 if nothing was
 * recorded anyway. */
int stop_recording(void) {
    if (!enabled) return 0;
    int saved = errno;
    /* A forked child whose first call is this one is recorded too. */
    if (!acquainted() || me.slot == NULL) attach();
    note_unseen(UNSEEN_CONFINED);
    hand_over();
    enabled = 0;
    int others = 0;
    for (uint32_t index = 0; acquainted() && index < SLOTS; index++)
        others += atomic_load_explicit(&header->states[index], memory_order_relaxed) == SLOT_USED;
    /* A filter may apply to all threads: wait for those inside our functions to leave. */
    struct timespec moment = {.tv_nsec = 1000000};
    if (others > 1) raw(SYS_nanosleep, (long)&moment, 0, 0, 0, 0, 0);
    errno = saved;
    return 1;
}

/* Resumes recording after a filter could not be installed. */
void resume_recording(void) {
    enabled = 1;
    if (acquainted()) atomic_fetch_and_explicit(&header->unseen, ~UNSEEN_CONFINED, memory_order_relaxed);
}

/* Whether the clock may be read here: if the CPU's counter may not be read, neither may the kernel's vDSO clock. If
 * the kernel does not say, only the time is read. */
static int may_read_clock(uint64_t *scale) {
#if defined(__x86_64__)
    int allowed = 0;
    if (REAL(prctl)(PR_GET_TSC, &allowed) != 0) *scale = 0;
    else return allowed == PR_TSC_ENABLE;
#endif
    (void)scale;
    return 1;
}

/* What a program looked for before it ended as failed is what it may have failed for. */
static void ends_with(int status, void *unused) {
    (void)unused;
    if (status != 0) record_looks();
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
    first_generation(page);
    enabled = 1;
    attach();
    on_exit(ends_with, NULL);
}

/* A program that starts under a system call filter is left alone: until that is ruled out, only calls are made that
 * the loader itself just made. */
__attribute__((constructor)) static void start(int argc, char **argv, char **environment) {
    (void)argc, (void)argv;
    int saved = errno;
    uint64_t scale;
    long filters;
    for (struct real *real = __start_thalweg_real; real < __stop_thalweg_real; real++)
        if (real->function == NULL) resolve(real);
    if (keep_setting(ring_directory, sizeof ring_directory, &scale, &filters)) {
        hide(environment);
        if (may_call(filters) && may_read_clock(&scale)) begin_recording(scale);
    }
    errno = saved;
}

/* Records a forked child that worked but made few calls, and so has no ring, at its end. */
static void report_child(void) {
    if (!enabled || !is_ringless_child()) return;
    uint64_t ran = cpu_time_ns();
    if (ran < RAN_NS || !attach()) return;
    me.slot->covered_ns = me.cpu_at_ns -= ran;
    me.cpu_ns = 0;
}

__attribute__((destructor)) static void stop(void) {
    report_child();
    if (enabled && acquainted()) {
        detach();
        atomic_store(&header->ended, 1);
    }
}

/* Skips everything that `exit` does. A child in its parent's memory (vfork) leaves that memory alone. */
EXPORT void _exit(int status) {
    report_child();
    if (status != 0) record_looks();
    if (enabled && acquainted() && (uint32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0) == header->pid) stop();
    REAL(_exit)(status);
    __builtin_unreachable();
}
EXPORT void _Exit(int status) { _exit(status); }

void watch_thread_end(void) { pthread_setspecific(at_thread_end, &me); }
