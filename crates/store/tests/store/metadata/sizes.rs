//! Sizes that the service proves, in a whole store: the plain cases are proved, and unknowable ones are not answered.

use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_client::copy::{CopyJob, Quiet, Sink, Source, run};
use thalweg_client::metadata::{MetadataClient, OpenFile, SmallDone};
use thalweg_client::{DataClient, FileHandle, Store, StoreFile};
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::metadata::{Attributes, Detail, End, Existing, FilePath, LayoutChoice, Owner, SetAttributes, Small};

const OWNER: Owner = Owner { mode: 0o644, uid: 1, gid: 2 };

fn off() -> Tracer {
    Tracer::off()
}

fn start(directory: &std::path::Path) -> RunningStore {
    let directories = vec![directory.to_owned()];
    up(&UpOptions { servers: Some(2), ..UpOptions::new(directories) }).unwrap()
}

fn connect(store: &RunningStore) -> Store {
    let names = MetadataClient::connect(&mut off(), &store.config().metadata.address, &Connect::default()).unwrap();
    let data = Arc::new(DataClient::new((*names.map()).clone(), &Connect::default()));
    Store { names: Arc::new(names), data }
}

fn names_of(store: &RunningStore) -> MetadataClient {
    MetadataClient::connect(&mut off(), &store.config().metadata.address, &Connect::default()).unwrap()
}

/// Returns the service's answer on a file's size by each kind of request, which must agree unless a slow server leaves one unknown.
fn size_of(names: &MetadataClient, path: &str) -> Option<u64> {
    let place = FilePath::at(path);
    let one = |found: Attributes| found.size_bytes;
    let by_stat = one(names.stat_many(&mut off(), std::slice::from_ref(&place), true).unwrap().remove(0).unwrap());
    let (page, _) = names.list(&mut off(), &FilePath::at("/"), None, 1000, Detail::Sizes).unwrap();
    let name = path.trim_start_matches('/').as_bytes();
    let by_list = one(page.into_iter().find(|e| *e.name == *name).unwrap().attributes.unwrap());
    let many = names.many(&mut off(), &[Small::Stat { place, sizes: true }], Vec::new()).remove(0).unwrap();
    let SmallDone::Attributes(by_many) = many else { panic!("{many:?}") };
    let by_many = one(by_many);
    let known: Vec<u64> = [by_stat, by_list, by_many].into_iter().flatten().collect();
    assert!(known.iter().all(|size| *size == known[0]), "{path}: {known:?}");
    // Without a request for sizes there are none.
    assert_eq!(names.stat(&mut off(), &FilePath::at(path)).unwrap().size_bytes, None);
    known.first().copied()
}

/// Returns the size once the servers have been queried in the background.
fn size_soon(names: &MetadataClient, path: &str) -> Option<u64> {
    let begun = Instant::now();
    loop {
        match size_of(names, path) {
            None if begun.elapsed() < Duration::from_secs(10) => std::thread::yield_now(),
            size => return size,
        }
    }
}

fn write(store: &Store, file: &OpenFile, path: &str, end: u64) {
    let handle = FileHandle::from_attributes(path, &file.attributes).unwrap();
    StoreFile::new(Arc::clone(&store.data), handle).write_at(b"x", end - 1).unwrap();
}

#[test]
fn the_plain_cases_are_proved() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let (store, names, other) = (connect(&running), names_of(&running), names_of(&running));
    let t = &mut off();
    // Created, written, closed.
    let file = names.create(t, &FilePath::at("/f"), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap();
    assert_eq!(size_of(&other, "/f"), None, "somebody may be writing it");
    write(&store, &file, "/f", 300_000);
    assert_eq!(size_of(&other, "/f"), None);
    file.ended(End::whole(300_000, false));
    names.report_closed(t).unwrap();
    assert_eq!(size_soon(&other, "/f"), Some(300_000));
    // Opened for reading, and by two clients.
    let reading = names.open(t, &FilePath::at("/f"), false).unwrap();
    assert_eq!(size_soon(&other, "/f"), Some(300_000));
    let writing = other.open(t, &FilePath::at("/f"), true).unwrap();
    assert_eq!(size_of(&other, "/f"), None);
    drop(reading);
    names.report_closed(t).unwrap();
    assert_eq!(size_of(&other, "/f"), None);
    writing.ended(End::Read);
    assert_eq!(size_soon(&other, "/f"), Some(300_000), "the end is reported with the question");
    // Truncated to shorter and longer lengths.
    for size in [0, 7, 1 << 33, 20_000] {
        names.truncate(t, &FilePath::at("/f"), size).unwrap();
        assert_eq!(size_soon(&other, "/f"), Some(size));
    }
    // Truncated while open for writing: the servers are queried afterwards.
    let writing = names.open(t, &FilePath::at("/f"), true).unwrap();
    write(&store, &writing, "/f", 500_000);
    names.truncate(t, &FilePath::at("/f"), 100).unwrap();
    write(&store, &writing, "/f", 4_000);
    writing.ended(End::Written { end_bytes: 500_000, whole_from_bytes: 500_000, is_synced: false });
    names.report_closed(t).unwrap();
    assert_eq!(size_soon(&other, "/f"), Some(4_000));
    // Created and never opened.
    names.make_file(t, &FilePath::at("/empty"), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap();
    assert_eq!(size_soon(&other, "/empty"), Some(0));
    running.stop().unwrap();
}

#[test]
fn copies_are_known_when_they_have_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let (store, other) = (connect(&running), names_of(&running));
    for (n, size) in [0, 1, 4096, 3_000_000, 20_000_001_u64].into_iter().enumerate() {
        let path = format!("/c{n}");
        let sink = Sink::Store(store.clone(), path.clone(), LayoutChoice::default());
        run(&CopyJob::new(Source::Memory(size), sink), &Quiet).unwrap();
        assert_eq!(size_soon(&other, &path), Some(size));
    }
    // Through the library's file.
    store.create("/l", 0o644, Existing::Refuse, &LayoutChoice::default()).unwrap().write_at(&[1; 100_000], 5).unwrap();
    drop(store);
    assert_eq!(size_soon(&other, "/l"), Some(100_005), "a client that ends reports what it has closed");
}

