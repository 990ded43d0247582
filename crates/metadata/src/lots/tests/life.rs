//! The life of a lot, and the messages of refusals.

use super::simulated::*;
use crate::database::Unwatched;
use std::time::{Duration, Instant};
use thalweg_wire::Error;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::lots::{Level, LotOperation, LotState};
use thalweg_wire::protocol::metadata::{Existing, FilePath, LayoutChoice, LotId, SetAttributes, TargetId};
use thalweg_wire::trust::{CredentialId, Identity, LotBounds, Rights, STORE_OWNER};

fn named(name: &str) -> LotOperation {
    LotOperation::Show { name: Some(name.into()) }
}

fn remove(name: &str, files: bool) -> LotOperation {
    LotOperation::Remove { name: name.into(), files }
}

fn said(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    words.iter().for_each(|word| assert!(error.to_string().contains(word), "`{word}` is not in: {error}"));
}

#[test]
fn what_is_no_lot_is_refused_with_what_is_expected() {
    let world = World::new();
    let refused =
        |name: &str, size, for_ns, words: &[&str]| said(&world.create(name, size, for_ns).unwrap_err(), ErrorKind::Invalid, words);
    refused("a b", GI, HOUR_NS, &["a b", "1 to 63 letters"]);
    refused("run", 0, HOUR_NS, &["at least 1 byte"]);
    refused("run", 1 << 63, HOUR_NS, &["9223372036854775808", "less than"]);
    refused("run", GI, 0, &["--for 7d"]);
    refused("run", GI, u64::MAX, &["at most 100 years"]);
    world.create("run", GI, HOUR_NS).unwrap();
    said(&world.create("run", GI, HOUR_NS).unwrap_err(), ErrorKind::Exists, &["`run`"]);
    let create = |owner: Option<&str>, least, targets: &[u32]| LotOperation::Create {
        name: "two".into(),
        owner: owner.map(str::to_owned),
        size_bytes: GI,
        for_ns: HOUR_NS,
        elastic: false,
        least,
        targets: targets.iter().copied().map(TargetId).collect(),
    };
    said(&world.ask(&owner("alice"), create(None, None, &[9])).unwrap_err(), ErrorKind::Invalid, &["no target 9", "0, 1, 2, 3"]);
    said(&world.ask(&owner("alice"), create(Some("bob"), None, &[])).unwrap_err(), ErrorKind::Access, &["`alice`", "`bob`"]);
    said(&world.ask(&owner("alice"), create(None, Some(Level::Own), &[])).unwrap_err(), ErrorKind::Unsupported, &["io0", "admission"]);
    world.check();
    let made = world.ask(&Identity::store(), create(Some("bob"), None, &[1, 3, 1])).unwrap().pop().unwrap().lot;
    assert_eq!((made.owner.as_str(), made.shares), ("bob", vec![(TargetId(1), GI / 2), (TargetId(3), GI / 2)]));
    assert!(made.id > LotId(2), "a number is never given twice, not even that of a lot that was not made");
}

#[test]
fn a_lot_that_does_not_fit_is_refused_and_leaves_nothing_but_the_words_when_it_would() {
    let world = World::new();
    world.create("big", 32 * GI, HOUR_NS).unwrap();
    let refused = world.create("more", 12 * GI, HOUR_NS).unwrap_err();
    said(&refused, ErrorKind::NoSpace, &["target 0: 3 GiB asked, 10 GiB free, 8 GiB of that promised", "12 GiB from 2", "UTC"]);
    world.check();
    assert_eq!(world.namespace.lots().unwrap().len(), 1);
    world.create("more", 8 * GI, HOUR_NS).unwrap();
    let refused = world.create("never", 50 * GI, HOUR_NS).unwrap_err();
    said(&refused, ErrorKind::NoSpace, &["no lot's end makes room"]);
    // A single full target suffices.
    world.ask(&owner("alice"), remove("big", false)).unwrap();
    world.disks.lock().outside.insert(TargetId(3), 8 * GI);
    said(&world.create("again", 4 * GI, HOUR_NS).unwrap_err(), ErrorKind::NoSpace, &["target 3: 1 GiB asked, 2 GiB free, 2 GiB of that"]);
    world.check();
}

