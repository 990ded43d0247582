//! A made-up copy into four servers, traced as the store traces one, with the explanation that its
//! maker knows to be true. No clock and no socket is involved: the same every time.

#![allow(dead_code)]

use thalweg_explain::Cause;
use thalweg_explain::document::*;
use thalweg_trace::*;

/// What is copied, and how.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Requests of 10 MiB.
    pub requests: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Servers.
    pub servers: u64,
    /// Flow buffers a request.
    pub buffers: u64,
}

impl Copy {
    /// 26 requests, one after the other, into four servers.
    pub const SERIAL: Copy = Copy { requests: 26, in_flight: 1, servers: 4, buffers: 10 };
    /// 2,000 requests, two at a time: more than 100,000 spans.
    pub const LONG: Copy = Copy { requests: 2_000, in_flight: 2, servers: 4, buffers: 10 };
    /// A copy into a hundred servers.
    pub const WIDE: Copy = Copy { requests: 12, in_flight: 4, servers: 100, buffers: 100 };
}

const START_NS: i64 = 5_000_000_000;
const REQUEST_BYTES: u64 = 10 << 20;
const MICRO: i64 = 1_000;

/// Makes identifiers, tracks, objects and spans.
#[derive(Default)]
struct Maker {
    next: u64,
    events: Vec<Event>,
    jitter: u64,
}

impl Maker {
    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn track(&mut self, role: Role, name: &str) -> TrackId {
        let track = TrackId::new(self.id()).unwrap();
        let row = Track { track, host: HostId(0), kind: TrackKind::Thread, role, pid: Some(1), tid: None, name: name.into() };
        self.events.push(Event::Track(row));
        track
    }

    fn object(&mut self, kind: ObjectKind, name: &str) -> ObjectId {
        let object = ObjectId::new(self.id()).unwrap();
        self.events.push(Event::Object(Object { object, host: HostId(0), kind, name: name.into(), attributes: vec![] }));
        object
    }

    /// A duration around `ns`: 0.85 to 1.15 of it.
    fn about(&mut self, ns: i64) -> i64 {
        self.jitter = self.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ns * (850 + (self.jitter >> 33) as i64 % 301) / 1000
    }

    #[allow(clippy::too_many_arguments)]
    /// A span of which `cpu` percent were spent running; returns its end.
    fn span(
        &mut self,
        track: TrackId,
        kind: SpanKind,
        start: i64,
        end: i64,
        object: Option<ObjectId>,
        bytes: Option<u64>,
        cpu: u64,
    ) -> i64 {
        let span = SpanId::new(self.id()).unwrap();
        let duration_ns = (end - start).max(0) as u64;
        self.events.push(Event::Span(Span {
            object,
            size_bytes: bytes,
            cpu_ns: Some(duration_ns * cpu / 100),
            runqueue_ns: Some(0),
            ..Span::bare(span, track, kind, Time::from_monotonic_ns(start), duration_ns)
        }));
        end
    }
}

struct Connection {
    client: TrackId,
    server: TrackId,
    client_object: ObjectId,
    server_object: ObjectId,
    datafile: ObjectId,
    free: i64,
    served: i64,
}