#[test]
fn many_files_are_made_written_and_named_in_two_requests() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let (store, names, other) = (connect(&running), names_of(&running), names_of(&running));
    let t = &mut off();
    let places: Vec<String> = (0..1000).map(|n| format!("/f{n}")).collect();
    let create = |path: &String| {
        Small::Create(names.new_file(FilePath::at(format!("{path}.partial")), OWNER, Existing::Refuse, &LayoutChoice::default()))
    };
    let made: Vec<Small> = places.iter().map(create).collect();
    let mut files = Vec::new();
    for (n, done) in names.many(t, &made, Vec::new()).into_iter().enumerate() {
        let SmallDone::Opened(file) = done.unwrap() else { panic!("a file that is open") };
        if n % 100 == 0 {
            write(&store, &file, "/f", n as u64 + 1);
        }
        files.push((file, End::whole(if n % 100 == 0 { n as u64 + 1 } else { 0 }, false)));
    }
    let rename = |path: &String| Small::Rename {
        from: FilePath::at(format!("{path}.partial")),
        only: None,
        to: FilePath::at(path),
        replace: false,
        set: SetAttributes::default(),
    };
    let renames: Vec<Small> = places.iter().map(rename).collect();
    assert!(names.many(t, &renames, files).into_iter().all(|done| done.is_ok()));
    for n in [0, 1, 100, 900, 999] {
        assert_eq!(size_soon(&other, &format!("/f{n}")), Some(if n % 100 == 0 { n + 1 } else { 0 }));
    }
    // A failed operation has no effect, and does not stop the others.
    let mixed = [
        Small::MakeDirectory { place: FilePath::at("/d"), owner: OWNER, parents: false },
        Small::MakeDirectory { place: FilePath::at("/e/f0/g"), owner: OWNER, parents: true },
        Small::MakeDirectory { place: FilePath::at("/new/d"), owner: OWNER, parents: true },
        Small::MakeDirectory { place: FilePath::at("/fresh/f"), owner: OWNER, parents: false },
        Small::Unlink { place: FilePath::at("/f0"), only: None },
        Small::Unlink { place: FilePath::at("/f0"), only: None },
        Small::RemoveDirectory { place: FilePath::at("/d") },
        Small::Stat { place: FilePath::at("/d"), sizes: true },
        Small::Rename {
            from: FilePath::at("/f1"),
            only: None,
            to: FilePath::at("/f2"),
            replace: true,
            // Only a directory has a default layout: the replaced name is restored.
            set: SetAttributes { default_layout: Some(None), ..SetAttributes::default() },
        },
        Small::Stat { place: FilePath::at("/f2"), sizes: true },
    ];
    let before = names.stat(t, &FilePath::at("/f2")).unwrap().id;
    let done: Vec<bool> = names.many(t, &mixed, Vec::new()).iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, true, true, false, true, false, true, false, false, true]);
    assert_eq!(names.stat(t, &FilePath::at("/f2")).unwrap().id, before);
}

