//! Permissions in lots, and moves between lots.

use crate::database::Unwatched;
use crate::database::in_memory::InMemory;
use crate::lineage::WitnessReports;
use crate::namespace::Namespace;
use crate::namespace::caller::Caller;
use std::sync::Arc;
use thalweg_wire::protocol::lots::{Lot, LotState};
use thalweg_wire::protocol::metadata::*;
use thalweg_wire::trust::{CredentialId, Identity, Rights, STORE_OWNER};
use thalweg_wire::{ErrorKind, Result};

const OWNER: Owner = Owner { mode: 0o644, uid: 1, gid: 2 };

fn who(owner: &str, rights: Rights) -> Identity {
    Identity { id: CredentialId([7; 16]), owner: owner.to_owned(), rights, until_s: None, lots: Default::default() }
}

/// Returns a store of three targets with alice's lot `hers` on two of them and bob's lot `his` on all; `/hers` and `/his` belong to these
/// lots, `/plain` to none.
fn store() -> (Namespace, LotId, LotId) {
    let server = |n: u32| ServerEntry { name: format!("io{n}"), node: "n".into(), address: String::new() };
    let target = |n: u32| TargetEntry { target: TargetId(n), server: n, directory: String::new() };
    let map = StoreMap { store: 5, servers: (0..3).map(server).collect(), targets: (0..3).map(target).collect() };
    let n = Namespace::open(Arc::new(InMemory::default()), map, OWNER, &WitnessReports::default()).unwrap();
    let lot = |name: &str, owner: &str, targets: &[u32]| {
        let lot = Lot {
            id: LotId(0),
            name: name.into(),
            owner: owner.into(),
            size_bytes: 1 << 20,
            created_ns: 0,
            until_ns: 1,
            elastic: false,
            least: None,
            state: LotState::Creating,
            shares: targets.iter().map(|target| (TargetId(*target), 1 << 20)).collect(),
        };
        let id = n.add_lot(&lot).unwrap().id;
        state(&n, id, LotState::Active);
        id
    };
    let (hers, his) = (lot("hers", "alice", &[0, 2]), lot("his", "bob", &[0, 1, 2]));
    for (name, lot) in [("hers", Some(hers)), ("his", Some(his)), ("plain", None)] {
        let names = n.for_store();
        names.make_directory(&mut Unwatched, &FilePath::at(name), OWNER, false).unwrap();
        default_lot(&names, name, lot).unwrap();
    }
    (n, hers, his)
}

fn state(n: &Namespace, id: LotId, state: LotState) {
    n.change_lot(id, |row| {
        row.lot.state = state;
        Ok(())
    })
    .unwrap();
}

fn default_lot(names: &Caller<'_>, path: &str, lot: Option<LotId>) -> Result<Attributes> {
    let choice = LayoutChoice { lot, ..LayoutChoice::default() };
    let set = SetAttributes { default_layout: Some(Some(choice)), ..SetAttributes::default() };
    names.set_attributes(&mut Unwatched, &FilePath::at(path), &set)
}

fn create_in(names: &Caller<'_>, path: &str, lot: Option<LotId>) -> Result<Attributes> {
    let choice = LayoutChoice { lot, ..LayoutChoice::default() };
    names.create(&mut Unwatched, &FilePath::at(path), OWNER, Existing::Refuse, &choice, "n").map(|(made, _)| made)
}

fn create(names: &Caller<'_>, path: &str) -> Result<Attributes> {
    create_in(names, path, None)
}

fn rename(names: &Caller<'_>, from: &str, to: &str) -> Result<()> {
    names.rename(&mut Unwatched, &FilePath::at(from), None, &FilePath::at(to), true, &SetAttributes::default()).map(drop)
}

