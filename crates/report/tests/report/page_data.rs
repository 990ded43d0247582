//! Promises of the optional data of a page: offsets, stacks, arrows, clocks, rules, RPCs and profiles are the recording's; and of pages of
//! recordings that are odd or incomplete.

use crate::interactive::{Page, meta, one_end, page, span, threads, well_formed_static_part};
use crate::made_up::{Copy, made_up};
use crate::made_up_rpcs;
use serde_json::{Value, json};
use thalweg_explain::document::Explanation;
use thalweg_explain::{Options, explain};
use thalweg_report::{PictureOptions, html};
use thalweg_trace::*;

const MS: i64 = 1_000_000;

fn explained(source: &MemorySource) -> Explanation {
    explain(source, &Options { why: true, ..Options::default() }).expect("a recording that can be explained")
}

fn of(rows: Vec<Event>) -> Page {
    let source = MemorySource::from_events(meta(), rows);
    page(&source, &explained(&source))
}

#[test]
fn a_page_has_only_the_planes_that_the_recording_has_values_for() {
    let mut rows = threads(&["x"]);
    rows.push(Event::Span(span(1, 1, SpanKind::FileRead, 0, 900 * MS)));
    let page = of(rows);
    for plane in ["span.offset_low", "span.offset_high", "span.stack", "sample.stack", "stack.parent", "stack.frame", "arrow.kind"] {
        assert!(!page.has(plane), "{plane}");
    }
    for field in ["frames", "arrows", "clocks", "rpcs", "profile"] {
        assert!(page.header[field].is_null(), "{field}");
    }
}

#[test]
fn offsets_have_48_bits() {
    let mut rows = threads(&["x"]);
    for (at, offset) in [None, Some(0), Some(0x1234_5678_9abc), Some(u64::MAX - 1)].into_iter().enumerate() {
        let at = at as i64;
        let read = span(at as u64 + 1, 1, SpanKind::FileRead, at * 100 * MS, at * 100 * MS + MS);
        rows.push(Event::Span(Span { offset_bytes: offset, ..read }));
    }
    let page = of(rows);
    let spans = page.spans();
    let reads = (0..spans.len()).filter(|row| spans[*row].1 == "file.read");
    let offsets: Vec<u64> = reads.map(|row| page.plane("span.offset_high")[row] << 32 | page.plane("span.offset_low")[row]).collect();
    let none = (1 << 48) - 1;
    assert_eq!(offsets, [none, 0, 0x1234_5678_9abc, none]);
}

/// A profile's samples of a thread on a host, and a wait with a stack.
fn profiled(host: HostId, track: u64) -> Vec<Event> {
    let frames = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let outer = ["compress+0x10 [/usr/bin/gzip ab+0x10]", "main+0x20 [/usr/bin/gzip ab+0x20]"];
    let copied = [&["copy_page_to_iter+0x1 [kernel]", "vfs_read+0x2 [kernel]"], &outer[..]].concat();
    let stack = |number, names: &[&str]| Event::Stack(Stack { stack: number, frames: frames(names) });
    let mut rows = vec![stack(7, &outer), stack(9, &copied), stack(11, &["unused [/bin/x]"])];
    for at in 0..100 {
        let (at, stack) = (Time::from_monotonic_ns(at * 10 * MS), Some(if at % 4 == 0 { 9 } else { 7 }));
        let class = Sample::FIRST_PROFILE_CLASS;
        rows.push(Event::Sample(Sample { at, host, cpu: 0, track: TrackId::new(track), class, stack, weight_ns: 10_000_000 }));
    }
    rows
}

#[test]
fn stacks_are_paths_from_their_innermost_frames() {
    let mut rows = threads(&["gzip"]);
    rows.extend(profiled(HostId(0), 1));
    let wait = Span { stack: Some(9), cpu_ns: Some(0), ..span(1, 1, SpanKind::WaitDisk, 500 * MS, 600 * MS) };
    rows.push(Event::Span(wait));
    let page = of(rows);
    let frame = |node: u64| &page.header["frames"][page.plane("stack.frame")[node as usize - 1] as usize];
    let names = |mut node: u64| {
        let mut names = Vec::new();
        while node != 0 {
            names.push(frame(node)["name"].as_str().unwrap());
            node = page.plane("stack.parent")[node as usize - 1];
        }
        names
    };
    let row = page.spans().iter().position(|span| span.1 == "wait.disk").unwrap();
    let copied = ["copy_page_to_iter", "vfs_read", "compress", "main"];
    assert_eq!(names(page.plane("span.stack")[row]), copied);
    assert_eq!(names(page.plane("sample.stack")[0]), copied);
    assert_eq!(names(page.plane("sample.stack")[1]), copied[2..]);
    assert_eq!(page.plane("stack.parent").len(), 4, "each frame with its callers once, and none of unused stacks");
    let frame = frame(page.plane("sample.stack")[0]);
    assert_eq!((frame["module"].as_str(), frame["class"].as_str()), (Some("kernel"), Some("copy")));
    let class = |row: usize| page.header["sample_classes"][page.plane("sample.class")[row] as usize].as_str().unwrap();
    assert_eq!([class(0), class(1)], ["copy", "program"], "the classes of `thalweg profile`");
}

