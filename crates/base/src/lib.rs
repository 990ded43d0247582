//! What every room needs and none should write twice.
//!
//! **In:** files, bytes, threads. **Out:** the same, handled in the one way that this house has for it. **Never:** knows any other crate of ours.
//!
//! | room | what is in it |
//! |---|---|
//! | [`durable`] | files that are there whole or not at all |
//! | [`glob`] | patterns of names |
//! | [`machine`] | what this machine, its boot and its user are called |
//! | [`numbers`] | sizes, rates and times as people read and write them |
//! | [`private`] | modes of what servers make |
//! | [`proc`] | what the kernel says of processes, mounts and control groups |
//! | [`random`] | random bytes |
//! | [`ranges`] | ranges put together |
//! | [`shell`] | commands as a shell takes them |
//! | [`sparse`] | holes of local files, and blocks of zeros |
//! | [`sync`] | locks, and what panics leave to do |
//! | [`text`] | text in columns: wrapped, cut, filled |
//! | [`utc`] | moments as people read them |

#![warn(unreachable_pub)]

pub mod durable;
pub mod glob;
pub mod machine;
pub mod numbers;
pub mod private;
pub mod proc;
pub mod random;
pub mod ranges;
pub mod shell;
pub mod sparse;
pub mod sync;
pub mod text;
pub mod utc;
