//! Lots on full disks, and on disks being filled.

use super::*;
use crate::loopback::SmallDisk;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Starts a store whose targets are small separate file systems; `None` if mounting is not permitted here.
fn small(directory: &Path, size: &str) -> Option<(World, Vec<SmallDisk>)> {
    let disks: Option<Vec<SmallDisk>> = (0..SERVERS).map(|n| SmallDisk::mount(&directory.join(format!("io{n}")), size)).collect();
    match disks {
        Some(disks) => Some((World::up(directory), disks)),
        None => {
            println!("SKIPPED: mounting a file system needs root");
            None
        }
    }
}

/// Repeatedly writes outside lots to one target until `over`; returns the number of refusals.
fn filler(client: &Client, target: u32, over: &AtomicBool) -> u64 {
    let path = format!("/filler-{target}");
    let file = client.laid_out(&path, on_target(target)).unwrap();
    let (mut at, mut refusals) = (0, 0);
    while !over.load(Ordering::SeqCst) {
        match file.write_at(&[3; 1 << 18], at) {
            Ok(()) => at += 1 << 18,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                refusals += 1;
                // Frees some of it, to be taken again.
                at = at.saturating_sub(3 << 18);
                client.truncate(&path, at).unwrap();
            }
        }
    }
    refusals
}

#[test]
fn sixty_four_writers_have_their_lots_to_the_last_chunk_while_the_rest_is_full_and_being_filled() {
    const LOTS: u64 = 8;
    const WRITERS: u64 = 64;
    const PIECE: usize = 1 << 16;
    let directory = tempfile::tempdir().unwrap();
    let Some((world, _disks)) = small(directory.path(), "64m") else { return };
    for lot in 0..LOTS {
        let made = world.client.create(&format!("l{lot}"), 20 * MIB, HOUR_NS).unwrap();
        world.client.directory(&format!("/l{lot}"), made.lot.id).unwrap();
    }
    let (over, refusals, most) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let without_room = [const { AtomicBool::new(false) }; LOTS as usize];
    std::thread::scope(|scope| {
        for target in 0..SERVERS as u32 {
            let (client, over, refusals) = (world.client.clone(), &over, &refusals);
            scope.spawn(move || refusals.fetch_add(filler(&client, target, over), Ordering::SeqCst));
        }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (client, without_room) = (world.client.clone(), &without_room);
                scope.spawn(move || {
                    let file = client.file(&format!("/l{}/{writer}", writer % LOTS)).unwrap();
                    let (written, refused) = fill(&file, PIECE, 64 * MIB);
                    let refused = refused.expect("a lot is no larger");
                    assert_eq!(refused.kind(), ErrorKind::Quota, "writer {writer}: {refused}");
                    if refused.message().contains("cannot be moved here") {
                        without_room[(writer % LOTS) as usize].store(true, Ordering::SeqCst);
                    }
                    if written > 0 {
                        // Existing bytes may be overwritten.
                        file.write_at(&[9; 100], 10).unwrap();
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            for report in world.client.shown().unwrap() {
                most.fetch_max(used(&report), Ordering::SeqCst);
            }
        }
        over.store(true, Ordering::SeqCst);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert!(refusals.into_inner() > 0, "the disks were full");
    assert!(most.into_inner() <= 20 * MIB, "at no time more than the lot");
    let all = without_room.iter().filter(|lot| lot.load(Ordering::SeqCst)).count();
    assert!(all <= LOTS as usize / 2, "what moves is no more than there is room for: {all}");
    for lot in 0..LOTS {
        let used = world.check(&world.client, &format!("l{lot}"));
        // A refused writer needs a piece and has less of the share on its target, and the other targets have less to give, apart from one
        // piece in flight of each other writer of the lot. (Moved promise needs room on a disk that all lots and other programs fill: if
        // there was none, the remainder is unknown.)
        let in_flight = (1 + WRITERS / LOTS) * PIECE as u64;
        let least = if without_room[lot as usize].load(Ordering::SeqCst) { 0 } else { 20 * MIB - in_flight };
        assert!((least..=20 * MIB).contains(&used), "lot {lot}: {used} of at least {least}");
    }
}

#[test]
fn lots_that_are_over_go_when_others_need_their_room_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let Some((world, _disks)) = small(directory.path(), "48m") else { return };
    let client = &world.client;
    for (name, size, for_ns) in [("old", 96 * MIB, 1_500_000_000), ("kept", 32 * MIB, HOUR_NS)] {
        let made = client.create(name, size, for_ns).unwrap();
        client.directory(&format!("/{name}"), made.lot.id).unwrap();
    }
    for (name, bytes) in [("old", 80 * MIB), ("kept", 16 * MIB)] {
        assert_eq!(fill(&client.file(&format!("/{name}/f")).unwrap(), 1 << 18, bytes), (bytes, None));
    }
    wait_until("its time is over", || client.show("old").unwrap().uses.iter().all(|used| used.expired));
    let opened = client.store.open("/old/f").unwrap();
    let outside = client.file("/outside").unwrap();
    assert_eq!(fill(&outside, 1 << 18, 32 * MIB), (32 * MIB, None), "there is room");
    client.show("old").unwrap();
    let (written, refused) = fill(&outside, 1 << 18, 256 * MIB);
    assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::NoSpace), "{written}");
    client.show("old").expect("a file of it is open");
    drop(opened);
    client.names.report_closed(&mut Tracer::off()).unwrap();
    wait_until("it makes room", || (0..32).all(|piece| outside.write_at(&[1; 1 << 18], written + (piece << 18)).is_ok()));
    assert_eq!(kind(client.show("old")), ErrorKind::NotFound);
    let used = world.check(client, "kept");
    let (more, refused) = fill(&client.file("/kept/g").unwrap(), 1 << 16, 64 * MIB);
    assert_eq!(refused.unwrap().kind(), ErrorKind::Quota);
    assert!(used + more > 31 * MIB, "{used} {more}");
}