#[test]
fn what_a_target_that_is_away_keeps_is_released_when_it_is_back() {
    let world = World::new();
    world.disks.lock().away.insert(TargetId(3));
    assert_eq!(world.create("run", 4 * GI, HOUR_NS).unwrap_err().server(), Some("io3"));
    world.disks.lock().away.clear();
    world.lots().settled();
    world.check();
    assert!(world.namespace.lots().unwrap().is_empty());
    // The space of a removed lot counts too.
    world.create("run", 4 * GI, HOUR_NS).unwrap();
    world.disks.lock().away.insert(TargetId(1));
    world.ask(&owner("alice"), remove("run", false)).unwrap();
    assert_eq!(world.namespace.lots().unwrap()[0].lot.state, LotState::Removing);
    world.create("run", 0, 0).unwrap_err();
    world.disks.lock().away.clear();
    world.lots().settled();
    assert!(world.namespace.lots().unwrap().is_empty() && world.disks.lock().shares.is_empty());
}

#[test]
fn a_lot_gets_another_size_everywhere_or_nowhere_and_not_below_what_is_used() {
    let world = World::new();
    let alice = owner("alice");
    let resize = |size_bytes| world.ask(&alice, LotOperation::Resize { name: "run".into(), size_bytes });
    let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
    world.file("/f", lot, 512 * MI);
    said(&resize(GI).unwrap_err(), ErrorKind::Invalid, &["`run`", "2 GiB of it is used", "1 GiB is too small"]);
    said(&resize(0).unwrap_err(), ErrorKind::Invalid, &["at least 1 byte"]);
    assert_eq!(resize(2 * GI).unwrap()[0].lot.size_bytes, 2 * GI);
    world.check();
    world.disks.lock().outside.insert(TargetId(2), 9 * GI);
    said(&resize(8 * GI).unwrap_err(), ErrorKind::NoSpace, &["target 2: "]);
    world.check();
    assert_eq!(world.namespace.lot(lot).unwrap().lot.size_bytes, 2 * GI);
    world.disks.lock().outside.clear();
    resize(40 * GI).unwrap();
    world.check();
}

#[test]
fn a_lot_whose_time_is_over_is_renewed_if_it_still_fits() {
    let world = World::new();
    let alice = owner("alice");
    let renew = |for_ns| world.ask(&alice, LotOperation::Renew { name: "run".into(), for_ns });
    world.create("run", 32 * GI, HOUR_NS).unwrap();
    assert_eq!(renew(0).unwrap()[0].lot.state, LotState::Expired, "it ends now");
    let other = world.create("other", 32 * GI, HOUR_NS).unwrap().lot;
    said(&renew(HOUR_NS).unwrap_err(), ErrorKind::NoSpace, &["target 0: 8 GiB asked", "32 GiB from"]);
    assert_eq!(world.ask(&alice, named("run")).unwrap()[0].lot.state, LotState::Expired);
    world.ask(&alice, remove(&other.name, false)).unwrap();
    assert_eq!(renew(HOUR_NS).unwrap()[0].lot.state, LotState::Active);
    world.check();
}

#[test]
fn promise_moves_to_where_it_is_needed_until_it_is_used_up() {
    let world = World::new();
    let store = Identity::store();
    let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
    world.file("/f", lot, 256 * MI);
    let move_here = |bytes| world.ask(&store, LotOperation::MoveHere { lot, target: TargetId(0), bytes });
    let share = |world: &World, target| world.disks.lock().shares[&(TargetId(target), lot)].share_bytes;
    move_here(1).unwrap();
    assert_eq!(share(&world, 0), GI + 64 * MI, "in chunks");
    move_here(2 * GI).unwrap();
    world.check();
    assert_eq!(share(&world, 0), 3 * GI + 64 * MI);
    said(&move_here(GI).unwrap_err(), ErrorKind::Quota, &["`run`", "4 GiB", "1 GiB of it are used", "until 2"]);
    said(&move_here(u64::MAX).unwrap_err(), ErrorKind::Quota, &["used up"]);
    world.check();
    move_here(3 * GI - 64 * MI - 3 * 256 * MI - GI).unwrap_err();
    let unused = (1..4).map(|target| share(&world, target) - 256 * MI).sum();
    move_here(unused).unwrap();
    assert_eq!((1..4).map(|target| share(&world, target)).collect::<Vec<_>>(), [256 * MI; 3], "what is used stays");
    world.check();
    said(
        &world.ask(&owner("alice"), LotOperation::MoveHere { lot, target: TargetId(0), bytes: 1 }).unwrap_err(),
        ErrorKind::Access,
        &["servers"],
    );
    // There is little room where it is needed: that much moves, and part is left to others.
    let other = world.create("other", 4 * GI, HOUR_NS).unwrap().lot.id;
    let free = |world: &World, bytes| {
        let mut disks = world.disks.lock();
        let promised: u64 = disks.shares.iter().filter(|((of, _), _)| *of == TargetId(2)).map(|(_, share)| share.share_bytes).sum();
        disks.outside.insert(TargetId(2), 10 * GI - promised - bytes);
    };
    let move_there = |bytes| world.ask(&store, LotOperation::MoveHere { lot: other, target: TargetId(2), bytes });
    let there = |world: &World| world.disks.lock().shares[&(TargetId(2), other)].share_bytes;
    free(&world, 20 * MI);
    move_there(1).unwrap();
    assert_eq!(there(&world), GI + 10 * MI);
    move_there(7 * MI).unwrap();
    assert_eq!(there(&world), GI + 17 * MI, "what is needed, whatever is left then");
    // There is no room: nothing moves.
    free(&world, 0);
    assert_eq!(move_there(2 * GI).unwrap_err().kind(), ErrorKind::NoSpace);
    world.lots().settled();
    world.check();
}

