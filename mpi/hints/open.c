/* Hints on MPI_File_open: a file made in a mounted store gets the layout that its hints ask for.
 *
 * An open is, over the file's ranks: is it in a mounted store (if not, nothing more is ours); do all ranks ask the same; does rank 0
 * have to make the file, and can it; then MPI's own open, of a file that is there. Whatever fails, fails at all ranks with the
 * same text. Everything that ranks decide without asking each other follows from texts that were found equal. */
#include "hints/internal.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Keys that hold what must be equal beside the hints; they sort before all of them. */
#define AMODE "(access mode)"
#define WHICH "(store)"

/* What an open knows on its way. */
struct opening {
    MPI_Comm comm;
    const char *name, *path; /* as MPI takes it, and as the file system does */
    int amode, rank, size;
    struct store store;
    struct hints hints;
    struct hints_wish *wish;
    int created;             /* by us; MPI finds it there */
    int asked;               /* as in struct opened */
    enum local local;
    unsigned disabled;       /* as in struct opened */
    uint32_t *target_of;
    char *layout;
    int class;               /* MPI_SUCCESS, or the class of `reason` */
    char reason[HINTS_REASON_BYTES];
};

static int fail(struct opening *o, int class, const char *what)
{
    char reason[HINTS_REASON_BYTES];
    snprintf(reason, sizeof reason, "%s", what);
    snprintf(o->reason, sizeof o->reason, "%.100s: %s", o->path, reason);
    o->class = class;
    return -1;
}

/* ---- the ranks agree ---- */

static void add_info(MPI_Info info, struct hints *hints)
{
    int keys = 0;
    char *value = malloc(MPI_MAX_INFO_VAL + 1), key[MPI_MAX_INFO_KEY + 1];
    if (info != MPI_INFO_NULL)
        PMPI_Info_get_nkeys(info, &keys);
    for (int i = 0; value && i < keys; i++) {
        int there = 0;
        PMPI_Info_get_nthkey(info, i, key);
        if (!hints_is_ours(key))
            continue;
        PMPI_Info_get(info, key, MPI_MAX_INFO_VAL - 1, value, &there);
        if (there)
            hints_add(hints, key, value);
    }
    free(value);
}

/* Hints from outside, for programs that give none: in THALWEG_HINTS, then in the file that ROMIO is told to read. */
static void add_environment(struct hints *hints)
{
    const char *words = getenv("THALWEG_HINTS"), *name = getenv("ROMIO_HINTS");
    FILE *file = name ? fopen(name, "re") : NULL;
    if (words)
        hints_add_words(hints, words);
    if (!file)
        return;
    char *text = calloc(1, HINTS_LAYOUT_BYTES + 1);
    if (text && fread(text, 1, HINTS_LAYOUT_BYTES, file))
        hints_add_lines(hints, text);
    free(text);
    fclose(file);
}

/* 1: the path is in one and the same mounted store at every rank; 0: in none at any; -1: neither. */
static int is_ours(struct opening *o)
{
    int here = !store_find(o->path, &o->store), sum, lacking, first;
    PMPI_Allreduce(&here, &sum, 1, MPI_INT, MPI_SUM, o->comm);
    if (sum == 0 || sum == o->size)
        return sum > 0;
    lacking = here ? o->size : o->rank;
    PMPI_Allreduce(&lacking, &first, 1, MPI_INT, MPI_MIN, o->comm);
    char what[HINTS_REASON_BYTES];
    snprintf(what, sizeof what, "it is in a mounted store at some ranks, and not at rank %d", first);
    return fail(o, MPI_ERR_NOT_SAME, what);
}

/* `what`, as in: hint striping_unit is 65536 at rank 0 */
static void describe(const struct hints *hints, const char *key, int rank, char *text, size_t room)
{
    size_t length;
    const char *value = hints_get(hints, key, &length);
    const char *kind = *key == '(' ? "the " : "hint ";
    int name = (int)strcspn(key + (*key == '('), ")");
    if (value)
        snprintf(text, room, "%s%.*s is `%.*s` at rank %d", kind, name, key + (*key == '('), length < 40 ? (int)length : 40, value, rank);
    else
        snprintf(text, room, "%s%.*s is missing at rank %d", kind, name, key + (*key == '('), rank);
}

