//! Ranks that poll for each other, as waits: while a rank waited for another in an MPI call, its thread ran without doing work. In the
//! graph it waits for the other rank's part instead, including whatever it queued for or slept in meanwhile.

use super::rows::{Row, Rows};
use crate::limits::replay as limits;
use crate::observe::feed::live;
use crate::observe::ranks::{Provider, Ranks, is_part};
use crate::observe::span::{LiveSpan, is_mpi};
use crate::observe::tables::Tables;
use std::collections::HashMap;
use thalweg_trace::{ABSENT, ObjectKind, Source, SpanBatch, SpanKind};

/// MPI calls, as far as they are followed.
pub(crate) struct Calls {
    tables: Tables,
    ranks: Ranks,
    calls: Vec<LiveSpan>,
}

impl Calls {
    /// The state before any span was seen; `None` if there are no ranks.
    pub(crate) fn of(source: &dyn Source) -> Option<Calls> {
        source.objects().iter().any(|o| o.kind == ObjectKind::Communicator).then(|| {
            let tables = Tables::of(source);
            Calls { ranks: Ranks::new(&tables), tables, calls: Vec::new() }
        })
    }

    /// Adds spans.
    pub(crate) fn note(&mut self, batch: &SpanBatch) {
        for row in (0..batch.len()).filter(|&row| is_mpi(batch.kind[row])) {
            let Some(span) = live(&mut self.tables, batch, row) else { continue };
            self.ranks.note(&span);
            if is_part(&span) && self.calls.len() < limits::MOST_MPI_CALLS {
                self.calls.push(span);
            }
        }
    }

    /// Replaces ranks' running while they waited for each other by waits.
    pub(crate) fn into_waits(self, rows: &mut Rows) {
        let Calls { tables, ranks, calls } = self;
        // Of several things that one wait ended, only the last was waited for: by track and start.
        let mut waits: HashMap<(u32, i64), Row> = HashMap::new();
        for call in &calls {
            let Provider::Track(waker, at) = ranks.provider(&tables, call) else { continue };
            if at <= call.start || call.start < rows.from {
                continue;
            }
            let row = waits.entry((call.track, call.start)).or_insert_with(|| wait(call, waker, at));
            if at > row.end {
                *row = wait(call, waker, at);
            }
        }
        let mut of_track: HashMap<u32, Vec<(i64, i64)>> = HashMap::new();
        waits.values().for_each(|row| of_track.entry(row.track).or_default().push((row.start, row.end)));
        of_track.values_mut().for_each(|waits| waits.sort_unstable());
        let within = |row: &Row| {
            let Some(waits) = of_track.get(&row.track) else { return false };
            let before = waits.partition_point(|&(start, _)| start <= row.start);
            before > 0 && waits[before - 1].1 >= row.end
        };
        rows.rows.retain(|row| !within(row));
        rows.rows.extend(waits.into_values());
        rows.rows.sort_by_key(|row| (std::cmp::Reverse(row.end), row.id));
    }
}

fn wait(call: &LiveSpan, waker: u32, at: i64) -> Row {
    Row {
        start: call.start,
        off_until: at,
        end: at,
        id: call.id,
        runqueue_ns: 0,
        offset: ABSENT,
        bytes: 0,
        track: call.track,
        waker,
        object: crate::observe::index::NONE,
        kind: SpanKind::WaitLock,
        by_timer: false,
        rank: Some(waker),
        fruitless: false,
    }
}
