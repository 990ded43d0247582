/* nfs-client: an asynchronous NFSv3 client whose queue depth, RPC window and retransmission timer are options.
 *
 *   nfs-client write|read URL [OPTION]...      one file
 *   nfs-client walk URL [OPTION]...            every file below a directory
 *   URL: nfs://HOST/EXPORT/NAME?version=3&nfsport=PORT&mountport=PORT
 *
 * It is the workload for what kernel clients do and cannot be told to do: pending queues that fill and drain, windows that collapse at
 * timeouts, walks of many small files. It prints what it measured about itself as one JSON line, the truth that an explanation of it and
 * `rpcstat` are held against. */
#include <stdlib.h>
#include <string.h>

#include "../workloads/workload.h"
#include "jobs.h"

static struct transfer_settings transfer = { .block = 1 << 20 };
static struct rpc_settings rpc;
static uint64_t depth = 8, window, window_max, think_ns, spin_ns, sample_ns = 10000000, list = 32768;
static const char *stable = "unstable", *how = "lookup+getattr", *pause_text;

static const struct option_row rows[] = {
    { "--size", SIZE, &transfer.size, "bytes to write or read (of a source or a file that is read: its size)" },
    { "--block", SIZE, &transfer.block, "bytes of a call (1Mi)" },
    { "--depth", COUNT, &depth, "calls the application has outstanding (8)" },
    { "--window", COUNT, &window, "calls the RPC layer lets itself have pending at first; 0: no window (0)" },
    { "--window-max", COUNT, &window_max, "to what the window may grow (the larger of 16 and --window)" },
    { "--timeout", TIME, &rpc.timeout_ns, "after how long an unanswered call times out; doubles each time (never)" },
    { "--retransmit", FLAG, &rpc.retransmit, "send a call that timed out again, with the same xid" },
    { "--stable", TEXT, &stable, "write: unstable, datasync or filesync (unstable)" },
    { "--commit-every", SIZE, &transfer.commit_every, "write: after this many bytes, wait for all that is pending and COMMIT" },
    { "--no-commit", FLAG, &transfer.no_commit, "write: no COMMIT at all, not even at the end" },
    { "--think", TIME, &think_ns, "issue nothing for this long after each call" },
    { "--spin", TIME, &spin_ns, "processor time to use after each call" },
    { "--pause", TEXT, &pause_text, "SIZE+TIME: once, when SIZE was issued, issue nothing for TIME" },
    { "--read-source", TEXT, &transfer.source, "write: the data, instead of memory" },
    { "--sink", TEXT, &transfer.sink, "read: where the data goes, instead of nowhere" },
    { "--pattern", FLAG, &transfer.pattern, "read: check that it is what `write` wrote from memory" },
    { "--how", TEXT, &how, "walk: lookup+getattr, lookup or readdirplus (lookup+getattr)" },
    { "--list", SIZE, &list, "walk: bytes of names and attributes asked for at a time (32Ki)" },
    { "--sndbuf", SIZE, &rpc.sndbuf, "SO_SNDBUF" },
    { "--rcvbuf", SIZE, &rpc.rcvbuf, "SO_RCVBUF" },
    { "--sample", TIME, &sample_ns, "interval of the series in the result; 0: no series (10ms)" },
    { NULL, 0, NULL, NULL },
};

static uint64_t pause_at = UINT64_MAX, pause_ns;

static void read_pause(void)
{
    if (!pause_text)
        return;
    char *text = strdup(pause_text), *plus = text ? strchr(text, '+') : NULL;
    if (!plus)
        corrupt("--pause %s: expected SIZE+TIME, like 64Mi+500ms", pause_text);
    *plus = 0;
    pause_at = parse_size(text);
    pause_ns = parse_time_ns(plus + 1);
    free(text);
}

/* The place of a word in a list that ends with NULL. */
static int choice(const char *option, const char *word, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    fprintf(stderr, "nfs-client: %s %s is none of those that --help lists\n", option, word);
    exit(2);
}

