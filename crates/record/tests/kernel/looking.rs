//! Promises of the kernel recorder for polling programs: what they polled for is recorded, and why it was missing.
//! Each test needs BPF; skipped, with a message, without it.

use crate::common::{run, spans};
use crate::{PYTHON, alone};
use std::collections::BTreeMap;
use std::path::Path;
use thalweg_trace::{Recording, Source, SpanKind};

fn record(directory: &Path, words: &[&str]) -> Recording {
    let ran = run(directory, &["--method", "bpf"], words);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    ran.recording()
}

/// Whether other activity on the machine made so many calls that polling calls were recorded for part of the time
/// only; prints so.
fn is_too_busy(recording: &Recording) -> bool {
    let in_part = recording.meta().attributes.iter().any(|(name, value)| name == "looks.in_part" && value == "true");
    if in_part {
        println!("SKIPPED: other programs make too many calls for all looks to be recorded");
    }
    in_part
}

/// Returns how often something was polled in vain: by kind, object and result.
fn looks(recording: &Recording) -> BTreeMap<(String, String, i64), usize> {
    let mut found = BTreeMap::new();
    for (_, span) in spans(recording).iter().filter(|(_, span)| span.duration_ns == 0 && span.cpu_ns.is_none()) {
        let object = recording.objects().iter().find(|row| Some(row.object) == span.object);
        let name = object.map_or_else(String::new, |row| format!("{} {}", row.kind.name(), row.name));
        if let Some(result) = span.result {
            *found.entry((span.kind.name().to_owned(), name, result)).or_default() += 1;
        }
    }
    found
}

/// Polls thirty times for something that never appears, and then for the next.
const LOOKS: &str = "
import errno, fcntl, os, socket, subprocess, sys, time
os.chdir(sys.argv[1])
os.mkdir('taken'); open('locked', 'w').close()
holder = open('locked'); fcntl.flock(holder, fcntl.LOCK_EX)
own = open('locked')
child = subprocess.Popen(['sleep', '600'])
unix = os.path.abspath('socket')
def connect(family, address):
    with socket.socket(family) as s: s.connect(address)
for look in (
    lambda: os.stat('missing'),
    lambda: open(os.path.join(sys.argv[1], 'below', 'absent')),
    lambda: os.mkdir('taken'),
    lambda: os.open('locked', os.O_CREAT | os.O_EXCL | os.O_WRONLY),
    lambda: fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB),
    lambda: connect(socket.AF_UNIX, unix),
    lambda: connect(socket.AF_INET, ('127.0.0.1', 1)),
    lambda: child.poll(),
):
    for _ in range(30):
        try: look()
        except OSError: pass
        time.sleep(0.02)
child.kill(); child.wait()";

#[test]
fn what_a_program_looks_for_between_its_sleeps_is_recorded_with_the_reason() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().canonicalize().expect("a path");
    let recording = record(&path, &[PYTHON, "-c", LOOKS, &path.to_string_lossy()]);
    if is_too_busy(&recording) {
        return;
    }
    let looks = looks(&recording);
    let at = |name: &str| path.join(name).to_string_lossy().into_owned();
    for (kind, object, error) in [
        (SpanKind::FileStat, format!("file {}", at("missing")), libc::ENOENT),
        (SpanKind::FileOpen, format!("file {}", at("below/absent")), libc::ENOENT),
        (SpanKind::FileOther, format!("file {}", at("taken")), libc::EEXIST),
        (SpanKind::FileOpen, format!("file {}", at("locked")), libc::EEXIST),
        (SpanKind::WaitLock, format!("lock flock {}", at("locked")), libc::EAGAIN),
        (SpanKind::NetConnect, format!("socket unix:{}", at("socket")), libc::ENOENT),
    ] {
        let key = (kind.name().to_owned(), object, -i64::from(error));
        let times = looks.get(&key).copied().unwrap_or(0);
        // (On a busy machine other programs' calls are so many that polling calls are recorded for part of the time
        // only.)
        assert!((3..=30).contains(&times), "{key:?}: {times} of {looks:#?}");
    }
    let refused = |key: &(String, String, i64)| {
        key.0 == "net.connect" && key.1.ends_with(" > 127.0.0.1:1") && key.2 == -i64::from(libc::ECONNREFUSED)
    };
    assert_eq!(looks.iter().filter(|(key, _)| refused(key)).map(|(_, times)| times).sum::<usize>(), 30, "{looks:#?}");
    let child =
        |key: &(String, String, i64)| key.0 == "wait.lock" && key.1.starts_with("process child ") && key.2 == -i64::from(libc::EAGAIN);
    assert!(looks.iter().any(|(key, times)| child(key) && *times >= 3), "{looks:#?}");
}

