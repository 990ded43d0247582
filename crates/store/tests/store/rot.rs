//! Rot of every kind of file of a store: whatever is flipped, cut, emptied or replaced by an older copy, what is read afterwards is right, or an
//! error.
//!
//! A case changes one file of a store that is stopped, starts it, and reads all names, attributes and bytes. It passes if the start or any of the
//! reads is refused, or all of them are as they were. `make test` runs some of the cases; `THALWEG_ROT_CASES=N` runs N, and
//! `THALWEG_ROT_SHARD=I/M` every M-th of them from the I-th on, so that several processes share them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::metadata::MetadataClient;
use thalweg_client::{DataClient, Store};
use thalweg_io::Target;
use thalweg_store::config::StoreConfig;
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{DatafileId, FileId, TargetId};
use thalweg_wire::protocol::metadata::{Detail, Existing, FileKind, FilePath, LayoutChoice};
use thalweg_wire::trust::Credentials;
use thalweg_wire::{Connect, Result};

/// Cases of `make test`.
const CASES: u64 = 120;

/// What a reader sees: of each path, its mode and its bytes.
type Contents = BTreeMap<Vec<u8>, (u32, Vec<u8>)>;

/// Random numbers that a seed repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }

    fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| 1 + self.below(255) as u8).collect()
    }
}

/// How a file rots.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rot {
    Flipped,
    Cut,
    Emptied,
    Older,
}

/// A place in memory where there is one: a case copies and syncs a store.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn start(directory: &Path) -> Result<RunningStore> {
    let mut options = UpOptions::new([directory]);
    options.servers = Some(2);
    up(&options)
}

fn options_of(running: &RunningStore) -> Connect {
    let credentials = Credentials::given(running.credential().clone());
    Connect { timeout: Duration::from_secs(20), credentials, ..Connect::default() }
}

fn names_of(running: &RunningStore) -> Result<MetadataClient> {
    let address = running.listens("metadata").expect("it listens").to_string();
    MetadataClient::connect(&mut Tracer::off(), &address, &options_of(running))
}

fn store_of(running: &RunningStore) -> Result<Store> {
    let names = names_of(running)?;
    let map = names.map();
    let options = Connect { store: Some(map.store), ..options_of(running) };
    let data = Arc::new(DataClient::of_store(map.as_ref().clone(), &options, Arc::new(names.clone())));
    Ok(Store { names: Arc::new(names), data })
}

/// Reads everything.
fn read_all(directory: &Path) -> Result<Contents> {
    let running = start(directory)?;
    let store = store_of(&running)?;
    let names = names_of(&running)?;
    let (mut seen, mut left) = (Contents::new(), vec![Vec::new()]);
    while let Some(path) = left.pop() {
        let (entries, _) = names.list(&mut Tracer::off(), &FilePath::at(&path), None, 1000, Detail::Attributes)?;
        for entry in entries {
            let below = [&path[..], b"/", entry.name.as_bytes()].concat();
            let mode = entry.attributes.as_ref().map_or(0, |attributes| attributes.mode);
            let bytes = match entry.kind {
                FileKind::Directory => {
                    left.push(below.clone());
                    Vec::new()
                }
                FileKind::Symlink => names.read_symlink(&mut Tracer::off(), &FilePath::of(entry.id))?,
                _ => {
                    let file = store.open(&String::from_utf8_lossy(&below))?;
                    let mut bytes = vec![0; file.size()? as usize];
                    let have = file.read_at(&mut bytes, 0)?;
                    bytes.truncate(have);
                    bytes
                }
            };
            seen.insert(below, (mode, bytes));
        }
    }
    drop((store, names));
    running.stop()?;
    Ok(seen)
}

fn write(store: &Store, path: &str, bytes: &[u8], datafiles: u32) {
    let layout = LayoutChoice { datafiles: Some(datafiles), ..LayoutChoice::default() };
    let file = store.create(path, 0o640, Existing::Replace, &layout).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
}

/// Makes the checksums of all datafiles clean, as a server does in time.
fn settle(directory: &Path, store: u64) {
    for number in 0..2 {
        let target = Target::open(&directory.join(format!("io{number}")), store, TargetId(number)).unwrap();
        for part in std::fs::read_dir(directory.join(format!("io{number}/datafiles"))).unwrap().flatten() {
            for datafile in std::fs::read_dir(part.path()).unwrap().flatten() {
                let name = datafile.file_name().into_string().unwrap();
                let Some((file, index)) = name.split_once('.').filter(|(_, index)| !index.contains('.')) else { continue };
                let file = FileId(u64::from_str_radix(file, 16).unwrap());
                let id = DatafileId { file, index: index.parse().unwrap(), target: TargetId(number), lot: None };
                target.created(id).unwrap().read(&mut [0], 0).unwrap();
            }
        }
        for _ in 0..3 {
            target.settle(Duration::ZERO);
        }
        assert_eq!(target.waiting(), (0, 0));
    }
}

