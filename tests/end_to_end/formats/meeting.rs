//! Two releases on one machine that meet one recording, one store, one document or one connection: one sentence says what was met, which
//! release made it, which one this is, and what to do.

use super::{copy_of, fixture, replace, started, unpacked_store, up};
use crate::bounded::{Bounded, BoundedChild};
use crate::common::{CREDENTIAL, CommandOutput, run, scratch, text, thalweg};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;

/// This release, as sentences name it.
const OURS: &str = concat!("this is thalweg ", env!("CARGO_PKG_VERSION"));

/// Starts a store that must not come up.
fn refused(directory: &Path) -> CommandOutput {
    up(directory).output_in_time().expect("the command starts").into()
}

#[test]
fn a_recording_of_a_newer_release_is_refused_with_both_releases_named() {
    let here = scratch();
    let recording = here.path().join("newer.thw");
    copy_of("recording-2", &recording);
    // With fields that this release does not know, of types that it would not expect.
    replace(&recording.join("meta.json"), "\"format\": 2,", "\"format\": 3, \"made_by\": \"thalweg 0.2.0\", \"hosts\": [1],");
    let meta = std::fs::read_to_string(recording.join("meta.json")).unwrap();
    std::fs::write(
        recording.join("meta.json"),
        meta.replacen(&format!("\"made_by\": \"thalweg {}\"", env!("CARGO_PKG_VERSION")), "\"end_s\": {}", 1),
    )
    .unwrap();
    let says = ["a recording of format 3, made by thalweg 0.2.0", OURS, "use thalweg 0.2.0, or a newer one"];
    let path = text(&recording);
    run(["explain", path]).failed(1, &says);
    run(["diff", path, text(&fixture("explanation-1.json"))]).failed(1, &says);
    run(["export", path, "-o", text(&here.path().join("out.csv"))]).failed(1, &says);
    let merged = here.path().join("merged.thw");
    run(["merge", path, text(&fixture("recording-2")), "-o", text(&merged)]).failed(1, &says);
    assert!(!merged.exists() && !here.path().join("out.csv").exists());
    // A later release may say that otherwise, too.
    replace(&recording.join("meta.json"), "\"thalweg 0.2.0\"", "{\"release\": [0, 2]}");
    run(["explain", path]).failed(1, &["a recording of format 3; this is thalweg", "use the release that made it"]);
}

#[test]
fn a_recording_in_progress_by_a_newer_release_is_refused_by_its_segments_too() {
    let here = scratch();
    let recording = here.path().join("newer.thw");
    copy_of("unfinished-2", &recording);
    let mut segments = 0;
    for segment in std::fs::read_dir(recording.join("segments")).unwrap().flatten() {
        let mut bytes = std::fs::read(segment.path()).unwrap();
        bytes[8] += 1;
        std::fs::write(segment.path(), bytes).unwrap();
        segments += 1;
    }
    assert!(segments > 0);
    run(["explain", text(&recording)]).failed(1, &["a recording of format 3", OURS, "use the release that made it"]);
}

#[test]
fn documents_of_another_version_are_no_documents_of_ours() {
    let here = scratch();
    let (explanation, sweep) = (here.path().join("explanation.json"), here.path().join("sweep.json"));
    std::fs::copy(fixture("explanation-1.json"), &explanation).unwrap();
    std::fs::copy(fixture("sweep-1.json"), &sweep).unwrap();
    replace(&explanation, "thalweg.explain/1", "thalweg.explain/2");
    replace(&sweep, "\"schema\": \"thalweg.sweep/1\"", "\"schema\": \"thalweg.sweep/2\", \"speed\": 1");
    let newer = ["a document `thalweg.explain` of format 2", OURS];
    run(["diff", text(&explanation), text(&fixture("recording-2"))]).failed(1, &newer);
    run(["diff", text(&fixture("recording-2")), text(&explanation)]).failed(1, &newer);
    run(["sweep", "diff", text(&sweep), text(&sweep)]).failed(1, &["a document `thalweg.sweep` of format 2", OURS]);
    run(["tune", "--replay", text(&sweep)]).failed(1, &["a document `thalweg.sweep` of format 2", OURS]);
    run(["diff", text(&fixture("sweep-1.json")), text(&fixture("recording-2"))])
        .failed(1, &["`thalweg.sweep/1`, expected `thalweg.explain/1`"]);
}

#[test]
fn a_store_toml_with_a_newer_releases_key_names_the_key_and_the_line() {
    let store = unpacked_store();
    let description = store.path().join("store.toml");
    replace(&description, "[metadata]\n", "[metadata]\nreplicas = 3\n");
    let says = ["store.toml:5", "`replicas` is not known to thalweg", "use the release that it is for"];
    refused(store.path()).failed(1, &says);
    run(["ls", "--store", text(&description), "thal:/"]).failed(1, &says);
}

#[test]
fn a_credential_with_a_newer_releases_key_names_the_key_and_no_secret() {
    let store = started(unpacked_store());
    let credential = store.directory.path().join("ana.credential");
    let written = std::fs::read_to_string(&credential).unwrap();
    let secret = written.lines().find_map(|line| line.strip_prefix("secret = ")).unwrap().trim_matches('"');
    let ls = || run(["ls", "--credential", text(&credential), &store.path("/")]);
    ls().done();
    replace(&credential, "secret = ", "groups = [\"a\"]\nsecret = ");
    let said = ls();
    assert!(!said.err.contains(secret));
    said.failed(1, &["ana.credential", "`groups` is not known to thalweg", "use the release that it is for"]);
}

