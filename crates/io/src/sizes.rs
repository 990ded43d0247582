//! A cache of datafile sizes, which saves asking the file system.
//!
//! A server is the only writer of its targets (it holds a lock on each), so a size from the file system stays valid until a
//! request here changes the datafile. A look-up costs a tenth of the system call.
//!
//! **Exact.** A thread that changes a datafile holds a [`Changing`] from before the change until after it: the cached size is
//! dropped first, and none is stored meanwhile. A thread that misses takes a [`Ticket`], asks the file system and stores the
//! answer with the ticket; it is kept only if no change began or was in progress in between. A glimpse that begins after a change
//! was answered therefore never sees the old size, and one concurrent with a change sees either, as in the file system.
//! (Allocated bytes are those of the last look: file systems settle them a little later on their own. A sync drops them.)
//!
//! **Quiet.** A client that combines a file's size from several servers' answers must know that none of them was changing
//! meanwhile: each size carries the time since which it has certainly been unchanged ([`Since`]).
//!
//! **Bounded.** The table is an array of slots, four for each hash value; a new entry replaces any of the four. Parts without
//! entries take no memory.

use thalweg_base::sync::Mutex;
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{DatafileId, DatafileSize};

/// Parts of the table, each with its own lock.
const PARTS: usize = 64;
/// Slots per hash value.
const WAYS: usize = 4;
/// Groups of slots in a part.
const GROUPS: usize = limits::SIZES_KEPT / PARTS / WAYS;

/// Sizes of one target's datafiles.
pub(super) struct Sizes {
    parts: Vec<Mutex<Part>>,
}

#[derive(Default)]
struct Part {
    /// Changes in progress.
    changing: u32,
    /// Changes begun or ended: a ticket with another number is void.
    changes: u64,
    /// Time of the last change.
    changed: Since,
    /// The slot of a group to replace next.
    turn: usize,
    /// All groups, or none yet.
    groups: Vec<[Slot; WAYS]>,
}

/// A datafile and its size. File 0 does not exist: the slot is empty.
#[derive(Clone, Copy, Default)]
struct Slot {
    file: u64,
    index: u32,
    /// The lot; 0: none.
    lot: u32,
    /// In units of 512 bytes.
    allocated: u32,
    size_bytes: u64,
    since: Since,
}

/// A time in tenths of a second since the machine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Since(u32);

impl Since {
    /// Returns the present time.
    pub(super) fn now() -> Since {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        Since((now.tv_sec as u64 * 10 + now.tv_nsec as u64 / 100_000_000) as u32)
    }

    /// Converts a file system's time stamp. One in the future, for instance after the clock was set back, counts as now.
    pub(super) fn stamp(seconds: i64, nanoseconds: i64) -> Since {
        let wall = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        let age_ns = (i128::from(wall.tv_sec) - i128::from(seconds)) * 1_000_000_000 + i128::from(wall.tv_nsec) - i128::from(nanoseconds);
        let tenths = u32::try_from((age_ns / 100_000_000).max(0)).unwrap_or(u32::MAX);
        Since(Since::now().0.saturating_sub(tenths))
    }

    /// Whether this was certainly more than a second ago: both times are known to a tenth.
    pub(super) fn is_quiet(self) -> bool {
        Since::now().0.saturating_sub(self.0) > 11
    }
}

/// Permission to store a size, if nothing has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(Option<u64>);

/// Marks a datafile as changing while this exists.
pub(super) struct Changing<'a> {
    part: &'a Mutex<Part>,
}

impl Default for Sizes {
    fn default() -> Sizes {
        // A datafile missing now may have been removed just before this start.
        let part = || Mutex::new(Part { changed: Since::now(), ..Part::default() });
        Sizes { parts: (0..PARTS).map(|_| part()).collect() }
    }
}

