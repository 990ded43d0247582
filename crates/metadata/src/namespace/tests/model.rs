//! The namespace against an in-memory tree: every operation has the same result and the same effect, also after a kill.

use crate::database::embedded::{Embedded, Options};
use crate::database::in_memory::InMemory;
use crate::database::{Database, DatabaseError, Table, Unwatched, read};
use crate::lineage::WitnessReports;
use crate::namespace::Namespace;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_wire::ErrorKind;
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{
    Detail, Existing, FileId, FileKind, FilePath, LayoutChoice, NewNode, Owner, ServerEntry, SetAttributes, SetExtended, StoreMap,
    TargetEntry, TargetId,
};

pub(super) const OWNER: Owner = Owner { mode: 0o644, uid: 1, gid: 2 };

/// The definition of correct: a directory is a set of names, a name refers to a number, and an object without names exists only while an
/// intent refers to it.
#[derive(Clone, Debug)]
struct Model {
    objects: BTreeMap<usize, Object>,
    next: usize,
}

#[derive(Clone, Debug)]
struct Object {
    body: Body,
    names: u32,
    extended: BTreeMap<u8, usize>,
    /// A file whose truncation is pending.
    truncating: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    File,
    Directory(BTreeMap<u8, usize>),
    Symlink(Vec<u8>),
    Fifo,
}

const ROOT: usize = 0;

impl Model {
    fn empty() -> Model {
        let mut model = Model { objects: BTreeMap::new(), next: 0 };
        model.add(Body::Directory(BTreeMap::new()));
        model
    }

    fn add(&mut self, body: Body) -> usize {
        let id = self.next;
        self.next += 1;
        self.objects.insert(id, Object { body, names: 1, extended: BTreeMap::new(), truncating: false });
        id
    }

    fn names(&self, id: usize) -> Result<&BTreeMap<u8, usize>, ErrorKind> {
        match &self.objects[&id].body {
            Body::Directory(names) => Ok(names),
            _ => Err(ErrorKind::NotDirectory),
        }
    }

    fn names_mut(&mut self, id: usize) -> &mut BTreeMap<u8, usize> {
        match &mut self.objects.get_mut(&id).unwrap().body {
            Body::Directory(names) => names,
            other => panic!("{other:?} has no names"),
        }
    }

    fn is_directory(&self, id: usize) -> bool {
        self.names(id).is_ok()
    }

    fn find(&self, path: &[u8]) -> Result<usize, ErrorKind> {
        path.iter().try_fold(ROOT, |at, name| self.names(at)?.get(name).copied().ok_or(ErrorKind::NotFound))
    }

    /// Returns the directory that contains or will contain a name, and the name.
    fn parent(&self, path: &[u8]) -> Result<(usize, u8), ErrorKind> {
        let (name, above) = path.split_last().ok_or(ErrorKind::IsDirectory)?;
        let parent = self.find(above)?;
        self.names(parent)?;
        Ok((parent, *name))
    }

    fn entry(&self, path: &[u8]) -> Result<(usize, u8, usize), ErrorKind> {
        let (parent, name) = self.parent(path)?;
        Ok((parent, name, *self.names(parent)?.get(&name).ok_or(ErrorKind::NotFound)?))
    }

    fn links(&self, id: usize) -> u32 {
        match self.names(id) {
            Ok(names) => 2 + names.values().filter(|below| self.is_directory(**below)).count() as u32,
            Err(_) => self.objects[&id].names,
        }
    }

    /// Returns the number of objects without names whose removal is pending.
    fn orphans(&self) -> usize {
        self.objects.values().filter(|object| object.names == 0).count()
    }

    fn promises(&self) -> usize {
        self.objects.values().filter(|object| object.names == 0 || object.truncating).count()
    }

    /// Removes one name.
    fn drop_name(&mut self, id: usize) {
        let object = self.objects.get_mut(&id).unwrap();
        object.names -= 1;
        if object.names == 0 && object.body != Body::File {
            self.objects.remove(&id);
        }
    }

