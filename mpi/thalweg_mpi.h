/* What every part of the library sees: MPI itself, and what must hold so that a preloaded library harms nobody.
 *
 * The library is compiled once for each MPI implementation from the same sources, and is linked with neither: it is
 * preloaded into launchers, shells and whatever else a job starts, and a program that knows no MPI must not be given one.
 * Functions of MPI are bound when they are first called, which only an MPI program does. A program that loads MPI by itself, as
 * Python does, keeps it from others: before the first call, MPI is made visible to all (`thalweg_find_mpi`). Open MPI's handles
 * are addresses of its variables, which a linker would bind when the library is loaded: they are looked up instead. */
#ifndef THALWEG_MPI_H
#define THALWEG_MPI_H

#ifdef OMPI_SKIP_MPICXX
#undef OMPI_SKIP_MPICXX
#endif
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

/* Makes MPI visible to this library, wherever the program got it from. */
void thalweg_find_mpi(void);
#define PMPI_Init(...) (thalweg_find_mpi(), PMPI_Init(__VA_ARGS__))
#define PMPI_Init_thread(...) (thalweg_find_mpi(), PMPI_Init_thread(__VA_ARGS__))
#define PMPI_Initialized(...) (thalweg_find_mpi(), PMPI_Initialized(__VA_ARGS__))

#ifdef OPEN_MPI
void *thalweg_address(const char *variable);
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global)                                                                                           \
    ({                                                                                                                                 \
        static void *thalweg_cached;                                                                                                   \
        (type)(thalweg_cached ? thalweg_cached : (thalweg_cached = thalweg_address(#global)));                                         \
    })
#endif

/* Everything is hidden but the functions that stand in front of MPI's own. */
#define THALWEG_WRAPPER __attribute__((visibility("default")))

#endif
