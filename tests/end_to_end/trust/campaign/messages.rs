//! Hostile messages: from strangers before the proof, and from holders of a credential after it.
//!
//! The messages are nearly valid: requests of every kind with numbers that overflow arithmetic, bytes changed, removed or added, and frames
//! with wrong lengths. All follow from one seed. `THALWEG_TEST_MESSAGES` sets their number, `THALWEG_TEST_SEED` the seed.

use super::asking::{Asker, Outcome, ProbedFile, USER, Who, World};
use super::mutate::{Random, mutated};
use super::sending::{Client, FIRST_BYTES, Message, framed, header, hello, message, stranger};
use super::state::State;
use crate::bounded::{accepted, joined};
use crate::common::{content, file, run, scratch, text};
use serde::Serialize;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use thalweg_wire::protocol::common::CommonRequest;
use thalweg_wire::protocol::examples;
use thalweg_wire::protocol::io::{DatafileId, IoRequest};
use thalweg_wire::protocol::lots::LotOperation;
use thalweg_wire::protocol::metadata::*;
use thalweg_wire::trust::Credentials;
use thalweg_wire::{Connect, Connection, HEADER_BYTES, Kind};

const MESSAGES: usize = 4000;
const SEED: u64 = 1;
/// Bound on the memory of a server in this test; idle, it has a tenth of that.
const MOST_MEMORY_KIB: u64 = 256 << 10;
/// Servers, by their index in the description.
const SERVERS: [(usize, Kind, &str); 2] = [(0, Kind::Metadata, "metadata"), (1, Kind::Io, "io0")];
/// Numbers that replace small ones in a request.
const EXTREME: [u64; 7] = [1 << 31, u32::MAX as u64, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |number| number.parse().expect("a number"))
}

