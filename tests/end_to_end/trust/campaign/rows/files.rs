//! Reading and changing files.

use super::super::asking::{ProbedFile, USER, done, make, new_name};
use super::Outcome::{Done, Empty, Outside, Refused};
use super::{Asker, Attempts, Outcome, Row, Who, World, all};
use thalweg_wire::protocol::io::{Allocate, DatafileId, Durability, IoReply, IoRequest, Seek};
use thalweg_wire::protocol::lost::Lost;
use thalweg_wire::protocol::metadata::*;

pub(super) const NAMES: Row = Row { name: "read names and attributes", says: of_names, attempt: read_names };

fn of_names(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    match (cell, who) {
        ("all", _) => all(Done, 6),
        ("nothing: files of servers have mode 600, and their directories 700", Who::Nobody) => all(Outside, 6),
        _ => None,
    }
}

fn read_names(world: &World, asker: &mut Asker) -> Attempts {
    let theirs = world.file(Some(world.bobs_lot));
    let name = b"user.of".to_vec();
    let set = Operation::SetExtended { place: theirs.place(), name: name.clone(), value: vec![1], how: SetExtended::Either };
    let link = new_name();
    let node = Operation::MakeNode { place: FilePath::at(&link), node: NewNode::Symlink(b"/there".to_vec()), owner: USER };
    [set, node].into_iter().for_each(|operation| assert_eq!(world.as_store().try_to(operation), Done));
    let list = Operation::List { place: FilePath::at("/"), after: After::Nothing, most: 9, detail: Detail::Sizes, walk: 0 };
    let stat = asker.ask(Operation::Stat { places: vec![theirs.place()], sizes: true }).map(|reply| match reply {
        MetadataReply::Many(many) => assert!(many[0].is_ok(), "{many:?}"),
        other => panic!("{other:?}"),
    });
    let sizes = asker.io_with(&IoRequest::Glimpse { datafiles: vec![theirs.datafile] }, &[]).map(|(reply, _)| match reply {
        IoReply::Sizes(sizes) => assert_eq!(sizes[0].size_bytes, ProbedFile::BYTES.len() as u64),
        other => panic!("{other:?}"),
    });
    vec![
        ("attributes", done(stat)),
        ("a directory", asker.try_to(list)),
        ("a link", asker.try_to(Operation::ReadSymlink { place: FilePath::at(&link) })),
        ("an extended attribute", asker.try_to(Operation::GetExtended { place: theirs.place(), name })),
        ("their names", asker.try_to(Operation::ListExtended { place: theirs.place() })),
        ("a datafile's size", done(sizes)),
    ]
}

pub(super) const BYTES: Row = Row { name: "read bytes", says: of_bytes, attempt: read_bytes };

fn of_bytes(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    let (everything, but_theirs) = ([Done, Done, Done, Empty], [Done, Done, Refused, Empty]);
    match (cell, who) {
        ("all", _) => Some(everything.to_vec()),
        ("all except files in others' lots", _) => Some(but_theirs.to_vec()),
        ("`read-only.credential`: all; an owner's: all except files in others' lots", Who::StoreReading) => Some(everything.to_vec()),
        ("`read-only.credential`: all; an owner's: all except files in others' lots", Who::OwnerReading) => Some(but_theirs.to_vec()),
        ("nothing", Who::Nobody) => all(Outside, 4),
        _ => None,
    }
}

fn read_bytes(world: &World, asker: &mut Asker) -> Attempts {
    let [plain, own, theirs] = world.three_files();
    let beside = DatafileId { lot: None, ..theirs.datafile };
    vec![
        ("a file in no lot", reads(asker, &plain)),
        ("one in the owner's lot", reads(asker, &own)),
        ("one in another's lot", reads(asker, &theirs)),
        ("the same, as if it were in none", bytes_of(asker, beside).map_or_else(|outcome| outcome, |_| Empty)),
    ]
}

