//! What each wait of the run depended on: the same answers ([`crate::waits`]) as the critical path goes by, for every thread's waits.

use super::timeline::{Depends, Piece, Timeline};
use crate::ExplainError;
use crate::facts::Parts;
use crate::observe::feed::Feed;
use crate::observe::span::{LiveSpan, Observer};
use crate::observe::tables::Tables;
use crate::waits::answer::{Act, NeedUntil};
use crate::waits::memory::Memory;
use crate::waits::resolve;
use crate::waits::view::View;
use thalweg_trace::Source;

/// Gathers nothing: all was seen when the path was walked.
struct Seen;

impl Observer for Seen {
    fn span(&mut self, _: &Tables, _: &LiveSpan) {}
}

/// Asks for each wait at the instant at which its blocked part ended, latest first.
pub(crate) fn ask(source: &dyn Source, parts: &Parts<'_>, timelines: &mut [Timeline]) -> Result<(), ExplainError> {
    let mut waits: Vec<(i64, usize, usize)> = Vec::new();
    for (t, timeline) in timelines.iter().enumerate() {
        let own = timeline.pieces.iter().enumerate();
        waits.extend(own.filter_map(|(p, piece)| if let Piece::Wait(wait) = piece { Some((wait.woken, t, p)) } else { None }));
    }
    waits.sort_unstable_by(|a, b| b.cmp(a));
    let mut tables = parts.tables.clone();
    let mut feed = Feed::new(source, &tables);
    for (at, t, p) in waits {
        let track = timelines[t].track;
        let Piece::Wait(wait) = &mut timelines[t].pieces[p] else { continue };
        if wait.depends.is_none() {
            let acts = answer(&mut tables, &mut feed, parts, track, at)?;
            wait.depends = Some(Depends::of(acts, at, track));
            // What ended by its limit, and had come about before, was looked at too late.
            wait.polls |= wait.row.by_timer && wait.target().is_some_and(|(_, came)| came < at);
        }
    }
    Ok(())
}

fn answer(tables: &mut Tables, feed: &mut Feed<'_>, parts: &Parts<'_>, track: u32, at: i64) -> Result<Vec<Act>, ExplainError> {
    let mut needed = at;
    loop {
        feed.ensure(tables, needed, at, &mut Seen)?;
        feed.lanes[track as usize].settle(at);
        let mut memory = Memory::default();
        let view = View {
            tables: &*tables,
            feed,
            facts: parts.facts,
            labels: &parts.ledger.labels,
            memory: &mut memory,
            start: parts.start,
            track,
            end: tables.actors[track as usize].end,
            at,
            jumps: 0,
            circling: false,
            held: None,
            handing: None,
            floor: parts.start,
            acts: Vec::new(),
        };
        match resolve(view) {
            Ok(acts) => return Ok(acts),
            Err(NeedUntil(instant)) => needed = instant,
        }
    }
}
