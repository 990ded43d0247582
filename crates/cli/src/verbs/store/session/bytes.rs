//! Requests about bytes.

use super::frames::{BODY_BYTES, Memory};
use super::opened::Reading;
use super::requests::{CopyEnd, Path, Wanted};
use super::served::Served;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_client::copy::{self, CopyJob, CopyObserver, Sink, Source, Unpublished};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::metadata::LayoutChoice;
use thalweg_wire::{Error, ErrorKind};

/// Bound: ranges of one request. Instead: a client asks in several requests.
const RANGES: usize = 1024;
/// Ranges of one request that are read at a time.
const RANGES_AT_A_TIME: usize = 8;

/// Opens a file, and reads ranges of it.
pub(super) fn open(served: &Served, path: &Path, ranges: &[Wanted], memory: &mut Memory) -> Result<Value, Error> {
    let path = path.bytes()?;
    let open = served.session.names().open_following(&mut Tracer::off(), &path, false)?;
    let reading = Arc::new(Reading::new(&served.session.store().data, &path, open)?);
    let lengths = read_ranges(&reading, ranges, memory)?;
    let attributes = &reading.open.attributes;
    Ok(json!({
        "file": served.opened.add_reading(&reading)?,
        "size": reading.size_bytes,
        "lengths": lengths,
        "of": attributes.id.to_string(),
        "modified_ns": attributes.modified_ns,
    }))
}

/// Reads ranges of an open file.
pub(super) fn read(served: &Served, file: u64, ranges: &[Wanted], memory: &mut Memory) -> Result<Value, Error> {
    let lengths = read_ranges(&*served.opened.reading(file)?, ranges, memory)?;
    Ok(json!({ "lengths": lengths }))
}

/// Reads ranges one behind the other into `memory`; returns how long each is. They end at the end of the file, and where a frame is full.
fn read_ranges(reading: &Reading, ranges: &[Wanted], memory: &mut Memory) -> Result<Vec<usize>, Error> {
    if ranges.len() > RANGES {
        let problem = format!("{} ranges in one request: expected at most {RANGES}", ranges.len());
        return Err(Error::new(ErrorKind::Invalid, problem).on_file(reading.file.handle().path()));
    }
    let mut room = BODY_BYTES as u64;
    let within = |wanted: &Wanted| {
        let range = within(wanted, reading.size_bytes);
        let length = (range.end - range.start).min(room);
        room -= length;
        range.start..range.start + length
    };
    let ranges: Vec<Range<u64>> = ranges.iter().map(within).collect();
    let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let mut pieces = Vec::with_capacity(ranges.len());
    let mut rest = memory.take(total as usize);
    for range in &ranges {
        let (piece, after) = rest.split_at_mut((range.end - range.start) as usize);
        pieces.push((range.start, piece));
        rest = after;
    }
    let lengths = read_pieces(reading, &mut pieces)?;
    if let Some(at) = lengths.iter().zip(&ranges).position(|(have, range)| *have as u64 != range.end - range.start) {
        let problem = format!(
            "{} bytes at {} are no longer there: the file was truncated since it was opened",
            ranges[at].end - ranges[at].start,
            ranges[at].start
        );
        return Err(Error::new(ErrorKind::SourceChanged, problem).on_file(reading.file.handle().path()));
    }
    Ok(lengths)
}

/// Fills each piece from its offset, several at a time.
fn read_pieces(reading: &Reading, pieces: &mut [(u64, &mut [u8])]) -> Result<Vec<usize>, Error> {
    let each = |pieces: &mut [(u64, &mut [u8])]| -> Result<Vec<usize>, Error> {
        pieces.iter_mut().map(|(offset, piece)| reading.file.read_at(piece, *offset)).collect()
    };
    if pieces.len() <= 1 {
        return each(pieces);
    }
    let share = pieces.len().div_ceil(RANGES_AT_A_TIME);
    std::thread::scope(|scope| {
        let threads: Vec<_> = pieces.chunks_mut(share).map(|some| scope.spawn(|| each(some))).collect();
        let mut lengths = Vec::new();
        for thread in threads {
            let some = thread.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "a panic while reading: a bug")));
            lengths.extend(some?);
        }
        Ok(lengths)
    })
}

/// Returns the part of a file of this size that is wanted.
fn within((begin, end): &Wanted, size_bytes: u64) -> Range<u64> {
    let at = |position: i64| match position {
        0.. => (position as u64).min(size_bytes),
        _ => size_bytes.saturating_sub(position.unsigned_abs()),
    };
    let (begin, end) = (at(*begin), end.map_or(size_bytes, at));
    begin..end.max(begin)
}

