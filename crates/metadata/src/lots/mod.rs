//! Lots: space reserved for an owner, with a size and a duration.
//!
//! A row holds the promise, and each target of the lot holds its share. Their changes are ordered such that the targets never promise more
//! than the row, nor the row more than the lot: a share is shrunk at the target and then in the row, and enlarged in the row and then at
//! the target. Space that a crash leaves unpromised in between is promised again by the worker ([`settle`]).
//!
//! | module | content |
//! |---|---|
//! | `rows` | the rows of lots |
//! | `terms` | validity of a lot's name, size and time, and its shares |
//! | `fits` | why a lot does not fit, and when it would |
//! | `rules` | who may use a lot, and what may be moved between two |
//! | `service` | requests and their authorisation |
//! | `keeper` | shares on the targets, and the lot's row |
//! | `bounds` | bounds on an owner's reservations |
//! | `create`, `change`, `remove` | the life of a lot |
//! | `moving` | moving unused promise to the target that needs it |
//! | `reclaim` | removing expired lots to make room |
//! | `files` | the contents of a lot |
//! | `settle` | the worker, which repairs after a crash or a server's absence |
//! | `notes` | a log of reclaimed lots |

mod bounds;
mod change;
mod create;
mod files;
mod fits;
mod keeper;
mod moving;
mod notes;
mod reclaim;
mod remove;
pub(crate) mod rows;
pub(crate) mod rules;
mod service;
mod settle;
pub(crate) mod terms;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use rows::{COUNTER, Row};
pub(crate) use service::Lots;
