//! `thalweg scrub`: what it finds, what it leaves alone, and that it goes on where it was interrupted.

use super::damaged::{datafiles, flip};
use crate::common::{CommandOutput, Mounted, Running, Servers, Up, can_mount, content, file, run, scratch, text, thalweg, wait_until};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

fn scrub(store: &Up, arguments: &[&str]) -> CommandOutput {
    run([&["scrub", "--quiet", "--no-limit", "--store", &store.address][..], arguments].concat())
}

/// The number of a file that no test makes.
const NOBODYS: &str = "00000100000fff07";

/// Returns the kinds and problems of the findings.
fn findings(said: &CommandOutput) -> Vec<(String, String)> {
    let document = said.json();
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    document["findings"].as_array().expect("findings").iter().map(|finding| (text(finding, "kind"), text(finding, "path"))).collect()
}

/// Returns the directory of the target of a server.
fn target_of(store: &Up, server: u32) -> PathBuf {
    let of_server = store.directory.path().join(format!("io{server}"));
    let below = std::fs::read_dir(&of_server).unwrap().map(|entry| entry.unwrap().path());
    below.chain([of_server.clone()]).find(|path| path.join("datafiles").is_dir()).expect("a target")
}

#[test]
fn a_scrub_of_an_intact_store_reads_all_of_it_finds_nothing_and_is_remembered() {
    let here = scratch();
    let store = Up::start(3);
    for (name, length) in [("empty", 0), ("small", 5_000), ("large", 3_000_001)] {
        let source = file(here.path(), name, &content(1, length));
        run(["cp", "--layout", "simple_stripe,strip_size=64Ki", text(&source), &store.path(&format!("/{name}"))]).done();
    }
    run(["lot", "create", "--store", &store.address, "--size", "10Mi", "--for", "1d", "--level", "admission", "kept"]).done();
    run(["cp", "--lot", "kept", text(&here.path().join("large")), &store.path("/in-lot")]).done();
    let sparse = here.path().join("sparse");
    std::fs::File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
    run(["cp", text(&sparse), &store.path("/sparse")]).done();
    let before = run(["df", "--store", &store.address]).done().out;
    assert!(before.contains("last scrub: never; none is scheduled"), "{before}");
    let document = scrub(&store, &["--json"]).done().json();
    assert_eq!(document["schema"], "thalweg.scrub/1");
    assert_eq!((&document["complete"], &document["findings"], &document["names"]), (&true.into(), &serde_json::json!([]), &5.into()));
    let read = document["read_bytes"].as_u64().unwrap();
    assert!((2 * 3_000_001 + 5_000..7_000_000).contains(&read), "all bytes, and no holes: {read}");
    let after = run(["df", "--store", &store.address]).done().out;
    assert!(after.contains("s ago, nothing found; none is scheduled"), "{after}");
    let doctor = run(["doctor", "--json", "--store", &store.address]).out;
    assert!(doctor.contains("last scrub: ") && doctor.contains("nothing found"), "{doctor}");
}

#[test]
fn damage_is_found_with_its_place_in_file_and_datafile_before_a_reader_meets_it() {
    let here = scratch();
    let store = Up::start(3);
    let source = file(here.path(), "source", &content(2, 3_000_001));
    for name in ["/a", "/b"] {
        run(["cp", "--layout", "simple_stripe,strip_size=64Ki", text(&source), &store.path(name)]).done();
    }
    let datafile = datafiles(store.directory.path()).remove(0);
    flip(&datafile, 70_000);
    let said = scrub(&store, &[]).failed(3, &[]);
    let line = said.out.lines().find(|line| line.starts_with("damaged ")).unwrap_or_else(|| panic!("{said:?}"));
    assert!(
        line.contains("bytes 69632 to 73728 of ") && line.contains(text(&datafile)) && line.contains("4096 bytes do not match"),
        "{line}"
    );
    let document = scrub(&store, &["--json"]).failed(3, &[]).json();
    let finding = &document["findings"][0];
    let path = finding["path"].as_str().unwrap();
    // The byte of the file is the one that cp refuses.
    let from = finding["ranges_in_file"][0][0].as_u64().unwrap();
    let skipped = run(["cp", "--json", "--skip-damaged", &store.path(path), text(&here.path().join("out"))]).failed(1, &[]).json();
    assert_eq!(skipped["damaged"][0][0].as_u64(), Some(from), "{finding}");
    let other = if path == "/a" { "/b" } else { "/a" };
    scrub(&store, &[&store.path(other)]).done();
    scrub(&store, &[&store.path(path)]).failed(3, &[]);
    let by_datafile = scrub(&store, &["--json", "--file", text(&datafile)]).failed(3, &[]);
    assert_eq!(findings(&by_datafile), [("damaged".to_owned(), path.to_owned())]);
    scrub(&store, &["--file", &format!("{NOBODYS}.0")]).failed(1, &["no file has number", "orphans"]);
    let df = run(["df", "--store", &store.address]).done().out;
    assert!(df.contains("s ago, 1 finding;"), "{df}");
    // Written again, it is whole.
    run(["cp", "--force", text(&source), &store.path(path)]).done();
    scrub(&store, &[]).done();
}

