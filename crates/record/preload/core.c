/* A library that is loaded into a program in front of the C library, and notes what the program's threads wait for.
 *
 * Each function here does what the one behind it does, with a clock read before and after. A call shorter than LONG_NS did not
 * block: it is added to a run of like calls, in memory, for some tens of nanoseconds. A longer one asks for the thread's CPU
 * time; if it was off the processor it becomes a record of its own in the thread's ring. The recorder drains the rings.
 *
 * What must stay true: errno is what the function behind left; nothing here takes a lock, allocates, or blocks; a signal
 * handler that calls in the middle finds `me.busy` and leaves the slot alone; after a fork the child has no ring (its
 * generation is wiped by the kernel) until it has made enough calls to be worth one; a full ring, or a recorder that is gone,
 * costs a count.
 *
 * Here is how recording begins and ends; ring.c has the process' file, calls.c what is noted of a call. */
#include "internal.h"
#include <dlfcn.h>
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

static void thread_ends(void *unused) {
    (void)unused;
    detach();
}

/* Before `exec`: this image's file has ended, unless the call fails. A child that has its parent's memory (vfork) leaves it alone. */
void became_another_program(int failed) {
    if (!acquainted() || (uint32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0) != header->pid) return;
    if (!failed) hand_over();
    atomic_store(&header->ended, failed ? 0 : BECAME_ANOTHER);
}

/* Before the process gives up calls that we need, for good: nothing is recorded from here on. 0: nothing was anyway. */
int stop_recording(void) {
    if (!enabled) return 0;
    int saved = errno;
    /* A forked child that does this first of all is recorded too. */
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
    first_generation(page);
    enabled = 1;
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
    if (keep_setting(ring_directory, sizeof ring_directory, &scale, &filters)) {
        hide(environment);
        if (may_call(filters) && may_read_clock(&scale)) begin_recording(scale);
    }
    errno = saved;
}

/* A forked child that worked, and made next to no calls, has no ring: it is recorded at its end. */
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

/* Without any of what `exit` does. A child in its parent's memory (vfork) leaves that alone. */
EXPORT void _exit(int status) {
    report_child();
    if (enabled && acquainted() && (uint32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0) == header->pid) stop();
    REAL(_exit)(status);
    __builtin_unreachable();
}
EXPORT void _Exit(int status) { _exit(status); }

void watch_thread_end(void) { pthread_setspecific(at_thread_end, &me); }
