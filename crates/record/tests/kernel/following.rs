//! Promises of the kernel recorder for thread lives and for processes besides the command: each thread's time is
//! divided without a gap, and local processes that the path reaches are recorded from the first request on. Each test
//! needs BPF; skipped, with a message, without it.

use crate::bounded::{Bounded, BoundedChild, LIMIT};
use crate::common::{Ran, compile, run, spans};
use crate::{PYTHON, alone};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use thalweg_trace::{MarkKind, Recording, Role, Source, Span, SpanKind, Track, TrackId};

fn record(directory: &Path, options: &[&str], words: &[&str]) -> Ran {
    let mut all = vec!["--method", "bpf"];
    all.extend_from_slice(options);
    let ran = run(directory, &all, words);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    ran
}

/// A thread's life per its marks: when it was created or first seen, whether it was created, and when it ended.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    from: Option<i64>,
    made: bool,
    until: Option<i64>,
}

fn lives(recording: &Recording) -> BTreeMap<TrackId, Life> {
    let mut lives: BTreeMap<TrackId, Life> = BTreeMap::new();
    for mark in recording.marks().expect("read") {
        let life = lives.entry(mark.track).or_default();
        let slot = match mark.kind {
            MarkKind::ThreadStart | MarkKind::ThreadSeen => &mut life.from,
            MarkKind::ThreadExit => &mut life.until,
            _ => continue,
        };
        assert!(slot.replace(mark.at.ns()).is_none(), "{mark:?} stands there twice");
        life.made |= mark.kind == MarkKind::ThreadStart;
    }
    lives
}

/// Returns a thread's time off the CPU in a span.
fn off_ns(span: &Span) -> u64 {
    let is_wait = span.cpu_ns == Some(0) && span.size_bytes.is_none();
    if is_wait { span.duration_ns } else { 0 }
}

/// Returns the recorded threads of a process.
fn threads_of(recording: &Recording, pid: u32) -> Vec<&Track> {
    let is_recorded = |track: &&Track| track.pid == Some(pid) && matches!(track.role, Role::Client | Role::Server);
    recording.tracks().iter().filter(is_recorded).collect()
}

/// All spans of a track lie within its life, whatever its role.
fn nothing_lies_outside_of_a_life(recording: &Recording) {
    let lives = lives(recording);
    for (name, span) in spans(recording) {
        let Some(life) = lives.get(&span.track) else { continue };
        let end = span.start.ns() + i64::try_from(span.duration_ns).expect("short");
        assert!(life.from.is_none_or(|from| from <= span.start.ns()), "{name}: {span:?} before {life:?}");
        assert!(life.until.is_none_or(|until| end <= until), "{name}: {span:?} after {life:?}");
    }
    for track in recording.tracks().iter().filter(|track| matches!(track.role, Role::Client | Role::Server)) {
        assert!(track.pid.is_none() || lives.get(&track.track).is_some_and(|life| life.from.is_some()), "{track:?} has no beginning");
    }
}

/// Returns what interrupts and a hypervisor have taken of all CPUs so far, which the kernel counts in ticks of 10 ms.
fn taken_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default().split_ascii_whitespace().skip(6).take(3);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10_000_000
}

#[test]
fn the_lives_of_a_thousand_threads_are_divided_without_a_hole() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(directory.path(), "lives", &[]) else { return };
    let taken = taken_ns();
    let ran = record(directory.path(), &[], &[&program.to_string_lossy(), "1000"]);
    let taken = taken_ns().saturating_sub(taken);
    let recording = ran.recording();
    let said: Vec<u64> = ran.out().split_ascii_whitespace().map(|word| word.parse().expect("a number")).collect();
    let (child, used_ns) = (u32::try_from(said[0]).expect("a process"), said[1] * 1_000);
    nothing_lies_outside_of_a_life(&recording);
    let lives = lives(&recording);
    let own: BTreeSet<TrackId> = recording.tracks().iter().filter(|track| track.pid == Some(child)).map(|track| track.track).collect();
    assert_eq!(own.len(), 1_001);
    let mut lived_ns = 0;
    for track in &own {
        let life = lives[track];
        assert!(life.made, "{track:?} was made while it was recorded");
        lived_ns += u64::try_from(life.until.expect("ended") - life.from.expect("made")).expect("in order");
    }
    let off: u64 = spans(&recording).iter().filter(|(_, span)| own.contains(&span.track)).map(|(_, span)| off_ns(span)).sum();
    let ran_ns = lived_ns - off;
    // The time taken by interrupts and a hypervisor is in one of them only.
    let difference = ran_ns.abs_diff(used_ns);
    assert!(
        difference <= used_ns / 4 + taken,
        "by its spans it ran for {ran_ns} ns, by its accounting for {used_ns} ns, and {taken} ns were taken"
    );
    assert_eq!(recording.meta().dropped_events, 0);
}