#[test]
fn promise_moves_beside_writes_in_flight() {
    let world = World::new();
    let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
    let move_here = |bytes| world.ask(&Identity::store(), LotOperation::MoveHere { lot, target: TargetId(0), bytes });
    let shares = |world: &World| [0, 1, 2, 3].map(|target| world.disks.lock().shares[&(TargetId(target), lot)].share_bytes);
    world.disks.lock().in_flight.extend((1..4).map(|target| (TargetId(target), GI - MI)));
    move_here(1).unwrap();
    assert_eq!(shares(&world)[0], GI + MI, "what the one that has most can give beside them");
    move_here(3 * MI / 2).unwrap();
    assert!(shares(&world)[0] >= GI + 5 * MI / 2, "and the others");
    world.check();
    assert_eq!(move_here(MI).unwrap_err().kind(), ErrorKind::Quota);
    world.disks.lock().in_flight.clear();
    move_here(2 * GI).unwrap();
    world.check();
}

#[test]
fn expired_lots_make_room_the_oldest_first_and_never_one_with_an_open_file() {
    let world = World::new();
    let store = Identity::store();
    let [old, open, newer, lasting] = ["old", "open", "newer", "lasting"].map(|name| {
        let lot = world.create(name, 4 * GI, HOUR_NS).unwrap().lot.id;
        (lot, world.file(&format!("/{name}"), lot, 512 * MI))
    });
    let end = |name: &str| drop(world.ask(&owner("alice"), LotOperation::Renew { name: name.into(), for_ns: 0 }).unwrap());
    ["open", "old", "newer"].into_iter().for_each(end);
    world.intents.opened(open.1);
    let reclaim = |bytes| world.ask(&store, LotOperation::Reclaim { target: TargetId(1), bytes });
    let removed = reclaim(MI).unwrap();
    assert_eq!(removed.iter().map(|report| report.lot.id).collect::<Vec<_>>(), [old.0], "no more than it takes");
    let there = |name: &str| world.namespace.stat(&FilePath::at(format!("/{name}"))).is_ok();
    assert_eq!(["old", "open", "newer", "lasting"].map(there), [false, true, true, true]);
    assert_eq!(world.disks.lock().used(TargetId(1), Some(old.0)), 0, "the bytes are gone when it is answered");
    let notes = world.lots().notes();
    assert!(notes.len() == 1 && notes[0].contains("lot `old` of `alice`, 4 GiB, ended at 2"), "{notes:?}");
    said(&reclaim(100 * GI).unwrap_err(), ErrorKind::NoSpace, &["100 GiB are needed at target 1", "had 512 MiB there"]);
    assert_eq!(["open", "newer", "lasting"].map(there), [true, false, true], "what there is goes");
    let names: Vec<_> = world.namespace.lots().unwrap().into_iter().map(|row| row.lot.id).collect();
    assert_eq!((names, newer.0), (vec![open.0, lasting.0], LotId(3)));
    world.intents.closed(open.1);
    reclaim(MI).unwrap();
    assert!(!there("open"));
    said(&reclaim(1).unwrap_err(), ErrorKind::NoSpace, &["had 0 B there"]);
    // Creating a lot that needs room reclaims likewise.
    end("lasting");
    world.create("all", 40 * GI, HOUR_NS).unwrap();
    assert!(!there("lasting"));
    world.check();
}

