//! Thresholds for what an explanation says, and about what.

// carried.rs

/// TCP's counts replace the bytes handed over when they cover at least this many tenths of them. Instead: TCP's counters for every
/// connection.
pub(crate) const CARRIED_TENTHS: u128 = 9;

// doubted.rs

/// Share of the wall time from which a wait for a disk is held against what the disk did. Instead: block requests in recordings without
/// privilege.
pub(crate) const DOUBTED_DISK: f64 = 0.1;
/// Fewer bytes than this say nothing of who used a disk: names, attributes and programs are read too. Instead: block requests with their
/// issuers.
pub(crate) const DOUBTED_BYTES: u64 = 1 << 20;
/// A disk that read this many times the bytes of the run's own files worked for others too: reading ahead fetches less than half in
/// vain. Instead: block requests with their issuers.
pub(crate) const OTHERS_READ: f64 = 1.5;
/// A disk that wrote this many times the bytes that the run wrote to its files, and more than [`OTHERS_WRITTEN_BYTES`], worked for others
/// too. Instead: block requests with their issuers.
pub(crate) const OTHERS_WRITTEN: u64 = 20;
/// A journal and whole blocks make no more than this of many small synced writes. Instead: block requests with their issuers.
pub(crate) const OTHERS_WRITTEN_BYTES: u64 = 32 << 20;
/// A disk that worked for others too, and was busy for a smaller part of the time it was waited for, may not be what was waited for. Instead:
/// block requests with their issuers.
pub(crate) const BUSY_FOR_OTHERS: f64 = 0.6;
/// A disk that was busy for a smaller part of the time it was waited for was kept from working. Instead: when requests entered each queue.
pub(crate) const HELD_BACK_PART: f64 = 0.15;

// set_limits.rs

/// While a thread queues, its machine's processors are all busy; fewer than this part of that shows that it may not use them all.
/// Instead: the processors that each thread may use.
pub(crate) const QUEUED_BUSY: f64 = 0.85;

// ending.rs

/// A call that failed no longer than this before the command ended is the reason it failed. Instead: the program's own decision.
pub(crate) const FAILED_BEFORE_NS: i64 = 1_000_000_000;

// killed.rs

/// Bound: processes in a chain, each started by the previous one.
pub(crate) const GENERATIONS: usize = 8;

// lookups.rs

/// Lookups within this time are one question for several record types: resolvers send both at the same time, and retry after 1 s or more.
/// Instead: which call of the resolver library asked.
pub(crate) const ASKED_TOGETHER_NS: i64 = 20_000_000;
/// Least share of a resolver's answer time that its upstream server must have for the wait to be that server's. Instead: which upstream
/// question each question caused.
pub(crate) const ASKED_ON_PART: f64 = 0.5;

// sharing.rs

/// Share of the waits from which other users of a device are named first: without them the waits would be a third shorter. Instead:
/// nothing: a choice of what to say first.
pub(crate) const SHARED_NAMED_FIRST: f64 = 1.0 / 3.0;
/// Share of the waits from which others' use of a device is called contention. Instead: nothing: it is what "most" means.
pub(crate) const SHARED_LARGER: f64 = 0.5;
/// Users of a device with a smaller share are not named. Instead: nothing: wording only.
pub(crate) const SHARED_WORTH_SAYING: f64 = 0.05;
/// Bound: users of a device named in the evidence.
pub(crate) const SHARED_NAMED: usize = 3;
/// At most one part in this many of the writeback can be the recorded programs' own. Instead: the file of each page written back.
pub(crate) const FOREIGN_WRITEBACK: u64 = 2;

// links.rs

/// Least bytes from an unrecorded server at which other users of the link are named: with fewer, the run did not wait for the link.
/// Instead: what a server waited for.
pub(crate) const LINK_BYTES: u64 = 1 << 20;

// ceiling.rs

/// A device, path or processor at this part of its ceiling is healthy: ceilings are measured to within a tenth. Instead: the ceiling's own
/// interval.
pub(crate) const WELL: f64 = 0.9;
/// A full link does not explain the run where another cause has this share. Instead: which stages can overlap.
pub(crate) const ANOTHER_STAGE: f64 = 0.2;

// circumstances.rs

