/* See rpc.h. */
#define _GNU_SOURCE
#include "rpc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../workloads/workload.h"

#define NFS_PROGRAM_NUMBER 100003
#define NFS_VERSION 3
#define LAST_FRAGMENT 0x80000000u
/* The window is counted in fractions, so that it grows by one per window's worth of replies. */
#define WINDOW_SCALE 256

static int fd = -1;
static struct rpc_settings settings;
static struct statistics *statistics;
static uint32_t next_xid, window_scaled, outstanding;

/* Calls sent and unanswered, in no order; calls that wait for the window, and calls to be written, in theirs. */
static struct call **pending;
static size_t pending_count, pending_room;
static struct call *backlog_head, **backlog_tail = &backlog_head;
static uint32_t backlog_count;
static struct call **output;
static size_t output_head, output_count, output_room, output_done;
static struct call *idle;

static uint8_t *input;
static size_t input_length, input_room;

/* ---- building calls ---- */

static void put_u32(struct call *call, uint32_t value)
{
    value = htonl(value);
    memcpy(call->header + call->header_length, &value, 4);
    call->header_length += 4;
}

static uint32_t get_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

struct call *rpc_call(uint32_t procedure)
{
    struct call *call = idle;
    if (call)
        idle = call->next;
    else if (!(call = calloc(1, sizeof *call)))
        die("memory for a call");
    uint8_t *buffer = call->buffer;
    memset(call, 0, sizeof *call);
    /* A buffer stays with the call's memory, so that it is touched only once. */
    call->buffer = buffer;
    call->xid = next_xid++;
    call->procedure = procedure;
    put_u32(call, 0); /* The record mark, when the length is known. */
    put_u32(call, call->xid);
    put_u32(call, 0); /* A call, */
    put_u32(call, 2); /* of RPC version 2. */
    put_u32(call, NFS_PROGRAM_NUMBER);
    put_u32(call, NFS_VERSION);
    put_u32(call, procedure);
    put_u32(call, 1); /* AUTH_UNIX: stamp, machine, user, group, no further groups. */
    put_u32(call, 4 + 4 + 4 + 4 + 4 + 4);
    put_u32(call, 0);
    put_u32(call, 3);
    memcpy(call->header + call->header_length, "lab", 4);
    call->header_length += 4;
    put_u32(call, getuid());
    put_u32(call, getgid());
    put_u32(call, 0);
    put_u32(call, 0); /* No verifier. */
    put_u32(call, 0);
    return call;
}

/* Gives a call's memory back once nobody needs it: it is answered, and no second transmission of it is half written. */
static void recycle(struct call *call)
{
    if (!call->answered || call->in_output)
        return;
    call->next = idle;
    idle = call;
}

/* ---- sending ---- */

static uint32_t window(void)
{
    return settings.window ? window_scaled / WINDOW_SCALE : 0;
}

static void note(void)
{
    statistics_advance(statistics, now_ns(), (uint32_t)pending_count, backlog_count, window());
}

static void put_in_output(struct call *call)
{
    if (output_count == output_room) {
        size_t room = output_room ? 2 * output_room : 64;
        struct call **larger = calloc(room, sizeof *larger);
        if (!larger)
            die("memory for the output");
        for (size_t i = 0; i < output_count; i++)
            larger[i] = output[(output_head + i) % output_room];
        free(output);
        output = larger;
        output_room = room;
        output_head = 0;
    }
    output[(output_head + output_count++) % output_room] = call;
    call->in_output = true;
}

uint32_t rpc_outstanding(void)
{
    return outstanding;
}

/* Moves calls from the backlog to the output while the window is open. */
static void admit(void)
{
    while (backlog_head && (!settings.window || pending_count < window())) {
        struct call *call = backlog_head;
        note();
        backlog_head = call->next;
        if (!backlog_head)
            backlog_tail = &backlog_head;
        backlog_count--;
        if (pending_count == pending_room) {
            pending_room = pending_room ? 2 * pending_room : 64;
            pending = realloc(pending, pending_room * sizeof *pending);
            if (!pending)
                die("memory for pending calls");
        }
        pending[pending_count++] = call;
        statistics->calls++;
        call->sent_ns = now_ns();
        put_in_output(call);
    }
}

