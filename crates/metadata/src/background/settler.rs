//! Fetches the sizes of files without writers from the I/O servers, so that later requests are answered here: files truncated while being
//! written, files in doubt after an I/O server's restart, and files of an earlier release.
//!
//! No caller waits for the result. Requests that cannot be met, because the queue is full or a server is away, are repeated by the next
//! listing.

use crate::database::{Unwatched, View, read, write};
use crate::inode::{Inode, Node, Settlement, Sizing, id_key};
use crate::io_servers::IoServers;
use crate::namespace::Namespace;
use crate::namespace::tree::{inode, put_inode};
use crate::sizes::boots::Proof;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_layout::{Distribution, Layout};
use thalweg_wire::protocol::io::DatafileId;
use thalweg_wire::protocol::metadata::{FileId, FileLayout, Lengths, StoreMap};
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: files in the queue.
const QUEUE: usize = 1 << 16;
/// Bound: datafiles per batch, at least as many as a file can have.
const DATAFILES: usize = thalweg_wire::limits::BATCH;
/// Bound: datafiles of a file with holes whose lengths are kept.
const LENGTHS_KEPT: usize = 256;
/// Bound: files per batch.
const FILES: usize = 1024;

/// The queue and the thread that processes it.
pub(crate) struct Settler {
    shared: Arc<Shared>,
    worker: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Shared {
    namespace: Arc<Namespace>,
    servers: Arc<dyn IoServers>,
    orders: Mutex<Orders>,
    ordered: Condvar,
}

#[derive(Default)]
struct Orders {
    queue: VecDeque<FileId>,
    queued: HashSet<FileId>,
    is_at_work: bool,
    stop: bool,
}

impl Settler {
    /// Starts idle.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(namespace: Arc<Namespace>, servers: Arc<dyn IoServers>) -> Result<Settler> {
        let shared = Arc::new(Shared { namespace, servers, orders: Mutex::default(), ordered: Condvar::new() });
        let theirs = Arc::clone(&shared);
        let worker = std::thread::Builder::new()
            .name("metadata sizes".into())
            .spawn(move || theirs.run())
            .map_err(|e| Error::system("starting a thread", e))?;
        Ok(Settler { shared, worker: Mutex::new(Some(worker)) })
    }

    /// Queues files that have no writers and are not settled.
    pub(crate) fn enqueue(&self, files: impl IntoIterator<Item = FileId>) {
        let mut files = files.into_iter().peekable();
        if files.peek().is_none() {
            // (Called at each close, where hardly any file needs settling: avoids waking the thread.)
            return;
        }
        let mut orders = self.shared.orders.lock();
        for id in files {
            if orders.queue.len() < QUEUE && orders.queued.insert(id) {
                orders.queue.push_back(id);
            }
        }
        drop(orders);
        self.shared.ordered.notify_all();
    }

    #[cfg(test)]
    /// Returns once everything queued before has been tried.
    pub(crate) fn idle(&self) {
        let mut orders = self.shared.orders.lock();
        while !orders.stop && (orders.is_at_work || !orders.queue.is_empty()) {
            self.shared.ordered.wait(&mut orders);
        }
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.shared.orders.lock().stop = true;
        self.shared.ordered.notify_all();
        if let Some(worker) = self.worker.lock().take() {
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let mut orders = self.orders.lock();
            orders.is_at_work = false;
            self.ordered.notify_all();
            while orders.queue.is_empty() && !orders.stop {
                self.ordered.wait(&mut orders);
            }
            if orders.stop {
                return;
            }
            orders.is_at_work = true;
            let many = orders.queue.len().min(FILES);
            let files: Vec<FileId> = orders.queue.drain(..many).collect();
            files.iter().for_each(|id| {
                orders.queued.remove(id);
            });
            drop(orders);
            // The next listing repeats what fails here.
            let _ = self.settle(&files);
        }
    }