#[test]
fn a_file_is_in_the_lot_that_is_asked_for_or_its_directorys_and_on_its_targets() {
    let (n, hers, his) = store();
    let alice = who("alice", Rights::Write);
    let names = n.called_by(&alice);
    let lot_of = |made: Attributes| made.layout.unwrap().lot;
    assert_eq!(lot_of(create(&names, "/hers/f").unwrap()), Some(hers));
    assert_eq!(lot_of(create(&names, "/plain/f").unwrap()), None);
    let asked = create_in(&names, "/plain/g", Some(hers)).unwrap();
    let mut targets = asked.layout.as_ref().unwrap().targets.clone();
    targets.sort_unstable();
    assert_eq!((lot_of(asked.clone()), targets), (Some(hers), vec![TargetId(0), TargetId(2)]));
    let refused = create_in(&names, "/plain/h", Some(his)).unwrap_err();
    assert!(refused.kind() == ErrorKind::Access && refused.to_string().contains("lot `his` is `bob`'s"), "{refused}");
    assert_eq!(create_in(&names, "/plain/h", Some(LotId(99))).unwrap_err().kind(), ErrorKind::NotFound);
    names.make_directory(&mut Unwatched, &FilePath::at("/hers/a/b"), OWNER, true).unwrap();
    assert_eq!(lot_of(create(&names, "/hers/a/b/f").unwrap()), Some(hers), "directories hand it down");
    // Another layout stays in the lot.
    let one = LayoutChoice { datafiles: Some(1), ..LayoutChoice::default() };
    let changed = names.relayout(&mut Unwatched, asked.id, &one, "n").unwrap().layout.unwrap();
    assert!(changed.lot == Some(hers) && [TargetId(0), TargetId(2)].contains(&changed.targets[0]), "{changed:?}");
    let other = LayoutChoice { lot: Some(his), ..one };
    assert_eq!(n.for_store().relayout(&mut Unwatched, asked.id, &other, "n").unwrap_err().kind(), ErrorKind::CrossLot);
    // A removal's intent names the lot of the datafiles.
    names.unlink(&mut Unwatched, &FilePath::at("/plain/g"), None).unwrap();
    let intent = n.intent(asked.id).unwrap().unwrap();
    assert_eq!(intent, crate::inode::Intent::remove(&changed));
    // An expired lot still works on a best-effort basis; one being removed accepts nothing.
    state(&n, hers, LotState::Removing);
    let refused = create(&names, "/hers/late").unwrap_err();
    assert!(refused.kind() == ErrorKind::Busy && refused.to_string().contains("`hers` is being removed"), "{refused}");
    assert_eq!(names.may_open(&FilePath::at("/hers/f"), false).unwrap_err().kind(), ErrorKind::Busy);
    names.make_directory(&mut Unwatched, &FilePath::at("/hers/new"), OWNER, false).unwrap();
    assert_eq!(n.stat(&FilePath::at("/hers/new")).unwrap().default_layout.unwrap().lot, None);
    n.forget_lot(hers).unwrap();
    assert_eq!(lot_of(create(&names, "/hers/late").unwrap()), None);
}

#[test]
fn nobody_but_its_owner_and_the_store_changes_what_is_in_a_lot() {
    let (n, hers, _) = store();
    create(&n.for_store(), "/hers/f").unwrap();
    create_in(&n.for_store(), "/plain/in", Some(hers)).unwrap();
    create(&n.for_store(), "/plain/f").unwrap();
    let id = n.stat(&FilePath::at("/hers/f")).unwrap().id;
    let (alice, bob) = (who("alice", Rights::Write), who("bob", Rights::Write));
    let w = &mut Unwatched;
    let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    let layout = LayoutChoice { datafiles: Some(1), lot: Some(hers), ..LayoutChoice::default() };
    let layout = SetAttributes { default_layout: Some(Some(layout)), ..SetAttributes::default() };
    let at = |path: &str| FilePath::at(path);
    let mut each = |names: &Caller<'_>| -> Vec<(&str, Result<()>)> {
        vec![
            ("link", names.link(w, &at("/hers/f"), &at("/hers/l")).map(drop)),
            ("truncate", names.truncate(w, &at("/plain/in"), 5).map(drop)),
            ("written", names.written(w, id, 9).map(drop)),
            ("chmod", names.set_attributes(w, &at("/hers/f"), &mode).map(drop)),
            ("chmod of the directory", names.set_attributes(w, &at("/hers"), &mode).map(drop)),
            ("layout of the directory", names.set_attributes(w, &at("/hers"), &layout).map(drop)),
            ("setxattr", names.set_extended(w, &at("/hers/f"), b"user.x", b"1", SetExtended::Either)),
            ("removexattr", names.remove_extended(w, &at("/hers/f"), b"user.x")),
            ("setxattr of the directory", names.set_extended(w, &at("/hers"), b"user.x", b"1", SetExtended::Either)),
            ("open", names.may_open(&at("/hers/f"), false).map(drop)),
            ("open to write", names.may_open(&at("/plain/in"), true).map(drop)),
            ("rename within", rename(names, "/hers/f", "/hers/f2")),
            ("rename over", rename(names, "/plain/f", "/plain/in")),
            ("unlink", names.unlink(w, &at("/hers/f2"), None).map(drop)),
            ("rename of its directory", rename(names, "/hers", "/moved").and_then(|()| rename(names, "/moved", "/hers"))),
            ("lot off its directory", default_lot(names, "/hers", None).map(drop)),
        ]
    };
    let store = Identity::store();
    for (what, done) in each(&n.called_by(&bob)) {
        let error = done.expect_err(what);
        // Earlier changes in the test may have removed the object; what exists is refused because of its owner.
        let is_refused = error.kind() == ErrorKind::Access && error.to_string().contains("lot `hers` ");
        assert!(is_refused || what == "unlink" && error.kind() == ErrorKind::NotFound, "{what}: {error}");
    }
    for (what, done) in each(&n.called_by(&alice)) {
        assert!(done.is_ok(), "{what}: {done:?}");
    }
    default_lot(&n.for_store(), "/hers", Some(hers)).unwrap();
    create(&n.called_by(&alice), "/hers/new").unwrap();
    // Names and attributes are public, and the store's read-only credential reads everything.
    n.called_by(&bob).stat(&at("/hers/new")).unwrap();
    let reader = who(STORE_OWNER, Rights::Read);
    n.called_by(&reader).may_open(&at("/hers/new"), false).unwrap();
    assert_eq!(n.called_by(&reader).may_open(&at("/hers/new"), true).unwrap_err().kind(), ErrorKind::Access);
    assert_eq!(default_lot(&n.called_by(&bob), "/plain", Some(hers)).unwrap_err().kind(), ErrorKind::Access);
    assert_eq!(default_lot(&n.called_by(&bob), "/hers", None).unwrap_err().kind(), ErrorKind::Access);
    default_lot(&n.called_by(&store), "/plain", Some(hers)).unwrap();
}

