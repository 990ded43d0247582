//! Promises of the kernel recorder for real programs: every off-CPU interval has its reason, every byte is counted,
//! and each wait's waker is recorded. Each test needs BPF; skipped, with a message, without it.

use crate::bounded::{BoundedChild, LIMIT};
use crate::common::{Ran, run, spans};
use crate::{PYTHON, alone};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use thalweg_trace::{MarkKind, ObjectKind, Recording, Role, Source, Span, SpanKind, WakerContext};

/// Records with the kernel recorder; `directory` must not be in memory for waits on a disk.
fn record(directory: &Path, options: &[&str], words: &[&str]) -> Ran {
    let mut all = vec!["--method", "bpf"];
    all.extend_from_slice(options);
    let ran = run(directory, &all, words);
    assert!(ran.code().is_some(), "{}", ran.said());
    ran
}

fn python(directory: &Path, options: &[&str], program: &str, arguments: &[&str]) -> Recording {
    let mut words = vec![PYTHON, "-c", program];
    words.extend_from_slice(arguments);
    let ran = record(directory, options, &words);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    ran.recording()
}

/// Spans of the tracks with this role.
fn of_role(recording: &Recording, role: Role) -> Vec<Span> {
    let tracks: BTreeSet<_> = recording.tracks().iter().filter(|t| t.role == role).map(|t| t.track).collect();
    spans(recording).into_iter().map(|s| s.1).filter(|s| tracks.contains(&s.track)).collect()
}

fn name_of(recording: &Recording, span: &Span) -> String {
    let object = recording.objects().iter().find(|o| Some(o.object) == span.object);
    object.map_or_else(String::new, |o| o.name.clone())
}

fn waker_of(recording: &Recording, span: &Span) -> String {
    let track = recording.tracks().iter().find(|t| Some(t.track) == span.waker_track);
    track.map_or_else(String::new, |t| t.name.clone())
}

fn is_wait(span: &Span) -> bool {
    span.size_bytes.is_none() && span.cpu_ns == Some(0)
}

/// At most a thousandth of the wall time is off the CPU without a reason.
fn every_wait_has_a_reason(recording: &Recording) {
    let wall = recording.meta().end.expect("finished").since(recording.meta().start);
    let without: Vec<Span> =
        spans(recording).into_iter().map(|s| s.1).filter(|s| s.kind == SpanKind::WaitOther && s.result.is_none()).collect();
    let sum: u64 = without.iter().map(|s| s.duration_ns).sum();
    assert!(sum * 1_000 <= wall, "{sum} ns of {wall} without a reason: {without:?}");
}

/// A thread's spans do not overlap.
fn nothing_overlaps(recording: &Recording) {
    for track in recording.tracks().iter().filter(|t| t.role == Role::Client) {
        let mut own: Vec<Span> = spans(recording).into_iter().map(|s| s.1).filter(|s| s.track == track.track).collect();
        own.sort_by_key(|s| (s.start.ns(), s.duration_ns));
        for pair in own.windows(2) {
            let end = pair[0].start.plus_ns(i64::try_from(pair[0].duration_ns).expect("short"));
            assert!(end <= pair[1].start, "{}: {pair:?}", track.name);
        }
    }
}

/// Returns a directory on a disk.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn make_cold(path: &Path, bytes: usize) {
    let mut file = std::fs::File::create(path).expect("made");
    let block: Vec<u8> = (0..1 << 16).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for _ in 0..bytes / block.len() {
        file.write_all(&block).expect("written");
    }
    file.sync_all().expect("synced");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advised");
}

