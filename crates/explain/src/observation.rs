//! What is gathered from every span once, while the walk makes the recording go by: channels, curves,
//! transfers, what threads did, and the sample that the replay model is made from.

use crate::cast::Cast;
use crate::cause::End;
use crate::channels::{Gatherer, PAYLOAD_BYTES};
use crate::curve::Curve;
use crate::document::MAX_BINS;
use crate::feed::{LiveSpan, Observer};
use crate::index::NONE;
use crate::sample::Sample;
use std::collections::HashMap;
use thalweg_trace::SpanKind;

/// How many bins the busyness of threads is kept in.
pub const BUSY_BINS: usize = 8192;

/// Ways bytes go, seen from where they were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Sent by a client.
    ClientSends = 0,
    /// Sent by a server.
    ServerSends = 1,
    /// Received by a client: what servers sent, where they were not recorded.
    ClientReceives = 2,
    /// Written to files by a client: the channel of a copy without a network.
    ClientWrites = 3,
}

/// Everything of one way.
#[derive(Debug)]
pub struct Stream {
    /// All of it together.
    pub all: Gatherer,
    /// By object.
    pub by_object: Vec<Option<Box<Gatherer>>>,
    /// Bytes over time.
    pub curve: Curve,
}

/// What one track did.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Did {
    pub spans: u64,
    pub cpu_ns: u64,
    pub runqueue_ns: u64,
    pub file_ns: u64,
    pub network_ns: u64,
    pub lock_ns: u64,
    pub in_leaves_ns: u64,
    pub in_containers_ns: u64,
    pub first_start: i64,
    pub last_end: i64,
}

/// Requests of one source object.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The source.
    pub object: u32,
    /// Bytes of all its requests.
    pub bytes: u64,
    /// How many requests.
    pub requests: u64,
    /// When the first began.
    pub start: i64,
    /// When the last ended.
    pub end: i64,
}

/// All of it.
#[derive(Debug)]
pub struct Observation {
    /// By [`Way`].
    pub streams: [Stream; 4],
    /// By actor.
    pub did: Vec<Did>,
    /// By source object.
    pub asked: HashMap<u32, Asked>,
    /// Threads' time in work (anything but waiting for others), in bins.
    pub busy: Curve,
    /// The model's sample.
    pub sample: Sample,
    end: i64,
}

impl Observation {
    /// Empty, for an interval.
    pub fn new(cast: &Cast, start: i64, end: i64, sample: Sample) -> Observation {
        let bins = MAX_BINS / 2;
        let stream = || Stream { all: Gatherer::default(), by_object: vec![None; cast.things.len()], curve: Curve::new(start, end, bins) };
        Observation {
            streams: [stream(), stream(), stream(), stream()],
            did: vec![Did { first_start: i64::MAX, ..Did::default() }; cast.actors.len()],
            asked: HashMap::new(),
            busy: Curve::new(start, end, BUSY_BINS),
            sample,
            end,
        }
    }

    /// One way.
    pub fn stream(&self, way: Way) -> &Stream {
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

    fn bytes_moved(&mut self, cast: &Cast, span: &LiveSpan) {
        if span.bytes() < PAYLOAD_BYTES || span.end > self.end {
            return;
        }
        match (span.kind, cast.actors[span.track as usize].end) {
            (SpanKind::NetSend, End::Client) => self.moved(Way::ClientSends, span, span.start),
            (SpanKind::NetSend, End::Server) => self.moved(Way::ServerSends, span, span.start),
            (SpanKind::NetReceive, End::Client) => {
                // A receive begins with a wait; its bytes come at its end.
                let carried = span.division().map_or(span.duration_ns(), |(cpu, _, _)| cpu);
                self.moved(Way::ClientReceives, span, span.end - carried as i64);
            }
            (SpanKind::FileWrite, End::Client) => self.moved(Way::ClientWrites, span, span.start),
            _ => {}
        }
    }

    fn tally(&mut self, span: &LiveSpan) {
        let did = &mut self.did[span.track as usize];
        did.spans += 1;
        did.first_start = did.first_start.min(span.start);
        did.last_end = did.last_end.max(span.end);
        if span.is_container() {
            if span.cpu_ns != thalweg_trace::source::ABSENT {
                did.in_containers_ns += span.duration_ns();
            }
            return;
        }
        if !span.is_activity() {
            return;
        }
        let all = span.duration_ns();
        did.in_leaves_ns += all;
        let (cpu, runqueue, blocked) = span.division().unwrap_or((0, 0, all));
        did.cpu_ns += cpu;
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
            SpanKind::FileRead | SpanKind::FileWrite | SpanKind::FileSync | SpanKind::FileOpen | SpanKind::FileOther => {
                did.file_ns += blocked;
                all
            }
            _ => all,
        };
        self.busy.spread(span.end - working as i64, span.end, working as f64);
    }

    fn ask(&mut self, span: &LiveSpan) {
        let fresh = Asked { object: span.object, bytes: 0, requests: 0, start: span.start, end: span.end };
        let asked = self.asked.entry(span.object).or_insert(fresh);
        asked.bytes += span.bytes();
        asked.requests += 1;
        asked.start = asked.start.min(span.start);
        asked.end = asked.end.max(span.end);
    }
}

impl Observer for Observation {
    #[inline]
    fn span(&mut self, cast: &Cast, span: &LiveSpan) {
        self.tally(span);
        match span.kind {
            SpanKind::NetSend | SpanKind::NetReceive | SpanKind::FileWrite => self.bytes_moved(cast, span),
            SpanKind::AppRequest => self.ask(span),
            _ => {}
        }
        self.sample.take(cast, span);
    }
}
