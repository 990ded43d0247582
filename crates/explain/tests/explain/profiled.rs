//! A profile beside a recording does not change the explanation: its threads are not part of the run, and its samples cover everything.

use std::path::Path;
use thalweg_explain::{Options, explain};
use thalweg_trace::*;

/// A recording with a profile's additions: samples with stacks, also of its own threads, threads of others, processors.
struct Profiled {
    inner: Recording,
    meta: Meta,
    tracks: Vec<Track>,
}

fn track(number: u64) -> TrackId {
    TrackId::new(8 << 40 | number).expect("not 0")
}

impl Profiled {
    fn of(name: &str) -> Profiled {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let inner = Recording::open(&path).expect("a fixture opens");
        let mut meta = inner.meta().clone();
        let classes = ["profile.user", "profile.kernel", "profile.softirq", "profile.hardirq"];
        meta.attributes.extend((32..).zip(classes).map(|(number, name)| (format!("class.{number}"), name.to_owned())));
        meta.attributes.push(("profile.period_ns".to_owned(), "1000000".to_owned()));
        let row = |number: u64, kind, role, pid: Option<u32>, name: &str| Track {
            track: track(number),
            host: HostId(0),
            kind,
            role,
            pid,
            tid: pid,
            name: name.to_owned(),
        };
        let mut tracks = inner.tracks().to_vec();
        tracks.push(row(1, TrackKind::Thread, Role::None, Some(4_000_001), "a stranger"));
        tracks.push(row(2, TrackKind::Thread, Role::None, None, "swapper/0"));
        tracks.push(row(3, TrackKind::Thread, Role::Recorder, Some(4_000_002), "thalweg-profile"));
        tracks.push(row(4, TrackKind::Cpu, Role::None, None, "cpu0"));
        tracks.push(row(5, TrackKind::Cpu, Role::None, None, "cpu1"));
        Profiled { inner, meta, tracks }
    }
}

impl Source for Profiled {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn hosts(&self) -> &[Host] {
        self.inner.hosts()
    }
    fn clocks(&self) -> &[Clock] {
        self.inner.clocks()
    }
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }
    fn objects(&self) -> &[Object] {
        self.inner.objects()
    }
    fn spans_backward<'a>(&'a self) -> Box<dyn Iterator<Item = Result<SpanBatch, SourceError>> + 'a> {
        self.inner.spans_backward()
    }
    fn marks(&self) -> Result<Vec<Mark>, SourceError> {
        self.inner.marks()
    }
    fn counters(&self, name: CounterName) -> Result<Vec<Counter>, SourceError> {
        let mut all = self.inner.counters(name)?;
        let of_processors = [CounterName::CpuIdleNs, CounterName::CpuHardirqNs, CounterName::CpuSoftirqNs, CounterName::CpuStealNs];
        if of_processors.contains(&name) {
            let (start, end) = (self.meta.start.ns(), self.meta.end.map_or(0, Time::ns));
            for at in (start..end).step_by(100_000_000) {
                let at = Time::from_monotonic_ns(at);
                all.extend([4, 5].map(|n| Counter { of: CounterOf::Track(track(n)), name, at, value: at.ns() - start }));
            }
            all.sort_by_key(|counter| counter.at);
        }
        Ok(all)
    }
    fn samples(&self) -> Result<Vec<Sample>, SourceError> {
        let mut all = self.inner.samples()?;
        let (start, end) = (self.meta.start.ns(), self.meta.end.map_or(0, Time::ns));
        let threads: Vec<TrackId> = self.tracks.iter().filter(|t| t.kind == TrackKind::Thread).map(|t| t.track).collect();
        for (n, at) in (start..end).step_by(1_000_000).enumerate() {
            let (track, class) = (threads.get(n % threads.len()).copied(), 32 + (n % 4) as u16);
            let (at, cpu) = (Time::from_monotonic_ns(at), (n % 2) as u32);
            all.push(Sample { at, host: HostId(0), cpu, track, class, stack: Some(1 + n as u32 % 2), weight_ns: 1_000_000 });
        }
        all.sort_by_key(|sample| sample.at);
        Ok(all)
    }
    fn stacks(&self) -> Result<Vec<Stack>, SourceError> {
        let stack = |stack, frame: &str| Stack { stack, frames: vec![frame.to_owned()] };
        Ok(vec![stack(1, "tcp_sendmsg+0x27 [kernel]"), stack(2, "[/usr/bin/gzip 01+0x5120]")])
    }
}

#[test]
fn a_recording_with_a_profile_is_explained_as_without() {
    for name in ["serial", "two-requests", "direct-out", "walks/nfs", "programs/copy-lock", "programs/mpi-collective-write"] {
        let profiled = Profiled::of(name);
        let said = |source: &dyn Source| {
            let mut explanation = explain(source, &Options::default()).expect("explains");
            // Everything a profile adds.
            explanation.critical_path.iter_mut().for_each(|charge| charge.hottest.clear());
            explanation.to_json()
        };
        let (with, without) = (said(&profiled), said(&profiled.inner));
        let differs = with.lines().zip(without.lines()).enumerate().find(|(_, (a, b))| a != b);
        assert!(with == without, "{name}: {differs:?}");
    }
}

