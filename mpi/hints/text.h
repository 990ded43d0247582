/* Hints as text: which keys are ours, whether ranks agree about them, and the layout they ask for. No MPI, no file.
 *
 * A rank's hints are kept as one text, `key=value\n` in order of keys, so that ranks can be held against rank 0 by comparing what
 * it sends. The layout is the value of the extended attribute `user.thalweg.layout`: `SPEC [datafiles=N] [place=PLACEMENT]`. */
#ifndef THALWEG_HINTS_TEXT_H
#define THALWEG_HINTS_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Longest value of the attribute, as the kernel bounds it. */
#define HINTS_LAYOUT_BYTES 65536
/* Room for the reason of a refusal; MPI's own bound is 256 (Open MPI) or 512 (MPICH). */
#define HINTS_REASON_BYTES 256

/* One rank's hints. `text` grows by `hints_add`; freed by the owner. */
struct hints {
    char *text;
    size_t length;
};

/* Whether a key of an info object is one of ours: reserved by MPI for striping, `thalweg_...`, or a typed parameter. */
int hints_is_ours(const char *key);
void hints_add(struct hints *hints, const char *key, const char *value);
/* Adds what a text asks for and nobody before it did: `key=value` with spaces between. Other keys than ours, and words that are no hints,
 * are passed over. */
void hints_add_words(struct hints *hints, const char *text);
/* The same from the lines of a file of ROMIO's, `key value`; a line that begins with # says nothing. */
void hints_add_lines(struct hints *hints, const char *text);
/* Puts the lines in order; call once after the last `hints_add`. */
void hints_order(struct hints *hints);
/* A value in an ordered text; null: the key is not there. `length` without the terminator it does not have. */
const char *hints_get(const struct hints *hints, const char *key, size_t *length);

/* The first key, in order, about which two ranks differ; 0: they agree. */
int hints_differ(const struct hints *first, const struct hints *other, char *key, size_t room);

/* What the hints ask of a new file. */
struct hints_wish {
    int any;                       /* something is asked for */
    int local;                     /* strips from the ranks' parts */
    int place_local;               /* targets of the ranks' nodes, with a layout that does not depend on parts */
    char distribution[64];         /* empty: none is named */
    char parameters[HINTS_LAYOUT_BYTES];    /* of that distribution: `,name=value...` */
    char placement[4 << 10];       /* empty: none is asked for */
    uint64_t striping_unit, striping_factor; /* 0: not given */
};

/* Reads the hints. Returns -1, and why with the key in it, when they cannot be meant. */
int hints_read(const struct hints *hints, struct hints_wish *wish, char *reason, size_t room);

/* The attribute's value for a wish that is not `local`. `inherited` is the attribute of a file for which nothing was asked.
 * Returns -1 when it does not fit. */
int hints_layout(const struct hints_wish *wish, const char *inherited, char *value, size_t room);

/* The hints that a layout in force stands for, as `set(context, key, value)`; a value longer than `most` is left out, and its key is
 * named by the key `thalweg_left_out`. Keys longer than `most_key` take the short form of their type. */
void hints_in_force(const char *layout, size_t most_key, size_t most, void (*set)(void *context, const char *key, const char *value),
                    void *context);

#endif
