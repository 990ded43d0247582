//! Trees: into a store, out of it, between two; failures of one entry, and failures that stop the copy.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_client::DataClient;
use thalweg_client::copy::{Quiet, SMALL_BYTES, Sparse, TreeEnd, TreeJob, TreeObserver, TreeOutcome, TreeStore, Tuning, copy_tree};
use thalweg_client::metadata::MetadataClient;
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::{TraceHandle, Tracer};
use thalweg_wire::Connect;
use thalweg_wire::protocol::metadata::{FileKind, FilePath, LayoutChoice};
use thalweg_wire::{Error, ErrorKind, Result};

pub(super) fn start(directory: &Path, servers: usize) -> (RunningStore, TreeStore) {
    let store = up(&UpOptions { servers: Some(servers), ..UpOptions::new([directory]) }).unwrap();
    let connected = connect(&store);
    (store, connected)
}

fn connect(store: &RunningStore) -> TreeStore {
    let address = store.address().service().unwrap();
    let names = MetadataClient::connect(&mut Tracer::off(), &address, &Connect::default()).unwrap();
    let data = Arc::new(DataClient::new(names.map().as_ref().clone(), &Connect::default()));
    TreeStore { names, data }
}

pub(super) fn job(from: TreeEnd, to: TreeEnd) -> TreeJob {
    TreeJob {
        from,
        to,
        layout: LayoutChoice::default(),
        workers: 3,
        tuning: Tuning::default(),
        sync: false,
        force: false,
        preserve: true,
        privileges: false,
        follow: false,
        skip_damaged: false,
        control: Arc::default(),
        sparse: Sparse::Auto,
    }
}

pub(super) fn local(path: &Path) -> TreeEnd {
    TreeEnd::Local(path.to_owned())
}

pub(super) fn stored(store: &TreeStore, path: &str) -> TreeEnd {
    TreeEnd::Store(store.clone(), path.into())
}

/// Records what was observed.
#[derive(Default)]
struct Observed {
    failed: Mutex<Vec<(PathBuf, Error)>>,
    moved: AtomicU64,
    found: AtomicU64,
    stop_after: u64,
}

impl TreeObserver for Observed {
    fn found(&self, size_bytes: u64) {
        self.found.fetch_add(size_bytes, Ordering::SeqCst);
    }
    fn moved(&self, size_bytes: u64) {
        self.moved.fetch_add(size_bytes, Ordering::SeqCst);
    }
    fn failed(&self, path: &[u8], error: &Error) {
        self.failed.lock().unwrap().push((OsStr::from_bytes(path).into(), error.clone()));
    }
    fn cancelled(&self) -> bool {
        self.stop_after > 0 && self.moved.load(Ordering::SeqCst) >= self.stop_after
    }
}

pub(super) fn copy(job: &TreeJob) -> TreeOutcome {
    let observed = Observed::default();
    let outcome = copy_tree(job, &observed, &TraceHandle::off()).unwrap();
    let failed = observed.failed.into_inner().unwrap();
    assert!(failed.is_empty() && outcome.failed == 0, "{failed:?}");
    assert_eq!((observed.moved.into_inner(), observed.found.into_inner()), (outcome.size_bytes - outcome.hole_bytes, outcome.size_bytes));
    outcome
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    crate::loopback::noise(bytes, seed)
}

/// Reads a tree: for each path its type, mode, times, and bytes or target.
fn all_of(root: &Path) -> BTreeMap<PathBuf, (String, u32, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let kind = found.file_type();
            let (what, bytes) = if kind.is_dir() {
                open.push(path.clone());
                ("directory", Vec::new())
            } else if kind.is_symlink() {
                ("link", std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
            } else if kind.is_fifo() {
                ("pipe", Vec::new())
            } else if kind.is_char_device() {
                ("device", found.rdev().to_le_bytes().to_vec())
            } else {
                ("file", std::fs::read(&path).unwrap())
            };
            let name = path.strip_prefix(root).unwrap().to_owned();
            let modified_ns = found.mtime() * 1_000_000_000 + found.mtime_nsec();
            all.insert(name, (what.to_owned(), found.mode() & 0o7777, modified_ns, bytes));
        }
    }
    all
}

