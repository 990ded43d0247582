/* What the parts of the hints half share: errors that say why, and the files that are open. */
#ifndef THALWEG_HINTS_INTERNAL_H
#define THALWEG_HINTS_INTERNAL_H

#include "hints/store.h"
#include "strips/strips.h"
#include "strips/where.h"
/* Here, PMPI_File_sync is MPI's own. */
#define HINTS_HERE
#include "wrap.h"

#define HINTS_PRIVATE __attribute__((visibility("hidden")))

/* An error code of this class whose text (MPI_Error_string) is `reason`. */
int hints_error(int class, const char *reason);
/* Tells the handler of errors on files that are not open; returns the code. */
int hints_raise(int code);
/* The class of MPI for an errno of the file system. */
int hints_class(int error);

/* How a file asked for strips that follow from its ranks' parts, and what came of it. */
enum local { LOCAL_NOT_ASKED, LOCAL_WAITING, LOCAL_IN_FORCE, LOCAL_NONE };

/* What a rank sees of a file. */
struct seen {
    struct strips_view view; /* its runs are freed with the rest */
    uint64_t etype_bytes;
    const char *why_not;     /* not null: it cannot be told which bytes are seen */
};

/* Of a file that asked for local bytes: what this rank wrote, as far as it is known when a call is made. */
struct counted {
    struct where *where;     /* where bytes are; null: it is not known */
    unsigned char *own;      /* which datafiles are on this rank's node */
    uint64_t bytes, local_bytes, unknown_bytes; /* unknown: where in the file, or where that is */
};

/* A file of a mounted store that this process has open. */
struct opened {
    MPI_File file;
    char *path, *layout; /* the layout in force; null: it could not be read */
    int amode, rank, size;
    int asked;           /* each rank's bytes were to be local */
    enum local local;
    int settled;         /* the layout is not chosen again: somebody wrote, or it was tried for the last time */
    unsigned disabled;   /* which of HINTS_DISABLED we set, and not the program */
    int written;         /* this process wrote independently of the others before it was settled */
    MPI_Comm comm;       /* for what the ranks tell each other here */
    uint32_t *target_of; /* at rank 0, while it is not settled: where each rank's bytes belong */
    char *given;         /* at rank 0: the layout that was chosen last */
    char why[HINTS_REASON_BYTES]; /* at rank 0: why bytes are not local, if some are not */
    uint32_t *here;      /* the targets of this rank's node */
    size_t here_count;
    struct seen seen;
    int64_t ordered_bytes; /* written in the order of ranks so far; -1: others went through the shared file pointer, too */
    struct counted counted;
    struct opened *next;
};

/* Hints of ROMIO by which collective calls gather bytes at other ranks, and writes with gaps write the gaps' bytes too. */
#define HINTS_DISABLED 4
extern const char *const hints_disabled[HINTS_DISABLED];

void hints_remember(struct opened *opened);
struct opened *hints_find(MPI_File file);   /* null: not of a mounted store */
struct opened *hints_take_out(MPI_File file);
void hints_free(struct opened *opened);

/* From here: collective over a file's ranks. */

/* Where each rank's bytes belong, at rank 0 (null elsewhere): the ranks of a node take its targets in turn. Fails at all ranks when a
 * rank's node has no server. */
int hints_targets(MPI_Comm comm, const struct store *store, uint32_t **target_of, char *reason, size_t room);
/* `varstrip_dist,strips=... place=targets:...`, to be freed; null: refused, or too long. */
char *hints_strips_layout(const struct strips_result *strips);

/* Lays a file out that is not settled, by the views that its ranks have set: it may be laid out again until somebody writes. */
void hints_decide_by_views(struct opened *opened);
/* The same by what its ranks are about to write with one collective call, for good; `position` is -1 where it is not known. */
void hints_decide_by_writes(struct opened *opened, int64_t position, uint64_t length);

/* What the rank sees from now on. */
void hints_see(struct opened *opened, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep);
/* Where bytes are is looked up again: the layout is another. */
void hints_look_up(struct opened *opened);
/* Says once, at rank 0, how many bytes of a file that is closed are not on the node that wrote them, and why. */
void hints_say(struct opened *opened);

/* One more, or one less, of the files that are laid out so. */
void hints_count_local(const struct opened *opened, int more);

/* The runs of a file type within one extent; the view's displacement is left as it is. Returns null, or why they cannot be had. */
#define HINTS_MOST_RUNS 65536
const char *hints_flatten(MPI_Datatype type, struct strips_view *view);

#endif