/// A program that is not a child of the command, and its first output. It ends by itself if the test is killed.
struct Stranger {
    child: Child,
    said: String,
}

impl Stranger {
    fn start(program: &str, arguments: &[&str]) -> Stranger {
        let program = format!("import signal; signal.alarm(120)\n{program}");
        let mut command = Command::new(PYTHON);
        let child = command.args(["-c", &program]).args(arguments).stdout(Stdio::piped()).spawn().expect("python");
        let mut stranger = Stranger { child, said: String::new() };
        let mut said = String::new();
        BufReader::new(stranger.child.stdout.as_mut().expect("piped")).read_line(&mut said).expect("a line");
        stranger.said = said.trim().to_owned();
        stranger
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_in_time(LIMIT);
    }
}

/// Returns the recorded total of this process's sleeps.
fn slept_ns(recording: &Recording, pid: u32) -> u64 {
    let own: BTreeSet<TrackId> = threads_of(recording, pid).iter().map(|track| track.track).collect();
    let sleeps = |span: &Span| own.contains(&span.track) && span.kind == SpanKind::WaitTimer;
    spans(recording).iter().filter(|(_, span)| sleeps(span)).map(|(_, span)| span.duration_ns).sum()
}

/// Answers each line after a pause of 50 ms, on a Unix or TCP socket; asks the next server first, if there is one.
/// The pause counts from the request to the kernel: a pause until an instant (`time.sleep`) is shorter if the thread
/// waits for a CPU before it sleeps.
const ANSWERS: &str = "
import ctypes, socket, sys, threading
pause = ctypes.CDLL(None).usleep
def at(name): return (socket.AF_UNIX, name) if name.startswith('/') else (socket.AF_INET, ('127.0.0.1', int(name)))
def serve(c):
    while (line := c.recv(100)):
        if len(sys.argv) > 2:
            family, address = at(sys.argv[2])
            n = socket.socket(family); n.connect(address); n.sendall(line); n.recv(100); n.close()
        pause(50000)
        c.sendall(line)
    c.close()
family, address = at(sys.argv[1])
s = socket.socket(family); s.bind(address); s.listen(8)
print(s.getsockname()[1] if family == socket.AF_INET else 'ready', flush=True)
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
";

/// Asks four times, one after another.
const ASKS: &str = "
import socket, sys
name = sys.argv[1]
c = socket.socket(socket.AF_UNIX if name.startswith('/') else socket.AF_INET)
c.connect(name if name.startswith('/') else ('127.0.0.1', int(name)))
for _ in range(4):
    c.sendall(b'x'); assert c.recv(1) == b'x'
";

#[test]
fn servers_are_recorded_from_the_first_request_on_however_many_tiers_there_are() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    for (last, middle) in [("0".to_owned(), "0".to_owned()), (path("last"), path("middle")), ("0".to_owned(), path("front"))] {
        let of = |stranger: &Stranger, name: &str| if name == "0" { stranger.said.clone() } else { name.to_owned() };
        let backend = Stranger::start(ANSWERS, &[&last]);
        let proxy = Stranger::start(ANSWERS, &[&middle, &of(&backend, &last)]);
        let output = tempfile::tempdir().expect("a directory");
        let recording = record(output.path(), &[], &[PYTHON, "-c", ASKS, &of(&proxy, &middle)]).recording();
        for stranger in [&backend, &proxy] {
            let threads = threads_of(&recording, stranger.pid());
            assert!(!threads.is_empty() && threads.iter().all(|track| track.role == Role::Server), "{middle}: {threads:?}");
            let slept = slept_ns(&recording, stranger.pid());
            // A pause begins a little before its thread leaves the CPU.
            assert!(slept >= 4 * 49_000_000, "{middle}: of four pauses of 50 ms, {slept} ns were recorded");
        }
        nothing_lies_outside_of_a_life(&recording);
        assert!(!recording.meta().attributes.iter().any(|(name, _)| name == "only"));
    }
}

