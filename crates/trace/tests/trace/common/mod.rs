//! Events of any shape, for property tests.

#![allow(dead_code)]

use proptest::option;
use proptest::prelude::*;
use thalweg_trace::*;

/// Metadata to begin a recording with.
pub fn meta() -> Meta {
    Meta {
        format: FORMAT_VERSION,
        command: vec!["thalweg".into(), "cp".into()],
        recorder: "store".into(),
        start: Time::from_monotonic_ns(0),
        end: None,
        exit_code: None,
        dropped_events: 0,
        attributes: vec![("from".into(), "/data/big".into())],
    }
}

/// Times within a few seconds, often equal; sometimes at the ends of the axis.
fn time() -> impl Strategy<Value = Time> {
    prop_oneof![8 => 0..5_000_i64, 8 => 0..5_000_000_000_i64, 1 => any::<i64>()].prop_map(Time::from_monotonic_ns)
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..10_000_u64, 1 => 0..=i64::MAX as u64]
}

fn track() -> impl Strategy<Value = TrackId> {
    (1..12_u64).prop_map(|n| TrackId::new(n).unwrap())
}

fn object() -> impl Strategy<Value = ObjectId> {
    prop_oneof![1..12_u64, 1..=u64::MAX].prop_map(|n| ObjectId::new(n).unwrap())
}

fn member<T: Copy + std::fmt::Debug + 'static>(set: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(set)
}

/// A span; its number is assigned later, to be unique.
fn span() -> impl Strategy<Value = Span> {
    let place = (track(), member(SpanKind::ALL), time(), number(), 1..=u32::MAX);
    let about = (option::of(object()), option::of(number()), option::of(number()), option::of(i64::MIN + 1..=i64::MAX));
    let links = (option::of(1..=u64::MAX), option::of(1..=u64::MAX), option::of(track()), option::of(member(WakerContext::ALL)));
    let costs = (option::of(number()), option::of(number()));
    (place, about, links, costs).prop_map(|(place, about, links, costs)| Span {
        span: SpanId::new(1).unwrap(),
        track: place.0,
        kind: place.1,
        start: place.2,
        duration_ns: place.3,
        count: place.4,
        object: about.0,
        offset_bytes: about.1,
        size_bytes: about.2,
        result: about.3,
        parent: links.0.and_then(SpanId::new),
        request: links.1.and_then(RequestId::new),
        waker_track: links.2,
        waker_context: links.3,
        cpu_ns: costs.0,
        runqueue_ns: costs.1,
        stack: None,
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z/]{1,12}", any::<String>()]
}

/// Any event of a recording with four hosts.
pub fn event() -> impl Strategy<Value = Event> {
    let host = || (0..4_u16).prop_map(HostId);
    prop_oneof![
        20 => span().prop_map(Event::Span),
        2 => (track(), host(), member(TrackKind::ALL), member(Role::ALL), option::of(any::<u32>()), option::of(any::<u32>()), text())
            .prop_map(|(track, host, kind, role, pid, tid, name)| Event::Track(Track { track, host, kind, role, pid, tid, name })),
        1 => (object(), host(), member(ObjectKind::ALL), text(), prop::collection::vec((text(), text()), 0..3))
            .prop_map(|(object, host, kind, name, attributes)| Event::Object(Object { object, host, kind, name, attributes })),
        1 => (host(), text(), text(), text(), text(), any::<u32>())
            .prop_map(|(host, name, node, clock, kernel, cpus)| Event::Host(Host { host, name, node, clock, kernel, cpus })),
        1 => (host(), 0..5_000_i64, -4_000..4_000_i64, -1_000_000..1_000_000_i64, number())
            .prop_map(|(host, from_ns, offset_ns, drift_ppb, error_ns)| Event::Clock(Clock { host, from_ns, offset_ns, drift_ppb, error_ns })),
        2 => (track(), member(MarkKind::ALL), time(), option::of(object()), option::of(any::<i64>()))
            .prop_map(|(track, kind, at, object, value)| Event::Mark(Mark { track, kind, at, object, value })),
        2 => (prop_oneof![track().prop_map(CounterOf::Track), object().prop_map(CounterOf::Object)], member(CounterName::ALL), time(), any::<i64>())
            .prop_map(|(of, name, at, value)| Event::Counter(Counter { of, name, at, value })),
        2 => (time(), host(), 0..64_u32, option::of(track()), any::<u16>(), option::of(0..9_u32), number())
            .prop_map(|(at, host, cpu, track, class, stack, weight_ns)| Event::Sample(Sample { at, host, cpu, track, class, stack, weight_ns })),
        1 => (0..9_u32, prop::collection::vec(text(), 0..4)).prop_map(|(stack, frames)| Event::Stack(Stack { stack, frames })),
    ]
}

/// Events in which rows of a small table, and spans, have unique numbers.
pub fn events(most: usize) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(), 0..most).prop_map(|mut events| {
        let mut seen = std::collections::HashSet::new();
        let mut next = 0;
        for event in &mut events {
            next += 1;
            if let Event::Span(span) = event {
                // Neither increasing nor decreasing with time.
                span.span = SpanId::new((next * 7_919) % 1_000_003 + 1).unwrap();
            }
        }
        events.retain(|event| match event {
            Event::Track(row) => seen.insert((0, row.track.number(), 0)),
            Event::Object(row) => seen.insert((1, row.object.number(), 0)),
            Event::Host(row) => seen.insert((2, u64::from(row.host.0), 0)),
            Event::Clock(row) => seen.insert((3, u64::from(row.host.0), row.from_ns)),
            Event::Stack(row) => seen.insert((4, u64::from(row.stack), 0)),
            _ => true,
        });
        events
    })
}

/// Every table of a source, rows of one instant in a fixed order.
#[derive(Debug, PartialEq)]
pub struct Everything {
    pub hosts: Vec<Host>,
    pub clocks: Vec<Clock>,
    pub tracks: Vec<Track>,
    pub objects: Vec<Object>,
    pub spans: Vec<(i64, i64, Span)>,
    pub marks: Vec<String>,
    pub counters: Vec<String>,
    pub samples: Vec<String>,
    pub stacks: Vec<Stack>,
}

/// Reads every table; spans in the order in which they come.
pub fn everything(source: &dyn Source) -> Result<Everything, SourceError> {
    fn as_text<R: std::fmt::Debug>(rows: Vec<R>, at: impl Fn(&R) -> Time) -> Vec<String> {
        assert!(rows.is_sorted_by_key(at), "not in order of time");
        let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        rows
    }
    let mut spans = Vec::new();
    for batch in source.spans_backward() {
        let batch = batch?;
        assert!(!batch.is_empty());
        for row in 0..batch.len() {
            spans.push((batch.start_ns[row], batch.end_ns[row], batch.row(row).expect("identifiers are not 0")));
        }
    }
    let mut counters = Vec::new();
    for &name in CounterName::ALL {
        counters.append(&mut as_text(source.counters(name)?, |row| row.at));
    }
    Ok(Everything {
        hosts: source.hosts().to_vec(),
        clocks: source.clocks().to_vec(),
        tracks: source.tracks().to_vec(),
        objects: source.objects().to_vec(),
        spans,
        marks: as_text(source.marks()?, |row| row.at),
        counters,
        samples: as_text(source.samples()?, |row| row.at),
        stacks: source.stacks()?,
    })
}
