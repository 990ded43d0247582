//! Foreign packet captures: recognised by their content, explained as far as TCP shows, run by run.

use crate::bounded::Bounded;
use crate::common::{run, scratch, skipped, text, thalweg};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A committed capture.
fn capture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../record/tests/captures").join(name)
}

#[test]
fn a_capture_without_rpcs_is_explained_by_whose_turn_it_was() {
    for (file, protocol, connections) in [("http.pcapng", "HTTP", 2), ("ssh.pcapng", "SSH", 1)] {
        let path = capture(file);
        let document = run(["explain", "--json", text(&path)]).done().json();
        let found = &document["connections"];
        assert_eq!((&found["count"], &found["failed"]), (&Value::from(connections), &Value::from(0)), "{file}");
        assert_eq!(
            (&found["listed"][0]["protocol"], &found["listed"][0]["protocol_from"]),
            (&Value::from(protocol), &Value::from("content"))
        );
        assert!(found["listed"][0]["handshake_s"].as_f64().is_some_and(|s| s > 0.0), "{found}");
        let shares: f64 = document["critical_path"].as_array().expect("charges").iter().filter_map(|c| c["share"].as_f64()).sum();
        assert!((shares - 1.0).abs() < 1e-3, "{shares}");
        for verb in ["explain", "rpcstat"] {
            let said = run([verb, text(&path)]).done().out;
            assert!(said.lines().count() <= 15 && said.lines().all(|line| line.chars().count() <= 80), "{said}");
            assert!(said.contains(protocol) && said.contains("everything waited for the server"), "{said}");
        }
    }
    // Each answer of that server takes 20 ms.
    let document = run(["explain", "--json", text(&capture("http.pcapng"))]).done().json();
    assert_eq!(document["connections"]["round_trips"], 11);
    assert!(document["connections"]["answer_median_s"].as_f64().is_some_and(|s| (0.019..0.025).contains(&s)), "{document}");
    assert_eq!(document["verdict"]["cause"], "server.unknown");
}

#[test]
fn bytes_of_connections_are_those_of_tshark() {
    for file in ["http.pcapng", "ssh.pcapng"] {
        let path = capture(file);
        // Each byte counts once: retransmissions are excluded.
        let once = "!(tcp.analysis.retransmission || tcp.analysis.spurious_retransmission)";
        let mut command = Command::new("tshark");
        command.args(["-r", text(&path), "-Y", once, "-T", "fields", "-e", "tcp.srcport", "-e", "tcp.dstport", "-e", "tcp.len"]);
        let Ok(said) = command.stdin(Stdio::null()).output_in_time() else {
            return skipped("there is no tshark to hold the figures against");
        };
        let rows: Vec<Vec<String>> =
            String::from_utf8_lossy(&said.stdout).lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect();
        let theirs = |from: &str, to: &str| -> u64 {
            let rows = rows.iter().filter(|row| row[0] == from && row[1] == to);
            rows.filter_map(|row| row[2].parse::<u64>().ok()).sum()
        };
        let document = run(["explain", "--json", text(&path)]).done().json();
        for conversation in document["connections"]["listed"].as_array().expect("connections") {
            let name = conversation["name"].as_str().expect("a name");
            let ports: Vec<&str> = name.split(" > ").filter_map(|end| end.rsplit_once(':').map(|(_, port)| port)).collect();
            let ours = (conversation["sent_bytes"].as_u64(), conversation["received_bytes"].as_u64());
            assert_eq!(ours, (Some(theirs(ports[0], ports[1])), Some(theirs(ports[1], ports[0]))), "{file} {name}");
        }
    }
}

