//! The life of a lot, and writes into it.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_client::copy::{CopyJob, CopyObserver, Sink, Source, run};
use thalweg_wire::protocol::io::Allocate;
use thalweg_wire::protocol::lots::LotState;

#[test]
fn a_lot_is_created_shown_renewed_resized_and_removed_over_real_servers() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::up(directory.path());
    let client = &world.client;
    let made = client.create("run", 64 * MIB, HOUR_NS).unwrap();
    assert_eq!(made.lot.state, LotState::Active);
    assert!(made.uses.len() == SERVERS && made.uses.iter().all(|used| used.share.share_bytes == 16 * MIB && used.used_bytes == 0));
    assert_eq!(kind(client.create("run", MIB, HOUR_NS)), ErrorKind::Exists);
    let too_much = client.create("huge", 1 << 60, HOUR_NS).unwrap_err();
    assert_eq!(too_much.kind(), ErrorKind::NoSpace);
    assert!(too_much.message().contains("free") && too_much.message().contains("asked"), "{too_much}");
    assert_eq!(client.shown().unwrap().len(), 1, "nothing is left of it");
    client.directory("/run", made.lot.id).unwrap();
    let file = client.file("/run/f").unwrap();
    assert_eq!(fill(&file, 1 << 16, 8 * MIB), (8 * MIB, None));
    assert_eq!(world.check(client, "run"), 8 * MIB);
    assert_eq!(client.show("run").unwrap().directories, [b"/run".to_vec()]);
    let renewed = client.renew("run", 5 * HOUR_NS).unwrap();
    assert!(renewed.lot.until_ns > made.lot.until_ns && renewed.uses.iter().all(|used| used.share.until_ns == renewed.lot.until_ns));
    assert_eq!(kind(client.resize("run", 4 * MIB)), ErrorKind::Invalid);
    for size in [16 * MIB, 100 * MIB] {
        let resized = client.resize("run", size).unwrap();
        assert_eq!(resized.uses.iter().map(|used| used.share.share_bytes).sum::<u64>(), size);
        assert_eq!(world.check(client, "run"), 8 * MIB);
    }
    assert_eq!(kind(client.remove("run", false)), ErrorKind::NotEmpty);
    drop(file);
    client.remove("run", true).unwrap();
    assert_eq!(kind(client.show("run")), ErrorKind::NotFound);
    assert_eq!(kind(client.names.stat(&mut Tracer::off(), &FilePath::at("/run/f"))), ErrorKind::NotFound);
    wait_until("the bytes go", || (0..4).all(|target| walked(directory.path(), target, made.lot.id) == 0));
}

#[test]
fn what_one_target_needs_of_a_lot_moves_there_and_not_a_byte_more_than_the_lot_is() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::up(directory.path());
    let lot = world.client.create("run", 16 * MIB, HOUR_NS).unwrap().lot.id;
    world.client.directory("/run", lot).unwrap();
    let elsewhere = world.client.laid_out("/run/elsewhere", on_target(1)).unwrap();
    assert_eq!(fill(&elsewhere, 1 << 16, 2 * MIB), (2 * MIB, None));
    let file = world.client.laid_out("/run/f", on_target(2)).unwrap();
    let (written, refused) = fill(&file, 1 << 16, 64 * MIB);
    let refused = refused.unwrap();
    assert_eq!((written, refused.kind()), (14 * MIB, ErrorKind::Quota), "{refused}");
    for part in ["`run`", "16 MiB", "until"] {
        assert!(refused.message().contains(part), "`{part}` is not in: {refused}");
    }
    assert_eq!(world.check(&world.client, "run"), 16 * MIB);
    // Space that others return becomes available here.
    drop(elsewhere);
    world.client.unlink("/run/elsewhere").unwrap();
    wait_until("the room is back", || file.write_at(&[1; 4096], 14 * MIB).is_ok());
    assert_eq!(world.check(&world.client, "run"), 14 * MIB + 4096);
}