fn unlink(world: &World, path: &str) {
    let alice = owner("alice");
    world.namespace.called_by(&alice).unlink(&mut Unwatched, &FilePath::at(path), None).unwrap();
}

#[test]
fn a_removal_under_way_is_waited_for_before_anything_is_refused_for_want_of_room() {
    let store = Identity::store();
    let full = || {
        let world = World::new();
        let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
        let file = world.file("/f", lot, GI);
        (world, lot, file)
    };
    let more = |world: &World, lot| world.ask(&store, LotOperation::MoveHere { lot, target: TargetId(2), bytes: MI });
    let reclaim = |world: &World| world.ask(&store, LotOperation::Reclaim { target: TargetId(1), bytes: MI });
    let smaller = |world: &World| world.ask(&owner("alice"), LotOperation::Resize { name: "run".into(), size_bytes: GI });
    let (world, lot, _) = full();
    said(&more(&world, lot).unwrap_err(), ErrorKind::Quota, &["used up"]);
    said(&reclaim(&world).unwrap_err(), ErrorKind::NoSpace, &["target 1"]);
    assert!(smaller(&world).is_err());
    // (Removed in the background; the worker was not notified.)
    unlink(&world, "/f");
    more(&world, lot).unwrap();
    assert_eq!(world.disks.lock().used(TargetId(2), Some(lot)), 0);
    let (world, _, _) = full();
    unlink(&world, "/f");
    assert!(reclaim(&world).unwrap().is_empty(), "no lot had to go for it");
    let (world, _, _) = full();
    unlink(&world, "/f");
    smaller(&world).unwrap();
    // Waits for a file that a client may have closed without having reported it yet, and no longer.
    let (world, lot, file) = full();
    world.intents.opened(file);
    unlink(&world, "/f");
    said(&more(&world, lot).unwrap_err(), ErrorKind::Quota, &["used up"]);
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| more(&world, lot));
        world.intents.closed(file);
        asks.join().unwrap().unwrap();
    });
    // A lot that needs all of a target gets the space of pending removals and of expired lots.
    let world = World::new();
    let [over, other] = ["over", "other"].map(|name| world.create(name, CAPACITY * 2, HOUR_NS).unwrap().lot.id);
    world.file("/over", over, CAPACITY / 2);
    world.file("/other", other, CAPACITY / 2);
    ["over", "other"]
        .into_iter()
        .for_each(|name| drop(world.ask(&owner("alice"), LotOperation::Renew { name: name.into(), for_ns: 0 }).unwrap()));
    unlink(&world, "/other");
    world.create("all", CAPACITY * 4, HOUR_NS).unwrap();
    world.check();
}

#[test]
fn after_a_start_nothing_is_decided_from_what_is_open_until_those_who_had_it_could_say_so() {
    const HOUR: Duration = Duration::from_secs(3600);
    let world = World::new();
    let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
    let file = world.file("/f", lot, GI);
    let [unlinked, forgotten] = ["/unlinked", "/forgotten"].map(|path| world.file(path, lot, 0));
    ["/unlinked", "/forgotten"].into_iter().for_each(|path| {
        world.intents.opened(if path == "/unlinked" { unlinked } else { forgotten });
        unlink(&world, path);
    });
    world.ask(&owner("alice"), LotOperation::Renew { name: "run".into(), for_ns: 0 }).unwrap();
    world.namespace.database().sync(&mut Unwatched).unwrap();
    let world = world.killed_and_awaits(false, HOUR);
    let there = |id| world.namespace.intent(id).unwrap().is_some();
    world.intents.notify();
    std::thread::scope(|scope| {
        let reclaims = scope.spawn(|| world.ask(&Identity::store(), LotOperation::Reclaim { target: TargetId(1), bytes: MI }));
        let relayout = scope.spawn(|| {
            let choice = LayoutChoice::default();
            world.intents.relayout(&Identity::store(), file, (&choice, "n"), &mut Unwatched).map_err(|e| e.kind())
        });
        // Reports late, but in time.
        std::thread::sleep(Duration::from_millis(100));
        assert!(!reclaims.is_finished() && !relayout.is_finished(), "they wait");
        assert!(there(unlinked) && there(forgotten));
        world.intents.opened(file);
        assert!(world.intents.opened_orphan(unlinked));
        world.intents.recovery().end();
        assert_eq!(relayout.join().unwrap().unwrap_err(), ErrorKind::Busy);
        // (A file that is no longer open may be reclaimed.)
        let _ = reclaims.join().unwrap();
    });
    let refused = world.ask(&Identity::store(), LotOperation::Reclaim { target: TargetId(1), bytes: MI }).unwrap_err();
    said(&refused, ErrorKind::NoSpace, &["target 1"]);
    assert_eq!(world.namespace.stat(&FilePath::at("/f")).unwrap().id, file);
    assert_eq!(world.disks.lock().used(TargetId(1), Some(lot)), GI);
    assert!(there(unlinked) && !there(forgotten), "what nobody has open goes then");
    assert!(!world.intents.opened_orphan(forgotten));
    // Closing after the decision changes nothing.
    world.intents.closed(file);
    let world = world.killed_and_awaits(false, HOUR);
    std::thread::scope(|scope| {
        let reclaims = scope.spawn(|| world.ask(&Identity::store(), LotOperation::Reclaim { target: TargetId(1), bytes: MI }));
        world.intents.recovery().stop();
        assert!(reclaims.join().unwrap().is_err());
    });
    assert!(world.namespace.stat(&FilePath::at("/f")).is_ok());
}

