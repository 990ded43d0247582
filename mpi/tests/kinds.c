/* Kinds of writing one file that all ranks open: kinds DIRECTORY KIND... writes DIRECTORY/KIND for each, with `thalweg_layout=local` (a KIND
 * may be NAME,KEY=VALUE for one more hint). Every byte that a rank writes is its letter, 'A' and on. Whoever started this finds out
 * where the bytes are. */
#include "check.h"

#define BLOCK 65536
#define TILES 4

static char *letters;

/* ---- views */

static void view(MPI_File file, MPI_Offset at, MPI_Datatype etype, MPI_Datatype type)
{
    int predefined = type == MPI_BYTE;
    if (!predefined)
        MPI_Type_commit(&type);
    MUST(MPI_File_set_view(file, at, etype, type, "native", MPI_INFO_NULL));
    if (!predefined)
        MPI_Type_free(&type);
}

/* Blocks of a rank's own, one of every `size`; the type ends with its last block. */
static MPI_Datatype vector(void)
{
    MPI_Datatype type;
    MPI_Type_vector(TILES, BLOCK, size * BLOCK, MPI_BYTE, &type);
    return type;
}

static void see_vector(MPI_File file)
{
    view(file, (MPI_Offset)rank * BLOCK, MPI_BYTE, vector());
}

/* The same, of doubles and behind a header. */
static void see_doubles(MPI_File file)
{
    MPI_Datatype type;
    MPI_Type_vector(TILES, BLOCK / 8, size * BLOCK / 8, MPI_DOUBLE, &type);
    view(file, 4096 + (MPI_Offset)rank * BLOCK, MPI_DOUBLE, type);
}

/* The same from displacement 0: the rank's place is in the type, which begins there. */
static void see_struct(MPI_File file)
{
    int lengths[TILES];
    MPI_Aint places[TILES];
    MPI_Datatype types[TILES], type;
    for (int i = 0; i < TILES; i++)
        lengths[i] = BLOCK, places[i] = ((MPI_Aint)i * size + rank) * BLOCK, types[i] = MPI_BYTE;
    MPI_Type_create_struct(TILES, lengths, places, types, &type);
    view(file, 0, MPI_BYTE, type);
}

static void see_columns(MPI_File file)
{
    int sizes[2] = {TILES, size * BLOCK}, own[2] = {TILES, BLOCK}, from[2] = {0, rank * BLOCK};
    MPI_Datatype type;
    MPI_Type_create_subarray(2, sizes, own, from, MPI_ORDER_C, MPI_BYTE, &type);
    view(file, 512, MPI_BYTE, type);
}

static void see_darray(MPI_File file)
{
    int sizes[2] = {TILES, size * BLOCK}, kinds[2] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC}, blocks[2] = {MPI_DISTRIBUTE_DFLT_DARG, BLOCK};
    int grid[2] = {1, size};
    MPI_Datatype type;
    MPI_Type_create_darray(size, rank, 2, sizes, kinds, blocks, grid, MPI_ORDER_C, MPI_BYTE, &type);
    view(file, 0, MPI_BYTE, type);
}

/* A region of each rank's own, with holes in it that nobody writes. */
static void see_region(MPI_File file)
{
    MPI_Datatype type;
    MPI_Type_vector(TILES, BLOCK, 2 * BLOCK, MPI_BYTE, &type);
    view(file, (MPI_Offset)rank * 3 * TILES * BLOCK, MPI_BYTE, type);
}

/* The last rank sees nothing. */
static void see_nothing(MPI_File file)
{
    MPI_Datatype type = vector();
    if (rank == size - 1) {
        MPI_Type_free(&type);
        MPI_Type_contiguous(0, MPI_BYTE, &type);
    }
    view(file, rank == size - 1 ? 0 : (MPI_Offset)rank * BLOCK, MPI_BYTE, type);
}

static void see_all(MPI_File file)
{
    view(file, 0, MPI_BYTE, MPI_BYTE);
}

/* ---- writes */

