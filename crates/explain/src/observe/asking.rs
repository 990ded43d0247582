//! What is gathered of questions as the recording goes by.

use crate::cause::End;
use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::overlap::{Overlap, together_ns};
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use foldhash::HashMap;
use thalweg_trace::SpanKind;

/// The answers of one server's thread.
#[derive(Debug, Default)]
struct Answers {
    count: u64,
    bytes: u64,
    /// Time in which they were worked on.
    ns: u64,
    /// The largest one's bytes, and the time that took.
    largest: (u64, u64),
    /// The request that is being worked on, seen backward, and for how long.
    serving: (u64, u64),
}

/// One thread's turns: times at which it handed bytes to connections and then took some. Gathered backward.
#[derive(Debug)]
struct Turns {
    count: u64,
    /// What it took that no send is known before yet.
    answered: u64,
    first: i64,
    last: i64,
}

/// Messages that the client's threads exchanged over connections on one side of them.
#[derive(Debug, Default)]
pub(crate) struct Exchanged {
    /// Times at which the client handed bytes to a connection.
    pub sends: u64,
    /// Times at which it did and then took bytes from the same connection: requests that were answered, or several of them in one go.
    pub turns: u64,
    /// Bytes that the client handed to connections and took from them.
    pub bytes: u64,
    /// When it first did, and when it last took any.
    pub from_to: Option<(i64, i64)>,
    /// By the client's connection: how often it took bytes that no send is known before, seen backward.
    answered: HashMap<u32, u64>,
    /// By the client's thread.
    turns_of: HashMap<u32, Turns>,
}

/// The questions of a recording.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Calls that the client says it made, all servers together.
    pub calls: Overlap,
    /// The same by server: what stands behind `>` in a connection's name, as its first connection's dense number.
    pub by_server: HashMap<u32, Overlap>,
    /// What the client's threads exchanged over connections, by the side of the connection that they were on: where client and server are of one command,
    /// each message is seen twice.
    exchanged: [Exchanged; 2],
    /// The same without clients that were reached by way of a server.
    of_own: [Exchanged; 2],
    /// Requests of all disks.
    pub disk: Overlap,
    /// Entries that the application's requests delivered.
    pub delivered: u64,
    /// When the first request that delivered entries ended, and when the last did; and how many the first one delivered.
    pub delivering: Option<(i64, i64, u64)>,
    /// What servers answered, by the server's track.
    answers: HashMap<u32, Answers>,
    /// Waits of programs for a mount in user space.
    pub of_mount: Overlap,
    servers: HashMap<u32, u32>,
}

