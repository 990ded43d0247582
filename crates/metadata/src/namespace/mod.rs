//! The namespace: the reads and changes of each operation, as one transaction.
//!
//! A directory entry is `(parent's number, name) → (number, kind)`; a file or directory is `number → inode`. So a directory's names are one
//! range of keys in order of name, and reading resumes after a page's last name despite concurrent changes: a name that stays is neither
//! missed nor returned twice.
//!
//! Numbers are `epoch << 40 | n`; the epoch grows, on stable storage, at each start. So a number lost with an unsynced creation is not
//! reused, and a new file never finds an old one's datafiles.
//!
//! Removing a file's last name leaves an [`Intent`] in the same transaction, which [`crate::background::intents`] carries out at the I/O
//! servers once the file is not open. Until then the file is an *orphan*: an inode without links, which can still be found by its number.
//!
//! This file contains the reads; changes are in [`self::create`], [`self::rename`] and [`self::attributes`].

pub(super) mod answers;
mod attributes;
pub(super) mod caller;
mod create;
pub(super) mod draft_rows;
pub(super) mod makers;
pub(super) mod many;
pub(super) mod placement;
mod privileges;
mod rename;
#[cfg(test)]
mod tests;
pub(super) mod tree;
mod turns;
mod writing;

use self::tree::*;
use self::turns::Turns;
use crate::database::{Database, Table, Transaction, View, Watch, read, write};
use crate::given_up::GivenUp;
use crate::inode::{
    Entry, Inode, Intent, Layouts, Node, Settlement, Sizing, decode, decode_attributes, decode_inode, decode_intent, encode, encode_intent,
    entry_key, id_key, id_of, missing, number_at,
};
use crate::lineage::{Lineage, Older, WitnessReports};
use crate::sizes::boots::Boots;
use crate::sizes::writers::{Watched, Writers};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use thalweg_base::sync::RwLock;
use thalweg_wire::protocol::common::{ServiceStart, Witnessed, random_u64};
use thalweg_wire::protocol::metadata::{Attributes, Detail, DirectoryEntry, FileId, FileKind, FilePath, Name, Owner, StoreMap};
use thalweg_wire::{Error, ErrorKind, Result};

pub(crate) const EPOCH: &[u8] = b"namespace.epoch";
pub(crate) const START: &[u8] = b"namespace.start";
pub(crate) const STORE: &[u8] = b"namespace.store";
/// Bound: names of a directory page.
const PAGE_NAMES: usize = 4096;
/// Names read per turn ([`self::turns`]), while changes wait. Longer slices make a hundred concurrent listings a quarter faster, but make a
/// writer wait twice as long.
const SLICE: usize = 128;
/// Bound: bytes of a page, well below a message's body.
const PAGE_BYTES: usize = 512 << 10;

/// The namespace of one store over its database.
pub struct Namespace {
    pub(super) database: Arc<dyn Database>,
    epoch: u64,
    /// Distinguishes this start from another of the same epoch, on another copy of the database.
    start: u64,
    lineage: Lineage,
    given_up: GivenUp,
    /// The findings accepted at this start.
    accepted: Vec<Older>,
    /// Servers that witnessed a history given up by a restore.
    told: Vec<String>,
    next: AtomicU64,
    map: RwLock<Arc<StoreMap>>,
    clock: Clock,
    pub(super) writers: Writers,
    pub(super) boots: Boots,
    /// The turns in which directories are read.
    turns: Turns,
}

/// An inode's claim on a file's size, to be proved by [`crate::sizes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// None, or not requested.
    None,
    /// No writers, but only the I/O servers know the size.
    Unknown,
    /// This size, as of its machine starts.
    Settled(Settlement),
}

impl Claim {
    pub(crate) fn of(inode: &Inode) -> Claim {
        Claim::new(inode.kind(), inode.sizing.clone())
    }

    pub(crate) fn new(kind: FileKind, sizing: Sizing) -> Claim {
        match (kind, sizing) {
            (FileKind::File, Sizing::Unknown | Sizing::Unasked { .. }) => Claim::Unknown,
            (FileKind::File, Sizing::Settled(settlement)) => Claim::Settled(settlement),
            _ => Claim::None,
        }
    }
}