#[test]
fn a_lot_that_only_the_services_clock_takes_for_over_stays_and_its_promise_moves() {
    let world = World::new();
    let lot = world.create("run", 4 * GI, 1).unwrap().lot.id;
    let file = world.file("/f", lot, 100 * MI);
    let state = || world.ask(&owner("alice"), named("run")).unwrap().remove(0).lot.state;
    assert_eq!(state(), LotState::Expired);
    world.disks.lock().nothing_is_over = true;
    assert_eq!(state(), LotState::Active, "what is promised still is not shown as over");
    let refused = world.ask(&Identity::store(), LotOperation::Reclaim { target: TargetId(1), bytes: MI }).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    assert_eq!(world.namespace.stat(&FilePath::at("/f")).unwrap().id, file);
    world.ask(&Identity::store(), LotOperation::MoveHere { lot, target: TargetId(2), bytes: MI }).unwrap();
    world.disks.lock().nothing_is_over = false;
    let over = world.ask(&Identity::store(), LotOperation::MoveHere { lot, target: TargetId(2), bytes: MI }).unwrap_err();
    assert_eq!(over.kind(), ErrorKind::Quota, "{over}");
    world.ask(&Identity::store(), LotOperation::Reclaim { target: TargetId(1), bytes: MI }).unwrap();
}

#[test]
fn a_lot_with_files_stays_unless_they_are_to_go_with_it() {
    let world = World::new();
    let alice = owner("alice");
    let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
    let names = world.namespace.called_by(&alice);
    names.make_directory(&mut Unwatched, &FilePath::at("/d/e"), OWNER, true).unwrap();
    let in_lot = LayoutChoice { lot: Some(lot), ..LayoutChoice::default() };
    let set = SetAttributes { default_layout: Some(Some(in_lot)), ..SetAttributes::default() };
    names.set_attributes(&mut Unwatched, &FilePath::at("/d/e"), &set).unwrap();
    names.make_directory(&mut Unwatched, &FilePath::at("/d/e/sub"), OWNER, false).unwrap();
    assert_eq!(world.ask(&alice, named("run")).unwrap()[0].directories, [b"/d/e".to_vec(), b"/d/e/sub".to_vec()]);
    let create = |path: &str| {
        let made = names.create(&mut Unwatched, &FilePath::at(path), OWNER, Existing::Refuse, &LayoutChoice::default(), "n").unwrap().0;
        world.write(&made, MI);
        made.layout.unwrap().lot
    };
    assert_eq!([create("/d/e/f"), create("/d/e/sub/f"), create("/d/f")], [Some(lot), Some(lot), None]);
    said(&world.ask(&alice, remove("run", false)).unwrap_err(), ErrorKind::NotEmpty, &["`run` has 2 files", "--files"]);
    assert_eq!(create("/d/e/g"), Some(lot), "it is as it was");
    said(&world.ask(&owner("bob"), remove("run", true)).unwrap_err(), ErrorKind::Access, &["`run`", "`alice`", "`bob`"]);
    world.ask(&alice, remove("run", true)).unwrap();
    assert!(world.disks.lock().shares.is_empty());
    let there = |path: &str| world.namespace.stat(&FilePath::at(path)).is_ok();
    assert_eq!(["/d/e/f", "/d/e/sub/f", "/d/e/g", "/d/f", "/d/e/sub"].map(there), [false, false, false, true, true]);
    assert_eq!(create("/d/e/sub/h"), None, "directories outlive their lot");
    assert_eq!(world.namespace.stat(&FilePath::at("/d/e")).unwrap().default_layout, None);
    said(&world.ask(&alice, named("run")).unwrap_err(), ErrorKind::NotFound, &["`run`"]);
}

