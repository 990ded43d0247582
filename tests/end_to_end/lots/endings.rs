//! The end of a lot: by its time, or with a process.

use super::{lot, show, used};
use crate::bounded::{Bounded, BoundedChild, LIMIT};
use crate::common::{CommandOutput, Mounted, Servers, THALWEG, Up, can_mount, file, run, scratch, text, thalweg, wait_until};
use std::process::{Command, Stdio};

#[test]
fn a_lot_whose_time_is_over_keeps_its_files_and_takes_more_with_a_note() {
    let (store, here) = (Up::start(1), scratch());
    lot(&store, &["create", "run", "--size", "4Mi", "--for", "2s"]).done();
    let source = file(here.path(), "f", &[7; 100_000]);
    run(["cp", "-q", "--lot", "run", text(&source), &store.path("/f")]).done();
    wait_until("its time is over", || lot(&store, &["show", "run"]).code == Some(4));
    let said = run(["cp", "-q", "--lot", "run", text(&source), &store.path("/g")]).done();
    assert!(said.err.contains("lot `run` expired at 20") && said.err.contains("lot renew run"), "{}", said.err);
    assert_eq!(run(["ls", &store.path("/")]).done().out, "f\ng\n");
    assert_eq!(show(&store, "run")["promised_bytes"], 0);
    lot(&store, &["renew", "run", "--for", "2h"]).done();
    lot(&store, &["show", "run"]).done();
    assert!(used(&store, "run") >= 200_000);
}

#[test]
fn a_lot_ends_with_a_process_and_what_was_staged_stays() {
    let (store, here) = (Up::start(1), scratch());
    let mut job = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let document =
        lot(&store, &["create", "run", "--size", "4Mi", "--for", "2h", "--json", "--while", &job.id().to_string()]).done().json();
    let watcher = document["watcher"].as_u64().expect("the process that watches");
    let runs = || std::fs::read_to_string(format!("/proc/{watcher}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(runs());
    let source = file(here.path(), "f", &[7; 100_000]);
    run(["cp", "-q", "--lot", "run", text(&source), &store.path("/f")]).done();
    lot(&store, &["show", "run"]).done();
    drop(job.stdin.take());
    job.wait_in_time(LIMIT).unwrap();
    wait_until("the lot is over", || lot(&store, &["show", "run"]).code == Some(4));
    wait_until("the watcher has ended", || !runs());
    assert_eq!(run(["ls", &store.path("/")]).done().out, "f\n");
}

#[test]
fn a_watcher_holds_no_lock_that_its_caller_holds() {
    let (store, here) = (Up::start(1), scratch());
    let mut job = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let lock = here.path().join("lock");
    let script = r#"exec 9>"$0"; exec "$@""#;
    let mut create = Command::new("sh");
    create.args(["-c", script, text(&lock), THALWEG, "lot", "create", "run", "--size", "1Mi", "--for", "2h", "--json"]);
    create.args(["--store", &store.address, "--while", &job.id().to_string()]);
    let said: CommandOutput = create.output_in_time().unwrap().into();
    let watcher = said.done().json()["watcher"].as_u64().unwrap();
    let holds = std::fs::read_dir(format!("/proc/{watcher}/fd"))
        .unwrap()
        .flatten()
        .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|of| of == lock));
    drop(job.stdin.take());
    job.wait_in_time(LIMIT).unwrap();
    assert!(!holds);
    wait_until("the lot is over", || lot(&store, &["show", "run"]).code == Some(4));
}

/// Answers like a scheduler, with a job that runs for as long as a file exists.
const SQUEUE: &str = r#"#!/bin/sh
test "$*" = "-h -j 7" || exit 9
test -e "$RUNS" && echo "7 batch work ana R 0:01 1 n1" || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
"#;

