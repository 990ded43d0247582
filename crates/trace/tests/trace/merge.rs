//! Recordings of both ends of a run are merged into one.

use std::collections::{BTreeMap, HashSet};
use thalweg_trace::merge::{ClockFrom, Merged, Part, merge};
use thalweg_trace::*;

const SECOND: i64 = 1_000_000_000;
const LEAST_DELAY_NS: i64 = 100_000;
const CONNECTION: &str = "10.0.0.1:40000 > 10.0.0.2:2049";

/// A recording under construction.
struct Made {
    meta: Meta,
    events: Vec<Event>,
    /// Maps an instant of the truth to what this machine's clock shows.
    clock: fn(i64) -> i64,
    spans: u64,
}

impl Made {
    fn new(boot: &str, clock: fn(i64) -> i64) -> Made {
        let host = Host {
            host: HostId(0),
            name: format!("machine-{boot}"),
            node: format!("machine-{boot}"),
            clock: format!("monotonic:{boot}-0000-0000"),
            kernel: "6.18".into(),
            cpus: 2,
        };
        let meta = Meta {
            format: FORMAT_VERSION,
            command: vec!["nfs-cp".into()],
            recorder: "bpf".into(),
            start: Time::from_monotonic_ns(clock(100 * SECOND)),
            end: Some(Time::from_monotonic_ns(clock(110 * SECOND))),
            exit_code: Some(0),
            dropped_events: 0,
            attributes: vec![("tier".into(), "syscall".into()), ("class.0".into(), "user".into())],
        };
        Made { meta, events: vec![Event::Host(host)], clock, spans: 1 << 40 }
    }

    fn track(&mut self, number: u64, kind: TrackKind, role: Role, pid: u32, name: &str) {
        let (pid, tid) = if kind == TrackKind::Thread { (Some(pid), Some(pid)) } else { (None, None) };
        let track = TrackId::new(number).unwrap();
        self.events.push(Event::Track(Track { track, host: HostId(0), kind, role, pid, tid, name: name.into() }));
    }

    fn connection(&mut self, number: u64, name: &str, end: &str) {
        let attributes = vec![("end".into(), end.into())];
        let object = ObjectId::new(number).unwrap();
        self.events.push(Event::Object(Object { object, host: HostId(0), kind: ObjectKind::Connection, name: name.into(), attributes }));
    }

    /// Adds a span of the truth, in this machine's clock.
    fn span(&mut self, track: u64, kind: SpanKind, from_ns: i64, to_ns: i64) -> &mut Span {
        self.spans += 1;
        let (start, end) = ((self.clock)(from_ns), (self.clock)(to_ns));
        let end = end.max(start);
        let (id, track) = (SpanId::new(self.spans).unwrap(), TrackId::new(track).unwrap());
        self.events.push(Event::Span(Span::bare(id, track, kind, Time::from_monotonic_ns(start), (end - start) as u64)));
        let Some(Event::Span(span)) = self.events.last_mut() else { unreachable!() };
        span
    }

    fn moved(&mut self, track: u64, kind: SpanKind, from_ns: i64, to_ns: i64, offset: u64, size: u64) {
        let span = self.span(track, kind, from_ns, to_ns);
        span.object = ObjectId::new(1);
        (span.offset_bytes, span.size_bytes) = (Some(offset), Some(size));
    }

    fn source(self) -> MemorySource {
        MemorySource::from_events(self.meta, self.events)
    }
}

/// A shifted and drifting server clock.
fn shifted(ns: i64) -> i64 {
    ns + 7 * SECOND + ns / 10_000
}

fn unshifted(ns: i64) -> i64 {
    ns
}

/// Returns the two ends of ten seconds of requests and replies.
fn conversation(clock: fn(i64) -> i64, server_boot: &str) -> (MemorySource, MemorySource) {
    let (client, server) = conversation_made(clock, server_boot);
    (client.source(), server.source())
}

