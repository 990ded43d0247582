//! RPC statistics: compared with tshark on captures of real programs, live on the loopback interface, and kept as a recording.

use crate::bounded::{Bounded, BoundedChild, accepted};
use crate::common::{Running, is_root, run, scratch, skipped, static_part, text, thalweg};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A committed capture.
fn capture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../record/tests/captures").join(name)
}

/// The number of calls, and the minimum, maximum and sum of their response times.
#[derive(Debug, Default, PartialEq)]
struct Times {
    calls: u64,
    least_s: f64,
    most_s: f64,
    sum_s: f64,
}

/// Returns tshark's table of response times of one program's version, by procedure. It is given the RPC ports: by itself it assigns some to
/// the protocol registered for their number.
fn tshark(file: &str, program: &str, ports: &BTreeSet<String>) -> Option<BTreeMap<String, Times>> {
    let decode = ports.iter().flat_map(|port| ["-d".to_owned(), format!("tcp.port=={port},rpc")]);
    let mut command = Command::new("tshark");
    command.args(["-r", file, "-q", "-z", &format!("rpc,srt,{program}")]).args(decode).stdin(Stdio::null());
    let said = command.output_in_time().ok()?;
    let out = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut table = BTreeMap::new();
    for line in out.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, name, calls, least, most, _mean, sum] = words[..] else { continue };
        let (Ok(calls), Ok(least_s), Ok(most_s), Ok(sum_s)) = (calls.parse(), least.parse(), most.parse(), sum.parse()) else { continue };
        table.insert(name.to_owned(), Times { calls, least_s, most_s, sum_s });
    }
    Some(table)
}

/// Returns our table of the same; tshark treats compounds of NFSv4 as one procedure.
fn ours(document: &Value, program: &str, version: &str) -> BTreeMap<String, Times> {
    let mut table: BTreeMap<String, Times> = BTreeMap::new();
    for p in document["procedures"].as_array().expect("procedures") {
        if p["program"] != program || p["version"] != version {
            continue;
        }
        let number = |name: &str| p[name].as_f64().unwrap_or_else(|| panic!("{name} in {p}"));
        let name = match (p["name"].as_str().unwrap_or_default(), version) {
            (name, "4") if name != "NULL" => "COMPOUND",
            (name, _) => name,
        };
        let times = table.entry(name.to_owned()).or_insert(Times { least_s: f64::INFINITY, ..Times::default() });
        times.calls += p["answered"].as_u64().unwrap_or(0);
        times.least_s = times.least_s.min(number("min_s"));
        times.most_s = times.most_s.max(number("max_s"));
        times.sum_s += number("total_s");
    }
    table
}

#[test]
fn counts_and_times_are_those_of_tshark() {
    if Command::new("tshark").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status_in_time().is_err() {
        return skipped("there is no tshark to hold the figures against");
    }
    // Programs by number and version for tshark, and by our names.
    let cases =
        [("nfs3.pcapng", "100003,3", "nfs", "3"), ("nfs3.pcapng", "100005,3", "mount", "3"), ("nfs4.pcapng", "100003,4", "nfs", "4")];
    for (file, numbers, program, version) in cases {
        let path = capture(file);
        let document = run(["rpcstat", "--json", text(&path)]).done().json();
        let names = document["connections"].as_array().expect("connections").iter().filter_map(|c| c["name"].as_str());
        let ports: BTreeSet<String> = names.filter_map(|n| n.rsplit_once(':')).map(|(_, port)| port.to_owned()).collect();
        let theirs = tshark(text(&path), numbers, &ports).expect("tshark runs");
        let ours = ours(&document, program, version);
        assert!(!theirs.is_empty(), "tshark found nothing in {file}");
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{file}");
        for (name, theirs) in &theirs {
            let ours = &ours[name];
            assert_eq!(ours.calls, theirs.calls, "{file} {name}");
            // tshark prints microseconds.
            let near = |a: f64, b: f64| (a - b).abs() <= 0.51e-6;
            assert!(near(ours.least_s, theirs.least_s) && near(ours.most_s, theirs.most_s), "{file} {name}: {ours:?} {theirs:?}");
            assert!(near(ours.sum_s, theirs.sum_s), "{file} {name}: {ours:?} {theirs:?}");
        }
    }
}

