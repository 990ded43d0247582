//! The metadata service on the wire: one operation of the namespace for each request, in the order of the
//! connection; what its client has open is remembered as long as the connection lives.

use super::database::{Stage, Watch};
use super::intents::{Intents, IoServers};
use super::locks::keeper::{Life, Locks};
use super::locks::table::Outcome;
use super::namespace::Namespace;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::common::{BootVerifier, Hello, HelloReply, ServiceKind};
use crate::protocol::locks::{LockOperation, LockReply};
use crate::protocol::metadata::{Attributes, FileId, MetadataReply, MetadataRequest, Operation, Place, Refusal, Status};
use crate::wire::{Exchange, Kind, Service, Session, VERSION, boot_id};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_trace::{About, Begun, SpanKind, Tracer, TrackId};

/// Places in one request for attributes.
const STAT_PLACES: usize = 1024;
/// Bytes of attributes in one reply, well below a message's body.
const STAT_BYTES: usize = 512 << 10;
/// Files one connection may have open.
const OPEN_FILES: usize = 1 << 16;

/// How the service introduces itself, and where it lives.
#[derive(Clone, Debug)]
pub struct MetadataOptions {
    /// Its name, for messages: `metadata`.
    pub name: String,
    /// The label of the machine it is on.
    pub node: String,
    /// Where its database is.
    pub directory: PathBuf,
    /// How long clients of an earlier start have to say which files they have open.
    pub grace: Duration,
}

/// The metadata service of one store.
pub struct MetadataService {
    namespace: Arc<Namespace>,
    intents: Intents,
    locks: Arc<Locks>,
    verifier: BootVerifier,
    options: MetadataOptions,
}

impl MetadataService {
    /// A service over a namespace. `servers` is how it speaks to the I/O servers.
    ///
    /// # Errors
    /// When no thread can be started, and the database's.
    pub fn new(namespace: Arc<Namespace>, servers: Arc<dyn IoServers>, options: MetadataOptions) -> Result<MetadataService> {
        let intents = Intents::start(Arc::clone(&namespace), servers, options.grace)?;
        let locks = Locks::start(Arc::clone(namespace.database()), options.grace)?;
        Ok(MetadataService { namespace, intents, locks, verifier: BootVerifier::random(), options })
    }

    /// The namespace it serves.
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    fn status(&self) -> Result<Status> {
        let fs = rustix::fs::statvfs(&self.options.directory)
            .map_err(|e| Error::system(format!("space of {}", self.options.directory.display()), e))?;
        let mut pending_intents = 0;
        let mut after = None;
        // Bounded: whoever has more than this many has a server that is away.
        for _ in 0..64 {
            let page = self.namespace.intents(after, 1024)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            pending_intents += page.len() as u64;
        }
        let (locks, lock_waits) = self.locks.counts();
        Ok(Status {
            size_bytes: fs.f_blocks.saturating_mul(fs.f_frsize),
            free_bytes: fs.f_bavail.saturating_mul(fs.f_frsize),
            pending_intents,
            open_files: self.intents.open_files() as u64,
            locks: locks as u64,
            lock_waits: lock_waits as u64,
        })
    }
}

impl Service for MetadataService {
    fn hello(&self, hello: &Hello, _: SocketAddr) -> Result<HelloReply> {
        let store = self.namespace.map().store;
        if let Some(meant) = hello.store
            && meant != store
        {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("this is the store {store:016x}, not {meant:016x}: another store took over its address"),
            ));
        }
        Ok(HelloReply {
            version: VERSION,
            server: self.options.name.clone(),
            service: ServiceKind::Metadata,
            node: self.options.node.clone(),
            boot_id: boot_id(),
            verifier: self.verifier,
            store,
        })
    }

    fn kind(&self) -> Kind {
        Kind::Metadata
    }

    fn stopping(&self) {
        self.locks.stop();
    }

    fn session(self: Arc<Self>, _: &Hello, _: SocketAddr) -> Box<dyn Session> {
        Box::new(ClientSession { service: self, open: HashMap::new(), life: None })
    }
}

/// One client's connection.
struct ClientSession {
    service: Arc<MetadataService>,
    open: HashMap<FileId, u32>,
    /// The client's, if it locks.
    life: Option<Life>,
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        for (id, count) in &self.open {
            (0..*count).for_each(|_| self.service.intents.closed(*id));
        }
    }
}

impl Session for ClientSession {
    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        let request: MetadataRequest = exchange.body()?;
        if request.closed.len() > limits::CLOSED {
            return Err(Error::new(ErrorKind::Invalid, format!("{} files closed: at most {}", request.closed.len(), limits::CLOSED)));
        }
        for closed in request.closed {
            self.close(closed.file);
        }
        let about = exchange.about();
        let mut watch = Traced { about, begun: None, tracer: exchange.tracer };
        let reply = self.answer(request.operation, &mut watch)?;
        exchange.reply(&reply)
    }
}

