//! The document `thalweg.rpcstat/1`: what the RPCs of a recording say, field by field.
//!
//! Times are seconds; instants are seconds after the recording's start. What could not be had is absent, never 0. Lists are
//! bounded.

use serde::{Deserialize, Serialize};

/// The name and version of this document.
pub(crate) const SCHEMA: &str = "thalweg.rpcstat/1";

/// At most this many bins in [`Series`], unless more are asked for.
pub(crate) const MAX_BINS: usize = 256;
/// At most this many entries in [`Stalls::longest`].
pub(crate) const MAX_STALLS: usize = 100;
/// At most this many entries in [`RpcStat::waits`].
pub(crate) const MAX_WAITS: usize = 400;
/// At most this many entries in [`DrainCycles::longest`].
pub(crate) const MAX_DRAINS: usize = 400;
/// At most this many entries in [`RpcStat::connections`].
pub(crate) const MAX_CONNECTIONS: usize = 64;

/// What the RPCs of a recording say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RpcStat {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Which recorder made the recording.
    pub recorder: String,
    /// Where second 0 is, in nanoseconds on the recording's axis.
    pub start_ns: i64,
    /// How long the recording is.
    pub wall_s: f64,
    /// One plain sentence.
    pub sentence: String,
    /// Calls, each counted once however often it was sent.
    pub calls: u64,
    /// Calls that were unanswered when the recording ended, or their connection did.
    pub unanswered: u64,
    /// Calls of which the recording lacks the head or the reply: how long they took is not known.
    pub not_captured: u64,
    /// Calls that were answered with an error.
    pub errors: u64,
    /// Calls sent again.
    pub retransmissions: u64,
    /// Calls sent again because their timer expired.
    pub timeouts: u64,
    /// TCP segments sent again.
    pub tcp_retransmissions: u64,
    /// Times that a sender's TCP waited for its timer.
    pub tcp_timeouts: u64,
    /// Bytes of calls, where the recording says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent_bytes: Option<u64>,
    /// Bytes of replies, where the recording says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub received_bytes: Option<u64>,
    /// Calls sent and unanswered.
    pub pending: Pending,
    /// The procedures, most time first.
    pub procedures: Vec<Procedure>,
    /// When the larger direction's bytes moved.
    pub bursts: Bursts,
    /// Time in which nothing moved, by what was pending.
    pub quiet: Quiet,
    /// Quiet intervals that are long against the others.
    pub stalls: Stalls,
    /// Intervals in which nothing is sent while pending calls complete, where they recur.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drain_cycles: Option<DrainCycles>,
    /// The beginning, where it was slower than what followed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slow_start: Option<SlowStart>,
    /// When nothing moved, by whom everyone waited for, in order of time. Intervals of one kind that nearly touch are one, and what is too short to
    /// be seen is left out.
    #[serde(default)]
    pub waits: Vec<WaitInterval>,
    /// Parts that show what goes on, call by call: a typical drain cycle, the longest stall, the slow beginning, where there are such.
    #[serde(default)]
    pub close_ups: Vec<CloseUp>,
    /// All of it over time.
    pub series: Series,
    /// Where calls carry answers and no data: how many were one after the other, and what that is for each entry of a walk.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips: Option<crate::document::RoundTrips>,
    /// The connections that carried most calls.
    pub connections: Vec<Connection>,
    /// What the recorder counted, name and value.
    pub recorded: Vec<(String, String)>,
    /// What a reader must know besides.
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
    /// The RPC window as it shows: the median over the time bins of the most that was pending in each.
    pub window_median: u64,
    /// ... its least value while calls were made.
    pub window_min: u64,
    /// Calls count from when they were sent, as packets show them: the client may have had more, which waited in its socket or its RPC layer, so
    /// that all of this is *at least*.
    #[serde(default)]
    pub sent_only: bool,
    /// What waited in the clients' sockets, where the recording says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unsent: Option<Unsent>,
}

/// Bytes of calls that clients had handed to their sockets and TCP had not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unsent {
    /// Mean over time.
    pub mean_bytes: f64,
    /// The most.
    pub max_bytes: u64,
    /// The most in calls, at the connection's mean size of a call.
    pub max_calls: f64,
}