#[test]
fn a_lock_that_was_got_at_last_is_recorded_as_got() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let lock = directory.path().canonicalize().expect("a path").join("lock");
    let program = "
import fcntl, sys, time
holder, own = open(sys.argv[1], 'w'), open(sys.argv[1])
fcntl.flock(holder, fcntl.LOCK_EX)
for n in range(30):
    fcntl.flock(holder, fcntl.LOCK_UN if n == 29 else fcntl.LOCK_EX)
    try: fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: pass
    time.sleep(0.02)";
    let recording = record(directory.path(), &[PYTHON, "-c", program, &lock.to_string_lossy()]);
    if is_too_busy(&recording) {
        return;
    }
    let looks = looks(&recording);
    let of = |result: i64| looks.get(&("wait.lock".to_owned(), format!("lock flock {}", lock.display()), result)).copied().unwrap_or(0);
    assert!(of(-i64::from(libc::EAGAIN)) >= 3, "{looks:#?}");
    assert!(of(0) >= 1, "got at last: {looks:#?}");
}

#[test]
fn a_shells_loop_of_sleeps_says_which_file_it_looked_for_and_when_that_was_there() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let ready = directory.path().canonicalize().expect("a path").join("ready");
    let program = "(sleep 1.5; : > \"$1\") & while ! ls \"$1\" 2>/dev/null; do sleep 0.06; done";
    let recording = record(directory.path(), &["sh", "-c", program, "sh", &ready.to_string_lossy()]);
    if is_too_busy(&recording) {
        return;
    }
    let looks = looks(&recording);
    let of = |error: i64| {
        looks
            .iter()
            .filter(|((_, object, result), _)| *object == format!("file {}", ready.display()) && *result == error)
            .map(|(_, times)| times)
            .sum::<usize>()
    };
    assert!(of(-i64::from(libc::ENOENT)) >= 3, "{looks:#?}");
    assert!(of(0) >= 1, "found at last: {looks:#?}");
}

#[test]
fn a_program_that_does_not_pause_is_not_asked_about_its_failed_calls() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let program = "
import os
for i in range(100000):
    try: os.stat('/nowhere')
    except OSError: pass";
    let recording = record(directory.path(), &[PYTHON, "-c", program]);
    assert!(recording.meta().attributes.iter().all(|(name, _)| name != "looks.recorded_ns"), "{:?}", recording.meta().attributes);
    assert!(looks(&recording).is_empty());
}

#[test]
fn many_calls_beside_a_pausing_thread_end_the_record_of_looks() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let program = "
import os, threading, time
def pace():
    for _ in range(40): time.sleep(0.05)
t = threading.Thread(target=pace); t.start()
while t.is_alive():
    for _ in range(1000): os.getppid()";
    let recording = record(directory.path(), &[PYTHON, "-c", program]);
    let attribute = |name: &str| recording.meta().attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
    assert_eq!(attribute("looks.in_part").as_deref(), Some("true"));
    let recorded_ns: u64 = attribute("looks.recorded_ns").and_then(|value| value.parse().ok()).expect("a time");
    assert!(recorded_ns < 1_000_000_000, "{recorded_ns} of 2 s");
}
