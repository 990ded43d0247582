//! The document: what an explanation says, field by field. It is the contract others build on.
//!
//! Times are seconds after [`Explanation::start_ns`] on the reference host's axis, unless the name says
//! otherwise; `where` is a place a person recognises. What could not be had is absent, never 0. Lists are
//! bounded, so that a document of a recording of any length stays small. `explain.schema.json` describes
//! the same document to other languages; a test holds the two together.

mod gaps;
mod number;
mod runs;
mod verdict;
mod waits;
mod what_if;

pub use gaps::{Gap, GapGroup, GapPart, Gaps};
pub use number::{Number, NumberKind};
pub use runs::{Leading, Repeated};
pub use verdict::{Second, Status, Verdict};
pub use waits::WaitStack;
pub use what_if::{Advice, Grounds, Model, WhatIf};

use crate::cause::Cause;
use crate::rule::Applied;
use serde::{Deserialize, Serialize};

/// The name and version of this document. A field may be added under one version; none changes its meaning.
pub(crate) const SCHEMA: &str = "thalweg.explain/1";

/// Where the time of one recording went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The command recorded.
    pub command: Vec<String>,
    /// Which recorder made the recording.
    pub recorder: String,
    /// How many events were lost; what rests on them is weaker by that much.
    pub dropped_events: u64,
    /// Where second 0 of this document is, in nanoseconds on the reference host's axis.
    pub start_ns: i64,
    /// How long the interval explained is: the command, from its start to its exit.
    pub wall_s: f64,
    /// How many bytes were transferred, all transfers together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_bytes: Option<u64>,
    /// `size_bytes` over `wall_s`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bytes_per_s: Option<f64>,
    /// The other runs of the command, where it was run several times (`explain -n`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repeated: Option<Repeated>,
    /// The devices that the recorded store, or a copy's source, only pretended to have: `disk 200 MiB/s, link 2 Gb/s, round trip 200 µs`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub emulated: Option<String>,
    /// Whether the figures can be relied on. Where not, the text withholds the sentence and all changes; they stand here for what they are worth.
    #[serde(default = "yes")]
    pub reliable: bool,
    /// Why they cannot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unreliable_because: Option<String>,
    /// The run in a few lines, in the reader's words.
    #[serde(default)]
    pub summary: Summary,
    /// What limits, in one word and in one sentence.
    pub verdict: Verdict,
    /// The wall time, charged: largest first; seconds sum to `wall_s`, shares to 1 (± 0.001).
    pub critical_path: Vec<Charge>,
    /// The critical path in order of time, for pictures: segments touch, and cover the wall time. At most
    /// [`MAX_SEGMENTS`]; where there were more, a segment stands for its neighbours, so that shares over many are right.
    pub path: Vec<Segment>,
    /// What was moved from where to where: at most [`MAX_TRANSFERS`], those that moved most, in order of time.
    pub transfers: Vec<Transfer>,
    /// The transfers besides; absent where all are listed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unlisted_transfers: Option<Unlisted>,
    /// The phases of the transfer, in order of time.
    pub phases: Vec<Phase>,
    /// The tracks whose bytes are the transfer; first the sum of each direction (`aggregate`), then, at
    /// most [`MAX_CHANNELS`], the connections that moved most.
    pub channels: Vec<Channel>,
    /// Bytes over time; absent when no bytes were seen.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub throughput: Option<Throughput>,
    /// What each thread did, busiest first; at most [`MAX_TRACKS`].
    pub tracks: Vec<Utilisation>,
    /// What was asked and waited for, in a run that is about answers and not about data (a walk of a directory, say).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips: Option<RoundTrips>,
    /// What TCP shows of connections that carry no RPC known here, in a recording of packets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub connections: Option<crate::connections::document::Connections>,
    /// What a change would give, best first; at most [`MAX_WHAT_IFS`]. Empty when the model does not hold.
    pub what_if: Vec<WhatIf>,
    /// What else is known to help against what was charged, without a prediction of how much: at most [`MAX_ADVICE`].
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub advice: Vec<Advice>,
    /// How well the model replays what was observed.
    pub model: Model,
    /// What a reader must know besides: what was not recorded and how to record it, why there is no prediction.
    pub notes: Vec<String>,
}

