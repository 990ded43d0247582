//! A client's open files.

use super::MetadataService;
use crate::database::Unwatched;
use crate::database::Watch;
use crate::namespace::tree::shown_place;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{Attributes, Closed, End, FileId, FilePath};
use thalweg_wire::trust::{Identity, Rights};
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: open files of a connection.
const OPEN_FILES: usize = 1 << 16;

/// A client's open files. They are dropped with the connection; messages of its writers may still arrive afterwards.
pub(super) struct Openings {
    service: Arc<MetadataService>,
    /// Number of open files of this credential, on all connections.
    of_credential: Arc<AtomicUsize>,
    /// The maximum of that.
    most: usize,
    open: HashMap<FileId, Uses>,
    /// Drafts that this client is writing.
    drafts: HashSet<FileId>,
    /// Drafts closed by the last request, which may have renamed them.
    finished: Vec<FileId>,
}

#[derive(Clone, Copy, Default)]
struct Uses {
    reading: u32,
    writing: u32,
}

impl Drop for Openings {
    fn drop(&mut self) {
        let mut ends = Vec::new();
        for (id, uses) in std::mem::take(&mut self.open) {
            ends.extend((0..uses.writing).map(|_| (id, End::Unknown)));
            (0..uses.reading + uses.writing).for_each(|_| self.service.intents.closed(id));
            self.of_credential.fetch_sub(1, Ordering::Relaxed);
        }
        let drafts: Vec<FileId> = self.drafts.drain().chain(self.finished.drain(..)).collect();
        self.service.drafts.end(self.service.namespace(), &drafts);
        // On failure their rows stay open, as intended.
        let _ = self.service.namespace().closed(&mut Unwatched, &ends);
    }
}

impl Openings {
    /// Starts without open files.
    pub(super) fn new(service: Arc<MetadataService>, who: &Identity) -> Openings {
        let of_credential = service.open_counts.of(who.id);
        let most = if who.rights == Rights::Store { usize::MAX } else { limits::OPEN_FILES_OF_CREDENTIAL };
        Openings { service, of_credential, most, open: HashMap::new(), drafts: HashSet::new(), finished: Vec::new() }
    }

    /// Checks that `more` files may be opened.
    ///
    /// # Errors
    /// [`ErrorKind::TooMany`].
    pub(super) fn room(&self, more: usize) -> Result<()> {
        if self.open.len() + more > OPEN_FILES {
            return Err(Error::new(ErrorKind::TooMany, format!("{OPEN_FILES} files are open on this connection: close some")));
        }
        if self.of_credential.load(Ordering::Relaxed).saturating_add(more) > self.most {
            return Err(Error::new(ErrorKind::TooMany, format!("{} files are open with this credential: close some", self.most)));
        }
        Ok(())
    }

    fn note(&mut self, id: FileId, write: bool) {
        let uses = self.open.entry(id).or_insert_with(|| {
            self.of_credential.fetch_add(1, Ordering::Relaxed);
            Uses::default()
        });
        *(if write { &mut uses.writing } else { &mut uses.reading }) += 1;
    }

    /// Adds a file that was created open for writing.
    pub(super) fn made(&mut self, id: FileId, is_draft: bool) {
        if is_draft {
            self.drafts.insert(id);
            self.service.drafts.made(id);
        }
        self.service.intents.opened(id);
        self.note(id, true);
    }

