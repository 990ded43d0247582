//! Promises of the interactive page: its data are the recording's, its critical path is the explanation's, names stay text, and it is
//! small.

use crate::made_up::{Copy, made_up};
use crate::picture::well_formed;
use flate2::read::DeflateDecoder;
use serde_json::Value;
use std::collections::HashMap;
use std::io::Read;
use std::time::Instant;
use thalweg_explain::document::Explanation;
use thalweg_report::{PictureOptions, html};
use thalweg_trace::*;

/// A page, read as the app reads it.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) header: Value,
    planes: HashMap<String, Vec<u64>>,
}

pub(crate) fn page(source: &dyn Source, explanation: &Explanation) -> Page {
    Page::of(html(source, explanation, &PictureOptions::default(), None).unwrap())
}

impl Page {
    /// Reads a page.
    pub(crate) fn of(text: String) -> Page {
        let header: Value = serde_json::from_str(element(&text, "application/json", "thalweg-header")).unwrap();
        let packed = from_base64(element(&text, "application/octet-stream", "thalweg-data"));
        let mut bytes = Vec::new();
        DeflateDecoder::new(&*packed).read_to_end(&mut bytes).unwrap();
        let mut rest = &*bytes;
        let mut planes = HashMap::new();
        for plane in header["planes"].as_array().unwrap() {
            let count = plane["count"].as_u64().unwrap() as usize;
            let wide = HashMap::from([("u8", 1), ("u16", 2), ("u32", 4), ("f64", 8)])[plane["type"].as_str().unwrap()];
            let (own, after) = rest.split_at(count * wide);
            rest = after;
            let value = |row: usize| (0..wide).map(|byte| u64::from(own[byte * count + row]) << (8 * byte)).sum();
            planes.insert(plane["name"].as_str().unwrap().to_owned(), (0..count).map(value).collect());
        }
        assert!(rest.is_empty(), "{} bytes belong to no plane", rest.len());
        Page { text, header, planes }
    }
}

/// Returns the contents of a script element.
pub(crate) fn element<'a>(page: &'a str, kind: &str, id: &str) -> &'a str {
    let begin = format!("<script type=\"{kind}\" id=\"{id}\">");
    assert_eq!(page.matches(&begin).count(), 1);
    page.split_once(&begin).unwrap().1.split_once("</script>").unwrap().0
}

/// Returns the static part of a page.
pub(crate) fn static_part(page: &str) -> &str {
    page.split_once("<main id=\"static\">").unwrap().1.split_once("</main>").unwrap().0
}

/// Checks that the static part is well-formed, and returns the names of its elements.
pub(crate) fn well_formed_static_part(page: &str) -> Vec<&str> {
    let (style, rest) = static_part(page).trim_start().split_once("</style>").unwrap();
    assert!(style.starts_with("<style>"));
    well_formed(rest)
}

pub(crate) fn from_base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("{c} is not a digit of base64"),
    };
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let digits: Vec<u32> = four.iter().take_while(|c| **c != b'=').map(|c| u32::from(digit(*c))).collect();
        let bits = digits.iter().enumerate().map(|(at, digit)| digit << (18 - 6 * at)).sum::<u32>();
        bytes.extend(&bits.to_be_bytes()[1..digits.len()]);
    }
    bytes
}

impl Page {
    pub(crate) fn plane(&self, name: &str) -> &[u64] {
        &self.planes[name]
    }

    /// Whether the page has a plane.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.planes.contains_key(name)
    }

    pub(crate) fn text_at<'a>(&'a self, list: &str, index: u64, field: &str) -> &'a str {
        self.header[list][index as usize][field].as_str().unwrap()
    }

    /// The spans: lane, kind, start and end in ns, object, size.
    pub(crate) fn spans(&self) -> Vec<(&str, &str, u64, u64, &str, u64)> {
        let tick_ns = self.header["tick_ns"].as_u64().unwrap();
        let of = |name: &str, row: usize| self.plane(name)[row];
        (0..self.plane("span.lane").len())
            .map(|row| {
                let start = of("span.start", row);
                (
                    self.text_at("lanes", of("span.lane", row), "name"),
                    self.text_at("kinds", of("span.kind", row), "name"),
                    start * tick_ns,
                    (start + of("span.duration", row)) * tick_ns,
                    self.header["objects"][of("span.object", row) as usize].as_str().unwrap(),
                    of("span.size", row),
                )
            })
            .collect()
    }
}

