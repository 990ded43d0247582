//! `thalweg cp -r`: whole trees in, out and between stores, with all possible failures of entries.

use crate::bounded::Bounded;
use crate::common::{Running, Servers, SmallDisk, Up, content, file, is_root, run, scratch, skipped, text, thalweg, wait_until};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Mode, modification time, and bytes or target.
type EntryState = (u32, (i64, i64), Vec<u8>);

/// Reads everything below a directory, by path.
fn all_of(root: &Path) -> BTreeMap<PathBuf, EntryState> {
    let (mut all, mut open) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let bytes = match found.file_type() {
                kind if kind.is_dir() => {
                    open.push(path.clone());
                    Vec::new()
                }
                kind if kind.is_symlink() => std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                kind if kind.is_file() => std::fs::read(&path).unwrap(),
                _ => Vec::new(),
            };
            all.insert(path.strip_prefix(root).unwrap().to_owned(), (found.mode(), (found.mtime(), found.mtime_nsec()), bytes));
        }
    }
    all
}

fn small_files(tree: &Path, many: usize, bytes: usize) {
    std::fs::create_dir_all(tree).unwrap();
    for i in 0..many {
        file(tree, &format!("{i:05}"), &content(i as u64, bytes));
    }
}

#[test]
fn a_tree_with_names_of_any_bytes_links_and_modes_comes_back_as_it_was() {
    let (store, other) = (Up::start(4), Up::start(1));
    let here = scratch();
    let tree = here.path().join("tree");
    std::fs::create_dir_all(tree.join(OsStr::from_bytes(b"odd \xff\n directory/below"))).unwrap();
    std::fs::create_dir(tree.join("empty")).unwrap();
    for (i, name) in [&b"plain"[..], b"odd \xfe", b"odd \xff\n directory/\x01", b"-r", b" ", b"...", &[b'n'; 240]].iter().enumerate() {
        std::fs::write(tree.join(OsStr::from_bytes(name)), content(i as u64, i * 50_000)).unwrap();
    }
    file(&tree, "large", &content(9, 3_000_000));
    symlink("plain", tree.join("link")).unwrap();
    symlink(OsStr::from_bytes(b"nowhere/\xff"), tree.join("empty/dangling")).unwrap();
    symlink("..", tree.join("empty/up")).unwrap();
    std::fs::set_permissions(tree.join("plain"), PermissionsExt::from_mode(0o2751)).unwrap();
    std::fs::set_permissions(tree.join("empty"), PermissionsExt::from_mode(0o555)).unwrap();
    assert!(Command::new("mkfifo").arg(tree.join("pipe")).status_in_time().unwrap().success());
    assert!(Command::new("touch").args(["-h", "-d", "2001-02-03 04:05:06.789"]).arg(tree.join("link")).status_in_time().unwrap().success());
    let before = all_of(&tree);
    run(["cp", "-r", "-p", "--privileges", "--quiet", text(&tree), &store.path("/in")]).done();
    run(["cp", "-r", "-p", "--privileges", "--quiet", &store.path("/in"), &other.path("/between")]).done();
    run(["cp", "-r", "-p", "--privileges", "--quiet", "--sync", &other.path("/between"), text(&here.path().join("out"))]).done();
    let after = all_of(&here.path().join("out"));
    for (path, entry) in &before {
        assert!(after.get(path) == Some(entry), "{}", path.display());
    }
    assert_eq!(after.len(), before.len());
    // Otherwise attributes are those of a new file.
    run(["cp", "-r", "--quiet", &store.path("/in"), text(&here.path().join("plain"))]).done();
    let plain = all_of(&here.path().join("plain"));
    assert!(plain.iter().all(|(path, entry)| entry.2 == before[path].2 && entry.0 & 0o7000 == 0));
    assert!(plain[Path::new("link")].1 > before[Path::new("link")].1);
}

