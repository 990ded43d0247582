//! A Parquet file for its reader: verified bytes, one range of them in memory.

use super::checksums::{BLOCK_BYTES, FileSums};
use crate::TraceError;
use bytes::{Buf, Bytes, buf::Reader};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Runs a Parquet reader's code, which expects well-formed files: without checksums, damage may make it panic. A
/// panic becomes an error about the file.
pub(super) fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TraceError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::External(inner))) => match inner.downcast::<TraceError>() {
            Ok(ours) => Err(*ours),
            Err(other) => Err(TraceError::new(path, format!("is damaged or cut short: {other}"))),
        },
        Ok(Err(error)) => Err(TraceError::new(path, format!("is damaged or cut short: {error}"))),
        Err(_) => Err(TraceError::new(path, "is damaged: it is not valid Parquet")),
    }
}

/// The file.
pub(super) struct Window {
    path: PathBuf,
    file: File,
    length: u64,
    sums: Option<FileSums>,
    base: u64,
    bytes: Bytes,
}

impl Window {
    pub(super) fn new(path: &Path, sums: Option<&FileSums>) -> Result<Window, TraceError> {
        let failed = |e| TraceError::new(path, format!("cannot be read: {e}"));
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        if let Some(sums) = sums
            && sums.size_bytes != length
        {
            return Err(TraceError::new(path, format!("is cut short or was changed: it has {length} bytes, expected {}", sums.size_bytes)));
        }
        Ok(Window { path: path.to_owned(), file, length, sums: sums.cloned(), base: 0, bytes: Bytes::new() })
    }

    /// Loads bytes `start..end` into memory, verified.
    pub(super) fn load(&mut self, start: u64, end: u64) -> Result<(), TraceError> {
        (self.base, self.bytes) = self.fetch(start, end)?;
        Ok(())
    }

    /// Reads and verifies the blocks that contain `start..end`; returns the first one's offset and the bytes.
    fn fetch(&self, start: u64, end: u64) -> Result<(u64, Bytes), TraceError> {
        if start > end || end > self.length {
            let length = self.length;
            return Err(TraceError::new(
                &self.path,
                format!("is damaged or cut short: bytes {start} to {end} are needed, it has {length}"),
            ));
        }
        let block = BLOCK_BYTES as u64;
        let first = start / block;
        let base = first * block;
        let end = end.next_multiple_of(block).min(self.length);
        let mut bytes = vec![0; (end - base) as usize];
        self.file.read_exact_at(&mut bytes, base).map_err(|e| TraceError::new(&self.path, format!("cannot be read: {e}")))?;
        if let Some(sums) = &self.sums {
            sums.verify(&self.path, first as usize, &bytes)?;
        }
        Ok((base, bytes.into()))
    }
}

impl Length for Window {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Window {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        // Up to the end of the loaded bytes or, for the footer, of the file.
        let loaded_end = self.base + self.bytes.len() as u64;
        let end = if (self.base..loaded_end).contains(&start) { loaded_end } else { self.length.max(start) };
        Ok(self.get_bytes(start, (end - start) as usize)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.checked_add(length as u64).ok_or_else(|| ParquetError::EOF("a range past the end".to_owned()))?;
        if start >= self.base && end <= self.base + self.bytes.len() as u64 {
            let from = (start - self.base) as usize;
            return Ok(self.bytes.slice(from..from + length));
        }
        let (base, bytes) = self.fetch(start, end).map_err(|e| ParquetError::External(Box::new(e)))?;
        let from = (start - base) as usize;
        Ok(bytes.slice(from..from + length))
    }
}
