/* descriptors DIRECTORY: opens as many files as it may, at most 20,000, writes to each, and reads some of them for
 * half a second. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int files[20000];

int main(int n, char **words)
{
    struct rlimit limit;
    if (n < 2 || chdir(words[1]) != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int many = 0;
    for (; many < 20000; many++) {
        char name[32];
        snprintf(name, sizeof name, "%d", many);
        files[many] = open(name, O_RDWR | O_CREAT, 0666);
        if (files[many] < 0)
            break;
        if (write(files[many], name, sizeof name) != sizeof name)
            return 3;
    }
    for (int round = 0; round < 25; round++) {
        char bytes[32];
        for (int i = 0; i < many; i += 50)
            if (pread(files[i], bytes, sizeof bytes, 0) != sizeof bytes)
                return 4;
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
    printf("%d\n", many);
    return 0;
}
