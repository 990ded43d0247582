//! A thread's activity while it ran, from its I/O accounting, its sends and receives, and samples.
//!
//! The accounting says exactly *how much* was read and written between two instants, the socket layer how much was
//! sent and received and when each run of calls ended; neither says how long it took. Samples do: over a thread's
//! life, the samples in a kind of call divided by the bytes and calls of that kind give a price, and each run is
//! divided by those prices. A single run of some microseconds rarely has a sample of its own; the prices come from
//! all runs so far, so that the sums are right. WorkKind without a price yet gets no length.

use crate::bpf::raw::Totals;
use thalweg_trace::{ObjectId, SpanKind};

/// The class of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Class {
    User,
    Read,
    Write,
    Send,
    Receive,
    Sync,
    Softirq,
    Fault,
    Other,
    Open,
    Stat,
    List,
    Names,
    /// A write to a file opened with O_SYNC or O_DSYNC.
    SyncedWrite,
    /// Tests whether something has come (poll, select, epoll), or yields the CPU.
    Poll,
    Close,
    Truncate,
    Remove,
    Rename,
    Create,
    Execute,
}

impl Class {
    /// Names, in the order of their numbers.
    pub(crate) const NAMES: [&'static str; 21] = [
        "user",
        "read",
        "write",
        "send",
        "receive",
        "sync",
        "softirq",
        "fault",
        "other",
        "metadata.open",
        "metadata.stat",
        "metadata.list",
        "metadata.other",
        "sync.write",
        "poll",
        "metadata.close",
        "metadata.truncate",
        "metadata.remove",
        "metadata.rename",
        "metadata.create",
        "metadata.execute",
    ];
}

/// The kinds of work that have a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum WorkKind {
    Read,
    Write,
    Send,
    Receive,
}

/// For prices, a call counts as this many additional bytes.
const CALL_BYTES: u64 = 2_048;

/// Sampled time from which a thread's own price is used; below it, that of all threads.
const OWN_PRICE_NS: u64 = 20_000_000;

/// Sampled time and work done, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prices {
    ns: [u64; 4],
    units: [u64; 4],
}

fn units(calls: u64, bytes: u64) -> u64 {
    bytes.saturating_add(calls.saturating_mul(CALL_BYTES))
}

impl Prices {
    /// Adds a sample in this work that represents `weight_ns`.
    pub(crate) fn sampled(&mut self, work: WorkKind, weight_ns: u64) {
        self.ns[work as usize] += weight_ns;
    }

    /// Adds an amount of work done.
    pub(crate) fn done(&mut self, work: WorkKind, calls: u64, bytes: u64) {
        let slot = &mut self.units[work as usize];
        *slot = slot.saturating_add(units(calls, bytes));
    }

    /// Returns the estimated duration of this work, by this thread's price or that of `all` threads.
    pub(crate) fn cost_ns(&self, all: &Prices, work: WorkKind, calls: u64, bytes: u64) -> u64 {
        let at = work as usize;
        let from = if self.ns[at] >= OWN_PRICE_NS { self } else { all };
        if from.units[at] == 0 {
            return 0;
        }
        let cost = u128::from(units(calls, bytes)) * u128::from(from.ns[at]) / u128::from(from.units[at]);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
}

/// WorkKind within a run, and its estimated duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) struct Piece {
    pub kind: SpanKind,
    pub object: Option<ObjectId>,
    pub calls: u64,
    pub bytes: u64,
    pub offset_bytes: Option<u64>,
    pub result: Option<i64>,
    pub want_ns: u64,
    /// When its first call ended.
    pub begun_ns: Option<u64>,
    /// When its last call ended; `None` if anywhere in the run.
    pub ended_ns: Option<u64>,
}

impl Piece {
    /// Creates a piece of this many calls and bytes, anywhere in the run.
    pub(crate) fn somewhere(kind: SpanKind, object: Option<ObjectId>, calls: u64, bytes: u64) -> Piece {
        let calls = calls.max(1);
        Piece { kind, object, calls, bytes, offset_bytes: None, result: None, want_ns: 0, begun_ns: None, ended_ns: None }
    }

    /// Whether it is a busy wait whose bytes have come.
    pub(crate) fn ends_wait(&self) -> bool {
        self.bytes == 0 && self.begun_ns.is_none() && self.ended_ns.is_some()
    }
}

