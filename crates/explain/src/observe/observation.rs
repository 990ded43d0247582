//! Sums gathered from every span once, as the walk reads the recording: channels, curves, transfers, and threads' activity.

use crate::cause::End;
use crate::document::MAX_BINS;
use crate::limits::observe as limits;
use crate::observe::asking::Asking;
use crate::observe::attempts::Attempts;
use crate::observe::besides::Besides;
use crate::observe::channels::Gatherer;
use crate::observe::children::Children;
use crate::observe::curve::Curve;
use crate::observe::exchanges::Exchanges;
use crate::observe::holds::Holds;
use crate::observe::index::NONE;
use crate::observe::last_connections::LastConnections;
use crate::observe::locks::LockWaits;
use crate::observe::pipes::Pipes;
use crate::observe::quantile::Lengths;
use crate::observe::questions::Questions;
use crate::observe::resolvers::Resolvers;
use crate::observe::served::{Request, Requests};
use crate::observe::sightings::Sightings;
use crate::observe::span::{LiveSpan, Observer};
use crate::observe::tables::Tables;
use crate::observe::turns::Turns;
use foldhash::{HashMap, HashMapExt};
use thalweg_trace::SpanKind;

/// Directions of bytes, seen from where they were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Sent by a client.
    ClientSends = 0,
    /// Sent by a server.
    ServerSends = 1,
    /// Received by a client: what unrecorded servers sent.
    ClientReceives = 2,
    /// Written to files by a client: the channel of a copy without a network.
    ClientWrites = 3,
    /// Read from files by a client: the channel of a run that only reads.
    ClientReads = 4,
}

/// Number of [`Way`]s.
const WAYS: usize = 5;

/// Bytes in one direction between a file or connection and the threads of one end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    /// How many bytes.
    pub bytes: u64,
    /// Number of calls.
    pub calls: u64,
    /// Start.
    pub start: i64,
    /// End.
    pub end: i64,
    /// The process; 0 if unknown.
    pub pid: u32,
}

impl Default for Moved {
    fn default() -> Moved {
        Moved { bytes: 0, calls: 0, start: i64::MAX, end: i64::MIN, pid: 0 }
    }
}

/// The work of a device.
#[derive(Debug, Default)]
pub(crate) struct DeviceActivity {
    /// Its busy intervals, and the bytes moved.
    pub all: Gatherer,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Lengths of its requests.
    pub requests: Lengths,
    /// Its requests with their issuers.
    pub of_whom: Requests,
}

/// All bytes in one direction.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Over all objects.
    pub all: Gatherer,
    /// By object.
    pub by_object: Vec<Option<Box<Gatherer>>>,
    /// Bytes over time.
    pub curve: Curve,
}

/// The activity of one track.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub(crate) struct ThreadActivity {
    pub spans: u64,
    pub cpu_ns: u64,
    pub runqueue_ns: u64,
    pub file_ns: u64,
    pub network_ns: u64,
    pub lock_ns: u64,
    pub in_containers_ns: u64,
    pub first_start: i64,
    pub last_end: i64,
    pub uncovered_ns: u64,
    /// Time it polled at full speed for bytes that had not come, in ns.
    pub asked_ns: u64,
    /// Start of the thread's next span.
    pub next_start: i64,
}

/// Requests for one source object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceRequests {
    /// The source.
    pub object: u32,
    /// Bytes of all its requests.
    pub bytes: u64,
    /// Number of requests.
    pub requests: u64,
    /// Start of the first.
    pub start: i64,
    /// End of the last.
    pub end: i64,
}

/// Waits for stable storage. One sync call may be several waits, so their number is not the calls'; but how often a thread turned from one
/// file to another is the same.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    /// By object.
    pub of: HashMap<u32, Synced>,
    /// By track: the last noted wait, which is later in time than the next to come.
    last: HashMap<u32, SyncWait>,
}

