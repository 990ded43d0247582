/* Writing and reading one file: see jobs.h.
 *
 * A drain cycle: when --commit-every bytes have been written, nothing more is issued until all pending writes are answered; then a COMMIT
 * goes out, and only its answer lets the writing go on. A server that answers stable writes early (NVRAM) has no need of it: --stable
 * filesync writes without commits. Every page written from memory carries its own offset, so that reading it back proves its place. */
#define _GNU_SOURCE
#include "jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../workloads/workload.h"

#define PAGE_BYTES 4096

static struct transfer_settings settings;
static struct place *place;
static struct statistics *statistics;

static uint64_t issued, acknowledged, uncommitted;
static int file = -1;
static bool ended;

static struct {
    bool draining, committing, verifier_known;
    uint64_t from_ns, cycles, total_ns;
    writeverf3 verifier;
} drain;

uint64_t transfer_issued(void)
{
    return issued;
}

/* ---- data ---- */

static uint64_t stamp(uint64_t offset)
{
    return offset * UINT64_C(0x9e3779b97f4a7c15) ^ UINT64_C(0x5448414c57454731);
}

/* A buffer for a block, full of the pattern but for the stamps. */
static uint8_t *patterned(struct call *call)
{
    if (!call->buffer) {
        call->buffer = block_memory(settings.block);
        fill(call->buffer, settings.block, 1);
    }
    return call->buffer;
}

static void stamp_pages(uint8_t *buffer, size_t length, uint64_t offset)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= length; at += PAGE_BYTES) {
        uint64_t value = stamp(offset + at);
        memcpy(buffer + at, &value, sizeof value);
    }
}

static void check_stamps(const char *buffer, size_t length, uint64_t offset)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= length; at += PAGE_BYTES) {
        uint64_t value;
        memcpy(&value, buffer + at, sizeof value);
        if (value != stamp(offset + at))
            corrupt("the page at %llu is not the one that was written there", (unsigned long long)(offset + at));
    }
}

static size_t next_block(void)
{
    return settings.size - issued < settings.block ? settings.size - issued : settings.block;
}

static void acknowledge(uint64_t bytes)
{
    acknowledged += bytes;
    statistics->bytes += bytes;
}

/* ---- writing ---- */

static void check_verifier(const writeverf3 verifier)
{
    if (drain.verifier_known && memcmp(drain.verifier, verifier, sizeof drain.verifier) != 0)
        corrupt("the server restarted and lost what was not committed");
    memcpy(drain.verifier, verifier, sizeof drain.verifier);
    drain.verifier_known = true;
}

static void written(struct call *call, const uint8_t *results, size_t length)
{
    ZDR zdr;
    WRITE3res result;
    memset(&result, 0, sizeof result);
    nfs_decode(&zdr, (zdrproc_t)zdr_WRITE3res, &result, results, length, "WRITE");
    WRITE3resok *ok = &result.WRITE3res_u.resok;
    if (ok->count != call->length)
        corrupt("the server took %u of %zu bytes: use a smaller --block", ok->count, call->length);
    if (settings.stability == UNSTABLE_WRITES)
        check_verifier(ok->verf);
    else if ((int)ok->committed < (int)settings.stability)
        corrupt("the server did not keep its promise of a stable write");
    zdr_destroy(&zdr);
    acknowledge(call->length);
}

static void committed(struct call *call, const uint8_t *results, size_t length)
{
    (void)call;
    ZDR zdr;
    COMMIT3res result;
    memset(&result, 0, sizeof result);
    nfs_decode(&zdr, (zdrproc_t)zdr_COMMIT3res, &result, results, length, "COMMIT");
    check_verifier(result.COMMIT3res_u.resok.verf);
    zdr_destroy(&zdr);
    drain.cycles++;
    drain.total_ns += now_ns() - drain.from_ns;
    drain.draining = drain.committing = false;
    uncommitted = 0;
    ended = issued == settings.size;
}

static void issue_commit(void)
{
    COMMIT3args arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.file = nfs_handle3(&place->handle);
    struct call *call = rpc_call(NFS3_COMMIT);
    nfs_encode(call, (zdrproc_t)zdr_COMMIT3args, &arguments);
    call->done = committed;
    drain.committing = true;
    rpc_submit(call);
}

