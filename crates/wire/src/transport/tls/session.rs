//! An open TLS connection: record buffers, and the handling of records without data.
//!
//! Decryption is lazy: a record is decrypted when the plaintext of the previous one has been consumed. Between calls there is at
//! most one record's plaintext, and whole records may be buffered behind it that the socket no longer shows: check
//! [`Session::has_data`] before waiting for the socket.

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

/// Plaintext encrypted per send call: half a payload. Smaller calls cost the kernel more (`examples/tls.rs` measured 0.65 of the
/// plain rate with half a payload, 0.5 with an eighth); with a whole one, encryption and reception overlap less.
const SEND_BYTES: usize = 32 * PLAIN_BYTES;
/// Receive buffer sizes, for small messages and for large ones.
const SMALL_BYTES: usize = 2 * RECORD_BYTES;
const LARGE_BYTES: usize = 256 << 10;

/// The result of a handshake.
pub(super) struct Opened<'a> {
    pub end: End,
    pub secrets: ExtractedSecrets,
    pub suite: &'static Tls13CipherSuite,
    pub binding: [u8; 32],
    pub fingerprint: Fingerprint,
    pub is_resumed: bool,
    /// Records received behind the handshake.
    pub received: &'a [u8],
}

/// The rustls connection, which keeps tickets and derives new keys.
pub(super) enum End {
    Client(Box<KernelConnection<ClientConnectionData>>),
    Server(Box<KernelConnection<ServerConnectionData>>),
}

/// An open connection.
pub(in crate::transport) struct Session {
    end: End,
    sealing: Keys,
    opening: Keys,
    /// Records after which the sending keys are changed.
    pub(in crate::transport) refresh_after: u64,
    /// Encrypted bytes; to be sent from `sent` on.
    output: Vec<u8>,
    sent: usize,
    /// `[begin..filled]` is received and encrypted; `plain`, before it, is the last record's plaintext not yet consumed.
    input: Vec<u8>,
    begin: usize,
    filled: usize,
    plain: Range<usize>,
    /// Consecutive records without data; limited, so that a peer cannot occupy the thread with them.
    idle_records: u32,
    /// The peer has announced the end of its data.
    is_closed: bool,
    /// The error after which nothing received is trusted.
    fault: Option<Error>,
    pub(in crate::transport) binding: [u8; 32],
    pub(in crate::transport) fingerprint: Fingerprint,
    pub(in crate::transport) is_resumed: bool,
}

/// The result of one receive call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// Some bytes; more may follow.
    Some,
    /// The buffer is full.
    Full,
    End,
}

impl Session {
    pub(super) fn new(opened: Opened<'_>) -> Result<Session> {
        let mut input = opened.received.to_vec();
        input.resize(SMALL_BYTES.max(input.len()), 0);
        Ok(Session {
            end: opened.end,
            sealing: Keys::new(opened.secrets.tx)?,
            opening: Keys::new(opened.secrets.rx)?,
            // Half the safe number.
            refresh_after: opened.suite.common.confidentiality_limit / 2,
            output: Vec::new(),
            sent: 0,
            input,
            begin: 0,
            filled: opened.received.len(),
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
        // A header in front of a payload slightly exceeds the limit: its excess goes along.
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

    /// Announces new keys under the old ones, and encrypts with the new ones from here on.
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

    /// Accepts some of `bytes`, once everything accepted before is sent.
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

    /// Whether there is plaintext; decrypts the next record if there is none and a whole one has arrived.
    ///
    /// # Errors
    /// The data was altered, or is not what a peer may send. The error is permanent.
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

    /// Decrypts the next record; `false`: it has not arrived in full.
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

    /// Handles messages after the handshake: tickets and key updates. Each is in one record, as rustls writes them.
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
                // Nothing encrypted with the old keys may follow.
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
            _ => Err(protocol("an invalid TLS alert")),
        }
    }

    /// Moves plaintext to `buffer`; returns the number of bytes.
    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let many = self.plain.len().min(buffer.len());
        let from = self.plain.start;
        buffer[..many].copy_from_slice(&self.input[from..from + many]);
        self.plain.start += many;
        many
    }

    /// Whether part of a record has arrived.
    fn is_within_record(&self) -> bool {
        self.begin < self.filled
    }

    /// Returns what a waiting call reports at the end of the connection.
    fn ended(&self) -> std::io::Result<usize> {
        match self.is_within_record() && !self.is_closed {
            true => Err(std::io::ErrorKind::UnexpectedEof.into()),
            false => Ok(0),
        }
    }

    /// Makes one receive call, into a buffer of at least `room` bytes. Plaintext must have been consumed.
    fn fill(&mut self, socket: &TcpStream, room: usize, flags: RecvFlags) -> std::io::Result<Filled> {
        debug_assert!(self.plain.is_empty(), "it would be moved");
        if self.is_closed {
            return Ok(Filled::End);
        }
        if self.begin > 0 {
            // Less than a record, unless more came with the handshake.
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

    /// Fills several pieces. The thread sleeps until half a megabyte has arrived, or the minimum these pieces need, including
    /// each record's overhead. A peer with smaller records sends more bytes, never fewer, so this never waits for bytes that do
    /// not come.
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

    /// Waits for plaintext or the end. A partial record counts as progress: the call that consumes it waits for the rest.
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

    /// Whether there is plaintext, part of a record, or the end.
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

    /// Fills `buffer` as far as possible without blocking; 0: the peer has closed the connection.
    pub(in crate::transport) fn try_receive(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut have = 0;
        while have < buffer.len() {
            // Received data is returned first; the next call finds the error or the end again.
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
