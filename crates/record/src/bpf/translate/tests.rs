//! The translator with synthetic records: rules of SCHEMA.md's table that real programs do not trigger at will.

use super::Translator;
use crate::bpf::raw::{self, Call, Connection, Exit, FdObject, Head, Net, Off, Plain, Sample, Thread, Totals};
use crate::bpf::translate::facts::{Facts, FileSystem};
use proptest::prelude::*;
use thalweg_trace::{
    CounterName, CounterOf, Event, HostId, IdSpace, MarkKind, Object, Role, Span, SpanKind, Track, TrackKind, WakerContext,
};

/// A system with one disk and no listeners.
struct Still;

impl Facts for Still {
    fn disk_name(&mut self, number: u32) -> Option<String> {
        (number == 7).then(|| "sda".to_owned())
    }
    fn file_system(&mut self, _device: u32) -> FileSystem {
        FileSystem { kind: "ext4".into(), disk: "sda".into(), disk_number: 7, mounted_on: "/data".into() }
    }
    fn is_listened_on_anywhere(&mut self, port: u16) -> bool {
        port == 45_000
    }

    fn is_listened_on(&mut self, _namespace: u32, _port: u16) -> bool {
        false
    }
    fn function(&mut self, _address: u64) -> &str {
        ""
    }
    fn quota_group(&mut self, _pid: u32) -> Option<String> {
        Some("/job".to_owned())
    }
    fn watching(&mut self, _pid: u32) {}
}

const ZERO: u64 = 1_000_000_000;

struct Bench {
    translator: Translator,
    events: Vec<Event>,
}

fn bytes_of<T: Plain>(record: &T) -> Vec<u8> {
    // SAFETY: a structure of integers without gaps (a test holds its size against the sum of its fields).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast::<u8>(), size_of::<T>()) }.to_vec()
}

impl Bench {
    fn new() -> Bench {
        Bench::of_tier(false)
    }

    /// `traces_calls`: each system call is recorded (tier `syscall`).
    fn of_tier(traces_calls: bool) -> Bench {
        Bench { translator: Translator::new(HostId(0), IdSpace(1), 4_000, traces_calls), events: Vec::new() }
    }

    fn emit<T: Plain>(&mut self, record: &T) {
        self.translator.record(&bytes_of(record), &mut Still);
        self.events.append(&mut self.translator.output.events);
    }

    fn thread(&mut self, serial: u32, pid: u32, tid: u32, role: u32, name: &str) {
        let mut thread = Thread { head: head(1, serial, 0), tid, pid, parent: 1, role, ..Thread::default() };
        thread.name[..name.len()].copy_from_slice(name.as_bytes());
        self.emit(&thread);
    }

    fn counters(&self) -> Vec<(CounterOf, CounterName, i64)> {
        self.events.iter().filter_map(|e| if let Event::Counter(c) = e { Some((c.of, c.name, c.value)) } else { None }).collect()
    }

    fn spans(&self) -> Vec<Span> {
        self.events.iter().filter_map(|e| if let Event::Span(s) = e { Some(*s) } else { None }).collect()
    }

    fn tracks(&self) -> Vec<Track> {
        self.events.iter().filter_map(|e| if let Event::Track(t) = e { Some(t.clone()) } else { None }).collect()
    }

    fn objects(&self) -> Vec<Object> {
        self.events.iter().filter_map(|e| if let Event::Object(o) = e { Some(o.clone()) } else { None }).collect()
    }
}

fn head(kind: u16, thread: u32, at_us: u64) -> Head {
    Head { kind, cpu: 0, thread, at_ns: ZERO + at_us * 1_000 }
}

/// Ran from 0, was switched out at 100 µs, woken at `wake_us`, and runs again at `in_us`.
fn off(serial: u32, call: libc::c_long, wake_us: u64, in_us: u64) -> Off {
    Off {
        head: head(2, serial, in_us),
        run_ns: ZERO,
        out_ns: ZERO + 100_000,
        wake_ns: if wake_us == 0 { 0 } else { ZERO + wake_us * 1_000 },
        call: i32::try_from(call).expect("small"),
        state: 1,
        ..Off::default()
    }
}