#[test]
fn a_cold_copy_waits_for_the_source_on_its_disk_and_every_byte_is_recorded() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let (source, sink) = (directory.path().join("source"), directory.path().join("sink"));
    make_cold(&source, 64 << 20);
    let program = "import sys\nwith open(sys.argv[1],'rb',0) as a, open(sys.argv[2],'wb',0) as b:\n  while (x:=a.read(1<<18)): b.write(x)";
    let recording = python(directory.path(), &[], program, &[&source.to_string_lossy(), &sink.to_string_lossy()]);
    let own = of_role(&recording, Role::Client);
    let bytes = |kind: SpanKind, path: &Path| -> u64 {
        own.iter().filter(|s| s.kind == kind && name_of(&recording, s) == path.to_string_lossy()).filter_map(|s| s.size_bytes).sum()
    };
    assert_eq!(bytes(SpanKind::FileWrite, &sink), 64 << 20);
    assert!((64 << 20..65 << 20).contains(&bytes(SpanKind::FileRead, &source)), "{}", bytes(SpanKind::FileRead, &source));
    let waited: Vec<&Span> = own.iter().filter(|s| s.kind == SpanKind::FileRead && is_wait(s)).collect();
    assert!(!waited.is_empty(), "the source was cold");
    let device = recording.objects().iter().find(|o| o.name == source.to_string_lossy()).expect("the source");
    let disk = device.attributes.iter().find(|(n, _)| n == "device").map(|(_, v)| v.clone()).unwrap_or_default();
    assert!(waited.iter().any(|s| waker_of(&recording, s) == disk && name_of(&recording, s) == source.to_string_lossy()), "on {disk}");
    let read: u64 =
        spans(&recording).iter().filter(|(name, s)| *name == disk && s.kind == SpanKind::DiskRead).filter_map(|s| s.1.size_bytes).sum();
    assert!(read >= 48 << 20, "{read} bytes of requests; a part may have stayed in memory");
    every_wait_has_a_reason(&recording);
    nothing_overlaps(&recording);
}

#[test]
fn who_asked_a_disk_is_known_of_each_request_recorded_or_not() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let (source, theirs) = (directory.path().join("source"), directory.path().join("theirs"));
    make_cold(&source, 16 << 20);
    make_cold(&theirs, 16 << 20);
    // It reads with O_DIRECT for a minute at most, and is killed with the recording.
    let other = "import mmap, os, sys, time\nf, b, end = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 1 << 20), time.time() + 60\n\
                 open('/proc/self/comm', 'w').write('neighbour')\nprint(flush=True)\nwhile time.time() < end: os.preadv(f, [b], 0)";
    let mut other = Command::new(PYTHON).args(["-c", other, &theirs.to_string_lossy()]).stdout(Stdio::piped()).spawn().expect("started");
    let begun = BufReader::new(other.stdout.take().expect("piped")).read_line(&mut String::new());
    let ran = record(directory.path(), &[], &["cat", &source.to_string_lossy()]);
    other.kill().and_then(|()| other.wait()).expect("ended");
    assert_eq!(begun.ok(), Some(1), "it can read past the page cache");
    assert_eq!(ran.code(), Some(0));
    let recording = ran.recording();
    let reads: Vec<Span> = spans(&recording).into_iter().map(|s| s.1).filter(|s| s.kind == SpanKind::DiskRead).collect();
    let bytes = |name: &str| -> u64 { reads.iter().filter(|s| waker_of(&recording, s) == name).filter_map(|s| s.size_bytes).sum() };
    assert!(bytes("cat") >= 12 << 20, "{} bytes of its own requests; a part may have stayed in memory", bytes("cat"));
    assert!(bytes("neighbour") >= 1 << 20, "{} bytes of the other's", bytes("neighbour"));
    let track = recording.tracks().iter().find(|t| t.name == "neighbour").expect("its track");
    assert_eq!((track.role, track.pid), (Role::None, Some(other.id())), "it is not recorded besides");
}

#[test]
fn a_sync_is_waited_for_on_the_file_and_ended_by_the_disk_or_a_kernel_thread() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let sink = directory.path().join("sink");
    let ran = record(directory.path(), &[], &["dd", "if=/dev/zero", &format!("of={}", sink.display()), "bs=1M", "count=32", "conv=fsync"]);
    assert_eq!(ran.code(), Some(0));
    let recording = ran.recording();
    let own = of_role(&recording, Role::Client);
    let synced: Vec<&Span> = own.iter().filter(|s| s.kind == SpanKind::FileSync).collect();
    assert!(!synced.is_empty());
    assert!(synced.iter().all(|s| name_of(&recording, s) == sink.to_string_lossy()));
    assert!(synced.iter().all(|s| s.waker_track.is_some() || s.waker_context == Some(WakerContext::Timer)), "{synced:?}");
    every_wait_has_a_reason(&recording);
    nothing_overlaps(&recording);
}

const SERVER: &str = "
import socket, sys, os, threading, time
s = socket.socket(socket.AF_INET6 if sys.argv[1] == '6' else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('::' if sys.argv[1] == '6' else '127.0.0.1', 0)); s.listen(512)
print(s.getsockname()[1], flush=True)
def serve(c):
    n = 0
    time.sleep(0.1)  # the client's buffer fills up, so it has to wait
    while (b := c.recv(1 << 18)): n += len(b)
    c.sendall(n.to_bytes(8, 'little')); c.close()
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
";

