//! Two threads of two processes that compute in turn: each waits for the other at a pipe or socket of its own.
//!
//! A thread that has answered is still runnable, or was woken early, when the scheduler gives its processor to the thread it answered. It
//! then queues for that processor until the other has computed and asked again, though it had nothing to do before. That queueing is a wait
//! for the other, as it would be on a processor of its own.
//!
//! Rejected: what the holder waits for next. Two programs that share a processor and a pipe wait for each other as well, with work to do
//! all the time. So there must have been moments at which both had a processor, and in these they must have waited, not run simultaneously.

use crate::limits::observe as limits;
use crate::observe::overlap::together_ns;
use crate::observe::span::LiveSpan;
use crate::observe::tables::{Object, Tables};
use foldhash::HashMap;
use thalweg_trace::{ObjectKind, SpanKind};

/// Waits at pipes and sockets that threads of another process ended, and times at which threads did not run.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// By waiter, waker and object: number of long waits, and total length of all.
    waited: HashMap<(u32, u32, u32), (u64, i64)>,
    /// By queueing thread and processor holder: the time.
    queued: HashMap<(u32, u32), i64>,
    /// Threads not running, with start and end.
    off: Vec<(u32, i64, i64)>,
}

impl Turns {
    /// Adds a span of a thread.
    #[inline]
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        use SpanKind as K;
        let waits =
            matches!(span.kind, K::WaitLock | K::WaitRunqueue | K::WaitNetwork | K::WaitTimer | K::WaitDisk | K::WaitMemory | K::WaitOther);
        if !waits || self.off.len() > limits::MOST_TURNS {
            return;
        }
        self.off.push((span.track, span.start, span.end));
        let Some(other) = tables.actors.get(span.waker as usize) else { return };
        let own = &tables.actors[span.track as usize];
        if own.pid == 0 || other.pid == 0 || own.pid == other.pid || own.machine != other.machine {
            return;
        }
        let ns = span.end - span.start;
        if span.kind == K::WaitRunqueue {
            *self.queued.entry((span.track, span.waker)).or_default() += ns;
            return;
        }
        let joins = |object: &Object| matches!(object.kind, ObjectKind::Pipe | ObjectKind::Socket);
        if tables.objects.get(span.object as usize).is_some_and(joins) && ns >= limits::LONG_TURN_NS {
            let waited = self.waited.entry((span.track, span.waker, span.object)).or_default();
            *waited = (waited.0 + 1, waited.1 + ns);
        }
    }

    /// Threads that compute in turn: by queueing thread and processor holder, the object at which the one waits for the other. Empty if
    /// their queueing is a negligible part of a run of this many nanoseconds.
    pub(crate) fn hand_overs(&self, wall_ns: i64) -> std::collections::HashMap<(u32, u32), u32> {
        let mut found = std::collections::HashMap::new();
        if self.off.len() > limits::MOST_TURNS {
            return found;
        }
        for (&(one, other, object), &(count, waited_ns)) in &self.waited {
            let back = self.waited.iter().filter(|((waiter, waker, at), _)| (*waiter, *waker) == (other, one) && *at != object);
            let Some((&(.., back_at), &(back_count, back_ns))) = back.max_by_key(|(key, (_, ns))| (*ns, key.2)) else { continue };
            let queued = |waiter, holder| self.queued.get(&(waiter, holder)).copied().unwrap_or(0);
            let matters = (queued(one, other) + queued(other, one)) as f64 >= wall_ns as f64 * limits::HANDED_OVER_PART;
            let often = count.min(back_count) >= limits::MANY_LONG_TURNS;
            if matters && often && self.both_ran_ns(one, other) as f64 <= (waited_ns + back_ns) as f64 * limits::RAN_AT_ONCE {
                found.insert((one, other), object);
                found.insert((other, one), back_at);
            }
        }
        found
    }

    /// Time two threads ran simultaneously.
    fn both_ran_ns(&self, one: u32, other: u32) -> i64 {
        let of = |track: u32| self.off.iter().filter(move |off| off.0 == track).map(|&(_, start, end)| (start, end));
        let extent = |track: u32| of(track).fold((i64::MAX, i64::MIN), |(from, to), (start, end)| (from.min(start), to.max(end)));
        let (own, others) = (extent(one), extent(other));
        let (from, to) = (own.0.max(others.0), own.1.min(others.1));
        let within = of(one).chain(of(other)).map(|(start, end)| (start.max(from), end.min(to))).filter(|(start, end)| start < end);
        (to - from).max(0) - together_ns(within.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Two threads that wait for each other, 20 times on processors of their own and 20 times on one; on processors of their own both run
    /// for `both` of each 10 ms.
    fn seen(both: i64, objects: (u32, u32)) -> Turns {
        let mut turns = Turns::default();
        turns.waited.insert((0, 1, objects.0), (20, 20 * (5 * MS - both)));
        turns.waited.insert((1, 0, objects.1), (20, 20 * (5 * MS - both)));
        turns.queued.insert((1, 0), 100 * MS);
        for n in 0..40 {
            let at = n * 10 * MS;
            turns.off.extend([(0, at + both, at + 5 * MS), (1, at + 5 * MS + both, at + 10 * MS)]);
        }
        turns
    }

    #[test]
    fn those_that_ran_at_once_where_they_could_do_not_compute_in_turn_nor_do_those_at_one_pipe() {
        let found = seen(0, (7, 8)).hand_overs(400 * MS);
        assert_eq!((found.get(&(0, 1)), found.get(&(1, 0))), (Some(&7), Some(&8)));
        assert!(seen(2 * MS, (7, 8)).hand_overs(400 * MS).is_empty(), "both ran for two fifths");
        assert!(seen(0, (7, 7)).hand_overs(400 * MS).is_empty(), "one writes, and one reads");
        assert!(seen(0, (7, 8)).hand_overs(10_000 * MS).is_empty(), "it is no part of the run");
    }
}