impl ClientSession {
    /// Longer than a screen: one arm for each request, most of them a call of the namespace.
    fn answer(&mut self, operation: Operation, watch: &mut Traced<'_>) -> Result<MetadataReply> {
        let service = Arc::clone(&self.service);
        let namespace = &service.namespace;
        let intents = &service.intents;
        Ok(match operation {
            Operation::StoreMap => MetadataReply::Map((*namespace.map()).clone()),
            Operation::Stat { places, sizes: _ } => MetadataReply::Many(stat_many(namespace, &places)?),
            Operation::List { place, after, most, detail } => {
                let (entries, more) = namespace.list(&place, after.as_deref(), most, detail)?;
                MetadataReply::Page { entries, more }
            }
            Operation::MakeDirectory { place, owner, parents } => {
                MetadataReply::Attributes(namespace.make_directory(watch, &place, owner, parents)?)
            }
            Operation::Create { place, owner, existing, layout, node } => {
                self.room_to_open()?;
                let (made, removed) = namespace.create(watch, &place, owner, existing, &layout, &node)?;
                self.open(made.id);
                removed.0.iter().for_each(|_| intents.look());
                MetadataReply::Attributes(made)
            }
            Operation::MakeFile { place, owner, existing, layout, node } => {
                let (made, removed) = namespace.create(watch, &place, owner, existing, &layout, &node)?;
                removed.0.iter().for_each(|_| intents.look());
                MetadataReply::Attributes(made)
            }
            Operation::MakeNode { place, node, owner } => MetadataReply::Attributes(namespace.make_node(watch, &place, &node, owner)?),
            Operation::Link { file, to } => MetadataReply::Attributes(namespace.link(watch, &file, &to)?),
            Operation::Exchange { one, other } => {
                namespace.exchange(watch, &one, &other)?;
                MetadataReply::Done
            }
            Operation::ReadSymlink { place } => MetadataReply::Bytes(namespace.read_symlink(&place)?),
            Operation::GetExtended { place, name } => MetadataReply::Value(namespace.get_extended(&place, &name)?),
            Operation::ListExtended { place } => MetadataReply::ExtendedNames(namespace.list_extended(&place)?),
            Operation::SetExtended { place, name, value, how } => {
                namespace.set_extended(watch, &place, &name, &value, how)?;
                MetadataReply::Done
            }
            Operation::RemoveExtended { place, name } => {
                namespace.remove_extended(watch, &place, &name)?;
                MetadataReply::Done
            }
            Operation::Relayout { place, layout, node } => {
                let id = namespace.stat(&place)?.id;
                let changed = intents.relayout(id, &layout, &node, watch);
                MetadataReply::Attributes(changed.map_err(|e| e.on_file(super::tree::shown_place(&place)))?)
            }
            Operation::Written { file, size_bytes } => MetadataReply::Attributes(namespace.written(watch, file, size_bytes)?),
            Operation::Lock(operation) => MetadataReply::Lock(self.lock(operation, watch)?),
            Operation::Open { place, write: _ } => MetadataReply::Attributes(self.open_file(&place, watch)?),
            Operation::Reopen { files } => {
                let files: Vec<FileId> = files.iter().map(|(id, _)| *id).collect();
                let there = namespace.still_there(&files)?;
                let mut reopened = Vec::with_capacity(there.len());
                for (id, has_names) in there {
                    self.room_to_open()?;
                    if has_names {
                        self.open(id);
                    } else if intents.opened_orphan(id) {
                        *self.open.entry(id).or_insert(0) += 1;
                    } else {
                        continue;
                    }
                    reopened.push(id);
                }
                MetadataReply::Opened(reopened)
            }
            Operation::Rename { from, only, to, replace, set } => {
                let (moved, removed) = namespace.rename(watch, &from, only, &to, replace, &set)?;
                removed.0.iter().for_each(|_| intents.look());
                MetadataReply::Attributes(moved)
            }
            Operation::Unlink { place, only } => {
                namespace.unlink(watch, &place, only)?;
                intents.look();
                MetadataReply::Done
            }
            Operation::RemoveDirectory { place } => {
                namespace.remove_directory(watch, &place)?;
                MetadataReply::Done
            }
            Operation::SetAttributes { place, set } => MetadataReply::Attributes(namespace.set_attributes(watch, &place, &set)?),
            Operation::Truncate { place, size_bytes } => {
                let id = namespace.stat(&place)?.id;
                let _turn = service.locks.turn(id).map_err(|e| e.on_file(super::tree::shown_place(&place)))?;
                intents.truncate_now(id, watch).map_err(|e| e.on_file(super::tree::shown_place(&place)))?;
                let id = namespace.truncate(watch, &place, size_bytes)?.id;
                intents.truncate_now(id, watch).map_err(|e| e.on_file(super::tree::shown_place(&place)))?;
                MetadataReply::Done
            }
            Operation::Many { operations } => {
                let done = namespace.many(watch, &operations)?;
                done.opened.iter().for_each(|made| self.open(made.id));
                if done.removed {
                    intents.look();
                }
                MetadataReply::Each(done.each)
            }
            Operation::Sync => {
                namespace.database().sync(watch)?;
                MetadataReply::Synced(service.verifier)
            }
            Operation::Status => MetadataReply::Status(service.status()?),
        })
    }