#[test]
fn a_profile_alone_says_that_it_is_one() {
    let mut profiled = Profiled::of("serial");
    profiled.meta.recorder = "profile".to_owned();
    let error = explain(&profiled, &Options::default()).expect_err("no waits").to_string();
    assert!(error.contains("thalweg profile"), "{error}");
}

#[test]
fn the_hottest_functions_are_those_of_the_path_and_not_of_the_machine() {
    let mut tale = crate::common::Tale::new(1_000_000, 2);
    let (main, other) = (tale.client("copy"), tale.client("beside"));
    tale.span(main, SpanKind::WaitTimer, 0, 400_000).blocked().end();
    let stack = |stack, frame: &str| Event::Stack(Stack { stack, frames: vec![frame.to_owned(), "main [/bin/copy]".to_owned()] });
    let frames = ["deflate [/lib/libz.so.1]", "crc32 [/lib/libz.so.1]", "spin [/bin/beside]", "bpf_trace_run4+0x1 [kernel]"];
    (1..).zip(frames).for_each(|(number, frame)| tale.event(stack(number, frame)));
    let under = ["ktime_get [kernel]", "bpf_prog_12_on_switch [kernel]", "bpf_trace_run4 [kernel]"].map(str::to_owned).to_vec();
    tale.event(Event::Stack(Stack { stack: 5, frames: under }));
    for ms in 0..1_000_i64 {
        let sample = |track, stack| {
            let at = Time::from_monotonic_ns(ms * 1_000_000 + 1);
            Event::Sample(Sample { at, host: HostId(0), cpu: 0, track: Some(track), class: 32, stack: Some(stack), weight_ns: 1_000_000 })
        };
        tale.event(sample(other, 3));
        if ms >= 400 {
            // Taking samples is not the program's work.
            tale.event(sample(main, [1, 1, 1, 1, 2, 2, 4, 5][(ms as usize - 400) / 75]));
        }
    }
    let e = tale.explain();
    let charge = e.critical_path.iter().find(|charge| charge.cause == thalweg_explain::Cause::ClientCpu).expect("it ran");
    let found: Vec<(&str, f64)> = charge.hottest.iter().map(|hot| (hot.function.as_str(), (hot.share * 100.0).round() / 100.0)).collect();
    assert_eq!(found, [("deflate", 0.3), ("crc32", 0.15)], "{charge:?}");
}

/// A program that computes for a second, sampled each millisecond without stacks, in the functions of these frames, one after the other.
fn computed(frames: &[&str]) -> thalweg_explain::Explanation {
    let mut tale = crate::common::Tale::new(1_000_000, 2);
    let main = tale.client("copy");
    let stack = |stack, frame: &str| Event::Stack(Stack { stack, frames: vec![frame.to_owned()] });
    (1..).zip(frames).for_each(|(number, frame)| tale.event(stack(number, frame)));
    for ms in 0..1_000_u32 {
        let at = Time::from_monotonic_ns(i64::from(ms) * 1_000_000 + 1);
        let stack = Some(1 + ms * frames.len() as u32 / 1_000);
        tale.event(Event::Sample(Sample { at, host: HostId(0), cpu: 0, track: Some(main), class: 0, stack, weight_ns: 1_000_000 }));
    }
    tale.explain()
}

#[test]
fn the_leading_program_names_the_function_it_computed_in() {
    let (deflate, crc) = ("deflate_slow+0x1 [/lib/libz.so.1 ab+0x5]", "crc32+0x1 [/lib/libz.so.1 ab+0x9]");
    let e = computed(&[deflate, deflate, crc, deflate, "main+0x2 [/bin/copy]"]);
    assert_eq!(e.summary.remarks, ["hottest: deflate_slow in libz.so.1, 60 % of its samples"]);
    let hot = &e.critical_path[0].hottest[0];
    assert_eq!((hot.function.as_str(), hot.module.as_str()), ("deflate_slow", "libz.so.1"));
    assert!((hot.of_samples - 0.6).abs() < 0.01 && (hot.share - 0.6).abs() < 0.01, "{hot:?}");
}

#[test]
fn where_nothing_has_a_name_the_file_is_named_and_where_nothing_is_hot_nothing() {
    let said = |frames: &[&str]| computed(frames).summary.remarks;
    assert_eq!(said(&["[/lib/libcrypto.so.3 ab+0x5]"]), ["hottest: libcrypto.so.3 (no symbol there), 100 % of its samples"]);
    assert_eq!(said(&["clear_page+0x1 [kernel]"]), ["hottest: clear_page in the kernel, 100 % of its samples"]);
    assert_eq!(said(&["[jit]"]), ["hottest: JIT-compiled code, 100 % of its samples"]);
    assert_eq!(said(&["render+0x1 [jit]"]), ["hottest: render, 100 % of its samples"]);
    assert_eq!(said(&["[unknown]"]), [""; 0]);
    let many = ["a [/bin/copy]", "b [/bin/copy]", "c [/bin/copy]", "d [/bin/copy]", "e [/bin/copy]"];
    assert_eq!(said(&many), [""; 0]);
}

