//! The handling of each request to an I/O server.

use super::datafile::Datafile;
use super::follower::{Follower, seen};
use super::memory::Pool;
use super::options::IoServerOptions;
use super::scrub;
use super::settler::Settler;
use super::sums::BlockSums;
use super::target::Target;
use std::collections::{BTreeMap, HashMap};
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use thalweg_base::machine::device_of;
use thalweg_bulk::resize;
use thalweg_trace::{ObjectId, ObjectKind, SpanFields, SpanKind, Time};
use thalweg_wire::emulate::DiskRequest;
use thalweg_wire::limits;
use thalweg_wire::protocol::common::{BootVerifier, Hello, HelloReply, ServiceKind};
use thalweg_wire::protocol::io::{DatafileId, Durability, IoReply, IoRequest, TargetId};
use thalweg_wire::protocol::lots::ShareRequest;
use thalweg_wire::trust::{Identity, Rights};
use thalweg_wire::{Error, ErrorKind, Result};
use thalweg_wire::{Exchange, Kind, Running, Service, Session, serve};

/// Serves the datafiles of one or more targets.
pub struct IoServer {
    options: IoServerOptions,
    boot_id: String,
    pub(super) verifier: BootVerifier,
    targets: Arc<BTreeMap<TargetId, Target>>,
    follower: Arc<Follower>,
    settler: Settler,
    memory: Pool,
}

impl IoServer {
    /// Serves these targets on `listener` until the returned handle is dropped.
    ///
    /// # Errors
    /// When there are no targets, two with one number, or the listener cannot be used.
    pub fn start(listener: TcpListener, targets: Vec<Target>, options: IoServerOptions) -> Result<Running> {
        let name = options.name.clone();
        if targets.is_empty() || targets.len() > limits::TARGETS {
            let problem = format!("an I/O server has 1 to {} targets, not {}", limits::TARGETS, targets.len());
            return Err(Error::new(ErrorKind::Invalid, problem).at_server(name));
        }
        let follower = Follower::new(&options);
        let mut by_number = BTreeMap::new();
        for target in targets {
            let number = target.number();
            target.ask(Arc::clone(&follower) as _);
            target.ask_for_more(Arc::clone(&follower) as _);
            if by_number.insert(number, target).is_some() {
                return Err(Error::new(ErrorKind::Invalid, format!("two targets with number {number}")).at_server(name));
            }
        }
        let serve_options = options.serve.clone();
        let server = IoServer {
            options,
            boot_id: thalweg_base::machine::boot_id(),
            verifier: BootVerifier::random(),
            targets: Arc::new(by_number),
            follower,
            settler: Settler::default(),
            memory: Pool::new(limits::SERVER_MEMORY_BYTES),
        };
        server.settler.start(&server.options.name, &server.targets).map_err(|e| e.at_server(&name))?;
        server.follower.start(&server.targets).map_err(|e| e.at_server(&name))?;
        serve(listener, Arc::new(server), serve_options).map_err(|e| e.at_server(name))
    }

    pub(super) fn target(&self, datafile: DatafileId) -> Result<&Target> {
        self.target_of(datafile.target)
    }

    fn target_of(&self, target: TargetId) -> Result<&Target> {
        self.targets.get(&target).ok_or_else(|| {
            let here: Vec<_> = self.targets.keys().map(|t| t.0).collect();
            Error::new(ErrorKind::Absent, format!("this server has no target {target}, only targets {here:?}"))
        })
    }

    /// Returns a datafile's target, if `who` may read its bytes.
    pub(super) fn readable(&self, datafile: DatafileId, who: &Identity) -> Result<&Target> {
        let target = self.target(datafile)?;
        target.lots().access(datafile.lot, who, false).map_err(|e| at_target(e, target))?;
        Ok(target)
    }

    /// Returns a datafile's target, if `who` may change it.
    pub(super) fn changeable(&self, datafile: DatafileId, who: &Identity) -> Result<&Target> {
        let target = self.target(datafile)?;
        who.may_write()?;
        target.lots().access(datafile.lot, who, true).map_err(|e| at_target(e, target))?;
        Ok(target)
    }

