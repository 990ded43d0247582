//! Directories through a mount, read by ordinary programs, while they change, and of any size.

mod stand;

use rustix::fs::{XattrFlags, setxattr};
use stand::bounded::Bounded;
use stand::{Mounted, Stand, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_client::metadata::MetadataClient;
use thalweg_client::wire::Connect;
use thalweg_client::wire::protocol::metadata::{Existing, FilePath, LayoutChoice, Owner, Small};
use thalweg_trace::Tracer;

/// Longer than any test: cached answers never expire.
const LONG: Duration = Duration::from_secs(3600);

/// Makes empty files that no mount knows of; `directory` is relative to the store's root.
fn make_files(stand: &Stand, directory: &str, names: impl Iterator<Item = String>) {
    let names: Vec<String> = names.collect();
    let connect = Connect { timeout: Duration::from_secs(30), node: "here".into(), ..Connect::default() };
    let client = MetadataClient::connect(&mut Tracer::off(), &stand.address, &connect).unwrap();
    let owner = Owner { mode: 0o644, uid: 0, gid: 0 };
    let _ = client.make_directory(&mut Tracer::off(), &FilePath::at(directory), Owner { mode: 0o755, ..owner }, true);
    let new = |name: &String| {
        let place = FilePath::at(format!("{directory}/{name}"));
        Small::MakeFile(client.new_file(place, owner, Existing::Refuse, &LayoutChoice::default()))
    };
    let operations: Vec<Small> = names.iter().map(new).collect();
    client.many(&mut Tracer::off(), &operations, Vec::new()).into_iter().for_each(|made| drop(made.unwrap()));
}

fn run(program: &str, arguments: &[&OsStr]) -> String {
    let done = Command::new(program).args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).output_in_time().unwrap();
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Returns the kernel's requests for a single file's attributes.
fn single(m: &Mounted) -> u64 {
    m.counter("/asked/lookup") + m.counter("/asked/getattr")
}

fn server_address(m: &Mounted, name: &str) -> String {
    let mut value = vec![0; 64 << 10];
    let length = rustix::fs::getxattr(m.path(), "user.thalweg.store", &mut value).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&value[..length]).unwrap();
    let server = document["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap();
    server["address"].as_str().unwrap().to_owned()
}

fn with_lifetime(stand: &Stand, name: &str, lifetime: Duration) -> Mounted {
    stand.mount_with(name, |options| options.lifetime = lifetime)
}

/// A directory stream of the C library.
struct Stream(*mut libc::DIR);

impl Stream {
    fn open(path: &Path) -> Stream {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is a zero-terminated string that lives until the call returns.
        let stream = unsafe { libc::opendir(path.as_ptr()) };
        assert!(!stream.is_null());
        Stream(stream)
    }

    fn next(&mut self) -> Option<String> {
        // SAFETY: the stream is open; the entry is copied before the next call.
        let name = unsafe {
            let entry = libc::readdir(self.0);
            if entry.is_null() {
                return None;
            }
            CStr::from_ptr((*entry).d_name.as_ptr()).to_str().unwrap().to_owned()
        };
        Some(name)
    }

    fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next()).filter(|name| name != "." && name != "..").collect()
    }

    fn place(&self) -> libc::c_long {
        // SAFETY: the stream is open.
        unsafe { libc::telldir(self.0) }
    }

    fn seek(&mut self, place: libc::c_long) {
        // SAFETY: the stream is open, and the offset is one it returned.
        unsafe { libc::seekdir(self.0, place) }
    }

    fn rewind(&mut self) {
        // SAFETY: the stream is open.
        unsafe { libc::rewinddir(self.0) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is open and not used afterwards.
        unsafe { libc::closedir(self.0) };
    }
}

#[test]
fn a_long_listing_takes_no_request_for_a_single_file() {
    needs_mounts!();
    let stand = Stand::new(2);
    make_files(&stand, "/d", (0..6000).map(|i| format!("f{i:05}")));
    let m = with_lifetime(&stand, "m", LONG);
    fs::write(m.at("d/f00007"), "seven").unwrap();
    drop(with_lifetime(&stand, "other", LONG));
    let again = with_lifetime(&stand, "again", LONG);
    let before = single(&again);
    let listed = run("ls", &["-lU".as_ref(), again.at("d").as_ref()]);
    assert_eq!(listed.lines().count(), 6001);
    assert!(listed.lines().any(|line| line.contains(" 5 ") && line.ends_with(" f00007")), "with sizes");
    assert!(single(&again) - before <= 8, "{} questions for 6000 files", single(&again) - before);
    let extended = again.counter("/asked/getxattr");
    assert!(extended <= 8, "{extended} questions for labels: one is enough where there are none");
    // A second program within the lifetime causes no requests either.
    run("du", &["-a".as_ref(), again.at("d").as_ref()]);
    assert!(single(&again) - before <= 16);
}

