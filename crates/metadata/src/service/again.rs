//! Repeated requests with a number: each is executed once, whatever happens to the service or the answer.

use super::session::ClientSession;
use super::{MetadataOptions, MetadataService};
use crate::database::embedded::{Embedded, Options};
use crate::database::in_memory::InMemory;
#[cfg(feature = "postgresql")]
use crate::database::postgresql::CACHE_BYTES;
#[cfg(feature = "postgresql")]
use crate::database::tests::postgresql::{self, Server};
use crate::database::{Database, Unwatched};
use crate::lineage::WitnessReports;
use crate::lots::tests::simulated::{Disks, Fuse, OWNER, Servers, map};
use crate::namespace::{Namespace, answers};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::sync::Arc;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::metadata::*;
use thalweg_wire::trust::{CredentialId, Identity, Rights};
use thalweg_wire::{ErrorKind, Result};

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// The service is killed before executing it.
    KilledBefore,
    /// The service is killed after executing it, before the answer.
    KilledAfter,
    /// Only the connection ends, after it is executed.
    Disconnected,
}

struct World {
    service: Option<(Arc<MetadataService>, ClientSession)>,
    number: u64,
}

const CLIENT: u64 = 77;

impl World {
    fn start(&mut self, database: Arc<dyn Database>) {
        let disks: Arc<Mutex<Disks>> = Arc::default();
        let servers = Arc::new(Servers { disks, fuse: Arc::new(Fuse::endless()) });
        let namespace = Arc::new(Namespace::open(database, map(), OWNER, &WitnessReports::default()).unwrap());
        let service = Arc::new(MetadataService::new(namespace, servers, MetadataOptions::of_a_test("one")).unwrap());
        self.service = Some((Arc::clone(&service), session(&service)));
    }

    fn ask(&mut self, operation: &Operation) -> Result<MetadataReply> {
        let number = Some(RequestNumber { client: CLIENT, line: 0, number: self.number });
        let request = MetadataRequest { closed: Vec::new(), directory: None, number, operation: operation.clone() };
        self.service.as_mut().unwrap().1.request(request, &mut Unwatched)
    }

    /// Executes an operation as a client does. `reopen` reopens the database after a kill.
    fn play(&mut self, operation: &Operation, fate: Fate, reopen: &mut dyn FnMut() -> Arc<dyn Database>) -> Result<MetadataReply> {
        self.number += 1;
        if matches!(fate, Fate::KilledAfter | Fate::Disconnected) {
            let _ = self.ask(operation);
        }
        match fate {
            Fate::Answered => {}
            Fate::Disconnected => {
                let (service, _) = self.service.take().unwrap();
                self.service = Some((Arc::clone(&service), session(&service)));
            }
            Fate::KilledBefore | Fate::KilledAfter => {
                self.service = None;
                self.start(reopen());
            }
        }
        self.ask(operation)
    }
}

fn session(service: &Arc<MetadataService>) -> ClientSession {
    ClientSession::new(Arc::clone(service), Arc::new(Identity::store()))
}

/// Returns one of a few paths.
fn path(n: u8) -> FilePath {
    FilePath::at(format!("/{}", n % 4))
}

fn new_file(n: u8) -> NewFile {
    NewFile { place: path(n), owner: OWNER, existing: Existing::Refuse, layout: LayoutChoice::default(), node: "n".into() }
}

