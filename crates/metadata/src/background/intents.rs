//! Carries out intents: removes the datafiles of removed files, and sets the sizes of truncated files' datafiles.
//!
//! An intent is in the database before its operation is answered, and is deleted once every I/O server has done its part. Requests are sent
//! to I/O servers only after the intent is durable: otherwise power loss could bring back a file whose bytes are gone. Removals, which no
//! caller waits for, are done by a worker thread that syncs once for all pending ones. A truncation is done by the thread that serves it,
//! and by the worker if that failed.
//!
//! One thread at a time works on an intent ([`Claims`]) and re-reads it after claiming it, so that a truncation never reaches an I/O server
//! after its caller got the answer that it is complete.

use super::orders::Orders;
use crate::claims::Claims;
use crate::database::{Unwatched, Watch};
use crate::inode::Intent;
use crate::io_servers::IoServers;
use crate::namespace::Namespace;
use crate::recovery::Recovery;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;
use thalweg_layout::Layout;
use thalweg_wire::limits;
use thalweg_wire::protocol::io::DatafileId;
use thalweg_wire::protocol::metadata::{Attributes, FileId, FileLayout, LayoutChoice, LotId, ServerEntry, TargetId};
use thalweg_wire::trust::Identity;
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: intents processed in one batch.
const PAGE: usize = 1024;
/// Back-off towards an I/O server that failed.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a removal waits for others to join it: between two, and in total. Meanwhile a command that removes a tree has the CPUs to
/// itself.
const GATHER: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Carries out intents.
pub(crate) struct Intents {
    shared: Arc<Shared>,
    worker: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Shared {
    namespace: Arc<Namespace>,
    servers: Arc<dyn IoServers>,
    open: Mutex<HashMap<FileId, u32>>,
    /// Number of opens so far.
    openings: AtomicU64,
    claims: Claims<FileId>,
    orders: Orders,
    /// Removals wait for its end: clients that had files open at the service's last stop report them first.
    recovery: Arc<Recovery>,
}

impl Intents {
    /// Starts with the intents of earlier starts. Removals wait for the end of `recovery`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(namespace: Arc<Namespace>, servers: Arc<dyn IoServers>, recovery: Arc<Recovery>) -> Result<Intents> {
        let shared = Arc::new(Shared {
            namespace,
            servers,
            open: Mutex::default(),
            openings: AtomicU64::new(0),
            claims: Claims::default(),
            orders: Orders::new(),
            recovery,
        });
        let theirs = Arc::clone(&shared);
        let worker = std::thread::Builder::new()
            .name("metadata intents".into())
            .spawn(move || theirs.run())
            .map_err(|e| Error::system("starting a thread", e))?;
        Ok(Intents { shared, worker: Mutex::new(Some(worker)) })
    }

    /// Notifies the worker that there may be a removal.
    pub(crate) fn notify(&self) {
        self.shared.notify();
    }

    /// Counts a file as open at a client; its datafiles are kept until it is closed.
    pub(crate) fn opened(&self, id: FileId) {
        *self.shared.open.lock().entry(id).or_insert(0) += 1;
        self.shared.openings.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a file without names as open. Its datafiles are certain to exist only while another client has it open, or during recovery;
    /// returns whether that is so and the file was counted.
    pub(crate) fn opened_orphan(&self, id: FileId) -> bool {
        let mut open = self.shared.open.lock();
        let there = open.contains_key(&id) || !self.shared.recovery.is_over();
        if there {
            *open.entry(id).or_insert(0) += 1;
            self.shared.openings.fetch_add(1, Ordering::Relaxed);
        }
        there
    }

    /// Counts a file as closed by a client.
    pub(crate) fn closed(&self, id: FileId) {
        let mut open = self.shared.open.lock();
        let Some(count) = open.get_mut(&id) else { return };
        *count -= 1;
        if *count == 0 {
            open.remove(&id);
            drop(open);
            if matches!(self.shared.namespace.intent(id), Ok(Some(_))) {
                self.notify();
            }
        }
    }

    /// Returns whether a client has this file open.
    pub(crate) fn is_open(&self, id: FileId) -> bool {
        self.shared.open.lock().contains_key(&id)
    }

    /// Returns the recovery, in which clients of an earlier start report their open files.
    pub(crate) fn recovery(&self) -> &Recovery {
        &self.shared.recovery
    }

    /// Waits for the intents of these files until `deadline`, or until none has completed for `stalled`. Returns those left.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn wait_done(&self, files: Vec<FileId>, deadline: Instant, stalled: Duration) -> Result<Vec<FileId>> {
        let orders = &self.shared.orders;
        let mut left = files;
        let mut patience = None;
        loop {
            let (before, many) = (orders.steps(), left.len());
            let mut still = Vec::with_capacity(many);
            for id in left {
                if self.shared.namespace.intent(id)?.is_some() {
                    still.push(id);
                }
            }
            left = still;
            if left.is_empty() || patience.is_some_and(|patience| Instant::now() >= patience) {
                return Ok(left);
            }
            let patience = match patience {
                // The worker itself retries what remains after a pause.
                Some(patience) if left.len() == many => patience,
                _ => {
                    self.notify();
                    *patience.insert(deadline.min(Instant::now() + stalled))
                }
            };
            orders.wait_for_step(before, patience);
        }
    }

