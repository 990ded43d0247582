/* The steps of strips.h, one function each. Ranges are kept in order and cover the cycle from 0 without holes. */
#include "strips/strips.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct strips_options STRIPS_DEFAULT = {64 << 10, 1 << 20, 512, 48 << 10};

#define MOST_PIECES 64
#define MOST_BLOCKS (1 << 20)
#define NOBODY UINT32_MAX    /* a range that nobody claims */
#define SEVERAL (UINT32_MAX - 1) /* a range that writers of different targets claim */
#define MOST_OFFSET ((uint64_t)INT64_MAX)

/* Bytes up to `end`, of the target with this number in the turn, or NOBODY, or SEVERAL. */
struct range {
    uint64_t end;
    uint32_t target;
};

struct ranges {
    struct range *list;
    size_t count, room;
};

/* The distinct targets of the writers, in the order in which they first appear, and each writer's number among them. */
struct turn {
    uint32_t *targets, *of_writer;
    uint32_t count;
};

static void *must(void *memory)
{
    if (!memory) {
        fprintf(stderr, "thalweg: no memory for the strips of a file\n");
        abort();
    }
    return memory;
}

static int refuse(struct strips_result *result, const char *why)
{
    snprintf(result->refused, sizeof result->refused, "%s", why);
    return -1;
}

static uint64_t start_of(const struct ranges *ranges, size_t i)
{
    return i ? ranges->list[i - 1].end : 0;
}

/* Appends bytes up to `end`, joined with the last range where both are of one target. */
static void append(struct ranges *ranges, uint64_t end, uint32_t target)
{
    if (end <= start_of(ranges, ranges->count))
        return;
    if (ranges->count && ranges->list[ranges->count - 1].target == target) {
        ranges->list[ranges->count - 1].end = end;
        return;
    }
    if (ranges->count == ranges->room) {
        ranges->room = ranges->room ? 2 * ranges->room : 64;
        ranges->list = must(realloc(ranges->list, ranges->room * sizeof *ranges->list));
    }
    ranges->list[ranges->count++] = (struct range){end, target};
}

/* ---- the turn ---- */

struct numbered {
    uint32_t target, writer;
};

static int by_target(const void *left, const void *right)
{
    const struct numbered *a = left, *b = right;
    if (a->target != b->target)
        return a->target < b->target ? -1 : 1;
    return a->writer < b->writer ? -1 : a->writer > b->writer;
}

static struct turn take_turn(const uint32_t *target_of, uint32_t writers)
{
    struct turn turn = {must(calloc(writers, sizeof *turn.targets)), must(calloc(writers, sizeof *turn.of_writer)), 0};
    struct numbered *sorted = must(calloc(writers, sizeof *sorted));
    for (uint32_t w = 0; w < writers; w++)
        sorted[w] = (struct numbered){target_of[w], w};
    qsort(sorted, writers, sizeof *sorted, by_target);
    /* The first writer of each target, found in order of targets, numbers it in order of writers. */
    for (uint32_t i = 0, first = 0; i < writers; i++) {
        if (i == 0 || sorted[i].target != sorted[i - 1].target)
            first = sorted[i].writer;
        turn.of_writer[sorted[i].writer] = first;
    }
    for (uint32_t w = 0; w < writers; w++) {
        if (turn.of_writer[w] == w) {
            turn.targets[turn.count] = target_of[w];
            turn.of_writer[w] = turn.count++;
        } else {
            turn.of_writer[w] = turn.of_writer[turn.of_writer[w]];
        }
    }
    free(sorted);
    return turn;
}

/* ---- step 1: who owns what ---- */

struct edge {
    uint64_t at;
    uint32_t target;
    int32_t more; /* +1: a claim begins here, -1: it ends */
};

static int by_place(const void *left, const void *right)
{
    const struct edge *a = left, *b = right;
    return a->at < b->at ? -1 : a->at > b->at;
}

