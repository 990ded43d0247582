//! Links, special files, extended attributes, orphans and late layouts, over the wire.

use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_client::Names;
use thalweg_client::metadata::{MetadataClient, OpenFile};
use thalweg_layout::Spec;
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{DatafileId, Durability, IoReply, IoRequest};
use thalweg_wire::protocol::metadata::{
    Attributes, Existing, FileKind, FilePath, LayoutChoice, Owner, Placement, SetAttributes, SetExtended, TargetId,
};
use thalweg_wire::{Connect, Connection, Kind};
use thalweg_wire::{Error, ErrorKind, limits};

const OWNER: Owner = Owner { mode: 0o644, uid: 7, gid: 8 };

fn off() -> Tracer {
    Tracer::off()
}

fn options(directory: &Path) -> UpOptions {
    UpOptions { servers: Some(2), targets: Some(1), node: Some("n0".into()), ..UpOptions::new([directory]) }
}

fn connect(store: &RunningStore) -> MetadataClient {
    let options = Connect { node: "n0".into(), timeout: Duration::from_secs(20), ..Connect::default() };
    MetadataClient::connect(&mut off(), &store.address().service().unwrap(), &options).unwrap()
}

fn create(names: &MetadataClient, path: &str) -> OpenFile {
    names.create(&mut off(), &FilePath::at(path), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap()
}

fn make(names: &MetadataClient, path: &str) -> Attributes {
    names.make_file(&mut off(), &FilePath::at(path), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < patience, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a request to the server of each datafile.
fn ask(names: &MetadataClient, file: &OpenFile, request: impl Fn(DatafileId) -> IoRequest, payload: &[u8]) -> Vec<IoReply> {
    let map = names.map();
    let one = |(index, target): (u32, &TargetId)| {
        let (_, server) = map.target(*target).unwrap();
        let mut connection = Connection::connect(&server.address, &Connect::default()).unwrap();
        let request = request(DatafileId { file: file.id(), index, target: *target, lot: None });
        connection.call_with(&mut off(), Kind::Io, &request, payload).unwrap().0
    };
    (0..).zip(&file.targets).map(one).collect()
}

fn fill(names: &MetadataClient, file: &OpenFile, bytes: &[u8]) {
    ask(names, file, |datafile| IoRequest::Write { datafile, offset: 0, durability: Durability::Returned }, bytes);
}

fn datafile_sizes(names: &MetadataClient, file: &OpenFile) -> Vec<u64> {
    let replies = ask(names, file, |datafile| IoRequest::Glimpse { datafiles: vec![datafile] }, &[]);
    let size = |reply: IoReply| match reply {
        IoReply::Sizes(sizes) => sizes[0].size_bytes,
        other => panic!("{other:?}"),
    };
    replies.into_iter().map(size).collect()
}

#[test]
fn links_and_special_files_are_names_of_their_kinds() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let names = connect(&store);
    let t = &mut off();
    let target = b"some/where else\xff".repeat(100);
    let link = names.make_symlink(t, &FilePath::at("/link"), &target, OWNER).unwrap();
    assert_eq!((link.kind, link.target_bytes, link.links), (FileKind::Symlink, 1600, 1));
    assert_eq!(names.read_symlink(t, &FilePath::at("/link")).unwrap(), target);
    assert_eq!(kind(names.read_symlink(t, &FilePath::at("/"))), ErrorKind::Invalid);
    assert_eq!(kind(names.make_symlink(t, &FilePath::at("/link"), b"x", OWNER)), ErrorKind::Exists);
    assert_eq!(kind(names.make_symlink(t, &FilePath::at("/long"), &[b'x'; 4096], OWNER)), ErrorKind::NameTooLong);
    assert_eq!(kind(names.make_symlink(t, &FilePath::at("/none"), b"", OWNER)), ErrorKind::Invalid);
    assert_eq!(kind(names.stat(t, &FilePath::at("/link/below"))), ErrorKind::NotDirectory, "the service never follows");
    let device = names.make_special(t, &FilePath::at("/null"), FileKind::CharacterDevice, 0x0103, OWNER).unwrap();
    assert_eq!((device.kind, device.device), (FileKind::CharacterDevice, 0x0103));
    for (path, kind) in [("/pipe", FileKind::Fifo), ("/socket", FileKind::Socket), ("/disk", FileKind::BlockDevice)] {
        assert_eq!(names.make_special(t, &FilePath::at(path), kind, 5, OWNER).unwrap().kind, kind);
    }
    assert_eq!(kind(names.make_special(t, &FilePath::at("/d"), FileKind::Directory, 0, OWNER)), ErrorKind::Invalid);
    assert_eq!(kind(names.open(t, &FilePath::at("/pipe"), false)), ErrorKind::Unsupported);
    assert_eq!(kind(names.truncate(t, &FilePath::at("/pipe"), 0)), ErrorKind::Invalid);
    let listed = names.entries(t, &FilePath::at("/"), true).unwrap();
    let kinds: Vec<FileKind> = listed.iter().map(|e| e.kind).collect();
    use FileKind::{BlockDevice, CharacterDevice, Fifo, Socket, Symlink};
    assert_eq!(kinds, [BlockDevice, Symlink, CharacterDevice, Fifo, Socket]);
    assert!(listed.iter().all(|e| e.attributes.as_ref().unwrap().kind == e.kind));
    let moved = names.link(t, &FilePath::at("/pipe"), &FilePath::at("/same pipe")).unwrap();
    assert_eq!(moved.links, 2);
    listed.iter().for_each(|e| names.unlink(&mut off(), &FilePath::at(&e.name)).unwrap());
    assert_eq!(names.stat(t, &FilePath::at("/same pipe")).unwrap().links, 1);
    assert_eq!(names.status(t).unwrap().pending_intents, 0, "there is nothing of them at the I/O servers");
}

#[test]
fn a_file_with_two_names_loses_its_bytes_with_the_second() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let names = connect(&store);
    let t = &mut off();
    let file = create(&names, "/one");
    fill(&names, &file, b"0123456789");
    assert_eq!(names.link(t, &FilePath::at("/one"), &FilePath::at("/two")).unwrap().links, 2);
    assert_eq!(names.link(t, &FilePath::of(file.id()), &FilePath::at("/three")).unwrap().links, 3);
    assert_eq!(kind(names.link(t, &FilePath::at("/"), &FilePath::at("/root"))), ErrorKind::NotPermitted);
    assert_eq!(names.rename(t, &FilePath::at("/one"), &FilePath::at("/two"), true, &SetAttributes::default()).unwrap().links, 3);
    assert_eq!(names.entries(t, &FilePath::at("/"), false).unwrap().len(), 3, "two names of one file both stay");
    names.unlink(t, &FilePath::at("/one")).unwrap();
    names.unlink(t, &FilePath::at("/three")).unwrap();
    assert_eq!(names.stat(t, &FilePath::at("/two")).unwrap().links, 1);
    assert_eq!(datafile_sizes(&names, &file), [10, 10]);
    names.unlink(t, &FilePath::at("/two")).unwrap();
    assert_eq!(kind(names.link(t, &FilePath::of(file.id()), &FilePath::at("/back"))), ErrorKind::NotFound, "what is gone stays gone");
    drop(file);
    eventually("the removal", || names.status(&mut off()).unwrap().pending_intents == 0);
}

#[test]
fn a_removed_file_lives_by_its_number_until_it_is_closed_everywhere() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (one, two) = (connect(&store), connect(&store));
    let t = &mut off();
    let file = create(&one, "/f");
    one.set_extended(t, &FilePath::at("/f"), b"user.a", b"value", SetExtended::Either).unwrap();
    fill(&one, &file, b"0123456789");
    one.unlink(t, &FilePath::at("/f")).unwrap();
    let place = FilePath::of(file.id());
    assert_eq!(one.stat(t, &place).unwrap().links, 0);
    assert_eq!(two.get_extended(t, &place, b"user.a").unwrap().as_deref(), Some(&b"value"[..]));
    let second = two.open_by_id(t, file.id(), false).unwrap();
    drop(file);
    one.stat(t, &FilePath::at("/")).unwrap();
    // The other client still has it open, and can use it.
    two.truncate(t, &place, 3).unwrap();
    assert_eq!(datafile_sizes(&two, &second).iter().sum::<u64>(), 3);
    two.truncate(t, &place, 5).unwrap();
    let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    assert_eq!(two.set_attributes(t, &place, &set).unwrap().mode, 0o600);
    assert_eq!(two.written(t, second.id(), 5).unwrap().links, 0);
    let id = second.id();
    drop(second);
    two.report_closed(t).unwrap();
    eventually("the removal", || matches!(two.stat(&mut off(), &place), Err(e) if e.kind() == ErrorKind::Stale));
    assert_eq!(kind(two.open_by_id(t, id, false)), ErrorKind::Stale);
    assert_eq!(kind(two.get_extended(t, &place, b"user.a")), ErrorKind::Stale);
    eventually("the end of the intent", || two.status(&mut off()).unwrap().pending_intents == 0);
}

