//! Promises of the picture: well-formed, bounded, complete, and nothing outside of it.

use crate::bounded::BoundedChild;
use crate::interactive::{static_part, well_formed_static_part};
use crate::made_up::{Copy, made_up};
use std::process::{Command, Stdio};
use thalweg_explain::document::{Explanation, Utilisation};
use thalweg_report::{PictureOptions, html, svg};
use thalweg_trace::{
    Event, HostId, Mark, MarkKind, MemorySource, Meta, Role, Source, Span, SpanId, SpanKind, Time, Track, TrackId, TrackKind,
};

fn drawn(copy: Copy) -> String {
    let (source, explanation) = made_up(copy);
    svg(&source, &explanation, &PictureOptions::default()).unwrap()
}

/// Checks that the text is well-formed XML as far as we write it (elements, quoted attributes, the five
/// entities), and returns the names of its elements.
pub(crate) fn well_formed(xml: &str) -> Vec<&str> {
    let mut open: Vec<&str> = Vec::new();
    let mut seen = Vec::new();
    let mut rest = xml;
    while let Some(begin) = rest.find('<') {
        let text = &rest[..begin];
        assert!(!text.contains('>'), "a stray > in {text:?}");
        entities(text);
        let end = rest[begin..].find('>').expect("a tag that ends") + begin;
        let tag = &rest[begin + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closing what was opened last");
            continue;
        }
        let closed = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let name = tag.split_whitespace().next().expect("a name");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "{name}");
        assert!(tag.matches('"').count().is_multiple_of(2) && !tag.contains('<'), "{tag}");
        entities(tag);
        assert!(!tag.contains("NaN") && !tag.contains("inf"), "{tag}");
        seen.push(name);
        if !closed {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    seen
}

/// What stands in the picture, lines of a paragraph put together.
pub(crate) fn words(svg: &str) -> String {
    let between_tags = svg.split('>').filter_map(|piece| piece.split('<').next());
    between_tags.map(str::trim).filter(|t| !t.is_empty()).collect::<Vec<_>>().join(" ")
}

fn entities(text: &str) {
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        assert!(known.iter().any(|e| text[at..].starts_with(e)), "{}", &text[at..text.len().min(at + 20)]);
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn copies_of_every_scale_are_well_formed_and_small() {
    for (copy, most_bytes) in [(Copy::SERIAL, 400_000), (Copy::LONG, 2_000_000), (Copy::WIDE, 1_000_000)] {
        let (source, explanation) = made_up(copy);
        let picture = svg(&source, &explanation, &PictureOptions::default()).unwrap();
        let elements = well_formed(&picture);
        assert_eq!(elements.iter().filter(|e| **e == "svg").count(), 1);
        assert!(picture.len() < most_bytes, "{copy:?}: {} bytes", picture.len());
    }
}

#[test]
fn the_long_copy_has_more_than_100_000_spans() {
    let spans: usize = made_up(Copy::LONG).0.spans_backward().map(|b| b.unwrap().len()).sum();
    assert!(spans > 100_000, "{spans}");
}

#[test]
fn the_verdict_is_the_title_and_every_track_and_connection_has_its_lane() {
    let (source, explanation) = made_up(Copy::SERIAL);
    let picture = svg(&source, &explanation, &PictureOptions::default()).unwrap();
    assert!(picture.contains(&format!("<title>{}</title>", explanation.verdict.sentence)));
    for track in source.tracks() {
        assert!(picture.contains(&format!(">{}</text>", track.name)), "{} has no lane", track.name);
    }
    for object in source.objects().iter().filter(|o| o.name.contains(" > ")) {
        assert!(picture.contains(&object.name.replace('>', "&gt;")), "{} has no lane", object.name);
    }
    for said in
        ["critical path", "throughput, ", "averaged over", "sent ", "time, ms", "client threads on node17", "server threads on node17"]
    {
        assert!(picture.contains(said), "{said}");
    }
    for charge in &explanation.critical_path {
        assert!(picture.contains(charge.cause.name()), "{} is not in the legend", charge.cause.name());
    }
}

#[test]
fn every_gap_is_shaded() {
    let (source, explanation) = made_up(Copy::SERIAL);
    let whole_only = PictureOptions { enlarged: false, ..PictureOptions::default() };
    let picture = svg(&source, &explanation, &whole_only).unwrap();
    let gaps = explanation.channels[0].gaps.longest.len();
    assert_eq!(picture.matches(r#"fill-opacity="0.16""#).count(), gaps);
    assert!(picture.contains(&format!("Shaded are the {gaps} gaps")));
}

#[test]
fn a_part_is_drawn_without_the_rest() {
    let (source, explanation) = made_up(Copy::SERIAL);
    let gap = explanation.channels[0].gaps.longest[3].clone();
    let options = PictureOptions { window: Some((gap.start_s - 0.001, gap.end_s + 0.001)), ..PictureOptions::default() };
    let picture = svg(&source, &explanation, &options).unwrap();
    well_formed(&picture);
    assert_eq!(picture.matches(r#"fill-opacity="0.16""#).count(), 1, "one gap lies in it");
    assert!(words(&picture).contains("From ") && !picture.contains("enlarged"));
    assert!(picture.len() < svg(&source, &explanation, &PictureOptions::default()).unwrap().len());
}

#[test]
fn what_is_left_out_is_said() {
    let wide = words(&drawn(Copy::WIDE));
    assert!(wide.contains("threads and 88 of 100 connections are folded into the lanes named “more”"));
    assert!(wide.contains("88 more connections"));
    let long = words(&drawn(Copy::LONG));
    assert!(long.contains("are too narrow to be drawn one by one"));
    assert!(long.contains("Shaded are the 100 longest of 1,209 gaps"));
}

#[test]
fn few_enough_lanes_are_drawn_whatever_the_number_of_threads() {
    let (source, explanation) = made_up(Copy::WIDE);
    for max_lanes in [0, 8, 20, 40, 100] {
        let options = PictureOptions { max_lanes, enlarged: false, ..PictureOptions::default() };
        let picture = svg(&source, &explanation, &options).unwrap();
        let lanes = picture.matches(r##"stroke="#F0F2F4"/"##).count();
        assert!(lanes <= max_lanes.max(8), "{lanes} lanes for {max_lanes}");
        assert!(lanes >= 6, "{lanes} lanes for {max_lanes}");
    }
}

#[test]
fn time_that_no_span_covers_is_running_and_a_stop_is_no_wait() {
    let track = TrackId::new(1).unwrap();
    let name = "gzip".to_owned();
    let row = Track { track, host: HostId(0), kind: TrackKind::Thread, role: Role::Client, pid: None, tid: None, name };
    let span =
        |number, kind, start, duration| Span::bare(SpanId::new(number).unwrap(), track, kind, Time::from_monotonic_ns(start), duration);
    let stop = Span { result: Some(-19), ..span(2, SpanKind::WaitOther, 600_000_000, 200_000_000) };
    let mark = |kind, at| Mark { track, kind, at: Time::from_monotonic_ns(at), object: None, value: None };
    let mut events = vec![Event::Track(row), Event::Span(span(1, SpanKind::WaitLock, 100_000_000, 100_000_000)), Event::Span(stop)];
    let ran = |cpu_s| {
        let (name, role) = ("gzip".to_owned(), "client".to_owned());
        let of = Utilisation { track: 1, name, role, cpu_s, runqueue_s: 0.0, file_s: 0.0, network_s: 0.0, lock_s: 0.1, spans: 2 };
        Explanation { wall_s: 1.0, dropped_events: 0, tracks: vec![of], ..empty() }
    };
    let explanation = ran(0.7);
    let picture = svg(&recording(events.clone()), &explanation, &PictureOptions::default()).unwrap();
    well_formed(&picture);
    assert!(picture.contains("running, 400 ms") && !picture.contains("running, 100 ms"), "what came before and after is not known");
    assert!(picture.contains("stopped by SIGSTOP") && picture.contains("url(#stop)"));
    assert!(words(&picture).contains("signal (1)"), "marks have a legend");
    events.extend([mark(MarkKind::ThreadStart, 0), mark(MarkKind::ThreadExit, 1_000_000_000)].map(Event::Mark));
    let drawn = |explanation| svg(&recording(events.clone()), &explanation, &PictureOptions::default()).unwrap();
    let picture = drawn(explanation);
    assert!(picture.contains("running, 100 ms") && picture.contains("running, 200 ms"));
    assert!(!drawn(ran(0.3)).contains("running, "), "the thread cannot have run as long");
    assert!(!drawn(Explanation { dropped_events: 1, ..ran(0.7) }).contains("running, "), "a lost event may have been a wait");
}

#[test]
fn a_dark_page_gets_dark_colours_and_text_on_bars_keeps_its_own() {
    let picture = drawn(Copy::SERIAL);
    assert!(picture.contains("@media (prefers-color-scheme:dark){") && picture.contains(r##"[fill="#1B2430"]{fill:#E4E8EC}"##));
    assert!(!picture.contains(r##"[fill="#000"]"##) && !picture.contains(r##"[fill="#FFFFFF"]"##));
}

#[test]
fn the_same_recording_gives_the_same_picture() {
    assert_eq!(drawn(Copy::SERIAL), drawn(Copy::SERIAL));
}

fn recording(events: Vec<Event>) -> MemorySource {
    let meta = Meta {
        format: 1,
        command: vec!["x".into()],
        recorder: "test".into(),
        start: Time::from_monotonic_ns(0),
        end: None,
        exit_code: None,
        dropped_events: 3,
        attributes: vec![],
    };
    MemorySource::from_events(meta, events)
}

/// An explanation of nothing.
fn empty() -> Explanation {
    let mut e = made_up(Copy::SERIAL).1;
    e.critical_path.clear();
    e.path.clear();
    e.transfers.clear();
    e.phases.clear();
    e.channels.clear();
    (e.throughput, e.size_bytes, e.rate_bytes_per_s) = (None, None, None);
    (e.wall_s, e.start_ns) = (0.0, 0);
    e
}

#[test]
fn an_empty_recording_is_still_a_picture() {
    for wall_s in [0.0, 1.0] {
        let explanation = Explanation { wall_s, ..empty() };
        well_formed(&svg(&recording(vec![]), &explanation, &PictureOptions::default()).unwrap());
    }
}

#[test]
fn hostile_names_stay_text() {
    let (_, mut explanation) = made_up(Copy::SERIAL);
    explanation.start_ns = 0;
    explanation.verdict.sentence = "<script>alert(1)</script> & \"more\" \u{1b}[31m\u{0} ]]>".into();
    explanation.notes = vec!["</text><image href='http://example.org'/>".into()];
    let track = TrackId::new(1).unwrap();
    let name = "<b onload=\"x\">".to_owned();
    let row = Track { track, host: HostId(9), kind: TrackKind::Thread, role: Role::Client, pid: None, tid: None, name };
    let mark = Mark { track, kind: MarkKind::Lost, at: Time::from_monotonic_ns(5_000), object: None, value: Some(17) };
    let source = recording(vec![Event::Track(row), Event::Mark(mark)]);
    let picture = svg(&source, &explanation, &PictureOptions::default()).unwrap();
    let elements = well_formed(&picture);
    assert!(!elements.contains(&"script") && !elements.contains(&"image") && !elements.contains(&"b"));
    assert!(picture.contains("lost 17"), "what was lost is drawn");
    well_formed_static_part(&html(&source, &explanation, &PictureOptions::default(), None).unwrap());
}

#[test]
fn the_page_holds_picture_and_tables_and_asks_for_nothing_else() {
    let (source, explanation) = made_up(Copy::SERIAL);
    let page = html(&source, &explanation, &PictureOptions::default(), None).unwrap();
    well_formed_static_part(&page);
    let fixed = static_part(&page);
    assert!(!fixed.contains("<script") && !fixed.contains("src=") && !fixed.contains("href") && !fixed.contains("@import"));
    assert_eq!(fixed.matches("http").count(), fixed.matches("http://www.w3.org/2000/svg").count());
    for said in ["<svg", "Where the time went", "What a change would give", "wall time", "100.0 %"] {
        assert!(fixed.contains(said), "{said}");
    }
}

#[test]
fn a_renderer_reads_it() {
    let Ok(mut renderer) = Command::new("rsvg-convert").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
        println!("SKIPPED: rsvg-convert is not installed (package librsvg2-bin)");
        return;
    };
    let picture = drawn(Copy::SERIAL);
    std::io::Write::write_all(&mut renderer.stdin.take().unwrap(), picture.as_bytes()).unwrap();
    let output = renderer.output_in_time().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.starts_with(b"\x89PNG"));
}
