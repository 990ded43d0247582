/* The access patterns of a layout study through MPI-IO: every rank moves its part of a file, and says how long it took.
 *
 *   patterns FILE WAY CALLS SHARING ORDER BLOCK TRANSFER SEGMENTS [KEY=VALUE]...
 *     WAY       write or read               CALLS    independent, collective or shared_pointer
 *     SHARING   shared or per_rank          ORDER    ascending or random
 *
 * Transfer t of block s of rank r of n is at (s * n + r) * BLOCK + t * TRANSFER of a shared file, and at s * BLOCK + t * TRANSFER of a
 * rank's own, FILE.r. Collective calls see the shared file through a view of the rank's blocks; through the shared pointer, ranks
 * write and read in their order. All begin at a barrier. Writing is timed alone, and the sync after it. Every page carries its own
 * offset, and one that is read must have it. KEY=VALUE are hints for the open.
 *
 * Rank 0 prints a line of JSON for each rank: {"rank":R,"bytes":B,"transfer_s":T,"sync_s":S}. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u
#define STAMP 0x7468616c77656721ull

enum calls { INDEPENDENT, COLLECTIVE, SHARED_POINTER };

static int rank, ranks, reads, shared, shuffled;
static enum calls calls;
static uint64_t block, transfer, segments;

static void fail(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code != MPI_SUCCESS)
        MPI_Error_string(code, text, &length);
    fprintf(stderr, "patterns: rank %d: %s %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void must(int code, const char *what)
{
    if (code != MPI_SUCCESS)
        fail(what, code);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (*text == 0 || *end != 0 || value == 0)
        fail(text, MPI_SUCCESS);
    return value;
}

/* The place of a word in a list. */
static int choice(const char *word, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    fail(word, MPI_SUCCESS);
    return 0;
}

static uint64_t transfers_of_a_block(void)
{
    return (block + transfer - 1) / transfer;
}

/* Where transfer `index` is in the file, and how long it is. */
static uint64_t place(uint64_t index, uint64_t *length)
{
    uint64_t of_a_block = transfers_of_a_block(), segment = index / of_a_block, within = index % of_a_block * transfer;
    *length = block - within < transfer ? block - within : transfer;
    return (shared ? segment * (uint64_t)ranks + (uint64_t)rank : segment) * block + within;
}

