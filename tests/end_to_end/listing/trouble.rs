//! Listings under failures: directories that change, servers that die or become silent, little memory, names and paths at their limits,
//! link cycles, trees that may be read only in part.

use crate::bounded::{Bounded, BoundedChild, LIMIT, joined, rest};
use crate::common::{CommandOutput, Servers, Up, content, credential_of, file, is_root, run, scratch, skipped, text, thalweg, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs a verb on a store; returns its raw output.
fn raw<S: AsRef<OsStr>>(store: &str, arguments: impl IntoIterator<Item = S>) -> Output {
    thalweg(arguments).env("THALWEG_STORE", store).output_in_time().expect("the command starts")
}

fn say<S: AsRef<OsStr>>(store: &str, arguments: impl IntoIterator<Item = S>) -> CommandOutput {
    raw(store, arguments).into()
}

/// Creates directories, many per command.
fn make(store: &str, names: impl Iterator<Item = String>) {
    let names: Vec<String> = names.collect();
    for some in names.chunks(2000) {
        say(store, ["mkdir"].into_iter().chain(some.iter().map(String::as_str))).done();
    }
}

/// A listing whose reader stops after its first line: the pipe fills, and the listing waits in the middle.
struct Held {
    child: Child,
    out: BufReader<ChildStdout>,
    first: String,
}

impl Held {
    fn start(store: &str, arguments: &[&str]) -> Held {
        let mut command = thalweg(arguments);
        command.env("THALWEG_STORE", store).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let mut out = BufReader::with_capacity(256, child.stdout.take().expect("it is piped"));
        let mut first = String::new();
        out.read_line(&mut first).expect("a line");
        assert!(child.try_wait().expect("a child can be asked").is_none(), "it waits in the middle: {first}");
        Held { child, out, first }
    }

    /// Reads all of its output.
    fn rest(mut self) -> CommandOutput {
        let mut said = CommandOutput { code: None, out: self.first, err: String::new() };
        let err = self.child.stderr.take().expect("it is piped");
        let err = std::thread::spawn(move || rest(err));
        said.out += &rest(self.out);
        said.err = joined(err);
        said.code = self.child.wait_in_time(LIMIT).expect("a child can be waited for").code();
        said
    }
}

#[test]
fn a_directory_that_changes_under_the_listing_has_every_entry_at_most_once_and_those_that_stay_exactly_once() {
    let store = Up::start(2);
    let pad = "-".repeat(180);
    for (round, flags) in
        [&["ls", "-U"][..], &["ls", "-lU", "--window", "16"], &["ls", "-1", "--window", "300"], &["find"], &["ls", "-UR", "--mode", "none"]]
            .iter()
            .enumerate()
    {
        let directory = format!("/d{round}");
        let name = |i: u32, what: &str| format!("{directory}/{i:05}-{what}{pad}");
        say(&store.address, ["mkdir", &directory]).done();
        make(&store.address, (0..3000).map(|i| name(i, if i % 3 == 0 { "gone" } else { "stay" })));
        let held = Held::start(&store.address, &[*flags, &[&directory]].concat());
        say(&store.address, ["find", &directory, "-name", "*-gone*", "-delete"]).done();
        make(&store.address, (0..3000).step_by(4).map(|i| name(i, "new")));
        // A renamed file may be seen under either name, or both.
        say(&store.address, ["mv", &name(2999, "stay"), &name(2999, "moved")]).done();
        let said = held.rest().done();
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        let listed = said.out.lines().filter_map(|line| line.rsplit([' ', '/']).next()).filter(|name| name.ends_with(&pad));
        for name in listed {
            *seen.entry(name.trim_end_matches('-')).or_default() += 1;
        }
        assert!(seen.values().all(|count| *count == 1), "{flags:?}: seen twice: {:?}", seen.iter().find(|(_, n)| **n > 1));
        for i in (0..2999).filter(|i| i % 3 != 0) {
            assert!(seen.contains_key(format!("{i:05}-stay").as_str()), "{flags:?}: {i} was not seen");
        }
    }
}

/// Starts a store with two servers in separate processes and a directory of striped files, whose listing exceeds a pipe.
fn striped_files(files: usize) -> Servers {
    let servers = Servers::start(2);
    let here = scratch();
    let root = here.path().join("d");
    std::fs::create_dir(&root).unwrap();
    (0..files).for_each(|i| drop(file(&root, &format!("{i:0220}"), &content(i as u64, 300))));
    run(["cp", "-r", "--quiet", "--datafiles", "2", "--store", text(&servers.store), text(&root), "thal:/d"]).done();
    servers
}

/// Returns the sizes that a listing shows, in order.
fn sizes(said: &CommandOutput) -> Vec<&str> {
    said.out.lines().filter_map(|line| line.split_ascii_whitespace().nth(3)).collect()
}

#[test]
fn a_server_killed_half_way_leaves_what_is_known_and_marks_the_rest() {
    const FILES: usize = 1200;
    let mut servers = striped_files(FILES);
    let store = text(&servers.store).to_owned();
    let held = Held::start(&store, &["ls", "-lU", "--mode", "glimpse-ahead", "--window", "16", "--timeout", "5", "/d"]);
    servers.kill("io1");
    let begun = Instant::now();
    let said = held.rest().failed(1, &["io1", "not known"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let sizes = sizes(&said);
    assert_eq!(sizes.len(), FILES, "every name is there");
    let known = sizes.iter().filter(|size| **size == "300").count();
    assert!(known > 0 && sizes.iter().all(|size| *size == "300" || *size == "?"), "{known} known: {:?}", &sizes[..5]);
    assert_eq!(sizes.last(), Some(&"?"));
    // One line per server, not per file.
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    // From the start, and in every form.
    for flags in [&["ls", "-l"][..], &["ls", "-lRS"], &["ls", "-l", "--mode", "none"], &["find", "-size", "+1c"]] {
        let said = say(&store, [flags, &["--timeout", "2", "/d"]].concat()).failed(1, &["io1"]);
        assert!(flags[0] == "find" || said.out.lines().filter(|line| line.contains(" ? ")).count() == FILES, "{flags:?}: {}", said.out);
    }
    let document = say(&store, ["ls", "-l", "--json", "--timeout", "2", "/d"]);
    assert!(document.json()["entries"].as_array().is_some_and(|e| e.len() == FILES && e.iter().all(|e| e["size_bytes"].is_null())));
    assert!(document.json()["errors"][0].as_str().is_some_and(|error| error.contains("io1")), "{}", document.err);
    let sum = say(&store, ["du", "-s", "--timeout", "2", "/d"]).failed(1, &["io1"]);
    assert!(sum.out.contains("?\t/d"), "{}", sum.out);
    // Names need no I/O server.
    assert_eq!(say(&store, ["ls", "/d"]).done().out.lines().count(), FILES);
    servers.serve("io1");
    assert!(!say(&store, ["ls", "-l", "/d"]).done().out.contains(" ? "));
}

#[test]
fn a_server_that_falls_silent_costs_one_timeout_and_not_one_for_each_question() {
    const FILES: usize = 1200;
    let mut servers = striped_files(FILES);
    let store = text(&servers.store).to_owned();
    let held = Held::start(&store, &["ls", "-lU", "--mode", "glimpse-ahead", "--window", "16", "--timeout", "2", "/d"]);
    servers.process("io0").signal(libc::SIGSTOP);
    let begun = Instant::now();
    let said = held.rest().failed(1, &["io0", "not known"]);
    let took = begun.elapsed();
    // One timeout; twenty would be forty seconds.
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert_eq!(sizes(&said).len(), FILES);
    let begun = Instant::now();
    let said = say(&store, ["ls", "-lR", "--timeout", "2", "/"]).failed(1, &["io0"]);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(said.out.lines().filter(|line| line.contains(" ? ")).count(), FILES);
    servers.process("io0").signal(libc::SIGCONT);
    assert!(!say(&store, ["ls", "-l", "/d"]).done().out.contains(" ? "));
}

#[test]
fn a_metadata_service_that_goes_away_half_way_leaves_what_came_and_is_named() {
    let mut servers = Servers::start(1);
    let store = text(&servers.store).to_owned();
    make(&store, (0..6000).map(|i| format!("/{i:0220}")));
    for flags in [&["ls", "-U"][..], &["ls", "-lUR"], &["ls", "--json"], &["find"], &["du"]] {
        let held = Held::start(&store, &[flags, &["--window", "64", "--timeout", "2", "/"]].concat());
        servers.kill("metadata");
        let said = held.rest().failed(1, &["metadata"]);
        let lines = said.out.lines().count();
        assert!(lines > 1 && lines < 6000, "{flags:?}: {lines} lines");
        if flags.contains(&"--json") {
            assert!(said.json()["errors"].as_array().is_some_and(|errors| !errors.is_empty()));
        }
        servers.serve("metadata");
    }
    say(&store, ["ls", "/"]).done();
}

/// Returns the command with this limit on its writable private memory, including thread stacks. (A limit on address space would count the
/// allocator's unused reservations for each thread.)
fn limited(store: &str, mebibytes: u64, arguments: &[&str]) -> Command {
    let mut command = thalweg(arguments);
    command.env("THALWEG_STORE", store);
    let bytes = mebibytes << 20;
    // SAFETY: setrlimit is async-signal-safe and its argument is on this stack.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
            if libc::setrlimit(libc::RLIMIT_DATA, &limit) == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    command
}

#[test]
fn a_large_directory_is_listed_summed_and_removed_in_little_memory() {
    // A million in 256 MiB with THALWEG_TEST_ENTRIES=1000000.
    let entries: usize = std::env::var("THALWEG_TEST_ENTRIES").ok().and_then(|n| n.parse().ok()).unwrap_or(30_000);
    let mebibytes = if entries < 1_000_000 { 48 } else { 256 };
    let mut store = Up::start(2);
    let here = scratch();
    let root = here.path().join("many");
    std::fs::create_dir(&root).unwrap();
    for i in 0..entries {
        std::fs::File::create(root.join(format!("file-with-a-name-of-some-length-{i:07}"))).unwrap();
    }
    run(["cp", "-r", "--quiet", "--datafiles", "2", text(&root), &store.path("/many")]).done();
    for flags in [
        &["ls", "-lU", "/many"][..],
        &["ls", "-l", "/many"],
        &["ls", "-lSr", "/many"],
        &["ls", "-lR", "--json", "/"],
        &["find", "/many", "-ls"],
    ] {
        let said = limited(&store.address, mebibytes, flags).output_in_time().unwrap();
        assert!(said.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&said.stderr));
        let seen = String::from_utf8_lossy(&said.stdout).lines().filter(|line| line.contains("file-with-a-name")).count();
        assert_eq!(seen, entries, "{flags:?}");
    }
    let sum: CommandOutput = limited(&store.address, mebibytes, &["du", "--json", "/many"]).output_in_time().unwrap().into();
    assert_eq!(sum.done().json()["entries"][0]["files"], entries);
    let removed: CommandOutput = limited(&store.address, mebibytes, &["rm", "-r", "/many"]).output_in_time().unwrap().into();
    removed.done();
    assert_eq!(say(&store.address, ["ls", "/"]).done().out, "");
    // An orderly stop would make all those names durable first, which is irrelevant here.
    store.process.kill();
}

/// Returns names with every possible byte, one each, and names of the maximum length.
fn odd_names() -> Vec<Vec<u8>> {
    let bytes = (1..=255u8).filter(|byte| *byte != b'/').map(|byte| vec![b'<', byte, b'>']);
    let long = [vec![b'x'; 255], vec![0xff; 255], "ä".repeat(127).into_bytes(), vec![b'\n'; 255]];
    bytes.chain(long).collect()
}

#[test]
fn names_may_have_every_byte_and_255_of_them() {
    let store = Up::start(2);
    let names = odd_names();
    let path = |name: &[u8]| OsString::from_vec([b"/odd/", name].concat());
    say(&store.address, ["mkdir", "/odd"]).done();
    let made: Vec<OsString> = std::iter::once("mkdir".into()).chain(names.iter().map(|name| path(name))).collect();
    say(&store.address, &made).done();
    // Unchanged, for the next program.
    let found = raw(&store.address, ["find", "/odd", "-mindepth", "1", "-print0"]);
    assert!(found.status.success());
    let found: BTreeSet<&[u8]> = found.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()).collect();
    let expected: BTreeSet<Vec<u8>> = names.iter().map(|name| path(name).into_vec()).collect();
    assert_eq!(found, expected.iter().map(Vec::as_slice).collect());
    let listed = raw(&store.address, ["ls", "-U", "/odd"]).stdout;
    let mut sorted = names.clone();
    sorted.sort();
    assert!(listed == sorted.iter().flat_map(|name| [name.as_slice(), b"\n"].concat()).collect::<Vec<u8>>());
    // For people: one line each, all different, without control characters.
    let shown = say(&store.address, ["ls", "-b", "/odd"]).done().out;
    assert_eq!(shown.lines().collect::<BTreeSet<_>>().len(), names.len());
    assert!(!shown.chars().any(|c| c != '\n' && c.is_control()), "{shown}");
    // In documents: the names, and the bytes of those that a document cannot hold.
    let document = say(&store.address, ["ls", "-l", "--json", "/odd"]).done().json();
    let read: BTreeSet<Vec<u8>> = document["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| match entry["name_hexadecimal"].as_str() {
            Some(digits) => {
                digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
            }
            None => entry["name"].as_str().unwrap().as_bytes().to_vec(),
        })
        .collect();
    assert_eq!(read, names.iter().cloned().collect());
    // Individually: listed, found by pattern, renamed, removed.
    for name in names.iter().step_by(5) {
        say(&store.address, [OsString::from("stat"), path(name)]).done();
    }
    assert_eq!(raw(&store.address, ["find", "/odd", "-name", "<\\*>"]).stdout, b"/odd/<*>\n");
    say(&store.address, [OsString::from("mv"), path(b"<\xfe>"), path(b"\xfe\xfe")]).done();
    say(&store.address, [OsString::from("rm"), "-r".into(), path(b"\xfe\xfe"), path(b"<\n>")]).done();
    assert_eq!(say(&store.address, ["ls", "-b", "/odd"]).done().out.lines().count(), names.len() - 2);
    let too_long = path(&[b'y'; 256]);
    say(&store.address, [OsString::from("mkdir"), too_long]).failed(2, &["255"]);
    say(&store.address, ["rm", "-r", "/odd"]).done();
    assert_eq!(say(&store.address, ["ls", "-a", "/"]).done().out, "");
}