#[test]
fn each_host_with_samples_has_its_profile() {
    let mut rows = threads(&["gzip"]);
    rows.extend(profiled(HostId(0), 1));
    let source = MemorySource::from_events(meta(), rows);
    let page = page(&source, &explained(&source));
    let document = thalweg_explain::profile::profile(&source, &thalweg_explain::profile::Rules::default()).unwrap();
    let document: Value = serde_json::from_str(&document.to_json()).unwrap();
    assert_eq!(page.header["profile"], json!([document]), "as profile --json prints it");
}

/// A client and a server on hosts of their own, with a call between them, and a message between two ranks.
fn both_ends(clock: Option<Clock>, server_clock: &str) -> Vec<Event> {
    let mut rows = threads(&["client"]);
    let host = HostId(1);
    let (name, node, clock_name) = ("server1".to_owned(), "server1".into(), server_clock.into());
    rows.push(Event::Host(Host { host, name, node, clock: clock_name, kernel: "6.18".into(), cpus: 2 }));
    rows.extend(clock.map(Event::Clock));
    let thread = |number, host, role, name: &str| {
        let (track, pid, tid) = (TrackId::new(number).unwrap(), Some(200), Some(200 + number as u32));
        Event::Track(Track { track, host, kind: TrackKind::Thread, role, pid, tid, name: name.into() })
    };
    rows.push(thread(2, host, Role::Server, "server"));
    rows.push(thread(3, HostId(0), Role::Client, "rank 1"));
    let of = |request, span: Span| Event::Span(Span { request, ..span });
    let call = RequestId::new(77);
    rows.push(of(call, span(1, 1, SpanKind::RpcCall, 100 * MS, 900 * MS)));
    rows.push(of(call, span(2, 1, SpanKind::NetSend, 100 * MS, 110 * MS)));
    rows.push(of(call, span(3, 2, SpanKind::RpcServe, 120 * MS, 800 * MS)));
    rows.push(of(call, span(4, 2, SpanKind::NetSend, 790 * MS, 800 * MS)));
    rows.push(of(call, span(5, 1, SpanKind::NetReceive, 110 * MS, 900 * MS)));
    let message = Some(RequestId::common(5));
    rows.push(of(message, span(6, 1, SpanKind::MpiSend, 910 * MS, 920 * MS)));
    rows.push(of(message, span(7, 3, SpanKind::MpiReceive, 905 * MS, 930 * MS)));
    rows
}

/// An arrow: its kind, the lanes, the instants, and the kinds of the spans at its ends.
type ArrowFields = (String, [String; 2], [u64; 2], [String; 2]);

/// The arrows: kind, lanes, times in milliseconds after the first, kinds of their spans.
fn arrows(page: &Page) -> Vec<ArrowFields> {
    if !page.has("arrow.kind") {
        return Vec::new();
    }
    let spans = page.spans();
    let tick_ns = page.header["tick_ns"].as_u64().unwrap();
    let first = page.plane("span.start").iter().min().unwrap();
    let arrow = |row: usize| {
        let at = |plane: &str| page.plane(plane)[row];
        let lane = |plane: &str| page.text_at("lanes", at(plane), "name").to_owned();
        let kind = |plane: &str| spans[at(plane) as usize - 1].1.to_owned();
        let ms = |plane: &str| (at(plane) - first) * tick_ns / 1_000_000;
        (
            page.header["arrows"][at("arrow.kind") as usize].as_str().unwrap().to_owned(),
            [lane("arrow.from_lane"), lane("arrow.to_lane")],
            [ms("arrow.from"), ms("arrow.to")],
            [kind("arrow.from_span"), kind("arrow.to_span")],
        )
    };
    (0..page.plane("arrow.kind").len()).map(arrow).collect()
}

#[test]
fn arrows_lead_from_requests_over_the_server_to_replies() {
    let page = of(both_ends(None, "monotonic:1"));
    let two = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
    assert_eq!(page.header["arrows"], json!(["request", "reply", "message"]));
    assert_eq!(
        arrows(&page),
        [
            ("request".to_owned(), two("client", "server"), [0, 20], two("net.send", "rpc.serve")),
            ("reply".to_owned(), two("server", "client"), [690, 800], two("net.send", "net.receive")),
            ("message".to_owned(), two("client", "rank 1"), [810, 830], two("mpi.send", "mpi.receive")),
        ]
    );
}