    /// Waits for pending removals, of one lot or of all, so that a caller that needs their space is not refused too early. With `closing`,
    /// includes files that a client has open, since a close may be on its way. Returns whether anything was removed.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn finish_removals(&self, of: Option<LotId>, closing: bool) -> Result<bool> {
        let deadline = Instant::now() + limits::REMOVAL_PATIENCE;
        let mut pending = self.shared.removals(of)?;
        if !closing {
            let open = self.shared.open.lock();
            pending.retain(|id| !open.contains_key(id));
        }
        if pending.is_empty() || !self.shared.recovery.wait(deadline) {
            return Ok(false);
        }
        let many = pending.len();
        Ok(self.wait_done(pending, deadline, limits::REMOVAL_STALLED)?.len() < many)
    }

    /// Returns the number of opens so far.
    pub(crate) fn openings(&self) -> u64 {
        self.shared.openings.load(Ordering::Relaxed)
    }

    /// Returns the number of files open at clients.
    pub(crate) fn open_files(&self) -> usize {
        self.shared.open.lock().len()
    }

    /// Carries out this file's truncation on this thread, if it is pending.
    ///
    /// # Errors
    /// An I/O server failed; the worker keeps retrying.
    pub(crate) fn truncate_now(&self, id: FileId, watch: &mut dyn Watch) -> Result<()> {
        let shared = &self.shared;
        let _claim = shared.claims.claim(id);
        let Some(Intent::Truncate { size_bytes, layout }) = shared.namespace.intent(id)? else { return Ok(()) };
        shared.namespace.database().sync(watch)?;
        let (boots, watched) = (shared.namespace.boots.now(), shared.namespace.writers.watch(id));
        match shared.truncate(id, size_bytes, &layout) {
            Ok(()) => {
                let done = [(id, Intent::Truncate { size_bytes, layout })];
                if shared.namespace.intents_done_watching(watch, &done, Some((&watched, boots)))? {
                    self.notify();
                }
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                shared.give_up(id, Intent::Truncate { size_bytes, layout }, watch)?;
                Err(error)
            }
            Err(error) => {
                self.notify();
                let message = format!("{}; the file gets its new size when that server is back", error.message());
                let reported = Error::new(ErrorKind::Io, message);
                Err(error.server().map_or(reported.clone(), |server| reported.at_server(server)))
            }
        }
    }
}

impl Intents {
    /// Replaces a file's layout. The file must have no bytes and must not be open: an open waits meanwhile ([`Intents::truncate_now`]), and
    /// gets the new layout.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] with the reason; [`ErrorKind::Invalid`] for an invalid layout; or an I/O server is unreachable.
    pub(crate) fn relayout(
        &self,
        who: &Identity,
        id: FileId,
        (choice, node): (&LayoutChoice, &str),
        watch: &mut dyn Watch,
    ) -> Result<Attributes> {
        let shared = &self.shared;
        let names = shared.namespace.called_by(who);
        if !shared.recovery.wait(Instant::now() + limits::REMOVAL_PATIENCE) {
            return Err(Error::new(ErrorKind::Busy, "clients from before the restart may still have it open: try again later"));
        }
        let _claim = shared.claims.claim(id);
        if shared.open.lock().contains_key(&id) {
            return Err(Error::new(ErrorKind::Busy, "it is open: choose a layout before a file is opened"));
        }
        if shared.namespace.intent(id)?.is_some() {
            return Err(Error::new(ErrorKind::Busy, "an earlier truncation or removal is pending: try again"));
        }
        names.check_relayout(id, choice)?;
        shared.remove_empty(id, &shared.namespace.layout_of(id)?)?;
        names.relayout(watch, id, choice, node)
    }
}

