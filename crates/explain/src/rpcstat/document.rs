//! The document `thalweg.rpcstat/1`: the RPCs of a recording, field by field.
//!
//! Times are seconds; instants are seconds after the recording's start. What could not be recorded is absent, never 0. Lists are bounded.

use serde::{Deserialize, Serialize};

/// The name and version of this document.
pub(crate) const SCHEMA: &str = "thalweg.rpcstat/1";

/// Most bins in [`Series`], unless more are requested.
pub(crate) const MAX_BINS: usize = 256;
/// Most entries in [`Stalls::longest`].
pub(crate) const MAX_STALLS: usize = 100;
/// Most entries in [`RpcStat::waits`].
pub(crate) const MAX_WAITS: usize = 400;
/// Most entries in [`DrainCycles::longest`].
pub(crate) const MAX_DRAINS: usize = 400;
/// Most entries in [`RpcStat::connections`].
pub(crate) const MAX_CONNECTIONS: usize = 64;

/// The RPCs of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RpcStat {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The recorder that made the recording.
    pub recorder: String,
    /// Second 0, in nanoseconds on the recording's axis.
    pub start_ns: i64,
    /// Length of the recording.
    pub wall_s: f64,
    /// One plain sentence.
    pub sentence: String,
    /// Number of calls, each counted once however often it was sent.
    pub calls: u64,
    /// Calls still unanswered when the recording, or their connection, ended.
    pub unanswered: u64,
    /// Calls whose head or reply was not captured: their length is unknown.
    pub not_captured: u64,
    /// Calls answered with an error.
    pub errors: u64,
    /// Calls sent again.
    pub retransmissions: u64,
    /// Calls sent again because their timer expired.
    pub timeouts: u64,
    /// TCP segments sent again.
    pub tcp_retransmissions: u64,
    /// Times that a sender's TCP waited for its timer.
    pub tcp_timeouts: u64,
    /// Bytes of calls, if recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent_bytes: Option<u64>,
    /// Bytes of replies, if recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub received_bytes: Option<u64>,
    /// Calls sent but not answered.
    pub pending: Pending,
    /// The procedures, most time first.
    pub procedures: Vec<Procedure>,
    /// Bursts of the larger direction.
    pub bursts: Bursts,
    /// Time in which nothing moved, by the pending queue.
    pub quiet: Quiet,
    /// Quiet intervals that are long compared with the others.
    pub stalls: Stalls,
    /// Recurring intervals in which nothing is sent while pending calls complete.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drain_cycles: Option<DrainCycles>,
    /// The start, if it was slower than the rest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slow_start: Option<SlowStart>,
    /// Intervals in which nothing moved, with who was waited for, in order of time. Nearly adjacent intervals of one kind are merged, and
    /// invisibly short ones left out.
    #[serde(default)]
    pub waits: Vec<WaitInterval>,
    /// Close-ups, call by call: a typical drain cycle, the longest stall, the slow start, if there are any.
    #[serde(default)]
    pub close_ups: Vec<CloseUp>,
    /// Everything over time.
    pub series: Series,
    /// Sequential calls, if calls carry answers and no data, and their number per entry of a walk.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips: Option<crate::document::RoundTrips>,
    /// The connections with most calls.
    pub connections: Vec<Connection>,
    /// The recorder's counters, name and value.
    pub recorded: Vec<(String, String)>,
    /// Further facts for the reader.
    pub notes: Vec<String>,
}

/// The pending queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// Mean over time.
    pub mean: f64,
    /// The most.
    pub max: u64,
    /// The part of the time in which nothing was pending.
    pub empty_share: f64,
    /// The visible RPC window: the median, over the time bins, of the most pending in each.
    pub window_median: u64,
    /// Its least value while calls were made.
    pub window_min: u64,
    /// Whether calls count from their sending, as packets show them: the client may have had more, in its socket or its RPC layer, so these
    /// figures are lower bounds.
    #[serde(default)]
    pub sent_only: bool,
    /// Calls waiting in the clients' sockets, if recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unsent: Option<Unsent>,
}

/// Bytes of calls in clients' sockets that TCP had not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unsent {
    /// Mean over time.
    pub mean_bytes: f64,
    /// The most.
    pub max_bytes: u64,
    /// The most as a number of calls, at the connection's mean size.
    pub max_calls: f64,
}

/// Response times of one procedure of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Procedure {
    /// The server.
    pub server: String,
    /// The program: `nfs`, `mount`, ... or its number; absent if not recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
    /// The procedure; for a compound, its main operation.
    pub name: String,
    /// Calls answered.
    pub answered: u64,
    /// Calls still unanswered when the recording, or their connection, ended.
    pub unanswered: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// Calls sent again.
    pub retransmissions: u64,
    /// Calls whose head or reply was not captured: their length is unknown.
    #[serde(default)]
    pub not_captured: u64,
    /// Whether the connections' servers call it, and their clients answer: it is not in the pending queue.
    #[serde(default)]
    pub callback: bool,
    /// Response times, from the call's last byte to the reply's last byte; absent if no reply was seen.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub min_s: Option<f64>,
    #[allow(missing_docs)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mean_s: Option<f64>,
    #[allow(missing_docs)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub median_s: Option<f64>,
    #[allow(missing_docs)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_s: Option<f64>,
    #[allow(missing_docs)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_s: Option<f64>,
    /// Their sum.
    pub total_s: f64,
    /// Bytes of calls and replies.
    pub bytes: u64,
}

