//! Parts of a store that are missing, truncated, or older than the rest: always reported, and never read as zeros.

use crate::bounded::Bounded;
use crate::common::{
    CommandOutput, Mounted, Running, Servers, THALWEG, can_mount, content, file, is_root, run, scratch, skipped, text, thalweg, wait_until,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: usize = 1 << 20;

/// A store in one process with a directory per server, which can be stopped and started again.
pub(super) struct Store {
    pub(super) directories: Vec<PathBuf>,
    pub(super) process: Option<Running>,
    pub(super) address: String,
    pub(super) here: tempfile::TempDir,
}

impl Store {
    pub(super) fn new(servers: usize) -> Store {
        let here = scratch();
        let directories: Vec<PathBuf> = (0..servers).map(|n| here.path().join(format!("io{n}"))).collect();
        directories.iter().for_each(|directory| fs::create_dir(directory).unwrap());
        let mut store = Store { directories, process: None, address: String::new(), here };
        store.start(&[]);
        store
    }

    pub(super) fn up<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let directories = self.directories.iter().map(|directory| text(directory));
        ["up", "--print-address"].into_iter().chain(more.iter().copied()).chain(directories).collect()
    }

    pub(super) fn start(&mut self, more: &[&str]) {
        let mut process = Running::start(thalweg(self.up(more)));
        self.address = process.line();
        assert!(self.address.starts_with("thal://"), "it starts");
        self.process = Some(process);
    }

    /// Starts it and expects a failure.
    fn fails_to_start(&self, more: &[&str]) -> CommandOutput {
        run(self.up(more))
    }

    pub(super) fn stop(&mut self) {
        let mut process = self.process.take().unwrap();
        process.signal(libc::SIGTERM);
        assert_eq!(process.wait(), Some(0));
    }

    pub(super) fn cp(&self, more: &[&str]) -> CommandOutput {
        let full: Vec<String> = more.iter().map(|word| word.replace("thal:/", &format!("{}/", self.address))).collect();
        run(["cp", "--quiet"].into_iter().map(str::to_owned).chain(full))
    }

    /// Returns all datafiles of the store, largest first.
    fn datafiles(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        self.directories.iter().for_each(|directory| files_below(&directory.join("datafiles"), &mut found));
        found.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).unwrap().len()));
        found
    }
}

fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => files_below(&entry.path(), found),
            // Without its checksums a datafile is read as it is.
            false if entry.file_name().to_string_lossy().ends_with(".crc") => {}
            false => found.push(entry.path()),
        }
    }
}

/// Returns whether a directory is empty.
fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn a_target_that_is_gone_is_not_made_anew_by_starting_and_its_bytes_never_read_as_zeros() {
    let mut store = Store::new(2);
    let source = file(store.here.path(), "source", &content(1, 4 * MIB));
    let back = store.here.path().join("back");
    store.cp(&["--sync", text(&source), "thal:/f"]).done();
    store.stop();
    let (gone, kept) = (store.directories[1].clone(), store.here.path().join("kept"));
    fs::rename(&gone, &kept).unwrap();
    // Missing completely, and existing but empty, like a mount point whose file system is not mounted.
    store.fails_to_start(&[]).failed(1, &["io1", text(&gone), "holds no target", "--initialise"]);
    fs::create_dir(&gone).unwrap();
    store.fails_to_start(&[]).failed(1, &["io1", text(&gone), "mounted"]);
    let config = store.directories[0].join("store.toml");
    run(["serve", "--store", text(&config), "--name", "io1"]).failed(1, &[text(&gone), "--initialise"]);
    assert!(is_empty(&gone), "starting leaves it as it is");
    // If the operator insists, its contents are lost, and reading them is an error.
    store.start(&["--initialise"]);
    store.cp(&["thal:/f", text(&back)]).failed(1, &["io1", "target 1", "bytes of the file are lost", "f"]);
    assert!(!back.exists());
    run(["cat", &format!("{}/f", store.address)]).failed(1, &["bytes of the file are lost"]);
    store.stop();
    fs::remove_dir_all(&gone).unwrap();
    fs::rename(&kept, &gone).unwrap();
    store.start(&[]);
    store.cp(&["thal:/f", text(&back)]).done();
    assert!(fs::read(&back).unwrap() == content(1, 4 * MIB));
}

#[test]
fn a_target_whose_file_system_is_not_mounted_is_refused() {
    if !is_root() {
        return skipped("mounting a file system needs root");
    }
    struct Tmpfs(PathBuf);
    impl Drop for Tmpfs {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status_in_time();
        }
    }
    let mut store = Store { directories: Vec::new(), process: None, address: String::new(), here: scratch() };
    store.directories = ["io0", "io1"].map(|name| store.here.path().join(name)).to_vec();
    store.directories.iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "none"]).arg(&store.directories[1]).status_in_time();
    if !mounted.is_ok_and(|status| status.success()) {
        return skipped("a tmpfs cannot be mounted here");
    }
    let tmpfs = Tmpfs(store.directories[1].clone());
    store.start(&[]);
    store.cp(&["--sync", "--source", "memory:20Mi", "thal:/f"]).done();
    store.stop();
    drop(tmpfs);
    store.fails_to_start(&[]).failed(1, &["io1", "mounted"]);
    assert!(is_empty(&store.directories[1]));
}