/// Documents from before it was said could be.
fn yes() -> bool {
    true
}

/// At most this many segments in [`Explanation::path`].
pub const MAX_SEGMENTS: usize = 4000;
/// At most this many entries in [`Explanation::critical_path`]; smaller ones with one cause are put together.
pub(crate) const MAX_CHARGES: usize = 40;
/// At most this many single gaps of one channel.
pub(crate) const MAX_GAPS: usize = 100;
/// At most this many connections in [`Explanation::channels`], besides the sums.
pub(crate) const MAX_CHANNELS: usize = 64;
/// At most this many threads in [`Explanation::tracks`].
pub const MAX_TRACKS: usize = 256;
/// At most this many changes in [`Explanation::what_if`].
pub(crate) const MAX_WHAT_IFS: usize = 6;
/// At most this many in [`Explanation::advice`].
pub(crate) const MAX_ADVICE: usize = 3;
/// At most this many servers or disks in [`RoundTrips::to`].
pub(crate) const MAX_ANSWERERS: usize = 16;
/// At most this many in [`Summary::numbers`].
pub(crate) const MAX_NUMBERS: usize = 2;
/// At most this many characters in [`Summary::sentence`].
pub const MAX_SUMMARY_SENTENCE: usize = 240;
/// At most this many transfers in [`Explanation::transfers`].
pub const MAX_TRANSFERS: usize = 1000;
/// At most this many bins in [`Throughput`].
pub(crate) const MAX_BINS: usize = 1024;

/// The run in a few lines: programs, files and devices by their names, and no client where there is no server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The command, with paths cut to their last part.
    pub command: String,
    /// How it ended, where not with exit code 0: `failed with exit code 2`, `killed by SIGKILL`, `failed with exit code 1: /data is full`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended: Option<String>,
    /// What it did, how long that took and at which rate: `256 MiB in 2.05 s, 1.05 Gb/s`.
    pub about: String,
    /// One sentence of at most [`MAX_SUMMARY_SENTENCE`] characters; empty of a run that is too short for one.
    pub sentence: String,
    /// The number behind the rate, that of the largest cause first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub numbers: Vec<Number>,
    /// The charges, those of one cause and one program together: largest first. None of a run that is over at once.
    pub rows: Vec<SummaryRow>,
    /// What did not limit, with the figure that says so.
    pub innocent: Vec<Innocent>,
    /// What keeps these figures from being relied on, and what would settle it; what counts most comes first.
    pub remarks: Vec<String>,
    /// What a tuner did meanwhile, in at most three lines.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tuning: Vec<String>,
}

/// The charges of one cause to one program, device or path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryRow {
    /// The cause.
    pub cause: Cause,
    /// Its share of the wall time.
    pub share: f64,
    /// Who or what it was.
    pub subject: String,
    /// The figures that matter most.
    pub figures: String,
}

/// Something that did not limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Innocent {
    /// What.
    pub what: String,
    /// The figure.
    pub figure: String,
}

/// Wall time charged to one cause at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Charge {
    /// What it is charged to.
    pub cause: Cause,
    /// Where.
    #[serde(rename = "where")]
    pub place: String,
    /// How much of the wall time.
    pub seconds: f64,
    /// The same as a part of `wall_s`.
    pub share: f64,
    /// How much of `seconds` can go before another chain of waits is critical, estimated (`MODEL.md` says how).
    pub slack_s: f64,
    /// Whether all of it was recorded.
    #[serde(default)]
    pub basis: Basis,
    /// How much of `seconds` a rule inferred.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inferred_s: f64,
    /// Who waited for this at once, in the same process, where that was so for most of it: a lock that was held meanwhile, or a queue that was filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Whether a processor quota is what was waited for.
    #[serde(default, skip_serializing_if = "is_not")]
    pub quota: bool,
    /// What was seen: how many intervals, how long, around what.
    pub evidence: String,
    /// Of a charge to a processor: the functions in which it ran longest, by the recording's profile, else by where its samples found it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub hottest: Vec<HotFunction>,
    /// Of a charge for waiting: where its longest waits waited, where the recording has a profile.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub waits: Vec<WaitStack>,
    /// By which rules it was charged, the one by which most of it was first; empty where that was not asked for ([`crate::Options::why`]).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rules: Vec<Applied>,
}