#[test]
fn orphans_outlive_a_restart_only_at_those_who_come_back_for_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (stays, goes) = (connect(&store), connect(&store));
    let (kept, left) = (create(&stays, "/kept"), create(&goes, "/left"));
    fill(&stays, &kept, b"kept");
    fill(&goes, &left, b"left");
    stays.unlink(&mut off(), &FilePath::at("/kept")).unwrap();
    stays.unlink(&mut off(), &FilePath::at("/left")).unwrap();
    store.stop().unwrap();
    // Its end is never reported.
    let left_id = left.id();
    drop((left, goes));
    let _again = up(&options(directory.path())).unwrap();
    assert_eq!(stays.stat(&mut off(), &FilePath::of(kept.id())).unwrap().links, 0);
    assert_eq!(stays.status(&mut off()).unwrap().open_files, 1, "said again with the new connection");
    eventually("the removal of what nobody came back for", || stays.stat(&mut off(), &FilePath::of(left_id)).is_err());
    assert_eq!(stays.stat(&mut off(), &FilePath::of(kept.id())).unwrap().links, 0);
    assert_eq!(datafile_sizes(&stays, &kept), [4, 4]);
    let id = kept.id();
    drop(kept);
    eventually("the removal of what was closed", || stays.stat(&mut off(), &FilePath::of(id)).is_err());
}

