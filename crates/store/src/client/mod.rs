//! The client's end: connections to servers, files as bytes, and the flows that move them.
//!
//! | room | what is in it |
//! |---|---|
//! | [`data`] | all I/O servers of a store; calls to many at a time |
//! | [`file`] | one file: read, write, size, sync, truncate |
//! | [`link`] | one server, and the connections to it that are not in use |
//! | [`engine`] | threads, one for each connection, that work on flow buffers |
//! | [`names`] | the names of a store, as the data path needs them |

pub mod data;
pub(crate) mod engine;
pub mod file;
pub(crate) mod flow;
pub mod link;
mod memory;
pub mod names;
mod request;
pub(crate) mod verifiers;
mod worker;

pub use data::DataClient;
pub use file::{FileHandle, StoreFile};
pub use link::{Link, SessionOf};
pub use memory::RequestMemory;
pub use names::{Names, Store};