    fn make_directory(&mut self, path: &[u8], parents: bool) -> Result<(), ErrorKind> {
        if !parents {
            return self.make(
                path,
                Body::Directory(BTreeMap::new()),
                if path.is_empty() { ErrorKind::Exists } else { ErrorKind::IsDirectory },
            );
        }
        let mut at = ROOT;
        for (i, name) in path.iter().enumerate() {
            at = match self.names(at)?.get(name) {
                Some(found) if !self.is_directory(*found) => {
                    return Err(if i + 1 == path.len() { ErrorKind::Exists } else { ErrorKind::NotDirectory });
                }
                Some(found) => *found,
                None => {
                    let made = self.add(Body::Directory(BTreeMap::new()));
                    self.names_mut(at).insert(*name, made);
                    made
                }
            };
        }
        Ok(())
    }

    fn make(&mut self, path: &[u8], body: Body, of_root: ErrorKind) -> Result<(), ErrorKind> {
        if path.is_empty() {
            return Err(of_root);
        }
        let (parent, name) = self.parent(path)?;
        if self.names(parent)?.contains_key(&name) {
            return Err(ErrorKind::Exists);
        }
        let made = self.add(body);
        self.names_mut(parent).insert(name, made);
        Ok(())
    }

    fn create(&mut self, path: &[u8], existing: Existing) -> Result<(), ErrorKind> {
        let (parent, name) = self.parent(path)?;
        match self.names(parent)?.get(&name).copied() {
            Some(found) if self.is_directory(found) => return Err(ErrorKind::IsDirectory),
            Some(_) if existing == Existing::Refuse => return Err(ErrorKind::Exists),
            Some(found) => self.drop_name(found),
            None => {}
        }
        let made = self.add(Body::File);
        self.names_mut(parent).insert(name, made);
        Ok(())
    }

    fn link(&mut self, file: &[u8], to: &[u8]) -> Result<(), ErrorKind> {
        let id = self.find(file)?;
        let (parent, name) = self.parent(to)?;
        if self.names(parent)?.contains_key(&name) {
            return Err(ErrorKind::Exists);
        }
        if self.is_directory(id) {
            return Err(ErrorKind::NotPermitted);
        }
        self.objects.get_mut(&id).unwrap().names += 1;
        self.names_mut(parent).insert(name, id);
        Ok(())
    }

    fn unlink(&mut self, path: &[u8]) -> Result<(), ErrorKind> {
        let (parent, name, id) = self.entry(path)?;
        if self.is_directory(id) {
            return Err(ErrorKind::IsDirectory);
        }
        self.names_mut(parent).remove(&name);
        self.drop_name(id);
        Ok(())
    }

    fn remove_directory(&mut self, path: &[u8]) -> Result<(), ErrorKind> {
        let (parent, name, id) = self.entry(path)?;
        if !self.names(id)?.is_empty() {
            return Err(ErrorKind::NotEmpty);
        }
        self.names_mut(parent).remove(&name);
        self.objects.remove(&id);
        Ok(())
    }

