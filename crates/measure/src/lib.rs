//! Measurement by interleaved repetitions, with every run and its circumstances kept, so that figures can be checked.
//!
//! **In:** a [`Plan`] of points and subjects, and their runner ([`Subjects`]: commands, closures, workers on other machines). **Out:** every
//! run in a log that can be resumed, medians and paired ratios with 95 % intervals ([`Runs`]), the *verified* state of the caches, the
//! machine. **Never:** a mean of ratios, a ratio of times from different hours, a cache only assumed to be empty, a judgement, or knowledge
//! of what is measured.
//!
//! | to | see |
//! |---|---|
//! | define what is run, in which order, how often | [`Plan`] |
//! | run it, keep every run, resume | [`measure`] |
//! | compute figures from runs | [`Runs`], [`estimate`], [`fit_line`] |
//! | compare commands, by a plan that is a JSON document | [`CommandPlan`] |
//! | run work in processes on other machines | [`Workers`] |
//! | keep a server running during the measurement | [`Server`] |
//!
//! # How to write a plan
//!
//! 1. Define a *point* (the varied parameters), a *subject* (compared at each point), and the result of one run: a *sample*. All
//!    three are plain types that serialise; a sample holds raw times and counts, never figures computed from them.
//! 2. Put every subject at every point into a [`Case`]; those that need the same fixture (a store, a directory) are one [`Batch`].
//! 3. Write [`Subjects`]: `run` does one case once and times only the part to compare; `set_up` and `take_down` make and remove the
//!    batch's fixture; `is_enough` ends a batch early (a narrow interval, or another rule), `is_settled` a case of it.
//! 4. Put everything into the [`Header`] that must be equal for runs to be combined; call [`measure`] with a log and an [`Observer`].
//! 5. Compute figures from the runs: [`Runs::estimate`] for a median with its interval, [`Runs::ratio`] for one subject against another,
//!    pair by pair within a repetition.
//!
//! ```
//! use thalweg_measure::{Batch, Case, Closures, Header, Limits, OnFailure, Order, Plan, measure};
//!
//! let cases = [10_u64, 1_000].into_iter().flat_map(|point| ["forward", "backward"].map(|s| Case { point, subject: s.to_owned(), repeat: 5
//! })); let batches = vec![Batch { name: "sums".into(), cases: cases.collect() }];
//! let (header, on_failure) = (Header::new("sums", "adding up"), OnFailure::End);
//! let (order, limits) = (Order::Shuffled, Limits::default());
//! let plan = Plan { header, batches, order, limits, warm_up: true, on_failure, seed: 1 };
//! let mut subjects = Closures::new(|case: &Case<u64, String>, _| {
//!     let begun = std::time::Instant::now();
//!     let sum: u64 = if case.subject == "forward" { (0..case.point).sum() } else { (0..case.point).rev().sum() };
//!     std::hint::black_box(sum);
//!     Ok(begun.elapsed().as_secs_f64())
//! });
//! let measured = measure(&plan, None, &mut subjects, &())?;
//! let (ratio, pairs) = measured.runs.ratio(&1_000, &"forward".into(), &"backward".into(), |seconds| [*seconds]).unwrap();
//! assert_eq!((ratio.values, pairs.len()), (5, 5));
//! # Ok::<(), thalweg_measure::Error>(())
//! ```

#![warn(unreachable_pub)]

mod cache;
pub mod ceiling;
mod command;
mod commands;
mod engine;
mod error;
mod fit;
mod log;
mod machine;
mod plan;
mod runs;
mod server;
mod statistics;
mod workers;

pub use cache::{CacheState, evict, residency, warm};
pub use command::{Process, Usage, cpu_time_of};
pub use commands::{CommandPlan, CommandResult, Outcome, WALL};
pub use engine::{Closures, Failure, Measured, MeasuredBy, Observer, Progress, StopReason, Subjects, measure};
pub use error::{Error, Result};
pub use fit::{Fit, fit_line};
pub use log::{LoggedRuns, check_log, header_of, read_log};
pub use machine::Machine;
pub use plan::{Batch, Case, Header, Key, Limits, OnFailure, Order, Plan};
pub use runs::{Run, Runs, estimate};
pub use server::Server;
pub use statistics::{Estimate, SplitMix, median};
pub use workers::{Host, Start, Workers, serve};
