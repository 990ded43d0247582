//! Holes: preserved in every direction, created from zeros on request, and distinguished from lost bytes.

use super::trees::{copy, job, local, start, stored};
use crate::loopback::{SmallDisk, noise};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_client::copy::{CopyJob, CopyOutcome, Quiet, Sink, Source, Sparse, TreeJob, TreeStore, run};
use thalweg_client::{DataClient, Store};
use thalweg_layout::Spec;
use thalweg_wire::Connect;
use thalweg_wire::protocol::metadata::LayoutChoice;
use thalweg_wire::{Error, ErrorKind};

const TIB: u64 = 1 << 40;

fn store_of(store: &TreeStore) -> Store {
    let names = Arc::new(store.names.clone());
    let data = DataClient::of_store(store.names.map().as_ref().clone(), &Connect::default(), names.clone());
    Store { names, data: Arc::new(data) }
}

/// Returns the space taken by files below a directory whose path contains `part`.
fn taken_bytes(directory: &Path, part: &str) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| match path.metadata() {
            Ok(m) if m.is_dir() => taken_bytes(&path, part),
            // Checksums of islands take blocks of their own.
            Ok(m) if path.to_str().unwrap().contains(part) && !path.to_str().unwrap().ends_with(".crc") => m.blocks() * 512,
            Ok(_) => 0,
            // Removed meanwhile: drafts and removed files are deleted in the background.
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}", path.display());
                0
            }
        })
        .sum()
}

fn taken_by(path: &Path) -> u64 {
    path.metadata().unwrap().blocks() * 512
}

/// Creates a file of holes with these islands of data.
fn islands(path: &Path, size_bytes: u64, islands: &[(u64, usize)]) {
    let file = File::create(path).unwrap();
    file.set_len(size_bytes).unwrap();
    for (at, length) in islands {
        file.write_all_at(&noise(*length, *at | 1), *at).unwrap();
    }
}

fn has_holes(directory: &Path) -> bool {
    let probe = directory.join("probe");
    islands(&probe, 1 << 24, &[]);
    let has = taken_by(&probe) == 0;
    std::fs::remove_file(&probe).unwrap();
    has
}

fn one(source: Source, sink: Sink, sparse: Sparse) -> Result<CopyOutcome, Error> {
    run(&CopyJob { sparse, force: true, ..CopyJob::new(source, sink) }, &Quiet)
}

fn layout(spec: &str, datafiles: Option<u32>) -> LayoutChoice {
    LayoutChoice { spec: Some(spec.parse::<Spec>().unwrap()), datafiles, placement: None, lot: None }
}

#[test]
fn holes_stay_holes_both_ways_and_between_stores_in_a_file_of_a_tebibyte_with_one_island() {
    let dir = tempfile::tempdir().unwrap();
    if !has_holes(dir.path()) {
        return println!("SKIPPED: this file system has no holes");
    }
    let ((_one, from), (_other, to)) = (start(&dir.path().join("one"), 3), start(&dir.path().join("other"), 2));
    let (from, to) = (store_of(&from), store_of(&to));
    let (file, out) = (dir.path().join("file"), dir.path().join("out"));
    let at = 700 << 30;
    islands(&file, TIB, &[(at, 4096)]);
    let ways = [
        (Source::Local(file.clone()), Sink::Store(from.clone(), "/f".into(), LayoutChoice::default()), dir.path().join("one")),
        (Source::Store(from.clone(), "/f".into()), Sink::Store(to.clone(), "/f".into(), LayoutChoice::default()), dir.path().join("other")),
        (Source::Store(to.clone(), "/f".into()), Sink::Local(out.clone()), out.clone()),
    ];
    for (source, sink, place) in ways {
        let begun = Instant::now();
        let outcome = one(source, sink, Sparse::Auto).unwrap();
        println!("{}: {:?}", place.display(), begun.elapsed());
        // The promise is one second; the margin is for a busy machine.
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert_eq!((outcome.size_bytes, outcome.size_bytes - outcome.hole_bytes), (TIB, 4096));
        let taken = if place.is_dir() { taken_bytes(&place, "datafiles") } else { taken_by(&place) };
        assert_eq!(taken, 4096, "{}", place.display());
    }
    for (store, name) in [(&from, "/f"), (&to, "/f")] {
        assert_eq!(store.open(name).unwrap().size().unwrap(), TIB);
    }
    let mut island = [0; 8192];
    File::open(&out).unwrap().read_exact_at(&mut island, at - 2048).unwrap();
    assert!(island[..2048] == [0; 2048] && island[2048..6144] == noise(4096, at | 1) && island[6144..] == [0; 2048]);
    assert_eq!(out.metadata().unwrap().len(), TIB);
}