    fn rename(&mut self, from: &[u8], to: &[u8], replace: bool) -> Result<(), ErrorKind> {
        let (from_parent, from_name, moved) = self.entry(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        let target = self.names(to_parent)?.get(&to_name).copied();
        if target == Some(moved) {
            return if replace || from == to { Ok(()) } else { Err(ErrorKind::Exists) };
        }
        let is_directory = self.is_directory(moved);
        if is_directory && to.len() > from.len() && to.starts_with(from) {
            return Err(ErrorKind::Invalid);
        }
        if let Some(target) = target {
            match self.names(target) {
                _ if !replace => return Err(ErrorKind::Exists),
                Ok(_) if !is_directory => return Err(ErrorKind::IsDirectory),
                Err(_) if is_directory => return Err(ErrorKind::NotDirectory),
                Ok(below) if !below.is_empty() => return Err(ErrorKind::NotEmpty),
                Ok(_) => drop(self.objects.remove(&target)),
                Err(_) => self.drop_name(target),
            }
        }
        self.names_mut(from_parent).remove(&from_name);
        self.names_mut(to_parent).insert(to_name, moved);
        Ok(())
    }

    fn exchange(&mut self, one: &[u8], other: &[u8]) -> Result<(), ErrorKind> {
        let (one_parent, one_name) = self.parent(one)?;
        let (other_parent, other_name) = self.parent(other)?;
        let of_one = self.entry(one)?.2;
        let of_other = self.entry(other)?.2;
        if of_one == of_other {
            return Ok(());
        }
        let into_itself = |moved: usize, path: &[u8], to: &[u8]| self.is_directory(moved) && to.len() > path.len() && to.starts_with(path);
        if into_itself(of_one, one, other) || into_itself(of_other, other, one) {
            return Err(ErrorKind::Invalid);
        }
        self.names_mut(one_parent).insert(one_name, of_other);
        self.names_mut(other_parent).insert(other_name, of_one);
        Ok(())
    }

    fn truncate(&mut self, path: &[u8]) -> Result<(), ErrorKind> {
        let id = self.find(path)?;
        let object = self.objects.get_mut(&id).unwrap();
        match object.body {
            Body::File if object.truncating => Err(ErrorKind::Busy),
            Body::File => {
                object.truncating = true;
                Ok(())
            }
            Body::Directory(_) => Err(ErrorKind::IsDirectory),
            Body::Symlink(_) | Body::Fifo => Err(ErrorKind::Invalid),
        }
    }

    /// Completes all pending intents.
    fn settle(&mut self) {
        self.objects.retain(|_, object| {
            let stays = object.names > 0 || object.truncating;
            object.truncating = false;
            stays
        });
    }

    fn set_extended(&mut self, path: &[u8], name: u8, bytes: usize, how: SetExtended) -> Result<(), ErrorKind> {
        let found = self.find(path);
        if bytes > limits::EXTENDED_VALUE_BYTES {
            return Err(ErrorKind::TooLong);
        }
        let object = self.objects.get_mut(&found?).unwrap();
        match (object.extended.contains_key(&name), how) {
            (true, SetExtended::Create) => return Err(ErrorKind::Exists),
            (false, SetExtended::Replace) => return Err(ErrorKind::NoAttribute),
            _ => {}
        }
        let mut after = object.extended.clone();
        after.insert(name, bytes);
        if after.values().map(|bytes| 1 + bytes).sum::<usize>() > limits::EXTENDED_BYTES {
            return Err(ErrorKind::NoSpace);
        }
        object.extended = after;
        Ok(())
    }

    fn remove_extended(&mut self, path: &[u8], name: u8) -> Result<(), ErrorKind> {
        let id = self.find(path)?;
        self.objects.get_mut(&id).unwrap().extended.remove(&name).map(drop).ok_or(ErrorKind::NoAttribute)
    }
}

type Path = Vec<u8>;

#[derive(Clone, Debug)]
pub(super) enum Operation {
    MakeDirectory(Path, bool),
    Create(Path, bool),
    MakeSymlink(Path, Vec<u8>),
    MakeFifo(Path),
    Link(Path, Path),
    Unlink(Path),
    RemoveDirectory(Path),
    Rename(Path, Path, bool),
    Exchange(Path, Path),
    Truncate(Path),
    SetExtended(Path, u8, usize, SetExtended),
    RemoveExtended(Path, u8),
    Stat(Path),
    ReadSymlink(Path),
    List(Path, u32),
    Settle,
    Kill,
}

fn path() -> impl Strategy<Value = Path> {
    prop::collection::vec(b'a'..=b'c', 0..4)
}

pub(super) fn operation() -> impl Strategy<Value = Operation> {
    let how = prop_oneof![Just(SetExtended::Either), Just(SetExtended::Create), Just(SetExtended::Replace)];
    let bytes = prop_oneof![Just(0_usize), 1_usize..40, Just(50 << 10), Just(limits::EXTENDED_VALUE_BYTES + 1)];
    prop_oneof![
        4 => (path(), any::<bool>()).prop_map(|(p, x)| Operation::MakeDirectory(p, x)),
        4 => (path(), any::<bool>()).prop_map(|(p, x)| Operation::Create(p, x)),
        1 => (path(), prop::collection::vec(b'a'..=b'z', 1..9)).prop_map(|(p, t)| Operation::MakeSymlink(p, t)),
        1 => path().prop_map(Operation::MakeFifo),
        3 => (path(), path()).prop_map(|(f, t)| Operation::Link(f, t)),
        2 => path().prop_map(Operation::Unlink),
        2 => path().prop_map(Operation::RemoveDirectory),
        5 => (path(), path(), any::<bool>()).prop_map(|(f, t, x)| Operation::Rename(f, t, x)),
        3 => (path(), path()).prop_map(|(f, t)| Operation::Exchange(f, t)),
        1 => path().prop_map(Operation::Truncate),
        2 => (path(), b'x'..=b'z', bytes, how).prop_map(|(p, n, b, h)| Operation::SetExtended(p, n, b, h)),
        1 => (path(), b'x'..=b'z').prop_map(|(p, n)| Operation::RemoveExtended(p, n)),
        2 => path().prop_map(Operation::Stat),
        1 => path().prop_map(Operation::ReadSymlink),
        2 => (path(), 1_u32..3).prop_map(|(p, n)| Operation::List(p, n)),
        1 => Just(Operation::Settle),
        1 => Just(Operation::Kill),
    ]
}

/// `[a, b]` means `/a/b`.
fn place(path: &[u8]) -> FilePath {
    FilePath::at(path.iter().flat_map(|name| [b'/', *name]).collect::<Vec<u8>>())
}

pub(super) fn map() -> StoreMap {
    StoreMap {
        store: 5,
        servers: vec![ServerEntry { name: "io0".into(), node: "n".into(), address: "127.0.0.1:1".into() }],
        targets: vec![TargetEntry { target: TargetId(0), server: 0, directory: "/t".into() }],
    }
}

fn names_of(namespace: &Namespace, path: &[u8], page: u32) -> Result<Vec<(u8, FileKind)>, ErrorKind> {
    let mut all: Vec<(u8, FileKind)> = Vec::new();
    loop {
        let after = all.last().map(|(name, _)| vec![*name]);
        let (entries, more) = namespace.list(&place(path), after.as_deref(), page, Detail::Names).map_err(|e| e.kind())?;
        assert!(entries.len() <= page as usize);
        all.extend(entries.iter().map(|e| (e.name[0], e.kind)));
        if !more {
            return Ok(all);
        }
    }
}

fn kind_of(body: &Body) -> FileKind {
    match body {
        Body::File => FileKind::File,
        Body::Directory(_) => FileKind::Directory,
        Body::Symlink(_) => FileKind::Symlink,
        Body::Fifo => FileKind::Fifo,
    }
}

/// Compares the whole trees, including that equal names refer to equal objects.
fn same(namespace: &Namespace, model: &Model, at: usize, path: &mut Path, seen: &mut BTreeMap<usize, FileId>) {
    let found = namespace.stat(&place(path)).unwrap();
    let object = &model.objects[&at];
    assert_eq!((found.kind, found.links), (kind_of(&object.body), model.links(at)), "{path:?}");
    assert_eq!(*seen.entry(at).or_insert(found.id), found.id, "{path:?} is one object under all its names");
    let extended: Vec<Vec<u8>> = object.extended.keys().map(|name| vec![*name]).collect();
    assert_eq!(namespace.list_extended(&place(path)).unwrap(), extended, "{path:?}");
    for (name, bytes) in &object.extended {
        assert_eq!(namespace.get_extended(&place(path), &[*name]).unwrap(), Some(vec![*name; *bytes]), "{path:?}");
    }
    match &object.body {
        Body::Symlink(target) => {
            assert_eq!(namespace.read_symlink(&place(path)).unwrap(), *target);
            assert_eq!(found.target_bytes, target.len() as u64);
        }
        Body::Directory(names) => {
            let expected: Vec<_> = names.iter().map(|(name, id)| (*name, kind_of(&model.objects[id].body))).collect();
            assert_eq!(names_of(namespace, path, 2).unwrap(), expected, "{path:?}");
            for (name, below) in names {
                path.push(*name);
                same(namespace, model, *below, path, seen);
                path.pop();
            }
        }
        Body::File | Body::Fifo => {}
    }
}

/// Performs one operation on both.
fn step(namespace: &Namespace, model: &mut Model, operation: &Operation) {
    let watch = &mut Unwatched;
    let mut tried = model.clone();
    let (done, expected) = match operation {
        Operation::MakeDirectory(path, parents) => {
            (namespace.for_store().make_directory(watch, &place(path), OWNER, *parents).map(drop), tried.make_directory(path, *parents))
        }
        Operation::Create(path, replace) => {
            let existing = if *replace { Existing::Replace } else { Existing::Refuse };
            let made = namespace.for_store().create(watch, &place(path), OWNER, existing, &LayoutChoice::default(), "n");
            (made.map(drop), tried.create(path, existing))
        }
        Operation::MakeSymlink(path, target) => {
            let made = namespace.for_store().make_node(watch, &place(path), &NewNode::Symlink(target.clone()), OWNER);
            (made.map(drop), tried.make(path, Body::Symlink(target.clone()), ErrorKind::IsDirectory))
        }
        Operation::MakeFifo(path) => {
            let made = namespace.for_store().make_node(watch, &place(path), &NewNode::Fifo, OWNER);
            (made.map(drop), tried.make(path, Body::Fifo, ErrorKind::IsDirectory))
        }
        Operation::Link(file, to) => (namespace.for_store().link(watch, &place(file), &place(to)).map(drop), tried.link(file, to)),
        Operation::Unlink(path) => (namespace.for_store().unlink(watch, &place(path), None).map(drop), tried.unlink(path)),
        Operation::RemoveDirectory(path) => (namespace.for_store().remove_directory(watch, &place(path)), tried.remove_directory(path)),
        Operation::Rename(from, to, replace) => {
            let done = namespace.for_store().rename(watch, &place(from), None, &place(to), *replace, &SetAttributes::default());
            (done.map(drop), tried.rename(from, to, *replace))
        }
        Operation::Exchange(one, other) => (namespace.for_store().exchange(watch, &place(one), &place(other)), tried.exchange(one, other)),
        Operation::Truncate(path) => (namespace.for_store().truncate(watch, &place(path), 77).map(drop), tried.truncate(path)),
        Operation::SetExtended(path, name, bytes, how) => {
            let value = vec![*name; *bytes];
            (namespace.for_store().set_extended(watch, &place(path), &[*name], &value, *how), tried.set_extended(path, *name, *bytes, *how))
        }
        Operation::RemoveExtended(path, name) => {
            (namespace.for_store().remove_extended(watch, &place(path), &[*name]), tried.remove_extended(path, *name))
        }
        Operation::Stat(path) => (namespace.stat(&place(path)).map(drop), tried.find(path).map(drop)),
        Operation::ReadSymlink(path) => {
            let expected = tried.find(path).and_then(|id| match tried.objects[&id].body {
                Body::Symlink(_) => Ok(()),
                _ => Err(ErrorKind::Invalid),
            });
            (namespace.read_symlink(&place(path)).map(drop), expected)
        }
        Operation::List(path, page) => {
            let found = names_of(namespace, path, *page).map(|names| names.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
            let expected = tried.find(path).and_then(|id| tried.names(id)).map(|names| names.keys().copied().collect());
            assert_eq!(found, expected, "{operation:?}");
            return;
        }
        Operation::Settle => {
            let promised = namespace.intents(None, usize::MAX).unwrap();
            let left = namespace.intents_done(watch, &promised).unwrap();
            let renewed = tried.objects.values().any(|object| object.names == 0 && object.truncating);
            assert_eq!(left, renewed, "a truncated file without names is still to be removed");
            tried.settle();
            (Ok(()), Ok(()))
        }
        Operation::Kill => return,
    };
    assert_eq!(done.map_err(|e| e.kind()), expected, "{operation:?}");
    // Parents created before a failure are undone with it.
    if expected.is_ok() {
        *model = tried;
    }
    assert_eq!(namespace.intents(None, usize::MAX).unwrap().len(), model.promises(), "after {operation:?}");
}

pub(super) fn play(operations: &[Operation], mut database: impl FnMut(Option<Arc<dyn Database>>) -> Arc<dyn Database>) {
    let mut model = Model::empty();
    let mut namespace = Namespace::open(database(None), map(), OWNER, &WitnessReports::default()).unwrap();
    for operation in operations {
        step(&namespace, &mut model, operation);
        if matches!(operation, Operation::Kill) {
            let old = Arc::clone(namespace.database());
            drop(namespace);
            namespace = Namespace::open(database(Some(old)), map(), OWNER, &WitnessReports::default()).unwrap();
        }
    }
    same(&namespace, &model, ROOT, &mut Vec::new(), &mut BTreeMap::new());
    // An object without names can be found by number while its removal is pending, and not afterwards.
    let promised = namespace.intents(None, usize::MAX).unwrap();
    let orphans = promised.iter().filter(|(id, _)| namespace.stat(&FilePath::of(*id)).unwrap().links == 0).count();
    assert_eq!(orphans, model.orphans());
    // Finally no inode or attribute of them is left.
    while namespace.intents_done(&mut Unwatched, &namespace.intents(None, usize::MAX).unwrap()).unwrap() {}
    let rows = |table| {
        read::<_, DatabaseError>(&**namespace.database(), |view| {
            let mut rows = 0;
            view.scan(table, &[], None, &mut |_, _| {
                rows += 1;
                true
            })?;
            Ok(rows)
        })
        .unwrap()
    };
    let named: Vec<&Object> = model.objects.values().filter(|object| object.names > 0).collect();
    assert_eq!(rows(Table::Inodes), named.len());
    assert_eq!(rows(Table::Extended), named.iter().map(|object| object.extended.len()).sum::<usize>());
    assert_eq!(rows(Table::Intents), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_namespace_is_a_tree_of_names(operations in prop::collection::vec(operation(), 1..80)) {
        play(&operations, |old| old.unwrap_or_else(|| Arc::new(InMemory::default())));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_namespace_is_the_same_after_every_kill(operations in prop::collection::vec(operation(), 1..80)) {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let options = Options { segment_bytes: 2000, cache_bytes: 1 << 20, drop_damaged: false };
        play(&operations, |old| {
            drop(old);
            Arc::new(Embedded::open(directory.path(), options).unwrap())
        });
    }
}

#[test]
fn a_store_refuses_anothers_metadata_and_targets_that_moved() {
    let database: Arc<dyn Database> = Arc::new(InMemory::default());
    drop(Namespace::open(Arc::clone(&database), map(), OWNER, &WitnessReports::default()).unwrap());
    let error = |map: StoreMap| Namespace::open(Arc::clone(&database), map, OWNER, &WitnessReports::default()).unwrap_err().to_string();
    assert!(error(StoreMap { store: 6, ..map() }).contains("belongs to the store"));
    let mut moved = map();
    moved.servers[0].name = "io9".into();
    assert!(error(moved).contains("target 0 was at server io0 and is at io9 now"));
    assert!(error(StoreMap { targets: Vec::new(), ..map() }).contains("names 0"));
}

#[test]
fn a_number_is_never_given_twice_even_if_its_file_was_lost() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = |options| {
        Namespace::open(Arc::new(Embedded::open(directory.path(), options).unwrap()), map(), OWNER, &WitnessReports::default()).unwrap()
    };
    let create = |n: &Namespace| {
        let choice = LayoutChoice::default();
        n.for_store().create(&mut Unwatched, &FilePath::at("/f"), OWNER, Existing::Replace, &choice, "n").unwrap().0.id
    };
    let first = namespace(Options::default());
    let synced =
        std::fs::read_dir(directory.path()).unwrap().flatten().find(|e| e.file_name().to_string_lossy().starts_with("log-")).unwrap();
    let on_media = synced.metadata().unwrap().len();
    let lost = create(&first);
    drop(first);
    // Power loss removes everything after the last sync.
    std::fs::File::options().write(true).open(synced.path()).unwrap().set_len(on_media).unwrap();
    let second = namespace(Options::default());
    assert_eq!(second.stat(&FilePath::at("/f")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_ne!(create(&second), lost);
}
