//! Bad input: a clear error, nothing lost, nothing left half-done. Each test is one item of the promise.

use crate::bounded::{accepted, heard, joined};
use crate::common::{CommandOutput, Running, Servers, Up, content, file, run, scratch, text, thalweg};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Checks that a refused command left nothing in the store, under any name.
#[track_caller]
fn nothing_was_made(store: &Up) {
    assert_eq!(run(["ls", &store.path("/")]).done().out, "");
}

#[test]
fn an_unknown_distribution_or_parameter_is_named() {
    let store = Up::start(2);
    let here = scratch();
    let source = file(here.path(), "source", b"x");
    let copy = |layout: &str| run(["cp", "--quiet", "--layout", layout, text(&source), &store.path("/f")]);
    copy("zigzag").failed(1, &["zigzag", "simple_stripe"]);
    copy("simple_stripe,stripe_size=1Mi").failed(1, &["stripe_size", "strip_size"]);
    copy("basic_dist,strip_size=1Mi").failed(1, &["strip_size"]);
    nothing_was_made(&store);
}

#[test]
fn zero_negative_and_overflowing_sizes_are_refused() {
    let store = Up::start(2);
    let here = scratch();
    let source = file(here.path(), "source", b"x");
    for flag in ["--request", "--buffer"] {
        for size in ["0", "-1", "0Ki", "-10Mi", "9223372036854775808", "99999999999999999999Gi", "10M", "1.5M", ""] {
            run(["cp", "--quiet", flag, size, text(&source), &store.path("/f")]).failed(2, &[flag]);
        }
    }
    for flag in ["--requests", "--depth", "--streams", "--datafiles", "--timeout", "--workers"] {
        for number in ["0", "-1", "99999999999999999999", "many"] {
            run(["cp", "--quiet", flag, number, text(&source), &store.path("/f")]).failed(2, &[flag]);
        }
    }
    for size in ["0", "-1", "9223372036854775808", "none"] {
        let layout = format!("simple_stripe,strip_size={size}");
        run(["cp", "--quiet", "--layout", &layout, text(&source), &store.path("/f")]).failed(1, &["strip_size"]);
    }
    for source in ["memory:-1", "memory:", "memory:1Q", "memory:9223372036854775808", "disk:1Mi"] {
        run(["cp", "--quiet", "--source", source, &store.path("/f")]).failed(2, &["--source"]);
    }
    nothing_was_made(&store);
}

#[test]
fn a_varstrip_with_a_gap_a_missing_size_or_an_odd_suffix_is_refused() {
    let store = Up::start(4);
    let here = scratch();
    let source = file(here.path(), "source", b"x");
    for strips in ["0:1K;2:1K", "0:;1:1K", "0:512;1", "0:512KB", "x:10", "0:-5", "0:0", "", ";", "0:1K;9:1K", "0:99999999999999999999"] {
        let layout = format!("varstrip_dist,strips={strips}");
        run(["cp", "--quiet", "--layout", &layout, text(&source), &store.path("/f")]).failed(1, &["varstrip_dist"]);
    }
    run(["cp", "--quiet", "--layout", "varstrip_dist", text(&source), &store.path("/f")]).failed(1, &["strips"]);
    nothing_was_made(&store);
}

#[test]
fn more_datafiles_than_targets_is_refused() {
    let store = Up::start(3);
    let here = scratch();
    let source = file(here.path(), "source", b"x");
    run(["cp", "--quiet", "--datafiles", "4", text(&source), &store.path("/f")]).failed(1, &["4", "3"]);
    run(["cp", "--quiet", "--place", "targets:0,7", text(&source), &store.path("/f")]).failed(1, &["7"]);
    run(["cp", "--quiet", "--node", "elsewhere", "--place", "local", text(&source), &store.path("/f")]).failed(1, &["elsewhere"]);
    nothing_was_made(&store);
}

