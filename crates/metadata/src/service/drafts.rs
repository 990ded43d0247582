//! Drafts: files that a copy creates as `NAME.partial` and renames when they are complete.
//!
//! A copy creates a file explicitly as a draft ([`Existing::Draft`](thalweg_wire::protocol::metadata::Existing::Draft)), and a row records
//! that across restarts. So drafts are never recognised by name: a user's own `x.partial` is not one. A draft that gets another name is no
//! longer one, whether the copy completes it or a user keeps it.
//!
//! A draft is *being written* while its maker's connection lives, and *abandoned* since that ended. A client whose connection broke, or
//! whose service was restarted, reports the file as open again, which makes it a draft being written; drafts of earlier starts count as
//! abandoned only after a wait ([`Recovery`]).

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
use thalweg_wire::protocol::metadata::{DraftEntry, FileId, FilePath};
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: drafts of a page.
const PAGE: usize = 512;
/// Bounds of the search for a path to show: names of a directory scanned, and depth.
const SCANNED: usize = 1 << 16;
const DEPTH: usize = 128;

/// The drafts being written, as known to this start of the service.
#[derive(Debug)]
pub(crate) struct Drafts {
    writing: Mutex<HashSet<FileId>>,
    /// Until when clients of an earlier start may return.
    awaited_until: Instant,
    started_ns: i64,
    /// Whether the drafts of clients that did not return have been marked as abandoned.
    settled: AtomicBool,
    stopping: AtomicBool,
}

impl Drafts {
    /// Starts without any.
    pub(super) fn new(namespace: &Namespace, recovery: &Recovery) -> Drafts {
        Drafts {
            writing: Mutex::default(),
            awaited_until: recovery.ends_after(limits::DRAFT_RECOVERIES),
            started_ns: namespace.now_ns(),
            settled: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// Records that the maker of these files is connected; returns those that are drafts.
    pub(super) fn begin(&self, namespace: &Namespace, watch: &mut dyn Watch, files: &[FileId]) -> Result<Vec<FileId>> {
        self.writing.lock().extend(files);
        let there = mark(namespace, watch, files, None);
        let kept: HashSet<FileId> = there.as_ref().map_or_else(|_| HashSet::new(), |there| there.iter().copied().collect());
        self.writing.lock().retain(|id| kept.contains(id) || !files.contains(id));
        there
    }

    /// Records a new draft.
    pub(super) fn made(&self, id: FileId) {
        self.writing.lock().insert(id);
    }

    /// Records that the maker of these files is gone or has closed them: those that are still drafts are abandoned.
    pub(super) fn end(&self, namespace: &Namespace, files: &[FileId]) {
        if files.is_empty() || self.stopping.load(Ordering::Acquire) {
            return;
        }
        // On failure they count as abandoned after the next start.
        let _ = mark(namespace, &mut Unwatched, files, Some(namespace.now_ns()));
        self.writing.lock().retain(|id| !files.contains(id));
    }

    /// Stops: connections that end from now on abandon nothing.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Returns since when a draft is abandoned; `None` if it is or may be being written.
    fn abandoned(&self, id: FileId, row: &Row) -> Option<i64> {
        if self.writing.lock().contains(&id) {
            return None;
        }
        row.abandoned_ns.or_else(|| (Instant::now() >= self.awaited_until).then_some(self.started_ns))
    }

    /// Stores which drafts' makers did not return, so that the next start knows since when.
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

    /// Returns a page of the drafts after `after`, in order of number, and whether there are more.
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
                let place = FilePath { from: row.parent, path: row.name };
                entries.push(DraftEntry { file: id, place, path, layout, abandoned_for_ns });
            }
            Ok((entries, more))
        })
    }

    /// Removes a draft that has been abandoned for at least this long.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if it is or recently was being written; [`ErrorKind::NotFound`] if it is not a draft.
    pub(super) fn remove(&self, names: &Caller<'_>, watch: &mut dyn Watch, id: FileId, abandoned_for_ns: u64) -> Result<Removed> {
        let now_ns = names.now_ns();
        write(&**names.database(), watch, |t| {
            let row = row(t, id)?.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{id} is no longer a partial copy")))?;
            let since = self.abandoned(id, &row);
            if since.is_none_or(|since| (now_ns.saturating_sub(since).max(0) as u64) < abandoned_for_ns) {
                let problem = format!("`{}` is being written, or was until recently", thalweg_wire::protocol::names::shown(&row.name));
                return Err(Error::new(ErrorKind::Busy, problem));
            }
            let place = FilePath { from: row.parent, path: row.name };
            names.unlink_in(t, &place, Some(id))
        })
    }
}

/// Records since when these are abandoned; returns those that are drafts.
fn mark(namespace: &Namespace, watch: &mut dyn Watch, files: &[FileId], abandoned_ns: Option<i64>) -> Result<Vec<FileId>> {
    let drafts = |view: &dyn View| -> Result<Vec<(FileId, Row)>> {
        let found = files.iter().map(|id| Ok(row(view, *id)?.map(|row| (*id, row))));
        found.filter_map(Result::transpose).collect()
    };
    // Usually there are none, and nothing is written.
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

/// Returns a directory's path from the root, empty for the root itself; `None` if the search takes too long.
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
            name.is_none() && looked_at < SCANNED
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
