//! Frames: a head and raw bytes, each behind its length.

use crate::failure::Failure;
use parking_lot::Mutex;
use serde_json::Value;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_wire::ErrorKind;

/// The protocol, in the greeting: a change that a client could stumble over increases the number.
pub(super) const PROTOCOL: &str = "thalweg.session/1";
/// Bound: bytes of a head. Instead: a listing is answered in pages.
pub(super) const HEAD_BYTES: usize = 1 << 20;
/// Bound: raw bytes of a frame. Instead: larger reads and writes are several requests, which overlap.
pub(super) const BODY_BYTES: usize = 16 << 20;
/// Bound: bytes of memory that a thread keeps for its next read.
const KEPT_BYTES: usize = BODY_BYTES / 2;
/// Bytes of the two lengths.
const LENGTHS_BYTES: usize = 8;

/// A frame received.
pub(super) struct Frame {
    pub head: Vec<u8>,
    pub body: Vec<u8>,
}

/// Why the input cannot be understood from here on.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// A length exceeds its bound.
    TooLong {
        what: &'static str,
        bytes: u32,
        most: usize,
    },
    /// The head is not a JSON object with a number.
    NoRequest(String),
    /// The input ended within a frame.
    CutOff,
    Input(io::Error),
}

impl Unreadable {
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Unreadable::Input(_) => ErrorKind::Io,
            _ => ErrorKind::Protocol,
        }
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unreadable::TooLong { what, bytes, most } => {
                write!(f, "a frame whose {what} has {bytes} bytes: expected at most {most}; does the client speak {}?", PROTOCOL)
            }
            Unreadable::NoRequest(why) => write!(f, "a head that is no request ({why}): expected a JSON object with a number as its `id`"),
            Unreadable::CutOff => f.write_str("standard input ended within a frame: the request was not carried out"),
            Unreadable::Input(error) => write!(f, "standard input: {error}"),
        }
    }
}

/// Receives a frame; `None` at the end of the input.
///
/// # Errors
/// The input is no frame.
pub(super) fn receive(input: &mut dyn Read) -> Result<Option<Frame>, Unreadable> {
    let mut lengths = [0; LENGTHS_BYTES];
    match fill(input, &mut lengths)? {
        0 => return Ok(None),
        LENGTHS_BYTES => {}
        _ => return Err(Unreadable::CutOff),
    }
    let length = |at: usize| u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]);
    for (what, at, most) in [("head", 0, HEAD_BYTES), ("body", 4, BODY_BYTES)] {
        if length(at) as usize > most {
            return Err(Unreadable::TooLong { what, bytes: length(at), most });
        }
    }
    Ok(Some(Frame { head: part(input, length(0))?, body: part(input, length(4))? }))
}

fn part(input: &mut dyn Read, bytes: u32) -> Result<Vec<u8>, Unreadable> {
    let mut part = vec![0; bytes as usize];
    if fill(input, &mut part)? < part.len() {
        return Err(Unreadable::CutOff);
    }
    Ok(part)
}

/// Reads until `bytes` are full, or the input ends; returns how many there are.
fn fill(input: &mut dyn Read, bytes: &mut [u8]) -> Result<usize, Unreadable> {
    let mut have = 0;
    while have < bytes.len() {
        match input.read(&mut bytes[have..]) {
            Ok(0) => break,
            Ok(read) => have += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Unreadable::Input(error)),
        }
    }
    Ok(have)
}

/// Where answers go: standard output, whole frames at a time.
pub(super) struct Output {
    to: Mutex<File>,
    broken: AtomicBool,
}

impl Output {
    /// Opens standard output.
    pub(super) fn standard() -> Result<Output, Failure> {
        let to = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Output { to: Mutex::new(File::from(to)), broken: AtomicBool::new(false) })
    }

    /// Sends a frame. [`Output::is_broken`] tells whether anybody still reads the output.
    pub(super) fn send(&self, head: &Value, body: &[u8]) {
        let head = head.to_string().into_bytes();
        let mut lengths = [0; LENGTHS_BYTES];
        lengths[..4].copy_from_slice(&(head.len() as u32).to_le_bytes());
        lengths[4..].copy_from_slice(&(body.len() as u32).to_le_bytes());
        let mut to = self.to.lock();
        if !self.is_broken() && write_all(&mut *to, &[&lengths, &head, body]).is_err() {
            self.broken.store(true, Ordering::Release);
        }
    }

    /// Whether the client has closed its end.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }
}

/// Memory of a thread, for the raw bytes of its answers. It is used again without being zeroed: that would cost as much as reading.
#[derive(Default)]
pub(super) struct Memory {
    bytes: Vec<u8>,
    length: usize,
}

impl Memory {
    /// Makes room for an answer of this length, and returns it.
    pub(super) fn take(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length {
            self.bytes = vec![0; length];
        }
        self.length = length;
        &mut self.bytes[..length]
    }

    /// Returns the bytes of the answer.
    pub(super) fn answer(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Begins the next answer, without bytes. Much memory is given back.
    pub(super) fn clear(&mut self) {
        self.length = 0;
        if self.bytes.len() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}

fn write_all(to: &mut dyn Write, parts: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match to.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(head: &[u8], body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(body);
        bytes
    }

    /// Gives one byte at a time, as a slow pipe may.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let many = buffer.len().min(1).min(self.0.len());
            buffer[..many].copy_from_slice(&self.0[..many]);
            self.0 = &self.0[many..];
            Ok(many)
        }
    }

    #[test]
    fn frames_are_received_whole_and_a_cut_is_told_from_the_end() {
        let bytes = [framed(b"{}", b"raw"), framed(b"", b"")].concat();
        let mut input = Slow(&bytes);
        let first = receive(&mut input).unwrap().unwrap();
        assert_eq!((&first.head[..], &first.body[..]), (&b"{}"[..], &b"raw"[..]));
        assert!(receive(&mut input).unwrap().unwrap().head.is_empty());
        assert!(receive(&mut input).unwrap().is_none());
        for cut in 1..framed(b"{}", b"raw").len() {
            assert!(matches!(receive(&mut &bytes[..cut]), Err(Unreadable::CutOff)), "{cut}");
        }
    }

    #[test]
    fn lengths_are_bounded_before_memory_is_taken() {
        let told = |head: u32, body: u32| [head.to_le_bytes(), body.to_le_bytes()].concat();
        for (bytes, what) in [(told(u32::MAX, 0), "head"), (told(9, u32::MAX), "body"), (b"GET / HTTP/1.1\r\n".to_vec(), "head")] {
            let error = receive(&mut &bytes[..]).err().unwrap();
            assert!(matches!(error, Unreadable::TooLong { what: found, .. } if found == what), "{error}");
            assert!(error.to_string().contains("thalweg.session/1"), "{error}");
        }
    }

    #[test]
    fn what_is_written_in_parts_arrives_whole() {
        /// Takes three bytes at a time.
        struct Narrow(Vec<u8>);
        impl Write for Narrow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let many = bytes.len().min(3);
                self.0.extend_from_slice(&bytes[..many]);
                Ok(many)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut to = Narrow(Vec::new());
        write_all(&mut to, &[b"abcd", b"", b"efghi", b""]).unwrap();
        assert_eq!(to.0, b"abcdefghi");
    }
}
