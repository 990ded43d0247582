//! The result of a plan of commands, with every run. It serialises to the JSON that benchmarks keep.

use super::plan::{Amount, CommandPlan, Subject, filled};
use crate::engine::{Measured, StopReason};
use crate::machine::load_now;
use crate::{CacheState, Estimate, Machine, Usage};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Name of the figure that every command has.
pub const WALL: &str = "wall_s";

/// The result of a plan of commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`Outcome::SCHEMA`].
    pub schema: String,
    /// The plan's name.
    pub plan: String,
    /// Start time, in seconds since 1970.
    pub started_unix_s: u64,
    /// The machine, described at the start.
    pub machine: Machine,
    /// Load average over one minute at the end.
    pub load_after: Option<f64>,
    /// Why it ended.
    pub stopped: StopReason,
    /// The command that is compared with each of the others, if there is one.
    pub baseline: Option<String>,
    /// What one run moves, if given.
    pub amount: Option<Amount>,
    /// Results of the commands, in the order of the plan.
    pub commands: Vec<CommandResult>,
    /// Ratios of the pairs, by figure.
    pub ratios: Vec<Ratio>,
}

/// The result of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandResult {
    /// Its name.
    pub name: String,
    /// The command of the first repetition.
    pub command: Vec<String>,
    /// Wall time.
    pub wall_s: Estimate,
    /// What one run moves over its wall time; the median of the rates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_per_s: Option<Estimate>,
    /// Median CPU time of the command and its waited-for children.
    pub cpu_s: f64,
    /// Maximum resident set size over all runs.
    pub max_rss_bytes: u64,
    /// Numbers printed by it or its cleanup, by name.
    pub figures: BTreeMap<String, Estimate>,
    /// The counted runs, by repetition.
    pub runs: Vec<CommandRun>,
}

/// One run of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandRun {
    /// The repetition, from 1; 0 is the warm-up. Runs of one repetition are paired.
    pub repeat: usize,
    /// Time and memory.
    #[serde(flatten)]
    pub usage: Usage,
    /// Numbers printed.
    pub figures: BTreeMap<String, f64>,
    /// State of the page cache just before it; absent if not requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheState>,
    /// Its output, if kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<String>,
}

/// The speed of one command relative to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The command in question.
    pub of: String,
    /// The command that it is compared with.
    pub to: String,
    /// The figure compared: `wall_s`, or a number that both print.
    pub figure: String,
    /// Median over the repetitions of (figure of `to`) / (figure of `of`), with its interval: above 1, `of` is faster.
    pub ratio: Estimate,
    /// The ratio of each pair, by repetition.
    pub pairs: Vec<f64>,
}

impl Outcome {
    /// The version of the document.
    pub const SCHEMA: &'static str = "thalweg.measure/2";

    pub(super) fn new(
        plan: &CommandPlan,
        pairs: &[(String, String)],
        measured: &Measured<String, String, CommandRun>,
        machine: Machine,
        started_unix_s: u64,
    ) -> Outcome {
        let runs = &measured.runs;
        let ratio = |figure: &str, (of, to): &(String, String)| {
            let (ratio, pairs) = runs.ratio(&plan.name, of, to, |run| run.figure(figure))?;
            Some(Ratio { of: of.clone(), to: to.clone(), figure: figure.to_owned(), ratio, pairs })
        };
        let printed: BTreeSet<&str> = plan.commands.iter().flat_map(|subject| &subject.figures).map(String::as_str).collect();
        let result = |subject: &Subject| {
            let estimate = |figure: &str| runs.estimate(&plan.name, &subject.name, |run| run.figure(figure));
            let rate = |amount: &Amount| runs.estimate(&plan.name, &subject.name, |run| [amount.count / run.usage.wall_s]);
            let all: Vec<CommandRun> = runs.of(&plan.name, &subject.name).into_iter().map(|(_, run)| run.clone()).collect();
            Some(CommandResult {
                name: subject.name.clone(),
                command: filled(&subject.command, &subject.name, 1),
                wall_s: estimate(WALL)?,
                rate_per_s: plan.amount.as_ref().and_then(rate),
                cpu_s: crate::median(&all.iter().map(|run| run.usage.user_s + run.usage.system_s).collect::<Vec<_>>())?,
                max_rss_bytes: all.iter().map(|run| run.usage.max_rss_bytes).max()?,
                figures: subject.figures.iter().filter_map(|name| Some((name.clone(), estimate(name)?))).collect(),
                runs: all,
            })
        };
        Outcome {
            schema: Outcome::SCHEMA.into(),
            plan: plan.name.clone(),
            started_unix_s,
            machine,
            load_after: load_now(),
            stopped: measured.stopped,
            baseline: plan.baseline.clone(),
            amount: plan.amount.clone(),
            commands: plan.commands.iter().filter_map(result).collect(),
            ratios: [WALL].into_iter().chain(printed).flat_map(|figure| pairs.iter().filter_map(move |pair| ratio(figure, pair))).collect(),
        }
    }

    /// Formats the document as indented JSON, ending in a newline.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers, strings and lists always serialise");
        text.push('\n');
        text
    }
}

impl CommandRun {
    fn figure(&self, name: &str) -> Option<f64> {
        if name == WALL { Some(self.usage.wall_s) } else { self.figures.get(name).copied() }
    }
}

impl CommandResult {
    /// Returns the state of the caches before its runs: the common one, or the first that is not verified.
    pub fn cache(&self) -> Option<&CacheState> {
        let states = || self.runs.iter().filter_map(|run| run.cache.as_ref());
        states().find(|state| !state.is_verified()).or_else(|| states().next())
    }
}
