//! What was promised is done: removed files' datafiles go, truncated files' datafiles get their sizes.
//!
//! An intent is in the database before its operation is answered, and leaves it when every I/O server
//! has done its part. Nothing is asked of an I/O server before the intent is durable: power loss may
//! otherwise bring a file back whose bytes are gone. So a removal, which nobody waits for, is done by a
//! thread that syncs once for all it finds; a truncation is done by the thread that serves it, and by
//! the worker if that failed.
//!
//! One thread works on an intent at a time ([`Claims`]); it looks again after it has claimed it, so that
//! a truncation never reaches an I/O server after its caller has the answer that it is done.

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

/// Intents looked at in one go.
const PAGE: usize = 1024;
/// How long an I/O server that failed is left alone.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a removal waits for others, and all of them for more: a command that removes a tree has both processors meanwhile.
const GATHER: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Does what was promised.
pub(crate) struct Intents {
    shared: Arc<Shared>,
    worker: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Shared {
    namespace: Arc<Namespace>,
    servers: Arc<dyn IoServers>,
    open: Mutex<HashMap<FileId, u32>>,
    /// How often something was opened.
    openings: AtomicU64,
    claims: Claims<FileId>,
    orders: Orders,
    /// Removals wait for its end: clients that had files open when the service went away say so first.
    recovery: Arc<Recovery>,
}

impl Intents {
    /// Begins with what an earlier start left; removals wait for the end of `recovery` first.
    ///
    /// # Errors
    /// When no thread can be started.
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

    /// There may be something to remove.
    pub(crate) fn look(&self) {
        self.shared.look();
    }

    /// A client has these open: their datafiles stay until it closes them.
    pub(crate) fn opened(&self, id: FileId) {
        *self.shared.open.lock().entry(id).or_insert(0) += 1;
        self.shared.openings.fetch_add(1, Ordering::Relaxed);
    }

    /// The same for a file without names: only while somebody else has it open, or while those who had may still say so,
    /// are its datafiles certainly there. Whether it counts as open now.
    pub(crate) fn opened_orphan(&self, id: FileId) -> bool {
        let mut open = self.shared.open.lock();
        let there = open.contains_key(&id) || !self.shared.recovery.is_over();
        if there {
            *open.entry(id).or_insert(0) += 1;
            self.shared.openings.fetch_add(1, Ordering::Relaxed);
        }
        there
    }

    /// A client has closed it.
    pub(crate) fn closed(&self, id: FileId) {
        let mut open = self.shared.open.lock();
        let Some(count) = open.get_mut(&id) else { return };
        *count -= 1;
        if *count == 0 {
            open.remove(&id);
            drop(open);
            if matches!(self.shared.namespace.intent(id), Ok(Some(_))) {
                self.look();
            }
        }
    }

    /// Whether a client has this file open.
    pub(crate) fn is_open(&self, id: FileId) -> bool {
        self.shared.open.lock().contains_key(&id)
    }

    /// The time in which clients of an earlier start say what they have open.
    pub(crate) fn recovery(&self) -> &Recovery {
        &self.shared.recovery
    }

    /// Has what was promised of these files done, until then at most, and while something of it is done once in so long. What is left.
    ///
    /// # Errors
    /// The database's.
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
                // What is left that only time can mend is tried again by the worker itself, in its own time.
                Some(patience) if left.len() == many => patience,
                _ => {
                    self.look();
                    *patience.insert(deadline.min(Instant::now() + stalled))
                }
            };
            orders.wait_for_step(before, patience);
        }
    }

    /// Has removals done that are under way, of files of this lot or of all: one who needs their room waits for them, and is not refused before.
    /// With `closing`, those too that a client has open, which may have closed them and not said so yet. Whether something was removed.
    ///
    /// # Errors
    /// The database's.
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

    /// How often something was opened so far.
    pub(crate) fn openings(&self) -> u64 {
        self.shared.openings.load(Ordering::Relaxed)
    }

    /// Files open at clients.
    pub(crate) fn open_files(&self) -> usize {
        self.shared.open.lock().len()
    }

    /// Does this file's truncation now, on this thread, if it is not done yet.
    ///
    /// # Errors
    /// When an I/O server could not; the worker then goes on trying.
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
                    self.look();
                }
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                shared.give_up(id, Intent::Truncate { size_bytes, layout }, watch)?;
                Err(error)
            }
            Err(error) => {
                self.look();
                let message = format!("{}; the file gets its new size when that server is back", error.message());
                let reported = Error::new(ErrorKind::Io, message);
                Err(error.server().map_or(reported.clone(), |server| reported.at_server(server)))
            }
        }
    }
}

impl Intents {
    /// Gives a file another layout. It must have no bytes, and nobody may have it open: an opening waits while this works
    /// ([`Intents::truncate_now`]), and finds the new layout.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] with the reason; [`ErrorKind::Invalid`] for a layout that cannot be; when an I/O server is away.
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
            return Err(Error::new(ErrorKind::Busy, "clients of an earlier start have yet to say whether they have it open: try again"));
        }
        let _claim = shared.claims.claim(id);
        if shared.open.lock().contains_key(&id) {
            return Err(Error::new(ErrorKind::Busy, "somebody has it open: a layout is chosen before a file is opened"));
        }
        if shared.namespace.intent(id)?.is_some() {
            return Err(Error::new(ErrorKind::Busy, "an earlier truncation or removal is not done yet"));
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
    fn look(&self) {
        self.orders.look();
    }

    fn run(&self) {
        let mut resting: HashMap<String, Instant> = HashMap::new();
        // What is promised at the same time shares a sync. What went wrong here is tried again; a broken database is reported to those who
        // use it.
        self.orders.work(PAUSE, GATHER, || self.round(&mut resting).unwrap_or(true));
    }

    fn stopping(&self) -> bool {
        self.orders.is_stopping()
    }

    /// Works on every intent once. Whether something is left that only time can mend.
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

    /// Files that are being removed, of this lot or of all, as far as anybody waits for them.
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
                    self.look();
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

    /// Each server's part of a file that has no bytes goes; an error if the file has bytes.
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
                return Err(Error::new(ErrorKind::Busy, "it has bytes: a layout is chosen before the first one is written"));
            }
        }
        by_server.iter().try_for_each(|(number, datafiles)| {
            self.servers.remove(server(*number), datafiles).map_err(|e| e.at_server(&server(*number).name))
        })
    }

    /// A truncation that no repetition brings to its end: a target's file system has no files of that size.
    fn give_up(&self, id: FileId, intent: Intent, watch: &mut dyn Watch) -> Result<()> {
        if self.namespace.intents_done(watch, &[(id, intent)])? {
            self.look();
        }
        Ok(())
    }

    /// Gives every datafile its size, the largest first: where that is larger than its file system allows, nothing has changed.
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

    /// Removes the datafiles of files that nobody has open. Whether all are gone.
    fn remove(&self, files: Vec<(FileId, Vec<TargetId>, Option<LotId>)>, resting: &mut HashMap<String, Instant>) -> Result<bool> {
        if files.is_empty() {
            return Ok(true);
        }
        if !self.recovery.is_over() {
            return Ok(false);
        }
        let files: Vec<_> = {
            let open = self.open.lock();
            // A file that is open is looked at again when it is closed.
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
