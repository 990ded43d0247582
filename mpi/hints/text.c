/* See text.h. The list of distributions and the types of their parameters is here only to tell a wrong type; which
 * distributions there are, and which values are good, is the store's to judge. A test holds the list against the store's. */
#include "hints/text.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum type { TYPE_INT, TYPE_UNSIGNED, TYPE_INT64, TYPE_UNSIGNED64, TYPE_CHAR, TYPE_STRING, TYPE_DOUBLE, TYPES };

/* The word in a key, and a shorter one for implementations whose keys are short. */
static const char *const TYPE_WORDS[TYPES][2] = {
    {"int", "int"}, {"unsigned int", "uint"}, {"int64", "int64"}, {"unsigned int64", "uint64"}, {"char", "char"}, {"string", "string"}, {"double", "double"},
};

static const struct known {
    const char *distribution, *parameter;
    enum type type;
} KNOWN[] = {
    {"simple_stripe", "strip_size", TYPE_INT64},
    {"twod_stripe", "num_groups", TYPE_UNSIGNED},
    {"twod_stripe", "strip_size", TYPE_INT64},
    {"twod_stripe", "group_strip_factor", TYPE_UNSIGNED},
    {"varstrip_dist", "strips", TYPE_STRING},
};

static const struct known *known_parameter(const char *distribution, const char *parameter)
{
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (!strcmp(KNOWN[i].distribution, distribution) && !strcmp(KNOWN[i].parameter, parameter))
            return &KNOWN[i];
    return NULL;
}

static int is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return 0;
    return length > 0;
}

/* The three parts of `<distribution>:<type>:<parameter>`; 0: it is not of this form. */
static int split_typed(const char *key, char parts[3][64])
{
    for (int i = 0; i < 3; i++) {
        size_t length = strcspn(key, ":");
        if (length >= 64 || (key[length] == ':') != (i < 2) || (i != 1 && !is_name(key, length)))
            return 0;
        memcpy(parts[i], key, length);
        parts[i][length] = 0;
        key += length + 1;
    }
    return 1;
}

static const char *const PLAIN[] = {"distribution_name", "striping_factor", "striping_unit", "thalweg_layout", "thalweg_placement"};

int hints_is_ours(const char *key)
{
    char parts[3][64];
    for (size_t i = 0; i < sizeof PLAIN / sizeof *PLAIN; i++)
        if (!strcmp(PLAIN[i], key))
            return 1;
    return !strncmp(key, "thalweg_", 8) || split_typed(key, parts);
}

/* ---- the text ---- */

void hints_add(struct hints *hints, const char *key, const char *value)
{
    size_t more = strlen(key) + strlen(value) + 2;
    char *text = realloc(hints->text, hints->length + more + 1);
    if (!text)
        return;
    char *line = text + hints->length;
    snprintf(line, more + 1, "%s=%s\n", key, value);
    /* A line is a line, whatever the value. */
    for (char *c = line; c < line + more - 1; c++)
        if (*c == '\n')
            *c = ' ';
    hints->text = text;
    hints->length += more;
}

static void add_new(struct hints *hints, const char *key, size_t in_key, const char *value, size_t in_value)
{
    char name[256], *copy = strndup(value, in_value);
    size_t length;
    snprintf(name, sizeof name, "%.*s", (int)in_key, key);
    if (copy && in_key < sizeof name && hints_is_ours(name) && !hints_get(hints, name, &length))
        hints_add(hints, name, copy);
    free(copy);
}

void hints_add_words(struct hints *hints, const char *text)
{
    while (*(text += strspn(text, " \t\n"))) {
        size_t length = strcspn(text, " \t\n"), in_key = strcspn(text, "=");
        if (in_key < length)
            add_new(hints, text, in_key, text + in_key + 1, length - in_key - 1);
        text += length;
    }
}

