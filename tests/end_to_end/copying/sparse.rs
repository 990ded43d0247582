//! Holes: with every verb that copies, in the ways `cp` and `cat` of coreutils are used, and on a mount.

use crate::common::{THALWEG, Up, content, file, run, scratch, stored_bytes, text};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

const TIB: u64 = 1 << 40;
const AT: u64 = 600 << 30;

/// Creates a file of 1 TiB with one island of 4 KiB, if this file system supports holes.
fn island(directory: &Path) -> Option<std::path::PathBuf> {
    let path = directory.join("island");
    let file = File::create(&path).unwrap();
    file.set_len(TIB).ok()?;
    file.write_all_at(&content(5, 4096), AT).ok()?;
    let has_holes = taken(&path) <= 4096;
    if !has_holes {
        println!("SKIPPED: this file system has no holes");
    }
    has_holes.then_some(path)
}

fn taken(path: &Path) -> u64 {
    path.metadata().unwrap().blocks() * 512
}

fn is_the_island(path: &Path) {
    assert_eq!((path.metadata().unwrap().len(), taken(path)), (TIB, 4096), "{}", path.display());
    let mut found = vec![1; 12_288];
    File::open(path).unwrap().read_exact_at(&mut found, AT - 4096).unwrap();
    assert!(found[..4096] == [0; 4096] && found[4096..8192] == content(5, 4096) && found[8192..] == [0; 4096]);
}

#[test]
fn holes_stay_holes_in_copies_in_out_between_of_trees_and_in_cat_to_a_file() {
    let here = scratch();
    let Some(source) = island(here.path()) else { return };
    let (store, other) = (Up::start(3), Up::start(1));
    let out = |name: &str| here.path().join(name);
    let said = run(["cp", "--json", text(&source), &store.path("/f")]).done().json();
    assert_eq!((said["size_bytes"].as_u64(), said["data_bytes"].as_u64()), (Some(TIB), Some(4096)), "{said}");
    assert!(said["rate_bytes_per_s"].as_f64().unwrap() < 1e9, "the rate is that of the data: {said}");
    assert_eq!(stored_bytes(store.directory.path()), 4096);
    let told = run(["cp", &store.path("/f"), &other.path("/f")]).done().err;
    assert!(told.contains("1 TiB in"), "the size shown is the file's: {told}");
    run(["cp", "--quiet", &other.path("/f"), text(&out("out"))]).done();
    is_the_island(&out("out"));

    run(["mkdir", &store.path("/d")]).done();
    std::fs::create_dir(out("tree")).unwrap();
    std::fs::rename(&source, out("tree/large")).unwrap();
    let small = File::create(out("tree/small")).unwrap();
    small.set_len(800_000).unwrap();
    small.write_all_at(b"x", 300_000).unwrap();
    run(["cp", "--quiet", "-r", text(&out("tree")), &store.path("/d/")]).done();
    run(["cp", "--quiet", "-r", &store.path("/d/tree"), text(&out("tree-out"))]).done();
    is_the_island(&out("tree-out/large"));
    assert!(
        taken(&out("tree-out/small")) <= 8192 && std::fs::read(out("tree/small")).unwrap() == std::fs::read(out("tree-out/small")).unwrap()
    );

    let cat = |paths: &[&str], to: File| {
        let mut child = Command::new(THALWEG).arg("cat").args(paths).stdin(Stdio::null()).stdout(to).spawn().unwrap();
        let begun = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > std::time::Duration::from_secs(60) {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("cat has written holes out: {} bytes", taken(&out("cat")));
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(child.wait().unwrap().success());
    };
    cat(&[&store.path("/f")], File::create(out("cat")).unwrap());
    is_the_island(&out("cat"));
    // Several files, one of which ends with a hole; and appending to an existing file.
    let part = file(here.path(), "part", b"part");
    run(["cp", "--quiet", text(&part), &store.path("/part")]).done();
    let (part, small) = (store.path("/part"), store.path("/d/tree/small"));
    cat(&[&part, &small, &part, &small], File::create(out("several")).unwrap());
    let bytes = std::fs::read(out("tree/small")).unwrap();
    assert!(std::fs::read(out("several")).unwrap() == [b"part", &bytes[..], b"part", &bytes].concat());
    std::fs::write(out("appended"), "before").unwrap();
    cat(&[&small, &part], File::options().append(true).open(out("appended")).unwrap());
    assert!(std::fs::read(out("appended")).unwrap() == [b"before", &bytes[..], b"part"].concat());
    std::fs::write(out("over"), vec![7; 900_000]).unwrap();
    cat(&[&small], File::options().write(true).open(out("over")).unwrap());
    assert!(std::fs::read(out("over")).unwrap() == [&bytes[..], &[7; 100_000]].concat(), "what was there does not show through a hole");
}

#[test]
fn zeros_become_holes_where_that_is_asked_for_and_holes_bytes() {
    let here = scratch();
    let store = Up::start(2);
    let bytes = [&content(1, 1 << 20)[..], &vec![0; 5 << 20], &content(2, 10_000)].concat();
    let source = file(here.path(), "zeros", &bytes);
    let out = here.path().join("out");
    for (there, back, holes) in [("auto", "auto", false), ("always", "auto", true), ("never", "always", true), ("always", "never", false)] {
        run(["cp", "--quiet", "--force", "--sparse", there, text(&source), &store.path("/f")]).done();
        let stored = stored_bytes(store.directory.path());
        assert_eq!(stored < 2 << 20, there == "always", "{there}: {stored}");
        run(["cp", "--quiet", "--force", "--sparse", back, &store.path("/f"), text(&out)]).done();
        assert_eq!(taken(&out) < 2 << 20, holes, "{there}, {back}: {}", taken(&out));
        assert!(std::fs::read(&out).unwrap() == bytes);
        run(["rm", &store.path("/f")]).done();
        crate::common::wait_until("its datafiles are gone", || stored_bytes(store.directory.path()) == 0);
    }
    run(["cp", "--sparse", "sometimes", text(&source), &store.path("/f")]).failed(2, &["auto", "always", "never"]);
}

#[test]
fn what_is_known_to_be_too_much_is_refused_before_the_first_byte_with_what_there_is() {
    let here = scratch();
    let Some(disk) = crate::common::SmallDisk::mount(&here.path().join("disk"), "8m") else {
        return crate::common::skipped("a small file system cannot be mounted here");
    };
    let store = Up::start(1);
    let source = file(here.path(), "source", &content(1, 20 << 20));
    run(["cp", "--quiet", text(&source), &store.path("/f")]).done();
    let into = here.path().join("disk");
    let said = run(["cp", "--quiet", &store.path("/f"), text(&into.join("f"))]);
    said.failed(1, &["needs 20 MiB", "has 8 MiB free", "nothing was copied"]);
    assert_eq!(std::fs::read_dir(&into).unwrap().count(), 0);
    drop(disk);
}