/// The recording and its explanation.
pub fn made_up(copy: Copy) -> (MemorySource, Explanation) {
    let mut m = Maker { jitter: 11, ..Maker::default() };
    m.events.push(Event::Host(Host {
        host: HostId(0),
        name: "node17".into(),
        node: "node17".into(),
        clock: "monotonic:made-up".into(),
        kernel: "6.18".into(),
        cpus: 2,
    }));
    let main = m.track(Role::Client, "main");
    let threads: Vec<TrackId> = (0..copy.in_flight).map(|k| m.track(Role::Client, &format!("request {k}"))).collect();
    let mut connections: Vec<Connection> = (0..copy.servers).map(|s| connection(&mut m, s)).collect();
    let source = m.object(ObjectKind::File, "/data/run-17/big.tar");

    let created = m.span(main, SpanKind::RpcCall, START_NS + 200 * MICRO, START_NS + 1_900 * MICRO, None, None, 20);
    let mut free = vec![created; threads.len()];
    let mut path = vec![(Cause::ServerMetadata, START_NS, created)];
    let (mut gaps, mut sends) = (Vec::new(), Vec::new());
    let mut sent_until = created;
    let mut source_free = created;
    for request in 0..copy.requests {
        let k = (request % copy.in_flight) as usize;
        let start = free[k];
        let read_from = m.span(threads[k], SpanKind::WaitLock, start, start.max(source_free), None, None, 0);
        let read_for = m.about(2_000 * MICRO);
        let read = m.span(threads[k], SpanKind::FileRead, read_from, read_from + read_for, Some(source), Some(REQUEST_BYTES), 70);
        source_free = read;
        let mut done = read;
        for buffer in 0..copy.buffers {
            let c = &mut connections[((request * copy.buffers + buffer) % copy.servers) as usize];
            let (first, acknowledged) = flow_buffer(&mut m, c, read, REQUEST_BYTES / copy.buffers, &mut sends);
            if buffer == 0 && first > sent_until {
                gaps.push((sent_until, first, request * REQUEST_BYTES));
            }
            done = done.max(acknowledged);
        }
        sent_until = sent_until.max(done - 600 * MICRO);
        m.span(threads[k], SpanKind::WaitLock, read, done, None, None, 0);
        m.span(threads[k], SpanKind::AppRequest, start, done + 20 * MICRO, Some(source), Some(REQUEST_BYTES), 30);
        if k == 0 {
            let from = path.last().map_or(start, |p| p.2);
            path.extend([
                (Cause::ClientRead, from, read.max(from)),
                (Cause::NetworkBandwidth, read.max(from), (done - 700 * MICRO).max(from)),
                (Cause::ServerWrite, (done - 700 * MICRO).max(from), (done + 20 * MICRO).max(from)),
            ]);
        }
        free[k] = done + 20 * MICRO;
    }
    let end = free.iter().copied().max().unwrap_or(created) + 800 * MICRO;
    m.span(main, SpanKind::WaitLock, created, end - 800 * MICRO, None, None, 0);
    m.span(main, SpanKind::RpcCall, end - 750 * MICRO, end - 100 * MICRO, None, None, 20);
    path.push((Cause::ServerMetadata, path.last().map_or(created, |p| p.2), end));
    let explanation = explanation(copy, &path, &gaps, &sends, end);
    let meta = Meta {
        format: FORMAT_VERSION,
        command: explanation.command.clone(),
        recorder: "store".into(),
        start: Time::from_monotonic_ns(START_NS),
        end: Some(Time::from_monotonic_ns(end)),
        exit_code: Some(0),
        dropped_events: 0,
        attributes: vec![],
    };
    (MemorySource::from_events(meta, m.events), explanation)
}

fn connection(m: &mut Maker, s: u64) -> Connection {
    let name = format!("127.0.0.1:{} > 127.0.0.1:{}", 51_234 + s, 40_001 + s);
    Connection {
        client: m.track(Role::Client, &format!("connection io{s}#0")),
        server: m.track(Role::Server, &format!("io{s} connection 127.0.0.1:{}", 51_234 + s)),
        client_object: m.object(ObjectKind::Connection, &name),
        server_object: m.object(ObjectKind::Connection, &name),
        datafile: m.object(ObjectKind::File, &format!("/srv/io{s}/00000001.0")),
        free: START_NS,
        served: START_NS,
    }
}

/// One flow buffer through its connection; returns when its send began and when it was acknowledged.
fn flow_buffer(m: &mut Maker, c: &mut Connection, ready: i64, bytes: u64, sends: &mut Vec<(i64, i64, u64)>) -> (i64, i64) {
    let start = c.free.max(ready);
    m.span(c.client, SpanKind::WaitLock, c.free, start, None, None, 0);
    let checksum = start + m.about(110 * MICRO);
    m.span(c.client, SpanKind::AppChecksum, start, checksum, None, Some(bytes), 100);
    let sent = checksum + m.about(420 * MICRO);
    m.span(c.client, SpanKind::NetSend, checksum, sent, Some(c.client_object), Some(bytes), 60);
    sends.push((checksum, sent, bytes));
    m.span(c.server, SpanKind::NetReceive, c.served, checksum, Some(c.server_object), None, 1);
    let received = m.span(c.server, SpanKind::NetReceive, checksum, sent + 30 * MICRO, Some(c.server_object), Some(bytes), 55);
    let summed = received + m.about(100 * MICRO);
    m.span(c.server, SpanKind::AppChecksum, received, summed, None, Some(bytes), 100);
    let written = summed + m.about(380 * MICRO);
    m.span(c.server, SpanKind::FileWrite, summed, written, Some(c.datafile), Some(bytes), 80);
    let replied = m.span(c.server, SpanKind::NetSend, written, written + 12 * MICRO, Some(c.server_object), Some(48), 90);
    m.span(c.server, SpanKind::RpcServe, checksum, replied, None, None, 70);
    let acknowledged = m.span(c.client, SpanKind::NetReceive, sent, replied + 25 * MICRO, Some(c.client_object), Some(48), 3);
    m.span(c.client, SpanKind::RpcCall, start, acknowledged, None, Some(bytes), 0);
    c.free = acknowledged;
    c.served = replied;
    (checksum, acknowledged)
}

