//! Which privileges connections of different credentials may store, by every operation and every workaround.

use super::rights::{World, ask, attributes, make, open};
use super::session::ClientSession;
use crate::lots::tests::simulated::owner;
use thalweg_wire::protocol::metadata::*;
use thalweg_wire::trust::Identity;
use thalweg_wire::{Error, ErrorKind};

const ROOT: Owner = Owner { mode: 0o600, uid: 0, gid: 0 };
const NOBODY: u32 = 65_534;

fn owned(mode: u32, (uid, gid): (u32, u32)) -> Owner {
    Owner { mode, uid, gid }
}

fn make_file(path: &str, owner: Owner) -> Operation {
    let Operation::MakeFile { place, existing, layout, node, .. } = make(path, None) else { unreachable!() };
    Operation::MakeFile { place, owner, existing, layout, node }
}

fn create(path: &str, owner: Owner, existing: Existing) -> Operation {
    Operation::Create { place: FilePath::at(path), owner, existing, layout: LayoutChoice::default(), node: "n".into() }
}

fn node(path: &str, node: NewNode, mode: u32) -> Operation {
    Operation::MakeNode { place: FilePath::at(path), node, owner: owned(mode, (7, 7)) }
}

fn directory(path: &str, mode: u32) -> Operation {
    Operation::MakeDirectory { place: FilePath::at(path), owner: owned(mode, (7, 7)), parents: false }
}

fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..SetAttributes::default() }
}

fn given(uid: Option<u32>, gid: Option<u32>) -> SetAttributes {
    SetAttributes { uid, gid, ..SetAttributes::default() }
}

fn set(path: &str, set: SetAttributes) -> Operation {
    Operation::SetAttributes { place: FilePath::at(path), set }
}

fn rename(from: &str, to: &str, set: SetAttributes) -> Operation {
    Operation::Rename { from: FilePath::at(from), only: None, to: FilePath::at(to), replace: true, set }
}

fn attribute(path: &str, name: &str) -> Operation {
    let (place, name) = (FilePath::at(path), name.as_bytes().to_vec());
    Operation::SetExtended { place, name, value: b"\x01\0\0\x02".to_vec(), how: SetExtended::Either }
}

fn without(path: &str, name: &str) -> Operation {
    Operation::RemoveExtended { place: FilePath::at(path), name: name.as_bytes().to_vec() }
}

/// Returns the operation as a part of a request for many; `None` if there is none.
fn small(operation: &Operation) -> Option<Small> {
    Some(match operation.clone() {
        Operation::MakeFile { place, owner, existing, layout, node } => Small::MakeFile(NewFile { place, owner, existing, layout, node }),
        Operation::Create { place, owner, existing, layout, node } => Small::Create(NewFile { place, owner, existing, layout, node }),
        Operation::MakeNode { place, node, owner } => Small::MakeNode { place, node, owner },
        Operation::MakeDirectory { place, owner, parents } => Small::MakeDirectory { place, owner, parents },
        Operation::SetAttributes { place, set } => Small::SetAttributes { place, set },
        Operation::Rename { from, only, to, replace, set } => Small::Rename { from, only, to, replace, set },
        _ => return None,
    })
}

fn is_refused(error: &Error, what: &str) {
    let text = error.to_string();
    assert!(error.kind() == ErrorKind::NotPermitted && text.contains("only with the store's own credential"), "{what}: {text}");
    assert!(text.contains("`ana`"), "{what}: {text}");
}

/// Checks that the operation is refused alone and among many.
fn refused(session: &mut ClientSession, operation: Operation) {
    let what = format!("{operation:?}");
    is_refused(&ask(session, operation.clone()).expect_err(&what), &what);
    let Some(small) = small(&operation) else { return };
    let MetadataReply::Each(each) = ask(session, Operation::Many { operations: vec![small] }).unwrap() else { panic!("{what}") };
    let refusal = each.into_iter().next().unwrap().expect_err(&what);
    is_refused(&Error::new(ErrorKind::from_errno(refusal.errno), refusal.message), &what);
}

fn stat(session: &mut ClientSession, path: &str) -> Attributes {
    let asked = Operation::Stat { places: vec![FilePath::at(path)], sizes: false };
    let MetadataReply::Many(found) = ask(session, asked).unwrap() else { panic!("{path}") };
    found.into_iter().next().unwrap().unwrap()
}

/// Returns a world with a user's file `/f`, and objects of the store's own credential: a set-user program `/su` with capabilities, and a
/// device `/disk`.
fn world() -> (World, ClientSession, ClientSession) {
    let world = World::new();
    let (mut store, mut ana) = (world.session(Identity::store()), world.session(owner("ana")));
    attributes(&mut ana, make_file("/f", owned(0o644, (7, 7))));
    attributes(&mut store, make_file("/su", owned(0o6755, (0, 0))));
    ask(&mut store, attribute("/su", "security.capability")).unwrap();
    attributes(&mut store, node("/disk", NewNode::BlockDevice(0x800), 0o600));
    (world, store, ana)
}

