//! Servers that are killed, stopped, full or unreachable during a copy: the error names them, and no incomplete file passes as complete.

use crate::bounded::{Bounded, BoundedChild, joined, rest};
use crate::common::{
    CommandOutput, Running, Servers, SmallDisk, content, file, is_root, run, scratch, skipped, stored_bytes, text, thalweg, wait_until,
};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A copy from a pipe, so that the test controls its progress.
struct FedCopy {
    copy: Running,
    input: Option<std::process::ChildStdin>,
    fed_bytes: usize,
}

impl FedCopy {
    fn start(store: &Path, target: &str, flags: &[&str]) -> FedCopy {
        let mut command = thalweg([&["cp", "--quiet", "--request", "1Mi", "--store", text(store)], flags, &["-", target]].concat());
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut copy = Running::start(command);
        let input = copy.child().stdin.take();
        FedCopy { copy, input, fed_bytes: 0 }
    }

    /// Writes this much more; returns false if the copy no longer reads.
    fn feed(&mut self, bytes: usize) -> bool {
        let bytes = content(self.fed_bytes as u64, bytes);
        self.fed_bytes += bytes.len();
        self.input.as_mut().is_some_and(|input| input.write_all(&bytes).is_ok())
    }

    /// Closes the input; returns the copy's result.
    fn end(mut self) -> CommandOutput {
        drop(self.input.take());
        let err = rest(self.copy.child().stderr.take().expect("taken once"));
        CommandOutput { code: self.copy.wait(), out: String::new(), err }
    }
}

/// Feeds a copy until every I/O server has bytes of it.
fn in_the_middle(servers: &Servers, count: usize, flags: &[&str]) -> FedCopy {
    let mut copy = FedCopy::start(&servers.store, "thal:/big", flags);
    let mut reached = false;
    for _ in 0..64 {
        assert!(copy.feed(1 << 20), "the copy ended early: {}", copy.end().err);
        reached = (0..count).all(|i| stored_bytes(&servers.directory().join(format!("io{i}"))) > 0);
        if reached {
            break;
        }
    }
    if !reached {
        wait_until("every server has bytes", || (0..count).all(|i| stored_bytes(&servers.directory().join(format!("io{i}"))) > 0));
    }
    copy
}

/// Checks that no name in the store refers to an incomplete file.
#[track_caller]
fn nothing_is_taken_for_whole(store: &Path) {
    let names = run(["ls", "--store", text(store), "/"]).done().out;
    assert!(names.lines().all(|name| name.ends_with(".partial")), "{names}");
}

#[test]
fn a_server_killed_in_the_middle_is_named_within_two_seconds_and_works_again_when_it_is_back() {
    let mut servers = Servers::start(3);
    let mut copy = in_the_middle(&servers, 3, &[]);
    servers.kill("io1");
    let killed = Instant::now();
    while copy.feed(1 << 20) && killed.elapsed() < Duration::from_secs(30) {}
    let said = copy.end();
    let took = killed.elapsed();
    said.failed(1, &["io1", "big"]);
    // Two seconds are promised; a loaded machine may need more to start and end processes.
    assert!(took < Duration::from_secs(4), "{took:?}");
    servers.serve("io1");
    nothing_is_taken_for_whole(&servers.store);
    run(["cp", "--quiet", "--force", "--store", text(&servers.store), "--source", "memory:8Mi", "thal:/big"]).done();
}

#[test]
fn a_server_killed_and_started_again_in_the_middle_is_an_error_or_a_whole_file() {
    let mut servers = Servers::start(3);
    let mut copy = in_the_middle(&servers, 3, &[]);
    servers.kill("io1");
    servers.serve("io1");
    for _ in 0..16 {
        if !copy.feed(1 << 20) {
            break;
        }
    }
    let fed_bytes = copy.fed_bytes;
    let said = copy.end();
    if said.code == Some(0) {
        let stat = run(["stat", "--json", "--store", text(&servers.store), "/big"]).done().json();
        assert_eq!(stat["size_bytes"], fed_bytes);
    } else {
        said.failed(1, &["io1", "big"]);
        nothing_is_taken_for_whole(&servers.store);
    }
}

#[test]
fn a_server_killed_in_the_middle_of_reading_out_is_named() {
    let mut servers = Servers::start(2);
    let store = servers.store.clone();
    run(["cp", "--quiet", "--store", text(&store), "--source", "memory:256Mi", "thal:/big"]).done();
    let here = scratch();
    // The pipe is not read beyond its first bytes, so the copy stays in the middle.
    let mut command = thalweg(["cp", "--quiet", "--store", text(&store), "thal:/big", "-"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 4096]).unwrap();
    servers.kill("io1");
    child.stdout = Some(out);
    let said: CommandOutput = child.output_in_time().unwrap().into();
    said.failed(1, &["io1", "big"]);
    let target = here.path().join("out");
    run(["cp", "--quiet", "--store", text(&store), "thal:/big", text(&target)]).failed(1, &["io1"]);
    assert!(!target.exists());
}

