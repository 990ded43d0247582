//! Making a database from a backup's rows, so that nothing made after the backup is mistaken for something in it.
//!
//! - **Numbers** go on after the highest epoch that the present database or a target has seen, so that a number given since is not given
//!   again.
//! - **The history since** is noted as given up ([`crate::given_up`]), so that servers which witnessed it go on from the next start.
//! - **Credentials** made since stay known, and those revoked since stay revoked.
//! - **Lots' numbers** given since are passed over.
//! - **Sizes** of files written since are asked from the I/O servers, which have the bytes.

use super::{Order, each_row};
use crate::credentials::{REVISION, decode_row};
use crate::database::{DatabaseError, Rebuild, Table, View};
use crate::given_up::{GIVEN_UP, GivenUp};
use crate::inode::{Entry, Node, Sizing, decode, decode_inode, encode, encode_inode, id_of, number_at};
use crate::lineage::{LINEAGE, Lineage, is_plausible};
use crate::lots;
use crate::namespace::{EPOCH, START, STORE};
use crate::service::path_of;
use std::collections::HashMap;
use thalweg_wire::protocol::common::{ServiceStart, Witnessed, random_u64};
use thalweg_wire::protocol::metadata::{FileId, FileKind};
use thalweg_wire::{Error, ErrorKind, Result};

/// Rows of [`Table::State`] that the restored database gets with other values.
const CHANGED: [&[u8]; 5] = [EPOCH, LINEAGE, GIVEN_UP, REVISION, lots::COUNTER];

/// A file, directory or link that the present database has and the backup has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its number.
    pub id: FileId,
    /// Its kind.
    pub kind: FileKind,
    /// Its paths; none if it has been removed and is still open.
    pub paths: Vec<Vec<u8>>,
}

/// What the present database has beyond the backup.
#[derive(Clone, Debug, Default)]
struct Ahead {
    epoch: u64,
    revision: u64,
    lots: u32,
    credentials: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Where the database is that was there before; `None`: there was none.
    pub before: Option<String>,
    /// The next start's epoch.
    pub next: u64,
    /// Files, directories and links.
    pub inodes: u64,
    /// Names.
    pub names: u64,
    /// Credentials made or revoked since, which stay so.
    pub credentials: u64,
    /// Files whose sizes are asked from the I/O servers, which have later bytes.
    pub written: u64,
}

/// A restore under way.
pub struct Restoring {
    to: Box<dyn Rebuild>,
    of: Witnessed,
    order: Order,
    /// The numbers of the backup's inodes, in order.
    ids: Vec<u64>,
    names: u64,
    written: u64,
    state: HashMap<Vec<u8>, Vec<u8>>,
    /// By number: whether it is revoked.
    credentials: HashMap<Vec<u8>, bool>,
    present: Ahead,
}

impl Restoring {
    /// Begins, with a backup of this moment.
    pub fn begin(to: Box<dyn Rebuild>, of: Witnessed) -> Restoring {
        Restoring {
            to,
            of,
            order: Order::default(),
            ids: Vec::new(),
            names: 0,
            written: 0,
            state: HashMap::new(),
            credentials: HashMap::new(),
            present: Ahead::default(),
        }
    }

    /// Takes the next part of the backup. `was_written`: whether a file has been written since.
    ///
    /// # Errors
    /// A row cannot be read or stored.
    pub fn part(&mut self, part: &[u8], was_written: &dyn Fn(FileId) -> bool) -> Result<()> {
        let mut order = std::mem::take(&mut self.order);
        let taken = each_row(part, &mut order, |table, key, value| self.row(table, key, value, was_written));
        self.order = order;
        taken
    }

    fn row(&mut self, table: Table, key: &[u8], value: &[u8], was_written: &dyn Fn(FileId) -> bool) -> Result<()> {
        match table {
            Table::State if CHANGED.contains(&key) || key == STORE || key == START => drop(self.state.insert(key.to_vec(), value.to_vec())),
            Table::Inodes => {
                let id = id_of(key).unwrap_or(FileId(0));
                self.ids.push(id.0);
                if was_written(id) {
                    let mut inode = decode_inode(key, value)?;
                    if let (Node::File(_), Sizing::Settled(_)) = (&inode.node, &inode.sizing) {
                        (inode.sizing, inode.written) = (Sizing::Unknown, None);
                        self.written += 1;
                        return Ok(self.to.put(table, key, Some(&encode_inode(&inode)))?);
                    }
                }
            }
            Table::Entries => self.names += 1,
            Table::Credentials => {
                let is_revoked = decode_row(key, value)?.revoked_s.is_some();
                self.credentials.insert(key.to_vec(), is_revoked);
            }
            _ => {}
        }
        Ok(self.to.put(table, key, Some(value))?)
    }

    /// Returns whether the backup has an inode of this number.
    pub fn has(&self, id: FileId) -> bool {
        self.ids.binary_search(&id.0).is_ok()
    }

