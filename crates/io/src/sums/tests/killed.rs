//! A server process killed, or its file system shut down, at any moment: afterwards no undamaged byte is
//! refused.

use super::*;
use std::io::BufRead;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

const CHILD: &str = "THALWEG_TEST_SUMS_KILLED";

/// What the child does until it is killed: changes two datafiles and makes them clean, all the time. Byte `n` of datafile 1 is `n`,
/// of datafile 2 anything.
#[test]
fn child_of_the_tests_below() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let target = target(Path::new(&directory));
    let mut random = Random(u64::from(std::process::id()) + 1);
    println!("ready");
    // An error is the end: of the file system.
    loop {
        for file in [1, 2] {
            let id = DatafileId { file: FileId(file), ..ID };
            let (at, length) = (random.below(150_000), random.below(12_000));
            let bytes = match file {
                1 => (at..at + length).map(|n| n as u8).collect(),
                _ => random.bytes(length),
            };
            target.created(id).unwrap().write(&bytes, at).unwrap();
        }
        if random.below(30) == 0 {
            let id = DatafileId { file: FileId(2), ..ID };
            target.truncate(id, random.below(150_000)).unwrap();
        }
        if random.below(20) == 0 {
            target.settle(Duration::ZERO);
            // Clean for a while.
            std::thread::sleep(Duration::from_millis(random.below(2) * 4));
        }
    }
}

/// Runs the child in a directory again and again, ends it by `end`, and checks what it left.
fn cycles(directory: &Path, default: u64, end: &mut dyn FnMut(&mut Child, &mut Random)) {
    let cycles = std::env::var("THALWEG_TEST_CYCLES").ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let mut random = Random(5);
    let (mut unverified, mut clean) = (0, 0);
    for cycle in 0..cycles {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sums::tests::killed::child_of_the_tests_below", "--nocapture"])
            .env(CHILD, directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
        assert!(output.any(|line| line.contains("ready")), "it came to its work");
        std::thread::sleep(Duration::from_micros(500 + random.below(40_000)));
        end(&mut child, &mut random);
        child.wait().unwrap();
        let target = target(directory);
        for file in [1, 2] {
            let id = DatafileId { file: FileId(file), ..ID };
            let Some(datafile) = target.existing(id).unwrap() else { continue };
            let mut bytes = vec![0; 300_000];
            let have = datafile.read(&mut bytes, 0).unwrap();
            if file == 1 {
                let is_right = bytes[..have].iter().enumerate().all(|(n, byte)| *byte == n as u8 || *byte == 0);
                assert!(is_right, "cycle {cycle}");
            }
        }
        let (_, waiting) = target.waiting();
        assert_eq!(target.sums().damaged(), 0, "cycle {cycle}");
        unverified += waiting;
        clean += 2 - waiting;
        if cycle % 3 == 0 {
            settle(&target);
        }
    }
    println!("{cycles} cycles: {unverified} datafiles unverified, {clean} clean");
    assert!(unverified > 0 && clean > 0, "{unverified} {clean}");
}

#[test]
fn a_killed_server_leaves_nothing_that_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    // In memory where there is some: thousands of syncs are not the point.
    let directory = tempfile::tempdir_in("/dev/shm").unwrap_or(directory);
    cycles(directory.path(), 40, &mut |child, _| child.kill().unwrap());
}

/// `EXT4_IOC_SHUTDOWN`: the file system takes nothing any more, as when power is lost.
const SHUTDOWN: libc::c_ulong = 0x8004_587D;
/// Its argument: the journal is written out first, or is not.
const WITH_JOURNAL: u32 = 1;
const WITHOUT_JOURNAL: u32 = 2;

#[test]
fn a_file_system_that_is_shut_down_leaves_nothing_that_is_refused() {
    crate::lots::tests::mounted::on("ext4", 64, |point| {
        let image = point.with_file_name("image");
        cycles(&point.join("target"), 15, &mut |child, random| {
            let how = if random.below(3) == 0 { WITH_JOURNAL } else { WITHOUT_JOURNAL };
            let root = std::fs::File::open(point).unwrap();
            // SAFETY: an open descriptor, and a number that the kernel reads.
            let done = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN as _, &raw const how) };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            drop(root);
            let _ = child.kill();
            child.wait().unwrap();
            assert!(Command::new("umount").arg(point).status().unwrap().success());
            assert!(Command::new("mount").args(["-o", "loop"]).args([&*image, point]).status().unwrap().success());
        });
    });
}