/// Returns the part and group of a datafile.
fn spot(id: DatafileId) -> (usize, usize) {
    // Multiplying by an odd constant spreads consecutive numbers; the high bits are the best.
    let hash = (id.file.0 ^ u64::from(id.index).rotate_left(48)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((hash >> 58) as usize % PARTS, (hash >> 20) as usize % GROUPS)
}

/// Returns the lot's number: a datafile in another lot is a different datafile.
fn lot_number(id: DatafileId) -> u32 {
    id.lot.map_or(0, |lot| lot.0)
}

impl Slot {
    fn is_of(&self, id: DatafileId) -> bool {
        self.file == id.file.0 && self.index == id.index && self.lot == lot_number(id)
    }
}

impl Sizes {
    /// Returns the size if it is cached; otherwise the ticket for storing it.
    pub(super) fn look(&self, id: DatafileId) -> Result<DatafileSize, Ticket> {
        let (part, group) = spot(id);
        let part = self.parts[part].lock();
        match part.groups.get(group).and_then(|group| group.iter().find(|slot| slot.is_of(id))) {
            Some(slot) => Ok(DatafileSize {
                size_bytes: slot.size_bytes,
                allocated_bytes: u64::from(slot.allocated) * 512,
                quiet: slot.since.is_quiet(),
            }),
            None => Err(Ticket((part.changing == 0).then_some(part.changes))),
        }
    }

    /// Stores a size read after the ticket was taken. `since`: when the datafile last changed; `None`: it does not exist, and may
    /// have been the one removed last. Returns whether it is quiet.
    pub(super) fn keep(&self, id: DatafileId, size: DatafileSize, since: Option<Since>, ticket: Ticket) -> bool {
        let (part, group) = spot(id);
        let mut part = self.parts[part].lock();
        if ticket.0 != Some(part.changes) {
            // A stamp is valid in any case; without one, the time of removal is unknown.
            return since.is_some_and(Since::is_quiet);
        }
        let since = since.unwrap_or(part.changed);
        let quiet = since.is_quiet();
        if let Ok(allocated) = u32::try_from(size.allocated_bytes / 512) {
            part.keep(
                id,
                group,
                Slot { file: id.file.0, index: id.index, lot: lot_number(id), allocated, size_bytes: size.size_bytes, since },
            );
        }
        quiet
    }

    /// Marks the datafile as changing until the returned guard is dropped.
    pub(super) fn changing(&self, id: DatafileId) -> Changing<'_> {
        let (part, group) = spot(id);
        let mut locked_part = self.parts[part].lock();
        locked_part.changing += 1;
        locked_part.changes += 1;
        if let Some(slot) = locked_part.groups.get_mut(group).and_then(|group| group.iter_mut().find(|slot| slot.is_of(id))) {
            *slot = Slot::default();
        }
        drop(locked_part);
        Changing { part: &self.parts[part] }
    }
}