    /// Compares with the present database, after all parts: returns what was created since, and how many inodes were removed since.
    ///
    /// # Errors
    /// The present database belongs to another store, or cannot be read.
    pub fn compare(&mut self, present: &dyn View) -> Result<(Vec<Created>, u64)> {
        let number = |key: &[u8]| -> Result<Option<u64>> { Ok(number_at(present, key)?.map(u64::from_le_bytes)) };
        let (ours, theirs) = (self.number(STORE), number(STORE)?);
        if theirs.is_some() && theirs != ours {
            let problem = format!("the database that is there belongs to store {:016x}: give this store's own", theirs.unwrap_or(0));
            return Err(Error::new(ErrorKind::Invalid, problem));
        }
        self.present.epoch = number(EPOCH)?.unwrap_or(0);
        self.present.revision = number(REVISION)?.unwrap_or(0);
        self.present.lots = number_at(present, lots::COUNTER)?.map_or(0, u32::from_le_bytes);
        let mut rows = Vec::new();
        present.scan(Table::Credentials, &[], None, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            true
        })?;
        for (key, value) in rows {
            let is_revoked = decode_row(&key, &value)?.revoked_s.is_some();
            match self.credentials.get(&key) {
                Some(was_revoked) if *was_revoked || !is_revoked => {}
                _ => self.present.credentials.push((key, value)),
            }
        }
        self.created(present)
    }

    fn created(&self, present: &dyn View) -> Result<(Vec<Created>, u64)> {
        let (mut created, mut there, mut failed) = (Vec::new(), 0, None);
        present.scan(Table::Inodes, &[], None, &mut |key, value| {
            let id = id_of(key).unwrap_or(FileId(0));
            if self.has(id) {
                there += 1;
                return true;
            }
            match decode_inode(key, value) {
                Ok(inode) => created.push(Created { id, kind: inode.kind(), paths: Vec::new() }),
                Err(error) => failed = Some(error),
            }
            failed.is_none()
        })?;
        let mut names = Vec::new();
        present.scan(Table::Entries, &[], None, &mut |key, value| {
            match decode::<Entry>(Table::Entries, key, value) {
                Ok(entry) if created.binary_search_by_key(&entry.id, |created| created.id).is_ok() => names.push((key.to_vec(), entry.id)),
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
            failed.is_none()
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let mut known = HashMap::new();
        for (key, id) in names {
            let parent = id_of(&key).unwrap_or(FileId::ROOT);
            let directory = path_of(present, parent, &mut known)?.unwrap_or_else(|| format!("(directory {parent})").into_bytes());
            if let Ok(at) = created.binary_search_by_key(&id, |created| created.id) {
                created[at].paths.push([&directory, &b"/"[..], key.get(8..).unwrap_or_default()].concat());
            }
        }
        Ok((created, self.ids.len() as u64 - there))
    }

    fn number(&self, key: &[u8]) -> Option<u64> {
        self.state.get(key).and_then(|value| value[..].try_into().ok()).map(u64::from_le_bytes)
    }

    /// Completes the database, and puts it in the place of the present one. `seen`: what targets have witnessed.
    ///
    /// # Errors
    /// A row of the backup is missing or cannot be read, or the database cannot be completed.
    pub fn finish(mut self, seen: &[Witnessed]) -> Result<Restored> {
        let own = self.number(EPOCH).filter(|epoch| *epoch == self.of.start.epoch && self.number(START) == Some(self.of.start.start));
        let own =
            own.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the backup's rows are of another start of the service than it says"))?;
        let plausible = seen.iter().map(|seen| seen.start.epoch).filter(|epoch| is_plausible(*epoch, own.max(self.present.epoch)));
        let until = plausible.fold(own.max(self.present.epoch), u64::max);
        let lineage = self.state.get(LINEAGE).map(|value| decode::<Lineage>(Table::State, LINEAGE, value)).transpose()?;
        let given_up = self.state.get(GIVEN_UP).map(|value| GivenUp::decode(value)).transpose()?;
        let (mut lineage, mut given_up) = (lineage.unwrap_or_default(), given_up.unwrap_or_default());
        given_up.add(self.of, until);
        let mut start = self.of.start;
        if until > own {
            // The start that ends with the restore is one that never answered anybody.
            lineage.end(self.of);
            start = ServiceStart { epoch: until, start: random_u64() | 1 };
        }
        let credentials = std::mem::take(&mut self.present.credentials);
        for (key, value) in &credentials {
            self.to.put(Table::Credentials, key, Some(value))?;
        }
        let revision = self.number(REVISION).unwrap_or(0).max(self.present.revision) + 1;
        let counter = self.state.get(lots::COUNTER).and_then(|value| value[..].try_into().ok()).map_or(0, u32::from_le_bytes);
        self.set(EPOCH, &start.epoch.to_le_bytes())?;
        self.set(START, &start.start.to_le_bytes())?;
        self.set(LINEAGE, &encode(&lineage))?;
        self.set(GIVEN_UP, &given_up.encode())?;
        self.set(REVISION, &revision.to_le_bytes())?;
        if counter.max(self.present.lots) > 0 {
            self.set(lots::COUNTER, &counter.max(self.present.lots).to_le_bytes())?;
        }
        let before = self.to.finish(self.of.change)?;
        Ok(Restored {
            before,
            next: until + 1,
            inodes: self.ids.len() as u64,
            names: self.names,
            credentials: credentials.len() as u64,
            written: self.written,
        })
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), DatabaseError> {
        self.to.put(Table::State, key, Some(value))
    }
}
