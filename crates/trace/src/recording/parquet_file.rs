//! One Parquet file of a table: written with checksums, read one verified row group at a time.

use super::checksums::{BLOCK_BYTES, FileSums, Summing};
use super::{ROW_GROUP_ROWS, ROW_GROUP_ROWS_MOST};
use crate::TraceError;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::{Buf, Bytes, buf::Reader};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// What all tables are written with.
pub(super) fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("1 is a level")))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(concat!("thalweg ", env!("CARGO_PKG_VERSION")).to_owned())
}

/// A file that is being written.
pub(super) struct PartWriter {
    path: PathBuf,
    writer: ArrowWriter<Summing<BufWriter<File>>>,
}

impl PartWriter {
    /// Makes the file, and the directory it is in.
    pub(super) fn create(path: &Path, schema: SchemaRef, properties: WriterProperties) -> Result<PartWriter, TraceError> {
        let failed = |e: std::io::Error| TraceError::new(path, format!("cannot be made: {e}"));
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let file = Summing::new(BufWriter::with_capacity(1 << 18, File::create(path).map_err(failed)?));
        let writer = ArrowWriter::try_new(file, schema, Some(properties)).map_err(|e| TraceError::new(path, e))?;
        Ok(PartWriter { path: path.to_owned(), writer })
    }

    /// Appends rows.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), TraceError> {
        self.writer.write(batch).map_err(|e| TraceError::new(&self.path, format!("cannot be written: {e}")))
    }

    /// Ends the file.
    pub(super) fn finish(self) -> Result<FileSums, TraceError> {
        let failed = |e: &dyn std::fmt::Display| TraceError::new(&self.path, format!("cannot be written: {e}"));
        let mut summing = self.writer.into_inner().map_err(|e| failed(&e))?;
        summing.flush().map_err(|e| failed(&e))?;
        summing.finish().map_err(|e| failed(&e))
    }
}

/// A file that can be read. Holds its footer, not the open file: a recording may have thousands.
pub(super) struct Part {
    path: PathBuf,
    sums: Option<FileSums>,
    metadata: ArrowReaderMetadata,
}

impl Part {
    /// Reads the footer.
    pub(super) fn open(path: &Path, sums: Option<FileSums>) -> Result<Part, TraceError> {
        let window = Window::new(path, sums.as_ref())?;
        let metadata = guarded(path, || ArrowReaderMetadata::load(&window, ArrowReaderOptions::new()))?;
        for group in metadata.metadata().row_groups() {
            if !(0..=ROW_GROUP_ROWS_MOST as i64).contains(&group.num_rows()) {
                let most = ROW_GROUP_ROWS_MOST;
                return Err(TraceError::new(path, format!("has a row group of {} rows; at most {most} are read", group.num_rows())));
            }
        }
        Ok(Part { path: path.to_owned(), sums, metadata })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn row_groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    pub(super) fn rows(&self) -> u64 {
        self.metadata.metadata().row_groups().iter().map(|g| g.num_rows() as u64).sum()
    }

    /// The rows of one row group; `None` if it has none.
    pub(super) fn read(&self, row_group: usize) -> Result<Option<RecordBatch>, TraceError> {
        let group = self.metadata.metadata().row_group(row_group);
        let rows = group.num_rows() as usize;
        let mut window = Window::new(&self.path, self.sums.as_ref())?;
        let ranges = guarded(&self.path, || Ok(group.columns().iter().map(|c| c.byte_range()).collect::<Vec<_>>()))?;
        let start = ranges.iter().map(|r| r.0).min().unwrap_or(0);
        let end = ranges.iter().map(|r| r.0.saturating_add(r.1)).max().unwrap_or(0);
        window.load(start, end)?;
        guarded(&self.path, || {
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(window, self.metadata.clone());
            let mut reader = builder.with_row_groups(vec![row_group]).with_batch_size(rows.max(1)).build()?;
            match reader.next().transpose()? {
                Some(batch) if batch.num_rows() == rows => Ok(Some(batch)),
                None if rows == 0 => Ok(None),
                _ => Err(ParquetError::General("a row group has fewer rows than it says".to_owned())),
            }
        })
    }
}

/// Runs a Parquet reader's code. It is made for well-formed files: where there are no checksums to keep
/// damage from it, it may panic, which is an error about the file.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TraceError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::External(inner))) => match inner.downcast::<TraceError>() {
            Ok(ours) => Err(*ours),
            Err(other) => Err(TraceError::new(path, format!("is damaged or cut short: {other}"))),
        },
        Ok(Err(error)) => Err(TraceError::new(path, format!("is damaged or cut short: {error}"))),
        Err(_) => Err(TraceError::new(path, "is damaged: it makes no sense as Parquet")),
    }
}

/// A file as the Parquet reader sees it: verified bytes, one range of them in memory.
struct Window {
    path: PathBuf,
    file: File,
    length: u64,
    sums: Option<FileSums>,
    base: u64,
    bytes: Bytes,
}

impl Window {
    fn new(path: &Path, sums: Option<&FileSums>) -> Result<Window, TraceError> {
        let failed = |e| TraceError::new(path, format!("cannot be read: {e}"));
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        if let Some(sums) = sums
            && sums.size_bytes != length
        {
            return Err(TraceError::new(
                path,
                format!("is cut short or was changed: it has {length} bytes, it was written with {}", sums.size_bytes),
            ));
        }
        Ok(Window { path: path.to_owned(), file, length, sums: sums.cloned(), base: 0, bytes: Bytes::new() })
    }

    /// Has bytes `start..end` in memory, verified.
    fn load(&mut self, start: u64, end: u64) -> Result<(), TraceError> {
        (self.base, self.bytes) = self.fetch(start, end)?;
        Ok(())
    }

    /// Reads and verifies the blocks that hold `start..end`; gives the first one's place and the bytes.
    fn fetch(&self, start: u64, end: u64) -> Result<(u64, Bytes), TraceError> {
        if start > end || end > self.length {
            let length = self.length;
            return Err(TraceError::new(
                &self.path,
                format!("is damaged or cut short: bytes {start} to {end} are asked for, it has {length}"),
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
        // To the end of what is in memory, or, for the footer, of the file.
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
