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

use super::database::{Database, Table, Transaction, Watch, read, write};
use super::inode::{Entry, Inode, Intent, Node, decode, encode, entry_key, id_key, id_of};
use super::names::split;
use super::placement;
use super::tree::*;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::metadata::{
    Attributes, DirectoryEntry, Existing, FileId, FileKind, LayoutChoice, Owner, Place, SetAttributes, StoreMap,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

const EPOCH: &[u8] = b"namespace.epoch";
const STORE: &[u8] = b"namespace.store";
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
    pub fn rename(
        &self,
        watch: &mut dyn Watch,
        from: &Place,
        only: Option<FileId>,
        to: &Place,
        replace: bool,
        set: &SetAttributes,
    ) -> Result<(Attributes, Removed)> {
        if let Some(Some(choice)) = &set.default_layout {
            on(to, placement::check(choice, &self.map()))?;
        }
        write(&*self.database, watch, |t| {
            let now_ns = (self.clock)();
            let (from_parent, from_name) = on(from, find_parent(t, from))?;
            let moved = on(from, entry(t, from_parent, from_name)?.ok_or_else(|| not_found(from_name)))?;
            on(from, expected(moved.id, only))?;
            let (to_parent, to_name) = on(to, find_parent(t, to))?;
            if (from_parent, from_name) == (to_parent, to_name) {
                let mut same = inode(t, moved.id)?;
                on(to, apply(&mut same, set, now_ns))?;
                put_inode(t, moved.id, &same);
                return Ok((same.attributes(moved.id), Removed(None)));
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
            on(to, apply(&mut inode_moved, set, now_ns))?;
            put_inode(t, moved.id, &inode_moved);
            let crosses = from_parent != to_parent;
            touch_directory(t, from_parent, now_ns, if is_directory && crosses { -1 } else { 0 })?;
            if crosses {
                touch_directory(t, to_parent, now_ns, i64::from(is_directory))?;
            }
            Ok((inode_moved.attributes(moved.id), Removed(old)))
        })
    }

    /// Removes a file's name, if it is that of the file it must be; the file is to be removed.
    ///
    /// # Errors
    /// [`ErrorKind::IsDirectory`], [`ErrorKind::NotFound`], [`ErrorKind::Busy`].
    pub fn unlink(&self, watch: &mut dyn Watch, place: &Place, only: Option<FileId>) -> Result<Removed> {
        on(
            place,
            write(&*self.database, watch, |t| {
                let now_ns = (self.clock)();
                let (parent, name) = find_parent(t, place)?;
                let found = entry(t, parent, name)?.ok_or_else(|| not_found(name))?;
                expected(found.id, only)?;
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
        let changed = write(&*self.database, watch, |t| {
            let id = find(t, place)?;
            let mut changed = inode(t, id)?;
            apply(&mut changed, set, (self.clock)())?;
            put_inode(t, id, &changed);
            Ok(changed.attributes(id))
        });
        on(place, changed)
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
                        target.target
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
