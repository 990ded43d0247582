//! Lots: space that is reserved for an owner, of a size and for a time.
//!
//! A row here says what is promised, and each target of the lot keeps its share of that. The two are changed in an order in which the
//! targets never promise more than the row, and the row never more than the lot is: a share is made smaller at the target and then in the row,
//! and larger in the row and then at the target. What a crash leaves in between is promised by nobody for a while, and is given again by
//! the worker ([`settle`]).
//!
//! | room | what is in it |
//! |---|---|
//! | `rows` | the rows of lots |
//! | `terms` | what a lot can be: its name, size and time, and its shares |
//! | `fits` | why one does not fit, and when it would |
//! | `rules` | who may use a lot, and what may be moved between two |
//! | `service` | what is asked, and by whom |
//! | `keeper` | shares at the targets, and the row beside them |
//! | `bounds` | how much an owner may have, and for how long |
//! | `create`, `change`, `remove` | the life of a lot |
//! | `moving` | promise that is not used moves to the target that needs it |
//! | `reclaim` | lots whose time is over make room |
//! | `files` | what is in a lot |
//! | `settle` | the worker: what a crash or a server that was away has left |
//! | `notes` | what was reclaimed |

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

pub(crate) use service::Lots;
