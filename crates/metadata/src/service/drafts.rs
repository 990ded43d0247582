//! Drafts: files that a copy makes under `NAME.partial` and renames when they are complete.
//!
//! A copy says of a file that it makes it as a draft ([`Existing::Draft`](thalweg_wire::protocol::metadata::Existing::Draft)), and a row remembers that, over restarts
//! too. So a draft is known by what was said when it was made, never by its name: a person's own `x.partial` is none. It is one no more
//! as soon as it gets another name: the copy's last step, or a person's who wants to keep it.
//!
//! A draft is *being written* as long as the connection of its maker lives, and *abandoned* since that ended. A client whose connection
//! broke, or whose service was started again, says that it has the file open still, and it is being written again: those of an
//! earlier start are waited for ([`Recovery`]) before they count as abandoned.

use crate::database::{Table, Unwatched, View, Watch, read, write};
use crate::inode::{Entry, Node, decode, encode, id_key};
use crate::namespace::caller::Caller;
use crate::namespace::draft_rows::{Row, each_row, row};
use crate::namespace::tree::inode;
use crate::namespace::{Namespace, Removed};
use crate::recovery::Recovery;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use thalweg_base::sync::Mutex;
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{DraftEntry, FileId, Place};
use thalweg_wire::{Error, ErrorKind, Result};

/// Drafts in one page.
const PAGE: usize = 512;
/// Names of a directory among which the name of one in it is looked for, to show a path, and the deepest path shown.
const LOOKED_AT: usize = 1 << 16;
const DEPTH: usize = 128;

/// Which drafts are being written, as far as this start of the service knows.
#[derive(Debug)]
pub(crate) struct Drafts {
    writing: Mutex<HashSet<FileId>>,
    /// Until then, clients of an earlier start may come back.
    awaited_until: Instant,
    started_ns: i64,
    /// Those of earlier starts that did not come back have been found out.
    settled: AtomicBool,
    stopping: AtomicBool,
}

