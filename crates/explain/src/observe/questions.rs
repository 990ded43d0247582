//! Number of requests in flight, by asker: the command's threads, and servers that ask further servers.
//!
//! A request is a send after which bytes came back on the same connection; it is in flight until the last of them before the next send. No
//! protocol need be known for that. With datagrams, a wait for one from a far end is a request. A pool is visible in it: the number in
//! flight stays at the pool's size, whatever the server could accept.

use crate::cause::End;
use crate::limits::{numbers, observe as limits};
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use foldhash::{HashMap, HashSet};
use std::sync::OnceLock;
use thalweg_trace::SpanKind;

/// A request, on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// The sending thread.
    pub track: u32,
    /// Time it was sent.
    pub start: i64,
    /// Time of the answer's first bytes.
    pub first: i64,
    /// Time of the answer's last bytes.
    pub end: i64,
    /// The connection.
    pub connection: u32,
    /// Bytes of the request, or of the answer if that is larger.
    pub bytes: u64,
}

/// An answer, as far as seen.
#[derive(Clone, Copy, Debug)]
struct Answered {
    first: i64,
    last: i64,
    bytes: u64,
}

/// All requests of a recording, latest first.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// By the asker's role: the command's threads, servers.
    asked: [Vec<Question>; 2],
    /// Lengths of the command's waits for a server's thread without a connection (at a local socket, a pipe).
    waited_ns: Vec<i64>,
    /// By connection: an answer whose request has not been reached, seen backward.
    answered: HashMap<u32, Answered>,
    /// By connection: index of the last request reached, and its bytes so far.
    sent: HashMap<u32, (usize, u64)>,
    /// By server thread: number of its answers.
    answers: HashMap<u32, u64>,
    /// By the asker's role: the number in flight.
    under_way: [OnceLock<Option<UnderWay>>; 2],
}

/// Numbers of requests in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UnderWay {
    /// Number of requests.
    pub count: u64,
    /// Time in which any was in flight, in nanoseconds.
    pub busy_ns: i64,
    /// Mean length, in ns.
    pub each_ns: f64,
    /// Number in flight for most of the time.
    pub usual: u64,
    /// Mean number in flight while any was.
    pub average: f64,
    /// Part of the time with more in flight.
    pub more_part: f64,
    /// The connection with most requests.
    pub connection: u32,
    /// Mean bytes of each.
    pub each_bytes: u64,
    /// Length of the longest, in nanoseconds.
    pub longest_ns: i64,
    /// Requests that took far longer than most, if they have a fair part of the time: no mean describes both groups.
    pub slow: Option<Slow>,
}

/// The few of many requests that took far longer than the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slow {
    /// Number of them.
    pub count: u64,
    /// Their mean length, in nanoseconds.
    pub each_ns: f64,
    /// Mean length of the others, in nanoseconds.
    pub others_each_ns: f64,
}

impl UnderWay {
    /// Whether something limits the number in flight.
    pub(crate) fn is_held(&self) -> bool {
        self.average >= self.usual as f64 * numbers::HELD && self.more_part <= numbers::BEYOND
    }

    /// Whether a run of this many nanoseconds waited for these requests, and not for a single one of them.
    pub(crate) fn explains(&self, wall_ns: i64) -> bool {
        let is_one = self.longest_ns as f64 >= self.busy_ns as f64 * numbers::ONE_OF_ALL;
        self.count >= numbers::LEAST_ITEMS && self.busy_ns as f64 >= wall_ns as f64 * numbers::ASKED_PART && !is_one
    }
}