#[test]
fn an_owner_sees_its_own_lots_and_the_store_all() {
    let world = World::new();
    world.create("hers", GI, HOUR_NS).unwrap();
    let all = |who: &Identity| {
        let shown = world.ask(who, LotOperation::Show { name: None }).unwrap();
        shown.into_iter().map(|report| (report.lot.name, report.uses.len())).collect::<Vec<_>>()
    };
    let hers = vec![("hers".to_owned(), TARGETS as usize)];
    let reader =
        Identity { id: CredentialId([2; 16]), owner: STORE_OWNER.into(), rights: Rights::Read, until_s: None, lots: Default::default() };
    assert_eq!(
        [all(&owner("alice")), all(&Identity::store()), all(&reader), all(&owner("bob"))],
        [hers.clone(), hers.clone(), hers, vec![]]
    );
    said(&world.ask(&owner("bob"), named("hers")).unwrap_err(), ErrorKind::Access, &["`hers`", "`alice`", "`bob`"]);
}

#[test]
fn a_renewed_lot_covers_what_was_written_after_its_end_from_what_others_have_left_and_promises_no_more_than_it_is() {
    // 1 GiB is promised at each target. In MiB: the second target's use, and its promise afterwards.
    for (written, covered) in [(1000, 1024), (1500, 1500), (4096, 4096), (5000, 4096)] {
        let world = World::new();
        let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
        let renew = |for_ns| world.ask(&owner("alice"), LotOperation::Renew { name: "run".into(), for_ns }).unwrap();
        renew(0);
        world.datafile(lot, 1, written * MI);
        renew(HOUR_NS);
        world.lots().settled();
        world.check();
        let promised = world.shares(lot);
        assert_eq!(promised.iter().sum::<u64>(), 4 * GI);
        assert_eq!(promised[1], covered * MI, "{promised:?}");
        let again = world.killed(false);
        again.check();
        assert_eq!(again.shares(lot), promised);
    }
}

#[test]
fn what_one_target_gives_to_cover_another_is_not_promised_there_once_more() {
    let world = World::new();
    let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
    world.datafile(lot, 0, 100 * MI);
    world.datafile(lot, 1, 1536 * MI);
    // Older lists of shares: the second target has more than the row, and the last has nothing.
    world.disks.lock().shares.get_mut(&(TargetId(1), lot)).unwrap().share_bytes = 2 * GI;
    world.disks.lock().shares.remove(&(TargetId(3), lot));
    world.lots().settled();
    world.check();
    assert_eq!(world.shares(lot), [GI, 1536 * MI, 512 * MI, GI]);
}

