//! Trace in, explanation out: where every second of a transfer's wall time went, and what a change would give.
//!
//! **In:** a recording, through [`thalweg_trace::Source`]. **Out:** an [`Explanation`]. **Never:** files, sockets, clocks, or which
//! recorder was used: rules know only span kinds, tracks, roles, wakers, requests and connections. `MODEL.md` describes how time is charged
//! and how predictions are made, for those who read the output.
//!
//! The recording's spans are read twice, backward in time (`run`). The first pass gathers what must be known before the path is walked:
//! which programs serve (`observe`), and the rows of the replay (`replay`). In the second pass, every span is gathered into the observation
//! (`observe`), the rules (`waits`) say what each wait waited for, and the critical path (`path`) follows them, charging each instant in
//! its ledger. The replay asks the same rules about its own waits. If a walk shows that threads wait by running, or compute in turn, it is
//! repeated with that known.
//!
//! The facts of the run (`facts`) are derived from the observation, the ledger and the small tables. The document (`assemble`) and the
//! replay model are made from them; the document contains the model's predictions, and the model knows nothing of the document.

#![warn(unreachable_pub)]

mod answer_terms;
mod assemble;
mod cause;
mod condition;
pub mod connections;
pub mod diff;
pub mod document;
mod error;
mod facts;
mod interval;
mod limits;
mod observe;
mod path;
mod peer;
pub mod profile;
mod replay;
pub mod rpcstat;
pub mod rule;
mod run;
pub mod runs;
mod title;
mod waits;

pub use cause::Cause;
pub use condition::Condition;
pub use document::{Explanation, SCHEMA};
pub use error::ExplainError;
pub use facts::waiting::waited_in;
pub use run::{Options, explain};
pub use title::{title, title_of};
