//! Owners of lots.

use super::*;
use thalweg_client::FileHandle;
use thalweg_wire::protocol::io::{Durability, IoRequest};
use thalweg_wire::protocol::lots::{LotShare, ShareRequest};

#[test]
fn another_owners_credential_neither_reads_nor_changes_a_lot_or_what_is_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::up(directory.path());
    let (ada, bob) = (world.of("ada"), world.of("bob"));
    let made = ada.create("run", 8 * MIB, HOUR_NS).unwrap();
    assert_eq!(made.lot.owner, "ada");
    ada.directory("/run", made.lot.id).unwrap();
    let file = ada.file("/run/f").unwrap();
    assert_eq!(fill(&file, 1 << 16, MIB), (MIB, None));
    let tracer = &mut Tracer::off();
    let in_lot = LayoutChoice { lot: Some(made.lot.id), ..LayoutChoice::default() };
    let refusals = [
        ("show", kind(bob.show("run"))),
        ("renew", kind(bob.renew("run", HOUR_NS))),
        ("resize", kind(bob.resize("run", 16 * MIB))),
        ("remove", kind(bob.remove("run", true))),
        ("open", kind(bob.store.open("/run/f"))),
        ("open to write", kind(bob.store.open_to_write("/run/f"))),
        ("create with the number", kind(bob.laid_out("/g", in_lot.clone()))),
        ("unlink", kind(bob.unlink("/run/f"))),
        ("rename", kind(bob.rename("/run/f", "/run/g"))),
        ("truncate", kind(bob.truncate("/run/f", 0))),
        ("directory", kind(bob.directory("/bobs", made.lot.id))),
        (
            "for another",
            kind(bob.ask(LotOperation::Create {
                name: "r".into(),
                owner: Some("ada".into()),
                size_bytes: MIB,
                for_ns: HOUR_NS,
                elastic: false,
                least: None,
                targets: vec![],
            })),
        ),
        ("move", kind(bob.ask(LotOperation::MoveHere { lot: made.lot.id, target: made.lot.shares[0].0, bytes: 1 }))),
        ("reclaim", kind(bob.ask(LotOperation::Reclaim { target: made.lot.shares[0].0, bytes: 1 }))),
    ];
    for (what, kind) in refusals {
        assert_eq!(kind, ErrorKind::Access, "{what}");
    }
    // His files in her directory are in no lot.
    bob.file("/run/g").unwrap();
    assert_eq!(bob.names.stat(tracer, &FilePath::at("/run/g")).unwrap().layout.unwrap().lot, None);
    bob.unlink("/run/g").unwrap();
    assert!(bob.shown().unwrap().is_empty());
    // Nor by sending requests to the I/O servers: names and attributes are public.
    let seen = bob.names.stat(tracer, &FilePath::at("/run/f")).unwrap();
    let handle = FileHandle::from_attributes("/run/f", &seen).unwrap();
    let (datafile, data) = (handle.datafile(0), &bob.store.data);
    let server = data.server_of(datafile.target).unwrap();
    let share = LotShare { owner: "bob".into(), ..made.uses[0].share.clone() };
    let requests = [
        IoRequest::Read { datafile, offset: 0, length: 10 },
        IoRequest::Write { datafile, offset: 0, durability: Durability::Returned },
        IoRequest::Truncate { datafiles: vec![(datafile, 0)] },
        IoRequest::Remove { datafiles: vec![datafile] },
        IoRequest::DataMap { datafiles: vec![(datafile, 0, 100)] },
        IoRequest::Share(ShareRequest::Keep { target: datafile.target, share, least: None, now_ns: 0 }),
        IoRequest::Share(ShareRequest::Release { target: datafile.target, lot: made.lot.id }),
        IoRequest::Share(ShareRequest::List),
    ];
    for request in requests {
        let refused = data.call_each(tracer, &[(server, request.clone())]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Access, "{request:?}: {refused}");
    }
    assert_eq!(world.check(&ada, "run"), MIB);
    let mut bytes = vec![0; 1 << 16];
    assert_eq!(ada.store.open("/run/f").unwrap().read_at(&mut bytes, 0).unwrap(), 1 << 16);
    assert!(bytes.iter().all(|byte| *byte == 7));
    // The store's own credential may do all of that.
    world.client.resize("run", 16 * MIB).unwrap();
    world.client.remove("run", true).unwrap();
}
