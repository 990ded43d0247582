/* A file type's runs: what it has of the bytes of its extent, by taking it apart as it was made.
 *
 * Runs are appended in the order of the type map, which for file types is the order of the file; neighbours are joined at once, so
 * that a contiguous type of a million elements is one run. Types with more than HINTS_MOST_RUNS runs are given up. */
#include "hints/internal.h"
#include <stdlib.h>
#include <string.h>

#define MOST_DEPTH 32

struct flat {
    struct strips_view *view;
    struct strips_run *runs; /* the view's */
    size_t room;
    const char *failed;
};

static void flatten(struct flat *f, MPI_Datatype type, MPI_Aint at, int depth);

static void add_run(struct flat *f, MPI_Aint at, MPI_Aint length)
{
    struct strips_view *view = f->view;
    if (f->failed || length <= 0)
        return;
    if (at < 0) {
        f->failed = "a view begins before its displacement";
        return;
    }
    struct strips_run *last = view->count ? &f->runs[view->count - 1] : NULL;
    if (last && last->offset + last->length == (uint64_t)at) {
        last->length += (uint64_t)length;
        return;
    }
    if (last && (uint64_t)at < last->offset + last->length) {
        f->failed = "a view's pieces are not in the order of the file";
        return;
    }
    if (view->count == HINTS_MOST_RUNS) {
        f->failed = "a view has more than 65536 pieces";
        return;
    }
    if (view->count == f->room) {
        f->room = f->room ? 2 * f->room : 64;
        struct strips_run *runs = realloc(f->runs, f->room * sizeof *runs);
        if (!runs) {
            f->failed = "there is no memory for a view's pieces";
            return;
        }
        view->runs = f->runs = runs;
    }
    f->runs[view->count++] = (struct strips_run){(uint64_t)at, (uint64_t)length};
}

static MPI_Aint extent_of(MPI_Datatype type)
{
    MPI_Aint low, extent;
    PMPI_Type_get_extent(type, &low, &extent);
    return extent;
}

/* Whether a type's bytes are one run from 0 to its extent: then many of them are one run, too. (A file type's pieces are in the
 * order of the file.) */
static int is_solid(MPI_Datatype type)
{
    MPI_Aint low, extent, true_low, true_extent;
    MPI_Count size;
    PMPI_Type_get_extent(type, &low, &extent);
    PMPI_Type_get_true_extent(type, &true_low, &true_extent);
    PMPI_Type_size_x(type, &size);
    return low == 0 && true_low == 0 && extent == true_extent && size == (MPI_Count)extent;
}

static void repeat(struct flat *f, MPI_Datatype type, MPI_Aint count, MPI_Aint at, int depth)
{
    MPI_Aint extent = extent_of(type);
    if (is_solid(type)) {
        add_run(f, at, count * extent);
        return;
    }
    for (MPI_Aint i = 0; i < count && !f->failed; i++)
        flatten(f, type, at + i * extent, depth);
}

/* Sub-arrays and distributed arrays are made of others here, as the standard defines them: dimension by dimension, the last one of
 * MPI_ORDER_C innermost. `take` fills the list of places (in elements) that a dimension has. */
struct dimension {
    MPI_Aint size;
    MPI_Aint first, length;          /* of a sub-array; of a distributed one: block and stride come in */
    MPI_Aint block, stride;          /* blocks of `block` from `first`, every `stride`; a stride of 0: one block of `length` */
};

static void nested(struct flat *f, MPI_Datatype type, const struct dimension *dims, int n, MPI_Aint at, int depth)
{
    MPI_Aint inner = extent_of(type);
    for (int i = 1; i < n; i++)
        inner *= dims[i].size;
    const struct dimension *d = &dims[0];
    for (MPI_Aint block = d->first; block < d->size && !f->failed; block += d->stride) {
        MPI_Aint length = d->stride ? d->block : d->length;
        if (length > d->size - block)
            length = d->size - block;
        if (n == 1) {
            repeat(f, type, length, at + block * inner, depth);
        } else {
            for (MPI_Aint i = 0; i < length && !f->failed; i++)
                nested(f, type, dims + 1, n - 1, at + (block + i) * inner, depth);
        }
        if (!d->stride)
            break;
    }
}

static void in_order(struct dimension *dims, int n, int order)
{
    for (int i = 0; order == MPI_ORDER_FORTRAN && i < n / 2; i++) {
        struct dimension swap = dims[i];
        dims[i] = dims[n - 1 - i];
        dims[n - 1 - i] = swap;
    }
}

static void subarray(struct flat *f, const int *i, MPI_Datatype type, MPI_Aint at, int depth)
{
    int n = i[0];
    struct dimension *dims = calloc((size_t)n, sizeof *dims);
    for (int d = 0; dims && d < n; d++)
        dims[d] = (struct dimension){.size = i[1 + d], .length = i[1 + n + d], .first = i[1 + 2 * n + d]};
    if (dims) {
        in_order(dims, n, i[1 + 3 * n]);
        nested(f, type, dims, n, at, depth);
    }
    free(dims);
}