#[test]
fn compressed_captures_open_everywhere_and_from_standard_input() {
    let here = scratch();
    let bytes = std::fs::read(capture("nfs3.pcapng")).expect("a committed capture");
    let mut gzip = Command::new("gzip");
    let Ok(said) = gzip.args(["-c", text(&capture("nfs3.pcapng"))]).stdin(Stdio::null()).output_in_time() else {
        return skipped("there is no gzip");
    };
    let packed = here.path().join("nfs3.pcapng.gz");
    std::fs::write(&packed, &said.stdout).expect("a file");
    assert!(said.stdout.len() < bytes.len());
    assert_eq!(run(["rpcstat", "-v", "--json", text(&packed)]).done().json()["calls"], 37);
    assert_eq!(run(["explain", "--json", text(&packed)]).done().json()["schema"], "thalweg.explain/1");
    let file = std::fs::File::open(&packed).expect("a file");
    let child =
        thalweg(["explain", "-", "--json"]).stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let said = crate::bounded::BoundedChild::output_in_time(child).expect("it ends");
    let document: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(document["schema"], "thalweg.explain/1");
    // A truncated capture is used as far as it goes, with a note.
    let whole = std::fs::read(&packed).expect("a file");
    std::fs::write(&packed, &whole[..whole.len() * 2 / 3]).expect("a file");
    let document = run(["rpcstat", "--json", text(&packed)]).done().json();
    assert!(document["notes"].to_string().contains("in the middle of its compressed data"), "{document}");
}

#[test]
fn a_capture_takes_a_recordings_place_in_a_merge_and_is_refused_by_its_name() {
    let here = scratch();
    let both = here.path().join("both.thw");
    let [nfs3, nfs4] = ["nfs3.pcapng", "nfs4.pcapng"].map(capture);
    run(["merge", text(&nfs3), text(&nfs3), "-o", text(&both)]).failed(2, &["nfs3.pcapng", "are the same recording"]);
    // It was read as a capture: its connections are compared with the other's.
    run(["merge", text(&nfs3), text(&nfs4), "-o", text(&both)]).failed(1, &["nfs4.pcapng", "shares no connection with the others"]);
}

/// Shifts each packet of a capture by this time; pcap with microseconds, in this machine's byte order.
fn later(pcap: &[u8], seconds: u32) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 24);
    while at + 16 <= pcap.len() {
        let number = |from: usize| u32::from_le_bytes(pcap[from..from + 4].try_into().expect("4 bytes"));
        let end = at + 16 + number(at + 8) as usize;
        out.extend(number(at).wrapping_add(seconds).to_le_bytes());
        out.extend(&pcap[at + 4..end]);
        at = end;
    }
    out
}

#[test]
fn captures_that_lie_years_apart_are_runs_of_their_own() {
    let here = scratch();
    let pcap = here.path().join("nfs3.pcap");
    let mut editcap = Command::new("editcap");
    editcap.args(["-F", "pcap", text(&capture("nfs3.pcapng")), text(&pcap)]).stdin(Stdio::null());
    if editcap.output_in_time().is_err() {
        return skipped("there is no editcap to make a pcap file");
    }
    let other = here.path().join("http.pcap");
    let mut editcap = Command::new("editcap");
    editcap.args(["-F", "pcap", text(&capture("http.pcapng")), text(&other)]).stdin(Stdio::null());
    editcap.output_in_time().expect("editcap");
    let mut joined = std::fs::read(&pcap).expect("a pcap file");
    joined.extend(later(&std::fs::read(&other).expect("a pcap file"), 600_000_000));
    let both = here.path().join("both.pcap");
    std::fs::write(&both, joined).expect("a file");
    for verb in ["rpcstat", "explain"] {
        let said = run([verb, text(&both)]).done().out;
        assert!(said.contains("has 2 runs") && said.contains("run 1 of 2, 20") && said.contains("run 2 of 2, 20"), "{said}");
        assert!(said.lines().count() <= 15 && said.lines().all(|line| line.chars().count() <= 80) && !said.contains(" d "), "{said}");
        let document = run([verb, "--json", text(&both)]).done().json();
        assert_eq!(
            (&document["schema"], document["runs"].as_array().map(Vec::len)),
            (&Value::from(format!("thalweg.{verb}-runs/1")), Some(2))
        );
    }
    let first = run(["rpcstat", "--json", "--run", "1", text(&both)]).done().json();
    assert_eq!(first["calls"], 37);
    assert!(first["wall_s"].as_f64().is_some_and(|s| s < 3600.0), "{first}");
    run(["rpcstat", "--run", "3", text(&both)]).failed(2, &["--run 3", "2 runs"]);
}
