/*
 * Requests: what a handle stands for, from the call that began it to the one that ends it.
 *
 * An open-addressed table under one spinlock: requests are added and taken out in pairs, and nearly always by one thread. Where there is
 * no memory for more, requests are not followed, and what waits for them is a wait for something that is not known.
 */
#include "record/internal.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    uintptr_t handle; /* 0: never used; 1: free again */
    struct pending pending;
};

static struct entry *table;
static size_t size; /* a power of two */
static size_t filled; /* used or free again */
static size_t living;
static atomic_flag held = ATOMIC_FLAG_INIT;
#define MOST (1u << 20)

static void lock(void)
{
    for (unsigned tries = 0; atomic_flag_test_and_set_explicit(&held, memory_order_acquire); tries++)
        if (tries % 64 == 63)
            sched_yield();
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&held, memory_order_release);
}

static struct entry *find(uintptr_t handle)
{
    if (size == 0)
        return NULL;
    for (size_t at = record_hash(handle, 0) & (size - 1);; at = (at + 1) & (size - 1)) {
        if (table[at].handle == handle)
            return &table[at];
        if (table[at].handle == 0)
            return NULL;
    }
}

static void place(struct entry *into, size_t count, const struct entry *entry)
{
    size_t at = record_hash(entry->handle, 0) & (count - 1);
    while (into[at].handle != 0)
        at = (at + 1) & (count - 1);
    into[at] = *entry;
}

/* Keeps a quarter of the table never used, so that searches end soon. */
static int make_room(void)
{
    if (size != 0 && filled < size - size / 4)
        return 1;
    size_t count = size == 0 ? 256 : living > size / 2 ? 2 * size : size;
    struct entry *fresh = count <= MOST ? calloc(count, sizeof *fresh) : NULL;
    if (fresh == NULL)
        return 0;
    for (size_t i = 0; i < size; i++)
        if (table[i].handle > 1)
            place(fresh, count, &table[i]);
    free(table);
    table = fresh;
    size = count;
    filled = living;
    return 1;
}

void record_pending_add(MPI_Request request, const struct pending *pending)
{
    struct entry entry = {.handle = (uintptr_t)request, .pending = *pending};
    if (request == MPI_REQUEST_NULL || record_state != 1)
        return;
    lock();
    struct entry *there = find(entry.handle);
    if (there != NULL) {
        /* Some libraries give one handle to all that is complete at once: the latest is as good as any. */
        there->pending = *pending;
    } else if (make_room()) {
        place(table, size, &entry);
        filled++;
        living++;
    }
    unlock();
}

int record_pending_end(MPI_Request request, struct pending *found)
{
    lock();
    struct entry *entry = find((uintptr_t)request);
    int known = entry != NULL && entry->pending.serial != 0;
    if (known) {
        *found = entry->pending;
        if (entry->pending.persistent) {
            entry->pending.serial = 0;
        } else {
            entry->handle = 1;
            living--;
        }
    }
    unlock();
    return known;
}

int record_pending_restart(MPI_Request request, struct pending *found)
{
    lock();
    struct entry *entry = find((uintptr_t)request);
    if (entry != NULL) {
        entry->pending.serial = record_next_serial();
        *found = entry->pending;
    }
    unlock();
    return entry != NULL;
}

void record_pending_forget(MPI_Request request)
{
    lock();
    struct entry *entry = find((uintptr_t)request);
    if (entry != NULL) {
        entry->handle = 1;
        living--;
    }
    unlock();
}