/// A function in which the critical path ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotFunction {
    /// Its name, or its module in brackets where it is not known.
    pub function: String,
    /// The file that it is in, without its folder; `kernel`: the kernel's own.
    #[serde(default)]
    pub module: String,
    /// Time on the path in it, as a part of `wall_s`.
    pub share: f64,
    /// The same as a part of what was sampled of the charge.
    #[serde(default)]
    pub of_samples: f64,
}

/// What a charge rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The recording says it.
    #[default]
    Recorded,
    /// Some of it, a rule inferred from what the recording says.
    Inferred,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_not(value: &bool) -> bool {
    !*value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &f64) -> bool {
    *value <= 0.0
}

/// A stretch of the critical path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// What it is charged to.
    pub cause: Cause,
    /// Which entry of `critical_path` it belongs to (an index).
    pub charge: usize,
    /// Where it begins.
    pub start_s: f64,
    /// Where it ends.
    pub end_s: f64,
    /// The track the walk was on, as its number in the recording; absent for the wire.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub track: Option<u64>,
}

/// Bytes moved from one set of objects to another for one purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The source.
    pub from: String,
    /// The sink, where it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<String>,
    /// How many bytes.
    pub size_bytes: u64,
    /// In how many requests.
    pub requests: u64,
    /// When its first request began.
    pub start_s: f64,
    /// How long until its last ended.
    pub wall_s: f64,
}

/// Transfers that are counted and not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlisted {
    /// How many.
    pub count: u64,
    /// How many bytes, all together.
    pub size_bytes: u64,
}

/// A phase of the transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Which.
    pub name: PhaseName,
    /// Where it begins.
    pub start_s: f64,
    /// Where it ends.
    pub end_s: f64,
}

/// The phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PhaseName {
    /// Before the first byte.
    #[serde(rename = "set-up")]
    SetUp,
    /// Until the rate is what it will be.
    #[serde(rename = "ramp")]
    Ramp,
    /// At that rate.
    #[serde(rename = "steady")]
    Steady,
    /// From the last rate near that to the last byte.
    #[serde(rename = "drain")]
    Drain,
    /// After the last byte.
    #[serde(rename = "tear-down")]
    TearDown,
}

impl PhaseName {
    /// Every phase, in order of time.
    pub const ALL: [PhaseName; 5] = [PhaseName::SetUp, PhaseName::Ramp, PhaseName::Steady, PhaseName::Drain, PhaseName::TearDown];

    /// Its name, as the document has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            PhaseName::SetUp => "set-up",
            PhaseName::Ramp => "ramp",
            PhaseName::Steady => "steady",
            PhaseName::Drain => "drain",
            PhaseName::TearDown => "tear-down",
        }
    }

    /// The phase of this name.
    ///
    /// # Errors
    /// There is none, and which there are.
    pub fn parse(name: &str) -> Result<PhaseName, String> {
        let known = || PhaseName::ALL.map(PhaseName::as_str).join(", ");
        PhaseName::ALL.into_iter().find(|phase| phase.as_str() == name).ok_or_else(|| format!("no such phase; there are {}", known()))
    }
}

/// What is known of when a channel carried its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelBasis {
    /// When they arrived: at the receiving end, or where packets were seen.
    Received,
    /// When the sending end learned that they had arrived.
    Acknowledged,
    /// Only when programs handed them over, to a connection or a file.
    #[default]
    HandedOver,
}