#[test]
fn a_file_that_is_opened_and_read_is_not_asked_for_again_and_one_that_is_written_is() {
    needs_mounts!();
    let stand = Stand::new(2);
    let other = stand.mount("other");
    fs::create_dir(other.at("d")).unwrap();
    for i in 0..20 {
        fs::write(other.at(&format!("d/f{i:02}")), format!("content {i:02}")).unwrap();
    }
    let m = with_lifetime(&stand, "m", LONG);
    let mut open = Vec::new();
    for entry in fs::read_dir(m.at("d")).unwrap() {
        let mut text = String::new();
        let mut file = File::options().read(true).write(true).open(entry.unwrap().path()).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text.len(), 10);
        open.push(file);
    }
    // After a read the kernel no longer trusts its attributes: it asks, and no server needs to.
    ["io0", "io1"].iter().for_each(|name| stand.stop_server(name));
    for file in &open {
        assert_eq!(file.metadata().unwrap().len(), 10);
    }
    stand.stop();
    stand.start();
    wait_until("the first to be writable", || open[0].write_all_at(b"longer than before", 0).is_ok() && open[0].sync_all().is_ok());
    assert_eq!(open[0].metadata().unwrap().len(), 18);
    let path = m.at("d/f00");
    drop(open.remove(0));
    assert_eq!(fs::metadata(path).unwrap().len(), 18);
    for round in 1..50_usize {
        let path = m.at("d/f01");
        fs::write(&path, vec![b'x'; round * 7]).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), round as u64 * 7, "closed by its program, and released when the kernel likes");
        assert_eq!(File::open(&path).unwrap().metadata().unwrap().len(), round as u64 * 7);
    }
}

#[test]
fn names_looked_up_in_the_directorys_order_are_asked_for_together() {
    needs_mounts!();
    const FILES: u64 = 6000;
    let stand = Stand::new(2);
    make_files(&stand, "/d", (0..FILES).map(|i| format!("f{i:05}")));
    let m = with_lifetime(&stand, "m", LONG);
    // Names only, and then one file after the other, as in programs that sort.
    let names = Stream::open(&m.at("d")).rest();
    assert_eq!(names.len() as u64, FILES);
    let looked = m.counter("/asked/lookup");
    for name in &names {
        assert_eq!(fs::symlink_metadata(m.at(&format!("d/{name}"))).unwrap().len(), 0);
    }
    let looked = m.counter("/asked/lookup") - looked;
    let ahead = m.counter("/lookups_ahead");
    assert!(looked > FILES / 2, "most names were listed without attributes: {looked}");
    assert!(looked - ahead <= 10, "{looked} lookups, {ahead} of them were asked for ahead");
    // A removed file is gone and a new one is found, wherever the walk is.
    fs::remove_file(m.at("d/f00003")).unwrap();
    assert!(fs::symlink_metadata(m.at("d/f00003")).is_err());
    fs::write(m.at("d/f00003"), "new").unwrap();
    assert_eq!(fs::symlink_metadata(m.at("d/f00003")).unwrap().len(), 3);
}

#[test]
fn a_directory_is_removed_name_by_name_and_its_names_are_looked_up_together() {
    needs_mounts!();
    const FILES: u64 = 4000;
    let stand = Stand::new(2);
    make_files(&stand, "/d", (0..FILES).map(|i| format!("f{i:05}")));
    let m = with_lifetime(&stand, "m", Duration::from_secs(4));
    run("rm", &["-r".as_ref(), m.at("d").as_ref()]);
    assert!(!m.at("d").exists());
    let looked = m.counter("/asked/lookup");
    let ahead = m.counter("/lookups_ahead");
    assert!(looked - ahead <= FILES / 20, "{looked} lookups, {ahead} of them were asked for ahead");
}

#[test]
fn names_looked_up_out_of_order_cost_no_more_than_themselves() {
    needs_mounts!();
    let stand = Stand::new(1);
    make_files(&stand, "/d", (0..3000).map(|i| format!("f{i:05}")));
    let m = with_lifetime(&stand, "m", Duration::from_millis(1));
    let names = Stream::open(&m.at("d")).rest();
    let walked = || m.counter("/walks/singly/entries");
    let before = walked();
    for i in 0..2000_usize {
        let name = &names[(i * 1_009) % names.len()];
        assert!(fs::symlink_metadata(m.at(&format!("d/{name}"))).is_ok());
    }
    assert!(walked() - before <= 6000, "{} entries were walked for 2000 names", walked() - before);
}

