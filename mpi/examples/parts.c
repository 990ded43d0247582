/* Each rank writes its part of one file, and reads it back: an MPI program that knows nothing of stores or hints.
 *
 *   parts FILE MEBIBYTES      mebibytes of each rank */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, bytes = (argc > 2 ? atoi(argv[2]) : 1) << 20;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *part = malloc((size_t)bytes);
    MPI_File file;
    memset(part, 'a' + rank % 26, (size_t)bytes);
    int error = MPI_File_open(MPI_COMM_WORLD, argc > 1 ? argv[1] : "parts.out", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (error != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(error, text, &length);
        if (rank == 0)
            fprintf(stderr, "%s\n", text);
        MPI_Finalize();
        return 1;
    }
    MPI_File_set_view(file, (MPI_Offset)rank * bytes, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    double begun = MPI_Wtime();
    MPI_File_write_all(file, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    printf("rank %d wrote %d MiB at %.0f MiB/s\n", rank, bytes >> 20, (bytes >> 20) / (MPI_Wtime() - begun));
    MPI_File_read_at_all(file, 0, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    for (int i = 0; i < bytes; i++)
        if (part[i] != 'a' + rank % 26) {
            fprintf(stderr, "rank %d: byte %d is another's\n", rank, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    MPI_File_close(&file);
    free(part);
    MPI_Finalize();
    return 0;
}
