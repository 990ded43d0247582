//! A server process killed at any moment: afterwards no undamaged byte is refused, and no damage of what was clean is returned.

use super::*;
use std::io::BufRead;
use std::process::{Command, Stdio};

const CHILD: &str = "THALWEG_TEST_SUMS_KILLED";

/// What the child does until it is killed: changes two datafiles and makes them clean, all the time. Byte `n` of datafile 1 is `n`,
/// of datafile 2 anything.
#[test]
fn child_of_the_test_below() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let target = target(Path::new(&directory));
    let mut random = Random(u64::from(std::process::id()) + 1);
    println!("ready");
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
        }
    }
}

#[test]
fn a_killed_server_leaves_nothing_that_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    // In memory where there is some: thousands of syncs are not the point.
    let directory = tempfile::tempdir_in("/dev/shm").unwrap_or(directory);
    let cycles = std::env::var("THALWEG_TEST_CYCLES").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut random = Random(5);
    let (mut unverified, mut clean) = (0, 0);
    for cycle in 0..cycles {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sums::tests::killed::child_of_the_test_below", "--nocapture"])
            .env(CHILD, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = std::io::BufReader::new(child.stdout.take().unwrap());
        assert!(output.lines().map_while(std::result::Result::ok).any(|line| line.contains("ready")), "it came to its work");
        std::thread::sleep(Duration::from_micros(500 + random.below(20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let target = target(directory.path());
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
        unverified += waiting;
        clean += 2 - waiting;
        if cycle % 3 == 0 {
            settle(&target);
        }
    }
    println!("{cycles} cycles: {unverified} datafiles unverified, {clean} clean");
    assert!(unverified > 0, "none was killed amid its work");
}
