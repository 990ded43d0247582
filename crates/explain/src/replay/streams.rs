//! Bytes through connections: which thread had handed over, and which had taken, how many of a stream's bytes when.

use super::rows::Row;
use crate::cause::End;
use crate::observe::index::NONE;
use crate::observe::tables::Tables;
use std::collections::HashMap;
use thalweg_trace::{ABSENT, SpanKind};

/// One direction of one connection: `2 × connection`, plus one for the server's sends.
pub(crate) type Way = u32;

/// Bytes handed over, or taken, by one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    /// Start.
    pub start: i64,
    /// End.
    pub end: i64,
    /// Offset of the first byte.
    pub from: u64,
    /// Offset after the last byte.
    pub to: u64,
    /// The track.
    pub track: u32,
}

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The sender's bytes, in order of time.
    pub sent: Vec<Moved>,
    /// The receiver's bytes, in order of time.
    pub taken: Vec<Moved>,
    /// Whether offsets were not recorded, but counted; bytes missing at either end then shift them.
    pub counted: bool,
}

/// All streams.
#[derive(Debug)]
pub(crate) struct Streams {
    /// By [`Way`].
    pub streams: Vec<Stream>,
    /// By track: when it used a connection as a client, and whether it sent; in order of time.
    uses: HashMap<u32, Vec<(i64, bool)>>,
}

/// The end of its connection that a thread is at when it uses this object.
fn end_of(tables: &Tables, object: u32, track: u32) -> End {
    let end = tables.objects.get(object as usize).and_then(|object| object.connection_end);
    end.unwrap_or(tables.actors[track as usize].end)
}

impl Streams {
    /// Makes them from all rows that moved bytes.
    pub(crate) fn of(tables: &Tables, rows: &[Row]) -> Streams {
        let mut streams: Vec<Stream> = Vec::new();
        streams.resize_with(tables.connections.len() * 2, Stream::default);
        // Without recorded offsets, bytes are counted.
        let mut counted: HashMap<(Way, bool), u64> = HashMap::new();
        let mut uses: HashMap<u32, Vec<(i64, bool)>> = HashMap::new();
        for row in rows.iter().rev().filter(|r| r.moves() && tables.connection_of(r.object) != NONE) {
            let (end, sends) = (end_of(tables, row.object, row.track), row.kind == SpanKind::NetSend);
            let way = 2 * tables.connection_of(row.object) + if sends { end } else { end.other() } as u32;
            let position = counted.entry((way, sends)).or_default();
            let from = if row.offset == ABSENT { *position } else { row.offset };
            *position = from + row.bytes;
            // The wait at the start of the call brought nothing yet.
            let start = if sends { row.start } else { row.off_until };
            let moved = Moved { start, end: row.end, from, to: from + row.bytes, track: row.track };
            if end == End::Client {
                uses.entry(row.track).or_default().push((row.end, sends));
            }
            let stream = &mut streams[way as usize];
            stream.counted |= row.offset == ABSENT;
            if sends { stream.sent.push(moved) } else { stream.taken.push(moved) }
        }
        for stream in &mut streams {
            stream.sent.sort_by_key(|m| (m.to, m.end));
            stream.taken.sort_by_key(|m| (m.end, m.to));
        }
        Streams { streams, uses }
    }

    /// The thread that sent the byte at this offset, which had arrived by an instant; and the end of its send, as far as recorded.
    pub(crate) fn sender_of(&self, way: Way, position: u64, come_by: i64) -> Option<(u32, i64)> {
        let stream = self.streams.get(way as usize)?;
        let sent = &stream.sent;
        if stream.counted {
            // The latest send that can have arrived.
            let moved = sent.get(sent.partition_point(|m| m.start <= come_by).checked_sub(1)?)?;
            return Some((moved.track, moved.end.min(come_by)));
        }
        let moved = sent.get(sent.partition_point(|m| m.to <= position))?;
        (moved.from <= position).then(|| {
            let part = (position - moved.from) as f64 / (moved.to - moved.from).max(1) as f64;
            (moved.track, moved.start + ((moved.end - moved.start) as f64 * part) as i64)
        })
    }

    /// The first bytes this thread took at or after an instant; or any thread, if it leaves that to others.
    pub(crate) fn taken_from(&self, way: Way, track: u32, instant: i64) -> Option<&Moved> {
        let taken = &self.streams.get(way as usize)?.taken;
        let next = &taken[taken.partition_point(|m| m.end < instant)..];
        next.iter().take(64).find(|m| m.track == track).or(next.first())
    }

    /// The last bytes any thread had taken by an instant.
    pub(crate) fn taken_by(&self, way: Way, instant: i64) -> Option<&Moved> {
        let taken = &self.streams.get(way as usize)?.taken;
        taken.get(taken.partition_point(|m| m.end <= instant).checked_sub(1)?)
    }

    /// The receive that passed an offset.
    pub(crate) fn taken_past(&self, way: Way, position: u64) -> Option<&Moved> {
        let taken = &self.streams.get(way as usize)?.taken;
        taken.get(taken.partition_point(|m| m.to < position))
    }

    /// Number of bytes the sender had handed over by an instant.
    pub(crate) fn sent_by(&self, way: Way, instant: i64) -> u64 {
        let Some(stream) = self.streams.get(way as usize) else { return 0 };
        let after = stream.sent.partition_point(|m| m.start <= instant);
        after.checked_sub(1).map_or(0, |i| stream.sent[i].to)
    }

    /// The instants at which a calling thread had taken the last answer before it sent again; the first is its first send.
    pub(crate) fn turns(&self, track: u32) -> Vec<i64> {
        let mut turns = Vec::new();
        let mut taken: Option<i64> = None;
        for &(at, sends) in self.uses.get(&track).into_iter().flatten() {
            if !sends {
                taken = Some(at);
            } else if turns.is_empty() {
                turns.push(at);
            } else {
                turns.extend(taken.take());
            }
        }
        turns
    }
}
