//! Lots on a file system that is full or filling up.

use super::super::deadline::fake::Fake;
use super::super::volume::Member;
use super::mounted::on;
use super::*;
use crate::lots::Lots;
use std::sync::atomic::AtomicBool;
use thalweg_wire::protocol::lots::Level;

/// Writes outside lots until the first refusal; returns the bytes written.
fn fill(served: &Target, file: u64) -> (u64, Error) {
    for piece in 0.. {
        if let Err(refused) = write(served, datafile(file, None), piece * MIB, MIB) {
            return (piece * MIB, refused);
        }
    }
    unreachable!("a disk without an end")
}

#[test]
fn a_lot_has_its_room_while_the_rest_of_the_store_is_full_and_being_filled() {
    on("tmpfs", 96, |point| {
        let served = target(&point.join("target"));
        let kept = served.lots().keep(&share(5, 40 * MIB), Some(Level::Own)).unwrap();
        assert_eq!(kept.level, Level::Own);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for filler in 0..4 {
                let (served, over) = (&served, &over);
                scope.spawn(move || {
                    let mut offset = 0;
                    while !over.load(Ordering::SeqCst) {
                        match write(served, datafile(100 + filler, None), offset, MIB) {
                            Ok(()) => offset += MIB,
                            Err(refused) => {
                                assert_eq!(refused.kind(), ErrorKind::NoSpace);
                                assert!(refused.message().contains("promised to lots"), "{refused}");
                            }
                        }
                    }
                });
            }
            for piece in 0..40 {
                write(&served, datafile(1 + piece % 3, Some(5)), piece * MIB, MIB).unwrap();
            }
            over.store(true, Ordering::SeqCst);
        });
        assert_eq!(used(&served, 5), 40 * MIB);
        // Overwriting is possible in a full store too.
        write(&served, datafile(100, None), 0, MIB).unwrap();
        let space = served.space().unwrap();
        assert_eq!((space.promised_bytes, space.level), (0, Level::Own));
        let too_much = served.lots().keep(&share(6, 40 * MIB), None).unwrap_err();
        assert_eq!(too_much.kind(), ErrorKind::NoSpace);
        served.truncate(datafile(1, Some(5)), 0).unwrap();
        assert!(served.space().unwrap().promised_bytes > 10 * MIB, "what is given back is promised again");
    });
}

#[test]
fn two_targets_on_one_file_system_know_each_others_promises() {
    on("tmpfs", 64, |point| {
        let served = [3, 4].map(|number| Target::initialise(&point.join(format!("t{number}")), 7, TargetId(number)).unwrap());
        served[0].lots().keep(&share(5, 40 * MIB), None).unwrap();
        assert_eq!(served[1].lots().keep(&share(5, 40 * MIB), None).unwrap_err().kind(), ErrorKind::NoSpace);
        let (filled, _) = fill(&served[1], 1);
        assert!((16 * MIB..24 * MIB).contains(&filled), "{filled}");
        (0..40).for_each(|piece| write(&served[0], datafile(1, Some(5)), piece * MIB, MIB).unwrap());
    });
}

#[test]
fn a_promise_that_another_process_has_made_on_the_same_file_system_is_not_made_again_and_nobody_owns_it() {
    on("tmpfs", 96, |point| {
        for (beside, ours) in [("theirs", "ours"), ("a/theirs", "b/ours")] {
            // As left by another process: its promises are in its share file.
            let theirs = point.join(beside);
            let other = Target::initialise(&theirs, 7, TargetId(4)).unwrap();
            other.lots().keep(&share(5, 40 * MIB), None).unwrap();
            write(&other, datafile_at(4, 1, 5), 0, 16 * MIB).unwrap();
            drop(other);
            let served = target(&point.join(ours));
            assert_eq!(served.lots().keep(&share(6, 64 * MIB), None).unwrap_err().kind(), ErrorKind::NoSpace);
            assert_eq!(served.lots().keep(&share(6, MIB), Some(Level::Own)).unwrap_err().kind(), ErrorKind::Unsupported);
            // 80 are free, 24 of them promised: the used part of a promise is not counted twice.
            served.lots().keep(&share(6, 48 * MIB), None).unwrap();
            assert_eq!(served.lots().keep(&share(6, 60 * MIB), None).unwrap_err().kind(), ErrorKind::NoSpace);
            std::fs::remove_file(theirs.join("thalweg-lots.toml")).unwrap();
            served.lots().keep(&share(6, 64 * MIB), None).unwrap();
            drop(served);
            std::fs::remove_dir_all(point.join(beside)).unwrap();
            std::fs::remove_dir_all(point.join(ours)).unwrap();
        }
    });
}