    /// Handles requests about shares from the store's servers.
    fn share(&self, request: &ShareRequest, who: &Identity) -> Result<IoReply> {
        if who.rights != Rights::Store {
            let problem = format!("shares of lots require the store's own credential; this one is `{}`'s", who.owner);
            return Err(Error::new(ErrorKind::Access, problem));
        }
        match request {
            ShareRequest::Keep { target, share, least, now_ns } => {
                let target = self.target_of(*target)?;
                let kept = target.lots().keep_as_of(share, *least, *now_ns).map_err(|e| at_target(e, target))?;
                Ok(IoReply::Lots(vec![kept]))
            }
            ShareRequest::Release { target, lot } => {
                let target = self.target_of(*target)?;
                target.lots().release(*lot).map_err(|e| at_target(e, target))?;
                Ok(IoReply::Done)
            }
            ShareRequest::List => Ok(IoReply::Lots(self.targets.values().flat_map(|target| target.lots().list()).collect())),
        }
    }
}

impl Drop for IoServer {
    fn drop(&mut self) {
        self.follower.stop();
        self.settler.stop();
    }
}

impl Service for IoServer {
    fn hello(&self, hello: &Hello, _who: &Arc<Identity>) -> Result<HelloReply> {
        if let Some(store) = hello.store
            && store != self.options.store
        {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("this server belongs to store {:016x}, not to store {store:016x}", self.options.store),
            ));
        }
        let seen = seen(&self.targets);
        if let Some(service) = hello.service_start {
            // A service behind by epoch may be another start of the same metadata: the client checks that itself.
            if service.epoch == seen.start.epoch && service.is_behind(seen.start) {
                let problem = format!(
                    "has files of start {} of the metadata service, but not of this one: an older copy of its directory was restored. Stop \
                     it and restore the newest one, or start it with --accept-older-metadata",
                    seen.start.epoch
                );
                return Err(Error::new(ErrorKind::Absent, problem));
            }
            self.follower.check(service)?;
        }
        Ok(HelloReply {
            version: 0,
            server: self.options.name.clone(),
            service: ServiceKind::Io,
            node: self.options.node.clone(),
            boot_id: self.boot_id.clone(),
            verifier: self.verifier,
            store: self.options.store,
            service_start: seen.start,
            change: seen.change,
            emulated: None,
        })
    }

    fn kind(&self) -> Kind {
        Kind::Io
    }

    fn stopping(&self) {
        self.follower.stop();
        self.settler.stop();
    }

    /// False: the files are in a state that any failed request may leave, and the tables here change in whole steps.
    fn stops_after_a_panic(&self) -> bool {
        false
    }

    fn session(self: Arc<Self>, _hello: &Hello, who: &Arc<Identity>) -> Box<dyn Session> {
        Box::new(IoSession { server: self, who: Arc::clone(who), buffer: Vec::new(), sums: BlockSums::default(), objects: HashMap::new() })
    }
}

/// State of one connection.
pub(super) struct IoSession {
    pub(super) server: Arc<IoServer>,
    /// The client's identity.
    pub(super) who: Arc<Identity>,
    /// The payload being processed.
    pub(super) buffer: Vec<u8>,
    /// Its checksums.
    sums: BlockSums,
    /// Objects of datafiles, each with the number of its recording session.
    objects: HashMap<DatafileId, (u32, ObjectId)>,
}

/// Writes bytes to a datafile at an offset; `false`: refused because the datafile extends further.
type Put = fn(&Datafile, &[u8], u64, &BlockSums) -> Result<bool>;

/// Maximum datafiles a connection names in a recording before it starts over.
const NAMED: usize = 1024;

