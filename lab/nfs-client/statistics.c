/* See statistics.h. */
#include "statistics.h"

#include <stdlib.h>
#include <string.h>

#include "../workloads/workload.h"

#define PROCEDURES 22
/* A series longer than this is thinned: every second point goes and the interval doubles. */
#define POINTS_MAX 20000

static const char *const names[PROCEDURES] = { "NULL",   "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ",    "WRITE",
                                               "CREATE", "MKDIR",   "SYMLINK", "MKNOD",  "REMOVE", "RMDIR",    "RENAME",  "LINK",
                                               "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT" };

static struct {
    uint64_t *durations_ns;
    size_t count, room;
} procedures[PROCEDURES];

void statistics_begin(struct statistics *s, uint64_t now_ns, uint64_t interval_ns)
{
    s->begun_ns = now_ns;
    s->interval_ns = interval_ns;
}

static void thin(struct statistics *s)
{
    for (size_t i = 0; i < s->point_count / 2; i++)
        s->points[i] = s->points[2 * i + 1];
    s->point_count /= 2;
    s->interval_ns *= 2;
}

void statistics_advance(struct statistics *s, uint64_t now_ns, uint32_t pending, uint32_t backlog, uint32_t window)
{
    if (pending > s->pending_max)
        s->pending_max = pending;
    while (s->interval_ns && s->begun_ns + (s->point_count + 1) * s->interval_ns <= now_ns) {
        if (s->point_count == POINTS_MAX) {
            thin(s);
            continue;
        }
        if (s->point_count == s->point_room) {
            s->point_room = s->point_room ? 2 * s->point_room : 1024;
            s->points = realloc(s->points, s->point_room * sizeof *s->points);
            if (!s->points)
                die("memory for the series");
        }
        s->points[s->point_count++] = (struct point){ s->bytes, pending, backlog, window };
    }
}

void statistics_response(uint32_t procedure, uint64_t duration_ns)
{
    if (procedure >= PROCEDURES)
        return;
    if (procedures[procedure].count == procedures[procedure].room) {
        size_t room = procedures[procedure].room ? 2 * procedures[procedure].room : 1024;
        procedures[procedure].durations_ns = realloc(procedures[procedure].durations_ns, room * sizeof(uint64_t));
        if (!procedures[procedure].durations_ns)
            die("memory for response times");
        procedures[procedure].room = room;
    }
    procedures[procedure].durations_ns[procedures[procedure].count++] = duration_ns;
}

static int by_duration(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

static void print_procedures(FILE *out)
{
    const char *comma = "";
    fprintf(out, "\"procedures\": {");
    for (int i = 0; i < PROCEDURES; i++) {
        size_t count = procedures[i].count;
        uint64_t *times_ns = procedures[i].durations_ns;
        if (count == 0)
            continue;
        qsort(times_ns, count, sizeof *times_ns, by_duration);
        fprintf(out, "%s\"%s\": {\"replies\": %zu, \"min_s\": %.6f, \"median_s\": %.6f, \"p99_s\": %.6f, \"max_s\": %.6f}", comma, names[i], count,
                (double)times_ns[0] / 1e9, (double)times_ns[count / 2] / 1e9, (double)times_ns[(count * 99 + 99) / 100 - 1] / 1e9,
                (double)times_ns[count - 1] / 1e9);
        comma = ", ";
    }
    fprintf(out, "}");
}

#define PRINT_SERIES(out, s, name, expression)                                                                         \
    do {                                                                                                               \
        fprintf(out, ", \"" name "\": [");                                                                             \
        for (size_t i = 0; i < (s)->point_count; i++)                                                                  \
            fprintf(out, "%s%llu", i ? "," : "", (unsigned long long)(expression));                                    \
        fprintf(out, "]");                                                                                             \
    } while (0)

void statistics_print(const struct statistics *s, FILE *out)
{
    fprintf(out, "\"calls\": %llu, \"replies\": %llu, \"retransmissions\": %llu, \"timeouts\": %llu, \"duplicate_replies\": %llu, \"pending_max\": %u, ",
            (unsigned long long)s->calls, (unsigned long long)s->replies, (unsigned long long)s->retransmissions,
            (unsigned long long)s->timeouts, (unsigned long long)s->duplicate_replies, s->pending_max);
    print_procedures(out);
    if (!s->interval_ns)
        return;
    fprintf(out, ", \"series\": {\"interval_s\": %.6f", (double)s->interval_ns / 1e9);
    PRINT_SERIES(out, s, "bytes", s->points[i].bytes - (i ? s->points[i - 1].bytes : 0));
    PRINT_SERIES(out, s, "pending", s->points[i].pending);
    PRINT_SERIES(out, s, "backlog", s->points[i].backlog);
    PRINT_SERIES(out, s, "window", s->points[i].window);
    fprintf(out, "}");
}
