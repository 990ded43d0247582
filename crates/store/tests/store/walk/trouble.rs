//! Walks under failures: silent, missing or restarted servers, changing directories, names of any bytes, many threads.

use super::fixture::{Fixture, Relay, fixture, off};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_client::walk::{Detail, TreeOptions, Visit, WalkMode, WalkOptions, Walker};
use thalweg_trace::Tracer;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::metadata::{FileKind, FilePath, Owner};

/// Starts a server that accepts connections and never answers; returns its address and the number of connections.
fn mute() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            let Ok(mut stream) = stream else { continue };
            std::thread::spawn(move || while stream.read(&mut [0; 4096]).is_ok_and(|many| many > 0) {});
        }
    });
    (address, connections)
}

fn options(mode: WalkMode) -> WalkOptions {
    WalkOptions { mode, timeout: Some(Duration::from_millis(500)), ..WalkOptions::default() }
}

/// Creates files with one datafile each, on any of the servers, and files with one on each.
fn files(fixture: &Fixture) {
    for i in 0..60 {
        fixture.make_striped(format!("/one-{i:02}").as_bytes(), 10, Some(1));
        fixture.make_striped(format!("/all-{i:02}").as_bytes(), 10, None);
    }
}

#[test]
fn a_silent_server_is_asked_once_and_only_its_files_have_no_size() {
    let fixture = fixture(3);
    files(&fixture);
    for mode in [WalkMode::GlimpseAhead, WalkMode::Statahead, WalkMode::Synchronous] {
        let (address, connections) = mute();
        let data = fixture.data_with(1, &address);
        let walker = Walker::new(fixture.names.clone(), data, options(mode));
        let mut walk = walker.directory(&FilePath::at("/"));
        let (mut known, mut unknown) = (0, 0);
        while let Some(entry) = walk.next(&mut off()) {
            let entry = entry.unwrap();
            let targets = &entry.attributes.as_ref().unwrap().layout.as_ref().unwrap().targets;
            let is_there = targets.iter().any(|target| fixture.data.server_of(*target).unwrap() == 1);
            match entry.size.unwrap() {
                Ok(size) => assert!(!is_there && size.size_bytes == 10),
                Err(error) => assert!(is_there && error.kind() == ErrorKind::TimedOut && error.server() == Some("io1"), "{error}"),
            }
            *(if is_there { &mut unknown } else { &mut known }) += 1;
        }
        assert_eq!(known + unknown, 120);
        assert!(unknown >= 60 && known > 0);
        assert_eq!(connections.load(Ordering::SeqCst), 1, "{mode:?}");
    }
    fixture.store.stop().unwrap();
}

