/* What every part of the library sees: MPI itself, and what must hold so that a preloaded library harms nobody.
 *
 * The library is compiled once for each MPI implementation from the same sources, and is linked with neither: it is
 * preloaded into launchers, shells and whatever else a job starts, and a program that knows no MPI must not be given one.
 * Functions of MPI are bound when they are first called, which only an MPI program does. Open MPI's handles are addresses of
 * its variables, which are bound when the library is loaded: they are weak here, so that they may be missing. */
#ifndef THALWEG_MPI_H
#define THALWEG_MPI_H

#ifdef OMPI_SKIP_MPICXX
#undef OMPI_SKIP_MPICXX
#endif
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#ifdef OPEN_MPI
#pragma weak ompi_mpi_comm_world
#pragma weak ompi_mpi_comm_self
#pragma weak ompi_mpi_comm_null
#pragma weak ompi_mpi_file_null
#pragma weak ompi_mpi_info_null
#pragma weak ompi_mpi_info_env
#pragma weak ompi_mpi_group_null
#pragma weak ompi_mpi_group_empty
#pragma weak ompi_request_null
#pragma weak ompi_message_null
#pragma weak ompi_message_no_proc
#pragma weak ompi_mpi_errors_return
#pragma weak ompi_mpi_errors_are_fatal
#pragma weak ompi_mpi_datatype_null
#pragma weak ompi_mpi_byte
#pragma weak ompi_mpi_char
#pragma weak ompi_mpi_int
#pragma weak ompi_mpi_int64_t
#pragma weak ompi_mpi_uint64_t
#pragma weak ompi_mpi_long_long_int
#pragma weak ompi_mpi_op_max
#pragma weak ompi_mpi_op_min
#pragma weak ompi_mpi_op_sum
#pragma weak ompi_mpi_op_land
#pragma weak ompi_mpi_op_lor
#endif

/* Everything is hidden but the functions that stand in front of MPI's own. */
#define THALWEG_WRAPPER __attribute__((visibility("default")))

#endif
