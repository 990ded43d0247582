//! Recent changes through this mount.
//!
//! Data a walk has prefetched is older than the request it answers. A change by another machine may appear a second late, but not one by a
//! program here: a program that changes a file and then checks must see the change. So every change is noted when it is done, before its
//! program is answered, and data the servers returned for an earlier request is not given to the kernel. Data older than its lifetime is
//! never given, so changes are only remembered that long.

use crate::fuse::request::{CopyRangeCall, Header, Operation};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_client::wire::protocol::metadata::FileId;

/// Bound: changes remembered individually; beyond it, everything counts as changed.
const MOST: usize = 1 << 16;
/// Minimum number of changes before old ones are removed.
const SWEEP: usize = 1024;

/// Changes made here, with their times.
pub(crate) struct LocalChanges {
    hasher: RandomState,
    keep: Duration,
    changes: Mutex<Changes>,
}

/// The locked changes, for checking many entries.
pub(crate) struct Changes {
    /// By a hash of a file's number, or of a directory's and a name; a collision costs an unnecessary request.
    at: HashMap<u64, Instant>,
    /// Time of the last change of any name: the link count of another name's file may have changed.
    any_name: Option<Instant>,
    /// Everything before this counts as changed.
    all_before: Option<Instant>,
    sweep_at: usize,
}