/// Runs `work`; where a directory is missing and `parents` are wanted, makes it and runs it again.
fn with_parents<T>(served: &Served, path: &str, parents: bool, work: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    match work() {
        Err(error) if error.kind() == ErrorKind::NotFound && parents => served.make_parents(path.as_bytes()).and_then(|()| work()),
        done => done,
    }
}

fn create_unpublished(served: &Served, path: &Path, (replace, parents, look_first): (bool, bool, bool)) -> Result<u64, Error> {
    let (path, store) = (path.text()?, served.session.store());
    let create = || Unpublished::create(&store, &path, &LayoutChoice::default(), replace, look_first);
    served.opened.add_unpublished(with_parents(served, &path, parents, create)?)
}

/// Creates a file; returns its number.
pub(super) fn create(served: &Served, path: &Path, replace: bool, parents: bool) -> Result<Value, Error> {
    Ok(json!({ "file": create_unpublished(served, path, (replace, parents, true))? }))
}

/// Writes bytes into a created file.
pub(super) fn write(served: &Served, file: u64, offset: u64, bytes: &[u8]) -> Result<Value, Error> {
    served.opened.unpublished(file)?.write_at(bytes, offset).map(|()| json!({}))
}

/// Gives a created file its name. It stays open while this lasts, so that a session that ends meanwhile removes it.
pub(super) fn publish(served: &Served, file: u64, size: u64, sync: bool) -> Result<Value, Error> {
    let published = served.opened.unpublished(file)?.publish(size, sync);
    served.opened.discard(file);
    published.map(|()| json!({}))
}

/// Removes a created file.
pub(super) fn discard(served: &Served, file: u64) -> Result<Value, Error> {
    served.opened.unpublished(file)?;
    served.opened.discard(file);
    Ok(json!({}))
}

/// Creates, writes and publishes a file.
pub(super) fn put(served: &Served, path: &Path, (replace, parents, sync): (bool, bool, bool), bytes: &[u8]) -> Result<Value, Error> {
    let file = create_unpublished(served, path, (replace, parents, false))?;
    let written = served.opened.unpublished(file).and_then(|unpublished| match bytes {
        [] => Ok(()),
        _ => unpublished.write_at(bytes, 0),
    });
    match written {
        Ok(()) => publish(served, file, bytes.len() as u64, sync),
        Err(error) => {
            served.opened.discard(file);
            Err(error)
        }
    }
}

struct Stop<'a>(&'a Served);

impl CopyObserver for Stop<'_> {
    fn cancelled(&self) -> bool {
        self.0.stopping.load(Ordering::SeqCst)
    }
}

/// Copies a file; the bytes do not pass through the client.
pub(super) fn copy(
    served: &Served,
    (from, to): (&CopyEnd, &CopyEnd),
    (replace, parents, sync): (bool, bool, bool),
) -> Result<Value, Error> {
    let source = match from {
        CopyEnd::Path(path) => Source::Store(served.session.store(), path.text()?),
        CopyEnd::Local(path) => Source::Local(local(path)?),
    };
    let (sink, path) = match to {
        CopyEnd::Path(path) => (Sink::Store(served.session.store(), path.text()?, LayoutChoice::default()), Some(path.text()?)),
        CopyEnd::Local(path) => (Sink::Local(local(path)?), None),
    };
    let job = CopyJob { force: replace, sync, ..CopyJob::new(source, sink) };
    let _running = served.opened.copying()?;
    let run = || copy::run(&job, &Stop(served));
    let done = match &path {
        Some(path) => with_parents(served, path, parents && exists(served, from), run),
        None => run(),
    };
    done.map(|outcome| json!({ "size": outcome.size_bytes }))
}

/// Whether the source of a copy exists: if not, it is what is missing, and not a directory of the target.
fn exists(served: &Served, from: &CopyEnd) -> bool {
    match from {
        CopyEnd::Path(path) => path.bytes().is_ok_and(|path| served.session.names().follow(&mut Tracer::off(), &path).is_ok()),
        CopyEnd::Local(path) => local(path).is_ok_and(|path| path.exists()),
    }
}

fn local(path: &Path) -> Result<PathBuf, Error> {
    path.bytes().map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn ranges_are_like_slices_and_end_with_the_file() {
        for (wanted, range) in [
            ((0, Some(4)), 0..4),
            ((0, None), 0..10),
            ((-3, None), 7..10),
            ((-30, Some(-8)), 0..2),
            ((8, Some(20)), 8..10),
            ((20, Some(30)), 10..10),
            ((5, Some(2)), 5..5),
            ((i64::MIN, Some(i64::MAX)), 0..10),
        ] {
            assert_eq!(within(&wanted, 10), range, "{wanted:?}");
        }
        assert_eq!(within(&(-1, None), 0), 0..0);
    }
}