/* What is left to be written of a call after its first `done` bytes. */
static int parts(const struct call *call, size_t done, struct iovec *into)
{
    static const uint8_t zeros[4];
    size_t padding = (4 - call->payload_length % 4) % 4;
    const struct iovec all[] = { { (void *)call->header, call->header_length },
                                 { (void *)call->payload, call->payload_length },
                                 { (void *)zeros, padding } };
    int count = 0;
    for (int i = 0; i < 3; i++) {
        if (done < all[i].iov_len)
            into[count++] = (struct iovec){ (uint8_t *)all[i].iov_base + done, all[i].iov_len - done };
        done -= done < all[i].iov_len ? done : all[i].iov_len;
    }
    return count;
}

/* Writes the output until it is empty or the socket is full. A call's timer runs from when its last byte is with the kernel. */
static void write_output(void)
{
    while (output_count > 0) {
        struct call *call = output[output_head];
        size_t length = call->header_length + call->payload_length + (4 - call->payload_length % 4) % 4;
        bool skip = call->answered && output_done == 0;
        if (!skip) {
            struct iovec vectors[3];
            struct msghdr message = { .msg_iov = vectors, .msg_iovlen = (size_t)parts(call, output_done, vectors) };
            ssize_t put = sendmsg(fd, &message, MSG_NOSIGNAL);
            if (put < 0) {
                if (errno == EAGAIN || errno == EWOULDBLOCK)
                    return;
                if (errno == EINTR)
                    continue;
                die("sending to the server");
            }
            output_done += (size_t)put;
            if (output_done < length)
                continue;
        }
        output_head = (output_head + 1) % output_room;
        output_count--;
        output_done = 0;
        call->in_output = false;
        call->deadline_ns = settings.timeout_ns ? now_ns() + call->timeout_ns : 0;
        recycle(call);
    }
}

void rpc_submit(struct call *call)
{
    size_t padding = (4 - call->payload_length % 4) % 4;
    uint32_t mark = htonl(LAST_FRAGMENT | (uint32_t)(call->header_length - 4 + call->payload_length + padding));
    memcpy(call->header, &mark, 4);
    call->timeout_ns = settings.timeout_ns;
    call->next = NULL;
    note();
    *backlog_tail = call;
    backlog_tail = &call->next;
    backlog_count++;
    outstanding++;
    admit();
    write_output();
}

/* ---- timeouts ---- */

/* Classic congestion control of the RPC layer: half for each timeout, one at least. */
static void shrink_window(void)
{
    window_scaled = window_scaled / 2 < WINDOW_SCALE ? WINDOW_SCALE : window_scaled / 2;
}

/* One more for each window's worth of replies, while the window is what limits. */
static void grow_window(void)
{
    if (pending_count + 1 < window())
        return;
    window_scaled += (WINDOW_SCALE * WINDOW_SCALE + window_scaled / 2) / window_scaled;
    if (window_scaled > settings.window_max * WINDOW_SCALE)
        window_scaled = settings.window_max * WINDOW_SCALE;
}

static void time_out(uint64_t at_ns)
{
    for (size_t i = 0; i < pending_count; i++) {
        struct call *call = pending[i];
        if (!call->deadline_ns || call->deadline_ns > at_ns)
            continue;
        note();
        statistics->timeouts++;
        if (settings.window)
            shrink_window();
        call->timeout_ns *= 2;
        call->deadline_ns = at_ns + call->timeout_ns;
        if (settings.retransmit && !call->in_output) {
            statistics->retransmissions++;
            call->deadline_ns = 0;
            put_in_output(call);
        }
    }
}

static uint64_t next_deadline_ns(uint64_t until_ns)
{
    for (size_t i = 0; i < pending_count; i++)
        if (pending[i]->deadline_ns && (!until_ns || pending[i]->deadline_ns < until_ns))
            until_ns = pending[i]->deadline_ns;
    return until_ns;
}

/* ---- receiving ---- */

