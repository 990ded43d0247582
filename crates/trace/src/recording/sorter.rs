//! External sort: sorted runs in temporary files, then one merge over them.
//!
//! Up to [`RUN_ROWS`] rows stay in memory; a recording with fewer never touches the disk. If there would be more than
//! [`FAN_IN`] runs, that many are first merged into one, so that the number of open files is bounded too.

use crate::TraceError;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Host, time, identifier.
pub(crate) type Key = (u16, i64, u64);

/// A row with a sort key.
pub(crate) trait Sortable: Copy + Serialize + DeserializeOwned {
    fn key(&self) -> Key;
}

const RUN_ROWS: usize = 512 << 10;
const FAN_IN: usize = 64;
const CHUNK_ROWS: usize = 512;

/// Takes rows in any order and returns them in order of their keys.
pub(crate) struct Sorter<R> {
    directory: PathBuf,
    name: &'static str,
    run_rows: usize,
    rows: Vec<R>,
    /// Runs, by the number of merges their rows have been through.
    runs: Vec<Vec<PathBuf>>,
    made: u32,
}

impl<R: Sortable> Sorter<R> {
    /// Creates a sorter whose runs go to the existing `directory`, in files that begin with `name`.
    pub(crate) fn new(directory: &Path, name: &'static str) -> Sorter<R> {
        Sorter::with_run_rows(directory, name, RUN_ROWS)
    }

    fn with_run_rows(directory: &Path, name: &'static str, run_rows: usize) -> Sorter<R> {
        Sorter { directory: directory.to_owned(), name, run_rows, rows: Vec::new(), runs: Vec::new(), made: 0 }
    }

    pub(crate) fn push(&mut self, row: R) -> Result<(), TraceError> {
        self.rows.push(row);
        if self.rows.len() >= self.run_rows { self.spill() } else { Ok(()) }
    }

    /// Returns the order of the rows in memory. Keys are sorted rather than rows, which are four times as large.
    fn order(&self) -> Vec<(Key, u32)> {
        let mut order: Vec<(Key, u32)> = self.rows.iter().enumerate().map(|(i, row)| (row.key(), i as u32)).collect();
        order.sort_unstable();
        order
    }

    fn spill(&mut self) -> Result<(), TraceError> {
        let order = self.order();
        let mut out = RunWriter::create(self.fresh_path())?;
        for (_, i) in order {
            out.push(self.rows[i as usize])?;
        }
        self.rows.clear();
        let run = out.finish()?;
        self.keep(run, 0)
    }

    fn fresh_path(&mut self) -> PathBuf {
        self.made += 1;
        self.directory.join(format!("{}-{}.run", self.name, self.made))
    }

    fn keep(&mut self, run: PathBuf, level: usize) -> Result<(), TraceError> {
        if self.runs.len() <= level {
            self.runs.push(Vec::new());
        }
        self.runs[level].push(run);
        if self.runs[level].len() < FAN_IN {
            return Ok(());
        }
        let full = std::mem::take(&mut self.runs[level]);
        let mut out = RunWriter::create(self.fresh_path())?;
        let mut merge = Merge::<R>::open(&full)?;
        while let Some(row) = merge.next()? {
            out.push(row)?;
        }
        remove(&full);
        let merged = out.finish()?;
        self.keep(merged, level + 1)
    }

    /// Passes every row to `each`, in order.
    pub(crate) fn drain(mut self, mut each: impl FnMut(R) -> Result<(), TraceError>) -> Result<(), TraceError> {
        if self.runs.is_empty() {
            for (_, i) in self.order() {
                each(self.rows[i as usize])?;
            }
            return Ok(());
        }
        if !self.rows.is_empty() {
            self.spill()?;
        }
        let runs: Vec<PathBuf> = self.runs.concat();
        self.rows = Vec::new();
        let mut merge = Merge::<R>::open(&runs)?;
        while let Some(row) = merge.next()? {
            each(row)?;
        }
        remove(&runs);
        Ok(())
    }
}

fn remove(runs: &[PathBuf]) {
    for run in runs {
        // The directory is removed as a whole at the end; this only frees space early.
        let _ = std::fs::remove_file(run);
    }
}

/// Writes a run: chunks of a length (u32, little endian) and that many bytes of postcard.
struct RunWriter<R> {
    path: PathBuf,
    out: BufWriter<File>,
    chunk: Vec<R>,
}

impl<R: Sortable> RunWriter<R> {
    fn create(path: PathBuf) -> Result<RunWriter<R>, TraceError> {
        let file = File::create(&path).map_err(|e| TraceError::new(&path, format!("cannot be created: {e}")))?;
        Ok(RunWriter { path, out: BufWriter::with_capacity(1 << 18, file), chunk: Vec::with_capacity(CHUNK_ROWS) })
    }