#[test]
fn an_owners_credential_stores_no_set_id_bit_no_device_and_no_systems_attribute_in_any_way() {
    let (_world, mut store, mut ana) = world();
    for bits in [0o4755, 0o2755, 0o6711, 0o2644] {
        refused(&mut ana, make_file("/x", owned(bits, (7, 7))));
        refused(&mut ana, create("/x", owned(bits, (7, 7)), Existing::Refuse));
        refused(&mut ana, create("/f", owned(bits, (7, 7)), Existing::Replace));
        refused(&mut ana, create("/x.partial", owned(bits, (7, 7)), Existing::Draft));
        refused(&mut ana, set("/f", mode(bits)));
        refused(&mut ana, rename("/f", "/g", mode(bits)));
        refused(&mut ana, rename("/f", "/f", mode(bits)));
        refused(&mut ana, node("/x", NewNode::Fifo, bits));
    }
    refused(&mut ana, directory("/x", 0o4755));
    for device in [NewNode::CharacterDevice(0x103), NewNode::BlockDevice(0x800)] {
        refused(&mut ana, node("/x", device, 0o666));
    }
    for name in ["security.capability", "security.ima", "trusted.overlay.opaque", "system.posix_acl_access", "other"] {
        refused(&mut ana, attribute("/f", name));
        ask(&mut store, attribute("/f", name)).unwrap();
    }
    refused(&mut ana, without("/f", "trusted.overlay.opaque"));
    ask(&mut ana, without("/f", "security.capability")).unwrap();
    let f = stat(&mut ana, "/f");
    assert_eq!((f.mode, f.uid), (0o644, 7), "what was refused has changed nothing");
    // What unprivileged programs may do works.
    ask(&mut ana, attribute("/f", "user.mime")).unwrap();
    attributes(&mut ana, directory("/shared", 0o3775));
    attributes(&mut ana, node("/pipe", NewNode::Fifo, 0o1644));
    attributes(&mut ana, set("/f", mode(0o1777)));
    attributes(&mut store, set("/f", mode(0o6755)));
}

#[test]
fn root_of_a_client_is_nobody_and_files_do_not_change_their_user() {
    let (_world, mut store, mut ana) = world();
    for (number, operation) in [make_file("/r0", ROOT), create("/r1", ROOT, Existing::Refuse)].into_iter().enumerate() {
        let made = attributes(&mut ana, operation);
        assert_eq!((made.uid, made.gid, made.mode), (NOBODY, NOBODY, 0o600), "{number}");
    }
    let other = attributes(&mut ana, make_file("/of another user", owned(0o600, (1234, 1235))));
    assert_eq!((other.uid, other.gid), (1234, 1235), "the mount's users have their own");
    for uid in [0, 8, NOBODY] {
        refused(&mut ana, set("/f", given(Some(uid), None)));
        refused(&mut ana, rename("/f", "/g", given(Some(uid), Some(7))));
    }
    refused(&mut ana, set("/f", given(None, Some(0))));
    // Setting the current user is no change, and root stands for nobody; the user can choose groups.
    attributes(&mut ana, set("/f", given(Some(7), Some(9))));
    attributes(&mut ana, set("/r0", given(Some(0), Some(0))));
    attributes(&mut ana, set("/su", given(Some(0), Some(0))));
    assert_eq!((stat(&mut ana, "/f").gid, stat(&mut ana, "/r0").uid, stat(&mut ana, "/su").mode), (9, NOBODY, 0o6755));
    let given = attributes(&mut store, set("/f", given(Some(0), Some(0))));
    assert_eq!((given.uid, given.gid), (0, 0));
}

#[test]
fn a_program_loses_its_privileges_before_a_credential_without_them_changes_it() {
    let ways: [(&str, Operation); 5] = [
        ("open", open("/su", true)),
        ("truncate", Operation::Truncate { place: FilePath::at("/su"), size_bytes: 0 }),
        ("relayout", Operation::Relayout { place: FilePath::at("/su"), layout: LayoutChoice::default(), node: "n".into() }),
        ("chgrp", set("/su", given(None, Some(9)))),
        ("chgrp, and its mode once more", set("/su", SetAttributes { mode: Some(0o6755), ..given(None, Some(9)) })),
    ];
    for (what, way) in ways {
        let (_world, mut store, mut ana) = world();
        assert_eq!(stat(&mut ana, "/su").mode, 0o6755, "{what}");
        ask(&mut ana, way).unwrap();
        let su = stat(&mut store, "/su");
        assert_eq!((su.mode, su.extended_bytes), (0o755, 0), "{what}");
        let name = b"security.capability".to_vec();
        let asked = Operation::GetExtended { place: FilePath::at("/su"), name };
        assert_eq!(ask(&mut store, asked).unwrap(), MetadataReply::Value(None), "{what}");
    }
    let (_world, mut store, mut ana) = world();
    let id = stat(&mut store, "/su").id;
    ask(&mut ana, Operation::Reopen { files: vec![(id, true)] }).unwrap();
    assert_eq!(stat(&mut store, "/su").mode, 0o755);
    attributes(&mut store, set("/su", mode(0o4755)));
    attributes(&mut ana, Operation::Written { file: id, size_bytes: 1 });
    assert_eq!(stat(&mut store, "/su").mode, 0o755);
    attributes(&mut store, set("/su", mode(0o4755)));
    attributes(&mut ana, open("/su", false));
    attributes(&mut store, open("/su", true));
    assert_eq!(stat(&mut store, "/su").mode, 0o4755, "the store's own credential keeps them");
    refused(&mut ana, set("/su", mode(0o4777)));
}

#[test]
fn a_device_that_the_store_has_is_opened_to_nobody_by_an_owners_credential() {
    let (_world, mut store, mut ana) = world();
    refused(&mut ana, set("/disk", mode(0o666)));
    refused(&mut ana, set("/disk", given(None, Some(9))));
    refused(&mut ana, rename("/disk", "/mine", mode(0o666)));
    let disk = stat(&mut store, "/disk");
    assert_eq!((disk.mode, disk.uid, disk.gid), (0o600, 7, 7));
}