#[test]
fn a_capture_is_shown_kept_and_explained() {
    let here = scratch();
    let kept = here.path().join("kept.thw");
    let file = capture("nfs3.pcapng");
    let said = run(["rpcstat", "-v", text(&file), "-o", text(&kept)]).done().out;
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    for expected in ["37 calls", "nfs3 COMMIT", "mount3 MNT", "1 answered with an error", "queue empty: the client", "Over time"] {
        assert!(said.contains(expected), "expected `{expected}` in: {said}");
    }
    // The recording gives the same result.
    let again = run(["rpcstat", "-v", text(&kept)]).done().out;
    assert_eq!(again, said);
    let document = run(["explain", "--json", text(&kept)]).done().json();
    let shares: f64 = document["critical_path"].as_array().unwrap().iter().filter_map(|c| c["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-3, "{document}");
    let causes: Vec<&str> = document["critical_path"].as_array().unwrap().iter().filter_map(|c| c["cause"].as_str()).collect();
    assert!(causes.contains(&"server.unknown"), "{causes:?}");
    run(["export", text(&kept), "--to", "perfetto", "-o", text(&here.path().join("trace"))]).done();
}

#[test]
fn the_default_is_short_and_says_how_to_see_more() {
    let said = run(["rpcstat", text(&capture("nfs3.pcapng"))]).done().out;
    assert!(said.lines().count() <= 15 && said.lines().all(|line| line.chars().count() <= 80), "{said}");
    for expected in ["37 calls in", "waiting for the client", "more: rpcstat -v"] {
        assert!(said.contains(expected), "expected `{expected}` in: {said}");
    }
}

#[test]
fn a_capture_is_drawn_beside_being_kept() {
    let here = scratch();
    let [kept, picture, page] = ["kept.thw", "rpcs.svg", "rpcs.html"].map(|name| here.path().join(name));
    let file = capture("nfs3.pcapng");
    run(["rpcstat", text(&file), "-o", text(&kept), "-o", text(&picture), "-o", text(&page)]).done();
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.contains("role=\"img\"") && svg.contains("Throughput") && !svg.contains("NaN"), "{svg}");
    let html = std::fs::read_to_string(&page).expect("a page");
    let fixed = static_part(&html);
    assert!(fixed.contains("<svg") && fixed.contains("Procedures") && fixed.contains("<pre>") && !fixed.contains("<script"), "{fixed}");
    // report draws the same from the recording, and part of it by connection.
    let again = here.path().join("again.svg");
    run(["report", text(&kept), "-o", text(&again)]).done();
    assert_eq!(std::fs::read_to_string(&again).expect("a picture"), svg);
    run(["report", text(&kept), "--to", "10ms", "-o", text(&again)]).done();
    assert!(!std::fs::read_to_string(&again).expect("a picture").contains("Pending calls"));
    run(["report", text(&kept), "-o", text(&page)]).done();
    let html = std::fs::read_to_string(&page).expect("a page");
    let (rpcs, others) = (html.find("Pending calls"), html.find("By connection"));
    assert!(rpcs.is_some() && rpcs < others, "what RPCs say stands first: {rpcs:?} {others:?}");
}

#[test]
fn two_are_compared_on_equal_axes() {
    let here = scratch();
    let (a, b) = (capture("nfs3.pcapng"), capture("nfs4.pcapng"));
    let picture = here.path().join("both.svg");
    let said = run(["rpcstat", text(&a), text(&b), "-o", text(&picture)]).done().out;
    for expected in ["nfs3.pcapng", "nfs4.pcapng", "total time", "stalls of the server", "response time, median"] {
        assert!(said.contains(expected), "expected `{expected}` in: {said}");
    }
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    assert!(svg.contains("A, nfs3.pcapng:") && svg.contains("B, nfs4.pcapng:"), "{svg}");
    let document = run(["rpcstat", "--json", text(&a), text(&b)]).done().json();
    assert_eq!(document["schema"], "thalweg.rpcstat-pair/1");
    assert_eq!((&document["a"]["calls"], &document["b"]["calls"]), (&Value::from(37), &Value::from(25)));
}

#[test]
fn what_cannot_be_written_is_refused_by_its_name() {
    let here = scratch();
    let file = capture("nfs3.pcapng");
    let at = |name: &str| here.path().join(name);
    let expected = ["FILE.svg", "FILE.html", "NAME.thw"];
    run(["rpcstat", text(&file), "-o", text(&at("rpcs.png"))]).failed(2, &[&["rpcs.png"], &expected[..]].concat());
    run(["rpcstat", text(&file), "-o", text(&at("a.thw")), "-o", text(&at("b.thw"))]).failed(2, &["b.thw", "give only one NAME.thw"]);
    run(["rpcstat", text(&file), text(&file), "-o", text(&at("a.thw"))]).failed(2, &["a.thw", "keep each separately"]);
    run(["rpcstat", "-", "-"]).failed(2, &["standard input"]);
    assert!(std::fs::read_dir(here.path()).expect("the directory").next().is_none(), "nothing was written");
}

#[test]
fn standard_input_is_a_capture_too() {
    let file = std::fs::File::open(capture("nfs4.pcapng")).expect("a committed capture");
    let said = thalweg(["rpcstat", "-", "--json"])
        .stdin(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts")
        .output_in_time()
        .expect("it ends");
    let document: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!((&document["schema"], &document["calls"]), (&Value::from("thalweg.rpcstat/1"), &Value::from(25)));
}

#[test]
fn what_is_no_capture_is_told() {
    let here = scratch();
    let not = here.path().join("not.pcap");
    std::fs::write(&not, "neither pcap nor pcapng").unwrap();
    run(["rpcstat", text(&not)]).failed(1, &["not.pcap", "is not a capture"]);
    std::fs::write(&not, "").unwrap();
    run(["rpcstat", text(&not)]).failed(1, &["is empty"]);
    run(["rpcstat", "/nowhere/at/all.pcap"]).failed(1, &["/nowhere/at/all.pcap", "cannot be opened"]);
    run(["rpcstat"]).failed(2, &["--interface"]);
    run(["rpcstat", text(&capture("nfs3.pcapng")), "--interface", "lo"]).failed(2, &[]);
    run(["rpcstat", text(&capture("nfs3.pcapng")), "--port", "1"]).failed(1, &["no RPCs"]);
    run(["rpcstat", "--interface", "no-such-one", "--port", "2049"]).failed(2, &["there is no interface no-such-one", "lo"]);
    // A truncated file is used as far as it goes.
    let whole = std::fs::read(capture("nfs3.pcapng")).unwrap();
    std::fs::write(&not, &whole[..whole.len() - 2000]).unwrap();
    let said = run(["rpcstat", "-v", text(&not)]).done();
    // Regardless of line breaks.
    let words: Vec<&str> = said.out.split_whitespace().collect();
    assert!(words.join(" ").contains("in the middle of the packet"), "{}", said.out);
}

/// Returns whether this process may capture packets, which needs a privilege.
fn may_capture() -> bool {
    is_root()
        && std::fs::read_to_string("/proc/self/status").is_ok_and(|s| {
            let bits = s.lines().find_map(|l| l.strip_prefix("CapEff:")).and_then(|v| u64::from_str_radix(v.trim(), 16).ok());
            bits.is_some_and(|b| b & (1 << 13) != 0)
        })
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

/// Answers each of `calls` calls of 100 bytes, half of them late.
fn serve(listener: &TcpListener, calls: u32) {
    let mut stream = accepted(listener);
    stream.set_nodelay(true).unwrap();
    let mut call = [0; 104];
    for _ in 0..calls {
        stream.read_exact(&mut call).expect("a call");
        let xid = u32::from_be_bytes([call[4], call[5], call[6], call[7]]);
        stream.write_all(&words(&[0x8000_001c, xid, 1, 0, 0, 0, 0, 0])).expect("a reply");
    }
}

#[test]
fn packets_of_the_loopback_interface_are_counted_once() {
    if !may_capture() {
        return skipped("capturing packets needs CAP_NET_RAW");
    }
    const CALLS: u32 = 300;
    let here = scratch();
    let kept = here.path().join("live.thw");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().unwrap().port();
    let number = port.to_string();
    let mut command = thalweg(["rpcstat", "--interface", "lo", "--port", &number, "--json", "-o", text(&kept)]);
    command.stderr(Stdio::piped());
    let mut live = Running::start(command);
    let mut lines = BufReader::new(live.child().stderr.take().expect("piped"));
    let mut line = String::new();
    // The table's first line appears after the first second of capturing.
    lines.read_line(&mut line).expect("a line");
    assert!(line.contains("calls/s"), "{line}");
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, CALLS));
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_nodelay(true).unwrap();
        for xid in 1..=CALLS {
            let mut call = words(&[0x8000_0064, xid, 0, 2, 100_003, 3, 1, 0, 0, 0, 0]);
            call.resize(104, 0);
            stream.write_all(&call).expect("the server reads");
            stream.read_exact(&mut [0; 32]).expect("the server answers");
        }
    });
    live.signal(libc::SIGINT);
    // The document has no empty lines.
    let out: String = std::iter::from_fn(|| Some(live.line()).filter(|l| !l.is_empty())).collect();
    assert_eq!(live.wait(), Some(0), "{out}");
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
    assert_eq!((document["calls"].as_u64(), document["unanswered"].as_u64()), (Some(u64::from(CALLS)), Some(0)));
    assert_eq!(document["procedures"][0]["name"], "GETATTR");
    assert_eq!(document["sent_bytes"], 104 * u64::from(CALLS));
    assert_eq!(document["tcp_retransmissions"], 0, "a packet seen twice is not sent twice");
    run(["explain", text(&kept)]).done();
}