#[test]
fn what_belongs_to_no_file_is_found_and_moved_away_only_on_request() {
    let here = scratch();
    let store = Up::start(2);
    run(["cp", text(&file(here.path(), "f", &content(3, 100_000))), &store.path("/f")]).done();
    let target = target_of(&store, 1);
    let part = target.join("datafiles/07");
    std::fs::create_dir_all(&part).unwrap();
    let orphan = file(&part, &format!("{NOBODYS}.0"), b"nobody's");
    let sums = file(&part, &format!("{NOBODYS}.3.crc"), b"sums of nothing");
    let strange = file(&part, "notes.txt", b"?");
    let said = scrub(&store, &["--json"]).failed(3, &[]);
    let mut kinds: Vec<String> = findings(&said).into_iter().map(|(kind, _)| kind).collect();
    kinds.sort();
    assert_eq!(kinds, ["orphan", "orphan", "strange"]);
    assert!(orphan.exists() && sums.exists());
    // A number of a start of the metadata service that has not been.
    let later = file(&part, "00000f0000000007.1", b"?");
    let start = "is of start 15 of the metadata service, which is in start 1";
    assert!(scrub(&store, &[]).failed(3, &[]).out.contains(start));
    std::fs::remove_file(later).unwrap();
    let repaired = scrub(&store, &["--repair"]).failed(3, &[]);
    assert_eq!(repaired.out.matches("moved to set-aside").count(), 2, "{}", repaired.out);
    assert!(!orphan.exists() && !sums.exists() && strange.exists());
    let aside = target.join("set-aside");
    assert_eq!(std::fs::read(aside.join(format!("{NOBODYS}.0"))).unwrap(), b"nobody's");
    assert!(aside.join(format!("{NOBODYS}.3.crc")).exists());
    assert_eq!(findings(&scrub(&store, &["--json"]).failed(3, &[])), [("strange".to_owned(), String::new())]);
    run(["cp", &store.path("/f"), text(&here.path().join("back"))]).done();
}

#[test]
fn missing_and_short_datafiles_are_found_by_their_names() {
    let here = scratch();
    let mut store = Up::start(3);
    let source = file(here.path(), "source", &content(4, 3_000_001));
    for name in ["/missing", "/short", "/whole"] {
        run(["cp", "--sync", "--layout", "simple_stripe,strip_size=64Ki", text(&source), &store.path(name)]).done();
    }
    store.process.signal(libc::SIGTERM);
    assert_eq!(store.process.wait(), Some(0));
    let mut all = datafiles(store.directory.path());
    all.sort_by_key(|path| path.file_name().unwrap().to_owned());
    assert_eq!(all.len(), 9);
    // Files are numbered in the order of their creation, and each has three datafiles.
    std::fs::remove_file(&all[1]).unwrap();
    std::fs::File::options().write(true).open(&all[3]).unwrap().set_len(100_000).unwrap();
    let store = store.again();
    let said = scrub(&store, &["--json"]).failed(3, &[]);
    let found = findings(&said);
    assert!(found.contains(&("lost".to_owned(), "/missing".to_owned())), "{found:?}");
    assert!(found.contains(&("lost".to_owned(), "/short".to_owned())), "{found:?}");
    assert!(!found.iter().any(|(_, path)| path == "/whole"), "{found:?}");
    let df = run(["df", "--store", &store.address]).done().out;
    assert!(df.contains(&format!("s ago, {} findings;", found.len())), "{df}");
}