static void all(MPI_File file, int blocks)
{
    MUST(MPI_File_write_all(file, letters, blocks * BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void at_all(MPI_File file, MPI_Offset block, int blocks)
{
    MUST(MPI_File_write_at_all(file, block * BLOCK, letters, blocks * BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void at_once(MPI_File file)
{
    all(file, TILES);
}

static void block_by_block(MPI_File file)
{
    for (int i = 0; i < TILES; i++)
        all(file, 1);
}

/* By offset, the second half first. */
static void halves(MPI_File file)
{
    at_all(file, TILES / 2, TILES / 2);
    at_all(file, 0, TILES / 2);
}

static void alone(MPI_File file)
{
    MUST(MPI_File_write(file, letters, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    MUST(MPI_File_write_at(file, BLOCK, letters, (TILES - 1) * BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void without_waiting(MPI_File file)
{
    MPI_Request request;
    MUST(MPI_File_iwrite(file, letters, TILES * BLOCK, MPI_BYTE, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void split(MPI_File file)
{
    MUST(MPI_File_write_all_begin(file, letters, TILES * BLOCK, MPI_BYTE));
    MUST(MPI_File_write_all_end(file, letters, MPI_STATUS_IGNORE));
}

static void doubles(MPI_File file)
{
    MUST(MPI_File_write_at_all(file, BLOCK / 8, letters, (TILES - 1) * BLOCK / 8, MPI_DOUBLE, MPI_STATUS_IGNORE));
    MUST(MPI_File_write_at_all(file, 0, letters, BLOCK / 8, MPI_DOUBLE, MPI_STATUS_IGNORE));
}

/* The last rank makes the calls, and writes nothing. */
static void last_idle(MPI_File file)
{
    all(file, rank == size - 1 ? 0 : TILES);
}

static void last_idle_at_all(MPI_File file)
{
    at_all(file, rank == size - 1 ? 0 : (MPI_Offset)rank * TILES, rank == size - 1 ? 0 : TILES);
}

static void last_idle_in_turn(MPI_File file)
{
    for (int i = 0; i < TILES; i++)
        at_all(file, rank == size - 1 ? 0 : (MPI_Offset)i * (size - 1) + rank, rank != size - 1);
}

static void first_alone_at_all(MPI_File file)
{
    at_all(file, 0, rank == 0 ? TILES : 0);
}

/* A header by rank 0, as a collective call, and then blocks in turn. */
static void header(MPI_File file)
{
    at_all(file, 0, rank == 0);
    for (int i = 0; i < 40; i++)
        at_all(file, 16 + (MPI_Offset)i * size + rank, 1);
}

/* At first nobody writes. */
static void nothing_first(MPI_File file)
{
    at_all(file, 0, 0);
    at_all(file, (MPI_Offset)rank * TILES, TILES);
}

static void segments(MPI_File file)
{
    for (int i = 0; i < TILES; i++)
        at_all(file, (MPI_Offset)rank * TILES + i, 1);
}

static void in_turn(MPI_File file)
{
    for (int i = 0; i < TILES; i++)
        at_all(file, (MPI_Offset)i * size + rank, 1);
}

/* Every other call is the other way round: the first does not tell. */
static void back_and_forth(MPI_File file)
{
    for (int i = 0; i < TILES; i++)
        at_all(file, (MPI_Offset)i * size + (i % 2 ? size - 1 - rank : rank), 1);
}

static void own_parts(MPI_File file)
{
    MUST(MPI_File_write_at(file, (MPI_Offset)rank * TILES * BLOCK, letters, TILES * BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void ordered(MPI_File file)
{
    for (int i = 0; i < TILES; i++)
        MUST(MPI_File_write_ordered(file, letters, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void shared(MPI_File file)
{
    MUST(MPI_File_write_shared(file, letters, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

/* One view after the other, a tile further each time. */
static void next_tiles(MPI_File file)
{
    for (int i = 1; i < 4; i++) {
        all(file, TILES);
        view(file, ((MPI_Offset)i * TILES * size + rank) * BLOCK, MPI_BYTE, vector());
    }
    all(file, TILES);
}

static const struct {
    const char *name;
    void (*see)(MPI_File);
    void (*write)(MPI_File);
} KINDS[] = {
    {"vector", see_vector, at_once},
    {"vector-block-by-block", see_vector, block_by_block},
    {"vector-halves", see_vector, halves},
    {"vector-alone", see_vector, alone},
    {"vector-without-waiting", see_vector, without_waiting},
    {"vector-split", see_vector, split},
    {"vector-next-tiles", see_vector, next_tiles},
    {"vector-last-idle", see_vector, last_idle},
    {"doubles", see_doubles, doubles},
    {"struct", see_struct, at_once},
    {"struct-alone", see_struct, alone},
    {"columns", see_columns, at_once},
    {"columns-block-by-block", see_columns, block_by_block},
    {"columns-last-idle", see_columns, last_idle},
    {"darray", see_darray, halves},
    {"region", see_region, block_by_block},
    {"region-alone", see_region, alone},
    {"nothing-seen", see_nothing, last_idle},
    {"last-idle", NULL, last_idle_at_all},
    {"last-idle-in-turn", NULL, last_idle_in_turn},
    {"first-alone", NULL, first_alone_at_all},
    {"header", NULL, header},
    {"nothing-first", NULL, nothing_first},
    {"segments", NULL, segments},
    {"in-turn", NULL, in_turn},
    {"back-and-forth", NULL, back_and_forth},
    {"own-parts", NULL, own_parts},
    {"same-view", see_all, in_turn},
    {"ordered", NULL, ordered},
    {"sequential", NULL, ordered}, /* opened so */
    {"shared", NULL, shared},
};

static void one(const char *directory, const char *wanted)
{
    char path[4096], name[64], *hint;
    MPI_File file;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thalweg_layout", "local");
    snprintf(name, sizeof name, "%s", wanted);
    if ((hint = strchr(name, ','))) {
        *hint++ = 0;
        char *value = strchr(hint, '=');
        *value++ = 0;
        MPI_Info_set(info, hint, value);
    }
    snprintf(path, sizeof path, "%s/%s", directory, wanted);
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
        if (strcmp(KINDS[k].name, name))
            continue;
        int amode = strcmp(name, "sequential") ? MPI_MODE_RDWR : MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL;
        MUST(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | amode, info, &file));
        MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
        if (KINDS[k].see)
            KINDS[k].see(file);
        KINDS[k].write(file);
        MUST(MPI_File_close(&file));
        MPI_Info_free(&info);
        return;
    }
    fail("no kind %s", name);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    letters = malloc(TILES * BLOCK);
    memset(letters, 'A' + rank, TILES * BLOCK);
    if (argc == 3 && !strcmp(argv[2], "list")) {
        for (size_t k = 0; rank == 0 && k < sizeof KINDS / sizeof *KINDS; k++)
            printf("%s\n", KINDS[k].name);
    } else {
        for (int i = 2; i < argc; i++)
            one(argv[1], argv[i]);
    }
    free(letters);
    MPI_Finalize();
    return 0;
}