static void stamp(unsigned char *memory, uint64_t offset, uint64_t length, int check)
{
    for (uint64_t page = (offset + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; page + 8 <= offset + length; page += PAGE_BYTES) {
        uint64_t says = page ^ STAMP;
        if (!check)
            memcpy(memory + (page - offset), &says, sizeof says);
        else if (memcmp(memory + (page - offset), &says, sizeof says) != 0)
            fail("a page is not what was written there", MPI_SUCCESS);
    }
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* The order in which transfers are made. */
static uint64_t *order(uint64_t count)
{
    uint64_t *numbers = malloc(count * sizeof *numbers), state = 1 ^ (uint64_t)rank << 32;
    if (!numbers)
        fail("memory for the order", MPI_SUCCESS);
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = i;
    for (uint64_t last = count; shuffled && last-- > 1;) {
        uint64_t other = next_random(&state) % (last + 1), kept = numbers[last];
        numbers[last] = numbers[other];
        numbers[other] = kept;
    }
    return numbers;
}

/* A view of the rank's blocks alone: all ranks' blocks follow one another. */
static void set_view(MPI_File file)
{
    MPI_Datatype blocks, spaced;
    MPI_Offset base = shared ? (MPI_Offset)(block * (uint64_t)rank) : 0;
    if (block > INT32_MAX)
        fail("blocks of a collective pattern are at most 2 GiB", MPI_SUCCESS);
    MPI_Type_contiguous((int)block, MPI_BYTE, &blocks);
    MPI_Type_create_resized(blocks, 0, (MPI_Aint)(shared ? block * (uint64_t)ranks : block), &spaced);
    MPI_Type_commit(&spaced);
    must(MPI_File_set_view(file, base, MPI_BYTE, spaced, "native", MPI_INFO_NULL), "setting the view");
    MPI_Type_free(&spaced);
    MPI_Type_free(&blocks);
}

static int move(MPI_File file, uint64_t index, uint64_t offset, unsigned char *memory, int length)
{
    MPI_Status status;
    switch (calls) {
    case COLLECTIVE: {
        /* Within the view, the rank's bytes follow one another. */
        MPI_Offset at = (MPI_Offset)(index / transfers_of_a_block() * block + index % transfers_of_a_block() * transfer);
        return reads ? MPI_File_read_at_all(file, at, memory, length, MPI_BYTE, &status)
                     : MPI_File_write_at_all(file, at, memory, length, MPI_BYTE, &status);
    }
    case SHARED_POINTER:
        return reads ? MPI_File_read_ordered(file, memory, length, MPI_BYTE, &status)
                     : MPI_File_write_ordered(file, memory, length, MPI_BYTE, &status);
    default:
        return reads ? MPI_File_read_at(file, (MPI_Offset)offset, memory, length, MPI_BYTE, &status)
                     : MPI_File_write_at(file, (MPI_Offset)offset, memory, length, MPI_BYTE, &status);
    }
}

static void tell(uint64_t bytes, double transfer_s, double sync_s)
{
    double mine[3] = {(double)bytes, transfer_s, sync_s}, *all = malloc(sizeof mine * (size_t)ranks);
    if (!all)
        fail("memory for the result", MPI_SUCCESS);
    MPI_Gather(mine, 3, MPI_DOUBLE, all, 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int r = 0; rank == 0 && r < ranks; r++)
        printf("{\"rank\":%d,\"bytes\":%.0f,\"transfer_s\":%.9f,\"sync_s\":%.9f}\n", r, all[3 * r], all[3 * r + 1], all[3 * r + 2]);
    free(all);
}

int main(int count, char **words)
{
    static const char *const ways[] = {"write", "read", NULL}, *const kinds[] = {"independent", "collective", "shared_pointer", NULL};
    static const char *const sharings[] = {"per_rank", "shared", NULL}, *const orders[] = {"ascending", "random", NULL};
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count < 9)
        fail("usage: patterns FILE WAY CALLS SHARING ORDER BLOCK TRANSFER SEGMENTS [KEY=VALUE]...", MPI_SUCCESS);
    reads = choice(words[2], ways), calls = (enum calls)choice(words[3], kinds);
    shared = choice(words[4], sharings), shuffled = choice(words[5], orders);
    block = number(words[6]), transfer = number(words[7]), segments = number(words[8]);
    transfer = transfer < block ? transfer : block;
    if (transfer > INT32_MAX)
        fail("transfers of at most 2 GiB", MPI_SUCCESS);
    char path[4096];
    snprintf(path, sizeof path, shared ? "%s" : "%s.%d", words[1], rank);

    MPI_Info hints;
    MPI_Info_create(&hints);
    for (int i = 9; i < count; i++) {
        char *equals = strchr(words[i], '=');
        if (!equals)
            fail(words[i], MPI_SUCCESS);
        *equals = 0;
        MPI_Info_set(hints, words[i], equals + 1);
    }
    MPI_File file;
    int mode = reads ? MPI_MODE_RDONLY : MPI_MODE_CREATE | MPI_MODE_RDWR;
    must(MPI_File_open(shared ? MPI_COMM_WORLD : MPI_COMM_SELF, path, mode, hints, &file), path);
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    if (calls == COLLECTIVE)
        set_view(file);
    uint64_t many = transfers_of_a_block() * segments, *numbers = order(many), bytes = 0;
    unsigned char *memory = malloc(transfer);
    if (!memory)
        fail("memory for a transfer", MPI_SUCCESS);
    for (uint64_t i = 0; i < transfer; i++)
        memory[i] = (unsigned char)(i * 31 % 251 + 1);

    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (uint64_t i = 0; i < many; i++) {
        uint64_t length, offset = place(numbers[i], &length);
        if (!reads)
            stamp(memory, offset, length, 0);
        must(move(file, numbers[i], offset, memory, (int)length), reads ? "reading" : "writing");
        if (reads)
            stamp(memory, offset, length, 1);
        bytes += length;
    }
    double moved = MPI_Wtime();
    if (!reads)
        must(MPI_File_sync(file), "MPI_File_sync");
    double synced = MPI_Wtime();
    must(MPI_File_close(&file), "closing");
    tell(bytes, moved - begun, synced - moved);
    free(memory);
    free(numbers);
    MPI_Info_free(&hints);
    MPI_Finalize();
    return 0;
}
