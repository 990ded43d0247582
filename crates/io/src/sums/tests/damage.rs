//! Damage of every kind, of data and of sums: what is read afterwards is right, or refused.

use super::super::place::{attribute, set_attribute};
use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Flips a bit of a byte of a file.
fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << (at % 8))], at).unwrap();
}

/// Makes a clean datafile of these bytes, and returns to a target that has just been opened.
fn made(directory: &Path, bytes: &[u8]) -> Target {
    let target = target(directory);
    target.truncate(ID, 0).unwrap();
    datafile(&target).write(bytes, 0).unwrap();
    settle(&target);
    drop(target);
    self::target(directory)
}

#[test]
fn every_flipped_bit_of_a_clean_datafile_is_refused() {
    for directory in places() {
        let mut random = Random(3);
        for length in [1, 100, 4096, 4097, 10_000] {
            let bytes = random.bytes(length);
            let target = made(directory.path(), &bytes);
            for at in 0..length {
                flip(&path(directory.path()), at);
                assert!(is_damaged(&read(&target)), "byte {at} of {length}");
                // Also by a read of another part of the block, and of nothing but it.
                let mut one = [0];
                assert!(is_damaged(&datafile(&target).read(&mut one, at / 4096 * 4096)));
                flip(&path(directory.path()), at);
            }
            assert_eq!(read(&target).unwrap(), bytes);
        }
    }
}

#[test]
fn a_flipped_bit_of_a_large_datafile_is_refused_and_the_other_blocks_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(5);
    let bytes = random.bytes(500_001);
    let target = made(directory.path(), &bytes);
    assert!(sums_path(directory.path()).exists());
    for _ in 0..300 {
        let at = random.below(bytes.len() as u64);
        flip(&path(directory.path()), at);
        let error = read(&target).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        let block = at / 4096 * 4096;
        assert!(error.message().contains(&format!("bytes {block} to {}", block + 4096)), "{error}");
        let mut before = vec![0; block as usize];
        assert_eq!(datafile(&target).read(&mut before, 0).unwrap(), before.len());
        assert!(before == bytes[..block as usize]);
        flip(&path(directory.path()), at);
    }
    assert!(read(&target).unwrap() == bytes);
    assert!(target.sums().damaged() >= 300);
}

#[test]
fn damaged_sums_never_make_wrong_bytes() {
    let mut random = Random(8);
    for directory in places() {
        for length in [100, 20_000, 90_000] {
            let bytes = random.bytes(length);
            drop(made(directory.path(), &bytes));
            let check = |what: &str| {
                let target = self::target(directory.path());
                match read(&target) {
                    Ok(read) => assert!(read == bytes, "{what}"),
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Damaged, "{what}"),
                }
                target.sums().unsummed()
            };
            let sums = sums_path(directory.path());
            if length < 50_000 {
                let file = File::open(path(directory.path())).unwrap();
                let value = attribute(&file).unwrap().unwrap();
                for at in 0..value.len() {
                    let mut changed = value.clone();
                    changed[at] ^= 4;
                    for changed in [changed, value[..at].to_vec()] {
                        set_attribute(&file, &changed).unwrap();
                        assert_eq!(check(&format!("byte {at} of the attribute")), 1, "it is counted");
                    }
                }
                set_attribute(&file, &value).unwrap();
            } else {
                let good = std::fs::read(&sums).unwrap();
                for at in 0..good.len() {
                    flip(&sums, at as u64);
                    check(&format!("byte {at} of the sums"));
                    std::fs::write(&sums, &good[..at]).unwrap();
                    assert_eq!(check(&format!("cut at {at}")), 1);
                    std::fs::write(&sums, &good).unwrap();
                }
                std::fs::remove_file(&sums).unwrap();
                check("without sums");
                std::fs::write(&sums, &good).unwrap();
            }
            assert_eq!(check("whole again"), 0);
        }
    }
}