fn conversation_made(clock: fn(i64) -> i64, server_boot: &str) -> (Made, Made) {
    let mut client = Made::new("client", unshifted);
    let mut server = Made::new(server_boot, clock);
    client.track(1, TrackKind::Thread, Role::Client, 100, "nfs-cp");
    client.connection(1, CONNECTION, "client");
    server.track(1, TrackKind::Thread, Role::Client, 900, "ganesha.nfsd");
    server.track(2, TrackKind::Device, Role::None, 0, "vdb");
    server.connection(1, CONNECTION, "server");
    let mut now_ns = 100 * SECOND + 1_000;
    let (mut sent, mut answered) = (0, 0);
    for i in 0..2_000_i64 {
        let queue_ns = (i * 7_919) % 100 * 3_000;
        client.moved(1, SpanKind::NetSend, now_ns, now_ns + 20_000, sent, 1_000);
        let there_ns = now_ns + LEAST_DELAY_NS + queue_ns;
        server.moved(1, SpanKind::NetReceive, there_ns - 50_000, there_ns, sent, 1_000);
        server.span(1, SpanKind::FileWrite, there_ns, there_ns + 500_000).request = RequestId::new(1 << 40 | (i as u64 + 1));
        let back_ns = there_ns + 500_000;
        server.moved(1, SpanKind::NetSend, back_ns, back_ns + 10_000, answered, 100);
        let home_ns = back_ns + LEAST_DELAY_NS + (i * 104_729) % 100 * 3_000;
        client.moved(1, SpanKind::NetReceive, now_ns + 20_000, home_ns, answered, 100);
        (sent, answered, now_ns) = (sent + 1_000, answered + 100, now_ns + 5_000_000 - 3_000);
    }
    (client, server)
}

fn merged(one: &dyn Source, other: &dyn Source) -> (Result<Merged, TraceError>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let parts = [Part { name: "client.thw".into(), source: one }, Part { name: "server.thw".into(), source: other }];
    (merge(&parts, &directory.path().join("merged.thw")), directory)
}

fn open(directory: &tempfile::TempDir) -> Recording {
    Recording::open(&directory.path().join("merged.thw")).unwrap()
}

fn spans(source: &dyn Source) -> Vec<(i64, i64, Span)> {
    let batches: Vec<SpanBatch> = source.spans_backward().collect::<Result<_, _>>().unwrap();
    batches.iter().flat_map(|b| (0..b.len()).map(|row| (b.start_ns[row], b.end_ns[row], b.row(row).unwrap()))).collect()
}

#[test]
fn a_server_whose_clock_is_seconds_off_and_drifts_is_put_within_the_least_one_way_delay() {
    let (client, server) = conversation(shifted, "server");
    let (outcome, directory) = merged(&client, &server);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.parts[1].clock, ClockFrom::Connections { connections: 1, one_way: false, contradictions: 0 });
    assert!((outcome.parts[1].offset_ns + 7_010_000_000).abs() < 1_000_000, "{outcome:?}");
    assert!((outcome.parts[1].drift_ppb + 99_990).abs() < 2_000, "{outcome:?}");
    let merged = open(&directory);
    assert_eq!((merged.hosts().len(), merged.meta().command[0].as_str()), (2, "nfs-cp"));
    assert!(!merged.clocks().is_empty() && merged.clocks().iter().all(|c| c.host == HostId(1)));
    let error_ns = merged.clocks().iter().map(|c| c.error_ns).max().unwrap() as i64;
    assert!(error_ns <= 2 * LEAST_DELAY_NS, "{error_ns} ns");
    let truth = spans(&conversation(unshifted, "server").1);
    let writes =
        |spans: &[(i64, i64, Span)]| -> Vec<i64> { spans.iter().filter(|s| s.2.kind == SpanKind::FileWrite).map(|s| s.0).collect() };
    let (here, there) = (writes(&spans(&merged)), writes(&truth));
    assert_eq!(here.len(), there.len());
    let worst = here.iter().zip(&there).map(|(a, b)| (a - b).abs()).max().unwrap();
    assert!(worst <= LEAST_DELAY_NS && worst <= error_ns + 10, "{worst} ns off, {error_ns} ns claimed");
}

