/* `thalweg_layout=local`: strips that put each rank's bytes on a target of its own node.
 *
 * The ranks' parts are known only when they set their views (or first write), and a file's layout cannot be chosen later than its
 * first byte, or while somebody has it open. MPI has it open by then. So that no handle changes under MPI, the file is taken
 * from under it for the moment: every descriptor of this process that is the file's is made one that nothing can be read from or
 * written to, the file is laid out, opened again, and put back under the same number. It is empty, no bytes are on their way, and
 * all ranks are in the same collective call, so nothing of MPI looks.
 *
 * The ranks' claims go to rank 0, which computes the strips, lays the file out, and tells. */
#define _GNU_SOURCE
#include "hints_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int hints_waiting;
#ifdef OPEN_MPI
int hints_local_files;
#endif
const char *const hints_disabled[HINTS_DISABLED] = {"romio_cb_write", "romio_cb_read", "romio_ds_write", "romio_ds_read"};

/* Files that others still have open are tried again for this long: mounts close files a moment after their processes do. */
#define PATIENCE_NS 5000000000LL
/* Descriptors of one file in one process. */
#define MOST_DESCRIPTORS 16
/* Runs that rank 0 takes from all ranks together. */
#define MOST_RUNS_IN_ALL (4 << 20)

/* ---- where each rank's bytes belong ---- */

/* What a rank tells of its node. */
struct place {
    char node[STORE_LABEL_BYTES];
    uint32_t count, targets[64];
};

static int by_node(const void *left, const void *right)
{
    const struct place *a = *(struct place *const *)left, *b = *(struct place *const *)right;
    int order = strcmp(a->node, b->node);
    return order ? order : (a > b) - (a < b);
}

/* The ranks of each node, in order, take its targets in turn. */
static void take_turns(struct place *all, int size, uint32_t *target_of)
{
    struct place **sorted = calloc((size_t)size, sizeof *sorted);
    for (int r = 0; sorted && r < size; r++)
        sorted[r] = &all[r];
    if (sorted)
        qsort(sorted, (size_t)size, sizeof *sorted, by_node);
    for (int i = 0, turn = 0; sorted && i < size; i++) {
        turn = i && !strcmp(sorted[i]->node, sorted[i - 1]->node) ? turn + 1 : 0;
        target_of[sorted[i] - all] = sorted[i]->targets[(uint32_t)turn % sorted[i]->count];
    }
    free(sorted);
}

int hints_targets(MPI_Comm comm, const struct store *store, uint32_t **target_of, char *reason, size_t room)
{
    struct place mine = {.count = (uint32_t)(store->here_count < 64 ? store->here_count : 64)}, *all = NULL;
    int rank, size, failed = 0;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    snprintf(mine.node, sizeof mine.node, "%s", store->node);
    memcpy(mine.targets, store->here, mine.count * sizeof *mine.targets);
    *target_of = NULL;
    if (rank == 0) {
        all = calloc((size_t)size, sizeof *all);
        *target_of = calloc((size_t)size, sizeof **target_of);
    }
    PMPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, comm);
    for (int r = 0; rank == 0 && r < size && !failed; r++)
        if (!all[r].count)
            failed = snprintf(reason, room, "local: no server is on rank %d's node `%s`: the servers' nodes are %s", r, all[r].node, store->nodes);
    if (rank == 0 && !failed)
        take_turns(all, size, *target_of);
    PMPI_Bcast(&failed, 1, MPI_INT, 0, comm);
    if (failed)
        PMPI_Bcast(reason, (int)room, MPI_CHAR, 0, comm);
    free(all);
    if (failed) {
        free(*target_of);
        *target_of = NULL;
    }
    return failed ? -1 : 0;
}

