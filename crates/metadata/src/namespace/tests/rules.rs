//! POSIX's rules on times, owners and link counts, operation by operation, for the named objects and their directories.

use crate::database::in_memory::InMemory;
use crate::database::{Database, Unwatched};
use crate::lineage::WitnessReports;
use crate::namespace::Namespace;
use std::sync::Arc;
use thalweg_wire::protocol::metadata::{
    Attributes, Detail, Existing, FilePath, LayoutChoice, NewNode, Owner, ServerEntry, SetAttributes, SetExtended, SetTime, Small,
    SmallReply, StoreMap, TargetEntry, TargetId,
};

const OWNER: Owner = Owner { mode: 0o644, uid: 1, gid: 2 };

fn map() -> StoreMap {
    StoreMap {
        store: 5,
        servers: vec![ServerEntry { name: "io0".into(), node: "n".into(), address: "127.0.0.1:1".into() }],
        targets: vec![TargetEntry { target: TargetId(0), server: 0, directory: "/t".into() }],
    }
}

fn namespace() -> Namespace {
    Namespace::open(Arc::new(InMemory::default()), map(), OWNER, &WitnessReports::default()).unwrap()
}

fn file(n: &Namespace, path: &str) -> Attributes {
    n.for_store().create(&mut Unwatched, &FilePath::at(path), OWNER, Existing::Refuse, &LayoutChoice::default(), "n").unwrap().0
}

fn directory(n: &Namespace, path: &str) -> Attributes {
    n.for_store().make_directory(&mut Unwatched, &FilePath::at(path), OWNER, false).unwrap()
}

fn stat(n: &Namespace, path: &str) -> Attributes {
    n.stat(&FilePath::at(path)).unwrap()
}

/// Returns which times `work` changed for each object: content (`m`), attributes (`c`), access (`a`), as `"d:mc f:c"`.
fn touched(n: &Namespace, things: &[(&str, &FilePath)], work: impl FnOnce()) -> String {
    let look = || things.iter().map(|(_, place)| n.stat(place).unwrap()).collect::<Vec<_>>();
    let before = look();
    // Wait for the clock to advance, so that a new time differs.
    let start = std::time::SystemTime::now();
    while std::time::SystemTime::now() == start {}
    work();
    let mut text = Vec::new();
    for ((name, _), (before, after)) in things.iter().zip(before.iter().zip(look())) {
        let mut letters = String::new();
        let mut look = |letter: char, before: i64, after: i64| {
            assert!(after >= before, "no time goes back");
            if after > before {
                letters.push(letter);
            }
        };
        look('a', before.accessed_ns, after.accessed_ns);
        look('m', before.modified_ns, after.modified_ns);
        look('c', before.changed_ns, after.changed_ns);
        assert_eq!(after.change > before.change, letters.contains('c'), "the change counter goes with the time of change");
        if !letters.is_empty() {
            text.push(format!("{name}:{letters}"));
        }
    }
    text.join(" ")
}

