//! The document: what an explanation says, field by field. It is a contract with other programs.
//!
//! Times are seconds after [`Explanation::start_ns`] on the reference host's axis, unless the name says otherwise; `where` is a place a
//! person recognises. What could not be recorded is absent, never 0. Lists are bounded, so a document stays small whatever the recording's
//! length. `explain.schema.json` describes the same document to other languages; a test compares the two.

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

/// The name and version of this document. A field may be added within a version; none changes its meaning.
pub const SCHEMA: &str = "thalweg.explain/1";

/// Where the time of one recording went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The command recorded.
    pub command: Vec<String>,
    /// The recorder that made the recording.
    pub recorder: String,
    /// Number of lost events; figures that rest on them are less certain.
    pub dropped_events: u64,
    /// Second 0 of this document, in nanoseconds on the reference host's axis.
    pub start_ns: i64,
    /// Length of the explained interval: the command, from its start to its exit.
    pub wall_s: f64,
    /// Bytes transferred, summed over all transfers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_bytes: Option<u64>,
    /// `size_bytes` over `wall_s`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bytes_per_s: Option<f64>,
    /// The other runs of the command, if it was run several times (`explain -n`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repeated: Option<Repeated>,
    /// The emulated devices of the recorded store, or of a copy's source: `disk 200 MiB/s, link 2 Gb/s, round trip 200 µs`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub emulated: Option<String>,
    /// Whether the figures are reliable. If not, the text withholds the sentence and all changes, which are still here.
    #[serde(default = "reliable_by_default")]
    pub reliable: bool,
    /// Why the figures are unreliable.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unreliable_because: Option<String>,
    /// The run in a few lines, in the reader's words.
    #[serde(default)]
    pub summary: Summary,
    /// The limiting cause, in one word and in one sentence.
    pub verdict: Verdict,
    /// The wall time, charged: largest first; seconds sum to `wall_s`, shares to 1 (± 0.001).
    pub critical_path: Vec<Charge>,
    /// The critical path in order of time, for pictures: segments touch and cover the wall time. At most [`MAX_SEGMENTS`]; where there were
    /// more, a segment stands for its neighbours, so that shares over many are right.
    pub path: Vec<Segment>,
    /// The transfers, from source to sink: the largest [`MAX_TRANSFERS`], in order of time.
    pub transfers: Vec<Transfer>,
    /// The transfers that are not listed; absent if all are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unlisted_transfers: Option<Unlisted>,
    /// The phases of the transfer, in order of time.
    pub phases: Vec<Phase>,
    /// The tracks that carried the bytes: first the sum of each direction (`aggregate`), then the connections that moved most, at most
    /// [`MAX_CHANNELS`].
    pub channels: Vec<Channel>,
    /// Bytes over time; absent if no bytes were recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub throughput: Option<Throughput>,
    /// The activity of each thread, busiest first; at most [`MAX_TRACKS`].
    pub tracks: Vec<Utilisation>,
    /// Requests and their answers, in a run that is about answers rather than data (a walk of a directory, for example).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips: Option<RoundTrips>,
    /// TCP's view of connections without a known RPC protocol, in a recording of packets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub connections: Option<crate::connections::document::Connections>,
    /// Predicted changes, best first; at most [`MAX_WHAT_IFS`]. Empty if the model does not hold.
    pub what_if: Vec<WhatIf>,
    /// Advice against what was charged, without a prediction: at most [`MAX_ADVICE`].
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub advice: Vec<Advice>,
    /// How well the model replays the observed run.
    pub model: Model,
    /// Further facts for the reader: what was not recorded and how to record it, why there is no prediction.
    pub notes: Vec<String>,
}

/// The default of `reliable` in documents older than the field.
fn reliable_by_default() -> bool {
    true
}

/// Most segments in [`Explanation::path`].
pub const MAX_SEGMENTS: usize = 4000;
/// Most entries in [`Explanation::critical_path`]; smaller ones of one cause are merged.
pub(crate) const MAX_CHARGES: usize = 40;
/// Most single gaps of one channel.
pub(crate) const MAX_GAPS: usize = 100;
/// Most connections in [`Explanation::channels`], besides the sums.
pub(crate) const MAX_CHANNELS: usize = 64;
/// Most threads in [`Explanation::tracks`].
pub const MAX_TRACKS: usize = 256;
/// Most changes in [`Explanation::what_if`].
pub(crate) const MAX_WHAT_IFS: usize = 6;
/// Most entries in [`Explanation::advice`].
pub(crate) const MAX_ADVICE: usize = 3;
/// Most servers or disks in [`RoundTrips::to`].
pub(crate) const MAX_ANSWERERS: usize = 16;
/// Most entries in [`Summary::numbers`].
pub(crate) const MAX_NUMBERS: usize = 2;
/// Most characters in [`Summary::sentence`].
pub const MAX_SUMMARY_SENTENCE: usize = 240;
/// Most transfers in [`Explanation::transfers`].
pub const MAX_TRANSFERS: usize = 1000;
/// Most bins in [`Throughput`].
pub(crate) const MAX_BINS: usize = 1024;