#[test]
fn a_lot_ends_with_a_job_and_is_not_made_for_one_that_has_ended() {
    let (store, here) = (Up::start(1), scratch());
    let squeue = file(here.path(), "squeue", SQUEUE.as_bytes());
    std::fs::set_permissions(&squeue, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let runs = file(here.path(), "runs", b"");
    let path = format!("{}:{}", text(here.path()), std::env::var("PATH").unwrap());
    let create = |name: &str| -> CommandOutput {
        let arguments = ["lot", "create", name, "--size", "1Mi", "--for", "2h", "--job", "7", "--store", &store.address];
        thalweg(arguments).env("PATH", &path).env("RUNS", &runs).output_in_time().unwrap().into()
    };
    assert!(create("run").done().out.contains(" expires it with job 7\n"));
    lot(&store, &["show", "run"]).done();
    std::fs::remove_file(&runs).unwrap();
    wait_until("the lot is over", || lot(&store, &["show", "run"]).code == Some(4));
    create("late").failed(1, &["--job 7", "no such job, or it has ended"]);
    lot(&store, &["show", "late"]).failed(1, &["late"]);
}

#[test]
fn a_watcher_ends_no_other_lot_of_the_same_name() {
    let store = Up::start(1);
    let mut job = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let create = ["create", "run", "--size", "1Mi", "--for", "2h", "--json"];
    let document = lot(&store, &[&create[..], &["--while", &job.id().to_string()]].concat()).done().json();
    let watcher = document["watcher"].as_u64().unwrap();
    lot(&store, &["rm", "run"]).done();
    lot(&store, &create).done();
    drop(job.stdin.take());
    job.wait_in_time(LIMIT).unwrap();
    wait_until("the watcher has ended", || {
        !std::fs::read_to_string(format!("/proc/{watcher}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    });
    lot(&store, &["show", "run"]).done();
}

#[test]
fn expired_lots_with_open_files_survive_a_killed_service_however_idle_the_programs_are() {
    if !can_mount() {
        return;
    }
    let (mut store, here) = (Servers::start(1), scratch());
    let toml = text(&store.store).to_owned();
    let in_store = |arguments: &[&str]| run([arguments, &["--store", &toml]].concat());
    let source = file(here.path(), "f", &[7; 100_000]);
    let all: Vec<String> = (0..8).map(|n| format!("f{n}")).collect();
    for name in &all {
        in_store(&["lot", "create", name, "--size", "4Mi", "--for", "3s"]).done();
        in_store(&["cp", "-q", "--lot", name, text(&source), &format!("thal:/{name}")]).done();
    }
    let at = here.path().join("m");
    std::fs::create_dir(&at).unwrap();
    run(["mount", "--store", &toml, text(&at)]).done();
    let _mounted = Mounted(at.clone());
    // Simultaneously, so that a mount uses all its connections.
    let together = std::sync::Barrier::new(all.len());
    let open_one = |name: &String| {
        together.wait();
        std::fs::File::open(at.join(name)).unwrap()
    };
    let open: Vec<std::fs::File> = std::thread::scope(|scope| {
        let opening: Vec<_> = all.iter().map(|name| scope.spawn(|| open_one(name))).collect();
        opening.into_iter().map(|opened| opened.join().unwrap()).collect()
    });
    wait_until("their time is over", || all.iter().all(|name| in_store(&["lot", "show", name]).code == Some(4)));
    // More than any disk has: everything that may be reclaimed is.
    let wants_all = || in_store(&["lot", "create", "all", "--size", "900Ti", "--for", "1h"]).failed(1, &["lot `all`"]);
    let names = || in_store(&["ls", "thal:/"]).done().out.lines().map(str::to_owned).collect::<Vec<_>>();
    wants_all();
    assert_eq!(names(), all, "they are open");
    for _ in 0..2 {
        store.kill("metadata");
        store.serve("metadata");
        wants_all();
        assert_eq!(names(), all, "they are open still, though nothing was read from them");
    }
    for mut file in &open {
        let mut read = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut read).unwrap();
        assert!(read == [7; 100_000]);
    }
    drop(open);
    wait_until("they go when they are closed", || {
        wants_all();
        names().is_empty()
    });
}
