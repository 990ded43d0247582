/* thalweg-strips: the computation of strips.h as a filter, for tests and for whoever wants to see it. Reads a JSON array of cases:
 *
 *   {"targets": [T of writer 0, ...], "cycle_bytes": N, "parts": [[writer, start, end], ...]}
 *   {"targets": [...], "views": [{"displacement": N, "extent": N, "runs": [[offset, length], ...]}, ...]}
 *   {"targets": [...], "starts": [[start, length], ...]}
 *   {"targets": [...], "writes": [{"displacement": N, "extent": N, "runs": [...], "position": N, "length": N}, ...]}
 *
 * each with "options" if they are not the usual ones, and writes an array of answers. */
#include "json.h"
#include "strips/strips.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t number_of(const struct json *value, const char *what)
{
    uint64_t number;
    if (json_number(value, &number)) {
        fprintf(stderr, "thalweg-strips: %s: expected a whole number\n", what);
        exit(2);
    }
    return number;
}

static uint64_t *numbers_of(const struct json *array, const char *what, size_t *count)
{
    *count = json_count(array);
    uint64_t *list = calloc(*count + 1, sizeof *list);
    size_t i = 0;
    for (const struct json *item = array ? array->first : NULL; item && list; item = item->next)
        list[i++] = number_of(item, what);
    return list;
}

static void *array_of(size_t count, size_t bytes)
{
    void *list = calloc(count + 1, bytes);
    if (!list)
        exit(1);
    return list;
}

static int from_parts(const struct json *one, const uint32_t *targets, uint32_t writers, const struct strips_options *o, struct strips_result *r)
{
    const struct json *list = json_get(one, "parts");
    struct strips_part *parts = array_of(json_count(list), sizeof *parts);
    size_t count = 0, three;
    for (const struct json *item = list->first; item; item = item->next) {
        uint64_t *n = numbers_of(item, "parts", &three);
        if (three != 3 || n[0] >= writers) {
            fprintf(stderr, "thalweg-strips: parts: expected [writer, start, end]\n");
            exit(2);
        }
        parts[count++] = (struct strips_part){n[1], n[2], (uint32_t)n[0]};
        free(n);
    }
    int failed = strips_from_parts(parts, count, number_of(json_get(one, "cycle_bytes"), "cycle_bytes"), targets, writers, o, r);
    free(parts);
    return failed;
}

static struct strips_view view_of(const struct json *item)
{
    const struct json *list = json_get(item, "runs");
    struct strips_run *runs = array_of(json_count(list), sizeof *runs);
    struct strips_view view = {number_of(json_get(item, "displacement"), "displacement"), number_of(json_get(item, "extent"), "extent"), runs, 0};
    for (const struct json *run = list ? list->first : NULL; run; run = run->next) {
        size_t two;
        uint64_t *n = numbers_of(run, "runs", &two);
        if (two != 2)
            exit(2);
        runs[view.count++] = (struct strips_run){n[0], n[1]};
        free(n);
    }
    return view;
}

static int from_views(const struct json *one, const uint32_t *targets, uint32_t writers, const struct strips_options *o, struct strips_result *r)
{
    struct strips_view *views = array_of(writers, sizeof *views);
    uint32_t w = 0;
    for (const struct json *item = json_get(one, "views")->first; item && w < writers; item = item->next)
        views[w++] = view_of(item);
    int failed = strips_from_views(views, targets, writers, o, r);
    for (w = 0; w < writers; w++)
        free((void *)views[w].runs);
    free(views);
    return failed;
}

static int from_writes(const struct json *one, const uint32_t *targets, uint32_t writers, const struct strips_options *o, struct strips_result *r)
{
    struct strips_write *writes = array_of(writers, sizeof *writes);
    uint32_t w = 0;
    for (const struct json *item = json_get(one, "writes")->first; item && w < writers; item = item->next, w++)
        writes[w] = (struct strips_write){view_of(item), number_of(json_get(item, "position"), "position"),
                                          number_of(json_get(item, "length"), "length")};
    int failed = strips_from_writes(writes, targets, writers, o, r);
    for (w = 0; w < writers; w++)
        free((void *)writes[w].view.runs);
    free(writes);
    return failed;
}