/* Fails at all ranks, with the key and two ranks' values, when one asks what another does not. */
static int agree(struct opening *o)
{
    struct hints first = {NULL, o->hints.length};
    char key[256] = "", what[HINTS_REASON_BYTES] = "", one[120], other[120];
    int length = (int)o->hints.length, mine, lowest;
    PMPI_Bcast(&length, 1, MPI_INT, 0, o->comm);
    first.text = calloc(1, (size_t)length + 1);
    first.length = (size_t)length;
    if (o->rank == 0)
        memcpy(first.text, o->hints.text, (size_t)length);
    PMPI_Bcast(first.text, length, MPI_CHAR, 0, o->comm);
    mine = hints_differ(&first, &o->hints, key, sizeof key) ? o->rank : o->size;
    PMPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, o->comm);
    if (lowest < o->size) {
        if (o->rank == lowest) {
            describe(&first, key, 0, one, sizeof one);
            describe(&o->hints, key, o->rank, other, sizeof other);
            snprintf(what, sizeof what, "every rank must ask the same: %s, %s", one, other);
        }
        PMPI_Bcast(what, sizeof what, MPI_CHAR, lowest, o->comm);
        fail(o, MPI_ERR_NOT_SAME, what);
    }
    free(first.text);
    return o->class == MPI_SUCCESS ? 0 : -1;
}

/* ---- the file is made ---- */

static mode_t wanted_mode(MPI_Info info)
{
    char value[16];
    int there = 0;
    if (info != MPI_INFO_NULL)
        PMPI_Info_get(info, "file_perm", sizeof value - 1, value, &there);
    unsigned long mode = there ? strtoul(value, NULL, 8) : 0666;
    return (mode_t)(mode & 0777);
}

/* `local` that needs no parts: one rank, or blocks of striping_unit in turn. Leaves `local` to wait otherwise. */
static int choose_local(struct opening *o, char **layout)
{
    struct hints_wish *wish = o->wish;
    if (o->size == 1) {
        /* All of the file is this node's, however it is cut. */
        wish->local = 0;
        wish->place_local = 1;
        *wish->distribution = 0;
        o->local = LOCAL_IN_FORCE;
        return 0;
    }
    o->local = LOCAL_WAITING;
    if (!wish->striping_unit)
        return 0;
    int failed = 0;
    o->local = LOCAL_IN_FORCE;
    if (o->rank == 0) {
        struct strips_result strips;
        uint64_t *start = calloc((size_t)o->size, sizeof *start), *length = calloc((size_t)o->size, sizeof *length);
        for (int r = 0; r < o->size; r++)
            start[r] = (uint64_t)r * wish->striping_unit, length[r] = wish->striping_unit;
        if (wish->striping_unit > UINT64_MAX / 4 / (uint64_t)o->size)
            failed = fail(o, MPI_ERR_INFO_VALUE, "hint striping_unit: too large");
        else if (strips_from_starts(start, length, o->target_of, (uint32_t)o->size, &STRIPS_DEFAULT, &strips))
            failed = fail(o, MPI_ERR_INFO_VALUE, strips.refused);
        else if (!(*layout = hints_strips_layout(&strips)))
            failed = fail(o, MPI_ERR_INFO_VALUE, "hint thalweg_layout=local: too many ranks for the text of a layout");
        if (!failed)
            strips_free(&strips);
        free(start);
        free(length);
    }
    return failed;
}

/* Placement `local` of a layout that does not depend on parts: on the targets of all ranks' nodes, each once. At rank 0. */
static int place_on_nodes(struct opening *o)
{
    struct hints_wish *wish = o->wish;
    size_t used = (size_t)snprintf(wish->placement, sizeof wish->placement, o->size == 1 ? "local" : "targets:");
    uint64_t count = 0;
    for (int r = 0; o->size > 1 && r < o->size; r++) {
        int seen = 0;
        for (int other = 0; other < r && !seen; other++)
            seen = o->target_of[other] == o->target_of[r];
        if (seen || (wish->striping_factor && count == wish->striping_factor))
            continue;
        if (used + 16 > sizeof wish->placement)
            return fail(o, MPI_ERR_INFO_VALUE, "hint thalweg_placement=local: too many targets");
        used += (size_t)sprintf(wish->placement + used, "%s%u", count++ ? "," : "", o->target_of[r]);
    }
    return 0;
}

