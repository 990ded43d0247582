//! Checksums at rest: a CRC-32C for each block of 4 KiB of every datafile.
//!
//! # What is stored
//!
//! The stored sum of a block is its CRC-32C XOR that of a block of zeros, so that a hole has sum 0 and the sums of a sparse file are
//! sparse. The last block is summed as if zeros followed it: extending a datafile changes no sum. Sums of small datafiles are in an
//! extended attribute, which costs no second inode; those of larger ones in a file beside the datafile ([`place`]).
//!
//! # The mark
//!
//! With the sums is a *mark* ([`mark`]). **Clean**: data and sums are on stable storage and belong together, so a block that does not
//! match is damaged. **Dirty**: they were written by one run of a server, which trusts them as long as it runs; after a crash any part
//! of either may be missing, so another run takes the blocks as *unverified*: it returns them, recomputes their sums in the background
//! ([`settle`]) and counts those that differ. Refusing them would refuse undamaged data.
//!
//! The order of things on stable storage:
//!
//! | change | order |
//! |---|---|
//! | dirty → clean | data and sums synced, then the mark. The mark needs no sync: without it the datafile is only unverified |
//! | clean → dirty | the mark synced, then data and sums, in any order |
//!
//! A new datafile begins dirty and pays nothing; one that is written all the time pays for one sync, at its first change.
//!
//! # Locks
//!
//! Writers of a datafile take turns ([`kept`]), as they do in the kernel: data and sums change together. Readers take no lock. They
//! read data, then sums; only if these do not match do they wait for their turn and read both again, so that a reader that came
//! between a writer's two steps is not told of damage.

mod block;
mod change;
mod counts;
mod kept;
mod ledger;
mod mark;
mod place;
mod read;
mod scan;
mod settle;
mod table;

pub(super) use block::BlockSums;
pub use counts::Counts;
pub(super) use kept::{Beside, Locked, SumState};
pub(super) use ledger::Ledger;
pub(super) use read::{Fetched, Source};
pub(super) use scan::Scanned;
pub use settle::Settled;
pub(super) use settle::{Files, Open, Pace, settle};
pub(super) use table::Table;

#[cfg(test)]
mod tests;
