//! The whole contents of a store, as its own credential sees them.

use super::asking::{Asker, World};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use thalweg_wire::protocol::credentials::CredentialOperation;
use thalweg_wire::protocol::io::{DatafileId, IoRequest};
use thalweg_wire::protocol::lots::{Lot, LotOperation};
use thalweg_wire::protocol::metadata::*;

/// The compared state of a store.
#[derive(Debug)]
pub(super) struct State {
    /// Each path with its number.
    pub names: BTreeMap<Vec<u8>, u64>,
    pub objects: BTreeMap<u64, Object>,
    pub lots: Vec<(Lot, Vec<Vec<u8>>)>,
    pub credentials: Vec<String>,
    /// Each datafile on the target with its length, including those without a file.
    pub datafiles: BTreeMap<PathBuf, u64>,
}

/// A file or directory.
#[derive(Debug, PartialEq)]
pub(super) struct Object {
    /// Without attributes that the service determines in the background.
    attributes: Attributes,
    extended: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    bytes: Vec<u8>,
}

impl State {
    pub(super) fn of(world: &World) -> State {
        let mut store = world.as_store();
        let mut state = State {
            names: BTreeMap::new(),
            objects: BTreeMap::new(),
            lots: lots(&mut store),
            credentials: credentials(&mut store),
            datafiles: datafiles(world),
        };
        state.add_directory(&mut store, FileId::ROOT, b"");
        state
    }

    /// Keeps what other owners must not change of this lot: its files, and the directories that have it.
    pub(super) fn of_lot(mut self, lot: LotId) -> State {
        self.objects.retain(|_, object| object.lot() == Some(lot));
        for directory in self.objects.values_mut().filter(|object| object.attributes.kind == FileKind::Directory) {
            // Files that others create in it are in no lot.
            let about = &mut directory.attributes;
            (about.modified_ns, about.changed_ns, about.change, about.links) = (0, 0, 0, 0);
        }
        self.names.retain(|_, id| self.objects.contains_key(id));
        self.lots.retain(|(of, _)| of.id == lot);
        self.datafiles.clear();
        self
    }

    /// Describes the differences from an earlier state.
    pub(super) fn changes_since(&self, before: &State) -> Vec<String> {
        let mut all = Vec::new();
        let ids: BTreeSet<u64> = self.objects.keys().chain(before.objects.keys()).copied().collect();
        for id in ids {
            let (was, is) = (before.objects.get(&id), self.objects.get(&id));
            all.extend((was != is).then(|| format!("{was:?} is {is:?}")));
        }
        all.extend((self.names != before.names).then(|| format!("names {:?} are {:?}", before.names, self.names)));
        all.extend((self.lots != before.lots).then(|| format!("lots {:?} are {:?}", before.lots, self.lots)));
        let credentials = self.credentials != before.credentials;
        all.extend(credentials.then(|| format!("credentials {:?} are {:?}", before.credentials, self.credentials)));
        all.extend((self.datafiles != before.datafiles).then(|| format!("datafiles {:?} are {:?}", before.datafiles, self.datafiles)));
        all
    }

    fn add_directory(&mut self, store: &mut Asker, id: FileId, path: &[u8]) {
        for entry in entries(store, id) {
            let path = [path, b"/", entry.name.as_bytes()].concat();
            if entry.kind == FileKind::Directory {
                self.add_directory(store, entry.id, &path);
            }
            self.names.insert(path, entry.id.0);
            self.objects.insert(entry.id.0, Object::of(store, entry.attributes.expect("they were asked for")));
        }
    }
}

/// Lists a whole directory.
fn entries(store: &mut Asker, id: FileId) -> Vec<DirectoryEntry> {
    let mut all: Vec<DirectoryEntry> = Vec::new();
    loop {
        let after = After::name(all.last().map(|entry| entry.name.as_bytes()));
        match store.ask(Operation::List { place: FilePath::of(id), after, most: 4096, detail: Detail::Attributes, walk: 0 }) {
            Ok(MetadataReply::Page { entries, more }) => {
                all.extend(entries);
                if !more {
                    return all;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Object {
    fn of(store: &mut Asker, attributes: Attributes) -> Object {
        let place = || FilePath::of(attributes.id);
        let Ok(MetadataReply::ExtendedNames(names)) = store.ask(Operation::ListExtended { place: place() }) else { panic!("names") };
        let value = |name: Vec<u8>| match store.ask(Operation::GetExtended { place: place(), name: name.clone() }) {
            Ok(MetadataReply::Value(value)) => (name, value),
            other => panic!("{other:?}"),
        };
        let extended = names.into_iter().map(value).collect();
        let mut bytes = Vec::new();
        if let Some(layout) = &attributes.layout {
            for (index, target) in (0..).zip(&layout.targets) {
                let datafile = DatafileId { file: attributes.id, index, target: *target, lot: layout.lot };
                bytes.extend(store.io_with(&IoRequest::Read { datafile, offset: 0, length: 1 << 20 }, &[]).expect("it is read").1);
            }
        }
        Object { attributes: Attributes { size_bytes: None, settled: None, ..attributes }, extended, bytes }
    }

    fn lot(&self) -> Option<LotId> {
        let of_directory = || self.attributes.default_layout.as_ref().and_then(|choice| choice.lot);
        self.attributes.layout.as_ref().map_or_else(of_directory, |layout| layout.lot)
    }
}

fn datafiles(world: &World) -> BTreeMap<PathBuf, u64> {
    let all = super::super::files(&world.store.directory().join("io0"));
    // (The server fits a target's ballast to the promised space at its own time.)
    let is_datafile = |path: &PathBuf| {
        path.file_name().is_none_or(|name| name != "ballast")
            && path.components().any(|part| part.as_os_str() == "datafiles" || part.as_os_str() == "lots")
    };
    all.into_iter().filter(is_datafile).map(|path| (path.clone(), path.metadata().map_or(0, |about| about.len()))).collect()
}

fn lots(store: &mut Asker) -> Vec<(Lot, Vec<Vec<u8>>)> {
    match store.ask(Operation::Lot(LotOperation::Show { name: None })) {
        Ok(MetadataReply::Lots(reports)) => reports.into_iter().map(|report| (report.lot, report.directories)).collect(),
        other => panic!("{other:?}"),
    }
}

fn credentials(store: &mut Asker) -> Vec<String> {
    match store.ask(Operation::Credential(CredentialOperation::List)) {
        Ok(MetadataReply::Credentials(book)) => book.entries.iter().map(|entry| format!("{entry:?}")).collect(),
        other => panic!("{other:?}"),
    }
}
