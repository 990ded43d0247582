//! One Parquet file of a table: written with checksums, read one verified row group at a time.

use super::checksums::{FileSums, Summing};
use super::leaf::{Leaf, Values};
use super::row_group::RowGroup;
use super::window::{Window, guarded};
use super::{ROW_GROUP_ROWS, ROW_GROUP_ROWS_MOST};
use crate::TraceError;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the properties that all tables are written with.
pub(super) fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("1 is a level")))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(concat!("thalweg ", env!("CARGO_PKG_VERSION")).to_owned())
}

/// A table file being written.
pub(super) struct PartWriter {
    path: PathBuf,
    writer: SerializedFileWriter<Summing<BufWriter<File>>>,
}

impl PartWriter {
    /// Creates the file and its directory. `schema` is in Parquet's schema language.
    pub(super) fn create(path: &Path, schema: &str, properties: WriterProperties) -> Result<PartWriter, TraceError> {
        let failed = |e: std::io::Error| TraceError::new(path, format!("cannot be created: {e}"));
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let file = Summing::new(BufWriter::with_capacity(1 << 18, File::create(path).map_err(failed)?));
        let schema = parse_message_type(schema).expect("the schemas of tables are well-formed");
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(|e| TraceError::new(path, e))?;
        Ok(PartWriter { path: path.to_owned(), writer })
    }

    /// Appends a row group: the leaves of all columns, in schema order.
    pub(super) fn write(&mut self, leaves: &[Leaf]) -> Result<(), TraceError> {
        write_group(&mut self.writer, leaves).map_err(|e| TraceError::new(&self.path, format!("cannot be written: {e}")))
    }

    /// Finishes the file and returns its checksums.
    pub(super) fn finish(self) -> Result<FileSums, TraceError> {
        let failed = |e: &dyn std::fmt::Display| TraceError::new(&self.path, format!("cannot be written: {e}"));
        let mut summing = self.writer.into_inner().map_err(|e| failed(&e))?;
        summing.flush().map_err(|e| failed(&e))?;
        summing.finish().map_err(|e| failed(&e))
    }
}

fn write_group<W: Write + Send>(writer: &mut SerializedFileWriter<W>, leaves: &[Leaf]) -> Result<(), ParquetError> {
    let unfit = || ParquetError::General("columns do not fit the table's schema".to_owned());
    let mut group = writer.next_row_group()?;
    for leaf in leaves {
        let mut column = group.next_column()?.ok_or_else(unfit)?;
        let definition = (!leaf.definition.is_empty()).then_some(&leaf.definition[..]);
        let repetition = (!leaf.repetition.is_empty()).then_some(&leaf.repetition[..]);
        match (column.untyped(), &leaf.values) {
            (ColumnWriter::Int32ColumnWriter(to), Values::Int32(values)) => to.write_batch(values, definition, repetition)?,
            (ColumnWriter::Int64ColumnWriter(to), Values::Int64(values)) => to.write_batch(values, definition, repetition)?,
            (ColumnWriter::DoubleColumnWriter(to), Values::Double(values)) => to.write_batch(values, definition, repetition)?,
            (ColumnWriter::ByteArrayColumnWriter(to), Values::Texts(texts)) => to.write_batch(&texts.to_vec(), definition, repetition)?,
            _ => return Err(unfit()),
        };
        column.close()?;
    }
    group.close()?;
    Ok(())
}

/// A table file for reading. Holds its footer, not an open file: a recording may have thousands.
pub(super) struct Part {
    path: PathBuf,
    sums: Option<FileSums>,
    metadata: ParquetMetaData,
}

impl Part {
    /// Reads the footer.
    pub(super) fn open(path: &Path, sums: Option<FileSums>) -> Result<Part, TraceError> {
        let window = Window::new(path, sums.as_ref())?;
        let metadata = guarded(path, || ParquetMetaDataReader::new().parse_and_finish(&window))?;
        for group in metadata.row_groups() {
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
        self.metadata.num_row_groups()
    }

    pub(super) fn rows(&self) -> u64 {
        self.metadata.row_groups().iter().map(|g| g.num_rows() as u64).sum()
    }

    /// Reads the rows of one row group; `None` if it has none.
    pub(super) fn read(&self, row_group: usize) -> Result<Option<RowGroup<'_>>, TraceError> {
        let group = self.metadata.row_group(row_group);
        if group.num_rows() == 0 {
            return Ok(None);
        }
        let mut window = Window::new(&self.path, self.sums.as_ref())?;
        let ranges = guarded(&self.path, || Ok(group.columns().iter().map(|c| c.byte_range()).collect::<Vec<_>>()))?;
        let start = ranges.iter().map(|r| r.0).min().unwrap_or(0);
        let end = ranges.iter().map(|r| r.0.saturating_add(r.1)).max().unwrap_or(0);
        window.load(start, end)?;
        RowGroup::new(&self.path, window, row_group, group).map(Some)
    }
}
