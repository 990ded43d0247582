//! The document `thalweg.profile/1`: where the time of each machine's processors went, field by field.
//!
//! Shares are parts of all processors' time of a host over the time of its profile; they add up to 1. If there are too few samples, shares
//! are absent. What could not be recorded is absent, never 0. Lists are bounded.

use serde::{Deserialize, Serialize};

/// The name and version of this document.
pub(crate) const SCHEMA: &str = "thalweg.profile/1";

/// Where the time of processors went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The command, if one was run.
    pub command: Vec<String>,
    /// The recorder that made the recording.
    pub recorder: String,
    /// Time between two samples of a busy processor, if recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub period_s: Option<f64>,
    /// The machines.
    pub hosts: Vec<HostProfile>,
    /// Further facts for the reader.
    pub notes: Vec<String>,
}

/// Where the time of one machine's processors went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostProfile {
    /// Its name.
    pub name: String,
    /// Its processors.
    pub cpus: u32,
    /// Length of the profile.
    pub wall_s: f64,
    /// Busy time of its processors, summed, including interrupts.
    pub busy_s: f64,
    /// Samples of busy processors.
    pub samples: u64,
    /// Whether there are enough samples for shares.
    pub enough: bool,
    /// Lost samples.
    pub lost: u64,
    /// Time by what ran: the innermost informative function.
    pub classes: Vec<ClassShare>,
    /// Time by purpose: the nearest caller that is an anchor.
    #[serde(rename = "for")]
    pub purposes: Vec<ClassShare>,
    /// The functions that ran longest themselves.
    pub functions: Vec<FunctionShare>,
    /// The programs that ran longest, in the kernel and in their own code.
    pub programs: Vec<ProgramShare>,
    /// Classes over time.
    pub over_time: OverTime,
    /// The part of the time whose class is a caller's, because no rule has the function.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub guessed_share: Option<f64>,
    /// Time in functions without known names.
    pub unsymbolised: Unsymbolised,
    /// The cost of taking the profile.
    pub cost: RecorderCost,
    /// Bytes moved meanwhile, if recorded.
    pub rates: Vec<Rate>,
    /// Counts of the processors' event counters, if any.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub events: Vec<EventCounts>,
    /// The source of the figures that are not from samples, if there are no samples of everything that runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counted: Option<CountedFrom>,
}

/// Events of one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventCounts {
    /// The name that perf uses: `cycles`, `instructions`, `page-faults`.
    pub event: String,
    /// Number of events, without idle time.
    pub count: u64,
    /// Events per byte of the first of [`HostProfile::rates`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_byte: Option<f64>,
    /// By what ran.
    pub classes: Vec<ClassCount>,
}

/// Events of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassCount {
    /// Its name in the rules.
    pub class: String,
    /// Number of events.
    pub count: u64,
    /// Events per byte.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_byte: Option<f64>,
}

/// The source of figures that are not from samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedFrom {
    /// `/proc`.
    pub source: String,
    /// The tick in which time is counted.
    pub tick_s: f64,
    /// Interval between readings of processes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub look_s: Option<f64>,
    /// Why there are no samples, or none of the kernel and of other programs.
    pub no_samples: String,
    /// The part of the processors' time in programs, and in the kernel for them, that no program's count has: of programs that ended
    /// between two readings or are invisible, and the difference of the two counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rest: Option<f64>,
    /// By how much the programs' counts exceed the processors', if they do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub over: Option<f64>,
    /// The time of the programs whose own code was sampled; absent if there are no samples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub own: Option<OwnTime>,
}

/// The time of sampled programs, from their own clocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnTime {
    /// How long they ran, exactly.
    pub run_s: f64,
    /// In their own code, by samples.
    pub user_s: f64,
    /// In the kernel: expirations of their clocks without a sample.
    pub kernel_s: f64,
    /// After the last expiration of a thread's clock: of processes shorter than a period, all.
    pub short_s: f64,
}

/// The time of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassShare {
    /// Its name in the rules.
    pub class: String,
    /// Its title.
    pub title: String,
    /// Its part of the processors' time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// Lower bound of its 95 % interval, from the number of samples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub low: Option<f64>,
    /// Upper bound of that interval.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub high: Option<f64>,
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds: Option<f64>,
    /// Number of samples; idle, steal and hard interrupts are counted without any.
    pub samples: u64,
    /// Number of samples whose class is a guess.
    pub guessed: u64,
}

/// The time of a function itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionShare {
    /// Its name, or its module in brackets if the name is not known.
    pub function: String,
    /// The module it is in.
    pub module: String,
    /// Its class.
    pub class: String,
    /// The class's title.
    pub title: String,
    /// Its part of the processors' time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// Samples in it.
    pub samples: u64,
}

/// The time of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramShare {
    /// Its name.
    pub program: String,
    /// Its role in the trace.
    pub role: String,
    /// Number of its processes that ran.
    pub processes: u64,
    /// Its part of the processors' time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// Its part in its own code; only if counted and not sampled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user_share: Option<f64>,
    /// Its part in the kernel.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system_share: Option<f64>,
    /// Samples of it.
    pub samples: u64,
    /// Its samples by what ran.
    #[serde(default)]
    pub classes: Vec<ProgramClass>,
    /// Its samples by purpose.
    #[serde(rename = "for", default)]
    pub purposes: Vec<ProgramClass>,
}

/// Samples of a program in a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramClass {
    /// Its name in the rules.
    pub class: String,
    /// Number of samples.
    pub samples: u64,
}

/// Classes over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// Length of a bin.
    pub bin_s: f64,
    /// One line for each non-empty class.
    pub lines: Vec<ClassLine>,
}

/// A class over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassLine {
    /// Its name in the rules.
    pub class: String,
    /// Its part of the processors' time in each bin.
    pub shares: Vec<f64>,
}

/// Time in functions without known names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unsymbolised {
    /// Its part of the processors' time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// The modules, most time first.
    pub modules: Vec<ModuleShare>,
}

/// The time of a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleShare {
    /// The module.
    pub module: String,
    /// The build identifier of its file, if recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub build_id: Option<String>,
    /// Its part of the processors' time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// Samples in it.
    pub samples: u64,
}

/// The cost of taking the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecorderCost {
    /// Its part of the processors' time, by its class.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// The kernel's own count for the programs that take samples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bpf_s: Option<f64>,
    /// Processor time of their reader.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reader_s: Option<f64>,
}

/// Bytes moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The kind of call: `net.send`, `net.receive`, `file.read`, `file.write`.
    pub what: String,
    /// Number of bytes.
    pub bytes: u64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

impl Profile {
    /// The document as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("the document has no maps with odd keys and no other way to fail")
    }
}