fn file(inode: u64) -> FdObject {
    FdObject { id: inode, device: 8, mode: 0o100_644, fd: 3, access: 3 }
}

#[test]
fn a_short_delay_after_the_wake_up_is_part_of_the_wait_and_a_long_one_is_a_span_of_its_own() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "cp");
    bench.thread(6, 11, 11, raw::ROLE_NONE, "hog");
    bench.emit(&off(5, libc::SYS_nanosleep, 500, 515));
    let spans = bench.spans();
    assert_eq!((spans.len(), spans[0].kind, spans[0].duration_ns, spans[0].runqueue_ns), (1, SpanKind::WaitTimer, 415_000, Some(15_000)));
    bench.emit(&Off { holder: 6, ..off(5, libc::SYS_nanosleep, 500, 800) });
    let spans = bench.spans();
    assert_eq!((spans[1].kind, spans[1].duration_ns, spans[1].runqueue_ns), (SpanKind::WaitTimer, 400_000, Some(0)));
    assert_eq!((spans[2].kind, spans[2].duration_ns, spans[2].runqueue_ns), (SpanKind::WaitRunqueue, 300_000, Some(300_000)));
    let hog = bench.tracks().into_iter().find(|t| t.name == "hog").expect("recorded as holder");
    assert_eq!((spans[2].waker_track, hog.role), (Some(hog.track), Role::None));
}

#[test]
fn in_an_interrupt_the_thread_that_was_interrupted_is_not_the_waker() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "cp");
    bench.emit(&Off { waker: 9, context: raw::CONTEXT_SOFTIRQ, ..off(5, libc::SYS_ppoll, 500, 505) });
    let span = bench.spans()[0];
    assert_eq!((span.kind, span.waker_track, span.waker_context), (SpanKind::WaitNetwork, None, Some(WakerContext::Softirq)));
    let mut read = Off { context: raw::CONTEXT_HARDIRQ, wake_device: 7, ..off(5, libc::SYS_read, 500, 505) };
    read.file[0] = file(77);
    bench.emit(&read);
    let disk = bench.tracks().into_iter().find(|t| t.name == "sda").expect("the disk");
    let span = bench.spans()[1];
    assert_eq!((span.kind, span.waker_track), (SpanKind::FileRead, Some(disk.track)));
}

#[test]
fn a_process_number_that_is_used_again_is_another_track() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "first");
    bench.emit(&off(5, libc::SYS_nanosleep, 500, 505));
    bench.emit(&Exit { head: head(9, 5, 600), run_ns: ZERO + 505_000, ..Exit::default() });
    bench.thread(6, 10, 10, raw::ROLE_CLIENT, "second");
    bench.emit(&off(6, libc::SYS_nanosleep, 700, 705));
    // The creator of both was never recorded.
    let names: Vec<String> = bench.tracks().into_iter().map(|t| t.name).filter(|name| name != "unknown thread").collect();
    assert_eq!(names, ["first", "second"]);
    let spans = bench.spans();
    assert_ne!(spans[0].track, spans[1].track);
}

#[test]
fn throttling_syncing_writes_and_faults_have_kinds_of_their_own() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "cp");
    let mut write = off(5, libc::SYS_write, 500, 505);
    write.file[0] = file(77);
    let mut synced = write;
    synced.file[0].access |= raw::ACCESS_SYNCED;
    let mut fault = Off { flags: raw::OFF_FAULT_FILE, state: 2, ..off(5, -1, 500, 505) };
    fault.file[0] = FdObject { mode: 0o100_000, ..file(78) };
    let uring = Off { wake_device: 7, context: raw::CONTEXT_SOFTIRQ, ..off(5, libc::SYS_io_uring_enter, 500, 505) };
    for (record, kind) in [
        (write, SpanKind::FileWrite),
        (Off { flags: raw::OFF_THROTTLED, state: 2, ..write }, SpanKind::WaitMemory),
        (synced, SpanKind::FileSync),
        (fault, SpanKind::FileRead),
        (Off { flags: 0, ..fault }, SpanKind::WaitMemory),
        (uring, SpanKind::WaitDisk),
        (Off { state: 4, stop_signal: 19, ..write }, SpanKind::WaitOther),
    ] {
        bench.emit(&record);
        assert_eq!(bench.spans().last().expect("a span").kind, kind, "{record:?}");
    }
    assert_eq!(bench.spans().last().expect("a span").result, Some(-19));
}