/* At rank 0: makes the file. */
static void create(struct opening *o, MPI_Info info, const char *strips_layout)
{
    char reason[HINTS_REASON_BYTES];
    struct hints_wish *wish = o->local == LOCAL_WAITING ? NULL : o->wish;
    if (strips_layout) {
        /* The text already is the layout: as a distribution with parameters, on these targets. */
        const char *place = strstr(strips_layout, " place=") + 7, *comma = strchr(strips_layout, ',');
        snprintf(wish->distribution, sizeof wish->distribution, "%.*s", (int)(comma - strips_layout), strips_layout);
        snprintf(wish->parameters, sizeof wish->parameters, "%.*s", (int)strcspn(comma, " "), comma);
        snprintf(wish->placement, sizeof wish->placement, "%s", place);
        wish->striping_factor = 0;
    } else if (wish && wish->place_local && place_on_nodes(o)) {
        return;
    }
    int error = store_create(o->path, wanted_mode(info), wish, reason, sizeof reason);
    if (!error)
        o->created = 1;
    else if (error != EEXIST || o->amode & MPI_MODE_EXCL)
        fail(o, hints_class(error), reason);
}

/* Whether MPI will take this access mode and make a file. Where it will not, its own error is the better one. */
static int makes_files(int amode)
{
    int ways = !!(amode & MPI_MODE_RDONLY) + !!(amode & MPI_MODE_WRONLY) + !!(amode & MPI_MODE_RDWR);
    return ways == 1 && amode & MPI_MODE_CREATE && !(amode & MPI_MODE_RDONLY) && !(amode & MPI_MODE_SEQUENTIAL && amode & MPI_MODE_RDWR);
}

/* What rank 0 tells the others. */
struct outcome {
    int class, created, local;
    char reason[HINTS_REASON_BYTES];
};

static int prepare(struct opening *o, MPI_Info info)
{
    struct stat there;
    int making = 0;
    char what[HINTS_REASON_BYTES], *strips_layout = NULL;
    if (o->rank == 0)
        making = makes_files(o->amode) && lstat(o->path, &there) && errno == ENOENT;
    PMPI_Bcast(&making, 1, MPI_INT, 0, o->comm);
    if (!making) {
        /* Whatever else the hints say does not matter of a file that is there. */
        o->asked = !hints_read(&o->hints, o->wish, what, sizeof what) && o->wish->local;
        return 0;
    }
    if (hints_read(&o->hints, o->wish, what, sizeof what))
        return fail(o, MPI_ERR_INFO_VALUE, what);
    if (!o->wish->any)
        return 0;
    if ((o->wish->local || o->wish->place_local) && hints_targets(o->comm, &o->store, &o->target_of, what, sizeof what))
        return fail(o, MPI_ERR_INFO_VALUE, what);
    o->asked = o->wish->local;
    if (o->wish->local)
        choose_local(o, &strips_layout);
    if (o->rank == 0 && o->class == MPI_SUCCESS)
        create(o, info, strips_layout);
    free(strips_layout);
    struct outcome outcome = {o->class, o->created, o->created ? (int)o->local : LOCAL_NOT_ASKED, ""};
    snprintf(outcome.reason, sizeof outcome.reason, "%s", o->reason);
    PMPI_Bcast(&outcome, sizeof outcome, MPI_BYTE, 0, o->comm);
    o->class = outcome.class;
    o->created = outcome.created;
    o->local = (enum local)outcome.local;
    snprintf(o->reason, sizeof o->reason, "%s", outcome.reason);
    return o->class == MPI_SUCCESS ? 0 : -1;
}

/* ---- MPI opens it ---- */

/* The layout in force, as rank 0 reads it. */
static void learn_layout(struct opening *o)
{
    int length = -1;
    if (o->rank == 0 && (o->layout = store_layout(o->path)))
        length = (int)strlen(o->layout);
    PMPI_Bcast(&length, 1, MPI_INT, 0, o->comm);
    if (length < 0)
        return;
    if (o->rank != 0)
        o->layout = calloc(1, (size_t)length + 1);
    PMPI_Bcast(o->layout, length, MPI_CHAR, 0, o->comm);
}

