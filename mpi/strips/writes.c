/* From what everybody writes first to strips: see strips_from_writes in strips.h. Each pattern that the first call may be the beginning of is
 * made into strips, and judged by how much of the call itself they have local. */
#include "strips/strips.h"
#include "strips/where.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ranges that are looked at, of all writers together. */
#define MOST_RANGES (1u << 20)
/* Behind the bytes of writers of one target, this much is nobody's. */
#define LEAST_NOBODYS (UINT64_C(64) << 20)

size_t strips_seen(const struct strips_view *view, uint64_t position, uint64_t length, size_t most,
                   void (*give)(void *context, uint64_t start, uint64_t length), void *context)
{
    uint64_t size = 0;
    size_t given = 0;
    for (size_t i = 0; i < view->count; i++)
        size += view->runs[i].length;
    if (!size || !length || !most)
        return 0;
    if (view->count == 1 && size == view->extent) {
        give(context, view->displacement + view->runs[0].offset + position, length);
        return 1;
    }
    uint64_t base = view->displacement + position / size * view->extent, within = position % size;
    for (;; base += view->extent) {
        for (size_t i = 0; i < view->count; i++) {
            uint64_t run = view->runs[i].length;
            if (within >= run) {
                within -= run;
                continue;
            }
            uint64_t take = run - within < length ? run - within : length;
            give(context, base + view->runs[i].offset + within, take);
            within = 0;
            length -= take;
            if (++given == most || !length)
                return given;
        }
    }
}

/* What is written, as parts; and while they are collected, who writes. */
struct written {
    struct strips_part *list;
    size_t count, room;
    uint64_t end, bytes;
    uint32_t writer;
};

static void take(void *context, uint64_t start, uint64_t length)
{
    struct written *written = context;
    if (written->count == written->room) {
        written->room = written->room ? 2 * written->room : 64;
        written->list = realloc(written->list, written->room * sizeof *written->list);
        if (!written->list)
            abort();
    }
    written->list[written->count++] = (struct strips_part){start, start + length, written->writer};
    written->end = start + length > written->end ? start + length : written->end;
    written->bytes += length;
}

/* How many of the written bytes these strips have on the target of who writes them. */
static uint64_t judge(const struct strips_result *strips, const struct written *written, const uint32_t *target_of)
{
    struct where *where = where_of_strips(strips->text);
    unsigned char *own = calloc(strips->datafiles + 1, 1);
    uint64_t local = 0;
    if (!where || !own)
        abort();
    for (size_t i = 0; i < written->count; i++) {
        const struct strips_part *part = &written->list[i];
        if (!i || part->writer != part[-1].writer)
            for (size_t d = 0; d < strips->datafiles; d++)
                own[d] = strips->targets[d] == target_of[part->writer];
        local += where_count(where, part->start, part->end - part->start, own);
    }
    where_free(where);
    free(own);
    return local;
}

/* Keeps the better of two; the second is freed, or becomes the first. */
static void choose(struct strips_result *best, int *have, struct strips_result *other, const struct written *written, const uint32_t *target_of)
{
    other->claimed_bytes = written->bytes;
    other->local_bytes = judge(other, written, target_of);
    if (*have && other->local_bytes <= best->local_bytes) {
        strips_free(other);
        return;
    }
    if (*have)
        strips_free(best);
    *best = *other;
    *have = 1;
}

/* Whether all who write are of one target, and somebody else is of another and has no view that sees anything but what they see. */
static int is_one_of_several(const struct strips_write *writes, const uint32_t *target_of, uint32_t writers)
{
    uint32_t first = UINT32_MAX;
    int several = 0;
    for (uint32_t w = 0; w < writers; w++)
        if (writes[w].length && first == UINT32_MAX)
            first = target_of[w];
    for (uint32_t w = 0; w < writers; w++) {
        if (writes[w].length && target_of[w] != first)
            return 0;
        several = several || (!writes[w].length && writes[w].view.count && target_of[w] != first);
    }
    return several;
}

/* The call's own bytes, repeated. */
static int from_itself(const struct written *written, int one_of_several, const uint32_t *target_of, uint32_t writers, const struct strips_options *options,
                       struct strips_result *result)
{
    uint64_t end = written->end, piece = options->piece_bytes;
    if (!one_of_several || end > UINT64_C(1) << 60)
        return strips_from_parts(written->list, written->count, end, target_of, writers, options, result);
    /* What is dealt out begins where a piece does. */
    uint64_t rounded = (end + piece - 1) / piece * piece;
    uint64_t cycle = rounded + (rounded > LEAST_NOBODYS ? rounded : LEAST_NOBODYS);
    for (size_t i = 0; i < written->count; i++)
        if (written->list[i].end == end)
            written->list[i].end = rounded;
    int failed = strips_from_parts(written->list, written->count, cycle, target_of, writers, options, result);
    for (size_t i = 0; i < written->count; i++)
        if (written->list[i].end == rounded)
            written->list[i].end = end;
    return failed;
}

static int from_starts_of(const struct strips_write *writes, const struct written *written, const uint32_t *target_of, uint32_t writers,
                          const struct strips_options *options, struct strips_result *result)
{
    uint64_t *start = calloc(writers, sizeof *start), *length = calloc(writers, sizeof *length);
    int failed = !start || !length;
    for (size_t i = written->count; i-- > 0 && !failed;)
        start[written->list[i].writer] = written->list[i].start;
    for (uint32_t w = 0; w < writers && !failed; w++) {
        const struct strips_view *view = &writes[w].view;
        length[w] = writes[w].length;
        failed = length[w] && !(view->count == 1 && view->runs[0].length == view->extent);
    }
    failed = failed || strips_from_starts(start, length, target_of, writers, options, result);
    free(start);
    free(length);
    return failed ? -1 : 0;
}

int strips_from_writes(const struct strips_write *writes, const uint32_t *target_of, uint32_t writers, const struct strips_options *options,
                       struct strips_result *result)
{
    struct written written = {0};
    struct strips_view *all = calloc(writers + 1, sizeof *all), *writing = calloc(writers + 1, sizeof *writing);
    struct strips_result other;
    int have = 0, whole = 1;
    if (!all || !writing)
        abort();
    for (uint32_t w = 0; w < writers; w++) {
        uint64_t before = written.bytes;
        written.writer = w;
        all[w] = writes[w].view;
        if (writes[w].length)
            writing[w] = writes[w].view;
        strips_seen(&writes[w].view, writes[w].position, writes[w].length, MOST_RANGES / writers + 1, take, &written);
        whole = whole && written.bytes - before == writes[w].length;
    }
    int one_of_several = is_one_of_several(writes, target_of, writers);
    if (!strips_from_views(all, target_of, writers, options, &other))
        choose(result, &have, &other, &written, target_of);
    if (!one_of_several && !strips_from_views(writing, target_of, writers, options, &other))
        choose(result, &have, &other, &written, target_of);
    if (!one_of_several && !from_starts_of(writes, &written, target_of, writers, options, &other))
        choose(result, &have, &other, &written, target_of);
    memset(&other, 0, sizeof other);
    snprintf(other.refused, sizeof other.refused, "the ranks' first write has more than %u pieces", MOST_RANGES);
    if (!whole || from_itself(&written, one_of_several, target_of, writers, options, &other)) {
        if (!have)
            *result = other;
    } else {
        choose(result, &have, &other, &written, target_of);
    }
    free(written.list);
    free(all);
    free(writing);
    return have ? 0 : -1;
}
