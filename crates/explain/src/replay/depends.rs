//! The dependencies of each wait of the run: the same answers ([`crate::waits`]) as for the critical path, for every thread's waits.
//!
//! They are requested while the path reads the recording: spans read for the path are passed on, and as soon as they suffice for the next
//! wait, it is answered. So the spans are read once for both.

use super::timeline::{Depends, Piece, Timeline};
use crate::observe::feed::Feed;
use crate::observe::span::{LiveSpan, Observer};
use crate::observe::tables::Tables;
use crate::waits::answer::{Act, Answer, NeedUntil};
use crate::waits::memory::Memory;
use crate::waits::place::Labels;
use crate::waits::resolve;
use crate::waits::view::{Facts, View};

/// Asks about each wait at the instant at which its blocked part ended, latest first.
pub(crate) struct Asking<'a> {
    timelines: Vec<Timeline>,
    /// Open waits by timeline and piece, the latest last.
    waits: Vec<(i64, usize, usize)>,
    /// The instant down to which spans must be read before the next answer.
    needed: i64,
    feed: Feed<'a>,
    facts: &'a Facts,
    labels: Labels,
    /// Start of the explained interval.
    start: i64,
}

impl<'a> Asking<'a> {
    /// Prepares the waits of these timelines.
    pub(crate) fn new(tables: &Tables, facts: &'a Facts, start: i64, timelines: Vec<Timeline>) -> Asking<'a> {
        let mut waits: Vec<(i64, usize, usize)> = Vec::new();
        for (t, timeline) in timelines.iter().enumerate() {
            let own = timeline.pieces.iter().enumerate();
            let unanswered =
                |piece: &Piece| if let Piece::Wait(wait) = piece { wait.depends.is_none().then_some(wait.woken) } else { None };
            waits.extend(own.filter_map(|(p, piece)| unanswered(piece).map(|woken| (woken, t, p))));
        }
        waits.sort_unstable();
        let needed = waits.last().map_or(i64::MAX, |next| next.0);
        Asking { timelines, waits, needed, feed: Feed::handed(tables), facts, labels: Labels::of(tables), start }
    }

    /// The timelines, once the whole recording has been read.
    pub(crate) fn answered(self) -> Vec<Timeline> {
        self.timelines
    }

    /// Answers all waits for which enough has been read.
    fn go_on(&mut self, tables: &Tables) {
        while let Some(&(at, t, p)) = self.waits.last() {
            let track = self.timelines[t].track;
            match self.answer(tables, track, at) {
                Err(NeedUntil(instant)) => {
                    self.needed = instant;
                    if self.lacks() {
                        return;
                    }
                }
                Ok(acts) => {
                    if let Piece::Wait(wait) = &mut self.timelines[t].pieces[p] {
                        wait.depends = Some(Depends::of(acts, at, track));
                        // A wait that ended at its timeout after the event had happened was polled too late.
                        wait.polls |= wait.row.by_timer && wait.target().is_some_and(|(_, came)| came < at);
                    }
                    self.waits.pop();
                    self.needed = self.waits.last().map_or(i64::MAX, |next| next.0);
                }
            }
        }
    }

    /// Whether more is needed before the next wait is answered.
    fn lacks(&self) -> bool {
        self.feed.position >= self.needed && !self.feed.exhausted()
    }

    fn answer(&mut self, tables: &Tables, track: u32, at: i64) -> Answer<Vec<Act>> {
        if self.lacks() {
            return Err(NeedUntil(self.needed));
        }
        self.feed.lanes[track as usize].settle(at);
        let mut memory = Memory::default();
        resolve(View {
            tables,
            feed: &mut self.feed,
            facts: self.facts,
            labels: &self.labels,
            memory: &mut memory,
            start: self.start,
            track,
            end: tables.actors[track as usize].end,
            at,
            jumps: 0,
            circling: false,
            held: None,
            handing: None,
            floor: self.start,
            acts: Vec::new(),
        })
    }
}

impl Observer for Asking<'_> {
    fn begins(&mut self, until: i64) {
        if let Some(&(at, ..)) = self.waits.last() {
            self.feed.begin(until, at);
        }
    }

    #[inline]
    fn span(&mut self, tables: &Tables, span: &LiveSpan) {
        if let Some(&(at, ..)) = self.waits.last() {
            self.feed.take(tables, span, at);
        }
    }

    fn ends(&mut self, tables: &Tables) {
        if !self.lacks() {
            self.go_on(tables);
        }
    }
}