#[test]
fn a_lot_that_somebody_works_on_is_looked_at_again() {
    let world = World::new();
    let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
    for is_removed in [false, true] {
        let claim = world.lots().keeper.claims.claim(lot);
        if is_removed {
            world
                .namespace
                .change_lot(lot, |row| {
                    row.lot.state = LotState::Removing;
                    Ok(())
                })
                .unwrap();
        } else {
            world.disks.lock().shares.remove(&(TargetId(2), lot));
        }
        world.lots().settled();
        assert!(world.namespace.lot(lot).is_ok());
        drop(claim);
        // No further round is requested.
        let begun = Instant::now();
        while world.disks.lock().shares.len() != if is_removed { 0 } else { 4 } {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is never looked at");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Returns `ana` with these bounds.
fn bounded(bytes: Option<u64>, hours: Option<u64>) -> Identity {
    let time = hours.map(|hours| Duration::from_secs(hours * 3600));
    Identity { lots: LotBounds::new(bytes, time).unwrap(), ..owner("ana") }
}

fn asks(name: &str, size_bytes: u64, for_ns: u64) -> LotOperation {
    LotOperation::Create { name: name.into(), owner: None, size_bytes, for_ns, elastic: false, least: None, targets: Vec::new() }
}

#[test]
fn an_owner_reserves_no_more_and_for_no_longer_than_their_credential_says() {
    let world = World::new();
    let ana = bounded(Some(8 * GI), Some(5));
    let refused = |operation, words: &[&str]| said(&world.ask(&ana, operation).unwrap_err(), ErrorKind::Quota, words);
    let renew = |for_ns| LotOperation::Renew { name: "one".into(), for_ns };
    let resize = |size_bytes| LotOperation::Resize { name: "one".into(), size_bytes };
    refused(asks("one", 9 * GI, HOUR_NS), &["`ana` may have 8 GiB together", "9 GiB asked", "--lots SIZE"]);
    refused(asks("one", GI, 6 * HOUR_NS), &["at most 5h", "--lots-for TIME"]);
    assert!(world.namespace.lots().unwrap().is_empty(), "nothing is left of what was refused");
    world.ask(&ana, asks("one", 5 * GI, 5 * HOUR_NS)).unwrap();
    refused(asks("two", 4 * GI, HOUR_NS), &["their other lots have 5 GiB"]);
    refused(renew(6 * HOUR_NS), &["at most 5h"]);
    refused(resize(9 * GI), &["8 GiB together"]);
    world.ask(&ana, resize(6 * GI)).unwrap();
    world.ask(&ana, renew(4 * HOUR_NS)).unwrap();
    // Expired lots do not count, and renewed ones count again.
    world.ask(&ana, renew(0)).unwrap();
    world.ask(&ana, asks("two", 4 * GI, HOUR_NS)).unwrap();
    refused(renew(HOUR_NS), &["6 GiB asked", "4 GiB"]);
    // Lots that the store makes for her count, and are not refused.
    let for_her = |name: &str| LotOperation::Create {
        name: name.into(),
        owner: Some("ana".into()),
        size_bytes: 8 * GI,
        for_ns: 1000 * 24 * HOUR_NS,
        elastic: false,
        least: None,
        targets: Vec::new(),
    };
    world.ask(&Identity::store(), for_her("given")).unwrap();
    refused(asks("three", GI, HOUR_NS), &["12 GiB"]);
    assert_eq!(world.ask(&bounded(Some(0), None), asks("none", MI, HOUR_NS)).unwrap_err().kind(), ErrorKind::Quota);
}

#[test]
fn owners_whose_credentials_say_nothing_leave_room_for_others_and_are_refused_for_a_hundred_years() {
    let world = World::new();
    let (ana, bob) = (bounded(None, None), Identity { owner: "bob".into(), ..bounded(None, None) });
    let refused = |who: &Identity, operation, words: &[&str]| said(&world.ask(who, operation).unwrap_err(), ErrorKind::Quota, words);
    refused(&ana, asks("all", 40 * GI, HOUR_NS), &["20 GiB together, half of the store's 40 GiB"]);
    refused(&ana, asks("all", GI, 36_500 * 24 * HOUR_NS), &["at most 30d"]);
    world.ask(&ana, asks("half", 20 * GI, 30 * 24 * HOUR_NS)).unwrap();
    refused(&bob, asks("his", 11 * GI, HOUR_NS), &["all lots have 20 GiB of the store's 40 GiB", "a quarter"]);
    world.ask(&bob, asks("his", 10 * GI, HOUR_NS)).unwrap();
    let allowed = Identity { owner: "carol".into(), ..bounded(Some(10 * GI), None) };
    world.ask(&allowed, asks("hers", 10 * GI, HOUR_NS)).unwrap();
    world.check();
}

#[test]
fn a_lot_that_does_not_fit_beside_one_that_a_ballast_keeps_is_not_told_that_there_is_room() {
    let world = World::new();
    world.disks.lock().has_ballast = true;
    world.create("big", 36 * GI, HOUR_NS).unwrap();
    let refused = world.create("more", 12 * GI, HOUR_NS).unwrap_err();
    said(
        &refused,
        ErrorKind::NoSpace,
        &["target 0: 3 GiB asked, 10 GiB free, 9 GiB of that promised", "12 GiB from 2", "when other lots end"],
    );
}
