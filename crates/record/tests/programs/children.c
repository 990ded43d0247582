/* Runs a number of children one after another, each with enough calls to be worth recording; every tenth executes
 * another program. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int words, char **word) {
    long many = words > 1 ? atol(word[1]) : 10;
    for (long n = 0; n < many; n++) {
        pid_t child = fork();
        if (child == 0) {
            for (int calls = 0; calls < 40; calls++) close(open("/dev/null", O_RDONLY));
            if (n % 10 == 0) execl("/bin/true", "true", (char *)NULL);
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
    }
    return 0;
}