/// The run in a few lines: programs, files and devices by their names, and no client where there is no server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The command, with paths cut to their last part.
    pub command: String,
    /// How the command ended, unless with exit code 0: `failed with exit code 2`, `killed by SIGKILL`, `failed with exit code 1: /data is
    /// full`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended: Option<String>,
    /// The command's work, its time and its rate: `256 MiB in 2.05 s, 1.05 Gb/s`.
    pub about: String,
    /// One sentence of at most [`MAX_SUMMARY_SENTENCE`] characters; empty for a run that is too short.
    pub sentence: String,
    /// The numbers behind the rate, that of the largest cause first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub numbers: Vec<Number>,
    /// The charges, grouped by cause and program, largest first. Empty for a very short run.
    pub rows: Vec<SummaryRow>,
    /// Resources that did not limit, with the figure that shows it.
    pub innocent: Vec<Innocent>,
    /// Reasons for doubt about these figures, and what would settle them; most important first.
    pub remarks: Vec<String>,
    /// A tuner's steps during the run, in at most three lines.
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
    /// The program, device or path.
    pub subject: String,
    /// The most important figures.
    pub figures: String,
}

/// Something that did not limit the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Innocent {
    /// The resource.
    pub what: String,
    /// The figure.
    pub figure: String,
}

/// Wall time charged to one cause at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Charge {
    /// The cause.
    pub cause: Cause,
    /// The place.
    #[serde(rename = "where")]
    pub place: String,
    /// Wall time charged.
    pub seconds: f64,
    /// Part of `wall_s`.
    pub share: f64,
    /// How much `seconds` can shrink before another chain of waits becomes critical, estimated (`MODEL.md` says how).
    pub slack_s: f64,
    /// Whether all of it was recorded.
    #[serde(default)]
    pub basis: Basis,
    /// Part of `seconds` that a rule inferred.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inferred_s: f64,
    /// The thread of the same process that waited for this, if one did so for most of it: a lock was held meanwhile, or a queue was being
    /// filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Whether the wait was for a processor quota.
    #[serde(default, skip_serializing_if = "is_not")]
    pub quota: bool,
    /// The evidence: how many intervals, how long, around what.
    pub evidence: String,
    /// For a charge to a processor: the functions in which it ran longest, by the recording's profile, or else by its samples.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub hottest: Vec<HotFunction>,
    /// For a wait: where its longest waits waited, if the recording has a profile.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub waits: Vec<WaitStack>,
    /// The rules by which it was charged, most time first; empty unless requested ([`crate::Options::why`]).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rules: Vec<Applied>,
}

/// A function in which the critical path ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotFunction {
    /// Its name, or its module in brackets if the name is not known.
    pub function: String,
    /// The file that contains it, without its directory; `kernel` for the kernel.
    #[serde(default)]
    pub module: String,
    /// Time of the path in it, as a part of `wall_s`.
    pub share: f64,
    /// Time of the path in it, as a part of the charge's samples.
    #[serde(default)]
    pub of_samples: f64,
}

/// The basis of a charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The recording has it.
    #[default]
    Recorded,
    /// A rule inferred some of it from the recording.
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
    /// The cause.
    pub cause: Cause,
    /// Index of its entry in `critical_path`.
    pub charge: usize,
    /// Time it starts.
    pub start_s: f64,
    /// Time it ends.
    pub end_s: f64,
    /// The track of the walk, by its number in the recording; absent for the wire.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub track: Option<u64>,
}

/// Bytes moved from one set of objects to another for one purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The source.
    pub from: String,
    /// The sink, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<String>,
    /// Bytes moved.
    pub size_bytes: u64,
    /// Number of requests.
    pub requests: u64,
    /// Start of its first request.
    pub start_s: f64,
    /// Time until its last request ended.
    pub wall_s: f64,
}

/// Transfers that are counted but not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlisted {
    /// Number of transfers.
    pub count: u64,
    /// Their bytes, summed.
    pub size_bytes: u64,
}

/// A phase of the transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: PhaseName,
    /// Time it starts.
    pub start_s: f64,
    /// Time it ends.
    pub end_s: f64,
}

/// The phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PhaseName {
    /// Before the first byte.
    #[serde(rename = "set-up")]
    SetUp,
    /// Until the rate is steady.
    #[serde(rename = "ramp")]
    Ramp,
    /// At the steady rate.
    #[serde(rename = "steady")]
    Steady,
    /// From the last time near the steady rate to the last byte.
    #[serde(rename = "drain")]
    Drain,
    /// After the last byte.
    #[serde(rename = "tear-down")]
    TearDown,
}

impl PhaseName {
    /// Every phase, in order of time.
    pub const ALL: [PhaseName; 5] = [PhaseName::SetUp, PhaseName::Ramp, PhaseName::Steady, PhaseName::Drain, PhaseName::TearDown];