#[test]
fn a_target_that_exists_needs_force() {
    let store = Up::start(2);
    let here = scratch();
    let old = file(here.path(), "old", b"old");
    let new = file(here.path(), "new", b"new and longer");
    run(["cp", "--quiet", text(&old), &store.path("/f")]).done();
    run(["cp", "--quiet", text(&new), &store.path("/f")]).failed(1, &["/f", "exists", "--force"]);
    assert_eq!(run(["cat", &store.path("/f")]).done().out, "old");
    run(["cp", "--quiet", "--force", text(&new), &store.path("/f")]).done();
    assert_eq!(run(["cat", &store.path("/f")]).done().out, "new and longer");
    run(["cp", "--quiet", &store.path("/f"), text(&old)]).failed(1, &["old", "exists", "--force"]);
    assert_eq!(std::fs::read(&old).unwrap(), b"old");
}

#[test]
fn a_target_that_is_a_directory_is_refused() {
    let store = Up::start(2);
    let here = scratch();
    let source = file(here.path(), "source", b"x");
    run(["mkdir", &store.path("/d")]).done();
    for force in [&[][..], &["--force"]] {
        run([&["cp", "--quiet"], force, &[text(&source), &store.path("/d")]].concat()).failed(1, &["/d", "directory"]);
        run([&["cp", "--quiet"], force, &[&store.path("/d"), text(here.path())]].concat()).failed(1, &["directory"]);
    }
    run(["cp", "--quiet", text(&source), &store.path("/f")]).done();
    run(["cp", "--quiet", "--force", &store.path("/f"), text(here.path())]).failed(1, &["directory"]);
    assert_eq!(run(["ls", &store.path("/d")]).done().out, "");
    run(["cp", "--quiet", text(&source), &store.path("/nowhere/f")]).failed(1, &["/nowhere"]);
}

#[test]
fn a_source_that_is_a_directory_or_is_absent_is_refused() {
    let store = Up::start(2);
    let here = scratch();
    run(["cp", "--quiet", text(here.path()), &store.path("/f")]).failed(1, &["directory", "-r"]);
    run(["cp", "--quiet", text(&here.path().join("absent")), &store.path("/f")]).failed(1, &["absent"]);
    run(["cp", "--quiet", &store.path("/absent"), text(&here.path().join("out"))]).failed(1, &["/absent"]);
    assert!(!here.path().join("out").exists());
    nothing_was_made(&store);
}

#[test]
fn a_port_in_use_is_named() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let here = scratch();
    run(["up", "--port", &port, text(here.path())]).failed(1, &[&port, "in use"]);
    let mut servers = Servers::start(1);
    run(["serve", "--store", text(&servers.store), "--name", "io0"]).failed(1, &["in use"]);
    assert!(servers.process("io0").runs());
}

#[test]
fn a_store_file_that_cannot_be_meant_is_refused() {
    let here = scratch();
    let serve = |text_of_file: &str, name: &str| {
        let path = file(here.path(), "store.toml", text_of_file.as_bytes());
        run(["serve", "--store", text(&path), "--name", name])
    };
    let metadata = "store = \"00000000000000a1\"\n\n[metadata]\naddress = \"127.0.0.1:7000\"\ndirectory = \"/tmp/m\"\n";
    let server = |name: &str, port: u16, target: &str| {
        format!("\n[[servers]]\nname = \"{name}\"\nnode = \"n\"\naddress = \"127.0.0.1:{port}\"\ntargets = [\"{target}\"]\n")
    };
    let two = |a: String, b: String| format!("{metadata}{a}{b}");
    serve(&two(server("io0", 7001, "/tmp/a"), server("io0", 7002, "/tmp/b")), "io0").failed(1, &["io0", "store.toml"]);
    serve(&two(server("io0", 7001, "/tmp/a"), server("io1", 7001, "/tmp/b")), "io0").failed(1, &["7001"]);
    serve(&two(server("io0", 7001, "/tmp/a"), server("io1", 7002, "/tmp/a")), "io0").failed(1, &["/tmp/a"]);
    serve(&two(server("io0", 7001, "/tmp/a"), server("io1", 7002, "/tmp/b")), "io9").failed(1, &["io9"]);
    serve(metadata, "io0").failed(1, &["store.toml"]);
    serve("this is not TOML", "io0").failed(1, &["store.toml"]);
    serve(&format!("{metadata}colour = \"red\"\n"), "io0").failed(1, &["colour"]);
    run(["serve", "--store", text(&here.path().join("absent.toml")), "--name", "io0"]).failed(1, &["absent.toml"]);
}