/// Creates a tree with every kind of entry that this user can create.
fn every_kind(root: &Path) {
    for directory in ["", "a", "a/b", "a/b/c", "empty", "closed"] {
        std::fs::create_dir(root.join(directory)).unwrap();
    }
    let sizes = [0, 1, 4095, 4096, 65_536, 65_537, 300_000, SMALL_BYTES as usize, SMALL_BYTES as usize + 1, 5_000_000];
    for (i, size) in sizes.into_iter().enumerate() {
        std::fs::write(root.join(["", "a", "a/b/c"][i % 3]).join(format!("of {size}")), noise(i as u64, size)).unwrap();
    }
    for i in 0..700 {
        std::fs::write(root.join(["a", "a/b"][i % 2]).join(format!("{i:04}")), noise(i as u64, i * 3)).unwrap();
    }
    std::fs::write(root.join(OsStr::from_bytes(b"odd \xff\n\x01 name")), b"odd").unwrap();
    std::fs::create_dir(root.join(OsStr::from_bytes(b"odd \xfe"))).unwrap();
    std::fs::write(root.join(OsStr::from_bytes(b"odd \xfe/\xfd")), b"odder").unwrap();
    std::fs::write(root.join("n".repeat(240)), b"long").unwrap();
    symlink("of 1", root.join("link")).unwrap();
    symlink(OsStr::from_bytes(b"/nowhere/\xff"), root.join("a/dangling")).unwrap();
    symlink("..", root.join("a/b/up")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), rustix::fs::FileType::Fifo, 0o640.into(), 0).unwrap();
    for (path, mode) in [("of 0", 0o600), ("a/0001", 0o4755), ("a/b/0002", 0o444), ("closed", 0o555), ("a", 0o1777)] {
        if root.join(path).exists() {
            std::fs::set_permissions(root.join(path), PermissionsExt::from_mode(mode)).unwrap();
        }
    }
    for (path, ns) in [("link", 1), ("closed", 1_234_567_890_123_456_789), ("a/b", 5), ("of 0", -1_000_000_001_i64)] {
        let time = rustix::fs::Timespec { tv_sec: ns / 1_000_000_000 - i64::from(ns < 0), tv_nsec: ns.rem_euclid(1_000_000_000) as _ };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(rustix::fs::CWD, root.join(path), &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

#[test]
fn a_tree_of_every_kind_of_entry_goes_in_between_and_out_as_it_was() {
    let (one_dir, other_dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ((_one, one), (_other, other)) = (start(one_dir.path(), 3), start(other_dir.path(), 2));
    let tree = here.path().join("tree");
    every_kind(&tree);
    let before = all_of(&tree);
    let went_in = copy(&job(local(&tree), stored(&one, "/in")));
    let files = before.values().filter(|(what, ..)| what == "file").count();
    assert_eq!((went_in.files as usize, went_in.unread), (files, 0));
    assert_eq!((went_in.files + went_in.directories + went_in.others) as usize, before.len());
    // Sizes are settled: the metadata service answers them itself, once it has queried the servers.
    let listed = one.names.stat(&mut Tracer::off(), &FilePath::at("/in/of 4096")).unwrap();
    assert_eq!(listed.kind, FileKind::File);
    copy(&job(stored(&one, "/in"), stored(&other, "/between")));
    for (sync, name) in [(false, "out"), (true, "out synced")] {
        let out = here.path().join(name);
        let came_out = copy(&TreeJob { sync, ..job(stored(&other, "/between"), local(&out)) });
        assert_eq!(came_out.size_bytes, went_in.size_bytes);
        let after = all_of(&out);
        for (path, entry) in &before {
            let found = after.get(path).unwrap_or_else(|| panic!("{} is missing", path.display()));
            assert!(
                found == entry,
                "{}: {:?} {:o} {}, was {:?} {:o} {}",
                path.display(),
                found.0,
                found.1,
                found.2,
                entry.0,
                entry.1,
                entry.2
            );
        }
        assert_eq!(after.len(), before.len());
    }
    // An existing destination is replaced only on request; then completely, even if it exists in part.
    let again = job(local(&tree), stored(&one, "/in"));
    assert_eq!(copy_tree(&again, &Quiet, &TraceHandle::off()).unwrap_err().kind(), ErrorKind::Exists);
    copy(&TreeJob { force: true, sync: true, ..again });
    let out = here.path().join("out");
    assert_eq!(copy_tree(&job(stored(&one, "/in"), local(&out)), &Quiet, &TraceHandle::off()).unwrap_err().kind(), ErrorKind::Exists);
    copy(&TreeJob { force: true, ..job(stored(&one, "/in"), local(&out)) });
    assert_eq!(all_of(&out), before);
}

#[test]
fn what_fails_for_one_entry_is_reported_with_its_path_and_the_others_are_copied() {
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_up, store) = start(dir.path(), 2);
    let tree = here.path().join("tree");
    std::fs::create_dir_all(tree.join("taken/below")).unwrap();
    for i in 0..300 {
        std::fs::write(tree.join(format!("{i:03}")), noise(i, 100)).unwrap();
    }
    std::fs::write(tree.join("taken/below/file"), b"x").unwrap();
    // Obstacles: a directory in the place of a file, and a file in the place of a directory.
    copy(&job(local(&tree), stored(&store, "/t")));
    let off = &mut Tracer::off();
    store.names.unlink(off, &FilePath::at("/t/042")).unwrap();
    let owner = thalweg_wire::protocol::metadata::Owner { mode: 0o755, uid: 0, gid: 0 };
    store.names.make_directory(off, &FilePath::at("/t/042"), owner, false).unwrap();
    store.names.unlink(off, &FilePath::at("/t/taken/below/file")).unwrap();
    store.names.remove_directory(off, &FilePath::at("/t/taken/below")).unwrap();
    store.names.remove_directory(off, &FilePath::at("/t/taken")).unwrap();
    let new = store.names.make_file(
        off,
        &FilePath::at("/t/taken"),
        owner,
        thalweg_wire::protocol::metadata::Existing::Refuse,
        &LayoutChoice::default(),
    );
    new.unwrap();
    let observed = Observed::default();
    let outcome = copy_tree(&TreeJob { force: true, ..job(local(&tree), stored(&store, "/t")) }, &observed, &TraceHandle::off()).unwrap();
    let mut failed: Vec<(PathBuf, ErrorKind)> = observed.failed.into_inner().unwrap().into_iter().map(|(p, e)| (p, e.kind())).collect();
    failed.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(failed, [("042".into(), ErrorKind::IsDirectory), ("taken".into(), ErrorKind::Exists)]);
    // Two were reported, and two more are in the directory that could not be created.
    assert_eq!((outcome.failed, outcome.files), (4, 299));
    let names: Vec<Vec<u8>> = list(&store, "/t");
    assert_eq!(names.len(), 301);
    assert!(!names.iter().any(|name| name.ends_with(b".partial")), "{names:?}");
}

fn list(store: &TreeStore, path: &str) -> Vec<Vec<u8>> {
    use thalweg_client::walk::{WalkOptions, Walker};
    let walker = Walker::new(store.names.clone(), Arc::clone(&store.data), WalkOptions::default());
    let mut walk = walker.directory(&FilePath::at(path));
    std::iter::from_fn(|| walk.next(&mut Tracer::off())).map(|entry| entry.map(|entry| entry.name)).collect::<Result<_>>().unwrap()
}

#[test]
fn a_file_that_goes_or_shrinks_while_its_tree_is_copied_is_reported_and_one_that_grows_is_read_to_its_end() {
    /// Removes and changes files once the first bytes have moved.
    struct Meanwhile<'a>(&'a Path, Observed, std::sync::Once);
    impl TreeObserver for Meanwhile<'_> {
        fn found(&self, _: u64) {
            // The walk has found this batch, but its files are not open yet.
            self.2.call_once(|| {
                std::fs::remove_file(self.0.join("000")).unwrap();
                std::fs::write(self.0.join("001"), b"longer than it was").unwrap();
                std::fs::write(self.0.join("002"), b"s").unwrap();
            });
        }
        fn failed(&self, path: &[u8], error: &Error) {
            self.1.failed(path, error);
        }
    }
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_up, store) = start(dir.path(), 2);
    let tree = here.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for i in 0..20 {
        std::fs::write(tree.join(format!("{i:03}")), b"ten bytes.").unwrap();
    }
    let watch = Meanwhile(&tree, Observed::default(), std::sync::Once::new());
    let outcome = copy_tree(&job(local(&tree), stored(&store, "/t")), &watch, &TraceHandle::off()).unwrap();
    assert_eq!((outcome.failed, outcome.files, outcome.size_bytes), (2, 18, 17 * 10 + 18));
    let mut failed = watch.1.failed.into_inner().unwrap();
    failed.sort_by(|a, b| a.0.cmp(&b.0));
    let said: Vec<String> = failed.iter().map(|(path, error)| format!("{} {error}", path.display())).collect();
    assert!(said[0].starts_with("000 was removed") && said[1].contains("10 bytes") && said[1].contains("has 1 now"), "{said:?}");
    assert!(failed.iter().all(|(_, error)| error.kind() == ErrorKind::SourceChanged));
    assert_eq!(list(&store, "/t").len(), 18);
}