#[test]
fn ten_thousand_small_files_go_in_and_come_out_and_their_sizes_are_known() {
    let store = Up::start(4);
    let here = scratch();
    let tree = here.path().join("tree");
    small_files(&tree, 10_000, 4096);
    let said = run(["cp", "-r", "--json", text(&tree), &store.path("/many")]).done().json();
    assert_eq!((said["files"].as_u64(), said["size_bytes"].as_u64()), (Some(10_000), Some(10_000 * 4096)));
    let listed = run(["ls", "-l", "--json", &store.path("/many")]).done().json();
    let entries = listed["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 10_000);
    assert!(entries.iter().all(|entry| entry["size_bytes"] == 4096));
    let back = here.path().join("back");
    run(["cp", "-r", "--quiet", &store.path("/many"), text(&back)]).done();
    for i in 0..10_000 {
        let name = format!("{i:05}");
        assert!(std::fs::read(back.join(&name)).unwrap() == content(i, 4096), "{name}");
    }
    assert_eq!(std::fs::read_dir(&back).unwrap().count(), 10_000);
}

#[test]
fn what_cannot_be_read_is_named_and_the_others_are_copied() {
    let store = Up::start(2);
    let here = scratch();
    let tree = here.path().join("tree");
    small_files(&tree, 50, 100);
    // A file that can be opened but not read, even by root: there is nothing at its start.
    symlink("/proc/self/mem", tree.join("unreadable")).unwrap();
    symlink(".", tree.join("circle")).unwrap();
    run(["cp", "-r", "--follow", "--quiet", text(&tree), &store.path("/t")])
        .failed(1, &["tree/unreadable", "tree/circle", "a directory that contains it", "2 entries were not copied; 50 files were"]);
    assert_eq!(run(["ls", &store.path("/t")]).done().out.lines().count(), 50);
    // An existing file fails alone; an existing tree fails the whole copy.
    run(["cp", "-r", "--quiet", text(&tree), &store.path("/t")]).failed(1, &["/t", "exists", "--force"]);
    run(["cp", "-r", "--quiet", "--force", text(&tree), &store.path("/t")]).done();
    run(["cp", "-r", "--quiet", &store.path("/t"), &store.path("/t/below")]).failed(1, &["/t/below", "inside the tree"]);
    run(["cp", "-r", "--quiet", text(&here.path().join("none")), &store.path("/u")]).failed(1, &["none"]);
}

#[test]
fn a_full_disk_fails_the_files_that_go_there_by_name_and_no_others() {
    if !is_root() {
        return skipped("a file system of limited size needs root");
    }
    let here = scratch();
    let small = here.path().join("small");
    let Some(_disk) = SmallDisk::mount(&small, "2m") else {
        return skipped("a tmpfs cannot be mounted here");
    };
    let mut servers = Servers::describe(2, |directory, i| vec![if i == 1 { small.clone() } else { directory.join("io0") }]);
    for name in ["metadata", "io0", "io1"] {
        servers.serve(name);
    }
    let store = servers.store.clone();
    let tree = here.path().join("tree");
    small_files(&tree, 600, 16 << 10);
    let said = run(["cp", "-r", "--quiet", "--datafiles", "1", "--store", text(&store), text(&tree), "thal:/t"])
        .failed(1, &["io1", "space", "not copied"]);
    let named = said.err.lines().filter(|line| line.contains("io1") && line.contains("tree/")).count();
    let listed = run(["ls", "-l", "--json", "--store", text(&store), "/t"]).done().json();
    let entries = listed["entries"].as_array().unwrap();
    assert_eq!(entries.len() + named, 600, "each is there or named");
    assert!(entries.len() >= 300 && named > 100, "{} and {named}", entries.len());
    assert!(entries.iter().all(|entry| entry["size_bytes"] == 16 << 10 && !entry["name"].as_str().unwrap().ends_with(".partial")));
}

#[test]
fn a_server_that_is_gone_costs_its_files_once_and_the_others_are_copied() {
    let mut servers = Servers::start(2);
    let store = servers.store.clone();
    let here = scratch();
    let tree = here.path().join("tree");
    small_files(&tree, 2000, 64);
    run(["cp", "-r", "--quiet", "--datafiles", "1", "--store", text(&store), text(&tree), "thal:/whole"]).done();
    // A silent server costs one timeout, not one for each batch.
    servers.process("io1").signal(libc::SIGSTOP);
    let begun = std::time::Instant::now();
    let out = here.path().join("out");
    let silent = ["cp", "-r", "--quiet", "--timeout", "2s", "--store", text(&store), "thal:/whole", text(&out)];
    run(silent).failed(1, &["io1", "not copied"]);
    // Eight batches, and the walk's own requests; with a margin for a busy machine.
    assert!(begun.elapsed().as_secs() < 14, "{:?}", begun.elapsed());
    let there = std::fs::read_dir(&out).unwrap().count();
    assert!((500..1500).contains(&there), "{there}");
    servers.process("io1").signal(libc::SIGCONT);
    servers.kill("io1");
    run(["cp", "-r", "--quiet", "--datafiles", "1", "--store", text(&store), text(&tree), "thal:/half"]).failed(1, &["io1", "not copied"]);
    let half = run(["ls", "--store", text(&store), "/half"]).done().out.lines().count();
    assert!((500..1500).contains(&half), "{half}");
}

#[test]
fn a_tree_that_is_stopped_at_any_moment_has_no_short_file() {
    let store = Up::start(2);
    let here = scratch();
    let tree = here.path().join("tree");
    small_files(&tree, 3000, 2000);
    file(&tree, "large", &content(1, 8 << 20));
    let begun = std::time::Instant::now();
    run(["cp", "-r", "--quiet", text(&tree), &store.path("/whole")]).done();
    let whole = begun.elapsed();
    let mut listed = 0;
    for (round, signal) in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL, libc::SIGINT, libc::SIGKILL].into_iter().enumerate() {
        let target = store.path(&format!("/{round}"));
        let mut command = thalweg(["cp", "-r", "--quiet", text(&tree), &target]);
        command.stderr(Stdio::null());
        let mut copy = Running::start(command);
        // The time itself is the subject of the test.
        std::thread::sleep(whole.mul_f64(0.9) * round as u32 / 5);
        copy.signal(signal);
        let code = copy.wait();
        assert!(matches!(code, Some(0 | 130) | None), "{code:?}");
        // A copy stopped very early has not created its directory.
        if !run(["ls", &store.path("/")]).done().out.lines().any(|name| name == round.to_string()) {
            continue;
        }
        listed += 1;
        for entry in run(["ls", "-l", "--json", &target]).done().json()["entries"].as_array().unwrap() {
            let name = entry["name"].as_str().unwrap();
            let expected = if name == "large" { 8 << 20 } else { 2000 };
            match name.strip_suffix(".partial") {
                Some(_) => assert_eq!(signal, libc::SIGKILL, "a clean end leaves nothing behind: {name}"),
                None => assert_eq!(entry["size_bytes"], expected, "{name} is taken for whole, and is not"),
            }
        }
    }
    assert!(listed >= 3, "only {listed} of five copies had made their directory");
    // Leftovers of a kill do not prevent the next copy.
    run(["cp", "-r", "--quiet", "--force", text(&tree), &store.path("/2")]).done();
    let left = || run(["ls", &store.path("/2")]).done().out.lines().filter(|line| line.ends_with(".partial")).count();
    wait_until("no draft is left", || left() == 0);
    assert_eq!(run(["ls", &store.path("/2")]).done().out.lines().count(), 3001);
}

