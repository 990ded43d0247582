//! A parameter study of any command: every point of a grid measured in turn, why each is as fast as it is, and which parameter mattered.
//!
//! **In:** a [`Choice`]: what is varied, the command's template, what belongs around it. **Out:** a log of every run, and a [`Document`].
//! **Never:** an order or a log of its own (the engine's), a cause of its own (`explain`'s), a shell between a command and its arguments.
//!
//! | file | what is in it |
//! |---|---|
//! | [`values`], [`skip`], [`template`] | the small languages: values, conditions, places in words |
//! | [`plan`] | what is asked for, checked; the points; the plan for the engine |
//! | [`run`], [`program`], [`sample`] | one run with what it needs around it; which program it was; what the log has of it |
//! | [`steps`] | single points on demand, for a tuner |
//! | [`ceiling`], [`profile`], [`calls`], [`expected`] | what the hardware gives, measured in turn; classes of a profile; how long single calls took; how long it will take |
//! | [`variance`], [`findings`] | which parameter mattered; the best point, where causes change hands, what failures have in common |
//! | [`document`], [`point`], [`table`], [`diff`] | the result; a row for each run; two of them point by point |

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
