//! The result: every run with why it was made, the setting to use, what it gives, and what cannot be said. `tune.schema.json` describes it to
//! other languages; a test holds the two together.

use crate::search::Reason;
use crate::tuning::{Figures, Goal, Ran, Tuned, Tuning};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_measure::{Estimate, Machine};
use thalweg_study::sweep::{Parameter, Point, State};

/// A setting: each parameter's value, as it was written.
pub type Setting = BTreeMap<String, String>;

/// A tuning's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// [`Document::SCHEMA`].
    pub schema: String,
    /// The command's template.
    pub command: Vec<String>,
    /// Of which sweep's runs it was made, if it ran nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replay: Option<String>,
    /// What was varied.
    pub parameters: Vec<Parameter>,
    /// Where it ran.
    pub machine: Machine,
    /// What was to be large or small.
    pub goal: Goal,
    /// Where the command stands without a tuner.
    pub default: Setting,
    /// The search's runs, in order.
    pub runs: Vec<RunResult>,
    /// The setting to use.
    pub winner: Winner,
    /// Settings that were run and are a tie with it.
    pub ties: Vec<Setting>,
    /// How far runs of one setting lie apart, as a part of them.
    pub noise: f64,
    /// What limits at the winner.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<Limit>,
    /// What the winner gives up, for each parameter that is not at its default.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub gives_up: Vec<String>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// From 1.
    pub number: usize,
    /// At which setting.
    pub values: Setting,
    /// Why there.
    pub why: Reason,
    /// What became of it.
    pub state: State,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
    /// What it took, where it ended well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub figures: Option<Figures>,
    /// Bytes over wall time; where bytes are not known, one over wall time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<f64>,
    /// Its causes with their shares, largest first.
    pub causes: Vec<(String, f64)>,
    /// Where the largest was.
    #[serde(rename = "where", skip_serializing_if = "String::is_empty", default)]
    pub place: String,
    /// Whether it was the best so far.
    pub best_so_far: bool,
}

/// The setting to use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Winner {
    /// Its values.
    pub values: Setting,
    /// The command with them, word by word.
    pub command: Vec<String>,
    /// Whether it is the default.
    pub is_default: bool,
    /// The best of the search, where it could not be shown to be better than the default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rejected: Option<Setting>,
    /// The best of the search over the default, pair by pair.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gain: Option<Estimate>,
    /// Those pairs: default and best.
    pub pairs: Vec<[Figures; 2]>,
}

/// What limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The largest cause.
    pub cause: String,
    /// Its share of the wall time.
    pub share: f64,
    /// Where it was.
    #[serde(rename = "where")]
    pub place: String,
    /// What `explain` says of it.
    pub sentence: String,
    /// The part of its measured ceiling that was reached, where that ended the search.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_ceiling: Option<f64>,
}

impl Document {
    /// The version of the document.
    pub const SCHEMA: &'static str = "thalweg.tune/1";

    /// Of what was tuned and what came of it. `command`: the template; `filled`: with the winner's values.
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

    /// With what the winner's parameters give up, each with its name: of those that are not at their default.
    #[must_use]
    pub fn giving_up(mut self, texts: &[(String, String)]) -> Document {
        let moved = |name: &String| self.winner.values.get(name) != self.default.get(name);
        self.gives_up = texts.iter().filter(|(name, _)| moved(name)).map(|(name, text)| format!("{name}: {text}")).collect();
        self
    }

    /// The document, indented, with a newline at its end.
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
