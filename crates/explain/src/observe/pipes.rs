//! Two processes joined by a pipe, and how long each waited there for the other: a pipe is small, so a bursty writer and its reader may
//! have to take turns.

use crate::limits::observe as limits;
use crate::observe::span::LiveSpan;
use crate::observe::tables::{Object, Tables};
use foldhash::HashMap;
use thalweg_trace::ObjectKind;

/// Waits at pipes that threads of another process ended, by pipe, waiter and waker.
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
    /// Start of the first, and end of the last.
    within: (i64, i64),
}

/// A thread that asks one of another process through a pipe, and gets answers through a second one: one of the two always waits for the
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OneAtATime {
    /// The asking thread.
    pub asker: u32,
    /// The answering thread.
    pub answerer: u32,
    /// Number of answers waited for.
    pub count: u64,
    /// Time they were waited for, in nanoseconds.
    pub asked_ns: i64,
    /// Time the next request was waited for, in nanoseconds.
    pub idle_ns: i64,
    /// The pipe, or the socket, of the answers.
    pub object: u32,
}

/// Two processes of the command's machine, joined by a pipe at which each waited for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    /// The writing process, and one of its threads.
    pub writer: (u32, u32),
    /// The reading process, and one of its threads.
    pub reader: (u32, u32),
    /// Whether the writing one of the two is known.
    pub is_directed: bool,
    /// Time the writer waited for room, in nanoseconds.
    pub for_room_ns: i64,
    /// Time the reader waited for data, in nanoseconds.
    pub for_data_ns: i64,
}

impl Pipes {
    /// Adds a wait for another thread.
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
            // A thread woken early waits again, and both are one wait.
            let pair = (span.track.min(span.waker), span.track.max(span.waker));
            let again = self.waits_next.insert(pair, span.track) == Some(span.track);
            (waited.ns, waited.count) = (waited.ns + span.end - span.start, waited.count + u64::from(!again));
            waited.within = (waited.within.0.min(span.start), waited.within.1.max(span.end));
        }
    }

    /// The pair of threads that made requests and answered through two pipes for the longest time, one request at a time; `None` if no pair
    /// did so for half of the run (`wall_ns`). `began` gives a thread's start: the asking one has started the other.
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

    /// The pair that waited for each other longest.
    pub(crate) fn joined(&self, tables: &Tables) -> Option<Joined> {
        let joined = self.waited.iter().filter_map(|(&(object, waiter, waker), for_room)| {
            let pipe = &tables.objects[object as usize];
            // Older recordings do not name the writer of a FIFO, which has a path.
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