/// A track sampled for less (ten samples) has no known activity. Instead: nothing: fewer samples have no share.
pub(crate) const ENOUGH_SAMPLED_NS: u64 = 10_000_000;
/// Cost of copying a byte into the page cache and allocating its page: 3 to 6 GB/s on the machines measured. Instead: the cost of the
/// program's own unsynced writes.
pub(crate) const COPIED_NS_PER_BYTE: f64 = 0.2;
/// The functions of a charge sampled for less (thirty samples) are not shown: a share of a third then means 18 to 51 %. Instead: nothing.
pub(crate) const ENOUGH_PROFILED_NS: u64 = 30_000_000;
/// Bound: functions shown for a charge.
pub(crate) const HOTTEST: usize = 3;

// waiting.rs

/// Bound: stacks of waits shown for a charge, one line each below the charge's own line.
pub(crate) const LONGEST_WAITS: usize = 3;
/// A wait with less than this on the path has no stack shown. Recorders take stacks of waits from 1 ms on. Instead: nothing: wording only.
pub(crate) const SHORTEST_WAIT_NS: u64 = 1_000_000;

// evidence.rs

/// At least one part in this many of a charge must be sampled for a statement about it. Instead: nothing: fewer samples have no share.
pub(crate) const SAMPLED_PART: u64 = 20;
/// The longest interval is mentioned when it is this many times the median. Instead: nothing: wording only.
pub(crate) const OUTLIER_TIMES: u64 = 8;
/// The longest interval is mentioned only from this length on: shorter ones cannot be acted on. Instead: nothing: wording only.
pub(crate) const OUTLIER_NS: u64 = 1_000_000;
/// From this idle part on, "with no data in transit" is printed. Instead: nothing: wording only.
pub(crate) const IDLE_NEARLY_ALL: f64 = 0.9;
/// From this idle part on, the idle part is mentioned. Instead: nothing: wording only.
pub(crate) const IDLE_PART: f64 = 0.25;
/// Samples name what a thread ran in when one class has this many tenths of them. Instead: call stacks.
pub(crate) const SAMPLED_TENTHS: u64 = 3;
/// A call on names is named when it has one part in this many of the samples in such calls. Instead: nothing: wording only.
pub(crate) const CALL_PART: f64 = 20.0;

// mod.rs

/// Bound: files that are all named in places.
pub(crate) const FEW_FILES: usize = 16;
/// Running in calls on names is charged to metadata from this part on; every program opens some files. Instead: every system call.
pub(crate) const ON_NAMES_PART: f64 = 0.05;
/// Of many files, those that took one part in this many of the run are named. Instead: nothing: wording only.
pub(crate) const NAMED_FILE_PART: u64 = 100;

// parts.rs

/// A run is about files when they moved this many times the network's bytes: copying, compressing and sending is about both. Instead: the
/// command's purpose.
pub(crate) const FILES_TO_NETWORK: u64 = 4;
/// A direction with less than one part in this many of the most bytes carries only requests and acknowledgements. Instead: which bytes of a
/// message are payload.
pub(crate) const WAY_PART: u64 = 100;

// round_trips/mod.rs

/// Fewer requests form no pattern: a program makes this many when it starts. Instead: the calls of the walk itself.
pub(crate) const FEWEST_QUESTIONS: u64 = 8;
/// With more bytes per request, the answers are data and the number of requests does not matter. A page of names is smaller. Instead: which
/// calls list and which read.
pub(crate) const MOST_BYTES_EACH: u64 = 32 << 10;
/// Rounds are counted only if there is at least one for every four messages: a request in a few parts, or a few at a time. With fewer,
/// threads sent for long before they received anything. Instead: which message answers which.
pub(crate) const SURE_ROUNDS: f64 = 0.25;

// round_trips/sentence.rs

/// From this part of all requests on, "one after the other" is printed for all of them. Instead: nothing: wording only.
pub(crate) const NEARLY_ALL: f64 = 0.95;
/// Parts below this share of a round trip are not mentioned: the same 5 points by which a cause must lead. Instead: nothing: wording only.
pub(crate) const WORTH_NAMING: f64 = 0.05;
/// Bound: parts of a round trip named in a sentence.
pub(crate) const PARTS: usize = 3;

// transfers.rs

