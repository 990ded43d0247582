//! Recordings of packets.

// calls_within.rs

/// Bound: calls of a close-up that are drawn; the longest. Instead: all, which nobody sees apart.
pub(crate) const CALL_BARS: usize = 60;

// charge.rs

/// The window is what limits from this part of it in flight on. What is in flight is sampled between packets, and a window is rarely seen
/// quite full. Instead: TCP's own count of time limited by the window.
pub(crate) const AT_WINDOW: f64 = 0.8;
/// Bound: fine bins for each step of the path.
pub(crate) const BINS_PER_STEP: usize = 4;

// close_ups.rs

/// A drain cycle is shown with as much again before and after it, so that one sees the client send. Instead: nothing; it is a picture.
pub(crate) const DRAIN_MARGIN: f64 = 1.0;
/// Lengths that differ from the median by less than this part of it are equally typical. Instead: nothing; it is a picture.
pub(crate) const NEAR_MEDIAN: f64 = 0.02;
/// A stall is shown with a quarter of it on both sides: it is long. Instead: nothing; it is a picture.
pub(crate) const STALL_MARGIN: f64 = 0.25;
/// This part of a slow beginning is shown ... Single calls are seen in a third of it. Instead: nothing; it is a picture.
pub(crate) const BEGINNING_PART: f64 = 1.0 / 3.0;
/// ... or so many of its stalls, where that is less. Instead: nothing; it is a picture.
pub(crate) const BEGINNING_GAPS: usize = 10;
/// Procedures that a sentence names. Instead: nothing; it is wording.
pub(crate) const NAMED_PROCEDURES: usize = 2;

// drains.rs

/// The queue must fall by this part of what was pending. A queue that is refilled as it is served does not fall by half. Instead: the
/// client's own limit.
pub(crate) const FALL: f64 = 0.5;
/// Fewer are no cycle. Two may be beginning and end. Instead: nothing; fewer are no cycle.
pub(crate) const LEAST_DRAINS: usize = 3;
/// A drain lasts longer than nearly all calls take. Instead: the client's own limit.
pub(crate) const TIMES_RESPONSE: f64 = 2.0;
/// Calls that are made alone, at the end of a drain. A client that refills sends more at once than this. Instead: the client's own limit.
pub(crate) const MOST_ALONE: u32 = 2;
/// Calls are pending for this part of a drain at least. What lasts because the client does nothing is no drain. Instead: what the client
/// waited for.
pub(crate) const DRAIN_WAITS: f64 = 0.5;
/// Drains that take less than this part of the time are no cycle: nobody would look for them. Instead: nothing; it is wording.
pub(crate) const DRAIN_PART: f64 = 0.01;
/// Two groups of pauses are apart where little lies between: up to so many times the middle of the two, either way ... A spread of one group
/// has a tail that Otsu's split cuts off. Instead: what the client waited for.
pub(crate) const VALLEY_WIDTH: f64 = 1.4;
/// ... there is at most this part of the smaller group's time. Instead: what the client waited for.
pub(crate) const VALLEY_PART: f64 = 0.25;
/// Bound: bins of lengths, as many as a small picture shows. Instead: nothing; it is a picture.
pub(crate) const LENGTH_BINS: usize = 24;
/// Bound: drains that are kept; of more, the longer half.
pub(crate) const KEPT_DRAINS: usize = 1 << 16;
/// With fewer pending there is no queue to drain. Instead: the client's own limit.
pub(crate) const DRAIN_PENDING: u64 = 3;
/// One reply is an exchange. Instead: the client's own limit.
pub(crate) const DRAIN_REPLIES: u64 = 2;

// mod.rs