static void own(const struct strips_part *parts, size_t count, uint64_t cycle_bytes, const struct turn *turn, struct ranges *owned)
{
    struct edge *edges = must(malloc((2 * count + 1) * sizeof *edges));
    uint64_t *claims = must(calloc(turn->count, sizeof *claims));
    uint64_t targets = 0, sum = 0; /* targets with claims here, and the sum of their numbers: of one, its number */
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t end = parts[i].end < cycle_bytes ? parts[i].end : cycle_bytes;
        if (parts[i].start >= end)
            continue;
        edges[n++] = (struct edge){parts[i].start, turn->of_writer[parts[i].writer], 1};
        edges[n++] = (struct edge){end, turn->of_writer[parts[i].writer], -1};
    }
    qsort(edges, n, sizeof *edges, by_place);
    for (size_t i = 0; i < n;) {
        uint64_t at = edges[i].at;
        append(owned, at, targets == 0 ? NOBODY : targets == 1 ? (uint32_t)sum : SEVERAL);
        for (; i < n && edges[i].at == at; i++) {
            uint64_t before = claims[edges[i].target];
            claims[edges[i].target] = before + (uint64_t)(int64_t)edges[i].more;
            if (before == 0 && edges[i].more > 0)
                targets++, sum += edges[i].target;
            else if (claims[edges[i].target] == 0 && edges[i].more < 0)
                targets--, sum -= edges[i].target;
        }
    }
    append(owned, cycle_bytes, NOBODY);
    free(edges);
    free(claims);
}

/* ---- step 2: what is not owned is dealt out ---- */

static void deal(const struct ranges *owned, const struct turn *turn, const struct strips_options *options, struct ranges *dealt)
{
    uint32_t next = 0;
    for (size_t i = 0; i < owned->count; i++) {
        uint64_t start = start_of(owned, i), end = owned->list[i].end;
        uint32_t target = owned->list[i].target;
        if (target != NOBODY && target != SEVERAL) {
            append(dealt, end, target);
            continue;
        }
        /* Ranges that are not owned may be neighbours (NOBODY beside SEVERAL): they are one. */
        while (i + 1 < owned->count && owned->list[i + 1].target >= SEVERAL)
            end = owned->list[++i].end;
        int first = dealt->count == 0, last = i + 1 == owned->count;
        if (end - start < options->gap_bytes && !(first && last)) {
            append(dealt, end, first ? owned->list[i + 1].target : dealt->list[dealt->count - 1].target);
            continue;
        }
        uint64_t pieces = (end - start + options->piece_bytes - 1) / options->piece_bytes;
        uint64_t piece = options->piece_bytes * ((pieces + MOST_PIECES - 1) / MOST_PIECES);
        while (start < end) {
            start = end - start > piece ? start + piece : end;
            append(dealt, start, next);
            next = (next + 1) % turn->count;
        }
    }
}

/* ---- step 3: the smallest cycle ---- */

static uint64_t length_of(const struct ranges *ranges, size_t i)
{
    return ranges->list[i].end - start_of(ranges, i);
}

/* Cuts the ranges to the smallest cycle that, repeated, gives them. The cycle is seen as a ring: where its first and its last
 * strip are of one target, they are one strip of the ring. */
static void reduce(struct ranges *ranges)
{
    size_t ring = ranges->count;
    int joined = ring > 1 && ranges->list[0].target == ranges->list[ring - 1].target;
    if (joined)
        ring--;
    if (ring < 2)
        return;
    uint64_t *length = must(malloc(ring * sizeof *length));
    for (size_t i = 0; i < ring; i++)
        length[i] = length_of(ranges, i);
    if (joined)
        length[0] += length_of(ranges, ring);
    /* The failure function of the sequence of (target, length). */
    size_t *border = must(calloc(ring + 1, sizeof *border));
    for (size_t i = 1, k = 0; i < ring; i++) {
        while (k && !(length[i] == length[k] && ranges->list[i].target == ranges->list[k].target))
            k = border[k];
        if (length[i] == length[k] && ranges->list[i].target == ranges->list[k].target)
            k++;
        border[i + 1] = k;
    }
    size_t period = ring - border[ring];
    if (ring % period == 0 && period < ring) {
        uint64_t cycle = 0;
        for (size_t i = 0; i < period; i++)
            cycle += length[i];
        size_t keep = 0;
        while (ranges->list[keep].end < cycle)
            keep++;
        ranges->list[keep].end = cycle;
        ranges->count = keep + 1;
    }
    free(length);
    free(border);
}