#[test]
fn a_server_that_is_gone_costs_no_wait_and_a_whole_tree_asks_it_once() {
    let fixture = fixture(2);
    for i in 0..20 {
        fixture.make_directory(format!("/d{i}").as_bytes());
        fixture.make_striped(format!("/d{i}/f").as_bytes(), 10, None);
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let walker = Walker::new(fixture.names.clone(), fixture.data_with(0, &nobody), options(WalkMode::GlimpseAhead));
    let mut tree = walker.tree(&FilePath::at("/"), TreeOptions::default());
    let mut unknown = 0;
    while let Some(entry) = tree.next(&mut off()) {
        if let Some(size) = entry.unwrap().entry.size {
            assert_eq!(size.unwrap_err().kind(), ErrorKind::Refused);
            unknown += 1;
        }
    }
    assert_eq!(unknown, 20);
    let (address, connections) = mute();
    let walker = Walker::new(fixture.names.clone(), fixture.data_with(0, &address), options(WalkMode::GlimpseAhead));
    let mut tree = walker.tree(&FilePath::at("/"), TreeOptions::default());
    let sizes = std::iter::from_fn(|| tree.next(&mut off())).filter(|entry| entry.as_ref().unwrap().entry.size.is_some()).count();
    assert_eq!((sizes, connections.load(Ordering::SeqCst)), (20, 1));
    fixture.store.stop().unwrap();
}

#[test]
fn a_server_that_was_started_anew_between_two_walks_is_not_noticed() {
    let fixture = fixture(2);
    files(&fixture);
    let relays: Vec<Relay> = fixture.data.links().iter().map(|link| Relay::to(&link.entry().address)).collect();
    let metadata = Relay::to(fixture.names.address());
    let names = fixture.names_at(&metadata.address);
    let mut data = fixture.data_with(0, &relays[0].address);
    data = fixture.data_of(&data, 1, &relays[1].address);
    let walker = Walker::new(names, data, options(WalkMode::GlimpseAhead));
    for _ in 0..3 {
        let mut walk = walker.directory(&FilePath::at("/"));
        let sizes = std::iter::from_fn(|| walk.next(&mut off())).map(|entry| entry.unwrap().size.unwrap().unwrap().size_bytes);
        assert_eq!(sizes.collect::<Vec<_>>(), vec![10; 120]);
        relays.iter().chain([&metadata]).for_each(Relay::cut);
    }
    fixture.store.stop().unwrap();
}

#[test]
fn names_of_any_bytes_and_of_any_length_come_as_they_are() {
    let fixture = fixture(1);
    fixture.make_directory(b"/d");
    let mut names: BTreeSet<Vec<u8>> = (1..=255_u8).filter(|byte| *byte != b'/').map(|byte| vec![b'n', byte]).collect();
    names.extend((1..=255_u8).filter(|byte| !b"/.".contains(byte)).map(|byte| vec![byte]));
    names.insert(vec![0xff; 255]);
    names.insert(vec![b'\n'; 255]);
    for name in &names {
        fixture.make(&[b"/d/".as_slice(), name].concat(), 0);
    }
    for mode in WalkMode::ALL {
        for most in [1, 3, 4096] {
            let options = WalkOptions { window_most: most, ..options(mode) };
            let walker = Walker::new(fixture.names.clone(), Arc::clone(&fixture.data), options);
            let mut walk = walker.directory(&FilePath::at("/d"));
            let found = std::iter::from_fn(|| walk.next(&mut off())).map(|entry| entry.unwrap().name);
            assert!(found.eq(names.iter().cloned()), "{mode:?} with a window of {most}");
            assert!(walk.next(&mut off()).is_none() && walk.next_batch(&mut off(), 5).unwrap().is_empty());
        }
    }
    let mut rest = fixture.walker(WalkMode::default(), Detail::Names).directory_after(&FilePath::at("/d"), Some(&[0xfe]));
    assert_eq!(rest.next_batch(&mut off(), 10).unwrap().into_iter().map(|e| e.name).collect::<Vec<_>>(), [vec![0xff], vec![0xff; 255]]);
    fixture.store.stop().unwrap();
}

#[test]
fn pages_of_long_links_fit_into_messages() {
    let fixture = fixture(1);
    let target = vec![b'x'; 4000];
    let owner = Owner { uid: 0, gid: 0, mode: 0o777 };
    for number in 0..700 {
        let place = FilePath::at(format!("/link-{number:04}"));
        fixture.names.make_symlink(&mut off(), &place, &target, owner).unwrap();
    }
    let mut walk = fixture.walker(WalkMode::default(), Detail::Sizes).directory(&FilePath::at("/"));
    let mut found = Vec::new();
    while let Some(entry) = walk.next(&mut off()) {
        let entry = entry.unwrap();
        assert_eq!(entry.attributes.unwrap().target.unwrap(), target);
        found.push(entry.name);
    }
    assert!(found.iter().eq((0..700).map(|number| format!("link-{number:04}").into_bytes()).collect::<Vec<_>>().iter()));
    fixture.store.stop().unwrap();
}

/// Sets the flag when dropped, including by a panic.
struct Sets<'a>(&'a AtomicBool);

impl Drop for Sets<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_directory_that_changes_is_listed_with_what_stays_once_and_with_nothing_twice() {
    let fixture = fixture(2);
    fixture.make_directory(b"/d");
    let stay: BTreeSet<Vec<u8>> = (0..300).map(|i| format!("{i:03}-stays").into_bytes()).collect();
    for name in &stay {
        fixture.make(&[b"/d/", name.as_slice()].concat(), 7);
    }
    let over = AtomicBool::new(false);
    let others = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (fixture, over, others) = (&fixture, &over, &others);
            scope.spawn(move || {
                for round in 0.. {
                    let path = format!("/d/{:03}-{thread}", (round * 37) % 300);
                    fixture.make(path.as_bytes(), 5);
                    others.fetch_add(1, Ordering::SeqCst);
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    fixture.names.unlink(&mut off(), &FilePath::at(&path)).unwrap();
                }
            });
        }
        // Set also if a listing is wrong.
        let _over = Sets(&over);
        for mode in WalkMode::ALL.into_iter().cycle().take(16) {
            let options = WalkOptions { window_most: 40, ..options(mode) };
            let mut walk = Walker::new(fixture.names.clone(), Arc::clone(&fixture.data), options).directory(&FilePath::at("/d"));
            let mut found = Vec::new();
            while let Some(entry) = walk.next(&mut off()) {
                let entry = entry.unwrap();
                let size = entry.size.unwrap().unwrap().size_bytes;
                if entry.name.ends_with(b"-stays") {
                    assert_eq!(size, 7);
                } else {
                    assert!(size == 5 || size == 0, "{size}");
                }
                found.push(entry.name);
            }
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "each name once, in order");
            assert!(found.into_iter().filter(|name| name.ends_with(b"-stays")).eq(stay.iter().cloned()));
        }
    });
    assert!(others.load(Ordering::SeqCst) > 2, "nothing has changed meanwhile");
    fixture.store.stop().unwrap();
}

