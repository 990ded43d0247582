//! Ctrl-C and kills at any time leave a complete file, a `.partial`, or nothing, but never a short file under the requested name.

use crate::common::{Running, Up, content, file, run, scratch, text, thalweg};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const SIZE: usize = 16 << 20;

/// Returns times spread over a copy and a little beyond, given the duration of a whole copy on this machine.
fn moments(whole: Duration, many: u32) -> impl Iterator<Item = Duration> {
    (0..many).map(move |i| whole.mul_f64(1.2) * i / many)
}

fn signalled_after(arguments: &[&str], after: Duration, signal: i32) -> Option<i32> {
    let mut command = thalweg(arguments);
    command.stderr(Stdio::null());
    let mut copy = Running::start(command);
    // The time itself is the subject of the test.
    std::thread::sleep(after);
    copy.signal(signal);
    copy.wait()
}

#[track_caller]
fn whole_or_partial_or_nothing_in(store: &Up, code: Option<i32>, signal: i32) {
    let listed = run(["ls", "-l", "--json", &store.path("/")]).done().json();
    for entry in listed["entries"].as_array().unwrap() {
        match entry["name"].as_str().unwrap() {
            "f" => assert_eq!(entry["size_bytes"], SIZE, "taken for whole, and is not"),
            name => {
                assert_eq!(name, "f.partial");
                assert_eq!(signal, libc::SIGKILL, "a clean end leaves nothing behind: {listed}");
            }
        }
    }
    let made = listed["entries"].as_array().unwrap().iter().any(|e| e["name"] == "f");
    match code {
        Some(0) => assert!(made, "it said that it was done"),
        Some(130) | None => {}
        other => panic!("exit code {other:?}"),
    }
}

#[test]
fn a_copy_in_can_be_stopped_at_any_moment() {
    let store = Up::start(4);
    let here = scratch();
    let source = file(here.path(), "source", &content(1, SIZE));
    let target = store.path("/f");
    let begun = std::time::Instant::now();
    run(["cp", "--quiet", text(&source), &target]).done();
    let whole = begun.elapsed();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        for after in moments(whole, 8) {
            run(["rm", "-f", &target, &store.path("/f.partial")]).done();
            let code = signalled_after(&["cp", "--quiet", text(&source), &target], after, signal);
            whole_or_partial_or_nothing_in(&store, code, signal);
        }
    }
    // Leftovers of a kill do not prevent the next copy.
    run(["cp", "--quiet", "--force", text(&source), &target]).done();
}

#[track_caller]
fn whole_or_partial_or_nothing_at(directory: &Path, signal: i32) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        match entry.file_name().to_str().unwrap() {
            "out" => assert_eq!(entry.metadata().unwrap().len(), SIZE as u64, "taken for whole, and is not"),
            name => {
                assert!(name.ends_with(".partial"), "{name}");
                assert_eq!(signal, libc::SIGKILL, "a clean end leaves nothing behind");
            }
        }
    }
}

#[test]
fn a_copy_out_can_be_stopped_at_any_moment() {
    let store = Up::start(4);
    let from = store.path("/f");
    run(["cp", "--quiet", "--source", &format!("memory:{SIZE}"), &from]).done();
    let here = scratch();
    let target = here.path().join("out");
    let begun = std::time::Instant::now();
    run(["cp", "--quiet", &from, text(&target)]).done();
    let whole = begun.elapsed();
    for signal in [libc::SIGINT, libc::SIGKILL] {
        for after in moments(whole, 8) {
            for entry in std::fs::read_dir(here.path()).unwrap().flatten() {
                std::fs::remove_file(entry.path()).unwrap();
            }
            signalled_after(&["cp", "--quiet", &from, text(&target)], after, signal);
            whole_or_partial_or_nothing_at(here.path(), signal);
        }
    }
    run(["cp", "--quiet", "--force", &from, text(&target)]).done();
    assert_eq!(std::fs::metadata(&target).unwrap().len(), SIZE as u64);
}

#[test]
fn a_copy_that_waits_for_its_pipe_can_be_stopped() {
    let store = Up::start(2);
    let mut command = thalweg(["cp", "--quiet", "-", &store.path("/f")]);
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut copy = Running::start(command);
    let input = copy.child().stdin.take();
    crate::common::wait_until("the copy has begun", || run(["ls", &store.path("/")]).done().out.contains("f.partial") || !copy.runs());
    copy.signal(libc::SIGINT);
    assert_eq!(copy.wait(), Some(130));
    drop(input);
    assert_eq!(run(["ls", &store.path("/")]).done().out, "");
}

#[test]
fn a_store_ends_when_it_is_asked_to_while_copies_run() {
    let mut store = Up::start(4);
    let mut command = thalweg(["cp", "--quiet", "-", &store.path("/f")]);
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut copy = Running::start(command);
    crate::common::wait_until("the copy has begun", || run(["ls", &store.path("/")]).done().out.contains("f.partial"));
    store.process.signal(libc::SIGTERM);
    assert_eq!(store.process.wait(), Some(0));
    drop(copy.child().stdin.take());
    assert_eq!(copy.wait(), Some(1));
}
