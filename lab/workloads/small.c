/* small: many small things, where fewer and larger ones would do.
 *
 *     small files DIRECTORY     --count files of --size, each made durable by itself (--sync each), all of them at the end (last), or none
 *     small writes SINK         --size bytes, --block of them in each call */
#define _GNU_SOURCE
#include "workload.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 64 << 10 };

static uint64_t count = 100, size = 4096, block = 1;
static const char *sync_when = "each";

static const struct option_row rows[] = {
    { "--count", COUNT, &count, "files (100)" },
    { "--size", SIZE, &size, "bytes of each file, or of the sink (4096)" },
    { "--block", SIZE, &block, "bytes of a call that writes, at most 64Ki (1)" },
    { "--sync", TEXT, &sync_when, "files: each, last or none (each)" },
    { NULL, 0, NULL, NULL },
};
static char bytes[BLOCK_BYTES];

static void write_whole(const char *path, size_t each, bool durable)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0)
        die("%s", path);
    for (uint64_t at = 0; at < size; at += each) {
        size_t length = size - at < each ? (size_t)(size - at) : each;
        if (write(file, bytes, length) != (ssize_t)length)
            die("%s", path);
    }
    uint64_t begun = now_ns();
    if (durable && fsync(file) != 0)
        die("%s", path);
    if (durable)
        inject(SYNCED, now_ns() - begun);
    close(file);
}

static void write_files(const char *directory)
{
    char path[4096];
    if (mkdir(directory, 0755) != 0)
        die("%s", directory);
    for (uint64_t number = 0; number < count; number++) {
        snprintf(path, sizeof path, "%s/%06u", directory, (unsigned)number);
        write_whole(path, BLOCK_BYTES, strcmp(sync_when, "each") == 0);
    }
    if (strcmp(sync_when, "last") == 0) {
        int there = open(directory, O_RDONLY | O_DIRECTORY);
        if (there < 0 || syncfs(there) != 0)
            die("%s", directory);
        close(there);
    }
}

int main(int argc, char **argv)
{
    bool of_files, of_writes;
    int others = parse_options(argc, argv, "files DIRECTORY | writes SINK", rows);
    of_files = others == 2 && strcmp(argv[1], "files") == 0;
    of_writes = others == 2 && strcmp(argv[1], "writes") == 0;
    if ((!of_files && !of_writes) || block < 1 || block > BLOCK_BYTES)
        return 2;
    fill(bytes, sizeof bytes, 1);
    uint64_t begun = now_ns();
    if (of_files)
        write_files(argv[2]);
    else
        write_whole(argv[2], (size_t)block, false);
    print_result(of_files ? count * size : size, begun, "");
    return 0;
}
