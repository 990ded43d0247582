//! An open connection: buffers for records, and what is done with those that carry no data.
//!
//! Nothing is decrypted before somebody wants it: a record is decrypted when what the last one held has been taken. So between two calls
//! there is at most one record's plaintext, and whole records may stand behind it that the socket does not show any more: who waits for
//! the socket asks here first ([`Session::has_data`]).

use super::key::Fingerprint;
use super::records::{self, HEADER_BYTES, Keys, OVERHEAD_BYTES, PLAIN_BYTES, RECORD_BYTES, kind};
use super::{broken, protocol};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::transport::socket;
use rustix::net::RecvFlags;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets, Tls13CipherSuite};
use std::io::{IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Plaintext that is encrypted before it is sent, with one call: half a payload. Smaller calls cost the kernel more (`examples/tls.rs`
/// measured 0.65 of the plain rate with half a payload, 0.5 with an eighth of one); with a whole one, encrypting and receiving
/// overlap less.
const SEND_BYTES: usize = 32 * PLAIN_BYTES;
/// Room for what is received with one call: small messages, and large ones.
const SMALL_BYTES: usize = 2 * RECORD_BYTES;
const LARGE_BYTES: usize = 256 << 10;

/// What a handshake ends with.
pub(super) struct Opened<'a> {
    pub end: End,
    pub secrets: ExtractedSecrets,
    pub suite: &'static Tls13CipherSuite,
    pub binding: [u8; 32],
    pub fingerprint: Fingerprint,
    pub is_resumed: bool,
    /// Records that came after it.
    pub came: &'a [u8],
}

/// What keeps tickets and makes new keys.
pub(super) enum End {
    Client(Box<KernelConnection<ClientConnectionData>>),
    Server(Box<KernelConnection<ServerConnectionData>>),
}

/// An open connection.
pub(in crate::transport) struct Session {
    end: End,
    sealing: Keys,
    opening: Keys,
    /// Records after which new keys are used to send.
    pub(in crate::transport) refresh_after: u64,
    /// Encrypted: what follows `sent` is to be sent.
    output: Vec<u8>,
    sent: usize,
    /// `[begin..filled]` has come and is encrypted; `plain`, before it, is the last record's plaintext, as far as nobody took it.
    input: Vec<u8>,
    begin: usize,
    filled: usize,
    plain: Range<usize>,
    /// Records without data in a row: a peer that sends nothing else is not listened to without end.
    idle_records: u32,
    /// The peer says that it sends nothing more.
    is_closed: bool,
    /// Why nothing that comes is believed any more.
    fault: Option<Error>,
    pub(in crate::transport) binding: [u8; 32],
    pub(in crate::transport) fingerprint: Fingerprint,
    pub(in crate::transport) is_resumed: bool,
}

/// What a call on the socket gave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// Bytes, and there may be more.
    Some,
    /// As many as there was room for.
    Full,
    End,
}

impl Session {
    pub(super) fn new(opened: Opened<'_>) -> Result<Session> {
        let mut input = opened.came.to_vec();
        input.resize(SMALL_BYTES.max(input.len()), 0);
        Ok(Session {
            end: opened.end,
            sealing: Keys::new(opened.secrets.tx)?,
            opening: Keys::new(opened.secrets.rx)?,
            // Half of what is safe.
            refresh_after: opened.suite.common.confidentiality_limit / 2,
            output: Vec::new(),
            sent: 0,
            input,
            begin: 0,
            filled: opened.came.len(),
            plain: 0..0,
            idle_records: 0,
            is_closed: false,
            fault: None,
            binding: opened.binding,
            fingerprint: opened.fingerprint,
            is_resumed: opened.is_resumed,
        })
    }

    // ---- Sending

