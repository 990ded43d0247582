//! Honest measurement: what is compared is run in turn, pair by pair, until the interval is narrow
//! enough, and everything needed to doubt the figure is kept beside it.
//!
//! **In:** an [`Experiment`] with two or more [`Arm`]s, each a command or a closure. **Out:** an
//! [`Outcome`]: every raw time, medians and paired ratios with 95 % intervals, the state of the caches
//! as it was *verified*, the machine, as JSON and as a Markdown table. **Never:** a mean of ratios, a
//! ratio of times from different hours, a cache that is merely believed to be empty.
//!
//! ```
//! use thalweg_measure::{Arm, Experiment, Stop};
//!
//! let outcome = Experiment::new("adding up")
//!     .arm(Arm::closure("forward", || { std::hint::black_box((0..5_000_u64).sum::<u64>()); Ok(()) }))
//!     .arm(Arm::closure("backward", || { std::hint::black_box((0..5_000_u64).rev().sum::<u64>()); Ok(()) }))
//!     .compare("forward", "backward")
//!     .stop(Stop { least_pairs: 3, most_pairs: 3, ..Stop::default() })
//!     .run()?;
//! assert_eq!(outcome.comparisons[0].pairs.len(), 3);
//! println!("{}", outcome.markdown());
//! # Ok::<(), thalweg_measure::Error>(())
//! ```

pub mod cache;
pub mod ceiling;
pub mod command;
pub mod error;
pub mod experiment;
pub mod fit;
pub mod machine;
pub mod markdown;
pub mod outcome;
pub mod statistics;

pub use cache::{CacheState, drop_all_caches, evict, warm};
pub use command::{Process, Usage, cpu_time_of};
pub use error::{Error, Result};
pub use experiment::{Arm, Experiment, Order, Stop};
pub use fit::{Fit, fit_line};
pub use machine::{FileSystem, Machine};
pub use outcome::{ArmResult, Comparison, Outcome, Run, StopReason};
pub use statistics::{Estimate, median, median_interval, paired_ratio};
