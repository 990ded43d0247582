/* transfer: a TCP sender and receiver in one, with the faults of each.
 *
 *   transfer serve [--port N]                     waits for connections; prints `ready ADDRESS PORT`
 *   transfer send ADDRESS PORT --size SIZE        sends to it;      transfer receive ...: the server sends
 *
 * Each end's options say what is wrong with that end, in whichever role it has:
 * - either: small socket buffers (--sndbuf, --rcvbuf), computing for each block (--spin), one stream or several (--streams);
 * - as sender: it sleeps between blocks (--sleep-between), reads its source and sends in turn (--source FILE), waits for a reply after
 *   every so many bytes (--request-reply, chosen by the client for both);
 * - as receiver: it reads slowly (--slow-read), polls (--poll), writes to a file in turn (--sink file:PATH), syncs each block of
 *   it (--sink fsync:PATH), thinks before it replies (--reply-delay).
 *
 * Both ends sum the bytes up by their place in the stream, and the receiver tells the sender whether the sums agree. Several streams share
 * the size evenly, each with its own part of the source and of the sink. */
#define _GNU_SOURCE
#include "workload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

static uint64_t port, size, block = 256 << 10, sndbuf, rcvbuf, streams = 1, sessions, request_reply;
static uint64_t sleep_between_ns, spin_ns, slow_read_ns, poll_ns = UINT64_MAX, reply_delay_ns;
static const char *address = "127.0.0.1", *source = "memory", *sink = "null", *congestion;
static bool use_sendfile, nodelay;

static const struct option_row rows[] = {
    { "--size", SIZE, &size, "bytes to move, all streams together (of a source file: its size)" },
    { "--block", SIZE, &block, "bytes handled at a time (256Ki)" },
    { "--streams", COUNT, &streams, "connections (1)" },
    { "--request-reply", SIZE, &request_reply, "client: the sender waits for a reply after this many bytes" },
    { "--reply-delay", TIME, &reply_delay_ns, "receiver: sleep before each reply" },
    { "--source", TEXT, &source, "sender: memory, or a file" },
    { "--sendfile", FLAG, &use_sendfile, "sender: sendfile from the source file" },
    { "--sink", TEXT, &sink, "receiver: null, file:PATH, or fsync:PATH (fdatasync after each block)" },
    { "--sleep-between", TIME, &sleep_between_ns, "sender: sleep after each block" },
    { "--slow-read", TIME, &slow_read_ns, "receiver: sleep after each block" },
    { "--spin", TIME, &spin_ns, "processor time to use for each block" },
    { "--poll", TIME, &poll_ns, "receiver: never block, sleep this long and look again; 0: spin" },
    { "--sndbuf", SIZE, &sndbuf, "SO_SNDBUF" },
    { "--rcvbuf", SIZE, &rcvbuf, "SO_RCVBUF" },
    { "--congestion", TEXT, &congestion, "TCP congestion control" },
    { "--nodelay", FLAG, &nodelay, "TCP_NODELAY" },
    { "--address", TEXT, &address, "serve: listen on this address (127.0.0.1)" },
    { "--port", COUNT, &port, "serve: listen on this port (any free one)" },
    { "--sessions", COUNT, &sessions, "serve: end after this many connections (until a signal)" },
    { NULL, 0, NULL, NULL },
};

/* What a client opens each connection with; both ends have the same byte order, being the same machine or kind of machine. */
struct opening {
    char magic[8];
    uint64_t server_sends, size, offset, request_reply;
};
static const char magic[8] = "thwpat2";

static atomic_uint_fast64_t moved;

/* ---- whole reads and writes of a socket ---- */

static void send_all(int fd, const void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t put = send(fd, (const char *)data + done, length - done, MSG_NOSIGNAL);
        if (put < 0 && errno != EINTR)
            die("sending");
        done += put > 0 ? (size_t)put : 0;
    }
}

static void receive_all(int fd, void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = recv(fd, (char *)data + done, length - done, poll_ns == UINT64_MAX ? 0 : MSG_DONTWAIT);
        if (got == 0)
            corrupt("the peer closed %zu bytes before the end of a block", length - done);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && poll_ns != UINT64_MAX) {
            struct timespec pause = { (time_t)(poll_ns / 1000000000), (long)(poll_ns % 1000000000) };
            uint64_t begun_ns = now_ns();
            if (poll_ns)
                nanosleep(&pause, NULL);
            inject(POLLED, now_ns() - begun_ns);
        } else if (got < 0 && errno != EINTR)
            die("receiving");
        done += got > 0 ? (size_t)got : 0;
    }
}

static void tune(int fd)
{
    int bytes = (int)sndbuf, one = 1;
    if (sndbuf && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) != 0)
        die("SO_SNDBUF");
    bytes = (int)rcvbuf;
    if (rcvbuf && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) != 0)
        die("SO_RCVBUF");
    if (nodelay && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        die("TCP_NODELAY");
    if (congestion && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, (socklen_t)strlen(congestion)) != 0)
        die("congestion control %s", congestion);
}

