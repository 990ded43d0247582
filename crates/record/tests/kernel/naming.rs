//! Promises of the kernel recorder for waits on named objects, for threads older than the recording, and for
//! configured limits. Each test needs BPF; skipped, with a message, without it.

use crate::bounded::{BoundedChild, LIMIT};
use crate::common::{run, spans};
use crate::{PYTHON, alone};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use thalweg_trace::{CounterName, CounterOf, MarkKind, Recording, Role, Source, Span, SpanKind, Track};

fn record(directory: &Path, words: &[&str]) -> Recording {
    let ran = run(directory, &["--method", "bpf"], words);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    ran.recording()
}

/// Returns waits of at least 100 ms, by object: `KIND NAME`.
fn named_waits(recording: &Recording) -> Vec<(String, Span)> {
    let object = |span: &Span| recording.objects().iter().find(|row| Some(row.object) == span.object);
    let named = |span: Span| object(&span).map(|row| (format!("{} {}", row.kind.name(), row.name), span));
    spans(recording).into_iter().map(|(_, span)| span).filter(|span| span.duration_ns >= 100_000_000).filter_map(named).collect()
}

/// Each wait is ended by a thread of the same program, after 0.2 s.
const WAITS: &str = "
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(sys.argv[1]); os.mkfifo('fifo'); os.mkfifo('never')
name = sys.argv[2].encode()
def later(what):
    def work(): time.sleep(0.2); what()
    t = threading.Thread(target=work); t.start(); return t
ends = []
t = later(lambda: ends.append(os.open('fifo', os.O_WRONLY)))
reads = os.open('fifo', os.O_RDONLY); t.join()
t = later(lambda: os.write(ends[0], b'x')); os.read(reads, 1); t.join()
class op(ctypes.Structure): _fields_ = [('number', ctypes.c_ushort), ('change', ctypes.c_short), ('flags', ctypes.c_short)]
key = 0x7a000000 + os.getpid()
identifier = libc.semget(key, 1, 0o1600)
t = later(lambda: libc.semop(identifier, ctypes.byref(op(0, 1, 0)), 1)); libc.semop(identifier, ctypes.byref(op(0, -1, 0)), 1); t.join()
libc.sem_open.restype = ctypes.c_void_p
semaphore = ctypes.c_void_p(libc.sem_open(b'/' + name, os.O_CREAT, 0o600, 0))
t = later(lambda: libc.sem_post(semaphore)); libc.sem_wait(semaphore); t.join()
queue = libc.mq_open(b'/' + name, os.O_CREAT | os.O_RDWR, 0o600, None)
if queue >= 0:
    t = later(lambda: libc.mq_send(queue, b'x', 1, 0)); libc.mq_receive(queue, ctypes.create_string_buffer(1 << 16), 1 << 16, None); t.join()
    libc.mq_unlink(b'/' + name)
print(hex(key), identifier, queue, flush=True)
threading.Thread(target=lambda: os.open('never', os.O_RDONLY), daemon=True).start()
time.sleep(0.3); libc.semctl(identifier, 0, 0); libc.sem_unlink(b'/' + name); os._exit(0)";

#[test]
fn fifos_semaphores_and_message_queues_are_waited_for_by_their_names() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().canonicalize().expect("a path");
    let name = format!("thalweg-{}", std::process::id());
    let ran = run(&path, &["--method", "bpf"], &[PYTHON, "-c", WAITS, &path.to_string_lossy(), &name]);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    let out = ran.out();
    let [key, identifier, queue] = out.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{out}") };
    let waits = named_waits(&ran.recording());
    let on = |name: &str| waits.iter().filter(|(known, span)| known == name && span.kind == SpanKind::WaitLock).count();
    let fifo = path.join("fifo").to_string_lossy().into_owned();
    assert_eq!(on(&format!("pipe {fifo}")), 2, "opened and read: {waits:#?}");
    assert_eq!(on(&format!("lock System V semaphore set {key}/{identifier}")), 1, "{waits:#?}");
    assert_eq!(on(&format!("lock semaphore /{name}")), 1, "{waits:#?}");
    if queue != "-1" {
        assert_eq!(on(&format!("lock message queue /{name}")), 1, "{waits:#?}");
    }
    assert_eq!(on(&format!("pipe {}", path.join("never").display())), 1, "until the program ends: {waits:#?}");
}

const SERVER: &str = "
import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()
print('ready', flush=True)
c, _ = s.accept()
c.recv(1); c.send(b'x'); c.recv(1)";

const CLIENT: &str = "
import socket, sys
c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); c.send(b'x'); c.recv(1)";

#[test]
fn of_a_thread_that_is_reached_it_is_known_for_how_long_it_has_slept() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket").to_string_lossy().into_owned();
    let mut server = Command::new(PYTHON).args(["-c", SERVER, &socket]).stdout(Stdio::piped()).spawn().expect("python");
    let mut ready = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.as_mut().expect("piped")), &mut ready).expect("ready");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let slept_before = std::time::Instant::now();
    let ran = run(directory.path(), &["--method", "bpf"], &[PYTHON, "-c", CLIENT, &socket]);
    let most_ns = 500_000_000 + i64::try_from(slept_before.elapsed().as_nanos()).expect("short");
    let _ = server.kill();
    server.wait_in_time(LIMIT).expect("ended");
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    let recording = ran.recording();
    let track = recording.tracks().iter().find(|track| track.pid == Some(server.id())).expect("reached").track;
    let marks = recording.marks().expect("read");
    let seen = marks.iter().find(|mark| mark.track == track && mark.kind == MarkKind::ThreadSeen).expect("seen");
    let slept_ns = seen.value.expect("asleep");
    assert!((450_000_000..=most_ns + 50_000_000).contains(&slept_ns), "{slept_ns} of {most_ns} at most");
}

