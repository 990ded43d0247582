//! How many questions are under way at a time, by who asks: the command's threads, and servers that ask further servers.
//!
//! A question is a send after which bytes came back on the same connection; it is under way until the last of them before the next send. No protocol
//! need be known for that. Of datagrams, a wait for one from a far end is a question. A pool shows in it: the number under way stays at the pool's size, whatever the server could take.

use crate::cause::End;
use crate::limits::{numbers, observe as limits};
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use foldhash::{HashMap, HashSet};
use std::sync::OnceLock;
use thalweg_trace::SpanKind;

/// A question, on the connection's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// Which thread sent it.
    pub track: u32,
    /// When it was sent.
    pub start: i64,
    /// When the first bytes of its answer came.
    pub first: i64,
    /// When the last bytes of its answer came.
    pub end: i64,
    /// On which connection.
    pub connection: u32,
    /// Bytes of the question, or of the answer where that had more.
    pub bytes: u64,
}

/// An answer, as far as it was seen.
#[derive(Clone, Copy, Debug)]
struct Answered {
    first: i64,
    last: i64,
    bytes: u64,
}

/// All questions of a recording, latest first.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// By the role of who asks: the command's threads, servers.
    asked: [Vec<Question>; 2],
    /// How long the command's threads waited for a server's thread by other ways than a connection (a local socket, a pipe), each time.
    waited_ns: Vec<i64>,
    /// By connection that waits for its question to be met, seen backward: the answer.
    answered: HashMap<u32, Answered>,
    /// By connection: the question that was met last, and how many of its bytes so far.
    sent: HashMap<u32, (usize, u64)>,
    /// By thread of a server: how many answers it gave.
    answers: HashMap<u32, u64>,
    /// By the role of who asks: how many were under way.
    under_way: [OnceLock<Option<UnderWay>>; 2],
}

/// How many questions were under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UnderWay {
    /// How many questions there were.
    pub count: u64,
    /// How long any was under way, in nanoseconds.
    pub busy_ns: i64,
    /// How long they took, on average.
    pub each_ns: f64,
    /// How many were under way for most of the time.
    pub usual: u64,
    /// How many were under way on average, while any was.
    pub average: f64,
    /// For which part of the time it was more.
    pub more_part: f64,
    /// The connection with most of them.
    pub connection: u32,
    /// How many bytes of each were under way, on average.
    pub each_bytes: u64,
    /// How long the longest took, in nanoseconds.
    pub longest_ns: i64,
    /// Those that took far longer than most, where they have a fair part of the time: no mean describes any of them.
    pub slow: Option<Slow>,
}

/// The few of many questions that took far longer than the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slow {
    /// How many.
    pub count: u64,
    /// How long they took, on average, in nanoseconds.
    pub each_ns: f64,
    /// How long the others did.
    pub others_each_ns: f64,
}

impl UnderWay {
    /// Whether something holds the number under way where it is.
    pub(crate) fn is_held(&self) -> bool {
        self.average >= self.usual as f64 * numbers::HELD && self.more_part <= numbers::BEYOND
    }

    /// Whether questions are what a run of so many nanoseconds waited for, and not one of them.
    pub(crate) fn explains(&self, wall_ns: i64) -> bool {
        let is_one = self.longest_ns as f64 >= self.busy_ns as f64 * numbers::ONE_OF_ALL;
        self.count >= numbers::LEAST_ITEMS && self.busy_ns as f64 >= wall_ns as f64 * numbers::ASKED_PART && !is_one
    }
}

impl Questions {
    /// Takes in a send or a receive; of those of one thread, none before may end earlier.
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
            // What was sent before the question's last part belongs to it.
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

    /// Leaves out those of other programs.
    pub(crate) fn leave_out(&mut self, others: &std::collections::HashSet<u32>) {
        self.asked[End::Client as usize].retain(|question| !others.contains(&question.connection));
    }

    /// The command's threads that asked by datagrams.
    pub(crate) fn ask_by_datagram(&self) -> HashSet<u32> {
        self.asked[End::Client as usize].iter().filter(|question| question.connection == NONE).map(|question| question.track).collect()
    }

    /// The command's questions over connections.
    pub(crate) fn over_connections(&self) -> impl Iterator<Item = &Question> {
        self.asked[End::Client as usize].iter().filter(|question| question.connection != NONE)
    }

    /// A wait that a thread ended: of the command's, for a datagram or for a server's thread.
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

    /// The one thread that gave nearly all answers, if there is one.
    pub(crate) fn answers_alone(&self) -> Option<u32> {
        let all: u64 = self.answers.values().sum();
        let (&track, &most) = self.answers.iter().max_by_key(|&(&track, &n)| (n, std::cmp::Reverse(track)))?;
        (most as f64 >= all as f64 * numbers::ALONE_ANSWERS).then_some(track)
    }

    /// How often the command waited for a server by other ways than a connection, for so long at the least.
    pub(crate) fn waits_of(&self, least_ns: f64) -> u64 {
        self.waited_ns.iter().filter(|ns| **ns as f64 >= least_ns).count() as u64
    }

    /// Questions that a run of so many nanoseconds waited for: the command's, or those of servers.
    pub(crate) fn waited_for(&self, by: End, tables: &Tables, wall_ns: i64) -> Option<UnderWay> {
        self.under_way(by, tables).filter(|under_way| under_way.explains(wall_ns))
    }

    /// How many questions of one end were under way; `None` where there were none, or too many to be held. Worked out once, when all were noted.
    pub(crate) fn under_way(&self, by: End, tables: &Tables) -> Option<UnderWay> {
        *self.under_way[by as usize].get_or_init(|| match by {
            _ if self.asked[by as usize].len() >= limits::MOST_QUESTIONS => None,
            End::Client => under_way(self.asked[End::Client as usize].iter()),
            End::Server => self.asked_on(tables),
        })
    }

    /// Of those that servers asked of one further server: the one that was asked most. (What a chain of servers passes on is asked once by each.)
    fn asked_on(&self, tables: &Tables) -> Option<UnderWay> {
        let asked = &self.asked[End::Server as usize];
        let server = |question: &Question| tables.ends(question.connection).map(|(_, server)| server);
        let mut of: HashMap<&str, u64> = HashMap::default();
        asked.iter().filter_map(server).for_each(|server| *of.entry(server).or_default() += 1);
        let most = of.into_iter().max_by_key(|&(server, n)| (n, server))?.0;
        under_way(asked.iter().filter(|question| server(question) == Some(most)))
    }
}

/// Of how long questions took: the few that took far longer than the median.
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
    // (At one instant the answered go before the new: one that follows another is not beside it.)
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
        // Three lanes of questions of 15, each begun when the one before it in the lane was answered.
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
