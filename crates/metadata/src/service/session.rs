//! A client's connection: requests that depend on its earlier ones, and the handling of requests in general.

use super::MetadataService;
use super::cursors::Continued;
use super::openings::Openings;
use crate::backup::Parts;
use crate::database::{Stage, Unwatched, Watch};
use crate::locks::keeper::Life;
use std::sync::Arc;
use std::time::Duration;
use thalweg_trace::{OpenSpan, SpanFields, SpanKind, Tracer, TrackId};
use thalweg_wire::limits;
use thalweg_wire::locks::table::Outcome;
use thalweg_wire::protocol::common::{Hello, HelloReply, ServiceKind, Witnessed};
use thalweg_wire::protocol::effects::Effect;
use thalweg_wire::protocol::locks::{LockOperation, LockRange, LockReply, LockSpace};
use thalweg_wire::protocol::metadata::{
    Closed, Existing, FileId, FilePath, MetadataReply, MetadataRequest, Operation, RequestNumber, Small,
};
use thalweg_wire::trust::{Identity, Rights};
use thalweg_wire::{Error, ErrorKind, Result};
use thalweg_wire::{Exchange, Kind, Service, Session, VERSION};

impl Service for MetadataService {
    fn hello(&self, hello: &Hello, _: &Arc<Identity>) -> Result<HelloReply> {
        let store = self.namespace.map().store;
        if let Some(meant) = hello.store
            && meant != store
        {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("this is the store {store:016x}, not {meant:016x}: another store took over its address"),
            ));
        }
        // A service that may have been superseded does not answer, so that the client tries the next.
        self.namespace.database().is_usable()?;
        Ok(HelloReply {
            version: VERSION,
            server: self.options.name.clone(),
            service: ServiceKind::Metadata,
            node: self.options.node.clone(),
            boot_id: self.options.boot_id.clone(),
            verifier: self.verifier,
            store,
            service_start: self.namespace.service_start(),
            change: 0,
            emulated: None,
        })
    }

    fn kind(&self) -> Kind {
        Kind::Metadata
    }

    fn stopping(&self) {
        // Connections end now, but their files count as still open.
        *self.idle.lock() = (self.intents.open_files() == 0 && self.recovery.is_over()).then(|| self.intents.openings());
        self.recovery.stop();
        self.drafts.stop();
        self.locks.stop();
        self.witnesses.stop();
    }

    fn session(self: Arc<Self>, _: &Hello, who: &Arc<Identity>) -> Box<dyn Session> {
        Box::new(ClientSession::new(self, Arc::clone(who)))
    }
}

/// A client's connection.
pub struct ClientSession {
    service: Arc<MetadataService>,
    /// The client's identity.
    who: Arc<Identity>,
    open: Openings,
    continued: Continued,
    /// The client's life, if it uses locks.
    life: Option<Life>,
    /// Its number among the witnesses, if it is an I/O server that witnesses.
    witness: Option<u64>,
    /// The client's number, if it sends numbered requests.
    client: Option<u64>,
    /// Files closed with the last request, to be processed after the answer.
    later: Vec<Closed>,
    /// The backup that it reads.
    backup: Option<Parts>,
    /// The payload of the reply being made.
    payload: Vec<u8>,
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.close_later(&mut Unwatched);
        self.witness.iter().for_each(|number| self.service.witnesses.leave(*number));
        self.client.iter().for_each(|client| self.service.clients.leaves(&self.service.namespace, *client));
    }
}

impl Session for ClientSession {
    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        let request: MetadataRequest = exchange.body()?;
        let about = exchange.about();
        let mut watch = Traced { about, begun: None, tracer: exchange.tracer };
        let reply = self.request(request, &mut watch).map_err(|error| match self.service.namespace.database().ended() {
            // The outcome is unknown here; the next active service knows it.
            Some(_) => Error::new(ErrorKind::Reset, error.to_string()),
            None => error,
        });
        let payload = std::mem::take(&mut self.payload);
        let replied = reply.and_then(|reply| exchange.reply_with(&reply, &payload));
        self.close_later(&mut Traced { about, begun: None, tracer: exchange.tracer });
        replied
    }
}

impl ClientSession {
    /// Creates the session of an authenticated client.
    pub fn new(service: Arc<MetadataService>, who: Arc<Identity>) -> ClientSession {
        ClientSession {
            open: Openings::new(Arc::clone(&service), &who),
            who,
            continued: Continued::default(),
            service,
            life: None,
            witness: None,
            client: None,
            later: Vec::new(),
            backup: None,
            payload: Vec::new(),
        }
    }