/// A wait for an object to be durable, and what was seen since it was noted: before it, since recordings are read backward.
#[derive(Clone, Copy, Debug)]
struct SyncWait {
    object: u32,
    start: i64,
    /// Whether the thread wrote, sent or received.
    moved: bool,
    /// Whether a device flushed within it.
    flushed: bool,
}

/// Sync waits for one object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Synced {
    /// Turns to it from another object.
    pub turns: u64,
    /// Waits, counting those without a write, send or receive between them once: at most the number of calls.
    apart: u64,
    /// Waits in which a device flushed, which a call does once: at most the number of calls.
    flushes: u64,
    /// Whether a server waited.
    pub of_servers: bool,
}

impl Synced {
    /// Least number of calls.
    pub(crate) fn calls(&self) -> u64 {
        self.apart.max(self.flushes)
    }
}

impl Syncs {
    fn note(&mut self, track: u32, is_servers: bool, object: u32, start: i64) {
        let last = self.last.insert(track, SyncWait { object, start, moved: false, flushed: false });
        let turned = last.is_none_or(|last| last.object != object);
        let synced = self.of.entry(object).or_default();
        synced.turns += u64::from(turned);
        synced.apart += u64::from(turned || last.is_some_and(|last| last.moved));
        synced.of_servers |= is_servers;
    }

    /// Notes that a thread wrote, sent or received.
    fn moved(&mut self, track: u32) {
        if let Some(last) = self.last.get_mut(&track) {
            last.moved = true;
        }
    }

    /// Notes that a device had flushed by this instant.
    fn flushed(&mut self, at: i64) {
        for last in self.last.values_mut().filter(|last| !last.flushed && last.start <= at) {
            last.flushed = true;
            self.of.entry(last.object).or_default().flushes += 1;
        }
    }
}

/// Everything gathered.
#[derive(Debug)]
pub(crate) struct Observation {
    /// By [`Way`].
    pub streams: [Stream; WAYS],
    /// By actor.
    pub did: Vec<ThreadActivity>,
    /// By end and object: taken in, handed out.
    pub moved: [Vec<[Moved; 2]>; 2],
    /// By a device's track.
    pub devices: HashMap<u32, DeviceActivity>,
    /// By source object.
    pub asked: HashMap<u32, SourceRequests>,
    /// Requests to servers and disks.
    pub asking: Asking,
    /// Other programs' clients of the command's servers.
    pub besides: Besides,
    /// Unanswered bytes of connections.
    pub exchanges: Exchanges,
    /// Requests of the command and of servers, with times.
    pub questions: Questions,
    /// Waits for each other of processes joined by pipes.
    pub pipes: Pipes,
    /// Long waits of the command's threads that are not for each other.
    pub holds: Holds,
    /// Waits for each other on locks.
    pub lock_waits: LockWaits,
    /// Calls that failed.
    pub attempts: Attempts,
    /// Checks for children.
    pub children: Children,
    /// Files whose bytes are certain.
    pub sightings: Sightings,
    /// Threads that may compute in turn.
    pub turns: Turns,
    /// Waits for resolvers on this machine.
    pub resolvers: Resolvers,
    /// Failed connection attempts at the end.
    pub last_connections: LastConnections,
    /// Syncs.
    pub syncs: Syncs,
    /// Threads' working time (anything but waiting for others), in bins.
    pub busy: Curve,
    /// The explained interval.
    pub interval: (i64, i64),
}

