//! Every operation on a lot, killed after each of its steps.

use super::simulated::*;
use crate::database::Unwatched;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::lots::LotOperation;
use thalweg_wire::protocol::metadata::{FilePath, LotId, TargetId};
use thalweg_wire::trust::Identity;

/// Runs `work` in a world made by `prepare`, killed after each of its steps; `hold` checks what is left, and is passed whether `work` was
/// answered.
fn killed_everywhere(prepare: impl Fn(&World), work: impl Fn(&World) -> bool, hold: impl Fn(&World, bool)) {
    for power in [false, true] {
        for steps in 1.. {
            assert!(steps < 500, "it comes to an end");
            let world = World::new();
            prepare(&world);
            world.lots().settled();
            world.namespace.database().sync(&mut Unwatched).unwrap();
            world.fuse.light(steps);
            let answered = work(&world);
            let burnt = world.fuse.is_burnt();
            world.disks.lock().check();
            let world = world.killed(power);
            world.check();
            hold(&world, answered);
            if !burnt {
                assert!(answered && steps > 3, "it takes a few steps");
                break;
            }
        }
    }
}

fn names(world: &World) -> Vec<String> {
    world.namespace.lots().unwrap().into_iter().map(|row| row.lot.name).collect()
}

#[test]
fn a_lot_whose_making_is_killed_is_promised_whole_or_not_at_all() {
    killed_everywhere(
        |_| {},
        |world| world.create("run", 4 * GI, HOUR_NS).is_ok(),
        |world, answered| {
            assert!(!answered || names(world) == ["run"], "what was answered is there");
            assert_eq!(world.disks.lock().shares.len(), names(world).len() * TARGETS as usize);
            // The space is free again, or promised once: a lot of all the rest fits.
            world.create("other", CAPACITY * 4 - if names(world).is_empty() { 0 } else { 4 * GI }, HOUR_NS).unwrap();
        },
    );
}

#[test]
fn a_promise_that_is_killed_on_its_way_is_given_again_and_never_twice() {
    killed_everywhere(
        |world| {
            let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
            world.file("/f", lot, 100 * MI);
        },
        |world| {
            let operation = LotOperation::MoveHere { lot: LotId(1), target: TargetId(2), bytes: 1500 * MI };
            world.ask(&Identity::store(), operation).is_ok()
        },
        |world, answered| {
            let share = world.disks.lock().shares[&(TargetId(2), LotId(1))].share_bytes;
            assert!(!answered || share >= GI + 1500 * MI);
            for ((target, _), share) in &world.disks.lock().shares {
                assert!(share.share_bytes >= 100 * MI, "what is used at target {target} is promised there");
            }
        },
    );
}

#[test]
fn a_lot_whose_resizing_is_killed_has_one_size_or_the_other() {
    for (size, other) in [(4 * GI, 8 * GI), (8 * GI, 4 * GI)] {
        killed_everywhere(
            |world| {
                let lot = world.create("run", size, HOUR_NS).unwrap().lot.id;
                world.file("/f", lot, 100 * MI);
                let operation = LotOperation::MoveHere { lot, target: TargetId(2), bytes: 300 * MI };
                world.ask(&Identity::store(), operation).unwrap();
            },
            |world| world.ask(&owner("alice"), LotOperation::Resize { name: "run".into(), size_bytes: other }).is_ok(),
            |world, answered| {
                let lot = world.namespace.lot_named("run").unwrap().lot;
                assert!(lot.size_bytes == other || lot.size_bytes == size && !answered, "{lot:?}");
            },
        );
    }
}

#[test]
fn a_lot_whose_renewal_is_killed_lasts_as_long_as_was_answered() {
    killed_everywhere(
        |world| drop(world.create("run", 4 * GI, HOUR_NS).unwrap()),
        |world| world.ask(&owner("alice"), LotOperation::Renew { name: "run".into(), for_ns: 50 * HOUR_NS }).is_ok(),
        |world, answered| {
            let lot = world.namespace.lot_named("run").unwrap().lot;
            assert!(!answered || lot.until_ns - lot.created_ns >= 50 * HOUR_NS as i64);
        },
    );
}

