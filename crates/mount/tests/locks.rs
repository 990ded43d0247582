//! Locks of programs, between mounts.

mod stand;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use stand::bounded::{BoundedChild, LIMIT};
use stand::{Stand, wait_until};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

fn opened(path: &std::path::Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// Locks a range for an open file description: in one process, two files are two owners.
fn range(file: &File, kind: i32, start: i64, length: i64) -> Result<(), Errno> {
    let mut lock = libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: start, l_len: length, l_pid: 0 };
    // SAFETY: the structure lives until the call returns.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()),
    }
}

#[test]
fn whole_files_are_locked_between_mounts() {
    needs_mounts!();
    let stand = Stand::new(1);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    let (one, other) = (opened(&a.at("f")), opened(&b.at("f")));
    flock(&one, FlockOperation::LockExclusive).unwrap();
    assert_eq!(flock(&other, FlockOperation::NonBlockingLockShared), Err(Errno::AGAIN));
    flock(&one, FlockOperation::LockShared).unwrap();
    flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
    flock(&other, FlockOperation::Unlock).unwrap();
    drop(one);
    wait_until("a lock that closing freed", || flock(&other, FlockOperation::NonBlockingLockExclusive).is_ok());
}

#[test]
fn ranges_are_locked_divided_and_freed_by_close() {
    needs_mounts!();
    let stand = Stand::new(1);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    let (one, other) = (opened(&a.at("f")), opened(&b.at("f")));
    range(&one, libc::F_WRLCK, 0, 100).unwrap();
    range(&other, libc::F_WRLCK, 100, 0).unwrap();
    assert_eq!(range(&other, libc::F_RDLCK, 99, 1), Err(Errno::AGAIN));
    range(&one, libc::F_UNLCK, 40, 20).unwrap();
    range(&other, libc::F_WRLCK, 40, 20).unwrap();
    assert_eq!(range(&other, libc::F_WRLCK, 60, 1), Err(Errno::AGAIN));
    drop(one);
    wait_until("ranges that closing freed", || range(&other, libc::F_WRLCK, 0, 0).is_ok());
}

#[test]
fn the_two_kinds_of_lock_do_not_meet() {
    needs_mounts!();
    let stand = Stand::new(1);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    let (one, other) = (opened(&a.at("f")), opened(&b.at("f")));
    flock(&one, FlockOperation::LockExclusive).unwrap();
    range(&other, libc::F_WRLCK, 0, 0).unwrap();
    range(&one, libc::F_WRLCK, 0, 0).unwrap_err();
    fcntl_lock(&one, FlockOperation::NonBlockingLockShared).unwrap_err();
}

#[test]
fn a_lock_shows_what_was_written_under_it() {
    needs_mounts!();
    const ROUNDS: u64 = 40;
    let stand = Stand::new(2);
    let mounts = [stand.mount("a"), stand.mount("b")];
    fs::write(mounts[0].at("count"), 0_u64.to_le_bytes()).unwrap();
    std::thread::scope(|scope| {
        for m in mounts.iter().chain(&mounts) {
            scope.spawn(move || {
                // Open all the time: only the lock causes revalidation.
                let file = opened(&m.at("count"));
                for _ in 0..ROUNDS {
                    flock(&file, FlockOperation::LockExclusive).unwrap();
                    let mut count = [0; 8];
                    file.read_exact_at(&mut count, 0).unwrap();
                    let next = u64::from_le_bytes(count) + 1;
                    file.write_all_at(&next.to_le_bytes(), 0).unwrap();
                    flock(&file, FlockOperation::Unlock).unwrap();
                }
            });
        }
    });
    assert_eq!(fs::read(mounts[0].at("count")).unwrap(), (4 * ROUNDS).to_le_bytes());
}