    /// Opens a file. A truncation of it that is not done yet is done first: nobody reads or writes a file
    /// that is half truncated.
    fn open_file(&mut self, place: &Place, watch: &mut Traced<'_>) -> Result<Attributes> {
        self.room_to_open()?;
        let service = Arc::clone(&self.service);
        let found = service.namespace.open_file(place)?;
        let gone = || Error::new(ErrorKind::NotFound, "it was removed").on_file(super::tree::shown_place(place));
        if found.links > 0 {
            self.open(found.id);
        } else if service.intents.opened_orphan(found.id) {
            *self.open.entry(found.id).or_insert(0) += 1;
        } else {
            return Err(gone());
        }
        let ready = service.intents.truncate_now(found.id, watch);
        if let Err(error) = ready {
            self.close(found.id);
            return Err(error.on_file(super::tree::shown_place(place)));
        }
        // Had it been removed before it counted as open, its datafiles might be going already; had it got another layout,
        // this is it.
        match service.namespace.stat(&Place::of(found.id)) {
            Ok(now) if now.links > 0 || found.links == 0 => Ok(now),
            _ => {
                self.close(found.id);
                Err(gone())
            }
        }
    }

    fn lock(&mut self, operation: LockOperation, watch: &mut Traced<'_>) -> Result<LockReply> {
        let locks = Arc::clone(&self.service.locks);
        match operation {
            LockOperation::Hello { client } => {
                self.life = Some(locks.hello(client, watch)?);
                return Ok(LockReply::Done);
            }
            LockOperation::Grants { client, wait_ms } => {
                let wait = Duration::from_millis(wait_ms.into());
                return locks.grants(client, wait).map(LockReply::Tickets);
            }
            _ => {}
        }
        let Some(life) = &self.life else {
            return Err(Error::new(ErrorKind::Invalid, "a client that locks says hello first"));
        };
        Ok(match operation {
            LockOperation::Claim { locks, last } => LockReply::Refused(life.claim(&locks, last)?),
            LockOperation::Lock { request, ticket } => match life.lock(&request, ticket)? {
                Outcome::Granted => LockReply::Done,
                Outcome::Queued => LockReply::Queued,
            },
            LockOperation::Cancel { ticket, request } => LockReply::Cancelled { granted: life.cancel(ticket, &request) },
            LockOperation::Unlock { range } => {
                life.unlock(&range)?;
                LockReply::Done
            }
            LockOperation::UnlockAll { file, owner } => {
                life.unlock_all(file, owner)?;
                LockReply::Done
            }
            LockOperation::Test { request } => LockReply::Held(life.test(&request)),
            LockOperation::Hello { .. } | LockOperation::Grants { .. } => unreachable!("answered above"),
        })
    }

    fn room_to_open(&self) -> Result<()> {
        if self.open.len() >= OPEN_FILES {
            return Err(Error::new(ErrorKind::TooMany, format!("{OPEN_FILES} files are open on this connection: close some")));
        }
        Ok(())
    }

    fn open(&mut self, id: FileId) {
        self.service.intents.opened(id);
        *self.open.entry(id).or_insert(0) += 1;
    }

    fn close(&mut self, id: FileId) {
        let Some(count) = self.open.get_mut(&id) else { return };
        *count -= 1;
        if *count == 0 {
            self.open.remove(&id);
        }
        self.service.intents.closed(id);
    }
}

fn stat_many(namespace: &Namespace, places: &[Place]) -> Result<Vec<Result<Attributes, Refusal>>> {
    if places.is_empty() || places.len() > STAT_PLACES {
        return Err(Error::new(ErrorKind::Invalid, format!("attributes of {} places: ask for 1 to {STAT_PLACES}", places.len())));
    }
    let mut found = Vec::with_capacity(places.len());
    let mut bytes = 0;
    for place in places {
        let one = namespace.stat(place).map_err(|e| Refusal { errno: e.kind().errno(), message: e.to_string() });
        bytes += match &one {
            Ok(attributes) => super::tree::attributes_cost(attributes),
            Err(refusal) => refusal.message.len().min(limits::ERROR_TEXT_BYTES) + 16,
        };
        found.push(one);
        if bytes >= STAT_BYTES {
            break;
        }
    }
    Ok(found)
}

/// Turns the database's stages into spans of the connection's thread.
struct Traced<'a> {
    about: About,
    begun: Option<Begun>,
    tracer: &'a mut Tracer,
}

impl Watch for Traced<'_> {
    fn track(&self) -> Option<TrackId> {
        self.tracer.track()
    }

    fn begin(&mut self) {
        self.begun = Some(self.tracer.begin());
    }

    fn end(&mut self, stage: Stage) {
        let Some(begun) = self.begun.take() else { return };
        let (kind, about) = match stage {
            Stage::Wait(waker_track) => (SpanKind::WaitLock, About { waker_track, ..self.about }),
            Stage::LogWrite(bytes) => (SpanKind::FileWrite, About { size_bytes: Some(bytes), ..self.about }),
            Stage::LogSync => (SpanKind::FileSync, self.about),
        };
        self.tracer.end(begun, kind, about);
    }
}