#[test]
fn a_file_that_is_removed_from_a_store_while_its_tree_comes_out_is_no_file_of_zeros() {
    struct Meanwhile<'a>(&'a TreeStore, &'a Path, std::sync::Once);
    impl TreeObserver for Meanwhile<'_> {
        fn found(&self, _: u64) {
            self.2.call_once(|| {
                self.0.names.unlink(&mut Tracer::off(), &FilePath::at("/t/gone")).unwrap();
                // Its bytes are removed a little later than its name.
                let datafiles =
                    || walk_files(self.1).into_iter().filter(|path| std::fs::metadata(path).is_ok_and(|m| m.len() == 77)).count();
                while datafiles() > 0 {
                    std::thread::yield_now();
                }
            });
        }
    }
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_up, store) = start(dir.path(), 2);
    let tree = here.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("gone"), [7; 77]).unwrap();
    std::fs::write(tree.join("stays"), [8; 78]).unwrap();
    let sparse = std::fs::File::create(tree.join("sparse")).unwrap();
    sparse.set_len(500_000).unwrap();
    copy(&job(local(&tree), stored(&store, "/t")));
    // Holes from the start: bytes that were never written are not lost.
    store.names.truncate(&mut Tracer::off(), &FilePath::at("/t/sparse"), 0).unwrap();
    store.names.truncate(&mut Tracer::off(), &FilePath::at("/t/sparse"), 400_000).unwrap();
    let out = here.path().join("out");
    let watch = Meanwhile(&store, dir.path(), std::sync::Once::new());
    let outcome = copy_tree(&job(stored(&store, "/t"), local(&out)), &watch, &TraceHandle::off()).unwrap();
    assert_eq!((outcome.failed, outcome.files), (1, 2));
    assert!(!out.join("gone").exists() && std::fs::read(out.join("stays")).unwrap() == [8; 78]);
    assert!(std::fs::read(out.join("sparse")).unwrap() == vec![0; 400_000]);
}

