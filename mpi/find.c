/* Where MPI is, at run time: see thalweg_mpi.h. */
#define _GNU_SOURCE
#include "thalweg_mpi.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef OPEN_MPI
#define LIBRARY "libmpi.so"
#define OTHER "libmpich.so"
#else
#define LIBRARY "libmpich.so"
#define OTHER "libmpi.so"
#endif

struct found {
    char own[4096];
    int other;
};

static int look(struct dl_phdr_info *info, size_t size, void *context)
{
    struct found *found = context;
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    (void)size;
    if (!strncmp(name, LIBRARY, strlen(LIBRARY)))
        snprintf(found->own, sizeof found->own, "%s", info->dlpi_name);
    else if (!strncmp(name, OTHER, strlen(OTHER)))
        found->other = 1;
    return 0;
}

static void find(void)
{
    struct found found = {0};
    dl_iterate_phdr(look, &found);
    if (*found.own) {
        dlopen(found.own, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD);
    } else if (found.other) {
        /* Handles of the two are not even of one size. */
        fprintf(stderr, "thalweg: the library for %s was preloaded into a program of the other MPI implementation\n", LIBRARY);
        exit(2);
    }
}

void thalweg_find_mpi(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
}

#ifdef OPEN_MPI
void *thalweg_address(const char *variable)
{
    thalweg_find_mpi();
    void *address = dlsym(RTLD_DEFAULT, variable);
    if (!address) {
        fprintf(stderr, "thalweg: this program's Open MPI has no %s\n", variable);
        abort();
    }
    return address;
}
#endif
