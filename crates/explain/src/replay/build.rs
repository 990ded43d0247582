//! From timelines to programs: what each wait depended on, and how its length arose.
//!
//! Without a change every wait ends where it did in the recording: the part that no dependency explains is kept as a lag. So a replay
//! without a change is the recorded run, except for queueing at processors, which is simulated anew.

use super::flows::Flows;
use super::program::{Class, Device, Graph, NO_MARK, Op, Program};
use super::queueing::{Busy, stopped_from_ns};
use super::regime::{Regime, Regimes};
use super::rows::{Request, Rows};
use super::services::{LinkedWait, full_ways, reading_ns, time_services};
use super::streams::Streams;
use super::timeline::{Piece, Timeline, Wait};
use crate::cause::{Activity, Cause, End};
use crate::facts::Parts;
use crate::limits::replay as limits;
use crate::observe::feed::Carried;
use crate::observe::index::NONE;
use crate::observe::observation::Way;
use crate::observe::tables::Tables;
use crate::rule::RuleId;
use crate::waits::answer::{Charge, Edge};
use std::collections::HashMap;
use thalweg_trace::{ObjectKind, Role, SpanKind};

/// Facts of the run besides its rows.
pub(crate) struct Facts {
    /// The network's part.
    pub regimes: Regimes,
    /// Least round-trip time by connection, in nanoseconds, if TCP recorded it.
    pub min_rtt_ns: HashMap<u32, f64>,
    /// The largest receive window by connection, in bytes.
    pub receive_window_bytes: HashMap<u32, f64>,
    /// By end: time a processor quota stopped it, infinite if unknown; `None` if there was no quota.
    pub quota: [Option<f64>; 2],
    /// Whether the recording has lives: then queueing behind a quota is recorded, too.
    pub records_quotas: bool,
}

impl Facts {
    /// Nanoseconds per byte with the largest window always in flight, on the best connection; 0 if TCP recorded none.
    fn window_ns_per_byte(&self) -> f64 {
        let each = self.receive_window_bytes.iter().filter_map(|(c, bytes)| Some(self.min_rtt_ns.get(c)? / bytes));
        each.reduce(f64::min).unwrap_or(0.0)
    }
}

struct Builder<'a> {
    parts: &'a Parts<'a>,
    tables: &'a Tables,
    facts: &'a Facts,
    streams: Streams,
    timelines: Vec<Timeline>,
    /// Maps tracks to timelines.
    of_track: Vec<u32>,
    marks: Vec<Vec<(i64, u32)>>,
    mark_count: u32,
    devices: Vec<Device>,
    busy: Vec<Busy>,
    /// By end: queueing of at least this length was due to the quota.
    stopped_from_ns: [i64; 2],
    /// By device name and machine: its requests, in order of completion.
    requests: HashMap<Device, Vec<Request>>,
    from: i64,
}

fn requests(tables: &Tables, rows: &Rows) -> HashMap<Device, Vec<Request>> {
    let mut requests: HashMap<Device, Vec<Request>> = HashMap::new();
    for request in rows.requests.iter().rev() {
        let actor = &tables.actors[request.track as usize];
        requests.entry(Device { machine: actor.machine, name: actor.name.clone() }).or_default().push(*request);
    }
    requests
}

