//! Acknowledged writes that are lost: which calls report the loss, and what is read afterwards. The same programs run on a mount, on a
//! strict mount and on ext4, each on a full disk.

mod stand;

use stand::{Mounted, Stand, bytes, wait_until};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const EIO: Option<i32> = Some(libc::EIO);
/// A disk that fills up quickly.
const SMALL_BYTES: u64 = 3 << 20;

/// Cases that every file system must handle alike.
const EVERYWHERE: &[&str] = &[
    "fork",
    "fork_before",
    "system",
    "execute",
    "duplicate",
    "passed",
    "two_processes",
    "two_descriptors",
    "mapped",
    "mapped_and_forked",
    "synchronous",
    "append",
    "rename_over",
    "unlink",
    "unseen",
    "goes_on",
];
/// Additional promises of a store.
const ON_A_STORE: &[&str] = &["reads_own", "reader_after", "mended", "accepted"];

/// Runs a command, killed after 30 s.
fn run(command: &[&str]) -> Output {
    Command::new("timeout").args(["-k", "2", "30"]).args(command).output().unwrap()
}

fn done(command: &[&str]) -> Result<(), String> {
    let output = run(command);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}: {}", command.join(" "), output.status, String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// A file system mounted at a directory; unmounted lazily, even if in use.
struct Disk(PathBuf);