/// Response times of one procedure of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Procedure {
    /// The server.
    pub server: String,
    /// The program: `nfs`, `mount`, ... or its number; absent where the recording does not say.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
    /// The procedure; of a compound, the operation it is about.
    pub name: String,
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that were unanswered when the recording ended, or their connection did.
    pub unanswered: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// Calls sent again.
    pub retransmissions: u64,
    /// Calls of which the recording lacks the head or the reply: how long they took is not known.
    #[serde(default)]
    pub not_captured: u64,
    /// Whether the connections' servers call it, and their clients answer: it is not in the pending queue.
    #[serde(default)]
    pub callback: bool,
    /// Response times, from the call's last byte to the reply's last byte; none, where no reply was seen.
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
    /// All together.
    pub total_s: f64,
    /// Bytes of calls and replies.
    pub bytes: u64,
}

/// Bursts and gaps of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// `sent` or `received`: the direction that carried more.
    pub direction: String,
    /// Runs of messages without a gap between them.
    pub bursts: u64,
    /// Bytes over time within them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub burst_bytes_per_s: Option<f64>,
    /// The idle intervals between them.
    pub gaps: u64,
    /// All together.
    pub gaps_total_s: f64,
    /// Their median length.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gap_median_s: Option<f64>,
    /// Their 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gap_p99_s: Option<f64>,
}

/// Time in which no message was on its way, by what was pending then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// The queue was full: everyone waited for the server.
    pub full_s: f64,
    /// The queue was empty: everyone waited for the client.
    pub empty_s: f64,
    /// It was neither, and a reply came next: the server's.
    pub between_then_reply_s: f64,
    /// It was neither, and a call came next: the client's.
    pub between_then_call_s: f64,
    /// A message had begun, and paused on its way.
    pub within_messages_s: f64,
    /// TCP was recovering what the network had lost.
    pub network_s: f64,
    /// Only calls in datagrams were pending that nobody ever answered: who lost them is not known.
    #[serde(default)]
    pub unanswered_s: f64,
}

/// The stalls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// From which length on a quiet interval is one: ten times their median, and 10 ms.
    pub least_s: f64,
    /// How many.
    pub count: u64,
    /// All together.
    pub total_s: f64,
    /// How many are whose, and how long: `server`, `client`, `network`.
    pub by: Vec<StallsBy>,
    /// In order of time; the longest [`MAX_STALLS`] where there are more.
    pub longest: Vec<Stall>,
}

/// Stalls by who made them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StallsBy {
    /// Who.
    pub who: Who,
    /// How many.
    pub count: u64,
    /// All together.
    pub total_s: f64,
    /// Their median length.
    pub median_s: f64,
}

/// A stall.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// When it began.
    pub start_s: f64,
    /// How long it was.
    pub length_s: f64,
    /// Calls pending in it.
    pub pending: u64,
    /// The RPC window before it: the most that was pending during the last completions.
    pub window: u64,
    /// How full the queue was.
    pub queue: Queue,
    /// What came next.
    pub ended_by: EndedBy,
    /// Whether a message had begun before it and went on after it.
    pub within_message: bool,
    /// Calls sent again in it, or at its end.
    pub retransmissions: u64,
    /// TCP segments sent again in it, or at its end.
    pub tcp_retransmissions: u64,
    /// Whether the receiver had closed its window.
    pub zero_window: bool,
    /// Whose it is.
    pub who: Who,
    /// Why that is said.
    pub why: String,
}

/// How full the pending queue was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    /// As full as the client lets it become.
    Full,
    /// Nothing was pending.
    Empty,
    /// Neither.
    Between,
}

/// What ends a quiet interval.
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

/// Whose a stall is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// The server did not answer.
    Server,
    /// The client did not ask.
    Client,
    /// The network lost what was sent.
    Network,
}

/// An interval in which nothing moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitInterval {
    /// When it began.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// Whom everyone waited for.
    pub waited_for: WaitedFor,
}

/// Whom everyone waited for while nothing moved, and how that shows.
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
    /// What it shows.
    pub kind: CloseUpKind,
    /// Where it begins, some time before what it shows.
    pub start_s: f64,
    /// Where it ends.
    pub end_s: f64,
    /// Where what it shows begins.
    pub from_s: f64,
    /// Where that ends.
    pub to_s: f64,
    /// What it shows, in one plain sentence.
    pub sentence: String,
    /// Calls under way in it, in order of their start.
    pub calls: Vec<CallBar>,
    /// Calls under way in it that are not listed: they are shorter than those that are.
    pub left_out: u64,
}

/// What a close-up shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloseUpKind {
    /// The drain cycle whose length is nearest to the median.
    DrainCycle,
    /// The longest stall.
    Stall,
    /// The first part of a slow beginning.
    Beginning,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallBar {
    /// Its procedure.
    pub procedure: String,
    /// Its bytes, of call and reply.
    pub bytes: u64,
    /// When it was sent; before the close-up's start where it was under way then.
    pub start_s: f64,
    /// When its reply was there.
    pub end_s: f64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// It was answered with an error.
    Error,
    /// It was unanswered when the recording or its connection ended.
    Unanswered,
    /// Its head or its reply was not captured.
    NotCaptured,
}