impl Questions {
    /// Adds a send or a receive; those of one thread come by descending end.
    #[inline]
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        if span.kind == SpanKind::WaitLock {
            return self.note_wait(tables, span);
        }
        if span.kind == SpanKind::NetSend && span.side == End::Server && span.bytes() > 0 {
            *self.answers.entry(span.track).or_default() += 1;
        }
        if span.bytes() == 0 || span.connection == NONE || span.side != End::Client {
            return;
        }
        if span.kind == SpanKind::NetReceive {
            if self.answered.len() < limits::MOST_CONNECTIONS {
                let answered = self.answered.entry(span.connection).or_insert(Answered { first: span.end, last: span.end, bytes: 0 });
                (answered.first, answered.bytes) = (span.end, answered.bytes + span.bytes());
                self.sent.remove(&span.connection);
            }
            return;
        }
        let asked = &mut self.asked[tables.actors[span.track as usize].end as usize];
        let Some(Answered { first, last, bytes }) = self.answered.remove(&span.connection) else {
            // Sends before the request's last part belong to it.
            if let Some((at, sent)) = self.sent.get_mut(&span.connection) {
                *sent += span.bytes();
                if let Some(question) = asked.get_mut(*at) {
                    question.bytes = question.bytes.max(*sent);
                }
            }
            return;
        };
        if asked.len() < limits::MOST_QUESTIONS {
            self.sent.insert(span.connection, (asked.len(), span.bytes()));
            let bytes = bytes.max(span.bytes());
            let (first, end) = (first.max(span.start), last.max(span.start));
            asked.push(Question { track: span.track, start: span.start, first, end, connection: span.connection, bytes });
        }
    }

    /// Removes the requests of other programs.
    pub(crate) fn leave_out(&mut self, others: &std::collections::HashSet<u32>) {
        self.asked[End::Client as usize].retain(|question| !others.contains(&question.connection));
    }

    /// The command's threads that asked by datagrams.
    pub(crate) fn ask_by_datagram(&self) -> HashSet<u32> {
        self.asked[End::Client as usize].iter().filter(|question| question.connection == NONE).map(|question| question.track).collect()
    }

    /// The command's requests over connections.
    pub(crate) fn over_connections(&self) -> impl Iterator<Item = &Question> {
        self.asked[End::Client as usize].iter().filter(|question| question.connection != NONE)
    }

    /// Adds a wait that a thread ended: the command's, for a datagram or for a server's thread.
    fn note_wait(&mut self, tables: &Tables, span: &LiveSpan) {
        let ended_by = tables.actors.get(span.waker as usize).map(|waker| waker.end);
        let (is_own, by_server) = (tables.actors[span.track as usize].end == End::Client, ended_by == Some(End::Server));
        if is_own && tables.is_datagram(span.object) {
            let asked = &mut self.asked[End::Client as usize];
            if asked.len() < limits::MOST_QUESTIONS {
                let (track, start, end) = (span.track, span.start, span.end);
                asked.push(Question { track, start, first: end, end, connection: NONE, bytes: 0 });
            }
            if by_server {
                *self.answers.entry(span.waker).or_default() += 1;
            }
        } else if is_own && by_server && self.waited_ns.len() < limits::MOST_QUESTIONS {
            self.waited_ns.push(span.end - span.start);
        }
    }

    /// The one thread that gave nearly all answers, if any.
    pub(crate) fn answers_alone(&self) -> Option<u32> {
        let all: u64 = self.answers.values().sum();
        let (&track, &most) = self.answers.iter().max_by_key(|&(&track, &n)| (n, std::cmp::Reverse(track)))?;
        (most as f64 >= all as f64 * numbers::ALONE_ANSWERS).then_some(track)
    }

    /// How often the command waited for a server without a connection, for at least this long.
    pub(crate) fn waits_of(&self, least_ns: f64) -> u64 {
        self.waited_ns.iter().filter(|ns| **ns as f64 >= least_ns).count() as u64
    }

    /// Requests that a run of this many nanoseconds waited for: the command's, or servers'.
    pub(crate) fn waited_for(&self, by: End, tables: &Tables, wall_ns: i64) -> Option<UnderWay> {
        self.under_way(by, tables).filter(|under_way| under_way.explains(wall_ns))
    }

    /// The requests of one end in flight; `None` if there were none, or too many to keep. Computed once, when all are noted.
    pub(crate) fn under_way(&self, by: End, tables: &Tables) -> Option<UnderWay> {
        *self.under_way[by as usize].get_or_init(|| match by {
            _ if self.asked[by as usize].len() >= limits::MOST_QUESTIONS => None,
            End::Client => under_way(self.asked[End::Client as usize].iter()),
            End::Server => self.asked_on(tables),
        })
    }

    /// The requests that servers made to the further server asked most. (What a chain of servers passes on is asked once by each.)
    fn asked_on(&self, tables: &Tables) -> Option<UnderWay> {
        let asked = &self.asked[End::Server as usize];
        let server = |question: &Question| tables.ends(question.connection).map(|(_, server)| server);
        let mut of: HashMap<&str, u64> = HashMap::default();
        asked.iter().filter_map(server).for_each(|server| *of.entry(server).or_default() += 1);
        let most = of.into_iter().max_by_key(|&(server, n)| (n, server))?.0;
        under_way(asked.iter().filter(|question| server(question) == Some(most)))
    }
}

/// The few requests that took far longer than the median.
fn slow(mut took: Vec<i64>) -> Option<Slow> {
    took.sort_unstable();
    let far = *took.get(took.len() / 2)? as f64 * numbers::SLOW_TIMES;
    let (others, slow) = took.split_at(took.partition_point(|ns| (*ns as f64) < far));
    let [all_ns, slow_ns] = [&took[..], slow].map(|took| took.iter().sum::<i64>() as f64);
    let few = !slow.is_empty() && slow.len() as f64 <= took.len() as f64 * numbers::FEW_ARE_SLOW;
    (few && slow_ns >= all_ns * numbers::SLOW_PART).then(|| Slow {
        count: slow.len() as u64,
        each_ns: slow_ns / slow.len() as f64,
        others_each_ns: (all_ns - slow_ns) / others.len().max(1) as f64,
    })
}

