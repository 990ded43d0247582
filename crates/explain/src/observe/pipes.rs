//! Two processes that a pipe joins, and how long each waited there for the other: a pipe holds little, so who writes in bursts and who works on them
//! may have to take turns.

use crate::limits::observe as limits;
use crate::observe::span::LiveSpan;
use crate::observe::tables::{Object, Tables};
use foldhash::HashMap;
use thalweg_trace::ObjectKind;

/// Waits at pipes that threads of another process ended, by pipe, who waited and who ended it.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    waited: HashMap<(u32, u32, u32), Waited>,
    /// By two threads, the lower number first: which of them waited next.
    waits_next: HashMap<(u32, u32), u32>,
}

/// Waits of one thread at one pipe for another.
#[derive(Clone, Copy, Debug)]
struct Waited {
    ns: i64,
    count: u64,
    /// From the first to the last.
    within: (i64, i64),
}

/// A thread that asks one of another process through a pipe, and has its answers by a second one: of the two, one always waits for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OneAtATime {
    /// Who asks.
    pub asker: u32,
    /// Who answers.
    pub answerer: u32,
    /// How many answers were waited for.
    pub count: u64,
    /// How long they were waited for, in nanoseconds.
    pub asked_ns: i64,
    /// How long the next question was waited for.
    pub idle_ns: i64,
    /// The pipe, or the socket, through which the answers come.
    pub object: u32,
}

/// Two processes of the command's machine, joined by a pipe at which each waited for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    /// The process that writes, and one of its threads.
    pub writer: (u32, u32),
    /// The process that reads, and one of its threads.
    pub reader: (u32, u32),
    /// Whether it is known which of the two writes.
    pub is_directed: bool,
    /// How long the writer waited for room, in nanoseconds.
    pub for_room_ns: i64,
    /// How long the reader waited for data, in nanoseconds.
    pub for_data_ns: i64,
}

impl Pipes {
    /// Takes in a wait for another thread.
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        let joins = |object: &Object| matches!(object.kind, ObjectKind::Pipe | ObjectKind::Socket);
        let is_pipe = tables.objects.get(span.object as usize).is_some_and(joins);
        let Some(waker) = tables.actors.get(span.waker as usize).filter(|_| is_pipe) else { return };
        let waiter = &tables.actors[span.track as usize];
        if waiter.pid == 0 || waker.pid == 0 || waiter.pid == waker.pid || waiter.machine != waker.machine {
            return;
        }
        let key = (span.object, span.track, span.waker);
        if self.waited.len() < limits::MOST_PIPES || self.waited.contains_key(&key) {
            let waited = self.waited.entry(key).or_insert(Waited { ns: 0, count: 0, within: (span.start, span.end) });
            // Who is woken early waits again, and both are one wait.
            let pair = (span.track.min(span.waker), span.track.max(span.waker));
            let again = self.waits_next.insert(pair, span.track) == Some(span.track);
            (waited.ns, waited.count) = (waited.ns + span.end - span.start, waited.count + u64::from(!again));
            waited.within = (waited.within.0.min(span.start), waited.within.1.max(span.end));
        }
    }

    /// The pair of threads that asked and answered through two pipes for the longest time, one question at a time; `None` where no pair did so for half
    /// of the run (`wall_ns`). `began` is when a thread began: the one that asks has started the one that answers.
    pub(crate) fn one_at_a_time(&self, wall_ns: i64, began: impl Fn(u32) -> i64) -> Option<OneAtATime> {
        let both = self.waited.iter().filter(|((_, waiter, waker), _)| (began(*waiter), *waiter) < (began(*waker), *waker)).filter_map(
            |(key, asked)| {
                let &(object, asker, answerer) = key;
                let back = |other: &(u32, u32, u32)| other.0 != object && other.1 == answerer && other.2 == asker;
                let (_, idle) = self.waited.iter().filter(|(other, _)| back(other)).max_by_key(|(other, idle)| (idle.ns, other.0))?;
                let extent_ns = asked.within.1.max(idle.within.1) - asked.within.0.min(idle.within.0);
                let as_many = asked.count.min(idle.count) as f64 >= asked.count.max(idle.count) as f64 * limits::AS_MANY_BACK;
                let one_waits = (asked.ns + idle.ns) as f64 >= extent_ns as f64 * limits::ONE_WAITS;
                let is_run = extent_ns as f64 >= wall_ns as f64 * limits::ASKED_PART;
                let (asked_ns, idle_ns) = (asked.ns, idle.ns);
                (as_many && one_waits && is_run).then_some(OneAtATime { asker, answerer, count: asked.count, asked_ns, idle_ns, object })
            },
        );
        both.max_by_key(|both| (both.asked_ns, std::cmp::Reverse(both.asker)))
    }

    /// The two that waited for each other longest.
    pub(crate) fn joined(&self, tables: &Tables) -> Option<Joined> {
        let joined = self.waited.iter().filter_map(|(&(object, waiter, waker), for_room)| {
            let pipe = &tables.objects[object as usize];
            // (Of a FIFO, which has a path, older recordings do not say who writes.)
            let writer = match pipe.attribute("written_by") {
                Some(pid) => Some(pid.parse::<u32>().ok()?),
                None if pipe.name.starts_with('/') => None,
                None => return None,
            };
            let of = |track: u32| (tables.actors[track as usize].pid, track);
            let for_data = self.waited.get(&(object, waker, waiter))?;
            let (for_room_ns, for_data_ns) = (for_room.ns, for_data.ns);
            let is_directed = writer.is_some();
            let made = Joined { writer: of(waiter), reader: of(waker), is_directed, for_room_ns, for_data_ns };
            writer.is_none_or(|pid| of(waiter).0 == pid).then_some(made)
        });
        joined.max_by_key(|joined| (joined.for_room_ns.min(joined.for_data_ns), std::cmp::Reverse(joined.writer)))
    }
}
