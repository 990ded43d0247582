/* Opens a file with hints and says what each rank got, one JSON line for each in order of ranks:
 *
 *   open PATH MODES [KEY=VALUE | RANK:KEY=VALUE | --self | --held | --view KIND | --write KIND]... [--and PATH MODES ...]...
 *
 * MODES: letters of c(reate) e(xcl) r w b(oth) d(elete on close). A hint with a rank is that rank's alone. With --self, each rank opens
 * PATH.RANK by itself. With --held, another process has the file open, too, once it is opened. --view sets a view, of parts of 64 KiB: `parts` (displacements), `cyclic` (a vector, every rank in turn),
 * `columns` (a sub-array: 8 rows of 4096 bytes in all), `blocks` (a sub-array of two by two), `same` (all alike), `fine` (8 bytes in turn).
 * "wrote" is how many bytes the rank's process wrote then. --write writes 64 KiB of every rank's own number: `at_all`, `all` (after a seek), `ordered`, `at`, or `view` (all, through the view). */
#include "check.h"
#include <ctype.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PART 65536

static void json_string(FILE *line, const char *text)
{
    putc('"', line);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc('\\', line);
        putc((unsigned char)*text < ' ' ? ' ' : *text, line);
    }
    putc('"', line);
}

/* Every rank's line, in order of ranks, printed by rank 0: what several ranks print, mpiexec may print in pieces that alternate. */
static void print_in_order(const char *line, size_t bytes)
{
    int own = (int)bytes, total = 0;
    int *counts = calloc((size_t)size, sizeof *counts), *from = calloc((size_t)size, sizeof *from);
    MPI_Gather(&own, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        from[r] = total, total += counts[r];
    char *all = malloc((size_t)total + 1);
    MPI_Gatherv(line, own, MPI_CHAR, all, counts, from, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0)
        fwrite(all, 1, (size_t)total, stdout);
    fflush(stdout);
    free(all);
    free(from);
    free(counts);
}

/* Bytes that this process has written by system calls. */
static long written(void)
{
    FILE *io = fopen("/proc/self/io", "r");
    char line[100];
    long bytes = 0;
    while (io && fgets(line, sizeof line, io))
        sscanf(line, "wchar: %ld", &bytes);
    if (io)
        fclose(io);
    return bytes;
}

static void set_view(MPI_File file, const char *kind)
{
    MPI_Datatype type = MPI_BYTE, made = MPI_DATATYPE_NULL;
    MPI_Offset at = 0;
    if (!strcmp(kind, "parts")) {
        at = (MPI_Offset)rank * PART;
    } else if (!strcmp(kind, "cyclic")) {
        MPI_Datatype block;
        MPI_Type_contiguous(PART, MPI_BYTE, &block);
        MPI_Type_create_resized(block, 0, (MPI_Aint)size * PART, &made);
        MPI_Type_free(&block);
        at = (MPI_Offset)rank * PART;
    } else if (!strcmp(kind, "columns")) {
        int sizes[2] = {8, 4096}, own[2] = {8, 4096 / size}, from[2] = {0, rank * (4096 / size)};
        MPI_Type_create_subarray(2, sizes, own, from, MPI_ORDER_C, MPI_BYTE, &made);
    } else if (!strcmp(kind, "blocks")) {
        int sizes[2] = {8, 4096}, own[2] = {4, 2048}, from[2] = {4 * (rank / 2), 2048 * (rank % 2)};
        MPI_Type_create_subarray(2, sizes, own, from, MPI_ORDER_C, MPI_BYTE, &made);
    } else if (!strcmp(kind, "fine")) {
        MPI_Type_create_resized(MPI_DOUBLE, 0, (MPI_Aint)size * 8, &made);
        at = rank * 8;
    }
    if (made != MPI_DATATYPE_NULL) {
        MPI_Type_commit(&made);
        type = made;
    }
    MUST(MPI_File_set_view(file, at, MPI_BYTE, type, "native", MPI_INFO_NULL));
    if (made != MPI_DATATYPE_NULL)
        MPI_Type_free(&made);
}

static void write_part(MPI_File file, const char *kind)
{
    char *bytes = malloc(PART);
    memset(bytes, 'a' + rank, PART);
    MPI_Offset at = (MPI_Offset)rank * PART;
    if (!strcmp(kind, "at_all"))
        MUST(MPI_File_write_at_all(file, at, bytes, PART, MPI_BYTE, MPI_STATUS_IGNORE));
    else if (!strcmp(kind, "at"))
        MUST(MPI_File_write_at(file, at, bytes, PART, MPI_BYTE, MPI_STATUS_IGNORE));
    else if (!strcmp(kind, "ordered"))
        MUST(MPI_File_write_ordered(file, bytes, PART, MPI_BYTE, MPI_STATUS_IGNORE));
    if (!strcmp(kind, "all"))
        MUST(MPI_File_seek(file, at, MPI_SEEK_SET));
    if (!strcmp(kind, "all") || !strcmp(kind, "view"))
        MUST(MPI_File_write_all(file, bytes, PART, MPI_BYTE, MPI_STATUS_IGNORE));
    free(bytes);
}

static void put_info(FILE *line, MPI_File file)
{
    MPI_Info info;
    int keys, there, amode;
    static char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    MUST(MPI_File_get_amode(file, &amode));
    MUST(MPI_File_get_info(file, &info));
    fprintf(line, ", \"excl\": %s, \"info\": {", amode & MPI_MODE_EXCL ? "true" : "false");
    MPI_Info_get_nkeys(info, &keys);
    for (int i = 0; i < keys; i++) {
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &there);
        fputs(i ? ", " : "", line);
        json_string(line, key);
        fputs(": ", line);
        json_string(line, value);
    }
    putc('}', line);
    MPI_Info_free(&info);
}