impl Observation {
    /// An empty observation of an interval; `round_trips` has each connection's least one, in nanoseconds, if there is a path at all.
    pub(crate) fn new(tables: &Tables, round_trips: Vec<Option<i64>>, start: i64, end: i64) -> Observation {
        let bins = MAX_BINS / 2;
        let stream =
            || Stream { all: Gatherer::default(), by_object: vec![None; tables.objects.len()], curve: Curve::new(start, end, bins) };
        Observation {
            streams: [stream(), stream(), stream(), stream(), stream()],
            did: vec![ThreadActivity { first_start: i64::MAX, next_start: i64::MAX, ..ThreadActivity::default() }; tables.actors.len()],
            moved: [vec![Default::default(); tables.objects.len()], vec![Default::default(); tables.objects.len()]],
            devices: HashMap::new(),
            asked: HashMap::new(),
            asking: Asking::default(),
            besides: Besides::default(),
            exchanges: Exchanges::new(round_trips),
            questions: Questions::default(),
            pipes: Pipes::default(),
            holds: Holds::default(),
            lock_waits: LockWaits::default(),
            attempts: Attempts::default(),
            children: Children::default(),
            sightings: Sightings::default(),
            turns: Turns::default(),
            resolvers: Resolvers::default(),
            last_connections: LastConnections::default(),
            syncs: Syncs::default(),
            busy: Curve::new(start, end, limits::BUSY_BINS),
            interval: (start, end),
        }
    }

    /// The bytes in one direction.
    pub(crate) fn stream(&self, way: Way) -> &Stream {
        &self.streams[way as usize]
    }

    fn moved(&mut self, way: Way, span: &LiveSpan, start: i64) {
        let stream = &mut self.streams[way as usize];
        stream.all.add(start, span.end, span.bytes());
        stream.curve.spread(start, span.end, span.bytes() as f64);
        if span.object != NONE {
            stream.by_object[span.object as usize].get_or_insert_default().add(start, span.end, span.bytes());
        }
    }

    fn bytes_moved(&mut self, tables: &Tables, span: &LiveSpan) {
        if span.bytes() == 0 || span.end > self.interval.1 {
            return;
        }
        let actor = &tables.actors[span.track as usize];
        let on_wire = matches!(span.kind, SpanKind::NetSend | SpanKind::NetReceive);
        if actor.mount && !on_wire {
            // Requests and replies between the kernel and a mount: the using program's calls account for these bytes.
            return;
        }
        if actor.reached && actor.end == End::Client {
            // A helper's bytes: the command's own calls account for them.
            return;
        }
        if span.object != NONE && !actor.mount {
            let out = matches!(span.kind, SpanKind::NetSend | SpanKind::FileWrite);
            let moved = &mut self.moved[actor.end as usize][span.object as usize][usize::from(out)];
            moved.bytes += span.bytes();
            moved.calls += u64::from(span.count);
            moved.start = moved.start.min(span.start);
            moved.end = moved.end.max(span.end);
            moved.pid = actor.pid;
        }
        if span.bytes() < limits::PAYLOAD_BYTES {
            return;
        }
        match (span.kind, actor.end) {
            (SpanKind::NetSend, End::Client) => self.moved(Way::ClientSends, span, span.start),
            (SpanKind::NetSend, End::Server) => self.moved(Way::ServerSends, span, span.start),
            (SpanKind::NetReceive, End::Client) => {
                // A receive starts with a wait; its bytes come at its end.
                let carried = span.division().map_or(span.duration_ns(), |(cpu, _, _)| cpu);
                self.moved(Way::ClientReceives, span, span.end - carried as i64);
            }
            (SpanKind::FileWrite, End::Client) => self.moved(Way::ClientWrites, span, span.start),
            (SpanKind::FileRead, End::Client) => self.moved(Way::ClientReads, span, span.start),
            _ => {}
        }
    }

    /// Adds a device's request: requests overlap, and belong to no thread.
    fn device(&mut self, span: &LiveSpan) {
        let device = self.devices.entry(span.track).or_default();
        device.all.add(span.start, span.end, span.bytes());
        device.requests.add(span.duration_ns());
        let writes = span.kind == SpanKind::DiskWrite;
        device.of_whom.add(Request { start: span.start, end: span.end, by: span.waker, bytes: span.bytes(), writes });
        match span.kind {
            SpanKind::DiskRead => device.read_bytes += span.bytes(),
            SpanKind::DiskWrite => device.written_bytes += span.bytes(),
            _ => {}
        }
    }

