//! Names over the wire: a whole store in this process, or its metadata service in a separate process.

use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_client::metadata::{MetadataClient, OpenFile};
use thalweg_layout::Spec;
use thalweg_store::config::{StoreAddress, StoreConfig};
use thalweg_store::start::{RunningStore, StartOptions, UpOptions, serve, up};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{DatafileId, Durability, IoReply, IoRequest};
use thalweg_wire::protocol::metadata::{
    Detail, Existing, FileKind, FilePath, LayoutChoice, Owner, Placement, SetAttributes, SetTime, TargetId,
};
use thalweg_wire::{Connect, Connection, Kind};
use thalweg_wire::{Error, ErrorKind};

const OWNER: Owner = Owner { mode: 0o644, uid: 7, gid: 8 };

fn off() -> Tracer {
    Tracer::off()
}

fn connect(store: &RunningStore) -> MetadataClient {
    connect_to(&store.address())
}

fn connect_to(address: &StoreAddress) -> MetadataClient {
    let options = Connect { node: "n0".into(), timeout: Duration::from_secs(20), ..Connect::default() };
    MetadataClient::connect(&mut off(), &address.service().unwrap(), &options).unwrap()
}

fn options(directory: &Path, servers: usize, targets: usize) -> UpOptions {
    UpOptions { servers: Some(servers), targets: Some(targets), node: Some("n0".into()), ..UpOptions::new([directory]) }
}

fn create(names: &MetadataClient, path: &str) -> Result<OpenFile, Error> {
    names.create(&mut off(), &FilePath::at(path), OWNER, Existing::Refuse, &LayoutChoice::default())
}

fn listed(names: &MetadataClient, path: &str) -> Vec<String> {
    let entries = names.entries(&mut off(), &FilePath::at(path), false).unwrap();
    entries.into_iter().map(|e| String::from_utf8(e.name.into_bytes()).unwrap()).collect()
}

/// Waits until `condition`; panics after a timeout for the slowest machine.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < patience, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes `bytes` at the start of each datafile of a file, directly at its I/O servers.
fn fill(names: &MetadataClient, file: &OpenFile, bytes: &[u8]) {
    for (index, target) in (0..).zip(&file.targets) {
        let map = names.map();
        let (_, server) = map.target(*target).unwrap();
        let mut connection = Connection::connect(&server.address, &Connect::default()).unwrap();
        let datafile = DatafileId { file: file.id(), index, target: *target, lot: None };
        let request = IoRequest::Write { datafile, offset: 0, durability: Durability::Returned };
        let reply: (IoReply, _) = connection.call_with(&mut off(), Kind::Io, &request, bytes).unwrap();
        assert!(matches!(reply.0, IoReply::Written { .. }));
    }
}

fn datafile_sizes(names: &MetadataClient, file: &OpenFile) -> Vec<u64> {
    let map = names.map();
    (0..)
        .zip(&file.targets)
        .map(|(index, target)| {
            let (_, server) = map.target(*target).unwrap();
            let mut connection = Connection::connect(&server.address, &Connect::default()).unwrap();
            let datafiles = vec![DatafileId { file: file.id(), index, target: *target, lot: None }];
            let reply: IoReply = connection.call(&mut off(), Kind::Io, &IoRequest::Glimpse { datafiles }).unwrap();
            let IoReply::Sizes(sizes) = reply else { panic!("{reply:?}") };
            sizes[0].size_bytes
        })
        .collect()
}

/// Counts all datafiles under a store's directory.
fn datafiles_on_disk(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(t) if t.is_dir() => datafiles_on_disk(&entry.path()),
            _ => usize::from(entry.path().components().any(|c| c.as_os_str() == "datafiles")),
        })
        .sum()
}

