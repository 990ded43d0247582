//! Each thread's time in order: stretches in which it ran, and waits between them.
//!
//! Waits that are one to a person are merged: a poll that timed out and was repeated waited for what ended the last of them; so did looks
//! at a connection with sleeps between them, and consecutive fruitless receives (spinning), which are not running: they wait for what comes
//! next. A wait after which its thread queued for a processor is split: only its first part has a dependency; queueing is simulated anew.

use super::rows::{Row, Rows};
use crate::limits::replay as limits;
use crate::observe::index::NONE;
use crate::observe::lives::Life;
use crate::observe::tables::Tables;
use crate::rule::RuleId;
use crate::waits::answer::{Act, Charge, Edge};
use std::collections::HashMap;
use thalweg_trace::{Role, SpanKind};

/// The dependency of one wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depends {
    /// The edge, and the instant at which it was reached; `None` for no dependency.
    pub edge: Option<(Edge, i64)>,
    /// The rule and charge of its end.
    pub charged: Option<(RuleId, Charge)>,
}

impl Depends {
    /// Reads it from an answer for a thread at an instant.
    pub(crate) fn of(acts: Vec<Act>, mut at: i64, track: u32) -> Depends {
        let mut depends = Depends { edge: None, charged: None };
        for act in acts {
            match act {
                Act::Charge(rule, charge, from) => {
                    depends.charged.get_or_insert((rule, charge));
                    at = from.min(at);
                }
                Act::Along(edge) | Act::Go(edge) if edge.track() != Some(track) => depends.edge = Some((edge, at)),
                _ => {}
            }
        }
        depends
    }
}

/// A wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Its recorded span (of its last part).
    pub row: Row,
    /// Start.
    pub start: i64,
    /// End of its blocked part.
    pub woken: i64,
    /// When the thread ran again.
    pub end: i64,
    /// Whether the thread polled, instead of waiting to be notified.
    pub polls: bool,
    /// Its dependency; unknown before it is requested.
    pub depends: Option<Depends>,
}

impl Wait {
    /// Its dependency (a thread, or a connection's other end), and the instant at which that was reached.
    pub(crate) fn target(&self) -> Option<(Target, i64)> {
        let (edge, at) = self.depends?.edge?;
        let target = match edge {
            Edge::Bytes { connection, .. } | Edge::Peer { connection, .. } | Edge::Far { connection, .. } => Target::Connection(connection),
            Edge::Woke(track) | Edge::Thread(track) => Target::Thread(track),
        };
        Some((target, at))
    }
}

/// The target of a wait's dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Target {
    Thread(u32),
    Connection(u32),
}

/// A stretch of a thread's time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece {
    /// It ran.
    Run(i64, i64),
    /// It waited.
    Wait(Wait),
}

impl Piece {
    /// Start.
    pub(crate) fn start(&self) -> i64 {
        match self {
            Piece::Run(start, _) => *start,
            Piece::Wait(w) => w.start,
        }
    }

    /// End.
    pub(crate) fn end(&self) -> i64 {
        match self {
            Piece::Run(_, end) => *end,
            Piece::Wait(w) => w.end,
        }
    }
}

/// A thread's timeline.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Dense number of its track.
    pub track: u32,
    /// The pieces, in order, without gaps.
    pub pieces: Vec<Piece>,
    /// Times of its sends, in order.
    sends: Vec<i64>,
}

impl Timeline {
    /// Index of the piece at an instant; at a boundary the earlier one.
    pub(crate) fn at(&self, instant: i64) -> usize {
        self.pieces.partition_point(|p| p.end() < instant).min(self.pieces.len().saturating_sub(1))
    }

    /// The latest instant up to `instant` at which the thread ran, or its start.
    pub(crate) fn ran_at(&self, instant: i64) -> i64 {
        let Some(first) = self.pieces.first() else { return instant };
        match self.pieces[self.at(instant)] {
            Piece::Run(start, end) => instant.clamp(start, end),
            Piece::Wait(w) if instant >= w.end => w.end,
            Piece::Wait(w) => w.start.min(instant.max(first.start())),
        }
    }

