//! The plan of a measurement of commands.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A command and its arguments. In each word, `{run}` is replaced by the repetition (0: the warm-up) and `{name}` by the subject's name.
pub(super) type Words = Vec<String>;

/// The plan of a measurement of commands.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandPlan {
    /// Name of the measurement.
    pub name: String,
    /// The commands.
    pub commands: Vec<Subject>,
    /// The command whose speed is compared with each of the others.
    #[serde(default)]
    pub baseline: Option<String>,
    /// Further pairs: the speed of the first relative to the second.
    #[serde(default)]
    pub pairs: Vec<(String, String)>,
    /// What one run moves, for rates.
    #[serde(default)]
    pub amount: Option<Amount>,
    /// Number of repetitions.
    #[serde(default)]
    pub repeat: Repeat,
    /// Whether each command has a warm-up run first.
    #[serde(default = "yes")]
    pub warm_up: bool,
    /// Commands run before each repetition, untimed.
    #[serde(default)]
    pub before_repetition: Vec<Words>,
    /// Whether to keep the commands' output with each run.
    #[serde(default)]
    pub keep_output: bool,
    /// Time in seconds after which a command is killed and counts as failed.
    #[serde(default = "five_minutes")]
    pub limit_s: f64,
    /// A path whose file system is described with the machine.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// Equal seeds give equal orders.
    #[serde(default)]
    pub seed: u64,
}

/// A command to measure.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// The command to time.
    pub command: Words,
    /// Names of numbers that it or its cleanup prints, reported and compared like the wall time.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Commands run before it, untimed.
    #[serde(default)]
    pub prepare: Vec<Words>,
    /// Files evicted from the page cache before it; the verified state is kept with the run.
    #[serde(default)]
    pub cold: Vec<PathBuf>,
    /// Files read into the page cache before it; the verified state is kept with the run.
    #[serde(default)]
    pub warm: Vec<PathBuf>,
    /// Commands run after it, untimed, even if it failed. If one fails, the run counts as failed.
    #[serde(default)]
    pub cleanup: Vec<Words>,
}

/// What one run moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// The amount.
    pub count: f64,
    /// The unit: `bytes`, `files`.
    pub unit: String,
}

/// Limits on the number of repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Repeat {
    /// Minimum number of repetitions.
    pub least: usize,
    /// Maximum number of repetitions.
    pub most: usize,
    /// In between, stop once every ratio's interval (without pairs: every command's) is narrower than this part of its median.
    pub narrow: f64,
    /// Time limit in seconds.
    pub seconds: Option<f64>,
}

impl Default for Repeat {
    fn default() -> Repeat {
        Repeat { least: 10, most: 40, narrow: 0.05, seconds: None }
    }
}

fn yes() -> bool {
    true
}

fn five_minutes() -> f64 {
    300.0
}

/// Fills in the words of a command for this subject and repetition.
pub(super) fn filled(words: &[String], name: &str, repeat: usize) -> Words {
    words.iter().map(|word| word.replace("{run}", &repeat.to_string()).replace("{name}", name)).collect()
}