/* ---- the two roles ---- */

/* Bytes from `at` to the end of the block, of the transfer, or of what may be sent before the next reply. */
static size_t next_length(const struct opening *opening, uint64_t at)
{
    uint64_t length = opening->size - at < block ? opening->size - at : block;
    if (opening->request_reply && opening->request_reply - at % opening->request_reply < length)
        length = opening->request_reply - at % opening->request_reply;
    return length;
}

static bool reply_is_due(const struct opening *opening, uint64_t at)
{
    return opening->request_reply && (at % opening->request_reply == 0 || at == opening->size);
}

static void send_stream(int fd, const struct opening *opening)
{
    char *buffer = block_memory(block);
    int file = -1;
    fill(buffer, block, opening->offset + 1);
    if (strcmp(source, "memory") != 0 && (file = open(source, O_RDONLY)) < 0)
        die("%s", source);
    uint64_t sum = 0;
    for (uint64_t at = 0; at < opening->size;) {
        size_t length = next_length(opening, at);
        off_t place = (off_t)(opening->offset + at);
        if (file >= 0 && use_sendfile) {
            for (size_t done = 0; done < length;) {
                ssize_t put = sendfile(fd, file, &place, length - done);
                if (put <= 0)
                    die("sendfile of %s", source);
                done += (size_t)put;
            }
        } else {
            for (size_t done = 0; file >= 0 && done < length;) {
                ssize_t got = pread(file, buffer + done, length - done, place + (off_t)done);
                if (got <= 0)
                    die("reading %s", source);
                done += (size_t)got;
            }
            sum = sample(sum, buffer, length, at);
            send_all(fd, buffer, length);
        }
        at += length;
        moved += length;
        spin_for(spin_ns);
        sleep_for(sleep_between_ns);
        char reply;
        if (reply_is_due(opening, at))
            receive_all(fd, &reply, 1);
    }
    /* sendfile's bytes were never seen here: 0 stands for not summed. */
    send_all(fd, &sum, sizeof sum);
    char verdict;
    receive_all(fd, &verdict, 1);
    if (verdict != 'y')
        corrupt("the receiver's bytes are not those that were sent");
    free(buffer);
    close(file);
}

static int open_sink(void)
{
    const char *colon = strchr(sink, ':');
    if (strcmp(sink, "null") == 0)
        return -1;
    if (!colon || (strncmp(sink, "file:", 5) != 0 && strncmp(sink, "fsync:", 6) != 0)) {
        fprintf(stderr, "--sink %s: expected null, file:PATH or fsync:PATH\n", sink);
        exit(2);
    }
    int file = open(colon + 1, O_WRONLY | O_CREAT, 0666);
    if (file < 0)
        die("%s", colon + 1);
    return file;
}

static void write_block(int file, const char *buffer, size_t length, uint64_t offset)
{
    for (size_t done = 0; done < length;) {
        ssize_t put = pwrite(file, buffer + done, length - done, (off_t)(offset + done));
        if (put < 0 && errno != EINTR)
            die("writing %s", sink);
        done += put > 0 ? (size_t)put : 0;
    }
    if (strncmp(sink, "fsync:", 6) == 0) {
        uint64_t begun_ns = now_ns();
        if (fdatasync(file) != 0)
            die("fdatasync of %s", sink);
        inject(SYNCED, now_ns() - begun_ns);
    }
}

static void receive_stream(int fd, const struct opening *opening)
{
    char *buffer = block_memory(block);
    int file = open_sink();
    uint64_t sum = 0, sent_sum;
    for (uint64_t at = 0; at < opening->size;) {
        size_t length = next_length(opening, at);
        receive_all(fd, buffer, length);
        sum = sample(sum, buffer, length, at);
        if (file >= 0)
            write_block(file, buffer, length, opening->offset + at);
        at += length;
        moved += length;
        spin_for(spin_ns);
        sleep_for(slow_read_ns);
        if (reply_is_due(opening, at)) {
            sleep_for(reply_delay_ns);
            send_all(fd, "r", 1);
        }
    }
    receive_all(fd, &sent_sum, sizeof sent_sum);
    bool agree = sent_sum == sum || sent_sum == 0;
    send_all(fd, agree ? "y" : "n", 1);
    if (!agree)
        corrupt("the bytes are not those that were sent");
    free(buffer);
    close(file);
}

/* ---- client ---- */

static struct sockaddr_storage peer;
static socklen_t peer_length;
static bool server_sends;