#[test]
fn paths_of_four_kibibytes_and_deeper_trees_are_walked() {
    let store = Up::start(2);
    // 16 names of 254 bytes and their slashes: 4080 bytes.
    let long = format!("/{}", "n".repeat(254)).repeat(16);
    say(&store.address, ["mkdir", "-p", &long]).done();
    let here = scratch();
    run(["cp", "--quiet", text(&file(here.path(), "f", b"12345")), &store.path(&format!("{long}/file"))]).done();
    assert!(say(&store.address, ["ls", "-l", &long]).done().out.ends_with(" file\n"));
    assert_eq!(say(&store.address, ["find", "/", "-name", "file"]).done().out, format!("{long}/file\n"));
    assert_eq!(say(&store.address, ["du", "-sb", "/"]).done().out, "5\t/\n");
    // A path of more than 4096 bytes cannot be used, but a tree can be deeper.
    let too_long = format!("{long}/{}", "n".repeat(100));
    say(&store.address, ["ls", &too_long]).failed(2, &["4096"]);
    let other = format!("/{}", "m".repeat(250)).repeat(15);
    say(&store.address, ["mkdir", "-p", &other]).done();
    say(&store.address, ["mv", &format!("/{}", "n".repeat(254)), &other]).done();
    let listed = say(&store.address, ["ls", "-R", "/"]).done().out;
    assert_eq!(listed.lines().filter(|line| line.ends_with(':')).count(), 1 + 16 + 15);
    assert!(listed.contains(&format!("{other}{long}:\n")));
    assert_eq!(say(&store.address, ["find", "/", "-type", "d"]).done().out.lines().count(), 1 + 16 + 15);
    say(&store.address, ["rm", "-r", "--no-preserve-root", "/"]).done();
    assert_eq!(say(&store.address, ["ls", "-a", "/"]).done().out, "");
}