#[test]
fn extended_attributes_are_bounded_and_say_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let names = connect(&store);
    let t = &mut off();
    make(&names, "/f");
    let place = FilePath::at("/f");
    let set = |name: &[u8], value: &[u8], how| names.set_extended(&mut off(), &place, name, value, how);
    assert_eq!(kind(set(b"user.a", b"1", SetExtended::Replace)), ErrorKind::NoAttribute);
    set(b"user.a", b"1", SetExtended::Create).unwrap();
    assert_eq!(kind(set(b"user.a", b"2", SetExtended::Create)), ErrorKind::Exists);
    set(b"user.a", b"", SetExtended::Replace).unwrap();
    set(&[b'x'; 255], &[7; limits::EXTENDED_VALUE_BYTES], SetExtended::Either).unwrap();
    assert_eq!(kind(set(&[b'x'; 256], b"", SetExtended::Either)), ErrorKind::NameTooLong);
    assert_eq!(kind(set(b"", b"", SetExtended::Either)), ErrorKind::Invalid);
    assert_eq!(kind(set(b"b", &[7; limits::EXTENDED_VALUE_BYTES + 1], SetExtended::Either)), ErrorKind::TooLong);
    assert_eq!(kind(set(b"b", &[7; limits::EXTENDED_VALUE_BYTES], SetExtended::Either)), ErrorKind::NoSpace);
    assert_eq!(names.list_extended(t, &place).unwrap(), [b"user.a".to_vec(), vec![b'x'; 255]]);
    assert_eq!(names.get_extended(t, &place, b"user.a").unwrap(), Some(Vec::new()));
    assert_eq!(names.get_extended(t, &place, b"user.b").unwrap(), None);
    names.remove_extended(t, &place, &[b'x'; 255]).unwrap();
    assert_eq!(kind(names.remove_extended(t, &place, &[b'x'; 255])), ErrorKind::NoAttribute);
    assert_eq!(names.list_extended(t, &FilePath::at("/")).unwrap(), Vec::<Vec<u8>>::new());
    // They belong to the file, not to the name.
    names.link(t, &place, &FilePath::at("/g")).unwrap();
    names.unlink(t, &place).unwrap();
    assert_eq!(names.list_extended(t, &FilePath::at("/g")).unwrap(), [b"user.a".to_vec()]);
}