fn connection(id: u64, inode: u64) -> Connection {
    let mut local = [0; 16];
    local[..4].copy_from_slice(&[127, 0, 0, 1]);
    Connection {
        head: head(4, 0, 0),
        connection: id,
        inode,
        family: 2,
        end: 1,
        local_port: 50_000,
        remote_port: 80,
        local,
        remote: local,
        ..Connection::default()
    }
}

#[test]
fn who_moves_bytes_over_a_link_of_a_recorded_connection_is_counted_under_the_links_name() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "curl");
    let mut link_name = [0; 16];
    link_name[..5].copy_from_slice(b"veth0");
    bench.emit(&Connection { link: 7, link_name, ..connection(1_000, 42) });
    bench.emit(&Connection { link: 8, link_name, local_port: 50_001, ..connection(1_001, 43) });
    for (id, serial) in [(1_000, 5), (1_001, 5)] {
        bench.emit(&Net { head: head(3, serial, 100), connection: id, first_ns: ZERO, count: 1, bytes: 1, end_bytes: 1, ..Net::default() });
    }
    let links: Vec<String> =
        bench.objects().iter().flat_map(|o| o.attributes.iter().filter(|(n, _)| n == "link").map(|(_, v)| v.clone())).collect();
    assert_eq!(links, ["veth0", "veth0#2"]);
    let mut name = [0; 16];
    name[..5].copy_from_slice(b"socat");
    for (direction, bytes) in [(1, 1_448), (1, 2_896), (0, 100)] {
        bench.emit(&raw::Link { head: head(22, 0, 200), link: 8, bytes, direction, pid: 812, link_name, name });
    }
    let track = bench.tracks().into_iter().find(|track| track.kind == TrackKind::Link).expect("a track");
    assert_eq!((track.name.as_str(), track.role, track.pid), ("veth0#2: socat (812)", Role::None, None));
    let of = CounterOf::Track(track.track);
    let counted =
        [(of, CounterName::LinkReceivedBytes, 1_448), (of, CounterName::LinkReceivedBytes, 2_896), (of, CounterName::LinkSentBytes, 100)];
    assert!(bench.counters().ends_with(&counted), "{:?}", bench.counters());
}

#[test]
fn whoever_called_a_port_that_another_network_of_this_machine_listens_on_is_the_client() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "mount");
    // Older than the recording, and the caller's port is the lower one.
    bench.emit(&Connection { end: 0, local_port: 40_000, remote_port: 45_000, ..connection(1_000, 42) });
    bench.emit(&Net { head: head(3, 5, 510), connection: 1_000, first_ns: ZERO, end_bytes: 101, bytes: 100, count: 1, ..Net::default() });
    bench.emit(&off(5, libc::SYS_recvfrom, 600, 700));
    assert_eq!(bench.objects()[0].name, "127.0.0.1:40000 > 127.0.0.1:45000");
}

