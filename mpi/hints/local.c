/* `thalweg_layout=local`: strips that put each rank's bytes on a target of its own node.
 *
 * The ranks' parts are known only when they set their views, and better when they first write; a file's layout cannot be chosen later
 * than its first byte, or while somebody has it open. So a file is laid out when views are set, for whoever writes independently then,
 * and once more by the first collective write, where nobody did and that says something else. MPI has it open by then. So that no handle changes under MPI, the file is taken
 * from under it for the moment: every descriptor of this process that is the file's is made one that nothing can be read from or
 * written to, the file is laid out, opened again, and put back under the same number. It is empty, no bytes are on their way, and
 * all ranks are in the same collective call, so nothing of MPI looks.
 *
 * What the ranks see and write goes to rank 0, which computes the strips, lays the file out, and tells. */
#define _GNU_SOURCE
#include "hints/internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int hints_asked;
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

/* ---- what the ranks see and write, and what follows from it ---- */

/* What each rank sends of itself. */
struct head {
    uint64_t displacement, extent, runs, position, length;
};

/* At rank 0: of all. */
struct told {
    struct head *heads;
    struct strips_run *runs;
    int *counts, *starts; /* of runs, in bytes, for each rank */
};

static int gather(const struct opened *opened, int64_t position, uint64_t length, struct told *told)
{
    const struct strips_view *view = &opened->seen.view;
    struct head head = {view->displacement, view->extent, view->count, (uint64_t)position, length};
    int failed = 0, size = opened->size, bytes = (int)(view->count * sizeof *view->runs);
    size_t all = 0;
    if (opened->rank == 0) {
        told->heads = calloc((size_t)size, sizeof head);
        told->counts = calloc((size_t)size, sizeof *told->counts);
        told->starts = calloc((size_t)size, sizeof *told->starts);
    }
    PMPI_Gather(&head, sizeof head, MPI_BYTE, told->heads, sizeof head, MPI_BYTE, 0, opened->comm);
    for (int r = 0; opened->rank == 0 && r < size; r++) {
        told->starts[r] = (int)(all * sizeof *told->runs);
        told->counts[r] = (int)(told->heads[r].runs * sizeof *told->runs);
        all += told->heads[r].runs;
        if (all > MOST_RUNS_IN_ALL)
            failed = 1;
    }
    PMPI_Bcast(&failed, 1, MPI_INT, 0, opened->comm);
    if (failed)
        return -1;
    if (opened->rank == 0)
        told->runs = calloc(all + 1, sizeof *told->runs);
    PMPI_Gatherv(view->runs, bytes, MPI_BYTE, told->runs, told->counts, told->starts, MPI_BYTE, 0, opened->comm);
    return 0;
}

