//! A parameter study of any command: measures every point of a grid interleaved, explains each, and finds the parameters that matter.
//!
//! **In:** a [`Choice`]: the parameters, the command's template, and what is done around a run. **Out:** a log of every run, and a
//! [`Document`]. **Never:** ordering runs or logging (the engine does), finding causes (`explain` does), or a shell around the command.
//!
//! | module | contents |
//! |---|---|
//! | [`values`], [`skip`], [`template`] | the small languages: values, conditions, placeholders |
//! | [`plan`] | the request, validated; the points; the plan for the engine |
//! | [`run`], [`program`], [`sample`] | one run with its surroundings; the identity of the program; the sample in the log |
//! | [`steps`] | single points on demand, for a tuner |
//! | [`ceiling`], [`profile`], [`calls`], [`expected`] | the measured ceiling; profile classes; latencies of calls; the expected duration |
//! | [`variance`], [`findings`] | which parameters matter; the best point, changes of the cause, what failures have in common |
//! | [`document`], [`point`], [`table`], [`diff`] | the result; a row for each run; comparison of two sweeps |

mod calls;
mod ceiling;
mod diff;
mod document;
mod expected;
mod findings;
mod plan;
mod point;
mod profile;
mod program;
mod run;
mod sample;
mod skip;
mod steps;
mod table;
mod template;
#[cfg(test)]
mod tests;
mod values;
mod variance;

pub use diff::{Diff, PointDiff, diff};
pub use document::Document;
pub use expected::Expected;
pub use findings::{Findings, Handover};
pub use plan::{Choice, Explain, Sweep};
pub use point::{PointResult, RunResult};
pub use run::Surroundings;
pub use sample::{ClassShare, Classes, Digest, Point, Recorded, Sample, State, Subject};
pub use steps::{How, Steps};
pub use values::{Parameter, Value};
pub use variance::Share;