#[test]
fn a_change_here_is_seen_though_the_walk_was_ahead_of_it() {
    needs_mounts!();
    let stand = Stand::new(2);
    make_files(&stand, "/d", (0..5000).map(|i| format!("f{i:05}")));
    let m = with_lifetime(&stand, "m", LONG);
    let mut stream = Stream::open(&m.at("d"));
    let first: Vec<String> = (0..10).map(|_| stream.next().unwrap()).collect();
    assert_eq!(&first[..3], [".", "..", "f00000"]);
    // The following entries are in flight or fetched. Beyond the page the kernel has, change files in every way:
    let at = |i: usize| m.at(&format!("d/f{i:05}"));
    for i in (1600..5000).step_by(100) {
        fs::set_permissions(at(i), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(at(i + 1), "written").unwrap();
        File::options().write(true).open(at(i + 2)).unwrap().set_len(100_000).unwrap();
        fs::remove_file(at(i + 3)).unwrap();
        fs::rename(at(i + 4), at(i + 5)).unwrap();
        fs::hard_link(at(i + 6), m.at(&format!("d/f{i:05}b"))).unwrap();
        fs::remove_file(at(i + 7)).unwrap();
        fs::write(at(i + 7), "made anew").unwrap();
        std::os::unix::fs::chown(at(i + 8), Some(7), Some(8)).unwrap();
    }
    let mut open = Vec::new();
    for i in (1600..5000).step_by(500) {
        let mut file = File::options().write(true).open(at(i + 9)).unwrap();
        file.write_all(b"on its way").unwrap();
        open.push(file);
    }
    for name in stream.rest() {
        let number: usize = name[1..6].parse().unwrap();
        if number < 1600 || name.len() > 6 {
            continue;
        }
        let found = fs::symlink_metadata(m.at(&format!("d/{name}")));
        match number % 100 {
            0 => assert_eq!(found.unwrap().mode() & 0o777, 0o600, "{name}"),
            1 => assert_eq!(found.unwrap().len(), 7, "{name}"),
            2 => assert_eq!(found.unwrap().len(), 100_000, "{name}"),
            3 | 4 => assert!(found.is_err(), "{name} is gone"),
            5 => assert_eq!(found.unwrap().nlink(), 1, "{name}"),
            6 => assert_eq!(found.unwrap().nlink(), 2, "{name}"),
            7 => assert_eq!(found.unwrap().len(), 9, "{name}"),
            8 => assert_eq!(found.unwrap().uid(), 7, "{name}"),
            9 if (number - 1609).is_multiple_of(500) => assert_eq!(found.unwrap().len(), 10, "{name}"),
            _ => assert_eq!(found.unwrap().len(), 0, "{name}"),
        }
    }
}

#[test]
fn names_that_stay_are_seen_once_while_another_mount_makes_and_removes_others() {
    needs_mounts!();
    let stand = Stand::new(2);
    make_files(&stand, "/d", (0..4000).map(|i| format!("stays {i:05}")));
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (b, done) = (&b, &done);
            scope.spawn(move || {
                let mut round = 0_u32;
                while !done.load(Ordering::Relaxed) {
                    // Before, among and after the names that stay.
                    for prefix in ["a", "stays 01", "stays 03999b", "z"] {
                        let name = b.at(&format!("d/{prefix}.{worker}.{}", round % 50));
                        match round / 50 % 2 {
                            0 => fs::write(&name, "x").unwrap(),
                            _ => fs::remove_file(&name).unwrap(),
                        }
                    }
                    round += 1;
                }
            });
        }
        let _end = EndAtDrop(&done);
        for round in 0..20 {
            let names = Stream::open(&a.at("d")).rest();
            let mut seen = BTreeMap::new();
            names.iter().for_each(|name| *seen.entry(name.as_str()).or_insert(0) += 1);
            assert!(seen.values().all(|times| *times == 1), "seen twice: {:?}", seen.iter().filter(|(_, n)| **n > 1).collect::<Vec<_>>());
            let stayed = seen.keys().filter(|name| name.len() == 11 && name.starts_with("stays ")).count();
            assert_eq!(stayed, 4000);
            if round % 5 == 0 {
                let listed = run("ls", &["-f".as_ref(), a.at("d").as_ref()]);
                assert_eq!(listed.lines().filter(|name| name.len() == 11 && name.starts_with("stays ")).count(), 4000);
            }
        }
    });
}

