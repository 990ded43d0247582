//! The replay model and its changes.

// build.rs

/// Threads that share a processor take turns of 4 ms at most: longer queueing is a quota's. Instead: the control group as the wait's
/// object.
pub(crate) const LONGER_THAN_TURNS_NS: i64 = 5_000_000;
/// A waker ran at the end of the wait, or its record is not the one. Instead: exact switches of the waker.
pub(crate) const WAKER_EARLY_NS: i64 = 1_000_000;
/// From a completion to the wake-up it takes an interrupt and a switch. Instead: the request in the wait.
pub(crate) const COMPLETED_NS: i64 = 300_000;
/// The least retransmission timeout: what ran at the other end longer ago has nothing to do with it. Instead: the waker.
pub(crate) const RECENT_NS: i64 = 200_000_000;
/// What arrives is read within a turn of the scheduler. Instead: TCP's acknowledgements.
pub(crate) const READ_LATER_NS: i64 = 1_000_000;
/// Who makes a thread ran a moment ago. Instead: `thread.start`.
pub(crate) const MADE_NS: i64 = 1_000_000;
/// And a twentieth of the way: round trips vary by as much. Instead: TCP's acknowledgements.
pub(crate) const READ_LATER_PART: i64 = 20;

// changes/mod.rs

/// A change of what took less than half of the least gain is not replayed. Instead: nothing; it saves replays.
pub(crate) const MATTERS_PART: f64 = 0.005;

// changes/devices.rs

/// Fewer files are advice where so many files and names were dealt with. A program asks for some tens to begin. Instead: which of them the dynamic linker and
/// the interpreter asked for.
pub(crate) const MANY_FILES: u64 = 100;

// how.rs

/// A thread that was in calls on files for this part of the run works on them. Instead: nothing; a pool's idle threads are in none.
pub(crate) const WORKS_PART: u64 = 100;
/// A file whose truncation was waited for for one part in so many of the run matters. Instead: nothing; below, another way gains nothing.
pub(crate) const TRUNCATES_PART: u64 = 20;
/// A program with a tenth of the bytes of the one that moved most is one of those whose options decide. Instead: the commands of all programs.
pub(crate) const FAIR_PART: u64 = 10;

// changes/once.rs

/// Of writing, reading and writing again, the first is left. Instead: the time of each call.
pub(crate) const LEFT_OF_A_COPY: f64 = 1.0 / 3.0;
/// A file that was written this often was written again for each of something. Instead: what each write was for.
pub(crate) const REWRITTEN: f64 = 3.0;

// changes/walk.rs

/// The windows that predictions are made for. What clients offer, in factors of four. Instead: the client's own knob (`knob.window`).
pub(crate) const WINDOWS: [(&str, u32); 3] = [("walk.window.8", 8), ("walk.window.32", 32), ("walk.window.128", 128)];
/// Fewer round trips for each entry than this, and it is not entry by entry that the walk waits. Of fewer round trips for each entry, some
/// questions are under way together. Instead: which question waited for which answer.
pub(crate) const ENTRY_BY_ENTRY: f64 = 0.9;
/// The part of a large answer's cost by bytes that a further entry costs; held against runs of 8, 32 and 128 entries ahead. Instead: the
/// server's time for each entry.
pub(crate) const BYTES_OF_ENTRY: f64 = 0.25;
/// For each datafile, bytes in question and answer together. Of our own protocol: for each datafile, in question and answer together.
/// Instead: nothing; it is a fact.
pub(crate) const BYTES_OF_DATAFILE: f64 = 4.0;
/// Where no answer shows what bytes cost: of what one entry takes alone, so much is assumed to be for
/// itself. Instead: an answer about many entries in the recording.
pub(crate) const USUAL_FURTHER: f64 = 0.002;

// changes/windows.rs

/// Questions of which fewer than this part wait for the one before them are under way together already. Fewer of the questions wait for the
/// one before than those that do not. Instead: which question waited for which answer.
pub(crate) const SERIAL: f64 = 0.5;
/// Bytes of names and attributes in an answer, and for each entry, where a server gives attributes with names (NFS: READDIRPLUS). What NFS
/// clients ask of READDIRPLUS at a time. Instead: the mount's `rsize`.
pub(crate) const PAGE_BYTES: f64 = 32768.0;
/// Attributes (84 bytes), handle and a name of usual length. Instead: the answers' sizes over their entries.
pub(crate) const ENTRY_BYTES: f64 = 200.0;
/// Which part of the server's work is left where one question brings many entries: looking them up, not taking questions. Assumed,
/// not measured. Instead: the server's time for each call.
pub(crate) const WORK_LEFT: f64 = 0.1;

