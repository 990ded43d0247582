//! What is in `tests/formats/` is read as it was when it was written.

use super::{fixture, started, unpacked, unpacked_store, with_own};
use crate::common::{Mounted, Up, can_mount, file, run, scratch, text};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The bytes that `tests/formats/make` writes.
fn content(length: u32) -> Vec<u8> {
    (0..length).map(|i| 1 + ((7 * i + i / 251) % 255) as u8).collect()
}

#[test]
fn a_finished_and_an_unfinished_recording_of_format_2_have_every_row() {
    for name in ["recording-2", "unfinished-2"] {
        let here = scratch();
        let out = here.path().join("tables.csv");
        run(["export", text(&fixture(name)), "-o", text(&out)]).done();
        let expected = fixture(&format!("{name}.csv"));
        let mut tables = 0;
        for table in std::fs::read_dir(&expected).unwrap().flatten() {
            let (found, wanted) = (std::fs::read_to_string(out.join(table.file_name())), std::fs::read_to_string(table.path()));
            assert_eq!(found.unwrap(), wanted.unwrap(), "{name}: {:?}", table.file_name());
            tables += 1;
        }
        assert_eq!(tables, 9, "{}", expected.display());
    }
}

#[test]
fn a_recording_of_format_2_is_explained() {
    let said = run(["explain", "--json", text(&fixture("recording-2"))]).done().json();
    assert_eq!((&said["schema"], &said["recorder"]), (&"thalweg.explain/1".into(), &"preload".into()));
    assert_eq!(said["command"], serde_json::json!(["sh", "-c", "cat input > output; sleep 0.05; cksum output"]));
    let wall_s = said["wall_s"].as_f64().unwrap();
    let shares: f64 = said["critical_path"].as_array().unwrap().iter().filter_map(|charge| charge["share"].as_f64()).sum();
    assert!((wall_s - 0.06).abs() < 0.01 && (0.99..1.01).contains(&shares), "{wall_s} {shares}");
    assert!(run(["explain", text(&fixture("unfinished-2"))]).done().out.contains("cat input; sleep 2"));
}

#[test]
fn an_explanation_and_a_sweep_of_version_1_are_read() {
    let explanation = fixture("explanation-1.json");
    let same = run(["diff", "--json", text(&explanation), text(&fixture("recording-2"))]).done().json();
    assert_eq!(same["before"]["command"], same["after"]["command"]);
    assert_eq!(same["change_s"].as_f64(), Some(0.0));
    let sweep = fixture("sweep-1.json");
    let diff = run(["sweep", "diff", text(&sweep), text(&sweep)]).done();
    assert!(diff.out.contains("Of 2 points in both"), "{}", diff.out);
}

/// Checks names and contents by the command, from the store and after a copy.
fn holds_everything(store: &Up, back: &Path) {
    let listed = with_own(store, &["ls", "--json", "-l", "-R", &store.path("/")]).done().json();
    let entries = listed["entries"].as_array().unwrap();
    let names: Vec<&str> = entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
    let long = "n".repeat(255);
    let odd = "ä, a tab\t and \u{2603}";
    assert_eq!(names, ["directory", "in-lot", "link", &long, "not-\u{fffd}-utf8", "sparse", "striped", odd, "executable", "small"]);
    with_own(store, &["cp", "--quiet", "-r", &store.path("/"), text(back)]).done();
    let is = |name: &str, bytes: &[u8]| assert!(std::fs::read(back.join(name)).unwrap() == bytes, "{name}");
    is("directory/small", &content(5 << 10));
    is("directory/executable", b"");
    is("striped", &content(300 << 10));
    is("in-lot", &content(300 << 10));
    is(&long, b"long");
    is(odd, b"named");
    let mut sparse = vec![0; (3 << 20) + 100];
    sparse[..100].copy_from_slice(&content(100));
    sparse[3 << 20..].copy_from_slice(&content(100));
    is("sparse", &sparse);
    assert_eq!(std::fs::read_link(back.join("link")).unwrap(), Path::new("directory/small"));
}

#[test]
fn a_store_of_format_1_comes_up_and_has_its_names_bytes_lots_and_credentials() {
    comes_up_with_everything("store-1", "no checksums at rest: target 0, 1");
}

