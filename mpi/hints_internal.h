/* What the parts of the hints half share: errors that say why, and the files that are open. */
#ifndef THALWEG_HINTS_INTERNAL_H
#define THALWEG_HINTS_INTERNAL_H

#include "hints_store.h"
#include "strips.h"
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

/* A file of a mounted store that this process has open. */
struct opened {
    MPI_File file;
    char *path, *layout; /* the layout in force; null: it could not be read */
    int amode, rank, size;
    enum local local;
    unsigned disabled;   /* which of HINTS_DISABLED we set, and not the program */
    int written;         /* this process wrote independently of the others while the layout waited */
    MPI_Comm comm;       /* for what the ranks tell each other here */
    uint32_t *target_of; /* at rank 0, while waiting: where each rank's bytes belong */
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

/* What a rank knows of its part when a waiting file is first used. */
struct claim {
    enum { CLAIM_VIEW, CLAIM_START, CLAIM_NONE } kind;
    uint64_t displacement, extent; /* of a view; of a start: where it begins, and how much comes first */
    struct strips_run *runs;
    size_t count;
    const char *why_not; /* with CLAIM_NONE */
};
/* Lays a waiting file out by what its ranks claim, or gives up, says so once, and leaves it as it is. */
int hints_decide(struct opened *opened, const struct claim *claim);
/* Ends the waiting of a file that is closed, and says once that it was for nothing if somebody wrote. */
void hints_give_up(struct opened *opened);
/* One more, or one less, of the files that are laid out so. */
void hints_count_local(const struct opened *opened, int more);

/* The runs of a file type within one extent. Returns null, or why they cannot be had. */
#define HINTS_MOST_RUNS 65536
const char *hints_flatten(MPI_Datatype type, struct claim *claim);

#endif