struct Server {
    child: Child,
    port: String,
}

impl Server {
    fn start(family: &str) -> Server {
        let mut child = Command::new(PYTHON).args(["-c", SERVER, family]).stdout(Stdio::piped()).spawn().expect("python");
        let mut port = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut port).expect("a port");
        Server { child, port: port.trim().to_owned() }
    }

    fn option(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_in_time(LIMIT);
    }
}

const CLIENT: &str = "
import socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
b = bytes(1 << 20)
for _ in range(40): c.sendall(b)
c.shutdown(socket.SHUT_WR)
assert int.from_bytes(c.recv(8), 'little') == 40 << 20
";

/// Returns the pieces of a stream, in order, as (offset, size).
fn stream(recording: &Recording, end: &str, kind: SpanKind) -> Vec<(u64, u64)> {
    let objects: BTreeSet<_> = recording
        .objects()
        .iter()
        .filter(|o| o.kind == ObjectKind::Connection && o.attributes.contains(&("end".to_owned(), end.to_owned())))
        .map(|o| o.object)
        .collect();
    let mut pieces: Vec<(u64, u64)> = spans(recording)
        .into_iter()
        .map(|s| s.1)
        .filter(|s| s.kind == kind && s.object.is_some_and(|o| objects.contains(&o)))
        .filter_map(|s| Some((s.offset_bytes?, s.size_bytes?)))
        .collect();
    pieces.sort_unstable();
    pieces
}

#[test]
fn both_ends_of_a_connection_agree_on_every_byte() {
    let Some(_alone) = alone() else { return };
    for (family, host) in [("4", "127.0.0.1"), ("6", "::1"), ("6", "127.0.0.1")] {
        let directory = on_disk();
        let server = Server::start(family);
        let recording = python(directory.path(), &["--also", &server.option()], CLIENT, &[host, &server.port]);
        for (end, kind, size) in [
            ("client", SpanKind::NetSend, 40 << 20),
            ("server", SpanKind::NetReceive, 40 << 20),
            ("server", SpanKind::NetSend, 8),
            ("client", SpanKind::NetReceive, 8),
        ] {
            let mut next = 0;
            for (offset, bytes) in stream(&recording, end, kind) {
                assert_eq!(offset, next, "{host}: {end} {kind:?}: a hole or an overlap");
                next = offset + bytes;
            }
            assert_eq!(next, size, "{host}: {end} {kind:?}");
        }
        let names: Vec<&str> = recording.objects().iter().filter(|o| o.kind == ObjectKind::Connection).map(|o| o.name.as_str()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert_eq!(names[0], names[1]);
        let written = if host == "::1" { format!("[::1]:{}", server.port) } else { format!("127.0.0.1:{}", server.port) };
        assert!(names[0].ends_with(&format!("> {written}")), "{names:?}");
        every_wait_has_a_reason(&recording);
        nothing_overlaps(&recording);
    }
}

#[test]
fn where_calls_are_traced_they_count_the_same_bytes_and_their_waits_are_theirs() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let server = Server::start("4");
    let recording = python(directory.path(), &["--tier", "syscall", "--also", &server.option()], CLIENT, &["127.0.0.1", &server.port]);
    let bytes =
        |role: Role, kind: SpanKind| of_role(&recording, role).iter().filter(|s| s.kind == kind).filter_map(|s| s.size_bytes).sum::<u64>();
    assert_eq!(bytes(Role::Client, SpanKind::NetSend), 40 << 20);
    assert_eq!(bytes(Role::Server, SpanKind::NetReceive), 40 << 20);
    let all = spans(&recording);
    let known: BTreeSet<_> = all.iter().map(|s| s.1.span).collect();
    for (track, span) in &all {
        if let Some(parent) = span.parent {
            assert!(known.contains(&parent), "{track}: {span:?} has a parent that is not there");
        }
    }
    assert!(all.iter().any(|(_, s)| s.kind == SpanKind::NetSend && s.parent.is_some()), "waits in sends");
    assert!(all.iter().any(|(_, s)| s.kind == SpanKind::FileOpen));
}

#[test]
fn a_wait_on_a_pipe_names_who_wrote() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let program = "
import os, time
a, b = os.pipe()
if os.fork() == 0:
    time.sleep(0.1); os.write(b, b'x'); os._exit(0)
