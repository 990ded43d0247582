//! A file or directory as it is known here.

use crate::fuse::reply::Attr;
use crate::inodes::absence::AbsentNames;
use crate::inodes::dentries::{Dentries, SLACK};
use crate::inodes::lock_owners::LockOwners;
use crate::inodes::shared_file::SharedFile;
use std::sync::{Arc, Weak};
use std::time::Instant;
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_client::wire::protocol::metadata::{Attributes, FileId, FileKind};
use thalweg_trace::ObjectId;

/// A file or directory.
pub(crate) struct Inode {
    /// Its number in the store.
    pub id: FileId,
    /// What it is.
    pub kind: FileKind,
    /// The table's number for it: one that is forgotten and found again has another.
    pub serial: u64,
    state: Mutex<InodeState>,
}

/// What is remembered of a file or directory between requests.
#[derive(Default)]
pub(crate) struct InodeState {
    /// What all who have it open here share, while somebody has.
    pub open: Weak<SharedFile>,
    /// Mode when last seen: what is made in a directory may inherit from it.
    pub mode: u32,
    /// Group, likewise.
    pub gid: u32,
    /// The change counter that the kernel's attributes are of.
    pub attr_change: Option<u64>,
    /// The change counter that the kernel's copies of its bytes are of.
    pub data_change: Option<u64>,
    /// When the kernel was given attributes of a file that nobody had open, and others not long before: it may have taken either.
    pub given_others: Option<Instant>,
    /// What the kernel was last given of a file, with its size.
    pub cached_attr: Option<Box<CachedAttr>>,
    /// Who of the programs here has locks on it: `close` has to free them.
    pub lock_owners: LockOwners,
    /// What a directory was when last seen: to those who have it open here it still is one when it is removed.
    pub directory: Option<Box<Attributes>>,
    /// The same as an answer to a change through this mount said it, and when that was noted.
    pub own_directory: Option<Box<(Attributes, Instant)>>,
    /// Names that a directory does not have.
    pub absent_names: Option<Box<AbsentNames>>,
    /// How many have it open here.
    pub open_directories: u64,
    /// The names it was found under.
    pub dentries: Dentries,
    /// Its row in the mount's recording of itself.
    pub object: Option<ObjectId>,
    /// A symbolic link's target: it never changes.
    pub target: Option<Box<[u8]>>,
    /// When the servers were asked who said that it has no extended attributes.
    pub no_xattrs_at: Option<Instant>,
    /// Why the last layout that was asked for it was refused.
    pub layout_error: Option<Box<str>>,
}

/// Attributes as the kernel was given them.
pub(crate) struct CachedAttr {
    /// The attributes.
    pub attr: Attr,
    /// The change counter they are of.
    pub change: u64,
    /// When the servers were asked.
    pub asked: Instant,
}

impl InodeState {
    /// Whether nobody has had it open since the kernel was given it: then the kernel has none of its bytes.
    pub(crate) fn was_never_open(&self) -> bool {
        self.open.ptr_eq(&Weak::new())
    }
}

impl Inode {
    /// One without any state yet.
    pub(crate) fn new(attributes: &Attributes, serial: u64) -> Inode {
        Inode { id: attributes.id, kind: attributes.kind, serial, state: Mutex::default() }
    }

    /// Its state, locked. Nothing is asked of a server while it is held.
    pub(crate) fn state(&self) -> MutexGuard<'_, InodeState> {
        self.state.lock()
    }

    /// What all who have it open here share.
    pub(crate) fn shared(&self) -> Option<Arc<SharedFile>> {
        self.state().open.upgrade()
    }

    /// Attributes that the kernel is going to be given, and that were asked for at `asked`.
    pub(crate) fn update(&self, attributes: &Attributes, asked: Instant) {
        let mut state = self.state();
        if self.kind == FileKind::File && state.was_never_open() {
            // Of two answers that were on their way at a time, the kernel takes the one that comes first.
            if state.data_change.is_some_and(|given| given != attributes.change) {
                state.given_others = Some(Instant::now());
            }
            let is_sure = state.given_others.is_none_or(|at| at.elapsed() > SLACK);
            // Of nothing, all is of any change; and the kernel need not forget what it was given when the file is opened.
            state.data_change = is_sure.then_some(attributes.change);
        }
        state.no_xattrs_at = (attributes.extended_bytes == 0).then_some(asked);
        if state.target.is_none()
            && let Some(target) = &attributes.target
        {
            state.target = Some(target.as_slice().into());
        }
        state.mode = attributes.mode;
        state.gid = attributes.gid;
        state.attr_change = Some(attributes.change);
        if self.kind == FileKind::Directory {
            state.directory = Some(Box::new(attributes.clone()));
        }
    }

    /// The same with the size: for who asks again soon.
    pub(crate) fn cache_attr(&self, attr: &Attr, change: u64, asked: Instant) {
        if self.kind == FileKind::File {
            self.state().cached_attr = Some(Box::new(CachedAttr { attr: *attr, change, asked }));
        }
    }

    /// A directory is so after a change through this mount, which made `name` or removed one, and was asked for at `asked`. Called when the change
    /// has been noted as one. `None`: how the directory is now is not known.
    pub(crate) fn directory_changed_here(&self, now: Option<Attributes>, name: Option<&[u8]>, asked: Instant) {
        let mut state = self.state();
        let is_known = match (&now, &mut state.absent_names) {
            (Some(attributes), Some(names)) => names.changed_here(attributes, name, asked),
            _ => false,
        };
        if !is_known {
            state.absent_names = None;
        }
        state.own_directory = now.map(|attributes| Box::new((attributes, Instant::now())));
    }

    /// After a change of our own: if it was the only one since the last look, what the kernel has stays true.
    pub(crate) fn changed_here(&self, attributes: &Attributes) {
        let mut state = self.state();
        let alone = state.data_change.is_some_and(|known| known.checked_add(1) == Some(attributes.change));
        state.data_change = alone.then_some(attributes.change);
        state.mode = attributes.mode;
        state.gid = attributes.gid;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Of a file with this change counter.
    pub(crate) fn attributes(change: u64) -> Attributes {
        Attributes {
            id: FileId(7),
            kind: FileKind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            links: 1,
            accessed_ns: 0,
            modified_ns: 0,
            changed_ns: 0,
            created_ns: 0,
            change,
            device: 0,
            target_bytes: 0,
            extended_bytes: 0,
            target: None,
            size_bytes: None,
            settled: None,
            lost: None,
            layout: None,
            default_layout: None,
        }
    }

    #[test]
    fn of_two_answers_at_a_time_nobody_knows_which_the_kernel_took() {
        let inode = Inode::new(&attributes(1), 1);
        for (change, kept) in [(1, Some(1)), (1, Some(1)), (2, None), (2, None)] {
            inode.update(&attributes(change), Instant::now());
            assert_eq!(inode.state().data_change, kept);
        }
        inode.state().given_others = Instant::now().checked_sub(2 * SLACK);
        inode.update(&attributes(2), Instant::now());
        assert_eq!(inode.state().data_change, Some(2));
    }
}