impl Drop for Intents {
    fn drop(&mut self) {
        self.shared.orders.stop();
        if let Some(worker) = self.worker.lock().take() {
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn notify(&self) {
        self.orders.notify();
    }

    fn run(&self) {
        let mut resting: HashMap<String, Instant> = HashMap::new();
        // Intents created at about the same time share a sync. A failure is retried; a broken database is reported to its users.
        self.orders.work(PAUSE, GATHER, || self.round(&mut resting).unwrap_or(true));
    }

    fn stopping(&self) -> bool {
        self.orders.is_stopping()
    }

    /// Processes every intent once. Returns whether any must be retried later.
    fn round(&self, resting: &mut HashMap<String, Instant>) -> Result<bool> {
        resting.retain(|_, until| *until > Instant::now());
        let mut left = false;
        let mut after = None;
        loop {
            let page = self.namespace.intents(after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(left) };
            after = Some(*last);
            self.namespace.database().sync(&mut Unwatched)?;
            let mut removals = Vec::new();
            for (id, intent) in page {
                if self.stopping() {
                    return Ok(true);
                }
                match intent {
                    Intent::Remove { targets, lot } => removals.push((id, targets, lot)),
                    Intent::Truncate { .. } => left |= !self.retry_truncate(id, resting)?,
                }
            }
            left |= !self.remove(removals, resting)?;
        }
    }

    /// Returns the files being removed, of one lot or of all, up to the number that callers wait for.
    fn removals(&self, of: Option<LotId>) -> Result<Vec<FileId>> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.namespace.intents(after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(found) };
            after = Some(*last);
            let is_of = |intent: &Intent| matches!(intent, Intent::Remove { lot, .. } if of.is_none() || *lot == of);
            found.extend(page.iter().filter(|(_, intent)| is_of(intent)).map(|(id, _)| *id));
            if found.len() >= limits::REMOVALS_AWAITED {
                return Ok(found);
            }
        }
    }

    fn retry_truncate(&self, id: FileId, resting: &mut HashMap<String, Instant>) -> Result<bool> {
        let Some(_claim) = self.claims.try_claim(id) else { return Ok(false) };
        let Some(Intent::Truncate { size_bytes, layout }) = self.namespace.intent(id)? else { return Ok(true) };
        if layout.targets.iter().any(|t| self.server_of(*t).is_ok_and(|s| resting.contains_key(&s.name))) {
            return Ok(false);
        }
        let (boots, watched) = (self.namespace.boots.now(), self.namespace.writers.watch(id));
        match self.truncate(id, size_bytes, &layout) {
            Ok(()) => {
                let done = [(id, Intent::Truncate { size_bytes, layout })];
                if self.namespace.intents_done_watching(&mut Unwatched, &done, Some((&watched, boots)))? {
                    self.notify();
                }
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                self.give_up(id, Intent::Truncate { size_bytes, layout }, &mut Unwatched)?;
                Ok(true)
            }
            Err(error) => {
                resting.insert(error.server().unwrap_or_default().to_owned(), Instant::now() + PAUSE);
                Ok(false)
            }
        }
    }

    /// Removes each server's part of a file without bytes; fails if the file has bytes.
    fn remove_empty(&self, id: FileId, file: &FileLayout) -> Result<()> {
        let mut by_server: BTreeMap<u32, Vec<DatafileId>> = BTreeMap::new();
        for (index, target) in (0..).zip(&file.targets) {
            by_server.entry(self.server_number(*target)?).or_default().push(DatafileId { file: id, index, target: *target, lot: file.lot });
        }
        let map = self.namespace.map();
        let server = |number: u32| &map.servers[number as usize];
        for (number, datafiles) in &by_server {
            let sizes = self.servers.sizes(server(*number), datafiles).map_err(|e| e.at_server(&server(*number).name))?;
            if sizes.iter().any(|bytes| *bytes > 0) {
                return Err(Error::new(ErrorKind::Busy, "it has bytes: choose a layout before the first one is written"));
            }
        }
        by_server.iter().try_for_each(|(number, datafiles)| {
            self.servers.remove(server(*number), datafiles).map_err(|e| e.at_server(&server(*number).name))
        })
    }