impl Session for IoSession {
    fn rest(&mut self) {
        self.buffer = Vec::new();
    }

    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        let request: IoRequest = exchange.body()?;
        // Before memory is taken or anything is waited for.
        request.effect().allow(&self.who)?;
        match request {
            IoRequest::Write { datafile, offset, durability } => self.write(exchange, (datafile, offset), durability, Datafile::overwrite),
            IoRequest::Append { datafile, offset, durability } => self.write(exchange, (datafile, offset), durability, Datafile::append),
            IoRequest::Read { datafile, offset, length } => {
                self.with_memory(length, |session| session.read(exchange, datafile, offset, length))
            }
            IoRequest::Sync { datafiles } => self.sync(exchange, &datafiles),
            IoRequest::Targets => {
                let here = self.server.targets.keys().copied().collect();
                exchange.reply(&IoReply::Targets(here))
            }
            IoRequest::Glimpse { datafiles } => {
                bounded(datafiles.len())?;
                let sizes = datafiles.iter().map(|id| self.server.target(*id)?.glimpse(*id)).collect::<Result<_>>()?;
                exchange.reply(&IoReply::Sizes(sizes))
            }
            IoRequest::Truncate { datafiles } => {
                bounded(datafiles.len())?;
                for (id, size_bytes) in datafiles {
                    within_a_file(size_bytes, 0)?;
                    self.server.changeable(id, &self.who)?.truncate(id, size_bytes)?;
                }
                exchange.reply(&IoReply::Done)
            }
            IoRequest::Remove { datafiles } => {
                bounded(datafiles.len())?;
                for id in datafiles {
                    self.server.changeable(id, &self.who)?.remove(id)?;
                }
                exchange.reply(&IoReply::Done)
            }
            IoRequest::Statfs => {
                let mut space = self.server.targets.values().map(Target::space).collect::<Result<Vec<_>>>()?;
                space.sort_by_key(|s| s.target);
                exchange.reply(&IoReply::Space(space))
            }
            IoRequest::Allocate { datafiles, how } => {
                bounded(datafiles.len())?;
                for (id, offset, length) in datafiles {
                    within_a_file(offset, length)?;
                    let target = self.server.changeable(id, &self.who)?;
                    let allocating = exchange.tracer.begin();
                    target.allocate(id, offset, length, how).map_err(|e| at_target(e, target))?;
                    let about = SpanFields { offset_bytes: Some(offset), size_bytes: Some(length), ..exchange.about() };
                    exchange.tracer.end(allocating, SpanKind::FileOther, about);
                }
                exchange.reply(&IoReply::Written { verifier: self.server.verifier })
            }
            IoRequest::Seek { datafiles, what } => {
                bounded(datafiles.len())?;
                let seek = |(id, offset): &(DatafileId, u64)| {
                    within_a_file(*offset, 0)?;
                    let target = self.server.readable(*id, &self.who)?;
                    target.seek(*id, *offset, what).map_err(|e| at_target(e, target))
                };
                exchange.reply(&IoReply::Found(datafiles.iter().map(seek).collect::<Result<_>>()?))
            }
            IoRequest::DataMap { datafiles } => self.data_maps(exchange, &datafiles),
            IoRequest::SyncAll => self.sync_all(exchange),
            IoRequest::WriteMany { writes, durability } => self.write_many(exchange, &writes, durability),
            IoRequest::Share(request) => {
                let reply = self.server.share(&request, &self.who)?;
                exchange.reply(&reply)
            }
            IoRequest::ReadMany { reads } => self.read_many(exchange, &reads),
            IoRequest::Scrub(request) => exchange.reply(&scrub::serve(&self.server.targets, request)?),
        }
    }
}

impl IoSession {
    fn data_maps(&self, exchange: &mut Exchange<'_>, datafiles: &[(DatafileId, u64, u64)]) -> Result<()> {
        bounded(datafiles.len())?;
        let most = (limits::MAP_RANGES / datafiles.len().max(1)).max(1);
        let map = |(id, from, to): &(DatafileId, u64, u64)| {
            within_a_file(*from, 0)?;
            within_a_file(*to, 0)?;
            let target = self.server.readable(*id, &self.who)?;
            target.data_map(*id, *from..*to, most).map_err(|e| at_target(e, target))
        };
        exchange.reply(&IoReply::DataMaps(datafiles.iter().map(map).collect::<Result<_>>()?))
    }

    fn sync_all(&self, exchange: &mut Exchange<'_>) -> Result<()> {
        let syncing = exchange.tracer.begin();
        for target in self.server.targets.values() {
            target.sync_all().map_err(|e| at_target(e, target))?;
        }
        exchange.tracer.end(syncing, SpanKind::FileSync, exchange.about());
        exchange.reply(&IoReply::Synced { verifier: self.server.verifier })
    }