#[test]
fn holes_stay_holes_and_bytes_stay_bytes_whatever_the_layout_and_the_size() {
    let dir = tempfile::tempdir().unwrap();
    if !has_holes(dir.path()) {
        return println!("SKIPPED: this file system has no holes");
    }
    let (_running, store) = start(&dir.path().join("store"), 4);
    let store = store_of(&store);
    let layouts = [
        layout("basic_dist", None),
        layout("simple_stripe", Some(4)),
        layout("simple_stripe,strip_size=5000", Some(3)),
        layout("twod_stripe,num_groups=2,strip_size=10000,group_strip_factor=3", Some(4)),
    ];
    let mib = 1 << 20;
    let files: [(u64, &[(u64, usize)]); 5] = [
        (mib, &[]),
        (mib - 5, &[(65_536, 4096)]),
        (4 * mib, &[]),
        (9 * mib + 77, &[(0, 5000), (2 * mib, 300_000), (5 * mib - 1, 2), (8 * mib + 4096, 1 << 20)]),
        (16 * mib, &[(10 * mib, 1 << 20), (15 * mib, 4096)]),
    ];
    let (file, out) = (dir.path().join("file"), dir.path().join("out"));
    for (number, (size, parts)) in files.iter().enumerate() {
        islands(&file, *size, parts);
        let bytes = std::fs::read(&file).unwrap();
        for layout in &layouts {
            for sparse in [Sparse::Auto, Sparse::Always, Sparse::Never] {
                let case = format!("file {number}, {:?}, {sparse:?}", layout.spec);
                let before = taken_bytes(&dir.path().join("store"), "datafiles");
                let into = Sink::Store(store.clone(), "/f".into(), layout.clone());
                let went = one(Source::Local(file.clone()), into, sparse).expect(&case);
                let stored = taken_bytes(&dir.path().join("store"), "datafiles") - before;
                one(Source::Store(store.clone(), "/f".into()), Sink::Store(store.clone(), "/g".into(), layout.clone()), sparse)
                    .expect(&case);
                let came = one(Source::Store(store.clone(), "/g".into()), Sink::Local(out.clone()), sparse).expect(&case);
                assert!(std::fs::read(&out).unwrap() == bytes, "{case}");
                // Strips that are not multiples of a block share blocks with their neighbours.
                let data = taken_by(&file) + 256 * 1024;
                if sparse == Sparse::Never {
                    assert!(taken_by(&out) >= *size && stored >= *size && (went.hole_bytes, came.hole_bytes) == (0, 0), "{case}");
                } else {
                    assert!(taken_by(&out) <= data && stored <= data, "{case}: {} and {stored} for {data}", taken_by(&out));
                    assert!(went.hole_bytes > size / 2 && came.hole_bytes > size / 3, "{case}: {went:?}, {came:?}");
                }
                for name in ["/f", "/g"] {
                    store.open(name).unwrap_or_else(|e| panic!("{case}: {e}"));
                }
                remove(&store, &["/f", "/g"], &dir.path().join("store"));
            }
        }
    }
}