#[test]
fn the_process_at_the_accepting_end_is_the_server_and_no_two_things_have_one_number() {
    let (client, server) = conversation(shifted, "server");
    let (outcome, directory) = merged(&client, &server);
    outcome.unwrap();
    let merged = open(&directory);
    let roles: BTreeMap<&str, Role> = merged.tracks().iter().map(|t| (t.name.as_str(), t.role)).collect();
    assert_eq!((roles["nfs-cp"], roles["ganesha.nfsd"]), (Role::Client, Role::Server));
    let ends: Vec<_> = merged.objects().iter().map(|o| (o.name.as_str(), o.attributes.clone())).collect();
    assert_eq!(ends.len(), 2, "{ends:?}");
    assert!(ends.iter().all(|(name, _)| *name == CONNECTION));
    let all = spans(&merged);
    assert_eq!(all.len(), 2_000 * 5);
    assert_eq!(all.iter().map(|s| s.2.span).collect::<HashSet<_>>().len(), all.len());
    assert_eq!(all.iter().filter_map(|s| s.2.request).collect::<HashSet<_>>().len(), 2_000);
    assert!(merged.meta().attributes.iter().any(|(n, v)| n == "merged" && v == "client.thw, server.thw"));
}

#[test]
fn recordings_of_one_boot_need_no_alignment_and_their_threads_are_one() {
    let (client, _) = conversation(unshifted, "client");
    let (mut one, mut other) = (Made::new("same", unshifted), Made::new("same", unshifted));
    one.track(1, TrackKind::Thread, Role::Client, 100, "cp");
    one.track(2, TrackKind::Thread, Role::None, 900, "");
    one.track(3, TrackKind::Device, Role::None, 0, "vdb");
    other.track(1, TrackKind::Thread, Role::Server, 900, "nfsd");
    other.track(2, TrackKind::Thread, Role::None, 100, "cp");
    other.track(3, TrackKind::Device, Role::None, 0, "vdb");
    let wait = one.span(1, SpanKind::WaitLock, 101 * SECOND, 102 * SECOND);
    wait.waker_track = TrackId::new(2);
    other.span(1, SpanKind::FileWrite, 101 * SECOND, 102 * SECOND).waker_track = TrackId::new(3);
    for made in [&mut one, &mut other] {
        made.span(3, SpanKind::DiskWrite, 101 * SECOND, 101 * SECOND + 500).offset_bytes = Some(4096);
    }
    other.span(3, SpanKind::DiskWrite, 101 * SECOND + 600, 101 * SECOND + 900).offset_bytes = Some(8192);
    let (outcome, directory) = merged(&one.source(), &other.source());
    assert_eq!(outcome.unwrap().parts[1].clock, ClockFrom::SameBoot);
    let merged = open(&directory);
    assert_eq!((merged.hosts().len(), merged.tracks().len(), merged.clocks().len()), (1, 3, 0));
    let served = merged.tracks().iter().find(|t| t.pid == Some(900)).unwrap();
    assert_eq!((served.role, served.name.as_str()), (Role::Server, "nfsd"));
    let all = spans(&merged);
    let wait = all.iter().find(|s| s.2.kind == SpanKind::WaitLock).unwrap();
    assert_eq!(wait.2.waker_track, Some(served.track), "the waker of one recording is the thread of the other");
    assert_eq!(all.iter().filter(|s| s.2.kind == SpanKind::DiskWrite).count(), 2, "a request that both saw is one");
    drop(client);
}

/// Returns a recording of one machine with one process, made between two instants of the truth.
fn of_one_machine(clock: fn(i64) -> i64, pid: u32, from_s: i64, to_s: i64) -> Made {
    let mut made = Made::new("same", clock);
    made.meta.start = Time::from_monotonic_ns(clock(from_s * SECOND));
    made.meta.end = Some(Time::from_monotonic_ns(clock(to_s * SECOND)));
    made.track(1, TrackKind::Thread, Role::Client, pid, "cp");
    made.span(1, SpanKind::FileRead, from_s * SECOND, (from_s + 1) * SECOND);
    made
}