#[test]
fn a_store_of_format_2_comes_up_and_has_its_checksums_too() {
    comes_up_with_everything("store-2", "");
    // Its clean checksums are those of its bytes.
    let store = started(unpacked("store-2"));
    let mut damaged = 0;
    for datafile in datafiles(store.directory.path()) {
        let mut bytes = std::fs::read(&datafile).unwrap();
        if bytes.starts_with(&content(100)) && bytes.len() == 5 << 10 {
            bytes[4000] ^= 1;
            std::fs::File::options().write(true).open(&datafile).unwrap().write_all_at(&bytes[4000..4001], 4000).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    let here = scratch();
    let back = here.path().join("small");
    with_own(&store, &["cp", "--quiet", &store.path("/directory/small"), text(&back)])
        .failed(1, &["bytes 0 to 4096 do not match their checksum"]);
}

/// Returns the datafiles below a directory, without their checksums.
fn datafiles(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(datafiles(&path)),
            false if text(&path).contains("/datafiles/") && !text(&path).ends_with(".crc") => found.push(path),
            false => {}
        }
    }
    found
}

/// Starts the store of a fixture twice, and checks all that is in it; `df` says this about its checksums.
fn comes_up_with_everything(fixture: &str, about_checksums: &str) {
    let (here, mut directory) = (scratch(), unpacked(fixture));
    for start in 0..2 {
        let mut store = started(directory);
        let said = with_own(&store, &["df", "--store", &store.address]).done().out;
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("checksums at rest") || line.contains("damaged")).collect();
        assert!(lines.len() == usize::from(!about_checksums.is_empty()) && said.contains(about_checksums), "{said}");
        holds_everything(&store, &here.path().join(format!("back{start}")));
        let lot = with_own(&store, &["lot", "show", "--json", "--store", &store.address, "kept"]).done().json();
        assert_eq!((&lot["name"], &lot["size_bytes"], &lot["used_bytes"]), (&"kept".into(), &(1 << 20).into(), &(300 << 10).into()));
        let as_whom = |name: &str| {
            let credential = store.directory.path().join(format!("{name}.credential"));
            run(["ls", "--credential", text(&credential), &store.path("/")])
        };
        as_whom("ana").done();
        as_whom("read-only").done();
        as_whom("bob").failed(1, &["revoked"]);
        // It can be written to, and keeps what is written.
        let (source, target) = (file(here.path(), "source", &content(1000)), store.path("/directory/executable"));
        with_own(&store, &["cp", "--quiet", "--force", "--sync", text(&source), &target]).done();
        with_own(&store, &["cp", "--quiet", "--force", &target, text(&here.path().join("again"))]).done();
        assert_eq!(std::fs::read(here.path().join("again")).unwrap(), content(1000));
        with_own(&store, &["cp", "--quiet", "--force", "--sync", text(&file(here.path(), "empty", b"")), &target]).done();
        store.process.signal(libc::SIGTERM);
        assert_eq!(store.process.wait(), Some(0));
        directory = store.directory;
    }
}

#[test]
fn a_store_of_format_1_is_mounted_with_its_attributes() {
    if !can_mount() {
        return;
    }
    let store = started(unpacked_store());
    let here = scratch();
    let mounted = Mounted::new(&store, &here.path().join("mounted"), &["--credential", text(&store.credential())]);
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(mounted.at("sparse"), "user.colour", &mut value).unwrap();
    assert_eq!(&value[..length], b"blue");
    let mode = |name: &str| std::fs::metadata(mounted.at(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("directory"), mode("directory/executable"), mode("directory/small")), (0o750, 0o755, 0o644));
    let link = std::fs::symlink_metadata(mounted.at("link")).unwrap();
    assert_eq!(link.modified().unwrap(), std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    assert_eq!(std::fs::read(mounted.at("link")).unwrap(), content(5 << 10));
    mounted.umount().done();
}

#[test]
fn a_backup_of_format_1_and_one_of_a_store_of_format_1_are_restored() {
    let (here, directory) = (scratch(), unpacked_store());
    let description = directory.path().join("store.toml");
    let restores = |backup: &Path| {
        let said = run(["metadata", "check", "--json", text(backup)]).done().json();
        assert_eq!((&said["of"], said["findings"].as_array().unwrap().len()), (&"backup".into(), 0), "{said}");
        run(["metadata", "restore", text(backup), "--store", text(&description)]).done();
        run(["metadata", "check", "--store", text(&description)]).done();
    };
    restores(&fixture("backup-1"));
    let mut store = started(directory);
    holds_everything(&store, &here.path().join("back0"));
    let saved = here.path().join("saved");
    with_own(&store, &["metadata", "backup", text(&saved), "--store", &store.address]).done();
    store.process.signal(libc::SIGTERM);
    assert_eq!(store.process.wait(), Some(0));
    restores(&saved);
    let store = started(store.directory);
    holds_everything(&store, &here.path().join("back1"));
    let lot = with_own(&store, &["lot", "show", "--json", "--store", &store.address, "kept"]).done().json();
    assert_eq!((&lot["name"], &lot["used_bytes"]), (&"kept".into(), &(300 << 10).into()));
    let revoked = store.directory.path().join("bob.credential");
    run(["ls", "--credential", text(&revoked), &store.path("/")]).failed(1, &["revoked"]);
}