    fn settle(&self, files: &[FileId]) -> Result<()> {
        let namespace = &*self.namespace;
        let map = namespace.map();
        let watched: Vec<_> = files.iter().map(|id| namespace.writers.watch(*id)).collect();
        let everywhere = namespace.boots.unasked(&map);
        let doubtful: Vec<Option<Arc<FileLayout>>> = read(&*namespace.database, |view| {
            files.iter().map(|id| Ok(doubtful(view, *id, &everywhere)?.map(|(layout, _)| layout))).collect::<Result<_>>()
        })?;
        let mut from = 0;
        while from < files.len() {
            let (mut datafiles, mut to) = (0, from);
            while to < files.len() && (to == from || datafiles < DATAFILES) {
                datafiles += doubtful[to].as_ref().map_or(0, |layout| layout.targets.len());
                to += 1;
            }
            let asked: Vec<_> = (from..to).filter_map(|n| Some((n, doubtful[n].clone()?))).collect();
            from = to;
            if asked.is_empty() {
                continue;
            }
            let servers = servers_of(&map, asked.iter().map(|(_, layout)| &**layout));
            namespace.boots.ask(&*namespace.database, &map, &*self.servers, &servers);
            let boots = namespace.boots.now();
            let sizes = self.sizes(&map, files, &asked)?;
            // Only sizes read between two equal machine starts are valid.
            let proof = namespace.boots.ask(&*namespace.database, &map, &*self.servers, &servers);
            let mut settled = false;
            write(&*namespace.database, &mut Unwatched, |t| {
                for ((n, layout), found) in asked.iter().zip(&sizes) {
                    let id = files[*n];
                    let Some(there) = found else { continue };
                    if !proof.remembers(boots) || proof.since(&layout.targets) > boots || !watched[*n].is_quiet() {
                        continue;
                    }
                    let Some((now, mut found)) = doubtful_inode(t, id, &everywhere)? else { continue };
                    if now == *layout {
                        let settlement = match &found.sizing {
                            Sizing::Settled(before) => {
                                let known_starts = namespace.boots.known_starts(&map);
                                // If bytes were or may have been lost, the current sizes do not replace the earlier ones.
                                if known_starts.settled(before, &layout.targets, |_| true).doubtful.is_some() || !there.has_all_of(before) {
                                    continue;
                                }
                                let lengths = match &before.lengths {
                                    Lengths::Unknown => there.lengths(),
                                    known => known.clone(),
                                };
                                Settlement { boots, lengths, ..before.clone() }
                            }
                            Sizing::Unasked { boots, unsynced } => {
                                let unsynced = *unsynced;
                                Settlement { size_bytes: there.size_bytes, boots: *boots, lengths: there.lengths(), unsynced }
                            }
                            Sizing::Unknown | Sizing::Open => {
                                let unsynced = Some(namespace.boots.rounds.now());
                                Settlement { size_bytes: there.size_bytes, boots, lengths: there.lengths(), unsynced }
                            }
                        };
                        settled |= settlement.unsynced.is_some();
                        found.sizing = Sizing::Settled(settlement);
                        put_inode(t, id, &found);
                    }
                }
                Ok::<_, Error>(())
            })?;
            if settled {
                namespace.boots.rounds.wanted();
            }
        }
        Ok(())
    }

