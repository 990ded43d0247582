//! The namespace against a tree in memory: whatever is done, both answer the same and look the same,
//! also after a kill.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_store::ErrorKind;
use thalweg_store::metadata::database::{Database, Unwatched};
use thalweg_store::metadata::embedded::{Embedded, Options};
use thalweg_store::metadata::model::InMemory;
use thalweg_store::metadata::namespace::Namespace;
use thalweg_store::protocol::metadata::{
    Existing, FileId, FileKind, LayoutChoice, Owner, Place, ServerEntry, SetAttributes, StoreMap, TargetEntry, TargetId,
};

const OWNER: Owner = Owner { mode: 0o644, uid: 1, gid: 2 };

/// The definition of correct: a directory is its names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File(FileId),
    Directory(BTreeMap<u8, Node>),
}

impl Node {
    fn empty() -> Node {
        Node::Directory(BTreeMap::new())
    }

    fn names(&self) -> Result<&BTreeMap<u8, Node>, ErrorKind> {
        match self {
            Node::Directory(names) => Ok(names),
            Node::File(_) => Err(ErrorKind::NotDirectory),
        }
    }

    fn names_mut(&mut self) -> Result<&mut BTreeMap<u8, Node>, ErrorKind> {
        match self {
            Node::Directory(names) => Ok(names),
            Node::File(_) => Err(ErrorKind::NotDirectory),
        }
    }

    fn find(&self, path: &[u8]) -> Result<&Node, ErrorKind> {
        path.iter().try_fold(self, |node, name| node.names()?.get(name).ok_or(ErrorKind::NotFound))
    }

    fn directory(&mut self, path: &[u8]) -> Result<&mut BTreeMap<u8, Node>, ErrorKind> {
        let found = path.iter().try_fold(self, |node, name| node.names_mut()?.get_mut(name).ok_or(ErrorKind::NotFound))?;
        found.names_mut()
    }

    fn subdirectories(&self) -> u32 {
        self.names().map_or(0, |names| names.values().filter(|n| matches!(n, Node::Directory(_))).count() as u32)
    }

    fn make_directory(&mut self, path: &[u8], parents: bool) -> Result<(), ErrorKind> {
        if path.is_empty() {
            return if parents { Ok(()) } else { Err(ErrorKind::Exists) };
        }
        if parents {
            let mut at = self;
            for (i, name) in path.iter().enumerate() {
                at = at.names_mut()?.entry(*name).or_insert_with(Node::empty);
                if matches!(at, Node::File(_)) {
                    return Err(if i + 1 == path.len() { ErrorKind::Exists } else { ErrorKind::NotDirectory });
                }
            }
            return Ok(());
        }
        let (name, above) = path.split_last().unwrap();
        let names = self.directory(above)?;
        if names.contains_key(name) {
            return Err(ErrorKind::Exists);
        }
        names.insert(*name, Node::empty());
        Ok(())
    }

    /// Whether a file of this name could be made.
    fn may_create(&mut self, path: &[u8], existing: Existing) -> Result<(), ErrorKind> {
        let (name, above) = path.split_last().ok_or(ErrorKind::IsDirectory)?;
        match self.directory(above)?.get(name) {
            Some(Node::Directory(_)) => Err(ErrorKind::IsDirectory),
            Some(Node::File(_)) if existing == Existing::Refuse => Err(ErrorKind::Exists),
            _ => Ok(()),
        }
    }

    fn create(&mut self, path: &[u8], id: FileId) {
        let (name, above) = path.split_last().unwrap();
        self.directory(above).unwrap().insert(*name, Node::File(id));
    }

    fn unlink(&mut self, path: &[u8]) -> Result<(), ErrorKind> {
        let (name, above) = path.split_last().ok_or(ErrorKind::IsDirectory)?;
        let names = self.directory(above)?;
        match names.get(name).ok_or(ErrorKind::NotFound)? {
            Node::Directory(_) => Err(ErrorKind::IsDirectory),
            Node::File(_) => names.remove(name).map(drop).ok_or(ErrorKind::NotFound),
        }
    }

    fn remove_directory(&mut self, path: &[u8]) -> Result<(), ErrorKind> {
        let (name, above) = path.split_last().ok_or(ErrorKind::IsDirectory)?;
        let names = self.directory(above)?;
        match names.get(name).ok_or(ErrorKind::NotFound)? {
            Node::File(_) => Err(ErrorKind::NotDirectory),
            Node::Directory(below) if !below.is_empty() => Err(ErrorKind::NotEmpty),
            Node::Directory(_) => names.remove(name).map(drop).ok_or(ErrorKind::NotFound),
        }
    }

