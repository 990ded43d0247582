//! The negotiation between kernel and mount.

use super::abi::{self, init};
use super::device::Device;
use super::reply::{self, Agreement};
use super::request::{Operation, decode};
use std::io::{Error, ErrorKind, Result};

/// Maximum pages per request that is requested; the kernel has its own limit.
const MOST_PAGES: usize = 1024;
/// Maximum background requests (read-ahead, writeback of maps).
const BACKGROUND: u16 = 128;
/// Kernel read-ahead; the mount decides on any further read-ahead.
const READAHEAD_BYTES: u32 = 8 << 20;

/// Returns the kernel's limit of pages per request.
fn pages_limit() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/fs/fuse/max_pages_limit").ok().and_then(|t| t.trim().parse::<usize>().ok());
    limit.unwrap_or(256).clamp(32, MOST_PAGES)
}

/// Answers the kernel's first request; returns the maximum bytes of one write.
///
/// # Errors
/// When the kernel is too old, or the mount ended first.
pub(crate) fn shake_hands(device: &Device, strict: bool) -> Result<usize> {
    let mut memory = vec![0; 64 << 10];
    loop {
        let Some(length) = device.receive(&mut memory)? else {
            return Err(Error::new(ErrorKind::NotConnected, "the mount ended during the handshake"));
        };
        let (header, operation) = decode(&memory[..length]).map_err(Error::other)?;
        let Some(Operation::Init { major, minor, flags }) = operation else {
            device.answer(header.unique, libc::EIO, &[])?;
            continue;
        };
        let mut out = Vec::new();
        if major > abi::KERNEL_VERSION {
            // The kernel retries with our version.
            out.extend(abi::KERNEL_VERSION.to_ne_bytes());
            out.extend(abi::KERNEL_MINOR_VERSION.to_ne_bytes());
            device.answer(header.unique, 0, &out)?;
            continue;
        }
        if major < abi::KERNEL_VERSION || minor < abi::OLDEST_MINOR_VERSION {
            device.answer(header.unique, libc::EPROTO, &[])?;
            let problem = format!("the kernel speaks FUSE {major}.{minor}, at least 7.{} is needed", abi::OLDEST_MINOR_VERSION);
            return Err(Error::new(ErrorKind::Unsupported, problem));
        }
        let mut wanted = init::ASYNC_READ
            | init::ATOMIC_O_TRUNC
            | init::POSIX_LOCKS
            | init::FLOCK_LOCKS
            | init::BIG_WRITES
            | init::DO_READDIRPLUS
            | init::READDIRPLUS_AUTO
            | init::ASYNC_DIO
            | init::PARALLEL_DIROPS
            | init::MAX_PAGES
            | init::HANDLE_KILLPRIV_V2
            | init::INIT_EXT
            | init::DIRECT_IO_ALLOW_MMAP;
        if !strict {
            wanted |= init::CACHE_SYMLINKS;
        }
        let pages = pages_limit();
        let agreement = Agreement {
            readahead_bytes: READAHEAD_BYTES,
            flags: flags & wanted,
            background: BACKGROUND,
            write_bytes: (pages * abi::PAGE_BYTES) as u32,
            pages: pages as u16,
        };
        reply::agreement(&mut out, &agreement);
        device.answer(header.unique, 0, &out)?;
        return Ok(pages * abi::PAGE_BYTES);
    }
}