    /// Encrypts about [`SEND_BYTES`] of the pieces.
    fn encrypt(&mut self, pieces: &mut &mut [IoSlice<'_>]) -> std::io::Result<()> {
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        // A header in front of a payload makes it a little longer than so many records: the rest goes with them.
        let mut left = if all <= SEND_BYTES + PLAIN_BYTES { all } else { SEND_BYTES };
        self.output.reserve(left + left.div_ceil(PLAIN_BYTES) * OVERHEAD_BYTES);
        while left > 0 {
            if self.sealing.sequence() >= self.refresh_after {
                self.refresh().map_err(broken)?;
            }
            let many = left.min(PLAIN_BYTES);
            self.sealing.seal(kind::DATA, &mut self.output, |record| records::take(pieces, many, record)).map_err(broken)?;
            left -= many;
        }
        Ok(())
    }

    /// Encrypts with new keys from here on, and says so with the old ones.
    fn refresh(&mut self) -> Result<()> {
        const KEY_UPDATE_NOT_REQUESTED: [u8; 5] = [24, 0, 0, 1, 0];
        self.sealing.seal(kind::HANDSHAKE, &mut self.output, |record| record.extend_from_slice(&KEY_UPDATE_NOT_REQUESTED))?;
        self.sealing = Keys::new(self.end.next_to_send()?)?;
        Ok(())
    }

    pub(in crate::transport) fn send_pieces(&mut self, socket: &TcpStream, pieces: &mut [IoSlice<'_>]) -> std::io::Result<()> {
        let mut rest = pieces;
        loop {
            self.encrypt(&mut rest)?;
            if self.sent == self.output.len() {
                return Ok(());
            }
            let is_last = rest.iter().all(|piece| piece.is_empty());
            socket::send_all(socket, &self.output[self.sent..], !is_last)?;
            self.sent = self.output.len();
            if is_last {
                return Ok(());
            }
        }
    }

    /// Takes some of `bytes`, once what was taken before is sent.
    pub(in crate::transport) fn try_send(&mut self, socket: &TcpStream, bytes: &[u8]) -> std::io::Result<usize> {
        self.try_flush(socket)?;
        if self.wants_to_send() {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        let many = bytes.len().min(SEND_BYTES);
        self.encrypt(&mut &mut [IoSlice::new(&bytes[..many])][..])?;
        self.try_flush(socket)?;
        Ok(many)
    }

    pub(in crate::transport) fn try_flush(&mut self, socket: &TcpStream) -> std::io::Result<()> {
        socket::send_now(socket, &self.output, &mut self.sent)
    }

    pub(in crate::transport) fn wants_to_send(&self) -> bool {
        self.sent < self.output.len()
    }

    // ---- Receiving

    /// Whether there is plaintext to take; decrypts the next record if there is none, and one has come in full.
    ///
    /// # Errors
    /// What came is not what the peer sent, or nothing that it may send. So it is from then on.
    pub(in crate::transport) fn has_data(&mut self) -> std::io::Result<bool> {
        while self.plain.is_empty() {
            match self.next_record() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => {
                    self.fault = Some(error.clone());
                    return Err(broken(error));
                }
            }
        }
        Ok(true)
    }

    /// Decrypts the next record; `false`: it has not come in full.
    fn next_record(&mut self) -> Result<bool> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let here = &self.input[self.begin..self.filled];
        let Some(length) = records::length(here)?.filter(|length| *length <= here.len() && !self.is_closed) else { return Ok(false) };
        let (kind, bytes) = self.opening.open(&mut self.input[self.begin..self.begin + length])?;
        let plain = self.begin + HEADER_BYTES..self.begin + HEADER_BYTES + bytes;
        self.begin += length;
        self.idle_records = if kind == kind::DATA && bytes > 0 { 0 } else { self.idle_records + 1 };
        if self.idle_records > limits::TLS_IDLE_RECORDS {
            return Err(protocol(format!("more than {} TLS records in a row without data", limits::TLS_IDLE_RECORDS)));
        }
        match kind {
            kind::DATA => self.plain = plain,
            kind::HANDSHAKE => self.messages(plain)?,
            kind::ALERT => self.alert(plain)?,
            _ => return Err(protocol(format!("a TLS record of kind {kind}"))),
        }
        Ok(true)
    }

    /// Messages that come after the handshake: tickets, new keys. Each stands in one record, as rustls writes them.
    fn messages(&mut self, plain: Range<usize>) -> Result<()> {
        const NEW_SESSION_TICKET: u8 = 4;
        const KEY_UPDATE: u8 = 24;
        let messages = self.input[plain].to_vec();
        let mut rest = &messages[..];
        while let [kind, a, b, c, after @ ..] = rest {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let (message, next) = after.split_at_checked(length).ok_or_else(|| protocol("a TLS message in more than one record"))?;
            rest = next;
            match (*kind, &mut self.end, message) {
                (NEW_SESSION_TICKET, End::Client(connection), ticket) => {
                    connection.handle_new_session_ticket(ticket).map_err(|e| protocol(format!("a TLS ticket: {e}")))?;
                }
                // Nothing may follow it that is encrypted with the old keys.
                (KEY_UPDATE, end, [wants_ours @ (0 | 1)]) if rest.is_empty() => {
                    self.opening = Keys::new(end.next_to_receive()?)?;
                    if *wants_ours == 1 {
                        self.refresh()?;
                    }
                }
                _ => return Err(protocol(format!("a TLS message of type {kind} after the handshake"))),
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(protocol("a TLS message in more than one record")) }
    }

    fn alert(&mut self, plain: Range<usize>) -> Result<()> {
        const CLOSE_NOTIFY: u8 = 0;
        const USER_CANCELED: u8 = 90;
        match self.input[plain] {
            [_, CLOSE_NOTIFY] => {
                self.is_closed = true;
                Ok(())
            }
            [_, USER_CANCELED] => Ok(()),
            [_, alert] => Err(protocol(format!("the peer ended the TLS session: {:?}", rustls::AlertDescription::from(alert)))),
            _ => Err(protocol("a TLS alert that is none")),
        }
    }

    /// Moves plaintext to `buffer`; how much.
    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let many = self.plain.len().min(buffer.len());
        let from = self.plain.start;
        buffer[..many].copy_from_slice(&self.input[from..from + many]);
        self.plain.start += many;
        many
    }

    /// Whether bytes of a record have come that is not there in full.
    fn is_within_record(&self) -> bool {
        self.begin < self.filled
    }

    /// The end of the connection, as a call that waits for data reports it.
    fn ended(&self) -> std::io::Result<usize> {
        match self.is_within_record() && !self.is_closed {
            true => Err(std::io::ErrorKind::UnexpectedEof.into()),
            false => Ok(0),
        }
    }

    /// One call on the socket, into a buffer of at least `room` bytes. There is no plaintext.
    fn fill(&mut self, socket: &TcpStream, room: usize, flags: RecvFlags) -> std::io::Result<Filled> {
        debug_assert!(self.plain.is_empty(), "it would be moved");
        if self.is_closed {
            return Ok(Filled::End);
        }
        if self.begin > 0 {
            // Less than a record, unless the handshake brought more.
            self.input.copy_within(self.begin..self.filled, 0);
            (self.begin, self.filled) = (0, self.filled - self.begin);
        }
        if self.input.len() < room {
            thalweg_bulk::resize(&mut self.input, room);
        }
        let many = socket::receive(socket, &mut self.input[self.filled..], flags)?;
        self.filled += many;
        Ok(match many {
            0 => Filled::End,
            _ if self.filled == self.input.len() => Filled::Full,
            _ => Filled::Some,
        })
    }

    fn wait(&self, socket: &TcpStream, silence: Duration) -> std::io::Result<()> {
        if self.is_closed { Ok(()) } else { socket::wait_readable(socket, silence) }
    }

    /// Waits for some bytes; 0: the peer has closed the connection.
    pub(in crate::transport) fn receive_some(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> std::io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while !self.has_data()? {
            if self.fill(socket, SMALL_BYTES, RecvFlags::empty())? == Filled::End {
                return self.ended();
            }
        }
        Ok(self.take(buffer))
    }

    pub(in crate::transport) fn receive_exact(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> std::io::Result<()> {
        let mut have = 0;
        while have < buffer.len() {
            match self.receive_some(socket, &mut buffer[have..])? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                many => have += many,
            }
        }
        Ok(())
    }

    pub(in crate::transport) fn receive_by(&mut self, socket: &TcpStream, buffer: &mut [u8], by: Instant) -> std::io::Result<bool> {
        let mut have = 0;
        while have < buffer.len() {
            if self.has_data()? {
                have += self.take(&mut buffer[have..]);
                continue;
            }
            self.wait(socket, by.saturating_duration_since(Instant::now()))?;
            match self.fill(socket, SMALL_BYTES, RecvFlags::DONTWAIT) {
                Ok(Filled::End) if self.ended()? == 0 && have == 0 => return Ok(false),
                Ok(Filled::End) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => return Err(e),
                _ => {}
            }
        }
        Ok(true)
    }

    /// Fills several pieces: the thread sleeps until half a megabyte is there, or what these pieces need at least. For that it counts
    /// what each record takes besides its plaintext; a peer that fills its records less sends more bytes, never fewer, so this cannot
    /// wait for bytes that do not come.
    pub(in crate::transport) fn receive_pieces(
        &mut self,
        socket: &TcpStream,
        pieces: &mut [IoSliceMut<'_>],
        silence: Duration,
    ) -> std::io::Result<()> {
        let mut left: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut rest = pieces;
        let mut wake = socket::Wake::new(socket);
        let mut filled = Filled::Some;
        while left > 0 {
            if self.has_data()? {
                let Some(piece) = rest.first_mut() else { break };
                let many = self.take(piece);
                IoSliceMut::advance_slices(&mut rest, many);
                left -= many;
                continue;
            }
            let encrypted = left + left.div_ceil(PLAIN_BYTES) * OVERHEAD_BYTES;
            if filled != Filled::Full {
                wake.at((encrypted - (self.filled - self.begin).min(encrypted)).clamp(1, limits::WAKE_BYTES));
                self.wait(socket, silence)?;
            }
            filled = match self.fill(socket, encrypted.clamp(SMALL_BYTES, LARGE_BYTES), RecvFlags::DONTWAIT) {
                Ok(Filled::End) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(filled) => filled,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Filled::Some,
                Err(e) => return Err(e),
            };
        }
        Ok(())
    }

    /// Waits until there is plaintext, or the end. Part of a record is progress too: the call that takes it waits for the rest.
    pub(in crate::transport) fn wait_readable(&mut self, socket: &TcpStream, silence: Duration) -> std::io::Result<()> {
        while !self.has_data()? && !self.is_within_record() {
            self.wait(socket, silence)?;
            match self.fill(socket, SMALL_BYTES, RecvFlags::DONTWAIT) {
                Ok(Filled::End) => return Ok(()),
                Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether there is plaintext, or part of it, or the end.
    pub(in crate::transport) fn is_readable(&mut self, socket: &TcpStream) -> bool {
        loop {
            match self.has_data() {
                Ok(false) if !self.is_within_record() => {}
                _ => return true,
            }
            match self.fill(socket, SMALL_BYTES, RecvFlags::DONTWAIT) {
                Ok(Filled::End) => return true,
                Ok(_) => {}
                Err(e) => return e.kind() != std::io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Fills `buffer` as far as that goes without waiting; 0: the peer has closed the connection.
    pub(in crate::transport) fn try_receive(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut have = 0;
        while have < buffer.len() {
            // What has been received is handed on first; the error, or the end, is found again by the next call.
            match self.has_data() {
                Ok(true) => {
                    have += self.take(&mut buffer[have..]);
                    continue;
                }
                Err(e) if have == 0 => return Err(e),
                Err(_) => break,
                Ok(false) => {}
            }
            match self.fill(socket, SMALL_BYTES, RecvFlags::DONTWAIT) {
                Ok(Filled::End) if have == 0 => return self.ended(),
                Err(e) if have == 0 => return Err(e),
                Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => {
                    self.fault = Some(Error::system("connection lost", e));
                    break;
                }
                Ok(Filled::End) | Err(_) => break,
                Ok(_) => {}
            }
        }
        Ok(have)
    }
}

impl End {
    fn next_to_send(&mut self) -> Result<(u64, ConnectionTrafficSecrets)> {
        let keys = match self {
            End::Client(connection) => connection.update_tx_secret(),
            End::Server(connection) => connection.update_tx_secret(),
        };
        keys.map_err(no_keys)
    }

    fn next_to_receive(&mut self) -> Result<(u64, ConnectionTrafficSecrets)> {
        let keys = match self {
            End::Client(connection) => connection.update_rx_secret(),
            End::Server(connection) => connection.update_rx_secret(),
        };
        keys.map_err(no_keys)
    }
}

fn no_keys(error: rustls::Error) -> Error {
    Error::new(ErrorKind::Protocol, format!("new TLS keys: {error}"))
}
