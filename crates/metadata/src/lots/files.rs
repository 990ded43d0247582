//! The contents of a lot: its files, and the directories whose new files go into it. They are not indexed: all inodes are scanned, in
//! slices, so that other requests are not delayed.

use super::keeper::Keeper;
use crate::database::{Table, Unwatched, read, write};
use crate::inode::{Entry, Inode, Node, decode, decode_inode, id_of};
use crate::namespace::tree::{inode, put_inode};
use crate::service::path_of;
use std::collections::{HashMap, HashSet};
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{FileId, FilePath, LotId};
use thalweg_wire::{Error, ErrorKind, Result};

/// Rows of a slice.
const SLICE: usize = 512;
/// Names removed per transaction.
const RUN: usize = 32;
/// Bound: scans for a lot's files, which are repeated if some are renamed meanwhile.
const PASSES: usize = 64;

impl Keeper {
    /// Calls `each` with all rows of a table, reading in slices.
    fn each_row(&self, table: Table, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let mut slice = Vec::with_capacity(SLICE);
            read::<_, Error>(&**self.namespace.database(), |view| {
                view.scan(table, &[], after.as_deref(), &mut |key, value| {
                    slice.push((key.to_vec(), value.to_vec()));
                    slice.len() < SLICE
                })?;
                Ok(())
            })?;
            let Some((last, _)) = slice.last() else { return Ok(()) };
            after = Some(last.clone());
            slice.iter().try_for_each(|(key, value)| each(key, value))?;
            if self.is_stopping() {
                return Err(Error::new(ErrorKind::Cancelled, "the service stops"));
            }
        }
    }

    fn each_inode(&self, mut each: impl FnMut(FileId, Inode)) -> Result<()> {
        self.each_row(Table::Inodes, |key, value| {
            if let Some(id) = id_of(key) {
                each(id, decode_inode(key, value)?);
            }
            Ok(())
        })
    }

    /// Returns all files of a lot, and whether each has a name.
    pub(super) fn files_of(&self, lot: LotId) -> Result<Vec<(FileId, bool)>> {
        let mut files = Vec::new();
        self.each_inode(|id, found| {
            if matches!(found.node, Node::File(_)) && found.lot() == Some(lot) {
                files.push((id, found.links > 0));
            }
        })?;
        Ok(files)
    }

    /// Returns paths of some directories of each of these lots.
    pub(super) fn directories_of(&self, lots: &[LotId]) -> Result<HashMap<LotId, Vec<Vec<u8>>>> {
        let mut directories: HashMap<LotId, Vec<FileId>> = lots.iter().map(|lot| (*lot, Vec::new())).collect();
        if lots.is_empty() {
            return Ok(HashMap::new());
        }
        self.each_inode(|id, found| {
            if let (Node::Directory { .. }, Some(lot)) = (&found.node, found.lot())
                && let Some(of_lot) = directories.get_mut(&lot)
                && of_lot.len() < limits::LOT_DIRECTORIES
            {
                of_lot.push(id);
            }
        })?;
        let mut known = HashMap::new();
        read(&**self.namespace.database(), |view| {
            let mut paths = HashMap::new();
            for (lot, ids) in &directories {
                let mut of_lot = Vec::new();
                for id in ids {
                    match path_of(view, *id, &mut known) {
                        Ok(Some(path)) => of_lot.push(if path.is_empty() { b"/".to_vec() } else { path }),
                        Ok(None) => {}
                        // Removed in the meantime.
                        Err(e) if e.is_gone() => {}
                        Err(e) => return Err(e),
                    }
                }
                of_lot.sort_unstable();
                paths.insert(*lot, of_lot);
            }
            Ok(paths)
        })
    }

    /// Removes the names of all files of a lot that accepts no new ones; their datafiles are removed once they are not open.
    pub(super) fn remove_files(&self, lot: LotId) -> Result<()> {
        for _ in 0..PASSES {
            let named = self.files_of(lot)?.into_iter().filter(|(_, has_name)| *has_name);
            let named: HashSet<FileId> = named.map(|(id, _)| id).collect();
            if named.is_empty() {
                return Ok(());
            }
            let mut run = Vec::new();
            self.each_row(Table::Entries, |key, value| {
                let id = decode::<Entry>(Table::Entries, key, value)?.id;
                if let (true, Some(parent), Some(name)) = (named.contains(&id), id_of(key), key.get(8..)) {
                    run.push((FilePath { from: parent, path: name.to_vec() }, id));
                }
                if run.len() == RUN { self.unlink(std::mem::take(&mut run)) } else { Ok(()) }
            })?;
            self.unlink(run)?;
        }
        Err(Error::new(ErrorKind::Busy, "files of the lot keep being renamed: try again"))
    }

    fn unlink(&self, names: Vec<(FilePath, FileId)>) -> Result<()> {
        let namespace = self.namespace.for_store();
        write(&**namespace.database(), &mut Unwatched, |t| {
            for (place, id) in &names {
                t.save();
                match namespace.unlink_in(t, place, Some(*id)) {
                    Ok(_) => {}
                    // Renamed or removed in the meantime.
                    Err(e) if e.is_gone() || e.kind() == ErrorKind::Busy => t.undo(),
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        })?;
        self.intents.notify();
        Ok(())
    }

    /// Detaches the lot from its directories; their new files are in no lot.
    pub(super) fn clear_directories(&self, lot: LotId) -> Result<()> {
        let mut directories = Vec::new();
        self.each_inode(|id, found| {
            if matches!(found.node, Node::Directory { .. }) && found.lot() == Some(lot) {
                directories.push(id);
            }
        })?;
        for run in directories.chunks(RUN) {
            write(&**self.namespace.database(), &mut Unwatched, |t| {
                for id in run {
                    let mut found = match inode(t, *id) {
                        Ok(found) if found.lot() == Some(lot) => found,
                        Ok(_) => continue,
                        Err(e) if e.is_gone() => continue,
                        Err(e) => return Err(e),
                    };
                    if let Node::Directory { default_layout, .. } = &mut found.node {
                        let choice =
                            default_layout.take().map(|choice| thalweg_wire::protocol::metadata::LayoutChoice { lot: None, ..choice });
                        *default_layout = choice.filter(|choice| *choice != thalweg_wire::protocol::metadata::LayoutChoice::default());
                    }
                    found.changed(self.namespace.now_ns());
                    put_inode(t, *id, &found);
                }
                Ok::<_, Error>(())
            })?;
        }
        Ok(())
    }
}
