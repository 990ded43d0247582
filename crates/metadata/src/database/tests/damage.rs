//! Starts on a metadata directory with damaged or missing parts: they restore everything acknowledged, or fail with an error that gives the
//! remedy.

use super::*;
use crate::database::embedded::{Embedded, Options};
use crate::database::{Database, DatabaseError, Table, Unwatched, write};
use std::path::{Path, PathBuf};

/// Accepts a damaged log.
const DROP: Options = Options { drop_damaged: true, ..LARGE };
const HEADER_BYTES: usize = 40;

/// Returns the offset of each record of a segment, and of the segment's end.
fn records(segment: &[u8]) -> Vec<usize> {
    let mut at = vec![HEADER_BYTES];
    while let Some(length) = segment.get(at[at.len() - 1]..).and_then(|rest| rest.get(..4)) {
        at.push(at[at.len() - 1] + 16 + u32::from_le_bytes(length.try_into().unwrap()) as usize);
    }
    at
}

/// Builds a segment of the same database as `like` with these records, the first of which has the number `first`.
fn segment(like: &[u8], first: u64, records: &[u8]) -> Vec<u8> {
    let mut bytes = like[..HEADER_BYTES].to_vec();
    bytes[24..32].copy_from_slice(&first.to_le_bytes());
    let crc = thalweg_bulk::crc32c(&bytes[..32]);
    bytes[32..36].copy_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(records);
    bytes
}

fn log(directory: &Path, first: u64) -> PathBuf {
    directory.join(format!("log-{first:020}"))
}

/// Returns the files of a killed database: a checkpoint of 10 transactions, and logs of 11 to 18, 19 to 24 and 25 to 30.
fn three_segments() -> (tempfile::TempDir, [PathBuf; 3]) {
    let (killed, path, bytes) = killed_after_thirty();
    assert_eq!(path, log(killed.path(), 11));
    let at = records(&bytes);
    assert_eq!(at.len(), 21);
    let parts = [(11, 0..8), (19, 8..14), (25, 14..20)];
    let paths = parts.map(|(first, part)| {
        let path = log(killed.path(), first);
        std::fs::write(&path, segment(&bytes, first, &bytes[at[part.start]..at[part.end]])).unwrap();
        path
    });
    (killed, paths)
}

/// Reads every file of a directory except the redb file, which opening modifies.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .filter(|(name, _)| name != "metadata.redb")
        .collect();
    files.sort();
    files
}

/// Checks that the start is refused with a choice and without changes, and that the choice works; returns how many transactions are left.
fn refused_until_allowed_to_go_on(directory: &Path) -> u64 {
    let before = files(directory);
    let error = Embedded::open(directory, LARGE).unwrap_err().to_string();
    assert!(error.contains("Put back a copy") && error.contains("--drop-damaged-log") && error.contains("log-0000"), "{error}");
    assert_eq!(files(directory), before, "nothing is changed by a start that is refused");
    let database = Embedded::open(directory, DROP).unwrap();
    let left = prefix_length(&database);
    assert!(error.contains(&format!("as of transaction {left},")), "{error}, and {left} are left");
    let found = database.recovery();
    assert!(found.dropped_bytes > 0 && found.note().is_some());
    for aside in &found.aside {
        let name = aside.file_name().unwrap().to_str().unwrap().strip_prefix("damaged-").unwrap();
        assert!(before.contains(&(name.into(), std::fs::read(aside).unwrap())), "{name} is kept as it was");
    }
    // Later writes are not lost, and are separate from what was set aside.
    (left..left + 3).for_each(|i| history(&database, i));
    let copy = copy_of(directory);
    assert_eq!(prefix_length(&open_copy(copy.path())), left + 3);
    drop(database);
    assert_eq!(prefix_length(&open_copy(directory)), left + 3);
    left
}