    /// Runs `work` with `length` bytes of memory: the connection's own, or for large payloads the server's pool, to which they
    /// are returned.
    pub(super) fn with_memory<T>(&mut self, length: u64, work: impl FnOnce(&mut IoSession) -> T) -> T {
        if length <= limits::CONNECTION_MEMORY_BYTES {
            return work(self);
        }
        let server = Arc::clone(&self.server);
        let own = std::mem::replace(&mut self.buffer, server.memory.take(length.min(limits::PAYLOAD_BYTES), &self.who));
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        server.memory.give(std::mem::replace(&mut self.buffer, own), &self.who);
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Receives the payload and stores it with `put`.
    fn write(&mut self, exchange: &mut Exchange<'_>, to: (DatafileId, u64), durability: Durability, put: Put) -> Result<()> {
        self.with_memory(exchange.payload_left(), |session| session.put(exchange, to, durability, put))
    }

    fn put(&mut self, exchange: &mut Exchange<'_>, (id, offset): (DatafileId, u64), durability: Durability, put: Put) -> Result<()> {
        let length = exchange.payload_left();
        within_a_file(offset, length)?;
        let server = Arc::clone(&self.server);
        let target = server.changeable(id, &self.who)?;

        self.receive(exchange, (offset, length), || format!("{length} bytes for target {} at {offset}", id.target))?;
        if length > 0 {
            let (writing, asked) = (exchange.tracer.begin(), self.asked());
            let datafile = target.created(id).map_err(|e| at_target(e, target))?;
            let object = self.name(exchange, id, &datafile);
            if !put(&datafile, &self.buffer, offset, &self.sums).map_err(|e| at_target(e, target))? {
                return exchange.reply(&IoReply::GoesOn);
            }
            emulated(target, exchange, (SpanKind::DiskWrite, id, offset, length), asked);
            let about = SpanFields { object, offset_bytes: Some(offset), size_bytes: Some(length), ..exchange.about() };
            exchange.tracer.end(writing, SpanKind::FileWrite, about);
            if durability == Durability::Underway {
                datafile.start_writeback(offset, length);
            }
        }
        if durability == Durability::Synced {
            self.sync_one(exchange, id)?;
        }
        exchange.reply(&IoReply::Written { verifier: self.server.verifier })
    }

    /// Receives a payload of `length` bytes for an offset of a datafile into the connection's memory, and verifies it. `what`:
    /// describes it in an error.
    pub(super) fn receive(
        &mut self,
        exchange: &mut Exchange<'_>,
        (offset, length): (u64, u64),
        what: impl FnOnce() -> String,
    ) -> Result<()> {
        let receiving = exchange.tracer.begin();
        resize(&mut self.buffer, length as usize);
        exchange.receive(&mut self.buffer)?;
        let about = SpanFields { object: exchange.object, size_bytes: Some(length), ..exchange.about() };
        exchange.tracer.end(receiving, SpanKind::NetReceive, about);

        let checking = exchange.tracer.begin();
        self.sums.compute(&self.buffer, offset);
        let found = self.sums.whole;
        let about = SpanFields { size_bytes: Some(length), ..exchange.about() };
        exchange.tracer.end(checking, SpanKind::AppChecksum, about);
        let expected = exchange.header().payload_crc;
        if length == 0 || expected == found {
            return Ok(());
        }
        let problem = format!("{} have checksum {found:08x}, expected {expected:08x}", what());
        Err(Error::new(ErrorKind::Corrupt, format!("{problem}: damaged in transit, not stored")))
    }

    fn read(&mut self, exchange: &mut Exchange<'_>, id: DatafileId, offset: u64, length: u64) -> Result<()> {
        within_a_file(offset, length)?;
        if length > limits::PAYLOAD_BYTES {
            return Err(Error::new(ErrorKind::Invalid, format!("a read of {length} bytes: the maximum is {}", limits::PAYLOAD_BYTES)));
        }
        let server = Arc::clone(&self.server);
        let target = server.readable(id, &self.who)?;
        let (reading, asked) = (exchange.tracer.begin(), self.asked());
        let mut found = None;
        if let Some(datafile) = target.existing(id).map_err(|e| at_target(e, target))? {
            resize(&mut self.buffer, length as usize);
            let fetched = datafile.fetch(&mut self.buffer, offset).map_err(|e| at_target(e, target))?;
            found = Some((datafile, fetched));
        }
        let have = found.as_ref().map_or(0, |(_, fetched)| fetched.have);
        let object = found.as_ref().and_then(|(datafile, _)| self.name(exchange, id, datafile));
        emulated(target, exchange, (SpanKind::DiskRead, id, offset, have as u64), asked);
        let size_bytes = Some(have as u64);
        let about = SpanFields { object, offset_bytes: Some(offset), size_bytes, ..exchange.about() };
        exchange.tracer.end(reading, SpanKind::FileRead, about);
        let checking = exchange.tracer.begin();
        let (have, crc) = match &found {
            Some((datafile, fetched)) => datafile.verify(fetched, &mut self.buffer).map_err(|e| at_target(e, target))?,
            None => (0, 0),
        };
        let about = SpanFields { size_bytes, ..exchange.about() };
        exchange.tracer.end(checking, SpanKind::AppChecksum, about);
        exchange.reply_checked(&IoReply::Read, &self.buffer[..have], crc)
    }

    fn sync(&mut self, exchange: &mut Exchange<'_>, datafiles: &[DatafileId]) -> Result<()> {
        bounded(datafiles.len())?;
        for id in datafiles {
            self.sync_one(exchange, *id)?;
        }
        exchange.reply(&IoReply::Synced { verifier: self.server.verifier })
    }

    fn sync_one(&mut self, exchange: &mut Exchange<'_>, id: DatafileId) -> Result<()> {
        let server = Arc::clone(&self.server);
        let target = server.target(id)?;
        let syncing = exchange.tracer.begin();
        target.sync(id).map_err(|e| at_target(e, target))?;
        let object = match exchange.tracer.is_on() {
            true => target.existing(id)?.and_then(|datafile| self.name(exchange, id, &datafile)),
            false => None,
        };
        let about = SpanFields { object, ..exchange.about() };
        exchange.tracer.end(syncing, SpanKind::FileSync, about);
        Ok(())
    }

    /// Returns the datafile's object in the recording, if the request is recorded.
    fn name(&mut self, exchange: &Exchange<'_>, id: DatafileId, datafile: &Datafile) -> Option<ObjectId> {
        let trace = exchange.recording()?;
        let session = exchange.header().session;
        if let Some((named_in, object)) = self.objects.get(&id)
            && *named_in == session
        {
            return Some(*object);
        }
        if self.objects.len() >= NAMED {
            self.objects.clear();
        }
        let mut attributes = vec![
            ("server", self.server.options.name.clone()),
            ("target", id.target.to_string()),
            ("file", id.file.to_string()),
            ("datafile", id.index.to_string()),
        ];
        let emulated = self.server.target(id).ok().and_then(Target::disk).map(|disk| disk.name().to_owned());
        attributes.extend(emulated.or_else(|| device_of(&datafile.path())).map(|device| ("device", device)));
        let object = trace.object(ObjectKind::File, &datafile.path().display().to_string(), &attributes)?;
        self.objects.insert(id, (session, object));
        Some(object)
    }

    /// Returns the time of the request if devices are emulated; otherwise reads no clock.
    pub(super) fn asked(&self) -> Option<Time> {
        self.server.options.serve.emulated.map(|_| Time::now())
    }
}

/// Performs a request's work (kind, datafile, offset, bytes) on a target's emulated disk. Real time since the request counts
/// towards the emulated time.
pub(super) fn emulated(
    target: &Target,
    exchange: &Exchange<'_>,
    (kind, id, offset, bytes): (SpanKind, DatafileId, u64, u64),
    asked: Option<Time>,
) {
    let Some((disk, asked)) = target.disk().zip(asked) else { return };
    let recorded = exchange.recording().map(|trace| (trace, exchange.header().session, exchange.tracer.track()));
    let file = id.file.0.rotate_left(16) ^ u64::from(id.index);
    disk.work(&DiskRequest { kind, file, offset, bytes, asked }, recorded);
}

pub(super) fn at_target(error: Error, target: &Target) -> Error {
    Error::new(error.kind(), format!("target {}: {}", target.number(), error.message()))
}

pub(super) fn bounded(many: usize) -> Result<()> {
    if many <= limits::BATCH {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Invalid, format!("{many} datafiles in one request: the maximum is {}", limits::BATCH)))
}

