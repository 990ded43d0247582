//! Bytes that processes moved between two samples, from the positions of descriptors (files) and TCP's counts
//! (connections). They become zero-length spans at the end of the interval: when exactly they moved is unknown.
//!
//! A position counts bytes only while it follows reading and writing. Seeking moves it too, so no more is recorded
//! than the process read or wrote in total, if the kernel says how much.

use super::blocking::WaitTargets;
use super::diagnostics::Socket;
use super::files::{FdInfo, Opened, Target};
use super::kernel::Calls;
use super::listeners::socket_inode;
use super::processes;
use super::wakers::Ends;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thalweg_trace::{Event, Mark, MarkKind, ObjectId, Span, SpanId, SpanKind, Time, TraceHandle, TrackId};

/// Maximum descriptors sampled per process.
const MOST_DESCRIPTORS: usize = 1024;

/// A file descriptor at the last sample.
#[derive(Debug)]
struct Position {
    info: FdInfo,
    bytes: u64,
    object: ObjectId,
    opened: Opened,
    path: PathBuf,
    /// Whether its position has changed.
    moves: bool,
}

/// A file being read or written when its process was last sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unfinished {
    pub track: TrackId,
    object: ObjectId,
    kind: SpanKind,
    path: PathBuf,
    position: u64,
    at: Time,
}

/// A process's open files, and how much it has moved.
#[derive(Debug, Default)]
pub(super) struct Files {
    positions: BTreeMap<u32, Position>,
    /// /proc/PID/io, if readable.
    io: Option<File>,
    /// Bytes read and written, not recorded yet.
    left: Option<(u64, u64)>,
    counted: (u64, u64),
}

/// Bytes written and read on a connection, at the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MovedBytes {
    written: u64,
    read: u64,
    retransmits: u32,
}

impl MovedBytes {
    /// Returns a connection's current counts.
    pub(super) fn of(socket: &Socket) -> Option<MovedBytes> {
        let retransmits = socket.info.map_or(0, |info| info.total_retransmits);
        Some(MovedBytes { written: socket.written_bytes()?, read: socket.read_bytes()?, retransmits })
    }
}

impl Files {
    /// Starts for an existing process. `ours`: it began during the recording, so everything it ever read counts.
    pub(super) fn of(pid: u32, ours: bool) -> Files {
        let io = File::open(format!("/proc/{pid}/io")).ok();
        let counted = io.as_ref().and_then(counted);
        let counted = if ours { counted.map(|_| (0, 0)) } else { counted };
        Files { positions: BTreeMap::new(), left: counted.map(|_| (0, 0)), io, counted: counted.unwrap_or_default() }
    }

    /// Returns the bytes moved by the process's calls so far, and the number of calls.
    pub(super) fn calls(&self) -> Option<Calls> {
        let io = self.io.as_ref()?;
        let (read, written) = counted(io)?;
        let (reads, writes) = fields(io, "syscr:", "syscw:")?;
        Some(Calls { bytes: read.saturating_add(written), calls: reads.saturating_add(writes) })
    }

    /// Finds what the process has open now.
    pub(super) fn sample(&mut self, pid: u32, targets: &mut WaitTargets, ours: bool) -> Ends {
        let mut fds = processes::numbers_in(&format!("/proc/{pid}/fd"));
        fds.truncate(MOST_DESCRIPTORS);
        let mut ends = Ends::default();
        let open: BTreeSet<u32> = fds.iter().copied().collect();
        self.positions.retain(|fd, _| open.contains(fd));
        for fd in fds {
            let Ok(link) = fs::read_link(format!("/proc/{pid}/fd/{fd}")) else { continue };
            let text = link.to_string_lossy();
            if let Some(inode) = socket_inode(&text) {
                ends.sockets.insert(inode);
            } else if (!text.starts_with("/dev/") || text.starts_with("/dev/shm/")) && !text.starts_with("anon_inode:") {
                match targets.target(pid, fd) {
                    Some(Target::Pipe(inode)) => {
                        let opened =
                            FdInfo::open(pid, fd).and_then(|info| info.read()).map_or(Opened::Unknown, |(_, flags)| flags.opened());
                        ends.pipes.extend((opened != Opened::Write).then_some((inode, false)));
                        ends.pipes.extend((opened != Opened::Read).then_some((inode, true)));
                    }
                    Some(Target::File(object)) => self.add((pid, fd), object, &link, ours),
                    _ => {}
                }
            }
        }
        ends
    }