char *hints_strips_layout(const struct strips_result *strips)
{
    size_t room = strlen(strips->text) + 64 + 11 * strips->datafiles;
    char *layout = malloc(room), *at = layout;
    if (!layout)
        return NULL;
    at += sprintf(at, "varstrip_dist,strips=%s datafiles=%zu place=targets:", strips->text, strips->datafiles);
    for (size_t i = 0; i < strips->datafiles; i++)
        at += sprintf(at, "%s%u", i ? "," : "", strips->targets[i]);
    if (at - layout <= HINTS_LAYOUT_BYTES)
        return layout;
    free(layout);
    return NULL;
}

/* ---- the file taken from under MPI ---- */

struct descriptor {
    int number, open_flags, descriptor_flags;
};

static int descriptors_of(const struct stat *file, struct descriptor *list)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    if (!directory)
        return -1;
    for (struct dirent *entry; (entry = readdir(directory));) {
        struct stat there;
        int number = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || number == dirfd(directory) || fstat(number, &there))
            continue;
        if (there.st_dev != file->st_dev || there.st_ino != file->st_ino)
            continue;
        if (count == MOST_DESCRIPTORS) {
            count = -1;
            break;
        }
        list[count++] = (struct descriptor){number, fcntl(number, F_GETFL), fcntl(number, F_GETFD)};
    }
    closedir(directory);
    return count;
}

