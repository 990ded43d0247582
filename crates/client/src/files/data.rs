//! The I/O servers of a store.

use super::budget::Budget;
use super::engine::{Engine, EngineOptions};
use super::handle::FileHandle;
use super::link::{Lent, Link, connected};
use super::live::{Live, is_near};
use super::names::Names;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Arc, OnceLock};
use thalweg_bulk::{Crc32c, crc32c};
use thalweg_layout::Distribution;
use thalweg_trace::{SpanFields, SpanId, SpanKind, Tracer};
use thalweg_wire::limits;
use thalweg_wire::protocol::common::BootVerifier;
use thalweg_wire::protocol::io::{DatafileId, DatafileSize, IoReply, IoRequest, TargetId, TargetSpace};
use thalweg_wire::protocol::metadata::StoreMap;
use thalweg_wire::{Connect, Connection, Kind, patience, unexpected};
use thalweg_wire::{Error, ErrorKind, Result};

/// Connections to all I/O servers of a store, made on demand.
pub struct DataClient {
    map: StoreMap,
    links: Vec<Arc<Link>>,
    budget: Arc<Budget>,
    reading: OnceLock<Engine>,
    writing: OnceLock<Engine>,
    live: Live,
    names: Option<Arc<dyn Names>>,
}

impl DataClient {
    /// Creates a client for the servers of this map.
    pub fn new(map: StoreMap, options: &Connect) -> DataClient {
        let options = Connect { store: Some(map.store), ..options.clone() };
        let links = map.servers.iter().map(|entry| Arc::new(Link::new(entry.clone(), options.clone()))).collect();
        let live = Live::new(&map);
        DataClient { map, links, budget: Arc::default(), reading: OnceLock::new(), writing: OnceLock::new(), live, names: None }
    }

    /// Creates a client that also knows the store's names: servers' answers are checked against the metadata service.
    pub fn of_store(map: StoreMap, options: &Connect, names: Arc<dyn Names>) -> DataClient {
        let mut client = DataClient::new(map, options);
        client.names = Some(Arc::clone(&names));
        let watched = |link: &Arc<Link>| Arc::new(Link::new(link.entry().clone(), link.connect_options().0).watched_by(Arc::clone(&names)));
        client.links = client.links.iter().map(watched).collect();
        client
    }

    /// Returns the store's names, if known.
    pub(super) fn names(&self) -> Option<&dyn Names> {
        self.names.as_deref()
    }

    /// Returns the memory budget of all windows of this client.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Whether all servers are on this machine.
    pub(crate) fn is_near(&self) -> bool {
        is_near(&self.map)
    }

    /// Returns the live parameters of read-ahead and write-behind.
    pub(super) fn live(&self) -> &Live {
        &self.live
    }

    /// Returns the engine shared by all read-ahead.
    pub(crate) fn reading(&self) -> &Engine {
        self.reading.get_or_init(|| self.shared_engine("ahead"))
    }

    /// Returns the engine shared by all write-behind.
    pub(crate) fn writing(&self) -> &Engine {
        self.writing.get_or_init(|| self.shared_engine("behind"))
    }

    /// Iterates over those of the two that were started.
    pub(super) fn engines(&self) -> impl Iterator<Item = &Engine> {
        [self.reading.get(), self.writing.get()].into_iter().flatten()
    }

    fn shared_engine(&self, name: &'static str) -> Engine {
        let options = EngineOptions {
            name,
            depth: Arc::clone(&self.live.depth),
            streams: Arc::clone(&self.live.streams),
            socket_buffer_bytes: None,
            trace: None,
            is_shared: true,
            stages: Arc::clone(&self.live.stages),
        };
        Engine::start(&self.links, 0..self.links.len(), options).expect("no thread is started yet")
    }

    /// Returns the store's map of servers and targets.
    pub fn map(&self) -> &StoreMap {
        &self.map
    }

    /// Returns the servers, in the map's order.
    pub fn links(&self) -> &[Arc<Link>] {
        &self.links
    }

    /// Returns the server of a target, as an index into [`DataClient::links`].
    ///
    /// # Errors
    /// When the target is not in the map.
    pub fn server_of(&self, target: TargetId) -> Result<usize> {
        let entry = self.map.target(target).map(|(entry, _)| entry.server as usize);
        entry.ok_or_else(|| Error::new(ErrorKind::Absent, format!("target {target} is not in the store's map")))
    }

