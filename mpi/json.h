/* A reader of small JSON documents: the store's map, test vectors. Bounded: documents of at most 4 MiB, 64 levels deep. */
#ifndef THALWEG_JSON_H
#define THALWEG_JSON_H

#include <stddef.h>
#include <stdint.h>

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_kind kind;
    const char *key;    /* in an object */
    const char *text;   /* of a string, unescaped; of a number, as it stands */
    struct json *first; /* of an array or object */
    struct json *next;  /* after this one in its array or object */
};

/* Reads a whole document; null when it is none. Free with `json_free`. */
struct json *json_read(const char *text, size_t length);
void json_free(struct json *document);

/* Looking a thing up in what is null or of another kind gives null, so that a path can be followed without asking at each step. */
const struct json *json_get(const struct json *object, const char *key);
size_t json_count(const struct json *array);
const char *json_text(const struct json *value);             /* null: no string */
int json_number(const struct json *value, uint64_t *number); /* 0: a whole number that fits */

#endif
