/* From the writers' views, or from where each of them begins, to parts of a cycle: see strips.h. */
#include "strips/strips.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOR_EVER (UINT64_C(1) << 50)
#define MOST_OFFSET ((uint64_t)INT64_MAX)

struct beginning {
    uint64_t at;
    uint32_t writer;
};

struct parts {
    struct strips_part *list;
    size_t count, room;
};

static void add(struct parts *parts, uint64_t start, uint64_t end, uint32_t writer)
{
    if (parts->count == parts->room) {
        parts->room = parts->room ? 2 * parts->room : 64;
        parts->list = realloc(parts->list, parts->room * sizeof *parts->list);
        if (!parts->list)
            abort();
    }
    parts->list[parts->count++] = (struct strips_part){start, end, writer};
}

/* Adds bytes from `start` (anywhere) to a cycle that repeats. */
static void add_around(struct parts *parts, uint64_t start, uint64_t length, uint64_t cycle, uint32_t writer)
{
    start %= cycle;
    if (length >= cycle) {
        add(parts, 0, cycle, writer);
    } else if (length > cycle - start) {
        add(parts, start, cycle, writer);
        add(parts, 0, length - (cycle - start), writer);
    } else {
        add(parts, start, start + length, writer);
    }
}

static int refuse(struct strips_result *result, const char *why)
{
    memset(result, 0, sizeof *result);
    snprintf(result->refused, sizeof result->refused, "%s", why);
    return -1;
}

static int by_offset(const void *left, const void *right)
{
    const struct beginning *a = left, *b = right;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->writer < b->writer ? -1 : a->writer > b->writer;
}

/* Each writer's part goes on to where the next one begins. `list` is put in order. Returns the cycle's bytes; 0: there is none. */
static uint64_t parts_from_beginnings(struct beginning *list, size_t count, struct parts *parts)
{
    if (!count)
        return 0;
    qsort(list, count, sizeof *list, by_offset);
    uint64_t distance = 0, distinct = 1;
    int equal = 1;
    for (size_t i = 1; i < count; i++) {
        if (list[i].at == list[i - 1].at)
            continue;
        distinct++;
        if (!distance)
            distance = list[i].at - list[i - 1].at;
        equal = equal && distance == list[i].at - list[i - 1].at;
    }
    if (list[count - 1].at > MOST_OFFSET - FOR_EVER)
        return 0;
    uint64_t cycle = list[count - 1].at + FOR_EVER;
    int around = distinct > 1 && equal && distance <= FOR_EVER / distinct;
    if (around)
        cycle = distinct * distance;
    for (size_t i = 0; i < count; i++) {
        size_t next = i + 1;
        while (next < count && list[next].at == list[i].at)
            next++;
        if (around)
            add_around(parts, list[i].at, distance, cycle, list[i].writer);
        else
            add(parts, list[i].at == list[0].at ? 0 : list[i].at, next < count ? list[next].at : cycle, list[i].writer);
    }
    return cycle;
}

static int is_dense(const struct strips_view *view)
{
    return view->count == 1 && view->runs[0].offset == 0 && view->runs[0].length == view->extent;
}

static uint64_t end_of_tile(const struct strips_view *view)
{
    const struct strips_run *last = &view->runs[view->count - 1];
    return view->extent > last->offset + last->length ? view->extent : last->offset + last->length;
}

/* Whether every byte that a view can name fits in 63 bits. */
static int fits(const struct strips_view *view)
{
    const struct strips_run *last = &view->runs[view->count - 1];
    return view->extent <= MOST_OFFSET && last->offset <= MOST_OFFSET && last->length <= MOST_OFFSET - last->offset &&
           view->displacement <= MOST_OFFSET - end_of_tile(view);
}

/* Views of one extent, repeated with it. Returns the cycle's bytes. */
static uint64_t parts_repeated(const struct strips_view *views, uint32_t writers, uint64_t extent, struct parts *parts)
{
    for (uint32_t w = 0; w < writers; w++)
        for (size_t i = 0; i < views[w].count; i++)
            add_around(parts, views[w].displacement + views[w].runs[i].offset, views[w].runs[i].length, extent, w);
    return extent;
}

/* Each view's first tile; one without holes goes on to the end. Returns the cycle's bytes. */
static uint64_t parts_once(const struct strips_view *views, uint32_t writers, struct parts *parts)
{
    uint64_t cycle = 0;
    for (uint32_t w = 0; w < writers; w++) {
        uint64_t end = views[w].count ? views[w].displacement + end_of_tile(&views[w]) : 0;
        cycle = end > cycle ? end : cycle;
    }
    for (uint32_t w = 0; w < writers; w++)
        for (size_t i = 0; i < views[w].count; i++) {
            uint64_t start = views[w].displacement + views[w].runs[i].offset;
            add(parts, start, is_dense(&views[w]) ? cycle : start + views[w].runs[i].length, w);
        }
    return cycle;
}