fn clock(error_ns: u64) -> Option<Clock> {
    Some(Clock { host: HostId(1), from_ns: 0, offset_ns: 0, drift_ppb: 0, error_ns })
}

#[test]
fn clocks_say_how_certain_they_are() {
    let other = "monotonic:2";
    let of = |clock, name| of(both_ends(clock, name)).header["clocks"].clone();
    let entry = |aligned: bool, uncertainty_ns: Value, why: &str| json!([{"host": "server1", "aligned": aligned, "uncertainty_ns": uncertainty_ns, "why": why}]);
    assert_eq!(of(None, "monotonic:1"), entry(true, json!(0), "server1 and client1 have one clock."));
    assert_eq!(
        of(clock(12_000), other),
        entry(true, json!(12_000), "The clock of server1 is aligned with that of client1 to within 12.0 µs.")
    );
    assert_eq!(
        of(clock(1_000_000_000), other),
        entry(
            false,
            json!(1_000_000_000),
            "Only wall clocks relate the clock of server1 to that of client1: they may be 1.00 s apart, so their events cannot be ordered."
        )
    );
    assert_eq!(
        of(None, other),
        entry(false, Value::Null, "Nothing relates the clock of server1 to that of client1, so their events cannot be ordered.")
    );
}

#[test]
fn no_arrow_leads_to_a_host_whose_clock_could_not_be_aligned() {
    for clock in [clock(1_000_000_000), None] {
        let page = of(both_ends(clock, "monotonic:2"));
        let kinds: Vec<String> = arrows(&page).into_iter().map(|arrow| arrow.0).collect();
        assert_eq!(kinds, ["message"]);
        well_formed_static_part(&page.text);
    }
}

#[test]
fn the_rules_that_the_explanation_names_are_described() {
    let page = of(both_ends(None, "monotonic:1"));
    let charges = page.header["explanation"]["critical_path"].as_array().unwrap();
    let named: Vec<&str> =
        charges.iter().flat_map(|charge| charge["rules"].as_array().unwrap()).map(|rule| rule["rule"].as_str().unwrap()).collect();
    let rules = page.header["rules"].as_object().unwrap();
    assert!(!named.is_empty() && named.iter().all(|name| rules.contains_key(*name)), "{named:?} {rules:?}");
    assert!(
        rules
            .iter()
            .all(|(name, rule)| named.contains(&&**name) && !rule["when"].as_str().unwrap().is_empty() && rule["basis"].is_string())
    );
}

#[test]
fn the_rpcs_are_the_document_of_rpcstat() {
    let (source, explanation) = made_up(Copy::SERIAL);
    let rpcs = made_up_rpcs::plain();
    let page = Page::of(html(&source, &explanation, &PictureOptions::default(), Some(&rpcs)).unwrap());
    let document: Value = serde_json::from_str(&rpcs.to_json()).unwrap();
    assert_eq!(page.header["rpcs"], document);
}

#[test]
fn the_waker_of_a_wait_for_a_processor_did_not_wake_the_thread() {
    let waits = [
        (SpanKind::WaitLock, None, 2),
        (SpanKind::WaitRunqueue, None, 0),
        (SpanKind::DiskRead, None, 0),
        (SpanKind::WaitTimer, Some(WakerContext::Timer), 0),
    ];
    let mut rows = threads(&["x", "y"]);
    rows.push(Event::Span(span(9, 2, SpanKind::FileRead, 0, MS)));
    for (at, (kind, waker_context, _)) in waits.into_iter().enumerate() {
        let start = at as i64 * 100 * MS;
        let waker_track = TrackId::new(2);
        rows.push(Event::Span(Span { waker_track, waker_context, ..span(at as u64 + 1, 1, kind, start, start + 90 * MS) }));
    }
    let page = of(rows);
    let wakers: Vec<u64> = page
        .spans()
        .iter()
        .zip(page.plane("span.waker"))
        .filter(|(span, _)| span.0 == "x" && span.1 != "cpu.run")
        .map(|(_, waker)| *waker)
        .collect();
    assert_eq!(wakers, waits.map(|wait| wait.2));
}

