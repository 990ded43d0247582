//! Bytes that processes moved, by what moved on between two looks: the positions of descriptors (files), and what TCP counts
//! (connections). They are spans without length at the end of the interval: when in it they were moved is not known.
//!
//! A position tells of bytes only where it follows reading and writing. Whoever seeks moves it too, so no more is told than
//! the process read or wrote in all, where the kernel says how much that was.

use super::around::Around;
use super::diagnostics::Socket;
use super::files::{FdInfo, Opened, Target};
use super::listeners::socket_inode;
use super::processes;
use super::system::bare;
use super::wakers::Ends;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use thalweg_trace::{Event, Mark, MarkKind, ObjectId, Span, SpanId, SpanKind, Time, TraceHandle, TrackId};

/// Descriptors of one process that are looked at.
const MOST_DESCRIPTORS: usize = 1024;

/// A descriptor that is a file, at the last look.
#[derive(Debug)]
struct Position {
    info: FdInfo,
    bytes: u64,
    object: ObjectId,
    opened: Opened,
}

/// What a process has open, and how much it has moved.
#[derive(Debug, Default)]
pub(super) struct Files {
    positions: BTreeMap<u32, Position>,
    /// /proc/PID/io, where it may be read.
    io: Option<File>,
    /// Bytes read and written, and not told yet.
    left: Option<(u64, u64)>,
    counted: (u64, u64),
}

/// Bytes written and read on a connection, at the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    written: u64,
    read: u64,
    retransmits: u32,
}

impl Moved {
    /// How a connection stands.
    pub(super) fn of(socket: &Socket) -> Option<Moved> {
        let retransmits = socket.info.map_or(0, |info| info.total_retransmits);
        Some(Moved { written: socket.written_bytes()?, read: socket.read_bytes()?, retransmits })
    }
}

impl Files {
    /// Of a process that is there. `ours`: it has begun while the recording lasts, so all it ever read counts.
    pub(super) fn of(pid: u32, ours: bool) -> Files {
        let io = File::open(format!("/proc/{pid}/io")).ok();
        let counted = io.as_ref().and_then(counted);
        let counted = if ours { counted.map(|_| (0, 0)) } else { counted };
        Files { positions: BTreeMap::new(), left: counted.map(|_| (0, 0)), io, counted: counted.unwrap_or_default() }
    }

    /// Finds what the process has open now.
    pub(super) fn look(&mut self, pid: u32, around: &mut Around, ours: bool) -> Ends {
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
            } else if !text.starts_with("/dev/") && !text.starts_with("anon_inode:") {
                match around.target(pid, fd) {
                    Some(Target::Pipe(inode)) => {
                        let opened = FdInfo::open(pid, fd).and_then(|info| info.read()).map_or(Opened::Unknown, |(_, opened)| opened);
                        ends.pipes.extend((opened != Opened::Write).then_some((inode, false)));
                        ends.pipes.extend((opened != Opened::Read).then_some((inode, true)));
                    }
                    Some(Target::File(object)) => self.add(pid, fd, object, ours),
                    _ => {}
                }
            }
        }
        ends
    }

    fn add(&mut self, pid: u32, fd: u32, object: ObjectId, ours: bool) {
        if self.positions.get(&fd).is_some_and(|known| known.object == object) {
            return;
        }
        let Some(info) = FdInfo::open(pid, fd) else { return };
        let Some((position, opened)) = info.read() else { return };
        // What was read before it was seen was read since it was opened, if the process is ours.
        let bytes = if ours && opened != Opened::Both { 0 } else { position };
        self.positions.insert(fd, Position { info, bytes, object, opened });
    }

    /// Tells what was moved since the last look.
    pub(super) fn tell(&mut self, mode: &TraceHandle, track: TrackId, now: Time, out: &mut Vec<Event>) {
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
            let Some(span) = SpanId::new(mode.fresh()) else { continue };
            let (object, size_bytes) = (Some(position.object), Some(bytes));
            let span = bare(span, track, kind, now, 0);
            out.push(Event::Span(Span { object, offset_bytes: Some(before), size_bytes, cpu_ns: Some(0), ..span }));
        }
    }
}

/// Bytes read and written by the calls of a process; files, pipes and sockets alike.
fn counted(io: &File) -> Option<(u64, u64)> {
    let mut buffer = [0; 256];
    let n = io.read_at(&mut buffer, 0).ok()?;
    let text = std::str::from_utf8(&buffer[..n]).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((field("rchar:")?, field("wchar:")?))
}

/// Tells what moved on a connection since `before`, and how it stands now.
///
/// Bytes sent had not been sent at `since`, and bytes received had been at `now`: so a message never comes before it was sent.
pub(super) fn tell_connection(
    (mode, track, since, now): (&TraceHandle, TrackId, Time, Time),
    (object, socket): (ObjectId, &Socket),
    before: Moved,
    out: &mut Vec<Event>,
) -> Moved {
    let Some(current) = Moved::of(socket) else { return before };
    let ways = [(SpanKind::NetSend, since, before.written, current.written), (SpanKind::NetReceive, now, before.read, current.read)];
    for (kind, at, from, to) in ways {
        if let Some(span) = SpanId::new(mode.fresh()).filter(|_| to > from) {
            let part =
                Span { object: Some(object), offset_bytes: Some(from), size_bytes: Some(to - from), ..bare(span, track, kind, at, 0) };
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
