//! A file of a store that its caller writes piece by piece. Like any copy, it is called `NAME.partial` until it is published.

use super::draft::umask;
use super::ends::StoreEnd;
use crate::files::{Store, StoreFile};
use std::ops::Range;
use std::sync::Arc;
use thalweg_base::ranges;
use thalweg_base::sync::Mutex;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::metadata::LayoutChoice;
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: separate ranges of an unpublished file. A caller that leaves more gaps writes at random, which a copy is not for.
const SEPARATE_RANGES: usize = 4096;

/// A file being written. Its pieces may be written in any order and by several threads. Dropped without being published, it is removed.
pub struct Unpublished {
    file: StoreFile,
    replace: bool,
    end: Mutex<StoreEnd>,
    written: Mutex<Written>,
}

/// What has been written of a file.
#[derive(Default)]
struct Written {
    ranges: Vec<Range<u64>>,
    in_flight: usize,
    /// The first error: what is at the servers is unknown since.
    error: Option<Error>,
}

impl Unpublished {
    /// Creates the file. With `look_first`, an error of the name itself (it is a directory; it exists, and `replace` is not set) comes now
    /// and not only when the file is published, for one more round trip.
    ///
    /// # Errors
    /// The metadata service's, naming the file.
    pub fn create(store: &Store, path: &str, layout: &LayoutChoice, replace: bool, look_first: bool) -> Result<Unpublished> {
        let made = StoreEnd::create(store, path, layout, 0o666 & !umask(), replace, &mut Tracer::off(), look_first);
        let end = made.map_err(in_plain_words)?;
        let file = StoreFile::new(Arc::clone(&store.data), (*end.handle).clone());
        Ok(Unpublished { file, replace, end: Mutex::new(end), written: Mutex::default() })
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Names server and file; the file cannot be published then.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let range = offset..offset.saturating_add(bytes.len() as u64);
        {
            let mut written = self.written.lock();
            if written.ranges.len() >= SEPARATE_RANGES {
                let problem = format!("its pieces leave more than {SEPARATE_RANGES} gaps: write them more or less in order");
                return Err(Error::new(ErrorKind::TooMany, problem).on_file(self.file.handle().path()));
            }
            written.in_flight += 1;
        }
        let done = self.file.write_at(bytes, offset);
        let mut written = self.written.lock();
        written.in_flight -= 1;
        match &done {
            Ok(()) if !range.is_empty() => ranges::add(&mut written.ranges, range),
            Ok(()) => {}
            Err(error) => drop(written.error.get_or_insert_with(|| error.clone())),
        }
        done
    }

    /// Gives the file its name; with `sync`, bytes and name are on stable storage on return.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] unless it replaces; [`ErrorKind::Busy`] when another copy to the name has begun since, or a piece is still
    /// being written; [`ErrorKind::Invalid`] when `size_bytes` were not written; that of a piece that failed.
    pub fn publish(&self, size_bytes: u64, sync: bool) -> Result<()> {
        self.check_whole(size_bytes).map_err(|e| e.on_file(self.file.handle().path()))?;
        if sync {
            self.file.sync()?;
        }
        let kept = self.end.lock().keep(&mut Tracer::off(), self.replace, sync, size_bytes);
        kept.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let problem =
                    "what was written is gone: another copy to the same name was completed since then, or its directory was removed";
                Error::new(ErrorKind::Busy, problem).on_file(self.file.handle().path())
            }
            _ => in_plain_words(error),
        })
    }

    /// Removes the file, unless it was published.
    pub fn discard(&self) {
        self.end.lock().discard();
    }

    fn check_whole(&self, size_bytes: u64) -> Result<()> {
        let written = self.written.lock();
        if let Some(error) = &written.error {
            return Err(error.clone());
        }
        if written.in_flight > 0 {
            let problem = format!("{} pieces are still being written: publish it when they are answered", written.in_flight);
            return Err(Error::new(ErrorKind::Busy, problem));
        }
        let whole = match &written.ranges[..] {
            [] => size_bytes == 0,
            [one] => *one == (0..size_bytes),
            _ => false,
        };
        if whole {
            return Ok(());
        }
        let there = ranges::length(&written.ranges);
        let problem = format!("{there} bytes in {} ranges were written: expected all of its {size_bytes}", written.ranges.len());
        Err(Error::new(ErrorKind::Invalid, problem))
    }
}

/// Leaves the flags of `thalweg cp` out of an error: a caller of a library has none.
fn in_plain_words(error: Error) -> Error {
    match (error.kind(), error.file().map(str::to_owned)) {
        (ErrorKind::Exists, Some(file)) => Error::new(ErrorKind::Exists, "exists already").on_file(file),
        (ErrorKind::IsDirectory, Some(file)) => Error::new(ErrorKind::IsDirectory, "it is a directory").on_file(file),
        _ => error,
    }
}