static void set_key(void *info, const char *key, const char *value)
{
    if (strlen(key) < MPI_MAX_INFO_KEY)
        PMPI_Info_set(*(MPI_Info *)info, key, value);
}

/* The program's info, with what MPI itself can use of the layout: where strips end, and that nobody's bytes are to be gathered at or
 * written by another rank where each has its own target. */
static MPI_Info info_for_mpi(struct opening *o, MPI_Info info)
{
    MPI_Info own;
    if (info == MPI_INFO_NULL)
        PMPI_Info_create(&own);
    else
        PMPI_Info_dup(info, &own);
    const char *size = o->layout && o->local != LOCAL_WAITING ? strstr(o->layout, ",strip_size=") : NULL;
    if (size) {
        char text[24];
        snprintf(text, sizeof text, "%.*s", (int)strspn(size + 12, "0123456789"), size + 12);
        PMPI_Info_set(own, "striping_unit", text);
    }
    for (int i = 0; o->local != LOCAL_NOT_ASKED && o->size > 1 && i < HINTS_DISABLED; i++) {
        int length, there = 0;
        PMPI_Info_get_valuelen(own, hints_disabled[i], &length, &there);
        if (there)
            continue;
        PMPI_Info_set(own, hints_disabled[i], "disable");
        o->disabled |= 1u << i;
    }
    return own;
}

static void remember(struct opening *o, MPI_File file)
{
    struct opened *opened = calloc(1, sizeof *opened);
    if (!opened)
        return;
    *opened = (struct opened){.file = file, .path = strdup(o->path), .layout = o->layout, .amode = o->amode, .rank = o->rank, .size = o->size,
                              .asked = o->asked, .local = o->local, .settled = o->local != LOCAL_WAITING, .disabled = o->disabled,
                              .target_of = o->target_of, .here = o->store.here, .here_count = o->store.here_count};
    o->layout = NULL;
    o->target_of = NULL;
    o->store.here = NULL;
    o->store.here_count = 0;
    if (o->local == LOCAL_IN_FORCE)
        snprintf(opened->why, sizeof opened->why, "the strips are blocks of striping_unit, in turn, and the ranks wrote other bytes");
    PMPI_Comm_dup(o->comm, &opened->comm);
    hints_see(opened, 0, MPI_BYTE, MPI_BYTE, NULL);
    if (opened->asked) {
        hints_look_up(opened);
        __atomic_fetch_add(&hints_asked, 1, __ATOMIC_RELAXED);
    }
    hints_remember(opened);
    hints_count_local(opened, 1);
}

static int open_ours(struct opening *o, MPI_Info info, MPI_File *file)
{
    char amode[32];
    snprintf(amode, sizeof amode, "%d", o->amode);
    hints_add(&o->hints, AMODE, amode);
    hints_add(&o->hints, WHICH, o->store.id);
    add_info(info, &o->hints);
    add_environment(&o->hints);
    hints_order(&o->hints);
    if (agree(o) || prepare(o, info)) {
        *file = MPI_FILE_NULL;
        return hints_raise(hints_error(o->class, o->reason));
    }
    learn_layout(o);
    MPI_Info own = info_for_mpi(o, info);
    int result = PMPI_File_open(o->comm, o->name, o->created ? o->amode & ~MPI_MODE_EXCL : o->amode, own, file);
    PMPI_Info_free(&own);
    if (result != MPI_SUCCESS) {
        struct stat there;
        if (o->created && o->rank == 0 && !stat(o->path, &there) && there.st_size == 0)
            unlink(o->path);
        return result;
    }
    if (!o->layout)
        learn_layout(o);
    remember(o, *file);
    return result;
}

THALWEG_WRAPPER int MPI_File_open(MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File *file)
{
    uint64_t begun = RECORD_FILE_BEGIN();
    struct opening o = {.comm = comm, .name = store_strip(name), .path = store_path(name), .amode = amode};
    int result, between = 0, ours = 0;
    if (comm != MPI_COMM_NULL && PMPI_Comm_test_inter(comm, &between) == MPI_SUCCESS && !between) {
        PMPI_Comm_rank(comm, &o.rank);
        PMPI_Comm_size(comm, &o.size);
        ours = is_ours(&o);
    }
    if (ours < 0) {
        *file = MPI_FILE_NULL;
        result = hints_raise(hints_error(o.class, o.reason));
    } else if (ours && (o.wish = malloc(sizeof *o.wish))) {
        result = open_ours(&o, info, file);
    } else {
        result = PMPI_File_open(comm, o.name, amode, info, file);
    }
    store_forget(&o.store);
    free(o.hints.text);
    free(o.wish);
    free(o.layout);
    free(o.target_of);
    if (record_file_opened)
        record_file_opened(begun, comm, o.path, amode, result == MPI_SUCCESS ? *file : MPI_FILE_NULL, result);
    return result;
}