/* ---- step 4: no finer than what can be kept ---- */

/* Adds the bytes that `ranges` has within [start, end) to each target's weight; `*from` is where to look first. */
static void weigh(const struct ranges *ranges, size_t *from, uint64_t start, uint64_t end, uint64_t *weight)
{
    while (*from < ranges->count && ranges->list[*from].end <= start)
        ++*from;
    for (size_t i = *from; i < ranges->count && start_of(ranges, i) < end; i++) {
        uint64_t low = start_of(ranges, i) > start ? start_of(ranges, i) : start;
        uint64_t high = ranges->list[i].end < end ? ranges->list[i].end : end;
        if (ranges->list[i].target < SEVERAL)
            weight[ranges->list[i].target] += high - low;
    }
}

static uint32_t heaviest(const uint64_t *weight, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t t = 1; t < count; t++)
        if (weight[t] > weight[best])
            best = t;
    return weight[best] ? best : NOBODY;
}

static void coarsen(const struct ranges *owned, const struct ranges *dealt, uint64_t block, const struct turn *turn, struct ranges *coarse)
{
    uint64_t cycle_bytes = dealt->list[dealt->count - 1].end;
    uint64_t *weight = must(calloc(turn->count, sizeof *weight));
    size_t in_owned = 0, in_dealt = 0;
    coarse->count = 0;
    for (uint64_t start = 0; start < cycle_bytes; start += block) {
        uint64_t end = cycle_bytes - start > block ? start + block : cycle_bytes;
        memset(weight, 0, turn->count * sizeof *weight);
        weigh(owned, &in_owned, start, end, weight);
        uint32_t target = heaviest(weight, turn->count);
        if (target == NOBODY) {
            weigh(dealt, &in_dealt, start, end, weight);
            target = heaviest(weight, turn->count);
        }
        append(coarse, end, target);
    }
    free(weight);
}

/* ---- step 5: the text ---- */

/* Writes the strips; returns the text's length. `datafile_of` has NOBODY for targets without a strip, and `targets` those that
 * have one, in order. A null `text` only measures. */
static size_t write_strips(const struct ranges *ranges, const struct turn *turn, uint32_t *datafile_of, uint32_t *targets, size_t *datafiles,
                           char *text, size_t room)
{
    static const char SUFFIX[] = {0, 'K', 'M', 'G'};
    size_t length = 0;
    *datafiles = 0;
    for (uint32_t t = 0; t < turn->count; t++)
        datafile_of[t] = NOBODY;
    for (size_t i = 0; i < ranges->count; i++) {
        uint32_t target = ranges->list[i].target;
        if (datafile_of[target] == NOBODY) {
            targets[*datafiles] = turn->targets[target];
            datafile_of[target] = (uint32_t)(*datafiles)++;
        }
        uint64_t bytes = length_of(ranges, i);
        int suffix = 0;
        while (suffix < 3 && bytes % 1024 == 0)
            bytes /= 1024, suffix++;
        char item[64];
        int n = snprintf(item, sizeof item, "%s%u:%llu%.1s", i ? ";" : "", datafile_of[target], (unsigned long long)bytes, &SUFFIX[suffix]);
        if (text && length + (size_t)n < room)
            memcpy(text + length, item, (size_t)n + 1);
        length += (size_t)n;
    }
    return length;
}

static uint64_t sum_owned(const struct ranges *owned, int also_several)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < owned->count; i++)
        if (owned->list[i].target < SEVERAL || (also_several && owned->list[i].target == SEVERAL))
            bytes += length_of(owned, i);
    return bytes;
}

