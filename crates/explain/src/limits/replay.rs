//! Thresholds of the replay model and its changes.

// build.rs

/// Threads that share a processor take turns of at most 4 ms; longer queueing is due to a quota. Instead: the control group as the wait's
/// object.
pub(crate) const LONGER_THAN_TURNS_NS: i64 = 5_000_000;
/// A waker must have run this close to the end of the wait, or its record is of another wake-up. Instead: exact switches of the waker.
pub(crate) const WAKER_EARLY_NS: i64 = 1_000_000;
/// A completion leads to a wake-up within this: an interrupt and a switch. Instead: the request in the wait.
pub(crate) const COMPLETED_NS: i64 = 300_000;
/// The least retransmission timeout: what ran at the other end longer ago is unrelated. Instead: the waker.
pub(crate) const RECENT_NS: i64 = 200_000_000;
/// Arriving bytes are read within one scheduler turn. Instead: TCP's acknowledgements.
pub(crate) const READ_LATER_NS: i64 = 1_000_000;
/// The thread that makes another ran at most this long before. Instead: `thread.start`.
pub(crate) const MADE_NS: i64 = 1_000_000;
/// One part in this many of the transit is added: round trips vary by this much. Instead: TCP's acknowledgements.
pub(crate) const READ_LATER_PART: i64 = 20;

// changes/mod.rs

/// A change to what took less than half of the least gain is not replayed. Instead: nothing: it saves replays.
pub(crate) const MATTERS_PART: f64 = 0.005;

// changes/devices.rs

/// "Fewer files" is proposed from this number of files and names on: a program opens some tens when it starts. Instead: which of them the
/// dynamic linker and the interpreter asked for.
pub(crate) const MANY_FILES: u64 = 100;

// how.rs

/// A thread in file calls for one part in this many of the run works on files. Instead: nothing: a pool's idle threads are in none.
pub(crate) const WORKS_PART: u64 = 100;
/// The truncation of a file matters if it was waited for during one part in this many of the run. Instead: nothing: below, another method
/// gains nothing.
pub(crate) const TRUNCATES_PART: u64 = 20;
/// A program with one part in this many of the largest program's bytes is among those whose options matter. Instead: the commands of all
/// programs.
pub(crate) const FAIR_PART: u64 = 10;

// changes/once.rs

/// Of writing, reading and writing again, the first write is left. Instead: the time of each call.
pub(crate) const LEFT_OF_A_COPY: f64 = 1.0 / 3.0;
/// A file written this many times over was rewritten for each of several changes. Instead: the purpose of each write.
pub(crate) const REWRITTEN: f64 = 3.0;

// changes/walk.rs

/// Windows for which predictions are made: what clients offer, in factors of four. Instead: the client's own knob (`knob.window`).
pub(crate) const WINDOWS: [(&str, u32); 3] = [("walk.window.8", 8), ("walk.window.32", 32), ("walk.window.128", 128)];
/// With fewer round trips per entry, some requests are in flight together, and the walk does not wait entry by entry. Instead: which
/// request waited for which answer.
pub(crate) const ENTRY_BY_ENTRY: f64 = 0.9;
/// Part of a large answer's cost per byte that each further entry costs; compared with runs of 8, 32 and 128 entries ahead. Instead: the
/// server's time for each entry.
pub(crate) const BYTES_OF_ENTRY: f64 = 0.25;
/// Bytes per datafile in request and answer together, in this project's own protocol. Instead: nothing: a fact.
pub(crate) const BYTES_OF_DATAFILE: f64 = 4.0;
/// Where no answer shows the cost of bytes: assumed part of the time of one entry alone that each further entry costs. Instead: an answer
/// about many entries in the recording.
pub(crate) const USUAL_FURTHER: f64 = 0.002;

// changes/windows.rs

/// If fewer than this part of the requests wait for the previous one, most are in flight together already. Instead: which request waited
/// for which answer.
pub(crate) const SERIAL: f64 = 0.5;
/// Bytes of names and attributes in one answer of a server that returns attributes with names: what NFS clients request of READDIRPLUS.
/// Instead: the mount's `rsize`.
pub(crate) const PAGE_BYTES: f64 = 32768.0;
/// Bytes per entry: attributes (84 bytes), handle and a name of usual length. Instead: the answers' sizes over their entries.
pub(crate) const ENTRY_BYTES: f64 = 200.0;
/// Part of the server's work left where one request returns many entries: looking them up, not taking requests. Assumed, not measured.
/// Instead: the server's time for each call.
pub(crate) const WORK_LEFT: f64 = 0.1;

