//! The read-only credential.

use super::connection;
use crate::common::{Mounted, Up, can_mount, content, file, run, scratch, text};
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::PathBuf;
use thalweg_trace::Tracer;
use thalweg_wire::Kind;
use thalweg_wire::protocol::common::Witnessed;
use thalweg_wire::protocol::io::{Allocate, DatafileId, Durability, FileId, IoReply, IoRequest, TargetId};
use thalweg_wire::protocol::metadata::{MetadataReply, MetadataRequest, Operation};

#[test]
fn who_may_only_read_lists_and_copies_out_and_changes_nothing() {
    let (store, here) = (Up::start(2), scratch());
    let bytes = content(1, 1_000_000);
    let source = file(here.path(), "source", &bytes);
    run(["cp", "--quiet", text(&source), &store.path("/f")]).done();
    run(["mkdir", &store.path("/d")]).done();
    let (read_only, out) = (store.read_only(), here.path().join("out"));
    let say = |words: &[&str]| run([words, &["--credential", text(&read_only)]].concat());
    assert_eq!(say(&["ls", &store.path("/")]).done().out, "d\nf\n");
    assert!(say(&["ls", "-l", &store.path("/f")]).done().out.contains("1000000"));
    say(&["cat", &store.path("/f")]).done();
    say(&["find", &store.path("/")]).done();
    say(&["df", &store.path("/")]).done();
    say(&["layout", "show", &store.path("/f")]).done();
    say(&["cp", "--quiet", &store.path("/f"), text(&out)]).done();
    assert!(fs::read(&out).unwrap() == bytes);
    for words in [
        &["cp", "--quiet", text(&source), &store.path("/new")][..],
        &["cp", "--quiet", "--force", text(&source), &store.path("/f")],
        &["cp", "-r", "--quiet", text(here.path()), &store.path("/tree")],
        &["cp", "--quiet", &store.path("/f"), &store.path("/second")],
        &["rm", &store.path("/f")],
        &["rm", "-r", &store.path("/d")],
        &["mkdir", &store.path("/e")],
        &["mv", &store.path("/f"), &store.path("/g")],
    ] {
        let said = say(words).failed(1, &["for reading only", "--credential"]);
        assert_eq!(said.err.lines().count(), 1, "{words:?}: {}", said.err);
    }
    assert_eq!(run(["ls", &store.path("/")]).done().out, "d\nf\n");
    run(["cp", "--quiet", "--force", &store.path("/f"), text(&out)]).done();
    assert!(fs::read(&out).unwrap() == bytes);
}

/// Returns the only datafile of a store, by its name on the target.
fn only_datafile(store: &Up) -> DatafileId {
    let all = super::files(&store.directory.path().join("io0/datafiles"));
    let name = all[0].file_name().and_then(|name| name.to_str()).expect("a number");
    let (file, index) = name.split_once('.').expect("FILE.INDEX");
    let number = u64::from_str_radix(file, 16).expect("hexadecimal digits");
    DatafileId { file: FileId(number), index: index.parse().unwrap(), target: TargetId(0), lot: None }
}

#[test]
fn an_io_server_refuses_every_change_of_who_may_only_read() {
    let (store, here) = (Up::start(1), scratch());
    let bytes = content(1, 10_000);
    run(["cp", "--quiet", text(&file(here.path(), "source", &bytes)), &store.path("/f")]).done();
    let datafile = only_datafile(&store);
    let (offset, off) = (0, &mut Tracer::off());
    let mut changes = vec![
        (IoRequest::Write { datafile, offset, durability: Durability::Returned }, &b"x"[..]),
        (IoRequest::Truncate { datafiles: vec![(datafile, 1)] }, &[]),
        (IoRequest::Remove { datafiles: vec![datafile] }, &[]),
    ];
    for how in [Allocate::Extend, Allocate::KeepSize, Allocate::PunchHole, Allocate::ZeroRange, Allocate::ZeroRangeKeepSize] {
        changes.push((IoRequest::Allocate { datafiles: vec![(datafile, 0, 9)], how }, &[]));
    }
    let mut reader = connection(&store.description(), 1, &store.read_only()).unwrap();
    for (request, payload) in &changes {
        let error = reader.call_with::<_, IoReply>(off, Kind::Io, request, payload).expect_err("a change");
        assert_eq!(error.kind(), thalweg_wire::ErrorKind::Access, "{request:?}: {error}");
    }
    let many = IoRequest::WriteMany { writes: vec![(datafile, 0, 1)], durability: Durability::Returned };
    assert_eq!(reader.call_with::<_, IoReply>(off, Kind::Io, &many, b"x").unwrap_err().kind(), thalweg_wire::ErrorKind::Access);
    let read = IoRequest::Read { datafile, offset, length: 20_000 };
    assert!(reader.call_with::<_, IoReply>(off, Kind::Io, &read, &[]).unwrap().1 == bytes);
    // The store's own credential may make these changes.
    let mut writer = connection(&store.description(), 1, &store.credential()).unwrap();
    for (request, payload) in &changes {
        writer.call_with::<_, IoReply>(off, Kind::Io, request, payload).unwrap();
    }
}