    /// Executes a request.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn request(&mut self, request: MetadataRequest, watch: &mut dyn Watch) -> Result<MetadataReply> {
        if request.closed.len() > limits::CLOSED {
            return Err(Error::new(ErrorKind::Invalid, format!("{} files closed: at most {}", request.closed.len(), limits::CLOSED)));
        }
        // Only the active service may answer from memory, as for locks.
        self.service.namespace.database().is_usable()?;
        self.close_later(watch);
        match request.operation {
            // A new name does not depend on the closed files, and a program that creates many files waits for each, with a lock on the
            // directory: so they are closed after the answer.
            Operation::Create { existing: Existing::Refuse, .. } => self.later = request.closed,
            _ => self.open.close(watch, &request.closed)?,
        }
        // Reads may be repeated, and their answers are not stored.
        let number = request.number.filter(|_| request.operation.effect() != Effect::Reads).map(|number| self.own(number));
        number.iter().try_for_each(|number| self.comes(number))?;
        let reply = self.answer(request.operation, number, watch)?;
        Ok(match request.directory {
            Some(directory) => self.with_directory(reply, directory),
            None => reply,
        })
    }

    /// Closes the files reported by the last request if that was deferred. On failure the files' rows stay open, as if their writer were
    /// gone.
    fn close_later(&mut self, watch: &mut dyn Watch) {
        if !self.later.is_empty() {
            let _ = self.open.close(watch, &std::mem::take(&mut self.later));
        }
    }

    /// Adds a directory's new attributes to the answer to a change; none if the directory was removed meanwhile.
    fn with_directory(&self, reply: MetadataReply, directory: FileId) -> MetadataReply {
        let made = match reply {
            MetadataReply::Attributes(made) => Some(made),
            MetadataReply::Done => None,
            other => return other,
        };
        match self.service.namespace.stat(&FilePath::of(directory)) {
            Ok(directory) => MetadataReply::Changed { made, directory },
            Err(_) => made.map_or(MetadataReply::Done, MetadataReply::Attributes),
        }
    }

    /// Returns the number under which a request's answer is stored: it includes the credential, so that another credential cannot read the
    /// answer.
    fn own(&self, number: RequestNumber) -> RequestNumber {
        let [credential, _] = self.who.id.halves();
        RequestNumber { client: number.client ^ credential, ..number }
    }

    /// Checks a request's number: one client per connection, and a limited number of lines, to bound stored answers.
    fn comes(&mut self, number: &RequestNumber) -> Result<()> {
        if number.line >= limits::LINES || self.client.is_some_and(|client| client != number.client) {
            let problem = format!("a request's line is {}: less than {}, and one client on a connection", number.line, limits::LINES);
            return Err(Error::new(ErrorKind::Invalid, problem));
        }
        if self.client.replace(number.client).is_none() {
            self.service.clients.comes(&self.service.namespace, number.client, self.who.id);
        }
        Ok(())
    }

    /// Adds files that an earlier attempt of the request, over a connection that has ended, created open for writing.
    fn made_before(&mut self, files: &[FileId], watch: &mut dyn Watch) -> Result<()> {
        let files: Vec<(FileId, bool)> = files.iter().map(|id| (*id, true)).collect();
        let who = Arc::clone(&self.who);
        self.open.reopen(&who, watch, &files).map(drop)
    }

    /// Executes requests that depend on the connection; the service executes all others.
    fn answer(&mut self, operation: Operation, number: Option<RequestNumber>, watch: &mut dyn Watch) -> Result<MetadataReply> {
        let (service, who) = (Arc::clone(&self.service), Arc::clone(&self.who));
        let namespace = &service.namespace;
        operation.effect().allow(&who)?;
        if operation.begins_writing() {
            namespace.boots.meet(&**namespace.database(), &namespace.map(), &*service.servers);
        }
        Ok(match operation {
            Operation::List { place, after, most, detail, walk } => {
                let Some(after) = self.continued.begin(walk, after)? else {
                    return Ok(MetadataReply::Page { entries: Vec::new(), more: false });
                };
                let (entries, more) = service.list(watch, &place, after.as_deref(), most, detail)?;
                self.continued.answered(walk, entries.last().filter(|_| more).map(|entry| entry.name.as_bytes()));
                MetadataReply::Page { entries, more }
            }
            Operation::Create { place, owner, existing, layout, node } => {
                self.open.room(1)?;
                let names = namespace.called_by(&who).numbered(number);
                let (made, removed) = names.create_open(watch, &place, owner, existing, &layout, &node)?;
                match names.was_done() {
                    true => self.made_before(&[made.id], watch)?,
                    false => self.open.made(made.id, existing == Existing::Draft),
                }
                service.finish(removed);
                MetadataReply::Attributes(made)
            }
            Operation::Lock(operation) => MetadataReply::Lock(self.lock(operation, watch)?),
            Operation::Lot(operation) => MetadataReply::Lots(service.lots.answer(&who, operation)?),
            Operation::Credential(operation) => MetadataReply::Credentials(service.credentials.answer(&who, operation)?),
            Operation::Witness { server, seen, revision } => self.witness(&server, seen, revision)?,
            Operation::Backup { part } => self.backup(part)?,
            Operation::Open { place, write } => MetadataReply::Attributes(self.open.open(&who, watch, &place, write)?),
            Operation::Reopen { files } => MetadataReply::Opened(self.open.reopen(&who, watch, &files)?),
            Operation::Many { operations } => {
                let creates = operations.iter().filter(|one| matches!(one, Small::Create(_))).count();
                self.open.room(creates)?;
                let mut done = namespace.called_by(&who).numbered(number).many(watch, &operations)?;
                let made_now = done.opened.iter().filter(|(made, _)| !done.made_before.contains(&made.id));
                made_now.for_each(|(made, is_draft)| self.open.made(made.id, *is_draft));
                self.made_before(&done.made_before, watch)?;
                service.prove_outcomes(watch, &mut done);
                if done.removed {
                    service.intents.notify();
                }
                MetadataReply::Each(done.each)
            }
            other => service.answer(&who, number, other, watch)?,
        })
    }

    /// Returns the next part of a backup; part 0 begins one.
    fn backup(&mut self, part: u64) -> Result<MetadataReply> {
        if part == 0 {
            self.backup = None;
            self.backup = Some(Parts::begin(&self.service.namespace, &self.service.backups)?);
        }
        let parts = self.backup.as_mut().filter(|parts| parts.next == part);
        let parts =
            parts.ok_or_else(|| Error::new(ErrorKind::Invalid, format!("part {part} of a backup is not the next one: begin again")))?;
        let (of, more) = (parts.of, parts.read(&mut self.payload)?);
        if !more {
            self.backup = None;
        }
        Ok(MetadataReply::Backup { of, more })
    }

    /// Waits, for an I/O server, for the next change that it is to witness.
    fn witness(&mut self, server: &str, seen: Witnessed, revision: u64) -> Result<MetadataReply> {
        // (False claims would hide lost changes, so only servers may call this.)
        let service = Arc::clone(&self.service);
        if !service.namespace.map().servers.iter().any(|known| known.name == server) {
            return Err(Error::new(ErrorKind::Invalid, format!("the store has no I/O server named {server}")));
        }
        let accepted = service.namespace.meets(server, seen)?;
        if accepted {
            // It must continue from here first, and then return.
            return Ok(MetadataReply::Witness { change: 0, accepted, revoked: None });
        }
        let has = if seen.start == service.namespace.service_start() { seen.change } else { 0 };
        let number = *self.witness.get_or_insert_with(|| {
            service.lots.met();
            service.witnesses.enter(server)
        });
        let is_news = || service.credentials.revoked().revision != revision;
        let change = service.witnesses.next(number, has, revision, is_news);
        let revoked = is_news().then(|| (*service.credentials.revoked()).clone());
        Ok(MetadataReply::Witness { change, accepted, revoked })
    }

    fn lock(&mut self, operation: LockOperation, watch: &mut dyn Watch) -> Result<LockReply> {
        let locks = Arc::clone(&self.service.locks);
        match operation {
            LockOperation::Hello { client } => {
                self.life = Some(locks.hello(client, self.who.id, watch)?);
                return Ok(LockReply::Done);
            }
            LockOperation::Grants { client, wait_ms } => {
                let wait = Duration::from_millis(wait_ms.into());
                return locks.grants(client, self.who.id, wait).map(LockReply::Tickets);
            }
            // A client without locks need not identify itself.
            LockOperation::Test { request } if self.life.is_none() => return Ok(LockReply::Held(locks.test(None, &request))),
            _ => {}
        }
        let Some(life) = &self.life else {
            return Err(Error::new(ErrorKind::Invalid, "a client must say hello before it locks"));
        };
        Ok(match operation {
            LockOperation::Claim { locks, last } => LockReply::Refused(life.claim(&locks, last)?),
            LockOperation::Lock { request, ticket } => {
                self.may_lock(&request.range)?;
                match life.lock(&request, ticket)? {
                    Outcome::Granted => LockReply::Done,
                    Outcome::Queued => LockReply::Queued,
                }
            }
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

impl ClientSession {
    /// Refuses locks that would block a lot's owner on a file that the caller may not open, and append turns on a file that it may not
    /// write.
    fn may_lock(&self, range: &LockRange) -> Result<()> {
        if self.who.rights == Rights::Store {
            return Ok(());
        }
        match self.service.namespace.called_by(&self.who).may_open(&FilePath::of(range.file), range.space == LockSpace::Append) {
            Err(error) if error.kind() == ErrorKind::Access => Err(error),
            // Other problems of the file are not reported by a lock request.
            _ => Ok(()),
        }
    }
}

/// Converts the database's stages into spans of the connection's thread.
struct Traced<'a> {
    about: SpanFields,
    begun: Option<OpenSpan>,
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
            Stage::Wait(waker_track) => (SpanKind::WaitLock, SpanFields { waker_track, ..self.about }),
            Stage::LogWrite(bytes) => (SpanKind::FileWrite, SpanFields { size_bytes: Some(bytes), ..self.about }),
            Stage::LogSync => (SpanKind::FileSync, self.about),
        };
        self.tracer.end(begun, kind, about);
    }
}