/// A page of a directory, read slice by slice: a writer waits for a slice, not for a page.
struct Page {
    most: usize,
    entries: Vec<DirectoryEntry>,
    bytes: usize,
    layouts: Layouts,
    /// Files of the slice being read.
    files: Vec<FileId>,
}

/// What follows the entries read so far.
enum More {
    /// The end of the directory.
    None,
    /// The next slice of the page.
    Slice,
    /// The next page.
    Page,
}

impl Page {
    /// Reads until the page has `reached` entries, or is full.
    fn read(
        &mut self,
        view: &dyn View,
        place: &FilePath,
        after: Option<&[u8]>,
        (detail, reached): (Detail, usize),
        claims: &mut Vec<Claim>,
    ) -> Result<More> {
        let directory = find(view, place)?;
        directory_of(view, directory)?;
        let prefix = id_key(directory);
        let after = after.map(|name| entry_key(directory, name));
        let (mut more, mut failed) = (More::None, None);
        let first = self.entries.len();
        self.files.clear();
        view.scan(Table::Entries, &prefix, after.as_deref(), &mut |key, value| {
            if self.entries.len() == self.most || self.bytes >= PAGE_BYTES {
                more = More::Page;
                return false;
            }
            if self.entries.len() == reached {
                more = More::Slice;
                return false;
            }
            match decode::<Entry>(Table::Entries, key, value) {
                Ok(Entry { id, kind }) => match Name::new(&key[8..]) {
                    Ok(name) => {
                        self.files.push(id);
                        self.entries.push(DirectoryEntry { name, id, kind, attributes: None });
                        true
                    }
                    Err(error) => {
                        failed = Some(Error::new(ErrorKind::Io, format!("the metadata database is damaged: {}", error.message())));
                        false
                    }
                },
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if detail >= Detail::Attributes {
            self.describe(view, first, detail, claims)?;
        }
        for at in first..self.entries.len() {
            self.bytes += entry_cost(&self.entries[at]);
            if self.bytes >= PAGE_BYTES && at + 1 < self.entries.len() {
                self.entries.truncate(at + 1);
                claims.truncate(at + 1);
                return Ok(More::Page);
            }
        }
        Ok(more)
    }

    /// Adds the attributes of the entries of a slice, which starts with the one at `first`.
    fn describe(&mut self, view: &dyn View, first: usize, detail: Detail, claims: &mut Vec<Claim>) -> Result<()> {
        let entries = &mut self.entries[first..];
        let base = claims.len();
        if detail == Detail::Sizes {
            claims.resize(base + entries.len(), Claim::None);
        }
        inodes_of(view, &self.files, |at, value| {
            let id = entries[at].id;
            let known = self.layouts.len();
            let (found, sizing) = decode_attributes(id, &id_key(id), value, &mut self.layouts)?;
            if self.layouts.len() > known {
                self.bytes += found.layout.as_deref().map_or(0, layout_cost);
            }
            if let Some(claim) = claims.get_mut(base + at) {
                *claim = Claim::new(found.kind, sizing);
            }
            entries[at].attributes = Some(found);
            Ok(())
        })
    }
}

/// A file to remove after an operation, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Removed(pub Option<FileId>);

impl Namespace {
    /// Opens the namespace of the store `map.store`; creates the root directory of a new one.
    ///
    /// # Errors
    /// The database belongs to another store, a target is on another server than before, or an I/O error. [`ErrorKind::Absent`] if it is
    /// older than what the targets have `seen`.
    pub fn open(database: Arc<dyn Database>, map: StoreMap, owner: Owner, seen: &WitnessReports) -> Result<Namespace> {
        let clock = Clock::default();
        let start = random_u64() | 1;
        let come_to = database.synced();
        let (epoch, lineage, given_up, accepted) = write(&*database, &mut crate::database::Unwatched, |t| {
            let number = |t: &dyn Transaction, key: &[u8]| number_at(t, key).map(|found| found.map(u64::from_le_bytes));
            match number(t, STORE)? {
                Some(store) if store != map.store => {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        format!(
                            "the metadata directory belongs to the store {store:016x}, not to {:016x}: give another directory",
                            map.store
                        ),
                    ));
                }
                Some(_) if number(t, EPOCH)?.is_none() => return Err(missing(Table::State, EPOCH, "of a store that was started before")),
                Some(_) => {}
                // An existing store is never initialised again.
                None if t.get(Table::Inodes, &id_key(FileId::ROOT))?.is_some() => {
                    return Err(missing(Table::State, STORE, "and a root directory is there"));
                }
                None => {
                    t.put(Table::State, STORE, map.store.to_le_bytes().to_vec());
                    let root = Inode::new(Node::Directory { parent: FileId::ROOT, default_layout: None }, owner, clock.now_ns());
                    put_inode(t, FileId::ROOT, &root);
                }
            }
            register_targets(t, &map)?;
            let (last, last_start) = (number(t, EPOCH)?, number(t, START)?);
            let last = ServiceStart { epoch: last.unwrap_or(0), start: last_start.unwrap_or(0) };
            let mut lineage = Lineage::read(&*t)?;
            lineage.end(Witnessed { start: last, change: come_to });
            let older = seen.servers.iter().filter_map(|(server, seen)| lineage.older(server, *seen, None));
            let older: Vec<Older> = older.collect();
            let given_up = GivenUp::read(&*t)?;
            let unaccepted = older.iter().filter(|older| !seen.accepts_older && !given_up.has(older.seen()));
            if let Some(worst) = unaccepted.max_by_key(|older| older.seen()) {
                return Err(worst.refusal());
            }
            older.iter().for_each(|older| lineage.accept(older));
            let epoch = lineage.next(last, &older);
            if !FileId::exists(epoch, 0) {
                return Err(Error::new(ErrorKind::Io, "the store has been started so often that it has used up all epoch numbers"));
            }
            lineage.keep(t);
            t.put(Table::State, EPOCH, epoch.to_le_bytes().to_vec());
            t.put(Table::State, START, start.to_le_bytes().to_vec());
            Ok::<_, Error>((epoch, lineage, given_up, older))
        })?;
        database.sync(&mut crate::database::Unwatched)?;
        let (given, accepted): (Vec<Older>, Vec<Older>) = accepted.into_iter().partition(|older| given_up.has(older.seen()));
        Ok(Namespace {
            told: given.iter().map(|older| older.server().to_owned()).collect(),
            database,
            epoch,
            start,
            lineage,
            given_up,
            accepted,
            next: AtomicU64::new(1),
            map: RwLock::new(Arc::new(map)),
            clock,
            writers: Writers::default(),
            boots: Boots::default(),
            turns: Turns::default(),
        })
    }

    /// Returns how this metadata is older than its targets, as accepted at this start.
    pub fn accepted(&self) -> &[Older] {
        &self.accepted
    }

    /// Returns the servers that witnessed what was given up when a backup was restored, and go on from this start.
    pub fn told(&self) -> &[String] {
        &self.told
    }

    /// Compares what `server` witnessed with this metadata; `Ok(true)` if it is ahead and that was accepted at start.
    ///
    /// # Errors
    /// [`ErrorKind::Absent`] if it is ahead and that was not accepted.
    pub(crate) fn meets(&self, server: &str, seen: Witnessed) -> Result<bool> {
        match self.lineage.older(server, seen, Some(self.service_start())) {
            Some(_) if self.given_up.has(seen) => Ok(true),
            Some(older) => Err(older.refusal()),
            None => Ok(self.lineage.has_accepted(server, seen)),
        }
    }

    /// Returns the underlying database.
    pub fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }

