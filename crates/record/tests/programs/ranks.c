/* Interactions of ranks of an MPI job, one kind at a time: `ranks WHAT [FILE]`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 8 << 20, SMALL = 4096 };

static int rank, size;

/* The last rank comes late to every barrier. */
static void late(void)
{
    for (int i = 0; i < 6; i++) {
        if (rank == size - 1)
            usleep(300000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Rank 0 reads, slowly, and sends what it read to the others round-robin. */
static void reader(const char *path)
{
    char *buffer = NULL;
    int fd = rank == 0 ? open(path, O_RDONLY | O_DIRECT) : -1;
    if (posix_memalign((void **)&buffer, 4096, LARGE) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 1; i < size; i++) {
        if (rank == 0) {
            ssize_t have = read(fd, buffer, LARGE);
            MPI_Send(buffer, have > 0 ? (int)have : 0, MPI_BYTE, i, 5, MPI_COMM_WORLD);
        } else if (rank == i) {
            MPI_Recv(buffer, LARGE, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* All write their part of a file collectively, in alternating pieces, and sync it. */
static void together(const char *path)
{
    MPI_File file;
    MPI_Datatype view;
    char *buffer = malloc(LARGE);
    memset(buffer, 'a' + rank, LARGE);
    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Type_vector(LARGE / SMALL, SMALL, SMALL * size, MPI_BYTE, &view);
    MPI_Type_commit(&view);
    MPI_File_set_view(file, (MPI_Offset)rank * SMALL, MPI_BYTE, view, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, buffer, LARGE, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_File_close(&file);
}

/* Messages of all kinds: the nth of each rank to its neighbour, by blocking and non-blocking calls. */
static void ring(void)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size, got = -1, flag = 0;
    MPI_Request requests[2], persistent;
    MPI_Status status;
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(&rank, 1, MPI_INT, right, 2, &got, 1, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send_init(&rank, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &persistent);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&persistent);
        MPI_Recv(&got, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &status);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&persistent);
    if (rank == 0)
        usleep(20000);
    MPI_Isend(&rank, 1, MPI_INT, right, 4, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&got, 1, MPI_INT, left, 4, MPI_COMM_WORLD, &requests[0]);
    while (!flag)
        MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
    MPI_Comm_free(&half);
    MPI_Bcast(&sum, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
    if (got != left)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argc > 1 ? argv[1] : "", *path = argc > 2 ? argv[2] : "ranks.out";
    if (strcmp(what, "late") == 0)
        late();
    else if (strcmp(what, "reader") == 0)
        reader(path);
    else if (strcmp(what, "together") == 0)
        together(path);
    else if (strcmp(what, "ring") == 0)
        ring();
    else if (strcmp(what, "killed") == 0) {
        /* The launcher kills the others when one dies: not before all have left MPI_Init. */
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1)
            kill(getpid(), 9);
    }
    MPI_Finalize();
    return 0;
}