    /// The phase's name in the document.
    pub const fn as_str(self) -> &'static str {
        match self {
            PhaseName::SetUp => "set-up",
            PhaseName::Ramp => "ramp",
            PhaseName::Steady => "steady",
            PhaseName::Drain => "drain",
            PhaseName::TearDown => "tear-down",
        }
    }

    /// The phase with this name.
    ///
    /// # Errors
    /// No phase has this name; the error lists the names.
    pub fn parse(name: &str) -> Result<PhaseName, String> {
        let known = || PhaseName::ALL.map(PhaseName::as_str).join(", ");
        PhaseName::ALL.into_iter().find(|phase| phase.as_str() == name).ok_or_else(|| format!("no such phase; there are {}", known()))
    }
}

/// The basis of the times of a channel's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelBasis {
    /// Their arrival: at the receiving end, or where packets were captured.
    Received,
    /// The acknowledgement of their arrival at the sending end.
    Acknowledged,
    /// Their handover by programs to a connection or a file.
    #[default]
    HandedOver,
}

/// A track that carried the transfer's bytes, or the sum of all in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// The connection, `HOST:PORT > HOST:PORT`, in the direction the bytes went; or `all to servers`, `all from servers`, `all written`, `all read`.
    pub name: String,
    /// Whether this is the sum over the connections of one direction, which is busy when any of them is.
    pub aggregate: bool,
    /// The connection's number in the recording (one of its two rows); absent for a sum.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<u64>,
    /// The basis of its bytes and times.
    #[serde(default)]
    pub basis: ChannelBasis,
    /// Bytes carried, as the basis counts them.
    pub size_bytes: u64,
    /// Number of sends.
    pub sends: u64,
    /// Number of bursts: the stretches between gaps.
    pub bursts: u64,
    /// Bytes over time within bursts; absent for a connection of which only the handover is known: a socket takes bytes faster than its
    /// link.
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
    /// Width of a bin. The first starts at second 0; the last may extend past the end.
    pub bin_s: f64,
    /// Payload bytes per second in each bin, summed over channels.
    pub bytes_per_s: Vec<f64>,
}

/// How one thread spent the wall time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Number of its track in the recording.
    pub track: u64,
    /// Name of the thread.
    pub name: String,
    /// Its role: `client`, `server`, `kernel`, `recorder`, `none`.
    pub role: String,
    /// Time it ran, as far as known.
    pub cpu_s: f64,
    /// Time it was runnable but not running.
    pub runqueue_s: f64,
    /// Time it was blocked in file calls: reading, writing, syncing.
    pub file_s: f64,
    /// Time it was blocked in sends and receives that carried something it had started.
    pub network_s: f64,
    /// Time it was blocked on other threads.
    pub lock_s: f64,
    /// Number of its spans.
    pub spans: u64,
}

/// Requests and their answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// The kind of request counted.
    pub of: Trip,
    /// Number of requests.
    pub count: u64,
    /// How many of them were one after the other: how often the critical path left the client and came back (in a recording without
    /// threads: the longest chain of calls, each made when the previous one had been answered).
    pub in_a_row: u64,
    /// Average number in flight while any was; for exchanges, requests per sequential one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at_once: Option<f64>,
    /// Most in flight at one time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub most_at_once: Option<u64>,
    /// Median time from request to answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub median_s: Option<f64>,
    /// Time from the first request to the last answer.
    pub asking_s: f64,
    /// `asking_s` over `in_a_row`: the time of one sequential request, including everything until the next.
    pub each_s: f64,
    /// The parts of `each_s`, as the critical path was charged; most first.
    pub of_each: Vec<Part>,
    /// Requests and time per entry, if the number of entries is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_entry: Option<PerEntry>,
    /// Who answered, most requests first; at most [`MAX_ANSWERERS`].
    pub to: Vec<Answerer>,
    /// One or two plain sentences.
    pub sentence: String,
}

/// The kind of request counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trip {
    /// Calls that the client recorded.
    Calls,
    /// Messages that a client sent over its connections and waited for an answer to.
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

/// Requests and time for each entry of a walk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerEntry {
    /// Number of entries.
    pub entries: u64,
    /// Requests per entry.
    pub questions: f64,
    /// Sequential requests per entry.
    pub round_trips: f64,
    /// Time per entry, from the first request to the last answer.
    pub seconds: f64,
    /// The parts of that time; most first.
    pub parts: Vec<Part>,
}

/// A server or a disk that answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answerer {
    /// Its address, or the disk's name.
    pub name: String,
    /// Number of requests.
    pub count: u64,
    /// Average number in flight while any was.
    pub at_once: f64,
    /// Median time from request to answer.
    pub median_s: f64,
}

impl Explanation {
    /// The document as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("the document has no maps with odd keys and no other way to fail")
    }
}