void hints_add_lines(struct hints *hints, const char *text)
{
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        const char *key = text + strspn(text, " \t");
        size_t in_key = strcspn(key, " \t\n");
        const char *value = key + in_key + strspn(key + in_key, " \t");
        if (*key != '#')
            add_new(hints, key, in_key, value, strcspn(value, " \t\n"));
    }
}

static int by_key(const void *left, const void *right)
{
    const char *a = *(const char *const *)left, *b = *(const char *const *)right;
    size_t in_a = strcspn(a, "="), in_b = strcspn(b, "=");
    int order = memcmp(a, b, in_a < in_b ? in_a : in_b);
    return order ? order : (in_a > in_b) - (in_a < in_b);
}

void hints_order(struct hints *hints)
{
    if (!hints->text)
        return;
    size_t count = 0, i = 0;
    for (size_t at = 0; at < hints->length; at++)
        count += hints->text[at] == '\n';
    char **lines = malloc((count + 1) * sizeof *lines), *ordered = malloc(hints->length + 1), *at = ordered;
    if (!lines || !ordered) {
        free(lines);
        free(ordered);
        return;
    }
    for (char *line = hints->text; i < count; line += strcspn(line, "\n") + 1)
        lines[i++] = line;
    qsort(lines, count, sizeof *lines, by_key);
    for (i = 0; i < count; i++) {
        size_t length = strcspn(lines[i], "\n") + 1;
        memcpy(at, lines[i], length);
        at += length;
    }
    *at = 0;
    free(lines);
    free(hints->text);
    hints->text = ordered;
}

const char *hints_get(const struct hints *hints, const char *key, size_t *length)
{
    size_t wanted = strlen(key);
    for (const char *line = hints->text; line && *line; line += strcspn(line, "\n") + 1)
        if (!strncmp(line, key, wanted) && line[wanted] == '=') {
            *length = strcspn(line + wanted + 1, "\n");
            return line + wanted + 1;
        }
    return NULL;
}

int hints_differ(const struct hints *first, const struct hints *other, char *key, size_t room)
{
    const char *a = first->text ? first->text : "", *b = other->text ? other->text : "";
    while (*a || *b) {
        size_t in_a = strcspn(a, "\n"), in_b = strcspn(b, "\n");
        if (in_a != in_b || memcmp(a, b, in_a)) {
            /* The smaller key is the one that the other text lacks. */
            const char *which = !*a ? b : !*b ? a : by_key(&a, &b) <= 0 ? a : b;
            snprintf(key, room, "%.*s", (int)strcspn(which, "="), which);
            return 1;
        }
        a += in_a + (a[in_a] == '\n');
        b += in_b + (b[in_b] == '\n');
    }
    return 0;
}

/* ---- what is asked ---- */

static int whole_number(const char *text, uint64_t most, uint64_t *number)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return -1;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end || errno || value > most)
        return -1;
    *number = value;
    return 0;
}

/* What a value of this type must look like; null: it does. */
static const char *wrong_value(enum type type, const char *value)
{
    const char *digits = value + (*value == '-');
    uint64_t magnitude;
    char *end;
    int negative = *value == '-';
    switch (type) {
    case TYPE_INT:
        return whole_number(digits, INT32_MAX + (uint64_t)negative, &magnitude) ? "a whole number of 32 bits" : NULL;
    case TYPE_INT64:
        return whole_number(digits, INT64_MAX + (uint64_t)negative, &magnitude) ? "a whole number of 64 bits" : NULL;
    case TYPE_UNSIGNED:
        return whole_number(value, UINT32_MAX, &magnitude) ? "a whole number of 32 bits without a sign" : NULL;
    case TYPE_UNSIGNED64:
        return whole_number(value, UINT64_MAX, &magnitude) ? "a whole number of 64 bits without a sign" : NULL;
    case TYPE_CHAR:
        return strlen(value) == 1 ? NULL : "one character";
    case TYPE_DOUBLE:
        strtod(value, &end);
        return *value && !*end ? NULL : "a number";
    default:
        return NULL;
    }
}

