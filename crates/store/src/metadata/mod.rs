//! The metadata service: alone orders names, renames and truncations, and remembers each file's layout.
//!
//! | room | what is in it |
//! |---|---|
//! | [`database`] | what is asked of a database, and with which durability |
//! | [`embedded`] | the default one: layers in memory, a log, a redb file |
//! | [`model`] | one in memory, for tests |
//! | [`namespace`] | the operations, each one transaction |
//! | [`placement`] | which targets a new file's datafiles go to |

pub mod database;
pub mod embedded;
mod inode;
mod layers;
mod log;
pub mod model;
mod names;
pub mod namespace;
pub mod placement;

pub use inode::Intent;
pub use names::{shown, split};