#[test]
fn threads_that_walk_and_ask_for_single_files_share_what_is_in_flight() {
    let fixture = fixture(2);
    files(&fixture);
    let listed: Mutex<BTreeMap<_, _>> = Mutex::default();
    let mut walk = fixture.walker(WalkMode::GlimpseAhead, Detail::Sizes).directory(&FilePath::at("/"));
    while let Some(entry) = walk.next(&mut off()) {
        let entry = entry.unwrap();
        listed.lock().unwrap().insert(entry.id, entry.name);
    }
    let ids: Vec<_> = listed.lock().unwrap().keys().copied().collect();
    let walker = fixture.walker(WalkMode::GlimpseAhead, Detail::Sizes);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (walker, ids) = (&walker, &ids);
            scope.spawn(move || {
                for round in 0..10 {
                    if thread % 2 == 0 {
                        let mut walk = walker.directory(&FilePath::at("/"));
                        // Some walks are abandoned in the middle.
                        let most = if round % 3 == 0 { 50 } else { 1000 };
                        let found = std::iter::from_fn(|| walk.next(&mut off())).take(most).map(|e| e.unwrap().size.unwrap().unwrap());
                        assert_eq!(found.filter(|size| size.size_bytes == 10).count(), most.min(120));
                    } else {
                        for id in ids.iter().skip(round).step_by(7) {
                            let known = walker.stat(&mut off(), *id).unwrap();
                            assert_eq!((known.attributes.id, known.size.unwrap().size_bytes), (*id, 10));
                        }
                        let missing = thalweg_wire::protocol::metadata::FileId(u64::MAX >> 8);
                        assert_eq!(walker.stat(&mut off(), missing).unwrap_err().kind(), ErrorKind::NotFound);
                    }
                }
            });
        }
    });
    let counters = walker.counters();
    assert_eq!(counters.hits + counters.misses, counters.entries, "{counters:?}");
    fixture.store.stop().unwrap();
}

#[test]
fn a_directory_that_is_not_there_or_is_none_ends_the_walk_with_its_error() {
    let fixture = fixture(1);
    fixture.make(b"/file", 1);
    for (path, kind) in [("/none", ErrorKind::NotFound), ("/file", ErrorKind::NotDirectory)] {
        let mut walk = fixture.walker(WalkMode::default(), Detail::Sizes).directory(&FilePath::at(path));
        assert_eq!(walk.next(&mut off()).unwrap().unwrap_err().kind(), kind);
        assert!(walk.next(&mut off()).is_none(), "{path}");
        let mut tree = fixture.walker(WalkMode::default(), Detail::Sizes).tree(&FilePath::at(path), TreeOptions::default());
        assert_eq!(tree.next(&mut off()).unwrap().unwrap_err().kind(), kind);
        assert!(tree.next(&mut off()).is_none());
    }
    fixture.store.stop().unwrap();
}