#[test]
fn two_runs_one_after_the_other_on_one_machine_are_refused_with_what_would_compare_them() {
    let (before, after) = (of_one_machine(unshifted, 5, 100, 110), of_one_machine(unshifted, 6, 112, 120));
    let (before, after) = (before.source(), after.source());
    for (one, other) in [(&before, &after), (&after, &before)] {
        let (outcome, directory) = merged(one, other);
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains("nothing connects them") && message.contains("2.00 s") && message.contains("thalweg diff "), "{message}");
        assert!(!directory.path().join("merged.thw").exists());
    }
    // Wall clocks do not make them one run either.
    let recorded = |seconds: i64, pid, from_s, to_s| {
        let mut made = of_one_machine(unshifted, pid, from_s, to_s);
        made.meta.attributes.push(("realtime_ns".into(), (seconds * SECOND).to_string()));
        made.source()
    };
    assert!(merged(&recorded(7_000, 5, 100, 110), &recorded(7_000, 6, 112, 120)).0.is_err());
}

#[test]
fn what_only_ran_at_the_same_time_on_the_same_machine_is_merged_and_that_is_said() {
    let (outcome, _directory) = merged(&of_one_machine(unshifted, 5, 100, 110).source(), &of_one_machine(unshifted, 6, 105, 120).source());
    let outcome = outcome.unwrap();
    assert_eq!(outcome.parts[1].clock, ClockFrom::SameBoot);
    assert!(outcome.notes.iter().any(|note| note.contains("no connection and no process")), "{:?}", outcome.notes);
}

/// A clock in a time namespace that is 5,000 s ahead.
fn ahead(ns: i64) -> i64 {
    ns + 5_000 * SECOND
}

#[test]
fn a_recording_from_a_time_namespace_is_put_where_the_kernel_says() {
    let mut inside = of_one_machine(ahead, 6, 102, 108);
    for event in &mut inside.events {
        if let Event::Host(host) = event {
            host.clock.push_str("@+5000000000000");
        }
    }
    let inside = inside.source();
    let (outcome, directory) = merged(&of_one_machine(unshifted, 5, 100, 110).source(), &inside);
    let outcome = outcome.unwrap();
    assert_eq!(
        (outcome.parts[1].clock.clone(), outcome.parts[1].offset_ns, outcome.parts[1].error_ns),
        (ClockFrom::SameBoot, -5_000 * SECOND, 0)
    );
    assert!(outcome.notes.iter().any(|note| note.contains("time namespace") && note.contains("+5000.000 s")), "{:?}", outcome.notes);
    let starts: HashSet<i64> = spans(&open(&directory)).iter().map(|span| span.0).collect();
    assert_eq!(starts, [100 * SECOND, 102 * SECOND].into());
    // The other way round, the one outside is moved.
    let outcome = merged(&inside, &of_one_machine(unshifted, 5, 100, 110).source()).0.unwrap();
    assert_eq!(outcome.parts[1].offset_ns, 5_000 * SECOND);
}

#[test]
fn clocks_of_one_name_that_would_have_replies_before_requests_are_aligned_by_the_bytes() {
    for clock in [ahead, |ns: i64| ns - SECOND, |ns: i64| ns + 3_000_000] {
        // Both claim the same clock, as recordings did before time namespaces were considered.
        let (client, server) = conversation(clock, "client");
        let (outcome, directory) = merged(&client, &server);
        let outcome = outcome.unwrap();
        let part = &outcome.parts[1];
        assert!(matches!(part.clock, ClockFrom::Connections { connections: 1, one_way: false, .. }), "{outcome:?}");
        let truth_ns = -(clock(100 * SECOND) - 100 * SECOND);
        assert!(part.offset_ns.abs_diff(truth_ns) <= part.error_ns.max(LEAST_DELAY_NS as u64), "{outcome:?}");
        assert!(outcome.notes.iter().any(|note| note.contains("contradict")), "{:?}", outcome.notes);
        let merged = open(&directory);
        let requests = spans(&merged).into_iter().filter(|span| span.2.kind == SpanKind::FileWrite);
        let truth: Vec<i64> = spans(&conversation(unshifted, "client").1)
            .iter()
            .filter(|span| span.2.kind == SpanKind::FileWrite)
            .map(|span| span.0)
            .collect();
        let worst = requests.zip(truth).map(|(here, there)| (here.0 - there).abs()).max().unwrap();
        assert!(worst <= LEAST_DELAY_NS, "{worst} ns off");
    }
    // On one clock they are left unchanged.
    let (client, server) = conversation(unshifted, "client");
    assert_eq!(merged(&client, &server).0.unwrap().parts[1].clock, ClockFrom::SameBoot);
}

