/* One scenario of MPI-IO on one file: io SCENARIO PATH. The byte at offset x of a file is `pattern(x)` when it is done, or the file
 * consists of records that say who wrote them; whoever started this reads it by other means and judges. What ranks read through MPI
 * is judged here. */
#include "check.h"
#include <unistd.h>

#define BLOCK 40000 /* no multiple of a page, of a strip or of a buffer */
#define RECORD 1024

static const char *path;

static unsigned char pattern(MPI_Offset x)
{
    return (unsigned char)((x * 131 + (x >> 8) * 7 + (x >> 16)) & 0xff);
}

static MPI_File open_file(int amode)
{
    MPI_File file;
    MUST(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &file));
    return file;
}

static unsigned char *filled(MPI_Offset at, int count)
{
    unsigned char *bytes = malloc((size_t)count);
    for (int i = 0; i < count; i++)
        bytes[i] = pattern(at + i);
    return bytes;
}

static void judge(const unsigned char *bytes, MPI_Offset at, int count, const char *what)
{
    for (int i = 0; i < count; i++)
        if (bytes[i] != pattern(at + i))
            fail("%s: byte %lld is %d, not %d", what, (long long)at + i, bytes[i], pattern(at + i));
}

/* Makes what all ranks wrote visible to all. */
static void sync_all(MPI_File file)
{
    MUST(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MUST(MPI_File_sync(file));
}

static void independent(void)
{
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    unsigned char back[BLOCK];
    for (int i = 0; i < 8; i++) {
        MPI_Offset at = (MPI_Offset)(i * size + rank) * BLOCK;
        unsigned char *bytes = filled(at, BLOCK);
        MUST(MPI_File_write_at(file, at, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        free(bytes);
    }
    sync_all(file);
    for (int i = 0; i < 8; i++) {
        MPI_Status status;
        int count;
        MPI_Offset at = (MPI_Offset)(i * size + (rank + 1) % size) * BLOCK;
        MUST(MPI_File_read_at(file, at, back, BLOCK, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &count);
        if (count != BLOCK)
            fail("read %d bytes, not %d", count, BLOCK);
        judge(back, at, BLOCK, "another rank's block");
    }
    MUST(MPI_File_close(&file));
}

static void collective(void)
{
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    unsigned char back[BLOCK];
    for (int i = 0; i < 8; i++) {
        MPI_Offset at = (MPI_Offset)(i * size + rank) * BLOCK;
        unsigned char *bytes = filled(at, BLOCK);
        MUST(MPI_File_write_at_all(file, at, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        free(bytes);
    }
    sync_all(file);
    for (int i = 0; i < 8; i++) {
        MPI_Offset at = (MPI_Offset)(i * size + (rank + 1) % size) * BLOCK;
        MUST(MPI_File_read_at_all(file, at, back, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        judge(back, at, BLOCK, "another rank's block");
    }
    MUST(MPI_File_close(&file));
}

/* Every rank its own blocks of 1000 bytes, in turn, through a vector: `calls` of them collectively or each by itself. */
static void through_vector(int all)
{
    enum { PIECE = 1000, PIECES = 64, CALLS = 4 };
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Datatype type;
    unsigned char *bytes = malloc(PIECE * PIECES), *back = malloc(PIECE * PIECES);
    MPI_Type_vector(PIECES, PIECE, PIECE * size, MPI_BYTE, &type);
    MPI_Type_create_resized(type, 0, (MPI_Aint)PIECE * size * PIECES, &type);
    MPI_Type_commit(&type);
    MUST(MPI_File_set_view(file, (MPI_Offset)rank * PIECE, MPI_BYTE, type, "native", MPI_INFO_NULL));
    for (int way = 0; way < 2; way++) {
        MUST(MPI_File_seek(file, 0, MPI_SEEK_SET));
        for (int call = 0; call < CALLS; call++) {
            for (int i = 0; i < PIECE * PIECES; i++)
                bytes[i] = pattern(((MPI_Offset)(call * PIECES + i / PIECE) * size + rank) * PIECE + i % PIECE);
            if (way == 0)
                MUST((all ? MPI_File_write_all : MPI_File_write)(file, bytes, PIECE * PIECES, MPI_BYTE, MPI_STATUS_IGNORE));
            else
                MUST((all ? MPI_File_read_all : MPI_File_read)(file, back, PIECE * PIECES, MPI_BYTE, MPI_STATUS_IGNORE));
            if (way == 1 && memcmp(bytes, back, PIECE * PIECES))
                fail("what was written through a vector is not what is read");
        }
        sync_all(file);
    }
    MPI_Type_free(&type);
    MUST(MPI_File_close(&file));
    free(bytes);
    free(back);
}

static void strided(void)
{
    through_vector(0);
}

static void strided_collective(void)
{
    through_vector(1);
}

/* Pieces of growing size, dealt to the ranks in turn, through an indexed type. */
static void indexed(void)
{
    enum { MOST = 60 };
    int lengths[MOST], n = 0, total = 0;
    MPI_Aint starts[MOST], at = 0;
    for (int i = 0; i < MOST; i++) {
        int length = 37 + 61 * i;
        if (i % size == rank)
            starts[n] = at, lengths[n++] = length, total += length;
        at += length;
    }
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Datatype type;
    unsigned char *bytes = malloc((size_t)total), *back = malloc((size_t)total), *to = bytes;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < lengths[i]; k++)
            *to++ = pattern(starts[i] + k);
    MPI_Type_create_hindexed(n, lengths, starts, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MUST(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
    MUST(MPI_File_write_all(file, bytes, total, MPI_BYTE, MPI_STATUS_IGNORE));
    sync_all(file);
    MUST(MPI_File_read_at(file, 0, back, total, MPI_BYTE, MPI_STATUS_IGNORE));
    if (memcmp(bytes, back, (size_t)total))
        fail("what was written through an indexed type is not what is read");
    MPI_Type_free(&type);
    MUST(MPI_File_close(&file));
    free(bytes);
    free(back);
}

/* All ranks write the same range at once, with pieces of one call far apart in the file: afterwards it is one rank's, in whole. */
static void atomic_mode(void)
{
    enum { PIECE = 512, PIECES = 16, ROUNDS = 12 };
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Datatype type;
    unsigned char bytes[PIECE * PIECES], back[PIECE * PIECES];
    int on = 0;
    MUST(MPI_File_set_atomicity(file, 1));
    MUST(MPI_File_get_atomicity(file, &on));
    if (!on)
        fail("atomic mode is not on");
    MPI_Type_vector(PIECES, PIECE, 3 * PIECE, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MUST(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
    for (int round = 0; round < ROUNDS; round++) {
        memset(bytes, 1 + rank + round * size, sizeof bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        MUST(MPI_File_write_at(file, 0, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        MUST(MPI_File_read_at(file, 0, back, sizeof back, MPI_BYTE, MPI_STATUS_IGNORE));
        for (size_t i = 1; i < sizeof back; i++)
            if (back[i] != back[0])
                fail("round %d: byte %zu is %d's, byte 0 is %d's", round, i, back[i], back[0]);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Type_free(&type);
    MUST(MPI_File_close(&file));
}

/* Records that say who wrote them and when: rank, number, and the rest from both. */
static void fill_record(int *record, int number)
{
    for (int i = 0; i < RECORD / 4; i++)
        record[i] = i == 0 ? rank : i == 1 ? number : rank * 1000003 + number * 101 + i;
}

static void shared_pointer(void)
{
    enum { RECORDS = 40 };
    int record[RECORD / 4];
    char *seen = calloc((size_t)size, RECORDS), *all = calloc((size_t)size, RECORDS);
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    for (int i = 0; i < RECORDS; i++) {
        fill_record(record, i);
        MUST(MPI_File_write_shared(file, record, RECORD / 4, MPI_INT, MPI_STATUS_IGNORE));
    }
    sync_all(file);
    MUST(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < RECORDS; i++) {
        MPI_Status status;
        int count;
        MUST(MPI_File_read_shared(file, record, RECORD / 4, MPI_INT, &status));
        /* A read that ends early leaves in memory what was there before. */
        MPI_Get_count(&status, MPI_INT, &count);
        if (count != RECORD / 4)
            fail("read %d gave %d integers, not %d", i, count, RECORD / 4);
        if (record[0] < 0 || record[0] >= size || record[1] < 0 || record[1] >= RECORDS)
            fail("a record that nobody wrote: %d, %d", record[0], record[1]);
        seen[record[0] * RECORDS + record[1]]++;
    }
    MPI_Reduce(seen, all, size * RECORDS, MPI_CHAR, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size * RECORDS; i++)
        if (all[i] != 1)
            fail("record %d of rank %d was read %d times", i % RECORDS, i / RECORDS, all[i]);
    MUST(MPI_File_close(&file));
    free(seen);
    free(all);
}

static void ordered(void)
{
    int record[RECORD / 4], wanted[RECORD / 4];
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    for (int i = 0; i < 10; i++) {
        fill_record(record, i);
        MUST(MPI_File_write_ordered(file, record, RECORD / 4, MPI_INT, MPI_STATUS_IGNORE));
    }
    sync_all(file);
    MUST(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < 10; i++) {
        fill_record(wanted, i);
        MUST(MPI_File_read_ordered(file, record, RECORD / 4, MPI_INT, MPI_STATUS_IGNORE));
        if (memcmp(record, wanted, sizeof record))
            fail("round %d of the ordered reads gave rank %d's record %d", i, record[0], record[1]);
    }
    MUST(MPI_File_close(&file));
}

static void non_blocking(void)
{
    enum { CALLS = 6 };
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Request requests[CALLS];
    unsigned char *bytes[CALLS], *back[CALLS];
    for (int i = 0; i < CALLS; i++) {
        MPI_Offset at = (MPI_Offset)(i * size + rank) * BLOCK;
        bytes[i] = filled(at, BLOCK);
        back[i] = calloc(1, BLOCK);
        if (i < CALLS - 2)
            MUST(MPI_File_iwrite_at(file, at, bytes[i], BLOCK, MPI_BYTE, &requests[i]));
        else
            MUST(MPI_File_iwrite_at_all(file, at, bytes[i], BLOCK, MPI_BYTE, &requests[i]));
    }
    MUST(MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE));
    sync_all(file);
    for (int i = 0; i < CALLS; i++) {
        MPI_Offset at = (MPI_Offset)(i * size + (rank + 1) % size) * BLOCK;
        MUST(MPI_File_seek(file, at, MPI_SEEK_SET));
        if (i < CALLS - 3)
            MUST(MPI_File_iread_at(file, at, back[i], BLOCK, MPI_BYTE, &requests[i]));
        else
            MUST(MPI_File_iread_all(file, back[i], BLOCK, MPI_BYTE, &requests[i]));
    }
    MUST(MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < CALLS; i++) {
        judge(back[i], (MPI_Offset)(i * size + (rank + 1) % size) * BLOCK, BLOCK, "read without blocking");
        free(bytes[i]);
        free(back[i]);
    }
    MUST(MPI_File_close(&file));
}

static void split_collective(void)
{
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Offset at = (MPI_Offset)rank * BLOCK;
    unsigned char *bytes = filled(at, BLOCK), back[BLOCK];
    MUST(MPI_File_write_at_all_begin(file, at, bytes, BLOCK, MPI_BYTE));
    MUST(MPI_File_write_at_all_end(file, bytes, MPI_STATUS_IGNORE));
    sync_all(file);
    at = (MPI_Offset)((rank + 1) % size) * BLOCK;
    MUST(MPI_File_read_at_all_begin(file, at, back, BLOCK, MPI_BYTE));
    MUST(MPI_File_read_at_all_end(file, back, MPI_STATUS_IGNORE));
    judge(back, at, BLOCK, "read in two halves");
    free(bytes);
    MUST(MPI_File_close(&file));
}

static void sizes(void)
{
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Offset bytes;
    MUST(MPI_File_preallocate(file, 300000));
    MUST(MPI_File_get_size(file, &bytes));
    if (bytes != 300000)
        fail("preallocated 300000 bytes, and there are %lld", (long long)bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    MUST(MPI_File_set_size(file, 70000));
    MUST(MPI_File_get_size(file, &bytes));
    if (bytes != 70000)
        fail("cut to 70000 bytes, and there are %lld", (long long)bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    unsigned char *mine = filled(70000 + rank * 100, 100);
    MUST(MPI_File_seek(file, rank * 100, MPI_SEEK_END));
    MUST(MPI_File_get_position(file, &bytes));
    if (bytes != 70000 + rank * 100)
        fail("the end is at %lld", (long long)bytes - rank * 100);
    MPI_Barrier(MPI_COMM_WORLD);
    MUST(MPI_File_write(file, mine, 100, MPI_BYTE, MPI_STATUS_IGNORE));
    sync_all(file);
    MUST(MPI_File_get_size(file, &bytes));
    if (bytes != 70000 + size * 100)
        fail("%d ranks wrote 100 bytes after 70000, and there are %lld", size, (long long)bytes);
    free(mine);
    MUST(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    /* A file that is gone when it is closed. */
    char gone[4096];
    snprintf(gone, sizeof gone, "%s.gone", path);
    MUST(MPI_File_open(MPI_COMM_WORLD, gone, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    MUST(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && !access(gone, F_OK))
        fail("a file that is deleted on close is there");
}

/* Appends by whoever opens for appending: each rank's file pointer begins at the end. */
static void append_mode(void)
{
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_WRONLY);
    unsigned char *bytes = filled(0, BLOCK);
    if (rank == 0)
        MUST(MPI_File_write(file, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    MUST(MPI_File_close(&file));
    free(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    file = open_file(MPI_MODE_WRONLY | MPI_MODE_APPEND);
    MPI_Offset at;
    MUST(MPI_File_get_position(file, &at));
    if (at != BLOCK)
        fail("opened for appending, and the pointer is at %lld", (long long)at);
    bytes = filled(at + rank * BLOCK, BLOCK);
    MUST(MPI_File_seek(file, rank * BLOCK, MPI_SEEK_CUR));
    MUST(MPI_File_write_all(file, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    free(bytes);
    MUST(MPI_File_close(&file));
}

static const struct {
    const char *name;
    void (*run)(void);
} SCENARIOS[] = {
    {"independent", independent}, {"collective", collective}, {"strided", strided}, {"strided_collective", strided_collective},
    {"indexed", indexed}, {"atomic", atomic_mode}, {"shared", shared_pointer}, {"ordered", ordered}, {"nonblocking", non_blocking},
    {"split", split_collective}, {"sizes", sizes}, {"append", append_mode},
};

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc != 3)
        fail("expected io SCENARIO[,SCENARIO]... PATH-PREFIX");
    char *list = argv[1], *save = NULL;
    static char each[4096];
    for (char *name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        size_t i = 0;
        while (i < sizeof SCENARIOS / sizeof *SCENARIOS && strcmp(SCENARIOS[i].name, name))
            i++;
        if (i == sizeof SCENARIOS / sizeof *SCENARIOS)
            fail("there is no scenario %s", name);
        snprintf(each, sizeof each, "%s%s", argv[2], name);
        path = each;
        SCENARIOS[i].run();
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            printf("done %s\n", name);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