fn walk_files(root: &Path) -> Vec<PathBuf> {
    let (mut files, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files
}

#[test]
fn a_copy_that_is_stopped_leaves_no_half_file_under_any_name() {
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_up, store) = start(dir.path(), 2);
    let tree = here.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for i in 0..3000 {
        std::fs::write(tree.join(format!("{i:04}")), noise(i, 500)).unwrap();
    }
    for (from, to, name) in [(local(&tree), stored(&store, "/in"), "in"), (stored(&store, "/all"), local(&here.path().join("out")), "out")]
    {
        if name == "out" {
            copy(&job(local(&tree), stored(&store, "/all")));
        }
        let observed = Observed { stop_after: 300 * 500, ..Observed::default() };
        let error = copy_tree(&job(from, to), &observed, &TraceHandle::off()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        let there: Vec<(Vec<u8>, u64)> = match name {
            "in" => list(&store, "/in").into_iter().map(|name| (name, 500)).collect(),
            _ => {
                let out = here.path().join("out");
                let each = std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap());
                each.map(|entry| (entry.file_name().into_encoded_bytes(), entry.metadata().unwrap().len())).collect()
            }
        };
        assert!(there.len() >= 300 && there.len() < 3000, "{}", there.len());
        assert!(there.iter().all(|(name, size)| name.len() == 4 && *size == 500), "{name}");
    }
}