#[test]
fn every_span_of_the_recording_is_in_the_page() {
    let (source, explanation) = made_up(Copy::SERIAL);
    let page = page(&source, &explanation);
    let names: HashMap<u64, &str> = source.tracks().iter().map(|t| (t.track.number(), &*t.name)).collect();
    let objects: HashMap<u64, String> =
        source.objects().iter().map(|o| (o.object.number(), format!("{} {}", o.kind.name(), o.name))).collect();
    let batches: Vec<SpanBatch> = source.spans_backward().map(Result::unwrap).collect();
    let first = batches.iter().flat_map(|b| b.start_ns.iter().copied()).chain([explanation.start_ns]).min().unwrap();
    let mut expected = Vec::new();
    for batch in &batches {
        for row in 0..batch.len() {
            let since = |at: i64| (at - first) as u64;
            let object = objects.get(&batch.object[row]).map_or("none", |name| name);
            let size = if batch.size_bytes[row] == ABSENT { 0 } else { batch.size_bytes[row] };
            let kind = batch.kind[row].name();
            expected.push((names[&batch.track[row]], kind, since(batch.start_ns[row]), since(batch.end_ns[row]), object, size));
            if kind == "net.send" {
                let name = object.strip_prefix("connection ").unwrap();
                expected.push((name, kind, since(batch.start_ns[row]), since(batch.end_ns[row]), object, size));
            }
        }
    }
    let mut found = page.spans();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(page.header["tick_ns"], 1);
    assert_eq!(found.len(), expected.len());
    assert_eq!(found, expected);
    assert_eq!(page.header["left_out"]["spans"], 0);
    let (lanes, starts) = (page.plane("span.lane"), page.plane("span.start"));
    assert!((1..lanes.len()).all(|row| (lanes[row - 1], starts[row - 1]) <= (lanes[row], starts[row])), "sorted by lane and start");
}

#[test]
fn the_critical_path_is_the_explanations() {
    let (source, mut explanation) = made_up(Copy::SERIAL);
    let main = source.tracks()[0].track.number();
    explanation.path[0].track = Some(main);
    let page = page(&source, &explanation);
    let start_ns = page.header["start_ns"].as_u64().unwrap();
    assert_eq!(page.plane("path.start").len(), explanation.path.len());
    for (row, segment) in explanation.path.iter().enumerate() {
        let start_s = (page.plane("path.start")[row] - start_ns) as f64 * 1e-9;
        let wall_s = page.plane("path.duration")[row] as f64 * 1e-9;
        assert!((start_s - segment.start_s).abs() < 1e-8 && (wall_s - segment.end_s + segment.start_s).abs() < 1e-8);
        assert_eq!(page.text_at("causes", page.plane("path.cause")[row], "name"), segment.cause.name());
        assert_eq!(page.plane("path.charge")[row], segment.charge as u64);
        let lane = page.plane("path.lane")[row];
        match row {
            0 => assert_eq!(page.text_at("lanes", lane, "name"), "main"),
            _ => assert_eq!(lane, 0xffff),
        }
    }
    let sums: Vec<u64> = page.header["causes"].as_array().unwrap().iter().map(|cause| cause["ns"].as_u64().unwrap()).collect();
    assert!(sums.is_sorted_by(|a, b| a >= b));
    assert!((sums.iter().sum::<u64>() as f64 * 1e-9 - explanation.wall_s).abs() < 1e-6);
    let mut document: Value = serde_json::from_str(&explanation.to_json()).unwrap();
    document["path"] = Value::Array(Vec::new());
    assert_eq!(page.header["explanation"], document, "as explain --json prints it, but for the path, which is in the planes");
    assert!(page.header["short"].as_str().unwrap().contains("cp"));
}

const HOSTILE: &str = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> & \"q\" 'a' \u{202e}gnp \u{1b}[31m\u{0}\u{7}";

