//! Bounds of a page, and when threads ran.

use super::collected::Collector;
use super::lanes::Slots;
use super::looks::looks_like;
use super::spans::{Bounds, Drawn, Spans, gather};
use super::template::{DATA, POLICY, SCRIPTS, STATIC, TEMPLATE, TITLE};
use thalweg_explain::document::Explanation;
use thalweg_trace::*;

const TRACK: TrackId = TrackId::new(1).expect("not 0");

fn source(recorder: &str, rows: Vec<Event>) -> MemorySource {
    let at = Time::from_monotonic_ns;
    let meta = Meta {
        format: FORMAT_VERSION,
        command: vec!["x".into()],
        recorder: recorder.into(),
        start: at(0),
        end: Some(at(1_000_000_000)),
        exit_code: Some(0),
        dropped_events: 0,
        attributes: vec![],
    };
    let host = HostId(0);
    let name = "client1".to_owned();
    let row = Host { host, name: name.clone(), node: name, clock: "monotonic:1".into(), kernel: "6.18".into(), cpus: 2 };
    let (kind, role, pid) = (TrackKind::Thread, Role::Client, Some(10));
    let track = Track { track: TRACK, host, kind, role, pid, tid: pid, name: "x".into() };
    MemorySource::from_events(meta, [Event::Host(row), Event::Track(track)].into_iter().chain(rows))
}

fn explained(source: &MemorySource) -> Explanation {
    thalweg_explain::explain(source, &thalweg_explain::Options::default()).expect("a recording that can be explained")
}

fn gathered(source: &MemorySource, explanation: &Explanation, bounds: Bounds) -> Spans {
    gather(source, explanation, &Slots::new(source), &source.marks().unwrap(), bounds, &mut Collector::new(source)).unwrap()
}

fn span(number: u64, kind: SpanKind, start_ns: i64, end_ns: i64) -> Event {
    let start = Time::from_monotonic_ns(start_ns);
    Event::Span(Span::bare(SpanId::new(number).unwrap(), TRACK, kind, start, (end_ns - start_ns) as u64))
}

fn durations(spans: &[Drawn]) -> Vec<i64> {
    let mut durations: Vec<i64> = spans.iter().map(|span| span.end_ns - span.start_ns).collect();
    durations.sort_unstable();
    durations
}

#[test]
fn of_many_spans_the_longest_and_those_on_the_critical_path_are_kept() {
    let spans = (1..=1_000).map(|n: i64| span(n as u64, SpanKind::FileRead, n * 1_000_000 - n * 7 % 1_000 - 1, n * 1_000_000));
    let source = source("capture", spans.collect());
    let mut explanation = explained(&source);
    explanation.tracks.clear();
    let bounds = Bounds { all: 50, longest: 20 };
    explanation.path.clear();
    let spans = gathered(&source, &explanation, bounds);
    let all: Vec<i64> = durations(&gathered(&source, &explanation, Bounds::OF_PAGES).drawn);
    assert_eq!(all.len(), 1_000);
    assert_eq!((spans.left_out, durations(&spans.drawn)), (980, all[980..].to_vec()));

    let mut explanation = explained(&source);
    explanation.tracks.clear();
    explanation.path.truncate(1);
    let segment = explanation.path.first_mut().expect("a path");
    (segment.start_s, segment.end_s, segment.track) = (0.4999999, 0.5039999, Some(1));
    let spans = gathered(&source, &explanation, bounds);
    let on_path = |ns: i64| spans.drawn.iter().any(|span| span.end_ns == ns);
    assert!([500, 501, 502, 503, 504].into_iter().all(|at| on_path(at * 1_000_000)));
    assert_eq!(spans.drawn.len(), 20 + 5);
    assert_eq!(spans.left_out, 975);
}