/* At rank 0: the layout that follows, to be freed; null: refused, and `opened` has why. */
static char *compute(struct opened *opened, const struct told *told, int writes)
{
    struct strips_result strips;
    uint32_t size = (uint32_t)opened->size;
    struct strips_write *list = calloc(size, sizeof *list);
    struct strips_view *views = calloc(size, sizeof *views);
    char *layout = NULL;
    int failed = !list || !views;
    for (uint32_t r = 0; r < size && !failed; r++) {
        const struct head *head = &told->heads[r];
        views[r] = (struct strips_view){head->displacement, head->extent, told->runs + told->starts[r] / (int)sizeof *told->runs, head->runs};
        list[r] = (struct strips_write){views[r], head->position, head->length};
    }
    if (!failed && writes)
        failed = strips_from_writes(list, opened->target_of, size, &STRIPS_DEFAULT, &strips);
    else if (!failed)
        failed = strips_from_views(views, opened->target_of, size, &STRIPS_DEFAULT, &strips);
    if (failed)
        snprintf(opened->why, sizeof opened->why, "%s", list && views ? strips.refused : "no memory for the ranks' parts");
    else if (!(layout = hints_strips_layout(&strips)))
        snprintf(opened->why, sizeof opened->why, "its text is longer than %d bytes", HINTS_LAYOUT_BYTES);
    else if (strips.local_bytes < strips.claimed_bytes)
        snprintf(opened->why, sizeof opened->why, "several nodes' ranks have the same bytes, or the parts are too many for the text of a layout");
    else if (writes)
        snprintf(opened->why, sizeof opened->why, "the strips follow from the first collective write, and the later ones went on otherwise");
    else
        snprintf(opened->why, sizeof opened->why, "the strips follow from the ranks' views, and what they wrote does not");
    if (!failed)
        strips_free(&strips);
    free(list);
    free(views);
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

/* The layout came to nothing: MPI gathers again as it sees fit. */
static void give_up(struct opened *opened)
{
    MPI_Info info;
    opened->local = LOCAL_NONE;
    opened->settled = 1;
    PMPI_Info_create(&info);
    for (int i = 0; i < HINTS_DISABLED; i++)
        if (opened->disabled & 1u << i)
            PMPI_Info_set(info, hints_disabled[i], "automatic");
    PMPI_File_set_info(opened->file, info);
    PMPI_Info_free(&info);
}

/* Asks all ranks whether one has something against laying the file out now; the lowest that has says what. Rank 0 keeps it. */
static int is_against(struct opened *opened, const char *why_not)
{
    int against = why_not ? opened->rank : opened->size, first;
    PMPI_Allreduce(&against, &first, 1, MPI_INT, MPI_MIN, opened->comm);
    if (first == opened->size)
        return 0;
    char why[HINTS_REASON_BYTES] = "";
    if (opened->rank == first)
        snprintf(why, sizeof why, "%s (rank %d)", why_not, first);
    PMPI_Bcast(why, sizeof why, MPI_CHAR, first, opened->comm);
    if (opened->rank == 0)
        memcpy(opened->why, why, sizeof why);
    return 1;
}

/* Lays the file out by what was gathered. Returns 0, or -1: its layout stays; -2: it always will. */
static int lay_out_by(struct opened *opened, const struct told *told, int writes)
{
    char *layout = NULL, reason[HINTS_REASON_BYTES] = "";
    int outcome[2] = {0, 0}; /* refused; as it is */
    if (opened->rank == 0) {
        layout = compute(opened, told, writes);
        outcome[0] = !layout;
        outcome[1] = layout && opened->given && !strcmp(layout, opened->given);
    }
    PMPI_Bcast(outcome, 2, MPI_INT, 0, opened->comm);
    int failed = outcome[0] ? -1 : 0;
    if (!outcome[0] && !outcome[1]) {
        failed = give_layout(opened, layout, reason) ? -2 : 0;
        if (failed && opened->rank == 0)
            memcpy(opened->why, reason, sizeof reason);
        /* What the store made of it, in its own words, the same at every rank. */
        free(opened->layout);
        opened->layout = store_layout(opened->path);
        hints_look_up(opened);
    }
    if (!failed && opened->rank == 0) {
        free(opened->given);
        opened->given = layout;
        layout = NULL;
    }
    free(layout);
    return failed;
}

static int decide(struct opened *opened, int64_t position, uint64_t length, int writes)
{
    struct told told = {0};
    int failed = -1;
    if (gather(opened, position, length, &told)) {
        if (opened->rank == 0)
            snprintf(opened->why, sizeof opened->why, "the ranks' views have more than %d pieces", MOST_RUNS_IN_ALL);
    } else {
        failed = lay_out_by(opened, &told, writes);
    }
    if (!failed && opened->local == LOCAL_WAITING) {
        opened->local = LOCAL_IN_FORCE;
        hints_count_local(opened, 1);
    }
    free(told.heads);
    free(told.runs);
    free(told.counts);
    free(told.starts);
    return failed;
}

#define WROTE "it wrote by itself before the ranks' parts were known"

void hints_decide_by_views(struct opened *opened)
{
    int written = 0;
    PMPI_Allreduce(&opened->written, &written, 1, MPI_INT, MPI_MAX, opened->comm);
    if (written) {
        opened->settled = 1;
        if (opened->local == LOCAL_WAITING && is_against(opened, opened->written ? WROTE : NULL))
            give_up(opened);
    } else if (!is_against(opened, opened->seen.why_not) && decide(opened, 0, 0, 0) == -2) {
        /* Tried again, it would be waited for again. */
        opened->settled = 1;
        if (opened->local == LOCAL_WAITING)
            give_up(opened);
    }
}

void hints_decide_by_writes(struct opened *opened, int64_t position, uint64_t length)
{
    uint64_t most = 0;
    PMPI_Allreduce(&length, &most, 1, MPI_UINT64_T, MPI_MAX, opened->comm);
    if (!most)
        return;
    opened->settled = 1;
    const char *why_not = opened->written ? WROTE : opened->seen.why_not ? opened->seen.why_not : NULL;
    if (!why_not && length && position < 0)
        why_not = "where in the file it writes is not known";
    int failed = is_against(opened, why_not) || decide(opened, position, length, 1);
    if (failed && opened->local == LOCAL_WAITING)
        give_up(opened);
}
