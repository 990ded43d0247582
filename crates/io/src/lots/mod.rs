//! Lots at a target: what is promised of its space, how much of that is used, and who may use it.
//!
//! A *share* is what a target promises of a lot ([`shares`]); it is kept in a small file ([`kept`]). How much of it is used is on no disk:
//! the blocks of a lot's datafiles are counted by one walk when the target is opened, and from then on by what each change of a datafile
//! has changed ([`lot`], [`account`]). Counters that are kept on disk drift: a crash between the change and the counter is enough.
//!
//! What is promised and not used is kept free by refusing writes outside lots that would take it ([`volume`]: one for each file system of
//! this process; what other processes' targets there have promised is counted when a share is kept, [`neighbours`]). That is all it takes where the file
//! system has no other users; against other programs there is a preallocated file
//! ([`ballast`]) or ext4's reserved blocks ([`reserve`]), and [`level`] says which of these holds.
//!
//! A write into a lot finds its place here ([`room`]): one atomic operation before it, one look at the datafile's blocks after it, no
//! message and no sync. Only where the share is used up is the file asked what the write really adds ([`extents`]), and then the metadata
//! service for what other targets have left ([`more`]).

mod account;
mod ballast;
mod deadline;
mod extents;
mod kept;
mod level;
mod lot;
mod more;
mod neighbours;
mod reserve;
mod room;
mod shares;
mod volume;
mod walk;

pub(super) use lot::{Lot, OfLot};
pub(super) use more::More;
pub(super) use room::taken_by_others;
pub(super) use shares::Lots;

#[cfg(test)]
mod tests;