/// Listens, with room for one caller, and never accepts.
const NEVER_ACCEPTS: &str = "
import socket, time
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(0)
print(s.getsockname()[1], flush=True)
while True: time.sleep(0.02)
";

/// Connects, sends a question, and waits for this many seconds.
const WAITS_IN_VAIN: &str = "
import socket, struct, sys
c = socket.socket()
for limit in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
    c.setsockopt(socket.SOL_SOCKET, limit, struct.pack('ll', 2, 0))
try:
    c.connect(('127.0.0.1', int(sys.argv[1]))); c.sendall(b'x'); c.recv(1); sys.exit(3)
except BlockingIOError: pass
";

#[test]
fn who_listens_and_does_not_accept_is_recorded_too() {
    let Some(_alone) = alone() else { return };
    for full in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Stranger::start(NEVER_ACCEPTS, &[]);
        let address = format!("127.0.0.1:{}", server.said);
        // With no room in its queue, not even the connection is established.
        let before = full.then(|| std::net::TcpStream::connect(&address).expect("let in"));
        let recording = record(directory.path(), &[], &[PYTHON, "-c", WAITS_IN_VAIN, &server.said]).recording();
        let threads = threads_of(&recording, server.pid());
        assert!(!threads.is_empty() && threads.iter().all(|track| track.role == Role::Server), "full: {full}: {threads:?}");
        let slept = slept_ns(&recording, server.pid());
        assert!(slept >= 200_000_000, "full: {full}: of two seconds, it slept for {slept} ns");
        let marks = recording.marks().expect("read");
        let mark = marks.iter().find(|mark| mark.kind == MarkKind::TcpNotAccepted).expect("a mark that it did not accept");
        assert_eq!(mark.track, threads[0].track);
        let called = recording.objects().iter().find(|row| Some(row.object) == mark.object).expect("an object");
        assert!(called.name.ends_with(&format!(" > {address}")), "{called:?}");
        assert!(called.attributes.contains(&("end".to_owned(), "client".to_owned())), "{called:?}");
        nothing_lies_outside_of_a_life(&recording);
        drop(before);
    }
}

#[test]
fn who_writes_what_the_command_reads_is_recorded_before_it_first_does() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status_in_time().expect("run").success());
    // Opened for both, so that no open blocks; never more than one byte ahead.
    let writes = "
import array, fcntl, os, sys, termios, time
def full():
    n = array.array('i', [0]); fcntl.ioctl(f, termios.FIONREAD, n); return n[0]
f = os.open(sys.argv[1], os.O_RDWR)
print('ready', flush=True)
for _ in range(100):
    while full(): time.sleep(0.001)
    time.sleep(0.1); os.write(f, b'x')";
    let writer = Stranger::start(writes, &[&fifo.to_string_lossy()]);
    let script = format!("exec dd if={} of=/dev/null bs=1 count=5", fifo.display());
    let recording = record(directory.path(), &[], &["sh", "-c", &script]).recording();
    let slept = slept_ns(&recording, writer.pid());
    assert!(slept >= 250_000_000, "of at least three whole sleeps of 100 ms, {slept} ns were recorded");
    nothing_lies_outside_of_a_life(&recording);
}

#[test]
fn nobody_but_the_command_is_recorded_where_that_is_asked_for() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = Stranger::start(ANSWERS, &["0"]);
    let recording = record(directory.path(), &["--only"], &[PYTHON, "-c", ASKS, &server.said]).recording();
    assert!(threads_of(&recording, server.pid()).is_empty());
    assert!(recording.meta().attributes.contains(&("only".to_owned(), "true".to_owned())));
}

#[test]
fn who_reads_the_output_or_waits_for_the_end_is_not_recorded() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let recording = record(directory.path(), &[], &["sh", "-c", "for i in 1 2 3; do echo hello; sleep 0.05; done"]).recording();
    assert!(threads_of(&recording, std::process::id()).is_empty());
    let init = threads_of(&recording, 1);
    assert!(init.is_empty(), "{init:?}");
}
