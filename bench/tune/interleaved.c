/* Ranks write blocks of one file in turn, again and again: what a grid that is split along its rows does.
 *
 *     interleaved FILE BLOCK_BYTES BLOCKS ROUNDS [HINT=VALUE]...       each rank writes BLOCKS blocks in each round, all together */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (error == MPI_SUCCESS)
        return;
    MPI_Error_string(error, text, &length);
    fprintf(stderr, "%s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_Info hints(int count, char **words)
{
    MPI_Info info;
    MPI_Info_create(&info);
    for (int i = 0; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (value) {
            *value++ = 0;
            MPI_Info_set(info, words[i], value);
        }
    }
    return info;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 5) {
        fprintf(stderr, "interleaved FILE BLOCK_BYTES BLOCKS ROUNDS [HINT=VALUE]...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int block = atoi(argv[2]), blocks = atoi(argv[3]), rounds = atoi(argv[4]);
    MPI_Info info = hints(argc - 5, argv + 5);
    MPI_Datatype turns;
    MPI_Type_vector(blocks, block, block * ranks, MPI_BYTE, &turns);
    MPI_Type_commit(&turns);
    char *data = malloc((size_t)block * (size_t)blocks);
    memset(data, 'a' + rank, (size_t)block * (size_t)blocks);
    MPI_File file;
    check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file), argv[1]);
    for (int round = 0; round < rounds; round++) {
        MPI_Offset begin = (MPI_Offset)block * ((MPI_Offset)round * ranks * blocks + rank);
        check(MPI_File_set_view(file, begin, MPI_BYTE, turns, "native", info), "view");
        check(MPI_File_write_all(file, data, block * blocks, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    }
    check(MPI_File_close(&file), "close");
    MPI_Type_free(&turns);
    MPI_Info_free(&info);
    free(data);
    MPI_Finalize();
    return 0;
}
