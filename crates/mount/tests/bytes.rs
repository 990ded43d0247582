//! Bytes of files through a real mount.

mod stand;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, ftruncate, seek};
use rustix::io::{pread, pwrite};
use rustix::mm::{MapFlags, ProtFlags, mmap, msync, munmap};
use stand::bounded::Bounded;
use stand::{Mounted, Stand, bytes};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};

fn both_ways(m: &Mounted, name: &str) -> File {
    File::options().read(true).write(true).create(true).truncate(true).open(m.at(name)).unwrap()
}

#[test]
fn bytes_come_back_whatever_the_sizes_of_reads_and_writes() {
    needs_mounts!();
    let stand = Stand::new(3);
    for (name, m) in [("default", stand.mount("m")), ("strict", stand.mount_strictly("s"))] {
        let content = bytes(3 << 20, 1);
        for piece in [1000, 4096, 65_536, 1_000_003] {
            let path = m.at(&format!("{name}{piece}"));
            let mut file = File::create(&path).unwrap();
            content.chunks(piece).for_each(|piece| file.write_all(piece).unwrap());
            drop(file);
            assert_eq!(fs::metadata(&path).unwrap().len(), content.len() as u64);
            assert!(fs::read(&path).unwrap() == content, "{name}, written by {piece}");
            let mut file = File::open(&path).unwrap();
            let mut read = Vec::new();
            let mut buffer = vec![0; piece];
            loop {
                match file.read(&mut buffer).unwrap() {
                    0 => break,
                    many => read.extend_from_slice(&buffer[..many]),
                }
            }
            assert!(read == content, "{name}, read by {piece}");
        }
    }
}

/// Large writes are sent from the buffer they were received in, small ones from a copy: the last write wins, while all are in flight and
/// after they have arrived, and no thread's next request overwrites bytes not sent yet.
#[test]
fn large_writes_and_small_ones_over_each_other_leave_what_was_written_last() {
    needs_mounts!();
    const FILE_BYTES: usize = 6 << 20;
    let stand = Stand::new(3);
    let (m, other) = (stand.mount("m"), stand.mount("other"));
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (m, other) = (&m, &other);
            scope.spawn(move || {
                let path = m.at(&format!("f{writer}"));
                let (writes, source) = (File::create(&path).unwrap(), bytes(FILE_BYTES + 4096, writer));
                let reads = File::open(&path).unwrap();
                let mut expected = vec![0; FILE_BYTES];
                writes.set_len(FILE_BYTES as u64).unwrap();
                for n in 0..120 {
                    let random =
                        |at: usize, below: usize| u64::from_le_bytes(source[8 * (3 * n + at)..][..8].try_into().unwrap()) as usize % below;
                    let most = [9_000, 2 << 20, 70_000, 600_000][random(0, 4)];
                    let length = 1 + random(1, most);
                    let (at, from) = (random(2, FILE_BYTES - length), n % 4096);
                    writes.write_all_at(&source[from..from + length], at as u64).unwrap();
                    expected[at..at + length].copy_from_slice(&source[from..from + length]);
                    if n % 5 == 0 {
                        let (from, to) = (at.saturating_sub(1000), (at + length + 1000).min(FILE_BYTES));
                        let mut found = vec![0; to - from];
                        reads.read_exact_at(&mut found, from as u64).unwrap();
                        assert!(found == expected[from..to], "file {writer}, after write {n}");
                    }
                }
                drop(writes);
                assert!(fs::read(&path).unwrap() == expected, "file {writer}");
                assert!(fs::read(other.at(&format!("f{writer}"))).unwrap() == expected, "file {writer}, seen by another client");
            });
        }
    });
}