/// Ends the workers even if the test fails.
struct EndAtDrop<'a>(&'a AtomicBool);

impl Drop for EndAtDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_reader_that_seeks_back_goes_on_from_there() {
    needs_mounts!();
    let stand = Stand::new(1);
    make_files(&stand, "/d", (0..10_000).map(|i| format!("f{i:05}")));
    let m = stand.mount("m");
    let mut stream = Stream::open(&m.at("d"));
    let mut places = Vec::new();
    let mut names = Vec::new();
    loop {
        places.push(stream.place());
        match stream.next() {
            Some(name) => names.push(name),
            None => break,
        }
    }
    assert_eq!(names.len(), 10_002);
    for at in [9_999, 9_990, 5_000, 10_001, 4_097, 63, 2, 1, 0, 7_777, 7_778] {
        stream.seek(places[at]);
        assert_eq!(stream.next().as_ref(), Some(&names[at]));
        assert_eq!(stream.next().as_ref(), names.get(at + 1));
    }
    stream.seek(places[10_002]);
    assert_eq!(stream.next(), None, "at the end");
    stream.seek(places[3]);
    assert_eq!(stream.rest(), names[3..]);
    // An offset stays valid when names before it are removed, if it is not far back.
    stream.seek(places[9_000]);
    for name in &names[6_000..9_000] {
        fs::remove_file(m.at(&format!("d/{name}"))).unwrap();
    }
    stream.seek(places[9_000]);
    assert_eq!(stream.rest(), names[9_000..]);
    stream.rewind();
    fs::write(m.at("d/a new one"), "").unwrap();
    let all: BTreeSet<String> = stream.rest().into_iter().collect();
    assert_eq!(all.len(), 10_000 - 3_000 + 1);
    assert!(all.contains("a new one"), "who begins anew sees what is new");
}

#[test]
fn names_of_all_bytes_and_lengths_are_listed_as_they_are() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    fs::create_dir(m.at("d")).unwrap();
    let mut expected = BTreeSet::new();
    for byte in (1..=255_u8).filter(|byte| *byte != b'/') {
        for name in [vec![b'n', byte], vec![byte; 255]] {
            if name != [b'.'; 255] || byte != b'.' {
                fs::write(m.path().join("d").join(OsStr::from_bytes(&name)), [byte]).unwrap();
                expected.insert(name);
            }
        }
    }
    let other = stand.mount("other");
    let listed = fs::read_dir(other.at("d")).unwrap().map(|entry| {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().len(), 1);
        entry.file_name().as_bytes().to_vec()
    });
    assert_eq!(listed.collect::<BTreeSet<_>>(), expected);
}

/// Returns this process's resident anonymous memory, in bytes.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_directory_of_a_hundred_thousand_files_is_listed_in_bounded_memory() {
    needs_mounts!();
    const FILES: usize = 100_000;
    let stand = Stand::new(2);
    make_files(&stand, "/d", (0..FILES).map(|i| format!("a name of usual length {i:06}")));
    let inode_limit = 10_000;
    let m = stand.mount_with("m", |options| options.inode_limit = inode_limit);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let version: Vec<u32> = kernel.split(|c: char| !c.is_ascii_digit()).take(2).filter_map(|n| n.parse().ok()).collect();
    let prunes = version >= vec![6, 18];
    // Warm up allocations that do not depend on the size of the listing.
    assert_eq!(Stream::open(&m.at("d")).rest().len(), FILES);
    let before = resident_bytes();
    let listed = run("ls", &["-lU".as_ref(), m.at("d").as_ref()]);
    assert_eq!(listed.lines().count(), FILES + 1);
    let grown = resident_bytes().saturating_sub(before + listed.len() as u64 * 2);
    if !prunes {
        println!("SKIPPED: this kernel cannot be asked to forget (needs 6.18)");
        return;
    }
    wait_until("the kernel to forget what is too much", || m.counter("/known") as usize <= inode_limit + inode_limit / 4);
    assert!(grown < 64 << 20, "{} MiB more than before", grown >> 20);
    // A forgotten file is found again.
    assert_eq!(fs::metadata(m.at("d/a name of usual length 000001")).unwrap().len(), 0);
}