/* Values stand in a text whose parts are separated by spaces and commas. */
static int fits_layout(const char *value)
{
    for (; *value; value++)
        if ((unsigned char)*value <= ' ' || *value == ',')
            return 0;
    return 1;
}

#define REFUSE(...) return snprintf(reason, room, __VA_ARGS__), -1

/* Takes one typed parameter of the distribution in use. */
static int read_parameter(const char *key, char parts[3][64], const char *value, struct hints_wish *wish, char *reason, size_t room)
{
    int type = 0;
    while (type < TYPES && strcmp(parts[1], TYPE_WORDS[type][0]) && strcmp(parts[1], TYPE_WORDS[type][1]))
        type++;
    if (type == TYPES)
        REFUSE("hint %s: there is no type `%s`: expected [unsigned ]int, [unsigned ]int64, char, string or double", key, parts[1]);
    const struct known *known = known_parameter(parts[0], parts[2]);
    if (known && known->type != (enum type)type)
        REFUSE("hint %s: %s's %s is of type %s", key, parts[0], parts[2], TYPE_WORDS[known->type][0]);
    const char *expected = wrong_value((enum type)type, value);
    if (expected)
        REFUSE("hint %s: `%.60s` is not %s", key, value, expected);
    if (!*value || !fits_layout(value))
        REFUSE("hint %s: `%.60s` is empty, or has a space or a comma in it", key, value);
    size_t used = strlen(wish->parameters);
    int n = snprintf(wish->parameters + used, sizeof wish->parameters - used, ",%s=%s", parts[2], value);
    if (n < 0 || (size_t)n >= sizeof wish->parameters - used)
        REFUSE("hint %s: the parameters are longer than %zu bytes", key, sizeof wish->parameters - 1);
    return 0;
}

static int read_plain(const char *key, const char *value, struct hints_wish *wish, char *reason, size_t room)
{
    if (!strcmp(key, "striping_factor")) {
        if (whole_number(value, UINT32_MAX, &wish->striping_factor) || !wish->striping_factor)
            REFUSE("hint striping_factor: `%.60s` is not a number of datafiles, 1 or more", value);
    } else if (!strcmp(key, "striping_unit")) {
        if (whole_number(value, INT64_MAX, &wish->striping_unit) || !wish->striping_unit)
            REFUSE("hint striping_unit: `%.60s` is not a number of bytes, 1 or more", value);
    } else if (!strcmp(key, "distribution_name")) {
        if (!is_name(value, strlen(value)) || strlen(value) >= sizeof wish->distribution)
            REFUSE("hint distribution_name: there is no distribution `%.60s`", value);
        strcpy(wish->distribution, value);
    } else if (!strcmp(key, "thalweg_placement")) {
        if (!strcmp(value, "local")) {
            wish->place_local = 1;
        } else {
            int named = !strcmp(value, "round-robin") || !strncmp(value, "round-robin:", 12) || !strncmp(value, "targets:", 8);
            if (!named || strpbrk(value, " \t\n") || strlen(value) >= sizeof wish->placement)
                REFUSE("hint thalweg_placement: `%.60s`: expected round-robin, round-robin:FIRST, targets:T,T,... or local", value);
            strcpy(wish->placement, value);
        }
    } else if (!strcmp(key, "thalweg_layout")) {
        /* What another file's info says of that file is no wish for this one. */
        if (strcmp(value, "local") && strcmp(value, "none") && strcmp(value, "waiting"))
            REFUSE("hint thalweg_layout: `%.60s`: expected local", value);
        wish->local = !strcmp(value, "local");
    } else {
        /* One that a file's own info gives back is no wish. */
        return 0;
    }
    return 0;
}

