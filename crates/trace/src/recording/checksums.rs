//! `checksums.json`: CRC-32C of every 16 KiB block of every table file.
//!
//! Parquet readers trust their input; ours sees only verified bytes. Blocks are small, so reading one row group
//! verifies little more than that. A recording whose tables another program rewrote may have no checksums; it is then
//! read unverified.

use crate::TraceError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use thalweg_bulk::crc32c;

pub(super) const BLOCK_BYTES: usize = 16 << 10;
pub(super) const NAME: &str = "checksums.json";

/// The checksums of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileSums {
    pub size_bytes: u64,
    pub crc32c: Vec<u32>,
}

impl FileSums {
    /// Verifies bytes that begin with block `first`; the error names the damaged block.
    pub(super) fn verify(&self, path: &Path, first: usize, bytes: &[u8]) -> Result<(), TraceError> {
        for (i, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            if self.crc32c.get(first + i) != Some(&crc32c(block)) {
                let at = (first + i) * BLOCK_BYTES;
                return Err(TraceError::new(path, format!("is damaged: {} bytes at {at} do not match their checksum", block.len())));
            }
        }
        Ok(())
    }
}

/// The checksums of a recording, by path within it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Checksums {
    block_bytes: usize,
    pub files: BTreeMap<String, FileSums>,
}

impl Checksums {
    pub(super) fn new() -> Checksums {
        Checksums { block_bytes: BLOCK_BYTES, files: BTreeMap::new() }
    }

    pub(super) fn write(&self, root: &Path) -> Result<(), TraceError> {
        let path = root.join(NAME);
        let text = serde_json::to_vec(self).map_err(|e| TraceError::new(&path, e))?;
        super::replace_file(&path, &text)
    }

    /// Reads the checksums in `root`; empty if there is no such file.
    pub(super) fn read(root: &Path) -> Result<Checksums, TraceError> {
        let path = root.join(NAME);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Checksums::new()),
            Err(e) => return Err(TraceError::new(&path, format!("cannot be read: {e}"))),
        };
        let sums: Checksums = serde_json::from_slice(&text).map_err(|e| TraceError::new(&path, format!("is damaged: {e}")))?;
        if sums.block_bytes != BLOCK_BYTES {
            return Err(TraceError::new(&path, format!("is damaged: blocks of {} bytes, expected {BLOCK_BYTES}", sums.block_bytes)));
        }
        Ok(sums)
    }
}

/// A writer that computes checksums of what passes through.
pub(super) struct Summing<W> {
    inner: W,
    block: Vec<u8>,
    sums: FileSums,
}

impl<W: Write> Summing<W> {
    pub(super) fn new(inner: W) -> Summing<W> {
        Summing { inner, block: Vec::with_capacity(BLOCK_BYTES), sums: FileSums::default() }
    }

    /// Flushes, and returns the checksums.
    pub(super) fn finish(mut self) -> std::io::Result<FileSums> {
        self.inner.flush()?;
        if !self.block.is_empty() {
            self.sums.crc32c.push(crc32c(&self.block));
        }
        Ok(self.sums)
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = (BLOCK_BYTES - self.block.len()).min(bytes.len());
        self.inner.write_all(&bytes[..taken])?;
        self.block.extend_from_slice(&bytes[..taken]);
        self.sums.size_bytes += taken as u64;
        if self.block.len() == BLOCK_BYTES {
            self.sums.crc32c.push(crc32c(&self.block));
            self.block.clear();
        }
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