static void *client_stream(void *number)
{
    uint64_t index = (uintptr_t)number, part = size / streams;
    struct opening opening = { .server_sends = server_sends, .offset = index * part, .request_reply = request_reply };
    memcpy(opening.magic, magic, sizeof magic);
    opening.size = index + 1 == streams ? size - index * part : part;
    int fd = socket(peer.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("a socket");
    tune(fd);
    if (connect(fd, (struct sockaddr *)&peer, peer_length) != 0)
        die("connecting");
    send_all(fd, &opening, sizeof opening);
    if (server_sends)
        receive_stream(fd, &opening);
    else
        send_stream(fd, &opening);
    close(fd);
    return NULL;
}

static void resolve(const char *host, const char *service, bool passive)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | (passive ? AI_PASSIVE : 0) }, *found;
    int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0)
        corrupt("%s port %s: %s", host, service, gai_strerror(code));
    memcpy(&peer, found->ai_addr, found->ai_addrlen);
    peer_length = found->ai_addrlen;
    freeaddrinfo(found);
}

static void run_client(const char *host, const char *service)
{
    if (size == 0 && !server_sends && strcmp(source, "memory") != 0) {
        int file = open(source, O_RDONLY);
        off_t end = lseek(file, 0, SEEK_END);
        if (end < 0)
            die("%s", source);
        size = (uint64_t)end;
        close(file);
    }
    if (size == 0 || streams == 0)
        corrupt("expected --size and --streams above 0");
    resolve(host, service, false);
    uint64_t begun_ns = now_ns();
    pthread_t *threads = calloc(streams, sizeof *threads);
    for (uintptr_t i = 1; i < streams; i++)
        if (!threads || (errno = pthread_create(&threads[i], NULL, client_stream, (void *)i)) != 0)
            die("starting a thread");
    client_stream(NULL);
    for (uint64_t i = 1; i < streams; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    print_result(moved, begun_ns, "");
}

/* ---- server ---- */

static atomic_uint_fast64_t served;
static uint64_t server_begun_ns;

static _Noreturn void end_server(void)
{
    char more[60];
    snprintf(more, sizeof more, ", \"connections\": %llu", (unsigned long long)served);
    print_result(moved, server_begun_ns, more);
    exit(0);
}

static void *serve_connection(void *fd_of)
{
    int fd = (int)(intptr_t)fd_of;
    struct opening opening;
    char first;
    /* Who asks only whether somebody answers here is no client. */
    if (recv(fd, &first, 1, MSG_PEEK) <= 0) {
        close(fd);
        return NULL;
    }
    receive_all(fd, &opening, sizeof opening);
    if (memcmp(opening.magic, magic, sizeof magic) != 0)
        corrupt("somebody who is no transfer connected");
    if (opening.server_sends)
        send_stream(fd, &opening);
    else
        receive_stream(fd, &opening);
    close(fd);
    if (++served == sessions)
        end_server();
    return NULL;
}

static void *accept_all(void *listener_of)
{
    for (;;) {
        int fd = accept4((int)(intptr_t)listener_of, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            die("accepting");
        }
        tune(fd);
        pthread_t thread;
        if ((errno = pthread_create(&thread, NULL, serve_connection, (void *)(intptr_t)fd)) != 0)
            die("starting a thread");
        pthread_detach(thread);
    }
    return NULL;
}

static void run_server(void)
{
    char service[24], host[64];
    snprintf(service, sizeof service, "%llu", (unsigned long long)port);
    resolve(address, service, true);
    int fd = socket(peer.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    /* The window that a connection may offer is fixed when it is made, so the listener has the buffers already. */
    tune(fd);
    if (fd < 0 || bind(fd, (struct sockaddr *)&peer, peer_length) != 0 || listen(fd, 1024) != 0)
        die("listening on %s port %s", address, service);
    peer_length = sizeof peer;
    getsockname(fd, (struct sockaddr *)&peer, &peer_length);
    getnameinfo((struct sockaddr *)&peer, peer_length, host, sizeof host, service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
    char more[100];
    snprintf(more, sizeof more, "%s %s", host, service);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    server_begun_ns = now_ns();
    pthread_t thread;
    if ((errno = pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)fd)) != 0)
        die("starting a thread");
    print_ready(more);
    int which;
    sigwait(&ends, &which);
    end_server();
}

int main(int argc, char **argv)
{
    int others = parse_options(argc, argv, "serve | send ADDRESS PORT | receive ADDRESS PORT  [OPTION]...", rows);
    if (others == 1 && strcmp(argv[1], "serve") == 0)
        run_server();
    server_sends = others == 3 && strcmp(argv[1], "receive") == 0;
    if (others != 3 || block == 0 || (!server_sends && strcmp(argv[1], "send") != 0)) {
        fprintf(stderr, "%s: expected serve, send ADDRESS PORT or receive ADDRESS PORT; --help lists the options\n", argv[0]);
        return 2;
    }
    run_client(argv[2], argv[3]);
    return 0;
}