impl Part {
    fn keep(&mut self, id: DatafileId, group: usize, slot: Slot) {
        if self.changing != 0 || id.file.0 == 0 {
            return;
        }
        if self.groups.is_empty() {
            self.groups = vec![[Slot::default(); WAYS]; GROUPS];
        }
        self.turn = (self.turn + 1) % WAYS;
        let turn = self.turn;
        let slots = &mut self.groups[group];
        let free = slots.iter().position(|slot| slot.is_of(id)).or_else(|| slots.iter().position(|slot| slot.file == 0));
        slots[free.unwrap_or(turn)] = slot;
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut part = self.part.lock();
        part.changing -= 1;
        part.changes += 1;
        part.changed = Since::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use thalweg_wire::protocol::io::{FileId, TargetId};

    fn id(file: u64) -> DatafileId {
        DatafileId { file: FileId(file), index: 3, target: TargetId(0), lot: None }
    }

    fn size(size_bytes: u64) -> DatafileSize {
        DatafileSize { size_bytes, allocated_bytes: 8192, quiet: false }
    }

    #[test]
    fn a_size_is_kept_only_if_nothing_changed_since_it_was_asked_for() {
        let sizes = Sizes::default();
        let ticket = sizes.look(id(7)).unwrap_err();
        sizes.keep(id(7), size(100), Some(Since::now()), ticket);
        assert_eq!(sizes.look(id(7)), Ok(size(100)));
        assert!(sizes.look(DatafileId { index: 4, ..id(7) }).is_err());
        // Dropped when a change begins; a size read during or before a change is not stored.
        let before = Ticket(Some(0));
        let changing = sizes.changing(id(7));
        let beside = sizes.look(id(7)).unwrap_err();
        for ticket in [before, beside] {
            sizes.keep(id(7), size(100), Some(Since::now()), ticket);
            assert!(sizes.look(id(7)).is_err());
        }
        drop(changing);
        sizes.keep(id(7), size(100), Some(Since::now()), beside);
        assert!(sizes.look(id(7)).is_err());
        let after = sizes.look(id(7)).unwrap_err();
        sizes.keep(id(7), size(200), Some(Since::now()), after);
        assert_eq!(sizes.look(id(7)), Ok(size(200)));
    }

    #[test]
    fn what_has_changed_a_moment_ago_is_not_quiet_and_what_has_not_for_long_is() {
        let sizes = Sizes::default();
        let old = Since(Since::now().0.saturating_sub(50));
        let ticket = sizes.look(id(7)).unwrap_err();
        assert!(sizes.keep(id(7), size(100), Some(old), ticket));
        assert!(sizes.look(id(7)).unwrap().quiet);
        // A missing datafile may have been removed just now, or just before this start.
        let ticket = sizes.look(id(8)).unwrap_err();
        assert!(!sizes.keep(id(8), DatafileSize::default(), None, ticket));
        assert!(!sizes.look(id(8)).unwrap().quiet);
        drop(sizes.changing(id(7)));
        let ticket = sizes.look(id(7)).unwrap_err();
        assert!(!sizes.keep(id(7), size(100), Some(Since::now()), ticket));
        assert!(!sizes.look(id(7)).unwrap().quiet);
        let wall = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let stamps = [-100, 0, 100].map(|seconds| Since::stamp(wall.tv_sec + seconds, wall.tv_nsec).is_quiet());
        assert_eq!(stamps, [true, false, false]);
    }

    #[test]
    fn more_datafiles_than_there_are_places_are_forgotten_and_never_taken_for_others() {
        let sizes = Sizes::default();
        let many = 3 * limits::SIZES_KEPT as u64 / 2;
        for file in 1..=many {
            let ticket = sizes.look(id(file)).unwrap_err();
            sizes.keep(id(file), size(file), Some(Since::now()), ticket);
            assert_eq!(sizes.look(id(file)), Ok(size(file)));
        }
        let known = (1..=many).filter(|file| sizes.look(id(*file)).is_ok_and(|known| known == size(*file))).count();
        assert!(known <= limits::SIZES_KEPT && known > limits::SIZES_KEPT / 2, "{known}");
    }

    #[test]
    fn a_look_never_sees_what_was_before_a_change_that_has_ended() {
        let (sizes, truth, over) = (Sizes::default(), AtomicU64::new(1), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        let least = truth.load(Ordering::SeqCst);
                        let seen = match sizes.look(id(1)) {
                            Ok(known) => known.size_bytes,
                            Err(ticket) => {
                                let now = size(truth.load(Ordering::SeqCst));
                                sizes.keep(id(1), now, Some(Since::now()), ticket);
                                now.size_bytes
                            }
                        };
                        assert!(seen >= least, "{seen} seen, and it was {least} before");
                    }
                });
            }
            for next in 2..20_000 {
                let changing = sizes.changing(id(1));
                truth.store(next, Ordering::SeqCst);
                drop(changing);
            }
            over.store(true, Ordering::SeqCst);
        });
    }
}