// edit.rs

/// Exchanges count as requests from this number on; of fewer, startup and end are most. Instead: `app.request` spans.
pub(crate) const FEWEST_TURNS: usize = 16;
/// A thread with fewer than one part in this many of the busiest thread's turns does something else and is left unchanged. Instead:
/// `app.request` spans.
pub(crate) const BUSIEST_PART: usize = 8;
/// Least number of reads, and of waits for their reader: of fewer, startup and end are most. Instead: the transfer that each read belongs
/// to.
pub(crate) const FEWEST_READS: usize = 8;
/// Bound: threads between an answer and its request.
pub(crate) const MOST_HOPS: usize = 16;
/// Bound: operations examined on each of them.
pub(crate) const MOST_OPS_BACK: usize = 1024;
/// Bound: answers whose requests are searched for: enough for a median.
pub(crate) const MOST_ASKED_ABOUT: usize = 16_384;

// facts.rs

/// A quota that stopped threads for less is ignored: one slice of a quota's time on one processor. Instead: nothing: less is not a quota's
/// doing.
pub(crate) const QUOTA_STOPPED_NS: f64 = 5e6;

// mod.rs

/// Largest error at which a model makes predictions: predictions are good to a tenth, and cannot be from a replay that misses by more.
/// Instead: an interval for each prediction.
pub(crate) const MOST_ERROR: f64 = 0.10;
/// A replay of less than this part of the run is reported as covering only its end. Instead: nothing: rounding.
pub(crate) const WHOLE_RUN: f64 = 0.999;
/// Smaller speedups are not listed: runs of one command differ by more. Instead: the spread of repeated runs.
pub(crate) const LEAST_SPEEDUP: f64 = 1.02;
/// If a replayed wider window gains less than this part of the time waited for it, the recording does not show the gain. Instead: the
/// per-byte work of the program that carries the bytes (a tunnel).
pub(crate) const WINDOW_REPLAYED: f64 = 0.25;
/// Of proposals of one kind, the first within this factor of the best is taken: the replay cannot distinguish closer ones. Instead: an
/// interval for each prediction.
pub(crate) const NEAR_BEST: f64 = 1.02;
/// If other programs have more of a processor than this, the machine's own counters show it. Instead: the processors' busy time by other
/// programs.
pub(crate) const MOST_FOREIGN: f64 = 0.5;
/// Precision of the fit: a tenth of the allowed error. Instead: nothing: the fit's precision.
pub(crate) const FIT_NEAR: f64 = 0.01;
/// Bound: replays spent on a fit; four narrow it to a sixteenth.
pub(crate) const HALVINGS: usize = 4;
/// A replay that gains this much more than was charged is reported as capped. Instead: an interval for each prediction.
pub(crate) const CAPPED_BY: f64 = 0.02;
/// If a replay without a kind of wait leaves more than this part of the time charged to it, the model keeps such waits under another name
/// (a timeout of an event loop is one wait in several pieces), or something else took as long beside them. The run's new length is then
/// unknown, and the charges bound it. Instead: a model of the program's own timers.
pub(crate) const LEFT_OF_WAITS: f64 = 0.5;
/// A server with less than one part in this many of the most bytes holds no part of the file. Instead: the file's layout.
pub(crate) const USED_PART: u64 = 10;

// queueing.rs

/// Slowdown that each busy processor causes the others (shared caches, memory, hyperthreads): the usual value; recordings of one copy
/// showed 0 to 0.5. Instead: instructions and cycles of the threads.
pub(crate) const SLOWDOWN: f64 = 0.10;
/// A quota stops threads for milliseconds; shorter waits are scheduler turns. Instead: the control group as the wait's object.
pub(crate) const QUOTA_WAIT_NS: i64 = 1_000_000;

// edit_parallel.rs

