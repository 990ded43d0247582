/* See where.h. Every distribution deals strips out in a cycle, so that one list of strips stands for each. */
#include "strips/where.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STRIPS (1 << 20)
#define MOST_BYTES ((uint64_t)INT64_MAX)

static int add(struct where *where, uint32_t datafile, uint64_t bytes)
{
    uint64_t before = where->strips ? where->ends[where->strips - 1] : 0;
    if (!bytes || bytes > MOST_BYTES - before || where->strips == MOST_STRIPS)
        return -1;
    if (!(where->strips & (where->strips - 1))) {
        size_t room = where->strips ? 2 * where->strips : 1;
        uint64_t *ends = realloc(where->ends, room * sizeof *ends);
        where->ends = ends ? ends : where->ends;
        uint32_t *datafiles = ends ? realloc(where->datafile, room * sizeof *datafiles) : NULL;
        if (!datafiles)
            return -1;
        where->datafile = datafiles;
    }
    where->ends[where->strips] = before + bytes;
    where->datafile[where->strips++] = datafile;
    if (datafile >= where->datafiles)
        where->datafiles = (size_t)datafile + 1;
    return 0;
}

void where_free(struct where *where)
{
    if (!where)
        return;
    free(where->ends);
    free(where->datafile);
    free(where->targets);
    free(where);
}

static int add_strips(struct where *where, const char *text)
{
    for (;;) {
        char *end;
        unsigned long long datafile = strtoull(text, &end, 10);
        if (end == text || *end != ':' || datafile > UINT32_MAX - 1)
            return -1;
        const char *size = end + 1;
        unsigned long long bytes = strtoull(size, &end, 10);
        int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
        if (end == size || bytes > MOST_BYTES >> shift || add(where, (uint32_t)datafile, (uint64_t)bytes << shift))
            return -1;
        text = end + (shift > 0);
        if (*text != ';')
            return !*text || *text == ',' || *text == ' ' ? 0 : -1;
        text++;
    }
}

struct where *where_of_strips(const char *strips)
{
    struct where *where = calloc(1, sizeof *where);
    if (where && add_strips(where, strips)) {
        where_free(where);
        where = NULL;
    }
    return where;
}

/* A parameter of the SPEC that `layout` begins with; null: it is not given. */
static const char *parameter(const char *layout, const char *name)
{
    size_t spec = strcspn(layout, " "), length = strlen(name);
    for (const char *at = layout; (at = strchr(at, ',')) && at < layout + spec;)
        if (!strncmp(++at, name, length) && at[length] == '=')
            return at + length + 1;
    return NULL;
}

static uint64_t number(const char *layout, const char *name, uint64_t otherwise)
{
    const char *value = parameter(layout, name);
    return value ? strtoull(value, NULL, 10) : otherwise;
}

/* Groups of datafiles, the last one of what is left; in its turn each datafile of a group gets `factor` strips. */
static int add_groups(struct where *where, const char *layout, uint32_t datafiles)
{
    uint64_t groups = number(layout, "num_groups", 2), strip = number(layout, "strip_size", 65536), factor = number(layout, "group_strip_factor", 256);
    groups = groups < datafiles ? groups : datafiles;
    if (!groups || factor * datafiles > MOST_STRIPS)
        return -1;
    uint32_t members = datafiles / (uint32_t)groups;
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t first = g * members, own = g + 1 == groups ? datafiles - first : members;
        for (uint64_t i = 0; i < factor * own; i++)
            if (add(where, first + (uint32_t)(i % own), strip))
                return -1;
    }
    return 0;
}

static int add_targets(struct where *where, const char *layout, uint32_t datafiles)
{
    const char *list = strstr(layout, " place=targets:");
    if (!list || !(where->targets = calloc(datafiles, sizeof *where->targets)))
        return -1;
    list += 15;
    for (uint32_t d = 0; d < datafiles; d++) {
        char *end;
        where->targets[d] = (uint32_t)strtoul(list, &end, 10);
        if (end == list || (d + 1 < datafiles && *end != ','))
            return -1;
        list = end + 1;
    }
    return 0;
}

struct where *where_of_layout(const char *layout)
{
    struct where *where = calloc(1, sizeof *where);
    const char *count = strstr(layout, " datafiles="), *strips = parameter(layout, "strips");
    unsigned long datafiles = count ? strtoul(count + 11, NULL, 10) : 0;
    size_t name = strcspn(layout, ", ");
    int failed = !where || !datafiles || datafiles > MOST_STRIPS;
    if (failed)
        ;
    else if (name == 10 && !memcmp(layout, "basic_dist", name))
        failed = add(where, 0, MOST_BYTES);
    else if (name == 13 && !memcmp(layout, "varstrip_dist", name))
        failed = !strips || add_strips(where, strips);
    else if (name == 11 && !memcmp(layout, "twod_stripe", name))
        failed = add_groups(where, layout, (uint32_t)datafiles);
    else if (name == 13 && !memcmp(layout, "simple_stripe", name))
        for (uint32_t d = 0; d < datafiles && !failed; d++)
            failed = add(where, d, number(layout, "strip_size", 65536));
    else
        failed = 1;
    if (failed || where->datafiles > datafiles || add_targets(where, layout, (uint32_t)datafiles)) {
        where_free(where);
        return NULL;
    }
    where->datafiles = datafiles;
    return where;
}

/* The same of bytes [start, end) of one cycle. */
static uint64_t count_within(const struct where *where, uint64_t start, uint64_t end, const unsigned char *wanted)
{
    size_t low = 0, high = where->strips;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (where->ends[middle] <= start)
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t count = 0;
    for (size_t i = low; i < where->strips && start < end; i++) {
        uint64_t stop = where->ends[i] < end ? where->ends[i] : end;
        if (wanted[where->datafile[i]])
            count += stop - start;
        start = stop;
    }
    return count;
}

uint64_t where_count(const struct where *where, uint64_t start, uint64_t length, const unsigned char *wanted)
{
    uint64_t cycle = where->ends[where->strips - 1], count = 0;
    start %= cycle;
    if (length > cycle - start) {
        count = count_within(where, start, cycle, wanted);
        length -= cycle - start;
        start = 0;
        if (length >= cycle)
            count += length / cycle * count_within(where, 0, cycle, wanted);
        length %= cycle;
    }
    return count + count_within(where, start, start + length, wanted);
}