/// Bursts and gaps of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// `sent` or `received`: the direction that carried more.
    pub direction: String,
    /// Number of bursts: runs of messages without a gap between them.
    pub bursts: u64,
    /// Bytes over time within them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub burst_bytes_per_s: Option<f64>,
    /// Number of idle intervals between them.
    pub gaps: u64,
    /// Their total length.
    pub gaps_total_s: f64,
    /// Their median length.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gap_median_s: Option<f64>,
    /// Their 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gap_p99_s: Option<f64>,
}

/// Time with no message in transit, by the pending queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// The queue was full: the server was waited for.
    pub full_s: f64,
    /// The queue was empty: the client was waited for.
    pub empty_s: f64,
    /// Neither, and a reply came next: the server was waited for.
    pub between_then_reply_s: f64,
    /// Neither, and a call came next: the client was waited for.
    pub between_then_call_s: f64,
    /// A message had begun, and paused in transit.
    pub within_messages_s: f64,
    /// TCP was recovering from loss.
    pub network_s: f64,
    /// Only calls in datagrams were pending that were never answered: where they were lost is unknown.
    #[serde(default)]
    pub unanswered_s: f64,
}

/// The stalls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// Least length of a stall: ten times the median quiet interval, and 10 ms.
    pub least_s: f64,
    /// Number of stalls.
    pub count: u64,
    /// Their total length.
    pub total_s: f64,
    /// Number and length by cause: `server`, `client`, `network`.
    pub by: Vec<StallsBy>,
    /// The stalls in order of time; the longest [`MAX_STALLS`] if there are more.
    pub longest: Vec<Stall>,
}

/// Stalls of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StallsBy {
    /// The cause.
    pub who: Who,
    /// Number of stalls.
    pub count: u64,
    /// Their total length.
    pub total_s: f64,
    /// Their median length.
    pub median_s: f64,
}

/// A stall.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Time it starts.
    pub start_s: f64,
    /// Length.
    pub length_s: f64,
    /// Calls pending in it.
    pub pending: u64,
    /// The RPC window before it: the most pending during the last completions.
    pub window: u64,
    /// How full the queue was.
    pub queue: Queue,
    /// The next event.
    pub ended_by: EndedBy,
    /// Whether a message began before it and continued after it.
    pub within_message: bool,
    /// Calls sent again in it, or at its end.
    pub retransmissions: u64,
    /// TCP segments sent again in it, or at its end.
    pub tcp_retransmissions: u64,
    /// Whether the receiver had closed its window.
    pub zero_window: bool,
    /// Its cause.
    pub who: Who,
    /// The reason for that.
    pub why: String,
}

/// How full the pending queue was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    /// Full: as many pending as the client allows.
    Full,
    /// Nothing was pending.
    Empty,
    /// Neither.
    Between,
}

/// The end of a quiet interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndedBy {
    /// A reply.
    Reply,
    /// A call.
    Call,
    /// A call that was sent again.
    Retransmission,
    /// The end of the recording.
    End,
}

/// The cause of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// The server did not answer.
    Server,
    /// The client made no calls.
    Client,
    /// The network lost packets.
    Network,
}

/// An interval in which nothing moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitInterval {
    /// Time it starts.
    pub start_s: f64,
    /// Time it ends.
    pub end_s: f64,
    /// Who was waited for.
    pub waited_for: WaitedFor,
}

/// Who was waited for while nothing moved, and the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitedFor {
    /// The queue was full: the server.
    ServerQueueFull,
    /// The queue was partly full, and a reply came next: the server.
    ServerQueuePartly,
    /// The queue was partly full, and a call came next: the client.
    ClientQueuePartly,
    /// The queue was empty: the client.
    ClientQueueEmpty,
    /// TCP sent again what the network had lost.
    Network,
}

/// A part of the time, call by call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CloseUp {
    /// Kind of the part.
    pub kind: CloseUpKind,
    /// Start, some time before the part.
    pub start_s: f64,
    /// Time it ends.
    pub end_s: f64,
    /// Start of the part.
    pub from_s: f64,
    /// End of the part.
    pub to_s: f64,
    /// One plain sentence about the part.
    pub sentence: String,
    /// Calls in progress, by start.
    pub calls: Vec<CallBar>,
    /// Number of calls in progress that are not listed, being shorter.
    pub left_out: u64,
}