#[test]
fn what_is_in_a_lot_is_not_moved_out_of_it_and_what_is_not_is_not_moved_in() {
    let (n, hers, his) = store();
    let names = n.for_store();
    let w = &mut Unwatched;
    for path in ["/hers/f", "/his/f", "/plain/f"] {
        create(&names, path).unwrap();
    }
    for path in ["/hers/d", "/his/d", "/plain/d", "/hers/d2"] {
        names.make_directory(w, &FilePath::at(path), OWNER, false).unwrap();
    }
    let crosses = |done: Result<()>, words: [&str; 2]| {
        let error = done.unwrap_err();
        assert_eq!((error.kind(), error.kind().errno()), (ErrorKind::CrossLot, libc::EXDEV), "{error}");
        words.iter().for_each(|word| assert!(error.to_string().contains(word), "{error}"));
    };
    for what in ["f", "d"] {
        let path = |of: &str| format!("/{of}/{what}");
        crosses(rename(&names, &path("hers"), "/his/x"), ["in lot `hers`", "in lot `his`"]);
        crosses(rename(&names, &path("hers"), "/plain/x"), ["in lot `hers`", "in no lot"]);
        crosses(rename(&names, &path("plain"), "/hers/x"), ["in no lot", "in lot `hers`"]);
        crosses(names.exchange(w, &FilePath::at(path("hers")), &FilePath::at(path("his"))), ["`hers`", "`his`"]);
        rename(&names, &path("hers"), "/hers/d2/x").unwrap();
        rename(&names, "/hers/d2/x", &path("hers")).unwrap();
    }
    crosses(names.link(w, &FilePath::at("/hers/f"), &FilePath::at("/his/l")).map(drop), ["`hers`", "`his`"]);
    names.link(w, &FilePath::at("/hers/f"), &FilePath::at("/hers/d/l")).unwrap();
    // Objects without bytes are in no lot.
    names.make_node(w, &FilePath::at("/plain/link"), &NewNode::Symlink(b"x".to_vec()), OWNER).unwrap();
    rename(&names, "/plain/link", "/hers/link").unwrap();
    // A copy with its own lot keeps it where it is created, under all its names there, and may be moved to its lot's directory.
    create_in(&names, "/plain/x.partial", Some(hers)).unwrap();
    rename(&names, "/plain/x.partial", "/plain/x").unwrap();
    rename(&names, "/plain/x", "/plain/d/x").unwrap();
    names.link(w, &FilePath::at("/plain/d/x"), &FilePath::at("/plain/y")).unwrap();
    crosses(rename(&names, "/plain/y", "/his/y"), ["`hers`", "`his`"]);
    rename(&names, "/plain/y", "/hers/y").unwrap();
    // Files in a directory that gets a lot stay outside the lot, and in the directory.
    default_lot(&names, "/plain/d", Some(his)).unwrap();
    create(&names, "/plain/d/new").unwrap();
    assert_eq!(n.stat(&FilePath::at("/plain/d/x")).unwrap().layout.unwrap().lot, Some(hers));
    rename(&names, "/plain/d/x", "/plain/d/z").unwrap();
    // Removed lots do not apply.
    n.forget_lot(his).unwrap();
    rename(&names, "/his/f", "/plain/from-his").unwrap();
}

