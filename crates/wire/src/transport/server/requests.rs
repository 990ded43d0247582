//! Dispatches requests: common ones are answered here, the others by the service.

use super::newcomers::Client;
use super::service::{Session, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::common::{CommonReply, CommonRequest, Hello};
use crate::transport::descriptors::Shares;
use crate::transport::exchange::{Exchange, decode};
use crate::transport::header::{Header, Kind, VERSION, VERSION_MIN, version_error};
use crate::trust::{CredentialId, Identity, Rights};
use std::net::SocketAddr;
use std::sync::Arc;
use thalweg_trace::{Host, Time};

/// Ensures that a reply was sent, and skips unread payload.
pub(super) fn finish(done: Result<()>, exchange: &mut Exchange<'_>, server: &str) -> Result<()> {
    let breaks = match done {
        Ok(()) if exchange.replied => None,
        Ok(()) => {
            exchange.refuse(&Error::new(ErrorKind::Io, "the request was not answered: a bug").at_server(server))?;
            None
        }
        Err(error) if exchange.replied => Some(error),
        Err(error) => {
            let error = error.at_server(server);
            exchange.refuse(&error)?;
            error.breaks_connection().then_some(error)
        }
    };
    if let Some(error) = breaks {
        return Err(error);
    }
    let mut sink = [0_u8; 16 << 10];
    while exchange.payload_left() > 0 {
        let many = exchange.payload_left().min(sink.len() as u64) as usize;
        exchange.receive(&mut sink[..many])?;
    }
    Ok(())
}

/// The parts of a connection that handling a request may change.
pub(super) struct Parts<'a> {
    pub session: &'a mut Option<Box<dyn Session>>,
    pub shared: &'a Shared,
    pub number: u64,
    pub peer: SocketAddr,
    pub who: Option<&'a Arc<Identity>>,
    pub client: &'a mut Option<Client>,
    pub started: &'a mut Vec<u32>,
}

impl Parts<'_> {
    pub(super) fn dispatch(&mut self, exchange: &mut Exchange<'_>, header: Header) -> Result<()> {
        self.shared.failure.check()?;
        if header.kind == Kind::Common {
            return self.common(exchange);
        }
        let Some(session) = self.session else {
            return Err(Error::new(ErrorKind::Protocol, "the first message of a connection must be a hello"));
        };
        if header.kind != self.shared.service.kind() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("a request for the {:?} service: this one is {:?}", header.kind, self.shared.service.kind()),
            ));
        }
        session.serve(exchange)
    }

    /// Counts the connection as a client's.
    fn admit(&mut self, hello: &Hello, who: &Identity) -> Result<()> {
        if self.client.is_some() {
            return Ok(());
        }
        let client = Client::of(who, self.peer.ip(), &hello.client);
        let most = self.shared.options.connections.min(Shares::now().connections);
        self.shared.clients.enter(&client, most)?;
        *self.client = Some(client);
        match self.shared.newcomers.leave(self.number) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Reset, "closed during its greeting: too many connections here have not greeted yet")),
        }
    }

    /// Returns the credential of the connection.
    fn credential(&self) -> Result<CredentialId> {
        let who = self.who.ok_or_else(|| Error::new(ErrorKind::Access, "a request before a credential was proven"))?;
        Ok(who.id)
    }

    fn common(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        let request: CommonRequest = decode(exchange.body)?;
        if self.session.is_none() && !matches!(request, CommonRequest::Hello(_)) {
            return Err(Error::new(ErrorKind::Protocol, "the first message of a connection must be a hello"));
        }
        self.who.map_or(Ok(()), |who| request.effect().allow(who))?;
        match request {
            CommonRequest::Hello(hello) => {
                let (min, max) = (hello.version_min, hello.version_max);
                if min > VERSION || max < VERSION_MIN {
                    return Err(version_error(min, max));
                }
                let who = self.who.ok_or_else(|| Error::new(ErrorKind::Access, "a hello before a credential was proven"))?;
                let mut reply = self.shared.service.hello(&hello, who)?;
                reply.version = max.min(VERSION);
                reply.emulated = self.shared.options.emulated;
                self.admit(&hello, who)?;
                *self.session = Some(Arc::clone(&self.shared.service).session(&hello, who));
                exchange.reply(&CommonReply::Hello(reply))
            }
            CommonRequest::RecordStart { host, space } => {
                let is_stores = self.who.is_some_and(|who| who.rights == Rights::Store);
                let session = self.shared.sessions.start((self.credential()?, is_stores), host, space)?;
                self.started.push(session);
                let host = Host::here(host, &self.shared.options.node);
                exchange.reply(&CommonReply::RecordStarted { session, host })
            }
            CommonRequest::RecordFetch { session } => {
                let Some(found) = self.shared.sessions.get(self.credential()?, session) else {
                    return Err(Error::new(ErrorKind::NotFound, format!("recording session {session} has ended")));
                };
                let (events, more, lost) = found.fetch();
                let payload =
                    postcard::to_allocvec(&events).map_err(|e| Error::new(ErrorKind::Io, format!("events cannot be serialised: {e}")))?;
                exchange.reply_with(&CommonReply::RecordPage { more, lost }, &payload)
            }
            CommonRequest::Clock => exchange.reply(&CommonReply::Clock(Time::now())),
            CommonRequest::RecordStop { session } => {
                self.shared.sessions.stop(self.credential()?, session);
                exchange.reply(&CommonReply::Done)
            }
        }
    }
}
