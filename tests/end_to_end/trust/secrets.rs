//! Secrets occur only in credential files, and in the memory of processes that use them.

use super::{Needle, derived, files, found};
use crate::bounded::{Bounded, BoundedChild, rest};
use crate::common::{Mounted, Running, can_mount, content, file, run, scratch, text, thalweg, wait_until};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Everything found out of place, with the place.
#[derive(Default)]
struct Search {
    needles: Vec<Needle>,
    bytes: usize,
}

impl Search {
    #[track_caller]
    fn through(&mut self, place: &str, bytes: &[u8]) {
        self.bytes += bytes.len();
        assert!(found(&self.needles, bytes).is_empty(), "{:?} in {place}", found(&self.needles, bytes));
    }

    /// Searches all files below a directory except credentials.
    #[track_caller]
    fn through_files(&mut self, directory: &Path) {
        for path in files(directory).iter().filter(|path| path.extension().is_none_or(|extension| extension != "credential")) {
            self.through(text(path), &std::fs::read(path).unwrap_or_default());
        }
    }

    /// Searches the public state of a process and its descendants.
    #[track_caller]
    fn through_process(&mut self, pid: u32) {
        for name in ["cmdline", "environ", "comm"] {
            let Ok(bytes) = std::fs::read(format!("/proc/{pid}/{name}")) else { return };
            self.through(&format!("/proc/{pid}/{name}"), &bytes);
        }
        children(pid).into_iter().for_each(|child| self.through_process(child));
    }

    /// Searches a command's output, whatever its exit code.
    #[track_caller]
    fn say(&mut self, words: &[&str]) -> Option<i32> {
        let output = thalweg(words).output_in_time().expect("the command starts");
        self.through(&format!("the output of {words:?}"), &[output.stdout, output.stderr].concat());
        output.status.code()
    }
}

/// Returns the processes that any thread of this one has started.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process of ours");
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let all: Vec<String> = tasks.flatten().map(of).collect();
    all.iter().flat_map(|children| children.split_whitespace()).map(|child| child.parse().expect("a process id")).collect()
}

/// Reads a process's memory, as in a core dump.
fn memory(pid: u32) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("a process of ours");
    let mut all = Vec::new();
    for line in std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a process of ours").lines() {
        let (range, rest) = line.split_once(' ').expect("a range");
        let (from, to) = range.split_once('-').expect("two ends");
        let (from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        if rest.starts_with("rw") && to - from < 1 << 28 {
            let mut bytes = vec![0; (to - from) as usize];
            let read = memory.read_at(&mut bytes, from).unwrap_or(0);
            all.extend_from_slice(&bytes[..read]);
        }
    }
    all
}

/// The searched store, a directory for files, and the flag with the store's own credential.
struct SearchedStore {
    address: String,
    own: String,
    store: tempfile::TempDir,
    here: tempfile::TempDir,
}

impl SearchedStore {
    fn at(&self, name: &str) -> String {
        text(&self.here.path().join(name)).to_owned()
    }