#[test]
fn an_elastic_lot_takes_what_is_promised_to_nobody_and_no_more() {
    on("tmpfs", 64, |point| {
        let served = target(point);
        served.lots().keep(&LotShare { elastic: true, ..share(5, 8 * MIB) }, None).unwrap();
        served.lots().keep(&share(6, 24 * MIB), None).unwrap();
        let refused = (0..64).find_map(|piece| write(&served, datafile(1, Some(5)), piece * MIB, MIB).err().map(|e| (piece, e)));
        let (pieces, refused) = refused.unwrap();
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        assert!((24..40).contains(&pieces), "{pieces}");
        (0..24).for_each(|piece| write(&served, datafile(2, Some(6)), piece * MIB, MIB).unwrap());
    });
}

#[test]
fn ballast_keeps_a_lots_room_on_a_file_system_that_others_fill() {
    on("ext4", 192, |point| {
        std::fs::write(point.join("mine"), "another program's").unwrap();
        let served = target(&point.join("target"));
        assert_eq!(served.lots().keep(&share(5, 64 * MIB), Some(Level::Own)).unwrap_err().kind(), ErrorKind::Unsupported);
        let kept = served.lots().keep(&share(5, 64 * MIB), None).unwrap();
        assert_eq!(kept.level, Level::Ballast);
        let ballast = point.join("target/lots/ballast");
        assert!(ballast.metadata().unwrap().blocks() * 512 >= 60 * MIB);
        let mut filler = std::fs::File::create(point.join("filler")).unwrap();
        while std::io::Write::write_all(&mut filler, &[1; 65536]).is_ok() {}
        // ext4's index blocks of fragmented files count too.
        (0..63).for_each(|piece| write(&served, datafile(1 + piece % 5, Some(5)), piece * MIB, MIB).unwrap());
        assert_eq!(used(&served, 5), walked(&point.join("target"), 5));
        assert!(ballast.metadata().map_or(0, |found| found.len()) <= 8 * MIB);
        served.remove(datafile(1, Some(5))).unwrap();
        served.lots().round(None);
        assert!(ballast.metadata().unwrap().len() > 8 * MIB, "it grows again");
        served.lots().release(LotId(5)).unwrap();
        assert!(!ballast.exists());
    });
}

#[test]
fn reserved_blocks_are_raised_by_what_is_promised_and_put_back_after_a_restart_too() {
    on("ext4", 192, |point| {
        std::fs::write(point.join("mine"), "another program's").unwrap();
        let reserved = || {
            let found = rustix::fs::statvfs(point).unwrap();
            (found.f_bfree - found.f_bavail) * found.f_frsize
        };
        let before = reserved();
        let served = target(&point.join("target"));
        let kept = match served.lots().keep(&share(5, 64 * MIB), Some(Level::Kernel)) {
            Err(e) if e.message().contains("not installed") => return println!("SKIPPED: {e}"),
            kept => kept.unwrap(),
        };
        assert_eq!((kept.level, reserved()), (Level::Kernel, before + 64 * MIB));
        drop(served);
        let served = Target::open(&point.join("target"), 7, NUMBER).unwrap();
        assert_eq!(served.lots().list()[0].level, Level::Kernel);
        (0..64).for_each(|piece| write(&served, datafile(1, Some(5)), piece * MIB, MIB).unwrap());
        served.lots().release(LotId(5)).unwrap();
        assert_eq!(reserved(), before);
        let again = std::fs::read_to_string(point.join("target/thalweg-lots.toml")).unwrap();
        assert!(!again.contains("reserved_blocks_before"), "{again}");
    });
}

#[test]
fn a_foreign_program_that_took_the_room_is_named_with_the_lot_and_its_level() {
    on("tmpfs", 32, |point| {
        std::fs::write(point.join("mine"), "another program's").unwrap();
        let served = target(&point.join("target"));
        assert_eq!(served.lots().keep(&share(5, 16 * MIB), None).unwrap().level, Level::Admission);
        let mut filler = std::fs::File::create(point.join("filler")).unwrap();
        while std::io::Write::write_all(&mut filler, &[1; 4096]).is_ok() {}
        let refused = write(&served, datafile(1, Some(5)), 0, MIB).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoSpace);
        for part in ["lot-5", "Admission", "another program"] {
            assert!(refused.message().contains(part), "`{part}` is not in: {refused}");
        }
        assert_eq!(used(&served, 5), walked(&point.join("target"), 5), "what was written of it counts");
    });
}

