//! The metadata service: alone orders names, renames and truncations, and remembers each file's layout.
//!
//! | room | what is in it |
//! |---|---|
//! | [`database`] | what is asked of a database, and with which durability |
//! | [`embedded`] | the default one: layers in memory, a log, a redb file |
//! | `log`, `replay` | the log, and what is made of it at a start |
//! | `redb_file` | that file |
//! | [`model`] | one in memory, for tests |
//! | [`namespace`] | the names, and what is read of them |
//! | `making`, `moving`, `attributes` | the operations that change something, each one transaction |
//! | `many` | many of them in one request |
//! | [`intents`] | what removals and truncations leave to do at the I/O servers |
//! | [`io_servers`] | how it speaks to them |
//! | [`locks`] | advisory locks and append turns, at both ends |
//! | [`client`] | the other end: calls on names |
//! | `asking` | attributes and pages, with the sizes that can be proved |
//! | `continued` | pages that are asked for before the page before them has come |
//! | [`service`] | the namespace on the wire |
//! | [`sizes`] | when a file's size is known here, and the proof that it is right |
//! | `openings` | what one client has open |
//! | `turns` | turns in which directories are read, so that they do not keep others from their work |
//! | [`placement`] | which targets a new file's datafiles go to |

mod asking;
mod attributes;
pub mod client;
mod continued;
pub mod database;
mod drafts;
pub mod embedded;
mod inode;
pub mod intents;
pub mod io_servers;
mod layers;
pub mod locks;
mod log;
mod making;
mod many;
pub mod model;
mod moving;
pub(crate) mod names;
pub mod namespace;
mod openings;
pub mod placement;
mod redb_file;
mod replay;
pub mod service;
pub mod sizes;
mod tree;
mod turns;

pub use inode::Intent;
pub use names::{shown, split};