    /// Abandons a truncation that can never complete: a target's file system does not support files of that size.
    fn give_up(&self, id: FileId, intent: Intent, watch: &mut dyn Watch) -> Result<()> {
        if self.namespace.intents_done(watch, &[(id, intent)])? {
            self.notify();
        }
        Ok(())
    }

    /// Sets every datafile's size, the largest first: if its file system rejects that, nothing has changed.
    fn truncate(&self, id: FileId, size_bytes: u64, file: &FileLayout) -> Result<()> {
        let count = u32::try_from(file.targets.len()).unwrap_or(u32::MAX);
        let layout = Layout::new(&file.spec, Some(count), count).map_err(|e| Error::new(ErrorKind::Invalid, e.to_string()))?;
        let mut by_server: BTreeMap<u32, (ServerEntry, Vec<(DatafileId, u64)>)> = BTreeMap::new();
        for ((index, target), bytes) in (0..).zip(&file.targets).zip(layout.datafile_sizes(size_bytes)) {
            let number = self.server_number(*target)?;
            let entry = by_server.entry(number).or_insert_with(|| (self.namespace.map().servers[number as usize].clone(), Vec::new()));
            entry.1.push((DatafileId { file: id, index, target: *target, lot: file.lot }, bytes));
        }
        let mut by_server: Vec<_> = by_server.into_values().collect();
        by_server.iter_mut().for_each(|(_, list)| list.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes)));
        by_server.sort_by_key(|(_, list)| std::cmp::Reverse(list.first().map(|(_, bytes)| *bytes)));
        by_server.iter().try_for_each(|(server, list)| self.servers.truncate(server, list).map_err(|e| e.at_server(&server.name)))
    }

    /// Removes the datafiles of files that are not open. Returns whether all are removed.
    fn remove(&self, files: Vec<(FileId, Vec<TargetId>, Option<LotId>)>, resting: &mut HashMap<String, Instant>) -> Result<bool> {
        if files.is_empty() {
            return Ok(true);
        }
        if !self.recovery.is_over() {
            return Ok(false);
        }
        let files: Vec<_> = {
            let open = self.open.lock();
            // An open file is considered again when it is closed.
            files.into_iter().filter(|(id, ..)| !open.contains_key(id)).collect()
        };
        let map = self.namespace.map();
        let mut by_server: BTreeMap<u32, Vec<DatafileId>> = BTreeMap::new();
        for (id, targets, lot) in &files {
            for (index, target) in (0..).zip(targets) {
                by_server.entry(self.server_number(*target)?).or_default().push(DatafileId {
                    file: *id,
                    index,
                    target: *target,
                    lot: *lot,
                });
            }
        }
        let mut unfinished: HashSet<FileId> = HashSet::new();
        for (number, datafiles) in by_server {
            let server = &map.servers[number as usize];
            let batches = datafiles.chunks(limits::BATCH);
            for batch in batches {
                let rests = resting.contains_key(&server.name) || self.stopping();
                if rests || self.servers.remove(server, batch).is_err() {
                    if !rests {
                        resting.insert(server.name.clone(), Instant::now() + PAUSE);
                    }
                    unfinished.extend(batch.iter().map(|d| d.file));
                }
            }
        }
        let all = unfinished.is_empty();
        let gone = files.into_iter().filter(|(id, ..)| !unfinished.contains(id));
        let gone: Vec<_> = gone.map(|(id, targets, lot)| (id, Intent::Remove { targets, lot })).collect();
        if !gone.is_empty() {
            self.namespace.intents_done(&mut Unwatched, &gone)?;
            self.orders.step();
        }
        Ok(all)
    }

    fn server_number(&self, target: TargetId) -> Result<u32> {
        let map = self.namespace.map();
        let (entry, _) =
            map.target(target).ok_or_else(|| Error::new(ErrorKind::Io, format!("target {target} is not in the store's map")))?;
        Ok(entry.server)
    }

    fn server_of(&self, target: TargetId) -> Result<ServerEntry> {
        let number = self.server_number(target)?;
        Ok(self.namespace.map().servers[number as usize].clone())
    }
}