#[test]
fn a_call_is_unanswered_until_something_comes_back_or_its_listener_uses_the_connection() {
    let sent = |id: u64, direction: u32| Net {
        head: head(3, 5, 10),
        connection: id,
        first_ns: ZERO,
        end_bytes: 101,
        bytes: 100,
        count: 1,
        direction,
        ..Net::default()
    };
    let listener = Connection { end: 2, local_port: 80, remote_port: 50_000, ..connection(2_000, 43) };
    for (used, unanswered) in [(None, true), (Some((1_000, 0)), true), (Some((1_000, 1)), false), (Some((2_000, 1)), false)] {
        let mut bench = Bench::new();
        bench.thread(5, 10, 10, raw::ROLE_CLIENT, "curl");
        bench.emit(&connection(1_000, 42));
        // Establishment at the other end proves nothing: the kernel does that.
        bench.emit(&listener);
        if let Some((id, direction)) = used {
            bench.emit(&sent(id, direction));
        }
        let connections = &mut bench.translator.connections;
        assert!(connections.take_unanswered(ZERO - 1).is_empty(), "{used:?}: too early");
        let taken = connections.take_unanswered(ZERO);
        assert_eq!(
            taken.iter().map(|call| (call.id, call.remote.port())).collect::<Vec<_>>(),
            [(1_000, 80)][..unanswered.into()],
            "{used:?}"
        );
        assert!(connections.take_unanswered(ZERO).is_empty(), "{used:?}: each is given out once");
    }
}

#[test]
fn a_socket_met_by_its_inode_and_then_by_its_cookie_is_one_object() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "curl");
    bench.emit(&connection(42 | 1 << 63, 42));
    let mut receive = off(5, libc::SYS_recvfrom, 500, 505);
    receive.file[0] = FdObject { id: 42 | 1 << 63, device: 2 | 6 << 8, mode: 0o140_777, fd: 3, access: 3 };
    bench.emit(&receive);
    bench.emit(&connection(1_000, 42));
    // The caller's SYN counts as an acknowledged byte.
    bench.emit(&Net { head: head(3, 5, 510), connection: 1_000, first_ns: ZERO, end_bytes: 101, bytes: 100, count: 1, ..Net::default() });
    receive.file[0].id = 1_000;
    bench
        .emit(&Off { out_ns: ZERO + 600_000, ..Off { head: head(2, 5, 900), wake_ns: ZERO + 890_000, run_ns: ZERO + 505_000, ..receive } });
    let objects = bench.objects();
    assert_eq!((objects.len(), objects[0].name.as_str()), (1, "127.0.0.1:50000 > 127.0.0.1:80"));
    let sent = bench.spans().into_iter().find(|s| s.kind == SpanKind::NetSend).expect("sent");
    assert_eq!((sent.offset_bytes, sent.size_bytes, sent.count), (Some(0), Some(100), 1));
    assert!(bench.spans().iter().all(|s| s.object == Some(objects[0].object)));
}

#[test]
fn a_file_on_another_mount_is_named_by_where_that_is() {
    let mut bench = Bench::new();
    let mut record = bytes_of(&raw::FileHead {
        head: head(10, 0, 0),
        inode: 9,
        device: 8,
        mode: 0o100_000,
        access: raw::ACCESS_WITHIN,
        used: 8,
        size_bytes: 1,
    });
    record.extend_from_slice(b"big\0sub\0");
    bench.translator.record(&record, &mut Still);
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "cp");
    let mut fault = Off { flags: raw::OFF_FAULT_FILE, state: 2, ..off(5, -1, 500, 505) };
    fault.file[0] = FdObject { mode: 0o100_000, ..file(9) };
    bench.emit(&fault);
    assert_eq!(bench.objects()[0].name, "/data/sub/big");
}

