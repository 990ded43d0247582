//! Copies by requests: threads that each request a part of a file and wait until all of it was moved, and connections' threads that move
//! the parts in messages. [`super::edit_copy`] uses who requested what, and when each message was sent and answered.

use super::rows::Rows;
use std::collections::{HashMap, HashSet};

/// A request, by program and marks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRequest {
    /// The program.
    pub program: u32,
    /// Mark of its start.
    pub begin: u32,
    /// Mark of its end.
    pub end: u32,
}

/// A message of a request, by program and marks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// The program.
    pub program: u32,
    /// Mark at which it had been sent.
    pub sent: u32,
    /// Mark at which it had been answered.
    pub answered: u32,
    /// Index of its request.
    pub of: u32,
}

/// The requests of a run, and their messages, each in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    /// The requests.
    pub asked: Vec<CopyRequest>,
    /// Their messages.
    pub messages: Vec<Message>,
    /// The most requests in flight, and messages in flight on a connection.
    in_flight: (usize, usize),
}

impl Flows {
    /// Makes flows from what was recorded; `mark` puts a mark on a track's time. Empty if requests' messages are not moved by other
    /// threads.
    pub(crate) fn of(rows: &Rows, mut mark: impl FnMut(u32, i64) -> Option<(u32, u32)>) -> Flows {
        let recorded = &rows.copies;
        let mut asked: Vec<(u64, u32, i64, i64)> =
            recorded.asked.iter().map(|(&id, &(track, start, end))| (id, track, start, end)).collect();
        asked.sort_by_key(|a| (a.2, a.0));
        let tracks: HashSet<u32> = asked.iter().map(|a| a.1).collect();
        let number: HashMap<u64, u32> = asked.iter().enumerate().map(|(i, a)| (a.0, i as u32)).collect();
        let mut calls: Vec<_> = recorded.calls.iter().filter(|c| number.contains_key(&c.3) && !tracks.contains(&c.0)).collect();
        calls.sort_by_key(|c| (c.1, c.2));
        let has_calls: HashSet<u32> = calls.iter().map(|c| number[&c.3]).collect();
        if asked.iter().any(|a| a.2 < rows.from) || has_calls.len() < asked.len() || calls.is_empty() {
            return Flows::default();
        }
        let mut by_connection: HashMap<u32, Vec<(i64, i64)>> = HashMap::new();
        calls.iter().for_each(|c| by_connection.entry(c.0).or_default().push((c.1, c.2)));
        let depth = by_connection.into_values().map(most_at_once).max().unwrap_or(0);
        let requests = most_at_once(asked.iter().map(|a| (a.2, a.3)).collect());
        let mut flows = Flows { in_flight: (requests, depth), ..Flows::default() };
        for &(_, track, start, end) in &asked {
            let (Some((program, begin)), Some((_, end))) = (mark(track, start), mark(track, end)) else { return Flows::default() };
            flows.asked.push(CopyRequest { program, begin, end });
        }
        for &&(track, _, end, parent, request) in &calls {
            let Some(&sent) = recorded.sent.get(&(track, request)) else { return Flows::default() };
            let (Some((program, sent)), Some((_, answered))) = (mark(track, sent), mark(track, end)) else { return Flows::default() };
            flows.messages.push(Message { program, sent, answered, of: number[&parent] });
        }
        flows
    }

    /// Whether the run is such a copy.
    pub(crate) fn is_known(&self) -> bool {
        !self.messages.is_empty()
    }

    /// The most requests in flight, and messages in flight on a connection.
    pub(crate) fn in_flight(&self) -> (usize, usize) {
        self.in_flight
    }

    /// Number of requests.
    pub(crate) fn requests(&self) -> usize {
        self.asked.len()
    }

    /// Most messages of one request on one connection.
    pub(crate) fn messages_of_a_request(&self) -> usize {
        let mut counts: HashMap<(u32, u32), usize> = HashMap::new();
        self.messages.iter().for_each(|m| *counts.entry((m.program, m.of)).or_default() += 1);
        counts.into_values().max().unwrap_or(0)
    }
}

/// Largest number of overlapping intervals.
fn most_at_once(intervals: Vec<(i64, i64)>) -> usize {
    let mut edges: Vec<(i64, i64)> = intervals.into_iter().flat_map(|(start, end)| [(start, 1), (end, -1)]).collect();
    edges.sort_unstable();
    let mut now = 0;
    edges.into_iter().fold(0, |most, (_, change)| {
        now += change;
        most.max(now)
    }) as usize
}