os.read(a, 1); os.wait()";
    let recording = python(directory.path(), &[], program, &[]);
    let own = of_role(&recording, Role::Client);
    let longest = own.iter().filter(|s| s.kind == SpanKind::WaitLock).max_by_key(|s| s.duration_ns).expect("a wait");
    let clients: BTreeSet<_> = recording.tracks().iter().filter(|t| t.role == Role::Client).map(|t| t.track).collect();
    let waker = own.iter().filter(|s| {
        s.kind == SpanKind::WaitLock && s.duration_ns > 50_000_000 && s.waker_track.is_some_and(|t| clients.contains(&t) && t != s.track)
    });
    assert!(waker.count() >= 1, "{longest:?} {}", waker_of(&recording, longest));
    assert!(own.iter().any(|s| s.kind == SpanKind::WaitTimer && s.duration_ns >= 90_000_000), "the sleep of the child");
    every_wait_has_a_reason(&recording);
}

#[test]
fn a_wait_for_a_lock_names_the_thread_that_had_it() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let program = "
import threading, time
l = threading.Lock(); l.acquire()
def other():
    l.acquire(); l.release()
t = threading.Thread(target=other); t.start()
time.sleep(0.2); l.release(); t.join()";
    let recording = python(directory.path(), &[], program, &[]);
    let main = recording.tracks().iter().find(|t| t.role == Role::Client && t.pid == t.tid).expect("the main thread").track;
    let other: Vec<Span> =
        of_role(&recording, Role::Client).into_iter().filter(|s| s.track != main && s.kind == SpanKind::WaitLock).collect();
    assert!(other.iter().any(|s| s.duration_ns >= 150_000_000 && s.waker_track == Some(main)), "{other:?}");
}

/// Waits for another thread in futex(2) by these operations, expecting these values, one after another, each in a
/// thread of its own.
const FUTEXES: &str = "
import ctypes, sys, threading, time
libc, word = ctypes.CDLL(None), ctypes.c_uint32()
def futex(operation, value):
    words = (int(sys.argv[1]), ctypes.addressof(word), operation, value, 0, 0, 0xffffffff)
    return libc.syscall(*map(ctypes.c_long, words))
for operation, value in ((137, 2), (137, 3), (137 | 256, 2), (128, 2), (128, 0)):
    word.value = value
    t = threading.Thread(target=futex, args=(operation, value)); t.start()
    time.sleep(0.1)
    while futex(129, 1) != 1: time.sleep(0.01)
    t.join()";

#[test]
fn mutexes_of_every_library_are_distinguished_from_conditions() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let recording = python(directory.path(), &[], FUTEXES, &[&libc::SYS_futex.to_string()]);
    let threads = recording.tracks().iter().filter(|t| t.role == Role::Client && t.pid != t.tid);
    let all = spans(&recording);
    let longest =
        |track| all.iter().map(|s| &s.1).filter(|s| s.track == track && s.kind == SpanKind::WaitLock).max_by_key(|s| s.duration_ns);
    let mut waits: Vec<&Span> = threads.map(|t| longest(t.track).expect("it waited")).collect();
    waits.sort_by_key(|span| span.start);
    let name = |span: &Span| recording.objects().iter().find(|row| Some(row.object) == span.object).map_or("", |row| row.name.as_str());
    let names: Vec<&str> = waits.into_iter().map(name).collect();
    // A mutex of Rust's library, a condition, a condition of glibc's whose counter is 2, a mutex of glibc's, a thread
    // that Go parks.
    assert_eq!(names, ["mutex", "condition or semaphore", "condition or semaphore", "mutex", "futex"]);
}

#[test]
fn the_whole_tree_of_processes_is_recorded_and_each_thread_is_one_track() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let ran = record(directory.path(), &[], &["sh", "-c", "for i in $(seq 100); do (sh -c /bin/true); done; exec sleep 0.01"]);
    assert_eq!(ran.code(), Some(0));
    let recording = ran.recording();
    let clients: Vec<_> = recording.tracks().iter().filter(|t| t.role == Role::Client).collect();
    assert!(clients.len() >= 200, "{}", clients.len());
    let names: BTreeSet<&str> = clients.iter().map(|t| t.name.as_str()).collect();
    assert!(names.contains("true") && names.contains("sleep"), "{names:?}");
    assert_eq!(recording.meta().dropped_events, 0);
    every_wait_has_a_reason(&recording);
    nothing_overlaps(&recording);
}

#[test]
fn sleeping_between_fruitless_receives_is_waiting_for_that_connection() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let server = Server::start("4");
    let program = "