#[test]
fn bytes_of_a_run_in_which_no_file_was_seen_stand_under_the_last_one_and_are_said_to_be_unsure() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "tar");
    let read = i32::try_from(libc::SYS_read).expect("small");
    let io = |calls: u64| Totals { read_calls: calls, read_bytes: calls << 16, ..Totals::default() };
    bench.emit(&off(5, libc::SYS_write, 50, 90));
    bench.emit(&Sample { head: head(8, 5, 150), call: read, file: [file(77), FdObject::default()], io: io(2), ..Sample::default() });
    for (calls, from_us) in [(4, 200), (6, 300)] {
        bench.emit(&Off { io: io(calls), ..off(5, libc::SYS_write, from_us, from_us + 50) });
    }
    let mut reads: Vec<_> = bench.spans().into_iter().filter(|span| span.kind == SpanKind::FileRead).collect();
    reads.sort_by_key(|span| span.start.ns());
    let [seen, unseen] = reads.as_slice() else { panic!("{reads:?}") };
    assert_eq!((seen.size_bytes, seen.result, unseen.size_bytes, unseen.result), (Some(4 << 16), Some(1 << 16), Some(2 << 16), None));
    assert_eq!(seen.object, unseen.object);
}

#[test]
fn bytes_of_a_run_in_which_two_files_were_seen_are_of_neither_for_sure() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "sum");
    let read = i32::try_from(libc::SYS_read).expect("small");
    let io = |calls: u64| Totals { read_calls: calls, read_bytes: calls << 16, ..Totals::default() };
    bench.emit(&off(5, libc::SYS_write, 50, 90));
    for (calls, inode, at_us) in [(3, 77, 100), (30, 78, 200)] {
        let file = [file(inode), FdObject::default()];
        bench.emit(&Sample { head: head(8, 5, at_us), call: read, file, io: io(calls), ..Sample::default() });
    }
    bench.emit(&Off { io: io(31), ..off(5, libc::SYS_write, 300, 350) });
    let spans = bench.spans();
    let reads: Vec<_> = spans.iter().filter(|span| span.kind == SpanKind::FileRead).collect();
    assert!(reads.iter().all(|span| span.result.is_none()) && !reads.is_empty(), "{reads:?}");
}

#[test]
fn bytes_that_waited_for_a_file_to_be_seen_may_be_others() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "tar");
    let read = i32::try_from(libc::SYS_read).expect("small");
    let io = |calls: u64| Totals { read_calls: calls, read_bytes: calls << 16, ..Totals::default() };
    bench.emit(&off(5, libc::SYS_write, 50, 90));
    bench.emit(&Off { io: io(9), ..off(5, libc::SYS_write, 150, 190) });
    for (calls, from_us) in [(10, 200), (11, 300)] {
        let file = [file(77), FdObject::default()];
        bench.emit(&Sample { head: head(8, 5, from_us), call: read, file, io: io(calls), ..Sample::default() });
        bench.emit(&Off { io: io(calls), ..off(5, libc::SYS_write, from_us + 20, from_us + 50) });
    }
    let mut reads: Vec<_> = bench.spans().into_iter().filter(|span| span.kind == SpanKind::FileRead).collect();
    reads.sort_by_key(|span| span.start.ns());
    let results: Vec<(Option<u64>, Option<i64>)> = reads.iter().map(|span| (span.size_bytes, span.result)).collect();
    assert_eq!(results, [(Some(10 << 16), None), (Some(1 << 16), Some(1 << 16))]);
}

#[test]
fn a_hundred_thousand_short_lived_threads_do_not_stay_in_memory() {
    let mut bench = Bench::new();
    for serial in 1..=100_000 {
        bench.thread(serial, serial % 30_000, serial % 30_000, raw::ROLE_CLIENT, "true");
        bench.emit(&off(serial, libc::SYS_nanosleep, 500, 505));
        bench.emit(&Exit { head: head(9, serial, 600), ..Exit::default() });
        bench.events.clear();
    }
    let [known, kept] = bench.translator.threads.len();
    assert!(known <= 20_001 && kept <= 20_002, "{known} known, and memory for {kept}");
}

