//! Real clients and real servers, recorded at both ends: in one recording, and in two that are merged.

use crate::bounded::Bounded;
use crate::common::{Running, content, file, is_root, no_bpf, run, scratch, skipped, text, thalweg, wait_until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A running server, and the URL of a file NAME in its directory.
struct Server {
    url: String,
    port: u16,
    _process: Running,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Starts a server; `Err` holds why it cannot run here.
    fn start(kind: &str) -> Result<Server, String> {
        if !is_root() {
            return Err(format!("the {kind} server, and recording it, need root"));
        }
        let directory = scratch();
        let serve = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/servers/serve");
        let mut command = Command::new("python3");
        command.arg(serve).arg(kind).arg(directory.path()).stderr(std::process::Stdio::inherit());
        let mut process = Running::start(command);
        let url = process.line();
        if url.is_empty() {
            return Err(format!("this machine cannot run the {kind} server"));
        }
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let port = match url.split_once("nfsport=") {
            Some((_, port)) => digits(port),
            None => digits(url.rsplit_once("127.0.0.1:").map_or("", |(_, port)| port)),
        };
        let port = port.parse().map_err(|_| format!("no port in {url}"))?;
        Ok(Server { url, port, _process: process, _directory: directory })
    }

    fn file(&self, name: &str) -> String {
        self.url.replacen("NAME", name, 1)
    }
}

fn explained(recordings: &[&Path]) -> Value {
    let mut arguments = vec!["explain", "--json"];
    arguments.extend(recordings.iter().map(|path| text(path)));
    run(arguments).done().json()
}

/// Checks that charges add up, that almost nothing is unknown, and that both ends are present.
#[track_caller]
fn sound(document: &Value, bytes: u64) {
    let charges = document["critical_path"].as_array().expect("charges");
    let sum = |of: &dyn Fn(&Value) -> bool| -> f64 { charges.iter().filter(|c| of(c)).filter_map(|c| c["share"].as_f64()).sum() };
    assert!((sum(&|_| true) - 1.0).abs() <= 0.001, "{charges:?}");
    // A host that suspends this machine for 20 ms now and then is not the recording's fault, and is reported.
    let stood_still = |c: &Value| c["where"].as_str().is_some_and(|place| place.ends_with("unaccounted: no wait, no sample"));
    let unknown = sum(&|c| c["cause"].as_str().is_some_and(|cause| cause.ends_with("unknown")) && !stood_still(c));
    assert!(unknown <= 0.02, "unknown: {unknown}: {charges:#?}");
    assert_eq!(document["dropped_events"], 0);
    let roles: Vec<&str> = document["tracks"].as_array().unwrap().iter().filter_map(|t| t["role"].as_str()).collect();
    assert!(roles.contains(&"client") && roles.contains(&"server"), "{roles:?}");
    let moved = document["size_bytes"].as_u64().unwrap_or(0);
    // Bytes read before their file is known are not counted if the reader is late on a busy machine.
    assert!(moved >= bytes * 3 / 4 && moved <= bytes * 11 / 10, "{moved} of {bytes} bytes");
}

/// Records a copy with its server, and explains it.
fn copied(kind: &str, client: &str) {
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let server = match Server::start(kind) {
        Ok(server) => server,
        Err(why) => return skipped(&why),
    };
    let here = scratch();
    let bytes = 96 << 20;
    let source = file(here.path(), "source", &content(8, bytes));
    let (port, recording) = (format!(":{}", server.port), here.path().join("in.thw"));
    let from = if client == "globus-url-copy" { format!("file://{}", text(&source)) } else { text(&source).to_owned() };
    run(["record", "--also", &port, "-o", text(&recording), "--", client, &from, &server.file("big")]).done();
    sound(&explained(&[&recording]), bytes as u64);
}

#[test]
fn an_nfs_copy_is_explained_at_both_ends() {
    copied("nfs", "nfs-cp");
}

#[test]
fn a_gridftp_copy_is_explained_at_both_ends() {
    copied("gridftp", "globus-url-copy");
}

/// Records the server separately, as another machine would, while `work` runs.
fn recorded_server(server: &Server, recording: &Path, work: impl FnOnce()) {
    let port = server.port.to_string();
    let mut command = thalweg(["record", "--server", "--only", "--port", &port, "--for", "60s", "-o", text(recording)]);
    command.stderr(std::process::Stdio::piped());
    let mut process = Running::start(command);
    let mut said = std::io::BufReader::new(process.child().stderr.take().expect("its messages"));
    let mut line = String::new();
    while !line.contains("recording") {
        line.clear();
        let read = std::io::BufRead::read_line(&mut said, &mut line).expect("readable");
        assert!(read > 0, "it ended before it began to record");
    }
    work();
    process.signal(libc::SIGINT);
    assert_eq!(process.wait(), Some(0));
}

/// Copies a recording as if made on another machine, whose clock is seven seconds off and runs 100 ppm fast.
fn elsewhere(recording: &Path, out: &Path) {
    copied_with(
        recording,
        out,
        |host| (host.name, host.clock) = ("elsewhere".into(), "monotonic:another-boot".into()),
        |ns| ns + 7_000_000_000 + ns / 10_000,
    );
}

/// Copies a recording with its host renamed, and with its times on another clock.
fn copied_with(recording: &Path, out: &Path, rename: impl Fn(&mut thalweg_trace::Host), clock: impl Fn(i64) -> i64) {
    use thalweg_trace::{CounterName, Ending, Event, Host, Meta, Recording, RecordingWriter, Sink, Source, Time};
    let source = Recording::open(recording).expect("a recording");
    let shifted = |at: Time| Time::from_monotonic_ns(clock(at.ns()));
    let meta = source.meta().clone();
    let writer = RecordingWriter::create(out, Meta { start: shifted(meta.start), ..meta.clone() }).expect("a place for it");
    let other = |host: &Host| {
        let mut host = host.clone();
        rename(&mut host);
        Event::Host(host)
    };
    let mut events: Vec<Event> = source.hosts().iter().map(other).collect();
    events.extend(source.tracks().iter().cloned().map(Event::Track));
    events.extend(source.objects().iter().cloned().map(Event::Object));
    for batch in source.spans_backward() {
        let batch = batch.expect("readable");
        events.extend((0..batch.len()).filter_map(|row| batch.row(row)).map(|mut span| {
            let (start, end) = (shifted(span.start), shifted(span.end()));
            (span.start, span.duration_ns) = (start, end.since(start));
            // A span on the CPU from start to end stays so.
            span.cpu_ns = span.cpu_ns.map(|cpu| if cpu == 0 { 0 } else { cpu + cpu / 10_000 });
            Event::Span(span)
        }));
    }
    for &name in CounterName::ALL {
        events.extend(source.counters(name).expect("readable").into_iter().map(|mut counter| {
            counter.at = shifted(counter.at);
            Event::Counter(counter)
        }));
    }
    writer.take(&mut events);
    writer.finish(Ending { exit_code: meta.exit_code, ..Ending::at(shifted(meta.end.expect("finished"))) }).expect("room");
}

#[test]
fn two_recordings_of_one_copy_become_one() {
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let server = match Server::start("nfs") {
        Ok(server) => server,
        Err(why) => return skipped(&why),
    };
    let here = scratch();
    let bytes = 96 << 20;
    let source = file(here.path(), "source", &content(9, bytes));
    let at = |name: &str| -> PathBuf { here.path().join(name) };
    recorded_server(&server, &at("server.thw"), || {
        run(["record", "--only", "-o", text(&at("client.thw")), "--", "nfs-cp", text(&source), &server.file("apart")]).done();
    });
    let (client, there) = (at("client.thw"), at("server.thw"));
    let alone = explained(&[&client]);
    let told = serde_json::to_string(&alone["critical_path"]).unwrap();
    assert!(told.contains("server.unknown") || told.contains("network"), "{told}");
    sound(&explained(&[&client, &there]), bytes as u64);
    let placed = run(["merge", text(&client), text(&there), "--json", "-o", text(&at("merged.thw"))]).done().json();
    assert_eq!(placed["parts"][1]["clock_from"], "same_boot");
    sound(&explained(&[&at("merged.thw")]), bytes as u64);

    // The same server, as if on another clock: seven seconds off, and 100 ppm fast.
    elsewhere(&there, &at("shifted.thw"));
    let placed = run(["merge", text(&client), text(&at("shifted.thw")), "--json", "-o", text(&at("far.thw"))]).done().json();
    let part = &placed["parts"][1];
    assert_eq!(part["clock_from"], "connections", "{placed}");
    let from_ns = part["from_ns"].as_i64().unwrap();
    let truth_ns = -(7_000_000_000 + (from_ns - 7_000_000_000) / 10_001);
    let (offset_ns, error_ns) = (part["offset_ns"].as_i64().unwrap(), part["error_ns"].as_i64().unwrap());
    // The loopback's minimum latency is some microseconds, plus the programs' time between waking and sending, and their wait for a CPU.
    assert!((offset_ns - truth_ns).abs() <= error_ns && error_ns < 2_000_000, "{offset_ns} for {truth_ns}: {placed}");
    sound(&explained(&[&at("far.thw")]), bytes as u64);
}

#[test]
fn a_server_that_nobody_asks_anything_is_recorded_until_it_is_enough() {
    let here = scratch();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let recording = here.path().join("idle.thw");
    run(["record", "--server", "--port", &port, "--for", "200ms", "-o", text(&recording)]).done();
    wait_until("it has ended", || std::fs::read_to_string(recording.join("meta.json")).is_ok_and(|m| !m.contains("\"end\": null")));
    let nobody = run(["record", "--server", "--port", "1", "--for", "1s", "-o", text(&here.path().join("b.thw"))]);
    nobody.failed(2, &["port 1"]);
}

#[test]
fn a_recording_merged_with_itself_or_a_copy_of_it_is_refused_in_one_line() {
    let here = scratch();
    let at = |name: &str| here.path().join(name);
    let (one, copy, both) = (at("one.thw"), at("copy.thw"), at("both.thw"));
    run(["record", "--method", "proc", "-o", text(&one), "--", "true"]).done();
    let copied = std::process::Command::new("cp").arg("-r").args([&one, &copy]).status().unwrap();
    assert!(copied.success());
    for other in [&one, &copy] {
        for said in [
            run(["merge", text(&one), text(other), "-o", text(&both)]).failed(2, &["are the same recording"]),
            run(["explain", text(&one), text(other)]).failed(2, &["are the same recording"]),
        ] {
            assert!(!said.err.contains("nothing connects them") && !said.err.contains("different runs"), "{}", said.err);
        }
        assert!(!both.exists());
    }
}

#[test]
fn recordings_of_two_runs_are_refused_with_the_command_that_compares_them() {
    let here = scratch();
    let at = |name: &str| here.path().join(name);
    for name in ["before.thw", "after.thw"] {
        run(["record", "--method", "proc", "-o", text(&at(name)), "--", "true"]).done();
    }
    let (before, after, both) = (at("before.thw"), at("after.thw"), at("both.thw"));
    let compare = format!("thalweg diff {} {}", text(&before), text(&after));
    for (one, other) in [(&before, &after), (&after, &before)] {
        run(["explain", text(one), text(other)]).failed(1, &["nothing connects them", &compare]);
        run(["merge", text(one), text(other), "-o", text(&both)]).failed(1, &["nothing connects them", &compare]);
        assert!(!both.exists());
    }
}

const CONVERSATION: &str = r#"
import socket, sys, time
if sys.argv[1] == "server":
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    print(listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
    while True:
        left = 1000
        while left > 0:
            got = len(connection.recv(left))
            if got == 0:
                sys.exit(0)
            left -= got
        time.sleep(0.002)
        connection.sendall(b"r" * 100)
else:
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    for _ in range(150):
        connection.sendall(b"q" * 1000)
        left = 100
        while left > 0:
            left -= len(connection.recv(left))
"#;

#[test]
fn a_server_recorded_in_a_time_namespace_is_put_on_the_clients_clock() {
    if !is_root() {
        return skipped("a time namespace needs root");
    }
    let apart = ["--time", "--monotonic", "5000", "--boottime", "5000"];
    if !Command::new("unshare").args(apart).arg("true").stderr(std::process::Stdio::null()).status_in_time().is_ok_and(|s| s.success()) {
        return skipped("no time namespace can be made here");
    }
    let methods = if no_bpf().is_some() { vec!["preload"] } else { vec!["preload", "bpf"] };
    for method in methods {
        let here = scratch();
        let at = |name: &str| -> PathBuf { here.path().join(name) };
        let script = file(here.path(), "conversation.py", CONVERSATION.as_bytes());
        let (client, server) = (at("client.thw"), at("server.thw"));
        let mut command = Command::new("unshare");
        command.args(apart).args([crate::common::THALWEG, "record", "--method", method, "-o", text(&server), "--"]);
        command.args(["/usr/bin/python3", text(&script), "server"]).stderr(std::process::Stdio::null());
        let mut process = Running::start(command);
        let port = process.line();
        let python = ["/usr/bin/python3", text(&script), "client", port.trim()];
        run([&["record", "--method", method, "-o", text(&client), "--"], &python[..]].concat()).done();
        assert_eq!(process.wait(), Some(0), "{method}");

        let placed = run(["merge", text(&client), text(&server), "--json", "-o", text(&at("both.thw"))]).done().json();
        let part = &placed["parts"][1];
        assert_eq!(
            (&part["clock_from"], &part["offset_ns"]),
            (&"same_boot".into(), &(-5_000_000_000_000_i64).into()),
            "{method}: {placed}"
        );
        assert!(placed["notes"].to_string().contains("time namespace"), "{method}: {placed}");
        // Mostly the client waits for the server, which sleeps: visible only with both on one clock.
        let document = explained(&[&client, &server]);
        let told = serde_json::to_string(&document["critical_path"]).unwrap();
        assert!(told.contains("server.think"), "{method}: {told}");

        // As a recorder without support for time namespaces would have written it: the bytes show the offset.
        let old = at("old.thw");
        let own = |host: &mut thalweg_trace::Host| host.clock = host.clock.split('@').next().unwrap().to_owned();
        copied_with(&server, &old, own, |ns| ns);
        let placed = run(["merge", text(&client), text(&old), "--json", "-o", text(&at("mended.thw"))]).done().json();
        let part = &placed["parts"][1];
        let (offset_ns, error_ns) = (part["offset_ns"].as_i64().unwrap(), part["error_ns"].as_i64().unwrap());
        assert_eq!(part["clock_from"], "connections", "{method}: {placed}");
        assert!((offset_ns + 5_000_000_000_000).abs() <= error_ns && error_ns < 20_000_000, "{method}: {placed}");
        assert!(placed["notes"].to_string().contains("contradict"), "{method}: {placed}");
    }
}