#[test]
fn names_are_made_found_listed_moved_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), 2, 2)).unwrap();
    let names = connect(&store);
    let t = &mut off();
    names.make_directory(t, &FilePath::at("/a/b/c"), Owner { mode: 0o755, ..OWNER }, true).unwrap();
    assert_eq!(names.make_directory(t, &FilePath::at("/a"), OWNER, false).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(names.make_directory(t, &FilePath::at("/x/y"), OWNER, false).unwrap_err().kind(), ErrorKind::NotFound);
    let file = create(&names, "/a/b/f.partial").unwrap();
    assert_eq!(file.targets.len(), 4, "one datafile on each target");
    assert_eq!((file.attributes.mode, file.attributes.uid, file.attributes.gid), (0o644, 7, 8));
    assert_eq!(create(&names, "/a/b/f.partial").unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(create(&names, "/a/b").unwrap_err().kind(), ErrorKind::IsDirectory);
    let error = create(&names, "/a/b/f.partial/g").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDirectory);
    assert_eq!(error.file(), Some("/a/b/f.partial/g"));
    let set = SetAttributes { mode: Some(0o600), modified: Some(SetTime::At(123)), ..SetAttributes::default() };
    let moved = names.rename(t, &FilePath::at("/a/b/f.partial"), &FilePath::at("/a/f"), false, &set).unwrap();
    assert_eq!((moved.id, moved.mode, moved.modified_ns), (file.id(), 0o600, 123));
    assert_eq!(listed(&names, "/a"), ["b", "f"]);
    assert_eq!(names.stat(t, &FilePath::of(file.id())).unwrap().id, file.id());
    let found = names.stat_many(t, &[FilePath::at("/a/f"), FilePath::at("/a/nothing"), FilePath::at("/")], false).unwrap();
    assert_eq!(found[0].as_ref().unwrap().kind, FileKind::File);
    assert_eq!(found[1].as_ref().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(found[2].as_ref().unwrap().links, 3);
    assert_eq!(names.remove_directory(t, &FilePath::at("/a/b")).unwrap_err().kind(), ErrorKind::NotEmpty);
    names.remove_directory(t, &FilePath::at("/a/b/c")).unwrap();
    names.unlink(t, &FilePath::at("/a/f")).unwrap();
    assert_eq!(names.open(t, &FilePath::at("/a/f"), false).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(listed(&names, "/a"), ["b"]);
    names.sync(t).unwrap();
}

#[test]
fn a_directory_larger_than_a_page_is_listed_whole_while_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), 1, 1)).unwrap();
    let names = connect(&store);
    for i in 0..300 {
        create(&names, &format!("/stays-{i:04}")).unwrap();
        create(&names, &format!("/goes-{i:04}")).unwrap();
    }
    let mut seen = Vec::new();
    let mut after: Option<Vec<u8>> = None;
    let mut removed = 0;
    loop {
        let (page, more) = names.list(&mut off(), &FilePath::at("/"), after.as_deref(), 7, Detail::Attributes).unwrap();
        after = page.last().map(|e| e.name.to_vec());
        assert!(page.iter().all(|e| e.attributes.as_ref().is_some_and(|a| a.id == e.id)));
        seen.extend(page.into_iter().map(|e| String::from_utf8(e.name.into_bytes()).unwrap()));
        if removed < 300 {
            names.unlink(&mut off(), &FilePath::at(format!("/goes-{removed:04}"))).unwrap();
            create(&names, &format!("/came-{removed:04}")).unwrap();
            removed += 1;
        }
        if !more {
            break;
        }
    }
    let staying: Vec<_> = seen.iter().filter(|n| n.starts_with("stays")).collect();
    assert_eq!(staying.len(), 300, "each name that stays is seen once");
    assert!(seen.is_sorted());
}

#[test]
fn a_layout_that_cannot_be_creates_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), 2, 1)).unwrap();
    let names = connect(&store);
    let refused = |choice: LayoutChoice| {
        let error = names.create(&mut off(), &FilePath::at("/f"), OWNER, Existing::Replace, &choice).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    let spec = |spec: Spec| LayoutChoice { spec: Some(spec), ..LayoutChoice::default() };
    assert!(refused(LayoutChoice { datafiles: Some(3), ..LayoutChoice::default() }).contains("only 2 targets"));
    assert!(refused(spec(Spec::new("nonsense"))).contains("unknown distribution `nonsense`"));
    assert!(refused(spec(Spec::new("simple_stripe").with("strip_size", "-1"))).contains("strip_size"));
    assert!(refused(spec(Spec::new("varstrip_dist").with("strips", "0:512KB"))).contains("strips"));
    assert!(refused(spec(Spec::new("varstrip_dist").with("strips", "0:1K;2:1K"))).contains("varstrip_dist"));
    let local = LayoutChoice { placement: Some(Placement::Local), ..LayoutChoice::default() };
    let mut elsewhere = Connect { node: "mars".into(), ..Connect::default() };
    elsewhere.timeout = Duration::from_secs(20);
    let from_mars = MetadataClient::connect(&mut off(), &store.address().service().unwrap(), &elsewhere).unwrap();
    let error = from_mars.create(&mut off(), &FilePath::at("/f"), OWNER, Existing::Refuse, &local).unwrap_err();
    assert!(error.to_string().contains("no server is on the node `mars`: choose one of n0"), "{error}");
    assert!(listed(&names, "/").is_empty());
    let fixed = LayoutChoice { placement: Some(Placement::RoundRobin { first: Some(TargetId(1)) }), ..LayoutChoice::default() };
    let file = names.create(&mut off(), &FilePath::at("/f"), OWNER, Existing::Refuse, &fixed).unwrap();
    assert_eq!(file.targets, [TargetId(1), TargetId(0)]);
}