#[test]
fn what_a_thread_did_that_came_back_unseen_does_not_lie_over_its_wait() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "cp");
    bench.emit(&off(5, libc::SYS_nanosleep, 150, 200));
    let io = |calls: u64| Totals { write_calls: calls, write_bytes: calls << 20, ..Totals::default() };
    let call = i32::try_from(libc::SYS_write).expect("small");
    let at = |us: u64| ZERO + us * 1_000;
    // Off the CPU from 20 to 25 ms, which is known only at the next switch: samples come before that, one per
    // millisecond of work.
    for ms in (1..20).chain(25..50) {
        let run_ns = if ms < 20 { at(200) } else { 0 };
        let files = [file(77), FdObject::default()];
        bench.emit(&Sample { head: head(8, 5, ms * 1_000), call, file: files, io: io(ms), run_ns, ..Sample::default() });
    }
    let write = |run_us: u64, out_us: u64, in_us: u64, calls: u64| Off {
        run_ns: at(run_us),
        out_ns: at(out_us),
        wake_ns: at(in_us),
        io: io(calls),
        file: [file(77), FdObject::default()],
        ..off(5, libc::SYS_write, 0, in_us)
    };
    bench.emit(&write(200, 20_000, 25_000, 20));
    bench.emit(&write(25_000, 50_000, 50_500, 80));
    let mut spans = bench.spans();
    spans.sort_by_key(|s| (s.start.ns(), s.duration_ns));
    for pair in spans.windows(2) {
        assert!(pair[0].start.ns() + i64::try_from(pair[0].duration_ns).expect("short") <= pair[1].start.ns(), "{pair:?}");
    }
    assert_eq!(spans.iter().filter_map(|s| s.size_bytes).sum::<u64>(), 80 << 20);
}

#[test]
fn bytes_of_files_wait_until_it_is_known_of_which() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "cp");
    let io = Totals { read_bytes: 1_000, read_calls: 1, ..Totals::default() };
    bench.emit(&Off { io, ..off(5, libc::SYS_nanosleep, 500, 505) });
    assert!(bench.spans().iter().all(|s| s.kind != SpanKind::FileRead), "of which file is not known yet");
    let io = Totals { read_bytes: 5_000, read_calls: 3, ..Totals::default() };
    let mut read = Off { io, head: head(2, 5, 900), run_ns: ZERO + 505_000, out_ns: ZERO + 600_000, ..off(5, libc::SYS_read, 890, 900) };
    read.file[0] = file(77);
    bench.emit(&read);
    let recorded: Vec<Span> = bench.spans().into_iter().filter(|s| s.kind == SpanKind::FileRead && s.size_bytes.is_some()).collect();
    assert_eq!((recorded.len(), recorded[0].size_bytes, recorded[0].count), (1, Some(5_000), 3));
}

#[test]
fn a_poll_is_on_what_ended_it_and_a_datagram_has_its_peer() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "curl");
    let mut address = [0_u8; 16];
    address[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 53]);
    bench.emit(&raw::Peer { head: head(13, 5, 1), inode: 9, family: 10, port: 53, flags: 0, address });
    let socket = FdObject { id: 9, device: 2 | 17 << 8, mode: raw::MODE_SOCKET, fd: 3, access: 3 };
    let pipe = FdObject { id: 8, device: 13, mode: raw::MODE_FIFO, fd: 4, access: 1 };
    let timed_out = Off { context: raw::CONTEXT_TIMER, ..off(5, libc::SYS_ppoll, 500, 505) };
    for (file, context) in [(socket, raw::CONTEXT_TASK), (socket, raw::CONTEXT_SOFTIRQ), (pipe, raw::CONTEXT_TASK)] {
        bench.emit(&Off { context, file: [file, FdObject::default()], ..timed_out });
    }
    bench.emit(&Off { file: [pipe, FdObject::default()], ..timed_out });
    let name = |span: &Span| bench.objects().into_iter().find(|o| Some(o.object) == span.object).map(|o| o.name);
    let recorded: Vec<(SpanKind, Option<String>)> = bench.spans().iter().map(|span| (span.kind, name(span))).collect();
    let resolver = Some("udp:127.0.0.53:53".to_owned());
    assert_eq!(
        recorded,
        [
            (SpanKind::WaitLock, resolver.clone()),
            (SpanKind::WaitNetwork, resolver),
            (SpanKind::WaitLock, Some("pipe:[8]".to_owned())),
            (SpanKind::WaitNetwork, Some("pipe:[8]".to_owned())),
        ]
    );
}

