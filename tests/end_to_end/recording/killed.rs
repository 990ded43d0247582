//! Killed recorders: what they had recorded is in the recording, which can be opened.

use crate::bounded::{BoundedChild, LIMIT};
use crate::common::{run, scratch, text, thalweg, wait_until};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Kills a recorder, and ends what it recorded.
fn kill(recorder: &mut Child, command: Option<i32>) {
    recorder.kill().unwrap();
    recorder.wait_in_time(LIMIT).unwrap();
    if let Some(pid) = command.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

/// Returns the names of the threads in a recording.
fn threads(recording: &Path, to: &Path) -> Vec<String> {
    run(["export", text(recording), "--to", "csv", "-o", text(to)]).done();
    let table = std::fs::read_to_string(to.join("tracks.csv")).unwrap();
    table.lines().skip(1).filter(|line| line.contains(",thread,")).map(str::to_owned).collect()
}

#[test]
fn a_recording_that_is_killed_at_any_moment_has_the_threads_that_were_seen_by_then() {
    let here = scratch();
    for (n, pause_ms) in [0, 1, 3, 10, 30, 100, 300].into_iter().enumerate() {
        let (recording, started) = (here.path().join(format!("{n}.thw")), here.path().join(format!("{n}.started")));
        // In a separate process group, so that it can be ended without its recorder.
        let script = format!("echo $$ > {0}.new; mv {0}.new {0}; sleep 30 & wait", text(&started));
        let mut command = thalweg(["record", "--method", "proc", "-o", text(&recording), "--", "setsid", "-w", "sh", "-c", &script]);
        let mut recorder = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the command runs", || started.exists());
        std::thread::sleep(Duration::from_millis(pause_ms));
        kill(&mut recorder, std::fs::read_to_string(&started).unwrap().trim().parse().ok());
        let seen = threads(&recording, &here.path().join(format!("{n}.csv")));
        assert!(!seen.is_empty(), "killed {pause_ms} ms after the command began");
        if pause_ms >= 300 {
            assert!(seen.iter().any(|line| line.contains("sleep")), "{seen:?}");
        }
    }
}

#[test]
fn a_recorder_that_is_killed_as_it_begins_has_the_threads_of_what_it_was_to_record() {
    let here = scratch();
    // The process to record runs already: its threads are the first rows after the machine's.
    let mut asleep = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = format!("{}", asleep.id());
    for n in 0..8 {
        let recording = here.path().join(format!("{n}.thw"));
        let mut command = thalweg(["record", "--method", "proc", "--also", &pid, "--for", "30s", "-o", text(&recording)]);
        let mut recorder = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let segment = recording.join("segments/00000000.segment");
        // A header of 16 bytes, and two frames: that of the machine, and that of the threads.
        let frames = || std::fs::read(&segment).map_or(0, |bytes| frames(&bytes));
        wait_until("two frames are written", || frames() >= 2);
        kill(&mut recorder, None);
        let seen = threads(&recording, &here.path().join(format!("{n}.csv")));
        assert!(seen.iter().any(|line| line.contains("sleep")), "{seen:?}");
    }
    asleep.kill().unwrap();
    asleep.wait_in_time(LIMIT).unwrap();
}

/// Returns the number of whole frames of a segment.
fn frames(bytes: &[u8]) -> usize {
    let (mut at, mut frames) = (16, 0);
    while let Some(length) = bytes.get(at..at + 4) {
        at += 12 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
        frames += usize::from(at <= bytes.len());
    }
    frames
}
