//! Walks directories: returns entries in order with their attributes and sizes, prefetched.
//!
//! A listing that asks for one thing at a time costs round trips: one for a file's attributes, another for its size. Here a page of a
//! directory brings the attributes of all its entries (*statahead*), and the I/O servers are asked for the sizes of its files immediately,
//! many files per message (*glimpse-ahead*). If the metadata service can prove a size, it returns the size itself and no I/O server is
//! asked. A walk runs ahead of its reader by a window of entries, which grows while the reader keeps up; like all memory, the window is
//! bounded.
//!
//! | room | what is in it |
//! |---|---|
//! | [`options`] | what to request, how far ahead, and counters |
//! | [`entry`] | results |
//! | [`walker`] | the walker: its walks, and requests for single files |
//! | [`tree`] | whole trees |
//! | [`ahead`] | listing directories of a tree before their turn |
//! | [`core`] | the state machine, without I/O |
//! | [`state`] | state shared by a walker's walks |
//! | [`wires`] | connections to all servers, and one round of I/O on them |

mod ahead;
mod core;
mod entry;
mod options;
mod state;
mod tree;
mod walker;
mod wires;

// For driving a walk without I/O, as the simulated site of `store` does.
pub use self::core::{Answer, Ask, Core, Peer, Request, Taken, WalkId};
pub use self::wires::{Message, answer, message};
pub use entry::{FileInfo, Size, SizeFrom, WalkEntry};
pub use options::{Detail, WalkCounters, WalkMode, WalkOptions};
pub use tree::{Tree, TreeEntry, TreeOptions, Visit};
pub use walker::{Walk, Walker};
