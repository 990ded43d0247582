//! Renaming and removing.

use super::caller::Caller;
use super::draft_rows;
use super::tree::*;
use crate::database::{Table, Transaction, Watch};
use crate::inode::{Entry, Node, encode, entry_key};
use crate::lots::rules;
use crate::namespace::Removed;
use thalweg_wire::Result;
use thalweg_wire::protocol::metadata::{Attributes, FileId, FileKind, FilePath, SetAttributes};

impl Caller<'_> {
    /// Renames a file or directory atomically. A file that it replaces is to be removed. If both names belong to one file, both stay.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::Exists`] unless `replace`; [`thalweg_wire::ErrorKind::IsDirectory`],
    /// [`thalweg_wire::ErrorKind::NotDirectory`], [`thalweg_wire::ErrorKind::NotEmpty`] for a target that cannot be replaced;
    /// [`thalweg_wire::ErrorKind::Invalid`] for a directory into itself; [`thalweg_wire::ErrorKind::CrossLot`] for a directory of another
    /// lot.
    pub(crate) fn rename(
        &self,
        watch: &mut dyn Watch,
        from: &FilePath,
        only: Option<FileId>,
        to: &FilePath,
        replace: bool,
        set: &SetAttributes,
    ) -> Result<(Attributes, Removed)> {
        self.change(watch, |t| self.rename_in(t, from, only, to, (replace, set)))
    }

    pub(super) fn rename_in(
        &self,
        t: &mut dyn Transaction,
        from: &FilePath,
        only: Option<FileId>,
        to: &FilePath,
        (replace, set): (bool, &SetAttributes),
    ) -> Result<(Attributes, Removed)> {
        let now_ns = self.now_ns();
        let (from_parent, from_name) = on(from, find_parent(t, from))?;
        let moved = on(from, entry(t, from_parent, from_name)?.ok_or_else(|| not_found(from_name)))?;
        on(from, expected(moved.id, only))?;
        let (to_parent, to_name) = on(to, find_parent(t, to))?;
        let target = entry(t, to_parent, to_name)?;
        on(from, self.may_change(t, moved.id))?;
        on(to, target.map_or(Ok(()), |target| self.may_change(t, target.id)))?;
        if set.default_layout.is_some() {
            on(to, self.check_default(t, (moved.id, &inode(t, moved.id)?), set))?;
        }
        // Another name of the same file: POSIX requires both to stay.
        let same = target.is_some_and(|target| target.id == moved.id);
        if same && !replace && (from_parent, from_name) != (to_parent, to_name) {
            return on(to, Err(exists()));
        }
        if same {
            let mut same = inode(t, moved.id)?;
            if *set != SetAttributes::default() {
                on(to, self.apply(t, moved.id, &mut same, set, now_ns))?;
                put_inode(t, moved.id, &same);
            }
            return Ok((same.attributes(moved.id), Removed(None)));
        }
        if moved.kind == FileKind::Directory {
            on(to, not_within(t, to_parent, moved.id))?;
        }
        if from_parent != to_parent {
            on(from, self.crosses_lots(t, moved, from_parent, to_parent))?;
        }
        let mut old = None;
        if let Some(target) = target {
            let removed = if replace { give_way(t, to_parent, moved.kind, target, now_ns) } else { Err(exists()) };
            old = on(to, removed)?;
        }
        if moved.kind == FileKind::File {
            // Its copy is complete, or a user keeps it as it is.
            draft_rows::forget(t, moved.id)?;
        }
        t.delete(Table::Entries, &entry_key(from_parent, from_name));
        t.put(Table::Entries, &entry_key(to_parent, to_name), encode(&moved));
        let mut inode_moved = inode(t, moved.id)?;
        let is_directory = moved.kind == FileKind::Directory;
        if let Node::Directory { parent, .. } = &mut inode_moved.node {
            *parent = to_parent;
        }
        on(to, self.apply(t, moved.id, &mut inode_moved, set, now_ns))?;
        put_inode(t, moved.id, &inode_moved);
        let crosses = from_parent != to_parent;
        touch_directory(t, from_parent, now_ns, if is_directory && crosses { -1 } else { 0 })?;
        if crosses {
            touch_directory(t, to_parent, now_ns, i64::from(is_directory))?;
        }
        Ok((inode_moved.attributes(moved.id), Removed(old)))
    }

    /// Removes a file's name, if it belongs to the file `only` (if given); the file is to be removed.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::IsDirectory`], [`thalweg_wire::ErrorKind::NotFound`], [`thalweg_wire::ErrorKind::Busy`].
    pub(crate) fn unlink(&self, watch: &mut dyn Watch, place: &FilePath, only: Option<FileId>) -> Result<Removed> {
        self.change(watch, |t| self.unlink_in(t, place, only))
    }

    pub(crate) fn unlink_in(&self, t: &mut dyn Transaction, place: &FilePath, only: Option<FileId>) -> Result<Removed> {
        let mut remove = || {
            let (parent, name) = find_parent(t, place)?;
            let removed = self.unlink_from(t, (parent, name), only)?;
            touch_directory(t, parent, self.now_ns(), 0)?;
            Ok(removed)
        };
        on(place, remove())
    }

    /// Removes a file's name from this directory, without marking the directory as changed.
    pub(super) fn unlink_from(&self, t: &mut dyn Transaction, (parent, name): (FileId, &[u8]), only: Option<FileId>) -> Result<Removed> {
        let found = entry(t, parent, name)?.ok_or_else(|| not_found(name))?;
        expected(found.id, only)?;
        if found.kind == FileKind::Directory {
            return Err(is_directory());
        }
        self.may_change(t, found.id)?;
        let old = drop_name(t, found.id, self.now_ns())?;
        t.delete(Table::Entries, &entry_key(parent, name));
        Ok(Removed(old))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::NotEmpty`], [`thalweg_wire::ErrorKind::NotDirectory`], [`thalweg_wire::ErrorKind::NotFound`].
    pub(crate) fn remove_directory(&self, watch: &mut dyn Watch, place: &FilePath) -> Result<()> {
        self.change(watch, |t| self.remove_directory_in(t, place))
    }

    pub(super) fn remove_directory_in(&self, t: &mut dyn Transaction, place: &FilePath) -> Result<()> {
        let mut remove = || {
            let (parent, name) = find_parent(t, place)?;
            let found = entry(t, parent, name)?.ok_or_else(|| not_found(name))?;
            if found.kind != FileKind::Directory {
                return Err(not_directory(name));
            }
            self.may_change(t, found.id)?;
            drop_empty_directory(t, found.id)?;
            t.delete(Table::Entries, &entry_key(parent, name));
            touch_directory(t, parent, self.now_ns(), -1)
        };
        on(place, remove())
    }

    /// Exchanges two names atomically.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::NotFound`], [`thalweg_wire::ErrorKind::NotDirectory`]; [`thalweg_wire::ErrorKind::Invalid`] for a
    /// directory and one of its descendants.
    pub(crate) fn exchange(&self, watch: &mut dyn Watch, one: &FilePath, other: &FilePath) -> Result<()> {
        self.change(watch, |t| {
            let now_ns = self.now_ns();
            let (one_parent, one_name) = on(one, find_parent(t, one))?;
            let (other_parent, other_name) = on(other, find_parent(t, other))?;
            let of_one = on(one, entry(t, one_parent, one_name)?.ok_or_else(|| not_found(one_name)))?;
            let of_other = on(other, entry(t, other_parent, other_name)?.ok_or_else(|| not_found(other_name)))?;
            if of_one.id == of_other.id {
                return Ok(());
            }
            for (entry, new_parent, place) in [(of_one, other_parent, one), (of_other, one_parent, other)] {
                if entry.kind == FileKind::Directory {
                    on(place, not_within(t, new_parent, entry.id))?;
                }
            }
            for (entry, parent, new_parent, place) in [(of_one, one_parent, other_parent, one), (of_other, other_parent, one_parent, other)]
            {
                on(place, self.may_change(t, entry.id))?;
                if parent != new_parent {
                    on(place, self.crosses_lots(t, entry, parent, new_parent))?;
                }
            }
            for (entry, new_parent) in [(of_one, other_parent), (of_other, one_parent)] {
                draft_rows::forget(t, entry.id)?;
                let mut moved = inode(t, entry.id)?;
                if let Node::Directory { parent, .. } = &mut moved.node {
                    *parent = new_parent;
                }
                moved.changed(now_ns);
                put_inode(t, entry.id, &moved);
            }
            t.put(Table::Entries, &entry_key(one_parent, one_name), encode(&of_other));
            t.put(Table::Entries, &entry_key(other_parent, other_name), encode(&of_one));
            let directories = |kind: FileKind| i64::from(kind == FileKind::Directory);
            let gained = if one_parent == other_parent { 0 } else { directories(of_other.kind) - directories(of_one.kind) };
            touch_directory(t, one_parent, now_ns, gained)?;
            if one_parent != other_parent {
                touch_directory(t, other_parent, now_ns, -gained)?;
            }
            Ok(())
        })
    }

    /// Refuses to move an object from one lot into a directory of another.
    fn crosses_lots(&self, t: &dyn Transaction, moved: Entry, from: FileId, to: FileId) -> Result<()> {
        rules::may_cross(t, self.who, &inode(t, moved.id)?, Some(&inode(t, from)?), &inode(t, to)?)
    }
}