    /// Returns the sizes of these files and of their datafiles; `None` where a server did not answer.
    fn sizes(&self, map: &StoreMap, files: &[FileId], asked: &[(usize, Arc<FileLayout>)]) -> Result<Vec<Option<There>>> {
        let mut by_server: BTreeMap<usize, Vec<(usize, DatafileId)>> = BTreeMap::new();
        let mut sizes: Vec<Vec<Option<u64>>> = Vec::with_capacity(asked.len());
        for (place, (n, layout)) in asked.iter().enumerate() {
            sizes.push(vec![None; layout.targets.len()]);
            for (index, target) in (0..).zip(&layout.targets) {
                let server = map.target(*target).map(|(entry, _)| entry.server as usize);
                let server = server.ok_or_else(|| Error::new(ErrorKind::Io, format!("target {target} is not in the store's map")))?;
                by_server.entry(server).or_default().push((place, DatafileId { file: files[*n], index, target: *target, lot: layout.lot }));
            }
        }
        for (server, datafiles) in by_server {
            let ids: Vec<DatafileId> = datafiles.iter().map(|(_, id)| *id).collect();
            let Ok(found) = self.servers.sizes(&map.servers[server], &ids) else { continue };
            for ((place, id), bytes) in datafiles.iter().zip(found) {
                sizes[*place][id.index as usize] = Some(bytes);
            }
        }
        let whole = |(layout, sizes): (&FileLayout, Vec<Option<u64>>)| {
            let sizes: Vec<u64> = sizes.into_iter().collect::<Option<_>>()?;
            let count = u32::try_from(sizes.len()).ok()?;
            let layout = Layout::new(&layout.spec, Some(count), count).ok()?;
            let size_bytes = layout.logical_file_size(&sizes).ok()?;
            Some(There { size_bytes, layout, datafiles: sizes })
        };
        Ok(asked.iter().map(|(_, layout)| &**layout).zip(sizes).map(whole).collect())
    }
}

/// A file's state at the I/O servers.
struct There {
    size_bytes: u64,
    layout: Layout,
    /// The size of each datafile.
    datafiles: Vec<u64>,
}

impl There {
    fn is_whole(&self) -> bool {
        (0..).zip(&self.datafiles).all(|(index, bytes)| *bytes == self.layout.datafile_size(index, self.size_bytes))
    }

    /// Returns the form in which the lengths are stored.
    fn lengths(&self) -> Lengths {
        match self.is_whole() {
            true => Lengths::Whole,
            false if self.datafiles.len() <= LENGTHS_KEPT => Lengths::AtLeast(self.datafiles.clone()),
            false => Lengths::Unknown,
        }
    }

    /// Returns whether nothing of the earlier settlement is missing.
    fn has_all_of(&self, before: &Settlement) -> bool {
        self.size_bytes == before.size_bytes
            && match &before.lengths {
                Lengths::Unknown => true,
                Lengths::Whole => self.is_whole(),
                Lengths::AtLeast(lengths) => {
                    lengths.len() == self.datafiles.len() && lengths.iter().zip(&self.datafiles).all(|(was, is)| is >= was)
                }
            }
    }
}

/// Returns the servers with parts of these files, as indices into the map.
pub(crate) fn servers_of<'a>(map: &StoreMap, layouts: impl Iterator<Item = &'a FileLayout>) -> BTreeSet<usize> {
    let targets = layouts.flat_map(|layout| &layout.targets);
    targets.filter_map(|target| map.target(*target).map(|(entry, _)| entry.server as usize)).collect()
}

/// Returns a file to settle: it has no writers, and is unsettled or in doubt.
fn doubtful_inode<V: View + ?Sized>(view: &V, id: FileId, proof: &Proof) -> Result<Option<(Arc<FileLayout>, Inode)>> {
    let found = match inode(view, id) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::Stale => return Ok(None),
        Err(e) => return Err(e),
    };
    let Node::File(layout) = &found.node else { return Ok(None) };
    let layout = Arc::new(layout.clone());
    let wanted = match &found.sizing {
        Sizing::Unknown | Sizing::Unasked { .. } => true,
        Sizing::Settled(Settlement { boots, .. }) => proof.remembers(*boots),
        Sizing::Open => false,
    };
    Ok(wanted.then_some((layout, found)))
}

/// Returns such a file, unless a truncation of it is pending.
fn doubtful<V: View + ?Sized>(view: &V, id: FileId, proof: &Proof) -> Result<Option<(Arc<FileLayout>, Inode)>> {
    let found = doubtful_inode(view, id, proof)?;
    let pending = view.get(crate::database::Table::Intents, &id_key(id))?.is_some();
    Ok(found.filter(|_| !pending))
}
