//! The client's end: connections to servers, files as bytes, and the flows that move them.
//!
//! | room | what is in it |
//! |---|---|
//! | [`buffered`] | a file as a program expects one: both of the following, kept true to each other |
//! | [`ahead`] | reads that are answered before they are asked for |
//! | [`behind`] | writes that return before they are done |
//! | [`budget`] | the memory of all windows |
//! | [`data`] | all I/O servers of a store; calls to many at a time |
//! | [`file`] | one file: read, write, size, sync, allocate, seek |
//! | [`link`] | one server, and the connections to it that are not in use |
//! | [`engine`] | threads, one for each connection, that work on flow buffers |
//! | [`names`] | the names of a store, as the data path needs them |
//! | [`walk`] | directories and trees, fetched before they are read |

mod ahead;
mod behind;
mod budget;
mod buffered;
mod data;
pub(crate) mod engine;
pub(crate) mod file;
pub(crate) mod flow;
mod lengths;
mod link;
mod memory;
mod names;
mod request;
mod streams;
pub(crate) mod verifiers;
pub mod walk;
mod window;
mod worker;

pub use ahead::{AheadCounters, AheadOptions, ReadAhead, View};
pub use behind::{BehindOptions, WriteBehind};
pub use budget::Budget;
pub use buffered::{BufferedFile, BufferedOptions};
pub use data::{DataClient, Outgoing};
pub use file::{FileHandle, StoreFile};
pub use link::{Link, SessionOf};
pub use memory::RequestMemory;
pub use names::{Names, Store};