static int check_together(struct hints_wish *wish, const char *typed, char *reason, size_t room)
{
    if (!*wish->distribution && *typed)
        REFUSE("hint %s: without distribution_name it belongs to nothing", typed);
    int has_strips = strstr(wish->parameters, ",strips=") != NULL;
    if (wish->place_local && !strcmp(wish->distribution, "varstrip_dist") && !has_strips)
        wish->local = 1;
    /* Another file's info, given back as it is, asks for that file's strips. */
    if (has_strips)
        wish->local = 0;
    if (wish->local && *wish->distribution && strcmp(wish->distribution, "varstrip_dist"))
        REFUSE("hint thalweg_layout=local: its strips are those of varstrip_dist, and distribution_name is %s", wish->distribution);
    if (wish->local && *wish->placement)
        REFUSE("hint thalweg_layout=local: the targets are those of the ranks' nodes, and thalweg_placement names others");
    const char *size = strstr(wish->parameters, ",strip_size=");
    if (size && wish->striping_unit && strtoull(size + 12, NULL, 10) != wish->striping_unit)
        REFUSE("hints striping_unit and %s:int64:strip_size are the same thing, and differ", wish->distribution);
    return 0;
}

int hints_read(const struct hints *hints, struct hints_wish *wish, char *reason, size_t room)
{
    char key[256], *value = malloc(hints->length + 1), parts[3][64], typed[256] = "";
    size_t length;
    int failed = 0;
    memset(wish, 0, sizeof *wish);
    if (!value)
        REFUSE("no memory for hints");
    const char *distribution = hints_get(hints, "distribution_name", &length);
    for (const char *line = hints->text; line && *line && !failed; line += strcspn(line, "\n") + 1) {
        size_t in_key = strcspn(line, "="), in_value = strcspn(line + in_key + 1, "\n");
        snprintf(key, sizeof key, "%.*s", (int)in_key, line);
        memcpy(value, line + in_key + 1, in_value);
        value[in_value] = 0;
        if (!split_typed(key, parts)) {
            failed = read_plain(key, value, wish, reason, room);
            continue;
        }
        int is_typed = 0;
        for (int i = 0; i < TYPES; i++)
            is_typed |= !strcmp(parts[1], TYPE_WORDS[i][0]) || !strcmp(parts[1], TYPE_WORDS[i][1]);
        if (is_typed && !*typed)
            snprintf(typed, sizeof typed, "%s", key);
        if (distribution && strlen(parts[0]) == length && !memcmp(parts[0], distribution, length))
            failed = read_parameter(key, parts, value, wish, reason, room);
    }
    free(value);
    wish->any = *wish->distribution || *wish->placement || wish->striping_unit || wish->striping_factor || wish->local || wish->place_local;
    return failed ? -1 : check_together(wish, typed, reason, room);
}

/* ---- the layout ---- */

/* The words of an attribute's value: SPEC, and what follows `datafiles=` and `place=`; empty where it is not there. */
struct words {
    char spec[HINTS_LAYOUT_BYTES], datafiles[16], place[HINTS_LAYOUT_BYTES];
};

static struct words *split_layout(const char *layout)
{
    struct words *words = calloc(1, sizeof *words);
    for (const char *at = layout; words && *at;) {
        at += strspn(at, " \n");
        size_t length = strcspn(at, " \n");
        if (!strncmp(at, "datafiles=", 10))
            snprintf(words->datafiles, sizeof words->datafiles, "%.*s", (int)length - 10, at + 10);
        else if (!strncmp(at, "place=", 6))
            snprintf(words->place, sizeof words->place, "%.*s", (int)length - 6, at + 6);
        else if (length && !*words->spec)
            snprintf(words->spec, sizeof words->spec, "%.*s", (int)length, at);
        at += length;
    }
    return words;
}

/* Whether a distribution has a parameter strip_size, which striping_unit is another name of. */
static int takes_strip_size(const char *spec)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(spec, ","), spec);
    return known_parameter(name, "strip_size") != NULL;
}