#[test]
fn a_datafile_that_is_cut_grown_or_an_older_copy_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(13);
    for length in [100, 5000, 20_000, 100_000] {
        let older = random.bytes(length);
        // Zeros at the end: a cut leaves the last block's sum as it was.
        let newer = [random.bytes(length / 2), vec![0; (length - length / 2) as usize]].concat();
        drop(made(directory.path(), &older));
        let older_sums = std::fs::read(sums_path(directory.path())).ok();
        let target = made(directory.path(), &newer);
        let path = path(directory.path());
        let write = |bytes: &[u8]| File::options().write(true).open(&path).unwrap().write_all_at(bytes, 0).unwrap();
        let resize = |to: u64| File::options().write(true).open(&path).unwrap().set_len(to).unwrap();
        write(&older);
        assert!(is_damaged(&read(&target)), "an older copy of {length} bytes");
        write(&newer);
        assert!(read(&target).unwrap() == newer);
        for to in [0, 1, length / 2, length / 2 + 1, length - 1, length + 1, length + 10_000] {
            resize(to);
            assert!(is_damaged(&read(&target)), "{length} bytes, now {to}");
            assert!(is_damaged(&datafile(&target).write(b"more", to)), "nor is it written to");
            resize(length);
            if to < length {
                write(&newer);
            }
        }
        assert!(read(&target).unwrap() == newer);
        drop(target);
        if let Some(older_sums) = older_sums {
            std::fs::write(sums_path(directory.path()), older_sums).unwrap();
            assert!(is_damaged(&read(&self::target(directory.path()))), "older sums");
        }
    }
}

#[test]
fn a_write_into_a_part_of_a_damaged_block_is_refused_and_one_of_all_of_it_repairs_it() {
    let directory = tempfile::tempdir().unwrap();
    for length in [20_000, 100_000] {
        let mut bytes = Random(21).bytes(length);
        let target = made(directory.path(), &bytes);
        flip(&path(directory.path()), 5000);
        assert!(is_damaged(&datafile(&target).write(b"part", 6000)));
        assert!(is_damaged(&datafile(&target).write(&[1; 4096], 6000)), "its beginning");
        // A hole that takes a part of it, and a cut within it, leave it damaged.
        target.allocate(ID, 6000, 10, thalweg_wire::protocol::io::Allocate::PunchHole).unwrap();
        assert!(is_damaged(&read(&target)));
        datafile(&target).write(&[1; 4096], 4096).unwrap();
        bytes[4096..8192].fill(1);
        assert!(read(&target).unwrap() == bytes);
        flip(&path(directory.path()), 5000);
        target.truncate(ID, 7000).unwrap();
        assert!(is_damaged(&read(&target)));
        settle(&target);
        assert!(is_damaged(&read(&target)));
        target.remove(ID).unwrap();
    }
}

#[test]
fn data_of_another_run_is_unverified_until_its_sums_are_recomputed() {
    let directory = tempfile::tempdir().unwrap();
    for length in [20_000, 300_000] {
        let mut bytes = Random(34).bytes(length);
        let target = target(directory.path());
        datafile(&target).write(&bytes, 0).unwrap();
        flip(&path(directory.path()), 9000);
        bytes[9000] ^= 1 << (9000 % 8);
        assert!(is_damaged(&read(&target)), "this run knows better");
        drop(target);
        let target = self::target(directory.path());
        assert!(read(&target).unwrap() == bytes, "a crash may have left this");
        datafile(&target).write(b"new", 15_001).unwrap();
        bytes[15_001..15_004].copy_from_slice(b"new");
        let settled = target.settle(Duration::ZERO);
        assert_eq!((settled.recomputed, settled.clean, target.sums().recomputed()), (1, 1, 1));
        flip(&path(directory.path()), 9000);
        assert!(is_damaged(&read(&target)));
        flip(&path(directory.path()), 9000);
        assert!(read(&target).unwrap() == bytes);
        target.remove(ID).unwrap();
    }
}

#[test]
fn the_mark_is_dirty_before_data_changes() {
    use super::super::mark::Mark;
    use super::super::place;
    let directory = tempfile::tempdir().unwrap();
    let target = made(directory.path(), &[7; 100_000]);
    let mark = || place::mark(&File::open(sums_path(directory.path())).unwrap()).unwrap().unwrap();
    assert_eq!(mark(), Mark::Clean(100_000));
    read(&target).unwrap();
    assert_eq!(mark(), Mark::Clean(100_000), "reading changes nothing");
    let datafile = datafile(&target);
    let is_dirty = std::cell::Cell::new(false);
    let mut locked = super::super::Open::locked(&*datafile).unwrap();
    let work = || {
        is_dirty.set(matches!(mark(), Mark::Dirty(run) if run != 0));
        Ok(())
    };
    let mut sums = super::super::BlockSums::default();
    sums.compute(&[7; 10], 5);
    locked.write(&[7; 10], 5, &sums, work).unwrap().unwrap();
    assert!(is_dirty.get());
}