/// One drain cycle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drain {
    /// When it began.
    pub start_s: f64,
    /// How long it lasted.
    pub length_s: f64,
    /// Calls pending at its start.
    pub pending_at_start: u64,
    /// ... and at its end.
    pub pending_at_end: u64,
}

/// How many are so long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthBin {
    /// From this length on.
    pub from_s: f64,
    /// To below this one.
    pub to_s: f64,
    /// How many.
    pub count: u64,
}

/// Intervals in which nothing is sent while pending calls complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrainCycles {
    /// How many.
    pub count: u64,
    /// Their median length.
    pub median_s: f64,
    /// From one's start to the next, the median.
    pub period_s: f64,
    /// All together.
    pub total_s: f64,
    /// Calls pending at their start, the median.
    pub pending_at_start: u64,
    /// ... and at their end.
    pub pending_at_end: u64,
    /// In order of time; the longest 400 where there are more.
    #[serde(default)]
    pub longest: Vec<Drain>,
    /// How many are how long: at most 24 bins of one width, which touch.
    #[serde(default)]
    pub lengths: Vec<LengthBin>,
}

/// The beginning was slower than what followed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowStart {
    /// How long it lasted.
    pub until_s: f64,
    /// Bytes per second until then.
    pub bytes_per_s: f64,
    /// Bytes per second after it.
    pub later_bytes_per_s: f64,
    /// The part of it in which nothing moved while the queue was full: the server.
    pub full_share: f64,
    /// The part of it in which nothing moved while the queue was empty: the client.
    pub empty_share: f64,
}

/// Everything over time, in bins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Series {
    /// Width of a bin; the first begins at second 0.
    pub bin_s: f64,
    /// Bytes of calls, per second.
    pub sent_bytes_per_s: Vec<f64>,
    /// Bytes of replies, per second.
    pub received_bytes_per_s: Vec<f64>,
    /// Calls posted.
    pub calls: Vec<u64>,
    /// Replies.
    pub replies: Vec<u64>,
    pub pending_mean: Vec<f64>,
    pub pending_max: Vec<u64>,
    /// Mean response time of the replies in the bin; absent where there are none.
    pub response_mean_s: Vec<Option<f64>>,
    pub response_max_s: Vec<Option<f64>>,
    /// Their median.
    #[serde(default)]
    pub response_median_s: Vec<Option<f64>>,
    /// How many calls the client lets itself have pending, where it says so itself; absent in packets.
    #[serde(default)]
    pub window: Vec<Option<u64>>,
    /// The clients' TCP congestion window, the most; absent where it was not recorded.
    #[serde(default)]
    pub cwnd_bytes: Vec<Option<u64>>,
    pub retransmissions: Vec<u64>,
    pub timeouts: Vec<u64>,
    pub tcp_retransmissions: Vec<u64>,
    /// The most that clients had sent and servers not acknowledged.
    pub in_flight_bytes: Vec<Option<u64>>,
    /// The least window that servers offered.
    pub receive_window_bytes: Vec<Option<u64>>,
    /// The most that clients had handed to their sockets and TCP had not sent.
    #[serde(default)]
    pub unsent_bytes: Vec<Option<u64>>,
}

/// One connection, or one thread that calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// `CLIENT:PORT > SERVER:PORT`, or the thread's name.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Bytes of calls and replies.
    pub bytes: u64,
    /// The smoothed round-trip time, at the end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub srtt_s: Option<f64>,
}

impl RpcStat {
    /// Bytes of the direction that carried more, and whether they were sent to servers.
    pub fn most_bytes(&self) -> (u64, bool) {
        let (sent, received) = (self.sent_bytes.unwrap_or(0), self.received_bytes.unwrap_or(0));
        (sent.max(received), sent >= received)
    }

    /// Whether it has a length: of messages at one instant no time can be charged, and no rate said.
    pub fn has_length(&self) -> bool {
        // An instant is one nanosecond long, so that it can be drawn.
        self.wall_s > 1.5e-9
    }

    /// Bytes per second of the direction that carried more; none of calls at one instant, or of which none was answered.
    pub fn rate_bytes_per_s(&self) -> Option<f64> {
        let is_answered = self.calls > self.unanswered;
        (self.has_length() && is_answered).then(|| self.most_bytes().0 as f64 / self.wall_s)
    }

    /// The document as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("the document has no maps with odd keys and no other way to fail")
    }
}