#[test]
fn a_full_lot_takes_overwrites_and_truncations_and_what_holes_do_not_take() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::up(directory.path());
    let client = &world.client;
    let lot = client.create("run", 8 * MIB, HOUR_NS).unwrap().lot.id;
    client.directory("/run", lot).unwrap();
    let sparse = client.file("/run/sparse").unwrap();
    for at in 0..64 {
        sparse.write_at(&[1; 4096], at << 30).unwrap();
    }
    assert_eq!(world.check(client, "run"), 64 * 4096);
    let file = client.file("/run/f").unwrap();
    let (written, refused) = fill(&file, 1 << 16, 64 * MIB);
    assert_eq!(refused.unwrap().kind(), ErrorKind::Quota);
    let full = world.check(client, "run");
    assert!(full <= 8 * MIB + super::INDEX_BYTES && full + (1 << 16) > 8 * MIB, "{full}");
    for at in (0..written).step_by(1 << 16) {
        file.write_at(&[2; 1 << 16], at).unwrap();
    }
    sparse.write_at(&[2; 100], (5 << 30) + 7).unwrap();
    assert_eq!(kind(sparse.write_at(&[2; 1 << 16], 100 << 30)), ErrorKind::Quota);
    assert_eq!(kind(file.allocate(&mut Tracer::off(), 0, 64 * MIB, Allocate::KeepSize)), ErrorKind::Quota);
    client.truncate("/run/sparse", 200 << 30).unwrap();
    let full_still = world.check(client, "run");
    assert!(full_still.abs_diff(full) <= super::INDEX_BYTES, "{full_still} {full}");
    client.truncate("/run/f", MIB).unwrap();
    let less = world.check(client, "run");
    assert!(less.abs_diff(full - (written - MIB)) <= super::INDEX_BYTES, "{less} {full}");
    file.allocate(&mut Tracer::off(), 0, 3 * MIB, Allocate::Extend).unwrap();
    assert_eq!(world.check(client, "run"), less + 2 * MIB);
    file.allocate(&mut Tracer::off(), 0, 3 * MIB, Allocate::PunchHole).unwrap();
    assert_eq!(world.check(client, "run"), less - MIB);
}

#[test]
fn a_file_does_not_leave_its_lot_by_a_new_name() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::up(directory.path());
    let client = &world.client;
    for name in ["a", "b"] {
        let lot = client.create(name, 8 * MIB, HOUR_NS).unwrap().lot.id;
        client.directory(&format!("/{name}"), lot).unwrap();
        fill(&client.file(&format!("/{name}/f")).unwrap(), 1 << 16, MIB);
    }
    client.file("/outside").unwrap();
    for (from, to) in [("/a/f", "/b/f"), ("/a/f", "/f"), ("/outside", "/a/outside"), ("/a", "/b/a")] {
        let refused = client.rename(from, to).unwrap_err();
        assert_eq!((refused.kind(), refused.kind().errno()), (ErrorKind::CrossLot, libc::EXDEV), "{from} {to}: {refused}");
    }
    client.rename("/a/f", "/a/g").unwrap();
    client.rename("/a", "/c").unwrap();
    assert_eq!((world.check(client, "a"), world.check(client, "b")), (MIB, MIB));
}

/// Stops a copy on request.
struct Stop(AtomicBool);

impl CopyObserver for Stop {
    fn progress(&self, moved_bytes: u64, _: Option<u64>) {
        if moved_bytes > 4 * MIB {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn a_cancelled_copy_gives_its_space_back_within_a_second() {
    let (directory, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let world = World::up(directory.path());
    let lot = world.client.create("run", 512 * MIB, HOUR_NS).unwrap().lot.id;
    // A service that has just started keeps removed files until earlier clients have had time to return.
    world.client.directory("/run", lot).unwrap();
    fill(&world.client.file("/run/f").unwrap(), 1 << 16, MIB);
    world.client.unlink("/run/f").unwrap();
    wait_until("removed files go", || used(&world.client.show("run").unwrap()) == 0);
    let from = here.path().join("from");
    std::fs::write(&from, crate::loopback::noise(MIB as usize, 3)).unwrap();
    std::fs::File::options().write(true).open(&from).unwrap().set_len(2 << 30).unwrap();
    let choice = LayoutChoice { lot: Some(lot), ..LayoutChoice::default() };
    let mut job = CopyJob::new(Source::Local(from), Sink::Store(world.client.store.clone(), "/big".into(), choice));
    job.sparse = thalweg_client::copy::Sparse::Never;
    let stop = Stop(false.into());
    let error = run(&job, &stop).unwrap_err();
    let ended = Instant::now();
    assert!(matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Quota), "{error}");
    wait_until("the space is back", || used(&world.client.show("run").unwrap()) == 0);
    assert!(ended.elapsed() < Duration::from_secs(1), "{:?}", ended.elapsed());
    assert_eq!(world.check(&world.client, "run"), 0);
}
