//! The metadata service on the wire: one operation of the namespace for each request, in the order of the
//! connection; what its client has open is remembered as long as the connection lives.
//!
//! | room | what is in it |
//! |---|---|
//! | `session` | one client's connection |
//! | `operations` | what depends on nothing that the client asked before |
//! | `stat` | attributes and pages, with the sizes that can be proved |
//! | `cursors` | pages that are asked for before the page before them has come |
//! | `openings` | what one client has open |
//! | `drafts` | files that copies have made and not finished |
//! | `clients` | whose answers are kept, for requests that are sent again |
//! | `state` | what the service is made of |

#[cfg(test)]
mod again;
mod clients;
mod cursors;
mod drafts;
mod open_counts;
mod openings;
mod operations;
#[cfg(test)]
mod privileges;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod rights;
mod session;
#[cfg(test)]
mod size_model;
mod stat;
mod state;

pub(crate) use drafts::path_of;
pub use session::ClientSession;
pub use state::{MetadataOptions, MetadataService};
