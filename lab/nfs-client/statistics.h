/* What the client measures about itself: response times of each procedure, and how queue, window and throughput stand over time. */
#ifndef STATISTICS_H
#define STATISTICS_H

#include <stdint.h>
#include <stdio.h>

/* Bytes acknowledged and the state after them, at the end of each interval. */
struct point {
    uint64_t bytes;
    uint32_t pending, backlog, window;
};

struct statistics {
    uint64_t calls, replies, retransmissions, timeouts, duplicate_replies;
    uint64_t begun_ns, interval_ns, bytes;
    uint32_t pending_max;
    struct point *points;
    size_t point_count, point_room;
};

/* Begins the series; an interval of 0 keeps none. */
void statistics_begin(struct statistics *s, uint64_t now_ns, uint64_t interval_ns);
/* Must be called before `bytes` or the state changes: fills the intervals up to now with the state as it was. */
void statistics_advance(struct statistics *s, uint64_t now_ns, uint32_t pending, uint32_t backlog, uint32_t window);
/* Counts one call's response time under its NFSv3 procedure. */
void statistics_response(uint32_t procedure, uint64_t duration_ns);
/* Prints the members of a JSON object, without its braces. */
void statistics_print(const struct statistics *s, FILE *out);

#endif