static void issue_write(void)
{
    struct call *call = rpc_call(NFS3_WRITE);
    uint8_t *buffer = patterned(call);
    call->offset = issued;
    call->length = next_block();
    if (file < 0)
        stamp_pages(buffer, call->length, issued);
    for (size_t done = 0; file >= 0 && done < call->length;) {
        ssize_t got = pread(file, buffer + done, call->length - done, (off_t)(issued + done));
        if (got == 0)
            corrupt("%s is shorter than %llu bytes", settings.source, (unsigned long long)settings.size);
        if (got < 0)
            die("reading %s", settings.source);
        done += (size_t)got;
    }
    WRITE3args arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.file = nfs_handle3(&place->handle);
    arguments.offset = issued;
    arguments.count = (uint32_t)call->length;
    arguments.stable = (stable_how)settings.stability;
    /* The data is encoded empty, and its length put in the last four bytes, so that the block itself is sent from where it is. */
    nfs_encode(call, (zdrproc_t)zdr_WRITE3args, &arguments);
    uint8_t *count = call->header + call->header_length - 4;
    for (int i = 0; i < 4; i++)
        count[i] = (uint8_t)(call->length >> (24 - 8 * i));
    call->payload = buffer;
    call->payload_length = call->length;
    call->done = written;
    issued += call->length;
    uncommitted += call->length;
    rpc_submit(call);
}

static bool write_issue(void)
{
    if (drain.draining) {
        if (drain.committing || rpc_outstanding() > 0)
            return false;
        issue_commit();
        return true;
    }
    bool all = issued == settings.size, commits = settings.stability == UNSTABLE_WRITES && !settings.no_commit;
    if (commits && uncommitted > 0 && (all || (settings.commit_every && uncommitted >= settings.commit_every))) {
        drain.draining = true;
        drain.from_ns = now_ns();
        return write_issue();
    }
    if (all)
        return false;
    issue_write();
    return true;
}

static bool write_finished(void)
{
    bool commits = settings.stability == UNSTABLE_WRITES && !settings.no_commit && settings.size > 0;
    return commits ? ended : acknowledged == settings.size;
}

static void write_print(FILE *out)
{
    fprintf(out, ", \"drains\": {\"cycles\": %llu, \"seconds\": %.6f}", (unsigned long long)drain.cycles, (double)drain.total_ns / 1e9);
}

/* ---- reading ---- */

static void received(struct call *call, const uint8_t *results, size_t length)
{
    ZDR zdr;
    READ3res result;
    memset(&result, 0, sizeof result);
    nfs_decode(&zdr, (zdrproc_t)zdr_READ3res, &result, results, length, "READ");
    READ3resok *ok = &result.READ3res_u.resok;
    if (ok->count != call->length || ok->data.data_len != call->length)
        corrupt("the server gave %u of %zu bytes: use a smaller --block", ok->count, call->length);
    if (settings.pattern)
        check_stamps(ok->data.data_val, call->length, call->offset);
    for (size_t done = 0; file >= 0 && done < call->length;) {
        ssize_t put = pwrite(file, ok->data.data_val + done, call->length - done, (off_t)(call->offset + done));
        if (put < 0)
            die("writing %s", settings.sink);
        done += (size_t)put;
    }
    zdr_destroy(&zdr);
    acknowledge(call->length);
}

static bool read_issue(void)
{
    if (issued == settings.size)
        return false;
    struct call *call = rpc_call(NFS3_READ);
    call->offset = issued;
    call->length = next_block();
    call->done = received;
    READ3args arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.file = nfs_handle3(&place->handle);
    arguments.offset = issued;
    arguments.count = (uint32_t)call->length;
    nfs_encode(call, (zdrproc_t)zdr_READ3args, &arguments);
    issued += call->length;
    rpc_submit(call);
    return true;
}

static bool read_finished(void)
{
    return acknowledged == settings.size;
}

static void read_print(FILE *out)
{
    (void)out;
}

static void begin(const struct transfer_settings *given, struct place *where, struct statistics *counted)
{
    settings = *given;
    place = where;
    statistics = counted;
}

const struct job *write_job(const struct transfer_settings *given, struct place *where, struct statistics *counted)
{
    static const struct job job = { write_issue, write_finished, write_print };
    begin(given, where, counted);
    if (settings.source && (file = open(settings.source, O_RDONLY)) < 0)
        die("%s", settings.source);
    if (settings.source && settings.size == 0)
        settings.size = (uint64_t)lseek(file, 0, SEEK_END);
    return &job;
}

const struct job *read_job(const struct transfer_settings *given, struct place *where, struct statistics *counted)
{
    static const struct job job = { read_issue, read_finished, read_print };
    begin(given, where, counted);
    if (settings.size == 0 || settings.size > place->size)
        settings.size = place->size;
    if (settings.sink && (file = open(settings.sink, O_WRONLY | O_CREAT | O_TRUNC, 0666)) < 0)
        die("%s", settings.sink);
    return &job;
}