#[test]
fn a_tree_is_recorded_at_both_ends_and_explained() {
    let store = Up::start(2);
    let here = scratch();
    let tree = here.path().join("tree");
    small_files(&tree, 500, 4096);
    let recording = here.path().join("in.thw");
    run(["cp", "-r", "--quiet", "--record", text(&recording), text(&tree), &store.path("/t")]).done();
    let explained = run(["explain", "--json", text(&recording)]).done().json();
    let share: f64 = explained["critical_path"].as_array().unwrap().iter().filter_map(|part| part["share"].as_f64()).sum();
    assert!((share - 1.0).abs() < 0.001, "{explained}");
    // Both ends: spans of the client's threads and of each server's, with time of the copy.
    let tracks = explained["tracks"].as_array().unwrap();
    let has = |role: &str, name: &str| {
        tracks.iter().any(|t| t["role"] == role && t["name"].as_str().is_some_and(|n| n.starts_with(name)) && t["spans"].as_u64() > Some(0))
    };
    for (role, name) in
        [("client", "worker "), ("server", "metadata connection "), ("server", "io0 connection "), ("server", "io1 connection ")]
    {
        assert!(has(role, name), "{role} {name}: {tracks:#?}");
    }
    let at = |end: &str| explained["critical_path"].as_array().unwrap().iter().any(|c| c["cause"].as_str().unwrap().starts_with(end));
    assert!(at("client.") && at("server."), "{}", explained["critical_path"]);
    assert_eq!(explained["dropped_events"], 0);
    let out = here.path().join("out");
    let said = run(["cp", "-r", "--json", "--explain", &store.path("/t"), text(&out)]).done().json();
    assert_eq!(said["schema"], "thalweg.explain/1");
    assert_eq!(all_of(&out).len(), 500);
}

#[test]
fn a_copied_tree_has_no_devices_and_no_set_id_bits_unless_they_are_asked_for_and_what_was_left_out_is_counted() {
    if !is_root() {
        return skipped("device nodes are made by root only");
    }
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let (store, here) = (Up::start(2), scratch());
    let tree = here.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for (name, mode) in [("su", 0o4755), ("sg", 0o2755)] {
        std::fs::set_permissions(file(&tree, name, b"#!/bin/sh"), PermissionsExt::from_mode(mode)).unwrap();
    }
    mknodat(CWD, tree.join("disk"), FileType::BlockDevice, Mode::from_raw_mode(0o600), makedev(8, 0)).unwrap();
    run(["cp", "--quiet", "-rp", "--privileges", text(&tree), &store.path("/tree")]).done();
    let out = here.path().join("out");
    let said = run(["cp", "--quiet", "-rp", &store.path("/tree"), text(&out)]).done();
    assert!(said.err.contains("left out 1 device node and 2 files' set-user or set-group bits (--privileges"), "{}", said.err);
    assert!(!out.join("disk").exists());
    for name in ["su", "sg"] {
        assert_eq!(std::fs::metadata(out.join(name)).unwrap().mode() & 0o7777, 0o755, "{name}");
    }
    let said = run(["cp", "--json", "-r", &store.path("/tree"), text(&here.path().join("plain"))]).done();
    assert_eq!((said.json()["devices_left_out"].as_u64(), said.json()["others"].as_u64()), (Some(1), Some(0)));
    let all = here.path().join("all");
    let said = run(["cp", "--quiet", "-rp", "--privileges", &store.path("/tree"), text(&all)]).done();
    assert!(!said.err.contains("left out"), "{}", said.err);
    assert_eq!(std::fs::metadata(all.join("su")).unwrap().mode() & 0o7777, 0o4755);
    assert_eq!(std::fs::metadata(all.join("disk")).unwrap().rdev(), makedev(8, 0));
}