/// Returns the common outcome of all ways to read a file's bytes.
fn reads(asker: &mut Asker, file: &ProbedFile) -> Outcome {
    let id = file.datafile;
    let opened = asker.try_to(Operation::Open { place: file.place(), write: false });
    let bytes = done(bytes_of(asker, id).map(|bytes| assert!(bytes.iter().all(|read| read == ProbedFile::BYTES), "{bytes:?}")));
    let maps = [IoRequest::Seek { datafiles: vec![(id, 0)], what: Seek::Data }, IoRequest::DataMap { datafiles: vec![(id, 0, 1 << 20)] }]
        .map(|request| asker.try_io(&request, &[]));
    the_one([opened, bytes].into_iter().chain(maps))
}

/// Reads a datafile by each request that returns bytes.
fn bytes_of(asker: &mut Asker, datafile: DatafileId) -> Result<[Vec<u8>; 2], Outcome> {
    let read = asker.io_with(&IoRequest::Read { datafile, offset: 0, length: 99 }, &[])?.1;
    let (reply, many) = asker.io_with(&IoRequest::ReadMany { reads: vec![(datafile, 0, 99)] }, &[])?;
    match reply {
        IoReply::ReadMany(each) if each[0].is_ok() => Ok([read, many]),
        other => panic!("{other:?}"),
    }
}

/// Returns the outcome that all of these have.
#[track_caller]
fn the_one(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let all: Vec<Outcome> = outcomes.into_iter().collect();
    assert!(all.iter().all(|outcome| *outcome == all[0]), "not all ways came to the same: {all:?}");
    all[0]
}

pub(super) const CHANGES: Row = Row { name: "change files, names, attributes", says: of_changes, attempt: change };

fn of_changes(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    match (cell, who) {
        ("all", _) => all(Done, 5),
        ("all except what is in others' lots", _) => Some(vec![Done, Done, Refused, Refused, Done]),
        ("refused", Who::Nobody) => all(Outside, 5),
        ("refused", _) => all(Refused, 5),
        _ => None,
    }
}

fn change(world: &World, asker: &mut Asker) -> Attempts {
    let [plain, own, theirs] = [None, Some(world.anas_lot), Some(world.bobs_lot)].map(|lot| changes(world, asker, lot));
    let names = [
        make(&new_name(), USER, None),
        Operation::MakeDirectory { place: FilePath::at(new_name()), owner: USER, parents: false },
        Operation::MakeNode { place: FilePath::at(new_name()), node: NewNode::Fifo, owner: USER },
    ]
    .map(|operation| asker.try_to(operation));
    vec![
        ("a file in no lot", plain),
        ("one in the owner's lot", own),
        ("one in another's lot", theirs),
        ("a new file in another's lot", asker.try_to(make(&new_name(), USER, Some(world.bobs_lot)))),
        ("new names", the_one(names)),
    ]
}

/// Returns the common outcome of all ways to change a file: each gets a separate file, which must be unchanged if the way is refused.
fn changes(world: &World, asker: &mut Asker, lot: Option<LotId>) -> Outcome {
    let many = ways(&world.file(lot), &world.file(lot)).len();
    the_one((0..many).map(|number| {
        let (file, other) = (world.file(lot), world.file(lot));
        let before = as_it_is(world, &file);
        let outcome = match ways(&file, &other).swap_remove(number) {
            Way::Metadata(operation) => asker.ask(operation).map_or_else(|outcome| outcome, |reply| of_each(&reply)),
            Way::Io(request, payload) => asker.io_with(&request, payload).map_or_else(|outcome| outcome, |(reply, _)| of_writes(&reply)),
        };
        if outcome != Done {
            assert_eq!(as_it_is(world, &file), before, "{outcome:?} of change {number}");
        }
        outcome
    }))
}