pub(super) fn within_a_file(offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= limits::FILE_BYTES => Ok(()),
        _ => Err(Error::new(ErrorKind::TooLarge, format!("{length} bytes at {offset} end past the largest file (2^63 - 1 bytes)"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::trust::{Credential, Gate};

    /// A session of a server without targets whose pool holds one large payload.
    fn session() -> IoSession {
        let credential = Credential::new_store(7);
        let gate = Arc::new(Gate::new(&credential).unwrap());
        let options = IoServerOptions::new("io0", "here", &credential, &gate);
        let server = Arc::new(IoServer {
            follower: Follower::new(&options),
            options,
            boot_id: String::new(),
            verifier: BootVerifier::random(),
            targets: Arc::default(),
            settler: Settler::default(),
            memory: Pool::new(limits::PAYLOAD_BYTES),
        });
        IoSession { server, who: Arc::new(Identity::store()), buffer: vec![1; 3], sums: BlockSums::default(), objects: HashMap::new() }
    }

    #[test]
    fn a_connection_that_rests_keeps_no_memory_for_payloads() {
        let mut session = session();
        session.rest();
        assert_eq!(session.buffer.capacity(), 0);
    }

    #[test]
    fn a_request_that_panics_gives_the_memory_for_its_payload_back() {
        let mut session = session();
        for _ in 0..3 {
            // There is room for one: a second would wait forever.
            let work = AssertUnwindSafe(|| session.with_memory(limits::PAYLOAD_BYTES, |_| -> () { panic!("as a bug does") }));
            catch_unwind(work).unwrap_err();
            assert_eq!(session.buffer, [1; 3], "the connection has its own again");
        }
        drop(session.server.memory.take(limits::PAYLOAD_BYTES, &session.who));
    }
}