/// Makes the graph of a recorded run from timelines whose waits have their dependencies; `None` if the main thread has no timeline.
pub(crate) fn build(parts: &Parts<'_>, rows: &Rows, facts: &Facts, timelines: Vec<Timeline>) -> Option<Graph> {
    let (tables, from) = (parts.tables, rows.from);
    let main = timelines.iter().position(|t| t.track == tables.main)?;
    let mut of_track = vec![NONE; tables.actors.len()];
    timelines.iter().enumerate().for_each(|(i, t)| of_track[t.track as usize] = i as u32);
    let busy = (0..tables.machines.len() as u32).map(|m| Busy::of(tables, &timelines, m)).collect();
    let mut builder = Builder {
        parts,
        tables,
        facts,
        streams: Streams::of(tables, &rows.rows),
        marks: vec![Vec::new(); timelines.len()],
        timelines,
        of_track,
        mark_count: 0,
        devices: Vec::new(),
        busy,
        requests: requests(tables, rows),
        stopped_from_ns: [0, 1].map(|end| stopped_from_ns(tables, rows, end, facts.quota[end])),
        from,
    };
    let turns = builder.turns();
    let mut linked = builder.link();
    full_ways(&mut linked, builder.streams.streams.len());
    let latency = builder.latencies(&linked);
    linked.sort_by(|a, b| a.woken.total_cmp(&b.woken));
    let foreign = |device: u32, began: f64, until: f64| {
        let Device { machine, name } = &builder.devices[device as usize];
        let of = parts.sharing.foreign.get(&(*machine, name.clone()));
        of.map_or(0.0, |foreign| foreign.within(from + began as i64, from + until as i64))
    };
    time_services(&mut linked, &latency, builder.devices.len(), foreign);
    let reading_ns = reading_ns(&linked, &builder.devices, &builder.requests, from);
    let flows = Flows::of(rows, |track, at| builder.mark_on(track, at));
    let programs = builder.programs(linked);
    Some(Graph {
        programs,
        main,
        marks: builder.mark_count as usize,
        latency,
        devices: builder.devices,
        cpus: tables.machines.iter().map(|m| m.cpus.max(1)).collect(),
        wall_ns: (parts.end - from) as f64,
        reading_ns,
        turns,
        // A copy is over when all of it was answered.
        awaited: flows.messages.iter().map(|message| message.answered).collect(),
        flows,
        threads: 0,
        slowdown: limits::SLOWDOWN,
        foreign: 0.0,
        kept: 0.0,
        window_ns_per_byte: facts.window_ns_per_byte(),
    })
}