#[test]
fn a_flipped_bit_in_the_log_loses_nothing_behind_it_without_a_word() {
    let (whole, paths) = three_segments();
    let (mut refused, mut torn) = (0, 0);
    for path in &paths {
        let bytes = std::fs::read(path).unwrap();
        let last = records(&bytes)[records(&bytes).len() - 2];
        let is_last = path == &paths[2];
        for at in (0..bytes.len()).step_by(7) {
            let copy = copy_of(whole.path());
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(copy.path().join(path.file_name().unwrap()), &damaged).unwrap();
            if is_last && at >= last {
                // Indistinguishable from a power loss during the write.
                let database = open_copy(copy.path());
                assert_eq!(prefix_length(&database), 29, "byte {at}");
                assert_eq!(database.recovery().dropped_bytes, (bytes.len() - last) as u64);
                assert!(database.recovery().note().unwrap().contains("damaged-log-"));
                torn += 1;
                continue;
            }
            match Embedded::open(copy.path(), LARGE) {
                // Some bytes of the header have no meaning.
                Ok(database) => assert_eq!(prefix_length(&database), 30, "byte {at} of {}", path.display()),
                Err(_) => {
                    refused_until_allowed_to_go_on(copy.path());
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 150 && torn > 3, "{refused} refused, {torn} torn");
}

#[test]
fn a_segment_cut_short_with_another_behind_it_stops_the_start() {
    let (whole, paths) = three_segments();
    for (i, path) in paths[..2].iter().enumerate() {
        let bytes = std::fs::read(path).unwrap();
        for cut in (0..bytes.len()).step_by(37).chain([bytes.len() - 1]) {
            let copy = copy_of(whole.path());
            std::fs::write(copy.path().join(path.file_name().unwrap()), &bytes[..cut]).unwrap();
            let left = refused_until_allowed_to_go_on(copy.path());
            assert!(left >= [10, 18][i] && left < [18, 24][i], "{left} with {cut} bytes of {}", path.display());
        }
        let copy = copy_of(whole.path());
        std::fs::remove_file(copy.path().join(path.file_name().unwrap())).unwrap();
        assert_eq!(refused_until_allowed_to_go_on(copy.path()), [10, 18][i]);
    }
}

#[test]
fn a_segment_that_could_not_be_begun_is_no_end_of_the_log() {
    let (whole, paths) = three_segments();
    let header = std::fs::read(&paths[1]).unwrap()[..HEADER_BYTES].to_vec();
    // 21 would have followed 20, but the second segment continued to 24. At the end, 31 follows.
    for (first, behind) in [(21, 24), (31, 30)] {
        for begun in [&[][..], &header[..7], &[0; HEADER_BYTES]] {
            let copy = copy_of(whole.path());
            std::fs::write(log(copy.path(), first), begun).unwrap();
            let database = open_copy(copy.path());
            assert_eq!(prefix_length(&database), 30, "{} bytes after transaction {behind}", begun.len());
            assert_eq!(database.recovery().dropped_bytes, begun.len() as u64);
            (30..33).for_each(|i| history(&database, i));
            drop(database);
            assert_eq!(prefix_length(&open_copy(copy.path())), 33);
        }
    }
}

#[test]
fn what_a_start_that_was_killed_left_is_no_damage() {
    // The log is in the redb file and the next segment exists, but the old ones, including a torn tail, are not deleted yet.
    let (whole, paths) = three_segments();
    let mut long = std::fs::read(&paths[2]).unwrap();
    let like = long.clone();
    long.extend_from_slice(&[7; 30]);
    std::fs::write(&paths[2], &long).unwrap();
    let copy = copy_of(whole.path());
    drop(open_copy(copy.path()));
    let started = log(copy.path(), 31);
    assert_eq!(std::fs::read(&started).unwrap(), segment(&like, 31, &[]));
    for path in &paths {
        std::fs::copy(path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let database = open_copy(copy.path());
    assert_eq!((prefix_length(&database), database.recovery().replayed, database.recovery().dropped_bytes), (30, 0, 30));
}

#[test]
fn transactions_synced_after_a_full_disk_while_the_log_changed_segments_survive() {
    let Some(disk) = SmallDisk::mount(4 << 20) else {
        println!("SKIPPED: mounting a small file system needs root");
        return;
    };
    let directory = disk.path.join("database");
    let database = Embedded::open(&directory, SMALL).unwrap();
    let mut next = 0;
    let mut more = |database: &Embedded, many: u64| {
        (next..next + many).for_each(|i| history(database, i));
        next += many;
        next
    };
    more(&database, 1);
    database.checkpoint().unwrap();
    // No byte is free except in the segment's last page: it outgrows its length, and no further one can be created.
    let filler = disk.path.join("filler");
    let mut filled = std::fs::File::options().append(true).create(true).open(&filler).unwrap();
    while std::io::Write::write_all(&mut filled, &[1; 4096]).is_ok() {}
    let full = more(&database, 20);
    database.sync(&mut Unwatched).unwrap();
    let live = segments(&directory);
    assert_eq!(live.len(), 1, "a segment that cannot be begun is not in the log");
    assert!(live[0].metadata().unwrap().len() > 2 * SMALL.segment_bytes, "it could not be changed");
    assert_eq!(prefix_length(&database), full);
    let copy = copy_of(&directory);
    assert_eq!(prefix_length(&open_copy(copy.path())), full);
    drop(filled);
    std::fs::remove_file(&filler).unwrap();
    let all = more(&database, 100);
    database.sync(&mut Unwatched).unwrap();
    let copy = copy_of(&directory);
    drop(database);
    for directory in [copy.path(), &directory] {
        let database = open_copy(directory);
        assert_eq!(prefix_length(&database), all);
        assert_eq!(database.recovery().dropped_bytes, 0);
    }
}

/// Pseudo-random numbers from a fixed seed.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end as u64) as usize
    }
}

#[test]
fn a_damaged_redb_file_is_refused_or_is_exactly_what_it_was() {
    let directory = scratch();
    let database = Embedded::open(directory.path(), LARGE).unwrap();
    for round in 0..4 {
        (round * 40..(round + 1) * 40).for_each(|i| history(&database, i));
        write::<_, DatabaseError>(&database, &mut Unwatched, |t| {
            (0..200_u64).for_each(|i| t.put(Table::Inodes, &i.to_be_bytes(), vec![round as u8; 120]));
            Ok(())
        })
        .unwrap();
        database.checkpoint().unwrap();
    }
    (160..170).for_each(|i| history(&database, i));
    let expected = everything(&database);
    let killed = copy_of(directory.path());
    database.close().unwrap();
    drop(database);
    let mut seeded = Seeded(12);
    let (mut refused, mut whole) = (0, 0);
    for state in [killed.path(), directory.path()] {
        let bytes = std::fs::read(state.join("metadata.redb")).unwrap();
        let used = bytes.iter().rposition(|b| *b != 0).unwrap();
        for case in 0..90 {
            let mut damaged = bytes.clone();
            match case {
                0..20 => damaged[seeded.below(512)] ^= 1 << seeded.below(8),
                20..80 => damaged[seeded.below(used)] ^= 1 << seeded.below(8),
                _ => damaged.truncate(seeded.below(used)),
            }
            let copy = copy_of(state);
            std::fs::write(copy.path().join("metadata.redb"), &damaged).unwrap();
            match Embedded::open(copy.path(), LARGE) {
                Ok(database) => {
                    assert!(everything(&database) == expected, "case {case} serves what was never written");
                    whole += 1;
                }
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("metadata.redb") || error.contains("/log-"), "{error}");
                    assert!(error.to_lowercase().contains("put back a copy") || error.contains("put back the files"), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 20 && whole > 20, "{refused} refused, {whole} whole");
}

#[test]
fn an_older_redb_file_under_a_newer_log_is_refused() {
    let directory = scratch();
    let database = Embedded::open(directory.path(), LARGE).unwrap();
    (0..10).for_each(|i| history(&database, i));
    database.checkpoint().unwrap();
    let older = std::fs::read(directory.path().join("metadata.redb")).unwrap();
    (10..20).for_each(|i| history(&database, i));
    database.checkpoint().unwrap();
    let copy = copy_of(directory.path());
    std::fs::write(copy.path().join("metadata.redb"), older).unwrap();
    assert_eq!(refused_without_bytes(copy.path()), 10);
}

/// As [`refused_until_allowed_to_go_on`], with an intact log.
fn refused_without_bytes(directory: &Path) -> u64 {
    let error = Embedded::open(directory, LARGE).unwrap_err().to_string();
    assert!(error.contains("--drop-damaged-log") && error.contains("begins with transaction"), "{error}");
    prefix_length(&Embedded::open(directory, DROP).unwrap())
}

#[test]
fn a_log_or_a_redb_file_that_is_missing_is_no_new_beginning() {
    let (whole, path, _) = killed_after_thirty();
    let without_log = copy_of(whole.path());
    std::fs::remove_file(log(without_log.path(), 11)).unwrap();
    let error = Embedded::open(without_log.path(), LARGE).unwrap_err().to_string();
    assert!(error.contains("the log is missing") && error.contains("--drop-damaged-log"), "{error}");
    let database = Embedded::open(without_log.path(), DROP).unwrap();
    assert_eq!(prefix_length(&database), 10);
    assert!(database.recovery().note().unwrap().contains("the log is missing"), "noted, though there is nothing to count");

    for empty in [false, true] {
        let without_file = copy_of(whole.path());
        let file = without_file.path().join("metadata.redb");
        std::fs::remove_file(&file).unwrap();
        if empty {
            std::fs::write(&file, []).unwrap();
        }
        let error = Embedded::open(without_file.path(), LARGE).unwrap_err().to_string();
        assert!(error.contains("metadata.redb") && error.contains("restore all files"), "{error}");
        std::fs::copy(whole.path().join("metadata.redb"), &file).unwrap();
        assert_eq!(prefix_length(&open_copy(without_file.path())), 30, "{}", path.display());
    }
}
