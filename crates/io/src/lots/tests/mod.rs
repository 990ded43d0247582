//! Lots at a whole target: counting, refusals, and restarts.

mod full;
pub(crate) mod mounted;

use super::More;
use crate::Target;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::io::{Allocate, DatafileId, FileId, LotId, TargetId};
use thalweg_wire::protocol::lots::{LotShare, LotUse};
use thalweg_wire::trust::{CredentialId, Identity, Rights};
use thalweg_wire::{Error, ErrorKind, Result};

const MIB: u64 = 1 << 20;
const NUMBER: TargetId = TargetId(3);

fn target(directory: &Path) -> Target {
    Target::initialise(directory, 7, NUMBER).unwrap()
}

fn share(lot: u32, bytes: u64) -> LotShare {
    LotShare {
        lot: LotId(lot),
        name: format!("lot-{lot}"),
        owner: "ada".into(),
        share_bytes: bytes,
        size_bytes: bytes,
        until_ns: i64::MAX,
        elastic: false,
    }
}

/// Returns datafile `file`, in a lot or not.
fn datafile(file: u64, lot: Option<u32>) -> DatafileId {
    DatafileId { file: FileId(file), index: 0, target: NUMBER, lot: lot.map(LotId) }
}

/// Returns a datafile of another target.
fn datafile_at(target: u32, file: u64, lot: u32) -> DatafileId {
    DatafileId { target: TargetId(target), ..datafile(file, Some(lot)) }
}

fn write(target: &Target, id: DatafileId, offset: u64, length: u64) -> Result<()> {
    target.created(id)?.write(&vec![7; length as usize], offset)
}

fn used(target: &Target, lot: u32) -> u64 {
    target.lots().find(LotId(lot)).map_or(0, |lot| target.lots().used_of(&lot))
}

/// Returns the size of a lot's datafiles according to `du`.
fn walked(directory: &Path, lot: u32) -> u64 {
    let root = directory.join(format!("lots/{lot:08x}"));
    let parts = std::fs::read_dir(root).into_iter().flatten().map(|part| part.unwrap().path());
    let files = parts.flat_map(|part| std::fs::read_dir(part).unwrap()).map(|file| file.unwrap());
    // Checksums are nobody's: what a lot promises is room for data.
    let datafiles = files.filter(|file| !file.path().to_string_lossy().ends_with(crate::name::SUMS));
    datafiles.map(|file| file.metadata().unwrap().blocks() * 512).sum()
}

fn kind(done: Result<()>) -> ErrorKind {
    done.unwrap_err().kind()
}

#[test]
fn use_is_what_the_datafiles_blocks_are_after_every_change_and_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut served = target(directory.path());
    served.lots().keep(&share(5, 64 * MIB), None).unwrap();
    let same = |served: &Target, what: &str| assert_eq!(used(served, 5), walked(directory.path(), 5), "{what}");
    let id = |file| datafile(file, Some(5));
    write(&served, id(1), 0, MIB).unwrap();
    same(&served, "a write");
    assert_eq!(used(&served, 5), MIB);
    write(&served, id(1), 512, MIB).unwrap();
    write(&served, id(2), 100 * MIB, 10).unwrap();
    same(&served, "a write into the middle, and one far behind the end");
    served.truncate(id(2), 200 * MIB).unwrap();
    same(&served, "an extension, which is a hole");
    assert!(used(&served, 5) < 2 * MIB);
    served.allocate(id(3), 0, 3 * MIB, Allocate::KeepSize).unwrap();
    same(&served, "an allocation");
    served.allocate(id(3), MIB, MIB, Allocate::PunchHole).unwrap();
    same(&served, "a hole");
    assert!(used(&served, 5) < 5 * MIB);
    for how in [Allocate::ZeroRange, Allocate::Extend, Allocate::ZeroRangeKeepSize] {
        served.allocate(id(3), 0, 2 * MIB, how).unwrap();
        same(&served, "a range");
    }
    served.briefly(id(4), true).unwrap().unwrap().write(&[1; 5000], 0).unwrap();
    same(&served, "one of many");
    served.truncate(id(1), 4096).unwrap();
    same(&served, "a truncation");
    served.sync_all().unwrap();
    same(&served, "a sync");
    let before = used(&served, 5);
    drop(served);
    served = Target::open(directory.path(), 7, NUMBER).unwrap();
    same(&served, "a restart");
    assert_eq!(used(&served, 5), before);
    for file in 1..=4 {
        served.remove(id(file)).unwrap();
        served.remove(id(file)).unwrap();
        same(&served, "a removal");
    }
    assert_eq!(used(&served, 5), 0);
    assert_eq!(served.lots().list().len(), 1, "what was promised is known after the restart");
}

