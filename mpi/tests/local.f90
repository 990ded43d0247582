! Writes a part of a file from each rank through a view, with the hint thalweg_layout=local: local PATH
program f
  use mpi
  implicit none
  integer :: ierr, rank, fh, info, length, st(MPI_STATUS_SIZE)
  integer(kind=MPI_OFFSET_KIND) :: at
  character(len=200) :: path
  character(len=65536) :: part
  character(len=64) :: value
  logical :: flag
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call get_command_argument(1, path)
  part = repeat(char(97 + rank), 65536)
  call MPI_Info_create(info, ierr)
  call MPI_Info_set(info, 'thalweg_layout', 'local', ierr)
  call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_CREATE + MPI_MODE_RDWR, info, fh, ierr)
  if (ierr /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  at = rank * 65536
  call MPI_File_set_view(fh, at, MPI_CHARACTER, MPI_CHARACTER, 'native', MPI_INFO_NULL, ierr)
  call MPI_File_write_all(fh, part, 65536, MPI_CHARACTER, st, ierr)
  call MPI_Info_free(info, ierr)
  call MPI_File_get_info(fh, info, ierr)
  call MPI_Info_get(info, 'thalweg_layout', 64, value, flag, ierr)
  if (flag) print *, 'layout ', trim(value)
  call MPI_File_close(fh, ierr)
  call MPI_Finalize(ierr)
end program