#[test]
fn two_runs_between_the_same_ports_are_refused_though_their_bytes_would_fit() {
    let recorded = |clock: fn(i64) -> i64, boot: &str| {
        let (mut client, mut server) = conversation_made(clock, boot);
        for made in [&mut client, &mut server] {
            made.meta.attributes.push(("realtime_ns".into(), (9_000 * SECOND).to_string()));
        }
        merged(&client.source(), &server.source())
    };
    // The server was recorded a minute later on the same clock, as the wall clocks show.
    let (outcome, directory) = recorded(|ns| ns + 60 * SECOND, "client");
    let message = outcome.unwrap_err().to_string();
    assert!(message.contains("two runs that used the same ports") && message.contains("60.0 s later"), "{message}");
    assert!(!directory.path().join("merged.thw").exists());
    // On another machine the wall clock may be wrong: the bytes decide, and a note says so.
    let outcome = recorded(|ns| ns + 60 * SECOND, "server").0.unwrap();
    assert!(outcome.notes.iter().any(|note| note.contains("60.0 s from where the wall clocks do")), "{:?}", outcome.notes);
}

#[test]
fn bytes_that_no_clock_can_put_in_order_are_refused() {
    // A clock that was stepped while recording, which leaves two clocks in one recording.
    let jumps = |ns: i64| if ns < 105 * SECOND { ns } else { ns + 10 * SECOND };
    let two = |ns: i64| if ns / 1_000_000 % 2 == 0 { ns } else { ns + 5_000 * SECOND };
    for (clock, boot) in [(jumps as fn(i64) -> i64, "server"), (jumps, "client"), (two, "server"), (two, "client")] {
        let (client, server) = conversation(clock, boot);
        let (outcome, directory) = merged(&client, &server);
        let message = outcome.map(|outcome| format!("{outcome:?}")).unwrap_err().to_string();
        assert!(message.contains("before they were sent"), "{message}");
        assert!(!directory.path().join("merged.thw").exists());
    }
}

#[test]
fn clocks_of_one_name_whose_wall_clocks_contradict_are_not_taken_as_one() {
    let machine = |clock: fn(i64) -> i64, realtime: i64, pid, from_s, to_s| {
        let mut made = of_one_machine(clock, pid, from_s, to_s);
        made.meta.attributes.push(("realtime_ns".into(), (realtime * SECOND).to_string()));
        made.source()
    };
    let (outcome, _directory) = merged(&machine(unshifted, 9_000, 5, 100, 110), &machine(ahead, 4_000, 6, 102, 108));
    let outcome = outcome.unwrap();
    assert_eq!((outcome.parts[1].clock.clone(), outcome.parts[1].offset_ns), (ClockFrom::WallClock, -5_000 * SECOND));
    assert!(outcome.notes.iter().any(|note| note.contains("contradict")), "{:?}", outcome.notes);
}

#[test]
fn without_a_common_connection_each_reports_what_the_others_saw() {
    let (client, _) = conversation(unshifted, "client");
    let mut stranger = Made::new("elsewhere", shifted);
    stranger.track(1, TrackKind::Thread, Role::Client, 5, "sshd");
    stranger.connection(1, "192.168.1.1:9 > 192.168.1.2:22", "server");
    stranger.span(1, SpanKind::FileRead, 100 * SECOND, 101 * SECOND);
    let (outcome, directory) = merged(&client, &stranger.source());
    let message = outcome.unwrap_err().to_string();
    for expected in ["server.thw", CONNECTION, "192.168.1.1:9 > 192.168.1.2:22"] {
        assert!(message.contains(expected), "{message}");
    }
    assert!(!directory.path().join("merged.thw").exists(), "nothing half-made is left");
}