/// Slowdown that each busy processor causes the others when programs compute on data in their own caches: compressors, checksums and
/// compilers showed 2 to 5 %. Instead: instructions and cycles of the threads, and which processors share a core.
pub(crate) const SLOWDOWN_COMPUTING: f64 = 0.04;
/// Smaller use of a processor is not another program's: interrupts, kernel threads, and what ticks miss. Instead: the processors' time by
/// program.
pub(crate) const LEAST_OTHERS: f64 = 0.15;
/// Less computing is not worth handing to another thread and back: two wake-ups. Instead: the program's own pieces.
pub(crate) const WORTH_HANDING_OUT_NS: f64 = 20_000.0;
/// A program that starts fewer others in turn starts them for different reasons. Instead: the program's own loop.
pub(crate) const FEWEST_STARTED: usize = 4;
/// Operations of a process after its last wait: only its last run follows it. Instead: a mark of the end itself.
pub(crate) const OPS_AT_THE_END: usize = 4;

// ranks.rs

/// Bound: MPI calls followed; of a longer recording, the end is replayed.
pub(crate) const MOST_MPI_CALLS: usize = 400_000;

// rows.rs

/// Bound: rows kept; of a longer recording, the end is replayed.
pub(crate) const MAX_ROWS: usize = 200_000;
/// A fruitless receive shorter than this only polls; a longer one waited. Instead: whether the call slept.
pub(crate) const SPIN_NS: i64 = 20_000;
/// Error of a span's totals: two reads of the clock. Instead: nothing: a fact.
pub(crate) const GRAIN_NS: i64 = 2_000;

// services.rs

/// This many waits for room are no coincidence. Instead: TCP's own count of time limited by the window.
pub(crate) const ROOM_OFTEN: u32 = 8;

// simulate.rs

/// A replay that stalls in a larger part of its steps is not a replay of this run. Instead: nothing: it guards against edits that cannot
/// run.
pub(crate) const MOST_HELP: f64 = 0.01;
/// Bound: helps to a stalled replay; each examines all marks.
pub(crate) const MOST_HELPS: f64 = 1_000.0;
/// Base slice of Linux's scheduler (EEVDF) on few processors, plus up to a tick. Instead: the machine's base_slice_ns.
pub(crate) const TURN_NS: f64 = 2_000_000.0;
/// Bytes that are not polled for are noticed after a wake-up and a switch. Instead: the time from the last packet to the wake-up.
pub(crate) const NO_POLL_LAG_NS: f64 = 20_000.0;

// stages.rs

/// A thread with less than one part in this many of the bytes is no stage. Instead: which bytes of a message are payload.
pub(crate) const STAGE_PART: f64 = 10.0;
/// Smaller messages are requests, whose pace means nothing. Instead: which bytes of a message are payload.
pub(crate) const STAGE_BYTES: f64 = 1024.0;

// support.rs

/// Smaller gains are not proposed: below a hundredth, charges are noise. Instead: the spread of repeated runs.
pub(crate) const LEAST_GAIN: f64 = 0.01;

// timeline.rs

/// Between two polls a thread runs no longer than this: it checks a value and calls again. Instead: why a thread sleeps (the timer's call).
pub(crate) const BETWEEN_POLLS_NS: i64 = 200_000;

// interval.rs

/// Part of the gain within which four of five predictions in the lab were right, for a resource of twice the rate (47 of them). Instead:
/// several runs.
pub(crate) const MISSED_TWICE: f64 = 0.15;
/// For waits that go away, and requests in flight (31 of them). Instead: several runs.
pub(crate) const MISSED_OTHERS: f64 = 0.25;
/// For a processor quota that goes away (7 of them): a run under a quota shows least how it would run without one. Instead: several runs.
pub(crate) const MISSED_QUOTA: f64 = 0.7;

/// Factor by which the requests in flight are raised in a proposal. Instead: how many a server accepts.
pub(crate) const MORE_REQUESTS: usize = 4;
/// Requests in flight for this part of the run fill it. Instead: the purpose of each wait.
pub(crate) const FILLS: f64 = 0.75;
/// A server that received this many requests sleeps as part of its answers. Instead: the purpose of each sleep.
pub(crate) const MANY_QUESTIONS: u64 = 16;
/// Servers that slept for this part of the run slept as part of their answers. Instead: what they wait for.
pub(crate) const SLEPT_FOR: f64 = 0.25;
/// A link with this share of the time was full often enough for its rate to be known. Instead: the link's rate.
pub(crate) const FULL_PART: f64 = 0.2;
