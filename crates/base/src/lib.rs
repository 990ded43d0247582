//! Utilities that every crate needs: files, numbers, text, `/proc`, locks.
//!
//! **In:** files, bytes, threads. **Out:** the same, through one implementation for the whole project. **Never:** depends on another crate
//! of this workspace.
//!
//! | module | content |
//! |---|---|
//! | [`durable`] | files that survive power loss whole or not at all |
//! | [`glob`] | name patterns |
//! | [`machine`] | names of this machine, its boot and its user |
//! | [`numbers`] | sizes, rates and times, formatted and parsed |
//! | [`private`] | modes of the files that servers create |
//! | [`proc`] | readers of `/proc`: processes, mounts, control groups |
//! | [`random`] | random bytes |
//! | [`ranges`] | merging ranges |
//! | [`release`] | this release, and what it says of another's files |
//! | [`shell`] | quoting commands for a shell |
//! | [`sparse`] | holes in local files, and blocks of zeros |
//! | [`sync`] | locks, and cleaning up after panics |
//! | [`temporary`] | temporary directories |
//! | [`text`] | text in columns: wrapped, cut, padded |
//! | [`utc`] | dates and times in UTC |

#![warn(unreachable_pub)]

pub mod durable;
pub mod glob;
pub mod machine;
pub mod numbers;
pub mod private;
pub mod proc;
pub mod random;
pub mod ranges;
pub mod release;
pub mod shell;
pub mod sparse;
pub mod sync;
pub mod temporary;
pub mod text;
pub mod utc;
