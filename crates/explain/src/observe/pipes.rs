//! Two processes that a pipe joins, and how long each waited there for the other: a pipe holds little, so who writes in bursts and who works on them
//! may have to take turns.

use crate::limits::observe as limits;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use foldhash::HashMap;
use thalweg_trace::ObjectKind;

/// Waits at pipes that threads of another process ended, by pipe, who waited and who ended it.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    waited_ns: HashMap<(u32, u32, u32), i64>,
}

/// Two processes of the command's machine, joined by a pipe at which each waited for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    /// The process that writes, and one of its threads.
    pub writer: (u32, u32),
    /// The process that reads, and one of its threads.
    pub reader: (u32, u32),
    /// How long the writer waited for room, in nanoseconds.
    pub for_room_ns: i64,
    /// How long the reader waited for data, in nanoseconds.
    pub for_data_ns: i64,
}

impl Pipes {
    /// Takes in a wait for another thread.
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        let is_pipe = tables.objects.get(span.object as usize).is_some_and(|object| object.kind == ObjectKind::Pipe);
        let Some(waker) = tables.actors.get(span.waker as usize).filter(|_| is_pipe) else { return };
        let waiter = &tables.actors[span.track as usize];
        if waiter.pid == 0 || waker.pid == 0 || waiter.pid == waker.pid || waiter.machine != waker.machine {
            return;
        }
        let key = (span.object, span.track, span.waker);
        if self.waited_ns.len() < limits::MOST_PIPES || self.waited_ns.contains_key(&key) {
            *self.waited_ns.entry(key).or_default() += span.end - span.start;
        }
    }

    /// The two that waited for each other longest.
    pub(crate) fn joined(&self, tables: &Tables) -> Option<Joined> {
        let joined = self.waited_ns.iter().filter_map(|(&(object, waiter, waker), &for_room_ns)| {
            let writer = tables.objects[object as usize].attribute("written_by")?.parse::<u32>().ok()?;
            let of = |track: u32| (tables.actors[track as usize].pid, track);
            let for_data_ns = *self.waited_ns.get(&(object, waker, waiter))?;
            (of(waiter).0 == writer).then_some(Joined { writer: of(waiter), reader: of(waker), for_room_ns, for_data_ns })
        });
        joined.max_by_key(|joined| (joined.for_room_ns.min(joined.for_data_ns), std::cmp::Reverse(joined.writer)))
    }
}
