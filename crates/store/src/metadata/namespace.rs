//! The namespace: what each operation reads and changes, as one transaction.
//!
//! A directory entry is `(parent's number, name) → (number, kind)`; a file or directory is `number → inode`.
//! A directory's names are thus one range of keys in order of name, and a page of it is resumed after its
//! last name whatever was created or removed meanwhile: no name that stays is missed or seen twice.
//!
//! Numbers are `epoch << 40 | n`; the epoch grows, on media, at each start. So a number lost together
//! with an unsynced creation is not given again, and a new file never finds an old one's datafiles.
//!
//! Removing a file takes its name and inode and leaves an [`Intent`] in the same transaction; what the
//! intent asks of the I/O servers is done afterwards, by [`super::intents`].

use super::database::{Database, DatabaseError, Table, Transaction, View, Watch, read, write};
use super::inode::{Entry, Inode, Intent, Node, decode, encode, entry_key, id_key, id_of};
use super::names::{shown, split};
use super::placement;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::metadata::{
    Attributes, DirectoryEntry, Existing, FileId, FileKind, LayoutChoice, Owner, Place, SetAttributes, SetTime, StoreMap,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

const EPOCH: &[u8] = b"namespace.epoch";
const STORE: &[u8] = b"namespace.store";
/// A loop check follows parents this far; deeper trees cannot be made by paths of [`limits::PATH_BYTES`]
/// alone, but can by renaming trees into trees.
const DEPTH: usize = 1 << 16;
/// Bits of a number below its epoch.
const EPOCH_SHIFT: u32 = 40;
/// Names in a page of a directory at most.
const PAGE_NAMES: usize = 4096;
/// Bytes of a page at most, well below a message's body.
const PAGE_BYTES: usize = 512 << 10;

/// The namespace of one store over its database.
pub struct Namespace {
    database: Arc<dyn Database>,
    epoch: u64,
    next: AtomicU64,
    map: RwLock<Arc<StoreMap>>,
    clock: fn() -> i64,
}

/// What an operation leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed(pub Option<FileId>);

impl Namespace {
    /// The namespace of the store `map.store`; makes the root directory of a new one.
    ///
    /// # Errors
    /// When the database belongs to another store, a target is at another server than before, or the disk fails.
    pub fn open(database: Arc<dyn Database>, map: StoreMap, owner: Owner) -> Result<Namespace> {
        let clock = wall_clock_ns;
        let epoch = write(&*database, &mut super::database::Unwatched, |t| {
            let number = |value: Option<Vec<u8>>| value.and_then(|v| v.try_into().ok()).map(u64::from_le_bytes);
            match number(t.get(Table::State, STORE)?) {
                Some(store) if store != map.store => {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        format!(
                            "the metadata directory belongs to the store {store:016x}, not to {:016x}: give another directory",
                            map.store
                        ),
                    ));
                }
                Some(_) => {}
                None => {
                    t.put(Table::State, STORE, map.store.to_le_bytes().to_vec());
                    let root = Inode::new(Node::Directory { parent: FileId::ROOT, default_layout: None }, owner, clock());
                    put_inode(t, FileId::ROOT, &root);
                }
            }
            register_targets(t, &map)?;
            let epoch = number(t.get(Table::State, EPOCH)?).unwrap_or(0) + 1;
            if epoch >> (64 - EPOCH_SHIFT) != 0 {
                return Err(Error::new(ErrorKind::Io, "the store has been started more often than it has numbers for"));
            }
            t.put(Table::State, EPOCH, epoch.to_le_bytes().to_vec());
            Ok(epoch)
        })?;
        database.sync(&mut super::database::Unwatched)?;
        Ok(Namespace { database, epoch, next: AtomicU64::new(1), map: RwLock::new(Arc::new(map)), clock })
    }

    /// The database under it.
    pub fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }

    /// Who is who.
    pub fn map(&self) -> Arc<StoreMap> {
        Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Attributes.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`].
    pub fn stat(&self, place: &Place) -> Result<Attributes> {
        on(
            place,
            read(&*self.database, |view| {
                let id = find(view, place)?;
                Ok(inode(view, id)?.attributes(id))
            }),
        )
    }

    /// A page of a directory after the name `after`: at most `most` entries, and whether there are more.
    ///
    /// # Errors
    /// As [`Namespace::stat`].
    pub fn list(&self, place: &Place, after: Option<&[u8]>, most: u32, attributes: bool) -> Result<(Vec<DirectoryEntry>, bool)> {
        let most = (most as usize).clamp(1, PAGE_NAMES);
        on(
            place,
            read(&*self.database, |view| {
                let directory = find(view, place)?;
                directory_of(view, directory)?;
                let prefix = id_key(directory);
                let after = after.map(|name| entry_key(directory, name));
                let mut entries: Vec<DirectoryEntry> = Vec::new();
                let mut bytes = 0;
                let mut more = false;
                let mut failed = None;
                view.scan(Table::Entries, &prefix, after.as_deref(), &mut |key, value| {
                    if entries.len() == most || bytes >= PAGE_BYTES {
                        more = true;
                        return false;
                    }
                    let found = entry_and_attributes(view, key, value, attributes);
                    match found {
                        Ok(entry) => {
                            bytes += cost(&entry);
                            entries.push(entry);
                            true
                        }
                        Err(e) => {
                            failed = Some(e);
                            false
                        }
                    }
                })?;
                failed.map_or(Ok((entries, more)), Err)
            }),
        )
    }

    /// Makes a directory. With `parents`, those above it too, and one that is there already is no error.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`].
    pub fn make_directory(&self, watch: &mut dyn Watch, place: &Place, owner: Owner, parents: bool) -> Result<Attributes> {
        on(
            place,
            write(&*self.database, watch, |t| {
                let names = split(&place.path)?;
                let mut at = place.from;
                directory_of(t, at)?;
                if names.is_empty() && !parents {
                    return Err(exists());
                }
                for (i, name) in names.iter().enumerate() {
                    let last = i + 1 == names.len();
                    match entry(t, at, name)? {
                        Some(_) if last && !parents => return Err(exists()),
                        Some(found) if found.kind == FileKind::Directory => at = found.id,
                        Some(_) if last => return Err(exists()),
                        Some(_) => return Err(not_directory(name)),
                        None if last || parents => at = self.add_directory(t, at, name, owner)?,
                        None => return Err(not_found(name)),
                    }
                }
                Ok(inode(t, at)?.attributes(at))
            }),
        )
    }

    fn add_directory(&self, t: &mut dyn Transaction, parent: FileId, name: &[u8], owner: Owner) -> Result<FileId> {
        let now_ns = (self.clock)();
        let id = self.fresh()?;
        let mut above = directory_of(t, parent)?;
        let Node::Directory { default_layout, .. } = &above.node else { unreachable!("directory_of checks") };
        let made = Inode::new(Node::Directory { parent, default_layout: default_layout.clone() }, owner, now_ns);
        above.links += 1;
        above.modified(now_ns);
        put_inode(t, parent, &above);
        put_inode(t, id, &made);
        t.put(Table::Entries, &entry_key(parent, name), encode(&Entry { id, kind: FileKind::Directory }));
        Ok(id)
    }

    /// Makes an empty file. The file whose name it takes, if any, is to be removed.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::IsDirectory`], [`ErrorKind::Invalid`] for a layout that cannot be, ...
    pub fn create(
        &self,
        watch: &mut dyn Watch,
        place: &Place,
        owner: Owner,
        existing: Existing,
        choice: &LayoutChoice,
        node: &str,
    ) -> Result<(Attributes, Removed)> {
        let map = self.map();
        let random = crate::protocol::common::random_u64();
        on(
            place,
            write(&*self.database, watch, |t| {
                let now_ns = (self.clock)();
                let (parent, name) = find_parent(t, place)?;
                let mut above = directory_of(t, parent)?;
                let Node::Directory { default_layout, .. } = &above.node else { unreachable!("directory_of checks") };
                let layout = placement::place(choice, default_layout.as_ref(), &map, node, random)?;
                let old = match entry(t, parent, name)? {
                    None => None,
                    Some(found) if found.kind == FileKind::Directory => return Err(is_directory()),
                    Some(_) if existing == Existing::Refuse => return Err(exists()),
                    Some(found) => drop_file(t, found.id, now_ns)?,
                };
                let id = self.fresh()?;
                let made = Inode::new(Node::File(layout), owner, now_ns);
                above.modified(now_ns);
                put_inode(t, parent, &above);
                put_inode(t, id, &made);
                t.put(Table::Entries, &entry_key(parent, name), encode(&Entry { id, kind: FileKind::File }));
                Ok((made.attributes(id), Removed(old)))
            }),
        )
    }

    /// A file's attributes, to be opened with.
    ///
    /// # Errors
    /// [`ErrorKind::IsDirectory`], and as [`Namespace::stat`].
    pub fn open_file(&self, place: &Place) -> Result<Attributes> {
        let attributes = self.stat(place)?;
        match attributes.kind {
            FileKind::File => Ok(attributes),
            FileKind::Directory => on(place, Err(is_directory())),
            FileKind::Symlink => on(place, Err(Error::new(ErrorKind::Unsupported, "symbolic links are not followed"))),
        }
    }

    /// Gives a file or directory another name, in one step: at every moment the new name stands for the
    /// old thing or the new one. The file it replaces, if any, is to be removed.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] unless `replace`; [`ErrorKind::IsDirectory`], [`ErrorKind::NotDirectory`],
    /// [`ErrorKind::NotEmpty`] for what cannot be replaced; [`ErrorKind::Invalid`] for a directory into itself.
    pub fn rename(&self, watch: &mut dyn Watch, from: &Place, to: &Place, replace: bool) -> Result<Removed> {
        write(&*self.database, watch, |t| {
            let now_ns = (self.clock)();
            let (from_parent, from_name) = on(from, find_parent(t, from))?;
            let moved = on(from, entry(t, from_parent, from_name)?.ok_or_else(|| not_found(from_name)))?;
            let (to_parent, to_name) = on(to, find_parent(t, to))?;
            if (from_parent, from_name) == (to_parent, to_name) {
                return Ok(Removed(None));
            }
            if moved.kind == FileKind::Directory {
                on(to, not_within(t, to_parent, moved.id))?;
            }
            let mut old = None;
            if let Some(target) = entry(t, to_parent, to_name)? {
                let removed = if replace { give_way(t, to_parent, moved.kind, target, now_ns) } else { Err(exists()) };
                old = on(to, removed)?;
            }
            t.delete(Table::Entries, &entry_key(from_parent, from_name));
            t.put(Table::Entries, &entry_key(to_parent, to_name), encode(&moved));
            let mut inode_moved = inode(t, moved.id)?;
            let is_directory = moved.kind == FileKind::Directory;
            if let Node::Directory { parent, .. } = &mut inode_moved.node {
                *parent = to_parent;
            }
            inode_moved.changed(now_ns);
            put_inode(t, moved.id, &inode_moved);
            let crosses = from_parent != to_parent;
            touch_directory(t, from_parent, now_ns, if is_directory && crosses { -1 } else { 0 })?;
            if crosses {
                touch_directory(t, to_parent, now_ns, i64::from(is_directory))?;
            }
            Ok(Removed(old))
        })
    }

    /// Removes a file's name; the file is to be removed.
    ///
    /// # Errors
    /// [`ErrorKind::IsDirectory`], [`ErrorKind::NotFound`].
    pub fn unlink(&self, watch: &mut dyn Watch, place: &Place) -> Result<Removed> {
        on(
            place,
            write(&*self.database, watch, |t| {
                let now_ns = (self.clock)();
                let (parent, name) = find_parent(t, place)?;
                let found = entry(t, parent, name)?.ok_or_else(|| not_found(name))?;
                if found.kind == FileKind::Directory {
                    return Err(is_directory());
                }
                let old = drop_file(t, found.id, now_ns)?;
                t.delete(Table::Entries, &entry_key(parent, name));
                touch_directory(t, parent, now_ns, 0)?;
                Ok(Removed(old))
            }),
        )
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`], [`ErrorKind::NotDirectory`], [`ErrorKind::NotFound`].
    pub fn remove_directory(&self, watch: &mut dyn Watch, place: &Place) -> Result<()> {
        on(
            place,
            write(&*self.database, watch, |t| {
                let (parent, name) = find_parent(t, place)?;
                let found = entry(t, parent, name)?.ok_or_else(|| not_found(name))?;
                if found.kind != FileKind::Directory {
                    return Err(not_directory(name));
                }
                drop_empty_directory(t, found.id)?;
                t.delete(Table::Entries, &entry_key(parent, name));
                touch_directory(t, parent, (self.clock)(), -1)
            }),
        )
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// As [`Namespace::stat`]; [`ErrorKind::NotDirectory`] for a default layout of a file.
    pub fn set_attributes(&self, watch: &mut dyn Watch, place: &Place, set: &SetAttributes) -> Result<Attributes> {
        let map = self.map();
        if let Some(Some(choice)) = &set.default_layout {
            on(place, placement::check(choice, &map))?;
        }
        on(
            place,
            write(&*self.database, watch, |t| {
                let now_ns = (self.clock)();
                let time = |time: SetTime| match time {
                    SetTime::Now => now_ns,
                    SetTime::At(ns) => ns,
                };
                let id = find(t, place)?;
                let mut changed = inode(t, id)?;
                changed.mode = set.mode.map_or(changed.mode, |mode| mode & 0o7777);
                changed.uid = set.uid.unwrap_or(changed.uid);
                changed.gid = set.gid.unwrap_or(changed.gid);
                changed.accessed_ns = set.accessed.map_or(changed.accessed_ns, time);
                changed.modified_ns = set.modified.map_or(changed.modified_ns, time);
                if let Some(choice) = &set.default_layout {
                    let Node::Directory { default_layout, .. } = &mut changed.node else {
                        return Err(Error::new(
                            ErrorKind::NotDirectory,
                            "only a directory has a default layout; a file's layout never changes",
                        ));
                    };
                    default_layout.clone_from(choice);
                }
                changed.changed(now_ns);
                put_inode(t, id, &changed);
                Ok(changed.attributes(id))
            }),
        )
    }

    /// Promises that the file will have this size: its attributes, now changed. What the I/O servers have
    /// to do for it is an intent.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while an earlier truncation is not done yet; [`ErrorKind::IsDirectory`].
    pub fn truncate(&self, watch: &mut dyn Watch, place: &Place, size_bytes: u64) -> Result<Attributes> {
        if size_bytes > limits::FILE_BYTES {
            return on(
                place,
                Err(Error::new(ErrorKind::TooLarge, format!("a size of {size_bytes} bytes: at most {} are possible", limits::FILE_BYTES))),
            );
        }
        on(
            place,
            write(&*self.database, watch, |t| {
                let now_ns = (self.clock)();
                let id = find(t, place)?;
                let mut changed = inode(t, id)?;
                let Node::File(layout) = &changed.node else { return Err(is_directory()) };
                if t.get(Table::Intents, &id_key(id))?.is_some() {
                    return Err(Error::new(ErrorKind::Busy, "an earlier truncation is not done yet: one of its I/O servers is away"));
                }
                t.put(Table::Intents, &id_key(id), encode(&Intent::Truncate { size_bytes, layout: layout.clone() }));
                changed.modified(now_ns);
                put_inode(t, id, &changed);
                Ok(changed.attributes(id))
            }),
        )
    }

    /// What is promised for this file and not done yet.
    ///
    /// # Errors
    /// The database's.
    pub fn intent(&self, id: FileId) -> Result<Option<Intent>> {
        read(&*self.database, |view| {
            let value = view.get(Table::Intents, &id_key(id))?;
            value.map(|value| decode(Table::Intents, &id_key(id), &value)).transpose()
        })
    }

    /// Up to `most` of what is promised and not done yet, in order of number, after `after`.
    ///
    /// # Errors
    /// The database's.
    pub fn intents(&self, after: Option<FileId>, most: usize) -> Result<Vec<(FileId, Intent)>> {
        read(&*self.database, |view| {
            let mut found = Vec::new();
            let after = after.map(id_key);
            view.scan(Table::Intents, &[], after.as_ref().map(|key| &key[..]), &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                found.len() < most
            })?;
            let row = |(key, value): (Vec<u8>, Vec<u8>)| Ok((id_of(&key).unwrap_or(FileId(0)), decode(Table::Intents, &key, &value)?));
            found.into_iter().map(row).collect()
        })
    }

    /// These are done. One that has become another promise meanwhile stays.
    ///
    /// # Errors
    /// The database's.
    pub fn intents_done(&self, watch: &mut dyn Watch, done: &[(FileId, Intent)]) -> Result<()> {
        write(&*self.database, watch, |t| {
            for (id, intent) in done {
                let key = id_key(*id);
                if t.get(Table::Intents, &key)?.is_some_and(|value| value == encode(intent)) {
                    t.delete(Table::Intents, &key);
                }
            }
            Ok(())
        })
    }

    /// Which of these files still exist or are kept because somebody has them open.
    ///
    /// # Errors
    /// The database's.
    pub fn still_there(&self, files: &[FileId]) -> Result<Vec<FileId>> {
        read(&*self.database, |view| {
            let mut there = Vec::new();
            for id in files {
                let removed = || -> Result<bool> {
                    let value = view.get(Table::Intents, &id_key(*id))?;
                    let intent = value.map(|v| decode::<Intent>(Table::Intents, &id_key(*id), &v)).transpose()?;
                    Ok(matches!(intent, Some(Intent::Remove { .. })))
                };
                if view.get(Table::Inodes, &id_key(*id))?.is_some() || removed()? {
                    there.push(*id);
                }
            }
            Ok(there)
        })
    }

    fn fresh(&self) -> Result<FileId> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        if n >> EPOCH_SHIFT != 0 {
            return Err(Error::new(ErrorKind::Io, "the metadata service has given all numbers of this start: restart it"));
        }
        Ok(FileId(self.epoch << EPOCH_SHIFT | n))
    }
}

/// A target belongs to one server for good; the address and directory may change.
fn register_targets(t: &mut dyn Transaction, map: &StoreMap) -> Result<()> {
    for target in &map.targets {
        let server = map.servers.get(target.server as usize).map(|s| s.name.clone()).unwrap_or_default();
        let key = target.target.0.to_be_bytes();
        let known = t.get(Table::Targets, &key)?.map(|v| decode::<String>(Table::Targets, &key, &v)).transpose()?;
        match known {
            Some(known) if known != server => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!(
                        "target {} was at server {known} and is at {server} now: servers and targets keep their order in store.toml, new ones go to the end",
                        target.target.0
                    ),
                ));
            }
            Some(_) => {}
            None => t.put(Table::Targets, &key, encode(&server)),
        }
    }
    let mut registered = 0_usize;
    t.scan(Table::Targets, &[], None, &mut |_, _| {
        registered += 1;
        true
    })?;
    if registered > map.targets.len() {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("the store has {registered} targets and store.toml names {}: none may be left out", map.targets.len()),
        ));
    }
    Ok(())
}

/// Names the place in an error.
fn on<T>(place: &Place, result: Result<T>) -> Result<T> {
    result.map_err(|e| e.on_file(shown_place(place)))
}

/// A place for a person.
pub(super) fn shown_place(place: &Place) -> String {
    let path = shown(&place.path);
    match place.from {
        FileId::ROOT if path.starts_with('/') => path,
        FileId::ROOT => format!("/{path}"),
        id if path.is_empty() => format!("file {id}"),
        id => format!("directory {id}: {path}"),
    }
}

fn not_found(name: &[u8]) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no `{}`", shown(name)))
}

fn not_directory(name: &[u8]) -> Error {
    Error::new(ErrorKind::NotDirectory, format!("`{}` is not a directory", shown(name)))
}

fn is_directory() -> Error {
    Error::new(ErrorKind::IsDirectory, "it is a directory")
}

fn exists() -> Error {
    Error::new(ErrorKind::Exists, "it exists already")
}

fn put_inode(t: &mut dyn Transaction, id: FileId, inode: &Inode) {
    t.put(Table::Inodes, &id_key(id), encode(inode));
}

fn inode<V: View + ?Sized>(view: &V, id: FileId) -> Result<Inode> {
    let key = id_key(id);
    match view.get(Table::Inodes, &key)? {
        Some(value) => decode(Table::Inodes, &key, &value),
        None => Err(Error::new(ErrorKind::Stale, format!("{id} is gone: it was removed"))),
    }
}

fn directory_of<V: View + ?Sized>(view: &V, id: FileId) -> Result<Inode> {
    let found = inode(view, id)?;
    match found.node {
        Node::Directory { .. } => Ok(found),
        _ => Err(Error::new(ErrorKind::NotDirectory, "it is not a directory")),
    }
}

fn entry<V: View + ?Sized>(view: &V, parent: FileId, name: &[u8]) -> Result<Option<Entry>> {
    let key = entry_key(parent, name);
    view.get(Table::Entries, &key)?.map(|value| decode(Table::Entries, &key, &value)).transpose()
}

/// Walks `names` from a directory.
fn walk<V: View + ?Sized>(view: &V, from: FileId, names: &[&[u8]]) -> Result<(FileId, FileKind)> {
    let mut at = (from, FileKind::Directory);
    for (i, name) in names.iter().enumerate() {
        if at.1 != FileKind::Directory {
            return Err(not_directory(names[i - 1]));
        }
        let found = entry(view, at.0, name)?.ok_or_else(|| not_found(name))?;
        at = (found.id, found.kind);
    }
    Ok(at)
}

fn find<V: View + ?Sized>(view: &V, place: &Place) -> Result<FileId> {
    let names = split(&place.path)?;
    if !names.is_empty() && place.from != FileId::ROOT {
        directory_of(view, place.from)?;
    }
    Ok(walk(view, place.from, &names)?.0)
}

/// The directory a name is or will be in, and the name.
fn find_parent<'a, V: View + ?Sized>(view: &V, place: &'a Place) -> Result<(FileId, &'a [u8])> {
    let mut names = split(&place.path)?;
    let Some(name) = names.pop() else {
        return Err(if place.from == FileId::ROOT {
            Error::new(ErrorKind::IsDirectory, "it is the root directory of the store")
        } else {
            Error::new(ErrorKind::Invalid, "a name is needed here")
        });
    };
    let (parent, kind) = walk(view, place.from, &names)?;
    if kind != FileKind::Directory {
        return Err(not_directory(names.last().expect("only a name leads to a file")));
    }
    directory_of(view, parent)?;
    Ok((parent, name))
}

/// Takes a file's inode away and leaves the intent to remove its datafiles. The file, unless it has
/// other names.
fn drop_file(t: &mut dyn Transaction, id: FileId, now_ns: i64) -> Result<Option<FileId>> {
    let mut dropped = inode(t, id)?;
    dropped.links = dropped.links.saturating_sub(1);
    if dropped.links > 0 {
        dropped.changed(now_ns);
        put_inode(t, id, &dropped);
        return Ok(None);
    }
    t.delete(Table::Inodes, &id_key(id));
    let Node::File(layout) = dropped.node else { return Ok(None) };
    t.put(Table::Intents, &id_key(id), encode(&Intent::Remove { targets: layout.targets }));
    Ok(Some(id))
}

fn drop_empty_directory(t: &mut dyn Transaction, id: FileId) -> Result<()> {
    let mut empty = true;
    t.scan(Table::Entries, &id_key(id), None, &mut |_, _| {
        empty = false;
        false
    })?;
    if !empty {
        return Err(Error::new(ErrorKind::NotEmpty, "the directory is not empty"));
    }
    t.delete(Table::Inodes, &id_key(id));
    Ok(())
}

/// What has the name gives way to what is moved there: a file to a file, an empty directory to a directory.
fn give_way(t: &mut dyn Transaction, parent: FileId, moved: FileKind, target: Entry, now_ns: i64) -> Result<Option<FileId>> {
    match (moved == FileKind::Directory, target.kind == FileKind::Directory) {
        (false, true) => Err(is_directory()),
        (true, false) => Err(Error::new(ErrorKind::NotDirectory, "a directory cannot take the name of a file")),
        (true, true) => {
            drop_empty_directory(t, target.id)?;
            touch_directory(t, parent, now_ns, -1)?;
            Ok(None)
        }
        (false, false) => drop_file(t, target.id, now_ns),
    }
}

/// Whether `at` is neither `directory` nor below it.
fn not_within<V: View + ?Sized>(view: &V, mut at: FileId, directory: FileId) -> Result<()> {
    for _ in 0..DEPTH {
        if at == directory {
            return Err(Error::new(ErrorKind::Invalid, "a directory cannot be moved into itself"));
        }
        if at == FileId::ROOT {
            return Ok(());
        }
        let Node::Directory { parent, .. } = directory_of(view, at)?.node else { unreachable!("directory_of checks") };
        at = parent;
    }
    Err(Error::new(ErrorKind::Invalid, format!("the directory is more than {DEPTH} levels deep")))
}

/// Notes in a directory that its names changed, and how many subdirectories it gained.
fn touch_directory(t: &mut dyn Transaction, id: FileId, now_ns: i64, gained: i64) -> Result<()> {
    let mut directory = directory_of(t, id)?;
    directory.links = directory.links.saturating_add_signed(i32::try_from(gained).expect("one at a time"));
    directory.modified(now_ns);
    put_inode(t, id, &directory);
    Ok(())
}

fn entry_and_attributes(view: &dyn View, key: &[u8], value: &[u8], attributes: bool) -> Result<DirectoryEntry> {
    let entry: Entry = decode(Table::Entries, key, value)?;
    let attributes = if attributes { Some(inode(view, entry.id)?.attributes(entry.id)) } else { None };
    Ok(DirectoryEntry { name: key[8..].to_vec(), id: entry.id, kind: entry.kind, attributes })
}

/// About how many bytes an entry takes in a message.
fn cost(entry: &DirectoryEntry) -> usize {
    let spec = |parameters: &[(String, String)]| parameters.iter().map(|(k, v)| k.len() + v.len() + 6).sum::<usize>();
    let attributes = entry.attributes.as_ref().map_or(0, |a| {
        let layout = a.layout.as_ref().map_or(0, |l| 5 * l.targets.len() + spec(&l.spec.parameters) + 32);
        let choice = a.default_layout.as_ref().map_or(0, |c| c.spec.as_ref().map_or(0, |s| spec(&s.parameters)) + 64);
        100 + layout + choice
    });
    entry.name.len() + 16 + attributes
}

/// Nanoseconds since 1970.
fn wall_clock_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namespace").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

const _: fn(DatabaseError) -> Error = Error::from;