#[test]
fn hostile_names_stay_text_in_their_places() {
    let (_, mut explanation) = made_up(Copy::SERIAL);
    let long = HOSTILE.repeat(10_000 / HOSTILE.len());
    (explanation.start_ns, explanation.command) = (0, vec!["x".into(), HOSTILE.into()]);
    explanation.verdict.sentence = HOSTILE.into();
    explanation.notes = vec![HOSTILE.into()];
    explanation.critical_path[0].place = HOSTILE.into();
    let mut rows = threads(&[HOSTILE]);
    let object = ObjectId::new(7).unwrap();
    rows.push(Event::Object(Object { object, host: HostId(0), kind: ObjectKind::File, name: long.clone(), attributes: vec![] }));
    rows.push(Event::Span(Span { object: Some(object), ..span(1, 1, SpanKind::FileRead, 1_000, 5_000) }));
    let mut meta = meta();
    meta.attributes = vec![("class.1".into(), HOSTILE.into())];
    let at = Time::from_monotonic_ns(2_000);
    let track = TrackId::new(1);
    rows.push(Event::Sample(Sample { at, host: HostId(0), cpu: 0, track, class: 1, stack: None, weight_ns: 1 }));
    let page = page(&MemorySource::from_events(meta, rows), &explanation);
    let elements = well_formed_static_part(&page.text);
    assert!(!elements.iter().any(|e| ["script", "img"].contains(e)));
    assert_eq!(page.text_at("lanes", 0, "name"), HOSTILE);
    assert_eq!(page.header["objects"][1].as_str().unwrap(), format!("file {long}"));
    assert_eq!(page.header["sample_classes"][0], HOSTILE);
    assert_eq!(page.header["explanation"]["verdict"]["sentence"], HOSTILE);
    let harmless = self::page(&MemorySource::from_events(self::meta(), threads(&["x"])), &made_up(Copy::SERIAL).1);
    for tag in ["<script", "</script", "<!--", "<img"] {
        assert_eq!(page.text.matches(tag).count(), harmless.text.matches(tag).count(), "{tag}");
    }
    let title = page.text.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    assert!(title.contains("&lt;img") && !title.contains('<'));
}

pub(crate) fn meta() -> Meta {
    Meta {
        format: FORMAT_VERSION,
        command: vec!["x".into()],
        recorder: "test".into(),
        start: Time::from_monotonic_ns(0),
        end: Some(Time::from_monotonic_ns(1_000_000_000)),
        exit_code: Some(0),
        dropped_events: 0,
        attributes: vec![],
    }
}

/// A host and threads on it, numbered from 1.
pub(crate) fn threads(names: &[&str]) -> Vec<Event> {
    let host = HostId(0);
    let (name, node, clock) = ("client1".to_owned(), "client1".into(), "monotonic:1".into());
    let mut rows = vec![Event::Host(Host { host, name, node, clock, kernel: "6.18".into(), cpus: 2 })];
    for (at, name) in names.iter().enumerate() {
        let track = TrackId::new(at as u64 + 1).unwrap();
        let (pid, tid) = (Some(100), Some(100 + at as u32));
        let row = Track { track, host, kind: TrackKind::Thread, role: Role::Client, pid, tid, name: (*name).to_owned() };
        rows.push(Event::Track(row));
    }
    rows
}

pub(crate) fn span(number: u64, track: u64, kind: SpanKind, start_ns: i64, end_ns: i64) -> Span {
    let start = Time::from_monotonic_ns(start_ns);
    Span::bare(SpanId::new(number).unwrap(), TrackId::new(track).unwrap(), kind, start, (end_ns - start_ns) as u64)
}

#[test]
fn an_empty_recording_is_still_a_page() {
    let (_, mut explanation) = made_up(Copy::SERIAL);
    explanation.critical_path.clear();
    explanation.path.clear();
    for wall_s in [0.0, 1.0] {
        (explanation.wall_s, explanation.start_ns) = (wall_s, 0);
        let page = page(&MemorySource::from_events(meta(), []), &explanation);
        well_formed_static_part(&page.text);
        assert!(page.plane("span.start").is_empty() && page.plane("path.start").is_empty());
        assert_eq!((page.header["lanes"].as_array().unwrap().len(), page.header["objects"][0].as_str()), (0, Some("none")));
        assert_eq!(page.header["wall_ns"].as_f64(), Some(wall_s * 1e9));
    }
}

/// A client that sends, waits and receives; nothing is known of the server.
pub(crate) fn one_end() -> MemorySource {
    let mut rows = threads(&["curl", "curl/resolver", "idle"]);
    let object = ObjectId::new(9).unwrap();
    let name = "10.0.0.1:5000 > 10.0.0.2:80".to_owned();
    let row = Object { object, host: HostId(0), kind: ObjectKind::Connection, name, attributes: vec![] };
    rows.push(Event::Object(row));
    let on = |span: Span| Span { object: Some(object), size_bytes: Some(5 << 30), ..span };
    let woken = Span { waker_track: TrackId::new(2), ..span(3, 1, SpanKind::WaitLock, 900_000_000, 950_000_000) };
    rows.push(Event::Span(on(span(1, 1, SpanKind::NetSend, 100_000_000, 110_000_000))));
    let received = on(span(2, 1, SpanKind::NetReceive, 110_000_000, 800_000_000));
    rows.push(Event::Span(Span { cpu_ns: Some(1_000), runqueue_ns: Some(0), ..received }));
    rows.push(Event::Span(woken));
    rows.push(Event::Span(Span { result: Some(-19), ..span(4, 1, SpanKind::WaitOther, 960_000_000, 990_000_000) }));
    let (track, at) = (TrackId::new(1).unwrap(), Time::from_monotonic_ns(500_000_000));
    rows.push(Event::Mark(Mark { track, kind: MarkKind::TcpRetransmit, at, object: Some(object), value: Some(1_448) }));
    for of in [CounterOf::Object(object), CounterOf::Track(track)] {
        let name = if of == CounterOf::Track(track) { CounterName::CpuRunNs } else { CounterName::TcpCwndBytes };
        rows.push(Event::Counter(Counter { of, name, at, value: -14_480 }));
    }
    MemorySource::from_events(meta(), rows)
}

