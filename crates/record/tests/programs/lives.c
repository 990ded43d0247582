/* A child with many short-lived threads: some compute, some sleep, some do nothing. Prints the CPU time that the
 * child used, in microseconds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *live(void *number)
{
	long kind = (long)number % 4;
	struct timespec pause = { 0, 300000 };
	if (kind == 1)
		nanosleep(&pause, 0);
	if (kind >= 2)
		for (volatile long i = 0; i < 200000 * kind; i++)
			;
	return 0;
}

int main(int count, char **words)
{
	long threads = count > 1 ? atol(words[1]) : 1000;
	pid_t child = fork();
	if (child == 0) {
		for (long i = 0; i < threads; i += 8) {
			pthread_t batch[8];
			for (long j = 0; j < 8; j++)
				if (pthread_create(&batch[j], 0, live, (void *)(i + j)))
					_exit(1);
			for (long j = 0; j < 8; j++)
				pthread_join(batch[j], 0);
		}
		_exit(0);
	}
	int status;
	struct rusage used;
	wait4(child, &status, 0, &used);
	printf("%d %ld\n", child,
	       (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000L + used.ru_utime.tv_usec + used.ru_stime.tv_usec);
	return status != 0;
}