#[test]
fn holes_read_as_zeroes_and_take_no_space() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    let file = both_ways(&m, "f");
    pwrite(&file, b"end", 100 << 20).unwrap();
    let stat = file.metadata().unwrap();
    assert_eq!(stat.len(), (100 << 20) + 3);
    let mut found = [1; 4096];
    pread(&file, &mut found, 50 << 20).unwrap();
    assert_eq!(found, [0; 4096]);
    file.sync_all().unwrap();
    assert!(file.metadata().unwrap().blocks() * 512 < 1 << 20);
    assert_eq!(seek(&file, SeekFrom::Data(0)).map(|at| at <= 100 << 20 && at > 50 << 20), Ok(true));
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(0));
    assert_eq!(seek(&file, SeekFrom::Data(200 << 20)), Err(rustix::io::Errno::NXIO));
}

#[test]
fn truncation_cuts_extends_and_leaves_zeroes() {
    needs_mounts!();
    let stand = Stand::new(3);
    let m = stand.mount("m");
    let file = both_ways(&m, "f");
    let content = bytes(500_000, 2);
    file.write_all_at(&content, 0).unwrap();
    ftruncate(&file, 300_001).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 300_001);
    ftruncate(&file, 400_000).unwrap();
    let mut found = vec![1; 400_000];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found[..300_001] == content[..300_001] && found[300_001..].iter().all(|b| *b == 0));
    fs::write(m.at("f"), "short").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 5);
    let mut end = [0; 10];
    assert_eq!(pread(&file, &mut end, 0).unwrap(), 5);
}

#[test]
fn ranges_are_allocated_punched_and_zeroed() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    let file = both_ways(&m, "f");
    let content = bytes(1 << 20, 3);
    file.write_all_at(&content, 0).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if let Err(rustix::io::Errno::OPNOTSUPP) = fallocate(&file, punch, 100_000, 300_000) {
        println!("SKIPPED: the file system under the targets cannot punch holes");
        return;
    }
    let mut expected = content.clone();
    expected[100_000..400_000].fill(0);
    let mut found = vec![0; 1 << 20];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found == expected);
    fallocate(&file, FallocateFlags::empty(), 0, 2 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2 << 20);
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 4 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2 << 20);
    fallocate(&file, FallocateFlags::ZERO_RANGE, 0, 10).unwrap();
    expected[..10].fill(0);
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found == expected);
    assert_eq!(fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096), Err(rustix::io::Errno::OPNOTSUPP));
}

/// A mapped file, unmapped when dropped.
struct Map(*mut u8, usize);

impl Map {
    fn new(file: &File, length: usize, flags: MapFlags) -> Map {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel chooses.
        Map(unsafe { mmap(std::ptr::null_mut(), length, protection, flags, file, 0) }.unwrap().cast(), length)
    }
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has this length, lives as long as self, and this process does not truncate the file.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1) }
    }
    fn sync(&self) {
        // SAFETY: the mapping is ours.
        unsafe { msync(self.0.cast(), self.1, rustix::mm::MsyncFlags::SYNC) }.unwrap();
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice of it remains.
        let _ = unsafe { munmap(self.0.cast(), self.1) };
    }
}

#[test]
fn maps_are_read_written_and_private() {
    needs_mounts!();
    let stand = Stand::new(2);
    for m in [stand.mount("m"), stand.mount_strictly("s")] {
        let file = both_ways(&m, "f");
        let content = bytes(200_000, 4);
        file.write_all_at(&content, 0).unwrap();
        let mut private = Map::new(&file, 200_000, MapFlags::PRIVATE);
        assert!(private.bytes() == content);
        private.bytes()[0] ^= 1;
        let mut shared = Map::new(&file, 200_000, MapFlags::SHARED);
        assert!(shared.bytes() == content, "a private map's writes are its own");
        shared.bytes()[150_000..150_005].copy_from_slice(b"hello");
        shared.sync();
        drop(shared);
        let mut found = [0; 5];
        file.read_exact_at(&mut found, 150_000).unwrap();
        assert_eq!(&found, b"hello");
        drop(file);
        drop(private);
        let other = stand.mount("other");
        assert_eq!(&fs::read(other.at("f")).unwrap()[150_000..150_005], b"hello");
        drop(other);
        fs::remove_file(m.at("f")).unwrap();
    }
}