#[test]
fn what_a_file_system_adds_when_it_writes_back_is_counted_when_a_target_is_served_again() {
    mounted::on("ext4", 64, |point| {
        let directory = point.join("target");
        let mut served = target(&directory);
        served.lots().keep(&share(5, 16 * MIB), None).unwrap();
        // More extents than fit into an inode: a block for them is allocated as soon as they have a place.
        (0..100).for_each(|piece| write(&served, datafile(1, Some(5)), piece * 8192, 4096).unwrap());
        drop(served);
        served = Target::open(&directory, 7, NUMBER).unwrap();
        rustix::fs::syncfs(std::fs::File::open(point).unwrap()).unwrap();
        assert!(walked(&directory, 5) > 100 * 4096);
        assert_eq!(used(&served, 5), walked(&directory, 5));
        served.remove(datafile(1, Some(5))).unwrap();
        assert_eq!(used(&served, 5), 0);
    });
}

#[test]
fn what_is_removed_while_it_is_open_is_given_back_at_once_and_what_is_written_to_it_is_nobodys() {
    let directory = tempfile::tempdir().unwrap();
    let served = target(directory.path());
    served.lots().keep(&share(5, 8 * MIB), None).unwrap();
    let id = datafile(1, Some(5));
    let [open, another] = [true, false].map(|create| served.briefly(id, create).unwrap().unwrap());
    open.write(&[1; 8192], 0).unwrap();
    another.write(&[2; 8192], 8192).unwrap();
    assert_eq!(used(&served, 5), 16384, "each block once, whichever way it came");
    served.remove(id).unwrap();
    assert_eq!(used(&served, 5), 0);
    open.write(&[1; 8192], 65536).unwrap();
    assert_eq!(used(&served, 5), 0);
    write(&served, id, 0, 4096).unwrap();
    assert_eq!(used(&served, 5), 4096);
    another.write(&[1; 8192], 1 << 20).unwrap();
    drop((open, another));
    assert_eq!(used(&served, 5), 4096);
}

#[test]
fn a_full_lot_refuses_what_adds_to_it_and_takes_what_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let served = target(directory.path());
    served.lots().keep(&share(5, 4 * MIB), None).unwrap();
    let id = datafile(1, Some(5));
    for part in 0..4 {
        write(&served, id, part * MIB, MIB).unwrap();
    }
    let error = write(&served, id, 4 * MIB, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Quota);
    for part in ["lot-5", "4 MiB", "used", "until 22"] {
        assert!(error.message().contains(part), "`{part}` is not in: {error}");
    }
    for part in 0..4 {
        write(&served, id, part * MIB, MIB).unwrap();
    }
    write(&served, id, 7, 100).unwrap();
    assert_eq!(kind(write(&served, id, 4 * MIB - 10, 20)), ErrorKind::Quota);
    assert_eq!(kind(write(&served, datafile(2, Some(5)), 0, 1)), ErrorKind::Quota);
    assert_eq!(kind(served.allocate(id, 0, 5 * MIB, Allocate::KeepSize)), ErrorKind::Quota);
    served.truncate(id, 1 << 40).unwrap();
    served.truncate(id, 3 * MIB).unwrap();
    write(&served, datafile(2, Some(5)), 0, MIB).unwrap();
    assert_eq!(used(&served, 5), 4 * MIB);
    served.allocate(id, 0, MIB, Allocate::PunchHole).unwrap();
    write(&served, datafile(2, Some(5)), MIB, MIB).unwrap();
    assert_eq!(kind(write(&served, datafile(2, Some(5)), 2 * MIB, 1)), ErrorKind::Quota);
    // A datafile of another lot with the same number is a different datafile.
    assert_eq!(served.glimpse(datafile(1, None)).unwrap().size_bytes, 0);
    assert_eq!(served.glimpse(datafile(1, Some(6))).unwrap().size_bytes, 0);
    assert_eq!(served.glimpse(id).unwrap().size_bytes, 3 * MIB);
}

#[test]
fn many_writers_fill_a_share_to_its_last_block_and_no_further() {
    let directory = tempfile::tempdir().unwrap();
    let served = target(directory.path());
    let bytes = 8 * MIB;
    served.lots().keep(&share(5, bytes), None).unwrap();
    let (written, most) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..8_u64 {
            let (served, written, most) = (&served, &written, &most);
            scope.spawn(move || {
                let mut refused = 0;
                for piece in 0..1000 {
                    // Every other writer overwrites existing bytes, too.
                    let id = datafile(1 + writer % 4, Some(5));
                    let offset = (writer / 4 * 500 + piece) * 8192;
                    match write(served, id, offset, 8192) {
                        Ok(()) => drop(written.fetch_add(8192, Ordering::SeqCst)),
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::Quota, "{e}");
                            refused += 1;
                        }
                    }
                    most.fetch_max(used(served, 5), Ordering::SeqCst);
                    if refused > 20 {
                        break;
                    }
                }
            });
        }
    });
    assert_eq!((used(&served, 5), walked(directory.path(), 5)), (bytes, bytes));
    assert_eq!(most.into_inner(), bytes, "at no time more");
}