static void darray(struct flat *f, const int *i, MPI_Datatype type, MPI_Aint at, int depth)
{
    int rank = i[1], n = i[2], processes = i[0], place = rank;
    const int *sizes = i + 3, *kinds = sizes + n, *arguments = kinds + n, *grid = arguments + n;
    struct dimension *dims = calloc((size_t)n, sizeof *dims);
    for (int d = 0; dims && d < n; d++) {
        /* Processes are in row-major order over the grid, whatever the array's order. */
        processes /= grid[d];
        int mine = place / processes;
        place %= processes;
        MPI_Aint size = sizes[d], block = arguments[d];
        if (kinds[d] == MPI_DISTRIBUTE_NONE) {
            dims[d] = (struct dimension){.size = size, .length = size};
            continue;
        }
        if (arguments[d] == MPI_DISTRIBUTE_DFLT_DARG)
            block = kinds[d] == MPI_DISTRIBUTE_CYCLIC ? 1 : (size + grid[d] - 1) / grid[d];
        dims[d] = (struct dimension){.size = size, .first = mine * block, .block = block, .stride = (MPI_Aint)grid[d] * block};
        if (kinds[d] == MPI_DISTRIBUTE_BLOCK)
            dims[d].stride = size + 1, dims[d].block = block;
    }
    if (dims) {
        in_order(dims, n, i[3 + 4 * n]);
        nested(f, type, dims, n, at, depth);
    }
    free(dims);
}

/* One level: integers `i`, addresses `a` and types `t` as MPI_Type_get_contents gives them. */
static void take_apart(struct flat *f, int combiner, const int *i, const MPI_Aint *a, const MPI_Datatype *t, MPI_Aint at, int depth)
{
    MPI_Aint extent;
    switch (combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        flatten(f, t[0], at, depth);
        break;
    case MPI_COMBINER_CONTIGUOUS:
        repeat(f, t[0], i[0], at, depth);
        break;
    case MPI_COMBINER_VECTOR:
        extent = extent_of(t[0]);
        for (int k = 0; k < i[0] && !f->failed; k++)
            repeat(f, t[0], i[1], at + (MPI_Aint)k * i[2] * extent, depth);
        break;
    case MPI_COMBINER_HVECTOR:
        for (int k = 0; k < i[0] && !f->failed; k++)
            repeat(f, t[0], i[1], at + k * a[0], depth);
        break;
    case MPI_COMBINER_INDEXED:
        extent = extent_of(t[0]);
        for (int k = 0; k < i[0] && !f->failed; k++)
            repeat(f, t[0], i[1 + k], at + i[1 + i[0] + k] * extent, depth);
        break;
    case MPI_COMBINER_HINDEXED:
        for (int k = 0; k < i[0] && !f->failed; k++)
            repeat(f, t[0], i[1 + k], at + a[k], depth);
        break;
    case MPI_COMBINER_INDEXED_BLOCK:
        extent = extent_of(t[0]);
        for (int k = 0; k < i[0] && !f->failed; k++)
            repeat(f, t[0], i[1], at + i[2 + k] * extent, depth);
        break;
    case MPI_COMBINER_HINDEXED_BLOCK:
        for (int k = 0; k < i[0] && !f->failed; k++)
            repeat(f, t[0], i[1], at + a[k], depth);
        break;
    case MPI_COMBINER_STRUCT:
        for (int k = 0; k < i[0] && !f->failed; k++)
            repeat(f, t[k], i[1 + k], at + a[k], depth);
        break;
    case MPI_COMBINER_SUBARRAY:
        subarray(f, i, t[0], at, depth);
        break;
    case MPI_COMBINER_DARRAY:
        darray(f, i, t[0], at, depth);
        break;
    default:
        f->failed = "a view is made in a way that is not known here";
    }
}

static void flatten(struct flat *f, MPI_Datatype type, MPI_Aint at, int depth)
{
    int integers, addresses, types, combiner;
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if (is_solid(type) || combiner == MPI_COMBINER_NAMED) {
        MPI_Count size;
        PMPI_Type_size_x(type, &size);
        add_run(f, at, (MPI_Aint)size);
        return;
    }
    if (depth == MOST_DEPTH) {
        f->failed = "a view's type is nested too deeply";
        return;
    }
    int *i = calloc((size_t)integers + 1, sizeof *i);
    MPI_Aint *a = calloc((size_t)addresses + 1, sizeof *a);
    MPI_Datatype *t = calloc((size_t)types + 1, sizeof *t);
    if (!i || !a || !t) {
        f->failed = "there is no memory for a view's type";
    } else {
        PMPI_Type_get_contents(type, integers, addresses, types, i, a, t);
        take_apart(f, combiner, i, a, t, at, depth + 1);
        for (int k = 0; k < types; k++) {
            int n, m, o, made;
            PMPI_Type_get_envelope(t[k], &n, &m, &o, &made);
            if (made != MPI_COMBINER_NAMED)
                PMPI_Type_free(&t[k]);
        }
    }
    free(i);
    free(a);
    free(t);
}

const char *hints_flatten(MPI_Datatype type, struct strips_view *view)
{
    MPI_Aint low, extent;
    PMPI_Type_get_extent(type, &low, &extent);
    struct flat f = {view, NULL, 0, NULL};
    view->runs = NULL;
    view->count = 0;
    view->extent = (uint64_t)extent;
    if (extent < 0 || low < 0)
        return "a view has a negative extent or lower bound";
    flatten(&f, type, 0, 0);
    const struct strips_run *last = view->count ? &view->runs[view->count - 1] : NULL;
    if (!f.failed && last && view->extent < last->offset + last->length - view->runs[0].offset)
        f.failed = "a view's tiles overlap";
    return f.failed;
}
