//! The receiving end of one connection.

use std::fs::File;
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, pipe, splice};

use crate::send::{Mapping, crc32c, look};
use crate::unit::{Method, Unit};
use crate::variant::Receive;

/// A pipe that holds a megabyte, which any user may have.
const PIPE_BYTES: usize = 1 << 20;

/// Receives units of these lengths into `file`, one after the other; answers their CRC-32C if asked for.
pub fn receive(mut socket: &TcpStream, file: &File, lengths: impl Iterator<Item = usize>, method: Method) -> io::Result<Option<u64>> {
    let mut digest = method.variant.checksum.map(|_| crc32c());
    let mut buffer = vec![0; method.part_bytes];
    let pipe = match method.variant.receive {
        Receive::Splice => Some(large_pipe()?),
        _ => None,
    };
    let mut offset = 0;
    for length in lengths {
        let unit = Unit { offset, length };
        match method.variant.receive {
            Receive::Splice => {
                splice_unit(socket, pipe.as_ref().expect("made above"), file, unit)?;
                if let (Some(digest), Some(eyes)) = (&mut digest, method.variant.checksum) {
                    look(file, unit, eyes, &mut buffer, digest)?;
                }
            }
            Receive::Write => {
                for part in unit.parts(buffer.len()) {
                    let bytes = &mut buffer[..part.length];
                    socket.read_exact(bytes)?;
                    digest.iter_mut().for_each(|digest| digest.update(bytes));
                    file.write_all_at(bytes, part.offset)?;
                }
            }
            Receive::Mmap => {
                file.set_len(unit.offset + length as u64)?;
                let mut mapping = Mapping::new(file, unit, true)?;
                for bytes in mapping.bytes_mut().chunks_mut(method.part_bytes) {
                    socket.read_exact(bytes)?;
                    digest.iter_mut().for_each(|digest| digest.update(bytes));
                }
            }
        }
        offset += length as u64;
    }
    Ok(digest.map(|digest| digest.finalize()))
}

fn large_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe()?;
    // Where the user's pipes are limited, the usual size does.
    let _ = fcntl_setpipe_size(&write, PIPE_BYTES);
    Ok((read, write))
}

fn splice_unit(socket: &TcpStream, (read, write): &(OwnedFd, OwnedFd), file: &File, unit: Unit) -> io::Result<()> {
    let (mut at, end) = (unit.offset, unit.offset + unit.length as u64);
    while at < end {
        let mut held = splice(socket.as_fd(), None, write, None, (end - at) as usize, SpliceFlags::MOVE | SpliceFlags::MORE)?;
        if held == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the sender closed early"));
        }
        while held > 0 {
            // Advances `at`.
            held -= splice(read, None, file.as_fd(), Some(&mut at), held, SpliceFlags::MOVE)?;
        }
    }
    Ok(())
}
