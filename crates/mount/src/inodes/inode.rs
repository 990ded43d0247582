//! The cached state of a file or directory.

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
    /// Number in the store.
    pub id: FileId,
    /// File type.
    pub kind: FileKind,
    /// Serial number in the table: an inode that was forgotten and found again has a new one.
    pub serial: u64,
    state: Mutex<InodeState>,
}

/// State of a file or directory kept between requests.
#[derive(Default)]
pub(crate) struct InodeState {
    /// Shared state of its open files, while any exists.
    pub open: Weak<SharedFile>,
    /// Mode when last seen: new entries of a directory may inherit from it.
    pub mode: u32,
    /// Group when last seen, likewise.
    pub gid: u32,
    /// Change counter of the attributes the kernel has.
    pub attr_change: Option<u64>,
    /// Change counter of the data the kernel has cached.
    pub data_change: Option<u64>,
    /// Set when the kernel was given differing attributes of an unopened file shortly one after the other: it may have kept either.
    pub given_others: Option<Instant>,
    /// Attributes last given to the kernel, with the size.
    pub cached_attr: Option<Box<CachedAttr>>,
    /// Lock owners on this mount: `close` must release their locks.
    pub lock_owners: LockOwners,
    /// Last attributes of a directory: it stays a directory for those who have it open when it is removed.
    pub directory: Option<Box<Attributes>>,
    /// Attributes of a directory from the reply to a change through this mount, with the time they were noted.
    pub own_directory: Option<Box<(Attributes, Instant)>>,
    /// Names the directory does not have.
    pub absent_names: Option<Box<AbsentNames>>,
    /// Number of times the directory is open here.
    pub open_directories: u64,
    /// Names it was found under.
    pub dentries: Dentries,
    /// Object in the mount's recording.
    pub object: Option<ObjectId>,
    /// Target of a symbolic link, which never changes.
    pub target: Option<Box<[u8]>>,
    /// Time of the request whose reply said that it has no extended attributes.
    pub no_xattrs_at: Option<Instant>,
    /// Reason its last layout change was refused.
    pub layout_error: Option<Box<str>>,
}

/// Attributes as given to the kernel.
pub(crate) struct CachedAttr {
    /// The attributes.
    pub attr: Attr,
    /// Change counter of the attributes.
    pub change: u64,
    /// Time of the request to the servers.
    pub asked: Instant,
}

impl InodeState {
    /// Whether it was never open since the kernel was given it: then the kernel has no data of it.
    pub(crate) fn was_never_open(&self) -> bool {
        self.open.ptr_eq(&Weak::new())
    }
}

impl Inode {
    /// Creates an inode without cached state.
    pub(crate) fn new(attributes: &Attributes, serial: u64) -> Inode {
        Inode { id: attributes.id, kind: attributes.kind, serial, state: Mutex::default() }
    }

    /// Locks the state. No calls to servers may be made while it is held.
    pub(crate) fn state(&self) -> MutexGuard<'_, InodeState> {
        self.state.lock()
    }

    /// Returns the shared state of its open files.
    pub(crate) fn shared(&self) -> Option<Arc<SharedFile>> {
        self.state().open.upgrade()
    }

    /// Records attributes that will be given to the kernel, requested at `asked`.
    pub(crate) fn update(&self, attributes: &Attributes, asked: Instant) {
        let mut state = self.state();
        if self.kind == FileKind::File && state.was_never_open() {
            // Of two concurrent replies, the kernel keeps the first to arrive.
            if state.data_change.is_some_and(|given| given != attributes.change) {
                state.given_others = Some(Instant::now());
            }
            let is_sure = state.given_others.is_none_or(|at| at.elapsed() > SLACK);
            // Without cached data any counter is valid, and the kernel need not invalidate on open.
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

    /// Records attributes with the size, for a repeated request soon.
    pub(crate) fn cache_attr(&self, attr: &Attr, change: u64, asked: Instant) {
        if self.kind == FileKind::File {
            self.state().cached_attr = Some(Box::new(CachedAttr { attr: *attr, change, asked }));
        }
    }

    /// Records a directory's attributes after a change through this mount, requested at `asked`, which made `name` or removed one. Called
    /// once the change is noted in [`LocalChanges`](crate::inodes::local_changes). `None`: the attributes are unknown.
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

    /// Records our own change: if it was the only one since the last check, the kernel's cached data stays valid.
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

    /// Returns attributes of a file with this change counter.
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