#[test]
fn without_preserve_what_is_made_is_as_the_umask_lets_it_be() {
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_up, store) = start(dir.path(), 1);
    let tree = here.path().join("tree");
    std::fs::create_dir_all(tree.join("d")).unwrap();
    std::fs::write(tree.join("d/program"), b"#!").unwrap();
    std::fs::set_permissions(tree.join("d/program"), PermissionsExt::from_mode(0o4777)).unwrap();
    std::fs::set_permissions(tree.join("d"), PermissionsExt::from_mode(0o500)).unwrap();
    let plain = |from, to| TreeJob { preserve: false, ..job(from, to) };
    copy(&plain(local(&tree), stored(&store, "/t")));
    let out = here.path().join("out");
    copy(&plain(stored(&store, "/t"), local(&out)));
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    let mode = |path: &str| std::fs::metadata(out.join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("d/program"), mode("d")), (0o777 & !mask.bits(), 0o500));
    let stat = |path: &str| store.names.stat(&mut Tracer::off(), &FilePath::at(path)).unwrap().mode;
    assert_eq!((stat("/t/d/program"), stat("/t/d")), (0o777 & !mask.bits(), 0o500));
}

#[test]
fn links_are_followed_only_if_that_is_asked_for_and_never_in_a_circle() {
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_up, store) = start(dir.path(), 1);
    let tree = here.path().join("tree");
    std::fs::create_dir_all(tree.join("a")).unwrap();
    std::fs::write(here.path().join("outside"), b"outside").unwrap();
    symlink("../outside", tree.join("file")).unwrap();
    symlink("..", tree.join("a/up")).unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    assert_eq!(copy(&job(local(&tree), stored(&store, "/links"))).others, 3);
    let observed = Observed::default();
    let followed = TreeJob { follow: true, ..job(local(&tree), stored(&store, "/files")) };
    let outcome = copy_tree(&followed, &observed, &TraceHandle::off()).unwrap();
    assert_eq!((outcome.files, outcome.failed, outcome.others), (1, 2, 0));
    let mut failed: Vec<(PathBuf, ErrorKind)> = observed.failed.into_inner().unwrap().into_iter().map(|(p, e)| (p, e.kind())).collect();
    failed.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(failed, [("a/up".into(), ErrorKind::LinkLoop), ("dangling".into(), ErrorKind::NotFound)]);
    assert_eq!(store.names.stat(&mut Tracer::off(), &FilePath::at("/files/file")).unwrap().kind, FileKind::File);
}

#[test]
fn a_tree_deeper_and_broader_than_a_batch_is_made_in_order() {
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_up, store) = start(dir.path(), 2);
    let tree = here.path().join("tree");
    let mut deep = tree.clone();
    for level in 0..60 {
        deep.push(format!("level {level:03}"));
        for broad in 0..12 {
            std::fs::create_dir_all(deep.join(format!("{broad}"))).unwrap();
            std::fs::write(deep.join(format!("{broad}/file")), noise(level, broad * 10)).unwrap();
        }
    }
    for workers in [1, 8] {
        let name = format!("/{workers}");
        copy(&TreeJob { workers, ..job(local(&tree), stored(&store, &name)) });
        let out = here.path().join(&name[1..]);
        copy(&TreeJob { workers, ..job(stored(&store, &name), local(&out)) });
        assert_eq!(all_of(&out), all_of(&tree));
    }
}