    fn tally(&mut self, span: &LiveSpan) {
        let did = &mut self.did[span.track as usize];
        did.spans += 1;
        did.first_start = did.first_start.min(span.start);
        did.last_end = did.last_end.max(span.end);
        if span.is_container() {
            if span.cpu_ns != thalweg_trace::ABSENT {
                did.in_containers_ns += span.duration_ns();
            }
            return;
        }
        if !span.is_activity() {
            return;
        }
        // Between its last span and its next the thread ran.
        let (ran_from, ran_until) = (span.end, did.next_start);
        did.next_start = did.next_start.min(span.start);
        if ran_until != i64::MAX && ran_from < ran_until {
            did.uncovered_ns += (ran_until - ran_from) as u64;
            self.busy.spread(ran_from, ran_until, (ran_until - ran_from) as f64);
        }
        let did = &mut self.did[span.track as usize];
        if span.parent != 0 && span.cpu_ns == 0 && span.ending_seen() {
            // A wait within a call, whose span has the sum of all waits.
            return;
        }
        let all = span.duration_ns();
        if span.is_fruitless() && span.cpu_ns != thalweg_trace::ABSENT {
            did.asked_ns += span.cpu_ns.min(all);
        }
        let (cpu, runqueue, blocked) = span.division().unwrap_or((0, 0, all));
        did.cpu_ns += cpu;
        let runqueue = if span.kind == SpanKind::WaitRunqueue { all } else { runqueue };
        did.runqueue_ns += runqueue;
        let working = match span.kind {
            SpanKind::NetSend | SpanKind::NetReceive | SpanKind::WaitNetwork | SpanKind::NetConnect => {
                did.network_ns += blocked;
                cpu + runqueue
            }
            SpanKind::WaitLock => {
                did.lock_ns += blocked;
                cpu + runqueue
            }
            SpanKind::FileRead
            | SpanKind::FileWrite
            | SpanKind::FileSync
            | SpanKind::FileOpen
            | SpanKind::FileOther
            | SpanKind::FileTruncate
            | SpanKind::FileRemove
            | SpanKind::FileRename
            | SpanKind::FileCreate => {
                did.file_ns += blocked;
                all
            }
            SpanKind::WaitTimer => 0,
            _ => all,
        };
        self.busy.spread(span.end - working as i64, span.end, working as f64);
    }

    fn ask(&mut self, span: &LiveSpan) {
        let fresh = SourceRequests { object: span.object, bytes: 0, requests: 0, start: span.start, end: span.end };
        let asked = self.asked.entry(span.object).or_insert(fresh);
        asked.bytes += span.bytes();
        asked.requests += 1;
        asked.start = asked.start.min(span.start);
        asked.end = asked.end.max(span.end);
    }

    /// Removes requests of other programs' clients to the command's servers, once the whole recording was seen.
    pub(crate) fn leave_out_others(&mut self, tables: &Tables) {
        let others = self.besides.connections(tables);
        if !others.is_empty() {
            self.exchanges.of.retain(|connection, _| !others.contains(connection));
            self.questions.leave_out(&others);
            self.asking.leave_out_others();
        }
    }

    /// The device of a machine that was busy during most of these waits (earliest first), and at least half of them: its track, the part,
    /// and the bytes it moved.
    pub(crate) fn busiest(&self, tables: &Tables, machine: u32, waits: &[(i64, i64)]) -> Option<(u32, f64, u64)> {
        let all_ns: i64 = waits.iter().map(|(from, to)| to - from).sum();
        let of_machine = |track: &u32| tables.actors.get(*track as usize).is_some_and(|actor| actor.machine == machine);
        let worked =
            self.devices.iter().filter(|(track, _)| of_machine(track)).map(|(&track, did)| (meanwhile(&did.all.bursts(), waits), track));
        let ((busy_ns, bytes), track) = worked.max_by_key(|&((busy_ns, bytes), track)| (busy_ns, bytes, track))?;
        let busy = busy_ns as f64 / all_ns.max(1) as f64;
        (busy >= limits::BEHIND_PART).then_some((track, busy.min(1.0), bytes))
    }
}

