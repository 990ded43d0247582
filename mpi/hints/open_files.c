/* The files of mounted stores that this process has open: few, so a list. A handle's entry is the handle's own: MPI leaves it to
 * programs not to close a file while they use it. */
#include "hints/internal.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *first;

void hints_remember(struct opened *opened)
{
    pthread_mutex_lock(&lock);
    opened->next = first;
    first = opened;
    pthread_mutex_unlock(&lock);
}

struct opened *hints_find(MPI_File file)
{
    pthread_mutex_lock(&lock);
    struct opened *one = first;
    while (one && one->file != file)
        one = one->next;
    pthread_mutex_unlock(&lock);
    return one;
}

struct opened *hints_take_out(MPI_File file)
{
    pthread_mutex_lock(&lock);
    struct opened **at = &first;
    while (*at && (*at)->file != file)
        at = &(*at)->next;
    struct opened *one = *at;
    if (one)
        *at = one->next;
    pthread_mutex_unlock(&lock);
    return one;
}

void hints_free(struct opened *opened)
{
    free(opened->path);
    free(opened->layout);
    free(opened->target_of);
    free(opened->given);
    free(opened->here);
    free(opened->counted.own);
    where_free(opened->counted.where);
    hints_see(opened, 0, MPI_BYTE, MPI_BYTE, NULL); /* gives the view's runs back */
    free(opened);
}

/* The mount writes back what it holds of a file when one who may write to it closes it, and compares what it keeps with what the store
 * has when one opens it. */
static void look_again(const struct opened *opened)
{
    int descriptor = open(opened->path, (opened->amode & MPI_MODE_RDONLY ? O_RDONLY : O_WRONLY) | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0)
        close(descriptor);
}

int hints_sync(MPI_File file)
{
    int result = PMPI_File_sync(file);
    struct opened *opened = result == MPI_SUCCESS ? hints_find(file) : NULL;
    if (opened)
        look_again(opened);
    return result;
}

/* One rank did it, and all are to see it. */
static int done_by_one(MPI_File file, int result)
{
    struct opened *opened = hints_find(file);
    if (opened) {
        look_again(opened);
        PMPI_Barrier(opened->comm);
        look_again(opened);
    }
    return result;
}

int hints_set_size(MPI_File file, MPI_Offset size)
{
    return done_by_one(file, PMPI_File_set_size(file, size));
}

int hints_preallocate(MPI_File file, MPI_Offset size)
{
    return done_by_one(file, PMPI_File_preallocate(file, size));
}
