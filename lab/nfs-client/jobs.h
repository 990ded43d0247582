/* What the client can be asked to do: each job issues requests one by one and says when all is done. */
#ifndef JOBS_H
#define JOBS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "nfs.h"

struct job {
    /* Submits the next call. False: there is none now (nothing is left, or what is pending must be answered first). */
    bool (*issue)(void);
    bool (*finished)(void);
    /* Prints further members of the result's JSON object, each begun with a comma. */
    void (*print)(FILE *out);
};

enum stability { UNSTABLE_WRITES, DATASYNC_WRITES, FILESYNC_WRITES };

struct transfer_settings {
    uint64_t size, block, commit_every;
    enum stability stability;
    bool no_commit, pattern;
    const char *source, *sink;
};

enum walk_how { LOOKUP_GETATTR, LOOKUP_ONLY, READDIRPLUS_ONLY };

/* Writes `size` bytes, from memory or a file; unstable writes are committed every `commit_every` bytes and at the end. */
const struct job *write_job(const struct transfer_settings *settings, struct place *place, struct statistics *statistics);
/* Reads the file, to nowhere or into a file. */
const struct job *read_job(const struct transfer_settings *settings, struct place *place, struct statistics *statistics);
/* Visits every file below a directory and asks for its attributes. */
/* `bytes` of names and attributes are asked for at a time. */
const struct job *walk_job(enum walk_how how, uint32_t bytes, struct place *place);

/* Bytes issued so far, by either transfer. */
uint64_t transfer_issued(void);

#endif