static int modes_of(const char *letters)
{
    static const struct {
        char letter;
        int mode;
    } MODES[] = {{'c', MPI_MODE_CREATE}, {'e', MPI_MODE_EXCL}, {'r', MPI_MODE_RDONLY}, {'w', MPI_MODE_WRONLY}, {'b', MPI_MODE_RDWR},
                 {'d', MPI_MODE_DELETE_ON_CLOSE}};
    int modes = 0;
    for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++)
        if (strchr(letters, MODES[i].letter))
            modes |= MODES[i].mode;
    return modes;
}

/* One open, as its arguments say, and what came of it. */
static void one(int argc, char **argv, int job)
{
    const char *view = NULL, *write = NULL;
    char path[4096], text[MPI_MAX_ERROR_STRING] = "";
    int self = 0, held = 0, length;
    MPI_Info info;
    MPI_Info_create(&info);
    for (int i = 2; i < argc; i++) {
        char *hint = argv[i], *equals;
        if (!strcmp(hint, "--self")) {
            self = 1;
        } else if (!strcmp(hint, "--held")) {
            held = 1;
        } else if (!strcmp(hint, "--view")) {
            view = argv[++i];
        } else if (!strcmp(hint, "--write")) {
            write = argv[++i];
        } else if (isdigit((unsigned char)*hint) ? atoi(hint) == rank : 1) {
            hint += isdigit((unsigned char)*hint) ? strcspn(hint, ":") + 1 : 0;
            equals = strchr(hint, '=');
            *equals = 0;
            MUST(MPI_Info_set(info, hint, equals + 1));
            *equals = '=';
        }
    }
    snprintf(path, sizeof path, self ? "%s.%d" : "%s", argv[0], rank);
    int amode = modes_of(argv[1]);
    MPI_File file = MPI_FILE_NULL;
    int result = MPI_File_open(self ? MPI_COMM_SELF : MPI_COMM_WORLD, path, amode, info, &file);
    MPI_Error_string(result, text, &length);
    /* A child has what its parent has open. */
    pid_t child = held && rank == 0 ? fork() : 0;
    if (held && rank == 0 && child == 0)
        for (;;)
            pause();
    if (result == MPI_SUCCESS && view)
        set_view(file, view);
    long before = written();
    if (result == MPI_SUCCESS && write)
        write_part(file, write);
    long wrote = written() - before;
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    char *said = NULL;
    size_t bytes = 0;
    FILE *line = open_memstream(&said, &bytes);
    fprintf(line, "{\"job\": %d, \"rank\": %d, \"class\": \"%s\", \"wrote\": %ld, \"text\": ", job, rank, class_name(result), wrote);
    json_string(line, result == MPI_SUCCESS ? "" : text);
    if (result == MPI_SUCCESS)
        put_info(line, file);
    fputs("}\n", line);
    fclose(line);
    print_in_order(said, bytes);
    free(said);
    if (result == MPI_SUCCESS)
        MUST(MPI_File_close(&file));
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int first = 1, last, job = 0; first < argc; first = last + 1, job++) {
        for (last = first; last < argc && strcmp(argv[last], "--and"); last++) {
        }
        one(last - first, argv + first, job);
    }
    MPI_Finalize();
    return 0;
}