impl Disk {
    fn of_memory(at: &Path, size: u64) -> Result<Disk, String> {
        fs::create_dir_all(at).unwrap();
        done(&["mount", "-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", at.to_str().unwrap()])?;
        Ok(Disk(at.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = done(&["umount", "-l", self.0.to_str().unwrap()]);
    }
}

/// A mounted store with one small target, dropped in this order.
struct Small {
    mounted: Mounted,
    stand: Stand,
}

impl Small {
    fn new(strict: bool) -> (Small, Disk) {
        let mut disk = None;
        let stand = Stand::over(1, |target| disk = Some(Disk::of_memory(target, SMALL_BYTES).unwrap()));
        let mounted = if strict { stand.mount_strictly("m") } else { stand.mount("m") };
        (Small { mounted, stand }, disk.unwrap())
    }

    fn ballast(disk: &Disk) -> PathBuf {
        disk.0.join("ballast")
    }
}

/// Runs the cases one after the other, and reports all failures.
fn programs(kind: &str, cases: &[&str], directory: &Path, ballast: &Path) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lost_writes.py");
    let of = |case: &&str| done(&["python3", script, kind, case, directory.to_str().unwrap(), ballast.to_str().unwrap()]).err();
    let wrong: Vec<String> = cases.iter().filter_map(of).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn programs_hear_of_lost_writes_on_a_mount() {
    needs_mounts!();
    let (small, disk) = Small::new(false);
    programs("mount", &[EVERYWHERE, ON_A_STORE].concat(), &small.mounted.at("d"), &Small::ballast(&disk));
}

#[test]
fn programs_hear_of_lost_writes_on_a_strict_mount() {
    needs_mounts!();
    let (small, disk) = Small::new(true);
    programs("strict", &[EVERYWHERE, ON_A_STORE].concat(), &small.mounted.at("d"), &Small::ballast(&disk));
}

#[test]
fn programs_hear_of_lost_writes_on_ext4() {
    needs_mounts!();
    let base = TempDir::new().unwrap();
    let (memory, at) = (base.path().join("memory"), base.path().join("ext4"));
    fs::create_dir(&at).unwrap();
    // Metadata is allocated from the beginning; only new bytes run out of space.
    let made = Disk::of_memory(&memory, 6 << 20).and_then(|disk| {
        let image = memory.join("image");
        let image = image.to_str().unwrap();
        done(&["truncate", "-s", "64M", image])?;
        let options = "lazy_itable_init=0,nodiscard";
        done(&["mkfs.ext4", "-q", "-b", "4096", "-N", "64", "-O", "^has_journal,^resize_inode", "-E", options, image])?;
        done(&["mount", "-o", "loop", image, at.to_str().unwrap()])?;
        Ok((Disk(at.clone()), disk))
    });
    let (_ext4, _memory) = match made {
        Ok(disks) => disks,
        Err(problem) => return println!("SKIPPED: ext4 on a loop device cannot be had here ({problem})"),
    };
    programs("ext4", EVERYWHERE, &at, &memory.join("ballast"));
}

/// Loses bytes of `name`: 64 KiB are written and synced, another 64 KiB are lost while the disk is full. Returns the file written through,
/// and its content.
fn lose(small: &Small, disk: &Disk, name: &str) -> (File, Vec<u8>) {
    let content = bytes(128 << 10, 1);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(small.mounted.at(name)).unwrap();
    file.write_all_at(&content[..64 << 10], 0).unwrap();
    file.sync_all().unwrap();
    let ballast = File::create(Small::ballast(disk)).unwrap();
    let mut at = 0;
    for size in [1 << 20, 4096] {
        while let Ok(many) = ballast.write_at(&vec![0; size], at) {
            at += many as u64;
        }
    }
    file.write_all_at(&content[64 << 10..], 64 << 10).unwrap();
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    fs::remove_file(Small::ballast(disk)).unwrap();
    (file, content)
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn a_file_that_lost_bytes_is_an_error_after_remounting_and_on_another_mount_until_it_is_mended() {
    needs_mounts!();
    let (small, disk) = Small::new(false);
    let (file, content) = lose(&small, &disk, "f");
    let other = small.stand.mount("other");
    assert_eq!(errno(fs::read(other.at("f"))), EIO);
    assert_eq!(fs::metadata(other.at("f")).unwrap().len(), 128 << 10, "it keeps its size");
    drop(file);
    let Small { mounted, stand } = small;
    assert!(mounted.unmount().is_err(), "unmounting reports the loss");
    let small = Small { mounted: stand.mount("again"), stand };
    small.stand.stop();
    small.stand.start();
    wait_until("the store to answer", || fs::metadata(small.mounted.at("f")).is_ok());
    assert_eq!(errno(fs::read(small.mounted.at("f"))), EIO, "after a restart of the servers");
    let listed: Vec<u64> = fs::read_dir(small.mounted.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).collect();
    assert_eq!(listed, [128 << 10]);
    let mender = File::options().read(true).write(true).open(small.mounted.at("f")).unwrap();
    let mut there = vec![0; 64 << 10];
    mender.read_exact_at(&mut there, 0).unwrap();
    assert!(there == content[..64 << 10]);
    assert_eq!(errno(mender.read_exact_at(&mut there, 64 << 10)), EIO);
    mender.write_all_at(&content[64 << 10..], 64 << 10).unwrap();
    mender.sync_all().unwrap();
    drop(mender);
    assert!(fs::read(small.mounted.at("f")).unwrap() == content);
    assert!(fs::read(other.at("f")).unwrap() == content, "elsewhere too");
    small.mounted.unmount().unwrap();
    drop(other);
    drop(disk);
}

#[test]
fn a_part_that_is_written_again_leaves_the_other_lost() {
    needs_mounts!();
    let (small, disk) = Small::new(false);
    let (file, content) = lose(&small, &disk, "f");
    drop(file);
    let mender = File::options().read(true).write(true).open(small.mounted.at("f")).unwrap();
    mender.write_all_at(&content[64 << 10..100_000], 64 << 10).unwrap();
    // Bytes are still lost. The program that lost them has got the error; if the mount has closed the file since, the mount no longer
    // knows.
    assert!(matches!(errno(mender.sync_all()), None | EIO));
    mender.sync_all().unwrap();
    let mut found = vec![0; 1000];
    mender.read_exact_at(&mut found, 70_000).unwrap();
    assert!(found == content[70_000..71_000]);
    assert_eq!(errno(mender.read_exact_at(&mut found, 100_000)), EIO);
    assert_eq!(errno(fs::read(small.mounted.at("f"))), EIO);
    drop(mender);
    drop(small);
    drop(disk);
}

#[test]
fn a_file_whose_loss_the_service_does_not_know_is_not_opened_until_it_does() {
    needs_mounts!();
    let (small, disk) = Small::new(false);
    let file = File::create(small.mounted.at("f")).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&[7; 100_000], 5).unwrap();
    // Both the I/O server and the metadata service are down.
    small.stand.stop();
    assert_eq!(errno(file.sync_all()), EIO);
    drop(file);
    assert_eq!(errno(File::open(small.mounted.at("f"))), EIO);
    small.stand.start();
    wait_until("the service to be notified", || File::open(small.mounted.at("f")).is_ok());
    assert_eq!(errno(fs::read(small.mounted.at("f"))), EIO);
    let other = small.stand.mount("other");
    assert_eq!(errno(fs::read(other.at("f"))), EIO, "everybody knows");
    drop(other);
    drop(small);
    drop(disk);
}

#[test]
fn a_server_that_goes_between_write_and_sync_is_heard_by_each_descriptor() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let file = File::create(m.at("f")).unwrap();
    let other = File::options().write(true).open(m.at("f")).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&[7; 100_000], 5).unwrap();
    stand.stop();
    // The close of a copy reports it first, as when a child exits.
    drop(file.try_clone().unwrap());
    stand.start();
    wait_until("the service", || fs::metadata(m.path()).is_ok());
    drop(file.try_clone().unwrap());
    assert_eq!(errno(file.sync_all()), EIO);
    assert_eq!(errno(other.sync_all()), EIO);
    assert_eq!(errno(fs::read(m.at("f"))), EIO);
}