#[test]
fn what_is_left_out_is_in_the_areas_and_in_the_counts_of_durations() {
    let spans = (1..=1_000).map(|n: i64| span(n as u64, SpanKind::FileRead, n * 1_000_000 - 300_000 - n * 7 % 1_000, n * 1_000_000));
    let source = source("capture", spans.collect());
    let mut explanation = explained(&source);
    explanation.tracks.clear();
    let all = gathered(&source, &explanation, Bounds::OF_PAGES);
    assert!(all.whole.is_none());
    let exact: i64 = durations(&all.drawn).iter().sum();
    let some = gathered(&source, &explanation, Bounds { all: 50, longest: 20 });
    let whole = some.whole.expect("spans were dropped");
    assert_eq!(whole.latency.iter().map(|row| row.count).sum::<u32>(), 1_000);
    assert_eq!(whole.partial.iter().filter(|partial| **partial).count(), 1);
    let finest = &whole.finest;
    assert_eq!(finest.levels.iter().map(|level| finest.classes[usize::from(level.class)]).collect::<Vec<_>>(), ["read"]);
    let bucket_ns = (finest.interval.1 - finest.interval.0) as f64 / finest.buckets as f64;
    let sum: f64 = finest.levels[0].areas.iter().map(|area| f64::from(*area) / 255.0 * bucket_ns).sum();
    assert!((sum / exact as f64 - 1.0).abs() < 1e-3, "{sum} of {exact}");
}

#[test]
fn bounds_hold_if_every_span_is_on_the_critical_path() {
    let spans = (1..=1_000).map(|n: i64| span(n as u64, SpanKind::FileRead, n * 1_000_000 - 500, n * 1_000_000)).collect();
    let source = source("capture", spans);
    let mut explanation = explained(&source);
    explanation.tracks.clear();
    explanation.path.truncate(1);
    let segment = explanation.path.first_mut().expect("a path");
    (segment.start_s, segment.end_s, segment.track) = (0.0, 1.0, Some(1));
    let spans = gathered(&source, &explanation, Bounds { all: 50, longest: 20 });
    assert_eq!((spans.drawn.len(), spans.left_out), (20, 980));
}

/// When the thread ran, in milliseconds.
fn ran(source: &MemorySource, explanation: &Explanation) -> Vec<(i64, i64)> {
    let spans = gathered(source, explanation, Bounds::OF_PAGES);
    let computing = spans.drawn.iter().filter(|span| looks_like(span.look).0 == SpanKind::CpuRun);
    let mut ran: Vec<(i64, i64)> = computing.map(|span| (span.start_ns / 1_000_000, span.end_ns / 1_000_000)).collect();
    ran.sort_unstable();
    ran
}

#[test]
fn a_thread_runs_between_its_waits_if_its_processor_time_agrees() {
    const MS: i64 = 1_000_000;
    let mark = |kind, ms: i64| Event::Mark(Mark { track: TRACK, kind, at: Time::from_monotonic_ns(ms * MS), object: None, value: None });
    let rows = vec![
        mark(MarkKind::ThreadStart, 0),
        span(1, SpanKind::WaitTimer, 300 * MS, 400 * MS),
        span(2, SpanKind::FileRead, 500 * MS, 700 * MS),
        span(3, SpanKind::WaitDisk, 550 * MS, 650 * MS),
        mark(MarkKind::ThreadExit, 1_000),
    ];
    let source = source("bpf", rows);
    let mut explanation = explained(&source);
    explanation.tracks.retain(|track| track.track == TRACK.number());
    explanation.tracks[0].cpu_s = 0.75;
    assert_eq!(ran(&source, &explanation), [(0, 300), (400, 500), (700, 1_000)]);
    explanation.tracks[0].cpu_s = 0.2;
    assert_eq!(ran(&source, &explanation), [], "the thread cannot have run as long");
    (explanation.tracks[0].cpu_s, explanation.dropped_events) = (0.75, 1);
    assert_eq!(ran(&source, &explanation), [], "a lost event may have been a wait");
}

#[test]
fn the_template_has_every_placeholder_once() {
    for placeholder in [TITLE, STATIC, DATA, POLICY, SCRIPTS] {
        assert_eq!(TEMPLATE.matches(placeholder).count(), 1, "{placeholder}");
    }
}