#[test]
fn a_lot_on_a_directory_has_an_effect_on_its_owners_files_and_locks_nobody_out() {
    let (n, hers, his) = store();
    let (alice, bob) = (who("alice", Rights::Write), who("bob", Rights::Write));
    let (ours, theirs) = (n.called_by(&bob), n.called_by(&alice));
    default_lot(&n.for_store(), "/", Some(hers)).unwrap();
    let w = &mut Unwatched;
    let lot_of = |path: &str| {
        let found = n.stat(&FilePath::at(path)).unwrap();
        found.layout.and_then(|layout| layout.lot).or(found.default_layout.and_then(|choice| choice.lot))
    };
    for directory in ["", "/hers"] {
        let at = |name: &str| format!("{directory}/{name}");
        create(&theirs, &at("a")).unwrap();
        theirs.make_directory(w, &FilePath::at(at("ad")), OWNER, false).unwrap();
        create(&ours, &at("b")).unwrap();
        create_in(&ours, &at("asked"), Some(his)).unwrap();
        ours.make_directory(w, &FilePath::at(at("bd")), OWNER, false).unwrap();
        ours.make_node(w, &FilePath::at(at("pipe")), &NewNode::Fifo, OWNER).unwrap();
        assert_eq!(["a", "ad", "b", "asked", "bd"].map(|name| lot_of(&at(name))), [Some(hers), Some(hers), None, Some(his), None]);
        // He may do everything with his own files.
        ours.link(w, &FilePath::at(at("b")), &FilePath::at(at("link"))).unwrap();
        rename(&ours, &at("b"), &at("b2")).unwrap();
        rename(&ours, &at("b2"), "/plain/b2").unwrap();
        rename(&ours, "/plain/b2", &at("b")).unwrap();
        for name in ["b", "link", "asked", "pipe"] {
            ours.unlink(w, &FilePath::at(at(name)), None).unwrap();
        }
        ours.remove_directory(w, &FilePath::at(at("bd"))).unwrap();
        assert_eq!(ours.unlink(w, &FilePath::at(at("a")), None).unwrap_err().kind(), ErrorKind::Access, "hers is hers");
    }
}

#[test]
fn a_lot_is_put_on_a_directory_by_whose_it_is_and_taken_off_by_them_and_by_the_lots_owner() {
    let (n, hers, his) = store();
    let (alice, bob) = (who("alice", Rights::Write), who("bob", Rights::Write));
    let (ours, theirs, w) = (n.called_by(&bob), n.called_by(&alice), &mut Unwatched);
    ours.make_directory(w, &FilePath::at("/bobs"), OWNER, false).unwrap();
    let refused = |done: Result<Attributes>, words: &[&str]| {
        let error = done.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Access, "{error}");
        words.iter().for_each(|word| assert!(error.to_string().contains(word), "{word}: {error}"));
    };
    for path in ["/", "/plain"] {
        refused(default_lot(&theirs, path, Some(hers)), &["the store's own credential", "create your own directory"]);
    }
    refused(default_lot(&theirs, "/bobs", Some(hers)), &["`bob`", "create your own directory"]);
    default_lot(&ours, "/bobs", Some(his)).unwrap();
    refused(default_lot(&theirs, "/bobs", Some(hers)), &["lot `his` of `bob`"]);
    refused(default_lot(&theirs, "/bobs", None), &["lot `his` of `bob`"]);
    // The store may set any lot on any directory; the directory's owner and the lot's owner may remove it.
    default_lot(&n.for_store(), "/bobs", Some(hers)).unwrap();
    let mode = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
    ours.set_attributes(w, &FilePath::at("/bobs"), &mode).unwrap();
    ours.set_extended(w, &FilePath::at("/bobs"), b"user.x", b"1", SetExtended::Either).unwrap();
    default_lot(&ours, "/bobs", None).unwrap();
    default_lot(&n.for_store(), "/bobs", Some(hers)).unwrap();
    default_lot(&theirs, "/bobs", None).unwrap();
    refused(default_lot(&theirs, "/bobs", Some(hers)), &["`bob`"]);
    default_lot(&n.for_store(), "/bobs", Some(hers)).unwrap();
    rename(&ours, "/bobs", "/moved").unwrap();
    ours.remove_directory(w, &FilePath::at("/moved")).unwrap();
    // A new directory of the same name is a different one.
    theirs.make_directory(w, &FilePath::at("/bobs"), OWNER, false).unwrap();
    default_lot(&theirs, "/bobs", Some(hers)).unwrap();
    theirs.remove_directory(w, &FilePath::at("/bobs")).unwrap();
    let left = crate::database::tests::rows(&**n.database(), crate::database::Table::State, b"makers.", None, 9);
    assert!(!left.iter().any(|(key, _)| key.starts_with(b"makers.")), "nothing is left of directories that are gone: {left:?}");
}
