/* What every workload has: arguments with units, faults of a known size, a cheap check of the data, and a result as one JSON line.
 *
 * A workload is a small program whose fault its options choose. Whatever it does on purpose to be slow it measures itself
 * and reports as `injected_s`, by kind, so that the truth of a run is known to the microsecond. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- arguments ---- */

enum kind { FLAG, COUNT, SIZE, TIME, TEXT };

/* One option. `value` is a bool (FLAG), uint64_t (COUNT, SIZE in bytes, TIME in ns) or const char * (TEXT). */
struct option_row {
    const char *name;
    enum kind kind;
    void *value;
    const char *help;
};

/* Reads the options in `rows` (ended by a row without a name) and returns the number of other arguments, which are moved to argv[1..].
 * Prints the help and ends for --help; ends with 2 for what it does not know. `usage` is what follows the program's name. */
int parse_options(int argc, char **argv, const char *usage, const struct option_row *rows);

/* "64Ki", "1Mi", "2Gi" or bytes; "5ms", "300us", "2s", "100ns". End with 2 for anything else. */
uint64_t parse_size(const char *text);
uint64_t parse_time_ns(const char *text);

/* ---- faults of a known size ---- */

/* What was spent on purpose. Updated by any thread. */
enum fault { SLEPT, SPUN, LOCKED, SYNCED, POLLED, FAULTS };

uint64_t now_ns(void);
/* Sleeps for a time; counts it. 0: nothing. */
void sleep_for(uint64_t duration_ns);
/* Uses this much processor time of the calling thread, however long that takes on the wall; counts it. 0: nothing. */
void spin_for(uint64_t cpu_ns);
/* Counts what was measured elsewhere. */
void inject(enum fault fault, uint64_t duration_ns);

/* ---- data ---- */

/* Adds the bytes at every multiple of 512 of the stream, weighted by their place: what was lost, doubled or moved changes the sum, and
 * it costs nothing beside the transfer. `buffer` holds `length` bytes of the stream from `offset` on. */
uint64_t sample(uint64_t sum, const void *buffer, size_t length, uint64_t offset);
/* Fills memory with bytes of which no two stretches are alike. */
void fill(void *buffer, size_t length, uint64_t seed);
/* Memory aligned for direct I/O, touched. Ends when there is none. */
void *block_memory(size_t length);

/* ---- results ---- */

/* Ends with 1: what, and errno's text. */
_Noreturn void die(const char *what, ...) __attribute__((format(printf, 1, 2)));
/* Ends with 1: the data is not what it should be. */
_Noreturn void corrupt(const char *what, ...) __attribute__((format(printf, 1, 2)));
/* Prints {"bytes":..,"seconds":..,"injected_s":{..},"waits":..} and what `more` holds (", \"x\": 1" or ""). */
void print_result(uint64_t bytes, uint64_t begun_ns, const char *more);
/* Prints `ready` and the text after it, at once. */
void print_ready(const char *more);

#endif