#[test]
fn a_store_of_a_newer_release_does_not_come_up_and_is_left_as_it_was() {
    // The files that say a format, what a newer release would write, and what is said of it.
    let newer: [(&str, &str, &str, &str); 2] = [
        (
            "io1/thalweg-target.toml",
            "format = 1",
            "format = 3\nmade_by = \"thalweg 0.2.0\"\nsums = true",
            "a target of format 3, made by thalweg 0.2.0",
        ),
        ("io0/thalweg-lots.toml", "format = 1", "format = 2\nby = \"someone\"", "a list of lots of format 2"),
    ];
    for (name, from, to, says) in newer {
        let store = unpacked_store();
        replace(&store.path().join(name), from, to);
        refused(store.path()).failed(1, &[name, says, OURS]);
    }
}

#[test]
fn the_names_of_a_newer_release_are_refused_by_their_log_and_by_their_database() {
    let store = unpacked_store();
    let metadata = store.path().join("metadata");
    let log =
        std::fs::read_dir(&metadata).unwrap().flatten().find(|entry| entry.file_name().to_string_lossy().starts_with("log-")).unwrap();
    let whole = std::fs::read(log.path()).unwrap();
    let mut newer = whole.clone();
    newer[8] += 1;
    let sum = thalweg_bulk::crc32c(&newer[..32]);
    newer[32..36].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(log.path(), &newer).unwrap();
    refused(store.path()).failed(1, &["a metadata log of format 2", OURS, "use the release that made it"]);
    assert!(std::fs::read(log.path()).unwrap() == newer, "it is left as it was");
    std::fs::write(log.path(), &whole).unwrap();
    // redb's own version is the first byte of each of its two commit slots.
    let path = metadata.join("metadata.redb");
    let mut database = std::fs::read(&path).unwrap();
    assert_eq!((database[64], database[192]), (3, 3));
    (database[64], database[192]) = (4, 4);
    std::fs::write(&path, &database).unwrap();
    refused(store.path()).failed(1, &["metadata.redb", "file format version", "found 4", OURS, "use the release that made it"]);
}

/// Which end of a connection is another release.
#[derive(Clone, Copy, PartialEq)]
enum Other {
    Client,
    Server,
}

/// Passes bytes on; each message that has begun with our version gets another.
fn pass(mut from: TcpStream, mut to: TcpStream, change: Option<i16>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length) = from.read(&mut buffer) {
        if length == 0 {
            break;
        }
        for at in 0..length.saturating_sub(6) {
            if let (b"TLWG", Some(change)) = (&buffer[at..at + 4], change) {
                let version = u16::from_le_bytes([buffer[at + 4], buffer[at + 5]]).wrapping_add_signed(change);
                buffer[at + 4..at + 6].copy_from_slice(&version.to_le_bytes());
            }
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Lists a store, where one of the two ends is another release by so many versions.
fn list_as(address: &str, other: Other, by: i16, credential: &Path) -> CommandOutput {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = listener.local_addr().unwrap();
    let server = address.trim_start_matches("thal://").to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(&server) else { return };
            let (client_again, server_again) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let change = |end: Other| (end == other).then_some(by);
            let (up, down) = (change(Other::Client), change(Other::Server));
            std::thread::spawn(move || pass(client, server, up));
            std::thread::spawn(move || pass(server_again, client_again, down));
        }
    });
    let mut ls = thalweg(["ls", &format!("thal://{ours}/")]);
    ls.env(CREDENTIAL, credential);
    ls.output_in_time().expect("the command starts").into()
}

#[test]
fn a_client_and_a_server_of_two_releases_say_which_of_them_is_the_older_one() {
    let store = started(unpacked_store());
    let credential = store.credential();
    list_as(&store.address, Other::Server, 0, &credential).done();
    let speaks = |version: u16| format!("which speaks version {version} of the protocol");
    let ours = thalweg_wire::VERSION;
    for (by, release) in [(1, "a newer release"), (-1, "an older release")] {
        let theirs = speaks(ours.wrapping_add_signed(by));
        let said = list_as(&store.address, Other::Server, by, &credential);
        said.failed(1, &[release, &theirs, OURS, &format!("which speaks version {ours}"), "use one release at both ends"]);
        // The server says the same to its client, which is ours here.
        let said = list_as(&store.address, Other::Client, by, &credential);
        said.failed(1, &["protocol", "use one release at both ends"]);
    }
}

#[test]
fn a_host_of_a_job_with_another_release_says_both_versions_also_where_its_messages_differ() {
    let (ours, both) = (env!("CARGO_PKG_VERSION"), "install the same version on all hosts");
    for more in ["\"targets\":[]", "\"targets\":{\"new\":1},\"more\":2"] {
        let mut part = thalweg(["launch", "--part"]);
        let mut part = part.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        let begin = format!("{{\"Begin\":{{\"version\":\"9.8.7\",\"address\":\"127.0.0.1\",\"listeners\":1,{more}}}}}\n");
        part.stdin.take().expect("it is piped").write_all(begin.as_bytes()).unwrap();
        let said = CommandOutput::from(part.output_in_time().expect("it ends"));
        assert!(said.code == Some(1) && said.out.contains("\"Failed\""), "{said:?}");
        assert!(said.out.contains(&format!("version {ours} there, but 9.8.7")) && said.out.contains(both), "{said:?}");
    }
}