/// A track whose bytes are the transfer, or the sum of all in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// The connection, `HOST:PORT > HOST:PORT`, in the direction the bytes went; or `all to servers`, `all from servers`, `all written`, `all read`.
    pub name: String,
    /// Whether this is the sum over the connections of one direction: busy when any of them is.
    pub aggregate: bool,
    /// The connection's number in the recording (one of the two rows of it); absent for a sum.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<u64>,
    /// What its bytes and times are known from.
    #[serde(default)]
    pub basis: ChannelBasis,
    /// How many bytes, of all that basis counts.
    pub size_bytes: u64,
    /// In how many sends.
    pub sends: u64,
    /// How many bursts: what lies between two gaps.
    pub bursts: u64,
    /// Bytes over time within bursts; absent of a connection of which only what was handed over is known: a socket takes bytes faster than its link.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub burst_bytes_per_s: Option<f64>,
    /// The part of the wall time in bursts.
    pub busy_share: f64,
    /// The idle intervals between bursts.
    pub gaps: Gaps,
}

/// Payload bytes over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Width of a bin. The first begins at second 0; the last may reach past the end.
    pub bin_s: f64,
    /// Payload bytes sent per second in each bin, all channels together.
    pub bytes_per_s: Vec<f64>,
}

/// What one thread did with the wall time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Its number in the recording.
    pub track: u64,
    /// Its name.
    pub name: String,
    /// Whose it is: `client`, `server`, `kernel`, `recorder`, `none`.
    pub role: String,
    /// How long it ran, as far as it is known.
    pub cpu_s: f64,
    /// How long it was runnable and not running.
    pub runqueue_s: f64,
    /// How long it was blocked in files: reading, writing, syncing.
    pub file_s: f64,
    /// How long it was blocked in sends and receives that carried something it had begun.
    pub network_s: f64,
    /// How long it was blocked on other threads.
    pub lock_s: f64,
    /// How many spans it has.
    pub spans: u64,
}

/// Questions that were asked and waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// What is counted.
    pub of: Trip,
    /// How many questions.
    pub count: u64,
    /// How many of them one after the other: how often the critical path left the client and came back (of a recording without
    /// threads: the longest chain of calls of which each was made when the one before it had been answered).
    pub in_a_row: u64,
    /// How many were under way on average, while any was; of exchanges, questions for each of those one after the other.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at_once: Option<f64>,
    /// The most that were under way at one time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub most_at_once: Option<u64>,
    /// The median from question to answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub median_s: Option<f64>,
    /// From the first question to the last answer.
    pub asking_s: f64,
    /// `asking_s` over `in_a_row`: what one of those one after the other takes, with all that lies between it and the next.
    pub each_s: f64,
    /// What `each_s` is made of, as the critical path was charged; most first.
    pub of_each: Vec<Part>,
    /// The same for each entry, where it is known how many there were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_entry: Option<PerEntry>,
    /// Who answered, most first; at most [`MAX_ANSWERERS`].
    pub to: Vec<Answerer>,
    /// One or two plain sentences.
    pub sentence: String,
}

/// What is counted as a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trip {
    /// Calls that the client says it made.
    Calls,
    /// What a client handed to its connections, and waited for an answer to.
    Exchanges,
    /// Requests to disks.
    Disk,
}

/// Time charged to one cause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The cause.
    pub cause: Cause,
    /// How long.
    pub seconds: f64,
}

/// What was asked, and what it took, for each entry of a walk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerEntry {
    /// How many entries.
    pub entries: u64,
    /// Questions.
    pub questions: f64,
    /// Those of them that were one after the other.
    pub round_trips: f64,
    /// Time, from the first question to the last answer.
    pub seconds: f64,
    /// What that is made of; most first.
    pub parts: Vec<Part>,
}

/// A server, or a disk, that answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answerer {
    /// Its address, or the disk's name.
    pub name: String,
    /// How many questions.
    pub count: u64,
    /// How many were under way on average, while any was.
    pub at_once: f64,
    /// The median from question to answer.
    pub median_s: f64,
}

impl Explanation {
    /// The document as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("the document has no maps with odd keys and no other way to fail")
    }
}
