/* Recursive descent over one copy of the text; all values live in one allocation behind it. */
#include "json.h"
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)4 << 20)
#define MOST_DEPTH 64

struct reader {
    char *at, *end;
    struct json *values;
    size_t used, room;
};

static int value(struct reader *r, struct json *into, int depth);

static void space(struct reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
}

static int take(struct reader *r, char c)
{
    space(r);
    if (r->at >= r->end || *r->at != c)
        return 0;
    r->at++;
    return 1;
}

static struct json *fresh(struct reader *r)
{
    return r->used < r->room ? memset(&r->values[r->used++], 0, sizeof(struct json)) : NULL;
}

static int hex4(struct reader *r, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *digit;
        if (r->at >= r->end || !*r->at || !(digit = strchr(digits, *r->at | (*r->at >= 'A' ? 0x20 : 0))))
            return -1;
        *code = *code * 16 + (unsigned)(digit - digits);
        r->at++;
    }
    return 0;
}

/* One escape after its backslash, as UTF-8 at `*out`, which never overtakes what is read. */
static int escape(struct reader *r, char **out)
{
    static const char NAMES[] = "\"\\/bfnrt", BYTES[] = "\"\\/\b\f\n\r\t";
    if (r->at >= r->end)
        return -1;
    char c = *r->at++;
    const char *name = c ? strchr(NAMES, c) : NULL;
    if (name) {
        *(*out)++ = BYTES[name - NAMES];
        return 0;
    }
    unsigned code, low;
    if (c != 'u' || hex4(r, &code))
        return -1;
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
            return -1;
        r->at += 2;
        if (hex4(r, &low) || low < 0xdc00 || low > 0xdfff)
            return -1;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    /* Half of a pair is no character; a NUL would end the text. */
    if (!code || (code >= 0xdc00 && code < 0xe000))
        return -1;
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char LEAD[] = {0, 0xc0, 0xe0, 0xf0};
    *(*out)++ = (char)(LEAD[more] | (code >> (6 * more)));
    while (more--)
        *(*out)++ = (char)(0x80 | ((code >> (6 * more)) & 0x3f));
    return 0;
}

static const char *string(struct reader *r)
{
    if (!take(r, '"'))
        return NULL;
    char *text = r->at, *out = r->at;
    while (r->at < r->end && *r->at != '"') {
        if ((unsigned char)*r->at < 0x20)
            return NULL;
        if (*r->at == '\\') {
            r->at++;
            if (escape(r, &out))
                return NULL;
        } else {
            *out++ = *r->at++;
        }
    }
    if (r->at >= r->end)
        return NULL;
    r->at++;
    *out = 0;
    return text;
}

static int members(struct reader *r, struct json *into, int depth, char close)
{
    struct json **tail = &into->first;
    if (take(r, close))
        return 0;
    do {
        struct json *member = fresh(r);
        if (!member)
            return -1;
        if (into->kind == JSON_OBJECT && (!(member->key = string(r)) || !take(r, ':')))
            return -1;
        if (value(r, member, depth + 1))
            return -1;
        *tail = member;
        tail = &member->next;
    } while (take(r, ','));
    return take(r, close) ? 0 : -1;
}

/* A number's text has no room for its terminator in the document: it is copied to where the value's words end. */
static int word(struct reader *r, struct json *into)
{
    char *start = r->at;
    while (r->at < r->end && *r->at && strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *r->at))
        r->at++;
    size_t length = (size_t)(r->at - start);
    if (!length)
        return -1;
    if (*start == '-' || (*start >= '0' && *start <= '9')) {
        /* Moved one byte back, over the separator or bracket before it, which has been read. */
        memmove(start - 1, start, length);
        start[length - 1] = 0;
        into->kind = JSON_NUMBER;
        into->text = start - 1;
        return 0;
    }
    static const char *const WORDS[] = {"null", "false", "true"};
    for (int i = 0; i < 3; i++)
        if (strlen(WORDS[i]) == length && !memcmp(WORDS[i], start, length)) {
            into->kind = (enum json_kind)(JSON_NULL + i);
            return 0;
        }
    return -1;
}

static int value(struct reader *r, struct json *into, int depth)
{
    space(r);
    if (depth > MOST_DEPTH || r->at >= r->end)
        return -1;
    switch (*r->at) {
    case '{':
        r->at++;
        into->kind = JSON_OBJECT;
        return members(r, into, depth, '}');
    case '[':
        r->at++;
        into->kind = JSON_ARRAY;
        return members(r, into, depth, ']');
    case '"':
        into->kind = JSON_STRING;
        return (into->text = string(r)) ? 0 : -1;
    default:
        return word(r, into);
    }
}

struct json *json_read(const char *text, size_t length)
{
    if (length > MOST_BYTES)
        return NULL;
    /* Each value but the first follows a bracket, a comma or a colon. */
    size_t room = 2;
    for (size_t i = 0; i < length; i++)
        room += text[i] == ',' || text[i] == '[' || text[i] == '{';
    /* One byte before the text, for a document that is one number. */
    struct json *values = malloc(room * sizeof *values + length + 2);
    if (!values)
        return NULL;
    char *copy = (char *)(values + room) + 1;
    memcpy(copy, text, length);
    copy[length] = 0;
    struct reader r = {copy, copy + length, values, 0, room};
    struct json *document = fresh(&r);
    if (value(&r, document, 0) || (space(&r), r.at != r.end)) {
        free(values);
        return NULL;
    }
    return document;
}

void json_free(struct json *document)
{
    free(document);
}

const struct json *json_get(const struct json *object, const char *key)
{
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    for (const struct json *member = object->first; member; member = member->next)
        if (!strcmp(member->key, key))
            return member;
    return NULL;
}

size_t json_count(const struct json *array)
{
    size_t count = 0;
    for (const struct json *member = array ? array->first : NULL; member; member = member->next)
        count++;
    return count;
}

const char *json_text(const struct json *value)
{
    return value && value->kind == JSON_STRING ? value->text : NULL;
}

int json_number(const struct json *value, uint64_t *number)
{
    if (!value || value->kind != JSON_NUMBER || !*value->text)
        return -1;
    *number = 0;
    for (const char *digit = value->text; *digit; digit++) {
        if (*digit < '0' || *digit > '9' || *number > (UINT64_MAX - 9) / 10)
            return -1;
        *number = *number * 10 + (uint64_t)(*digit - '0');
    }
    return 0;
}
