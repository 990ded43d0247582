//! Makes a recording of a striped copy that never happened, of any size, from a fixed seed, so that reading
//! and explaining large recordings can be measured: `generate --spans N [--servers N] [--hosts N] OUT.thw`.
//!
//! Shaped as SCHEMA.md says the store traces a copy: a client whose request threads overlap, one
//! connection's thread per request and server, and the servers' side of each RPC. Memory is bounded: the
//! events of one flow buffer are made and handed over before the next one's.

use thalweg_trace::{
    Clock, Counter, CounterName, CounterOf, Ending, Event, FORMAT_VERSION, Host, HostId, Meta, Object, ObjectId, ObjectKind,
    RecordingWriter, RequestId, Role, Sink, Span, SpanId, SpanKind, Time, Track, TrackId, TrackKind, WakerContext,
};

const BUFFER_BYTES: u64 = 1 << 20;
const REQUESTS: u64 = 2;
const START_NS: i64 = 1_000_000_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut spans, mut servers, mut hosts, mut out) = (1_000_000_u64, 4_u64, 1_u16, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|n| n.parse::<u64>().ok()).ok_or(format!("{argument} takes a number"));
        match argument.as_str() {
            "--spans" => spans = number()?,
            "--servers" => servers = number()?.max(1),
            "--hosts" => hosts = number()?.clamp(1, 1_000) as u16,
            _ => out = Some(argument),
        }
    }
    let out = out.ok_or("usage: generate [--spans N] [--servers N] [--hosts N] OUT.thw")?;
    let attributes =
        [("from", "/data/big"), ("to", "thal://store/big"), ("direction", "in"), ("buffer_bytes", "1048576"), ("requests", "2")];
    let meta = Meta {
        format: FORMAT_VERSION,
        command: vec!["thalweg".into(), "cp".into(), "/data/big".into(), "thal://store/big".into()],
        recorder: "store".into(),
        start: Time::from_monotonic_ns(START_NS),
        end: None,
        exit_code: None,
        dropped_events: 0,
        attributes: attributes.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
    };
    let writer = RecordingWriter::create(out.as_ref(), meta)?;
    let mut copy = Copy::new(writer.as_ref(), servers, hosts);
    let mut request = 0;
    while copy.made < spans {
        copy.request(request, spans);
        request += 1;
    }
    let end = copy.now_ns;
    writer.take(&mut copy.batch);
    eprintln!("{} spans of {request} requests; finishing", copy.made);
    writer.finish(Ending { exit_code: Some(0), ..Ending::at(Time::from_monotonic_ns(end)) })?;
    Ok(())
}

/// SplitMix64: deterministic, and good enough for times.
struct Random(u64);

impl Random {
    fn around(&mut self, ns: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ns * 3 / 4 + (z ^ (z >> 31)) % (ns / 2 + 1)
    }
}

/// One thread: its track, and the end of its recorded time.
#[derive(Clone, Copy)]
struct Thread {
    track: TrackId,
    host: HostId,
    at_ns: i64,
}

struct Copy<'a> {
    sink: &'a dyn Sink,
    batch: Vec<Event>,
    random: Random,
    /// Next identifier of each writer: the client, then each server.
    next: Vec<u64>,
    made: u64,
    now_ns: i64,
    source: ObjectId,
    /// By request slot.
    request_threads: Vec<Thread>,
    /// By request slot, then server.
    connections: Vec<(Thread, Thread, ObjectId, ObjectId)>,
    datafiles: Vec<ObjectId>,
    servers: u64,
}

/// The fields in which spans differ; the rest have defaults.
#[derive(Clone, Copy, Default)]
struct About {
    object: Option<ObjectId>,
    bytes: Option<(u64, u64)>,
    parent: Option<SpanId>,
    request: Option<RequestId>,
    waker: Option<TrackId>,
    busy: u64,
}

