//! Threads' fruitless checks for the end of a child: calls of no length, with the child as their object.

use crate::limits::observe as limits;
use crate::observe::lives::Life;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use foldhash::HashMap;
use thalweg_trace::{ObjectKind, SpanKind};

/// By checking thread and child.
#[derive(Debug, Default)]
pub(crate) struct Children {
    looked: HashMap<(u32, u32), Looked>,
}

/// Checks of one thread for one child.
#[derive(Clone, Copy, Debug)]
struct Looked {
    count: u64,
    first: i64,
    last: i64,
}

/// A thread that checked for the end of a child at full speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LookedAtSpeed {
    /// The checking thread.
    pub track: u32,
    /// The child's first thread.
    pub child: u32,
    /// Start.
    pub first: i64,
    /// End of the child.
    pub ended: i64,
}

impl Children {
    /// Adds a span of a thread.
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

    /// The threads that checked too often to do anything else in between, until the child ended. If not all checks were recorded, the
    /// recorded ones stand for the rest.
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