static uint64_t first_byte(const struct strips_view *view)
{
    return view->displacement + view->runs[0].offset;
}

/* Views whose first tiles lie one behind the other: each writer has a region of its own. Returns the cycle's bytes; 0: they do not. */
static uint64_t parts_of_regions(const struct strips_view *views, uint32_t writers, struct parts *parts)
{
    struct beginning *list = calloc(writers ? writers : 1, sizeof *list);
    size_t count = 0;
    int apart = 1;
    if (!list)
        abort();
    for (uint32_t w = 0; w < writers; w++)
        if (views[w].count)
            list[count++] = (struct beginning){first_byte(&views[w]), w};
    qsort(list, count, sizeof *list, by_offset);
    for (size_t i = 1; i < count && apart; i++) {
        const struct strips_view *before = &views[list[i - 1].writer];
        const struct strips_run *last = &before->runs[before->count - 1];
        apart = before->displacement + last->offset + last->length <= list[i].at;
    }
    uint64_t cycle = apart ? parts_from_beginnings(list, count, parts) : 0;
    free(list);
    return cycle;
}

/* Views with holes. Repeated, where no writer's tiles come to be where another's are; else as regions, or once: what leaves more
 * bytes to one target. Returns the cycle's bytes; 0: they do not fit in 63 bits. */
static uint64_t parts_from_tiles(const struct strips_view *views, const uint32_t *target_of, uint32_t writers, int one_extent, struct parts *parts)
{
    struct parts repeated = {0};
    uint64_t cycle, around = 0, claimed = 0, owned = 0, claimed_around = 0, owned_around = 0;
    for (uint32_t w = 0; w < writers; w++) {
        if (views[w].count && !fits(&views[w]))
            return 0;
        if (views[w].count && one_extent)
            around = views[w].extent;
    }
    if (around) {
        parts_repeated(views, writers, around, &repeated);
        strips_owned(repeated.list, repeated.count, around, target_of, writers, &claimed_around, &owned_around);
        if (owned_around == claimed_around) {
            *parts = repeated;
            return around;
        }
    }
    if (!(cycle = parts_of_regions(views, writers, parts))) {
        parts->count = 0;
        cycle = parts_once(views, writers, parts);
    }
    if (around) {
        strips_owned(parts->list, parts->count, cycle, target_of, writers, &claimed, &owned);
        if ((double)owned_around * (double)claimed >= (double)owned * (double)claimed_around) {
            free(parts->list);
            *parts = repeated;
            return around;
        }
        free(repeated.list);
    }
    return cycle;
}

int strips_from_views(const struct strips_view *views, const uint32_t *target_of, uint32_t writers, const struct strips_options *options,
                      struct strips_result *result)
{
    struct parts parts = {0};
    struct beginning *dense = calloc(writers ? writers : 1, sizeof *dense);
    size_t writing = 0, dense_count = 0;
    uint64_t extent = 0, cycle;
    int one_extent = 1;
    if (!dense)
        abort();
    for (uint32_t w = 0; w < writers; w++) {
        if (!views[w].count)
            continue;
        if (is_dense(&views[w]))
            dense[dense_count++] = (struct beginning){views[w].displacement, w};
        one_extent = one_extent && (!writing || views[w].extent == extent);
        extent = views[w].extent;
        writing++;
    }
    if (dense_count == writing)
        cycle = parts_from_beginnings(dense, dense_count, &parts);
    else
        cycle = parts_from_tiles(views, target_of, writers, one_extent, &parts);
    int failed = cycle ? strips_from_parts(parts.list, parts.count, cycle, target_of, writers, options, result)
                       : refuse(result, writing ? "the views do not fit in 63 bits" : "nobody writes anything");
    free(parts.list);
    free(dense);
    return failed;
}

int strips_from_starts(const uint64_t *start, const uint64_t *length, const uint32_t *target_of, uint32_t writers,
                       const struct strips_options *options, struct strips_result *result)
{
    struct parts parts = {0};
    struct beginning *list = calloc(writers ? writers : 1, sizeof *list);
    size_t count = 0;
    if (!list)
        abort();
    for (uint32_t w = 0; w < writers; w++)
        if (length[w])
            list[count++] = (struct beginning){start[w], w};
    uint64_t cycle = parts_from_beginnings(list, count, &parts);
    int failed = cycle ? strips_from_parts(parts.list, parts.count, cycle, target_of, writers, options, result)
                       : refuse(result, count ? "the offsets do not fit in 63 bits" : "nobody writes anything");
    free(parts.list);
    free(list);
    return failed;
}
