//! Walks of directories and trees in a store on loopback.

mod fixture;
mod recorded;
mod trouble;

use self::fixture::{fixture, off};
use std::collections::BTreeMap;
use thalweg_client::walk::{Detail, SizeFrom, TreeOptions, Visit, WalkMode};
use thalweg_wire::protocol::metadata::{FileKind, FilePath};

#[test]
fn every_entry_comes_once_in_order_with_its_size_in_every_mode() {
    let fixture = fixture(3);
    let mut expected = BTreeMap::new();
    for i in 0..100_usize {
        let (name, size) = (format!("file-{i:03}"), i * 7001 % 300_000);
        fixture.make(format!("/{name}").as_bytes(), size);
        expected.insert(name.into_bytes(), Some(size as u64));
    }
    fixture.make_directory(b"/directory");
    expected.insert(b"directory".to_vec(), None);
    for mode in WalkMode::ALL {
        let mut walk = fixture.walker(mode, Detail::Sizes).directory(&FilePath::at("/"));
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
    fixture.store.stop().unwrap();
}

#[test]
fn a_tree_gives_parents_first_and_a_directory_again_when_it_is_left() {
    let fixture = fixture(1);
    for path in ["/a/b/c", "/a/d", "/e"] {
        fixture.make_directory(path.as_bytes());
    }
    for path in ["/a/b/c/f1", "/a/f2", "/a/b/f3", "/f4"] {
        fixture.make(path.as_bytes(), 1);
    }
    let options = TreeOptions { leaving: true, ..TreeOptions::default() };
    let mut tree = fixture.walker(WalkMode::default(), Detail::Sizes).tree(&FilePath::at("/"), options);
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
    fixture.store.stop().unwrap();
}