#[test]
fn a_file_gets_another_layout_as_long_as_it_has_no_bytes_and_nobody_has_it_open() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let names = connect(&store);
    let t = &mut off();
    let place = FilePath::at("/f");
    assert_eq!(make(&names, "/f").layout.unwrap().targets.len(), 2);
    let choice = |spec: Spec, targets: Vec<TargetId>| LayoutChoice {
        spec: Some(spec),
        datafiles: None,
        placement: Some(Placement::Targets(targets)),
        lot: None,
    };
    let strips = || Spec::new("varstrip_dist").with("strips", "0:2K;1:1K");
    let changed = names.relayout(t, &place, &choice(strips(), vec![TargetId(1), TargetId(0)])).unwrap();
    let layout = changed.layout.unwrap();
    assert_eq!((layout.spec.name.as_str(), layout.targets.clone()), ("varstrip_dist", vec![TargetId(1), TargetId(0)]));
    assert_eq!(kind(names.relayout(t, &place, &choice(Spec::new("nonsense"), vec![TargetId(0)]))), ErrorKind::Invalid);
    assert_eq!(kind(names.relayout(t, &FilePath::at("/"), &LayoutChoice::default())), ErrorKind::IsDirectory);
    let file = names.open(t, &place, false).unwrap();
    assert_eq!(file.targets, [TargetId(1), TargetId(0)]);
    let error = names.relayout(t, &place, &LayoutChoice::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("open"), "{error}");
    fill(&names, &file, b"x");
    drop(file);
    let error = names.relayout(t, &place, &LayoutChoice::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("bytes"), "{error}");
    // Emptied, it may change again; its empty datafiles do not stay on the old targets.
    names.truncate(t, &place, 0).unwrap();
    names.relayout(t, &place, &choice(Spec::new("basic_dist"), vec![TargetId(1)])).unwrap();
    let file = names.open(t, &place, false).unwrap();
    assert_eq!((file.targets.as_slice(), datafile_sizes(&names, &file).as_slice()), (&[TargetId(1)][..], &[0][..]));
}

#[test]
fn two_names_exchange_what_they_stand_for() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let names = connect(&store);
    let t = &mut off();
    names.make_directory(t, &FilePath::at("/a/b"), OWNER, true).unwrap();
    let file = make(&names, "/f");
    names.exchange(t, &FilePath::at("/a/b"), &FilePath::at("/f")).unwrap();
    assert_eq!(names.stat(t, &FilePath::at("/a/b")).unwrap().id, file.id);
    assert_eq!(names.stat(t, &FilePath::at("/f")).unwrap().kind, FileKind::Directory);
    assert_eq!(names.stat(t, &FilePath::at("/")).unwrap().links, 4);
    assert_eq!(names.stat(t, &FilePath::at("/a")).unwrap().links, 2);
    assert_eq!(kind(names.exchange(t, &FilePath::at("/a"), &FilePath::at("/a/b"))), ErrorKind::Invalid);
    assert_eq!(kind(names.exchange(t, &FilePath::at("/a"), &FilePath::at("/none"))), ErrorKind::NotFound);
}

#[test]
fn paths_through_links_are_followed_for_a_path() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let names = connect(&store);
    let t = &mut off();
    names.make_directory(t, &FilePath::at("/a/b"), OWNER, true).unwrap();
    let file = make(&names, "/a/b/f");
    let link = |path: &str, target: &str| names.make_symlink(&mut off(), &FilePath::at(path), target.as_bytes(), OWNER).unwrap();
    link("/to-b", "a/./b");
    link("/a/b/up", "../../to-b/f");
    link("/loop", "a/../loop");
    link("/out", "/etc/passwd");
    link("/a/above", "../../x");
    link("/nowhere", "a/nothing");
    let (place, found) = names.follow(t, b"/to-b/up").unwrap();
    assert_eq!((place, found.id), (FilePath::at("a/b/f"), file.id));
    assert_eq!(Names::stat(&names, t, "/to-b/up").unwrap().id, file.id);
    assert_eq!(Names::open(&names, t, "/to-b/f", false).unwrap().id, file.id);
    assert_eq!(names.follow(t, b"/to-b").unwrap().1.kind, FileKind::Directory);
    assert_eq!(kind(names.follow(t, b"/loop")), ErrorKind::LinkLoop);
    assert_eq!(kind(names.follow(t, b"/out")), ErrorKind::Unsupported);
    assert_eq!(kind(names.follow(t, b"/a/above")), ErrorKind::Unsupported);
    assert_eq!(kind(names.follow(t, b"/nowhere")), ErrorKind::NotFound);
    assert_eq!(kind(names.follow(t, b"/a/b/f/g")), ErrorKind::NotDirectory);
}