    fn rename(&mut self, from: &[u8], to: &[u8], replace: bool) -> Result<(), ErrorKind> {
        let (from_name, from_above) = from.split_last().ok_or(ErrorKind::IsDirectory)?;
        let moved = self.directory(from_above)?.get(from_name).ok_or(ErrorKind::NotFound)?.clone();
        let (to_name, to_above) = to.split_last().ok_or(ErrorKind::IsDirectory)?;
        self.directory(to_above)?;
        if from == to {
            return Ok(());
        }
        let is_directory = matches!(moved, Node::Directory(_));
        if is_directory && to_above.starts_with(from) {
            return Err(ErrorKind::Invalid);
        }
        match self.directory(to_above)?.get(to_name) {
            None => {}
            Some(_) if !replace => return Err(ErrorKind::Exists),
            Some(Node::Directory(_)) if !is_directory => return Err(ErrorKind::IsDirectory),
            Some(Node::File(_)) if is_directory => return Err(ErrorKind::NotDirectory),
            Some(Node::Directory(below)) if !below.is_empty() => return Err(ErrorKind::NotEmpty),
            Some(_) => {}
        }
        self.directory(from_above)?.remove(from_name);
        self.directory(to_above)?.insert(*to_name, moved);
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Operation {
    MakeDirectory(Vec<u8>, bool),
    Create(Vec<u8>, bool),
    Unlink(Vec<u8>),
    RemoveDirectory(Vec<u8>),
    Rename(Vec<u8>, Vec<u8>, bool),
    Stat(Vec<u8>),
    List(Vec<u8>, u32),
    Kill,
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(b'a'..=b'c', 0..4)
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (path(), any::<bool>()).prop_map(|(p, x)| Operation::MakeDirectory(p, x)),
        4 => (path(), any::<bool>()).prop_map(|(p, x)| Operation::Create(p, x)),
        2 => path().prop_map(Operation::Unlink),
        2 => path().prop_map(Operation::RemoveDirectory),
        5 => (path(), path(), any::<bool>()).prop_map(|(f, t, x)| Operation::Rename(f, t, x)),
        2 => path().prop_map(Operation::Stat),
        2 => (path(), 1_u32..3).prop_map(|(p, n)| Operation::List(p, n)),
        1 => Just(Operation::Kill),
    ]
}

/// `[a, b]` is `/a/b`.
fn place(path: &[u8]) -> Place {
    Place::at(path.iter().flat_map(|name| [b'/', *name]).collect::<Vec<u8>>())
}

fn map() -> StoreMap {
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
        let (entries, more) = namespace.list(&place(path), after.as_deref(), page, false).map_err(|e| e.kind())?;
        assert!(entries.len() <= page as usize);
        all.extend(entries.iter().map(|e| (e.name[0], e.kind)));
        if !more {
            return Ok(all);
        }
    }
}

/// Compares all of the tree, and what each file has been called since it was made.
fn same(namespace: &Namespace, node: &Node, path: &mut Vec<u8>) {
    let found = namespace.stat(&place(path)).unwrap();
    match node {
        Node::File(id) => assert_eq!((found.id, found.kind, found.links), (*id, FileKind::File, 1), "{path:?}"),
        Node::Directory(names) => {
            assert_eq!((found.kind, found.links), (FileKind::Directory, 2 + node.subdirectories()), "{path:?}");
            let kind = |node: &Node| if matches!(node, Node::File(_)) { FileKind::File } else { FileKind::Directory };
            let expected: Vec<_> = names.iter().map(|(name, node)| (*name, kind(node))).collect();
            assert_eq!(names_of(namespace, path, 2).unwrap(), expected, "{path:?}");
            for (name, below) in names {
                path.push(*name);
                same(namespace, below, path);
                path.pop();
            }
        }
    }
}

fn files(node: &Node) -> usize {
    match node {
        Node::File(_) => 1,
        Node::Directory(names) => names.values().map(files).sum(),
    }
}