/// Makes a store, and a copy of it as it was before its last changes.
fn made(now: &Path, before: &Path) -> Contents {
    let mut random = Random(0x5eed);
    let mut fill = |round: u64| {
        let running = start(now).unwrap();
        let store = store_of(&running).unwrap();
        let number = running.config().store;
        write(&store, "/small", &random.bytes(5_000), 1);
        write(&store, "/large", &random.bytes(150_000), 1);
        write(&store, "/striped", &random.bytes(200_001), 2);
        write(&store, &format!("/of-round-{round}"), &random.bytes(100), 1);
        let names = names_of(&running).unwrap();
        let owner = thalweg_wire::protocol::metadata::Owner { mode: 0o750, uid: 0, gid: 0 };
        names.make_directory(&mut Tracer::off(), &FilePath::at(format!("/directory-{round}")), owner, true).unwrap();
        names.make_symlink(&mut Tracer::off(), &FilePath::at(format!("/link-{round}")), b"small", owner).unwrap();
        names.sync(&mut Tracer::off()).unwrap();
        drop((store, names));
        running.stop().unwrap();
        settle(now, number);
    };
    fill(0);
    copy(now, before);
    fill(1);
    let seen = read_all(now).unwrap();
    settle(now, StoreConfig::read(&now.join("store.toml")).unwrap().store);
    seen
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let status = Command::new("cp").args(["-a", "--sparse=always"]).arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Changes a file; `false` if that changes nothing.
fn rot(file: &Path, older: &Path, rot: Rot, random: &mut Random) -> bool {
    let mut bytes = std::fs::read(file).unwrap();
    let before = bytes.clone();
    match rot {
        Rot::Flipped if !bytes.is_empty() => {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        Rot::Cut => bytes.truncate(random.below(bytes.len() as u64) as usize),
        Rot::Emptied => bytes.clear(),
        Rot::Older if older.exists() => {
            // With its attributes: as from a backup.
            copy_file(older, file);
            return std::fs::read(file).unwrap() != before;
        }
        Rot::Flipped | Rot::Older => return false,
    }
    // In place: its attributes stay.
    std::fs::write(file, &bytes).unwrap();
    bytes != before
}

fn copy_file(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn whatever_rots_what_is_read_is_right_or_refused() {
    let cases = std::env::var("THALWEG_ROT_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let shard = std::env::var("THALWEG_ROT_SHARD").unwrap_or_else(|_| "0/1".into());
    let (first, step) = shard.split_once('/').map(|(i, m)| (i.parse::<u64>().unwrap(), m.parse::<u64>().unwrap())).unwrap();
    let here = scratch();
    // A store knows its directories by their paths: each case is in the same place.
    let [case, now, before] = ["store", "now", "before"].map(|name| here.path().join(name));
    let expected = made(&case, &before);
    copy(&case, &now);
    assert_eq!(expected.len(), 3 + 2 * 3, "{:?}", expected.keys());
    let all = files(&now);
    let mut counts: BTreeMap<(String, &str), u64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for number in (first..cases).step_by(step as usize) {
        let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (number + 1).wrapping_mul(0xD1B5_4A32_D192_ED03));
        let how = [Rot::Flipped, Rot::Flipped, Rot::Flipped, Rot::Flipped, Rot::Cut, Rot::Cut, Rot::Emptied, Rot::Older]
            [random.below(8) as usize];
        let file = all[random.below(all.len() as u64) as usize].strip_prefix(&now).unwrap();
        copy(&now, &case);
        if !rot(&case.join(file), &before.join(file), how, &mut random) {
            continue;
        }
        let outcome = match read_all(&case) {
            Err(_) => "refused",
            Ok(seen) if seen == expected => "right",
            Ok(seen) => {
                let differing = |(path, what): &(&Vec<u8>, &(u32, Vec<u8>))| expected.get(*path) != Some(*what);
                let paths: Vec<_> = seen.iter().filter(differing).map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect();
                wrong.push(format!("case {number}: {} {how:?}: {paths:?}, {} names of {}", file.display(), seen.len(), expected.len()));
                "wrong"
            }
        };
        *counts.entry((kind(file), outcome)).or_default() += 1;
    }
    for ((kind, outcome), count) in &counts {
        println!("{kind:24} {outcome:8} {count}");
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the kind of a file of a store.
fn kind(file: &Path) -> String {
    let name = file.file_name().unwrap().to_string_lossy();
    match () {
        () if name.ends_with(".crc") => "checksums".into(),
        () if file.components().any(|part| part.as_os_str() == "datafiles") => "datafile".into(),
        () if name.starts_with("log-") => "metadata log".into(),
        () => name.into_owned(),
    }
}
