//! The sending end of one connection.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;

use crc_fast::{CrcAlgorithm, Digest};
use rustix::fs::sendfile;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::unit::{Method, Unit};
use crate::variant::{Look, Send};

pub fn crc32c() -> Digest {
    Digest::new(CrcAlgorithm::Crc32Iscsi)
}

/// A unit of a file, mapped; unmapped when dropped.
pub struct Mapping {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Mapping {
    pub fn new(file: &File, unit: Unit, write: bool) -> io::Result<Mapping> {
        let protection = if write { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing of ours; it is unmapped only in `drop`.
        let start = unsafe { mmap(std::ptr::null_mut(), unit.length, protection, flags, file, unit.offset)? };
        Ok(Mapping { start, length: unit.length })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is this long and lives as long as `self`; nobody truncates or writes the file while it is mapped.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }

    /// Only for a mapping made with `write`.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, to which no reference is left.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}

/// Checksums a unit without keeping it.
pub fn look(file: &File, unit: Unit, look: Look, buffer: &mut [u8], digest: &mut Digest) -> io::Result<()> {
    match look {
        Look::Mmap => digest.update(Mapping::new(file, unit, false)?.bytes()),
        Look::Read => {
            for part in unit.parts(buffer.len()) {
                let bytes = &mut buffer[..part.length];
                file.read_exact_at(bytes, part.offset)?;
                digest.update(bytes);
            }
        }
    }
    Ok(())
}

/// Sends all `units` of `file`; answers their CRC-32C if asked for.
pub fn send(file: &File, mut socket: &TcpStream, units: impl Iterator<Item = Unit>, method: Method) -> io::Result<Option<u64>> {
    let mut digest = method.variant.checksum.map(|_| crc32c());
    let mut buffer = vec![0; method.part_bytes];
    for unit in units {
        match method.variant.send {
            Send::Sendfile => {
                if let (Some(digest), Some(eyes)) = (&mut digest, method.variant.checksum) {
                    look(file, unit, eyes, &mut buffer, digest)?;
                }
                let (mut offset, end) = (unit.offset, unit.offset + unit.length as u64);
                while offset < end {
                    let left = (end - offset) as usize;
                    if sendfile(socket, file, Some(&mut offset), left)? == 0 {
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the source shrank"));
                    }
                }
            }
            Send::Read => {
                for part in unit.parts(buffer.len()) {
                    let bytes = &mut buffer[..part.length];
                    file.read_exact_at(bytes, part.offset)?;
                    digest.iter_mut().for_each(|digest| digest.update(bytes));
                    socket.write_all(bytes)?;
                }
            }
            Send::Mmap => {
                let mapping = Mapping::new(file, unit, false)?;
                for bytes in mapping.bytes().chunks(method.part_bytes) {
                    digest.iter_mut().for_each(|digest| digest.update(bytes));
                    socket.write_all(bytes)?;
                }
            }
        }
    }
    Ok(digest.map(|digest| digest.finalize()))
}