#[test]
fn a_thread_that_a_signal_stopped_has_a_mark_where_it_was() {
    let mut rows = threads(&["server"]);
    rows.push(Event::Span(span(1, 1, SpanKind::FileRead, 0, 100 * MS)));
    rows.push(Event::Span(Span { result: Some(-19), ..span(2, 1, SpanKind::WaitOther, 200 * MS, 900 * MS) }));
    rows.push(Event::Span(Span { result: Some(5), ..span(3, 1, SpanKind::WaitOther, 900 * MS, 950 * MS) }));
    let page = of(rows);
    assert_eq!(page.plane("mark.kind").len(), 1);
    let kind = page.plane("mark.kind")[0];
    assert_eq!(
        (page.text_at("marks", kind, "kind"), page.text_at("marks", kind, "label")),
        ("signal.stop", "the thread was stopped by SIGSTOP")
    );
    let stopped = page.spans().into_iter().find(|span| span.1 == "wait.other").unwrap();
    let tick_ns = page.header["tick_ns"].as_u64().unwrap();
    assert_eq!((page.plane("mark.at")[0] * tick_ns, page.plane("mark.value")[0]), (stopped.2, 19));
    assert_eq!(page.text_at("lanes", page.plane("mark.lane")[0], "name"), stopped.0);
}

#[test]
fn lost_events_are_marked_and_counted() {
    let mut rows = threads(&["x"]);
    rows.push(Event::Span(span(1, 1, SpanKind::FileRead, 0, 900 * MS)));
    let (track, at) = (TrackId::new(1).unwrap(), Time::from_monotonic_ns(500 * MS));
    rows.push(Event::Mark(Mark { track, kind: MarkKind::Lost, at, object: None, value: Some(1_234) }));
    let source = MemorySource::from_events(Meta { dropped_events: 1_234, ..meta() }, rows);
    let page = page(&source, &explained(&source));
    assert_eq!(page.header["explanation"]["dropped_events"], 1_234);
    assert_eq!(page.text_at("marks", page.plane("mark.kind")[0], "kind"), "lost");
    assert_eq!(page.plane("mark.value"), [1_234]);
    assert!(page.header["short"].as_str().unwrap().contains("1,234"), "{}", page.header["short"]);
}

#[test]
fn one_end_alone_has_no_other_clock_and_no_arrow() {
    let source = one_end();
    let page = page(&source, &explained(&source));
    assert!(page.header["clocks"].is_null() && page.header["arrows"].is_null());
    well_formed_static_part(&page.text);
}

#[test]
fn a_span_of_zero_length_is_beside_one_of_an_hour() {
    let hour = 3_600_000 * MS;
    let mut rows = threads(&["x"]);
    rows.push(Event::Span(span(1, 1, SpanKind::FileRead, 0, hour)));
    rows.push(Event::Span(span(2, 1, SpanKind::FileStat, hour / 2, hour / 2)));
    let end = Some(Time::from_monotonic_ns(hour));
    let source = MemorySource::from_events(Meta { end, ..meta() }, rows);
    let page = page(&source, &explained(&source));
    assert_eq!((page.header["tick_ns"].as_u64(), page.header["wall_ns"].as_i64()), (Some(1_000), Some(hour)));
    let spans: Vec<(u64, u64)> = page.spans().iter().map(|span| (span.2, span.3)).collect();
    let [hour, half] = [hour as u64, hour as u64 / 2];
    assert_eq!(spans, [(0, hour), (half, half)]);
}

#[test]
fn of_a_hundred_thousand_lanes_those_that_fit_are_there() {
    let names: Vec<String> = (0..100_000).map(|n| format!("worker {n}")).collect();
    let mut rows = threads(&names.iter().map(String::as_str).collect::<Vec<_>>());
    // The last threads have most spans.
    let spans =
        (0..150_000_u64).map(|n| span(n + 1, n.min(99_999) / 2 + 50_001, SpanKind::FileRead, n as i64 * 1_000, n as i64 * 1_000 + 500));
    rows.extend(spans.map(Event::Span));
    rows.extend(
        (0..50_000_u64).map(|n| Event::Span(span(200_000 + n, n + 1, SpanKind::FileStat, n as i64 * 1_000, n as i64 * 1_000 + 10))),
    );
    let source = MemorySource::from_events(meta(), rows);
    let mut explanation = made_up(Copy::SERIAL).1;
    (explanation.start_ns, explanation.wall_s) = (0, 1.0);
    explanation.path.clear();
    let page = page(&source, &explanation);
    let lanes = page.header["lanes"].as_array().unwrap().len();
    assert_eq!(lanes, 0xffff);
    assert!(page.plane("span.lane").iter().all(|lane| (*lane as usize) < lanes));
    let drawn = page.plane("span.lane").len() as u64;
    assert_eq!(page.header["left_out"]["spans"], 200_000 - drawn);
    assert!(drawn >= 150_000 && page.header["notes"].to_string().contains("34,465 lanes are not drawn"), "{}", page.header["notes"]);
    well_formed_static_part(&page.text);
}
