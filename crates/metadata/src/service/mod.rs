//! The protocol of the metadata service: each request is one operation of the namespace, executed in the connection's order. A client's
//! open files are tracked while its connection lives.
//!
//! | module | content |
//! |---|---|
//! | `session` | one client's connection |
//! | `operations` | requests that do not depend on earlier ones of the client |
//! | `stat` | attributes and pages, with provable sizes |
//! | `cursors` | pages requested before the previous page has arrived |
//! | `openings` | a client's open files |
//! | `drafts` | files of unfinished copies |
//! | `clients` | clients whose answers are stored for repeated requests |
//! | `state` | the service and its parts |

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