    /// Groups a file's datafiles by server.
    fn by_server(&self, file: &FileHandle) -> Result<BTreeMap<usize, Vec<DatafileId>>> {
        let mut by_server: BTreeMap<usize, Vec<DatafileId>> = BTreeMap::new();
        for id in file.datafiles() {
            by_server.entry(self.server_of(id.target).map_err(|e| e.on_file(file.path()))?).or_default().push(id);
        }
        Ok(by_server)
    }

    /// Builds requests for a file's datafiles, at most [`limits::BATCH`] in each; `request` returns `None` if a server need not be asked.
    pub(crate) fn requests(
        &self,
        file: &FileHandle,
        request: impl Fn(&[DatafileId]) -> Option<IoRequest>,
    ) -> Result<Vec<(usize, IoRequest)>> {
        let by_server = self.by_server(file)?;
        let batches = by_server.iter().flat_map(|(server, ids)| ids.chunks(limits::BATCH).map(|ids| (*server, ids)));
        Ok(batches.filter_map(|(server, ids)| Some((server, request(ids)?))).collect())
    }

    /// Lends a connection to each of these servers. New ones are made in parallel, so that several silent servers cost one timeout.
    pub(super) fn lend_each(&self, tracer: &mut Tracer, servers: impl Iterator<Item = usize>) -> Vec<Result<Lent<'_>>> {
        let look = |server: usize| {
            let link = &self.links[server];
            (link, link.silence().check().map(|()| link.idle()))
        };
        let found: Vec<_> = servers.map(look).collect();
        if found.iter().filter(|(_, idle)| matches!(idle, Ok(None))).count() <= 1 {
            return found.into_iter().map(|(link, idle)| idle?.map_or_else(|| link.lend(tracer), Ok)).collect();
        }
        std::thread::scope(|scope| {
            let each: Vec<_> = found
                .into_iter()
                .map(|(link, idle)| match idle {
                    Ok(None) => match std::thread::Builder::new().spawn_scoped(scope, || link.lend(&mut Tracer::off())) {
                        Ok(connecting) => Lending::By(connecting),
                        Err(_) => Lending::Done(link.lend(tracer)),
                    },
                    Ok(Some(lent)) => Lending::Done(Ok(lent)),
                    Err(error) => Lending::Done(Err(error)),
                })
                .collect();
            each.into_iter().map(|lending| lending.end(tracer)).collect()
        })
    }

    /// Sends one request to each of several servers in parallel; returns the replies in the same order.
    ///
    /// # Errors
    /// The first error, naming its server.
    pub fn call_each(&self, tracer: &mut Tracer, requests: &[(usize, IoRequest)]) -> Result<Vec<IoReply>> {
        let mut lent = Vec::with_capacity(requests.len());
        let connections = self.lend_each(tracer, requests.iter().map(|(server, _)| *server));
        for ((_, request), connection) in requests.iter().zip(connections) {
            let mut connection = connection?;
            let posted = connection.post(tracer, None, Kind::Io, request, &[], 0);
            lent.push((connection, posted));
        }
        let mut replies = Vec::with_capacity(requests.len());
        for ((mut connection, posted), (server, request)) in lent.into_iter().zip(requests) {
            let reply = posted.and_then(|_| connection.complete::<IoReply>(tracer));
            let again = matches!(&reply, Err(e) if connection.was_idle && e.kind() == ErrorKind::Reset);
            replies.push(match reply {
                Ok(reply) => connection.completed(tracer, reply, None),
                Err(_) if again => {
                    drop(connection);
                    self.links[*server].call(tracer, request, &[])?.0
                }
                Err(error) => return Err(error),
            });
        }
        Ok(replies)
    }

    /// Sends requests with payloads to several servers in parallel; returns each one's result: the reply with its verified payload. A
    /// request whose connection was closed, or whose payload was damaged in transit, is retried once.
    pub fn exchange(&self, tracer: &mut Tracer, parent: Option<SpanId>, requests: &[Outgoing<'_>]) -> Vec<Result<(IoReply, Vec<u8>)>> {
        fn post<'a>(tracer: &mut Tracer, parent: Option<SpanId>, to: Result<Lent<'a>>, outgoing: &Outgoing<'_>) -> Result<Lent<'a>> {
            let mut connection = to?;
            outgoing.post(tracer, parent, &mut connection).map(|()| connection)
        }
        let connections = self.lend_each(tracer, requests.iter().map(|outgoing| outgoing.server));
        let to_each = requests.iter().zip(connections);
        let posted: Vec<Result<Lent<'_>>> = to_each.map(|(outgoing, to)| post(tracer, parent, to, outgoing)).collect();
        let mut done = Vec::with_capacity(requests.len());
        for (outgoing, posted) in requests.iter().zip(posted) {
            let reply = posted.and_then(|mut connection| received(tracer, &mut connection));
            done.push(match reply {
                Err(error) if matches!(error.kind(), ErrorKind::Reset | ErrorKind::Corrupt) => {
                    self.links[outgoing.server].forget_idle();
                    let to = self.links[outgoing.server].lend(tracer);
                    post(tracer, parent, to, outgoing).and_then(|mut connection| received(tracer, &mut connection))
                }
                reply => reply,
            });
        }
        done
    }

    /// Returns the sizes of a file's datafiles, in order.
    ///
    /// # Errors
    /// A server's or a connection's, naming server and file.
    pub fn glimpse(&self, tracer: &mut Tracer, file: &FileHandle) -> Result<Vec<DatafileSize>> {
        let by_server: Vec<_> = self.by_server(file)?.into_iter().collect();
        let requests = in_batches(&by_server, |datafiles| IoRequest::Glimpse { datafiles });
        let replies = self.call_each(tracer, &requests).map_err(|e| e.on_file(file.path()))?;
        let mut sizes = vec![DatafileSize::default(); file.targets().len()];
        for ((_, request), reply) in requests.iter().zip(replies) {
            let (IoRequest::Glimpse { datafiles }, IoReply::Sizes(found)) = (request, &reply) else { return Err(unexpected(&reply)) };
            if datafiles.len() != found.len() {
                return Err(unexpected(&reply));
            }
            for (id, size) in datafiles.iter().zip(found) {
                sizes[id.index as usize] = *size;
            }
        }
        Ok(sizes)
    }

    /// Returns a file's size: the largest logical end of its datafiles and of its lost bytes.
    ///
    /// # Errors
    /// As [`DataClient::sizes`].
    pub fn size(&self, tracer: &mut Tracer, file: &FileHandle) -> Result<u64> {
        let sizes: Vec<u64> = self.sizes(tracer, file)?.iter().map(|s| s.size_bytes).collect();
        let size = file.layout().logical_file_size(&sizes).map_err(|e| Error::new(ErrorKind::Io, e.to_string()).on_file(file.path()))?;
        Ok(size.max(file.lost_end()))
    }

    /// Makes a file's datafiles durable on all servers in parallel; returns each server's boot verifier.
    ///
    /// # Errors
    /// A server's or a connection's, naming server and file.
    pub fn sync(&self, tracer: &mut Tracer, file: &FileHandle) -> Result<Vec<(usize, BootVerifier)>> {
        let by_server: Vec<_> = self.by_server(file)?.into_iter().collect();
        let requests = in_batches(&by_server, |datafiles| IoRequest::Sync { datafiles });
        let replies = self.call_each(tracer, &requests).map_err(|e| e.on_file(file.path()))?;
        let each = requests.iter().zip(replies).map(|((server, _), reply)| match reply {
            IoReply::Synced { verifier } => Ok((*server, verifier)),
            other => Err(unexpected(&other)),
        });
        each.collect()
    }

    /// Removes a file's datafiles. (The metadata service does this for files whose names were removed.)
    ///
    /// # Errors
    /// A server's or a connection's, naming server and file.
    pub fn remove(&self, tracer: &mut Tracer, file: &FileHandle) -> Result<()> {
        let by_server: Vec<_> = self.by_server(file)?.into_iter().collect();
        let requests = in_batches(&by_server, |datafiles| IoRequest::Remove { datafiles });
        self.call_each(tracer, &requests).map_err(|e| e.on_file(file.path()))?;
        Ok(())
    }

    /// Truncates a file's datafiles to match a file of `size_bytes`. (The metadata service does this, ordered with its other operations on
    /// the file.)
    ///
    /// # Errors
    /// A server's or a connection's, naming server and file.
    pub fn truncate(&self, tracer: &mut Tracer, file: &FileHandle, size_bytes: u64) -> Result<()> {
        let by_server: Vec<_> = self.by_server(file)?.into_iter().collect();
        let requests = in_batches(&by_server, |datafiles| IoRequest::Truncate {
            datafiles: datafiles.into_iter().map(|id| (id, file.layout().datafile_size(id.index, size_bytes))).collect(),
        });
        self.call_each(tracer, &requests).map_err(|e| e.on_file(file.path()))?;
        Ok(())
    }

    /// Returns the space on every target of every server that answers, and the errors of the others.
    pub fn space(&self, tracer: &mut Tracer) -> (Vec<TargetSpace>, Vec<Error>) {
        let (mut space, mut errors) = (Vec::new(), Vec::new());
        let ask = |server| Outgoing { server, request: IoRequest::Statfs, payload: Vec::new() };
        let requests: Vec<_> = (0..self.links.len()).map(ask).collect();
        for (link, reply) in self.links.iter().zip(self.exchange(tracer, None, &requests)) {
            match reply {
                Ok((IoReply::Space(found), _)) => space.extend(found),
                Ok((other, _)) => errors.push(unexpected(&other).at_server(link.name())),
                Err(error) => errors.push(error),
            }
        }
        space.sort_by_key(|s| s.target);
        (space, errors)
    }
}