#[test]
fn a_pipe_says_who_was_seen_waiting_to_write_to_it() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "reader");
    bench.thread(6, 20, 20, raw::ROLE_CLIENT, "writer");
    let pipe = |access| FdObject { id: 8, device: 13, mode: raw::MODE_FIFO, fd: 1, access };
    let waits = |thread, call, access, from| Off { file: [pipe(access), FdObject::default()], ..off(thread, call, from, from + 5) };
    bench.emit(&waits(5, libc::SYS_read, 1, 500));
    let attributes = |bench: &Bench| -> Vec<_> { bench.objects().into_iter().map(|object| object.attributes).collect() };
    assert_eq!(attributes(&bench), [vec![]]);
    bench.emit(&waits(6, libc::SYS_write, 2, 600));
    bench.emit(&waits(6, libc::SYS_write, 2, 700));
    let written = vec![("written_by".to_owned(), "20".to_owned())];
    assert_eq!(attributes(&bench), [vec![], written], "said once, of the same object");
}

#[test]
fn a_thread_that_a_quota_stopped_waits_for_its_group_and_for_nobody_who_ran() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "cp");
    bench.thread(6, 11, 11, raw::ROLE_NONE, "hog");
    bench.emit(&Off { state: 0, flags: raw::OFF_QUOTA, holder: 6, ..off(5, -2, 0, 60_000) });
    let span = bench.spans()[0];
    assert_eq!((span.kind, span.waker_track), (SpanKind::WaitRunqueue, None));
    let group = bench.objects().into_iter().find(|o| Some(o.object) == span.object).expect("a group");
    assert_eq!((group.kind, group.name.as_str()), (thalweg_trace::ObjectKind::Cgroup, "/job"));
}

#[test]
fn a_life_begins_once_and_ends_where_its_end_was_seen_to_begin_if_no_more_is_recorded() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "sh");
    bench.thread(5, 10, 10, raw::ROLE_CLIENT, "true");
    bench.emit(&Exit { head: head(9, 5, 600), flags: raw::OFF_EXITING, ..Exit::default() });
    bench.translator.end(&mut Still);
    bench.events.append(&mut bench.translator.output.events);
    let marks: Vec<MarkKind> = bench.events.iter().filter_map(|e| if let Event::Mark(m) = e { Some(m.kind) } else { None }).collect();
    assert_eq!(marks, [MarkKind::ThreadStart, MarkKind::ThreadExit]);
}

/// The call in which a thread waits as in [`off`], returning at `at_us`.
fn call(serial: u32, number: libc::c_long, blocked: u32, at_us: u64) -> Call {
    Call {
        head: head(11, serial, at_us),
        start_ns: ZERO + 50_000,
        call: i32::try_from(number).expect("small"),
        count: 1,
        blocked,
        ..Call::default()
    }
}

#[test]
fn a_wait_s_call_is_recorded_also_if_its_return_is_not_seen() {
    let waits = Off { file: [file(7); 2], ..off(5, libc::SYS_read, 900, 905) };
    let calls = |file: FdObject, blocked| Call { file: [file; 2], ..call(5, libc::SYS_read, blocked, 950) };
    let cases: [(&str, Option<Call>, u64); 4] = [
        ("nothing more", None, 905),
        ("it returned", Some(calls(file(7), 1)), 950),
        ("it returned, and the descriptor is another by then", Some(calls(FdObject::default(), 1)), 950),
        ("a run before it comes late", Some(calls(file(7), 0)), 905),
    ];
    for (what, returned, until_us) in cases {
        let mut bench = Bench::of_tier(true);
        bench.thread(5, 10, 10, raw::ROLE_CLIENT, "cp");
        bench.emit(&waits);
        if let Some(returned) = &returned {
            bench.emit(returned);
        }
        bench.translator.end(&mut Still);
        bench.events.append(&mut bench.translator.output.events);
        let spans = bench.spans();
        let parent = spans.iter().find_map(|span| span.parent).expect("a wait in a call");
        let call = spans.iter().find(|span| span.span == parent).unwrap_or_else(|| panic!("{what}: {spans:?}"));
        let until = (call.kind, call.start.ns() + i64::try_from(call.duration_ns).unwrap());
        assert_eq!(until, (SpanKind::FileRead, i64::try_from(ZERO + until_us * 1_000).unwrap()), "{what}");
    }
}

