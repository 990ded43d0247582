/* Where a layout puts bytes: which of a range's bytes are on which datafile. Pure arithmetic, as strips.h. */
#ifndef THALWEG_STRIPS_WHERE_H
#define THALWEG_STRIPS_WHERE_H

#include <stddef.h>
#include <stdint.h>

/* A layout as strips that repeat: strip i ends at `ends[i]` and is datafile `datafile[i]`'s. */
struct where {
    uint64_t *ends;
    uint32_t *datafile;
    size_t strips;
    uint32_t *targets; /* of each datafile; null: not told */
    size_t datafiles;
};

/* From the parameter `strips` of varstrip_dist, without targets. Free with `where_free`; null: it cannot be read. */
struct where *where_of_strips(const char *strips);
/* From the value of `user.thalweg.layout` of a file: `SPEC datafiles=N place=targets:T,T,...`. Null: its distribution is not known here,
 * or it does not name its targets. */
struct where *where_of_layout(const char *layout);
void where_free(struct where *where);

/* Of `length` bytes from `start` on, how many are on datafiles d with `wanted[d]`. */
uint64_t where_count(const struct where *where, uint64_t start, uint64_t length, const unsigned char *wanted);

#endif