/// Time a device was busy within these waits, and the bytes it moved, counting partial bursts in proportion.
fn meanwhile(bursts: &[(i64, i64, u64)], waits: &[(i64, i64)]) -> (i64, u64) {
    let (mut busy_ns, mut bytes) = (0, 0.0);
    each_within(
        bursts,
        |&(start, end, _)| (start, end),
        waits,
        |&(start, end, moved), within_ns| {
            busy_ns += within_ns;
            bytes += moved as f64 * within_ns as f64 / (end - start).max(1) as f64;
        },
    );
    (busy_ns, bytes.round() as u64)
}

/// Calls `each` with items that overlap these waits, and with the overlap in nanoseconds. Both are in order of time, and items do not
/// overlap each other.
pub(crate) fn each_within<T>(all: &[T], bounds: impl Fn(&T) -> (i64, i64), waits: &[(i64, i64)], mut each: impl FnMut(&T, i64)) {
    let mut first = 0;
    for &(from, to) in waits {
        while all.get(first).is_some_and(|one| bounds(one).1 <= from) {
            first += 1;
        }
        for one in all[first..].iter().take_while(|one| bounds(one).0 < to) {
            let (start, end) = bounds(one);
            each(one, (end.min(to) - start.max(from)).max(0));
        }
    }
}

impl Observer for Observation {
    #[inline]
    fn span(&mut self, tables: &Tables, span: &LiveSpan) {
        if !tables.actors[span.track as usize].thread {
            if matches!(span.kind, SpanKind::DiskRead | SpanKind::DiskWrite | SpanKind::DiskFlush) {
                self.device(span);
                if span.kind == SpanKind::DiskFlush {
                    self.syncs.flushed(span.end);
                }
                self.asking.note(tables, span);
            }
            return;
        }
        self.tally(span);
        if tables.actors[span.track as usize].end == End::Client {
            self.holds.note(span);
        }
        self.attempts.note(span);
        self.besides.note(tables, span);
        self.turns.note(tables, span);
        self.asking.note(tables, span);
        if span.bytes() > 0 && matches!(span.kind, SpanKind::NetSend | SpanKind::NetReceive | SpanKind::FileWrite) {
            self.syncs.moved(span.track);
        }
        match span.kind {
            SpanKind::NetSend | SpanKind::NetReceive => {
                self.exchanges.note(tables, span);
                self.questions.note(tables, span);
                self.bytes_moved(tables, span);
            }
            SpanKind::WaitLock => {
                self.resolvers.note(tables, span);
                self.questions.note(tables, span);
                self.pipes.note(tables, span);
                self.children.note(tables, span);
                self.lock_waits.note(tables, span);
            }
            SpanKind::FileWrite | SpanKind::FileRead => {
                self.sightings.note(span);
                self.bytes_moved(tables, span);
            }
            SpanKind::FileClose if tables.actors[span.track as usize].end == End::Client => self.sightings.note(span),
            SpanKind::AppRequest => self.ask(span),
            SpanKind::WaitNetwork => self.resolvers.note(tables, span),
            SpanKind::NetConnect => self.last_connections.note(tables, span),
            SpanKind::FileSync if span.object != NONE => {
                let is_servers = tables.actors[span.track as usize].end == End::Server;
                self.syncs.note(span.track, is_servers, span.object, span.start);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_moved_outside_of_a_wait_is_not_counted() {
        let bursts = [(0, 100, 1_000), (200, 300, 4_000), (400, 500, 500)];
        assert_eq!(meanwhile(&bursts, &[(50, 250)]), (100, 2_500));
        assert_eq!(meanwhile(&bursts, &[(0, 50), (60, 100), (450, 600)]), (140, 1_150));
        assert_eq!(meanwhile(&bursts, &[(100, 200)]), (0, 0));
    }
}
