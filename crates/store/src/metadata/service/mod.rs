//! The metadata service on the wire: one operation of the namespace for each request, in the order of the
//! connection; what its client has open is remembered as long as the connection lives.

mod cursors;
pub(super) mod drafts;
mod openings;
#[cfg(test)]
mod size_model;
mod stat;

use self::cursors::Continued;
use self::drafts::Drafts;
use self::openings::Openings;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::metadata::background::intents::{Intents, IoServers};
use crate::metadata::background::settler::Settler;
use crate::metadata::database::{Stage, Unwatched, Watch};
use crate::metadata::locks::keeper::{Life, Locks};
use crate::metadata::locks::table::Outcome;
use crate::metadata::namespace::Namespace;
use crate::metadata::sizes::rounds;
use crate::protocol::common::{BootVerifier, Hello, HelloReply, ServiceKind};
use crate::protocol::locks::{LockOperation, LockReply};
use crate::protocol::metadata::{Existing, MetadataReply, MetadataRequest, Operation, Small, Status};
use crate::wire::{Exchange, Kind, Service, Session, VERSION, boot_id};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_trace::{About, Begun, SpanKind, Tracer, TrackId};

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
    /// Identifies the start of the machine that it is on.
    pub boot_id: String,
}

/// The metadata service of one store.
pub struct MetadataService {
    pub(super) namespace: Arc<Namespace>,
    pub(super) intents: Intents,
    pub(super) settler: Settler,
    pub(super) servers: Arc<dyn IoServers>,
    rounds: rounds::Worker,
    locks: Arc<Locks>,
    pub(super) drafts: Drafts,
    verifier: BootVerifier,
    options: MetadataOptions,
}

impl MetadataService {
    /// A service over a namespace. `servers` is how it speaks to the I/O servers.
    ///
    /// # Errors
    /// When no thread can be started, and the database's.
    pub fn new(namespace: Arc<Namespace>, servers: Arc<dyn IoServers>, options: MetadataOptions) -> Result<MetadataService> {
        namespace.boots.start(&**namespace.database(), &options.boot_id)?;
        let intents = Intents::start(Arc::clone(&namespace), Arc::clone(&servers), options.grace)?;
        let settler = Settler::start(Arc::clone(&namespace), Arc::clone(&servers))?;
        let rounds = rounds::Worker::start(Arc::clone(&namespace), Arc::clone(&servers))?;
        let locks = Locks::start(Arc::clone(namespace.database()), options.grace)?;
        let drafts = Drafts::new(&namespace, options.grace.saturating_mul(limits::DRAFT_GRACES));
        Ok(MetadataService { namespace, intents, settler, servers, rounds, locks, drafts, verifier: BootVerifier::random(), options })
    }

    /// The namespace it serves.
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// Leaves word that it was stopped in good order, and puts everything on stable storage, files' bytes too as far as their servers
    /// answer. Nobody may be connected any more.
    ///
    /// # Errors
    /// The database's.
    pub fn close(&self) -> Result<()> {
        self.rounds.end()?;
        self.namespace.boots.stop(&**self.namespace.database())?;
        Ok(self.namespace.database().close()?)
    }

    /// Waits until sizes that the I/O servers were to be asked for were asked for, as far as they answer.
    pub fn sizes_are_looked_at(&self) {
        self.settler.idle();
    }

    /// A client of it in this process, with what it has open.
    pub fn client(self: &Arc<Self>) -> LocalClient {
        LocalClient { session: ClientSession::new(Arc::clone(self)) }
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
            service_start: self.namespace.service_start(),
        })
    }

    fn kind(&self) -> Kind {
        Kind::Metadata
    }

    fn stopping(&self) {
        self.drafts.stop();
        self.locks.stop();
    }

    fn session(self: Arc<Self>, _: &Hello, _: SocketAddr) -> Box<dyn Session> {
        Box::new(ClientSession::new(self))
    }
}

/// One client's connection.
struct ClientSession {
    service: Arc<MetadataService>,
    open: Openings,
    continued: Continued,
    /// The client's, if it locks.
    life: Option<Life>,
}

/// A client that speaks to the service without a connection.
pub struct LocalClient {
    session: ClientSession,
}

impl LocalClient {
    /// One request.
    ///
    /// # Errors
    /// As over a connection.
    pub fn request(&mut self, request: MetadataRequest) -> Result<MetadataReply> {
        self.session.request(request, &mut Unwatched)
    }
}