    fn in_store(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    fn credential(&self) -> PathBuf {
        self.store.path().join("store.credential")
    }
}

#[test]
fn a_secret_is_in_no_recording_report_log_error_or_list_of_processes_and_not_in_the_memory_of_what_is_recorded() {
    let (store, here) = (scratch(), scratch());
    let mut command = thalweg(["up", "--print-address", "--servers", "2", text(store.path())]);
    command.stderr(Stdio::piped());
    let mut server = Running::start(command);
    let own = format!("--credential={}", text(&store.path().join("store.credential")));
    let searched = SearchedStore { address: server.line(), own, store, here };
    let of_owner = derived(&searched.credential(), "ana", None, searched.here.path().join("ana.credential"));
    let mut search = Search::default();
    for credential in [&searched.credential(), &searched.store.path().join("read-only.credential"), &of_owner] {
        search.needles.extend(Needle::secrets(credential));
    }
    search.through_process(server.pid().cast_unsigned());
    recorded(&mut search, &searched);
    damaged(&mut search, &searched, &of_owner);
    running(&mut search, &searched);
    mounted(&mut search, &searched);
    server.signal(libc::SIGTERM);
    let said = rest(server.child().stderr.take().unwrap());
    assert!(said.contains("store.credential"), "the file is named: {said}");
    search.through("what a server says", said.as_bytes());
    search.through_files(searched.here.path());
    search.through_files(searched.store.path());
    assert!(search.bytes > 5_000_000, "only {} bytes were searched", search.bytes);
}

/// Records, explains and draws.
fn recorded(search: &mut Search, searched: &SearchedStore) {
    let source = file(searched.here.path(), "source", &content(1, 3_000_000));
    let (own, target) = (&searched.own[..], &searched.in_store("f")[..]);
    for method in [&[][..], &["--method", "preload"], &["--method", "proc"]] {
        let name = method.last().unwrap_or(&"usual");
        let recording = searched.at(&format!("of-command-{name}.thw"));
        let cp = ["--", crate::common::THALWEG, "cp", "--quiet", "--force", own, text(&source), target];
        assert_eq!(search.say(&[&["record", "-o", &recording], method, &cp[..]].concat()), Some(0), "{method:?}");
        search.say(&["explain", "--json", &recording]);
        search.say(&["profile", &recording]);
        search.say(&["export", "--to", "perfetto", "-o", &searched.at(&format!("exported-{name}")), &recording]);
    }
    let recording = searched.at("of-copy.thw");
    assert_eq!(search.say(&["cp", "--record", &recording, "--explain", own, target, &searched.at("out")]), Some(0));
    for (words, needed) in [
        (&["explain", "-v", &recording][..], true),
        (&["explain", "--json", &recording], true),
        (&["report", &recording, "-o", &searched.at("report.html")], true),
        (&["report", &recording, "-o", &searched.at("report.svg")], true),
        (&["rpcstat", &recording], false),
        (&["df", "--json", &searched.in_store("")], true),
        (&["doctor", "--json"], false),
    ] {
        assert!(search.say(words) == Some(0) || !needed, "{words:?}");
    }
}

/// Damaged credentials, and refused ones.
fn damaged(search: &mut Search, searched: &SearchedStore, of_owner: &Path) {
    let written = std::fs::read_to_string(searched.credential()).unwrap();
    for (name, damaged) in [
        ("cut", written[..written.len() - 3].to_owned()),
        ("twice", format!("{written}{written}")),
        ("more", written.replace("secret = ", "password = ")),
        ("other", written.replace("store = ", "owner = ")),
        ("rights", written.replace("rights = \"store\"", "rights = \"read\"")),
        ("owner", std::fs::read_to_string(of_owner).unwrap().replace("ana", "eve")),
    ] {
        let path = derived(&searched.credential(), "x", None, searched.here.path().join(format!("{name}.credential")));
        std::fs::write(&path, damaged).unwrap();
        let root = searched.in_store("");
        assert_eq!(search.say(&["ls", "--credential", text(&path), &root]), Some(1), "{name}");
        let output = thalweg(["ls", &root]).env(crate::common::CREDENTIAL, &path).output_in_time().unwrap();
        search.through("an error", &[output.stdout, output.stderr].concat());
    }
}

/// A copy that waits for input, and a recorded program.
fn running(search: &mut Search, searched: &SearchedStore) {
    let mut copy = thalweg(["cp", &searched.own, "-", &searched.in_store("slow")]);
    let mut copy = copy.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    copy.stdin.as_mut().unwrap().write_all(&content(2, 1 << 20)).unwrap();
    search.through_process(copy.id());
    drop(copy.stdin.take());
    let said = rest(copy.stderr.take().unwrap());
    assert!(copy.wait_in_time(crate::bounded::LIMIT).unwrap().success(), "{said}");
    search.through("what a copy says", said.as_bytes());
    let ready = searched.here.path().join("ready");
    let script = format!("touch {}; exec sleep 100", text(&ready));
    let mut recorder =
        Running::start(thalweg(["record", "--method", "preload", "-o", &searched.at("of-sleep.thw"), "--", "sh", "-c", &script]));
    wait_until("what is recorded runs", || ready.exists());
    let pid = recorder.pid().cast_unsigned();
    search.through_process(pid);
    let child = children(pid).into_iter().next().expect("what is recorded");
    // (Its memory is empty during exec.)
    let mut dumped = Vec::new();
    wait_until("its memory can be read", || {
        dumped = memory(child);
        dumped.len() > 10_000
    });
    search.through("the memory of what is recorded", &dumped);
    // SAFETY: kill has no memory effects; the recorder, which has not been waited for, keeps the id of its child its own.
    unsafe { libc::kill(child.cast_signed(), libc::SIGTERM) };
    recorder.wait();
}

/// A mount with a log and a recording.
fn mounted(search: &mut Search, searched: &SearchedStore) {
    if !can_mount() {
        return;
    }
    let here = searched.here.path();
    let at = here.join("m");
    std::fs::create_dir(&at).unwrap();
    let (log, recording) = (here.join("mount.log"), here.join("mount.thw"));
    assert_eq!(
        search.say(&["mount", "--log", text(&log), "--record", text(&recording), &searched.own, &searched.address, text(&at)]),
        Some(0)
    );
    let _mounted = Mounted(at.clone());
    std::fs::write(at.join("f"), content(3, 100_000)).unwrap();
    for name in ["user.thalweg.counters", "user.thalweg.store"] {
        let mut value = vec![0; 1 << 16];
        let length = rustix::fs::getxattr(&at, name, &mut value).unwrap();
        search.through(name, &value[..length]);
        if let Ok(document) = serde_json::from_slice::<serde_json::Value>(&value[..length])
            && let Some(pid) = document["pid"].as_u64()
        {
            search.through_process(pid as u32);
        }
    }
    let listed = Command::new("mount").output_in_time().unwrap().stdout;
    search.through("the list of mounts", &listed);
    run(["umount", text(&at)]).done();
    wait_until("the recording is whole", || std::fs::read_dir(&recording).is_ok_and(|entries| entries.count() > 0));
}