#[test]
fn the_longest_waits_of_the_path_are_shown_by_the_stacks_that_waited() {
    let mut tale = crate::common::Tale::new(1_000_000, 2);
    let (main, other) = (tale.client("copy"), tale.client("beside"));
    let file = tale.file("/data/log");
    let at = |us: u64| Time::from_monotonic_ns(us as i64 * 1_000);
    let mut waits = |track: TrackId, kind, from: u64, to: u64, stack: Option<u32>| {
        let line = tale.span(track, kind, from, to).blocked();
        if kind == SpanKind::FileSync {
            line.on(file).end()
        } else {
            line.end()
        };
        if let Some(stack) = stack {
            tale.event(Event::Waited(Waited { track, from: at(from), until: at(to + 3), stack }));
        }
    };
    // The path is the first thread's: the other's waits do not matter.
    waits(main, SpanKind::FileSync, 0, 100_000, Some(1));
    waits(main, SpanKind::FileSync, 110_000, 410_000, Some(5));
    waits(main, SpanKind::FileSync, 420_000, 430_000, Some(2));
    waits(main, SpanKind::FileSync, 440_000, 450_000, None);
    waits(main, SpanKind::WaitTimer, 500_000, 900_000, Some(3));
    waits(other, SpanKind::FileSync, 0, 900_000, Some(4));
    let kernel = ["schedule [kernel]", "jbd2_log_wait_commit [jbd2]"];
    let user = [
        &["fdatasync [/lib/libc.so.6]", "commit [/bin/copy]", "main [/bin/copy]"][..],
        &["fdatasync [/lib/libc.so.6]", "rotate [/bin/copy]", "main [/bin/copy]"],
        &["[/bin/copy 01+0x77]", "main [/bin/copy]"],
        &["fsync [/lib/libc.so.6]", "stranger [/bin/beside]"],
    ];
    // The last is the first, by another path in the kernel.
    for (number, user) in (1..).zip(user.iter().chain(&user[..1])) {
        let other = ["__schedule [kernel]", "io_schedule [kernel]", "folio_wait_bit [kernel]"];
        let frames = if number == 5 { other.iter() } else { kernel.iter() }.chain(*user).map(|frame| (*frame).to_owned()).collect();
        tale.event(Event::Stack(Stack { stack: number, frames }));
    }
    let e = tale.explain();
    let shown = |cause| {
        let charge = e.critical_path.iter().find(|charge| charge.cause == cause).unwrap_or_else(|| panic!("no {cause:?}: {e:#?}"));
        let ms = |seconds: f64| (seconds * 1e3).round() as u64;
        charge.waits.iter().map(|w| (w.functions.join(" < "), w.count, ms(w.longest_s), ms(w.seconds), ms(w.at_s))).collect::<Vec<_>>()
    };
    let synced = [("fdatasync < commit < main".to_owned(), 2, 300, 400, 110), ("fdatasync < rotate < main".to_owned(), 1, 10, 10, 420)];
    assert_eq!(shown(thalweg_explain::Cause::ClientSync), synced);
    assert_eq!(shown(thalweg_explain::Cause::ClientThink), [("[copy+0x77] < main".to_owned(), 1, 400, 400, 500)]);
    let all = e.critical_path.iter().flat_map(|charge| &charge.waits);
    let kernel_of = |wait: &thalweg_explain::document::WaitStack| wait.kernel.join(" < ");
    assert!(all.clone().all(|wait| wait.track == main.number()), "{e:#?}");
    let kernels: Vec<String> = all.map(kernel_of).collect();
    assert_eq!(kernels, ["folio_wait_bit", "jbd2_log_wait_commit", "jbd2_log_wait_commit"], "two of syncing, and a charge of sleeping");
    let value = serde_json::to_value(&e).expect("JSON");
    assert_eq!(value["critical_path"][0].get("hottest"), None);
    let text = serde_json::to_string(&without_stacks(&tale)).expect("JSON");
    assert!(!text.contains("\"waits\""), "nothing is said where nothing was taken");
}

/// The same recording without a profile.
fn without_stacks(tale: &crate::common::Tale) -> thalweg_explain::Explanation {
    let source = tale.source();
    let mut events: Vec<Event> = source.tracks().iter().cloned().map(Event::Track).collect();
    events.extend(source.objects().iter().cloned().map(Event::Object));
    for batch in source.spans_backward() {
        let batch = batch.expect("in memory");
        events.extend((0..batch.len()).filter_map(|row| batch.row(row)).map(|span| Event::Span(Span { stack: None, ..span })));
    }
    explain(&MemorySource::from_events(source.meta().clone(), events), &Options::default()).expect("explains")
}