#[test]
fn wall_clocks_are_a_last_resort_with_a_large_error() {
    let machine = |boot: &str, realtime: i64| {
        let mut made = Made::new(boot, unshifted);
        made.meta.attributes.push(("realtime_ns".into(), realtime.to_string()));
        made.track(1, TrackKind::Thread, Role::Client, 5, "cp");
        made.span(1, SpanKind::FileRead, 100 * SECOND, 101 * SECOND);
        made.source()
    };
    let (outcome, directory) = merged(&machine("one", 5_000 * SECOND), &machine("other", 5_010 * SECOND));
    let outcome = outcome.unwrap();
    assert_eq!((outcome.parts[1].clock.clone(), outcome.parts[1].offset_ns), (ClockFrom::WallClock, 10 * SECOND));
    assert!(outcome.parts[1].error_ns >= SECOND as u64 && outcome.notes[0].contains("wall clocks"), "{outcome:?}");
    let merged = open(&directory);
    assert!(merged.meta().attributes.iter().any(|(name, value)| name == "notes" && value.contains("wall clocks")));
}

#[test]
fn what_a_thread_did_while_it_ran_counts_from_the_waits_around_it() {
    // Spans without a place of their own, as a recorder without system calls makes them: at the end of the running
    // interval.
    let mut client = Made::new("client", unshifted);
    let mut server = Made::new("server", shifted);
    for made in [&mut client, &mut server] {
        made.meta.attributes[0].1 = "lean".into();
        made.track(1, TrackKind::Thread, Role::Client, 100, "thread");
    }
    client.connection(1, CONNECTION, "client");
    server.connection(1, CONNECTION, "server");
    fn moved(made: &mut Made, kind: SpanKind, at_ns: i64, offset: u64, size: u64) {
        made.moved(1, kind, at_ns, at_ns, offset, size);
        let Some(Event::Span(span)) = made.events.last_mut() else { unreachable!() };
        (span.count, span.cpu_ns) = (3, Some(0));
    }
    fn wait(made: &mut Made, kind: SpanKind, from_ns: i64, to_ns: i64, offset: u64) {
        let span = made.span(1, kind, from_ns, to_ns);
        (span.object, span.offset_bytes, span.cpu_ns) = (ObjectId::new(1), Some(offset), Some(0));
        span.waker_context = Some(WakerContext::Softirq);
    }
    for i in 0..500_u64 {
        // The client wakes at 0, sends at 10 µs, and its spans are placed at 30 µs, where it waits again.
        let at_ns = 100 * SECOND + i as i64 * 2_000_000;
        moved(&mut client, SpanKind::NetSend, at_ns + 30_000, i * 300, 300);
        wait(&mut client, SpanKind::NetReceive, at_ns + 30_001, at_ns + 2_000_000, i * 30);
        let there_ns = at_ns + 10_000 + LEAST_DELAY_NS;
        wait(&mut server, SpanKind::NetReceive, there_ns - 1_800_000, there_ns, i * 300);
        moved(&mut server, SpanKind::NetSend, there_ns + 40_000, i * 30, 30);
        moved(&mut client, SpanKind::NetReceive, at_ns + 2_000_000 + 29_999, i * 30, 30);
    }
    let (outcome, directory) = merged(&client.source(), &server.source());
    let outcome = outcome.unwrap();
    let ClockFrom::Connections { connections: 1, one_way: false, contradictions: 0 } = outcome.parts[1].clock else {
        panic!("{outcome:?}")
    };
    let (recording, host_ns) = (open(&directory), shifted(101 * SECOND));
    let clock = recording.clocks().iter().rfind(|c| c.host == HostId(1) && c.from_ns <= host_ns).unwrap();
    let drift_ns = (host_ns - clock.from_ns) as i128 * clock.drift_ppb as i128 / SECOND as i128;
    let off_ns = host_ns + clock.offset_ns + drift_ns as i64 - 101 * SECOND;
    assert!(off_ns.unsigned_abs() <= outcome.parts[1].error_ns, "{off_ns} ns off, with {outcome:?}");
}

#[test]
fn a_place_that_is_taken_is_not_written_over() {
    let (client, server) = conversation(shifted, "server");
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("merged.thw");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("mine"), "precious").unwrap();
    let parts = [Part { name: "a".into(), source: &client }, Part { name: "b".into(), source: &server }];
    assert!(merge(&parts, &out).unwrap_err().to_string().contains("not empty"));
    assert_eq!(std::fs::read(out.join("mine")).unwrap(), b"precious");
    assert!(merge(&parts[..1], &directory.path().join("c")).is_err());
}
