//! Rot of every kind of file of a store: whatever is flipped, cut, emptied or replaced by an older copy, what is read afterwards is right, or an
//! error.
//!
//! A case changes one file of a store that is stopped, starts it, and reads all names, attributes and bytes. It passes if the start or any of the
//! reads is refused, or all of them are as they were. Only the datafile of a small file that is replaced by an older one with its attributes
//! may be read as it was then. `make test` runs some of the cases; `THALWEG_ROT_CASES=N` runs N, and
//! `THALWEG_ROT_SHARD=I/M` every M-th of them from the I-th on, so that several processes share them.

use rustix::fs::{XattrFlags, getxattr, setxattr};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::metadata::MetadataClient;
use thalweg_client::{DataClient, Store};
use thalweg_io::Target;
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{DatafileId, FileId, LotId, TargetId};
use thalweg_wire::protocol::lots::LotOperation;
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
    /// The bytes are older ones; its attributes stay.
    Older,
    /// The file is an older one with its attributes, as from a backup.
    Restored,
}

/// A place in memory where there is one: a case copies and syncs a store.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(super) fn start(directory: &Path) -> Result<RunningStore> {
    let mut options = UpOptions::new([directory]);
    options.servers = Some(2);
    up(&options)
}

fn options_of(running: &RunningStore) -> Connect {
    let credentials = Credentials::given(running.credential().clone());
    Connect { timeout: Duration::from_secs(20), credentials, ..Connect::default() }
}

pub(super) fn names_of(running: &RunningStore) -> Result<MetadataClient> {
    let address = running.listens("metadata").expect("it listens").to_string();
    MetadataClient::connect(&mut Tracer::off(), &address, &options_of(running))
}

pub(super) fn store_of(running: &RunningStore) -> Result<Store> {
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

/// Writes a file, over its bytes if it is there.
fn write(store: &Store, path: &str, bytes: &[u8], datafiles: u32, lot: Option<LotId>) {
    let layout = LayoutChoice { datafiles: Some(datafiles), lot, ..LayoutChoice::default() };
    let file = store.open(path).or_else(|_| store.create(path, 0o640, Existing::Refuse, &layout)).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
}

/// Makes the checksums of all datafiles clean, as a server does in time.
fn settle(directory: &Path, store: u64, lot: LotId) {
    for number in 0..2 {
        let target = Target::open(&directory.join(format!("io{number}")), store, TargetId(number)).unwrap();
        for path in files(&directory.join(format!("io{number}"))) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let Some((file, index)) = name.split_once('.').filter(|(file, _)| file.len() == 16) else { continue };
            let Ok(index) = index.parse() else { continue };
            let file = FileId(u64::from_str_radix(file, 16).unwrap());
            let id = DatafileId { file, index, target: TargetId(number), lot: is_in_lot(&path).then_some(lot) };
            target.created(id).unwrap().read(&mut [0], 0).unwrap();
        }
        for _ in 0..3 {
            target.settle(Duration::ZERO);
        }
        assert_eq!(target.waiting(), (0, 0));
    }
}

fn is_in_lot(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "lots")
}

/// Returns the lot of a store, which is created if it has none.
fn lot_of(names: &MetadataClient) -> LotId {
    let tracer = &mut Tracer::off();
    if let Ok(lot) = names.lot_named(tracer, "kept") {
        return lot;
    }
    let (for_ns, size_bytes) = (30 * 24 * 3600 * 1_000_000_000, 1 << 20);
    let create =
        LotOperation::Create { name: "kept".into(), owner: None, size_bytes, for_ns, elastic: false, least: None, targets: Vec::new() };
    names.lots(tracer, create).unwrap();
    names.lot_named(tracer, "kept").unwrap()
}