#[test]
fn a_directory_that_goes_before_its_turn_is_an_entry_that_cannot_be_read_and_the_tree_goes_on() {
    let fixture = fixture(1);
    for i in 0..40 {
        fixture.make_directory(format!("/d{i:02}/e").as_bytes());
    }
    for directories_ahead in [0, 1, 32] {
        let options = TreeOptions { directories_ahead, leaving: true, ..TreeOptions::default() };
        let mut tree = fixture.walker(WalkMode::default(), Detail::Sizes).tree(&FilePath::at("/"), options);
        let (mut unreadable, mut found, mut left) = (Vec::new(), 0, 0);
        let gone = format!("/gone-{directories_ahead}");
        fixture.make_directory(gone.as_bytes());
        while let Some(entry) = tree.next(&mut off()) {
            let entry = entry.unwrap();
            match entry.visit {
                Visit::Found => found += 1,
                Visit::Left => left += 1,
                Visit::Unreadable(error) => unreadable.push((entry.path.clone(), error.kind())),
            }
            if entry.path == gone.as_bytes()[1..] {
                // The last one: found, but removed before it is visited.
                let _ = fixture.names.remove_directory(&mut off(), &FilePath::at(&gone));
            }
            assert_eq!(entry.entry.kind, FileKind::Directory);
        }
        assert_eq!((found, left), (81, 81));
        let is_gone = |(path, kind): &(Vec<u8>, ErrorKind)| path == &gone.as_bytes()[1..] && *kind == ErrorKind::Stale;
        assert!(unreadable.len() <= 1 && unreadable.iter().all(is_gone), "{unreadable:?}");
        assert!(directories_ahead > 0 || !unreadable.is_empty(), "nobody had listed it before it went");
    }
    fixture.store.stop().unwrap();
}

#[test]
fn a_tree_is_the_same_however_much_of_it_is_ahead_and_a_pruned_directory_is_not_entered() {
    let fixture = fixture(2);
    // Directories of many shapes: deep, wide, empty.
    for (a, b) in (0..12).flat_map(|a| (0..a).map(move |b| (a, b))) {
        fixture.make_directory(format!("/{a:02}/{b:02}/{}", "x/".repeat(b % 5)).as_bytes());
        fixture.make(format!("/{a:02}/{b:02}/file").as_bytes(), a * b);
    }
    let all = |mode, directories_ahead, window_most, prune: bool| {
        let options = WalkOptions { window_most, ..options(mode) };
        let walker = Walker::new(fixture.names.clone(), Arc::clone(&fixture.data), options);
        let mut tree = walker.tree(&FilePath::at("/"), TreeOptions { directories_ahead, leaving: true, ..TreeOptions::default() });
        let mut seen = Vec::new();
        while let Some(entry) = tree.next(&mut off()) {
            let entry = entry.unwrap();
            if prune && matches!(entry.visit, Visit::Found) && entry.entry.name == b"03" {
                tree.prune();
            }
            seen.push((entry.path, entry.depth, matches!(entry.visit, Visit::Left), entry.entry.size.map(|s| s.unwrap().size_bytes)));
        }
        (seen, walker.counters())
    };
    let (expected, alone) = all(WalkMode::GlimpseAhead, 0, 4096, false);
    for (ahead, window) in [(1, 4096), (4, 30), (32, 4096), (500, 100), (32, 1)] {
        let (seen, counters) = all(WalkMode::GlimpseAhead, ahead, window, false);
        assert_eq!(seen, expected, "{ahead} ahead with a window of {window}");
        if (ahead, window) == (32, 4096) {
            assert!(counters.round_trips * 3 < alone.round_trips, "{} round trips, {} without", counters.round_trips, alone.round_trips);
            assert_eq!(counters.wasted, 0);
        }
    }
    let (pruned, _) = all(WalkMode::GlimpseAhead, 32, 4096, true);
    let without: Vec<_> = expected
        .into_iter()
        .filter(|(path, ..)| !path.starts_with(b"03/") && !path.windows(4).any(|w| w == b"/03/"))
        .filter(|(path, _, left, _)| !(*left && path.ends_with(b"03")))
        .collect();
    assert_eq!(pruned, without);
    fixture.store.stop().unwrap();
}

#[test]
fn a_walk_that_is_left_leaves_the_walker_fit_for_the_next_one() {
    let fixture = fixture(2);
    files(&fixture);
    let walker = fixture.walker(WalkMode::GlimpseAhead, Detail::Sizes);
    for round in 0..50 {
        let mut walk = walker.directory(&FilePath::at("/"));
        assert_eq!(walk.next_batch(&mut Tracer::off(), round % 7 + 1).unwrap()[0].name, b"all-00");
    }
    let mut walk = walker.directory(&FilePath::at("/"));
    assert_eq!(std::iter::from_fn(|| walk.next(&mut off())).filter(|e| e.as_ref().unwrap().size.is_some()).count(), 120);
    assert!(walker.counters().wasted > 0);
    fixture.store.stop().unwrap();
}