/* ---- the other calls on what was opened ---- */

THALWEG_WRAPPER int MPI_File_close(MPI_File *file)
{
    uint64_t begun = RECORD_FILE_BEGIN();
    struct opened *opened = hints_take_out(*file);
    if (opened && opened->asked) {
        hints_say(opened);
        __atomic_fetch_sub(&hints_asked, 1, __ATOMIC_RELAXED);
    }
    void *closing = record_file_closing ? record_file_closing(*file) : NULL;
    if (opened) {
        hints_count_local(opened, -1);
        PMPI_Comm_free(&opened->comm);
        hints_free(opened);
    }
    int result = PMPI_File_close(file);
    if (record_file_closed)
        record_file_closed(begun, closing, result);
    return result;
}

THALWEG_WRAPPER int MPI_File_set_view(MPI_File file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep,
                                      MPI_Info info)
{
    uint64_t begun = RECORD_FILE_BEGIN();
    struct opened *opened = hints_find(file);
    int result = PMPI_File_set_view(file, displacement, etype, filetype, datarep, info);
    if (opened && opened->asked && result == MPI_SUCCESS)
        hints_see(opened, displacement, etype, filetype, datarep);
    if (opened && opened->asked && !opened->settled)
        hints_decide_by_views(opened);
    if (record_file_viewed)
        record_file_viewed(begun, file, displacement, etype, filetype, result);
    return result;
}

static const char *const STATES[] = {[LOCAL_WAITING] = "waiting", [LOCAL_IN_FORCE] = "local", [LOCAL_NONE] = "none"};

/* Open MPI gives back whatever was asked for; what is in force comes from the layout. */
static void remove_ours(MPI_Info info)
{
    char key[MPI_MAX_INFO_KEY + 1];
    int keys = 0;
    PMPI_Info_get_nkeys(info, &keys);
    for (int i = keys - 1; i >= 0; i--) {
        PMPI_Info_get_nthkey(info, i, key);
        if (hints_is_ours(key))
            PMPI_Info_delete(info, key);
    }
}

THALWEG_WRAPPER int MPI_File_get_info(MPI_File file, MPI_Info *info)
{
    uint64_t begun = RECORD_FILE_BEGIN();
    int result = PMPI_File_get_info(file, info);
    struct opened *opened = result == MPI_SUCCESS ? hints_find(file) : NULL;
    if (opened)
        remove_ours(*info);
    if (opened && opened->layout)
        hints_in_force(opened->layout, MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL, set_key, info);
    if (opened && opened->local != LOCAL_NOT_ASKED)
        PMPI_Info_set(*info, "thalweg_layout", STATES[opened->written && opened->local == LOCAL_WAITING ? LOCAL_NONE : opened->local]);
    if (record_file_other)
        record_file_other(begun, file, "MPI_File_get_info", result);
    return result;
}

/* MPI is not told of MPI_MODE_EXCL where the file was made here; the program sees what it gave. */
THALWEG_WRAPPER int MPI_File_get_amode(MPI_File file, int *amode)
{
    uint64_t begun = RECORD_FILE_BEGIN();
    int result = PMPI_File_get_amode(file, amode);
    struct opened *opened = result == MPI_SUCCESS ? hints_find(file) : NULL;
    if (opened)
        *amode = opened->amode;
    if (record_file_other)
        record_file_other(begun, file, "MPI_File_get_amode", result);
    return result;
}

THALWEG_WRAPPER int MPI_File_delete(const char *name, MPI_Info info)
{
    uint64_t begun = RECORD_FILE_BEGIN();
    int result = PMPI_File_delete(store_strip(name), info);
    if (record_file_other)
        record_file_other(begun, MPI_FILE_NULL, "MPI_File_delete", result);
    return result;
}