impl Drafts {
    /// Nobody is back yet.
    pub(super) fn new(namespace: &Namespace, recovery: &Recovery) -> Drafts {
        Drafts {
            writing: Mutex::default(),
            awaited_until: recovery.ends_after(limits::DRAFT_RECOVERIES),
            started_ns: namespace.now_ns(),
            settled: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// Their maker is there: a draft that was abandoned is not any more.
    pub(super) fn begin(&self, namespace: &Namespace, watch: &mut dyn Watch, files: &[FileId]) -> Result<Vec<FileId>> {
        self.writing.lock().extend(files);
        let there = mark(namespace, watch, files, None);
        let kept: HashSet<FileId> = there.as_ref().map_or_else(|_| HashSet::new(), |there| there.iter().copied().collect());
        self.writing.lock().retain(|id| kept.contains(id) || !files.contains(id));
        there
    }

    /// A draft was made by somebody who is there.
    pub(super) fn made(&self, id: FileId) {
        self.writing.lock().insert(id);
    }

    /// Their maker is gone, or says that it has closed them: those that are still drafts are abandoned.
    pub(super) fn end(&self, namespace: &Namespace, files: &[FileId]) {
        if files.is_empty() || self.stopping.load(Ordering::Acquire) {
            return;
        }
        // A failure leaves them as they were: abandoned after the next start.
        let _ = mark(namespace, &mut Unwatched, files, Some(namespace.now_ns()));
        self.writing.lock().retain(|id| !files.contains(id));
    }

    /// The service stops: connections end now, and nobody is gone because of that.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Since when a draft is abandoned; `None`: it is being written, or may be.
    fn abandoned(&self, id: FileId, row: &Row) -> Option<i64> {
        if self.writing.lock().contains(&id) {
            return None;
        }
        row.abandoned_ns.or_else(|| (Instant::now() >= self.awaited_until).then_some(self.started_ns))
    }

    /// Writes down who did not come back, so that the next start knows since when.
    fn settle(&self, namespace: &Namespace) -> Result<()> {
        if Instant::now() < self.awaited_until || self.settled.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let mut lost = Vec::new();
        read(&**namespace.database(), |view| {
            each_row(view, None, &mut |id, row| {
                if row.abandoned_ns.is_none() {
                    lost.push(id);
                }
                true
            })
        })?;
        lost.retain(|id| !self.writing.lock().contains(id));
        mark(namespace, &mut Unwatched, &lost, Some(self.started_ns)).map(drop)
    }

    /// A page of the drafts, in order of number, after `after`; and whether there are more.
    pub(super) fn list(&self, namespace: &Namespace, after: Option<FileId>) -> Result<(Vec<DraftEntry>, bool)> {
        self.settle(namespace)?;
        let now_ns = namespace.now_ns();
        read(&**namespace.database(), |view| {
            let (mut rows, mut more) = (Vec::new(), false);
            each_row(view, after, &mut |id, row| {
                more = rows.len() == PAGE;
                if !more {
                    rows.push((id, row));
                }
                !more
            })?;
            let (mut known, mut entries) = (HashMap::new(), Vec::with_capacity(rows.len()));
            for (id, row) in rows {
                let Node::File(layout) = inode(view, id)?.node else { continue };
                let path = path_of(view, row.parent, &mut known)?.map(|above| [&above[..], b"/", &row.name].concat());
                let abandoned_for_ns = self.abandoned(id, &row).map(|since| now_ns.saturating_sub(since).max(0) as u64);
                let place = Place { from: row.parent, path: row.name };
                entries.push(DraftEntry { file: id, place, path, layout, abandoned_for_ns });
            }
            Ok((entries, more))
        })
    }

    /// Removes a draft that has been abandoned for so long.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when it is being written, or has been until lately; [`ErrorKind::NotFound`] when it is no draft.
    pub(super) fn remove(&self, names: &Caller<'_>, watch: &mut dyn Watch, id: FileId, abandoned_for_ns: u64) -> Result<Removed> {
        let now_ns = names.now_ns();
        write(&**names.database(), watch, |t| {
            let row = row(t, id)?.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{id} is no partial copy any more")))?;
            let since = self.abandoned(id, &row);
            if since.is_none_or(|since| (now_ns.saturating_sub(since).max(0) as u64) < abandoned_for_ns) {
                let problem = format!("`{}` is being written, or was until lately", thalweg_wire::protocol::names::shown(&row.name));
                return Err(Error::new(ErrorKind::Busy, problem));
            }
            let place = Place { from: row.parent, path: row.name };
            names.unlink_in(t, &place, Some(id))
        })
    }
}

/// Notes since when these are abandoned; those that are drafts.
fn mark(namespace: &Namespace, watch: &mut dyn Watch, files: &[FileId], abandoned_ns: Option<i64>) -> Result<Vec<FileId>> {
    let drafts = |view: &dyn View| -> Result<Vec<(FileId, Row)>> {
        let found = files.iter().map(|id| Ok(row(view, *id)?.map(|row| (*id, row))));
        found.filter_map(Result::transpose).collect()
    };
    // Mostly there is none: then nothing is written.
    let found = read(&**namespace.database(), drafts)?;
    if found.iter().any(|(_, row)| row.abandoned_ns != abandoned_ns) {
        write(&**namespace.database(), watch, |t| {
            for id in files {
                if let Some(found) = row(t, *id)? {
                    t.put(Table::Drafts, &id_key(*id), encode(&Row { abandoned_ns, ..found }));
                }
            }
            Ok::<_, Error>(())
        })?;
    }
    Ok(found.into_iter().map(|(id, _)| id).collect())
}

/// A directory's path from the root, empty for the root itself; `None`: it would take too long to find.
pub(crate) fn path_of(view: &dyn View, directory: FileId, known: &mut HashMap<FileId, Option<Vec<u8>>>) -> Result<Option<Vec<u8>>> {
    let (mut names, mut at) = (Vec::new(), directory);
    let mut path = Some(Vec::new());
    while at != FileId::ROOT {
        if let Some(found) = known.get(&at) {
            path.clone_from(found);
            break;
        }
        let (Node::Directory { parent, .. }, true) = (inode(view, at)?.node, names.len() < DEPTH) else {
            path = None;
            break;
        };
        let (mut name, mut looked_at) = (None, 0);
        view.scan(Table::Entries, &id_key(parent), None, &mut |key, value| {
            looked_at += 1;
            if decode::<Entry>(Table::Entries, key, value).is_ok_and(|entry| entry.id == at) {
                name = Some(key[8..].to_vec());
            }
            name.is_none() && looked_at < LOOKED_AT
        })?;
        let Some(name) = name else {
            path = None;
            break;
        };
        names.push(name);
        at = parent;
    }
    for name in names.into_iter().rev() {
        if let Some(path) = &mut path {
            path.push(b'/');
            path.extend_from_slice(&name);
        }
    }
    known.insert(directory, path.clone());
    Ok(path)
}
