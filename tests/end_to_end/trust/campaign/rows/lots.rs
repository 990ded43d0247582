//! Lots and their files.

use super::super::asking::{Outcome::*, USER, make, new_name};
use super::{Asker, Attempts, Outcome, Row, Who, World, all};
use thalweg_wire::protocol::lots::LotOperation;
use thalweg_wire::protocol::metadata::*;

const MIB: u64 = 1 << 20;
const HOUR_NS: u64 = 3_600_000_000_000;

pub(super) const LOTS: Row = Row { name: "lots", says: of_lots, attempt: lots };

fn of_lots(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    let sees = |theirs| Some(vec![Refused, Refused, Refused, Done, theirs, Refused, Refused]);
    match (cell, who) {
        ("uses and changes any", _) => all(Done, 7),
        ("uses and changes its own, within its bounds", _) => Some(vec![Done, Refused, Past, Done, Refused, Done, Refused]),
        ("sees the lots whose files it can read", Who::StoreReading) => sees(Done),
        ("sees the lots whose files it can read", Who::OwnerReading) => sees(Refused),
        ("no", Who::Nobody) => all(Outside, 7),
        _ => None,
    }
}

fn lots(_: &World, asker: &mut Asker) -> Attempts {
    let create = |owner: Option<&str>, for_ns| LotOperation::Create {
        name: format!("lot{}", &new_name()[1..]),
        owner: owner.map(str::to_owned),
        size_bytes: MIB,
        for_ns,
        elastic: false,
        least: None,
        targets: Vec::new(),
    };
    let show = |name: &str| LotOperation::Show { name: Some(name.into()) };
    let renew = |name: &str| LotOperation::Renew { name: name.into(), for_ns: 2 * HOUR_NS };
    let resize = |name: &str| LotOperation::Resize { name: name.into(), size_bytes: 4 * MIB };
    let mut tries = |operation| asker.try_to(Operation::Lot(operation));
    let mut change = |name: &str| {
        let [renewed, resized] = [renew(name), resize(name)].map(&mut tries);
        assert_eq!(renewed, resized);
        renewed
    };
    let (own, theirs) = (change("of-ana"), change("of-bob"));
    vec![
        ("make one", tries(create(None, HOUR_NS))),
        ("make one of another's", tries(create(Some("bob"), HOUR_NS))),
        ("make one for 40 days", tries(create(None, 40 * 24 * HOUR_NS))),
        ("see the owner's", tries(show("of-ana"))),
        ("see another's", tries(show("of-bob"))),
        ("change the owner's", own),
        ("change another's", theirs),
    ]
}

pub(super) const DIRECTORIES: Row = Row { name: "a lot on a directory", says: of_directories, attempt: directories };

fn of_directories(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    const OWNERS: &str = "sets its own on directories that it made. Removes its own from any directory, and any lot from directories that it made. \
         Others' lots do not affect its new files";
    match (cell, who) {
        ("sets and removes any", _) => all(Done, 8),
        (OWNERS, _) => Some(vec![Done, Refused, Refused, Refused, Done, Done, Refused, Empty]),
        ("refused", Who::Nobody) => all(Outside, 8),
        ("refused", _) => all(Refused, 8),
        _ => None,
    }
}

fn with_lot(directory: &str, lot: Option<LotId>) -> Operation {
    let default_layout = Some(lot.map(|lot| LayoutChoice { lot: Some(lot), ..LayoutChoice::default() }));
    Operation::SetAttributes { place: FilePath::at(directory), set: SetAttributes { default_layout, ..SetAttributes::default() } }
}

/// Creates a directory with this credential, on which the store sets this lot.
fn directory(world: &World, of: Who, lot: Option<LotId>) -> String {
    let path = new_name();
    let make = Operation::MakeDirectory { place: FilePath::at(&path), owner: USER, parents: false };
    assert_eq!(Asker::new(world, of).try_to(make), Done);
    if lot.is_some() {
        assert_eq!(world.as_store().try_to(with_lot(&path, lot)), Done);
    }
    path
}

fn directories(world: &World, asker: &mut Asker) -> Attempts {
    let (anas, bobs) = (Some(world.anas_lot), Some(world.bobs_lot));
    let (owner, store) = (|lot| directory(world, Who::Owner, lot), |lot| directory(world, Who::Store, lot));
    let made_in = format!("{}{}", store(bobs), new_name());
    let effect = match asker.attributes(make(&made_in, USER, None)) {
        Ok(made) if made.layout.as_ref().and_then(|layout| layout.lot) == bobs => Done,
        Ok(_) => Empty,
        Err(outcome) => outcome,
    };
    let mut put = |directory: String, lot| asker.try_to(with_lot(&directory, lot));
    vec![
        ("the owner's on one that it made", put(owner(None), anas)),
        ("the owner's on the store's", put(store(None), anas)),
        ("another's on one that the owner made", put(owner(None), bobs)),
        ("another's on the store's", put(store(None), bobs)),
        ("the owner's off the store's", put(store(anas), None)),
        ("another's off one that the owner made", put(owner(bobs), None)),
        ("another's off the store's", put(store(bobs), None)),
        ("what is made where another's is", effect),
    ]
}