/// Operations that fail when repeated, or leave another file in place.
fn operation() -> impl Strategy<Value = Operation> {
    let small = prop_oneof![
        any::<u8>().prop_map(|n| Small::MakeFile(new_file(n))),
        any::<u8>().prop_map(|n| Small::Create(new_file(n))),
        any::<u8>().prop_map(|n| Small::Unlink { place: path(n), only: None }),
    ];
    prop_oneof![
        2 => any::<u8>().prop_map(|n| {
            let NewFile { place, owner, existing, layout, node } = new_file(n);
            Operation::Create { place, owner, existing, layout, node }
        }),
        2 => any::<u8>().prop_map(|n| Operation::MakeDirectory { place: path(n), owner: OWNER, parents: false }),
        2 => any::<(u8, u8)>().prop_map(|(a, b)| Operation::Link { file: path(a), to: path(b) }),
        2 => any::<(u8, u8)>().prop_map(|(a, b)| {
            Operation::Rename { from: path(a), only: None, to: path(b), replace: true, set: SetAttributes::default() }
        }),
        1 => any::<(u8, u8)>().prop_map(|(a, b)| Operation::Exchange { one: path(a), other: path(b) }),
        2 => any::<u8>().prop_map(|n| Operation::Unlink { place: path(n), only: None }),
        1 => any::<u8>().prop_map(|n| Operation::RemoveDirectory { place: path(n) }),
        2 => prop::collection::vec(small, 1..70).prop_map(|operations| Operation::Many { operations }),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![Just(Fate::Answered), Just(Fate::KilledBefore), Just(Fate::KilledAfter), Just(Fate::Disconnected)]
}

/// Formats a reply without what differs between stores.
fn said(reply: &Result<MetadataReply>) -> String {
    let of = |attributes: &Attributes| format!("{:?} with {} names", attributes.kind, attributes.links);
    match reply {
        Err(error) => format!("{:?}", error.kind()),
        Ok(MetadataReply::Attributes(attributes)) => of(attributes),
        Ok(MetadataReply::Each(each)) => {
            let each = each.iter().map(|one| match one {
                Ok(SmallReply::Attributes(attributes)) => of(attributes),
                Ok(SmallReply::Done) => "done".to_owned(),
                Err(refusal) => refusal.errno.to_string(),
            });
            each.collect::<Vec<_>>().join(", ")
        }
        Ok(other) => format!("{other:?}"),
    }
}

fn tree(world: &mut World) -> Vec<String> {
    let names = world.service.as_ref().unwrap().0.namespace();
    let (entries, _) = names.list(&FilePath::at("/"), None, 100, Detail::Attributes).unwrap();
    entries.iter().map(|entry| format!("{:?} {:?} {}", entry.name, entry.kind, entry.attributes.as_ref().unwrap().links)).collect()
}

/// Compares a world in which services are killed and answers are lost with one without failures.
fn compare(steps: &[(Operation, Fate)], mut reopen: impl FnMut() -> Arc<dyn Database>) {
    let (mut world, mut calm) = (World { service: None, number: 0 }, World { service: None, number: 0 });
    world.start(reopen());
    calm.start(Arc::new(InMemory::default()));
    for (operation, fate) in steps {
        let expected = calm.play(operation, Fate::Answered, &mut || unreachable!("nothing happens"));
        let found = world.play(operation, *fate, &mut reopen);
        assert_eq!(said(&found), said(&expected), "{operation:?}, {fate:?}");
    }
    assert_eq!(tree(&mut world), tree(&mut calm));
}

fn steps() -> impl Strategy<Value = Vec<(Operation, Fate)>> {
    prop::collection::vec((operation(), fate()), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_request_that_is_sent_again_is_done_once_and_has_the_same_answer(steps in steps()) {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        compare(&steps, || Arc::new(Embedded::open(directory.path(), Options::default()).unwrap()));
    }
}

#[test]
#[cfg(feature = "postgresql")]
fn a_request_that_is_sent_again_is_done_once_in_postgresql() {
    let Some(server) = Server::start() else { return };
    let mut runner = TestRunner::new(ProptestConfig { cases: 4, ..ProptestConfig::default() });
    let mut number = 0;
    let names = Mutex::new(&mut number);
    let played = runner.run(&steps(), |steps| {
        let name = {
            let mut number = names.lock();
            **number += 1;
            format!("case{}", **number)
        };
        server.create(&name);
        compare(&steps, || Arc::new(postgresql::open(&server, &name, CACHE_BYTES).unwrap()));
        Ok(())
    });
    played.unwrap_or_else(|failed| panic!("{failed}"));
}

#[test]
fn what_a_client_has_given_up_is_not_done_late_and_what_is_remembered_is_one_answer_a_line() {
    let database: Arc<dyn Database> = Arc::new(InMemory::default());
    let mut world = World { service: None, number: 0 };
    world.start(Arc::clone(&database));
    let make = |n: u8| Operation::MakeDirectory { place: path(n), owner: OWNER, parents: false };
    for n in 0..3 {
        world.number += 1;
        world.ask(&make(n)).unwrap();
    }
    world.number -= 1;
    assert_eq!(world.ask(&make(3)).unwrap_err().kind(), ErrorKind::Stale);
    let namespace = Arc::clone(world.service.as_ref().unwrap().0.namespace());
    assert_eq!(answers::clients(&namespace).unwrap(), [CLIENT]);
    let rows = || crate::database::tests::rows(&*database, crate::database::Table::Answers, b"", None, 99).len();
    assert_eq!(rows(), 1);
    // Another client over the same connection, and a line beyond the maximum.
    for (client, line) in [(CLIENT + 1, 0), (CLIENT, 200)] {
        let number = Some(RequestNumber { client, line, number: 9 });
        let request = MetadataRequest { closed: Vec::new(), directory: None, number, operation: make(3) };
        let refused = world.service.as_mut().unwrap().1.request(request, &mut Unwatched).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
    answers::forget(&namespace, &[CLIENT]).unwrap();
    assert_eq!(rows(), 0);
}

#[test]
fn with_another_credential_a_request_of_the_same_number_is_another_request() {
    let mut world = World { service: None, number: 0 };
    world.start(Arc::new(InMemory::default()));
    let service = Arc::clone(&world.service.as_ref().unwrap().0);
    let number = Some(RequestNumber { client: CLIENT, line: 0, number: 5 });
    let make = |n: u8| {
        let operation = Operation::MakeDirectory { place: path(n), owner: OWNER, parents: false };
        MetadataRequest { closed: Vec::new(), directory: None, number, operation }
    };
    let ask = |owner: &str, id: u8, n: u8| -> Result<String> {
        let who =
            Identity { id: CredentialId([id; 16]), owner: owner.into(), rights: Rights::Write, until_s: None, lots: Default::default() };
        let mut session = ClientSession::new(Arc::clone(&service), Arc::new(who));
        match session.request(make(n), &mut Unwatched)? {
            MetadataReply::Attributes(made) => Ok(made.id.to_string()),
            other => panic!("{other:?}"),
        }
    };
    let made = ask("ana", 1, 1).unwrap();
    assert_eq!(ask("ana", 1, 1).unwrap(), made, "the same, sent again");
    assert_ne!(ask("bob", 2, 2).unwrap(), made, "neither ana's answer nor refused");
}