/// The kind of a close-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloseUpKind {
    /// The drain cycle with the length nearest to the median.
    DrainCycle,
    /// The longest stall.
    Stall,
    /// The first part of a slow start.
    Beginning,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallBar {
    /// Its procedure.
    pub procedure: String,
    /// Bytes of call and reply.
    pub bytes: u64,
    /// Time it was sent; before the close-up's start if it was already in progress.
    pub start_s: f64,
    /// Time its reply had arrived.
    pub end_s: f64,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// It was answered with an error.
    Error,
    /// Unanswered when the recording or its connection ended.
    Unanswered,
    /// Its head or its reply was not captured.
    NotCaptured,
}

/// One drain cycle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drain {
    /// Time it starts.
    pub start_s: f64,
    /// Length.
    pub length_s: f64,
    /// Calls pending at its start.
    pub pending_at_start: u64,
    /// Calls pending at its end.
    pub pending_at_end: u64,
}

/// A bin of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthBin {
    /// Its lower bound, inclusive.
    pub from_s: f64,
    /// Its upper bound, exclusive.
    pub to_s: f64,
    /// Number of lengths.
    pub count: u64,
}

/// Intervals in which nothing is sent while pending calls complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrainCycles {
    /// Number of cycles.
    pub count: u64,
    /// Their median length.
    pub median_s: f64,
    /// Median time from one's start to the next.
    pub period_s: f64,
    /// Their total length.
    pub total_s: f64,
    /// Median number of calls pending at their start.
    pub pending_at_start: u64,
    /// Median number of calls pending at their end.
    pub pending_at_end: u64,
    /// The cycles in order of time; the longest 400 if there are more.
    #[serde(default)]
    pub longest: Vec<Drain>,
    /// Histogram of their lengths: at most 24 adjacent bins of equal width.
    #[serde(default)]
    pub lengths: Vec<LengthBin>,
}

/// A start slower than the rest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowStart {
    /// Its length.
    pub until_s: f64,
    /// Bytes per second until then.
    pub bytes_per_s: f64,
    /// Bytes per second after it.
    pub later_bytes_per_s: f64,
    /// Part of it in which nothing moved while the queue was full: the server was waited for.
    pub full_share: f64,
    /// Part of it in which nothing moved while the queue was empty: the client was waited for.
    pub empty_share: f64,
}

/// Everything over time, in bins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Series {
    /// Width of a bin; the first starts at second 0.
    pub bin_s: f64,
    /// Bytes of calls, per second.
    pub sent_bytes_per_s: Vec<f64>,
    /// Bytes of replies, per second.
    pub received_bytes_per_s: Vec<f64>,
    /// Calls made.
    pub calls: Vec<u64>,
    /// Replies.
    pub replies: Vec<u64>,
    pub pending_mean: Vec<f64>,
    pub pending_max: Vec<u64>,
    /// Mean response time of the replies in the bin; absent if there are none.
    pub response_mean_s: Vec<Option<f64>>,
    pub response_max_s: Vec<Option<f64>>,
    /// Their median response time.
    #[serde(default)]
    pub response_median_s: Vec<Option<f64>>,
    /// Most calls the client allows itself to have pending, if it records that; absent for packets.
    #[serde(default)]
    pub window: Vec<Option<u64>>,
    /// Largest TCP congestion window of the clients; absent if not recorded.
    #[serde(default)]
    pub cwnd_bytes: Vec<Option<u64>>,
    pub retransmissions: Vec<u64>,
    pub timeouts: Vec<u64>,
    pub tcp_retransmissions: Vec<u64>,
    /// Most bytes that clients had sent and servers not acknowledged.
    pub in_flight_bytes: Vec<Option<u64>>,
    /// The least window that servers offered.
    pub receive_window_bytes: Vec<Option<u64>>,
    /// Most bytes in clients' sockets that TCP had not sent.
    #[serde(default)]
    pub unsent_bytes: Vec<Option<u64>>,
}

/// One connection, or one calling thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// `CLIENT:PORT > SERVER:PORT`, or the thread's name.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Bytes of calls and replies.
    pub bytes: u64,
    /// The smoothed round-trip time at the end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub srtt_s: Option<f64>,
}

impl RpcStat {
    /// Bytes of the larger direction, and whether they were sent to servers.
    pub fn most_bytes(&self) -> (u64, bool) {
        let (sent, received) = (self.sent_bytes.unwrap_or(0), self.received_bytes.unwrap_or(0));
        (sent.max(received), sent >= received)
    }

    /// Whether the recording has a length: messages at one instant have no time to charge, and no rate.
    pub fn has_length(&self) -> bool {
        // An instant is one nanosecond long, so that it can be drawn.
        self.wall_s > 1.5e-9
    }

    /// Bytes per second of the larger direction; `None` for calls at one instant, or if none was answered.
    pub fn rate_bytes_per_s(&self) -> Option<f64> {
        let is_answered = self.calls > self.unanswered;
        (self.has_length() && is_answered).then(|| self.most_bytes().0 as f64 / self.wall_s)
    }

    /// The document as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("the document has no maps with odd keys and no other way to fail")
    }
}