/* Issues one call when one may be issued, looks what has come or waits for it, and again, until the job is done. */
static void run(const struct job *job)
{
    uint64_t not_before_ns = 1;
    while (!job->finished()) {
        bool room = rpc_outstanding() < depth, may = room && now_ns() >= not_before_ns;
        uint64_t had_issued = transfer_issued();
        bool issued = may && job->issue();
        if (issued) {
            spin_for(spin_ns);
            uint64_t rest_ns = think_ns + (had_issued < pause_at && transfer_issued() >= pause_at ? pause_ns : 0);
            if (rest_ns) {
                not_before_ns = now_ns() + rest_ns;
                inject(SLEPT, rest_ns);
            }
        }
        /* After a call, at once or when the next may be issued; else when one is answered. */
        bool timed = issued || (room && !may);
        if (!job->finished())
            rpc_step(timed && rpc_outstanding() < depth ? not_before_ns : 0);
    }
}

static void report(const struct job *job, struct statistics *statistics, uint64_t program_ns, uint64_t transfer_ns)
{
    char *more = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&more, &length);
    if (!out)
        die("memory for the result");
    double seconds = (double)(now_ns() - transfer_ns) / 1e9;
    fprintf(out, ", \"rate_bytes_per_s\": %.0f, \"total_s\": %.6f", seconds > 0 ? (double)statistics->bytes / seconds : 0.0,
            (double)(now_ns() - program_ns) / 1e9);
    job->print(out);
    fprintf(out, ", ");
    statistics_print(statistics, out);
    fclose(out);
    print_result(statistics->bytes, transfer_ns, more);
    free(more);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = { "write", "read", "walk", NULL };
    static const char *const stabilities[] = { "unstable", "datasync", "filesync", NULL };
    static const char *const hows[] = { "lookup+getattr", "lookup", "readdirplus", NULL };
    uint64_t program_ns = now_ns();
    if (parse_options(argc, argv, "write|read|walk URL [OPTION]...", rows) != 2 || depth == 0 || transfer.block == 0) {
        fprintf(stderr, "nfs-client: expected write, read or walk, a URL, and a depth and block above 0; --help lists the options\n");
        return 2;
    }
    enum purpose purpose = (enum purpose)choice("the mode", argv[1], modes);
    transfer.stability = (enum stability)choice("--stable", stable, stabilities);
    enum walk_how walk_how = (enum walk_how)choice("--how", how, hows);
    read_pause();
    if (purpose == TO_WRITE && transfer.size == 0 && !transfer.source)
        corrupt("write needs --size or --read-source");
    rpc.window = (uint32_t)window;
    rpc.window_max = (uint32_t)(window_max ? window_max : window > 16 ? window : 16);
    if (list < 4096 || list > 1 << 24)
        corrupt("--list: expected 4Ki to 16Mi");
    rpc.reply_max = transfer.block > 65536 ? transfer.block : 65536;
    /* A server may count without the headers of its reply. */
    if (purpose == TO_WALK && rpc.reply_max < list + 4096)
        rpc.reply_max = list + 4096;

    struct place place;
    static struct statistics statistics;
    nfs_find(argv[2], purpose, &place);
    if ((purpose == TO_WRITE && transfer.block > place.write_max) || (purpose == TO_READ && transfer.block > place.read_max))
        corrupt("--block is more than the server takes: %llu for reading, %llu for writing", (unsigned long long)place.read_max,
                (unsigned long long)place.write_max);
    rpc_open(place.host, place.port, &rpc, &statistics);
    const struct job *job = purpose == TO_WRITE  ? write_job(&transfer, &place, &statistics)
                            : purpose == TO_READ ? read_job(&transfer, &place, &statistics)
                                                 : walk_job(walk_how, (uint32_t)list, &place);
    uint64_t transfer_ns = now_ns();
    statistics_begin(&statistics, transfer_ns, sample_ns);
    run(job);
    statistics_advance(&statistics, now_ns(), 0, 0, rpc.window);
    report(job, &statistics, program_ns, transfer_ns);
    return 0;
}
