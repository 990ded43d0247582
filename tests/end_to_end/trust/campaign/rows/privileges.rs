//! Attributes that are significant to the system that mounts a store.

use super::super::asking::{USER, make, new_name};
use super::Outcome::{Done, NotPermitted, Of, Outside, Refused};
use super::{Asker, Attempts, Outcome, Row, Who, World, all};
use thalweg_wire::protocol::metadata::*;

/// Returns the outcomes for a cell that allows everything, one that allows some, and one that allows nothing.
fn of(cell: &str, who: Who, (everything, some): (&str, (&str, &[Outcome]))) -> Option<Vec<Outcome>> {
    match (cell, who) {
        (cell, _) if cell == everything => all(Done, some.1.len()),
        (cell, _) if cell == some.0 => Some(some.1.to_vec()),
        ("refused", Who::Nobody) => all(Outside, some.1.len()),
        ("refused", _) => all(Refused, some.1.len()),
        _ => None,
    }
}

fn owned(mode: u32) -> Owner {
    Owner { mode, ..USER }
}

fn set(place: FilePath, set: SetAttributes) -> Operation {
    Operation::SetAttributes { place, set }
}

fn node(node: NewNode, mode: u32) -> Operation {
    Operation::MakeNode { place: FilePath::at(new_name()), node, owner: owned(mode) }
}

pub(super) const MODES: Row = Row { name: "set-user bits; set-group bits of files", says: of_modes, attempt: modes };

fn of_modes(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    of(cell, who, ("stored", ("EPERM", &[NotPermitted; 6])))
}

fn modes(world: &World, asker: &mut Asker) -> Attempts {
    let file = world.file(None);
    let mode = |mode| SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    let directory = Operation::MakeDirectory { place: FilePath::at(new_name()), owner: owned(0o4755), parents: false };
    vec![
        ("a new file with a set-user bit", asker.try_to(make(&new_name(), owned(0o4755), None))),
        ("a new file with a set-group bit", asker.try_to(make(&new_name(), owned(0o2755), None))),
        ("a set-user bit on a file", asker.try_to(set(file.place(), mode(0o4755)))),
        ("a set-group bit on a file", asker.try_to(set(file.place(), mode(0o2755)))),
        ("a pipe with a set-user bit", asker.try_to(node(NewNode::Fifo, 0o4644))),
        ("a directory with a set-user bit", asker.try_to(directory)),
    ]
}

pub(super) const ATTRIBUTES: Row = Row { name: "device nodes; attributes outside `user.`", says: of_attributes, attempt: attributes };

fn of_attributes(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    let some = [NotPermitted, NotPermitted, NotPermitted, NotPermitted, NotPermitted, Done];
    of(cell, who, ("stored", ("EPERM (`security.capability` may be removed)", &some)))
}

fn attributes(world: &World, asker: &mut Asker) -> Attempts {
    let file = world.file(None);
    let set = |name: &str| Operation::SetExtended {
        place: file.place(),
        name: name.into(),
        value: b"\x01\0\0\x02".to_vec(),
        how: SetExtended::Either,
    };
    let without = |name: &str| Operation::RemoveExtended { place: file.place(), name: name.into() };
    for name in ["security.capability", "trusted.overlay.opaque"] {
        assert_eq!(world.as_store().try_to(set(name)), Done);
    }
    vec![
        ("a character device", asker.try_to(node(NewNode::CharacterDevice(0x103), 0o666))),
        ("a block device", asker.try_to(node(NewNode::BlockDevice(0x800), 0o666))),
        ("capabilities", asker.try_to(set("security.capability"))),
        ("an access list", asker.try_to(set("system.posix_acl_access"))),
        ("without what root has set", asker.try_to(without("trusted.overlay.opaque"))),
        ("without capabilities", asker.try_to(without("security.capability"))),
    ]
}

pub(super) const ROOT: Row = Row { name: "user and group 0 of new files", says: of_root, attempt: root };

fn of_root(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    match (cell, who) {
        ("stored", _) => all(Of(0), 3),
        ("stored as 65534", _) => all(Of(65_534), 3),
        ("refused", Who::Nobody) => all(Outside, 3),
        ("refused", _) => all(Refused, 3),
        _ => None,
    }
}

fn root(_: &World, asker: &mut Asker) -> Attempts {
    let owner = Owner { mode: 0o600, uid: 0, gid: 0 };
    let directory = Operation::MakeDirectory { place: FilePath::at(new_name()), owner, parents: false };
    let node = Operation::MakeNode { place: FilePath::at(new_name()), node: NewNode::Fifo, owner };
    let mut made = |operation| match asker.attributes(operation) {
        Ok(made) if made.uid == made.gid => Of(made.uid),
        Ok(made) => panic!("{made:?}"),
        Err(outcome) => outcome,
    };
    vec![("a file", made(make(&new_name(), owner, None))), ("a directory", made(directory)), ("a pipe", made(node))]
}

pub(super) const USERS: Row = Row { name: "give a file to another user, or to group 0", says: of_users, attempt: users };

fn of_users(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    of(cell, who, ("allowed", ("EPERM", &[NotPermitted; 3])))
}

fn users(world: &World, asker: &mut Asker) -> Attempts {
    let mut give = |uid, gid| asker.try_to(set(world.file(None).place(), SetAttributes { uid, gid, ..SetAttributes::default() }));
    vec![("to another user", give(Some(8), None)), ("to root", give(Some(0), None)), ("to root's group", give(None, Some(0)))]
}