    /// Returns how much the process had moved at the last sample, and the files it was moving.
    pub(super) fn unfinished(&self, track: TrackId, at: Time) -> ((u64, u64), Vec<Unfinished>) {
        let of = |position: &Position| {
            let kind = match position.opened {
                Opened::Read => SpanKind::FileRead,
                Opened::Write => SpanKind::FileWrite,
                _ => return None,
            };
            let Position { object, path, bytes, .. } = position;
            position.moves.then(|| Unfinished { track, object: *object, kind, path: path.clone(), position: *bytes, at })
        };
        (self.counted, self.positions.values().filter_map(of).collect())
    }

    fn add(&mut self, (pid, fd): (u32, u32), object: ObjectId, path: &Path, ours: bool) {
        if self.positions.get(&fd).is_some_and(|known| known.object == object) {
            return;
        }
        let Some(info) = FdInfo::open(pid, fd) else { return };
        let Some((position, flags)) = info.read() else { return };
        let opened = flags.opened();
        // If the process is ours, what it read before it was seen was read since the open.
        let bytes = if ours && opened != Opened::Both { 0 } else { position };
        self.positions.insert(fd, Position { info, bytes, object, opened, path: path.to_owned(), moves: false });
    }

    /// Records what was moved since the last sample.
    pub(super) fn emit(&mut self, trace: &TraceHandle, track: TrackId, now: Time, out: &mut Vec<Event>) {
        if let (Some((reads, writes)), Some(current)) = (&mut self.left, self.io.as_ref().and_then(counted)) {
            *reads += current.0.saturating_sub(self.counted.0);
            *writes += current.1.saturating_sub(self.counted.1);
            self.counted = (self.counted.0.max(current.0), self.counted.1.max(current.1));
        }
        for position in self.positions.values_mut() {
            let Some((current, _)) = position.info.read() else { continue };
            let before = std::mem::replace(&mut position.bytes, current);
            let (kind, left) = match position.opened {
                Opened::Read => (SpanKind::FileRead, self.left.as_mut().map(|left| &mut left.0)),
                Opened::Write => (SpanKind::FileWrite, self.left.as_mut().map(|left| &mut left.1)),
                _ => continue,
            };
            let passed = current.saturating_sub(before);
            let bytes = left.as_ref().map_or(passed, |left| passed.min(**left));
            if bytes == 0 {
                continue;
            }
            if let Some(left) = left {
                *left -= bytes;
            }
            position.moves = true;
            let Some(span) = SpanId::new(trace.fresh()) else { continue };
            let (object, size_bytes) = (Some(position.object), Some(bytes));
            let span = Span::bare(span, track, kind, now, 0);
            out.push(Event::Span(Span { object, offset_bytes: Some(before), size_bytes, cpu_ns: Some(0), ..span }));
        }
    }
}

/// Returns the bytes read and written by a process's calls, for files, pipes and sockets alike.
fn counted(io: &File) -> Option<(u64, u64)> {
    fields(io, "rchar:", "wchar:")
}

/// Returns two of its numbers.
fn fields(io: &File, one: &str, other: &str) -> Option<(u64, u64)> {
    let mut buffer = [0; 256];
    let n = io.read_at(&mut buffer, 0).ok()?;
    let text = std::str::from_utf8(&buffer[..n]).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((field(one)?, field(other)?))
}

/// Returns the bytes read and written by ended threads of this process and by processes it waited for: the process's
/// total minus its living threads'. This is the only source for what the command moved after its last sample.
pub(super) fn inherited() -> Option<(u64, u64)> {
    let of = |path: String| counted(&File::open(path).ok()?);
    let tasks = processes::numbers_in("/proc/self/task");
    let threads: Vec<(u64, u64)> = tasks.into_iter().filter_map(|tid| of(format!("/proc/self/task/{tid}/io"))).collect();
    let whole = of("/proc/self/io".to_owned())?;
    let sum = |part: fn(&(u64, u64)) -> u64| threads.iter().map(part).sum::<u64>();
    Some((whole.0.saturating_sub(sum(|t| t.0)), whole.1.saturating_sub(sum(|t| t.1))))
}

