//! Asks the I/O servers for sizes of files that nobody writes, so that the next who asks here gets an answer: files that were truncated
//! while they were written, that an I/O server's restart has put in doubt, or that an earlier release left.
//!
//! Nobody waits for it. What it is asked for and cannot do, because the queue is full or a server is away, is asked for again by the next
//! list.

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

/// Files that wait to be asked for at most.
const QUEUE: usize = 1 << 16;
/// Datafiles asked for at a time; a file has at most as many.
const DATAFILES: usize = thalweg_wire::limits::BATCH;
/// Datafiles of one file with holes whose lengths are kept.
const LENGTHS_KEPT: usize = 256;
/// Files asked for at a time.
const FILES: usize = 1024;

/// See the module.
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
    /// Begins with nothing to do.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(namespace: Arc<Namespace>, servers: Arc<dyn IoServers>) -> Result<Settler> {
        let shared = Arc::new(Shared { namespace, servers, orders: Mutex::default(), ordered: Condvar::new() });
        let theirs = Arc::clone(&shared);
        let worker = std::thread::Builder::new()
            .name("metadata sizes".into())
            .spawn(move || theirs.run())
            .map_err(|e| Error::system("starting a thread", e))?;
        Ok(Settler { shared, worker: Mutex::new(Some(worker)) })
    }

    /// Nobody writes these, and their sizes are not settled.
    pub(crate) fn look_at(&self, files: impl IntoIterator<Item = FileId>) {
        let mut files = files.into_iter().peekable();
        if files.peek().is_none() {
            // (Each close comes here, and hardly any has something to settle: nobody is woken for it.)
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
    /// Returns when everything that was ordered before has been tried.
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
            // What fails now is asked for again by the next that lists it.
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
            // The same machine start before and after: these are its sizes.
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
                                // Where bytes were lost, or may have been, what there is now does not take the place of what there was.
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

    /// The sizes of these files, from the sizes of their datafiles, and those; `None` where a server did not say.
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

/// What there is of a file at the I/O servers.
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

    /// What is kept of the datafiles' lengths.
    fn lengths(&self) -> Lengths {
        match self.is_whole() {
            true => Lengths::Whole,
            false if self.datafiles.len() <= LENGTHS_KEPT => Lengths::AtLeast(self.datafiles.clone()),
            false => Lengths::Unknown,
        }
    }

    /// Whether it is what was known before, and nothing of that is missing.
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

/// The servers with parts of these files, by place in the map.
pub(crate) fn servers_of<'a>(map: &StoreMap, layouts: impl Iterator<Item = &'a FileLayout>) -> BTreeSet<usize> {
    let targets = layouts.flat_map(|layout| &layout.targets);
    targets.filter_map(|target| map.target(*target).map(|(entry, _)| entry.server as usize)).collect()
}

/// A file whose size is worth asking for: nobody writes it, and it is not settled, or is in doubt.
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

/// The same, unless a truncation of it is not done yet.
fn doubtful<V: View + ?Sized>(view: &V, id: FileId, proof: &Proof) -> Result<Option<(Arc<FileLayout>, Inode)>> {
    let found = doubtful_inode(view, id, proof)?;
    let pending = view.get(crate::database::Table::Intents, &id_key(id))?.is_some();
    Ok(found.filter(|_| !pending))
}