import socket, sys, time
c = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); c.setblocking(False)
c.send(b'x')
for _ in range(20):
    try: c.recv(10)
    except BlockingIOError: time.sleep(0.005)";
    let recording = python(directory.path(), &[], program, &[&server.port]);
    let own = of_role(&recording, Role::Client);
    let polled = own.iter().filter(|s| {
        s.kind == SpanKind::WaitNetwork
            && s.waker_context == Some(WakerContext::Timer)
            && name_of(&recording, s).ends_with(&format!(":{}", server.port))
    });
    assert!(polled.count() >= 15);
    let fruitless: u64 = own.iter().filter(|s| s.kind == SpanKind::NetReceive && s.result == Some(-11)).map(|s| u64::from(s.count)).sum();
    assert_eq!(fruitless, 20);
}

#[test]
fn a_poll_that_times_out_and_one_that_a_connection_ends_are_distinguished() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let server = Server::start("4");
    let program = "
import socket, sys, select
c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
p = select.epoll(); p.register(c, select.EPOLLIN)
p.poll(0.05)
c.shutdown(socket.SHUT_WR)
p.poll(5)";
    let recording = python(directory.path(), &[], program, &[&server.port]);
    let all = spans(&recording).into_iter().map(|s| s.1).collect::<Vec<_>>();
    assert_eq!(recording.meta().dropped_events, 0);
    let waits: Vec<Span> = of_role(&recording, Role::Client).into_iter().filter(|s| s.kind == SpanKind::WaitNetwork).collect();
    assert!(
        waits.iter().any(|s| s.object.is_none() && s.waker_context == Some(WakerContext::Timer) && s.duration_ns >= 40_000_000),
        "{waits:?} of {all:?} on {:?}",
        recording.tracks()
    );
    let ended = |s: &&Span| s.object.is_some() && s.waker_context == Some(WakerContext::Softirq);
    let own = spans(&recording).into_iter().map(|s| s.1).collect::<Vec<_>>();
    // The answer may have arrived before the second poll.
    assert!(waits.iter().any(|s| ended(&s)) || own.iter().filter(|s| s.kind == SpanKind::WaitNetwork).count() == 1, "{waits:?}");
}

#[test]
fn a_poll_or_select_of_nothing_is_a_sleep() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let program = "
import select
select.poll().poll(50)
select.select([], [], [], 0.05)";
    let recording = python(directory.path(), &[], program, &[]);
    let sleeps = of_role(&recording, Role::Client).into_iter().filter(|s| s.kind == SpanKind::WaitTimer && s.duration_ns >= 40_000_000);
    assert_eq!(sleeps.count(), 2);
}

#[test]
fn being_stopped_is_recorded_with_the_signal() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let program = "
import os, signal, time
p = os.getpid()
if os.fork() == 0:
    while open(f'/proc/{p}/stat').read().split()[2] != 'T': time.sleep(0.002)
    time.sleep(0.1); os.kill(p, signal.SIGCONT); os._exit(0)
os.kill(p, signal.SIGSTOP); os.wait()";
    let recording = python(directory.path(), &[], program, &[]);
    let stopped: Vec<Span> =
        of_role(&recording, Role::Client).into_iter().filter(|s| s.kind == SpanKind::WaitOther && s.result == Some(-19)).collect();
    assert!(stopped.iter().any(|s| s.duration_ns >= 90_000_000), "{stopped:?}");
}

#[test]
fn a_fault_on_a_mapped_file_reads_that_file() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let source = directory.path().join("mapped");
    make_cold(&source, 16 << 20);
    let program = "
import mmap, sys
f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); f.close()
print(sum(m[i] for i in range(0, len(m), 4096)))";
    let recording = python(directory.path(), &[], program, &[&source.to_string_lossy()]);
    let own = of_role(&recording, Role::Client);
    let waits = own.iter().filter(|s| s.kind == SpanKind::FileRead && is_wait(s) && name_of(&recording, s) == source.to_string_lossy());
    assert!(waits.count() >= 1);
    every_wait_has_a_reason(&recording);
}

#[test]
fn a_thousand_connections_are_a_thousand_objects_at_each_end() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    let server = Server::start("4");
    let program = "
import socket, sys, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
all = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(1000)]
for c in all: c.send(b'hello')
for c in all: c.shutdown(socket.SHUT_WR)
for c in all: assert c.recv(8)[0] == 5";
    let recording = python(directory.path(), &["--also", &server.option()], program, &[&server.port]);
    for end in ["client", "server"] {
        let attribute = ("end".to_owned(), end.to_owned());
        let objects = recording.objects().iter().filter(|o| o.kind == ObjectKind::Connection && o.attributes.contains(&attribute)).count();
        assert_eq!(objects, 1_000, "{end}");
    }
    let received: u64 = stream(&recording, "server", SpanKind::NetReceive).iter().map(|p| p.1).sum();
    assert_eq!((received, recording.meta().dropped_events), (5_000, 0));
}

