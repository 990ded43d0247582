//! The effect of a change, and how well the model behind it replays the run.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};

/// The basis of a prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grounds {
    /// The recorded run was replayed with the change made.
    #[default]
    Replayed,
    /// The change cannot be replayed: the gain is an upper bound.
    Bounded,
}

/// A change and its predicted effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// Kind of the change, stable and machine-readable: `device.read.x2`, `no_sync`, ... (`MODEL.md` lists them).
    #[serde(default)]
    pub id: String,
    /// The change, in words.
    pub change: String,
    /// The basis of the prediction.
    #[serde(default)]
    pub basis: Grounds,
    /// The predicted wall time, corrected for the model's error on the observed run; for a bound, the least possible.
    pub predicted_wall_s: f64,
    /// Wall times between which four of five such changes fell; for a bound, from the least possible to no gain.
    #[serde(default)]
    pub interval_s: (f64, f64),
    /// `wall_s` over `predicted_wall_s`; for a bound, the most possible.
    pub speedup: f64,
    /// The causes whose time it takes away: nothing is proposed if none of them was charged.
    #[serde(default)]
    pub about: Vec<Cause>,
    /// How to make the change with this program, or what would have to change.
    pub how: String,
    /// The flags alone, as (flag, value), if flags make the change; for scripts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub flags: Vec<(String, String)>,
    /// The recorded command with the change made, word by word; empty if no command makes it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub command: Vec<String>,
    /// Properties that the change gives up (durability, encryption, ...), if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gives_up: Option<String>,
    /// The recipe that says how: a file of `recipes/`, without its extension.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recipe: Option<String>,
}

impl WhatIf {
    /// Whether the change makes work unnecessary, or calls and requests fewer: the subject of the number behind the rate. One such change
    /// comes before all others.
    pub fn is_of_the_number(&self) -> bool {
        self.id.ends_with("_once")
            || matches!(
                self.id.as_str(),
                "server.parallel"
                    | "no_nagle"
                    | "time_limit"
                    | "names_at_once"
                    | "calls.larger"
                    | "disk.requests.x4"
                    | "overlap.stages"
                    | "lock.outside"
                    | "no_other_clients"
            )
    }

    /// Whether the change is bought, not made: faster processors.
    pub fn is_bought(&self) -> bool {
        self.id.starts_with("cpu.") || self.id.starts_with("processors.")
    }
}

/// How well the model replays what was observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The wall time it gives for the unchanged run; absent if the run cannot be modelled (`reason` says why).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replayed_wall_s: Option<f64>,
    /// |replayed − observed| / observed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<f64>,
    /// Why there is no prediction, if there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// A change against what was charged, without a prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The cause it is for.
    pub cause: Cause,
    /// The change, in words.
    pub says: String,
    /// The recorded command with the change made, word by word; empty if no command makes it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub command: Vec<String>,
    /// Properties that it gives up, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gives_up: Option<String>,
    /// The recipe that contains this advice: a file of `recipes/`, without its extension.
    pub recipe: String,
    /// The page that documents it.
    pub source: String,
}