/// Removes files, and waits until their datafiles are gone.
fn remove(store: &Store, names: &[&str], directory: &Path) {
    for name in names {
        let id = store.names.stat(&mut thalweg_trace::Tracer::off(), name).unwrap().id;
        store.names.unlink(&mut thalweg_trace::Tracer::off(), id, name).unwrap();
    }
    let begun = Instant::now();
    while taken_bytes(directory, "datafiles") > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "datafiles stay");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn holes_stay_holes_in_trees_of_small_and_large_files() {
    let dir = tempfile::tempdir().unwrap();
    if !has_holes(dir.path()) {
        return println!("SKIPPED: this file system has no holes");
    }
    let (_running, store) = start(&dir.path().join("store"), 3);
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    islands(&tree.join("small"), 900_000, &[(400_000, 10)]);
    islands(&tree.join("empty"), 500_000, &[]);
    islands(&tree.join("large"), 1 << 30, &[(1 << 29, 4096)]);
    std::fs::write(tree.join("dense"), noise(100_000, 3)).unwrap();
    std::fs::write(tree.join("zeros"), vec![0; 200_000]).unwrap();
    let names = ["small", "empty", "large", "dense", "zeros"];
    for (sync, sparse) in [(false, Sparse::Auto), (true, Sparse::Auto), (false, Sparse::Always), (false, Sparse::Never)] {
        let out = dir.path().join(format!("out-{sync}-{sparse:?}"));
        let there = format!("/{sync}-{sparse:?}");
        if sparse == Sparse::Never {
            std::fs::remove_file(tree.join("large")).unwrap();
        }
        let before = taken_bytes(&dir.path().join("store"), "datafiles");
        let went = copy(&TreeJob { sync, sparse, ..job(local(&tree), stored(&store, &there)) });
        let in_store = taken_bytes(&dir.path().join("store"), "datafiles") - before;
        copy(&TreeJob { sync, sparse, ..job(stored(&store, &there), local(&out)) });
        let taken: u64 = names.iter().filter(|name| out.join(name).exists()).map(|name| taken_by(&out.join(name))).sum();
        // The data, and a block more for each of its ends; blocks of zeros are data unless they are to become holes.
        let most = match sparse {
            Sparse::Always => 100_000 + 64 * 1024,
            _ => 300_000 + 64 * 1024,
        };
        if sparse == Sparse::Never {
            assert!(taken >= 1_700_000 && in_store >= 1_700_000 && went.hole_bytes == 0, "{taken} and {in_store}, {went:?}");
        } else {
            assert!(taken <= most && in_store <= most, "{sync}, {sparse:?}: {taken} and {in_store} bytes");
            assert!(went.hole_bytes > 1 << 29, "{went:?}");
        }
        for name in names.iter().filter(|name| **name != "large") {
            assert!(std::fs::read(tree.join(name)).unwrap() == std::fs::read(out.join(name)).unwrap(), "{name}");
        }
    }
}

#[test]
fn bytes_that_are_lost_are_no_hole() {
    let dir = tempfile::tempdir().unwrap();
    let (_running, store) = start(&dir.path().join("store"), 2);
    let store = store_of(&store);
    let (file, out) = (dir.path().join("file"), dir.path().join("out"));
    islands(&file, 64 << 20, &[(1 << 20, 100), (60 << 20, 4096)]);
    let into = Sink::Store(store.clone(), "/f".into(), layout("simple_stripe", Some(2)));
    one(Source::Local(file), into, Sparse::Auto).unwrap();
    let datafile = datafiles(&dir.path().join("store")).into_iter().next().expect("a datafile");
    let all = datafile.metadata().unwrap().len();
    File::options().write(true).open(&datafile).unwrap().set_len(all - 4096).unwrap();
    let error = one(Source::Store(store, "/f".into()), Sink::Local(out.clone()), Sparse::Auto).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(!out.exists());
}

fn datafiles(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(datafiles(&path)),
            false if path.to_str().unwrap().contains("/datafiles/") && !path.to_str().unwrap().ends_with(".crc") => found.push(path),
            false => {}
        }
    }
    found
}

#[test]
fn room_is_checked_before_the_first_byte_where_the_data_is_known_to_be_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&dir.path().join("disk"), "8m") else {
        return println!("SKIPPED: a small file system cannot be mounted here");
    };
    let (_running, large) = start(&dir.path().join("large"), 1);
    let (_other, small) = start(&disk.path.join("small"), 1);
    let (large, small) = (store_of(&large), store_of(&small));
    let (dense, sparse) = (dir.path().join("dense"), dir.path().join("sparse"));
    std::fs::write(&dense, noise(20 << 20, 1)).unwrap();
    islands(&sparse, 20 << 20, &[(5 << 20, 4096)]);
    for path in [&dense, &sparse] {
        let name = format!("/{}", path.file_name().unwrap().to_str().unwrap());
        one(Source::Local(path.clone()), Sink::Store(large.clone(), name.clone(), LayoutChoice::default()), Sparse::Auto).unwrap();
        let ways = [
            (Source::Local(path.clone()), Sink::Store(small.clone(), "/x".into(), LayoutChoice::default())),
            (Source::Store(large.clone(), name.clone()), Sink::Store(small.clone(), "/x".into(), LayoutChoice::default())),
            (Source::Store(large.clone(), name), Sink::Local(disk.path.join("x"))),
        ];
        for (source, sink) in ways {
            for setting in [Sparse::Auto, Sparse::Never] {
                let copied = one(source.clone(), sink.clone(), setting);
                if path == &sparse && setting == Sparse::Auto {
                    copied.expect("a file of holes has room");
                    continue;
                }
                let error = copied.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                let said = error.to_string();
                assert!(said.contains("20 MiB") && said.contains(" MiB free") && said.contains("nothing was copied"), "{said}");
            }
        }
    }
}
