/* The process's file: created once a process qualifies for one, mapped, with a slot and a ring of records per thread.
 * The recorder reads it; shared.h has its layout. */
#include "internal.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Records allocated in a ring at first: many threads never fill it. */
#define FIRST_RECORDS 192

__thread struct thread me;
struct header *header;
uint32_t *generation;

static char file_path[RING_DIRECTORY_BYTES + 64];
static uint32_t generations;
/* Process id of a forked child that has noticed the fork. */
static uint32_t child_pid;
static _Atomic uint32_t mapping; /* 0 no ring, 1 being made, 2 ready, 3 unavailable */
static uint32_t allocated[SLOTS];
static struct {
    pthread_t who;
    uint32_t tid;
} threads[SLOTS];

void first_generation(uint32_t *page) {
    generation = page;
    *generation = generations = me.generation = 1;
}

/* Whether the process has a file of its own. A library that records nothing has no generation either. */
int acquainted(void) { return generation != NULL && *generation != 0 && me.generation == *generation && header != NULL; }

/* Whether this is a forked process without a ring, and not a vfork child of such a process. */
int is_ringless_child(void) {
    if (generation == NULL || acquainted()) return 0;
    return *generation == 0 || (header == NULL && child_pid == (uint32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0));
}

void note_unseen(uint32_t bit) {
    if (acquainted()) atomic_fetch_or_explicit(&header->unseen, bit, memory_order_relaxed);
}

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

/* Whether the process may have a file this large, and a mapping of it, without reaching a limit earlier than it
 * otherwise would: exceeding the first sends a signal, and the second belongs to the program. */
static int affordable(void) {
    struct rlimit file = {0, 0}, space = {0, 0};
    return raw(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&file, 0, 0) == 0 && file.rlim_cur >= FILE_BYTES &&
           raw(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&space, 0, 0) == 0 && space.rlim_cur == RLIM_INFINITY;
}

/* Returns the calling process's creation time in clock ticks since boot, the 22nd word of /proc/self/stat; 0 if
 * unknown. */
static uint64_t born_ticks(void) {
    char text[512];
    int fd = (int)raw(SYS_openat, AT_FDCWD, (long)"/proc/self/stat", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return 0;
    long n = raw(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    text[n > 0 ? n : 0] = 0;
    /* The second word is a name in parentheses, which may contain anything. */
    char *at = strrchr(text, ')');
    for (int word = 2; at != NULL && word < 22; word++) {
        at = strchr(at, ' ');
        if (at != NULL) at++;
    }
    uint64_t ticks = 0;
    for (; at != NULL && *at >= '0' && *at <= '9'; at++) ticks = ticks * 10 + (uint64_t)(*at - '0');
    return ticks;
}

/* Whether no other thread of the process is recorded. */
int alone(void) {
    int others = 0;
    for (uint32_t index = 0; acquainted() && index < SLOTS; index++)
        others += index != me.index && atomic_load_explicit(&header->states[index], memory_order_relaxed) != SLOT_FREE;
    return others == 0;
}

static int make_file(void) {
    if (!affordable()) return 0;
    uint64_t created = now_ns();
    uint32_t pid = (uint32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
    char hidden[sizeof file_path + 8];
    char *end = append(append(file_path, ring_directory), "/");
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
        raw(SYS_unlinkat, AT_FDCWD, (long)hidden, 0, 0, 0, 0);
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
    header->born_ticks = born_ticks();
    /* The final name shows the reader that the file is complete. */
    return raw(SYS_renameat, AT_FDCWD, (long)hidden, AT_FDCWD, (long)file_path, 0, 0) == 0;
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

/* Runs in a forked child, once per thread: the ring is the parent's, and not mapped. */
void notice_fork(void) {
    if (*generation == 0) {
        *generation = ++generations;
        child_pid = (uint32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
        header = NULL;
        memset(threads, 0, sizeof threads);
        forked_objects();
        atomic_store(&mapping, 0);
    }
    memset(&me, 0, sizeof me);
    forked_looks();
    me.generation = *generation;
}

/* Gives the calling thread a slot; returns 0 if there is none. */
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
        me.over = 1; /* A retry would fail too. */
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
    me.waited_ns = 0;
    me.faults = disk_faults();
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

/* Gives the calling thread's slot to the reader. */
void end_slot(void) {
    threads[me.index].tid = 0;
    atomic_store_explicit(&header->states[me.index], SLOT_ENDED, memory_order_release);
    me.slot = NULL;
    me.over = 1;
}

/* Appends all records, or none. */
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