#[test]
fn only_servers_are_believed_to_have_witnessed_changes() {
    let (store, here) = (Up::start(1), scratch());
    let writer = super::derived(&store.credential(), "ana", None, here.path().join("ana"));
    let ask = |credential: PathBuf| -> thalweg_wire::Result<MetadataReply> {
        let mut connection = connection(&store.description(), 0, &credential).unwrap();
        let seen = Witnessed { start: connection.hello().service_start, change: 0 };
        let request = MetadataRequest::of(Operation::Witness { server: "io0".into(), seen, revision: 0 });
        connection.call(&mut Tracer::off(), Kind::Metadata, &request)
    };
    for credential in [writer, store.read_only()] {
        let error = ask(credential).expect_err("it is no server");
        assert!(error.kind() == thalweg_wire::ErrorKind::Access && error.message().contains("only servers"), "{error}");
    }
    ask(store.credential()).unwrap();
}

#[test]
fn a_mount_of_who_may_only_read_reads_and_refuses_every_change() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(2), scratch());
    let bytes = content(2, 300_000);
    run(["cp", "--quiet", text(&file(here.path(), "source", &bytes)), &store.path("/f")]).done();
    run(["mkdir", &store.path("/d")]).done();
    let at = here.path().join("m");
    fs::create_dir(&at).unwrap();
    run(["mount", "--credential", text(&store.read_only()), &store.address, text(&at)]).done();
    let _mounted = Mounted(at.clone());
    assert!(fs::read(at.join("f")).unwrap() == bytes);
    assert_eq!(fs::read_dir(&at).unwrap().count(), 2);
    let refused = |what: &str, result: Result<(), Error>| {
        let error = result.expect_err(what);
        assert!(matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem), "{what}: {error}");
    };
    refused("a new file", fs::write(at.join("new"), "x"));
    refused("another content", fs::write(at.join("f"), "x"));
    refused("opened for writing", fs::File::options().write(true).open(at.join("f")).map(drop));
    refused("more of it", fs::File::options().append(true).open(at.join("f")).map(drop));
    refused("a directory", fs::create_dir(at.join("e")));
    refused("another name", fs::rename(at.join("f"), at.join("g")));
    refused("a second name", fs::hard_link(at.join("f"), at.join("g")));
    refused("a link", std::os::unix::fs::symlink("f", at.join("l")));
    refused("no file", fs::remove_file(at.join("f")));
    refused("no directory", fs::remove_dir(at.join("d")));
    refused("another mode", fs::set_permissions(at.join("f"), std::os::unix::fs::PermissionsExt::from_mode(0o600)));
    assert!(fs::read(at.join("f")).unwrap() == bytes);
    run(["umount", text(&at)]).done();
    assert_eq!(run(["ls", &store.path("/")]).done().out, "d\nf\n");
}

#[test]
fn locks_on_a_mount_of_who_may_only_read_keep_no_writer_waiting_and_programs_that_lock_what_they_read_run() {
    use rustix::fs::{FlockOperation, flock};
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(1), scratch());
    let at = ["reads", "writes"].map(|name| here.path().join(name));
    at.iter().for_each(|at| fs::create_dir(at).unwrap());
    run(["mount", "--credential", text(&store.read_only()), &store.address, text(&at[0])]).done();
    let _reads = Mounted(at[0].clone());
    run(["mount", &store.address, text(&at[1])]).done();
    let _writes = Mounted(at[1].clone());
    fs::write(at[1].join("f"), "one\n").unwrap();
    let open = |at: &PathBuf| fs::File::open(at.join("f")).unwrap();
    let (reader, other, writer) = (open(&at[0]), open(&at[0]), open(&at[1]));
    flock(&reader, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(flock(&other, FlockOperation::NonBlockingLockShared).is_err(), "programs of one mount exclude each other");
    flock(&writer, FlockOperation::NonBlockingLockExclusive).expect("no reader is in its way");
    let mut appended = fs::File::options().append(true).open(at[1].join("f")).unwrap();
    std::io::Write::write_all(&mut appended, b"two\n").unwrap();
    flock(&reader, FlockOperation::Unlock).unwrap();
    assert!(flock(&other, FlockOperation::NonBlockingLockShared).is_err(), "a writer is in a reader's way");
    flock(&writer, FlockOperation::Unlock).unwrap();
    flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
    drop((reader, other, writer, appended));
}
