//! Recordings of real programs with one fault each: it limits, at its place, and little is unknown.

use crate::common::check;
use std::path::Path;
use thalweg_explain::document::Status;
use thalweg_explain::{Explanation, Options, explain};
use thalweg_trace::Recording;

fn explained(name: &str) -> Explanation {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs").join(name);
    let recording = Recording::open(&path).expect("a fixture opens");
    let explanation = explain(&recording, &Options { what_if: false, ..Options::default() }).expect("explains");
    check(&explanation);
    explanation
}

/// Recording, fault, its least part of the time, and its place.
const WRONG: &[(&str, &str, f64, &str)] = &[
    ("connect-before-listener", "server.unknown", 0.85, "the server at 127.0.0.1:8766"),
    ("copy-lock", "client.lock", 0.85, "holds while it sleeps"),
    ("cp-cpu-quota", "client.runqueue", 0.5, "CPUs"),
    ("cp-source-disk", "client.read", 0.8, "source-96Mi on loop3"),
    ("curl-get-client-pauses", "client.think", 0.7, "client curl: asleep"),
    ("curl-get-loss", "network.loss", 0.4, "server nginx > client"),
    ("losses-from-the-start", "network.loss", 0.7, "server nginx > client"),
    ("curl-get-server-pauses", "server.think", 0.85, "server nginx: asleep"),
    ("curl-get-slow-start", "network.cwnd", 0.6, "server nginx > client"),
    // The packing thread makes two more, which did not exist when it began.
    ("git-gc", "client.runqueue", 0.6, "CPUs"),
    ("gridftp-put-1-sndbuf", "network.sndbuf", 0.75, "client > server globus"),
    ("mount-lock-held", "client.lock", 0.4, "client flock: a lock that the client at 127.0.0.1:"),
    ("mount-own", "client.think", 0.7, "mount: waiting for requests"),
    ("mount-read-one-slow-server", "server.read", 0.8, "server io2: file.read"),
    ("mount-write-fsync-server-disk", "server.sync", 0.8, "server io0: file.sync"),
    ("mount-write-link", "network.bandwidth", 0.8, "mount > server io"),
    ("nfs-read-server-unrecorded", "server.unknown", 0.9, "the server at 127.0.0.1"),
    ("nfs-write-server-disk", "server.sync", 0.9, "on loop5"),
    ("nfs-write-server-stopped", "server.think", 0.7, "server ganesha.nfsd: stopped"),
    ("perl-busy-database", "client.lock", 0.9, "/w/j.db"),
    ("rsync-get-server-disk", "server.read", 0.8, "server rsync: file.read"),
    ("store-lost-greetings", "network.loss", 0.95, "server io1 > client"),
    ("transfer-polls", "server.read", 0.7, "on loop2"),
];

#[test]
fn what_is_wrong_with_a_real_program_is_named_with_its_share_and_place() {
    for &(name, cause, least, place) in WRONG {
        let e = explained(name);
        let verdict = &e.verdict;
        assert_eq!(verdict.cause.name(), cause, "{name}: {:#?}", e.critical_path);
        assert!(verdict.share >= least, "{name}: {} of it", verdict.share);
        assert!(verdict.place.contains(place), "{name}: {}", verdict.place);
        assert_eq!(verdict.status, Status::Limited, "{name}");
    }
}

#[test]
fn little_of_a_real_program_is_unknown() {
    for (name, ..) in WRONG {
        let e = explained(name);
        let unknown: f64 = e.critical_path.iter().filter(|c| c.cause.name() == "unknown").map(|c| c.share).sum();
        assert!(unknown <= 0.02, "{name}: {unknown}");
    }
}

#[test]
fn the_transfer_of_a_real_program_is_the_file_it_was_asked_to_move() {
    for (name, from, to, mib) in [
        ("cp-source-disk", "source-96Mi", "sink/cp-source-disk", 96.0),
        ("nfs-read-server-unrecorded", "127.0.0.1:59785", "sink/nfs-read-server-unrecorded", 96.0),
        ("gridftp-put-1-sndbuf", "source-24Mi", "10.86.137.2:55017: /lab/server/gridftp-put-1-sndbuf", 24.0),
        ("curl-get-server-pauses", "127.0.0.1", "sink/curl-get-server-pauses", 48.0),
        ("mount-write-link", "source-64Mi", "mount-write-link/mount/mount-write-link", 64.0),
    ] {
        let e = explained(name);
        let largest = e.transfers.iter().max_by_key(|t| t.size_bytes).expect("something was moved");
        assert!(largest.from.contains(from), "{name}: from {}", largest.from);
        assert!(largest.to.as_deref().is_some_and(|t| t.contains(to)), "{name}: to {:?}", largest.to);
        let is = largest.size_bytes as f64 / f64::from(1 << 20);
        assert!((is / mib - 1.0).abs() < 0.02, "{name}: {is} MiB");
    }
}

#[test]
fn what_a_mount_and_servers_on_this_machine_did_needs_no_other_recording() {
    for name in ["mount-lock-held", "mount-read-one-slow-server", "mount-write-fsync-server-disk", "mount-write-link"] {
        let e = explained(name);
        let unrecorded = e.critical_path.iter().find(|c| c.cause.name() == "server.unknown");
        assert!(unrecorded.is_none_or(|c| c.share < 0.01), "{name}: {unrecorded:?}");
        assert!(e.notes.iter().all(|note| !note.contains("was not recorded")), "{name}: {:?}", e.notes);
    }
}

#[test]
fn how_to_record_the_other_end_is_said_in_a_command() {
    let e = explained("nfs-read-server-unrecorded");
    assert!(e.notes.iter().any(|n| n.contains("--also 59785")), "{:?}", e.notes);
}

#[test]
fn a_mount_that_a_program_works_in_without_naming_it_is_the_mount() {
    let e = explained("mount-not-named");
    assert!(e.summary.sentence.contains("the mount"), "{}", e.summary.sentence);
    let as_server = e.critical_path.iter().find(|c| c.place.starts_with("server thalweg"));
    assert!(as_server.is_none(), "{as_server:?}");
    assert_eq!(e.summary.about.split(" in ").next(), Some("127 requests"), "{}", e.summary.about);
}