/// Bound: candidates examined for a pair.
pub(crate) const NEAR_PAIRS: usize = 64;
/// Anything below one part in this many of the largest transfer is the programs' own reading and writing. Instead: the command's purpose.
pub(crate) const TRANSFER_PART: u64 = 100;
/// The two ends of a transfer may differ by headers, up to one part in this many. Instead: what a protocol adds.
pub(crate) const HEADERS_PART: u64 = 10;
/// Beside pairs, a source or sink without a counterpart must have one part in this many to be a transfer. Instead: the command's purpose.
pub(crate) const UNPAIRED_PART: u64 = 10;
/// The source and sink of one transfer may differ by headers: one part in this many (2 %). Instead: which bytes of a message are payload.
pub(crate) const PAIR_PART: u64 = 50;
/// A server's file of as many bytes, to within one part in this many (5 %), is the one transferred. Instead: the file's name in the
/// request.
pub(crate) const SAME_FILE_PART: u64 = 20;

// tuning.rs

/// Lines for a tuner's steps, of an explanation's fifteen. Instead: nothing: a matter of room.
pub(crate) const TUNING_LINES: usize = 3;

// settle.rs

/// Bound: ways to settle an answer. One is shown; the others are for programs.
pub(crate) const MOST_SETTLE: usize = 3;

// verdict.rs

/// Lead in share that makes the largest cause the limit. Repeated runs are assumed to differ by less. Instead: the interval of each share.
pub(crate) const LEAD: f64 = 0.05;
/// A sentence stops naming causes once they make up this share. Instead: nothing: wording only.
pub(crate) const NAMED_ENOUGH: f64 = 0.8;
/// A sentence names no cause below this share. Instead: nothing: wording only.
pub(crate) const NAMED_LEAST: f64 = 0.03;
/// A place with this part of a cause stands for all of it. Instead: nothing: wording only.
pub(crate) const ONE_PLACE: f64 = 0.9;

// contention.rs

/// A thread that ran for less than one part in this many of its process's running takes no part in the turns. Instead: who waited for whom
/// in each lock.
pub(crate) const TURNS_PART: u64 = 20;
/// Threads whose running adds up to no more than this multiple of the time they share hardly ever ran simultaneously: a handover takes a
/// little on both sides. Instead: how many ran at each instant.
pub(crate) const TURNS_AT_ONCE: f64 = 1.15;
/// Least part of that time in which one of the threads ran. Instead: as above.
pub(crate) const TURNS_TAKEN: f64 = 0.75;
/// Least part of the time the other threads could have run that they waited in locks. Instead: as above.
pub(crate) const TURNS_LOCKED: f64 = 0.5;

// set_limits.rs

/// A disk's limit counts when this part of it was used over the whole run: a program also does other work. Instead: when the disk was
/// throttled (a trace of the block layer's throttling).
pub(crate) const LIMIT_USED: f64 = 0.6;
/// Burst that a disk's limit allows after a pause, in seconds of its rate: the slice of the kernel's `blk-throttle`. Instead: when requests
/// were throttled (a trace of the block layer's throttling).
pub(crate) const LIMIT_BURST_S: f64 = 0.1;
/// Fewer refaulted pages are no sign of a memory limit (4 MiB). Instead: the reads they cost.
pub(crate) const REFAULTS: u64 = 1_024;

// parts.rs

/// A thread that polled at full speed for this part of the run waits by running. Instead: what it polled for.
pub(crate) const ASKED_SHARE: f64 = 0.25;

// at_a_pipe.rs

/// Least share of the time for each of two programs that take turns through a pipe. Instead: nothing: wording only.
pub(crate) const PIPE_SHARE: f64 = 0.15;
/// Least part of the other program's time that each of the two waited for it. When both run simultaneously, one waits for room and the
/// other hardly for data. Instead: how full the pipe was.
pub(crate) const PIPE_WAITED: f64 = 0.4;
/// A stretch shorter than this part of the one that holds most of its program's time is a handover, not a turn. Instead: how full the pipe
/// was.
pub(crate) const PIPE_HANDED_OVER: f64 = 0.25;
/// Least number of turns; fewer are phases of a run. Instead: nothing: wording only.
pub(crate) const PIPE_TURNS: u64 = 8;
