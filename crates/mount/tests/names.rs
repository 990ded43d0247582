//! Names of files through a real mount.

mod stand;

use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, Timespec, Timestamps, UTIME_OMIT};
use stand::Stand;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

#[test]
fn files_and_directories_have_the_modes_owners_and_numbers_they_were_made_with() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    fs::create_dir(m.at("d")).unwrap();
    fs::write(m.at("d/f"), "x").unwrap();
    fs::set_permissions(m.at("d/f"), fs::Permissions::from_mode(0o4711)).unwrap();
    std::os::unix::fs::chown(m.at("d/f"), Some(7), Some(8)).unwrap();
    let f = fs::metadata(m.at("d/f")).unwrap();
    assert_eq!((f.mode() & 0o7777, f.uid(), f.gid(), f.len(), f.nlink()), (0o711, 7, 8, 1, 1), "a change of owner drops set-user");
    let listed: Vec<_> = fs::read_dir(m.at("d")).unwrap().map(|e| e.unwrap()).collect();
    assert_eq!(listed.len(), 1);
    assert_eq!(std::os::unix::fs::DirEntryExt::ino(&listed[0]), f.ino());
    assert_eq!(fs::metadata(m.path()).unwrap().nlink(), 3);
    let again = stand.mount("again");
    assert_eq!(fs::metadata(again.at("d/f")).unwrap().ino(), f.ino(), "numbers are the store's");
}

#[test]
fn times_are_set_left_and_moved_as_asked() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    fs::write(m.at("f"), "x").unwrap();
    let set = |last_access, last_modification| {
        let times = Timestamps { last_access, last_modification };
        rustix::fs::utimensat(CWD, m.at("f"), &times, AtFlags::empty()).unwrap();
    };
    set(Timespec { tv_sec: 1000, tv_nsec: 1 }, Timespec { tv_sec: -5, tv_nsec: 999_999_999 });
    let f = fs::metadata(m.at("f")).unwrap();
    assert_eq!((f.atime(), f.atime_nsec(), f.mtime(), f.mtime_nsec()), (1000, 1, -5, 999_999_999));
    set(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ }, Timespec { tv_sec: 2000, tv_nsec: 0 });
    let f = fs::metadata(m.at("f")).unwrap();
    assert_eq!((f.atime(), f.mtime()), (1000, 2000));
    let changed = (f.ctime(), f.ctime_nsec());
    fs::set_permissions(m.at("f"), fs::Permissions::from_mode(0o600)).unwrap();
    let f = fs::metadata(m.at("f")).unwrap();
    assert!((f.ctime(), f.ctime_nsec()) > changed, "a change of mode is a change");
    assert_eq!(f.mtime(), 2000, "but not of content");
}

#[test]
fn a_time_that_is_set_before_close_stays() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let mut file = fs::File::create(m.at("f")).unwrap();
    std::io::Write::write_all(&mut file, b"copied with its time").unwrap();
    let times = Timestamps { last_access: Timespec { tv_sec: 500, tv_nsec: 0 }, last_modification: Timespec { tv_sec: 600, tv_nsec: 0 } };
    rustix::fs::futimens(&file, &times).unwrap();
    drop(file);
    assert_eq!(fs::metadata(m.at("f")).unwrap().mtime(), 600);
}

#[test]
fn links_of_both_kinds() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    fs::write(m.at("f"), "one").unwrap();
    fs::hard_link(m.at("f"), m.at("g")).unwrap();
    assert_eq!(fs::metadata(m.at("f")).unwrap().nlink(), 2);
    fs::write(m.at("g"), "two").unwrap();
    assert_eq!(fs::read_to_string(m.at("f")).unwrap(), "two");
    fs::remove_file(m.at("f")).unwrap();
    assert_eq!(fs::metadata(m.at("g")).unwrap().nlink(), 1);
    assert_eq!(fs::read_to_string(m.at("g")).unwrap(), "two");
    symlink("g", m.at("l")).unwrap();
    assert_eq!(fs::read_link(m.at("l")).unwrap().to_str(), Some("g"));
    assert_eq!(fs::symlink_metadata(m.at("l")).unwrap().len(), 1);
    assert_eq!(fs::read_to_string(m.at("l")).unwrap(), "two");
    symlink("nowhere", m.at("n")).unwrap();
    assert_eq!(fs::read(m.at("n")).unwrap_err().kind(), ErrorKind::NotFound);
    fs::write(m.at("n"), "made through it").unwrap();
    assert_eq!(fs::read_to_string(m.at("nowhere")).unwrap(), "made through it");
}