#[test]
fn a_recording_of_one_end_has_its_lanes_marks_and_counters() {
    let source = one_end();
    let explanation = thalweg_explain::explain(&source, &thalweg_explain::Options::default()).unwrap();
    let page = page(&source, &explanation);
    let lanes: Vec<(&str, &str)> = page.header["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lane| (lane["name"].as_str().unwrap(), lane["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(lanes, [("curl", "thread"), ("curl/resolver", "thread"), ("10.0.0.1:5000 > 10.0.0.2:80", "connection")], "idle has none");
    assert_eq!(page.header["lanes"][1]["process"], "100 curl");
    assert_eq!(page.header["lanes"][0]["host"], "client1");
    let kinds: Vec<&str> = page.header["kinds"].as_array().unwrap().iter().map(|kind| kind["class"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"stopped"), "a wait that a signal made: {kinds:?}");
    assert!(kinds.contains(&"send") && kinds.contains(&"wait.network") && kinds.contains(&"wait.lock"), "{kinds:?}");
    assert!(page.plane("span.size").contains(&u64::from(u32::MAX)), "saturated");
    assert!(page.plane("span.waker").contains(&2), "1 + the lane of the waker");
    assert_eq!(page.text_at("marks", page.plane("mark.kind")[0], "label"), "TCP sent a segment again");
    assert_eq!(page.text_at("marks", page.plane("mark.kind")[1], "label"), "the thread was stopped by SIGSTOP");
    assert_eq!((page.plane("mark.value"), page.plane("mark.lane")), (&[1_448, 19][..], &[0, 0][..]));
    let counters = page.header["counters"].as_array().unwrap();
    let entry = |at: usize| (counters[at]["name"].as_str().unwrap(), counters[at]["of"].as_u64(), counters[at]["unit"].as_str().unwrap());
    assert_eq!([entry(0), entry(1)], [("tcp.cwnd", Some(2), "bytes"), ("cpu.run_ns", Some(0), "ns")]);
    assert_eq!(f64::from_bits(page.plane("counter.value")[0]), -14_480.0);
}

#[test]
fn a_page_of_ten_thousand_spans_is_small() {
    let (source, explanation) = made_up(Copy { requests: 90, ..Copy::SERIAL });
    let spans: usize = source.spans_backward().map(|batch| batch.unwrap().len()).sum();
    let begin = Instant::now();
    let page = html(&source, &explanation, &PictureOptions::default(), None).unwrap();
    println!("{spans} spans: {} bytes in {:.3} s", page.len(), begin.elapsed().as_secs_f64());
    assert!((10_000..12_000).contains(&spans), "{spans}");
    assert!(page.len() <= 1_000_000, "{} bytes", page.len());
}

#[test]
fn the_static_part_keeps_to_the_policy() {
    let (source, explanation) = made_up(Copy::SERIAL);
    let page = html(&source, &explanation, &PictureOptions::default(), None).unwrap();
    let style = static_part(&page).split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let digest = ring::digest::digest(&ring::digest::SHA256, style.as_bytes());
    let policy = page.split_once("http-equiv=\"Content-Security-Policy\"").unwrap().1.split_once('>').unwrap().0;
    let hashes = policy.split('\'').filter_map(|part| part.strip_prefix("sha256-"));
    assert!(hashes.map(from_base64).any(|hash| hash == digest.as_ref()), "the style's hash is in {policy}");
    assert!(!page.contains("thalweg:title") && !page.contains("THALWEG_STATIC_STYLE"));
    let rest = static_part(&page).split_once("</style>").unwrap().1;
    for refused in ["<style", " style=", " onclick=", " onload=", "<script", "<link", "href="] {
        assert!(!rest.contains(refused), "{refused}");
    }
}