#[test]
fn a_share_is_kept_as_often_as_one_asks_and_is_not_made_smaller_than_what_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let served = target(directory.path());
    let lots = served.lots();
    for _ in 0..2 {
        let kept = lots.keep(&share(5, 4 * MIB), None).unwrap();
        assert_eq!((kept.used_bytes, kept.share.share_bytes, kept.target, kept.expired), (0, 4 * MIB, NUMBER, false));
    }
    write(&served, datafile(1, Some(5)), 0, 2 * MIB).unwrap();
    assert_eq!(lots.keep(&share(5, MIB), None).unwrap_err().kind(), ErrorKind::Quota);
    assert_eq!(lots.list()[0].share.share_bytes, 4 * MIB, "what was kept stays");
    lots.keep(&share(5, 2 * MIB), None).unwrap();
    assert_eq!(kind(write(&served, datafile(1, Some(5)), 2 * MIB, 1)), ErrorKind::Quota);
    let too_much = lots.keep(&share(6, 1 << 60), None).unwrap_err();
    assert_eq!(too_much.kind(), ErrorKind::NoSpace);
    for part in ["more are needed", "free on the file system of", "promised to others"] {
        assert!(too_much.message().contains(part), "`{part}` is not in: {too_much}");
    }
    assert_eq!(lots.keep(&share(6, u64::MAX), None).unwrap_err().kind(), ErrorKind::Invalid);
    for _ in 0..2 {
        lots.release(LotId(5)).unwrap();
    }
    assert!(lots.list().is_empty());
    assert_eq!((used(&served, 5), served.glimpse(datafile(1, Some(5))).unwrap().size_bytes), (2 * MIB, 2 * MIB), "its files stay");
    write(&served, datafile(1, Some(5)), 2 * MIB, 1).unwrap();
}