    fn push(&mut self, row: R) -> Result<(), TraceError> {
        self.chunk.push(row);
        if self.chunk.len() >= CHUNK_ROWS { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), TraceError> {
        let bytes = postcard::to_stdvec(&self.chunk).map_err(|e| TraceError::new(&self.path, e))?;
        self.chunk.clear();
        let written = self.out.write_all(&(bytes.len() as u32).to_le_bytes()).and_then(|()| self.out.write_all(&bytes));
        written.map_err(|e| TraceError::new(&self.path, format!("cannot be written: {e}")))
    }

    fn finish(mut self) -> Result<PathBuf, TraceError> {
        if !self.chunk.is_empty() {
            self.write()?;
        }
        self.out.flush().map_err(|e| TraceError::new(&self.path, format!("cannot be written: {e}")))?;
        Ok(self.path)
    }
}

struct RunReader<R> {
    path: PathBuf,
    input: BufReader<File>,
    left: u64,
    chunk: std::vec::IntoIter<R>,
}

impl<R: Sortable> RunReader<R> {
    fn open(path: &Path) -> Result<RunReader<R>, TraceError> {
        let failed = |e| TraceError::new(path, format!("cannot be read: {e}"));
        let file = File::open(path).map_err(failed)?;
        let left = file.metadata().map_err(failed)?.len();
        Ok(RunReader { path: path.to_owned(), input: BufReader::with_capacity(1 << 17, file), left, chunk: Vec::new().into_iter() })
    }

    fn next(&mut self) -> Result<Option<R>, TraceError> {
        if let Some(row) = self.chunk.next() {
            return Ok(Some(row));
        }
        if self.left == 0 {
            return Ok(None);
        }
        let mut length = [0; 4];
        self.input.read_exact(&mut length).map_err(|e| TraceError::new(&self.path, format!("cannot be read: {e}")))?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        self.input.read_exact(&mut bytes).map_err(|e| TraceError::new(&self.path, format!("cannot be read: {e}")))?;
        self.left = self.left.saturating_sub(4 + bytes.len() as u64);
        let rows: Vec<R> = postcard::from_bytes(&bytes).map_err(|e| TraceError::new(&self.path, e))?;
        self.chunk = rows.into_iter();
        Ok(self.chunk.next())
    }
}

/// Merges runs, smallest key first.
struct Merge<R> {
    runs: Vec<RunReader<R>>,
    heads: Vec<Option<R>>,
    heap: BinaryHeap<std::cmp::Reverse<(Key, usize)>>,
}

impl<R: Sortable> Merge<R> {
    fn open(paths: &[PathBuf]) -> Result<Merge<R>, TraceError> {
        let mut merge = Merge { runs: Vec::new(), heads: Vec::new(), heap: BinaryHeap::new() };
        for (i, path) in paths.iter().enumerate() {
            let mut run = RunReader::open(path)?;
            let head: Option<R> = run.next()?;
            merge.heap.extend(head.map(|row| std::cmp::Reverse((row.key(), i))));
            merge.heads.push(head);
            merge.runs.push(run);
        }
        Ok(merge)
    }

    fn next(&mut self) -> Result<Option<R>, TraceError> {
        let Some(mut top) = self.heap.peek_mut() else { return Ok(None) };
        let i = top.0.1;
        let row = self.heads[i].take();
        self.heads[i] = self.runs[i].next()?;
        match &self.heads[i] {
            Some(next) => top.0.0 = next.key(),
            None => drop(std::collections::binary_heap::PeekMut::pop(top)),
        }
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, Serialize, serde::Deserialize)]
    struct Row(u16, i64, u64);

    impl Sortable for Row {
        fn key(&self) -> Key {
            (self.0, self.1, self.2)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn rows_come_back_in_order_however_many_runs_they_were_cut_into(
            rows in prop::collection::vec((0_u16..3, -50_i64..50, any::<u64>()), 0..900),
            run_rows in 1_usize..50,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let mut sorter = Sorter::with_run_rows(directory.path(), "rows", run_rows);
            for &(host, at, id) in &rows {
                sorter.push(Row(host, at, id)).unwrap();
            }
            let mut sorted = rows.clone();
            sorted.sort_unstable();
            let mut back = Vec::new();
            sorter.drain(|row| { back.push(row.key()); Ok(()) }).unwrap();
            prop_assert_eq!(back, sorted);
            prop_assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }
}
