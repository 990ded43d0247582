//! Evidence of two recordings about positions in the byte streams of the connections they share.
//!
//! Each `net.send` gives a *not yet*: at that instant the byte at its offset had not been sent. Each `net.receive`
//! gives a *by then*: at that instant the bytes before its end had been received. SCHEMA.md defines the instants: the
//! span of a call gives its start and its end; a wait holds its offset from start to end. A span that sums up a
//! thread's calls while it ran ends with its last call, and may have begun long before its start, even before waits
//! for room in the send buffer; its *not yet* is therefore the end of the last wait that certainly was not part of
//! the call, or of the previous send.
//!
//! Both are joined in order of position (an external sort, so memory is bounded): whatever is received was sent after
//! the last *not yet* of a position at or before it.

use super::bounds::Bounds;
use crate::recording::{Key, Sortable, Sorter, for_sorting};
use crate::{ABSENT, ABSENT_CONTEXT, ABSENT_RESULT, Axis, HostId, ObjectKind, Role, Source, SpanBatch, SpanKind, TraceError, WakerContext};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};

/// One statement about a position in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    /// The connection and direction.
    stream: u32,
    /// Bytes before this position.
    position: u64,
    at_ns: i64,
    /// True for a sender's *not yet*, false for a receiver's *by then*.
    sender: bool,
    /// True if it comes from the reference recording.
    reference: bool,
}

impl Sortable for Point {
    fn key(&self) -> Key {
        // At one position receivers come first: the byte not yet sent is the one after the position.
        (0, i64::from(self.stream), self.position << 1 | u64::from(self.sender))
    }
}

/// Positions above this are invalid.
const MOST_POSITION: u64 = 1 << 62;

/// Returns bounds on the clock of `other`, and the number of connections that gave any.
pub(super) fn gather(reference: &dyn Source, axis: &Axis, other: &dyn Source) -> Result<(Bounds, usize), TraceError> {
    let mut bounds = Bounds::default();
    let shared = shared(reference, other);
    if shared.is_empty() {
        return Ok((bounds, 0));
    }
    let directory = for_sorting()?;
    let mut sorter = Sorter::new(directory.path(), "positions");
    let to_axis = |ns: i64| axis.to_reference(HostId(0), ns);
    points(reference, &shared, |point| sorter.push(Point { at_ns: to_axis(point.at_ns), reference: true, ..point }))?;
    points(other, &shared, |point| sorter.push(point))?;
    let mut sent_after = [None::<i64>; 2];
    let (mut stream, mut used, mut last_used) = (u32::MAX, 0, u32::MAX);
    sorter.drain(|point| {
        if point.stream != stream {
            (stream, sent_after) = (point.stream, [None; 2]);
        }
        if point.sender {
            let held = &mut sent_after[usize::from(point.reference)];
            *held = Some(held.map_or(point.at_ns, |held| held.max(point.at_ns)));
        } else if let Some(sent_after_ns) = sent_after[usize::from(!point.reference)] {
            match point.reference {
                false => bounds.sent_by_reference(sent_after_ns, point.at_ns),
                true => bounds.sent_by_host(sent_after_ns, point.at_ns),
            }
            if last_used != point.stream / 2 {
                (last_used, used) = (point.stream / 2, used + 1);
            }
        }
        Ok(())
    })?;
    Ok((bounds, used))
}

/// Numbers the connections that both recordings have. A name used more than once (same ports, later) is left out: its
/// streams cannot be matched.
fn shared(one: &dyn Source, other: &dyn Source) -> HashMap<String, u32> {
    let once = |source: &dyn Source| {
        let mut seen: HashMap<(String, Option<String>), u32> = HashMap::new();
        for object in source.objects().iter().filter(|object| object.kind == ObjectKind::Connection) {
            let end = object.attributes.iter().find(|(name, _)| name == "end").map(|(_, end)| end.clone());
            *seen.entry((object.name.clone(), end)).or_default() += 1;
        }
        let twice: HashSet<String> = seen.iter().filter(|(_, count)| **count > 1).map(|((name, _), _)| name.clone()).collect();
        let names: BTreeSet<String> = seen.into_keys().map(|(name, _)| name).filter(|name| !twice.contains(name)).collect();
        names
    };
    let theirs = once(other);
    once(one).into_iter().filter(|name| theirs.contains(name)).zip(0..).collect()
}

/// The connection and end that an object represents.
#[derive(Clone, Copy)]
struct EndOf {
    connection: u32,
    /// `None` if the object does not say; the thread's role then decides.
    client: Option<bool>,
}

/// A thread while its spans are read backward: positions not yet sent when the preceding wait ended.
#[derive(Default)]
struct Thread {
    unsent: Vec<(u32, u64)>,
}

