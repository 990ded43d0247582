//! Walking directories: entries in order, with what is known of them, fetched before the reader asks for them.
//!
//! A listing that asks for one thing at a time costs round trips: one for a file's attributes, one more for its size. Here a
//! page of a directory brings the attributes of all its entries (*statahead*), and the sizes of its files are asked of the I/O
//! servers at once, the questions of many files in one message (*glimpse-ahead*). The metadata service answers a size itself
//! where it can prove it; then nobody else is asked. A walk runs ahead of its reader by a window of entries, which
//! grows while the reader asks for what is there already, and is bounded, as is all memory.
//!
//! | room | what is in it |
//! |---|---|
//! | [`options`] | what to ask for, how far ahead, and what is counted |
//! | [`entry`] | what comes out |
//! | [`walker`] | the walker: its walks, and single files that join them |
//! | [`tree`] | whole trees |
//! | [`ahead`] | directories of a tree that are listed before their turn |
//! | [`core`] | what is known, asked, and asked next: without I/O |
//! | [`state`] | what the walks of a walker share |
//! | [`wires`] | connections to all servers, and one turn of work on them |

mod ahead;
mod core;
mod entry;
mod options;
mod state;
mod tree;
mod walker;
mod wires;

// What drives a walk without I/O: the simulated site of `store`, too.
pub use self::core::{Answer, Ask, Core, Peer, Request, Taken, WalkId};
pub use self::wires::{Message, answer, message};
pub use entry::{Known, Size, SizeFrom, WalkEntry};
pub use options::{Detail, WalkCounters, WalkMode, WalkOptions};
pub use tree::{Tree, TreeEntry, TreeOptions, Visit};
pub use walker::{Walk, Walker};