#[test]
fn hostile_messages_before_and_after_the_hello_change_nothing_and_stop_nobody() {
    let many = number("THALWEG_TEST_MESSAGES", MESSAGES as u64) as usize;
    let seed = number("THALWEG_TEST_SEED", SEED);
    // Shown when the test fails.
    println!("THALWEG_TEST_MESSAGES={many} THALWEG_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let mut world = World::new();
    let scene = Scene::new(&world);
    let pids = SERVERS.map(|(_, _, name)| world.store.process(name).pid());
    let (before, copied) = (State::of(&world), copied_out(&world));
    strangers(&world, many / 4, &mut random);
    abuse(&world, &scene, Who::StoreReading, many * 3 / 8, &mut random);
    let nothing = Vec::<String>::new();
    assert_eq!(State::of(&world).changes_since(&before), nothing, "who may only read has changed something, or a stranger has");
    assert!(copied_out(&world) == copied, "the same bytes come out");
    abuse(&world, &scene, Who::Owner, many * 3 / 8, &mut random);
    let theirs = world.bobs_lot;
    let changes = State::of(&world).of_lot(theirs).changes_since(&before.of_lot(theirs));
    assert_eq!(changes, nothing, "an owner has changed what is another's");
    works(&world);
    for ((_, _, name), pid) in SERVERS.into_iter().zip(pids) {
        let process = world.store.process(name);
        assert!(process.runs() && process.pid() == pid, "{name} runs still");
        let peak_kib = peak_memory_kib(pid);
        println!("{name} has had {peak_kib} KiB in memory at most");
        assert!(peak_kib < MOST_MEMORY_KIB, "{name} has had {peak_kib} KiB in memory");
    }
}

/// The objects of hostile requests. The examples of requests name `/f` and `/d`.
struct Scene {
    theirs: ProbedFile,
    plain: ProbedFile,
    own: ProbedFile,
}

impl Scene {
    fn new(world: &World) -> Scene {
        let (lot, mut store) = (Some(world.bobs_lot), world.as_store());
        let theirs = world.file_at("/f".into(), lot);
        let default_layout = Some(Some(LayoutChoice { lot, ..LayoutChoice::default() }));
        let value = b"of bob".to_vec();
        for operation in [
            Operation::MakeDirectory { place: FilePath::at("/d"), owner: USER, parents: false },
            Operation::SetAttributes { place: FilePath::at("/d"), set: SetAttributes { default_layout, ..SetAttributes::default() } },
            Operation::SetExtended { place: theirs.place(), name: b"user.x".to_vec(), value, how: SetExtended::Create },
            Operation::MakeNode { place: FilePath::at("/link"), node: NewNode::Symlink(b"/f".to_vec()), owner: USER },
        ] {
            assert_eq!(store.try_to(operation), Outcome::Done);
        }
        Scene { theirs, plain: world.file(None), own: world.file(Some(world.anas_lot)) }
    }

    /// Returns the bodies of valid requests to this service, of every kind.
    fn corpus(&self, kind: Kind) -> Vec<Vec<u8>> {
        let files = [&self.theirs, &self.plain, &self.own].map(|file| file.datafile);
        let mut all: Vec<Vec<u8>> = match kind {
            Kind::Metadata => files.into_iter().flat_map(|file| metadata_requests(file.file)).collect(),
            _ => {
                let beside = DatafileId { lot: None, ..self.theirs.datafile };
                files.into_iter().chain([beside]).flat_map(examples::io_requests).map(|request| encoded(&request)).collect()
            }
        };
        all.sort();
        all.dedup();
        all
    }
}

fn encoded(request: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(request).expect("memory")
}

/// Returns each operation, with and without a number, and with closed files.
fn metadata_requests(file: FileId) -> Vec<Vec<u8>> {
    let closed = vec![Closed { file, write: true, end: End::whole(1 << 40, true) }];
    let about = |(number, operation): (u64, Operation)| {
        let plain = MetadataRequest::of(operation);
        let numbered = MetadataRequest { number: Some(RequestNumber { client: 9, line: 0, number }), ..plain.clone() };
        let more = MetadataRequest { closed: closed.clone(), directory: Some(FileId::ROOT), ..numbered.clone() };
        [plain, numbered, more].map(|request| encoded(&request))
    };
    (1..).zip(examples::operations(file)).flat_map(about).collect()
}

/// Sends bytes of strangers: truncated, changed and false proofs, other bytes, and messages that belong after a proof.
fn strangers(world: &World, many: usize, random: &mut Random) {
    let corpus = first_bytes(world);
    for number in 0..many {
        let (server, _, name) = SERVERS[number % 2];
        let first = match random.below(4) {
            0 => corpus[random.below(corpus.len())].clone(),
            _ => mutated(&corpus, random),
        };
        // A proof followed by a hello, as if it had been accepted.
        let mut then = vec![random.next() as u8; [0, 1, 8, 39, 40][random.below(5)]];
        then.iter_mut().zip(b"THALWEG\x01").for_each(|(to, from)| *to = *from);
        if random.below(2) == 0 {
            then.extend(hello());
        }
        let said = stranger(&super::super::address(&world.store.store, server), &first, &then);
        // An answer, a verdict or an error's text, but no name or byte of a file.
        assert!(said.len() < 1024, "{name} says {} bytes to a stranger", said.len());
    }
}

/// Returns the first bytes of connections, of this protocol and others; the first one is valid, with the store's own credential.
fn first_bytes(world: &World) -> Vec<Vec<u8>> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, credentials) = (listener.local_addr().unwrap().to_string(), Credentials::file(world.credential(Who::Store)));
    let client = std::thread::spawn(move || Connection::connect(&address, &Connect { credentials, ..Connect::default() }).err());
    let mut first = vec![0; FIRST_BYTES];
    let mut stream = accepted(&listener);
    stream.read_exact(&mut first).expect("a client proves its credential first");
    drop((stream, listener));
    assert!(joined(client).is_some(), "nobody has answered");
    let hello_of_tls = [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[7; 506]].concat();
    vec![first, hello(), hello_of_tls, b"GET / HTTP/1.1\r\nHost: store\r\n\r\n".to_vec(), b"THALWEG\x02".to_vec(), vec![0; 200]]
}

/// Sends requests with a credential to both servers.
fn abuse(world: &World, scene: &Scene, who: Who, many: usize, random: &mut Random) {
    let mut sides = SERVERS.map(|(server, kind, _)| (kind, scene.corpus(kind), Client::new(world, server, world.credential(who))));
    for number in 0..many {
        let (kind, corpus, client) = &mut sides[number % 2];
        if let Some(message) = hostile(*kind, corpus, number, random) {
            client.send(&message);
        }
    }
    for (kind, _, client) in &sides {
        println!("{who:?} to {kind:?}: {} done, {} refused", client.done, client.refused);
        assert!(client.done > many / 50 && client.refused > many / 10, "most were heard");
    }
}

