/* Errors of MPI that say why: codes made for their text, in a class of MPI's own.
 *
 * MPICH has no text of ours for a code in one of its own classes. There, codes are made in a class of ours, and MPI_Error_class says
 * which of MPI's it stands for. Open MPI 4.1 takes the code that was made last for an invalid one: there, one more is made. */
#include "hints/internal.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Codes are made once for each text, and not without end: MPI never gives one back. */
#define MOST_CODES 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int class, code;
    char text[HINTS_REASON_BYTES];
} codes[MOST_CODES];
static int made;

static int make_code(int class, const char *text, int *code)
{
#ifdef OPEN_MPI
    int one_more;
    return PMPI_Add_error_code(class, code) || PMPI_Add_error_string(*code, text) || PMPI_Add_error_code(class, &one_more);
#else
    (void)class;
    static int ours;
    if (!ours && PMPI_Add_error_class(&ours))
        return -1;
    return PMPI_Add_error_code(ours, code) || PMPI_Add_error_string(*code, text);
#endif
}

int hints_error(int class, const char *reason)
{
    int code = class, i = 0;
    char text[HINTS_REASON_BYTES];
    snprintf(text, sizeof text < MPI_MAX_ERROR_STRING ? sizeof text : (size_t)MPI_MAX_ERROR_STRING, "%s", reason);
    pthread_mutex_lock(&lock);
    while (i < made && (codes[i].class != class || strcmp(codes[i].text, text)))
        i++;
    if (i < made) {
        code = codes[i].code;
    } else if (made < MOST_CODES && make_code(class, text, &code) == MPI_SUCCESS) {
        codes[made].class = class, codes[made].code = code;
        strcpy(codes[made].text, text);
        __atomic_store_n(&made, made + 1, __ATOMIC_RELEASE);
    } else {
        fprintf(stderr, "thalweg: %s\n", text);
        code = class;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

#ifndef OPEN_MPI
THALWEG_WRAPPER int MPI_Error_class(int code, int *class)
{
    int count = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
    for (int i = 0; i < count; i++)
        if (codes[i].code == code) {
            *class = codes[i].class;
            return MPI_SUCCESS;
        }
    return PMPI_Error_class(code, class);
}
#endif

int hints_raise(int code)
{
    MPI_Errhandler handler;
#ifdef OPEN_MPI
    /* Open MPI 4.1 refuses to call the handler of MPI_FILE_NULL. A handler of the program's own is not called there. */
    if (PMPI_File_get_errhandler(MPI_FILE_NULL, &handler) == MPI_SUCCESS && handler == MPI_ERRORS_ARE_FATAL) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        PMPI_Error_string(code, text, &length);
        fprintf(stderr, "MPI_File_open: %s\n", text);
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
#else
    (void)handler;
    PMPI_File_call_errhandler(MPI_FILE_NULL, code);
#endif
    return code;
}

int hints_class(int error)
{
    switch (error) {
    case ENOENT: case ENOTDIR: return MPI_ERR_NO_SUCH_FILE;
    case EEXIST: return MPI_ERR_FILE_EXISTS;
    case EACCES: case EPERM: return MPI_ERR_ACCESS;
    case EROFS: return MPI_ERR_READ_ONLY;
    case ENOSPC: return MPI_ERR_NO_SPACE;
    case EDQUOT: return MPI_ERR_QUOTA;
    case ENAMETOOLONG: return MPI_ERR_BAD_FILE;
    case EINVAL: case E2BIG: return MPI_ERR_INFO_VALUE;
    default: return MPI_ERR_IO;
    }
}