#[test]
fn a_lot_that_was_counted_wrongly_is_found_and_counted_again_on_request() {
    let here = scratch();
    let store = Up::start(1);
    let source = file(here.path(), "f", &content(8, 100_000));
    run(["lot", "create", "--store", &store.address, "--size", "64Mi", "--for", "1d", "--level", "admission", "kept"]).done();
    run(["cp", "--sync", "--lot", "kept", text(&source), &store.path("/f")]).done();
    run(["cp", "--sync", "--lot", "kept", text(&source), &store.path("/g")]).done();
    scrub(&store, &[]).done();
    // Behind the server's back.
    let datafile = stored(&target_of(&store, 0).join("lots")).remove(0);
    let opened = std::fs::File::options().write(true).open(&datafile).unwrap();
    // SAFETY: an open descriptor.
    let done = unsafe { libc::fallocate(opened.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, 8 << 20) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    let said = scrub(&store, &[]).failed(3, &[]);
    assert_eq!(said.out.matches("is counted as using").count(), 1, "{}", said.out);
    assert!(said.out.contains("account: thalweg scrub --repair counts it again"), "{}", said.out);
    let said = scrub(&store, &["--repair"]).failed(3, &[]);
    assert!(said.out.contains("; counted again"), "{}", said.out);
    scrub(&store, &[]).done();
    for name in ["/f", "/g"] {
        run(["rm", &store.path(name)]).done();
    }
    wait_until("the lot is empty", || run(["lot", "show", "kept", "--json", "--store", &store.address]).json()["used_bytes"] == 0);
}

/// Returns the files below a directory.
fn stored(directory: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { stored(&path) } else { vec![path] }).filter(|path| !text(path).ends_with(".crc")).collect()
}

#[test]
fn a_store_that_is_written_renamed_and_removed_meanwhile_has_no_findings() {
    let here = scratch();
    let store = Up::start(2);
    let sources: Vec<_> =
        [0, 5_000, 70_000, 2_000_000].map(|size| file(here.path(), &size.to_string(), &content(size as u64, size))).into();
    run(["lot", "create", "--store", &store.address, "--size", "256Mi", "--for", "1d", "--level", "admission", "kept"]).done();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (address, sources, done) = (&store.address, &sources, &done);
        for thread in 0..2 {
            scope.spawn(move || {
                for n in 0.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let (at, other) = (format!("{address}/t{thread}-{}", n % 3), format!("{address}/t{thread}-moved"));
                    let lot: &[&str] = if n % 4 == 0 { &["--lot", "kept"] } else { &[] };
                    let source = text(&sources[n % sources.len()]);
                    run([&["cp", "--quiet", "--force", source, &at][..], lot].concat()).done();
                    match n % 5 {
                        1 => run(["rm", "--force", &at]).done(),
                        3 => run(["mv", &at, &other]).done(),
                        _ => run(["stat", &at]).done(),
                    };
                }
            });
        }
        let scrubs = (0..8).map(|_| scrub(&store, &["--repair"])).collect::<Vec<_>>();
        done.store(true, Ordering::Relaxed);
        scrubs.into_iter().for_each(|said| drop(said.done()));
    });
    scrub(&store, &[]).done();
}

#[test]
fn a_file_that_is_open_and_has_no_name_any_more_is_left_alone() {
    if !can_mount() {
        return;
    }
    let here = scratch();
    let store = Up::start(2);
    let mounted = Mounted::new(&store, &here.path().join("mnt"), &[]);
    let bytes = content(9, 300_000);
    let mut opened = std::fs::File::options().read(true).write(true).create_new(true).open(mounted.at("f")).unwrap();
    opened.write_all(&bytes).unwrap();
    opened.sync_all().unwrap();
    std::fs::remove_file(mounted.at("f")).unwrap();
    scrub(&store, &["--repair"]).done();
    // From the store, not from the kernel's pages.
    opened.write_all(b"on").unwrap();
    opened.sync_all().unwrap();
    // SAFETY: an open descriptor.
    assert_eq!(unsafe { libc::posix_fadvise(opened.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
    let mut back = vec![0; bytes.len() + 2];
    opened.read_exact_at(&mut back, 0).unwrap();
    assert!(back.starts_with(&bytes) && back.ends_with(b"on"));
    drop(opened);
    mounted.umount().done();
    scrub(&store, &[]).done();
}

#[test]
fn a_server_that_is_away_is_an_error_and_the_rest_is_examined() {
    let here = scratch();
    let mut servers = Servers::start(2);
    let store = text(&servers.store).to_owned();
    let source = file(here.path(), "source", &content(5, 300_000));
    for n in 0..8 {
        run(["cp", "--layout", "basic_dist", "--store", &store, text(&source), &format!("thal:/f{n}")]).done();
    }
    servers.kill("io1");
    let away = ["scrub", "--quiet", "--no-limit", "--timeout", "2s", "--store", &store];
    let said = run([&away[..], &["--json"]].concat()).failed(1, &["not everything was examined", "io1"]).json();
    assert_eq!((&said["complete"], said["datafiles"].as_u64().unwrap() > 0), (&false.into(), true), "{said}");
    servers.serve("io1");
    run(away).done();
}

#[test]
fn a_store_of_an_earlier_release_gets_checksums_while_it_runs_and_is_written() {
    let here = scratch();
    let mut servers = Servers::describe(1, |directory, _| vec![directory.join("t0")]);
    servers.serve("metadata");
    servers.serve("io0");
    let identity = servers.directory().join("t0/thalweg-target.toml");
    servers.kill("io0");
    let was = std::fs::read_to_string(&identity).unwrap();
    std::fs::write(&identity, was.replace("format = 2", "format = 1")).unwrap();
    servers.serve("io0");
    let store = text(&servers.store).to_owned();
    let source = file(here.path(), "source", &content(5, 300_000));
    let put = |name: &str| run(["cp", "--force", "--store", &store, text(&source), &format!("thal:/{name}")]).done();
    for n in 0..20 {
        put(&format!("f{n}"));
    }
    let scrub = |arguments: &[&str]| run([&["scrub", "--quiet", "--no-limit", "--store", &store][..], arguments].concat());
    assert!(scrub(&[]).done().out.contains("no checksums on target 0"));
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| (0..40).for_each(|n| drop(put(&format!("f{}", n % 25)))));
        let said = scrub(&["--add-checksums"]).done();
        assert!(said.out.contains("computed the checksums of "), "{}", said.out);
        writing.join().unwrap();
    });
    scrub(&[]).done();
    assert!(std::fs::read_to_string(&identity).unwrap().starts_with("format = 2\n"));
    let df = run(["df", "--store", &store]).done().out;
    assert!(!df.contains("no checksums at rest") && !df.contains("differed"), "{df}");
    let datafile = datafiles(servers.directory()).remove(0);
    flip(&datafile, 123_456);
    scrub(&[]).failed(3, &[]);
    // It keeps them.
    flip(&datafile, 123_456);
    servers.kill("io0");
    servers.serve("io0");
    scrub(&[]).done();
}