/* Puts a descriptor of something else under each number. Only the numbers remain. */
static int replace(const struct descriptor *list, int count, const char *path, int flags)
{
    int failed = 0;
    for (int i = 0; i < count; i++) {
        int kept = list[i].open_flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY);
        int number = open(path, flags ? flags : kept);
        if (number < 0 || dup3(number, list[i].number, list[i].descriptor_flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
            failed = errno;
        if (number >= 0)
            close(number);
    }
    return failed;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Rank 0 lays the file out; the others wait. A mount tells the metadata service of files that it closed with its next request, so
 * each rank makes one before rank 0 tries again. */
static int lay_out(struct opened *opened, const char *layout, char *reason)
{
    int64_t begun = now_ns();
    for (long pause_ns = 500000;; pause_ns = pause_ns < 50000000 ? 2 * pause_ns : pause_ns) {
        int state[2] = {0, 0};
        if (opened->rank == 0) {
            state[0] = store_lay_out(opened->path, layout, reason, HINTS_REASON_BYTES);
            state[1] = state[0] == EBUSY && now_ns() - begun < PATIENCE_NS;
        }
        PMPI_Bcast(state, 2, MPI_INT, 0, opened->comm);
        if (!state[1])
            return state[0];
        free(store_layout(opened->path));
        nanosleep(&(struct timespec){0, pause_ns}, NULL);
        PMPI_Barrier(opened->comm);
    }
}

/* Gives the file the layout (known at rank 0). Returns 0, or -1 with the reason at rank 0 when it stays as it was. A rank that
 * cannot open the file again is told by errors of each of its reads and writes. */
static int give_layout(struct opened *opened, const char *layout, char *reason)
{
    struct descriptor list[MOST_DESCRIPTORS];
    struct stat file;
    int count = stat(opened->path, &file) ? -1 : descriptors_of(&file, list), least, most, error = 0;
    PMPI_Allreduce(&count, &least, 1, MPI_INT, MPI_MIN, opened->comm);
    PMPI_Allreduce(&count, &most, 1, MPI_INT, MPI_MAX, opened->comm);
    if (least < 0 || most == 0) {
        snprintf(reason, HINTS_REASON_BYTES, "the file's descriptors in this MPI implementation cannot be found");
        return -1;
    }
    error = replace(list, count, "/", O_PATH | O_DIRECTORY);
    PMPI_Barrier(opened->comm);
    int laid_out = lay_out(opened, layout, reason);
    int reopened = replace(list, count, opened->path, 0);
    if (error || reopened)
        fprintf(stderr, "thalweg: %s: cannot be opened again at rank %d: %s\n", opened->path, opened->rank, strerror(reopened ? reopened : error));
    PMPI_Barrier(opened->comm);
    return laid_out ? -1 : 0;
}

/* ---- claims, and what follows from them ---- */

struct claims {
    uint64_t *heads; /* displacement, extent or length, runs; for each rank */
    struct strips_run *runs;
    int *counts, *starts; /* of runs, in bytes, for each rank */
};

static int gather(struct opened *opened, const struct claim *claim, struct claims *claims)
{
    uint64_t head[3] = {claim->displacement, claim->extent, claim->count};
    int failed = 0, size = opened->size, bytes = (int)(claim->count * sizeof *claim->runs);
    size_t all = 0;
    if (opened->rank == 0) {
        claims->heads = calloc((size_t)size, sizeof head);
        claims->counts = calloc((size_t)size, sizeof *claims->counts);
        claims->starts = calloc((size_t)size, sizeof *claims->starts);
    }
    PMPI_Gather(head, sizeof head, MPI_BYTE, claims->heads, sizeof head, MPI_BYTE, 0, opened->comm);
    for (int r = 0; opened->rank == 0 && r < size; r++) {
        claims->starts[r] = (int)(all * sizeof *claims->runs);
        claims->counts[r] = (int)(claims->heads[3 * r + 2] * sizeof *claims->runs);
        all += claims->heads[3 * r + 2];
        if (all > MOST_RUNS_IN_ALL)
            failed = 1;
    }
    PMPI_Bcast(&failed, 1, MPI_INT, 0, opened->comm);
    if (failed)
        return -1;
    if (opened->rank == 0)
        claims->runs = calloc(all + 1, sizeof *claims->runs);
    PMPI_Gatherv(claim->runs, bytes, MPI_BYTE, claims->runs, claims->counts, claims->starts, MPI_BYTE, 0, opened->comm);
    return 0;
}

/* At rank 0: the layout that follows, to be freed; null: refused. */
static char *compute(const struct opened *opened, const struct claims *claims, int views, char *reason)
{
    struct strips_result strips;
    uint32_t size = (uint32_t)opened->size;
    struct strips_view *list = calloc(size, sizeof *list);
    uint64_t *start = calloc(size, sizeof *start), *length = calloc(size, sizeof *length);
    char *layout = NULL;
    int failed;
    for (uint32_t r = 0; r < size; r++) {
        const uint64_t *head = claims->heads + 3 * r;
        list[r] = (struct strips_view){head[0], head[1], claims->runs + claims->starts[r] / (int)sizeof *claims->runs, head[2]};
        start[r] = head[0], length[r] = head[1];
    }
    if (views)
        failed = strips_from_views(list, opened->target_of, size, &STRIPS_DEFAULT, &strips);
    else
        failed = strips_from_starts(start, length, opened->target_of, size, &STRIPS_DEFAULT, &strips);
    if (failed)
        snprintf(reason, HINTS_REASON_BYTES, "%s", strips.refused);
    else if (!(layout = hints_strips_layout(&strips)))
        snprintf(reason, HINTS_REASON_BYTES, "its text is longer than %d bytes", HINTS_LAYOUT_BYTES);
    strips_free(&strips);
    free(list);
    free(start);
    free(length);
    return layout;
}

#ifdef OPEN_MPI
int hints_alone_slowly(MPI_File file)
{
    const struct opened *opened = hints_find(file);
    return opened && opened->local == LOCAL_IN_FORCE && opened->size > 1;
}
#endif

void hints_count_local(const struct opened *opened, int more)
{
#ifdef OPEN_MPI
    if (opened->local == LOCAL_IN_FORCE)
        __atomic_fetch_add(&hints_local_files, more, __ATOMIC_RELAXED);
#else
    (void)opened, (void)more;
#endif
}

/* Where the layout came to nothing, MPI gathers again as it sees fit. */
static void enable_again(struct opened *opened)
{
    MPI_Info info;
    PMPI_Info_create(&info);
    for (int i = 0; i < HINTS_DISABLED; i++)
        if (opened->disabled & 1u << i)
            PMPI_Info_set(info, hints_disabled[i], "automatic");
    PMPI_File_set_info(opened->file, info);
    PMPI_Info_free(&info);
}

static void stop_waiting(struct opened *opened, enum local local)
{
    opened->local = local;
    __atomic_fetch_sub(&hints_waiting, 1, __ATOMIC_RELAXED);
}

static void say(const struct opened *opened, const char *reason)
{
    if (opened->rank == 0)
        fprintf(stderr, "thalweg: %s: thalweg_layout=local came to nothing: %s; its layout stays %.80s\n", opened->path, reason,
                opened->layout ? opened->layout : "what it was");
}

void hints_give_up(struct opened *opened)
{
    int written = 0;
    if (opened->local != LOCAL_WAITING)
        return;
    PMPI_Reduce(&opened->written, &written, 1, MPI_INT, MPI_MAX, 0, opened->comm);
    if (written)
        say(opened, "no view was set, and nothing was written collectively");
    stop_waiting(opened, LOCAL_NONE);
}

int hints_decide(struct opened *opened, const struct claim *claim)
{
    struct claims claims = {0};
    char reason[HINTS_REASON_BYTES] = "", *layout = NULL;
    /* The lowest rank that has something against it says what. */
    int against = opened->written || claim->kind == CLAIM_NONE ? opened->rank : opened->size, first, failed = 1;
    PMPI_Allreduce(&against, &first, 1, MPI_INT, MPI_MIN, opened->comm);
    if (first < opened->size) {
        if (opened->rank == first)
            snprintf(reason, sizeof reason, "%s (rank %d)", opened->written ? "it wrote before the ranks' parts were known" : claim->why_not, first);
        PMPI_Bcast(reason, sizeof reason, MPI_CHAR, first, opened->comm);
    } else if (gather(opened, claim, &claims)) {
        snprintf(reason, sizeof reason, "the ranks' views have more than %d pieces", MOST_RUNS_IN_ALL);
    } else {
        if (opened->rank == 0)
            layout = compute(opened, &claims, claim->kind == CLAIM_VIEW, reason);
        failed = layout == NULL;
        PMPI_Bcast(&failed, 1, MPI_INT, 0, opened->comm);
        if (!failed)
            failed = give_layout(opened, layout, reason) != 0;
    }
    if (failed) {
        say(opened, reason);
    } else {
        /* What the store made of it, in its own words, the same at every rank. */
        free(opened->layout);
        opened->layout = store_layout(opened->path);
    }
    stop_waiting(opened, failed ? LOCAL_NONE : LOCAL_IN_FORCE);
    if (failed)
        enable_again(opened);
    else
        hints_count_local(opened, 1);
    free(layout);
    free(claims.heads);
    free(claims.runs);
    free(claims.counts);
    free(claims.starts);
    return failed ? -1 : 0;
}

void hints_data_slowly(MPI_File file, int how, MPI_Offset offset, int count, MPI_Datatype type)
{
    struct opened *opened = hints_find(file);
    if (!opened || opened->local != LOCAL_WAITING || !(how & HINTS_WRITE))
        return;
    if (!(how & HINTS_COLLECTIVE)) {
        opened->written = 1;
        return;
    }
    MPI_Count size = 0;
    MPI_Offset position = offset;
    /* No view was set, so that offsets are bytes. */
    PMPI_Type_size_x(type, &size);
    uint64_t bytes = (uint64_t)size * (uint64_t)(count > 0 ? count : 0), before = 0;
    if (how & HINTS_SHARED) {
        PMPI_Exscan(&bytes, &before, 1, MPI_UINT64_T, MPI_SUM, opened->comm);
        position = opened->rank ? (MPI_Offset)before : 0;
    } else if (!(how & HINTS_EXPLICIT)) {
        PMPI_File_get_position(file, &position);
    }
    struct claim claim = {CLAIM_START, (uint64_t)position, bytes, NULL, 0, NULL};
    hints_decide(opened, &claim);
}