/// A beginning at less than this part of the later rate is a slow one. Rates of steady phases are assumed to differ by less. Instead:
/// the congestion window at the beginning.
pub(crate) const SLOW_START: f64 = 0.7;
/// Bound: ports that a message names.
pub(crate) const MOST_PORTS: usize = 4;
/// A page of names; larger answers are data. Instead: nothing; procedures that read are known.
pub(crate) const WALK_BYTES_EACH: u64 = 32 << 10;
/// Fewer entries than this are no walk. Any command looks up a few names. Instead: the command.
pub(crate) const FEWEST_ENTRIES: u64 = 8;
/// What nearly all calls take. Instead: the client's own limit.
pub(crate) const NEARLY_ALL_CALLS: f64 = 0.9;

// ../runs.rs

/// A silence shorter than this is within a run. An NFS client drops a connection that is idle for 5 min, and connects again within 5 min to a server
/// that was away. Instead: when the captures began and ended.
pub(crate) const RUN_SILENCE_NS: i64 = 600_000_000_000;

// over_time.rs

/// Bound: bins of what the analysis needs; a whole number of them is one of the document's.
pub(crate) const FINE_BINS: usize = 4096;
/// Bound: bins of a series, as many as a wide picture has places.
pub(crate) const MOST_BINS: usize = 1024;
/// The most that was pending over so many completions is taken for the window, if they are more than twice as many as that. Instead: the
/// client's own limit.
pub(crate) const WINDOW_COMPLETIONS: u64 = 16;

// quiet.rs

/// Bound: intervals kept one by one; of more, the shorter half is only summed up.
pub(crate) const KEPT_INTERVALS: usize = 1 << 16;
/// A stall is so many times as long as the median ... Intervals of one kind spread less than tenfold. Instead: what the ends did meanwhile.
pub(crate) const TIMES_MEDIAN: u64 = 10;
/// ... and at least so long. Disks and schedulers take as long. Instead: what the ends did meanwhile.
pub(crate) const LEAST_STALL_NS: u64 = 10_000_000;
/// The queue is full from this part of the window on. One call of ten may be on its way back. Instead: the client's own limit.
pub(crate) const QUEUE_FULL: f64 = 0.9;
/// A mark so shortly after an interval is what ended it. A mark and the packet that ended an interval are stamped apart. Instead: nothing;
/// it is the capture's grain.
pub(crate) const AT_END_NS: i64 = 1_000_000;
/// From here on all but one pending is a full queue. Instead: the client's own limit.
pub(crate) const LEAST_WINDOW: u64 = 5;

// responses.rs

/// Bound: times that are kept as they are; with more, quantiles are within 5 %.
pub(crate) const KEPT_TIMES: usize = 1 << 16;

// sentence.rs

/// A part of the time below this is not named. Instead: nothing; it is wording.
pub(crate) const NAMED_PART: f64 = 0.05;

// sweep.rs

/// Bound: spans looked through for messages beside the calls.
pub(crate) const LAST_SPANS: usize = 100_000;

// waits.rs

/// A wait too short to be seen by itself adds to what is shown where it is so many times as long as the median quiet interval ... In a fast transfer nearly all the time is pauses between
/// packets, some for the server, some for the client: to show these as waits for one would claim what is not so. Instead: what the ends did
/// meanwhile.
pub(crate) const TIMES_USUAL_WAIT: i64 = 4;
/// ... and at least so long, as are those that are seen. A scheduler's turn and an interrupt that is put off are shorter. Instead: what the ends did meanwhile.
pub(crate) const LEAST_WAIT_NS: i64 = 1_000_000;
/// Waits of one kind are drawn as one where they are closer than one in so many of the whole: nobody sees the space between. Instead: nothing;
/// it is a picture.
pub(crate) const WAITS_NEAR: i64 = 1000;
/// What stays shorter than one in so many of the whole is left out: it is less than a place on the picture. Instead: nothing; it is a picture.
pub(crate) const WAITS_SHOWN: i64 = 1500;
/// What is drawn as a wait for one is that for this part of it at least. Instead: each by itself, which is too many.
pub(crate) const MOST_OF_IT: f64 = 0.75;