#[test]
fn a_lot_whose_removal_is_killed_is_there_with_its_files_or_gone_with_them() {
    for files in [false, true] {
        killed_everywhere(
            |world| {
                let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
                if files {
                    (0..40).for_each(|n| _ = world.file(&format!("/f{n}"), lot, MI));
                }
            },
            |world| world.ask(&owner("alice"), LotOperation::Remove { name: "run".into(), files }).is_ok(),
            |world, answered| {
                let gone = names(world).is_empty();
                assert!(gone || !answered);
                let there = (0..40).filter(|n| world.namespace.stat(&FilePath::at(format!("/f{n}"))).is_ok()).count();
                assert_eq!(there, if gone || !files { 0 } else { 40 });
            },
        );
    }
}

#[test]
fn a_refused_removal_that_is_killed_leaves_every_file() {
    killed_everywhere(
        |world| {
            let lot = world.create("run", 4 * GI, HOUR_NS).unwrap().lot.id;
            world.file("/f", lot, MI);
        },
        |world| {
            let refused = world.ask(&owner("alice"), LotOperation::Remove { name: "run".into(), files: false });
            refused.unwrap_err().kind() == ErrorKind::NotEmpty
        },
        |world, _| {
            assert_eq!(names(world), ["run"]);
            world.namespace.stat(&FilePath::at("/f")).unwrap();
        },
    );
}

#[test]
fn a_reclaim_that_is_killed_takes_whole_lots() {
    killed_everywhere(
        |world| {
            let lot = world.create("old", 4 * GI, 1).unwrap().lot.id;
            (0..5).for_each(|n| _ = world.file(&format!("/f{n}"), lot, 100 * MI));
        },
        |world| world.ask(&Identity::store(), LotOperation::Reclaim { target: TargetId(1), bytes: MI }).is_ok(),
        |world, answered| {
            let gone = names(world).is_empty();
            assert!(gone || !answered);
            let there = (0..5).filter(|n| world.namespace.stat(&FilePath::at(format!("/f{n}"))).is_ok()).count();
            assert_eq!(there, if gone { 0 } else { 5 });
        },
    );
}

/// Arbitrary operations in any order, killed at any step.
#[test]
fn nothing_is_ever_promised_twice() {
    for seed in 1..60_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |most: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % most
        };
        let mut world = World::new();
        for n in 0..30 {
            let name = format!("l{}", below(3));
            let size_bytes = below(20) * GI + 1;
            let target = TargetId(below(TARGETS.into()) as u32);
            let (alice, store) = (owner("alice"), Identity::store());
            if below(4) == 0 {
                world.disks.lock().away.insert(TargetId(below(TARGETS.into()) as u32));
            }
            world.fuse.light(if below(3) == 0 { below(25) as i64 + 1 } else { i64::MAX / 2 });
            // Refused and killed operations are fine: only the resulting promises count.
            let _ = match below(7) {
                0 | 1 => world.create(&name, size_bytes, if below(4) == 0 { 1 } else { HOUR_NS }).map(drop),
                2 => world.ask(&alice, LotOperation::Resize { name, size_bytes }).map(drop),
                3 => world.ask(&alice, LotOperation::Remove { name, files: true }).map(drop),
                4 => world.ask(&alice, LotOperation::Renew { name, for_ns: below(3) * HOUR_NS }).map(drop),
                5 => {
                    let lot = LotId(below(4) as u32 + 1);
                    world.ask(&store, LotOperation::MoveHere { lot, target, bytes: below(3 * GI) }).map(drop)
                }
                _ => match world.namespace.lot_named(&name) {
                    Ok(row) if !world.fuse.is_burnt() && row.lot.shares.iter().all(|(_, bytes)| *bytes > 40 * MI) => {
                        world.fuse.light(i64::MAX / 2);
                        world.file(&format!("/f{n}"), row.lot.id, MI);
                        Ok(())
                    }
                    _ => Ok(()),
                },
            };
            if world.fuse.is_burnt() {
                world = world.killed(below(2) == 0);
            }
            world.fuse.light(i64::MAX / 2);
            if below(2) == 0 {
                world.disks.lock().away.clear();
            }
            world.lots().settled();
            world.disks.lock().check();
            if below(4) == 0 {
                let busy: Vec<_> = world.namespace.lots().unwrap();
                assert!(busy.iter().all(|row| row.lot.shares.len() == TARGETS as usize));
            }
        }
    }
}