// edit.rs

/// An exchange is a request when there were so many. Of fewer exchanges, beginning and end are most. Instead: `app.request` spans.
pub(crate) const FEWEST_TURNS: usize = 16;
/// A thread that asks less than this part of what the busiest one does is left as it is. A thread with less than an eighth of the busiest
/// one's turns does something else. Instead: `app.request` spans.
pub(crate) const BUSIEST_PART: usize = 8;
/// Programs that were read and those that were waited for are each at least so many. Of fewer reads, beginning and end are most. Instead:
/// the transfer that each read belongs to.
pub(crate) const FEWEST_READS: usize = 8;
/// Bound: threads between an answer and its question.
pub(crate) const MOST_HOPS: usize = 16;
/// Bound: operations looked through on each of them.
pub(crate) const MOST_OPS_BACK: usize = 1024;
/// Bound: answers whose questions are looked for; as many as a median takes.
pub(crate) const MOST_ASKED_ABOUT: usize = 16_384;

// facts.rs

/// A quota that stopped less than this is none. One slice of a quota's time on one processor. Instead: nothing; less is no quota's doing.
pub(crate) const QUOTA_STOPPED_NS: f64 = 5e6;

// mod.rs

/// A model that misses the observed run by more than this predicts nothing. Predictions are good to a tenth; from a replay that misses by
/// more they cannot be. Instead: an interval for each prediction.
pub(crate) const MOST_ERROR: f64 = 0.10;
/// A replay of less than this part of the run is said to be of its end only. Instead: nothing; it is rounding.
pub(crate) const WHOLE_RUN: f64 = 0.999;
/// A change that gains less than this is not worth a line. Runs of one command differ by more. Instead: the spread of repeated runs.
pub(crate) const LEAST_SPEEDUP: f64 = 1.02;
/// A wider window that gives less than this part of what was waited for it, in a replay, is not what the recording shows. Instead: what who carries the
/// bytes (a tunnel) does for each of them.
pub(crate) const WINDOW_REPLAYED: f64 = 0.25;
/// Of proposals of one kind, the first that is this near the best is taken. The replay cannot distinguish closer ones. Instead: an interval
/// for each prediction.
pub(crate) const NEAR_BEST: f64 = 1.02;
/// A machine of which others have more of a processor than this shows it in its own counters. Instead: the processors' busy time by other
/// programs.
pub(crate) const MOST_FOREIGN: f64 = 0.5;
/// A tenth of the error allowed. Instead: nothing; it is the fit's precision.
pub(crate) const FIT_NEAR: f64 = 0.01;
/// Bound: replays spent on a fit; four bring it to a sixteenth.
pub(crate) const HALVINGS: usize = 4;
/// A replay that gives more than was charged is said to be capped when it gives so much more. Instead: an interval for each prediction.
pub(crate) const CAPPED_BY: f64 = 0.02;
/// A replay without a kind of wait that leaves more than this part of what the critical path was charged for it keeps such waits under another name
/// (a limit of an event loop is one wait in several pieces), or something else took as long beside them: how long the run takes then is not known, and
/// the charges bound it. Instead: a model of the program's own timers.
pub(crate) const LEFT_OF_WAITS: f64 = 0.5;
/// A server with less than a tenth of the most bytes holds no part of the file. Instead: the file's layout.
pub(crate) const USED_PART: u64 = 10;

// queueing.rs

/// By how much each busy processor slows the others down (shared caches, memory, hyperthreads): what is usual; recordings of one copy
/// showed none to a half. Instead: instructions and cycles of the threads.
pub(crate) const SLOWDOWN: f64 = 0.10;
/// A quota stops threads for ms; less is a turn of the scheduler. Instead: the control group as the wait's object.
pub(crate) const QUOTA_WAIT_NS: i64 = 1_000_000;

// edit_parallel.rs