#[test]
fn a_writer_that_goes_without_a_word_is_not_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let (names, other) = (names_of(&running), names_of(&running));
    let t = &mut off();
    for (path, say) in [("/dropped", None), ("/unknown", Some(End::Unknown))] {
        let file = names.create(t, &FilePath::at(path), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap();
        match say {
            Some(end) => file.ended(end),
            None => drop(file),
        }
        names.report_closed(t).unwrap();
        assert_eq!(size_of(&other, path), None);
        // Nor after a truncation, which messages in flight may follow.
        other.truncate(t, &FilePath::at(path), 0).unwrap();
        assert_eq!(size_of(&other, path), None);
    }
    let gone = names_of(&running);
    std::mem::forget(gone.create(t, &FilePath::at("/gone"), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap());
    drop(gone);
    assert_eq!(size_of(&other, "/gone"), None);
    // Another file of the name is a different file.
    other.create(t, &FilePath::at("/gone"), OWNER, Existing::Replace, &LayoutChoice::default()).unwrap().ended(End::Read);
    assert_eq!(size_soon(&other, "/gone"), Some(0));
}

#[test]
fn sizes_are_known_again_after_a_restart_and_a_silent_server_costs_moments() {
    let directory = tempfile::tempdir().unwrap();
    let mut running = start(directory.path());
    let store = connect(&running);
    let sink = Sink::Store(store.clone(), "/f".into(), LayoutChoice::default());
    run(&CopyJob::new(Source::Memory(1 << 20), sink), &Quiet).unwrap();
    drop(store);
    let names = names_of(&running);
    assert_eq!(size_soon(&names, "/f"), Some(1 << 20));
    assert!(running.stop_server("io1"));
    assert_eq!(size_of(&names, "/f"), None, "the size depends on a server that is not there");
    drop(names);
    running.stop().unwrap();
    let running = start(directory.path());
    assert_eq!(size_soon(&names_of(&running), "/f"), Some(1 << 20));
}

/// Connects as the command and the mount do, checking servers' reports against the metadata service's.
fn connect_holding(running: &RunningStore) -> (Store, MetadataClient) {
    let names = names_of(running);
    let data = DataClient::of_store((*names.map()).clone(), &Connect::default(), Arc::new(names.clone()));
    (Store { names: Arc::new(names.clone()), data: Arc::new(data) }, names)
}

fn datafile_on_disk(running: &RunningStore, file: &OpenFile, index: u32) -> std::path::PathBuf {
    let target = file.targets[index as usize];
    let (_, directory) = running.config().servers.iter().flat_map(|server| &server.targets).find(|(number, _)| *number == target).unwrap();
    directory.join("datafiles").join(format!("{:02x}", file.id().0 & 0xff)).join(format!("{}.{index}", file.id()))
}

#[test]
fn a_datafile_that_is_there_before_its_file_is_never_read_as_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let (store, names) = connect_holding(&running);
    let t = &mut off();
    let one = LayoutChoice { datafiles: Some(1), ..LayoutChoice::default() };
    let file = names.create(t, &FilePath::at("/six"), OWNER, Existing::Refuse, &one).unwrap();
    let path = datafile_on_disk(&running, &file, 0);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, vec![7; 9_500]).unwrap();
    let handle = FileHandle::from_attributes("/six", &file.attributes).unwrap();
    let written = StoreFile::new(Arc::clone(&store.data), handle);
    written.write_at(b"6bytes", 0).unwrap();
    file.ended(written.take_end());
    names.report_closed(t).unwrap();
    let mut bytes = vec![0; 10_000];
    let error = store.open("/six").unwrap().read_at(&mut bytes, 0).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Lost, Some("/six")), "{error}");
    assert!(error.message().contains("bytes of another file"), "{error}");
    running.stop().unwrap();
}

#[test]
fn a_file_that_others_truncate_and_extend_while_it_is_read_is_never_taken_for_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let (store, names) = connect_holding(&running);
    let (other, their_names) = connect_holding(&running);
    let t = &mut off();
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
    let write_all = |from: usize| {
        let file = other.open_to_write("/f").unwrap();
        file.write_at(&bytes[from..], from as u64).unwrap();
    };
    names.create(t, &FilePath::at("/f"), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap().ended(End::Read);
    write_all(0);
    their_names.report_closed(t).unwrap();
    let reading = store.open("/f").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..60 {
                let size = [10, 400_000, 0, 70_000][round % 4];
                their_names.truncate(&mut off(), &FilePath::at("/f"), size).unwrap();
                write_all([size as usize, 500_000][round % 2]);
                their_names.report_closed(&mut off()).unwrap();
            }
            stop.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut buffer = vec![0; 1_000_000];
        while !stop.load(std::sync::atomic::Ordering::Acquire) {
            // Each byte is what was written there, or a temporary hole.
            let have = reading.read_at(&mut buffer, 0).unwrap();
            assert!(buffer[..have].iter().zip(&bytes).all(|(is, was)| is == was || *is == 0));
        }
    });
    let mut buffer = vec![0; 1_000_000];
    assert_eq!(reading.read_at(&mut buffer, 0).unwrap(), 1_000_000);
    running.stop().unwrap();
}
