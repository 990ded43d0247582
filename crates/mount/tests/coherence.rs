//! What one mount sees of another's changes.

mod stand;

use stand::Stand;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[test]
fn an_open_after_a_close_sees_what_was_written() {
    needs_mounts!();
    let stand = Stand::new(2);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    for round in 0..30_u32 {
        // The same length each time, so that the size does not reveal the change.
        let text = format!("round {round:06}");
        fs::write(a.at("f"), &text).unwrap();
        assert_eq!(fs::read_to_string(b.at("f")).unwrap(), text);
        let longer = format!("{text} and then some {}", "x".repeat(round as usize * 100));
        fs::write(b.at("f"), &longer).unwrap();
        assert_eq!(fs::read_to_string(a.at("f")).unwrap(), longer);
    }
}

#[test]
fn own_writes_are_seen_at_once_in_reads_and_sizes() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    let writer = File::create(m.at("f")).unwrap();
    let reader = File::open(m.at("f")).unwrap();
    for i in 0..200_u64 {
        writer.write_all_at(&i.to_le_bytes(), i * 5000).unwrap();
        let mut found = [0; 8];
        reader.read_exact_at(&mut found, i * 5000).unwrap();
        assert_eq!(u64::from_le_bytes(found), i);
        assert_eq!(fs::metadata(m.at("f")).unwrap().len(), i * 5000 + 8);
    }
}

#[test]
fn a_strict_mount_sees_at_once_what_another_wrote_and_did_not_close() {
    needs_mounts!();
    let stand = Stand::new(2);
    let (a, b) = (stand.mount_strictly("a"), stand.mount_strictly("b"));
    let writer = File::create(a.at("f")).unwrap();
    let reader = File::open(b.at("f")).unwrap();
    for i in 0..100_u64 {
        writer.write_all_at(&i.to_le_bytes(), 0).unwrap();
        let mut found = [0; 8];
        reader.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(u64::from_le_bytes(found), i);
        writer.write_all_at(b"end", 1000 + i * 10).unwrap();
        assert_eq!(fs::metadata(b.at("f")).unwrap().len(), 1003 + i * 10);
    }
}

#[test]
fn a_reader_that_follows_a_growing_file_sees_its_bytes_and_no_zeroes() {
    needs_mounts!();
    let stand = Stand::new(2);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    let mut writer = File::create(a.at("log")).unwrap();
    writer.write_all(b"first line\n").unwrap();
    writer.sync_all().unwrap();
    let reader = File::open(b.at("log")).unwrap();
    let mut seen = vec![0; 4096];
    let many = reader.read_at(&mut seen, 0).unwrap();
    assert_eq!(&seen[..many], b"first line\n");
    writer.write_all(b"second line\n").unwrap();
    writer.sync_all().unwrap();
    let mut found = Vec::new();
    stand::wait_until("the second line", || {
        let many = reader.read_at(&mut seen, 11).unwrap();
        found = seen[..many].to_vec();
        many > 0
    });
    assert_eq!(found, b"second line\n");
}

#[test]
fn names_that_another_mount_makes_removes_and_replaces_are_seen() {
    needs_mounts!();
    let stand = Stand::new(1);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    assert!(!b.at("f").exists());
    fs::write(a.at("f"), "one").unwrap();
    assert_eq!(fs::read_to_string(b.at("f")).unwrap(), "one", "that it was not there is not remembered");
    fs::write(a.at("new"), "two").unwrap();
    fs::rename(a.at("new"), a.at("f")).unwrap();
    assert_eq!(fs::read_to_string(b.at("f")).unwrap(), "two", "the name of the replaced file is looked up again");
    fs::remove_file(a.at("f")).unwrap();
    stand::wait_until("the name to go", || !b.at("f").exists());
}

/// Calls `truncate(2)`, which takes a path.
fn truncate(path: &Path, size_bytes: i64) -> i32 {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the path is a C string that outlives the call.
    unsafe { libc::truncate(path.as_ptr(), size_bytes) }
}

#[test]
fn emptying_a_name_that_another_mount_moved_away_spares_the_file_that_was_moved() {
    needs_mounts!();
    let stand = Stand::new(2);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    for round in 0..10 {
        fs::write(a.at("log"), format!("old {round}")).unwrap();
        // b may cache this name for this file for a while.
        assert_eq!(fs::read_to_string(b.at("log")).unwrap(), format!("old {round}"));
        fs::rename(a.at("log"), a.at("log.1")).unwrap();
        fs::write(b.at("log"), "new").unwrap();
        assert_eq!(fs::read_to_string(a.at("log.1")).unwrap(), format!("old {round}"));
        assert_eq!(fs::read_to_string(a.at("log")).unwrap(), "new");
        // The same with truncate(2), of a name that has a file again.
        assert_eq!(fs::read_to_string(b.at("log.1")).unwrap(), format!("old {round}"));
        fs::rename(a.at("log.1"), a.at("log.2")).unwrap();
        fs::write(a.at("log.1"), "another").unwrap();
        assert_eq!(truncate(&b.at("log.1"), 3), 0, "{}", std::io::Error::last_os_error());
        assert_eq!(fs::read_to_string(a.at("log.2")).unwrap(), format!("old {round}"));
        assert_eq!(fs::read_to_string(a.at("log.1")).unwrap(), "ano");
    }
}

#[test]
fn a_name_that_another_mount_moved_away_is_a_new_file_though_the_old_one_was_found_again_under_others() {
    needs_mounts!();
    let stand = Stand::new(2);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    for round in 0..5 {
        let name = |what: &str| format!("{what}.{round}");
        fs::write(a.at(&name("first")), "old").unwrap();
        // b caches the first name for this file for a while, finds it under a second, and renames it to a third itself.
        assert!(b.at(&name("first")).exists());
        fs::rename(a.at(&name("first")), a.at(&name("second"))).unwrap();
        assert!(b.at(&name("second")).exists());
        fs::rename(b.at(&name("second")), b.at(&name("third"))).unwrap();
        fs::write(b.at(&name("first")), "new").unwrap();
        assert_eq!(fs::read_to_string(a.at(&name("third"))).unwrap(), "old");
        assert_eq!(fs::read_to_string(a.at(&name("first"))).unwrap(), "new");
    }
    // Hard links are names of the same file too, and stay so: more than are ever checked.
    fs::write(b.at("l0"), "linked").unwrap();
    for number in 1..20 {
        fs::hard_link(b.at("l0"), b.at(&format!("l{number}"))).unwrap();
        assert_eq!(fs::read_to_string(b.at(&format!("l{}", number / 2))).unwrap(), "linked");
    }
    fs::remove_file(a.at("l3")).unwrap();
    fs::write(b.at("l3"), "by itself").unwrap();
    assert_eq!(fs::read_to_string(a.at("l4")).unwrap(), "linked");
}

#[test]
fn a_file_that_was_moved_while_open_is_opened_again_through_its_descriptor() {
    needs_mounts!();
    let stand = Stand::new(1);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    fs::write(a.at("f"), "bytes").unwrap();
    let held = File::open(b.at("f")).unwrap();
    fs::rename(a.at("f"), a.at("g")).unwrap();
    let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
    assert_eq!(fs::read_to_string(&again).unwrap(), "bytes");
    fs::remove_file(a.at("g")).unwrap();
    assert_eq!(fs::read_to_string(&again).unwrap(), "bytes");
}
