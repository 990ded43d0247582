//! Copies that are tuned while they run: the bytes are the same, flags given are kept, and attempts are listed.

use crate::bounded::{BoundedChild, LIMIT};
use crate::common::{CREDENTIAL, CommandOutput, Up, content, file, run, scratch, text, thalweg, wait_until};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Returns the command with a separate history, and so without the credentials of the user who started the store.
fn tuned(store: &Up, state: &Path, arguments: &[&str]) -> Command {
    let mut command = thalweg(arguments);
    command.env("XDG_STATE_HOME", state).env(CREDENTIAL, store.credential()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(child: Child) -> CommandOutput {
    let output = child.output_in_time().expect("it ends");
    output.into()
}

/// Returns the number of a process's threads with this name prefix.
fn threads(process: u32, name: &str) -> usize {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else { return 0 };
    let named = |task: &std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.starts_with(name));
    tasks.flatten().filter(named).count()
}

/// Copies from a pipe with a slow writer, so that connections are idle, until the tuner has increased the requests or, if `decided`, has
/// decided on that; returns the output, and all that was written.
fn piped(store: &Up, state: &Path, arguments: &[&str], decided: bool) -> (CommandOutput, Vec<u8>) {
    let mut child = tuned(store, state, arguments).stdin(Stdio::piped()).spawn().expect("the command starts");
    let (mut pipe, process) = (child.stdin.take().expect("it is piped"), child.id());
    let enough = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (piece, mut written) = (content(3, 64 << 10), Vec::new());
            while !enough.load(Ordering::SeqCst) && pipe.write_all(&piece).is_ok() {
                written.extend_from_slice(&piece);
                // Slows the writer.
                std::thread::sleep(Duration::from_millis(2));
            }
            drop(pipe);
            written
        });
        // Two requests are in flight initially.
        let requests = || threads(process, "request");
        wait_until("there are more requests in flight", || requests() > 2);
        if decided {
            // Another attempt follows, so the first one was kept or reverted.
            wait_until("they are as before, or more still", || requests() <= 2 || requests() > 4);
            wait_until("there are more again", || requests() > 2);
        }
        enough.store(true, Ordering::SeqCst);
        writer.join().expect("the writer ends")
    });
    (said(child).done(), written)
}

fn copied_out(store: &Up, name: &str, here: &Path) -> Vec<u8> {
    let out = here.join("out");
    run(["cp", "--quiet", "--force", &store.path(name), text(&out)]).done();
    std::fs::read(out).unwrap()
}

#[test]
fn what_was_tried_while_a_copy_ran_is_in_its_document_and_the_bytes_are_the_same() {
    let (store, here) = (Up::start(2), scratch());
    let (said, written) = piped(&store, here.path(), &["cp", "--tune", "--json", "-", &store.path("/piped")], false);
    let tuning = &said.json()["tuning"];
    let steps = tuning["steps"].as_array().expect("steps");
    assert!(!steps.is_empty(), "{}", said.out);
    assert_eq!((&steps[0]["parameter"], &steps[0]["from"], &steps[0]["to"]), (&"requests".into(), &2.into(), &4.into()), "{}", said.out);
    assert!(steps.iter().all(|step| step["why"].as_str().is_some_and(|why| !why.is_empty())), "{}", said.out);
    assert!(tuning["values"]["streams"].as_u64().is_some_and(|streams| streams >= 1), "{}", said.out);
    assert!(copied_out(&store, "/piped", here.path()) == written);
}

#[test]
fn a_person_gets_a_table_and_a_recording_has_the_story() {
    let (store, here) = (Up::start(1), scratch());
    let recording = here.path().join("tuned.thw");
    let (said, written) = piped(&store, here.path(), &["cp", "--tune", "--record", text(&recording), "-", &store.path("/piped")], true);
    assert!(said.err.contains("from > to") && said.err.contains("requests") && said.err.contains("2 > 4"), "{}", said.err);
    assert!(said.err.contains("at the end: "), "{}", said.err);
    assert!(copied_out(&store, "/piped", here.path()) == written);
    let explained = run(["explain", text(&recording)]).done().out;
    assert!(explained.contains("tuned while it ran: "), "{explained}");
    assert!(explained.lines().count() <= 15 && explained.lines().all(|line| line.chars().count() <= 80), "{explained}");
}

#[test]
fn what_is_given_as_a_flag_is_not_turned() {
    let (store, here) = (Up::start(2), scratch());
    let bytes = content(5, 9_000_001);
    let source = file(here.path(), "source", &bytes);
    let flags = ["--requests", "3", "--depth", "2", "--streams", "2", "--buffer", "100000"];
    let target = store.path("/given");
    let arguments = [&["cp", "--tune", "--json"][..], &flags, &[text(&source), &target]].concat();
    let document = said(tuned(&store, here.path(), &arguments).spawn().unwrap()).done().json();
    assert_eq!(document["tuning"]["values"], serde_json::json!({}), "{document}");
    let flow = &document["flow"];
    assert_eq!((&flow["requests"], &flow["depth"], &flow["streams"]), (&3.into(), &2.into(), &2.into()), "{document}");
    assert!(copied_out(&store, "/given", here.path()) == bytes);
}

#[test]
fn a_copy_too_short_to_tune_a_tree_and_a_damaged_history_are_no_failure() {
    let (store, here) = (Up::start(2), scratch());
    let tree = here.path().join("tree");
    std::fs::create_dir_all(tree.join("deep")).unwrap();
    file(&tree, "small", &content(1, 5_000));
    file(&tree.join("deep"), "large", &content(2, 3_000_000));
    std::fs::create_dir_all(here.path().join("thalweg")).unwrap();
    for (name, damaged) in [("one", ""), ("two", "{\"schema\": 7}")] {
        std::fs::write(here.path().join("thalweg/tuned.json"), damaged).unwrap();
        let target = store.path(&format!("/{name}"));
        let said = said(tuned(&store, here.path(), &["cp", "-r", "--tune", text(&tree), &target]).spawn().unwrap()).done();
        assert!(said.err.contains("tuned.json") && said.err.contains("it is ignored"), "{}", said.err);
        assert!(said.err.contains("tuned: nothing was tried"), "{}", said.err);
        let out = here.path().join(name);
        run(["cp", "-r", "--quiet", &target, text(&out)]).done();
        assert!(std::fs::read(out.join("deep/large")).unwrap() == content(2, 3_000_000));
    }
}

#[test]
fn a_tuned_copy_that_is_interrupted_leaves_nothing() {
    let (store, here) = (Up::start(1), scratch());
    let mut child = tuned(&store, here.path(), &["cp", "--tune", "-", &store.path("/never")]).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().expect("it is piped");
    pipe.write_all(&content(4, 30 << 20)).unwrap();
    // SAFETY: kill has no memory effects; the child has not been waited for, so the id is still its own.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
    let mut err = String::new();
    let mut stderr = child.stderr.take().expect("it is piped");
    let ended = child.wait_in_time(LIMIT).expect("it ends");
    stderr.read_to_string(&mut err).unwrap();
    assert!(!ended.success() && err.contains("interrupted"), "{err}");
    assert!(run(["ls", &store.path("/")]).done().out.is_empty());
}