#[test]
fn what_is_open_outlives_the_shrinker() {
    needs_mounts!();
    let stand = Stand::new(1);
    make_files(&stand, "/d", (0..5_000).map(|i| format!("f{i:05}")));
    let m = stand.mount_with("m", |options| options.inode_limit = 100);
    fs::write(m.at("d/f00001"), "is read later").unwrap();
    let (open, directory) = (File::open(m.at("d/f00001")).unwrap(), File::open(m.at("d")).unwrap());
    for _ in 0..3 {
        assert_eq!(run("ls", &["-lU".as_ref(), m.at("d").as_ref()]).lines().count(), 5_001);
    }
    let mut found = [0; 13];
    open.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"is read later");
    assert!(directory.metadata().unwrap().is_dir());
    assert_eq!(fs::read_dir(m.at("d")).unwrap().count(), 5_000);
}

/// Makes `files` files on target 1 and as many on target 0, in `d`.
fn on_two_targets(m: &Mounted, files: usize) {
    fs::create_dir(m.at("d")).unwrap();
    for target in [0, 1] {
        let layout = format!("basic_dist place=targets:{target}");
        setxattr(m.at("d"), "user.thalweg.layout", layout.as_bytes(), XattrFlags::empty()).unwrap();
        for i in 0..files {
            fs::write(m.at(&format!("d/f{i:04} on {target}")), "four").unwrap();
        }
    }
}

#[test]
fn files_of_a_server_that_is_gone_are_listed_and_have_no_size() {
    needs_mounts!();
    let stand = Stand::new(2);
    on_two_targets(&stand.mount("maker"), 40);
    let m = stand.mount("m");
    stand.stop_server("io1");
    let mut seen = 0;
    for entry in fs::read_dir(m.at("d")).unwrap() {
        let entry = entry.unwrap();
        let found = entry.metadata();
        match entry.file_name().to_str().unwrap().ends_with("on 0") {
            true => assert_eq!(found.unwrap().len(), 4),
            false => assert_eq!(found.unwrap_err().raw_os_error(), Some(libc::EIO), "never a wrong size"),
        }
        seen += 1;
    }
    assert_eq!(seen, 80);
    let ls = Command::new("ls").arg("-l").arg(m.at("d")).env("LC_ALL", "C").output_in_time().unwrap();
    assert_eq!(ls.status.code(), Some(1), "known entries are printed, and the others are reported as missing");
    assert_eq!(String::from_utf8(ls.stdout).unwrap().lines().filter(|line| line.ends_with("on 0")).count(), 40);
}

#[test]
fn a_silent_server_costs_a_listing_a_few_timeouts_and_not_one_for_each_file() {
    needs_mounts!();
    const FILES: usize = 40;
    let stand = Stand::new(2);
    on_two_targets(&stand.mount("maker"), FILES);
    let timeout = Duration::from_secs(2);
    let m = stand.mount_with("m", |options| options.timeout = timeout);
    let address = server_address(&m, "io1");
    stand.stop_server("io1");
    // It accepts connections, and never answers.
    let _silent = TcpListener::bind(&address).unwrap();
    let began = Instant::now();
    let names: Vec<String> = fs::read_dir(m.at("d")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.len(), 2 * FILES, "names are listed");
    for name in names {
        let found = fs::metadata(m.at(&format!("d/{name}")));
        match name.ends_with("on 0") {
            true => assert_eq!(found.unwrap().len(), 4),
            false => assert_eq!(found.unwrap_err().raw_os_error(), Some(libc::EIO)),
        }
    }
    assert!(began.elapsed() < timeout * FILES as u32 / 4, "{FILES} files: {:?}", began.elapsed());
}

#[test]
fn a_strict_mounts_listing_gives_sizes_as_they_are() {
    needs_mounts!();
    let stand = Stand::new(2);
    let (a, b) = (stand.mount_strictly("a"), stand.mount_strictly("b"));
    fs::create_dir(a.at("d")).unwrap();
    let files: Vec<File> = (0..20).map(|i| File::create(a.at(&format!("d/f{i:02}"))).unwrap()).collect();
    for round in 1..10_u64 {
        let mut entries = fs::read_dir(b.at("d")).unwrap();
        for (i, file) in files.iter().enumerate() {
            let size = round * 1000 + i as u64;
            file.write_all_at(b"x", size - 1).unwrap();
            assert_eq!(fs::metadata(b.at(&format!("d/f{i:02}"))).unwrap().len(), size);
            assert_eq!(entries.next().unwrap().unwrap().metadata().unwrap().len() % 1000, i as u64);
        }
        assert!(entries.next().is_none());
    }
}