    /// Returns the identity of this start of the service; its numbers are not reused.
    pub fn service_start(&self) -> ServiceStart {
        ServiceStart { epoch: self.epoch, start: self.start }
    }

    /// Returns the store map.
    pub(crate) fn map(&self) -> Arc<StoreMap> {
        Arc::clone(&self.map.read())
    }

    /// Returns attributes.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`].
    pub fn stat(&self, place: &FilePath) -> Result<Attributes> {
        self.stat_claiming(place).map(|(attributes, _)| attributes)
    }

    /// Returns attributes and the inode's claim on the size.
    pub(super) fn stat_claiming(&self, place: &FilePath) -> Result<(Attributes, Claim)> {
        on(
            place,
            read(&*self.database, |view| {
                let id = find(view, place)?;
                let found = inode(view, id)?;
                let claim = Claim::of(&found);
                Ok((found.attributes(id), claim))
            }),
        )
    }

    /// Returns a page of a directory after the name `after`, with at most `most` entries, and whether there are more.
    ///
    /// # Errors
    /// Those of [`Namespace::stat`].
    #[cfg(test)]
    pub(crate) fn list(&self, place: &FilePath, after: Option<&[u8]>, most: u32, detail: Detail) -> Result<(Vec<DirectoryEntry>, bool)> {
        self.list_claiming(&mut crate::database::Unwatched, place, after, (most, detail), &mut Vec::new())
    }