/// An expired lot that can be removed.
struct Over {
    target: Weak<Target>,
    reclaimed: AtomicU64,
}

impl More for Over {
    fn move_here(&self, _: LotId, _: TargetId, _: u64) -> Result<()> {
        Err(Error::new(ErrorKind::Quota, "nothing"))
    }

    fn reclaim(&self, _: TargetId, _: u64) -> Result<()> {
        if self.reclaimed.fetch_add(1, Ordering::SeqCst) > 0 {
            return Err(Error::new(ErrorKind::NoSpace, "nothing more"));
        }
        let target = self.target.upgrade().unwrap();
        target.remove(datafile(1, Some(5)))?;
        target.lots().release(LotId(5))
    }
}

#[test]
fn a_lot_that_is_over_promises_nothing_and_is_reclaimed_when_others_need_its_room() {
    on("tmpfs", 64, |point| {
        let served = Arc::new(target(point));
        let over = Arc::new(Over { target: Arc::downgrade(&served), reclaimed: 0.into() });
        served.ask_for_more(Arc::clone(&over) as _);
        served.lots().keep(&share(5, 24 * MIB), None).unwrap();
        served.lots().keep(&share(6, 8 * MIB), None).unwrap();
        (0..20).for_each(|piece| write(&served, datafile(1, Some(5)), piece * MIB, MIB).unwrap());
        let ended = served.lots().keep(&LotShare { until_ns: 1, ..share(5, 24 * MIB) }, None).unwrap();
        assert!(ended.expired);
        assert_eq!(served.space().unwrap().promised_bytes, 8 * MIB);
        write(&served, datafile(1, Some(5)), 20 * MIB, MIB).unwrap();
        assert_eq!(over.reclaimed.load(Ordering::SeqCst), 0, "not before somebody needs the room");
        // tmpfs reports its free space with a short delay.
        let filled = (0..3).map(|_| fill(&served, 9).0).max().unwrap();
        assert!(over.reclaimed.load(Ordering::SeqCst) >= 1 && filled > 44 * MIB, "{filled}");
        assert_eq!(used(&served, 5), 0);
    });
}

#[test]
fn a_promise_ends_by_itself_and_not_because_a_clock_was_set() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(Fake::new(1000, 50, "a"));
    let open = || Lots::open_at(directory.path(), NUMBER, Arc::clone(&clock) as _).unwrap();
    let lots = open();
    lots.keep(&LotShare { until_ns: 1500, ..share(5, 4 * MIB) }, None).unwrap();
    let is_over = |lots: &Lots| {
        lots.round(None);
        lots.list()[0].expired
    };
    clock.jump(1_000_000);
    assert!(!is_over(&lots), "the clock was set forward");
    drop(lots);
    let lots = open();
    assert!(!is_over(&lots), "and the server was started again");
    lots.keep(&LotShare { until_ns: 1500, ..share(5, 4 * MIB) }, None).unwrap();
    assert!(!is_over(&lots), "and it was kept once more");
    clock.jump(-2_000_000);
    clock.pass(499);
    assert!(!is_over(&lots), "the clock was set back");
    clock.pass(1);
    assert!(is_over(&lots), "its time has passed, whatever the clock says");
    drop(lots);
    let lots = open();
    assert!(lots.list()[0].expired, "and stays over");
    assert_eq!(lots.promised(), 0);
    assert!(!lots.keep(&LotShare { until_ns: 9000, ..share(5, 4 * MIB) }, None).unwrap().expired, "renewed");
    assert_eq!(lots.promised(), 4 * MIB);
}

#[test]
fn names_of_lots_survive_a_sync_and_lots_are_walked_like_other_datafiles() {
    let directory = tempfile::tempdir().unwrap();
    let served = target(directory.path());
    let id = datafile(0x1234, Some(0xab));
    write(&served, id, 0, 10).unwrap();
    served.sync(id).unwrap();
    assert!(directory.path().join("lots/000000ab/34/0000000000001234.0").is_file());
    drop(served);
    std::fs::remove_file(directory.path().join("thalweg-epoch.toml")).unwrap();
    std::fs::create_dir_all(directory.path().join("lots/nobodys")).unwrap();
    let served = Target::open(directory.path(), 7, NUMBER).unwrap();
    assert!(served.is_adopted());
    assert_eq!((used(&served, 0xab), served.glimpse(id).unwrap().size_bytes), (walked(directory.path(), 0xab), 10));
}
