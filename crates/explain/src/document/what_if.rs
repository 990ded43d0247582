//! What a change would give, and how well the model that says so replays the run.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};

/// What a prediction rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grounds {
    /// The recorded run was replayed with the change made.
    #[default]
    Replayed,
    /// The change cannot be replayed: it gives this at the most.
    Bounded,
}

/// What one change would give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// What kind of change, stable and machine-readable: `device.read.x2`, `no_sync`, ... (`MODEL.md` lists them).
    #[serde(default)]
    pub id: String,
    /// The change, in words.
    pub change: String,
    /// What the prediction rests on.
    #[serde(default)]
    pub basis: Grounds,
    /// The wall time the model predicts, corrected for its own error on the observed run; of a bound, the least that it can be.
    pub predicted_wall_s: f64,
    /// Between which wall times four of five such changes came to lie; of a bound, from the least that it can be to no gain.
    #[serde(default)]
    pub interval_s: (f64, f64),
    /// `wall_s` over `predicted_wall_s`; of a bound, the most that it can be.
    pub speedup: f64,
    /// The causes that it takes time from: nothing is proposed where none of them was charged.
    #[serde(default)]
    pub about: Vec<Cause>,
    /// How to make the change with this very program; or what would have to change.
    pub how: String,
    /// The flags alone, as (flag, value), where the change is a matter of flags; for scripts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub flags: Vec<(String, String)>,
    /// The recorded command with the change made, word by word; empty where a command does not make it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub command: Vec<String>,
    /// What the change gives up (durability, encryption, ...), where it gives up anything.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gives_up: Option<String>,
    /// Whose recipe says how: a file of `recipes/`, without its ending.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recipe: Option<String>,
}

impl WhatIf {
    /// Whether it makes work unnecessary, or calls and requests fewer: what the number behind the rate is about. One such change stands before all others.
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

    /// Faster processors are what one can buy, not what one can change.
    pub fn is_bought(&self) -> bool {
        self.id.starts_with("cpu.") || self.id.starts_with("processors.")
    }
}

/// How well the model replays what was observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The wall time it gives for the run as it was; absent when the run cannot be modelled (`reason` says why).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replayed_wall_s: Option<f64>,
    /// |replayed − observed| / observed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<f64>,
    /// Why there is no prediction, when there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// A change against what was charged, of which no what-if predicts what it gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The cause that it is for.
    pub cause: Cause,
    /// The change, in words.
    pub says: String,
    /// The recorded command with the change made, word by word; empty where a command does not make it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub command: Vec<String>,
    /// What it gives up, where it gives up anything.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gives_up: Option<String>,
    /// Whose recipe says it: a file of `recipes/`, without its ending.
    pub recipe: String,
    /// The page that documents it.
    pub source: String,
}