#[test]
fn each_operation_gives_the_times_that_posix_says() {
    let n = namespace();
    let w = &mut Unwatched;
    let at = |path: &str| FilePath::at(path);
    let (d, e, f) = (at("/d"), at("/e"), at("/d/f"));
    directory(&n, "/d");
    directory(&n, "/e");
    let by_number = FilePath::of(file(&n, "/d/f").id);
    let all: &[(&str, &FilePath)] = &[("d", &d), ("e", &e), ("f", &by_number)];
    assert_eq!(touched(&n, all, || drop(file(&n, "/d/g"))), "d:mc");
    assert_eq!(touched(&n, all, || drop(directory(&n, "/e/sub"))), "e:mc");
    assert_eq!(touched(&n, all, || drop(n.for_store().make_node(w, &at("/e/pipe"), &NewNode::Fifo, OWNER).unwrap())), "e:mc");
    assert_eq!(touched(&n, all, || drop(n.for_store().link(w, &f, &at("/e/f2")).unwrap())), "e:mc f:c");
    assert_eq!(touched(&n, all, || assert!(n.for_store().unlink(w, &at("/e/f2"), None).is_ok())), "e:mc f:c");
    assert_eq!(touched(&n, all, || n.for_store().remove_directory(w, &at("/e/sub")).unwrap()), "e:mc");
    let set = SetAttributes::default();
    // Renaming changes the file's change time too, as in most systems.
    let (g, moved) = (at("/d/g"), at("/e/g"));
    let before = n.stat(&g).unwrap();
    assert_eq!(touched(&n, all, || drop(n.for_store().rename(w, &g, None, &moved, false, &set).unwrap())), "d:mc e:mc");
    let after = n.stat(&moved).unwrap();
    assert!(after.changed_ns > before.changed_ns && after.modified_ns == before.modified_ns);
    // A file that loses a name by being replaced.
    n.for_store().link(w, &f, &at("/e/f2")).unwrap();
    assert_eq!(touched(&n, all, || drop(n.for_store().rename(w, &moved, None, &at("/e/f2"), true, &set).unwrap())), "e:mc f:c");
    n.for_store().link(w, &f, &at("/e/f3")).unwrap();
    assert_eq!(
        touched(&n, all, || drop(n.for_store().rename(w, &f, None, &at("/e/f3"), true, &set).unwrap())),
        "",
        "two names of one file"
    );
    assert_eq!(touched(&n, all, || n.for_store().exchange(w, &f, &at("/e/f2")).unwrap()), "d:mc e:mc f:c");
    let (taken, f) = (f, by_number.clone());
    assert_eq!(touched(&n, all, || drop(n.for_store().truncate(w, &f, 5).unwrap())), "f:mc");
    assert_eq!(touched(&n, all, || drop(n.for_store().written(w, n.stat(&f).unwrap().id, 9).unwrap())), "f:mc");
    assert_eq!(touched(&n, all, || n.for_store().set_extended(w, &f, b"user.x", b"1", SetExtended::Either).unwrap()), "f:c");
    assert_eq!(touched(&n, all, || n.for_store().remove_extended(w, &f, b"user.x").unwrap()), "f:c");
    let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    assert_eq!(touched(&n, all, || drop(n.for_store().set_attributes(w, &f, &mode).unwrap())), "f:c");
    let times = SetAttributes { accessed: Some(SetTime::Now), ..SetAttributes::default() };
    assert_eq!(touched(&n, all, || drop(n.for_store().set_attributes(w, &f, &times).unwrap())), "f:ac");
    // A failed operation changes nothing.
    assert_eq!(touched(&n, all, || drop(n.for_store().make_directory(w, &taken, OWNER, false).unwrap_err())), "");
    assert_eq!(touched(&n, all, || drop(n.for_store().remove_directory(w, &d).unwrap_err())), "");
    assert_eq!(touched(&n, all, || drop(n.for_store().link(w, &f, &at("/e/f2")).unwrap_err())), "");
}

#[test]
fn a_file_that_is_removed_while_open_gets_a_time_of_change_and_no_links() {
    let n = namespace();
    let made = file(&n, "/f");
    n.for_store().unlink(&mut Unwatched, &FilePath::at("/f"), None).unwrap();
    let orphan = n.stat(&FilePath::of(made.id)).unwrap();
    assert_eq!((orphan.links, orphan.modified_ns), (0, made.modified_ns));
    assert!(orphan.changed_ns > made.changed_ns || orphan.change > made.change);
}

#[test]
fn a_directory_with_the_set_group_bit_gives_its_group_and_to_directories_the_bit() {
    let n = namespace();
    let w = &mut Unwatched;
    n.for_store().make_directory(w, &FilePath::at("/d"), Owner { mode: 0o2775, uid: 1, gid: 50 }, false).unwrap();
    let made = file(&n, "/d/f");
    assert_eq!((made.uid, made.gid, made.mode), (1, 50, 0o644));
    let made = directory(&n, "/d/sub");
    assert_eq!((made.gid, made.mode), (50, 0o2644));
    let made = n.for_store().make_node(w, &FilePath::at("/d/sub/link"), &NewNode::Symlink(b"x".to_vec()), OWNER).unwrap();
    assert_eq!((made.gid, made.mode), (50, 0o777));
    assert_eq!(file(&n, "/plain").gid, 2);
}