#[test]
fn writing_drops_set_user_for_those_who_may_not_keep_it() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    fs::write(m.at("f"), "x").unwrap();
    std::os::unix::fs::chown(m.at("f"), Some(1234), Some(1234)).unwrap();
    fs::set_permissions(m.at("f"), fs::Permissions::from_mode(0o6777)).unwrap();
    assert_eq!(fs::metadata(m.at("f")).unwrap().mode() & 0o7777, 0o6777);
    let mut permissions = fs::metadata(stand.directory.path()).unwrap().permissions();
    permissions.set_mode(0o755);
    fs::set_permissions(stand.directory.path(), permissions).unwrap();
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg("printf y >> \"$0\"").arg(m.at("f"));
    std::os::unix::process::CommandExt::uid(&mut command, 1234);
    std::os::unix::process::CommandExt::gid(&mut command, 1234);
    assert!(command.status_in_time().unwrap().success());
    assert_eq!(fs::metadata(m.at("f")).unwrap().mode() & 0o7777, 0o777);
    assert_eq!(fs::read_to_string(m.at("f")).unwrap(), "xy");
}

#[test]
fn appends_through_two_mounts_neither_overlap_nor_leave_holes() {
    needs_mounts!();
    const RECORDS: usize = 60;
    let stand = Stand::new(2);
    let mounts = [stand.mount("a"), stand.mount("b")];
    File::create(mounts[0].at("log")).unwrap();
    std::thread::scope(|scope| {
        for (writer, m) in (0_u8..).zip(mounts.iter().chain(mounts.iter())) {
            scope.spawn(move || {
                let mut log = File::options().append(true).open(m.at("log")).unwrap();
                for number in 0..RECORDS {
                    let mut record = format!("{writer} {number:04} ").into_bytes();
                    record.resize(1000, b'a' + writer);
                    record[999] = b'\n';
                    log.write_all(&record).unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(mounts[1].at("log")).unwrap();
    let mut next = [0; 4];
    for line in text.lines() {
        let (writer, number) = (line[..1].parse::<usize>().unwrap(), line[2..6].parse::<usize>().unwrap());
        assert_eq!((line.len(), number), (999, next[writer]), "each writer's records in its order");
        next[writer] += 1;
    }
    assert_eq!(next, [RECORDS; 4]);
}

#[test]
fn direct_and_synchronous_files_work_like_others() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    let mut how = File::options();
    how.read(true).write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT | libc::O_SYNC);
    let file = how.open(m.at("f")).unwrap();
    let memory = bytes(1 << 16, 5);
    file.write_all_at(&memory, 4096).unwrap();
    let mut found = vec![0; 1 << 16];
    file.read_exact_at(&mut found, 4096).unwrap();
    assert!(found == memory);
    let mut whole = fs::File::open(m.at("f")).unwrap();
    assert_eq!(whole.seek(std::io::SeekFrom::End(0)).unwrap(), 4096 + (1 << 16));
}

#[test]
fn a_file_ends_where_the_store_says_it_may() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let file = both_ways(&m, "f");
    assert!(pwrite(&file, b"x", i64::MAX as u64).is_err());
    assert_eq!(file.metadata().unwrap().len(), 0);
}

#[test]
fn space_is_counted_once_for_each_file_system() {
    needs_mounts!();
    let stand = Stand::new(3);
    let m = stand.mount("m");
    let space = rustix::fs::statvfs(m.path()).unwrap();
    let below = rustix::fs::statvfs(stand.directory.path()).unwrap();
    let bytes = |s: &rustix::fs::StatVfs| s.f_blocks * s.f_frsize;
    let (ours, theirs) = (bytes(&space) as f64, bytes(&below) as f64);
    assert!((ours / theirs - 1.0).abs() < 0.01, "{ours} of {theirs}");
    assert_eq!(space.f_namemax, 255);
}

#[test]
fn a_range_is_copied_from_file_to_file_and_its_holes_stay_holes() {
    needs_mounts!();
    let stand = Stand::new(2);
    for (name, m) in [("default", stand.mount("m")), ("strict", stand.mount_strictly("s"))] {
        let from = both_ways(&m, &format!("{name}-from"));
        let (islands, size) = ([0, 30 << 20, (60 << 20) + 5], 70 << 20);
        ftruncate(&from, size).unwrap();
        islands.iter().for_each(|at| from.write_all_at(&bytes(300_000, *at), *at).unwrap());
        let to = both_ways(&m, &format!("{name}-to"));
        // Earlier content must not show through.
        to.write_all_at(&bytes(200_000, 9), 10 << 20).unwrap();
        let (mut from_offset, mut to_offset, begun) = (0, 0, std::time::Instant::now());
        loop {
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "it does not come to an end");
            match rustix::fs::copy_file_range(&from, Some(&mut from_offset), &to, Some(&mut to_offset), 1 << 40).unwrap() {
                0 => break,
                many => assert!(many as u64 <= size, "{many}"),
            }
        }
        assert_eq!((from_offset, to_offset), (size, size));
        to.sync_all().unwrap();
        assert!(fs::read(m.at(&format!("{name}-from"))).unwrap() == fs::read(m.at(&format!("{name}-to"))).unwrap(), "{name}");
        let taken = to.metadata().unwrap().blocks() * 512;
        assert!((900_000..2 << 20).contains(&taken), "{name}: {taken} bytes on disk");
    }
}

#[test]
fn a_write_that_no_target_can_hold_is_too_large_when_it_is_made_and_leaves_the_file_as_it_was() {
    needs_mounts!();
    const END: u64 = i64::MAX as u64;
    let stand = Stand::new(3);
    for (name, m) in [("default", stand.mount("m")), ("strict", stand.mount_strictly("s"))] {
        for (offset, length) in [(END - 1, 1), (END - 2, 2), (END - 3, 1), (1 << 62, 5), (1 << 50, 5)] {
            let what = format!("{name}, {length} bytes at {offset}");
            fs::write(m.at("f"), "kept").unwrap();
            let file = File::options().read(true).write(true).open(m.at("f")).unwrap();
            // If the targets' file system has no limit, the bytes are stored.
            let size = match pwrite(&file, &b"bytes"[..length], offset) {
                Ok(written) => {
                    assert_eq!(written, length, "{what}");
                    offset + length as u64
                }
                Err(error) => {
                    assert_eq!(error, rustix::io::Errno::FBIG, "{what}");
                    4
                }
            };
            file.sync_all().unwrap();
            assert_eq!(file.metadata().unwrap().len(), size, "{what}");
            drop(file);
            let again = File::open(m.at("f")).unwrap();
            assert_eq!(again.metadata().unwrap().len(), size, "{what}");
            let mut found = [0; 4];
            again.read_exact_at(&mut found, 0).unwrap();
            assert_eq!(&found, b"kept", "{what}");
            if size > 4 {
                let mut found = vec![0; length];
                again.read_exact_at(&mut found, offset).unwrap();
                assert_eq!(found, b"bytes"[..length], "{what}");
            }
        }
        let file = both_ways(&m, "f");
        // The kernel itself rejects this offset.
        assert!(matches!(pwrite(&file, b"x", END), Err(rustix::io::Errno::FBIG | rustix::io::Errno::INVAL)), "{name}");
        for asked in [ftruncate(&file, END), fallocate(&file, FallocateFlags::empty(), END - 1, 1)] {
            assert!(matches!(asked, Ok(()) | Err(rustix::io::Errno::FBIG | rustix::io::Errno::NOSPC)), "{name}: {asked:?}");
        }
    }
}