fn under_way<'q>(asked: impl Iterator<Item = &'q Question>) -> Option<UnderWay> {
    let asked: Vec<&Question> = asked.collect();
    if asked.is_empty() {
        return None;
    }
    let mut on: HashMap<u32, u64> = HashMap::default();
    asked.iter().for_each(|question| *on.entry(question.connection).or_default() += 1);
    let connection = on.into_iter().max_by_key(|&(connection, n)| (n, connection)).map_or(NONE, |(connection, _)| connection);
    let mut changes: Vec<(i64, i64)> = asked.iter().flat_map(|question| [(question.start, 1), (question.end, -1)]).collect();
    // At one instant, answers come before new requests: a request that follows another does not overlap it.
    changes.sort_unstable();
    let (mut level, mut last) = (0_i64, i64::MIN);
    let mut at: HashMap<i64, i64> = HashMap::default();
    for (when, change) in changes {
        if level > 0 {
            *at.entry(level).or_default() += when - last;
        }
        (level, last) = (level + change, when);
    }
    let busy_ns: i64 = at.values().sum::<i64>().max(1);
    let (&usual, _) = at.iter().max_by_key(|&(&level, &ns)| (ns, level))?;
    let more_ns: i64 = at.iter().filter(|(level, _)| **level > usual).map(|(_, ns)| ns).sum();
    Some(UnderWay {
        count: asked.len() as u64,
        busy_ns,
        each_ns: asked.iter().map(|question| (question.end - question.start) as f64).sum::<f64>() / asked.len() as f64,
        usual: usual.unsigned_abs(),
        average: at.iter().map(|(level, ns)| *level as f64 * *ns as f64).sum::<f64>() / busy_ns as f64,
        more_part: more_ns as f64 / busy_ns as f64,
        connection,
        each_bytes: asked.iter().map(|question| question.bytes).sum::<u64>() / asked.len() as u64,
        longest_ns: asked.iter().map(|question| question.end - question.start).max().unwrap_or(0),
        slow: slow(asked.iter().map(|question| question.end - question.start).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_these(asked: &[(i64, i64)]) -> UnderWay {
        let asked = asked.iter().map(|&(start, end)| Question { track: 1, start, first: end, end, connection: 1, bytes: 1 }).collect();
        let asked: Vec<Question> = asked;
        under_way(asked.iter()).expect("there are some")
    }

    #[test]
    fn a_pool_shows_as_a_number_that_stays() {
        // Three lanes of requests of 15, each begun when the previous one in the lane was answered.
        let asked: Vec<(i64, i64)> = (0..3).flat_map(|lane| (0..60).map(move |k| (k * 15 + lane, k * 15 + lane + 15))).collect();
        let found = of_these(&asked);
        assert_eq!((found.count, found.usual), (180, 3));
        assert!(found.average > 2.9 && found.more_part == 0.0, "{found:?}");
        let one = of_these(&[(0, 10), (10, 20), (20, 30)]);
        assert_eq!((one.usual, one.average, one.busy_ns), (1, 1.0, 30));
    }

    #[test]
    fn a_pool_whose_threads_work_between_their_questions_is_one_too() {
        let asked: Vec<(i64, i64)> = (0..3).flat_map(|lane| (0..60).map(move |k| (k * 18 + lane, k * 18 + lane + 15))).collect();
        assert!(of_these(&asked).is_held(), "{:?}", of_these(&asked));
    }

    #[test]
    fn the_few_that_are_far_slower_are_distinguished_from_the_others() {
        let took: Vec<i64> = (0..130).map(|n| if n % 13 == 0 { 180 } else { 2 + n % 2 }).collect();
        let found = slow(took).expect("ten of 130 have most of the time");
        assert_eq!((found.count, found.each_ns, found.others_each_ns), (10, 180.0, 2.5));
        assert_eq!(slow((100..230).collect()), None, "they are alike");
        assert_eq!(slow((0..130).map(|n| if n % 2 == 0 { 180 } else { 2 }).collect()), None, "they are half of them");
        assert_eq!(slow((0..1_300).map(|n| if n == 7 { 180 } else { 2 }).collect()), None, "they have little of the time");
    }

    #[test]
    fn a_load_that_comes_and_goes_stays_at_no_number() {
        let asked: Vec<(i64, i64)> = (0..100).map(|k| (k * 7, k * 7 + 5 + (k * 13) % 40)).collect();
        assert!(!of_these(&asked).is_held());
    }
}
