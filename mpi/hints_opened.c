/* The files of mounted stores that this process has open: few, so a list. A handle's entry is the handle's own: MPI leaves it to
 * programs not to close a file while they use it. */
#include "hints_internal.h"
#include <pthread.h>
#include <stdlib.h>

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
    free(opened);
}