#[test]
fn a_list_of_shares_that_is_damaged_keeps_the_target_from_being_served() {
    let directory = tempfile::tempdir().unwrap();
    let served = target(directory.path());
    served.lots().keep(&share(5, 4 * MIB), None).unwrap();
    drop(served);
    let path = directory.path().join("thalweg-lots.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    let error = Target::open(directory.path(), 7, NUMBER).err().unwrap();
    assert!(error.message().contains("thalweg-lots.toml") && error.message().contains("not served"), "{error}");
    std::fs::write(&path, text.replace("format = 1", "format = 9")).unwrap();
    assert_eq!(Target::open(directory.path(), 7, NUMBER).err().unwrap().kind(), ErrorKind::Version);
    std::fs::write(&path, text).unwrap();
    assert_eq!(Target::open(directory.path(), 7, NUMBER).unwrap().lots().list().len(), 1);
}

fn who_writes(owner: &str) -> Identity {
    Identity { id: CredentialId([1; 16]), owner: owner.into(), rights: Rights::Write, until_s: None, lots: Default::default() }
}

#[test]
fn only_the_owner_and_the_store_may_use_what_is_in_a_lot() {
    let directory = tempfile::tempdir().unwrap();
    let served = target(directory.path());
    served.lots().keep(&share(5, 4 * MIB), None).unwrap();
    let who =
        |owner: &str, rights| Identity { id: CredentialId([1; 16]), owner: owner.into(), rights, until_s: None, lots: Default::default() };
    let access =
        |who: &Identity, lot: u32, changes| served.lots().access(Some(LotId(lot)), who, changes).map_err(|e| (e.kind(), e.to_string()));
    for changes in [true, false] {
        assert!(access(&who("ada", Rights::Write), 5, changes).is_ok());
        assert!(access(&Identity::store(), 5, changes).is_ok());
        let (kind, message) = access(&who("bob", Rights::Write), 5, changes).unwrap_err();
        assert_eq!(kind, ErrorKind::Access);
        assert!(message.contains("lot-5") && message.contains("`ada`") && message.contains("`bob`"), "{message}");
        for (who, lot) in [("bob", 6), ("ada", 6)] {
            let refused = access(&self::who_writes(who), lot, changes).unwrap_err();
            assert_eq!(refused.0, ErrorKind::Busy, "nobody knows yet whose it is: {}", refused.1);
        }
        assert!(access(&Identity::store(), 6, changes).is_ok());
    }
    assert!(access(&who("store", Rights::Read), 5, false).is_ok(), "the store's own for reading reads everything");
    assert!(access(&who("store", Rights::Read), 5, true).is_err());
    served.lots().release(LotId(5)).unwrap();
    assert!(access(&who("ada", Rights::Write), 5, true).is_ok(), "what is still open there");
    assert_eq!(access(&who("bob", Rights::Write), 5, false).unwrap_err().0, ErrorKind::Access);
}

/// Another target with unused promise.
struct Others {
    target: Weak<Target>,
    left: Mutex<u64>,
    asked: AtomicU64,
}

impl More for Others {
    fn move_here(&self, lot: LotId, target: TargetId, bytes: u64) -> Result<()> {
        assert_eq!(target, NUMBER);
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut left = self.left.lock();
        if *left < bytes {
            return Err(Error::new(ErrorKind::Quota, "no other target has that much"));
        }
        let moved = (*left).min(MIB);
        *left -= moved;
        let target = self.target.upgrade().unwrap();
        let LotUse { share, .. } = target.lots().list().remove(0);
        assert_eq!(share.lot, lot);
        target.lots().keep(&LotShare { share_bytes: share.share_bytes + moved, ..share }, None).map(drop)
    }

    fn reclaim(&self, _: TargetId, _: u64) -> Result<()> {
        Err(Error::new(ErrorKind::NoSpace, "nothing"))
    }
}

#[test]
fn a_share_that_is_used_up_gets_what_others_have_left_and_no_more_and_is_refused_only_then() {
    let directory = tempfile::tempdir().unwrap();
    let served = Arc::new(target(directory.path()));
    let others = Arc::new(Others { target: Arc::downgrade(&served), left: Mutex::new(3 * MIB), asked: 0.into() });
    served.ask_for_more(Arc::clone(&others) as _);
    served.lots().keep(&LotShare { size_bytes: 5 * MIB, ..share(5, 2 * MIB) }, None).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..5 {
            let served = &served;
            scope.spawn(move || (0..16).for_each(|piece| write(served, datafile(1 + writer, Some(5)), piece * 65536, 65536).unwrap()));
        }
    });
    assert_eq!(used(&served, 5), 5 * MIB);
    assert_eq!(others.asked.load(Ordering::SeqCst), 3, "once for each piece that came");
    let begun = std::time::Instant::now();
    for _ in 0..4 {
        assert_eq!(kind(write(&served, datafile(9, Some(5)), 0, 1)), ErrorKind::Quota);
    }
    let asked = u32::try_from(others.asked.load(Ordering::SeqCst)).unwrap() - 3;
    assert_eq!(asked, 4, "what has been removed since the last refusal may be room by now");
    assert!(begun.elapsed() >= thalweg_wire::limits::LOT_REST * (asked - 1), "and a program that writes on costs next to nothing");
}

#[test]
fn a_lots_directory_goes_with_its_share_or_with_its_last_datafile_and_what_earlier_releases_left_at_a_start() {
    let directory = tempfile::tempdir().unwrap();
    let there = |lot: u32| directory.path().join(format!("lots/{lot:08x}")).exists();
    let served = target(directory.path());
    (5..8).for_each(|lot| drop(served.lots().keep(&share(lot, MIB), None).unwrap()));
    let ids = [datafile(1, Some(5)), datafile(2, Some(6)), datafile(3, Some(6)), datafile(0x104, Some(7))];
    for id in ids {
        write(&served, id, 0, 10).unwrap();
        served.sync(id).unwrap();
    }
    // First the bytes, then the share.
    served.remove(ids[0]).unwrap();
    assert!(there(5), "it is promised still");
    served.lots().release(LotId(5)).unwrap();
    assert!(!there(5));
    // First the share, then the bytes, some of which are open.
    let open = served.created(ids[2]).unwrap();
    served.lots().release(LotId(6)).unwrap();
    served.remove(ids[1]).unwrap();
    assert!(there(6), "it has a datafile");
    served.remove(ids[2]).unwrap();
    assert!(!there(6));
    open.write(b"x", 0).unwrap();
    served.sync(ids[2]).unwrap();
    // Left by an earlier release, or by a killed server.
    for left in ["lots/0000000a/00", "lots/0000000b/ff", "lots/nobodys"] {
        std::fs::create_dir_all(directory.path().join(left)).unwrap();
    }
    drop((open, served));
    let served = Target::open(directory.path(), 7, NUMBER).unwrap();
    assert_eq!([5, 6, 7, 10, 11].map(there), [false, false, true, false, false]);
    assert!(directory.path().join("lots/nobodys").exists(), "what is no lot's stays");
    assert!(used(&served, 7) > 0);
    write(&served, datafile(9, Some(10)), 0, 10).unwrap();
    assert!(there(10), "a directory that has gone is made again");
}