impl Asking {
    /// Takes in a span; of those of one thread or device, none before may end earlier.
    #[inline]
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        match span.kind {
            SpanKind::RpcCall => self.call(tables, span),
            SpanKind::RpcServe => self.answer(tables, span),
            SpanKind::NetSend | SpanKind::NetReceive if span.bytes() > 0 => {
                if span.kind == SpanKind::NetSend {
                    self.answer(tables, span);
                }
                self.exchange(tables, span);
            }
            SpanKind::AppRequest if is_directory(tables, span.object) => {
                self.delivered += u64::from(span.count);
                let last = self.delivering.map_or(span.end, |(_, last, _)| last);
                self.delivering = Some((span.end, last, u64::from(span.count)));
            }
            SpanKind::FileStat | SpanKind::FileOpen | SpanKind::FileList => self.names(tables, span),
            SpanKind::DiskRead => self.disk.add(span.start, span.end),
            _ => {}
        }
    }

    /// What one entry took, from the first that was delivered to the last, where each request delivered one.
    pub(crate) fn each_delivered_ns(&self) -> Option<f64> {
        let (first, last, of_first) = self.delivering?;
        let after = self.delivered.checked_sub(of_first).filter(|&n| n > 0)?;
        Some((last - first) as f64 / after as f64)
    }

    /// What a byte costs in the largest answer of the server that gave it, and how many bytes its other answers have;
    /// `None` where no answer is much larger than the others.
    pub(crate) fn cost_of_bytes(&self) -> Option<(f64, f64)> {
        let largest = self.answers.values().filter(|a| a.count > limits::FEWEST_ANSWERS).max_by_key(|a| a.largest.0)?;
        let others = (largest.count - 1) as f64;
        let bytes = (largest.bytes - largest.largest.0) as f64 / others;
        let ns = (largest.ns - largest.largest.1) as f64 / others;
        let more_bytes = largest.largest.0 as f64 - bytes;
        (more_bytes > limits::MUCH_LARGER * bytes).then(|| ((largest.largest.1 as f64 - ns).max(0.0) / more_bytes, bytes))
    }

    /// A server's answer, as its end of the connection sends it within the work on the request.
    fn answer(&mut self, tables: &Tables, span: &LiveSpan) {
        if tables.actors[span.track as usize].end != End::Server {
            return;
        }
        let answers = self.answers.entry(span.track).or_default();
        match span.kind {
            SpanKind::RpcServe => answers.serving = (span.id, span.duration_ns()),
            _ if span.parent != 0 && span.parent == answers.serving.0 => {
                let (bytes, ns) = (span.bytes(), answers.serving.1);
                answers.count += 1;
                answers.bytes += bytes;
                answers.ns += ns;
                answers.largest = answers.largest.max((bytes, ns));
            }
            _ => {}
        }
    }

    fn call(&mut self, tables: &Tables, span: &LiveSpan) {
        if tables.actors[span.track as usize].end != End::Client {
            return;
        }
        self.calls.add(span.start, span.end);
        let server = self.server(tables, span.object);
        if self.by_server.len() < limits::MOST_SERVERS || self.by_server.contains_key(&server) {
            self.by_server.entry(server).or_default().add(span.start, span.end);
        }
    }

    /// The first connection to the same server.
    fn server(&mut self, tables: &Tables, object: u32) -> u32 {
        let connection = tables.connection_of(object);
        if connection == NONE {
            return object;
        }
        let address = |c: u32| tables.ends(c).map_or("", |n| n.1);
        *self.servers.entry(connection).or_insert_with(|| {
            let same = (0..=connection).find(|&c| address(c) == address(connection));
            same.unwrap_or(connection)
        })
    }

    fn exchange(&mut self, tables: &Tables, span: &LiveSpan) {
        let actor = &tables.actors[span.track as usize];
        let connection = tables.connection_of(span.object);
        if actor.end != End::Client || connection == NONE {
            return;
        }
        if !actor.reached {
            self.of_own[span.side as usize].note(connection, span);
        }
        self.exchanged[span.side as usize].note(connection, span);
    }

    /// From here on only what the command's own threads exchanged counts: those that were reached ask for themselves.
    pub(crate) fn leave_out_others(&mut self) {
        self.exchanged = std::mem::take(&mut self.of_own);
    }

    /// What was exchanged with those who were called; where nobody was, with those who called.
    pub(crate) fn exchanged(&self) -> &Exchanged {
        let [calling, called] = &self.exchanged;
        if calling.turns > 0 || called.turns == 0 { calling } else { called }
    }

    fn names(&mut self, tables: &Tables, span: &LiveSpan) {
        let actor = &tables.actors[span.track as usize];
        if actor.end != End::Client {
            return;
        }
        let answered_by_mount = tables.actors.get(span.waker as usize).is_some_and(|waker| waker.mount);
        if !actor.mount && answered_by_mount {
            self.of_mount.add(span.start, span.end);
        }
    }
}

impl Exchanged {
    fn note(&mut self, connection: u32, span: &LiveSpan) {
        self.bytes += span.bytes();
        let answered = self.answered.entry(connection).or_default();
        if span.kind == SpanKind::NetReceive {
            *answered += u64::from(span.count);
        } else {
            // What a thread did while it ran is told together: of so many sends and receives in one stretch each may have been answered.
            self.turns += u64::from(span.count).min(*answered);
            *answered = 0;
        }
        self.turn(span);
        let (first, last) = self.from_to.unwrap_or((i64::MAX, i64::MIN));
        let sends = span.kind == SpanKind::NetSend;
        self.sends += if sends { u64::from(span.count) } else { 0 };
        self.from_to = Some(if sends { (first.min(span.start), last) } else { (first, last.max(span.end)) });
    }

    /// A thread's send or receive, on any connection: what it sends to several before it takes anything is one turn.
    fn turn(&mut self, span: &LiveSpan) {
        let fresh = Turns { count: 0, answered: 0, first: span.start, last: span.end };
        let turns = self.turns_of.entry(span.track).or_insert(fresh);
        turns.first = turns.first.min(span.start);
        turns.last = turns.last.max(span.end);
        if span.kind == SpanKind::NetReceive {
            turns.answered += u64::from(span.count);
        } else {
            turns.count += u64::from(span.count).min(turns.answered);
            turns.answered = 0;
        }
    }

    /// How many turns there were one after the other: those of all threads, over how many threads took turns at a time.
    pub(crate) fn rounds(&self) -> u64 {
        let took: Vec<&Turns> = self.turns_of.values().filter(|turns| turns.count > 0).collect();
        let all: u64 = took.iter().map(|turns| turns.count).sum();
        let each: i64 = took.iter().map(|turns| turns.last - turns.first).sum();
        let together = together_ns(took.iter().map(|turns| (turns.first, turns.last)).collect());
        (all as f64 * together.max(1) as f64 / each.max(1) as f64).round() as u64
    }
}

fn is_directory(tables: &Tables, object: u32) -> bool {
    tables.objects.get(object as usize).is_some_and(|object| object.attribute("kind") == Some("directory"))
}
