//! The plan: which commands are measured, how, and how often.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A command and its arguments. In each word `{run}` stands for the repetition (0: the warm-up), `{name}` for the subject's name.
pub(super) type Words = Vec<String>;

/// Which commands are measured, how, and how often.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandPlan {
    /// What is measured.
    pub name: String,
    /// The commands.
    pub commands: Vec<Subject>,
    /// The command that is compared with each of the others: how many times as fast it is.
    #[serde(default)]
    pub baseline: Option<String>,
    /// Further pairs: how many times as fast the first is as the second.
    #[serde(default)]
    pub pairs: Vec<(String, String)>,
    /// What one run moves, for rates.
    #[serde(default)]
    pub amount: Option<Amount>,
    /// How often.
    #[serde(default)]
    pub repeat: Repeat,
    /// Whether each command is run once before anything counts.
    #[serde(default = "yes")]
    pub warm_up: bool,
    /// Run before each repetition, untimed.
    #[serde(default)]
    pub before_repetition: Vec<Words>,
    /// Whether what commands print is kept with each run.
    #[serde(default)]
    pub keep_output: bool,
    /// After so long a command is killed, and has failed.
    #[serde(default = "five_minutes")]
    pub limit_s: f64,
    /// A path whose file system belongs into the description of the machine.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// Equal seeds give equal orders.
    #[serde(default)]
    pub seed: u64,
}

/// One command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// What is timed.
    pub command: Words,
    /// Names of numbers that it or its cleanup prints, to be reported and compared like the wall time.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Run before it, untimed.
    #[serde(default)]
    pub prepare: Vec<Words>,
    /// Files that are put out of the page cache before it; whether they were is kept with the run.
    #[serde(default)]
    pub cold: Vec<PathBuf>,
    /// Files that are read into the page cache before it; whether they are in it is kept with the run.
    #[serde(default)]
    pub warm: Vec<PathBuf>,
    /// Run after it, untimed, whatever came of it. One that fails says that the run did not do what it should have.
    #[serde(default)]
    pub cleanup: Vec<Words>,
}

/// What one run moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// How much.
    pub count: f64,
    /// Of what: `bytes`, `files`.
    pub unit: String,
}

/// How often commands are run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Repeat {
    /// At least so often.
    pub least: usize,
    /// At most so often.
    pub most: usize,
    /// Between those, until every ratio's interval (without pairs: every command's) is narrower than this part of its median.
    pub narrow: f64,
    /// And no longer than this.
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

/// The words of a command, for this subject and repetition.
pub(super) fn filled(words: &[String], name: &str, repeat: usize) -> Words {
    words.iter().map(|word| word.replace("{run}", &repeat.to_string()).replace("{name}", name)).collect()
}