#[test]
fn a_datafile_that_is_gone_or_cut_off_is_an_error_that_names_file_datafile_and_target() {
    let mut store = Store::new(4);
    let (large, small) = (content(2, 3 * MIB + 17), content(3, 10_000));
    let tree = store.here.path().join("tree");
    fs::create_dir(&tree).unwrap();
    file(&tree, "large", &large);
    file(&tree, "small", &small);
    let (whole, back) = (file(store.here.path(), "whole", &large), store.here.path().join("back"));
    store.cp(&["--datafiles", "4", text(&whole), "thal:/one"]).done();
    store.cp(&["-r", text(&tree), "thal:/tree"]).done();
    let out = |store: &Store, from: &str| {
        let _ = fs::remove_file(&back);
        let _ = fs::remove_dir_all(&back);
        store.cp(&["-r", from, text(&back)])
    };
    for datafile in store.datafiles() {
        let bytes = fs::read(&datafile).unwrap();
        let number = datafile.file_name().unwrap().to_str().unwrap().to_owned();
        let damages: [&dyn Fn(); 2] = [&|| fs::remove_file(&datafile).unwrap(), &|| {
            fs::File::options().write(true).open(&datafile).unwrap().set_len(bytes.len() as u64 - 1).unwrap()
        }];
        for damage in damages {
            // A running server trusts what it has seen of a datafile: no other program writes there.
            store.stop();
            damage();
            store.start(&[]);
            let (one, trees) = (out(&store, "thal:/one"), out(&store, "thal:/tree"));
            let said = if one.code == Some(0) { trees } else { one };
            said.failed(1, &[&number, "target", "lost"]);
            fs::write(&datafile, &bytes).unwrap();
        }
    }
    store.stop();
    store.start(&[]);
    out(&store, "thal:/one").done();
    assert!(fs::read(&back).unwrap() == large);
    out(&store, "thal:/tree").done();
    assert_eq!((fs::read(back.join("large")).unwrap(), fs::read(back.join("small")).unwrap()), (large, small));
}

/// Copies a directory tree.
pub(super) fn copy_tree(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status_in_time().unwrap().success());
}

#[test]
fn metadata_that_is_gone_or_older_than_its_targets_does_not_start_and_no_file_gets_the_bytes_of_another() {
    let mut store = Store::new(2);
    let (metadata, old, newest) = (store.directories[0].join("metadata"), store.here.path().join("old"), store.here.path().join("newest"));
    store.cp(&["--source", "memory:1Mi", "thal:/first"]).done();
    store.stop();
    copy_tree(&metadata, &old);
    store.start(&[]);
    let source = file(store.here.path(), "source", &content(4, 9_500));
    store.cp(&[text(&source), "thal:/second"]).done();
    store.stop();
    fs::rename(&metadata, &newest).unwrap();
    store.fails_to_start(&[]).failed(1, &["holds no metadata", "--initialise"]);
    // Starting over would reuse the numbers of old files.
    store.fails_to_start(&["--initialise"]).failed(1, &["older than the datafiles", "io", "--accept-older-metadata"]);
    let _ = fs::remove_dir_all(&metadata);
    copy_tree(&old, &metadata);
    for _ in 0..3 {
        store.fails_to_start(&[]).failed(1, &["older than the datafiles", "--accept-older-metadata"]);
    }
    store.start(&["--accept-older-metadata"]);
    let six = file(store.here.path(), "six", b"6bytes");
    let back = store.here.path().join("back");
    for n in 0..20 {
        store.cp(&["--datafiles", "1", text(&six), &format!("thal:/new{n}")]).done();
        store.cp(&["--force", &format!("thal:/new{n}"), text(&back)]).done();
        assert_eq!(fs::read(&back).unwrap(), b"6bytes");
    }
    store.cp(&["--force", "thal:/first", text(&back)]).done();
    store.stop();
    store.start(&[]);
    // Restored now, the newest copy is the older one.
    store.stop();
    fs::remove_dir_all(&metadata).unwrap();
    fs::rename(&newest, &metadata).unwrap();
    store.fails_to_start(&[]).failed(1, &["older than the datafiles"]);
}

#[test]
fn a_server_that_is_newer_than_the_metadata_is_not_used_by_clients_either() {
    let mut servers = Servers::start(2);
    let store = text(&servers.store).to_owned();
    let metadata = servers.directory().join("metadata");
    let older = servers.directory().join("older");
    servers.process("metadata").signal(libc::SIGTERM);
    servers.process("metadata").wait();
    copy_tree(&metadata, &older);
    servers.serve("metadata");
    // Strips on both servers.
    run(["cp", "--quiet", "--store", &store, "--datafiles", "2", "--source", "memory:4Mi", "thal:/f"]).done();
    // Everything stops, and the older metadata starts first: no server can report that it is old.
    for name in ["metadata", "io0", "io1"] {
        servers.process(name).signal(libc::SIGTERM);
        servers.process(name).wait();
    }
    fs::remove_dir_all(&metadata).unwrap();
    fs::rename(&older, &metadata).unwrap();
    servers.serve("metadata");
    servers.serve("io0");
    servers.serve("io1");
    let said = run(["cp", "--quiet", "--store", &store, "--datafiles", "2", "--source", "memory:4Mi", "thal:/g"]);
    said.failed(1, &["metadata service", "--accept-older-metadata"]);
}