#[test]
fn rename_replaces_refuses_and_exchanges() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let text = |name: &str| fs::read_to_string(m.at(name)).unwrap();
    fs::write(m.at("a"), "a").unwrap();
    fs::write(m.at("b"), "b").unwrap();
    let with = |from: &str, to: &str, flags| rustix::fs::renameat_with(CWD, m.at(from), CWD, m.at(to), flags);
    assert_eq!(with("a", "b", RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    with("a", "b", RenameFlags::EXCHANGE).unwrap();
    assert_eq!((text("a"), text("b")), ("b".into(), "a".into()));
    fs::rename(m.at("a"), m.at("b")).unwrap();
    assert_eq!((text("b").as_str(), m.at("a").exists()), ("b", false));
    fs::create_dir_all(m.at("d/e")).unwrap();
    fs::write(m.at("d/e/f"), "deep").unwrap();
    fs::rename(m.at("d/e"), m.at("e")).unwrap();
    assert_eq!(text("e/f"), "deep");
    assert_eq!(fs::rename(m.at("e"), m.at("e/f2")).unwrap_err().raw_os_error(), Some(22), "a directory into itself");
    fs::create_dir(m.at("full")).unwrap();
    fs::write(m.at("full/x"), "").unwrap();
    assert_eq!(fs::rename(m.at("e"), m.at("full")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    assert_eq!(fs::remove_dir(m.at("full")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
}

#[test]
fn special_files_are_what_they_were_made_as() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let make = |name: &str, kind, device| rustix::fs::mknodat(CWD, m.at(name), kind, Mode::from_raw_mode(0o640), device).unwrap();
    make("pipe", FileType::Fifo, 0);
    make("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3));
    make("plain", FileType::RegularFile, 0);
    let _socket = std::os::unix::net::UnixListener::bind(m.at("socket")).unwrap();
    let kind = |name: &str| fs::metadata(m.at(name)).unwrap();
    assert!(kind("pipe").file_type().is_fifo() && kind("socket").file_type().is_socket() && kind("plain").is_file());
    assert!(kind("null").file_type().is_char_device());
    assert_eq!(kind("null").rdev(), rustix::fs::makedev(1, 3));
    let pipe = m.at("pipe");
    let writer = std::thread::spawn(move || fs::write(pipe, "through the pipe").unwrap());
    assert_eq!(fs::read_to_string(m.at("pipe")).unwrap(), "through the pipe");
    writer.join().unwrap();
}

#[test]
fn a_set_group_directory_hands_its_group_down() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    fs::create_dir(m.at("d")).unwrap();
    std::os::unix::fs::chown(m.at("d"), None, Some(77)).unwrap();
    fs::set_permissions(m.at("d"), fs::Permissions::from_mode(0o2775)).unwrap();
    fs::create_dir(m.at("d/sub")).unwrap();
    fs::write(m.at("d/f"), "").unwrap();
    let sub = fs::metadata(m.at("d/sub")).unwrap();
    assert_eq!((sub.gid(), sub.mode() & 0o2000), (77, 0o2000));
    assert_eq!(fs::metadata(m.at("d/f")).unwrap().gid(), 77);
}

#[test]
fn a_large_directory_lists_every_name_once_with_its_size() {
    needs_mounts!();
    const NAMES: usize = 1500;
    let stand = Stand::new(2);
    let m = stand.mount("m");
    fs::create_dir(m.at("d")).unwrap();
    for i in 0..NAMES {
        fs::write(m.at(&format!("d/{i}")), vec![b'x'; i % 7]).unwrap();
    }
    let other = stand.mount("other");
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(other.at("d")).unwrap() {
        let entry = entry.unwrap();
        let number: usize = entry.file_name().to_str().unwrap().parse().unwrap();
        assert_eq!(entry.metadata().unwrap().len(), (number % 7) as u64);
        assert!(seen.insert(number), "{number} twice");
    }
    assert_eq!(seen.len(), NAMES);
    for entry in fs::read_dir(m.at("d")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    fs::remove_dir(m.at("d")).unwrap();
}

#[test]
fn a_removed_file_that_is_open_is_read_and_written_until_it_is_closed() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    let file = fs::File::options().read(true).write(true).create(true).truncate(true).open(m.at("f")).unwrap();
    rustix::io::pwrite(&file, b"still here", 0).unwrap();
    fs::remove_file(m.at("f")).unwrap();
    assert!(!m.at("f").exists());
    rustix::io::pwrite(&file, b"and longer", 70_000).unwrap();
    let mut found = [0; 10];
    rustix::io::pread(&file, &mut found, 0).unwrap();
    assert_eq!(&found, b"still here");
    let stat = file.metadata().unwrap();
    assert_eq!((stat.nlink(), stat.len()), (0, 70_010));
    rustix::fs::ftruncate(&file, 5).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 5);
    // Its bytes are deleted when it is closed, without any further request to the mount.
    assert!(!stand.datafiles().is_empty());
    drop(file);
    stand::wait_until("its bytes are gone", || stand.datafiles().is_empty());
}

#[test]
fn a_removed_directory_is_still_a_directory_to_those_who_have_it_open() {
    needs_mounts!();
    let stand = Stand::new(1);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    fs::create_dir(a.at("d")).unwrap();
    let (here, there) = (fs::File::open(a.at("d")).unwrap(), fs::File::open(b.at("d")).unwrap());
    fs::remove_dir(a.at("d")).unwrap();
    for held in [here, there] {
        let known = held.metadata().unwrap();
        assert!(known.is_dir());
    }
    assert_eq!(fs::metadata(a.at("d")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn names_in_a_directory_that_another_client_removed_are_not_there_and_files_of_it_are_stale() {
    needs_mounts!();
    use rustix::io::Errno;
    let stand = Stand::new(2);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    for round in 0..3 {
        fs::create_dir_all(a.at("d/sub")).unwrap();
        fs::write(a.at("d/f"), "x").unwrap();
        let d = rustix::fs::open(a.at("d"), flags, Mode::empty()).unwrap();
        let file = File::open(a.at("d/f")).unwrap();
        let mode = Mode::from_raw_mode(0o700);
        fs::remove_dir_all(b.at("d")).unwrap();
        let made = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CREATE;
        let refused = [
            ("openat", rustix::fs::openat(&d, "f", rustix::fs::OFlags::RDONLY, mode).map(drop)),
            ("openat, made", rustix::fs::openat(&d, "g", made, mode).map(drop)),
            ("mkdirat", rustix::fs::mkdirat(&d, "g", mode)),
            ("mknodat", rustix::fs::mknodat(&d, "g", FileType::Fifo, mode, 0)),
            ("symlinkat", rustix::fs::symlinkat("x", &d, "g")),
            (
                "linkat",
                rustix::fs::linkat(CWD, a.path(), &d, "g", AtFlags::empty()).map_err(|e| if e == Errno::PERM { Errno::NOENT } else { e }),
            ),
            ("statat", rustix::fs::statat(&d, "f", AtFlags::SYMLINK_NOFOLLOW).map(drop)),
            ("unlinkat", rustix::fs::unlinkat(&d, "f", AtFlags::empty())),
            ("unlinkat, a directory", rustix::fs::unlinkat(&d, "sub", AtFlags::REMOVEDIR)),
            ("renameat", rustix::fs::renameat(&d, "f", CWD, a.at("elsewhere"))),
            ("rmdir", rustix::fs::rmdir(a.at("d"))),
        ];
        for (what, refused) in refused {
            assert_eq!(refused, Err(Errno::NOENT), "{what}, round {round}");
        }
        let listed: Vec<_> = rustix::fs::Dir::read_from(&d).unwrap().collect();
        assert!(listed.iter().all(|entry| matches!(entry, Ok(_) | Err(Errno::NOENT))), "{listed:?}");
        // An open file can be read to its end.
        assert_eq!(file.metadata().unwrap().len(), 1);
    }
}

#[test]
fn rm_rf_beside_another_client_that_removes_the_same_tree_succeeds() {
    needs_mounts!();
    let stand = Stand::new(2);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    for round in 0..10 {
        for at in 0..60 {
            fs::create_dir_all(a.at(&format!("t/{}/{at}", at % 6))).unwrap();
            fs::write(a.at(&format!("t/{}/{at}/f", at % 6)), "").unwrap();
        }
        let remove = |m: &stand::Mounted| std::process::Command::new("rm").arg("-rf").arg(m.at("t")).output().unwrap();
        let both = std::thread::scope(|scope| [&a, &b].map(|m| scope.spawn(move || remove(m))).map(|rm| rm.join().unwrap()));
        for rm in both {
            assert!(rm.status.success(), "round {round}: {}", String::from_utf8_lossy(&rm.stderr));
        }
        assert!(!a.at("t").exists() && !b.at("t").exists());
    }
}

#[test]
fn exclusive_creation_succeeds_once_over_two_mounts() {
    needs_mounts!();
    let stand = Stand::new(1);
    let mounts = [stand.mount("a"), stand.mount("b")];
    for round in 0..50 {
        let made: usize = std::thread::scope(|scope| {
            let tries: Vec<_> = mounts
                .iter()
                .map(|m| scope.spawn(move || fs::File::options().write(true).create_new(true).open(m.at(&format!("f{round}"))).is_ok()))
                .collect();
            tries.into_iter().map(|t| usize::from(t.join().unwrap())).sum()
        });
        assert_eq!(made, 1, "round {round}");
    }
}

#[test]
fn what_the_kernel_forgets_is_not_kept() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let files = 2000;
    for i in 0..files {
        fs::write(m.at(&format!("f{i}")), "").unwrap();
    }
    for round in 0..50 {
        for i in 0..files {
            fs::symlink_metadata(m.at(&format!("f{i}"))).unwrap();
        }
        assert!(m.counter("/known") <= files, "round {round}");
    }
    for i in 0..files {
        fs::remove_file(m.at(&format!("f{i}"))).unwrap();
    }
    stand::wait_until("an empty table", || m.counter("/known") == 0);
}

#[test]
fn a_directory_of_the_store_is_mounted_alone() {
    needs_mounts!();
    let stand = Stand::new(1);
    let all = stand.mount("all");
    fs::create_dir_all(all.at("d/sub")).unwrap();
    fs::write(all.at("d/sub/f"), "in it").unwrap();
    let part = stand.mount_with("part", |options| options.directory = "/d".into());
    assert_eq!(fs::read_to_string(part.at("sub/f")).unwrap(), "in it");
    assert_eq!(fs::read_dir(part.path()).unwrap().count(), 1);
    fs::write(part.at("g"), "from it").unwrap();
    // The other mount made the directory, and believes for a moment longer that the name is absent.
    stand::wait_until("the name", || all.at("d/g").exists());
    assert_eq!(fs::read_to_string(all.at("d/g")).unwrap(), "from it");
    assert_eq!(fs::metadata(part.path()).unwrap().ino(), fs::metadata(all.at("d")).unwrap().ino());
    let read_only = stand.mount_with("ro", |options| options.read_only = true);
    assert_eq!(fs::write(read_only.at("x"), "").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn the_time_before_close_is_the_time_after_it() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    let times = |f: fs::Metadata| (f.mtime(), f.mtime_nsec(), f.ctime(), f.ctime_nsec(), f.len());
    let mut file = fs::File::create(m.at("f")).unwrap();
    std::io::Write::write_all(&mut file, b"what git writes").unwrap();
    let before = times(file.metadata().unwrap());
    drop(file);
    let other = stand.mount("other");
    assert_eq!(times(fs::metadata(other.at("f")).unwrap()), before);
    assert_eq!(times(fs::metadata(m.at("f")).unwrap()), before);
}

#[test]
fn names_that_another_mount_makes_beside_ours_are_found_and_never_made_twice() {
    needs_mounts!();
    let stand = Stand::new(1);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    fs::create_dir(a.at("d")).unwrap();
    for round in 0..50 {
        // The mount knows all names of this directory, and need not look up the next.
        fs::write(a.at(&format!("d/ours {round}")), "ours").unwrap();
        let theirs = format!("d/theirs {round}");
        fs::write(b.at(&theirs), "theirs").unwrap();
        if round % 2 == 0 {
            let refused = File::options().write(true).create_new(true).open(a.at(&theirs)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "round {round}");
        } else {
            let mut file = File::options().append(true).create(true).open(a.at(&theirs)).unwrap();
            file.write_all(b", and ours").unwrap();
            drop(file);
            assert_eq!(fs::read_to_string(b.at(&theirs)).unwrap(), "theirs, and ours", "round {round}");
        }
        let seen_later = format!("d/seen {round}");
        fs::write(a.at(&format!("d/more {round}")), "ours").unwrap();
        fs::write(b.at(&seen_later), "theirs").unwrap();
        stand::wait_until("the name", || a.at(&seen_later).exists());
    }
    assert_eq!(fs::read_dir(a.at("d")).unwrap().count(), 200);
}

#[test]
fn names_made_moved_and_removed_here_are_as_they_are_at_once() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    fs::create_dir(m.at("d")).unwrap();
    fs::create_dir(m.at("e")).unwrap();
    let missing = |name: &str| fs::metadata(m.at(name)).is_err_and(|e| e.kind() == ErrorKind::NotFound);
    for round in 0..30 {
        let before = fs::metadata(m.at("d")).unwrap();
        let (one, other) = (format!("d/one {round}"), format!("e/other {round}"));
        assert!(missing(&one) && missing(&other));
        fs::write(m.at(&one), "1").unwrap();
        let after = fs::metadata(m.at("d")).unwrap();
        assert!((after.mtime(), after.mtime_nsec()) > (before.mtime(), before.mtime_nsec()), "the directory's time is the change's");
        fs::rename(m.at(&one), m.at(&other)).unwrap();
        assert!(missing(&one) && fs::read_to_string(m.at(&other)).unwrap() == "1");
        fs::hard_link(m.at(&other), m.at(&one)).unwrap();
        assert_eq!(fs::metadata(m.at(&one)).unwrap().nlink(), 2);
        fs::remove_file(m.at(&one)).unwrap();
        assert!(missing(&one));
        fs::create_dir(m.at(&one)).unwrap();
        assert_eq!(fs::metadata(m.at("d")).unwrap().nlink(), 3 + round);
        let link = format!("d/link {round}");
        symlink("one 0", m.at(&link)).unwrap();
        assert!(missing(&format!("{one}/below")) && fs::read_link(m.at(&link)).is_ok());
    }
}