impl Builder<'_> {
    fn at(&self, instant: i64) -> f64 {
        (instant - self.from) as f64
    }

    fn link(&mut self) -> Vec<LinkedWait> {
        let mut linked = Vec::new();
        for timeline in 0..self.timelines.len() {
            for piece in 0..self.timelines[timeline].pieces.len() {
                let Piece::Wait(wait) = self.timelines[timeline].pieces[piece] else { continue };
                let (op, since) = self.dependency(timeline, piece, &wait);
                linked.push(LinkedWait {
                    timeline,
                    piece,
                    op,
                    woken: self.at(wait.woken),
                    end: self.at(wait.end),
                    since: self.at(since.unwrap_or(wait.start)),
                });
            }
        }
        linked
    }

    /// By timeline: marks at the start of its request turns. They precede other marks of the same instant, so that sends at that instant
    /// belong to the turn.
    fn turns(&mut self) -> Vec<Vec<u32>> {
        let timelines = 0..self.timelines.len() as u32;
        timelines
            .map(|t| {
                let track = self.timelines[t as usize].track;
                if self.tables.actors[track as usize].end != End::Client {
                    return Vec::new();
                }
                let (turns, from) = (self.streams.turns(track), self.from);
                turns.into_iter().filter(|&at| at >= from).map(|at| self.mark(t, at).0).collect()
            })
            .collect()
    }

    /// Makes a mark on another thread's timeline, at or before this instant while it ran; returns the instant used.
    fn mark(&mut self, timeline: u32, instant: i64) -> (u32, i64) {
        let at = self.timelines[timeline as usize].ran_at(instant);
        let mark = self.mark_count;
        self.mark_count += 1;
        self.marks[timeline as usize].push((at, mark));
        (mark, at)
    }

    /// Makes a mark on a track's timeline; `None` if it has none.
    fn mark_on(&mut self, track: u32, instant: i64) -> Option<(u32, u32)> {
        let timeline = self.timeline_of(track)?;
        Some((timeline, self.mark(timeline, instant).0))
    }

    fn timeline_of(&self, track: u32) -> Option<u32> {
        self.of_track.get(track as usize).copied().filter(|&t| t != NONE)
    }

    fn dependency(&mut self, timeline: usize, piece: usize, wait: &Wait) -> (Op, Option<i64>) {
        use SpanKind as K;
        let at_device = match wait.row.kind {
            K::FileRead | K::WaitDisk => Some(Class::Read),
            K::FileWrite => Some(Class::Write),
            K::FileSync => Some(Class::Sync),
            K::FileOpen | K::FileStat | K::FileList | K::FileClose => Some(Class::Metadata),
            K::FileTruncate | K::FileRemove | K::FileRename | K::FileCreate | K::FileOther => Some(Class::Metadata),
            _ => None,
        };
        if let Some(class) = at_device {
            return self.device(timeline, piece, wait, class);
        }
        let class = self.class(wait);
        let found = match wait.depends.and_then(|depends| depends.edge) {
            _ if wait.row.kind == K::WaitRunqueue => None,
            Some((Edge::Woke(other) | Edge::Thread(other), _)) => self.follow(timeline, wait, other),
            Some((Edge::Bytes { sent, connection, by }, _)) => self.bytes(timeline, wait, (2 * connection + by as u32, &sent)),
            Some((Edge::Peer { connection, side, for_room: true, .. }, _)) => self.room(wait, 2 * connection + side.other() as u32),
            Some((Edge::Peer { track, connection, side, .. }, _)) => self.event(timeline, wait, track, 2 * connection + side as u32),
            Some((Edge::Far { connection, side }, _)) => self.unseen(wait, connection, side),
            None => None,
        };
        found.unwrap_or((Op::Delay { class, ns: (wait.end - wait.start) as f64 }, None))
    }

    /// The class of a wait that depended on no replayed thread.
    fn class(&self, wait: &Wait) -> Class {
        match wait.row.kind {
            SpanKind::WaitRunqueue => return self.queue_class(wait),
            SpanKind::NetConnect if !matches!(wait.depends.and_then(|depends| depends.charged), Some((RuleId::ConnectLost, _))) => {
                return Class::Connect;
            }
            _ => {}
        }
        let think = |end| if end == End::Client { Class::ClientThink } else { Class::ServerThink };
        match wait.depends.and_then(|depends| depends.charged) {
            Some((RuleId::Stopped, _)) => Class::Stopped,
            Some((_, Charge::Own(Activity::Think, ..))) => think(self.tables.actors[wait.row.track as usize].end),
            Some((_, Charge::Own(Activity::Lock, ..))) => Class::Lock,
            Some((_, Charge::Own(Activity::Memory, ..))) => Class::Memory,
            Some((_, Charge::As(cause, ..) | Charge::At(cause, ..))) => match cause {
                Cause::ServerUnknown | Cause::ClientThink | Cause::ServerThink => Class::FarEnd,
                Cause::NetworkLoss => Class::Lost,
                cause if cause.is_network() => Class::Connect,
                _ => Class::Other,
            },
            _ => Class::Other,
        }
    }

    fn queue_class(&self, wait: &Wait) -> Class {
        let machine = self.tables.actors[wait.row.track as usize].machine as usize;
        let had_all = self.busy[machine].at((wait.start + wait.end) / 2) >= self.tables.machines[machine].cpus.max(1) as i32;
        match self.queued_for(wait) {
            Class::Queue | Class::LongQueue if had_all => Class::Ours,
            class => class,
        }
    }

    fn queued_for(&self, wait: &Wait) -> Class {
        let actor = &self.tables.actors[wait.row.track as usize];
        let by_quota = self.tables.objects.get(wait.row.object as usize).is_some_and(|object| object.kind == ObjectKind::Cgroup);
        if by_quota || wait.end - wait.start >= self.stopped_from_ns[actor.end as usize] {
            return Class::Quota;
        }
        if !self.facts.records_quotas && wait.end - wait.start >= limits::LONGER_THAN_TURNS_NS {
            return Class::LongQueue;
        }
        match self.tables.actors.get(wait.row.waker as usize).map(|a| a.role) {
            Some(Role::Recorder) => Class::Recorder,
            Some(Role::Client | Role::Server) | None => Class::Queue,
            Some(_) => Class::Foreign,
        }
    }

    /// Makes a wait for another thread.
    fn follow(&mut self, timeline: usize, wait: &Wait, other: u32) -> Option<(Op, Option<i64>)> {
        let waker = self.timeline_of(other).filter(|&w| w != timeline as u32)?;
        let ran_at = |instant| self.timelines[waker as usize].ran_at(instant);
        let woken = self.timelines[waker as usize].woke_at(wait.woken, wait.row.end);
        let at = ran_at(woken).max(ran_at(wait.woken));
        if at < wait.start - limits::WAKER_EARLY_NS || at > wait.row.end {
            return None;
        }
        let (mark, at) = self.mark(waker, at);
        let lock = self.facts.regimes.is_lock(wait.start, wait.woken);
        Some((Op::Follow { mark, lag: (wait.end - at) as f64, lock }, Some(at)))
    }

    fn device(&mut self, timeline: usize, piece: usize, wait: &Wait, class: Class) -> (Op, Option<i64>) {
        let actor = &self.tables.actors[wait.row.track as usize];
        if let Some((Edge::Woke(other), _)) = wait.depends.and_then(|depends| depends.edge)
            && let Some(followed) = self.follow(timeline, wait, other)
        {
            return followed;
        }
        let by = self.tables.actors.get(wait.row.waker as usize).filter(|a| !a.thread).map(|a| a.name.as_str());
        let on = self.tables.objects.get(wait.row.object as usize).and_then(|object| object.attribute("device"));
        // Of an unnamed disk, only the end is known. Were it the same as the other end's, nothing could read here while the other end
        // writes.
        let unnamed = if actor.end == End::Server { "the server's disk" } else { "a disk" };
        let device = Device { machine: actor.machine, name: by.or(on).unwrap_or(unnamed).to_owned() };
        let ended_it = self.ended_it(&device, wait);
        // A fault on a mapped file within a write is a read.
        let class = if ended_it.is_some_and(|r| r.reads) && class == Class::Write { Class::Read } else { class };
        let asked_at = ended_it.and_then(|r| self.asked_at(&device, wait, &r));
        let asked = asked_at.map(|at| self.mark(timeline as u32, at));
        let device = self.devices.iter().position(|d| *d == device).unwrap_or_else(|| {
            self.devices.push(device);
            self.devices.len() - 1
        });
        let ahead = asked.is_none() && class == Class::Read && self.reads_on(timeline, piece, wait);
        let mark = asked.map_or(NO_MARK, |a| a.0);
        let lag = (wait.end - wait.woken) as f64;
        (Op::Serve { device: device as u32, class, service: 0.0, foreign: 0.0, lag, asked: mark, ahead }, asked.map(|a| a.1))
    }

    /// The requests that a device had completed when a wait ended.
    fn completed(&self, device: &Device, wait: &Wait) -> &[Request] {
        let requests: &[Request] = self.requests.get(device).map_or(&[], Vec::as_slice);
        &requests[..requests.partition_point(|r| r.end <= wait.woken)]
    }

    /// The request whose completion ended a wait.
    fn ended_it(&self, device: &Device, wait: &Wait) -> Option<Request> {
        self.completed(device, wait).iter().rev().take(8).find(|r| wait.woken - r.end <= limits::COMPLETED_NS).copied()
    }

    /// When the device received the request that ended a wait, if before the wait began: it was read ahead, or written behind, while the
    /// thread did something else. Of the requests completed since the wait began, the first counts.
    fn asked_at(&self, device: &Device, wait: &Wait, ended_it: &Request) -> Option<i64> {
        let first = self.completed(device, wait).iter().rev().take(64).take_while(|r| r.end > wait.start).map(|r| r.start).min();
        let asked = first.unwrap_or(ended_it.start).min(ended_it.start);
        (asked < wait.start).then_some(asked)
    }

    /// Whether the device kept reading while the thread ran: the last wait was for the same file, and recent.
    fn reads_on(&self, timeline: usize, piece: usize, wait: &Wait) -> bool {
        let before = self.timelines[timeline].pieces[..piece].iter().rev().take(16).find_map(|p| match p {
            Piece::Wait(w) if w.row.kind != SpanKind::WaitRunqueue => Some(w),
            _ => None,
        });
        before.is_some_and(|last| {
            let same = last.row.kind == SpanKind::FileRead && last.row.object == wait.row.object;
            same && wait.start - last.end <= wait.woken - wait.start
        })
    }

    /// Makes a wait for sent bytes: until they were sent, and the connection has carried them.
    fn bytes(&mut self, timeline: usize, wait: &Wait, (way, sent): (u32, &Carried)) -> Option<(Op, Option<i64>)> {
        let taken = self.streams.taken_from(way, wait.row.track, wait.woken).copied();
        let sender = self.timeline_of(sent.track).filter(|&sender| sender != timeline as u32)?;
        let at = taken.and_then(|t| self.streams.sender_of(way, t.from, wait.woken)).map_or(sent.end, |(_, at)| at);
        let (mark, at) = self.mark(sender, at.min(wait.woken));
        Some((self.arrive(wait, way, mark), Some(at)))
    }

    /// Makes an arrival of bytes that a wait was for, and that the thread took after it; they were sent at this mark.
    fn arrive(&self, wait: &Wait, way: u32, mark: u32) -> Op {
        let bytes = self.streams.taken_from(way, wait.row.track, wait.woken).map_or(0, |t| t.to - t.from) as f64;
        let regime = self.facts.regimes.within(wait.start, wait.woken);
        Op::Arrive { mark, way, service: 0.0, bytes, regime, lag: (wait.end - wait.woken) as f64, polls: wait.polls }
    }

    /// Makes a wait for an unrecorded far end: its own time, or the connection's if the path says so.
    fn unseen(&mut self, wait: &Wait, connection: u32, side: End) -> Option<(Op, Option<i64>)> {
        if connection == NONE || !self.facts.regimes.is_network(wait.start, wait.woken) {
            return Some((Op::Delay { class: Class::FarEnd, ns: (wait.end - wait.start) as f64 }, None));
        }
        Some((self.arrive(wait, 2 * connection + side as u32, NO_MARK), None))
    }

    fn one_way_ns(&self, way: u32) -> f64 {
        self.facts.min_rtt_ns.get(&(way / 2)).map_or(0.0, |ns| ns / 2.0)
    }

    /// Makes a wait ended by a thread at the other end of a connection.
    fn event(&mut self, timeline: usize, wait: &Wait, other: u32, way: u32) -> Option<(Op, Option<i64>)> {
        let other = self.timeline_of(other).filter(|&other| other != timeline as u32)?;
        let at = self.timelines[other as usize].ran_at(wait.woken);
        if at < wait.start || at > wait.woken || wait.woken - at > limits::RECENT_NS {
            return None;
        }
        let (mark, at) = self.mark(other, at);
        let lag = (wait.end - at) as f64;
        Some((Op::Arrive { mark, way, service: 0.0, bytes: 0.0, regime: Regime::Latency, lag, polls: false }, Some(at)))
    }

    /// Makes a wait for room: until the far end has taken what it had taken by then.
    fn room(&mut self, wait: &Wait, out: u32) -> Option<(Op, Option<i64>)> {
        // What is acknowledged is what arrived; it was read a little later.
        let one_way = self.one_way_ns(out) as i64;
        let latest = wait.woken - one_way + one_way.min(limits::READ_LATER_NS + one_way / limits::READ_LATER_PART);
        let taken = *self.streams.taken_by(out, latest)?;
        let taker = self.timeline_of(taken.track)?;
        let regime = self.facts.regimes.within(wait.start, wait.woken);
        // What was in flight when there was no more room.
        let by_then = self.streams.taken_by(out, wait.start - one_way).map_or(0, |t| t.to);
        let window = self.streams.sent_by(out, wait.start).saturating_sub(by_then);
        // If it was taking bytes just then, that made room.
        let earliest = wait.start - 2 * one_way - limits::READ_LATER_NS;
        let ran_at = self.timelines[taker as usize].ran_at(latest);
        let made_room_at = if taken.end < earliest { ran_at } else { taken.end };
        if made_room_at < earliest {
            return Some((Op::Delay { class: Class::Other, ns: (wait.end - wait.start) as f64 }, None));
        }
        let (mark, at) = self.mark(taker, made_room_at);
        let wide = taken.to.saturating_sub(3 * window);
        let wide = match self.streams.taken_past(out, wide).copied() {
            Some(before) if wide > 0 => {
                let before_taker = self.timeline_of(before.track)?;
                self.mark(before_taker, before.end).0
            }
            _ => NO_MARK,
        };
        Some((Op::Room { way: out, mark, wide, lag: (wait.end - at) as f64, regime }, Some(at)))
    }

    /// The least time of bytes, by direction.
    fn latencies(&self, linked: &[LinkedWait]) -> Vec<f64> {
        let mut least = vec![f64::INFINITY; self.streams.streams.len()];
        for l in linked {
            if let Op::Arrive { way, mark, polls: false, .. } = l.op
                && mark != NO_MARK
                && l.woken > l.since
            {
                least[way as usize] = least[way as usize].min(l.woken - l.since);
            }
        }
        let recorded = |way: usize| Some(self.one_way_ns(way as u32)).filter(|ns| *ns > 0.0).unwrap_or(f64::INFINITY);
        let shortest = least.iter().enumerate().map(|(way, least)| recorded(way).min(*least));
        shortest.map(|ns| if ns.is_finite() { ns } else { 0.0 }).collect()
    }

    fn programs(&mut self, linked: Vec<LinkedWait>) -> Vec<Program> {
        let starts: Vec<Option<Op>> = (0..self.timelines.len()).map(|timeline| self.start_of(timeline)).collect();
        let mut ops: Vec<Vec<Op>> = self.timelines.iter().map(|t| vec![Op::Run(0.0); t.pieces.len()]).collect();
        for l in linked {
            ops[l.timeline][l.piece] = l.op;
        }
        let marks = std::mem::take(&mut self.marks);
        let threads = self.timelines.iter().zip(ops).zip(starts.into_iter().zip(marks));
        threads.map(|((timeline, ops), (start, marks))| self.program(timeline, &ops, start, marks)).collect()
    }

    /// One thread's operations, with others' marks inserted.
    fn program(&self, timeline: &Timeline, ops: &[Op], start: Option<Op>, mut marks: Vec<(i64, u32)>) -> Program {
        marks.sort_unstable();
        let actor = &self.tables.actors[timeline.track as usize];
        let mut program = Program {
            machine: actor.machine as usize,
            end: actor.end,
            track: timeline.track,
            made_by: self.started_by(timeline),
            syncing: self.syncing(timeline),
            ops: Vec::new(),
        };
        let busy = &self.busy[actor.machine as usize];
        program.ops.extend(start);
        let mut marks = marks.iter().peekable();
        for (piece, op) in timeline.pieces.iter().zip(ops) {
            let mut at = piece.start();
            let until = if let Piece::Run(_, end) = piece { *end } else { at };
            while let Some(&(when, mark)) = marks.next_if(|m| m.0 <= until) {
                if when > at {
                    program.ops.push(Op::Run(busy.worked(at, when)));
                    at = when;
                }
                program.ops.push(Op::Mark(mark));
            }
            match *piece {
                Piece::Run(_, end) if end > at => program.ops.push(Op::Run(busy.worked(at, end))),
                Piece::Wait(_) => program.ops.push(*op),
                _ => {}
            }
        }
        program.ops.extend(marks.map(|m| Op::Mark(m.1)));
        program
    }

    /// The part of a thread's running that made data durable.
    fn syncing(&self, timeline: &Timeline) -> f64 {
        let runs = timeline.pieces.iter().map(|piece| if let Piece::Run(from, to) = piece { (to - from) as f64 } else { 0.0 });
        self.parts.around.syncing(timeline.track, runs.sum(), self.parts.seen.stream(Way::ClientWrites).all.bytes)
    }

    /// The program that started this thread's process.
    fn started_by(&self, timeline: &Timeline) -> Option<u32> {
        let (_, by) = self.parts.facts.lives[timeline.track as usize].made()?;
        let is_process = self.tables.process(by).is_some_and(|maker| Some(maker) != self.tables.process(timeline.track));
        self.timeline_of(by).filter(|_| is_process)
    }

    /// For a thread made by another: a wait until its maker had made it.
    fn maker(&mut self, timeline: usize) -> Option<Op> {
        let (made, by) = self.parts.facts.lives[self.timelines[timeline].track as usize].made()?;
        let maker = self.timeline_of(by).filter(|&m| m != timeline as u32 && self.timelines[m as usize].start() <= made)?;
        let (mark, at) = self.mark(maker, made);
        Some(Op::Follow { mark, lag: (self.timelines[timeline].start() - at) as f64, lock: false })
    }

    /// The dependency of a thread that began during the run: its maker; if unknown, a thread of its process, or else of the client, that ran
    /// then.
    fn start_of(&mut self, timeline: usize) -> Option<Op> {
        let (track, at) = (self.timelines[timeline].track, self.timelines[timeline].start());
        if track == self.tables.main || at <= self.from {
            return None;
        }
        if let Some(made) = self.maker(timeline) {
            return Some(made);
        }
        let process = |track: u32| self.tables.process(track).filter(|(_, pid)| *pid != 0);
        let others = self.timelines.iter().enumerate().filter(|(number, other)| *number != timeline && other.start() < at);
        let likely = others.map(|(number, other)| {
            let ran = other.ran_at(at);
            let alike = process(track).is_some() && process(other.track) == process(track);
            (alike && at - ran < limits::MADE_NS, ran, number as u32)
        });
        Some(match likely.max() {
            Some((_, ran, other)) => Op::Follow { mark: self.mark(other, at).0, lag: (at - ran) as f64, lock: false },
            None => Op::Delay { class: Class::Other, ns: self.at(at) },
        })
    }
}