static int from_starts(const struct json *one, const uint32_t *targets, uint32_t writers, const struct strips_options *o, struct strips_result *r)
{
    uint64_t *start = array_of(writers, sizeof *start), *length = array_of(writers, sizeof *length);
    uint32_t w = 0;
    for (const struct json *item = json_get(one, "starts")->first; item && w < writers; item = item->next, w++) {
        size_t two;
        uint64_t *n = numbers_of(item, "starts", &two);
        if (two != 2)
            exit(2);
        start[w] = n[0], length[w] = n[1];
        free(n);
    }
    int failed = strips_from_starts(start, length, targets, writers, o, r);
    free(start);
    free(length);
    return failed;
}

static void answer(const struct json *one)
{
    struct strips_options options = STRIPS_DEFAULT;
    struct strips_result result;
    const struct json *asked = json_get(one, "options");
    size_t writers;
    uint64_t *numbers = numbers_of(json_get(one, "targets"), "targets", &writers);
    uint32_t *targets = array_of(writers, sizeof *targets);
    for (size_t i = 0; i < writers; i++)
        targets[i] = (uint32_t)numbers[i];
    if (json_get(asked, "gap_bytes"))
        options.gap_bytes = number_of(json_get(asked, "gap_bytes"), "gap_bytes");
    if (json_get(asked, "piece_bytes"))
        options.piece_bytes = number_of(json_get(asked, "piece_bytes"), "piece_bytes");
    if (json_get(asked, "smallest_strip_bytes"))
        options.smallest_strip_bytes = number_of(json_get(asked, "smallest_strip_bytes"), "smallest_strip_bytes");
    if (json_get(asked, "text_bytes"))
        options.text_bytes = (size_t)number_of(json_get(asked, "text_bytes"), "text_bytes");
    int failed = json_get(one, "parts")    ? from_parts(one, targets, (uint32_t)writers, &options, &result)
                 : json_get(one, "views")  ? from_views(one, targets, (uint32_t)writers, &options, &result)
                 : json_get(one, "writes") ? from_writes(one, targets, (uint32_t)writers, &options, &result)
                 : json_get(one, "starts") ? from_starts(one, targets, (uint32_t)writers, &options, &result)
                                           : (fprintf(stderr, "thalweg-strips: a case without parts, views, writes or starts\n"), exit(2), 0);
    if (failed) {
        printf("{\"refused\": \"%s\"}", result.refused);
    } else {
        printf("{\"strips\": \"%s\", \"targets\": [", result.text);
        for (size_t i = 0; i < result.datafiles; i++)
            printf("%s%" PRIu32, i ? ", " : "", result.targets[i]);
        printf("], \"cycle_bytes\": %" PRIu64 ", \"claimed_bytes\": %" PRIu64 ", \"local_bytes\": %" PRIu64 "}", result.cycle_bytes,
               result.claimed_bytes, result.local_bytes);
    }
    strips_free(&result);
    free(numbers);
    free(targets);
}

int main(void)
{
    size_t length = 0, room = 1 << 20;
    char *text = array_of(room, 1);
    for (size_t n; (n = fread(text + length, 1, room - length, stdin)) > 0;) {
        length += n;
        if (length == room && !(text = realloc(text, room *= 2)))
            return 1;
    }
    struct json *document = json_read(text, length);
    if (!document || document->kind != JSON_ARRAY) {
        fprintf(stderr, "thalweg-strips: expected a JSON array of cases on standard input\n");
        return 2;
    }
    printf("[");
    for (const struct json *one = document->first; one; one = one->next) {
        answer(one);
        if (one->next)
            printf(",\n ");
    }
    printf("]\n");
    json_free(document);
    free(text);
    return 0;
}