#[test]
fn a_file_that_was_not_synced_before_power_was_lost_is_an_error_and_one_that_was_is_not() {
    if !is_root() {
        return skipped("another start of the machine is made with a mount namespace, which needs root");
    }
    let mut servers = Servers::start(2);
    let store = text(&servers.store).to_owned();
    let here = scratch();
    let back = here.path().join("back");
    let source = file(here.path(), "source", &content(5, 2 * MIB));
    let cp = |words: &[&str]| run([&["cp", "--quiet", "--store", &store], words].concat());
    cp(&["--sync", text(&source), "thal:/synced"]).done();
    cp(&[text(&source), "thal:/unsynced"]).done();
    servers.kill("io0");
    // The same directory on a rebooted machine, as far as a process can see.
    let boot = file(here.path(), "boot_id", b"01234567-89ab-cdef-0123-456789abcdef\n");
    let mut command = Command::new("unshare");
    let script = format!("mount --bind '{}' /proc/sys/kernel/random/boot_id && exec \"$@\"", text(&boot));
    command.args(["-m", "sh", "-c", &script, "sh", THALWEG, "serve", "--store", &store, "--name", "io0"]).stdin(Stdio::null());
    let mut io0 = Running::start(command);
    if io0.line().is_empty() {
        return skipped("mount namespaces cannot be made here");
    }
    // The service queries again sooner than any machine restarts.
    wait_until("the restart is noticed", || cp(&["--force", "thal:/unsynced", text(&back)]).code == Some(1));
    let _ = fs::remove_file(&back);
    cp(&["thal:/unsynced", text(&back)]).failed(1, &["io0", "unsynced", "not synced", "restarted"]);
    assert!(!back.exists());
    cp(&["thal:/synced", text(&back)]).done();
    assert!(fs::read(&back).unwrap() == content(5, 2 * MIB));
    // Written again, it is intact.
    cp(&["--force", text(&source), "thal:/unsynced"]).done();
    cp(&["--force", "thal:/unsynced", text(&back)]).done();
    assert!(fs::read(&back).unwrap() == content(5, 2 * MIB));
}

#[test]
fn a_file_that_has_lost_bytes_is_eio_on_a_mount_keeps_its_size_and_can_be_removed() {
    if !can_mount() {
        return;
    }
    let mut servers = Servers::start(2);
    let (here, servers_store) = (scratch(), servers.store.clone());
    let mount = |name: &str| {
        let mounted = Mounted(here.path().join(name));
        fs::create_dir(&mounted.0).unwrap();
        run(["mount", "--store", text(&servers_store), text(&mounted.0)]).done();
        mounted
    };
    let mounted = mount("m");
    let bytes = content(6, 3 * MIB);
    let (damaged, whole) = (mounted.0.join("damaged"), mounted.0.join("whole"));
    fs::write(&damaged, &bytes).unwrap();
    fs::write(mounted.0.join("sparse"), b"x").unwrap();
    fs::File::options().write(true).open(mounted.0.join("sparse")).unwrap().set_len(5 * MIB as u64).unwrap();
    // The last datafile truncated belongs to the damaged file; the server's others are intact.
    servers.kill("io1");
    let mut datafiles = Vec::new();
    files_below(&servers.directory().join("io1"), &mut datafiles);
    let largest = datafiles.iter().filter(|path| path.to_string_lossy().contains("/datafiles/")).max_by_key(|path| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).unwrap().blocks()
    });
    fs::remove_file(largest.unwrap()).unwrap();
    servers.serve("io1");
    wait_until("the mount has the server again", || fs::write(&whole, &bytes).is_ok());
    // A new mount, with none of it in the kernel's cache.
    let fresh = mount("fresh");
    let there = |name: &str| fresh.0.join(name);
    assert_eq!(fs::metadata(there("damaged")).unwrap().len(), 3 * MIB as u64, "it is not shorter for it");
    let read = |name: &str| fs::read(there(name)).map_err(|e| e.raw_os_error());
    assert!(read("damaged") == Err(Some(libc::EIO)), "{:?}", read("damaged").map(|bytes| bytes.len()));
    assert!(read("whole").as_ref() == Ok(&bytes));
    assert_eq!(read("sparse").unwrap().len(), 5 * MIB, "a hole is no loss");
    fs::remove_file(&damaged).unwrap();
    fs::write(&damaged, &bytes).unwrap();
    assert!(fs::read(&damaged).unwrap() == bytes);
}
