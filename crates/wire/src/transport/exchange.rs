//! One request at a server: receives its body and payload, sends one reply.

use super::channel::Channel;
use super::counted::Counted;
use super::header::{HEADER_BYTES, Header, Kind};
use super::socket;
use crate::emulate::Line;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::checked;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::IoSlice;
use thalweg_bulk::crc32c;
use thalweg_trace::{ObjectId, RequestId, SpanFields, SpanId, SpanKind, TraceHandle, Tracer};

/// A request in progress. It gets exactly one reply; unread payload is skipped afterwards.
pub struct Exchange<'a> {
    pub(super) channel: &'a mut Channel,
    /// The connection's share of an emulated link.
    pub(super) line: Option<&'a mut Line>,
    pub(super) header: Header,
    pub(super) body: &'a [u8],
    pub(super) payload_left: u64,
    pub(super) replied: bool,
    pub(super) scratch: &'a mut Vec<u8>,
    /// Tracer of the connection's thread; off unless the request is recorded.
    pub tracer: &'a mut Tracer,
    pub(super) trace: Option<&'a TraceHandle>,
    /// TCP counters of the connection, if the request is recorded.
    pub(super) counted: Option<&'a Counted>,
    /// The connection's object in traces.
    pub object: Option<ObjectId>,
    /// The request's `rpc.serve` span, parent of its parts.
    pub span: Option<SpanId>,
}

impl Exchange<'_> {
    /// Returns the request's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the recording to which the request belongs.
    pub fn recording(&self) -> Option<&TraceHandle> {
        self.trace
    }

    /// Returns the common fields of this request's spans.
    pub fn about(&self) -> SpanFields {
        SpanFields { parent: self.span, request: RequestId::new(self.header.request), ..SpanFields::default() }
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it is not a `T`. The body arrived undamaged, so the connection stays usable: a newer client
    /// sent a request unknown to this release.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T> {
        decode(self.body).map_err(|e| {
            Error::new(ErrorKind::Unsupported, format!("this release of the server does not know the request: {}", e.message()))
        })
    }

    /// Returns the bytes of payload not yet received.
    pub fn payload_left(&self) -> u64 {
        self.payload_left
    }

    /// Fills `buffer` with the next bytes of the payload.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<()> {
        debug_assert!(buffer.len() as u64 <= self.payload_left);
        self.channel
            .receive_payload(buffer, limits::SERVER_SILENCE)
            .map_err(|e| socket::failure("its request's payload was received", e, limits::SERVER_SILENCE))?;
        self.payload_left -= buffer.len() as u64;
        if let Some(line) = &self.line {
            line.payload_arrived(self.payload_left);
        }
        if let Some(counted) = self.counted {
            counted.arrived();
        }
        Ok(())
    }

    /// Receives the whole payload and verifies its checksum.
    ///
    /// # Errors
    /// When the connection fails, or the checksum does not match.
    pub fn receive_whole(&mut self) -> Result<Vec<u8>> {
        let mut payload = vec![0; self.payload_left as usize];
        self.receive(&mut payload)?;
        if self.header.payload_crc != crc32c(&payload) {
            return Err(Error::new(ErrorKind::Corrupt, "the payload does not match its checksum: damaged in transit"));
        }
        Ok(payload)
    }

    /// Sends the reply.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn reply<T: Serialize>(&mut self, body: &T) -> Result<()> {
        self.reply_with(body, &[])
    }

    /// Sends the reply with a payload.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn reply_with<T: Serialize>(&mut self, body: &T, payload: &[u8]) -> Result<()> {
        let crc = if payload.is_empty() { 0 } else { crc32c(payload) };
        self.send(0, body, payload, crc)
    }

    /// Sends the reply with a payload whose checksum is already known.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn reply_checked<T: Serialize>(&mut self, body: &T, payload: &[u8], payload_crc: u32) -> Result<()> {
        self.send(0, body, payload, payload_crc)
    }

    /// Replies with an error.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn refuse(&mut self, error: &Error) -> Result<()> {
        let (status, body) = error.to_wire();
        self.send(status, &body, &[], 0)
    }

    fn send<T: Serialize>(&mut self, status: u32, body: &T, payload: &[u8], payload_crc: u32) -> Result<()> {
        debug_assert!(!self.replied, "one reply for each request");
        let sending = self.tracer.begin();
        let payload_bytes = payload.len() as u64;
        let header = Header { reply: true, status, payload_bytes, payload_crc, body_bytes: 0, ..self.header };
        encode(header, body, self.scratch)?;
        self.replied = true;
        let mut pieces = [IoSlice::new(self.scratch), IoSlice::new(payload)];
        if let Some(counted) = self.counted {
            counted.sending(self.tracer);
        }
        let sent = match &mut self.line {
            Some(line) => line.send([self.scratch, payload], self.trace.and_then(|trace| Some((trace, self.object?)))),
            None => self.channel.send_pieces(&mut pieces),
        };
        sent.map_err(|e| socket::failure("its reply was sent", e, limits::SERVER_SILENCE))?;
        let size_bytes = Some((self.scratch.len() + payload.len()) as u64);
        let about = SpanFields { object: self.object, size_bytes, ..self.about() };
        self.tracer.end(sending, SpanKind::NetSend, about);
        Ok(())
    }
}

/// Decodes a body.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    drop(checked::why());
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Error::new(ErrorKind::Protocol, format!("a message body with {} excess bytes", rest.len()))),
        Err(e) => {
            let why = checked::why().unwrap_or_else(|| e.to_string());
            Err(Error::new(ErrorKind::Protocol, format!("cannot decode a message body: {why}")))
        }
    }
}

/// Encodes header and body into `message`, replacing its contents.
pub fn encode<T: Serialize>(mut header: Header, body: &T, message: &mut Vec<u8>) -> Result<()> {
    message.clear();
    message.resize(HEADER_BYTES, 0);
    let taken = postcard::to_extend(body, std::mem::take(message))
        .map_err(|e| Error::new(ErrorKind::Protocol, format!("cannot encode a message body: {e}")))?;
    *message = taken;
    let body_bytes = message.len() - HEADER_BYTES;
    if body_bytes > limits::BODY_BYTES as usize {
        return Err(Error::new(
            ErrorKind::Protocol,
            format!("a message body of {body_bytes} bytes: the maximum is {}", limits::BODY_BYTES),
        ));
    }
    header.body_bytes = body_bytes as u32;
    header.encode_into(message);
    Ok(())
}

/// Makes a request's header.
pub fn request_header(kind: Kind, request: u64, session: u32, payload_bytes: u64, payload_crc: u32) -> Header {
    Header { kind, reply: false, status: 0, request, body_bytes: 0, payload_bytes, payload_crc, session }
}