impl Session for ClientSession {
    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        let request: MetadataRequest = exchange.body()?;
        let about = exchange.about();
        let mut watch = Traced { about, begun: None, tracer: exchange.tracer };
        let reply = self.request(request, &mut watch)?;
        exchange.reply(&reply)
    }
}

impl ClientSession {
    fn new(service: Arc<MetadataService>) -> ClientSession {
        ClientSession { open: Openings::new(Arc::clone(&service)), continued: Continued::default(), service, life: None }
    }

    fn request(&mut self, request: MetadataRequest, watch: &mut dyn Watch) -> Result<MetadataReply> {
        if request.closed.len() > limits::CLOSED {
            return Err(Error::new(ErrorKind::Invalid, format!("{} files closed: at most {}", request.closed.len(), limits::CLOSED)));
        }
        self.open.close(watch, &request.closed)?;
        self.answer(request.operation, watch)
    }

    /// Longer than a screen: one arm for each request, most of them a call of the namespace.
    fn answer(&mut self, operation: Operation, watch: &mut dyn Watch) -> Result<MetadataReply> {
        let service = Arc::clone(&self.service);
        let namespace = &service.namespace;
        let intents = &service.intents;
        if operation.begins_writing() {
            namespace.boots.meet(&**namespace.database(), &namespace.map(), &*service.servers);
        }
        Ok(match operation {
            Operation::StoreMap => MetadataReply::Map((*namespace.map()).clone()),
            Operation::Stat { places, sizes } => MetadataReply::Many(service.stat_many(watch, &places, sizes)?),
            Operation::List { place, after, most, detail, walk } => {
                let Some(after) = self.continued.begin(walk, after)? else {
                    return Ok(MetadataReply::Page { entries: Vec::new(), more: false });
                };
                let (entries, more) = service.list(watch, &place, after.as_deref(), most, detail)?;
                self.continued.answered(walk, entries.last().filter(|_| more).map(|entry| entry.name.as_bytes()));
                MetadataReply::Page { entries, more }
            }
            Operation::MakeDirectory { place, owner, parents } => {
                MetadataReply::Attributes(namespace.make_directory(watch, &place, owner, parents)?)
            }
            Operation::Create { place, owner, existing, layout, node } => {
                self.open.room(1)?;
                let (made, removed) = namespace.create_open(watch, &place, owner, existing, &layout, &node)?;
                self.open.made(made.id, existing == Existing::Draft);
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
                MetadataReply::Attributes(changed.map_err(|e| e.on_file(crate::metadata::namespace::tree::shown_place(&place)))?)
            }
            Operation::Written { file, size_bytes } => MetadataReply::Attributes(namespace.written(watch, file, size_bytes)?),
            Operation::Lock(operation) => MetadataReply::Lock(self.lock(operation, watch)?),
            Operation::Open { place, write } => MetadataReply::Attributes(self.open.open(watch, &place, write)?),
            Operation::Reopen { files } => MetadataReply::Opened(self.open.reopen(watch, &files)?),
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
                let _turn = service.locks.turn(id).map_err(|e| e.on_file(crate::metadata::namespace::tree::shown_place(&place)))?;
                intents.truncate_now(id, watch).map_err(|e| e.on_file(crate::metadata::namespace::tree::shown_place(&place)))?;
                let id = namespace.truncate(watch, &place, size_bytes)?.id;
                intents.truncate_now(id, watch).map_err(|e| e.on_file(crate::metadata::namespace::tree::shown_place(&place)))?;
                MetadataReply::Done
            }
            Operation::Many { operations } => {
                let creates = operations.iter().filter(|one| matches!(one, Small::Create(_))).count();
                self.open.room(creates)?;
                let mut done = namespace.many(watch, &operations)?;
                done.opened.iter().for_each(|(made, is_draft)| self.open.made(made.id, *is_draft));
                service.prove_outcomes(watch, &mut done);
                if done.removed {
                    intents.look();
                }
                MetadataReply::Each(done.each)
            }
            Operation::Sync => {
                namespace.database().sync(watch)?;
                MetadataReply::Synced(service.verifier)
            }
            Operation::Drafts { after } => {
                let (drafts, more) = service.drafts.list(namespace, after)?;
                MetadataReply::Drafts { drafts, more }
            }
            Operation::RemoveDraft { file, abandoned_for_ns } => {
                service.drafts.remove(namespace, watch, file, abandoned_for_ns)?;
                intents.look();
                MetadataReply::Done
            }
            Operation::Status => MetadataReply::Status(service.status()?),
        })
    }

    fn lock(&mut self, operation: LockOperation, watch: &mut dyn Watch) -> Result<LockReply> {
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
