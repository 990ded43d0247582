//! Moves and times the bytes of one run.
//!
//! Memory is allocated and touched, and files are opened, before the barrier. Every page written contains its own offset, which is checked
//! for every page read: wrong data makes a figure void.

use super::explain::Recorded;
use super::protocol::Answer;
use crate::access::{Access, Order};
use crate::{Error, Result};
use parking_lot::Mutex;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use thalweg_client::Store;
use thalweg_client::copy::Recorder;
use thalweg_client::{AheadOptions, BehindOptions, ReadAhead, WriteBehind};
use thalweg_trace::{SpanFields, SpanKind, Time, TraceHandle, Tracer, TrackId};

/// Interval of the offsets written into the data.
const PAGE_BYTES: u64 = 4096;

/// A run that is ready to go.
pub(super) struct Prepared {
    what: What,
}

enum What {
    Path { file: File, path: PathBuf, access: Access, read: bool, transfers: Vec<(u64, u64)>, memory: Vec<u8> },
    Store(Box<InStore>),
    Command { command: Command, line: String, bytes: u64 },
}

/// A file through the client library, used like a program that keeps several transfers in flight: with write-behind, and with read-ahead
/// up to the end of the rank's range. In random order there is nothing to read ahead: several threads read concurrently.
struct InStore {
    stream: Stream,
    path: String,
    access: Access,
    transfers: Vec<(u64, u64)>,
    memories: Vec<Vec<u8>>,
    recorder: Option<Recorder>,
}

enum Stream {
    Write(Arc<WriteBehind>),
    Read(Arc<ReadAhead>),
}

impl Prepared {
    /// Prepares a run through a path, as programs do: one transfer after the other, then `fdatasync`.
    pub(super) fn path(path: &Path, access: Access, read: bool) -> Result<Prepared> {
        access.check()?;
        let file = File::options().read(true).write(!read).open(path).map_err(Error::file(path, "opening it"))?;
        let memory = memory(&access);
        Ok(Prepared { what: What::Path { file, path: path.to_owned(), access, read, transfers: access.transfers(), memory } })
    }

    /// Prepares a run through the client library. `in_flight`: number of threads that read in random order.
    pub(super) fn store(
        store: &Store,
        path: &str,
        access: Access,
        read: bool,
        in_flight: u32,
        recorder: Option<Recorder>,
    ) -> Result<Prepared> {
        access.check()?;
        let file = Arc::new(if read { store.open(path)? } else { store.open_to_write(path)? }.to_be_synced());
        let threads = if read && matches!(access.order, Order::Random { .. }) { in_flight.max(1) } else { 1 };
        let end = access.blocks().last().map(|(offset, length)| offset + length);
        let stream = match read {
            true => Stream::Read(ReadAhead::new(file, &AheadOptions { size_bytes: end, ..AheadOptions::default() })),
            false => Stream::Write(WriteBehind::new(file, &BehindOptions::default())),
        };
        let memories = (0..threads).map(|_| memory(&access)).collect();
        let run = InStore { stream, path: path.to_owned(), access, transfers: access.transfers(), memories, recorder };
        Ok(Prepared { what: What::Store(Box::new(run)) })
    }

    /// Prepares a run by a command.
    pub(super) fn command(argv: Vec<String>, bytes: u64) -> Result<Prepared> {
        let Some((program, arguments)) = argv.split_first() else { return Err(Error::Choice("an empty command".into())) };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
        Ok(Prepared { what: What::Command { command, line: argv.join(" "), bytes } })
    }

    /// Runs it.
    pub(super) fn go(self) -> Result<(Answer, Option<Recorded>)> {
        match self.what {
            What::Path { file, path, access, read, transfers, memory } => {
                path_go(&file, &path, &access, read, &transfers, memory).map(|ran| (ran, None))
            }
            What::Store(run) => run.go(),
            What::Command { command, line, bytes } => command_go(command, &line, bytes).map(|ran| (ran, None)),
        }
    }
}

fn memory(access: &Access) -> Vec<u8> {
    // Not zeros: a disk or file system may optimise those.
    (0..access.transfer_bytes.min(access.block_bytes)).map(|n| (n * 31 % 251) as u8 + 1).collect()
}

/// Returns the positions of pages in a transfer, and the offset written into each.
fn stamps(offset: u64, length: u64) -> impl Iterator<Item = (usize, [u8; 8])> {
    let first = offset.next_multiple_of(PAGE_BYTES);
    let pages = (first..(offset + length).saturating_sub(7)).step_by(PAGE_BYTES as usize);
    pages.map(move |page| ((page - offset) as usize, (page ^ 0x7468_616c_7765_6721).to_le_bytes()))
}

fn stamp(memory: &mut [u8], offset: u64) {
    stamps(offset, memory.len() as u64).for_each(|(at, says)| memory[at..at + 8].copy_from_slice(&says));
}

fn check(memory: &[u8], offset: u64, name: &str) -> Result<()> {
    match stamps(offset, memory.len() as u64).find(|(at, says)| memory[*at..*at + 8] != *says) {
        None => Ok(()),
        Some((at, _)) => Err(Error::Choice(format!("{name}: the page at {} does not have the data written there", offset + at as u64))),
    }
}