/// Returns the first bytes that a real client sends.
fn first_of_a_client() -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("thal://{}/", listener.local_addr().unwrap());
    let mut client = Running::start(thalweg(["ls", "--timeout", "1", &to]));
    let mut stream = accepted(&listener);
    let first = everything_said(&mut stream);
    drop(stream);
    client.wait();
    first
}

/// Reads what a peer sends before it waits for an answer.
fn everything_said(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(said.len() >= 64, "a header at least: {} bytes", said.len());
    said
}

/// Changes bytes of a valid message's header. The offsets are in the protocol's description.
fn altered(honest: &[u8], at: std::ops::Range<usize>, to: &[u8]) -> Vec<u8> {
    let mut message = honest.to_vec();
    message[at].copy_from_slice(to);
    message
}

const VERSION: std::ops::Range<usize> = 4..6;
const PAYLOAD_BYTES: std::ops::Range<usize> = 24..32;
const BODY_BYTES: std::ops::Range<usize> = 32..36;
/// Offset of the proof's version in each of its messages.
const PROOF_VERSION: usize = 7;
/// Lengths of a client's proof in both messages, and of a server's: its answer and its verdict. The hello follows.
const PROOF_OF_CLIENT: usize = 144 + 40;
const PROOF_OF_SERVER: usize = 88 + 16;

/// A change of what one end of a connection sends: bytes at an offset, and the end.
#[derive(Clone, Default)]
struct Change {
    at: usize,
    to: Vec<u8>,
    end: Option<usize>,
}

impl Change {
    /// Changes the header that follows a proof of this length.
    fn behind(proof: usize, at: std::ops::Range<usize>, to: &[u8]) -> Change {
        Change { at: proof + at.start, to: to.to_vec(), end: None }
    }

