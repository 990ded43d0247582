/* Sleeps 50 us a given number of times, and reads and writes a little: a span for each. */
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int words, char **word) {
    long many = words > 1 ? atol(word[1]) : 100;
    struct timespec time = {0, 50000};
    char byte;
    int zero = open("/dev/zero", O_RDONLY);
    for (long n = 0; n < many; n++) {
        if (read(zero, &byte, 1) != 1) return 1;
        nanosleep(&time, NULL);
    }
    return 0;
}