#[test]
fn links_in_circles_are_names_and_are_never_followed_into_trees() {
    let store = Up::start(2);
    let here = scratch();
    let root = here.path().join("t");
    std::fs::create_dir_all(root.join("d/e")).unwrap();
    file(&root, "kept", &content(1, 1000));
    for (link, target) in [("d/e/up", "../.."), ("d/self", "self"), ("a", "b"), ("b", "a"), ("d/out", "/t"), ("to", "d")] {
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    run(["cp", "-r", "--quiet", text(&root), &store.path("/t")]).done();
    let listed = say(&store.address, ["ls", "-lR", "/t"]).done().out;
    assert_eq!(listed.lines().filter(|line| line.ends_with(':')).count(), 3, "{listed}");
    assert_eq!(say(&store.address, ["find", "/t"]).done().out.lines().count(), 1 + 3 + 1 + 2 + 2 + 1);
    assert_eq!(say(&store.address, ["du", "-sb", "/t"]).done().out, "1000\t/t\n");
    // A named link refers to its directory, unless -d or the like is given; a dangling one is a name.
    assert_eq!(say(&store.address, ["ls", "/t/to"]).done().out, "e\nout\nself\n");
    assert_eq!(say(&store.address, ["ls", "/t/d/e/up"]).done().out, "a\nb\nd\nkept\nto\n");
    assert!(say(&store.address, ["ls", "-l", "/t/to"]).done().out.ends_with(" /t/to -> d\n"));
    assert_eq!(say(&store.address, ["ls", "/t/a"]).done().out, "/t/a\n");
    assert_eq!(say(&store.address, ["ls", "/t/d/self"]).done().out, "/t/d/self\n");
    // Removing removes the links and not their targets.
    say(&store.address, ["rm", "-r", "/t/d", "/t/to"]).done();
    assert_eq!(say(&store.address, ["ls", "/t"]).done().out, "a\nb\nkept\n");
}

/// A user without root privileges.
const NOBODY: u32 = 65_534;

/// Runs a command as that user.
fn as_nobody(command: &mut Command) -> &mut Command {
    command.uid(NOBODY).gid(NOBODY).env("HOME", "/")
}

#[test]
fn parts_of_a_tree_that_may_not_be_read_are_named_and_the_rest_is_copied() {
    if !is_root() {
        return skipped("only root can become another user");
    }
    use std::os::unix::fs::PermissionsExt;
    let store = Up::start(2);
    let here = scratch();
    let root = here.path().join("t");
    std::fs::set_permissions(here.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for directory in ["open/below", "closed/below"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    file(&root.join("open"), "read", b"abc");
    file(&root.join("open/below"), "read too", b"abc");
    file(&root.join("closed/below"), "unseen", b"abc");
    let secret = file(&root.join("open"), "secret", b"abc");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(root.join("closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let credential = credential_of(&store.credential(), NOBODY, here.path());
    let mut command = thalweg(["cp", "-r", "--quiet", "--credential", text(&credential), text(&root), &store.path("/t")]);
    let said: CommandOutput = as_nobody(&mut command).output_in_time().unwrap().into();
    said.failed(1, &["closed", "secret", "ermission denied"]);
    let copied = say(&store.address, ["find", "/t", "-type", "f"]).done().out;
    assert_eq!(copied.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["/t/open/below/read too", "/t/open/read"]));
}

#[test]
fn a_mount_is_its_users_and_says_so_to_others() {
    if !is_root() || !std::path::Path::new("/dev/fuse").exists() {
        return skipped("mounting as one user and looking as another needs root and FUSE");
    }
    use std::os::unix::fs::PermissionsExt;
    let store = Up::start(2);
    let here = scratch();
    std::fs::set_permissions(here.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let at = here.path().join("mnt");
    std::fs::create_dir(&at).unwrap();
    std::os::unix::fs::chown(&at, Some(NOBODY), Some(NOBODY)).unwrap();
    // A user's own mount is only accessible to that user, not even to root.
    let theirs = scratch();
    std::fs::set_permissions(theirs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let credential = credential_of(&store.credential(), NOBODY, theirs.path());
    let arguments = ["mount", "--credential", text(&credential), &store.address, text(&at)];
    let mounted: CommandOutput = as_nobody(&mut thalweg(arguments)).output_in_time().unwrap().into();
    if mounted.code != Some(0) {
        return skipped(&format!("users may not mount here: {}", mounted.err.trim()));
    }
    let mount = Mounted(at);
    let theirs = Command::new("ls").arg("-l").arg(&mount.0).output_in_time().unwrap();
    let said = String::from_utf8_lossy(&theirs.stderr);
    assert!(!theirs.status.success() && said.contains("ermission denied"), "{said}");
    let own = as_nobody(Command::new("ls").arg("-l").arg(&mount.0)).output_in_time().unwrap();
    assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
    // In a whole tree only the mount cannot be read; the rest is copied.
    file(here.path(), "beside", b"abc");
    let other = Up::start(1);
    let copied = run(["cp", "-r", "--quiet", text(here.path()), &other.path("/t")]).failed(1, &["mnt", "ermission denied"]);
    assert_eq!(say(&other.address, ["find", "/t", "-type", "f"]).done().out, "/t/beside\n", "{}", copied.err);
}

#[test]
fn files_that_programs_made_in_a_mount_are_listed_whatever_their_names() {
    if !is_root() || !std::path::Path::new("/dev/fuse").exists() {
        return skipped("a mount needs root, or fusermount3, and FUSE");
    }
    let store = Up::start(2);
    let here = scratch();
    let at = here.path().join("mnt");
    std::fs::create_dir(&at).unwrap();
    run(["mount", &store.address, text(&at)]).done();
    let mount = Mounted(at);
    for name in odd_names() {
        std::fs::write(mount.0.join(OsStr::from_bytes(&name)), &name).unwrap();
    }
    std::fs::hard_link(mount.0.join("<a>"), mount.0.join("<a>'s other name")).unwrap();
    drop(mount);
    let found = raw(&store.address, ["find", "/", "-type", "f", "-size", "3c", "-print0"]).stdout;
    assert_eq!(found.split(|byte| *byte == 0).filter(|path| path.len() == 4).count(), 254);
    // A file with two names counts once.
    assert_eq!(say(&store.address, ["du", "-sb", "/"]).done().out, format!("{}\t/\n", 254 * 3 + 3 * 255 + 254));
    say(&store.address, ["rm", "-r", "--no-preserve-root", "/"]).done();
    assert_eq!(say(&store.address, ["ls", "-a", "/"]).done().out, "");
}

/// A mount, removed when dropped, even if the test fails.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let ended = thalweg(["umount", text(&self.0)]).output_in_time();
        if !ended.is_ok_and(|said| said.status.success()) {
            let _ = Command::new("umount").args(["-l", text(&self.0)]).output_in_time();
        }
    }
}

#[test]
fn a_tree_is_removed_while_others_remove_and_make_names_in_it() {
    let store = Up::start(2);
    make(&store.address, (0..2000).map(|i| format!("/{i:04}{}", "-".repeat(200))));
    say(&store.address, ["mkdir", "-p", "/t/a/b", "/t/c"]).done();
    make(&store.address, (0..2000).map(|i| format!("/t/a/{i:04}")));
    // Two run simultaneously: with -f, missing files are no error.
    let both: Vec<Child> = (0..2)
        .map(|_| {
            let mut command = thalweg(["rm", "-rf", "/t"]);
            command.env("THALWEG_STORE", &store.address).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in both {
        let said: CommandOutput = child.output_in_time().unwrap().into();
        said.done();
    }
    wait_until("the tree is gone", || !say(&store.address, ["ls", "/"]).done().out.lines().any(|line| line == "t"));
    // Names created in it meanwhile keep it, and are reported.
    say(&store.address, ["mkdir", "-p", "/u/a"]).done();
    let held = Held::start(&store.address, &["find", "/", "-path", "/[01]*", "-delete", "-print", "--window", "16"]);
    let kept = format!("/0900{}", "-".repeat(200));
    say(&store.address, ["mkdir", &format!("{kept}/new")]).done();
    let said = held.rest();
    assert!(said.code == Some(0) || said.err.contains("not empty"), "{}", said.err);
    let left = say(&store.address, ["ls", "/"]).done().out;
    assert!(left.lines().all(|line| line == "u" || kept.ends_with(line)), "{left}");
}