    /// Returns such a page, and each entry's claim on its size if sizes are requested.
    pub(super) fn list_claiming(
        &self,
        watch: &mut dyn Watch,
        place: &FilePath,
        after: Option<&[u8]>,
        (most, detail): (u32, Detail),
        claims: &mut Vec<Claim>,
    ) -> Result<(Vec<DirectoryEntry>, bool)> {
        let most = (most as usize).clamp(1, PAGE_NAMES);
        let mut page = Page { most, entries: Vec::with_capacity(most), bytes: 0, layouts: Layouts::default(), files: Vec::new() };
        let mut after = after.map(<[u8]>::to_vec);
        loop {
            let reached = page.entries.len() + SLICE;
            let _turn = self.turns.take(watch);
            let more = on(place, read(&*self.database, |view| page.read(view, place, after.as_deref(), (detail, reached), claims)))?;
            match more {
                More::None => return Ok((page.entries, false)),
                More::Page => return Ok((page.entries, true)),
                More::Slice => after = page.entries.last().map(|entry| entry.name.to_vec()),
            }
        }
    }

    /// Returns a time for a change, never earlier than any returned before.
    pub(super) fn now_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    /// Returns a file's attributes, for opening it. Links and devices cannot be opened here: clients follow links, and the kernel of the
    /// client's machine opens devices.
    ///
    /// # Errors
    /// [`ErrorKind::IsDirectory`], [`ErrorKind::Unsupported`], and those of [`Namespace::stat`].
    pub(crate) fn open_file(&self, place: &FilePath) -> Result<Attributes> {
        let attributes = self.stat(place)?;
        match attributes.kind {
            FileKind::File => Ok(attributes),
            FileKind::Directory => on(place, Err(is_directory())),
            FileKind::Symlink => on(place, Err(Error::new(ErrorKind::Unsupported, "it is a symbolic link"))),
            other => on(place, Err(Error::new(ErrorKind::Unsupported, format!("it has no bytes in the store: {other:?}")))),
        }
    }