impl<'a> Copy<'a> {
    fn new(sink: &'a dyn Sink, servers: u64, hosts: u16) -> Copy<'a> {
        let source = ObjectId::new(1 << 40).expect("not 0");
        let mut copy = Copy {
            sink,
            batch: Vec::new(),
            random: Random(42),
            next: (1..=servers + 1).map(|space| (space << 40) + 1).collect(),
            made: 0,
            now_ns: START_NS,
            source,
            request_threads: Vec::new(),
            connections: Vec::new(),
            datafiles: Vec::new(),
            servers,
        };
        let host_of = |server: u64| HostId(if hosts == 1 { 0 } else { 1 + (server % u64::from(hosts - 1)) as u16 });
        for host in 0..hosts {
            let name = format!("node{host}");
            let clock = if hosts == 1 { "monotonic:boot".to_owned() } else { format!("monotonic:boot{host}") };
            copy.batch.push(Event::Host(Host { host: HostId(host), node: name.clone(), name, clock, kernel: "6.18".into(), cpus: 2 }));
            if host > 0 {
                let (offset_ns, drift_ppb) = (-i64::from(host) * 7_000_000_000, i64::from(host) * 500);
                copy.batch.push(Event::Clock(Clock { host: HostId(host), from_ns: START_NS, offset_ns, drift_ppb, error_ns: 20_000 }));
            }
        }
        copy.object(source, HostId(0), ObjectKind::File, "/data/big");
        for server in 0..servers {
            let datafile = ObjectId::new(copy.fresh(server + 1)).expect("not 0");
            copy.object(datafile, host_of(server), ObjectKind::File, &format!("io{server}/datafile"));
            copy.datafiles.push(datafile);
        }
        for slot in 0..REQUESTS {
            let thread = copy.thread(0, HostId(0), Role::Client, &format!("request {slot}"));
            copy.request_threads.push(thread);
            for server in 0..servers {
                let name = format!("127.0.0.1:{} > 127.0.0.1:{}", 40_000 + slot * servers + server, 3_334 + server);
                let here = copy.thread(0, HostId(0), Role::Client, &format!("connection io{server}#{slot}"));
                let there = copy.thread(server + 1, host_of(server), Role::Server, &format!("io{server} connection {slot}"));
                let ends = [(0, HostId(0)), (server + 1, host_of(server))].map(|(space, host)| {
                    let object = ObjectId::new(copy.fresh(space)).expect("not 0");
                    copy.object(object, host, ObjectKind::Connection, &name);
                    object
                });
                copy.connections.push((here, there, ends[0], ends[1]));
            }
        }
        copy
    }

    fn fresh(&mut self, space: u64) -> u64 {
        self.next[space as usize] += 1;
        self.next[space as usize] - 1
    }

    fn object(&mut self, object: ObjectId, host: HostId, kind: ObjectKind, name: &str) {
        let attributes = if name == "/data/big" { vec![("to".to_owned(), "thal://store/big".to_owned())] } else { Vec::new() };
        self.batch.push(Event::Object(Object { object, host, kind, name: name.to_owned(), attributes }));
    }

    fn thread(&mut self, space: u64, host: HostId, role: Role, name: &str) -> Thread {
        let track = TrackId::new(self.fresh(space)).expect("not 0");
        let (pid, tid) = (Some(1_000 + space as u32), Some(track.number() as u32));
        self.batch.push(Event::Track(Track { track, host, kind: TrackKind::Thread, role, pid, tid, name: name.to_owned() }));
        Thread { track, host, at_ns: START_NS }
    }

    fn span_id(&mut self, space: u64) -> SpanId {
        SpanId::new(self.fresh(space)).expect("not 0")
    }

    /// Records a span given in the reference's time, converted to the host's own clock.
    fn span(&mut self, span: SpanId, thread: Thread, kind: SpanKind, start_ns: i64, end_ns: i64, about: About) {
        let shift = i64::from(thread.host.0) * 7_000_000_000;
        let duration_ns = (end_ns - start_ns).max(0) as u64;
        self.made += 1;
        self.now_ns = self.now_ns.max(end_ns);
        self.batch.push(Event::Span(Span {
            span,
            track: thread.track,
            kind,
            start: Time::from_monotonic_ns(start_ns + shift),
            duration_ns,
            count: 1,
            object: about.object,
            offset_bytes: about.bytes.map(|b| b.0),
            size_bytes: about.bytes.map(|b| b.1),
            result: about.bytes.map(|b| b.1 as i64),
            parent: about.parent,
            request: about.request,
            waker_track: about.waker,
            waker_context: about.waker.map(|_| WakerContext::Task),
            cpu_ns: (kind != SpanKind::RpcCall).then_some(duration_ns * about.busy / 100),
            runqueue_ns: (kind != SpanKind::RpcCall).then_some(if about.busy < 50 { duration_ns / 64 } else { 0 }),
            stack: None,
        }));
    }

    /// Makes a request of ten flow buffers, over the servers round-robin.
    fn request(&mut self, number: u64, most: u64) {
        let slot = number % REQUESTS;
        let mut thread = self.request_threads[slot as usize];
        let (began, offset) = (thread.at_ns, number * 10 * BUFFER_BYTES);
        let whole = self.span_id(0);
        let read = self.span_id(0);
        let read_ns = self.random.around(2_000_000) as i64;
        let bytes = Some((offset, 10 * BUFFER_BYTES));
        let about = About { object: Some(self.source), bytes, parent: Some(whole), busy: 40, ..About::default() };
        self.span(read, thread, SpanKind::FileRead, began, began + read_ns, about);
        let mut last = (began + read_ns, thread.track);
        for buffer in 0..10 {
            let server = (number * 10 + buffer) % self.servers;
            let done = self.flow_buffer(slot, server, began + read_ns, offset + buffer * BUFFER_BYTES, whole);
            last = last.max(done);
            if self.made >= most {
                break;
            }
        }
        let wait = self.span_id(0);
        let about = About { parent: Some(whole), waker: Some(last.1), busy: 1, ..About::default() };
        self.span(wait, thread, SpanKind::WaitLock, began + read_ns, last.0, about);
        let end = last.0 + self.random.around(20_000) as i64;
        let about = About { object: Some(self.source), bytes, busy: 20, ..About::default() };
        self.span(whole, thread, SpanKind::AppRequest, began, end, about);
        thread.at_ns = end;
        self.request_threads[slot as usize] = thread;
        if number.is_multiple_of(64) {
            let (_, _, connection, _) = self.connections[0];
            let at = Time::from_monotonic_ns(end);
            self.batch.push(Event::Counter(Counter { of: CounterOf::Object(connection), name: CounterName::TcpSrttUs, at, value: 80 }));
        }
        self.sink.take(&mut self.batch);
    }

    /// Makes both ends of one RPC; returns when it ended, and the track that did it.
    fn flow_buffer(&mut self, slot: u64, server: u64, posted_ns: i64, offset: u64, parent: SpanId) -> (i64, TrackId) {
        let i = (slot * self.servers + server) as usize;
        let (mut here, mut there, at_client, at_server) = self.connections[i];
        let request = RequestId::new(self.fresh(0));
        let mut took = |ns: u64| self.random.around(ns) as i64;
        let (sum, send, wire, receive, check, write, reply) =
            (took(120_000), took(350_000), took(15_000), took(300_000), took(120_000), took(400_000), took(12_000));
        let begin = posted_ns.max(here.at_ns);
        let bytes = Some((offset, BUFFER_BYTES));
        let base = About { bytes, request, parent: Some(parent), ..About::default() };
        let (work, call, sums, sends, replied) = (self.span_id(0), self.span_id(0), self.span_id(0), self.span_id(0), self.span_id(0));
        let waker = Some(self.request_threads[slot as usize].track);
        self.span(work, here, SpanKind::WaitLock, here.at_ns, begin, About { waker, busy: 1, ..About::default() });
        self.span(sums, here, SpanKind::AppChecksum, begin, begin + sum, About { object: Some(self.source), busy: 99, ..base });
        let sent = begin + sum + send;
        self.span(sends, here, SpanKind::NetSend, begin + sum, sent, About { object: Some(at_client), busy: 70, ..base });

        let space = server + 1;
        let arrived = (begin + sum + wire).max(there.at_ns);
        let ids: [SpanId; 7] = std::array::from_fn(|_| self.span_id(space));
        let inside = About { bytes, request, parent: Some(ids[2]), ..About::default() };
        self.span(
            ids[0],
            there,
            SpanKind::NetReceive,
            there.at_ns,
            arrived,
            About { object: Some(at_server), request, busy: 1, ..About::default() },
        );
        self.span(ids[1], there, SpanKind::RpcQueue, arrived, arrived + 2_000, About { request, busy: 100, ..About::default() });
        let received = (arrived + 2_000 + receive).max(sent);
        self.span(ids[3], there, SpanKind::NetReceive, arrived + 2_000, received, About { object: Some(at_server), busy: 60, ..inside });
        self.span(ids[4], there, SpanKind::AppChecksum, received, received + check, About { busy: 99, ..inside });
        let written = received + check + write;
        self.span(
            ids[5],
            there,
            SpanKind::FileWrite,
            received + check,
            written,
            About { object: Some(self.datafiles[server as usize]), busy: 80, ..inside },
        );
        self.span(
            ids[6],
            there,
            SpanKind::NetSend,
            written,
            written + reply,
            About { object: Some(at_server), bytes: Some((0, 48)), busy: 95, ..inside },
        );
        self.span(
            ids[2],
            there,
            SpanKind::RpcServe,
            arrived + 2_000,
            written + reply,
            About { bytes, request, busy: 75, ..About::default() },
        );
        there.at_ns = written + reply;

        let done = written + reply + wire;
        self.span(
            replied,
            here,
            SpanKind::NetReceive,
            sent,
            done,
            About { object: Some(at_client), bytes: Some((0, 48)), busy: 3, ..base },
        );
        self.span(call, here, SpanKind::RpcCall, begin, done, base);
        here.at_ns = done;
        self.connections[i] = (here, there, at_client, at_server);
        (done, here.track)
    }
}