/// Returns the next message; `None` if it would only fill this machine's memory, which any writer may do.
fn hostile(kind: Kind, corpus: &[Vec<u8>], number: usize, random: &mut Random) -> Option<Message> {
    let right = &corpus[number / 2 % corpus.len()];
    let payload = content(number as u64, [0, 0, 1, 9, 4096][random.below(5)]);
    let kind = if random.below(16) == 0 { Kind::Common } else { kind };
    let body = match (random.below(8), kind) {
        (_, Kind::Common) => common(random),
        (0 | 1, _) => right.clone(),
        (2..=5, _) => with_extremes(kind, right, random),
        _ => mutated(corpus, random),
    };
    if fills_memory(kind, &body) {
        return None;
    }
    let request = random.next() | 1;
    if random.below(8) > 0 {
        return Some(Message { bytes: message(kind, request, &body, &payload), is_right: true });
    }
    let bytes = match random.below(3) {
        0 => {
            let mut bytes = message(kind, request, &body, &payload);
            bytes.truncate(random.below(bytes.len()));
            bytes
        }
        1 => {
            let (body_bytes, payload_bytes) = (EXTREME[random.below(EXTREME.len())] as u32, EXTREME[random.below(EXTREME.len())]);
            let lengths = if random.below(2) == 0 { (body.len() as u32, payload_bytes) } else { (body_bytes, payload.len() as u64) };
            framed(header(kind, request, lengths, 0), &body, &payload)
        }
        _ => {
            let bytes = message(kind, request, &body, &payload);
            let changed = mutated(&[bytes[..HEADER_BYTES].to_vec()], random);
            [&changed, &bytes[HEADER_BYTES..]].concat()
        }
    };
    Some(Message { bytes, is_right: false })
}

/// Returns a request that every server answers, with any numbers.
fn common(random: &mut Random) -> Vec<u8> {
    let all = examples::common_requests();
    with_extremes(Kind::Common, &encoded(&all[random.below(all.len())]), random)
}

/// Returns a body with one to three of its small numbers set to extremes: lengths, offsets, sizes, numbers of files and lots. Usually it
/// can still be decoded.
fn with_extremes(kind: Kind, body: &[u8], random: &mut Random) -> Vec<u8> {
    let mut changed = Vec::new();
    for _ in 0..8 {
        changed = body.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(changed.len());
            if changed[at] < 0x80 {
                changed.splice(at..=at, encoded(&EXTREME[random.below(EXTREME.len())]));
            }
        }
        if is_known(kind, &changed) {
            break;
        }
    }
    changed
}

/// Returns whether a server of this kind can decode it.
fn is_known(kind: Kind, body: &[u8]) -> bool {
    match kind {
        Kind::Common => postcard::from_bytes::<CommonRequest>(body).is_ok(),
        Kind::Io => postcard::from_bytes::<IoRequest>(body).is_ok(),
        Kind::Metadata => postcard::from_bytes::<MetadataRequest>(body).is_ok(),
    }
}

/// Returns whether it requests space that would be granted, which is memory here.
fn fills_memory(kind: Kind, body: &[u8]) -> bool {
    let too_much = |bytes: u64| (1 << 24..1 << 50).contains(&bytes);
    match kind {
        Kind::Io => matches!(
            postcard::from_bytes(body),
            Ok(IoRequest::Allocate { datafiles, .. }) if datafiles.iter().any(|(_, _, length)| too_much(*length))
        ),
        _ => match postcard::from_bytes::<MetadataRequest>(body).map(|request| request.operation) {
            Ok(Operation::Lot(LotOperation::Create { size_bytes, .. } | LotOperation::Resize { size_bytes, .. })) => too_much(size_bytes),
            _ => false,
        },
    }
}

/// Copies the whole store out, as an honest client.
fn copied_out(world: &World) -> Vec<(String, Vec<u8>)> {
    let here = scratch();
    let out = here.path().join("out");
    run(["cp", "--quiet", "-r", "--store", text(&world.store.store), "thal:/", text(&out)]).done();
    let mut all: Vec<_> = super::super::files(&out).iter().map(|path| (name_in(&out, path), std::fs::read(path).unwrap())).collect();
    all.sort();
    assert!(all.len() >= 3, "{all:?}");
    all
}

fn name_in(directory: &Path, path: &Path) -> String {
    path.strip_prefix(directory).expect("it is in there").to_string_lossy().into_owned()
}

/// Copies in and out as an honest client.
fn works(world: &World) {
    let (here, bytes) = (scratch(), content(5, 3_000_000));
    let (source, out, store) = (file(here.path(), "in", &bytes), here.path().join("out"), text(&world.store.store));
    run(["cp", "--quiet", "--store", store, text(&source), "thal:/works"]).done();
    run(["cp", "--quiet", "--store", store, "thal:/works", text(&out)]).done();
    assert!(std::fs::read(&out).unwrap() == bytes);
    assert_eq!(Asker::new(world, Who::Owner).try_to(Operation::Status), Outcome::Done);
}

fn peak_memory_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process of ours");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}
