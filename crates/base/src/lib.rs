//! What every room needs and none should write twice.
//!
//! **In:** files, bytes, threads. **Out:** the same, handled in the one way that this house has for it. **Never:** knows any other crate of ours.
//!
//! | room | what is in it |
//! |---|---|
//! | [`durable`] | files that are there whole or not at all |
//! | [`private`] | modes of what servers make |
//! | [`random`] | random bytes |
//! | [`sparse`] | holes of local files, and blocks of zeros |
//! | [`sync`] | locks, and what panics leave to do |
//! | [`utc`] | moments as people read them |

#![warn(unreachable_pub)]

pub mod durable;
pub mod private;
pub mod random;
pub mod sparse;
pub mod sync;
pub mod utc;
