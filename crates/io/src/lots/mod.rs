//! Lots at a target: the promised space, its use, and who may use it.
//!
//! A *share* is a target's part of a lot's promise ([`shares`]), stored in a small file ([`share_file`]). The used part is not
//! stored: the blocks of a lot's datafiles are counted by one walk when the target is opened, and each change of a datafile is
//! added from then on ([`lot`], [`account`]). Counters on disk would drift: a crash between a change and its counter is enough.
//!
//! Promised and unused space is kept free by refusing writes outside lots that would take it ([`volume`]: one per file system of
//! this process; promises of other processes' targets there are counted when a share is accepted, [`neighbours`]). That suffices
//! if the file system has no other users; against other programs there is a preallocated file ([`ballast`]) or ext4's reserved
//! blocks ([`reserve`]), and [`level`] determines which applies.
//!
//! A write into a lot passes through [`room`]: one atomic operation before it, one look at the datafile's blocks after it, no
//! message and no sync. Only when the share is used up is the file examined for what the write really adds ([`extents`]), and
//! then the metadata service asked for the unused promise of other targets ([`more`]).

mod account;
mod ballast;
mod deadline;
mod extents;
mod level;
mod lot;
mod more;
mod neighbours;
mod reserve;
mod room;
mod share_file;
mod shares;
mod volume;
mod walk;

pub(super) use lot::{Lot, OfLot};
pub(super) use more::More;
pub(super) use room::taken_by_others;
pub(super) use shares::Lots;

#[cfg(test)]
pub(super) mod tests;