#[test]
fn two_clients_see_each_other_and_one_of_two_exclusive_creations_wins() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), 1, 1)).unwrap();
    let (one, two) = (connect(&store), connect(&store));
    let won = |names: &MetadataClient| (0..200).filter(|i| create(names, &format!("/f{i}")).is_ok()).count();
    let (a, b) = std::thread::scope(|scope| {
        let other = scope.spawn(|| won(&two));
        (won(&one), other.join().unwrap())
    });
    assert_eq!(a + b, 200);
    assert_eq!(listed(&one, "/"), listed(&two, "/"));
}

#[test]
fn a_replaced_name_is_there_at_every_moment() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), 1, 1)).unwrap();
    let (writer, reader) = (connect(&store), connect(&store));
    drop(create(&writer, "/f").unwrap());
    std::thread::scope(|scope| {
        let renaming = scope.spawn(|| {
            for i in 0..150 {
                let draft = format!("/f.partial.{i}");
                drop(create(&writer, &draft).unwrap());
                writer.rename(&mut off(), &FilePath::at(&draft), &FilePath::at("/f"), true, &SetAttributes::default()).unwrap();
            }
        });
        while !renaming.is_finished() {
            reader.stat(&mut off(), &FilePath::at("/f")).unwrap();
        }
        renaming.join().unwrap();
    });
    assert_eq!(listed(&reader, "/"), ["f"]);
}

#[test]
fn removed_datafiles_go_when_nobody_has_the_file_open() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), 2, 1)).unwrap();
    let (writer, reader) = (connect(&store), connect(&store));
    let file = create(&writer, "/f").unwrap();
    fill(&writer, &file, b"0123456789");
    let open = reader.open(&mut off(), &FilePath::at("/f"), false).unwrap();
    drop(file);
    writer.unlink(&mut off(), &FilePath::at("/f")).unwrap();
    // A second, closed file shows when the first could have been removed.
    let other = create(&writer, "/g").unwrap();
    fill(&writer, &other, b"x");
    drop(other);
    writer.unlink(&mut off(), &FilePath::at("/g")).unwrap();
    eventually("the removal of /g", || datafiles_on_disk(directory.path()) == 2);
    assert_eq!(datafile_sizes(&reader, &open), [10, 10]);
    assert_eq!(reader.status(&mut off()).unwrap().pending_intents, 1);
    drop(open);
    reader.stat(&mut off(), &FilePath::at("/")).unwrap();
    eventually("the removal of /f", || datafiles_on_disk(directory.path()) == 0);
    eventually("the end of the intent", || reader.status(&mut off()).unwrap().pending_intents == 0);
}

#[test]
fn a_name_goes_at_once_and_its_datafiles_when_their_server_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = up(&options(directory.path(), 2, 1)).unwrap();
    let names = connect(&store);
    let file = create(&names, "/f").unwrap();
    fill(&names, &file, b"0123456789");
    let kept = create(&names, "/kept").unwrap();
    fill(&names, &kept, b"0123456789");
    drop(file);
    assert!(store.stop_server("io1"));
    names.unlink(&mut off(), &FilePath::at("/f")).unwrap();
    assert_eq!(listed(&names, "/"), ["kept"]);
    let error = names.truncate(&mut off(), &FilePath::at("/kept"), 3).unwrap_err();
    assert_eq!((error.kind(), error.server()), (ErrorKind::Io, Some("io1")), "{error}");
    let error = names.open(&mut off(), &FilePath::at("/kept"), false).unwrap_err();
    assert_eq!(error.server(), Some("io1"), "nobody sees a half truncated file: {error}");
    let promised = names.stat(&mut off(), &FilePath::at("/kept")).unwrap().change;
    // The metadata service is restarted too: its intents are in its log.
    let address = store.address();
    let config = StoreConfig::read(&store.config().path).unwrap();
    drop(store);
    let _io0 = serve(&config, "io0", StartOptions::default()).unwrap();
    let _metadata = serve(&config, "metadata", StartOptions::default()).unwrap();
    let names = connect_to(&address);
    assert_eq!(names.status(&mut off()).unwrap().pending_intents, 2);
    let _io1 = serve(&config, "io1", StartOptions::default()).unwrap();
    eventually("the promises", || names.status(&mut off()).unwrap().pending_intents == 0);
    let kept = names.open(&mut off(), &FilePath::at("/kept"), false).unwrap();
    assert_eq!(datafile_sizes(&names, &kept).iter().sum::<u64>(), 3);
    assert!(kept.attributes.change > promised, "what was read while it was cut off is not of the file as it is now");
    assert_eq!(datafiles_on_disk(directory.path()), 2, "those of /kept");
}