#[test]
fn who_descends_from_the_command_is_recorded_from_its_beginning() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let program = "
import os, subprocess, sys, threading
def many():
    for _ in range(60):
        subprocess.run(['/bin/true'])
        subprocess.run(['/bin/true'], close_fds=False)
        if (pid := os.fork()) == 0:
            if os.fork() == 0: os.setsid()
            os._exit(0)
        os.waitpid(pid, 0)
threads = [threading.Thread(target=many) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()";
    // The test's caller may be reached: it reads what the command prints.
    let running = std::fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let before: BTreeSet<u32> = running.collect();
    let recording = record(directory.path(), &[PYTHON, "-c", program]);
    let descends = |track: &&Track| track.role == Role::Client && track.pid.is_none_or(|pid| !before.contains(&pid));
    let clients: BTreeSet<_> = recording.tracks().iter().filter(descends).map(|t| t.track).collect();
    assert!(clients.len() > 700, "{}", clients.len());
    let marks = recording.marks().expect("read");
    let seen: BTreeSet<_> =
        marks.iter().filter(|m| m.kind == MarkKind::ThreadSeen && clients.contains(&m.track)).map(|m| m.track).collect();
    let names: Vec<_> = recording.tracks().iter().filter(|t| seen.contains(&t.track)).map(|t| (&t.name, t.pid, t.tid)).collect();
    assert!(names.len() <= 1, "the command alone was there before: {names:?}");
    let again = marks.iter().filter(|m| m.kind == MarkKind::ThreadSeen);
    let begun: BTreeSet<_> = marks.iter().filter(|m| m.kind == MarkKind::ThreadStart).map(|m| m.track).collect();
    assert!(again.clone().all(|mark| !begun.contains(&mark.track)), "nobody is seen after it was made");
}

#[test]
fn threads_that_may_use_fewer_processors_than_there_are_say_how_many() {
    let Some(_alone) = alone() else { return };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return println!("SKIPPED: there is one processor");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let program = "
import os, subprocess
subprocess.run(['/bin/sleep', '0.05'])
os.sched_setaffinity(0, {0})
subprocess.run(['/bin/sleep', '0.05'])";
    let recording = record(directory.path(), &[PYTHON, "-c", program]);
    let mut limited = BTreeSet::new();
    for counter in recording.counters(CounterName::CpuAllowed).expect("read") {
        assert_eq!(counter.value, 1);
        if let CounterOf::Track(track) = counter.of {
            limited.insert(track);
        }
    }
    let names: Vec<&str> = recording.tracks().iter().filter(|t| limited.contains(&t.track)).map(|t| t.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "sleep").count(), 1, "the second alone: {names:?}");
    assert!(names.len() >= 2, "and who made it: {names:?}");
}

/// A control group, removed with the test.
struct Group(PathBuf);

impl Group {
    fn make(controller: &str, limit: &str, value: &str) -> Option<Group> {
        let group = Path::new("/sys/fs/cgroup").join(controller).join(format!("thalweg-test-{}", std::process::id()));
        let made = std::fs::create_dir(&group).and_then(|()| std::fs::write(group.join(limit), value));
        if let Err(error) = made {
            let _ = std::fs::remove_dir(&group);
            println!("SKIPPED: {} cannot be created: {error}", group.join(limit).display());
            return None;
        }
        Some(Group(group))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn limits_of_control_groups_are_recorded_with_what_of_them_was_used() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let data = directory.path().join("data");
    std::fs::write(&data, vec![7; 48 << 20]).expect("written");
    std::fs::File::open(&data).and_then(|file| file.sync_all()).expect("synced");
    let Some(group) = Group::make("memory", "memory.limit_in_bytes", "16777216").or_else(|| Group::make("", "memory.max", "16777216"))
    else {
        return;
    };
    let program = "echo $$ > \"$1/cgroup.procs\"; sleep 0.3; cat \"$2\" \"$2\" > /dev/null; sleep 0.1";
    let words = ["sh", "-c", program, "sh", &group.0.to_string_lossy(), &data.to_string_lossy()];
    rustix::fs::fadvise(std::fs::File::open(&data).expect("opened"), 0, None, rustix::fs::Advice::DontNeed).expect("advised");
    let recording = record(directory.path(), &words);
    let name = format!("/{}", group.0.file_name().expect("a name").to_string_lossy());
    let attribute = |what: &str| {
        let wanted = format!("cgroup.memory.{what}.{name}");
        recording.meta().attributes.iter().find(|(known, _)| *known == wanted).and_then(|(_, value)| value.parse::<u64>().ok())
    };
    assert_eq!(attribute("limit"), Some(16_777_216), "{:?}", recording.meta().attributes);
    assert!(attribute("reached").is_some_and(|times| times > 0), "{:?}", recording.meta().attributes);
}