/// Yields every point of a recording, with times on the recording's own reference axis.
fn points(
    source: &dyn Source,
    shared: &HashMap<String, u32>,
    mut each: impl FnMut(Point) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let ends: HashMap<u64, EndOf> = source
        .objects()
        .iter()
        .filter(|object| object.kind == ObjectKind::Connection)
        .filter_map(|object| {
            let end = object.attributes.iter().find(|(name, _)| name == "end").map(|(_, end)| end == "client");
            Some((object.object.number(), EndOf { connection: *shared.get(&object.name)?, client: end }))
        })
        .collect();
    let servers: HashSet<u64> = source.tracks().iter().filter(|t| t.role == Role::Server).map(|t| t.track.number()).collect();
    // Where each call is traced, even a call that never blocked has its true position.
    let exact = source.meta().attributes.iter().any(|(name, tier)| name == "tier" && tier != "lean");
    let mut threads: HashMap<u64, Thread> = HashMap::new();
    for batch in source.spans_backward() {
        let batch = batch?;
        for row in 0..batch.len() {
            let thread = threads.entry(batch.track[row]).or_default();
            let recorded = Recorded::of(&batch, row, exact);
            let kind = batch.kind[row];
            if recorded == Recorded::Call || recorded == Recorded::Wait && is_between_sends(kind) {
                for (stream, position) in thread.unsent.drain(..) {
                    each(Point { stream, position, at_ns: batch.end_ns[row], sender: true, reference: false })?;
                }
            }
            if !matches!(kind, SpanKind::NetSend | SpanKind::NetReceive) || batch.offset_bytes[row] >= MOST_POSITION {
                continue;
            }
            let Some(end) = ends.get(&batch.object[row]) else { continue };
            let client = end.client.unwrap_or(!servers.contains(&batch.track[row]));
            let sends = kind == SpanKind::NetSend;
            // Client to server is the even number.
            let stream = end.connection * 2 + u32::from(sends != client);
            spoken(&batch, row, recorded, thread, stream, &mut each)?;
        }
    }
    Ok(())
}

/// How a span relates to its thread's running time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recorded {
    /// The thread was off the CPU from start to end.
    Wait,
    /// The thread did it somewhere between the surrounding waits.
    WhileRunning,
    /// A call (or a run of calls) from start to end.
    Call,
}

impl Recorded {
    fn of(batch: &SpanBatch, row: usize, exact: bool) -> Recorded {
        let duration = batch.end_ns[row].saturating_sub(batch.start_ns[row]).unsigned_abs();
        match batch.cpu_ns[row] {
            _ if is_wait(batch.kind[row]) => Recorded::Wait,
            ABSENT => Recorded::Call,
            cpu if cpu >= duration => {
                if exact {
                    Recorded::Call
                } else {
                    Recorded::WhileRunning
                }
            }
            0 => Recorded::Wait,
            _ => Recorded::Call,
        }
    }
}

fn is_wait(kind: SpanKind) -> bool {
    use SpanKind::{WaitDisk, WaitLock, WaitMemory, WaitNetwork, WaitOther, WaitRunqueue, WaitTimer};
    matches!(kind, WaitDisk | WaitLock | WaitMemory | WaitNetwork | WaitOther | WaitRunqueue | WaitTimer)
}

/// Whether a wait of this kind is certainly not part of a sending call. (A send may wait for a page read from a file,
/// for a CPU or for memory.)
fn is_between_sends(kind: SpanKind) -> bool {
    use SpanKind::{NetConnect, NetReceive, WaitLock, WaitNetwork, WaitTimer};
    matches!(kind, NetConnect | NetReceive | WaitNetwork | WaitLock | WaitTimer)
}

/// Yields the points of one `net.send` or `net.receive`.
fn spoken(
    batch: &SpanBatch,
    row: usize,
    recorded: Recorded,
    thread: &mut Thread,
    stream: u32,
    each: &mut impl FnMut(Point) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let sends = batch.kind[row] == SpanKind::NetSend;
    let position = batch.offset_bytes[row];
    let failed = batch.result[row] < 0 && batch.result[row] != ABSENT_RESULT;
    let size = Some(batch.size_bytes[row]).filter(|size| *size < MOST_POSITION && !failed);
    let after = position + size.unwrap_or(0);
    let (start_ns, end_ns) = (batch.start_ns[row], batch.end_ns[row]);
    let mut say = |position, at_ns| each(Point { stream, position, at_ns, sender: sends, reference: false });
    match (recorded, sends) {
        (Recorded::WhileRunning, true) => {
            // What the thread sent later begins where this span ended.
            let (later, others): (Vec<_>, Vec<_>) = thread.unsent.drain(..).partition(|(of, from)| *of == stream && *from >= after);
            thread.unsent = others;
            later.into_iter().try_for_each(|(_, from)| say(from, end_ns))?;
            thread.unsent.push((stream, position));
        }
        (Recorded::Call, true) => say(position, start_ns)?,
        (Recorded::WhileRunning | Recorded::Call, false) => say(after, end_ns)?,
        // A wait without a size holds its position from start to end.
        (Recorded::Wait, true) => say(position, if size.is_none() { end_ns } else { start_ns })?,
        (Recorded::Wait, false) if size.is_some() => say(after, end_ns)?,
        (Recorded::Wait, false) => {
            say(position, start_ns)?;
            let context = batch.waker_context[row];
            if context != ABSENT_CONTEXT && context == WakerContext::Softirq as u8 {
                // The next byte woke the thread (or the stream's end, after which no position is sent).
                say(position + 1, end_ns)?;
            }
        }
    }
    Ok(())
}
