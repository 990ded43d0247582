/* Fortran's calls on files under Open MPI, which go past the C functions that a profiling library stands in front of: each is made
 * into the C call. (MPICH's Fortran calls the C functions.) Names are as gfortran has them: small letters and one underscore. */
#include "hints/internal.h"

#ifdef OPEN_MPI
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef MPI_Fint F;

/* A Fortran string: blanks at both ends do not count. */
static char *c_string(const char *text, size_t length)
{
    while (length && *text == ' ')
        text++, length--;
    while (length && text[length - 1] == ' ')
        length--;
    char *copy = calloc(1, length + 1);
    return copy ? memcpy(copy, text, length) : abort(), copy;
}

/* Fortran says by an address that it wants no status, and that a buffer is at the bottom of memory. */
static int is_sentinel(const void *address, const char *variable)
{
    return address == dlsym(RTLD_DEFAULT, variable);
}

static void *buffer(void *address)
{
    return is_sentinel(address, "mpi_fortran_bottom_") ? MPI_BOTTOM : address;
}

static void give_status(MPI_Status *status, F *fortran)
{
    if (!is_sentinel(fortran, "mpi_fortran_status_ignore_"))
        PMPI_Status_c2f(status, fortran);
}

THALWEG_WRAPPER void mpi_file_open_(F *comm, char *name, F *amode, F *info, F *file, F *error, size_t length)
{
    MPI_File opened = MPI_FILE_NULL;
    char *path = c_string(name, length);
    *error = MPI_File_open(PMPI_Comm_f2c(*comm), path, *amode, PMPI_Info_f2c(*info), &opened);
    if (*error == MPI_SUCCESS)
        *file = PMPI_File_c2f(opened);
    free(path);
}

THALWEG_WRAPPER void mpi_file_close_(F *file, F *error)
{
    MPI_File opened = PMPI_File_f2c(*file);
    *error = MPI_File_close(&opened);
    if (*error == MPI_SUCCESS)
        *file = PMPI_File_c2f(opened);
}

THALWEG_WRAPPER void mpi_file_delete_(char *name, F *info, F *error, size_t length)
{
    char *path = c_string(name, length);
    *error = MPI_File_delete(path, PMPI_Info_f2c(*info));
    free(path);
}

THALWEG_WRAPPER void mpi_file_set_view_(F *file, MPI_Offset *displacement, F *etype, F *filetype, char *datarep, F *info, F *error, size_t length)
{
    char *representation = c_string(datarep, length);
    *error = MPI_File_set_view(PMPI_File_f2c(*file), *displacement, PMPI_Type_f2c(*etype), PMPI_Type_f2c(*filetype), representation,
                               PMPI_Info_f2c(*info));
    free(representation);
}

THALWEG_WRAPPER void mpi_file_get_info_(F *file, F *info, F *error)
{
    MPI_Info given;
    *error = MPI_File_get_info(PMPI_File_f2c(*file), &given);
    if (*error == MPI_SUCCESS)
        *info = PMPI_Info_c2f(given);
}

THALWEG_WRAPPER void mpi_file_get_amode_(F *file, F *amode, F *error)
{
    int given;
    *error = MPI_File_get_amode(PMPI_File_f2c(*file), &given);
    if (*error == MPI_SUCCESS)
        *amode = given;
}

THALWEG_WRAPPER void mpi_file_sync_(F *file, F *error)
{
    *error = MPI_File_sync(PMPI_File_f2c(*file));
}

THALWEG_WRAPPER void mpi_file_set_size_(F *file, MPI_Offset *size, F *error)
{
    *error = MPI_File_set_size(PMPI_File_f2c(*file), *size);
}

THALWEG_WRAPPER void mpi_file_preallocate_(F *file, MPI_Offset *size, F *error)
{
    *error = MPI_File_preallocate(PMPI_File_f2c(*file), *size);
}

/* What moves data: with or without an offset; at once, with a request, or in two halves. */
#define FILE_AND_DATA PMPI_File_f2c(*file), buffer(data), *count, PMPI_Type_f2c(*type)
#define FILE_AT_AND_DATA PMPI_File_f2c(*file), *at, buffer(data), *count, PMPI_Type_f2c(*type)
#define MOVES(name, parameters, arguments)                                                                                                           \
    THALWEG_WRAPPER void mpi_file_##name##_ parameters(status)                                                                                       \
    {                                                                                                                                                \
        MPI_Status given;                                                                                                                            \
        *error = MPI_File_##name(arguments, &given);                                                                                                 \
        if (*error == MPI_SUCCESS)                                                                                                                   \
            give_status(&given, status);                                                                                                             \
    }
#define POSTS(name, parameters, arguments)                                                                                                           \
    THALWEG_WRAPPER void mpi_file_##name##_ parameters(request)                                                                                      \
    {                                                                                                                                                \
        MPI_Request given;                                                                                                                           \
        *error = MPI_File_##name(arguments, &given);                                                                                                 \
        if (*error == MPI_SUCCESS)                                                                                                                   \
            *request = PMPI_Request_c2f(given);                                                                                                      \
    }
#define PLAIN(last) (F *file, void *data, F *count, F *type, F *last, F *error)
#define AT(last) (F *file, MPI_Offset *at, void *data, F *count, F *type, F *last, F *error)
#define EACH(of, verb)                                                                                                                               \
    of(verb, PLAIN, FILE_AND_DATA) of(verb##_all, PLAIN, FILE_AND_DATA) of(verb##_shared, PLAIN, FILE_AND_DATA)                                      \
        of(verb##_at, AT, FILE_AT_AND_DATA) of(verb##_at_all, AT, FILE_AT_AND_DATA)
EACH(MOVES, read)
EACH(MOVES, write)
MOVES(read_ordered, PLAIN, FILE_AND_DATA)
MOVES(write_ordered, PLAIN, FILE_AND_DATA)
EACH(POSTS, iread)
EACH(POSTS, iwrite)

#define HALVES(name, parameters, arguments)                                                                                                          \
    THALWEG_WRAPPER void mpi_file_##name##_begin_ parameters                                                                                         \
    {                                                                                                                                                \
        *error = MPI_File_##name##_begin(arguments);                                                                                                 \
    }                                                                                                                                                \
    THALWEG_WRAPPER void mpi_file_##name##_end_(F *file, void *data, F *status, F *error)                                                            \
    {                                                                                                                                                \
        MPI_Status given;                                                                                                                            \
        *error = MPI_File_##name##_end(PMPI_File_f2c(*file), buffer(data), &given);                                                                  \
        if (*error == MPI_SUCCESS)                                                                                                                   \
            give_status(&given, status);                                                                                                             \
    }
#define BEGIN (F *file, void *data, F *count, F *type, F *error)
#define BEGIN_AT (F *file, MPI_Offset *at, void *data, F *count, F *type, F *error)
HALVES(read_all, BEGIN, FILE_AND_DATA)
HALVES(write_all, BEGIN, FILE_AND_DATA)
HALVES(read_ordered, BEGIN, FILE_AND_DATA)
HALVES(write_ordered, BEGIN, FILE_AND_DATA)
HALVES(read_at_all, BEGIN_AT, FILE_AT_AND_DATA)
HALVES(write_at_all, BEGIN_AT, FILE_AT_AND_DATA)
#endif
