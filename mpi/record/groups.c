/*
 * Communicators and files: their numbers in this rank's file, and what they are called on all ranks alike.
 *
 * No message is sent for that. All ranks of a communicator make new ones of it in the same order, so how many were made before, with
 * the rank in MPI_COMM_WORLD of the new one's first rank, names it: of one call, new communicators have no rank in common. What was
 * made by a function that is not wrapped has no name; its messages are recorded and not matched.
 */
#include "record/internal.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 8192
/* Longer lists of members are left out. */
#define TEXT_BYTES 4000

struct slot {
    _Atomic uintptr_t handle; /* 0: never used; 1: free again */
    struct group *_Atomic group;
};

static struct slot communicators[SLOTS];
static struct slot files[SLOTS];
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static __thread uintptr_t cached_handle __attribute__((tls_model("initial-exec")));
static __thread struct group *cached_group __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t generation;
static __thread uint64_t cached_generation __attribute__((tls_model("initial-exec")));

static struct group *look(struct slot *table, uintptr_t handle)
{
    size_t at = record_hash(handle, 0) % SLOTS;
    for (size_t i = 0; i < SLOTS; i++, at = (at + 1) % SLOTS) {
        uintptr_t there = atomic_load_explicit(&table[at].handle, memory_order_acquire);
        if (there == handle)
            return atomic_load_explicit(&table[at].group, memory_order_acquire);
        if (there == 0)
            return NULL;
    }
    return NULL;
}

static void keep(struct slot *table, uintptr_t handle, struct group *group)
{
    pthread_mutex_lock(&changing);
    size_t at = record_hash(handle, 0) % SLOTS;
    for (size_t i = 0; i < SLOTS; i++, at = (at + 1) % SLOTS) {
        uintptr_t there = atomic_load(&table[at].handle);
        if (there > 1 && there != handle)
            continue;
        atomic_store(&table[at].group, group);
        atomic_store_explicit(&table[at].handle, handle, memory_order_release);
        break;
    }
    atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&changing);
}

/* The group itself stays: requests and other threads may still speak of it. There are few. */
static void drop(struct slot *table, uintptr_t handle)
{
    pthread_mutex_lock(&changing);
    size_t at = record_hash(handle, 0) % SLOTS;
    for (size_t i = 0; i < SLOTS; i++, at = (at + 1) % SLOTS) {
        uintptr_t there = atomic_load(&table[at].handle);
        if (there == handle)
            atomic_store(&table[at].handle, 1);
        if (there == handle || there == 0)
            break;
    }
    atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&changing);
}