/// Does one operation in both; how many files were made.
fn step(namespace: &Namespace, model: &mut Node, operation: &Operation) -> usize {
    let watch = &mut Unwatched;
    let kind = |result: Result<(), thalweg_store::Error>| result.map_err(|e| e.kind());
    match operation {
        Operation::MakeDirectory(path, parents) => {
            // With parents, what was made before the failure is the model's business only when all succeeds.
            let mut tried = model.clone();
            let expected = tried.make_directory(path, *parents);
            let done = namespace.make_directory(watch, &place(path), OWNER, *parents).map(drop);
            assert_eq!(kind(done), expected, "{operation:?}");
            if expected.is_ok() {
                *model = tried;
            }
        }
        Operation::Create(path, replace) => {
            let existing = if *replace { Existing::Replace } else { Existing::Refuse };
            let expected = model.may_create(path, existing);
            let made = namespace.create(watch, &place(path), OWNER, existing, &LayoutChoice::default(), "n");
            assert_eq!(kind(made.as_ref().map(|_| ()).map_err(Clone::clone)), expected, "{operation:?}");
            if let Ok((made, _)) = made {
                model.create(path, made.id);
                return 1;
            }
        }
        Operation::Unlink(path) => {
            let done = namespace.unlink(watch, &place(path), None).map(drop);
            assert_eq!(kind(done), model.unlink(path), "{operation:?}");
        }
        Operation::RemoveDirectory(path) => {
            let done = namespace.remove_directory(watch, &place(path));
            assert_eq!(kind(done), model.remove_directory(path), "{operation:?}");
        }
        Operation::Rename(from, to, replace) => {
            let done = namespace.rename(watch, &place(from), None, &place(to), *replace, &SetAttributes::default()).map(drop);
            assert_eq!(kind(done), model.rename(from, to, *replace), "{operation:?}");
        }
        Operation::Stat(path) => {
            let done = namespace.stat(&place(path)).map(drop);
            assert_eq!(kind(done), model.find(path).map(drop), "{operation:?}");
        }
        Operation::List(path, page) => {
            let found = names_of(namespace, path, *page).map(|names| names.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
            let expected = model.find(path).and_then(Node::names).map(|names| names.keys().copied().collect());
            assert_eq!(found, expected, "{operation:?}");
        }
        Operation::Kill => {}
    }
    0
}

fn play(operations: &[Operation], mut database: impl FnMut(Option<Arc<dyn Database>>) -> Arc<dyn Database>) {
    let mut model = Node::empty();
    let mut made = 0;
    let mut namespace = Namespace::open(database(None), map(), OWNER).unwrap();
    for operation in operations {
        made += step(&namespace, &mut model, operation);
        if matches!(operation, Operation::Kill) {
            let old = Arc::clone(namespace.database());
            drop(namespace);
            namespace = Namespace::open(database(Some(old)), map(), OWNER).unwrap();
        }
    }
    same(&namespace, &model, &mut Vec::new());
    // Whatever was made and has no name any more is promised to be removed, and nothing else is.
    assert_eq!(namespace.intents(None, usize::MAX).unwrap().len(), made - files(&model));
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
        let options = Options { segment_bytes: 2000, cache_bytes: 1 << 20 };
        play(&operations, |old| {
            drop(old);
            Arc::new(Embedded::open(directory.path(), options).unwrap())
        });
    }
}

#[test]
fn a_store_refuses_anothers_metadata_and_targets_that_moved() {
    let database: Arc<dyn Database> = Arc::new(InMemory::default());
    drop(Namespace::open(Arc::clone(&database), map(), OWNER).unwrap());
    let error = |map: StoreMap| Namespace::open(Arc::clone(&database), map, OWNER).unwrap_err().to_string();
    assert!(error(StoreMap { store: 6, ..map() }).contains("belongs to the store"));
    let mut moved = map();
    moved.servers[0].name = "io9".into();
    assert!(error(moved).contains("target 0 was at server io0 and is at io9 now"));
    assert!(error(StoreMap { targets: Vec::new(), ..map() }).contains("names 0"));
}

#[test]
fn a_number_is_never_given_twice_even_if_its_file_was_lost() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = |options| Namespace::open(Arc::new(Embedded::open(directory.path(), options).unwrap()), map(), OWNER).unwrap();
    let create = |n: &Namespace| {
        let choice = LayoutChoice::default();
        n.create(&mut Unwatched, &Place::at("/f"), OWNER, Existing::Replace, &choice, "n").unwrap().0.id
    };
    let first = namespace(Options::default());
    let synced =
        std::fs::read_dir(directory.path()).unwrap().flatten().find(|e| e.file_name().to_string_lossy().starts_with("log-")).unwrap();
    let on_media = synced.metadata().unwrap().len();
    let lost = create(&first);
    drop(first);
    // Power loss: nothing after the last sync is there.
    std::fs::File::options().write(true).open(synced.path()).unwrap().set_len(on_media).unwrap();
    let second = namespace(Options::default());
    assert_eq!(second.stat(&Place::at("/f")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_ne!(create(&second), lost);
}