#[test]
fn whose_end_has_begun_lives_as_long_as_it_wakes_others() {
    let mut bench = Bench::new();
    bench.thread(5, 10, 11, raw::ROLE_CLIENT, "pool");
    bench.thread(6, 10, 10, raw::ROLE_CLIENT, "main");
    bench.emit(&Exit { head: head(9, 5, 600), flags: raw::OFF_EXITING, ..Exit::default() });
    bench.emit(&Off { waker: 5, context: raw::CONTEXT_TASK, ..off(6, libc::SYS_futex, 900, 905) });
    bench.translator.end(&mut Still);
    bench.events.append(&mut bench.translator.output.events);
    let ends = bench.events.iter().filter_map(|e| if let Event::Mark(m) = e { Some(m) } else { None });
    let ends: Vec<i64> = ends.filter(|m| m.kind == MarkKind::ThreadExit).map(|m| m.at.ns()).collect();
    assert_eq!(ends, [i64::try_from(ZERO).unwrap() + 900_000]);
}

proptest! {
    #[test]
    fn no_record_however_wrong_ends_the_reader(kind in 0_u16..16, rest in proptest::collection::vec(any::<u8>(), 0..1_400)) {
        let mut bench = Bench::new();
        bench.thread(5, 10, 10, raw::ROLE_CLIENT, "cp");
        let mut record = kind.to_ne_bytes().to_vec();
        record.extend_from_slice(&rest);
        bench.translator.record(&record, &mut Still);
        bench.translator.record(&record, &mut Still);
        for event in &bench.translator.output.events {
            if let Event::Span(span) = event {
                prop_assert!(span.count >= 1);
            }
        }
    }
}

#[test]
fn counts_of_files_are_counters_of_their_thread_and_none_is_none() {
    let mut bench = Bench::new();
    bench.thread(5, 40, 40, raw::ROLE_CLIENT, "rm");
    bench.emit(&raw::Names { head: head(15, 5, 7), count: [30, 0, 12, 0, 1_000, 0, 0, 0, 0] });
    let track = CounterOf::Track(bench.tracks().iter().find(|t| t.tid == Some(40)).expect("its track").track);
    let found = [(track, CounterName::FileOpens, 30), (track, CounterName::FileStats, 12), (track, CounterName::FileRemoves, 1_000)];
    assert_eq!(bench.counters(), found);
}

#[test]
fn a_process_ends_with_the_status_that_a_shell_would_say() {
    let mut bench = Bench::new();
    for (serial, pid, code) in [(5, 10, 0), (6, 11, 3 << 8), (7, 12, 9)] {
        bench.thread(serial, pid, pid, raw::ROLE_CLIENT, "try");
        bench.emit(&Exit { head: head(9, serial, 600), code, ..Exit::default() });
    }
    bench.thread(8, 10, 13, raw::ROLE_CLIENT, "another thread");
    bench.emit(&Exit { head: head(9, 8, 700), code: 3 << 8, ..Exit::default() });
    let marks = bench.events.iter().filter_map(|e| if let Event::Mark(m) = e { Some(m) } else { None });
    let ends: Vec<Option<i64>> = marks.filter(|m| m.kind == MarkKind::ThreadExit).map(|m| m.value).collect();
    assert_eq!(ends, [Some(0), Some(3), Some(137), None]);
}