/// Records what was moved after the last sample: only if a single file can be meant, and no more than it holds.
pub(super) fn emit_rest(trace: &TraceHandle, (read, written): (u64, u64), files: &[Unfinished], out: &mut Vec<Event>) {
    for (kind, rest) in [(SpanKind::FileRead, read), (SpanKind::FileWrite, written)] {
        let mut candidates = files.iter().filter(|file| file.kind == kind);
        let (Some(file), None) = (candidates.next(), candidates.next()) else { continue };
        let holds = fs::metadata(&file.path).map_or(0, |metadata| metadata.len());
        let bytes = rest.min(holds.saturating_sub(file.position));
        let Some(span) = SpanId::new(trace.fresh()).filter(|_| bytes > 0) else { continue };
        let (object, size_bytes) = (Some(file.object), Some(bytes));
        let span = Span::bare(span, file.track, kind, file.at, 0);
        out.push(Event::Span(Span { object, offset_bytes: Some(file.position), size_bytes, cpu_ns: Some(0), ..span }));
    }
}

/// Records what moved on a connection since `before`, and its current state.
///
/// Bytes sent were unsent at `since`, and bytes received were received by `now`: so a message never precedes its
/// sending.
pub(super) fn emit_connection(
    (trace, track, since, now): (&TraceHandle, TrackId, Time, Time),
    (object, socket): (ObjectId, &Socket),
    before: MovedBytes,
    out: &mut Vec<Event>,
) -> MovedBytes {
    let Some(current) = MovedBytes::of(socket) else { return before };
    let ways = [(SpanKind::NetSend, since, before.written, current.written), (SpanKind::NetReceive, now, before.read, current.read)];
    for (kind, at, from, to) in ways {
        if let Some(span) = SpanId::new(trace.fresh()).filter(|_| to > from) {
            let part = Span {
                object: Some(object),
                offset_bytes: Some(from),
                size_bytes: Some(to - from),
                ..Span::bare(span, track, kind, at, 0)
            };
            out.push(Event::Span(Span { cpu_ns: Some(0), ..part }));
        }
    }
    if current.retransmits > before.retransmits {
        let segment_bytes = i64::from(socket.info.map_or(0, |info| info.segment_bytes));
        let value = Some(i64::from(current.retransmits - before.retransmits) * segment_bytes);
        out.push(Event::Mark(Mark { track, kind: MarkKind::TcpRetransmit, at: now, object: Some(object), value }));
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_trace::{HostId, IdSpace, Memory, Role, Sink};

    #[test]
    fn what_was_moved_after_the_last_look_is_never_more_than_the_file_holds() {
        let sink = Arc::new(Memory::new(10)) as Arc<dyn Sink>;
        let trace = TraceHandle::on(sink, HostId(0), Role::Client, IdSpace(1));
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(1000).expect("it grows");
        let (track, object) = (TrackId::new(1).expect("not zero"), ObjectId::new(2).expect("not zero"));
        let (path, at) = (file.path().to_owned(), Time::from_monotonic_ns(5));
        let one = Unfinished { track, object, kind: SpanKind::FileRead, path, position: 900, at };
        let recorded = |rest, files: &[Unfinished]| -> Vec<(Option<u64>, Option<u64>)> {
            let mut out = Vec::new();
            emit_rest(&trace, rest, files, &mut out);
            out.iter().filter_map(|e| if let Event::Span(s) = e { Some((s.offset_bytes, s.size_bytes)) } else { None }).collect()
        };
        assert_eq!(recorded((40, 7), std::slice::from_ref(&one)), [(Some(900), Some(40))]);
        assert_eq!(recorded((4000, 0), std::slice::from_ref(&one)), [(Some(900), Some(100))]);
        assert_eq!(recorded((40, 0), &[one.clone(), one]), [], "one of two, nobody knows which");
    }
}
