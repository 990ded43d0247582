//! The document `thalweg.profile/1`: where the time of each machine's processors went, field by field.
//!
//! Shares are parts of all processors' time of a host over the time of its profile; they add up to 1. Where there are too few samples to
//! say, shares are absent. What could not be had is absent, never 0. Lists are bounded.

use serde::{Deserialize, Serialize};

/// The name and version of this document.
pub(crate) const SCHEMA: &str = "thalweg.profile/1";

/// Where the time of processors went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// What was run, if something was.
    pub command: Vec<String>,
    /// Which recorder made the recording.
    pub recorder: String,
    /// Time between two samples of a busy processor, where the recording says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub period_s: Option<f64>,
    /// The machines.
    pub hosts: Vec<HostProfile>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

/// Where the time of one machine's processors went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostProfile {
    /// Its name.
    pub name: String,
    /// Its processors.
    pub cpus: u32,
    /// How long the profile is.
    pub wall_s: f64,
    /// How long its processors were busy, together; interrupts count.
    pub busy_s: f64,
    /// Samples of busy processors.
    pub samples: u64,
    /// Whether they are enough for shares.
    pub enough: bool,
    /// Samples that were lost.
    pub lost: u64,
    /// By what ran: the innermost function that says something.
    pub classes: Vec<ClassShare>,
    /// By what it ran for: the nearest caller that is an anchor.
    #[serde(rename = "for")]
    pub purposes: Vec<ClassShare>,
    /// The functions that ran longest themselves.
    pub functions: Vec<FunctionShare>,
    /// The programs that ran longest, in the kernel and outside.
    pub programs: Vec<ProgramShare>,
    /// Classes over time.
    pub over_time: OverTime,
    /// The part of the time whose class is that of a caller, because no rule has the function.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub guessed_share: Option<f64>,
    /// Time in functions whose names are not known.
    pub unsymbolised: Unsymbolised,
    /// What taking the profile cost.
    pub cost: RecorderCost,
    /// Bytes that were moved meanwhile, where the recording says.
    pub rates: Vec<Rate>,
    /// What the processors' counters of events counted, where they have any.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub events: Vec<EventCounts>,
    /// There are no samples: where the figures are from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counted: Option<CountedFrom>,
}

/// Events of one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventCounts {
    /// As perf names it: `cycles`, `instructions`, `page-faults`.
    pub event: String,
    /// How many, idle time aside.
    pub count: u64,
    /// The same for each byte of the first of [`HostProfile::rates`].
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
    /// How many.
    pub count: u64,
    /// The same for each byte.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_byte: Option<f64>,
}

/// Where the figures are from that no samples were taken for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedFrom {
    /// `/proc`.
    pub source: String,
    /// The tick that is counted in.
    pub tick_s: f64,
    /// How far apart the looks at processes were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub look_s: Option<f64>,
    /// Why there are no samples.
    pub no_samples: String,
    /// The part of the processors' time in programs and in the kernel for them that is in no program's count: of those that ended
    /// between two looks or cannot be seen, and what the two counts differ by.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rest: Option<f64>,
    /// By how much the programs' counts are more than the processors', where they are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub over: Option<f64>,
}

/// The time of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassShare {
    /// Its name in the rules.
    pub class: String,
    /// What people call it.
    pub title: String,
    /// Its part of the processors' time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// Lower end of what the number of samples leaves open (95 %).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub low: Option<f64>,
    /// Upper end of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub high: Option<f64>,
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds: Option<f64>,
    /// Samples in it; idle, steal and hard interrupts are counted without any.
    pub samples: u64,
    /// Samples among them whose class is a guess.
    pub guessed: u64,
}

/// The time of a function itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionShare {
    /// Its name, or its module in brackets where it is not known.
    pub function: String,
    /// The module it is in.
    pub module: String,
    /// Its class.
    pub class: String,
    /// What people call the class.
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
    /// On whose behalf: a role of the trace.
    pub role: String,
    /// How many processes of it ran.
    pub processes: u64,
    /// Its part of the processors' time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// ... in its own code; only where it was counted and not sampled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user_share: Option<f64>,
    /// ... in the kernel.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system_share: Option<f64>,
    /// Samples of it.
    pub samples: u64,
    /// The same by what ran.
    #[serde(default)]
    pub classes: Vec<ProgramClass>,
    /// The same by what it ran for.
    #[serde(rename = "for", default)]
    pub purposes: Vec<ProgramClass>,
}

/// Samples of a program in a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramClass {
    /// Its name in the rules.
    pub class: String,
    /// How many.
    pub samples: u64,
}

/// Classes over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// How long a bin is.
    pub bin_s: f64,
    /// One line for each class that is not nothing.
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

/// Time in functions whose names are not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unsymbolised {
    /// Its part of the processors' time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// Where: the modules, most time first.
    pub modules: Vec<ModuleShare>,
}

/// The time of a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleShare {
    /// The module.
    pub module: String,
    /// The build identifier of its file, where the recording says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub build_id: Option<String>,
    /// Its part of the processors' time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// Samples in it.
    pub samples: u64,
}

/// What taking the profile cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecorderCost {
    /// Its part of the processors' time, as the class has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub share: Option<f64>,
    /// The kernel's own count for the programs that take samples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bpf_s: Option<f64>,
    /// Processor time of their reader.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reader_s: Option<f64>,
}

/// Bytes that were moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// What moved them: `net.send`, `net.receive`, `file.read`, `file.write`.
    pub what: String,
    /// How many.
    pub bytes: u64,
    /// How many a second.
    pub bytes_per_s: f64,
}

impl Profile {
    /// The document as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("the document has no maps with odd keys and no other way to fail")
    }
}
