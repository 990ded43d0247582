//! Trace in, explanation out: where every second of a transfer's wall time went, and what a change would give.
//!
//! **In:** a recording, through [`thalweg_trace::Source`]. **Out:** an [`Explanation`]. **Never:** files,
//! sockets, clocks, or who recorded what: rules speak of span kinds, tracks, roles, wakers, requests and
//! connections only. How time is charged and how predictions are made is described in `MODEL.md`, for those who
//! read the output.
//!
//! The recording's spans are read twice, backward in time (`run`). First everybody looks at them who must before the path is walked: who serves
//! (`observe`), and what the replay is made of (`replay`). Then, as they go by once more, every span is looked at for what is to be gathered
//! (`observe`), the rules (`waits`) say what each wait waited for, and the critical path (`path`) follows them, charging each instant in its ledger.
//! The replay asks the same rules of its own waits meanwhile. Where a walk shows that threads wait by running, or compute in turn, it is made once more.
//!
//! What was gathered and charged, and what the small tables say, is what was found out of the run (`facts`). Of that the document (`assemble`) and the
//! replay model are made; the document has the model's predictions in it, and the model knows nothing of the document.

#![warn(unreachable_pub)]

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
mod said;
mod title;
mod waits;

pub use cause::Cause;
pub use condition::Condition;
pub use document::Explanation;
pub use error::ExplainError;
pub use facts::waiting::waited_in;
pub use run::{Options, explain};
pub use title::{title, title_of};