#[test]
fn an_interrupted_scrub_goes_on_where_it_was() {
    let here = scratch();
    let store = Up::start(1);
    let source = file(here.path(), "source", &content(6, 1 << 20));
    for n in 0..24 {
        run(["cp", "--quiet", text(&source), &store.path(&format!("/f{n}"))]).done();
    }
    let mut command = thalweg(["scrub", "--quiet", "--rate", "4Mi", "--store", &store.address]);
    command.env("NO_COLOR", "1");
    let mut scrubbing = Running::start(command);
    let record = target_of(&store, 0).join("thalweg-scrub.toml");
    wait_until("some of it has been read", || is_under_way(&record));
    scrubbing.signal(libc::SIGINT);
    assert_eq!(scrubbing.wait(), Some(130));
    assert!(is_under_way(&record));
    let df = run(["df", "--store", &store.address]).done().out;
    assert!(df.contains("one has begun and not ended"), "{df}");
    let rest = scrub(&store, &["--continue", "--json"]).done().json()["read_bytes"].as_u64().unwrap();
    assert!(rest < 24 << 20, "{rest}");
    assert!(!is_under_way(&record));
    assert_eq!(scrub(&store, &["--continue", "--json"]).done().json()["read_bytes"].as_u64(), Some(24 << 20));
}

fn is_under_way(record: &Path) -> bool {
    std::fs::read_to_string(record).is_ok_and(|text| text.contains("[scrub.at]"))
}

#[test]
fn a_store_scrubs_itself_when_a_scrub_is_due() {
    let here = scratch();
    let mut store = Up::start(1);
    run(["cp", "--sync", text(&file(here.path(), "f", &content(7, 100_000))), &store.path("/f")]).done();
    store.process.signal(libc::SIGTERM);
    assert_eq!(store.process.wait(), Some(0));
    let store = store.again_with(&["--scrub", "7d"]);
    wait_until("the first scrub has ended", || run(["df", "--store", &store.address]).done().out.contains("; the next is due in 6d"));
    // A schedule ends with the process that has it; the record of the scrub does not.
    let mut store = store;
    store.process.signal(libc::SIGTERM);
    assert_eq!(store.process.wait(), Some(0));
    let store = store.again();
    let df = run(["df", "--store", &store.address]).done().out;
    assert!(df.contains("ago, nothing found; none is scheduled"), "{df}");
}

#[test]
fn a_scrub_needs_the_stores_own_credential() {
    let here = scratch();
    let store = Up::start(1);
    let ana = here.path().join("ana.credential");
    run(["credential", "create", "--store", &store.address, "-o", text(&ana), "ana"]).done();
    run(["scrub", "--store", &store.address, "--credential", text(&ana)]).failed(1, &["credential"]);
    run(["scrub", "--store", &store.address, &store.path("/absent")]).failed(1, &["absent"]);
}
