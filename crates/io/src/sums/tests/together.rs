//! Several readers and writers of one datafile.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_base::sync::Finally;

#[test]
fn writers_in_one_block_and_readers_beside_them_see_no_damage() {
    for directory in places() {
        let target = target(directory.path());
        // Small and large: sums in the attribute, then beside.
        for length in [8192_u64, 200_000] {
            datafile(&target).write(&vec![1; length as usize], 0).unwrap();
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                // Also after a failure here: the others would not end.
                let _ends = Finally(|| over.store(true, Ordering::Relaxed));
                let readers: Vec<_> = (0..2)
                    .map(|seed| {
                        let (target, over) = (&target, &over);
                        scope.spawn(move || {
                            let mut random = Random(seed + 90);
                            while !over.load(Ordering::Relaxed) {
                                let mut bytes = vec![0; random.below(20_000) as usize];
                                datafile(target).read(&mut bytes, random.below(length)).unwrap();
                            }
                        })
                    })
                    .collect();
                let writers: Vec<_> = (0..3)
                    .map(|writer| {
                        let target = &target;
                        scope.spawn(move || {
                            let mut random = Random(writer + 1);
                            for _ in 0..400 {
                                // Each its own bytes of every block.
                                let at = random.below(length / 4096) * 4096 + writer * 1000;
                                let bytes = random.bytes(1 + random.0 % 1000);
                                target.briefly(ID, false).unwrap().unwrap().write(&bytes, at).unwrap();
                            }
                        })
                    })
                    .collect();
                let settler = scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        target.settle(Duration::ZERO);
                    }
                });
                writers.into_iter().for_each(|writer| writer.join().unwrap());
                over.store(true, Ordering::Relaxed);
                readers.into_iter().for_each(|reader| reader.join().unwrap());
                settler.join().unwrap();
            });
            settle(&target);
            read(&target).unwrap();
            assert_eq!((target.sums().damaged(), target.sums().unsummed(), target.sums().recomputed()), (0, 0, 0));
        }
    }
}

#[test]
fn sums_are_recomputed_while_writers_change_the_datafile() {
    let directory = tempfile::tempdir().unwrap();
    let length = 8 << 20;
    let mut target = target(directory.path());
    datafile(&target).write(&vec![1; length], 0).unwrap();
    for round in 0..3 {
        // Dirty, so that another run does not verify it.
        datafile(&target).write(&[1], 7).unwrap();
        drop(target);
        target = self::target(directory.path());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ends = Finally(|| over.store(true, Ordering::Relaxed));
            let writer = scope.spawn(|| {
                let mut random = Random(round + 1);
                while !over.load(Ordering::Relaxed) {
                    let bytes = random.bytes(random.0 % 9000);
                    datafile(&target).write(&bytes, random.below(length as u64 - 9000)).unwrap();
                }
            });
            while target.sums().recomputed() + target.settle(Duration::from_secs(99)).recomputed == 0 {
                let mut byte = [0];
                datafile(&target).read(&mut byte, 0).unwrap();
            }
            over.store(true, Ordering::Relaxed);
            writer.join().unwrap();
        });
        settle(&target);
        let mut bytes = vec![0; length];
        assert_eq!(datafile(&target).read(&mut bytes, 0).unwrap(), length);
    }
    // Nothing differs: the sums that were stored are those of the bytes.
    drop(target);
    std::fs::remove_file(sums_path(directory.path())).unwrap();
    let target = self::target(directory.path());
    let mut bytes = vec![0; length];
    datafile(&target).read(&mut bytes, 0).unwrap();
    assert_eq!(target.settle(Duration::ZERO).recomputed, 1);
}

#[test]
fn more_new_datafiles_than_are_synced_one_by_one_become_clean_together() {
    let directory = tempfile::tempdir().unwrap();
    let target = target(directory.path());
    let id = |file| DatafileId { file: FileId(file), ..ID };
    for file in 1..=200 {
        let datafile = target.briefly(id(file), true).unwrap().unwrap();
        datafile.write(&vec![file as u8; file as usize * 500], 0).unwrap();
    }
    assert_eq!(target.settle(Duration::ZERO).clean, 200);
    drop(target);
    let target = self::target(directory.path());
    for file in 1..=200 {
        let mut bytes = vec![0; 200_000];
        let have = target.briefly(id(file), false).unwrap().unwrap().read(&mut bytes, 0).unwrap();
        assert!(bytes[..have] == vec![file as u8; file as usize * 500]);
    }
    assert_eq!(target.waiting(), (0, 0), "none is unverified");
}