/// Files and names an operation changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched<'a> {
    nodes: [Option<u64>; 2],
    names: [Option<(u64, &'a [u8])>; 2],
}

impl<'a> Touched<'a> {
    /// Returns what an operation changes. Written bytes count when the file is closed: an open file's attributes are not answered from a
    /// listing.
    pub(crate) fn by(header: &Header, operation: &Operation<'a>) -> Touched<'a> {
        use Operation as O;
        let node = header.node;
        let of_name = |name: &'a [u8]| Touched { nodes: [Some(node), None], names: [Some((node, name)), None] };
        match *operation {
            O::SetAttributes(_) | O::SetExtended { .. } | O::RemoveExtended { .. } | O::Release { .. } | O::Allocate { .. } => {
                Touched { nodes: [Some(node), None], ..Touched::default() }
            }
            O::CopyRange(CopyRangeCall { to_node, .. }) => Touched { nodes: [Some(to_node), None], ..Touched::default() },
            O::Open { flags, .. } if flags & libc::O_TRUNC as u32 != 0 => Touched { nodes: [Some(node), None], ..Touched::default() },
            O::Symlink { name, .. }
            | O::MakeNode { name, .. }
            | O::MakeDirectory { name, .. }
            | O::Unlink { name }
            | O::RemoveDirectory { name }
            | O::Create { name, .. } => of_name(name),
            O::Rename { name, to, to_name, .. } => {
                Touched { nodes: [Some(node), Some(to)], names: [Some((node, name)), Some((to, to_name))] }
            }
            O::Link { file, name } => Touched { nodes: [Some(node), Some(file)], names: [Some((node, name)), None] },
            _ => Touched::default(),
        }
    }

    /// Returns the directories whose names are changed.
    pub(crate) fn directories(&self) -> impl Iterator<Item = u64> {
        self.names.into_iter().flatten().map(|(directory, _)| directory)
    }

    /// Whether nothing is changed.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Touched::default()
    }
}

impl LocalChanges {
    /// Keeps changes for `keep`.
    pub(crate) fn new(keep: Duration) -> LocalChanges {
        let changes = Changes { at: HashMap::new(), any_name: None, all_before: None, sweep_at: SWEEP };
        LocalChanges { hasher: RandomState::new(), keep, changes: Mutex::new(changes) }
    }

    fn file(&self, id: FileId) -> u64 {
        self.hasher.hash_one(id.0)
    }

    fn name(&self, directory: FileId, name: &[u8]) -> u64 {
        self.hasher.hash_one((directory.0, name))
    }

    /// Locks the changes, for calling [`LocalChanges::is_current`] on many entries.
    pub(crate) fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock()
    }

    /// Notes a completed operation. `id` maps the kernel's number to the store's.
    pub(crate) fn note(&self, touched: &Touched<'_>, id: impl Fn(u64) -> FileId) {
        let files = touched.nodes.iter().flatten().map(|node| self.file(id(*node)));
        let names = touched.names.iter().flatten().map(|(directory, name)| self.name(id(*directory), name));
        let keys: Vec<u64> = files.chain(names).collect();
        let now = Instant::now();
        let mut changes = self.changes();
        changes.at.extend(keys.into_iter().map(|key| (key, now)));
        if touched.names.iter().any(Option::is_some) {
            changes.any_name = Some(now);
        }
        if changes.at.len() >= changes.sweep_at {
            changes.at.retain(|_, at| now.duration_since(*at) <= self.keep);
            if changes.at.len() >= MOST {
                changes.at.clear();
                changes.all_before = Some(now);
            }
            changes.sweep_at = (changes.at.len() * 2).max(SWEEP);
        }
    }

    /// Whether data requested at `asked` about a file with this link count, listed under this name, includes all changes made here.
    pub(crate) fn is_current(
        &self,
        changes: &Changes,
        asked: Instant,
        (id, links): (FileId, u32),
        (directory, name): (FileId, &[u8]),
    ) -> bool {
        let before = |at: Option<Instant>| at.is_some_and(|at| asked <= at);
        if before(changes.all_before) || links > 1 && before(changes.any_name) {
            return false;
        }
        changes.at.is_empty()
            || !before(changes.at.get(&self.file(id)).copied()) && !before(changes.at.get(&self.name(directory, name)).copied())
    }

    /// Whether data requested at `asked` about a file includes all changes made here, whatever its name.
    pub(crate) fn is_current_file(&self, asked: Instant, (id, links): (FileId, u32)) -> bool {
        let changes = self.changes();
        let before = |at: Option<Instant>| at.is_some_and(|at| asked <= at);
        !(before(changes.all_before) || links > 1 && before(changes.any_name) || before(changes.at.get(&self.file(id)).copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(1);

    fn id(node: u64) -> FileId {
        FileId(node)
    }

    fn header(node: u64) -> Header {
        Header { unique: 1, opcode: 0, node, uid: 0, gid: 0, pid: 0 }
    }

    fn is_current(recent: &LocalChanges, asked: Instant, file: u64, links: u32, name: &[u8]) -> bool {
        recent.is_current(&recent.changes(), asked, (FileId(file), links), (FileId(1), name))
    }

    #[test]
    fn what_was_asked_before_a_change_here_is_not_current_and_what_was_asked_after_it_is() {
        let recent = LocalChanges::new(KEEP);
        let asked = Instant::now();
        assert!(is_current(&recent, asked, 7, 1, b"f"));
        recent.note(&Touched::by(&header(1), &Operation::Unlink { name: b"f" }), id);
        assert!(!is_current(&recent, asked, 7, 1, b"f"), "the name was taken away");
        assert!(is_current(&recent, asked, 8, 1, b"g"), "another was not");
        assert!(!is_current(&recent, asked, 8, 2, b"g"), "one with several names may have lost one");
        recent.note(&Touched::by(&header(8), &Operation::Release { handle: 1 }), id);
        assert!(!is_current(&recent, asked, 8, 1, b"g"), "the file was written");
        std::thread::sleep(Duration::from_millis(1));
        let later = Instant::now();
        assert!(is_current(&recent, later, 7, 1, b"f") && is_current(&recent, later, 8, 2, b"g"));
    }

    #[test]
    fn a_rename_touches_both_names_and_reading_nothing() {
        let rename = Operation::Rename { name: b"a", to: 2, to_name: b"b", flags: 0 };
        let touched = Touched::by(&header(1), &rename);
        assert_eq!(touched.names, [Some((1, b"a".as_slice())), Some((2, b"b".as_slice()))]);
        assert!(Touched::by(&header(1), &Operation::Lookup { name: b"a" }).is_empty());
        assert!(Touched::by(&header(1), &Operation::Read { handle: 1, offset: 0, length: 1 }).is_empty());
    }

    #[test]
    fn too_many_changes_to_remember_count_as_a_change_of_everything() {
        let recent = LocalChanges::new(Duration::from_secs(3600));
        let asked = Instant::now();
        for file in 0..2 * MOST as u64 {
            recent.note(&Touched { nodes: [Some(file), None], ..Touched::default() }, id);
        }
        assert!(recent.changes().at.len() < 2 * MOST);
        assert!((0..2 * MOST as u64 + 10).all(|file| !is_current(&recent, asked, file, 1, b"f")));
        assert!(is_current(&recent, Instant::now() + Duration::from_millis(1), 5, 1, b"f"));
    }

    #[test]
    fn changes_are_forgotten_when_nothing_from_before_them_is_given_any_more() {
        let recent = LocalChanges::new(Duration::ZERO);
        for file in 0..10 * SWEEP as u64 {
            recent.note(&Touched { nodes: [Some(file), None], ..Touched::default() }, id);
        }
        assert!(recent.changes().at.len() <= SWEEP);
        assert!(recent.changes().all_before.is_none());
    }
}