/// Returns the spans of a recording of at least this length, one per line with its track: the evidence of a wrong explanation.
fn long_spans(recording: &Path, at_least: Duration) -> String {
    let here = scratch();
    let tables = here.path().join("csv");
    run(["export", "--to", "csv", "-o", text(&tables), text(recording)]).done();
    let table = |name: &str| std::fs::read_to_string(tables.join(name)).unwrap();
    let tracks = table("tracks.csv");
    let track = |number: &str| tracks.lines().find(|line| line.split(',').next() == Some(number)).unwrap_or(number).to_owned();
    let spans = table("spans.csv");
    let is_long = |line: &&str| {
        let ns = |column: usize| line.split(',').nth(column).and_then(|text| text.parse::<u64>().ok());
        ns(3).zip(ns(4)).is_some_and(|(start, end)| end - start >= at_least.as_nanos() as u64)
    };
    let long = spans.lines().filter(is_long).map(|line| format!("{line}  {}", track(line.split(',').nth(1).unwrap_or_default())));
    spans.lines().take(1).map(str::to_owned).chain(long).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_server_stopped_for_a_while_is_a_stall_that_the_explanation_names() {
    let mut servers = Servers::start(3);
    let here = scratch();
    let recording = here.path().join("stalled.thw");
    let mut copy = in_the_middle(&servers, 3, &["--record", text(&recording)]);
    servers.process("io1").signal(libc::SIGSTOP);
    let feeding = std::thread::spawn(move || {
        for _ in 0..64 {
            copy.feed(1 << 20);
        }
        copy.end()
    });
    // The length of the stall is the subject of the test: longer than the rest of the copy, even on a busy machine.
    const STALL: Duration = Duration::from_secs(3);
    std::thread::sleep(STALL);
    assert!(!feeding.is_finished(), "without io1 there is no end");
    servers.process("io1").signal(libc::SIGCONT);
    joined(feeding).done();
    let document = run(["explain", "--json", text(&recording)]).done().json();
    let of_io1: f64 = document["critical_path"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|charge| charge["where"].as_str().is_some_and(|place| place.contains("io1")))
        .filter_map(|charge| charge["seconds"].as_f64())
        .sum();
    assert!(
        of_io1 >= 0.9 * STALL.as_secs_f64(),
        "{of_io1} s of the stall are io1's in {}\nand these were recorded:\n{}",
        document["critical_path"],
        long_spans(&recording, STALL / 4)
    );
    let sentence = document["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("io1"), "{sentence}");
}

#[test]
fn a_server_stopped_for_good_is_an_error_after_the_timeout() {
    let mut servers = Servers::start(2);
    let mut copy = in_the_middle(&servers, 2, &["--timeout", "2"]);
    servers.process("io1").signal(libc::SIGSTOP);
    let stopped = Instant::now();
    let feeding = std::thread::spawn(move || {
        while copy.feed(1 << 20) && stopped.elapsed() < Duration::from_secs(50) {}
        copy.end()
    });
    let said = joined(feeding);
    assert!(stopped.elapsed() >= Duration::from_millis(1900), "it waited for as long as it was told");
    said.failed(1, &["io1", "big"]);
    servers.process("io1").signal(libc::SIGCONT);
    nothing_is_taken_for_whole(&servers.store);
}

#[test]
fn names_fail_without_the_metadata_service_and_work_again_when_it_is_back() {
    let mut servers = Servers::start(2);
    let store = servers.store.clone();
    run(["cp", "--quiet", "--store", text(&store), "--source", "memory:1Mi", "thal:/f"]).done();
    servers.kill("metadata");
    run(["ls", "--store", text(&store), "--timeout", "2", "/"]).failed(1, &["metadata"]);
    servers.serve("metadata");
    assert_eq!(run(["ls", "--store", text(&store), "/"]).done().out, "f\n");
    let stat = run(["stat", "--json", "--store", text(&store), "/f"]).done().json();
    assert_eq!(stat["size_bytes"], 1 << 20);
}

#[test]
fn a_full_disk_on_one_server_is_named_and_nothing_is_half_made() {
    if !is_root() {
        return skipped("a file system of limited size needs root");
    }
    let here = scratch();
    let small = here.path().join("small");
    let Some(_disk) = SmallDisk::mount(&small, "8m") else {
        return skipped("a tmpfs cannot be mounted here");
    };
    let mut servers = Servers::describe(2, |directory, i| vec![if i == 1 { small.clone() } else { directory.join("io0") }]);
    for name in ["metadata", "io0", "io1"] {
        servers.serve(name);
    }
    let store = servers.store.clone();
    let source = file(here.path(), "source", &content(1, 64 << 20));
    run(["cp", "--quiet", "--store", text(&store), text(&source), "thal:/big"]).failed(1, &["io1", "big", "space"]);
    nothing_is_taken_for_whole(&store);
    run(["rm", "-f", "--store", text(&store), "/big.partial"]).done();
    // The failed copy has freed its space, and small files still fit.
    wait_until("the space is back", || {
        run(["cp", "--quiet", "--force", "--store", text(&store), "--source", "memory:4Mi", "thal:/little"]).code == Some(0)
    });
    let stat = run(["stat", "--json", "--store", text(&store), "/little"]).done().json();
    assert_eq!(stat["size_bytes"], 4 << 20);
}

/// Fills a disk.
fn fill(filler: &std::path::Path) {
    let mut file = std::fs::File::options().create(true).append(true).open(filler).expect("a file can be made");
    for size in [1 << 16, 4096, 1] {
        while std::io::Write::write_all(&mut file, &vec![1; size]).is_ok() {}
    }
}

#[test]
fn starting_the_metadata_service_on_a_full_disk_consumes_nothing() {
    if !is_root() {
        return skipped("a file system of limited size needs root");
    }
    let mut servers = Servers::describe(1, |directory, _| vec![directory.join("io0")]);
    let at = servers.directory().join("metadata");
    let Some(_disk) = SmallDisk::mount(&at, "8m") else {
        return skipped("a tmpfs cannot be mounted here");
    };
    servers.serve("metadata");
    servers.serve("io0");
    let store = servers.store.clone();
    for name in ["thal:/kept", "thal:/removed"] {
        run(["cp", "--quiet", "--store", text(&store), "--source", "memory:1Mi", name]).done();
    }
    let reserve = || std::fs::metadata(at.join("reserve")).expect("the reserve is there").len();
    let mut left = Vec::new();
    for start in 0..32 {
        // Half of the starts end in an orderly way.
        servers.process("metadata").signal(if start % 2 == 0 { libc::SIGKILL } else { libc::SIGTERM });
        servers.process("metadata").wait();
        fill(&at.join("filler"));
        servers.serve("metadata");
        fill(&at.join("filler"));
        assert_eq!(run(["ls", "--store", text(&store), "/"]).done().out, "kept\nremoved\n", "after start {start}");
        left.push(reserve());
    }
    assert_eq!(left[31], left[3], "{left:?}");
    run(["cp", "--quiet", "--store", text(&store), "--source", "memory:1Mi", "thal:/new"]).failed(1, &["disk is full"]);
    run(["rm", "--store", text(&store), "/removed"]).done();
    std::fs::remove_file(at.join("filler")).expect("the filler is there");
    run(["cp", "--quiet", "--force", "--store", text(&store), "--source", "memory:1Mi", "thal:/new"]).done();
    assert_eq!(run(["ls", "--store", text(&store), "/"]).done().out, "kept\nnew\n");
}

#[test]
fn a_source_that_shrinks_in_the_middle_is_an_error_and_one_that_is_unlinked_is_whole_or_nothing() {
    for unlink in [false, true] {
        let mut servers = Servers::start(2);
        let store = servers.store.clone();
        let here = scratch();
        let source = here.path().join("source");
        // More than two requests and the socket buffers.
        let size = 24 << 20;
        std::fs::write(&source, content(1, size)).unwrap();
        // A stopped server stalls the copy in the middle; before that, the copy waits for its hello until the timeout.
        servers.process("io1").signal(libc::SIGSTOP);
        let mut command = thalweg([
            "cp",
            "--quiet",
            "--timeout",
            "10",
            "--request",
            "1Mi",
            "--requests",
            "2",
            "--layout",
            "simple_stripe,strip_size=64Ki",
            "--store",
            text(&store),
            text(&source),
            "thal:/f",
        ]);
        command.stderr(Stdio::piped());
        let mut copy = Running::start(command);
        wait_until("the copy has begun", || stored_bytes(&servers.directory().join("io0")) > 0 || !copy.runs());
        if unlink {
            std::fs::remove_file(&source).unwrap();
        } else {
            std::fs::OpenOptions::new().write(true).open(&source).unwrap().set_len(1 << 20).unwrap();
        }
        servers.process("io1").signal(libc::SIGCONT);
        let err = rest(copy.child().stderr.take().unwrap());
        let said = CommandOutput { code: copy.wait(), out: String::new(), err };
        if unlink && said.code == Some(0) {
            let stat = run(["stat", "--json", "--store", text(&store), "/f"]).done().json();
            assert_eq!(stat["size_bytes"], size);
        } else {
            said.failed(1, &["source"]);
            nothing_is_taken_for_whole(&store);
        }
    }
}

#[test]
fn a_damaged_log_stops_the_start_until_somebody_chooses_and_dropped_bytes_are_told() {
    let mut servers = Servers::start(1);
    let store = servers.store.clone();
    let name = |i: usize| format!("thal:/d{i}");
    (0..4).for_each(|i| drop(run(["mkdir", "--store", text(&store), &name(i)]).done()));
    servers.kill("metadata");
    let metadata = servers.directory().join("metadata");
    let log = std::fs::read_dir(&metadata).expect("there").filter_map(|entry| Some(entry.ok()?.path()));
    let log = log.filter(|path| path.file_name().is_some_and(|name| text(Path::new(name)).starts_with("log-"))).max().expect("a log");
    let whole = std::fs::read(&log).expect("readable");
    let serve = |more: &[&str]| {
        let mut command = thalweg([&["serve", "--store", text(&store), "--name", "metadata"], more].concat());
        command.stderr(Stdio::piped());
        Running::start(command)
    };
    let said = |mut server: Running| {
        let err = rest(server.child().stderr.take().expect("taken once"));
        CommandOutput { code: server.wait(), out: String::new(), err }
    };
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(&log, &damaged).expect("writable");
    said(serve(&[])).failed(1, &["metadata", text(&log), "damaged at byte", "Put back a copy", "--drop-damaged-log"]);
    assert_eq!(std::fs::read(&log).expect("still there"), damaged);

    // A torn tail needs no choice, but is reported.
    std::fs::write(&log, [&whole[..], b"torn"].concat()).expect("writable");
    let mut server = serve(&[]);
    server.line();
    run(["ls", "--store", text(&store), "/d3"]).done();
    server.kill();
    let told = said(server).err;
    assert!(told.contains("last 4 bytes of the log") && told.contains("damaged-log-"), "{told}");

    let last = std::fs::read_dir(&metadata).expect("there").filter_map(|entry| Some(entry.ok()?.path()));
    let last = last.filter(|path| path.file_name().is_some_and(|name| text(Path::new(name)).starts_with("log-"))).max().expect("a log");
    let mut damaged = std::fs::read(&last).expect("readable");
    damaged[50] ^= 1;
    std::fs::write(&last, &damaged).expect("writable");
    said(serve(&[])).failed(1, &["--drop-damaged-log"]);
    let mut server = serve(&["--drop-damaged-log"]);
    server.line();
    run(["ls", "--store", text(&store), "/d3"]).done();
    server.kill();
    let told = said(server).err;
    assert!(told.contains("damaged at byte") && told.contains("dropped as requested"), "{told}");
}

#[test]
fn a_service_that_panics_in_a_request_ends_with_the_reason() {
    use std::os::unix::fs::FileExt;
    let mut servers = Servers::start(1);
    let store = servers.store.clone();
    let local = scratch();
    (0..300).for_each(|i| drop(file(local.path(), &format!("f{i}"), b"")));
    run(["cp", "-r", "--quiet", "--store", text(&store), text(local.path()), "thal:/many"]).done();
    servers.process("metadata").signal(libc::SIGTERM);
    assert_eq!(servers.process("metadata").wait(), Some(0));
    let mut command = thalweg(["serve", "--store", text(&store), "--name", "metadata"]);
    command.stderr(Stdio::piped());
    let mut server = Running::start(command);
    server.line();
    // Damage under a running service, in a place that it has already read.
    let path = servers.directory().join("metadata/metadata.redb");
    let database = std::fs::File::options().write(true).open(&path).expect("there");
    let length = database.metadata().expect("there").len();
    database.write_all_at(&vec![0; length as usize - 4096], 4096).expect("writable");
    run(["ls", "-l", "--store", text(&store), "/many"]).failed(1, &["metadata", "panic", "start it again"]);
    let err = rest(server.child().stderr.take().expect("taken once"));
    assert_eq!(server.wait(), Some(1), "{err}");
    assert!(err.lines().last().is_some_and(|line| line.contains("server metadata") && line.contains("panic")), "{err}");
    let mut command = thalweg(["serve", "--store", text(&store), "--name", "metadata"]);
    let again = command.output_in_time().expect("started");
    let err = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.code() == Some(1) && err.contains("metadata.redb") && err.contains("put back a copy"), "{err}");
}