/// Returns a file's attributes and bytes.
fn as_it_is(world: &World, file: &ProbedFile) -> (Attributes, Vec<u8>) {
    let stat = Operation::Stat { places: vec![file.place()], sizes: false };
    let read = IoRequest::Read { datafile: file.datafile, offset: 0, length: 99 };
    world.with_store(|store| {
        let Ok(MetadataReply::Many(mut found)) = store.ask(stat) else { panic!("the store sees {}", file.path) };
        let bytes = store.io_with(&read, &[]).expect("the store reads it").1;
        (found.remove(0).expect("it has its name"), bytes)
    })
}

enum Way {
    Metadata(Operation),
    Io(IoRequest, &'static [u8]),
}

/// Returns each way to change a file; some use another file of the same lot.
fn ways(file: &ProbedFile, other: &ProbedFile) -> Vec<Way> {
    let (id, place) = (file.datafile, || file.place());
    let (only, set) = (None, SetAttributes { mode: Some(0o600), ..SetAttributes::default() });
    let (datafiles, durability) = (vec![id], Durability::Returned);
    let rename = |from, to| Operation::Rename { from, only, to, replace: true, set: SetAttributes::default() };
    let many = |one| Operation::Many { operations: vec![one] };
    let (existing, layout) = (Existing::Replace, LayoutChoice::default());
    let replace = NewFile { place: place(), owner: USER, existing, layout: layout.clone(), node: String::new() };
    let mut all = vec![
        Way::Io(IoRequest::Write { datafile: id, offset: 0, durability }, b"x"),
        Way::Io(IoRequest::WriteMany { writes: vec![(id, 0, 1)], durability }, b"x"),
        Way::Io(IoRequest::Truncate { datafiles: vec![(id, 1)] }, b""),
        Way::Io(IoRequest::Remove { datafiles }, b""),
    ];
    for how in [Allocate::Extend, Allocate::KeepSize, Allocate::PunchHole, Allocate::ZeroRange, Allocate::ZeroRangeKeepSize] {
        all.push(Way::Io(IoRequest::Allocate { datafiles: vec![(id, 0, 9)], how }, b""));
    }
    let name = b"user.x".to_vec();
    let operations = [
        Operation::Open { place: place(), write: true },
        Operation::Open { place: file.itself(), write: true },
        Operation::Truncate { place: place(), size_bytes: 0 },
        Operation::SetAttributes { place: place(), set: set.clone() },
        Operation::SetExtended { place: place(), name, value: Vec::new(), how: SetExtended::Either },
        rename(place(), file.beside()),
        Operation::Link { file: file.itself(), to: file.beside() },
        Operation::Unlink { place: place(), only },
        Operation::Written { file: id.file, size_bytes: 1 },
        Operation::Lost { file: id.file, lost: Lost::default(), mended: Lost::default() },
        rename(other.place(), place()),
        Operation::Exchange { one: place(), other: other.place() },
        Operation::Create { place: place(), owner: USER, existing, layout, node: String::new() },
        many(Small::Create(replace.clone())),
        many(Small::MakeFile(replace)),
        many(Small::Unlink { place: place(), only }),
        many(Small::SetAttributes { place: place(), set }),
        many(Small::Written { file: id.file, size_bytes: 1 }),
        many(Small::Rename { from: place(), only, to: file.beside(), replace: true, set: SetAttributes::default() }),
    ];
    all.extend(operations.map(Way::Metadata));
    all
}

/// Returns the outcome of the only operation of a batch.
fn of_each(reply: &MetadataReply) -> Outcome {
    match reply {
        MetadataReply::Each(each) => of_refusal(&each[0]),
        _ => Done,
    }
}

fn of_writes(reply: &IoReply) -> Outcome {
    match reply {
        IoReply::WrittenMany { each, .. } => of_refusal(&each[0]),
        _ => Done,
    }
}

fn of_refusal<T>(one: &Result<T, Refusal>) -> Outcome {
    let refused = one.as_ref().err();
    refused.map_or(Done, |refusal| thalweg_wire::ErrorKind::from_errno(refusal.errno).into())
}