    /// The earliest instant from `instant` on at which the thread ran, or its end.
    pub(crate) fn runs_from(&self, instant: i64) -> i64 {
        let from = self.pieces.iter().skip(self.at(instant));
        let run = from.filter_map(|p| if let Piece::Run(start, end) = *p { Some((start, end)) } else { None }).find(|r| r.1 > instant);
        run.map_or(self.pieces.last().map_or(instant, Piece::end), |r| r.0.max(instant))
    }

    /// When the thread can have woken another that was recorded as woken at an instant and ran again at `latest`. If only the sum of a
    /// span's queueing is known, some of it may lie before the wait, and the wake-up may have been later.
    pub(crate) fn woke_at(&self, instant: i64, latest: i64) -> i64 {
        if self.ran_at(instant) < instant { self.runs_from(instant).min(latest).max(instant) } else { instant }
    }

    /// Start.
    pub(crate) fn start(&self) -> i64 {
        self.pieces.first().map_or(0, Piece::start)
    }
}

/// The timelines of all threads that work for client or server.
pub(crate) fn timelines(tables: &Tables, rows: &Rows, lives: &[Life], start: i64, end: i64) -> Vec<Timeline> {
    let mut of_track: Vec<Vec<Row>> = vec![Vec::new(); tables.actors.len()];
    for row in rows.rows.iter().rev() {
        let actor = &tables.actors[row.track as usize];
        if actor.thread && matches!(actor.role, Role::Client | Role::Server) {
            of_track[row.track as usize].push(*row);
        }
    }
    let woke = last_woke(rows, tables.actors.len());
    let mut timelines = Vec::new();
    for (track, mut rows_of) in of_track.into_iter().enumerate() {
        let main = track as u32 == tables.main;
        if rows_of.is_empty() && !main {
            continue;
        }
        rows_of.sort_by_key(|r| (r.start, std::cmp::Reverse(r.end)));
        let made = lives[track].made().filter(|made| made.1 != NONE).map_or(i64::MAX, |made| made.0);
        let life = if main {
            (start, end)
        } else {
            let last = rows_of.iter().map(|r| r.end).max().unwrap_or(end);
            (rows_of[0].start.min(made).max(start), last.max(woke[track]).min(end))
        };
        let pieces = pieces(&rows_of, rows, life);
        let mut sends: Vec<i64> = rows_of.iter().filter(|r| r.moves() && r.kind == SpanKind::NetSend).map(|r| r.end).collect();
        sends.sort_unstable();
        timelines.push(Timeline { track: track as u32, pieces, sends });
    }
    timelines
}

/// By track: when it last ended another's wait. A thread that only computes at its end has no rows of its own from then on.
fn last_woke(rows: &Rows, tracks: usize) -> Vec<i64> {
    let mut woke = vec![i64::MIN; tracks];
    for row in &rows.rows {
        if let Some(last) = woke.get_mut(row.waker as usize) {
            *last = (*last).max(row.end);
        }
    }
    woke
}

/// Merges waits that are one to a person, once their dependencies are known, and makes the queueing after each a wait of its own.
pub(crate) fn join(timelines: &mut [Timeline]) {
    timelines.iter_mut().for_each(|timeline| merge_looks(&mut timeline.pieces, &timeline.sends));
    split_queueing(timelines);
}

