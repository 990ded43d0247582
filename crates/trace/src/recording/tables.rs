//! Locates the files of a table; reads and writes whole tables.

use super::checksums::Checksums;
use super::leaf::Leaf;
use super::parquet_file::{Part, PartWriter, properties};
use super::small_tables::Table;
use super::span_table;
use super::{ROW_GROUP_ROWS, ROW_GROUP_ROWS_LEAST};
use crate::{HostId, Span, TraceError};
use std::path::Path;

/// Every table, by directory name.
pub(super) const ALL: [&str; 9] = ["hosts", "clocks", "tracks", "objects", span_table::NAME, "marks", "counters", "samples", "stacks"];

fn part_name(table: &str, host: HostId) -> String {
    format!("{table}/host={}/part-0.parquet", host.0)
}

/// Writes the table files of one recording, with their checksums.
pub(super) struct TablesWriter<'a> {
    root: &'a Path,
    pub sums: Checksums,
}

impl<'a> TablesWriter<'a> {
    pub(super) fn new(root: &'a Path) -> TablesWriter<'a> {
        TablesWriter { root, sums: Checksums::new() }
    }

    /// Returns a writer that takes rows in order of their hosts and puts each host's into its own file.
    pub(super) fn table<T: Table + Clone>(&mut self) -> HostFiles<'_, T> {
        let open = Box::new(|path: &Path| PartWriter::create(path, T::SCHEMA, properties().build()));
        HostFiles {
            root: self.root,
            table: T::NAME,
            sums: &mut self.sums,
            rows: Vec::new(),
            most: ROW_GROUP_ROWS,
            open,
            columns: T::columns,
            now: None,
        }
    }

    /// Returns a writer of spans; with many hosts the row groups are smaller, because a reader holds one of each
    /// host.
    pub(super) fn spans(&mut self, hosts: usize) -> HostFiles<'_, Span> {
        let most = ((1 << 20) / hosts.max(1)).clamp(ROW_GROUP_ROWS_LEAST, ROW_GROUP_ROWS);
        let open = Box::new(move |path: &Path| PartWriter::create(path, span_table::SCHEMA, span_table::spans_properties(most)));
        let columns = span_table::spans_columns;
        HostFiles { root: self.root, table: span_table::NAME, sums: &mut self.sums, rows: Vec::new(), most, open, columns, now: None }
    }
}

type Open = dyn Fn(&Path) -> Result<PartWriter, TraceError>;

/// The files of one table, one host after another.
pub(super) struct HostFiles<'a, R> {
    root: &'a Path,
    table: &'static str,
    sums: &'a mut Checksums,
    rows: Vec<R>,
    most: usize,
    open: Box<Open>,
    columns: fn(&[R]) -> Vec<Leaf>,
    now: Option<(HostId, PartWriter)>,
}

impl<R> HostFiles<'_, R> {
    /// Adds a row; the rows of a host must be consecutive.
    pub(super) fn push(&mut self, host: HostId, row: R) -> Result<(), TraceError> {
        if self.now.as_ref().is_none_or(|now| now.0 != host) {
            self.end_file()?;
            self.begin_file(host)?;
        }
        self.rows.push(row);
        if self.rows.len() >= self.most { self.write() } else { Ok(()) }
    }

    fn begin_file(&mut self, host: HostId) -> Result<(), TraceError> {
        self.now = Some((host, (self.open)(&self.root.join(part_name(self.table, host)))?));
        Ok(())
    }

    fn write(&mut self) -> Result<(), TraceError> {
        if let Some((_, file)) = &mut self.now {
            file.write(&(self.columns)(&self.rows))?;
        }
        self.rows.clear();
        Ok(())
    }

    fn end_file(&mut self) -> Result<(), TraceError> {
        if !self.rows.is_empty() {
            self.write()?;
        }
        if let Some((host, file)) = self.now.take() {
            self.sums.files.insert(part_name(self.table, host), file.finish()?);
        }
        Ok(())
    }

    /// Finishes the last file. A table without rows gets one empty file, so that its columns are known.
    pub(super) fn finish(mut self) -> Result<(), TraceError> {
        if self.now.is_none() {
            self.begin_file(HostId(0))?;
        }
        self.end_file()
    }
}

/// Returns the files of a table, with their hosts.
pub(super) fn parts(root: &Path, table: &str, sums: &Checksums) -> Result<Vec<(HostId, Part)>, TraceError> {
    let directory = root.join(table);
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => TraceError::new(root, format!("the table `{table}` is missing: the recording is not complete")),
        _ => TraceError::new(&directory, format!("cannot be read: {e}")),
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?.path();
        let label = entry.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("host="));
        let Some(label) = label else { continue };
        let host = label.parse().map(HostId).map_err(|_| TraceError::new(&entry, "must be named after a host's number"))?;
        for file in std::fs::read_dir(&entry).map_err(failed)? {
            let file = file.map_err(failed)?.path();
            if file.extension().is_some_and(|x| x == "parquet") {
                paths.push((host, file));
            }
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(TraceError::new(&directory, format!("the table `{table}` is missing: there is no Parquet file in its directory")));
    }
    let open = |(host, path): (HostId, std::path::PathBuf)| {
        let within = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        Ok((host, Part::open(&path, sums.files.get(&within).cloned())?))
    };
    paths.into_iter().map(open).collect()
}

/// Reads all rows of a table that fits into memory.
pub(super) fn read_all<T: Table>(root: &Path, sums: &Checksums) -> Result<Vec<T>, TraceError> {
    let mut rows = Vec::new();
    for (host, part) in parts(root, T::NAME, sums)? {
        for group in 0..part.row_groups() {
            if let Some(columns) = part.read(group)? {
                rows.extend(T::rows(host, &columns)?);
            }
        }
    }
    Ok(rows)
}