void strips_owned(const struct strips_part *parts, size_t count, uint64_t cycle_bytes, const uint32_t *target_of, uint32_t writers,
                  uint64_t *claimed_bytes, uint64_t *owned_bytes)
{
    struct turn turn = take_turn(target_of, writers);
    struct ranges owned = {0};
    own(parts, count, cycle_bytes, &turn, &owned);
    *claimed_bytes = sum_owned(&owned, 1);
    *owned_bytes = sum_owned(&owned, 0);
    free(turn.targets);
    free(turn.of_writer);
    free(owned.list);
}

/* Bytes that are owned by the target that the repeated strips put them on. */
static uint64_t count_local(const struct ranges *owned, const struct ranges *strips)
{
    uint64_t cycle = strips->list[strips->count - 1].end, at = 0, base = 0, local = 0;
    size_t s = 0;
    for (size_t i = 0; i < owned->count; i++) {
        while (at < owned->list[i].end) {
            uint64_t strip_end = base + strips->list[s].end;
            uint64_t end = strip_end < owned->list[i].end ? strip_end : owned->list[i].end;
            if (owned->list[i].target == strips->list[s].target)
                local += end - at;
            at = end;
            if (at == strip_end && ++s == strips->count)
                s = 0, base += cycle;
        }
    }
    return local;
}

int strips_from_parts(const struct strips_part *parts, size_t count, uint64_t cycle_bytes, const uint32_t *target_of, uint32_t writers,
                      const struct strips_options *options, struct strips_result *result)
{
    memset(result, 0, sizeof *result);
    if (!writers || !cycle_bytes || cycle_bytes > MOST_OFFSET)
        return refuse(result, "nobody writes anything");
    struct turn turn = take_turn(target_of, writers);
    struct ranges owned = {0}, dealt = {0}, strips = {0};
    uint32_t *datafile_of = must(calloc(turn.count, sizeof *datafile_of));
    int failed = -1;
    own(parts, count, cycle_bytes, &turn, &owned);
    result->claimed_bytes = sum_owned(&owned, 1);
    if (!sum_owned(&owned, 0)) {
        refuse(result, result->claimed_bytes ? "no byte is written by one node alone" : "nobody writes anything");
        goto out;
    }
    deal(&owned, &turn, options, &dealt);
    for (size_t i = 0; i < dealt.count; i++)
        append(&strips, dealt.list[i].end, dealt.list[i].target);
    reduce(&strips);
    uint64_t average = strips.list[strips.count - 1].end / strips.count;
    if (strips.count > 1 && average < options->smallest_strip_bytes) {
        snprintf(result->refused, sizeof result->refused, "strips would have %llu bytes on average, and less than %llu is too fine",
                 (unsigned long long)average, (unsigned long long)options->smallest_strip_bytes);
        goto out;
    }
    result->targets = must(calloc(turn.count, sizeof *result->targets));
    size_t length;
    uint64_t block = 4096;
    while (cycle_bytes / block > MOST_BLOCKS)
        block *= 2;
    for (; (length = write_strips(&strips, &turn, datafile_of, result->targets, &result->datafiles, NULL, 0)) > options->text_bytes;
         block *= 2) {
        if (block > cycle_bytes) {
            refuse(result, "there are more targets than the text of a layout has room for");
            goto out;
        }
        coarsen(&owned, &dealt, block, &turn, &strips);
        reduce(&strips);
    }
    result->text = must(malloc(length + 1));
    write_strips(&strips, &turn, datafile_of, result->targets, &result->datafiles, result->text, length + 1);
    result->strips = strips.count;
    result->cycle_bytes = strips.list[strips.count - 1].end;
    result->local_bytes = count_local(&owned, &strips);
    failed = 0;
out:
    free(turn.targets);
    free(turn.of_writer);
    free(owned.list);
    free(dealt.list);
    free(strips.list);
    free(datafile_of);
    return failed;
}

void strips_free(struct strips_result *result)
{
    free(result->text);
    free(result->targets);
    memset(result, 0, sizeof *result);
}