/// Makes the queueing after each wait a wait of its own.
fn split_queueing(timelines: &mut [Timeline]) {
    let of_track: HashMap<u32, usize> = timelines.iter().enumerate().map(|(i, t)| (t.track, i)).collect();
    let waker_of = |w: &Wait| match w.target()?.0 {
        Target::Thread(track) => of_track.get(&track).copied(),
        Target::Connection(_) => None,
    };
    let split: Vec<Vec<Piece>> = timelines
        .iter()
        .enumerate()
        .map(|(i, timeline)| {
            let mut pieces = Vec::with_capacity(timeline.pieces.len());
            for piece in &timeline.pieces {
                let Piece::Wait(wait) = *piece else {
                    pieces.push(*piece);
                    continue;
                };
                let waker = waker_of(&wait).filter(|&waker| waker != i).map(|waker| &timelines[waker]);
                let woken = waker.map_or(wait.woken, |waker| waker.woke_at(wait.woken, wait.row.end)).min(wait.end);
                pieces.push(Piece::Wait(Wait { woken, end: woken, ..wait }));
                if woken < wait.end {
                    let row = Row { kind: SpanKind::WaitRunqueue, waker: NONE, object: NONE, ..wait.row };
                    pieces.push(Piece::Wait(Wait { row, start: woken, woken: wait.end, end: wait.end, polls: false, depends: None }));
                }
            }
            pieces
        })
        .collect();
    timelines.iter_mut().zip(split).for_each(|(timeline, pieces)| timeline.pieces = pieces);
}

fn pieces(rows_of: &[Row], rows: &Rows, (start, end): (i64, i64)) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut cursor = start;
    for row in rows_of {
        let off_until = if row.fruitless { row.end } else { row.off_until }.min(end);
        let is_wait = (row.waits() || row.fruitless) && !rows.parents.contains(&row.id);
        if !is_wait || off_until <= cursor {
            continue;
        }
        let from = row.start.max(cursor);
        if from > cursor {
            pieces.push(Piece::Run(cursor, from));
        }
        let queued = if row.kind == SpanKind::WaitRunqueue { 0 } else { (row.runqueue_ns as i64).min(off_until - from) };
        let depends = row.rank.map(|rank| Depends { edge: Some((Edge::Thread(rank), off_until)), charged: None });
        pieces.push(Piece::Wait(Wait { row: *row, start: from, woken: off_until - queued, end: off_until, polls: row.fruitless, depends }));
        cursor = off_until;
    }
    if cursor < end {
        pieces.push(Piece::Run(cursor, end));
    }
    pieces
}

/// Whether a wait was only a look: it ended before its dependency was met.
fn is_look(wait: &Wait) -> bool {
    (wait.row.fruitless || wait.row.by_timer) && wait.target().is_some_and(|(_, at)| at >= wait.woken)
}

/// Whether a wait continues a look: it depended on the same thread.
fn continues(look: &Wait, next: &Wait) -> bool {
    look.target().map(|target| target.0) == next.target().map(|target| target.0)
}

/// The last look after which a thread did next to nothing but queue for a processor, and its index.
fn last_look(pieces: &[Piece]) -> Option<(usize, Wait)> {
    let mut ran = 0;
    for (at, piece) in pieces.iter().enumerate().rev().take(6) {
        match piece {
            Piece::Run(from, to) => ran += to - from,
            Piece::Wait(w) if w.row.kind == SpanKind::WaitRunqueue => {}
            Piece::Wait(w) => return (is_look(w) && ran <= limits::BETWEEN_POLLS_NS).then_some((at, *w)),
        }
    }
    None
}

/// Merges consecutive looks, with next to no running and no sending between them, into one wait.
fn merge_looks(pieces: &mut Vec<Piece>, sends: &[i64]) {
    let sent_within = |from: i64, to: i64| sends.get(sends.partition_point(|&s| s < from)).is_some_and(|&s| s <= to);
    let mut merged: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces.drain(..) {
        if let Piece::Wait(next) = piece
            && next.row.kind != SpanKind::WaitRunqueue
            && let Some((at, look)) = last_look(&merged)
            && continues(&look, &next)
            && !sent_within(look.end, next.start)
        {
            merged.truncate(at);
            merged.push(Piece::Wait(Wait { start: look.start, polls: look.polls || next.polls, ..next }));
        } else {
            merged.push(piece);
        }
    }
    *pieces = merged;
}
