//! Requests, gathered as the recording is read.

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
    /// Time spent on them.
    ns: u64,
    /// Bytes of the largest one, and its time.
    largest: (u64, u64),
    /// The request in progress, seen backward, and the time spent on it.
    serving: (u64, u64),
}

/// One thread's turns: times at which it handed bytes to connections and then took some. Gathered backward.
#[derive(Debug)]
struct Turns {
    count: u64,
    /// Bytes taken without a known earlier send.
    answered: u64,
    first: i64,
    last: i64,
}

/// Messages that the client's threads exchanged over connections, for one side of them.
#[derive(Debug, Default)]
pub(crate) struct Exchanged {
    /// Number of times the client handed bytes to a connection.
    pub sends: u64,
    /// Number of times it did so and then took bytes from the same connection: answered requests, or several in one go.
    pub turns: u64,
    /// Bytes that the client handed to connections and took from them.
    pub bytes: u64,
    /// Time of its first send, and of its last receive.
    pub from_to: Option<(i64, i64)>,
    /// By the client's connection: number of receives without a known earlier send, seen backward.
    answered: HashMap<u32, u64>,
    /// By the client's thread.
    turns_of: HashMap<u32, Turns>,
}

/// The requests of a recording.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Calls that the client recorded, over all servers.
    pub calls: Overlap,
    /// Calls by server: the part after `>` in a connection's name, as its first connection's dense number.
    pub by_server: HashMap<u32, Overlap>,
    /// Messages of the client's threads over connections, by their side of the connection: if client and server belong to one command, each
    /// message is seen twice.
    exchanged: [Exchanged; 2],
    /// These messages without clients that were reached through a server.
    of_own: [Exchanged; 2],
    /// Requests of all disks.
    pub disk: Overlap,
    /// Number of entries that the application's requests delivered.
    pub delivered: u64,
    /// End of the first request that delivered entries, and of the last; and the number that the first delivered.
    pub delivering: Option<(i64, i64, u64)>,
    /// Servers' answers, by the server's track.
    answers: HashMap<u32, Answers>,
    /// Programs' waits for a user-space mount.
    pub of_mount: Overlap,
    servers: HashMap<u32, u32>,
}

impl Asking {
    /// Adds a span; spans of one thread or device come by descending end.
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

    /// Mean time per entry in ns, from the first delivered to the last, if each request delivered one.
    pub(crate) fn each_delivered_ns(&self) -> Option<f64> {
        let (first, last, of_first) = self.delivering?;
        let after = self.delivered.checked_sub(of_first).filter(|&n| n > 0)?;
        Some((last - first) as f64 / after as f64)
    }

    /// Cost of a byte in the largest answer of its server, in ns, and the bytes of its other answers; `None` if no answer is much larger
    /// than the others.
    pub(crate) fn cost_of_bytes(&self) -> Option<(f64, f64)> {
        let largest = self.answers.values().filter(|a| a.count > limits::FEWEST_ANSWERS).max_by_key(|a| a.largest.0)?;
        let others = (largest.count - 1) as f64;
        let bytes = (largest.bytes - largest.largest.0) as f64 / others;
        let ns = (largest.ns - largest.largest.1) as f64 / others;
        let more_bytes = largest.largest.0 as f64 - bytes;
        (more_bytes > limits::MUCH_LARGER * bytes).then(|| ((largest.largest.1 as f64 - ns).max(0.0) / more_bytes, bytes))
    }

    /// Adds a server's answer, sent on its end of the connection during the work on the request.
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

    /// From here on, only messages of the command's own threads count: reached programs make requests for themselves.
    pub(crate) fn leave_out_others(&mut self) {
        self.exchanged = std::mem::take(&mut self.of_own);
    }

    /// The messages exchanged with called ends; if there were none, with callers.
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
            // Merged calls of a running thread: each of these sends and receives may have been answered.
            self.turns += u64::from(span.count).min(*answered);
            *answered = 0;
        }
        self.turn(span);
        let (first, last) = self.from_to.unwrap_or((i64::MAX, i64::MIN));
        let sends = span.kind == SpanKind::NetSend;
        self.sends += if sends { u64::from(span.count) } else { 0 };
        self.from_to = Some(if sends { (first.min(span.start), last) } else { (first, last.max(span.end)) });
    }

    /// Adds a thread's send or receive, on any connection: sends to several connections before a receive are one turn.
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

    /// Number of sequential turns: those of all threads, divided by the number of threads that took turns at a time.
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