/// Two processes that exchange a byte `sys.argv[1]` times.
const TO_AND_FRO: &str = "
def to_and_fro(times):
    a, b = os.pipe(); c, d = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(b)
        while os.read(a, 1): os.write(d, b'x')
        os._exit(0)
    os.close(a)
    for _ in range(times): os.write(b, b'x'); os.read(c, 1)
    os.close(b); os.waitpid(child, 0)
";

#[test]
fn many_times_what_the_ring_holds_goes_through_it_without_loss() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    // With pauses, which an unoptimised reader on a busy machine needs to keep up: the test requires that the ring
    // wraps many times.
    let program = format!("import os, sys, time{TO_AND_FRO}\nfor _ in range(250): to_and_fro(400); time.sleep(0.02)");
    let recording = python(directory.path(), &[], &program, &[]);
    let waits = of_role(&recording, Role::Client).iter().filter(|span| is_wait(span)).count();
    assert!(waits > 60_000, "{waits}");
    assert_eq!(recording.meta().dropped_events, 0);
}

#[test]
fn what_the_ring_has_no_room_for_is_counted() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    // The recorder, which is its parent, is stopped meanwhile.
    let program = format!(
        "import os, signal, sys{TO_AND_FRO}
os.kill(os.getppid(), signal.SIGSTOP)
try: to_and_fro(int(sys.argv[1]))
finally: os.kill(os.getppid(), signal.SIGCONT)"
    );
    let ran = record(directory.path(), &[], &[PYTHON, "-c", &program, "100000"]);
    let recording = ran.recording();
    let recorded: i64 = recording.marks().expect("read").iter().filter(|m| m.kind == MarkKind::Lost).filter_map(|m| m.value).sum();
    assert!(recorded > 0, "200,000 intervals of 264 bytes do not fit into the ring");
    assert!(recording.meta().dropped_events >= u64::try_from(recorded).expect("a count"));
}

/// Threads that repeatedly sleep for a millisecond, and print at the end how long each ran.
const SLEEPERS: &str = r#"
import threading, time
ran = {}
def sleep_often():
    began = time.thread_time()
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        time.sleep(0.001)
    ran[threading.get_native_id()] = time.thread_time() - began
threads = [threading.Thread(target=sleep_often) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
for tid, seconds in ran.items():
    print(tid, int(seconds * 1e9))
"#;

/// Untraced departures from a CPU (as a virtual machine's agent makes) would lose waits, and the time between two
/// others would count as running: far more than the kernel's own count.
#[test]
fn no_wait_is_missing_of_threads_that_sleep_often() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let ran = record(directory.path(), &[], &[PYTHON, "-c", SLEEPERS]);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    let recording = ran.recording();
    assert_eq!(recording.meta().dropped_events, 0);
    let all: Vec<Span> = spans(&recording).into_iter().map(|s| s.1).collect();
    let mut looked_at = 0;
    for line in ran.out().lines() {
        let Some((tid, counted_ns)) = line.split_once(' ').and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u64>().ok()?))) else {
            continue;
        };
        let track = recording.tracks().iter().find(|t| t.tid == Some(tid)).expect("a track of each thread").track;
        let own = |wait: bool| all.iter().filter(move |s| s.track == track && is_wait(s) == wait).map(|s| s.duration_ns).sum::<u64>();
        let (first, last) = all.iter().filter(|s| s.track == track).fold((u64::MAX, 0), |(first, last), s| {
            let start = s.start.ns().cast_unsigned();
            (first.min(start), last.max(start + s.duration_ns))
        });
        let running = (last - first).saturating_sub(own(true));
        println!("{tid}: {running} ns running, {counted_ns} counted");
        assert!(running < counted_ns * 2 + 150_000_000, "thread {tid}: {running} ns not in any wait, the kernel counted {counted_ns}");
        looked_at += 1;
    }
    assert_eq!(looked_at, 8, "{}", ran.said());
}

#[test]
fn a_program_with_twenty_thousand_open_files_is_recorded_as_it_runs_alone() {
    let Some(_alone) = alone() else { return };
    crate::common::record_many_descriptors(tempfile::tempdir().unwrap().path(), "bpf");
}