/* Ranks of MPI_COMM_WORLD of the group that a rank number of this communicator is in. */
static void translate(MPI_Comm comm, struct group *group)
{
    MPI_Group own = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    int size = 0;
    PMPI_Comm_test_inter(comm, &group->inter);
    int got = group->inter ? PMPI_Comm_remote_group(comm, &own) : PMPI_Comm_group(comm, &own);
    if (got != MPI_SUCCESS || PMPI_Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return;
    PMPI_Group_size(own, &size);
    int *from = malloc(sizeof(int) * (size_t)(size > 0 ? size : 1));
    int *to = malloc(sizeof(int) * (size_t)(size > 0 ? size : 1));
    if (from != NULL && to != NULL) {
        group->world_like = 1;
        for (int i = 0; i < size; i++)
            from[i] = i;
        if (PMPI_Group_translate_ranks(own, size, from, world, to) == MPI_SUCCESS) {
            for (int i = 0; i < size; i++) {
                to[i] = to[i] == MPI_UNDEFINED ? RECORD_NOBODY : to[i];
                group->world_like &= to[i] == i;
            }
            group->world = to;
            to = NULL;
        }
    }
    free(from);
    free(to);
    PMPI_Group_free(&own);
    PMPI_Group_free(&world);
}

static size_t members(const struct group *group, char *text, size_t most)
{
    size_t length = 0;
    for (int i = 0; group->world != NULL && i < group->size;) {
        int first = group->world[i], last = first;
        for (i++; i < group->size && group->world[i] == last + 1; i++)
            last++;
        char piece[32];
        int wide = first == last ? snprintf(piece, sizeof piece, ",%d", first) : snprintf(piece, sizeof piece, ",%d-%d", first, last);
        if (first < 0 || length + (size_t)wide >= most)
            return 0;
        memcpy(text + length, piece, (size_t)wide);
        length += (size_t)wide;
    }
    return length;
}

static struct group *describe(MPI_Comm comm, uint64_t id)
{
    struct group *group = calloc(1, sizeof *group);
    if (group == NULL)
        return NULL;
    group->number = record_next_number();
    group->id = id;
    PMPI_Comm_size(comm, &group->size);
    PMPI_Comm_rank(comm, &group->rank);
    translate(comm, group);
    char text[TEXT_BYTES];
    size_t length = group->inter ? 0 : members(group, text, sizeof text);
    struct record record = record_blank(CALL_communicator, record_now());
    record.end_ns = record.start_ns;
    record.object = group->number;
    record.serial = id;
    record.count = (uint32_t)group->size;
    record.peer = group->rank;
    record_append(&record, length > 0 ? text + 1 : text, length > 0 ? length - 1 : 0);
    keep(communicators, (uintptr_t)comm, group);
    return group;
}

struct group *record_group(MPI_Comm comm)
{
    uintptr_t handle = (uintptr_t)comm;
    uint64_t now = atomic_load_explicit(&generation, memory_order_acquire);
    if (handle == cached_handle && cached_generation == now && cached_group != NULL)
        return cached_group;
    if (comm == MPI_COMM_NULL || record_state != 1)
        return NULL;
    struct group *group = look(communicators, handle);
    if (group == NULL) {
        uint64_t id = 0;
        int rank = 0;
        if (comm == MPI_COMM_WORLD)
            id = 1;
        else if (comm == MPI_COMM_SELF && PMPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS)
            id = record_hash(2, (uint64_t)rank);
        group = describe(comm, id);
        now = atomic_load_explicit(&generation, memory_order_acquire);
    }
    cached_handle = handle;
    cached_group = group;
    cached_generation = now;
    return group;
}

void record_group_made(MPI_Comm parent, MPI_Comm made, uint64_t key, int result)
{
    struct group *from = record_group(parent);
    if (from == NULL)
        return;
    uint64_t before = key != 0 ? key : atomic_fetch_add(&from->children, 1);
    if (result != MPI_SUCCESS || made == MPI_COMM_NULL)
        return;
    /* The same communicator's handle may have been another's. */
    drop(communicators, (uintptr_t)made);
    MPI_Group own = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    int zero = 0, first = 0;
    uint64_t id = 0;
    if (PMPI_Comm_group(made, &own) == MPI_SUCCESS && PMPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
        if (from->id != 0 && PMPI_Group_translate_ranks(own, 1, &zero, world, &first) == MPI_SUCCESS && first != MPI_UNDEFINED)
            id = record_hash(record_hash(from->id, before), (uint64_t)first + 3);
        PMPI_Group_free(&own);
        PMPI_Group_free(&world);
    }
    describe(made, id);
}

void record_group_gone(MPI_Comm comm)
{
    drop(communicators, (uintptr_t)comm);
}

int record_world_rank(struct group *group, int rank)
{
    if (rank == MPI_ANY_SOURCE)
        return RECORD_ANY;
    if (group == NULL || rank < 0)
        return RECORD_NOBODY;
    if (group->world_like)
        return rank;
    return group->world != NULL && (group->inter || rank < group->size) ? group->world[rank] : RECORD_NOBODY;
}

struct group *record_file(MPI_File file)
{
    return look(files, (uintptr_t)file);
}

void record_file_add(MPI_File file, struct group *group)
{
    keep(files, (uintptr_t)file, group);
}

void record_file_gone(MPI_File file)
{
    drop(files, (uintptr_t)file);
}
