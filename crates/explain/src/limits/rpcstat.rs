//! Thresholds for recordings of packets.

// calls_within.rs

/// Bound: calls drawn in a close-up, the longest ones. Instead: all, which could not be told apart.
pub(crate) const CALL_BARS: usize = 60;

// charge.rs

/// The window limits once this part of it is in flight: bytes in flight are sampled between packets, and a window is rarely seen quite
/// full. Instead: TCP's own count of time limited by the window.
pub(crate) const AT_WINDOW: f64 = 0.8;
/// Bound: fine bins for each step of the path.
pub(crate) const BINS_PER_STEP: usize = 4;

// close_ups.rs

/// A drain cycle is shown with this multiple of its length before and after it, so that the client's sends are visible. Instead: nothing;
/// it is a picture.
pub(crate) const DRAIN_MARGIN: f64 = 1.0;
/// Lengths within this part of the median are equally typical. Instead: nothing: drawing only.
pub(crate) const NEAR_MEDIAN: f64 = 0.02;
/// A stall is shown with this part of its length on both sides. Instead: nothing: drawing only.
pub(crate) const STALL_MARGIN: f64 = 0.25;
/// Part of a slow start that is shown: single calls are visible in a third of it. Instead: nothing: drawing only.
pub(crate) const BEGINNING_PART: f64 = 1.0 / 3.0;
/// Number of its stalls that are shown, if that is less. Instead: nothing: drawing only.
pub(crate) const BEGINNING_GAPS: usize = 10;
/// Procedures named in a sentence. Instead: nothing: wording only.
pub(crate) const NAMED_PROCEDURES: usize = 2;

// drains.rs

/// Least part of the pending calls by which the queue must fall: a queue refilled as it is served does not fall by half. Instead: the
/// client's own limit.
pub(crate) const FALL: f64 = 0.5;
/// Fewer drains are no cycle: two may be start and end. Instead: nothing: fewer are no cycle.
pub(crate) const LEAST_DRAINS: usize = 3;
/// A drain lasts longer than this multiple of nearly all calls' response times. Instead: the client's own limit.
pub(crate) const TIMES_RESPONSE: f64 = 2.0;
/// Most calls made alone at the end of a drain: a client that refills sends more at a time. Instead: the client's own limit.
pub(crate) const MOST_ALONE: u32 = 2;
/// Least part of a drain in which calls are pending: what lasts because the client is idle is no drain. Instead: what the client waited
/// for.
pub(crate) const DRAIN_WAITS: f64 = 0.5;
/// Drains with a smaller part of the time are not reported. Instead: nothing: wording only.
pub(crate) const DRAIN_PART: f64 = 0.01;
/// Two groups of pauses are separate if little lies within this factor of their middle, either way: a single group has a tail that Otsu's
/// split cuts off. Instead: what the client waited for.
pub(crate) const VALLEY_WIDTH: f64 = 1.4;
/// Most time in that valley, as a part of the smaller group's time. Instead: what the client waited for.
pub(crate) const VALLEY_PART: f64 = 0.25;
/// Bound: bins of lengths, as many as a small picture shows. Instead: nothing: drawing only.
pub(crate) const LENGTH_BINS: usize = 24;
/// Bound: drains kept; beyond it, the longer half.
pub(crate) const KEPT_DRAINS: usize = 1 << 16;
/// With fewer pending calls there is no queue to drain. Instead: the client's own limit.
pub(crate) const DRAIN_PENDING: u64 = 3;
/// Least replies in a drain: one reply is a single exchange. Instead: the client's own limit.
pub(crate) const DRAIN_REPLIES: u64 = 2;

// mod.rs

/// A start at less than this part of the later rate is slow: steady phases are assumed to differ by less. Instead: the congestion window at
/// the start.
pub(crate) const SLOW_START: f64 = 0.7;
/// Bound: ports named in a message.
pub(crate) const MOST_PORTS: usize = 4;
/// Largest answer that is a page of names; larger ones are data. Instead: nothing; procedures that read are known.
pub(crate) const WALK_BYTES_EACH: u64 = 32 << 10;
/// Fewer entries are no walk: any command looks up a few names. Instead: the command.
pub(crate) const FEWEST_ENTRIES: u64 = 8;
/// Quantile of response times that stands for nearly all calls. Instead: the client's own limit.
pub(crate) const NEARLY_ALL_CALLS: f64 = 0.9;

// ../runs.rs

/// A shorter silence is within a run: an NFS client drops a connection after 5 min idle, and reconnects within 5 min to a server that was
/// away. Instead: when the captures began and ended.
pub(crate) const RUN_SILENCE_NS: i64 = 600_000_000_000;

// over_time.rs

/// Bound: bins of the analysis; a whole number of them makes one of the document's.
pub(crate) const FINE_BINS: usize = 4096;
/// Bound: bins of a series, as many as a wide picture has pixels.
pub(crate) const MOST_BINS: usize = 1024;
/// The most calls pending over this many completions is the window, if there are more than twice as many completions. Instead: the client's
/// own limit.
pub(crate) const WINDOW_COMPLETIONS: u64 = 16;

// quiet.rs

/// Bound: intervals kept separately; of more, the shorter half is only summed up.
pub(crate) const KEPT_INTERVALS: usize = 1 << 16;
/// Least length of a stall, as a multiple of the median: intervals of one kind spread less than tenfold. Instead: what the ends did
/// meanwhile.
pub(crate) const TIMES_MEDIAN: u64 = 10;
/// Least length of a stall: disks and schedulers take this long. Instead: what the ends did meanwhile.
pub(crate) const LEAST_STALL_NS: u64 = 10_000_000;
/// The queue is full from this part of the window on: one call of ten may be on its way back. Instead: the client's own limit.
pub(crate) const QUEUE_FULL: f64 = 0.9;
/// A mark within this time after an interval is what ended it: the mark and the packet that ended the interval have separate time stamps.
/// Instead: nothing: the capture's resolution.
pub(crate) const AT_END_NS: i64 = 1_000_000;
/// From this window on, all but one pending is a full queue. Instead: the client's own limit.
pub(crate) const LEAST_WINDOW: u64 = 5;

// responses.rs

/// Bound: times kept exactly; with more, quantiles are within 5 %.
pub(crate) const KEPT_TIMES: usize = 1 << 16;

// sentence.rs

/// Parts of the time below this are not named. Instead: nothing: wording only.
pub(crate) const NAMED_PART: f64 = 0.05;

// sweep.rs

/// Bound: spans searched for messages beside the calls.
pub(crate) const LAST_SPANS: usize = 100_000;

// waits.rs

/// A wait too short to be seen alone is added to a visible one if it lasts this multiple of the median quiet interval: in a fast transfer
/// nearly all the time is pauses between packets, some for the server and some for the client, and showing these as waits for one end would
/// be wrong. Instead: what the ends did meanwhile.
pub(crate) const TIMES_USUAL_WAIT: i64 = 4;
/// Shorter waits are not shown: a scheduler turn or a deferred interrupt causes them. Instead: what the ends did meanwhile.
pub(crate) const LEAST_WAIT_NS: i64 = 1_000_000;
/// Waits of one kind are drawn as one where the space between them is below one part in this many of the whole. Instead: nothing; it is a
/// picture.
pub(crate) const WAITS_NEAR: i64 = 1000;
/// Waits shorter than one part in this many of the whole, less than a pixel, are left out. Instead: nothing: drawing only.
pub(crate) const WAITS_SHOWN: i64 = 1500;
/// Least part of a drawn wait that is of its kind. Instead: each separately, which is too many.
pub(crate) const MOST_OF_IT: f64 = 0.75;