/// A connection, or the thread that makes it.
#[allow(clippy::large_enum_variant, reason = "most are the large one, for a moment")]
enum Lending<'scope, 'a> {
    By(std::thread::ScopedJoinHandle<'scope, Result<Lent<'a>>>),
    Done(Result<Lent<'a>>),
}

impl<'a> Lending<'_, 'a> {
    fn end(self, tracer: &mut Tracer) -> Result<Lent<'a>> {
        let lent = match self {
            Lending::By(other) => {
                let connecting = tracer.begin();
                let lent = other.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "a panic while connecting: a bug")));
                tracer.end(connecting, SpanKind::NetConnect, connected(lent.as_deref()));
                lent
            }
            Lending::Done(lent) => lent,
        };
        // On this thread, for its operation.
        lent.inspect_err(patience::met)
    }
}

/// A request to one server, with its payload in pieces.
pub struct Outgoing<'a> {
    /// Index into [`DataClient::links`].
    pub server: usize,
    /// The request.
    pub request: IoRequest,
    /// Payload of the request.
    pub payload: Vec<IoSlice<'a>>,
}

impl Outgoing<'_> {
    fn post(&self, tracer: &mut Tracer, parent: Option<SpanId>, connection: &mut Connection) -> Result<()> {
        let checking = tracer.begin();
        let mut crc = Crc32c::default();
        self.payload.iter().for_each(|piece| crc.update(piece));
        let crc = if self.payload.is_empty() { 0 } else { crc.finish() };
        if !self.payload.is_empty() {
            tracer.end(checking, SpanKind::AppChecksum, SpanFields { parent, ..SpanFields::default() });
        }
        connection.post(tracer, parent, Kind::Io, &self.request, &self.payload, crc).map(drop)
    }
}

/// Receives the next reply on a connection, with its verified payload.
fn received(tracer: &mut Tracer, connection: &mut Connection) -> Result<(IoReply, Vec<u8>)> {
    let reply = connection.complete::<IoReply>(tracer)?;
    let mut payload = vec![0; reply.header.payload_bytes as usize];
    connection.receive_payload(&reply.header, &mut payload)?;
    let expected = reply.header.payload_crc;
    let body = connection.completed(tracer, reply, (!payload.is_empty()).then_some(payload.len() as u64));
    if !payload.is_empty() && crc32c(&payload) != expected {
        return Err(super::payload::damaged(payload.len()).at_server(&connection.hello().server));
    }
    Ok((body, payload))
}

fn in_batches(by_server: &[(usize, Vec<DatafileId>)], request: impl Fn(Vec<DatafileId>) -> IoRequest) -> Vec<(usize, IoRequest)> {
    let batches = by_server.iter().flat_map(|(server, ids)| ids.chunks(limits::BATCH).map(|ids| (*server, ids.to_vec())));
    batches.map(|(server, ids)| (server, request(ids))).collect()
}