#[test]
fn a_loss_is_heard_when_the_mount_has_had_the_kernel_drop_other_inodes_meanwhile() {
    needs_mounts!();
    let (small, disk) = Small::new(false);
    let m = small.stand.mount_with("few", |options| options.inode_limit = 8);
    let small = Small { mounted: m, ..small };
    let content = bytes(128 << 10, 1);
    let file = File::create(small.mounted.at("f")).unwrap();
    file.write_all_at(&content[..1000], 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&content, 0).unwrap();
    small.stand.stop();
    drop(file.try_clone().unwrap());
    small.stand.start();
    wait_until("the service", || fs::metadata(small.mounted.path()).is_ok());
    for n in 0..64 {
        File::create(small.mounted.at(&format!("other-{n}"))).unwrap();
    }
    fs::read_dir(small.mounted.path()).unwrap().for_each(|entry| drop(entry.unwrap().metadata()));
    assert_eq!(errno(file.sync_all()), EIO);
    drop(file);
    drop(small);
    drop(disk);
}

#[test]
fn lost_bytes_are_no_hole_to_what_copies_around_holes() {
    needs_mounts!();
    let (small, disk) = Small::new(false);
    drop(lose(&small, &disk, "f"));
    let other = small.stand.mount("other");
    for m in [&small.mounted, &other] {
        let mut lost = File::open(m.at("f")).unwrap();
        assert_eq!(rustix::fs::seek(&lost, rustix::fs::SeekFrom::Data(100_000)), Ok(100_000));
        assert_eq!(rustix::fs::seek(&lost, rustix::fs::SeekFrom::Hole(100_000)), Ok(128 << 10));
        let mut copy = File::create(m.at("copy")).unwrap();
        io::Seek::rewind(&mut lost).unwrap();
        assert_eq!(errno(io::copy(&mut lost, &mut copy)), EIO);
    }
    let command = |arguments: &[&str]| Command::new("cp").args(arguments).arg(other.at("f")).arg(other.at("copied")).output();
    assert!(!command(&["--sparse=always"]).unwrap().status.success());
    drop(other);
    drop(small);
    drop(disk);
}