static void take_reply(const uint8_t *reply, size_t length)
{
    if (length < 12 || get_u32(reply + 4) != 1)
        corrupt("the server sent something that is no reply");
    uint32_t xid = get_u32(reply);
    size_t at = 0;
    while (at < pending_count && pending[at]->xid != xid)
        at++;
    if (at == pending_count) {
        statistics->duplicate_replies++;
        return;
    }
    if (get_u32(reply + 8) != 0)
        corrupt("the server denied a call");
    size_t verifier = length >= 20 ? (get_u32(reply + 16) + 3u) & ~3u : 0;
    if (length < 24 + verifier || get_u32(reply + 20 + verifier) != 0)
        corrupt("the server did not accept procedure %u", pending[at]->procedure);
    struct call *call = pending[at];
    note();
    if (settings.window)
        grow_window();
    pending[at] = pending[--pending_count];
    outstanding--;
    statistics->replies++;
    statistics_response(call->procedure, now_ns() - call->sent_ns);
    call->answered = true;
    call->done(call, reply + 24 + verifier, length - 24 - verifier);
    recycle(call);
}

/* Finds the first whole record in the input from `at` on, joins its fragments in place, and gives its length; 0: it is not all there. `end` is
 * where the next one begins. */
static size_t whole_record(size_t at, size_t *end)
{
    size_t scan = at, length = 0, fragments = 0;
    for (;; fragments++) {
        if (input_length - scan < 4)
            return 0;
        uint32_t mark = get_u32(input + scan);
        size_t part = mark & ~LAST_FRAGMENT;
        if (length + part > input_room - 64)
            corrupt("the server sent a reply of more than %zu bytes", input_room - 64);
        if (input_length - scan - 4 < part)
            return 0;
        length += part;
        scan += 4 + part;
        if (mark & LAST_FRAGMENT)
            break;
    }
    *end = scan;
    if (fragments == 0)
        return length;
    size_t joined = at + 4;
    for (size_t from = at;;) {
        uint32_t mark = get_u32(input + from);
        size_t part = mark & ~LAST_FRAGMENT;
        memmove(input + joined, input + from + 4, part);
        joined += part;
        from += 4 + part;
        if (mark & LAST_FRAGMENT)
            return length;
    }
}

static void read_input(void)
{
    for (;;) {
        ssize_t got = recv(fd, input + input_length, input_room - input_length, MSG_DONTWAIT);
        if (got == 0)
            corrupt("the server closed the connection with %u calls outstanding", outstanding);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK)
                return;
            die("receiving from the server");
        }
        input_length += (size_t)got;
        size_t at = 0, end;
        for (size_t length; (length = whole_record(at, &end)) > 0; at = end)
            take_reply(input + at + 4, length);
        memmove(input, input + at, input_length - at);
        input_length -= at;
        /* The replies have opened the window; do not wait for the last of them. */
        admit();
        write_output();
    }
}

void rpc_step(uint64_t until_ns)
{
    admit();
    write_output();
    uint64_t now = now_ns(), wake_ns = next_deadline_ns(until_ns);
    struct pollfd polled = { fd, (short)(POLLIN | (output_count ? POLLOUT : 0)), 0 };
    uint64_t left_ns = wake_ns > now ? wake_ns - now : 0;
    struct timespec left = { (time_t)(left_ns / 1000000000), (long)(left_ns % 1000000000) };
    if (ppoll(&polled, 1, wake_ns ? &left : NULL, NULL) < 0 && errno != EINTR)
        die("waiting for the server");
    if (polled.revents & ~POLLOUT)
        read_input();
    time_out(now_ns());
}

void rpc_open(const char *host, const char *port, const struct rpc_settings *given, struct statistics *counted)
{
    settings = *given;
    statistics = counted;
    window_scaled = settings.window * WINDOW_SCALE;
    next_xid = (uint32_t)now_ns() ^ (uint32_t)getpid() << 20;
    /* Two of the largest replies, so that one may be incomplete behind another. */
    input_room = 2 * (settings.reply_max + 4096);
    input = block_memory(input_room);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    int code = getaddrinfo(host, port, &hints, &found);
    if (code != 0)
        corrupt("%s port %s: %s", host, port, gai_strerror(code));
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int sndbuf = (int)settings.sndbuf, rcvbuf = (int)settings.rcvbuf, one = 1;
    if (fd < 0 || (sndbuf && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf) != 0) ||
        (rcvbuf && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof rcvbuf) != 0) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        die("a socket");
    /* Kernel servers serve only privileged ports unless told otherwise; whoever may have one takes one. */
    if (geteuid() == 0 && found->ai_family == AF_INET)
        (void)!bindresvport(fd, NULL);
    if (connect(fd, found->ai_addr, found->ai_addrlen) != 0)
        die("connecting to %s port %s", host, port);
    freeaddrinfo(found);
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        die("a socket that does not block");
}
