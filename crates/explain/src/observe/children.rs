//! Looks of threads for the end of a child of theirs, in vain: calls of no length, each with the child as its object.

use crate::limits::observe as limits;
use crate::observe::lives::Life;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use foldhash::HashMap;
use thalweg_trace::{ObjectKind, SpanKind};

/// By who looked and for which child.
#[derive(Debug, Default)]
pub(crate) struct Children {
    looked: HashMap<(u32, u32), Looked>,
}

/// Looks of one thread for one child.
#[derive(Clone, Copy, Debug)]
struct Looked {
    count: u64,
    first: i64,
    last: i64,
}

/// A thread that looked at full speed for the end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LookedAtSpeed {
    /// Who looked.
    pub track: u32,
    /// The child's first thread.
    pub child: u32,
    /// From when.
    pub first: i64,
    /// When the child ended.
    pub ended: i64,
}

impl Children {
    /// Takes in a span of a thread.
    #[inline]
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        let looks = span.kind == SpanKind::WaitLock && span.start == span.end && span.result < 0;
        let is_child = || tables.objects.get(span.object as usize).is_some_and(|object| object.kind == ObjectKind::Process);
        if looks && is_child() && (self.looked.len() < limits::MOST_CHILDREN || self.looked.contains_key(&(span.track, span.object))) {
            let fresh = Looked { count: 0, first: span.start, last: span.start };
            let looked = self.looked.entry((span.track, span.object)).or_insert(fresh);
            *looked = Looked { count: looked.count + 1, first: looked.first.min(span.start), last: looked.last.max(span.start) };
        }
    }

    /// Those who looked so often that there was no time for anything else in between, until the child ended. Where not all looks were recorded, those that
    /// were stand for the rest.
    pub(crate) fn at_speed(&self, tables: &Tables, lives: &[Life]) -> Vec<LookedAtSpeed> {
        let mut found: Vec<LookedAtSpeed> = self
            .looked
            .iter()
            .filter_map(|(&(track, object), looked)| {
                let pid: u32 = tables.objects[object as usize].name.rsplit(' ').next()?.parse().ok()?;
                let machine = tables.actors[track as usize].machine;
                let is_child =
                    |actor: &&super::tables::Actor| actor.thread && actor.leads() && actor.pid == pid && actor.machine == machine;
                let child = tables.actors.iter().position(|actor| is_child(&actor))? as u32;
                let ended = lives[child as usize].until.filter(|&ended| ended > looked.first)?;
                let at_speed = looked.last - looked.first <= looked.count as i64 * limits::FAST_LOOK_NS;
                let to_the_end = tables.looks_in_part || ended - looked.last <= limits::FAST_LOOK_NS;
                (looked.count >= limits::MANY_LOOKS && at_speed && to_the_end).then_some(LookedAtSpeed {
                    track,
                    child,
                    first: looked.first,
                    ended,
                })
            })
            .collect();
        found.sort_unstable_by_key(|looked| (looked.ended, looked.track));
        found
    }
}