#[test]
fn a_directory_counts_its_subdirectories_wherever_they_come_from() {
    let n = namespace();
    let w = &mut Unwatched;
    ["/a", "/b", "/a/x", "/b/y"].iter().for_each(|path| drop(directory(&n, path)));
    file(&n, "/a/f");
    let links = || [stat(&n, "/").links, stat(&n, "/a").links, stat(&n, "/b").links];
    assert_eq!(links(), [4, 3, 3]);
    let set = SetAttributes::default();
    n.for_store().rename(w, &FilePath::at("/a/x"), None, &FilePath::at("/b/y"), true, &set).unwrap();
    assert_eq!(links(), [4, 2, 3]);
    n.for_store().exchange(w, &FilePath::at("/a/f"), &FilePath::at("/b/y")).unwrap();
    assert_eq!(links(), [4, 3, 2]);
    n.for_store().exchange(w, &FilePath::at("/a"), &FilePath::at("/b")).unwrap();
    assert_eq!(links(), [4, 2, 3], "the same directories under each other's names");
    n.for_store().rename(w, &FilePath::at("/b"), None, &FilePath::at("/a/b"), false, &set).unwrap();
    assert_eq!((stat(&n, "/").links, stat(&n, "/a").links), (3, 3));
}

#[test]
fn changes_never_wait_for_more_than_a_slice_of_a_page() {
    let database = Arc::new(InMemory::default());
    let n = Namespace::open(Arc::clone(&database) as Arc<dyn Database>, map(), OWNER, &WitnessReports::default()).unwrap();
    for i in 0..3000 {
        n.for_store()
            .create(&mut Unwatched, &FilePath::at(format!("/f{i:05}")), OWNER, Existing::Refuse, &LayoutChoice::default(), "n")
            .unwrap();
    }
    for most in [1, 127, 128, 129, 1000, 2000, 2999, 3000, 4096] {
        let (page, more) = n.list(&FilePath::at("/"), None, most, Detail::Attributes).unwrap();
        assert_eq!((page.len(), more), ((most as usize).min(3000), most < 3000));
        assert!(page.is_sorted_by(|a, b| a.name < b.name));
    }
    let most = database.most_rows();
    assert!(most <= 130, "{most} rows were read while changes waited");
}

#[test]
fn names_that_leave_directories_in_one_request_change_each_of_them_as_if_alone() {
    let n = namespace();
    let (one, other) = (directory(&n, "/one"), directory(&n, "/other"));
    for path in ["/one/a", "/one/b", "/one/c", "/one/d", "/other/a", "/left"] {
        file(&n, path);
    }
    directory(&n, "/one/e");
    let leave = |from: &Attributes, name: &str| Small::Unlink { place: FilePath { from: from.id, path: name.into() }, only: None };
    let mut outcomes = Vec::new();
    let places = [("1", &FilePath::at("/one")), ("2", &FilePath::at("/other")), ("/", &FilePath::at("/")), ("e", &FilePath::at("/one/e"))];
    let changed = touched(&n, &places, || {
        let operations = [
            leave(&one, "a"),
            leave(&one, "absent"),
            leave(&one, "b"),
            leave(&other, "a"),
            Small::RemoveDirectory { place: FilePath::of(other.id) },
            leave(&one, "c"),
            // A directory cannot be removed this way, and the request continues.
            leave(&one, "e"),
            leave(&one, ".."),
            Small::Stat { place: FilePath::of(one.id), sizes: false },
            leave(&one, "d"),
        ];
        outcomes = n.for_store().many(&mut Unwatched, &operations).unwrap().each;
    });
    assert_eq!(changed, "1:mc 2:mc");
    let done: String = outcomes.iter().map(|outcome| if outcome.is_ok() { '+' } else { '-' }).collect();
    assert_eq!(done, "+-++-+--++");
    let Ok(SmallReply::Attributes(seen)) = &outcomes[8] else { panic!("{:?}", outcomes[8]) };
    assert!(seen.changed_ns > one.changed_ns && seen.change < stat(&n, "/one").change, "what had left by then was seen, and no more");
    assert_eq!(n.stat(&FilePath::at("/one/d")).unwrap_err().kind(), thalweg_wire::ErrorKind::NotFound);
}