/* SPEC with another strip size. */
static int with_strip_size(const char *spec, uint64_t bytes, char *out, size_t room)
{
    const char *old = strstr(spec, ",strip_size=");
    size_t before = old ? (size_t)(old - spec) : strlen(spec);
    const char *after = old ? old + 1 + strcspn(old + 1, ",") : "";
    return snprintf(out, room, "%.*s,strip_size=%llu%s", (int)before, spec, (unsigned long long)bytes, after);
}

int hints_layout(const struct hints_wish *wish, const char *inherited, char *value, size_t room)
{
    struct words *words = split_layout(inherited);
    int n;
    if (!words)
        return -1;
    if (*wish->distribution)
        snprintf(words->spec, sizeof words->spec, "%s%s", wish->distribution, wish->parameters);
    else if (wish->striping_unit && !takes_strip_size(words->spec))
        snprintf(words->spec, sizeof words->spec, "simple_stripe");
    else if (!*words->spec)
        snprintf(words->spec, sizeof words->spec, "simple_stripe");
    if (wish->striping_unit && takes_strip_size(words->spec))
        n = with_strip_size(words->spec, wish->striping_unit, value, room);
    else
        n = snprintf(value, room, "%s", words->spec);
    if (n >= 0 && (size_t)n < room && wish->striping_factor)
        n += snprintf(value + n, room - (size_t)n, " datafiles=%llu", (unsigned long long)wish->striping_factor);
    else if (n >= 0 && (size_t)n < room && *words->datafiles && !*wish->distribution && !*wish->placement && !wish->place_local)
        n += snprintf(value + n, room - (size_t)n, " datafiles=%s", words->datafiles);
    if (n >= 0 && (size_t)n < room && *wish->placement)
        n += snprintf(value + n, room - (size_t)n, " place=%s", wish->placement);
    free(words);
    return n < 0 || (size_t)n >= room ? -1 : 0;
}

void hints_in_force(const char *layout, size_t most_key, size_t most, void (*set)(void *context, const char *key, const char *value),
                    void *context)
{
    struct words *words = split_layout(layout);
    char distribution[64], key[256], left_out[1024] = "";
    if (!words)
        return;
    snprintf(distribution, sizeof distribution, "%.*s", (int)strcspn(words->spec, ","), words->spec);
    set(context, "distribution_name", distribution);
    if (*words->datafiles)
        set(context, "striping_factor", words->datafiles);
    const char *places[2] = {"thalweg_placement", words->place};
    for (char *at = words->spec + strlen(distribution); *at == ',';) {
        char *name = at + 1, *value = name + strcspn(name, "=");
        char *end = value + strcspn(value, ",");
        char after = *end;
        if (!*value)
            break;
        *value++ = 0, *end = 0;
        const struct known *known = known_parameter(distribution, name);
        enum type type = known ? known->type : TYPE_STRING;
        snprintf(key, sizeof key, "%s:%s:%s", distribution, TYPE_WORDS[type][0], name);
        if (strlen(key) >= most_key)
            snprintf(key, sizeof key, "%s:%s:%s", distribution, TYPE_WORDS[type][1], name);
        if (strlen(value) < most && strlen(key) < most_key)
            set(context, key, value);
        else
            snprintf(left_out + strlen(left_out), sizeof left_out - strlen(left_out), "%s%s", *left_out ? "," : "", key);
        if (!strcmp(name, "strip_size"))
            set(context, "striping_unit", value);
        *end = after;
        at = end;
    }
    if (*places[1] && strlen(places[1]) < most)
        set(context, places[0], places[1]);
    else if (*places[1])
        snprintf(left_out + strlen(left_out), sizeof left_out - strlen(left_out), "%s%s", *left_out ? "," : "", places[0]);
    if (*left_out && strlen(left_out) < most)
        set(context, "thalweg_left_out", left_out);
    free(words);
}
