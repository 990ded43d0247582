/* What the test programs share: who a rank is, failing with a sentence, and names of MPI's error classes. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static inline void start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static inline void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "rank %d: ", rank);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A call of MPI that must succeed. */
#define MUST(call)                                                                                                                                   \
    do {                                                                                                                                             \
        int must_result = (call);                                                                                                                    \
        if (must_result != MPI_SUCCESS) {                                                                                                            \
            char must_text[MPI_MAX_ERROR_STRING];                                                                                                    \
            int must_length;                                                                                                                         \
            MPI_Error_string(must_result, must_text, &must_length);                                                                                  \
            fail("%s: %s", #call, must_text);                                                                                                        \
        }                                                                                                                                            \
    } while (0)

static inline const char *class_name(int code)
{
    int class;
    MPI_Error_class(code, &class);
#define NAME(c)                                                                                                                                      \
    if (class == c)                                                                                                                                  \
        return #c;
    NAME(MPI_SUCCESS)
    NAME(MPI_ERR_NOT_SAME)
    NAME(MPI_ERR_INFO_VALUE)
    NAME(MPI_ERR_FILE_EXISTS)
    NAME(MPI_ERR_NO_SUCH_FILE)
    NAME(MPI_ERR_ACCESS)
    NAME(MPI_ERR_AMODE)
    NAME(MPI_ERR_IO)
#undef NAME
    return "another class";
}

#endif
