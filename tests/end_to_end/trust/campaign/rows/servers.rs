//! State that servers keep for clients, and messages between servers.

use super::super::asking::{Outcome::*, done};
use super::{Asker, Attempts, Outcome, Row, Who, World, all};
use thalweg_trace::{HostId, IdSpace};
use thalweg_wire::ErrorKind;
use thalweg_wire::limits;
use thalweg_wire::protocol::common::{CommonReply, CommonRequest, Witnessed};
use thalweg_wire::protocol::credentials::CredentialOperation;
use thalweg_wire::protocol::io::IoRequest;
use thalweg_wire::protocol::lots::{LotOperation, ShareRequest};
use thalweg_wire::protocol::metadata::{Operation, TargetId};
use thalweg_wire::trust::{Credential, Rights};

pub(super) const RECORDINGS: Row = Row {
    name: "recordings at servers (8 of each server's places are reserved for the store's own credential)",
    says: of_recordings,
    attempt: recordings,
};

fn of_recordings(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    let its_own = format!("up to {} of each server's {}; reads and ends only its own", limits::SESSIONS_OF_CREDENTIAL, limits::SESSIONS);
    match (cell, who) {
        (cell, _) if cell == its_own => Some(vec![Many(limits::SESSIONS_OF_CREDENTIAL), Failed(ErrorKind::NotFound), Done]),
        ("no", Who::Nobody) => all(Outside, 3),
        _ => None,
    }
}

fn start(host: u16) -> CommonRequest {
    CommonRequest::RecordStart { host: HostId(host), space: IdSpace(host) }
}

fn recordings(world: &World, asker: &mut Asker) -> Attempts {
    let mut other = world.connect(1, &world.bob).expect("bob has a credential");
    let (session, _) = other.record_start(HostId(1), IdSpace(1)).expect("there is room");
    let fetched = done(asker.common(&CommonRequest::RecordFetch { session }));
    let stopped = done(asker.common(&CommonRequest::RecordStop { session }));
    let mut begun = Vec::new();
    let refused = loop {
        match asker.common(&start(2)) {
            Ok(CommonReply::RecordStarted { session, .. }) => begun.push(session),
            Ok(other) => panic!("{other:?}"),
            Err(outcome) => break outcome,
        }
    };
    let many = if refused == Failed(ErrorKind::TooMany) { Many(begun.len()) } else { refused };
    begun.into_iter().for_each(|session| assert!(asker.common(&CommonRequest::RecordStop { session }).is_ok()));
    other.record_fetch(session, &mut |_| ()).expect("nobody else has ended it");
    vec![("begin some", many), ("read another's", fetched), ("end another's", stopped)]
}

pub(super) const CREDENTIALS: Row = Row { name: "credentials", says: of_credentials, attempt: credentials };

fn of_credentials(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    match (cell, who) {
        ("lists, adds and revokes them", _) => all(Done, 3),
        ("refused", Who::Nobody) => all(Outside, 3),
        ("refused", _) => all(Refused, 3),
        _ => None,
    }
}

fn credentials(world: &World, asker: &mut Asker) -> Attempts {
    let own = Credential::read(&world.store.credential()).expect("the store's own");
    let identity = |owner: &str| own.derive(owner, Rights::Write, None).expect("a credential").identity;
    let known = identity("known");
    let register = Operation::Credential(CredentialOperation::Register(known.clone()));
    assert_eq!(world.as_store().try_to(register), Done);
    let mut tries = |operation| asker.try_to(Operation::Credential(operation));
    vec![
        ("list", tries(CredentialOperation::List)),
        ("add", tries(CredentialOperation::Register(identity("new")))),
        ("revoke", tries(CredentialOperation::Revoke(vec![known.id]))),
    ]
}

pub(super) const BACKUPS: Row =
    Row { name: "backups of all names (`metadata backup`, `metadata check`); scrubs", says: of_backups, attempt: backups };

fn of_backups(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    match (cell, who) {
        ("reads them; scrubs", _) => all(Done, 1),
        ("refused", Who::Nobody) => all(Outside, 1),
        ("refused", _) => all(Refused, 1),
        _ => None,
    }
}

fn backups(_: &World, asker: &mut Asker) -> Attempts {
    vec![("the first part", asker.try_to(Operation::Backup { part: 0 }))]
}

pub(super) const BETWEEN_SERVERS: Row = Row { name: "messages between servers", says: of_servers, attempt: between_servers };

fn of_servers(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    match (cell, who) {
        ("accepted", _) => all(Done, 4),
        ("refused", Who::Nobody) => all(Outside, 4),
        ("refused", _) => all(Refused, 4),
        _ => None,
    }
}

fn between_servers(world: &World, asker: &mut Asker) -> Attempts {
    let seen = Witnessed { start: asker.service().unwrap_or_default(), change: 0 };
    let witness = Operation::Witness { server: "io0".into(), seen, revision: 0 };
    let more = LotOperation::MoveHere { lot: world.anas_lot, target: TargetId(0), bytes: 1 };
    let room = LotOperation::Reclaim { target: TargetId(0), bytes: 1 };
    // Whether there is more, or room, is not tested here.
    let heard = |outcome| if matches!(outcome, Failed(_) | Past) { Done } else { outcome };
    vec![
        ("what was witnessed", asker.try_to(witness)),
        ("shares of lots", asker.try_io(&IoRequest::Share(ShareRequest::List), &[])),
        ("more of a lot", heard(asker.try_to(Operation::Lot(more)))),
        ("room", heard(asker.try_to(Operation::Lot(room)))),
    ]
}
