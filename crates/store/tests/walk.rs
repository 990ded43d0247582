//! Walks of directories and trees in a store on loopback.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thalweg_store::client::walk::{Detail, SizeFrom, TreeOptions, Visit, WalkMode, WalkOptions, Walker};
use thalweg_store::client::{DataClient, FileHandle, StoreFile};
use thalweg_store::metadata::client::MetadataClient;
use thalweg_store::protocol::metadata::{Existing, FileKind, LayoutChoice, Owner, Place};
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_store::wire::Connect;
use thalweg_trace::Tracer;

const OWNER: Owner = Owner { mode: 0o644, uid: 7, gid: 8 };

/// A store, and a client of it.
struct Stand {
    store: RunningStore,
    names: MetadataClient,
    data: Arc<DataClient>,
    _directory: tempfile::TempDir,
}

fn off() -> Tracer {
    Tracer::off()
}

fn stand(servers: usize) -> Stand {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&UpOptions { servers: Some(servers), targets: Some(1), ..UpOptions::new([directory.path() as &Path]) }).unwrap();
    let options = Connect { timeout: Duration::from_secs(20), ..Connect::default() };
    let names = MetadataClient::connect(&mut off(), &store.address().service().unwrap(), &options).unwrap();
    let data = Arc::new(DataClient::new((*names.map()).clone(), &options));
    Stand { store, names, data, _directory: directory }
}

impl Stand {
    fn walker(&self, mode: WalkMode, detail: Detail) -> Walker {
        Walker::new(self.names.clone(), Arc::clone(&self.data), WalkOptions { mode, detail, ..WalkOptions::default() })
    }

    fn make(&self, path: &[u8], size: usize) {
        let file = self.names.create(&mut off(), &Place::at(path), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap();
        let handle = FileHandle::from_attributes("f", &file.attributes).unwrap();
        if size > 0 {
            StoreFile::new(Arc::clone(&self.data), handle).write_at(&vec![7; size], 0).unwrap();
        }
    }

    fn make_directory(&self, path: &[u8]) {
        self.names.make_directory(&mut off(), &Place::at(path), OWNER, true).unwrap();
    }
}

#[test]
fn every_entry_comes_once_in_order_with_its_size_in_every_mode() {
    let stand = stand(3);
    let mut expected = BTreeMap::new();
    for i in 0..100_usize {
        let (name, size) = (format!("file-{i:03}"), i * 7001 % 300_000);
        stand.make(format!("/{name}").as_bytes(), size);
        expected.insert(name.into_bytes(), Some(size as u64));
    }
    stand.make_directory(b"/directory");
    expected.insert(b"directory".to_vec(), None);
    for mode in WalkMode::ALL {
        let mut walk = stand.walker(mode, Detail::Sizes).directory(&Place::at("/"));
        let mut found = Vec::new();
        while let Some(entry) = walk.next(&mut off()) {
            let entry = entry.unwrap();
            assert_eq!(entry.attributes.as_ref().unwrap().id, entry.id);
            let size = entry.size.map(Result::unwrap);
            assert!(size.is_none_or(|size| size.allocated_bytes.is_some() == (size.from == SizeFrom::Glimpse)));
            found.push((entry.name, size.map(|s| s.size_bytes)));
        }
        assert!(found.iter().eq(expected.iter().map(|(name, size)| (name.clone(), *size)).collect::<Vec<_>>().iter()), "{mode:?}");
    }
    stand.store.stop().unwrap();
}

#[test]
fn a_tree_gives_parents_first_and_a_directory_again_when_it_is_left() {
    let stand = stand(1);
    for path in ["/a/b/c", "/a/d", "/e"] {
        stand.make_directory(path.as_bytes());
    }
    for path in ["/a/b/c/f1", "/a/f2", "/a/b/f3", "/f4"] {
        stand.make(path.as_bytes(), 1);
    }
    let options = TreeOptions { leaving: true, ..TreeOptions::default() };
    let mut tree = stand.walker(WalkMode::default(), Detail::Sizes).tree(&Place::at("/"), options);
    let mut seen = Vec::new();
    while let Some(entry) = tree.next(&mut off()) {
        let entry = entry.unwrap();
        assert_eq!(entry.entry.size.is_some(), entry.entry.kind == FileKind::File);
        let mark = if matches!(entry.visit, Visit::Left) { "<" } else { "" };
        seen.push(format!("{}{mark}{}", String::from_utf8(entry.path).unwrap(), entry.depth));
    }
    let expected =
        ["a1", "e1", "f41", "a/b2", "a/d2", "a/f22", "a/b/c3", "a/b/f33", "a/b/c/f14", "a/b/c<3", "a/b<2", "a/d<2", "a<1", "e<1"];
    assert_eq!(seen, expected);
    stand.store.stop().unwrap();
}