/// Makes a store, and a copy of it as it was before its last changes. Returns what is read from either: the bytes of each file differ.
fn made(now: &Path, before: &Path) -> [Contents; 2] {
    let mut random = Random(0x5eed);
    let mut fill = |round: u64| {
        let running = start(now).unwrap();
        let store = store_of(&running).unwrap();
        let number = running.config().store;
        let names = names_of(&running).unwrap();
        let lot = lot_of(&names);
        write(&store, "/small", &random.bytes(5_000), 1, None);
        write(&store, "/large", &random.bytes(150_000), 1, None);
        write(&store, "/striped", &random.bytes(200_001), 2, None);
        write(&store, "/in-lot", &random.bytes(60_000), 1, Some(lot));
        write(&store, &format!("/of-round-{round}"), &random.bytes(100), 1, None);
        let owner = thalweg_wire::protocol::metadata::Owner { mode: 0o750, uid: 0, gid: 0 };
        names.make_directory(&mut Tracer::off(), &FilePath::at(format!("/directory-{round}")), owner, true).unwrap();
        names.make_symlink(&mut Tracer::off(), &FilePath::at(format!("/link-{round}")), b"small", owner).unwrap();
        names.sync(&mut Tracer::off()).unwrap();
        drop((store, names));
        running.stop().unwrap();
        settle(now, number, lot);
        let seen = read_all(now).unwrap();
        settle(now, number, lot);
        seen
    };
    let older = fill(0);
    copy(now, before);
    [fill(1), older]
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

/// The attribute with the checksums of a small datafile.
const ATTRIBUTE: &str = "user.thalweg.crc";

fn attribute(path: &Path) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let length = getxattr(path, ATTRIBUTE, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

/// Changes a file, or its attribute; `false` if that changes nothing.
fn rot((file, of_attribute): (&Path, bool), older: &Path, rot: Rot, random: &mut Random) -> bool {
    let read = |path: &Path| if of_attribute { attribute(path).unwrap() } else { std::fs::read(path).unwrap() };
    let mut bytes = read(file);
    let before = bytes.clone();
    match rot {
        Rot::Flipped if !bytes.is_empty() => {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        Rot::Cut => bytes.truncate(random.below(bytes.len() as u64) as usize),
        Rot::Emptied => bytes.clear(),
        Rot::Older if older.exists() => bytes = read(older),
        Rot::Restored if older.exists() && !of_attribute => {
            assert!(Command::new("cp").arg("-a").args([older, file]).status().unwrap().success());
            return std::fs::read(file).unwrap() != before;
        }
        Rot::Flipped | Rot::Older | Rot::Restored => return false,
    }
    match of_attribute {
        true => setxattr(file, ATTRIBUTE, &bytes, XattrFlags::empty()).unwrap(),
        // In place: its attributes stay.
        false => std::fs::write(file, &bytes).unwrap(),
    }
    bytes != before
}

/// Whether a store was read in which nothing but the bytes of one small file are older: its datafile has its checksums with it, in an
/// attribute, so both are older and fit. TRUST.md says that this is not noticed.
fn is_one_small_file_older(seen: &Contents, [now, older]: &[Contents; 2]) -> bool {
    let other = |path: &Vec<u8>| seen.get(path) != now.get(path);
    let mut differing = seen.keys().chain(now.keys()).filter(|path| other(path));
    let Some(path) = differing.next() else { return false };
    let is_small = seen.get(path).is_some_and(|(_, bytes)| bytes.len() <= 48 << 10);
    is_small && seen.get(path) == older.get(path) && differing.all(|another| another == path)
}

#[test]
fn whatever_rots_what_is_read_is_right_or_refused() {
    let cases = std::env::var("THALWEG_ROT_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let shard = std::env::var("THALWEG_ROT_SHARD").unwrap_or_else(|_| "0/1".into());
    let (first, step) = shard.split_once('/').map(|(i, m)| (i.parse::<u64>().unwrap(), m.parse::<u64>().unwrap())).unwrap();
    let here = scratch();
    // A store knows its directories by their paths: each case is in the same place.
    let [case, now, before] = ["store", "now", "before"].map(|name| here.path().join(name));
    let both = made(&case, &before);
    let expected = &both[0];
    copy(&case, &now);
    assert_eq!(expected.len(), 4 + 2 * 3, "{:?}", expected.keys());
    let all: Vec<(PathBuf, bool)> = files(&now).into_iter().map(|path| (path, false)).collect();
    let attributes: Vec<_> = all.iter().filter(|(path, _)| attribute(path).is_some()).map(|(path, _)| (path.clone(), true)).collect();
    let all = [all, attributes].concat();
    let mut counts: BTreeMap<(String, String, &str), u64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for number in (first..cases).step_by(step as usize) {
        let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (number + 1).wrapping_mul(0xD1B5_4A32_D192_ED03));
        let how = [Rot::Flipped, Rot::Flipped, Rot::Flipped, Rot::Flipped, Rot::Cut, Rot::Cut, Rot::Emptied, Rot::Older, Rot::Restored]
            [random.below(9) as usize];
        let (file, of_attribute) = &all[random.below(all.len() as u64) as usize];
        let (file, of_attribute) = (file.strip_prefix(&now).unwrap(), *of_attribute);
        copy(&now, &case);
        if !rot((&case.join(file), of_attribute), &before.join(file), how, &mut random) {
            continue;
        }
        let outcome = match read_all(&case) {
            Err(_) => "refused",
            Ok(seen) if seen == *expected => "right",
            Ok(seen) if how == Rot::Restored && is_one_small_file_older(&seen, &both) => "older",
            Ok(seen) => {
                let differing = |(path, what): &(&Vec<u8>, &(u32, Vec<u8>))| expected.get(*path) != Some(*what);
                let paths: Vec<_> = seen.iter().filter(differing).map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect();
                wrong.push(format!(
                    "case {number}: {} {how:?} {of_attribute}: {paths:?}, {} names of {}",
                    file.display(),
                    seen.len(),
                    expected.len()
                ));
                "wrong"
            }
        };
        *counts.entry((kind(file, of_attribute), format!("{how:?}"), outcome)).or_default() += 1;
    }
    for ((kind, how, outcome), count) in &counts {
        println!("{kind:26} {how:9} {outcome:8} {count}");
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the kind of a file of a store.
fn kind(file: &Path, of_attribute: bool) -> String {
    let name = file.file_name().unwrap().to_string_lossy();
    match () {
        () if of_attribute => "checksums in an attribute".into(),
        () if name.ends_with(".crc") => "checksums".into(),
        () if name.len() > 17 && name.as_bytes()[16] == b'.' => "datafile".into(),
        () if name.starts_with("log-") => "metadata log".into(),
        () => name.into_owned(),
    }
}
