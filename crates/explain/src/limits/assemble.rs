//! What is said, and of what.

// carried.rs

/// What TCP counted stands for all that was handed over when it covers so many tenths of it. Instead: TCP's counters for every connection.
pub(crate) const CARRIED_TENTHS: u128 = 9;

// ending.rs

/// A call that failed so long before the command's end, or less, is why it failed. Instead: the program's own decision.
pub(crate) const FAILED_BEFORE_NS: i64 = 1_000_000_000;

// killed.rs

/// Bound: from a process to what it runs through others, each started by the one before.
pub(crate) const GENERATIONS: usize = 8;

// lookups.rs

/// What is asked within so long is one question, for several kinds of record: resolvers send both at once, and ask again after a second or more. Instead: which
/// call of the resolver's library asked.
pub(crate) const ASKED_TOGETHER_NS: i64 = 20_000_000;
/// A server that a resolver of this machine asks for others has this part of what those waited for, or more. Instead: which question was asked for which.
pub(crate) const ASKED_ON_PART: f64 = 0.5;

// sharing.rs

/// Others had the device for a third of the waits: without them those would be shorter by as much. Instead: nothing; it is what is worth saying first.
pub(crate) const SHARED_NAMED_FIRST: f64 = 1.0 / 3.0;
/// Others had it for half of the waits: that is what it is about. Instead: nothing; it is what "most" means.
pub(crate) const SHARED_LARGER: f64 = 0.5;
/// Who had it for less than a twentieth is not named. Instead: nothing; it is wording.
pub(crate) const SHARED_WORTH_SAYING: f64 = 0.05;
/// Bound: so many are named in the evidence.
pub(crate) const SHARED_NAMED: usize = 3;
/// Of what was written back, recorded programs can have written half at the most. Instead: which file a page that is written back is of.
pub(crate) const FOREIGN_WRITEBACK: u64 = 2;

// links.rs

/// Least bytes from an unrecorded server at which other users of the link are named: with fewer, the run did not wait for the link.
/// Instead: what a server waited for.
pub(crate) const LINK_BYTES: u64 = 1 << 20;

// ceiling.rs

/// What runs at this part of what it can is doing well. Ceilings themselves are measured to within a tenth. Instead: the ceiling's own
/// interval.
pub(crate) const WELL: f64 = 0.9;
/// Where another cause has this part of the time, a link that is full is not all that there is. Instead: what may go on beside what.
pub(crate) const ANOTHER_STAGE: f64 = 0.2;

// circumstances.rs

/// Of a track sampled for less, samples say nothing of where it ran. Ten samples. Instead: nothing; fewer have no share.
pub(crate) const ENOUGH_SAMPLED_NS: u64 = 10_000_000;
/// Copying into the page cache, with its pages: 3 to 6 GB/s on machines seen. Instead: the price of the program's own writes that are not synced.
pub(crate) const COPIED_NS_PER_BYTE: f64 = 0.2;
/// Of a charge sampled for less, its functions are not shown. Thirty samples: a function with a third of them has 18 to 51 %. Instead: nothing.
pub(crate) const ENOUGH_PROFILED_NS: u64 = 30_000_000;
/// Bound: functions that are shown of a charge.
pub(crate) const HOTTEST: usize = 3;

// waiting.rs

/// Bound: stacks of waits that are shown of a charge. One line each, under a charge that has one line itself.
pub(crate) const LONGEST_WAITS: usize = 3;
/// Of a wait of which less was on the path, no stack is shown. Recorders take stacks of waits of a millisecond; less of one is its edge. Instead:
/// nothing; it is wording.
pub(crate) const SHORTEST_WAIT_NS: u64 = 1_000_000;

// evidence.rs

/// A twentieth of the charge was sampled at least. Instead: nothing; fewer samples have no share.
pub(crate) const SAMPLED_PART: u64 = 20;
/// One interval is worth a word when it is so many times the median. Instead: nothing; it is wording.
pub(crate) const OUTLIER_TIMES: u64 = 8;
/// And when it is as long as this: shorter ones nobody can do anything about. Instead: nothing; it is wording.
pub(crate) const OUTLIER_NS: u64 = 1_000_000;
/// From here on no data is said to have been under way at all. Instead: nothing; it is wording.
pub(crate) const IDLE_NEARLY_ALL: f64 = 0.9;
/// From here on the idle part is worth a word. Instead: nothing; it is wording.
pub(crate) const IDLE_PART: f64 = 0.25;
/// Samples name what a thread ran in where one class has so many tenths of them. Instead: call stacks.
pub(crate) const SAMPLED_TENTHS: u64 = 3;
/// A call is named that has a twentieth of the samples in calls on names. Instead: nothing; it is wording.
pub(crate) const CALL_PART: f64 = 20.0;

// mod.rs

/// Bound: files that all have names in places.
pub(crate) const FEW_FILES: usize = 16;
/// Running in calls on names is metadata from this part on; any program opens some files. Instead: every system call.
pub(crate) const ON_NAMES_PART: f64 = 0.05;
/// Of many files those are named that took a hundredth of the run. Instead: nothing; it is wording.
pub(crate) const NAMED_FILE_PART: u64 = 100;

// parts.rs

/// A run is about files when so many times as many bytes went to them as over the network: what is copied, compressed and sent is about
/// both. Instead: what the command is for.
pub(crate) const FILES_TO_NETWORK: u64 = 4;
/// A way with less than a hundredth of the most bytes is requests and acknowledgements. Instead: which bytes of a message are payload.
pub(crate) const WAY_PART: u64 = 100;