    /// Forwards what one end sends, until it is silent or the change ends it.
    fn hand_on(&self, mut from: TcpStream, mut to: TcpStream) {
        let (mut buffer, mut seen) = ([0; 4096], 0);
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let piece = &mut buffer[..length.min(self.end.map_or(length, |end| end - seen))];
            for (place, byte) in (seen..).zip(piece.iter_mut()) {
                if let Some(changed) = place.checked_sub(self.at).and_then(|place| self.to.get(place)) {
                    *byte = *changed;
                }
            }
            seen += piece.len();
            if to.write_all(piece).is_err() || self.end == Some(seen) {
                break;
            }
        }
        for end in [from, to] {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Lists a store through a proxy that changes both directions; returns the client's output and the proxy's address.
fn through_a_forger(store: &Up, of_client: &Change, of_server: &Change) -> (CommandOutput, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = TcpStream::connect(store.address.strip_prefix("thal://").unwrap()).unwrap();
    let (of_client, of_server) = (of_client.clone(), of_server.clone());
    let forger = std::thread::spawn(move || {
        // Accepts once; later connections are refused.
        let client = accepted(&listener);
        drop(listener);
        let both = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let back = std::thread::spawn(move || of_server.hand_on(both.1, both.0));
        of_client.hand_on(client, server);
        joined(back);
    });
    let said = run(["ls", "--timeout", "2", "--credential", text(&store.credential()), &format!("thal://{address}/")]);
    joined(forger);
    (said, address)
}

#[test]
fn a_server_outlives_peers_that_speak_garbage_another_version_or_claim_a_huge_message() {
    let store = Up::start(2);
    let address = store.address.strip_prefix("thal://").unwrap().to_owned();
    let honest = first_of_a_client();
    for bytes in [
        content(1, 100_000),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 4096],
        altered(&honest, VERSION, &[0xee, 0xee]),
        altered(&honest, PAYLOAD_BYTES, &(1_u64 << 63).to_le_bytes()),
        altered(&honest, BODY_BYTES, &u32::MAX.to_le_bytes()),
        altered(&honest, 60..64, &[0; 4]),
        honest[..10].to_vec(),
    ] {
        let mut peer = TcpStream::connect(&address).unwrap();
        let _ = peer.write_all(&bytes);
        let _ = peer.shutdown(std::net::Shutdown::Write);
        let answer = heard(&mut peer);
        assert!(answer.len() < 1 << 16, "a few words at most");
    }
    // The same after a valid proof.
    for (at, to) in [
        (VERSION, &[0xee, 0xee][..]),
        (PAYLOAD_BYTES, &(1_u64 << 63).to_le_bytes()),
        (BODY_BYTES, &u32::MAX.to_le_bytes()),
        (60..64, &[0; 4]),
    ] {
        let (said, _) = through_a_forger(&store, &Change::behind(PROOF_OF_CLIENT, at, to), &Change::default());
        said.failed(1, &["127.0.0.1"]);
    }
    run(["ls", &store.path("/")]).done();
    let status = std::fs::read_to_string(format!("/proc/{}/status", store.process.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kib < 512 << 10, "{peak_kib} KiB were taken for claims");
}

#[test]
fn a_client_says_what_is_wrong_with_a_peer_that_speaks_garbage_another_version_or_claims_a_huge_message() {
    let store = Up::start(1);
    let honest = {
        let mut stream = TcpStream::connect(store.address.strip_prefix("thal://").unwrap()).unwrap();
        stream.write_all(&first_of_a_client()).unwrap();
        everything_said(&mut stream)
    };
    for (answer, says) in [
        (content(9, 4096), &["protocol"][..]),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(), &["protocol"]),
        (altered(&honest, PROOF_VERSION..PROOF_VERSION + 1, &[0x34]), &["version 52", "does by version 1: use one release at both ends"]),
        (honest[..honest.len() - 1].to_vec(), &[]),
        (Vec::new(), &[]),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let peer = std::thread::spawn(move || {
            // Accepts once; later connections are refused.
            let mut stream = accepted(&listener);
            drop(listener);
            everything_said(&mut stream);
            let _ = stream.write_all(&answer);
        });
        let said = run(["ls", "--timeout", "2", &format!("thal://{address}/")]).failed(1, &[&address]);
        assert!(says.iter().all(|word| said.err.contains(word)), "expected {says:?} in: {}", said.err);
        joined(peer);
    }
    // The same from a peer with a valid proof.
    let huge = (1_u64 << 63).to_le_bytes();
    let cut = Change { end: Some(PROOF_OF_SERVER + 63), ..Change::default() };
    for (change, says) in [
        (Change::behind(PROOF_OF_SERVER, VERSION, &[0x34, 0x12]), &["version", "4660", "1"][..]),
        (Change::behind(PROOF_OF_SERVER, PAYLOAD_BYTES, &huge), &["9223372036854775808"]),
        (Change::behind(0, 60..64, &[0; 4]), &["does not prove"]),
        (cut, &[]),
    ] {
        let (said, address) = through_a_forger(&store, &Change::default(), &change);
        let said = said.failed(1, &[&address]);
        assert!(says.iter().all(|word| said.err.contains(word)), "expected {says:?} in: {}", said.err);
    }
    // An unmodified connection works until the client connects again.
    let (said, _) = through_a_forger(&store, &Change::default(), &Change::default());
    said.failed(1, &["Connection refused"]);
}