#[test]
fn a_size_that_no_file_system_has_is_refused_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), 2, 1)).unwrap();
    let names = connect(&store);
    let file = create(&names, "/f").unwrap();
    fill(&names, &file, b"0123456789");
    match names.truncate(&mut off(), &FilePath::at("/f"), i64::MAX as u64) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}"),
        Ok(()) => return println!("SKIPPED: this file system has files of 2^62 bytes"),
    }
    assert_eq!(datafile_sizes(&names, &file), [10, 10]);
    assert_eq!(names.status(&mut off()).unwrap().pending_intents, 0, "nothing is left to be repeated");
    names.truncate(&mut off(), &FilePath::at("/f"), 12).unwrap();
    assert_eq!(datafile_sizes(&names, &file).iter().sum::<u64>(), 12);
}

#[test]
fn a_directorys_layout_is_that_of_new_files_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), 2, 1)).unwrap();
    let names = connect(&store);
    names.make_directory(&mut off(), &FilePath::at("/d"), OWNER, false).unwrap();
    let choice =
        LayoutChoice { spec: Some(Spec::new("simple_stripe").with("strip_size", 4096)), datafiles: Some(1), placement: None, lot: None };
    let set = SetAttributes { default_layout: Some(Some(choice)), ..SetAttributes::default() };
    names.set_attributes(&mut off(), &FilePath::at("/d"), &set).unwrap();
    names.make_directory(&mut off(), &FilePath::at("/d/below"), OWNER, false).unwrap();
    let file = create(&names, "/d/below/f").unwrap();
    assert_eq!((file.targets.len(), file.layout.spec().get("strip_size").map(str::to_owned)), (1, Some("4096".into())));
}

#[test]
fn a_store_is_opened_again_and_a_foreign_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let first = up(&options(directory.path(), 2, 1)).unwrap();
    let (address, store) = (first.address(), first.config().store);
    drop(create(&connect(&first), "/f").unwrap());
    let error = up(&options(directory.path(), 2, 1)).err().unwrap();
    assert!(error.to_string().contains("another process") || error.to_string().contains("in use"), "{error}");
    drop(first);
    let again = up(&options(directory.path(), 2, 1)).unwrap();
    assert_eq!((again.config().store, again.address()), (store, address));
    assert_eq!(listed(&connect(&again), "/"), ["f"]);
    drop(again);
    let error = up(&options(directory.path(), 3, 1)).err().unwrap();
    assert!(error.to_string().contains("is a store of 2 servers"), "{error}");
    std::fs::remove_file(directory.path().join("store.toml")).unwrap();
    let error = up(&options(directory.path(), 2, 1)).err().unwrap();
    assert!(error.to_string().contains("belongs to a store already"), "{error}");
}

#[test]
fn a_port_in_use_is_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = Some(taken.local_addr().unwrap().port());
    let error = up(&UpOptions { port, ..options(directory.path(), 1, 1) }).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    assert!(error.to_string().contains("choose another port"), "{error}");
}

#[test]
fn of_two_copies_to_one_name_the_one_that_lost_its_partial_finishes_nothing() {
    use thalweg_client::Names;
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), 2, 1)).unwrap();
    let (first, second) = (connect(&store), connect(&store));
    let begin = |names: &MetadataClient| {
        Names::create(names, &mut off(), "/f.partial", 0o644, Existing::Replace, &LayoutChoice::default()).unwrap().id
    };
    let (of_first, of_second) = (begin(&first), begin(&second));
    let late = Names::rename(&first, &mut off(), of_first, "/f.partial", "/f", true, None).unwrap_err();
    assert_eq!((late.kind(), late.file()), (ErrorKind::Busy, Some("/f.partial")));
    assert_eq!(Names::unlink(&first, &mut off(), of_first, "/f.partial").unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(listed(&second, "/"), ["f.partial"]);
    Names::rename(&second, &mut off(), of_second, "/f.partial", "/f", true, None).unwrap();
    assert_eq!(listed(&second, "/"), ["f"]);
}
