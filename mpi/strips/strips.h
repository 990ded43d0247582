/* From who writes which bytes of a file to the strips that put each writer's bytes on a target of its own.
 *
 * Pure arithmetic: no MPI, no file. `thalweg layout plan` computes the same from a recorded job, in the same steps;
 * tests/vectors.json holds both to the same answers. The steps, from claims on the bytes of one cycle:
 *
 *   1. A byte claimed by writers of one target is *owned* by it; one that nobody claims, or writers of different targets, is not.
 *   2. A range that is not owned and shorter than `gap_bytes` goes with the owned range before it (the first: with the one after
 *      it). A longer one is dealt to all writers' targets in turn, in pieces of `piece_bytes`, at most 64 (MOST_PIECES) of them
 *      (larger pieces then, whole multiples of `piece_bytes`). The turn goes on from range to range, in the order in which
 *      the targets first appear among the writers.
 *   3. Neighbours of one target are one strip. When the cycle is a smaller one several times over, the smaller one is the cycle.
 *   4. Strips of less than `smallest_strip_bytes` on average are refused. A text longer than `text_bytes` is made coarser: the
 *      cycle is cut into equal blocks (a power of two, 4096 bytes at least, 2^20 (MOST_BLOCKS) of them at most, the smallest that is enough), each
 *      goes to the target that owns most of it (of equals: the first in the turn), a block without an owner to the one that
 *      step 2 gave most of it. Step 3 follows again.
 *   5. Datafiles are numbered in the order in which their targets appear; sizes take the largest suffix that keeps them exact.
 */
#ifndef THALWEG_STRIPS_H
#define THALWEG_STRIPS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes [start, end) of the cycle, which this writer writes. */
struct strips_part {
    uint64_t start, end;
    uint32_t writer;
};

/* A run of a view: `length` bytes from `offset`, both within the view's extent. */
struct strips_run {
    uint64_t offset, length;
};

/* What one writer sees of the file: from `displacement` on, tiles of `extent` bytes of which it has the runs. Runs are in order
 * and apart from each other; none: it writes nothing. */
struct strips_view {
    uint64_t displacement, extent;
    const struct strips_run *runs;
    size_t count;
};

struct strips_options {
    uint64_t gap_bytes, piece_bytes, smallest_strip_bytes;
    size_t text_bytes;
};
extern const struct strips_options STRIPS_DEFAULT; /* 64 KiB, 1 MiB, 512 bytes, 48 KiB */

struct strips_result {
    char *text;              /* the parameter `strips` of varstrip_dist; null: refused */
    uint32_t *targets;       /* one for each datafile */
    size_t datafiles;
    size_t strips;
    uint64_t cycle_bytes;    /* after step 3 */
    uint64_t claimed_bytes;  /* of the given cycle, by at least one writer */
    uint64_t local_bytes;    /* of those, on the target of all writers that claim them */
    char refused[160];       /* why there are no strips */
};

/* Strips of `cycle_bytes` claimed by `parts` (any order, they may overlap); `target_of[w]` is where writer w's bytes belong.
 * Returns 0, or -1 with `refused` said. */
int strips_from_parts(const struct strips_part *parts, size_t count, uint64_t cycle_bytes, const uint32_t *target_of, uint32_t writers,
                      const struct strips_options *options, struct strips_result *result);

/* Of a cycle's bytes (step 1): how many anybody claims, and how many are one target's alone. */
void strips_owned(const struct strips_part *parts, size_t count, uint64_t cycle_bytes, const uint32_t *target_of, uint32_t writers,
                  uint64_t *claimed_bytes, uint64_t *owned_bytes);

/* The same from the writers' views.
 *
 * - A view without holes says where its writer begins, not where it ends: its part goes on to where the next one begins. Parts
 *   that begin at equal distances are a cycle that repeats; otherwise the last goes on for ever (2^50 bytes).
 * - Views with holes and one extent repeat with that extent, if no two targets' tiles come to be on the same bytes then.
 * - If they do, or extents differ: views whose first tiles lie one behind the other are regions, as if they had no holes; others count
 *   once, with their first tile. (Repeated views stay where that leaves no more of the bytes to one target alone.)
 * Bytes before a displacement belong to whom they would if the cycle had begun at 0. */
int strips_from_views(const struct strips_view *views, const uint32_t *target_of, uint32_t writers, const struct strips_options *options,
                      struct strips_result *result);

/* The same from where each writer begins; `length[w]` 0: it writes nothing. */
int strips_from_starts(const uint64_t *start, const uint64_t *length, const uint32_t *target_of, uint32_t writers,
                       const struct strips_options *options, struct strips_result *result);

/* What a writer's first write is: `length` bytes of what it sees, from `position` on (in bytes that can be seen). */
struct strips_write {
    struct strips_view view;
    uint64_t position, length;
};

/* The same from what everybody writes first, with one collective call; `result`'s claimed and local bytes are those of that call.
 *
 * What follows is not known: of the patterns that the views of all, the views of those who write, and where these begin, would go on
 * in, and of the call's own bytes repeated, it is the first that has the most of the call's bytes local. Where all who
 * write are of one target, and others have said nothing, there is no pattern: the call's bytes are its own, and as many behind them (64 MiB
 * at least) nobody's. */
int strips_from_writes(const struct strips_write *writes, const uint32_t *target_of, uint32_t writers, const struct strips_options *options,
                       struct strips_result *result);

/* Gives the ranges of the file that a writer sees at `position`, in order, at most `most` of them. Returns how many. */
size_t strips_seen(const struct strips_view *view, uint64_t position, uint64_t length, size_t most,
                   void (*give)(void *context, uint64_t start, uint64_t length), void *context);

void strips_free(struct strips_result *result);

#endif