    /// Closes the files that the client reports as closed.
    pub(super) fn close(&mut self, watch: &mut dyn Watch, closed: &[Closed]) -> Result<()> {
        // Drafts closed earlier and not renamed since are abandoned.
        self.service.drafts.end(self.service.namespace(), &std::mem::take(&mut self.finished));
        let mut ends = Vec::new();
        for Closed { file, write, end } in closed {
            let Some(uses) = self.open.get_mut(file) else { continue };
            let count = if *write { &mut uses.writing } else { &mut uses.reading };
            if *count == 0 {
                continue;
            }
            *count -= 1;
            let Uses { reading, writing } = *uses;
            if reading + writing == 0 {
                self.open.remove(file);
                self.of_credential.fetch_sub(1, Ordering::Relaxed);
            }
            if *write && writing == 0 && self.drafts.remove(file) {
                self.finished.push(*file);
            }
            if *write {
                ends.push((*file, *end));
            }
            self.service.intents.closed(*file);
        }
        for (id, end) in &mut ends {
            if let End::Written { is_synced, .. } = end {
                *is_synced = *is_synced && self.service.was_all_synced(*id);
            }
        }
        if !ends.is_empty() {
            let unknown = self.service.namespace().closed(watch, &ends)?;
            self.service.settler.enqueue(unknown);
        }
        Ok(())
    }

    /// Opens a file. A pending truncation is completed first, so that a half-truncated file is never read or written.
    pub(super) fn open(&mut self, who: &Identity, watch: &mut dyn Watch, place: &FilePath, write: bool) -> Result<Attributes> {
        self.room(1)?;
        let service = Arc::clone(&self.service);
        let namespace = service.namespace();
        let found = namespace.open_file(place)?;
        let id = found.id;
        let gone = || Error::new(ErrorKind::NotFound, "it was removed").on_file(shown_place(place));
        if found.links > 0 {
            service.intents.opened(id);
        } else if !service.intents.opened_orphan(id) {
            return Err(gone());
        }
        // Checked once the file counts as open: a lot being reclaimed either sees the open file, or is seen to be going.
        let may = namespace.called_by(who).may_open(&FilePath::of(id), write).map(drop);
        let ready = may.and_then(|()| service.intents.truncate_now(id, watch)).and_then(|()| match write {
            true => namespace.called_by(who).disarm(watch, id).and_then(|()| namespace.opened_for_writing(watch, &[id], false)),
            false => Ok(()),
        });
        if let Err(error) = ready {
            service.intents.closed(id);
            return Err(error.on_file(shown_place(place)));
        }
        self.note(id, write);
        // Before it counted as open, it may have been removed, with its datafiles going, or have got another layout, which this returns.
        match service.stat_to_open(&FilePath::of(id)) {
            Ok(now) if now.links > 0 || found.links == 0 => Ok(now),
            _ => {
                self.close(watch, &[Closed { file: id, write, end: End::Read }])?;
                Err(gone())
            }
        }
    }

    /// Reopens the files that the client had open before this start, or before its connection broke; returns those that still exist.
    pub(super) fn reopen(&mut self, who: &Identity, watch: &mut dyn Watch, files: &[(FileId, bool)]) -> Result<Vec<FileId>> {
        let ids: Vec<FileId> = files.iter().map(|(id, _)| *id).collect();
        let service = Arc::clone(&self.service);
        let there: HashMap<FileId, bool> = service.namespace().still_there(&ids)?.into_iter().collect();
        let (mut reopened, mut writing) = (Vec::with_capacity(there.len()), Vec::new());
        let names = service.namespace().called_by(who);
        for (id, write) in files {
            self.room(1)?;
            let Some(has_names) = there.get(id) else { continue };
            if !names.may_have_open(*id, *write)? {
                continue;
            }
            if *has_names {
                service.intents.opened(*id);
            } else if !service.intents.opened_orphan(*id) {
                continue;
            }
            reopened.push((*id, *write));
            if *write {
                writing.push(*id);
            }
        }
        let ready = writing.iter().try_for_each(|id| names.disarm(watch, *id));
        if let Err(error) = ready.and_then(|()| service.namespace().opened_for_writing(watch, &writing, true)) {
            reopened.iter().for_each(|(id, _)| service.intents.closed(*id));
            return Err(error);
        }
        // On failure they stay abandoned, and their copies complete nevertheless.
        self.drafts.extend(service.drafts.begin(service.namespace(), watch, &writing).unwrap_or_default());
        reopened.iter().for_each(|(id, write)| self.note(*id, *write));
        Ok(reopened.into_iter().map(|(id, _)| id).collect())
    }
}