/// By how much each busy processor slows the others down where programs compute on data in their own caches: compressors, checksums and
/// compilers showed 2 to 5 %. Instead: instructions and cycles of the threads, and which processors are one core's.
pub(crate) const SLOWDOWN_COMPUTING: f64 = 0.04;
/// Less of a processor is no other program's: interrupts, kernel threads, and what ticks miss. Instead: the processors' time by program.
pub(crate) const LEAST_OTHERS: f64 = 0.15;
/// Less computing than this is not worth a hand-over to another thread and back: two wake-ups. Instead: the program's own pieces.
pub(crate) const WORTH_HANDING_OUT_NS: f64 = 20_000.0;
/// A program that starts fewer others in turn than this starts them for another reason. Instead: the program's own loop.
pub(crate) const FEWEST_STARTED: usize = 4;
/// A process's end is the last that it is waited for: nothing but its last run comes behind it. Instead: a mark of the end itself.
pub(crate) const OPS_AT_THE_END: usize = 4;

// ranks.rs

/// Bound: MPI calls that are followed; of a longer recording the end is replayed.
pub(crate) const MOST_MPI_CALLS: usize = 400_000;

// rows.rs

/// Bound: rows that are kept; of a longer recording the end is replayed.
pub(crate) const MAX_ROWS: usize = 200_000;
/// Fruitless receives shorter than this are only a look in passing. A receive that finds nothing and lasts longer was waited in. Instead:
/// whether the call slept.
pub(crate) const SPIN_NS: i64 = 20_000;
/// What a span's totals are off by: two reads of the clock. Instead: nothing; it is a fact.
pub(crate) const GRAIN_NS: i64 = 2_000;

// services.rs

/// So many waits for room are no coincidence. Instead: TCP's own count of time limited by the window.
pub(crate) const ROOM_OFTEN: u32 = 8;

// simulate.rs

/// A replay that stands still more often than in one of a hundred steps is not this run. Instead: nothing; it guards against edits that
/// cannot run.
pub(crate) const MOST_HELP: f64 = 0.01;
/// Bound: each help looks at all marks.
pub(crate) const MOST_HELPS: f64 = 1_000.0;
/// The base slice of Linux's scheduler (EEVDF) on few processors, up to a tick more. Instead: the machine's base_slice_ns.
pub(crate) const TURN_NS: f64 = 2_000_000.0;
/// Bytes that are not polled for are noticed after a wake-up and a switch. Instead: the time from the last packet to the wake-up.
pub(crate) const NO_POLL_LAG_NS: f64 = 20_000.0;

// stages.rs

/// A thread through which less than a tenth of the bytes passed is no stage. Instead: which bytes of a message are payload.
pub(crate) const STAGE_PART: f64 = 10.0;
/// Messages with fewer bytes are requests, of which the pace says nothing. Instead: which bytes of a message are payload.
pub(crate) const STAGE_BYTES: f64 = 1024.0;

// support.rs

/// What gives less than this part of the time is not proposed. Below a hundredth, charges are noise. Instead: the spread of repeated runs.
pub(crate) const LEAST_GAIN: f64 = 0.01;

// timeline.rs

/// Between two looks a thread runs no longer than this. Between two polls a thread checks a value and calls again. Instead: why a thread
/// sleeps (the timer's call).
pub(crate) const BETWEEN_POLLS_NS: i64 = 200_000;

// interval.rs

/// Part of the gain by which four of five predictions in the lab were missed: of a resource with twice the rate (47 of them). Instead: more
/// runs than one.
pub(crate) const MISSED_TWICE: f64 = 0.15;
/// The same of waits that go away, and of requests in flight (31 of them). Instead: more runs than one.
pub(crate) const MISSED_OTHERS: f64 = 0.25;
/// The same of a processor quota that goes away (7 of them): how a program runs without it, its run with it shows least. Instead: more runs
/// than one.
pub(crate) const MISSED_QUOTA: f64 = 0.7;

/// How many times as many requests at a time are proposed. Instead: how many a server takes.
pub(crate) const MORE_REQUESTS: usize = 4;
/// Questions that were under way for this part of the run fill it. Instead: what each wait was for.
pub(crate) const FILLS: f64 = 0.75;
/// A server that was asked this often sleeps for its answers. Instead: what each sleep was for.
pub(crate) const MANY_QUESTIONS: u64 = 16;
/// Servers that slept for this part of the run slept for their answers. Instead: what they wait for.
pub(crate) const SLEPT_FOR: f64 = 0.25;
/// A link that this part of the time was charged to was full often enough for its rate to be known. Instead: the link's rate.
pub(crate) const FULL_PART: f64 = 0.2;
