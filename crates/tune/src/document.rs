//! The result: every run with its reason, the setting to use, its gain, and what could not be determined. `tune.schema.json` is its
//! schema; a test compares the two.

use crate::search::Reason;
use crate::tuning::{Figures, Goal, Ran, Tuned, Tuning};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_measure::{Estimate, Machine};
use thalweg_study::sweep::{Parameter, Point, State};

/// A setting: each parameter's value, as written.
pub type Setting = BTreeMap<String, String>;

/// Result of a tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// [`Document::SCHEMA`].
    pub schema: String,
    /// Template of the command.
    pub command: Vec<String>,
    /// Sweep whose runs were replayed, if none were made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replay: Option<String>,
    /// Parameters varied.
    pub parameters: Vec<Parameter>,
    /// Machine it ran on.
    pub machine: Machine,
    /// Quantity to optimise.
    pub goal: Goal,
    /// The command's own setting.
    pub default: Setting,
    /// Runs of the search, in order.
    pub runs: Vec<RunResult>,
    /// Setting to use.
    pub winner: Winner,
    /// Tested settings that tie with the winner.
    pub ties: Vec<Setting>,
    /// Relative spread between runs of one setting.
    pub noise: f64,
    /// Limit at the winner.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<Limit>,
    /// Properties the winner gives up, for each parameter not at its default.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub gives_up: Vec<String>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// Number, from 1.
    pub number: usize,
    /// Setting.
    pub values: Setting,
    /// Reason for the setting.
    pub why: Reason,
    /// Result state.
    pub state: State,
    /// Reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
    /// Measurements, if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub figures: Option<Figures>,
    /// Bytes per wall time; if bytes are unknown, the inverse of the wall time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<f64>,
    /// Causes with their shares, largest first.
    pub causes: Vec<(String, f64)>,
    /// Location of the largest cause.
    #[serde(rename = "where", skip_serializing_if = "String::is_empty", default)]
    pub place: String,
    /// Whether it was the best so far.
    pub best_so_far: bool,
}

/// The setting to use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Winner {
    /// Values of the setting.
    pub values: Setting,
    /// The command with these values, word by word.
    pub command: Vec<String>,
    /// Whether it is the default.
    pub is_default: bool,
    /// The search's best, if it could not be shown to be better than the default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rejected: Option<Setting>,
    /// Gain of the search's best over the default, from the pairs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gain: Option<Estimate>,
    /// The pairs: default and best.
    pub pairs: Vec<[Figures; 2]>,
}

/// The limit of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Largest cause.
    pub cause: String,
    /// Share of the wall time.
    pub share: f64,
    /// Location of the cause.
    #[serde(rename = "where")]
    pub place: String,
    /// The sentence of `explain`.
    pub sentence: String,
    /// Share of the measured ceiling that was reached, if that ended the search.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_ceiling: Option<f64>,
}

impl Document {
    /// Version of the document.
    pub const SCHEMA: &'static str = "thalweg.tune/1";

    /// Builds the document of a tuning. `command` is the template, `filled` the command with the winner's values.
    pub fn new(tuning: &Tuning, tuned: &Tuned, command: &[String], filled: Vec<String>) -> Document {
        let setting = |point: &Point| setting(&tuning.parameters, point);
        let of_winner = tuned.run_of(&tuned.winner);
        let limit = of_winner.and_then(|ran| {
            let (cause, share) = ran.trial.causes.first()?.clone();
            let (place, sentence) = (ran.trial.place.clone(), ran.trial.sentence.clone());
            Some(Limit { cause, share, place, sentence, of_ceiling: tuned.at_ceiling })
        });
        Document {
            schema: Document::SCHEMA.into(),
            command: command.to_vec(),
            replay: None,
            parameters: tuning.parameters.clone(),
            machine: Machine::describe::<&std::path::Path>(&[]),
            goal: tuning.goal,
            default: setting(&tuning.start),
            runs: tuned.runs.iter().map(|ran| run(&tuning.parameters, ran)).collect(),
            winner: Winner {
                values: setting(&tuned.winner),
                command: filled,
                is_default: tuned.winner == tuning.start,
                rejected: (tuned.best != tuned.winner).then(|| setting(&tuned.best)),
                gain: tuned.gain,
                pairs: tuned.pairs.clone(),
            },
            ties: tuned.ties.iter().map(setting).collect(),
            noise: tuned.noise,
            limit,
            gives_up: Vec::new(),
        }
    }

    /// Adds what the winner gives up: of `texts`, by parameter name, those of parameters not at their default.
    #[must_use]
    pub fn giving_up(mut self, texts: &[(String, String)]) -> Document {
        let moved = |name: &String| self.winner.values.get(name) != self.default.get(name);
        self.gives_up = texts.iter().filter(|(name, _)| moved(name)).map(|(name, text)| format!("{name}: {text}")).collect();
        self
    }

    /// Returns the document as indented JSON with a final newline.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, strings and lists always serialise") + "\n"
    }
}

fn setting(parameters: &[Parameter], point: &Point) -> Setting {
    parameters.iter().zip(point).map(|(parameter, label)| (parameter.name.clone(), label.clone())).collect()
}

fn run(parameters: &[Parameter], ran: &Ran) -> RunResult {
    let figures = (ran.trial.state == State::Done).then_some(ran.trial.figures);
    RunResult {
        number: ran.number,
        values: setting(parameters, &ran.point),
        why: ran.reason.clone(),
        state: ran.trial.state,
        problem: ran.trial.problem.clone(),
        figures,
        rate: figures.map(|figures| figures.bytes.map_or(1.0, |bytes| bytes as f64) / figures.wall_s),
        causes: ran.trial.causes.clone(),
        place: ran.trial.place.clone(),
        best_so_far: ran.is_best,
    }
}