fn seconds(ns: i64) -> f64 {
    (ns - START_NS) as f64 * 1e-9
}

#[expect(clippy::too_many_lines, reason = "a whole document, field by field")]
fn explanation(copy: Copy, path: &[(Cause, i64, i64)], gaps: &[(i64, i64, u64)], sends: &[(i64, i64, u64)], end: i64) -> Explanation {
    let wall_s = seconds(end);
    let size_bytes = copy.requests * REQUEST_BYTES;
    let place = |cause: Cause| match cause {
        Cause::ClientRead => "/data/run-17/big.tar (page cache)",
        Cause::NetworkBandwidth => "node17 > io0, io1, io2, io3",
        Cause::ServerWrite => "io0 /srv/io0 on vda",
        _ => "metadata service",
    };
    let mut causes: Vec<Cause> = path.iter().map(|p| p.0).collect();
    causes.sort_unstable();
    causes.dedup();
    let mut critical_path: Vec<Charge> = causes
        .iter()
        .map(|&cause| {
            let of = || path.iter().filter(|p| p.0 == cause);
            let spent = of().map(|p| (p.2 - p.1) as f64 * 1e-9).sum::<f64>();
            let evidence = format!("{} intervals, median {:.1} ms", of().count(), spent / of().count() as f64 * 1e3);
            Charge {
                cause,
                place: place(cause).into(),
                seconds: spent,
                share: spent / wall_s,
                slack_s: 0.0,
                basis: Basis::Recorded,
                inferred_s: 0.0,
                via: None,
                quota: false,
                evidence,
                hottest: Vec::new(),
                waits: Vec::new(),
                rules: Vec::new(),
            }
        })
        .collect();
    critical_path.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let charge = |cause: Cause| critical_path.iter().position(|c| c.cause == cause).unwrap();
    let mut segments: Vec<Segment> = path
        .iter()
        .filter(|p| p.2 > p.1)
        .map(|p| Segment { cause: p.0, charge: charge(p.0), start_s: seconds(p.1), end_s: seconds(p.2), track: None })
        .collect();
    segments.truncate(MAX_SEGMENTS);
    let verdict = Verdict {
        status: Status::Limited,
        cause: critical_path[0].cause,
        place: critical_path[0].place.clone(),
        share: critical_path[0].share,
        second: None,
        of_ceiling: None,
        settle: Vec::new(),
        sentence: format!(
            "{:.1} Gb/s. {:.0} % of the time the wire carried data; for {:.0} % it stood idle while the client read the next 10 MiB from \
             /data/run-17/big.tar.",
            size_bytes as f64 * 8e-9 / wall_s,
            critical_path[0].share * 100.0,
            critical_path[1].share * 100.0
        ),
    };
    let longest: Vec<Gap> = gaps
        .iter()
        .take(100)
        .map(|g| Gap { start_s: seconds(g.0), end_s: seconds(g.1), after_bytes: g.2, cause: Cause::ClientRead })
        .collect();
    let total_s = gaps.iter().map(|g| (g.1 - g.0) as f64 * 1e-9).sum();
    let group = GapGroup {
        cause: Cause::ClientRead,
        place: "/data/run-17/big.tar (page cache)".into(),
        count: gaps.len() as u64,
        total_s,
        median_s: 0.0026,
        p99_s: 0.0031,
        period_bytes: Some(REQUEST_BYTES),
    };
    let channel = Channel {
        name: "all to servers".into(),
        aggregate: true,
        object: None,
        basis: ChannelBasis::Acknowledged,
        size_bytes,
        sends: sends.len() as u64,
        bursts: gaps.len() as u64 + 1,
        burst_bytes_per_s: Some(2.4e9),
        busy_share: 1.0 - total_s / wall_s,
        gaps: Gaps {
            count: gaps.len() as u64,
            total_s,
            median_s: Some(0.0026),
            p99_s: Some(0.0031),
            period_bytes: Some(REQUEST_BYTES),
            parts: Vec::new(),
            groups: if gaps.is_empty() { vec![] } else { vec![group] },
            longest,
        },
    };
    Explanation {
        repeated: None,
        schema: "thalweg.explain/1".into(),
        command: ["thalweg", "cp", "--request", "10Mi", "--requests", "1", "/data/run-17/big.tar", "thal://127.0.0.1:40000/big.tar"]
            .map(String::from)
            .to_vec(),
        recorder: "store".into(),
        dropped_events: 0,
        start_ns: START_NS,
        wall_s,
        size_bytes: Some(size_bytes),
        rate_bytes_per_s: Some(size_bytes as f64 / wall_s),
        emulated: None,
        summary: Summary::default(),
        verdict,
        critical_path,
        path: segments,
        transfers: vec![Transfer {
            from: "/data/run-17/big.tar".into(),
            to: Some("/big.tar".into()),
            size_bytes,
            requests: copy.requests,
            start_s: 0.0019,
            wall_s: wall_s - 0.003,
        }],
        unlisted_transfers: None,
        phases: phases(wall_s),
        channels: vec![channel],
        throughput: Some(throughput(sends, wall_s)),
        tracks: vec![],
        round_trips: None,
        connections: None,
        reliable: true,
        unreliable_because: None,
        what_if: vec![
            WhatIf {
                id: "requests".into(),
                change: "overlap reading with sending".into(),
                basis: Grounds::Replayed,
                predicted_wall_s: wall_s / 1.42,
                interval_s: (wall_s / 1.5, wall_s / 1.3),
                about: vec![Cause::ClientRead],
                speedup: 1.42,
                how: "thalweg cp --request 10Mi --requests 2 /data/run-17/big.tar thal://127.0.0.1:40000/big.tar".into(),
                flags: vec![("--requests".into(), "2".into())],
                command: vec![],
                gives_up: None,
                recipe: None,
            },
            WhatIf {
                id: "device.x2".into(),
                change: "a source device twice as fast".into(),
                basis: Grounds::Replayed,
                predicted_wall_s: wall_s / 1.17,
                interval_s: (wall_s / 1.2, wall_s / 1.1),
                about: vec![Cause::ClientRead],
                speedup: 1.17,
                how: "a faster device under /data".into(),
                flags: vec![],
                command: vec![],
                gives_up: None,
                recipe: None,
            },
        ],
        advice: vec![],
        model: Model { replayed_wall_s: Some(wall_s * 0.99), error: Some(0.01), reason: None },
        notes: vec![],
    }
}

fn phases(wall_s: f64) -> Vec<Phase> {
    let ends = [(PhaseName::SetUp, 0.002), (PhaseName::Ramp, 0.01), (PhaseName::Steady, wall_s - 0.003), (PhaseName::TearDown, wall_s)];
    let mut start_s = 0.0;
    ends.map(|(name, end_s)| {
        let phase = Phase { name, start_s, end_s };
        start_s = end_s;
        phase
    })
    .to_vec()
}

fn throughput(sends: &[(i64, i64, u64)], wall_s: f64) -> Throughput {
    let bins = 512;
    let bin_s = wall_s / f64::from(bins);
    let mut bytes_per_s = vec![0.0; bins as usize];
    for &(start, end, bytes) in sends {
        let (start, end) = (seconds(start), seconds(end));
        for (i, bin) in bytes_per_s.iter_mut().enumerate().take((end / bin_s) as usize + 1).skip((start / bin_s) as usize) {
            let within = ((i + 1) as f64 * bin_s).min(end) - (i as f64 * bin_s).max(start);
            *bin += bytes as f64 * within.max(0.0) / (end - start) / bin_s;
        }
    }
    Throughput { bin_s, bytes_per_s }
}
