//! Random changes, held against the same changes of bytes in memory.

use super::*;
use thalweg_wire::protocol::io::Allocate;

fn resized(model: &mut Vec<u8>, to: u64) {
    model.resize(to as usize, 0);
}

/// Performs one random change on both.
fn change(random: &mut Random, target: &Target, model: &mut Vec<u8>, largest: u64) {
    let at = random.below(largest);
    let length = match random.below(3) {
        0 => random.below(100),
        1 => random.below(3) * 4096,
        _ => random.below(20_000),
    };
    let at = if random.below(2) == 0 { at } else { at / 4096 * 4096 };
    match random.below(12) {
        0..6 => {
            let bytes = random.bytes(length);
            datafile(target).write(&bytes, at).unwrap();
            if !bytes.is_empty() {
                if model.len() < at as usize + bytes.len() {
                    resized(model, at + length);
                }
                model[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
            }
        }
        6 | 7 => {
            let at = if random.below(8) == 0 { 0 } else { at };
            target.truncate(ID, at).unwrap();
            resized(model, at);
        }
        kind if length > 0 => {
            let how = match kind {
                8 => Allocate::PunchHole,
                9 => Allocate::ZeroRange,
                10 => Allocate::Extend,
                _ => Allocate::KeepSize,
            };
            target.allocate(ID, at, length, how).unwrap();
            let end = (at + length) as usize;
            if matches!(how, Allocate::ZeroRange | Allocate::Extend) && end > model.len() {
                resized(model, at + length);
            }
            if matches!(how, Allocate::PunchHole | Allocate::ZeroRange) && (at as usize) < model.len() {
                let end = end.min(model.len());
                model[at as usize..end].fill(0);
            }
        }
        _ => {}
    }
}

#[test]
fn whatever_is_done_to_a_datafile_it_is_verified_and_right() {
    for directory in places() {
        for seed in 1..=16 {
            let largest = if seed % 2 == 0 { 300_000 } else { 50_000 };
            let directory = tempfile::tempdir_in(directory.path()).unwrap();
            let mut random = Random(seed * 77_777);
            let (mut target, mut model) = (self::target(directory.path()), Vec::new());
            for step in 0..150 {
                change(&mut random, &target, &mut model, largest);
                match random.below(12) {
                    0 => settle(&target),
                    1 => {
                        settle(&target);
                        drop(target);
                        target = self::target(directory.path());
                    }
                    _ => {}
                }
                let from = random.below(largest);
                let mut part = vec![0; random.below(30_000) as usize];
                let have = target.existing(ID).unwrap().map_or(0, |datafile| datafile.read(&mut part, from).unwrap());
                let expected = &model[(from as usize).min(model.len())..];
                assert!(part[..have] == expected[..expected.len().min(part.len())], "seed {seed}, step {step}: {have} bytes at {from}");
                if random.below(10) == 0 {
                    assert!(read(&target).unwrap() == model, "seed {seed}, step {step}");
                }
            }
            // Another run finds nothing that differs, whether the datafile was clean or not.
            drop(target);
            let target = self::target(directory.path());
            assert!(read(&target).unwrap() == model, "seed {seed}");
            assert_eq!(target.settle(Duration::ZERO).differed, 0, "seed {seed}");
            assert_eq!((target.sums().damaged(), target.sums().unsummed()), (0, 0));
        }
    }
}

#[test]
fn holes_stay_holes_in_data_and_sums() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let target = target(directory.path());
    let far = 1 << 40;
    datafile(&target).write(&[7; 5000], far).unwrap();
    settle(&target);
    for path in [path(directory.path()), sums_path(directory.path())] {
        assert!(path.metadata().unwrap().blocks() * 512 <= 64 << 10, "{}", path.display());
    }
    let mut bytes = vec![1; 10_000];
    assert_eq!(datafile(&target).read(&mut bytes, far - 5000).unwrap(), 10_000);
    assert!(bytes[..5000] == [0; 5000] && bytes[5000..] == [7; 5000]);
    drop(target);
    // Nor are they read when sums are recomputed.
    std::fs::remove_file(sums_path(directory.path())).unwrap();
    let target = self::target(directory.path());
    assert_eq!(datafile(&target).read(&mut bytes, far - 5000).unwrap(), 10_000);
    let settled = target.settle(Duration::ZERO);
    assert_eq!((settled.recomputed, settled.differed), (1, 2));
    assert!(sums_path(directory.path()).metadata().unwrap().blocks() * 512 <= 64 << 10);
}

#[test]
fn a_target_of_an_earlier_release_has_no_sums_and_gets_none() {
    let directory = tempfile::tempdir().unwrap();
    drop(target(directory.path()));
    let identity = directory.path().join("thalweg-target.toml");
    let text = std::fs::read_to_string(&identity).unwrap();
    assert!(text.contains("format = 2"), "{text}");
    std::fs::write(&identity, text.replace("format = 2", "format = 1")).unwrap();
    let target = self::target(directory.path());
    assert!(!target.has_sums());
    datafile(&target).write(&[7; 100_000], 5).unwrap();
    target.truncate(ID, 90_000).unwrap();
    settle(&target);
    assert_eq!(read(&target).unwrap().len(), 90_000);
    assert!(!sums_path(directory.path()).exists());
    assert_eq!(super::super::place::attribute(&std::fs::File::open(path(directory.path())).unwrap()).unwrap(), None);
    let text = std::fs::read_to_string(&identity).unwrap();
    assert!(text.contains("format = 1"), "an earlier release still opens it: {text}");
}

#[test]
fn sums_go_with_their_datafile() {
    let directory = tempfile::tempdir().unwrap();
    let target = target(directory.path());
    for round in 0..2 {
        datafile(&target).write(&[round; 100_000], 0).unwrap();
        settle(&target);
        assert!(sums_path(directory.path()).exists());
        target.remove(ID).unwrap();
        assert!(!sums_path(directory.path()).exists());
    }
    datafile(&target).write(&[9; 10], 0).unwrap();
    assert_eq!(read(&target).unwrap(), [9; 10]);
}