fn path_go(file: &File, path: &Path, access: &Access, read: bool, transfers: &[(u64, u64)], mut memory: Vec<u8>) -> Result<Answer> {
    let begun = Instant::now();
    for &(offset, length) in transfers {
        let memory = &mut memory[..length as usize];
        if read {
            file.read_exact_at(memory, offset).map_err(Error::file(path, "reading it"))?;
            check(memory, offset, &path.display().to_string())?;
        } else {
            stamp(memory, offset);
            file.write_all_at(memory, offset).map_err(Error::file(path, "writing it"))?;
        }
    }
    let transfer_s = begun.elapsed().as_secs_f64();
    let sync_s = if read {
        None
    } else {
        let begun = Instant::now();
        rustix::fs::fdatasync(file).map_err(|e| Error::file(path, "making it durable")(e.into()))?;
        Some(begun.elapsed().as_secs_f64())
    };
    Ok(Answer::Moved { transfer_s, sync_s, bytes: access.bytes(), output: None })
}

fn command_go(mut command: Command, line: &str, bytes: u64) -> Result<Answer> {
    let begun = Instant::now();
    let ran = command.output().map_err(Error::file(Path::new(line), "starting it"))?;
    let transfer_s = begun.elapsed().as_secs_f64();
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        return Err(Error::Choice(format!("{line}: {}: {}", ran.status, said.trim())));
    }
    Ok(Answer::Moved { transfer_s, sync_s: None, bytes, output: Some(String::from_utf8_lossy(&ran.stdout).into_owned()) })
}

impl InStore {
    fn go(self: Box<InStore>) -> Result<(Answer, Option<Recorded>)> {
        let InStore { stream, path, access, transfers, mut memories, recorder } = *self;
        let trace = recorder.as_ref().map_or_else(TraceHandle::off, |recorder| recorder.trace.clone());
        let mut tracer = trace.thread("main");
        let start = Time::now();
        let begun = Instant::now();
        let mut sync_s = None;
        match &stream {
            Stream::Write(behind) => {
                for &(offset, length) in &transfers {
                    let memory = &mut memories[0][..length as usize];
                    stamp(memory, offset);
                    behind.write(&mut tracer, memory, offset)?;
                }
                behind.flush(&mut tracer)?;
            }
            Stream::Read(ahead) if memories.len() == 1 => {
                for &(offset, length) in &transfers {
                    read_one(ahead, &mut tracer, &mut memories[0][..length as usize], offset)?;
                }
            }
            Stream::Read(ahead) => read_all(ahead, &transfers, memories, &trace, &mut tracer)?,
        }
        let transfer_s = begun.elapsed().as_secs_f64();
        if let Stream::Write(behind) = &stream {
            let begun = Instant::now();
            behind.file().sync_traced(&mut tracer)?;
            sync_s = Some(begun.elapsed().as_secs_f64());
        }
        let end = Time::now();
        drop(tracer);
        let read = matches!(stream, Stream::Read(_));
        drop(stream);
        let recorded = recorder.map(|recorder| {
            let path = format!("thal:{path}");
            let (from, to) = if read { (path, "memory".to_owned()) } else { ("memory".to_owned(), path) };
            let direction = if read { "out" } else { "in" };
            let pairs = [("from", from), ("to", to), ("direction", direction.to_owned()), ("size_bytes", access.bytes().to_string())];
            let attributes = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            Recorded { recorder, start, end, attributes }
        });
        Ok((Answer::Moved { transfer_s, sync_s, bytes: access.bytes(), output: None }, recorded))
    }
}

/// Reads one transfer from the file, which must be complete.
fn read_one(ahead: &ReadAhead, tracer: &mut Tracer, memory: &mut [u8], offset: u64) -> Result<()> {
    let path = ahead.file().handle().path();
    let have = ahead.read(tracer, memory, offset)?;
    if have < memory.len() {
        return Err(Error::Choice(format!("{path}: ends at {}, but was written further", offset + have as u64)));
    }
    check(memory, offset, path)
}

/// Reads all transfers from the file, on as many threads as there are buffers.
fn read_all(ahead: &ReadAhead, transfers: &[(u64, u64)], memories: Vec<Vec<u8>>, trace: &TraceHandle, tracer: &mut Tracer) -> Result<()> {
    let next = AtomicUsize::new(0);
    let last: Mutex<(Option<TrackId>, Option<Error>)> = Mutex::new((None, None));
    let waiting = tracer.begin();
    std::thread::scope(|scope| {
        for (number, mut memory) in memories.into_iter().enumerate() {
            let (next, last) = (&next, &last);
            scope.spawn(move || {
                let mut tracer = trace.thread(&format!("request {number}"));
                let mut moved = Ok(());
                // Each thread takes the next transfer until there are none.
                while let (Ok(()), Some(&(offset, length))) = (&moved, transfers.get(next.fetch_add(1, Ordering::Relaxed))) {
                    moved = read_one(ahead, &mut tracer, &mut memory[..length as usize], offset);
                }
                let track = tracer.track();
                drop(tracer);
                let mut last = last.lock();
                last.0 = track;
                if let Err(error) = moved {
                    next.store(usize::MAX / 2, Ordering::Relaxed);
                    last.1.get_or_insert(error);
                }
            });
        }
    });
    let (waker_track, error) = last.into_inner();
    tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track, ..SpanFields::default() });
    error.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_says_where_it_belongs_and_is_held_to_it() {
        for (offset, length) in [(0, 4096), (0, 1 << 20), (4096, 10_000), (100, 9000), (4090, 20), (1, 3)] {
            let mut memory = vec![1; length];
            stamp(&mut memory, offset);
            check(&memory, offset, "f").unwrap();
            if stamps(offset, length as u64).next().is_some() {
                let error = check(&memory, offset + PAGE_BYTES, "f").unwrap_err().to_string();
                assert!(error.starts_with("f: the page at "), "{error}");
            }
        }
        assert_eq!(stamps(100, 9000).map(|s| s.0).collect::<Vec<_>>(), [3996, 8092]);
    }
}