    /// Returns the pending intent of this file.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn intent(&self, id: FileId) -> Result<Option<Intent>> {
        read(&*self.database, |view| {
            let value = view.get(Table::Intents, &id_key(id))?;
            value.map(|value| decode_intent(&id_key(id), &value)).transpose()
        })
    }

    /// Returns up to `most` pending intents with numbers above `after`, in order.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn intents(&self, after: Option<FileId>, most: usize) -> Result<Vec<(FileId, Intent)>> {
        read(&*self.database, |view| {
            let mut found = Vec::new();
            let after = after.map(id_key);
            view.scan(Table::Intents, &[], after.as_ref().map(|key| &key[..]), &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                found.len() < most
            })?;
            let row = |(key, value): (Vec<u8>, Vec<u8>)| Ok((id_of(&key).unwrap_or(FileId(0)), decode_intent(&key, &value)?));
            found.into_iter().map(row).collect()
        })
    }

    /// Deletes completed intents, unless they have changed meanwhile. A removed file's inode is deleted; a truncated file that has lost its
    /// last name is to be removed next. Returns whether there is such a file.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn intents_done(&self, watch: &mut dyn Watch, done: &[(FileId, Intent)]) -> Result<bool> {
        self.intents_done_watching(watch, done, None)
    }

    /// Deletes completed intents; a truncated file without writers meanwhile gets a settled size, unless its servers' machines have been
    /// restarted since the given count.
    pub(super) fn intents_done_watching(
        &self,
        watch: &mut dyn Watch,
        done: &[(FileId, Intent)],
        quiet: Option<(&Watched<'_>, u32)>,
    ) -> Result<bool> {
        write(&*self.database, watch, |t| {
            let mut left = false;
            for (id, intent) in done {
                let key = id_key(*id);
                // Compares decoded intents: a row of an earlier version differs but has the same meaning.
                if t.get(Table::Intents, &key)?.is_none_or(|value| decode_intent(&key, &value).ok().as_ref() != Some(intent)) {
                    continue;
                }
                t.delete(Table::Intents, &key);
                let mut inode = t.get(Table::Inodes, &key)?.map(|value| decode_inode(&key, &value)).transpose()?;
                if let (Intent::Truncate { size_bytes, .. }, Some(inode)) = (intent, &mut inode) {
                    if let Some((watched, boots)) = quiet
                        && watched.is_quiet()
                    {
                        inode.sizing = match std::mem::replace(&mut inode.sizing, Sizing::Unknown) {
                            Sizing::Unknown => Sizing::Settled(Settlement::truncated(*size_bytes, boots)),
                            // Bytes may have been lost before the truncation.
                            Sizing::Unasked { boots, unsynced } => {
                                Sizing::Settled(Settlement { unsynced, ..Settlement::truncated(*size_bytes, boots) })
                            }
                            other => other,
                        };
                    }
                    // Readers during the truncation may have cached removed bytes under the earlier change number.
                    inode.change += 1;
                    put_inode(t, *id, inode);
                }
                match (intent, inode.filter(|inode| inode.links == 0)) {
                    (Intent::Remove { .. }, Some(orphan)) => erase(t, *id, &orphan)?,
                    (Intent::Truncate { layout, .. }, Some(_)) => {
                        t.put(Table::Intents, &key, encode_intent(&Intent::remove(layout)));
                        left = true;
                    }
                    (_, None) => {}
                }
            }
            Ok(left)
        })
    }

    /// Returns those of these files that exist, or are kept because they are open, and whether they have names.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn still_there(&self, files: &[FileId]) -> Result<Vec<(FileId, bool)>> {
        read(&*self.database, |view| {
            let mut there = Vec::new();
            for id in files {
                let key = id_key(*id);
                let inode = view.get(Table::Inodes, &key)?.map(|value| decode_inode(&key, &value)).transpose()?;
                let intent = || view.get(Table::Intents, &key);
                match inode {
                    Some(inode) => there.push((*id, inode.links > 0)),
                    // Removed by a release that deleted an inode with its last name.
                    None if intent()?.is_some() => there.push((*id, false)),
                    None => {}
                }
            }
            Ok(there)
        })
    }

    pub(super) fn fresh(&self) -> Result<FileId> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        if !FileId::exists(self.epoch, n) {
            return Err(Error::new(ErrorKind::Io, "the metadata service has used up all file numbers of this start: restart it"));
        }
        Ok(FileId::new(self.epoch, n))
    }
}

/// Checks that each target stays on its server. Its address and directory may change.
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

/// Nanoseconds since 1970. If the system clock is set back, this clock stands still until that has caught up.
#[derive(Debug, Default)]
struct Clock(AtomicI64);

impl Clock {
    fn now_ns(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let wall = since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX));
        self.0.fetch_max(wall, Ordering::AcqRel).max(wall)
    }
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namespace").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
