/* ONC RPC over one TCP connection, as a client that decides for itself how many calls it lets itself have pending.
 *
 * Between the application's queue and the socket stands the RPC window. A call that is submitted waits in the *backlog* until fewer calls
 * than the window are *pending* (sent and unanswered). The window is that of the classic RPC layer over UDP: it grows by one for each
 * window's worth of replies that came while it was full, and is halved by each timeout. A call that times out is sent again with the same
 * transaction identifier (xid), and its next timeout is twice as long; a second reply to it is counted and dropped.
 *
 * libnfs keeps its own calls' identifiers and queue to itself, so calls are framed here (record marks, RPC headers), and only NFS's
 * arguments and results are left to libnfs (see nfs.h). One thread, nothing blocks but rpc_step. */
#ifndef RPC_H
#define RPC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "statistics.h"

/* Headers and arguments of any call but a write's data. */
#define CALL_HEADER_MAX 1024

/* One call. `job`, `buffer`, `offset` and `length` are the caller's; everything else is the RPC layer's. */
struct call {
    void (*done)(struct call *call, const uint8_t *results, size_t length);
    void *job;
    uint8_t *buffer;
    uint64_t offset;
    size_t length;

    uint32_t xid, procedure;
    size_t header_length, payload_length;
    const uint8_t *payload;
    uint8_t header[CALL_HEADER_MAX];
    uint64_t sent_ns, deadline_ns, timeout_ns;
    bool in_output, answered;
    struct call *next;
};

struct rpc_settings {
    /* Calls that may be pending at first, and at most; 0: no window. */
    uint32_t window, window_max;
    /* After how long an unanswered call times out; 0: never. */
    uint64_t timeout_ns;
    /* Whether a timeout sends the call again. */
    bool retransmit;
    uint64_t sndbuf, rcvbuf;
    /* Largest reply that can come. */
    size_t reply_max;
};

/* Connects; ends the program when that fails. */
void rpc_open(const char *host, const char *port, const struct rpc_settings *settings, struct statistics *statistics);
/* A call with its RPC header in place; arguments go to header + header_length, up to CALL_HEADER_MAX. */
struct call *rpc_call(uint32_t procedure);
/* Puts the call in the backlog, and sends what may be sent. Its payload, if any, must stay as it is until it is done. `done` is called once, from rpc_step. */
void rpc_submit(struct call *call);
/* Submitted and not done. */
uint32_t rpc_outstanding(void);
/* Sends what may be sent, and waits until something happens or a moment comes (0: no such moment); then receives and times out. */
void rpc_step(uint64_t until_ns);

#endif
