/* timed: run a command and say how long it took, from the moment it is let go until it has ended.
 *
 *     timed RESULT COMMAND [WORD]...
 *
 * Writes nanoseconds to RESULT and ends as the command did. It is what `thalweg record` does without recording: the child is made
 * and held first, so that neither is in the time; namespaces and control groups are entered before.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int count, char **words)
{
    int gate[2];
    char go = 'g';
    if (count < 3 || pipe(gate)) {
        fprintf(stderr, "usage: timed RESULT COMMAND [WORD]...\n");
        return 2;
    }
    pid_t child = fork();
    if (child == 0) {
        close(gate[1]);
        if (read(gate[0], &go, 1) != 1)
            _exit(125);
        close(gate[0]);
        execvp(words[2], words + 2);
        fprintf(stderr, "timed: %s: %s\n", words[2], strerror(errno));
        _exit(127);
    }
    close(gate[0]);
    uint64_t begun = now_ns();
    if (child < 0 || write(gate[1], &go, 1) != 1) {
        fprintf(stderr, "timed: %s\n", strerror(errno));
        return 1;
    }
    close(gate[1]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    uint64_t took = now_ns() - begun;
    FILE *out = fopen(words[1], "w");
    if (!out || fprintf(out, "%llu\n", (unsigned long long)took) < 0 || fclose(out)) {
        fprintf(stderr, "timed: %s: %s\n", words[1], strerror(errno));
        return 1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
