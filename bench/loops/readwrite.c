// Reads and writes 4 KiB at a time between two files in the page cache, so many times: a program that does nothing but system
// calls, the worst case for whatever watches them.   readwrite SOURCE SINK TIMES
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096, BLOCKS = 256 };

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: readwrite SOURCE SINK TIMES\n");
        return 2;
    }
    int source = open(argv[1], O_RDONLY);
    int sink = open(argv[2], O_WRONLY | O_CREAT, 0600);
    if (source < 0 || sink < 0) {
        perror("readwrite");
        return 1;
    }
    char block[BLOCK_BYTES];
    long times = atol(argv[3]);
    for (long i = 0; i < times; i++) {
        off_t at = (i % BLOCKS) * BLOCK_BYTES;
        if (pread(source, block, BLOCK_BYTES, at) != BLOCK_BYTES || pwrite(sink, block, BLOCK_BYTES, at) != BLOCK_BYTES) {
            perror("readwrite");
            return 1;
        }
    }
    return 0;
}
