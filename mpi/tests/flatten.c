/* The runs of random types, held against where MPI itself finds their bytes: a buffer whose bytes say where they are is packed. */
#define _GNU_SOURCE
#include "find.c"
#include "hints/flatten.c"
#include "check.h"

#define BYTES 40000

static unsigned seed;

static int draw(int least, int most)
{
    seed = seed * 1103515245u + 12345u;
    return least + (int)((seed >> 16) % (unsigned)(most - least + 1));
}

static MPI_Datatype basic(void)
{
    static const int KINDS = 5;
    MPI_Datatype types[] = {MPI_BYTE, MPI_INT, MPI_DOUBLE, MPI_SHORT, MPI_FLOAT_INT};
    return types[draw(0, KINDS - 1)];
}

/* Pieces in ascending order, apart from each other or side by side. */
static int pieces(int count, int *lengths, int *starts)
{
    int at = draw(0, 3);
    for (int i = 0; i < count; i++) {
        lengths[i] = draw(0, 3);
        starts[i] = at;
        at += lengths[i] + draw(0, 2);
    }
    return count;
}

static MPI_Datatype distributed(MPI_Datatype inner)
{
    MPI_Datatype made;
    int grid[2] = {draw(1, 2), draw(1, 3)}, sizes[2] = {draw(2, 7), draw(2, 7)}, kinds[2], arguments[2];
    static const int KINDS[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
    for (int d = 0; d < 2; d++) {
        kinds[d] = KINDS[draw(0, 2)];
        arguments[d] = MPI_DISTRIBUTE_DFLT_DARG;
        if (kinds[d] == MPI_DISTRIBUTE_NONE)
            grid[d] = 1;
        else if (draw(0, 1))
            arguments[d] = kinds[d] == MPI_DISTRIBUTE_CYCLIC ? draw(1, 3) : (sizes[d] + grid[d] - 1) / grid[d] + draw(0, 1);
    }
    /* Open MPI makes none where a process has nothing of the array. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Type_create_darray(grid[0] * grid[1], draw(0, grid[0] * grid[1] - 1), 2, sizes, kinds, arguments, grid,
                               draw(0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner, &made))
        MUST(MPI_Type_dup(inner, &made));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    return made;
}

static MPI_Datatype part_of_array(MPI_Datatype inner)
{
    MPI_Datatype made;
    int sizes[3], own[3], from[3], n = draw(1, 3);
    for (int d = 0; d < n; d++) {
        sizes[d] = draw(1, 5);
        own[d] = draw(1, sizes[d]);
        from[d] = draw(0, sizes[d] - own[d]);
    }
    MUST(MPI_Type_create_subarray(n, sizes, own, from, draw(0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner, &made));
    return made;
}

static MPI_Datatype random_type(int depth)
{
    if (depth == 0)
        return basic();
    MPI_Datatype inner = random_type(depth - 1), made;
    int n = draw(1, 4), lengths[4], starts[4];
    MPI_Aint addresses[4], low, extent;
    MPI_Datatype types[4];
    MPI_Type_get_extent(inner, &low, &extent);
    pieces(n, lengths, starts);
    for (int i = 0; i < n; i++)
        addresses[i] = starts[i] * (MPI_Aint)extent + (i ? 3 : 0), types[i] = inner;
    int block = draw(1, 3), stride = block + draw(0, 2);
    switch (draw(0, 11)) {
    case 0: MUST(MPI_Type_contiguous(n, inner, &made)); break;
    case 1: MUST(MPI_Type_vector(n, block, stride, inner, &made)); break;
    case 2: MUST(MPI_Type_create_hvector(n, block, stride * extent + 1, inner, &made)); break;
    case 3: MUST(MPI_Type_indexed(n, lengths, starts, inner, &made)); break;
    case 4: MUST(MPI_Type_create_hindexed(n, lengths, addresses, inner, &made)); break;
    case 5:
        for (int i = 0; i < n; i++)
            starts[i] = i * stride;
        MUST(MPI_Type_create_indexed_block(n, block, starts, inner, &made));
        break;
    case 6:
        for (int i = 0; i < n; i++)
            addresses[i] = i * (stride * extent + 2);
        MUST(MPI_Type_create_hindexed_block(n, block, addresses, inner, &made));
        break;
    case 7: MUST(MPI_Type_create_struct(n, lengths, addresses, types, &made)); break;
    case 8: made = part_of_array(inner); break;
    case 9: made = distributed(inner); break;
    case 10: MUST(MPI_Type_create_resized(inner, 0, low + extent + draw(0, 5), &made)); break;
    default: MUST(MPI_Type_dup(inner, &made));
    }
    if (depth > 1)
        MPI_Type_free(&inner);
    return made;
}

/* Where MPI finds the bytes of a type, in its order; returns how many. */
static int places(MPI_Datatype type, int *list)
{
    static unsigned char from[BYTES], packed[2][BYTES];
    int length = 0;
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < BYTES; i++)
            from[i] = (unsigned char)(i >> (8 * part));
        length = 0;
        MUST(MPI_Pack(from, 1, type, packed[part], BYTES, &length, MPI_COMM_SELF));
    }
    for (int i = 0; i < length; i++)
        list[i] = packed[0][i] | packed[1][i] << 8;
    return length;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    static int list[BYTES];
    int compared = 0;
    for (int round = 0; round < 4000; round++) {
        seed = (unsigned)round * 2654435761u;
        MPI_Datatype type = random_type(draw(1, 3));
        MPI_Aint low, extent, true_low, true_extent;
        MPI_Type_commit(&type);
        MPI_Type_get_extent(type, &low, &extent);
        MPI_Type_get_true_extent(type, &true_low, &true_extent);
        if (true_low < 0 || true_low + true_extent > BYTES) {
            MPI_Type_free(&type);
            continue;
        }
        struct strips_view view = {0};
        const char *refused = hints_flatten(type, &view);
        int n = places(type, list), in_order = 1, at = 0;
        MPI_Type_free(&type);
        for (int i = 1; i < n; i++)
            in_order = in_order && list[i] > list[i - 1];
        if (refused) {
            /* Tiles may overlap when the extent is smaller than the bytes, and pieces may be in another order. */
            if (in_order && (n == 0 || list[n - 1] - list[0] < extent))
                fail("round %d: refused: %s", round, refused);
            continue;
        }
        for (size_t r = 0; r < view.count; r++)
            for (uint64_t k = 0; k < view.runs[r].length; k++, at++)
                if (at >= n || (uint64_t)list[at] != view.runs[r].offset + k)
                    fail("round %d: byte %d is at %d, and run %zu says %llu", round, at, at < n ? list[at] : -1, r,
                         (unsigned long long)(view.runs[r].offset + k));
        if (at != n || view.extent != (uint64_t)extent)
            fail("round %d: %d bytes of %d, extent %llu of %lld", round, at, n, (unsigned long long)view.extent, (long long)extent);
        compared++;
        free((void *)view.runs);
    }
    if (compared < 1500)
        fail("only %d types were compared", compared);
    printf("%d types\n", compared);
    MPI_Finalize();
    return 0;
}