// round_trips/mod.rs

/// Fewer questions than this are no pattern. A program asks as many to begin. Instead: the calls of the walk itself.
pub(crate) const FEWEST_QUESTIONS: u64 = 8;
/// With more bytes than this for each question, what was asked for is data, and questions are not what it is about. A page of names; larger
/// answers are data. Instead: which calls list and which read.
pub(crate) const MOST_BYTES_EACH: u64 = 32 << 10;
/// Of messages, rounds are counted where there is one for every four at least: a request in a few parts, or a few at a time. With fewer, threads sent
/// for long before they took anything. Instead: which message answers which.
pub(crate) const SURE_ROUNDS: f64 = 0.25;

// round_trips/sentence.rs

/// From this part of all questions on, "one after the other" is said of all of them. From here on a reader would say "all". Instead:
/// nothing; it is wording.
pub(crate) const NEARLY_ALL: f64 = 0.95;
/// Parts below this share of a round trip go without mention. The same 5 points by which a cause must lead. Instead: nothing; it is
/// wording.
pub(crate) const WORTH_NAMING: f64 = 0.05;
/// Bound: parts of a round trip that a sentence names.
pub(crate) const PARTS: usize = 3;

// transfers.rs

/// Bound: candidates looked through for a pair.
pub(crate) const NEAR_PAIRS: usize = 64;
/// What moved less than a hundredth of the most is what programs read and write for themselves. Instead: what the command is for.
pub(crate) const TRANSFER_PART: u64 = 100;
/// What the two ends of a transfer differ by is headers, up to a tenth. Instead: what a protocol adds.
pub(crate) const HEADERS_PART: u64 = 10;
/// Beside pairs, what has no other end must be so large to be a transfer. Instead: what the command is for.
pub(crate) const UNPAIRED_PART: u64 = 10;
/// Source and sink of one transfer differ by headers: 2 %. Instead: which bytes of a message are payload.
pub(crate) const PAIR_PART: u64 = 50;
/// A server's file of as many bytes, within 5 %, is the one that was transferred. Instead: the file's name in the request.
pub(crate) const SAME_FILE_PART: u64 = 20;

// tuning.rs

/// A tuner's story has so many lines of an explanation's fifteen. Instead: nothing; it is room.
pub(crate) const TUNING_LINES: usize = 3;

// verdict.rs

/// The largest cause limits when it leads by so much. Shares of repeated runs are assumed to differ by less. Instead: the interval of each share.
pub(crate) const LEAD: f64 = 0.05;
/// A sentence stops naming causes when they make up this share. Instead: nothing; it is wording.
pub(crate) const NAMED_ENOUGH: f64 = 0.8;
/// Nor does it name one below this share. Instead: nothing; it is wording.
pub(crate) const NAMED_LEAST: f64 = 0.03;
/// With this part of a cause, a place is said to be all of it. Instead: nothing; it is wording.
pub(crate) const ONE_PLACE: f64 = 0.9;

// contention.rs

/// A thread that ran for less than this part of its process's running had no turn worth counting (a twentieth). Instead: who waited for whom in
/// each lock.
pub(crate) const TURNS_PART: u64 = 20;
/// Threads that together ran for no longer than this, of the time in which there were several, hardly ever ran at once: handing on takes a little on
/// both sides. Instead: how many ran at each instant.
pub(crate) const TURNS_AT_ONCE: f64 = 1.15;
/// And somebody ran for most of it. Instead: the same.
pub(crate) const TURNS_TAKEN: f64 = 0.75;
/// And the others waited in locks for at least so much of the time that they might have run. Instead: the same.
pub(crate) const TURNS_LOCKED: f64 = 0.5;

// set_limits.rs

/// A limit of a disk counts where so much of it was used, over the whole run: a program does something else besides. Instead: when the disk was
/// held back (a trace of the block layer's throttling).
pub(crate) const LIMIT_USED: f64 = 0.6;
/// What a limit of a disk lets through at once after a pause, in seconds of its rate: the slice of the kernel's `blk-throttle`. Instead: when requests
/// were held back (a trace of the block layer's throttling).
pub(crate) const LIMIT_BURST_S: f64 = 0.1;
/// Fewer pages read again than this are no sign of a memory limit: 4 MiB. Instead: the reads that they cost.
pub(crate) const REFAULTS: u64 = 1_024;

// parts.rs

/// A thread that asked at full speed for this part of the run waits by running. Instead: what it asked for.
pub(crate) const ASKED_SHARE: f64 = 0.25;

// at_a_pipe.rs

/// Each of two programs that take turns through a pipe has this part of the time at the least. Instead: nothing; it is wording.
pub(crate) const PIPE_SHARE: f64 = 0.15;
/// Each waited for the other for this part of the time that the other had. Of two that work at once, one waits for room and the other hardly for
/// data. Instead: how full the pipe was.
pub(crate) const PIPE_WAITED: f64 = 0.4;
/// What is shorter than this part of the stretch in which most of its program's time lay is handing over, and no turn. Instead: how full the pipe was.
pub(crate) const PIPE_HANDED_OVER: f64 = 0.25;
/// They take turns so often at the least; fewer are phases of a run. Instead: nothing; it is wording.
pub(crate) const PIPE_TURNS: u64 = 8;