/// A piece with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) struct Placed {
    pub piece: Piece,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// A gap that is less than one in this many parts of all gaps gets nothing.
const LEAST_GAP_PART: u64 = 16;

/// Places pieces within the run [start, end], one after another. Those with a known end are placed there; the others
/// share the remaining gaps.
pub(crate) fn place(start_ns: u64, end_ns: u64, pieces: &mut [Piece]) -> Vec<Placed> {
    let length = end_ns.saturating_sub(start_ns);
    let wanted: u64 = pieces.iter().fold(0, |sum, p| sum.saturating_add(p.want_ns));
    if wanted > length {
        for piece in pieces.iter_mut() {
            piece.want_ns = u64::try_from(u128::from(piece.want_ns) * u128::from(length) / u128::from(wanted)).unwrap_or(0);
        }
    }
    let mut placed = Vec::with_capacity(pieces.len() + 2);
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    let mut cursor = start_ns;
    let mut timed: Vec<&Piece> = pieces.iter().filter(|p| p.ended_ns.is_some()).collect();
    timed.sort_by_key(|p| p.ended_ns);
    for piece in timed {
        let end = piece.ended_ns.unwrap_or(end_ns).clamp(cursor, end_ns.max(cursor));
        let begin = end - piece.want_ns.min(end - cursor);
        if begin > cursor {
            gaps.push((cursor, begin));
        }
        placed.push(Placed { piece: *piece, start_ns: begin, end_ns: end });
        cursor = end;
    }
    if end_ns > cursor {
        gaps.push((cursor, end_ns));
    }
    fill(&gaps, end_ns, pieces.iter().filter(|p| p.ended_ns.is_none()).copied().collect(), &mut placed);
    placed
}

/// Spreads the other pieces over the gaps, in proportion to the gaps' lengths.
fn fill(gaps: &[(u64, u64)], end_ns: u64, pieces: Vec<Piece>, placed: &mut Vec<Placed>) {
    if pieces.is_empty() {
        return;
    }
    let all: u64 = gaps.iter().map(|(a, b)| b - a).sum();
    let gaps: Vec<(u64, u64)> = gaps.iter().copied().filter(|(a, b)| (b - a).saturating_mul(LEAST_GAP_PART) >= all).collect();
    let room: u64 = gaps.iter().map(|(a, b)| b - a).sum();
    if room == 0 || pieces.iter().all(|p| p.want_ns == 0) {
        placed.extend(pieces.into_iter().map(|piece| Placed { piece, start_ns: end_ns, end_ns }));
        return;
    }
    let part = |whole: u64, of: u64| u64::try_from(u128::from(whole) * u128::from(of) / u128::from(room)).unwrap_or(0);
    let mut before = 0;
    for (begin, end) in gaps {
        let after = before + (end - begin);
        let mut cursor = begin;
        for piece in &pieces {
            let calls = part(piece.calls, after) - part(piece.calls, before);
            let bytes = part(piece.bytes, after) - part(piece.bytes, before);
            let until = (cursor + part(piece.want_ns, after) - part(piece.want_ns, before)).min(end);
            if calls != 0 || bytes != 0 {
                placed.push(Placed { piece: Piece { calls, bytes, ..*piece }, start_ns: cursor, end_ns: until });
                cursor = until;
            }
        }
        before = after;
    }
}

/// The part of a thread's totals that has been recorded as file I/O.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accounted {
    read: (u64, u64),
    write: (u64, u64),
}

impl Accounted {
    /// Marks everything up to these totals as recorded.
    pub(crate) fn up_to(io: &Totals) -> Accounted {
        Accounted { read: file_reads(io), write: file_writes(io) }
    }

    /// Returns calls and bytes read from files but not recorded.
    pub(crate) fn unread(&self, io: &Totals) -> (u64, u64) {
        let now = file_reads(io);
        (now.0.saturating_sub(self.read.0), now.1.saturating_sub(self.read.1))
    }

    /// Returns calls and bytes written to files but not recorded.
    pub(crate) fn unwritten(&self, io: &Totals) -> (u64, u64) {
        let now = file_writes(io);
        (now.0.saturating_sub(self.write.0), now.1.saturating_sub(self.write.1))
    }