#[test]
fn what_others_append_under_a_lock_is_there_beside_writes_of_another_program() {
    needs_mounts!();
    const RECORDS: u64 = 100;
    const HEAD_BYTES: u64 = 1 << 16;
    let stand = Stand::new(2);
    let mounts = [stand.mount("a"), stand.mount("b")];
    fs::write(mounts[0].at("records"), vec![0; HEAD_BYTES as usize]).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The kernel drops an answer about a file's size if the file is written to or opened before the answer arrives.
        for m in &mounts {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    opened(&m.at("records")).write_all_at(b"busy", 0).unwrap();
                }
            });
        }
        let writers = mounts.iter().chain(&mounts).zip(0_u64..).map(|(m, writer)| {
            scope.spawn(move || {
                let file = opened(&m.at("records"));
                for turn in 0..RECORDS {
                    flock(&file, FlockOperation::LockExclusive).unwrap();
                    let end = file.read_at(&mut vec![0; 1 << 16], HEAD_BYTES).unwrap() as u64;
                    file.write_all_at(&(writer * RECORDS + turn).to_le_bytes(), HEAD_BYTES + end).unwrap();
                    flock(&file, FlockOperation::Unlock).unwrap();
                }
            })
        });
        writers.collect::<Vec<_>>().into_iter().for_each(|writer| writer.join().unwrap());
        over.store(true, Ordering::SeqCst);
    });
    let records = fs::read(mounts[1].at("records")).unwrap().split_off(HEAD_BYTES as usize);
    let mut found: Vec<u64> = records.chunks(8).map(|record| u64::from_le_bytes(record.try_into().unwrap())).collect();
    found.sort_unstable();
    assert_eq!(found, (0..4 * RECORDS).collect::<Vec<_>>());
}

/// A program that waits for a lock, killed when dropped.
struct Waiter(Child);

impl Waiter {
    fn new(path: &std::path::Path) -> Waiter {
        let child = Command::new("flock").arg(path).arg("true").stdout(Stdio::null()).spawn().unwrap();
        Waiter(child)
    }
    /// Whether it sleeps in the kernel, waiting for the file system.
    fn waits(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/wchan", self.0.id())).unwrap_or_default();
        stat.contains("fuse") || stat.contains("request_wait")
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_in_time(LIMIT);
    }
}

#[test]
fn a_signal_ends_a_wait_for_a_lock() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let holder = opened(&m.at("f"));
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let mut waiter = Waiter::new(&m.at("f"));
        wait_until("a program that waits", || waiter.waits() || waiter.0.try_wait().unwrap().is_some());
        assert!(waiter.0.try_wait().unwrap().is_none(), "it did not wait");
        let pid = rustix::process::Pid::from_child(&waiter.0);
        rustix::process::kill_process(pid, signal).unwrap();
        assert_eq!(waiter.0.wait_in_time(LIMIT).unwrap().signal(), Some(signal.as_raw()));
    }
    let mut waiter = Waiter::new(&m.at("f"));
    wait_until("a program that waits", || waiter.waits() || waiter.0.try_wait().unwrap().is_some());
    flock(&holder, FlockOperation::Unlock).unwrap();
    assert!(waiter.0.wait_in_time(LIMIT).unwrap().success(), "who was interrupted does not keep the others from it");
}

#[test]
fn waiting_for_a_lock_keeps_no_other_request_waiting() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let holder = opened(&m.at("f"));
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    let got = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                flock(opened(&m.at("f")), FlockOperation::LockShared).unwrap();
                got.store(true, Ordering::SeqCst);
            });
        }
        for i in 0..100 {
            fs::write(m.at(&format!("g{i}")), "x").unwrap();
        }
        assert!(!got.load(Ordering::SeqCst));
        flock(&holder, FlockOperation::Unlock).unwrap();
    });
    assert!(got.load(Ordering::SeqCst));
}

#[test]
fn a_mount_that_ends_leaves_nothing_locked() {
    needs_mounts!();
    let stand = Stand::new(1);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    let holder = opened(&a.at("f"));
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    let other = opened(&b.at("f"));
    assert_eq!(flock(&other, FlockOperation::NonBlockingLockExclusive), Err(Errno::AGAIN));
    a.mount().unmount(true).unwrap();
    drop(holder);
    drop(a);
    wait_until("a lock that its mount's end freed", || flock(&other, FlockOperation::NonBlockingLockExclusive).is_ok());
}

#[test]
fn locks_outlive_the_services_absence() {
    needs_mounts!();
    let stand = Stand::new(1);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    let (holder, other) = (opened(&a.at("f")), opened(&b.at("f")));
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    stand.stop();
    stand.start();
    let mut refused = 0;
    wait_until("an answer about the lock", || {
        match flock(&other, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN) => refused += 1,
            Err(_) => {}
            Ok(()) => panic!("the lock was lost while its holder lives"),
        }
        refused > 3
    });
    flock(&holder, FlockOperation::Unlock).unwrap();
    wait_until("the lock to be free", || flock(&other, FlockOperation::NonBlockingLockExclusive).is_ok());
}