    /// Marks reads as recorded. Never goes back: a call on a connection can be counted there before the accounting
    /// has it.
    pub(crate) fn account_read(&mut self, io: &Totals) {
        let now = file_reads(io);
        self.read = (self.read.0.max(now.0), self.read.1.max(now.1));
    }

    /// Marks writes as recorded.
    pub(crate) fn account_written(&mut self, io: &Totals) {
        let now = file_writes(io);
        self.write = (self.write.0.max(now.0), self.write.1.max(now.1));
    }
}

fn file_reads(io: &Totals) -> (u64, u64) {
    (io.read_calls.saturating_sub(io.net_read_calls), io.read_bytes.saturating_sub(io.net_read_bytes))
}

fn file_writes(io: &Totals) -> (u64, u64) {
    (io.write_calls.saturating_sub(io.net_write_calls), io.write_bytes.saturating_sub(io.net_write_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(want_ns: u64, ended_ns: Option<u64>, calls: u64, bytes: u64) -> Piece {
        let kind = if ended_ns.is_some() { SpanKind::NetSend } else { SpanKind::FileRead };
        Piece { kind, object: None, calls, bytes, offset_bytes: None, result: None, want_ns, begun_ns: None, ended_ns }
    }

    proptest! {
        #[test]
        fn pieces_never_overlap_nor_leave_the_run_and_lose_nothing(
            length in 0_u64..10_000,
            timed in proptest::collection::vec((0_u64..5_000, 0_u64..12_000, 1_u64..9), 0..6),
            free in proptest::collection::vec((0_u64..5_000, 1_u64..9, 0_u64..100_000), 0..3),
        ) {
            let start = 1_000_000;
            let mut pieces: Vec<Piece> = timed.iter().map(|t| piece(t.0, Some(start + t.1.min(length)), t.2, 7)).collect();
            pieces.extend(free.iter().map(|f| piece(f.0, None, f.1, f.2)));
            let (calls, bytes) = (pieces.iter().map(|p| p.calls).sum::<u64>(), pieces.iter().map(|p| p.bytes).sum::<u64>());
            let mut placed = place(start, start + length, &mut pieces);
            placed.sort_by_key(|p| (p.start_ns, p.end_ns));
            for pair in placed.windows(2) {
                prop_assert!(pair[0].end_ns <= pair[1].start_ns, "{pair:?}");
            }
            for p in &placed {
                prop_assert!(p.start_ns >= start && p.end_ns <= start + length && p.start_ns <= p.end_ns);
            }
            prop_assert_eq!(placed.iter().map(|p| p.piece.calls).sum::<u64>(), calls);
            prop_assert_eq!(placed.iter().map(|p| p.piece.bytes).sum::<u64>(), bytes);
        }
    }

    #[test]
    fn the_price_of_all_runs_divides_each() {
        let mut prices = Prices::default();
        prices.sampled(WorkKind::Read, 30_000_000);
        prices.done(WorkKind::Read, 0, 30_000_000);
        assert_eq!(prices.cost_ns(&Prices::default(), WorkKind::Read, 0, 5_000), 5_000);
        assert_eq!(prices.cost_ns(&Prices::default(), WorkKind::Write, 1, 5_000), 0, "no price, no length");
        let fresh = Prices::default();
        assert_eq!(fresh.cost_ns(&prices, WorkKind::Read, 0, 5_000), 5_000, "that of all, until there is an own one");
    }

    #[test]
    fn bytes_of_connections_are_not_bytes_of_files() {
        let io = Totals { write_bytes: 100, write_calls: 3, net_write_bytes: 60, net_write_calls: 2, ..Totals::default() };
        let mut accounted = Accounted::default();
        assert_eq!(accounted.unwritten(&io), (1, 40));
        accounted.account_written(&io);
        let ahead = Totals { net_write_bytes: 90, net_write_calls: 3, ..io };
        assert_eq!(accounted.unwritten(&ahead), (0, 0));
        accounted.account_written(&ahead);
        let caught_up = Totals { write_bytes: 130, write_calls: 4, ..ahead };
        assert_eq!(accounted.unwritten(&caught_up), (0, 0), "the same bytes are not recorded twice");
    }
}
