//! Failures, and what they must not cause: lost bytes, incomplete files that pass as complete, hangs, errors without a cause.

use crate::bounded::{Bounded, BoundedChild, LIMIT, Lines, accepted, joined};
use crate::loopback::{self, crc32c};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_client::Controller;
use thalweg_client::Store;
use thalweg_client::copy::{CopyJob, CopyObserver, DataPath, Quiet, Sink, Source, Tuning, run};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::common::{BootVerifier, Hello, HelloReply, ServiceKind};
use thalweg_wire::protocol::io::{DataMap, DatafileId, Durability, FileId, IoReply, IoRequest};
use thalweg_wire::protocol::metadata::{Existing, LayoutChoice, ServerEntry, StoreMap, TargetEntry, TargetId};
use thalweg_wire::trust::Identity;
use thalweg_wire::{Connection, Exchange, Kind, Service, Session, serve};
use thalweg_wire::{Error, ErrorKind, Result};

const PATIENCE: Duration = Duration::from_secs(30);

/// An I/O server in a separate process: this test program again, selected by its environment.
struct Process {
    child: Child,
    address: String,
}

#[test]
fn as_a_server_process() {
    let Ok(text) = std::env::var("THALWEG_TEST_SERVER") else { return };
    let (number, directory) = text.split_once('@').unwrap();
    let name = format!("io{number}");
    let server = loopback::start(Path::new(directory), &name, "127.0.0.1:0", [number.parse().unwrap()]);
    println!("\nADDRESS {}", server.listens(&name).unwrap());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

impl Process {
    fn start(directory: &Path, number: u32) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "copy::failures::as_a_server_process", "--nocapture", "--test-threads=1"])
            .env("THALWEG_TEST_SERVER", format!("{number}@{}", directory.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = Lines::new(child.stdout.take().unwrap());
        let mut lines = std::iter::from_fn(|| Some(lines.next(LIMIT).expect("a line in time")));
        // The test harness prints an empty line, or its end.
        let address =
            lines.by_ref().take(100).find_map(|line| line.strip_prefix("ADDRESS ").map(str::to_owned)).expect("the server's address");
        Process { child, address }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_in_time(LIMIT);
    }
}

fn map_of(addresses: &[&str]) -> StoreMap {
    let mut map = StoreMap { store: loopback::STORE, servers: Vec::new(), targets: Vec::new() };
    for (server, address) in (0..).zip(addresses) {
        map.servers.push(ServerEntry { name: format!("io{server}"), node: "here".into(), address: (*address).to_owned() });
        map.targets.push(TargetEntry { target: TargetId(server), server, directory: String::new() });
    }
    map
}

fn into(store: &Store, source: Source) -> CopyJob {
    CopyJob::new(source, Sink::Store(store.clone(), "/big".into(), LayoutChoice::default()))
}

fn both_paths() -> [Tuning; 2] {
    [Tuning { data_path: DataPath::Direct, ..Tuning::default() }, Tuning { data_path: DataPath::Buffered, ..Tuning::default() }]
}

/// Runs a copy, and calls `act` once after this many bytes; returns the copy's result and how long after `act` it ended.
fn interfere(job: &CopyJob, at_bytes: u64, act: &(dyn Fn() + Sync)) -> (Result<()>, Duration) {
    let over = AtomicBool::new(false);
    let acted = Mutex::new(Instant::now());
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while job.control.moved_bytes() < at_bytes && !over.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            act();
            *acted.lock().unwrap() = Instant::now();
        });
        let result = run(job, &Quiet).map(|_| ());
        over.store(true, Ordering::SeqCst);
        result
    });
    let since = acted.lock().unwrap().elapsed();
    (result, since)
}

#[test]
fn a_server_killed_during_a_copy_is_named_within_two_seconds_and_nothing_is_taken_for_whole() {
    for tuning in both_paths() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (Process::start(dir.path(), 0), Process::start(dir.path(), 1));
        let (store, names) = loopback::store(&map_of(&[&first.address, &second.address]), PATIENCE);
        let job = CopyJob { tuning, ..into(&store, Source::Memory(64 << 30)) };
        let kill = || second.signal(rustix::process::Signal::KILL);
        let (result, since) = interfere(&job, 20 << 20, &kill);
        let error = result.unwrap_err();
        assert_eq!((error.server(), error.file()), (Some("io1"), Some("/big")), "{error}");
        assert!(since < Duration::from_secs(2), "{since:?}");
        assert!(names.list().is_empty(), "{:?}", names.list());
        // It is back, and everything works again with the same client.
        drop(second);
        let again = Process::start(dir.path(), 1);
        let (store, _) = loopback::store(&map_of(&[&first.address, &again.address]), PATIENCE);
        run(&into(&store, Source::Memory(5 << 20)), &Quiet).unwrap();
    }
}

#[test]
fn a_server_stopped_for_a_while_is_a_stall_and_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (Process::start(dir.path(), 0), Process::start(dir.path(), 1));
    let (store, _) = loopback::store(&map_of(&[&first.address, &second.address]), PATIENCE);
    let job = into(&store, Source::Memory(200 << 20));
    let stop = || {
        second.signal(rustix::process::Signal::STOP);
        // The stall is the subject of the test; it only has to be longer than a scheduler's slice.
        std::thread::sleep(Duration::from_millis(1500));
        second.signal(rustix::process::Signal::CONT);
    };
    let (result, _) = interfere(&job, 10 << 20, &stop);
    result.unwrap();
    assert_eq!(store.open("/big").unwrap().size().unwrap(), 200 << 20);
}

#[test]
fn a_server_stopped_for_good_is_given_up_after_the_timeout_and_named() {
    for tuning in both_paths() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (Process::start(dir.path(), 0), Process::start(dir.path(), 1));
        let (store, names) = loopback::store(&map_of(&[&first.address, &second.address]), Duration::from_millis(700));
        let job = CopyJob { tuning, ..into(&store, Source::Memory(64 << 30)) };
        let stop = || second.signal(rustix::process::Signal::STOP);
        let (result, _) = interfere(&job, 10 << 20, &stop);
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.server(), error.file()), (ErrorKind::TimedOut, Some("io1"), Some("/big")), "{error}");
        assert!(names.list().is_empty());
        second.signal(rustix::process::Signal::CONT);
    }
}

#[test]
fn a_cancel_ends_a_copy_at_once_even_when_a_server_is_stopped() {
    struct CancelWhenStopped<'a>(&'a Process, AtomicBool);
    impl CopyObserver for CancelWhenStopped<'_> {
        fn progress(&self, moved_bytes: u64, _: Option<u64>) {
            if moved_bytes > 0 && !self.1.swap(true, Ordering::SeqCst) {
                self.0.signal(rustix::process::Signal::STOP);
            }
        }
        fn cancelled(&self) -> bool {
            self.1.load(Ordering::SeqCst)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (Process::start(dir.path(), 0), Process::start(dir.path(), 1));
    // Removing an incomplete file waits for the stopped server, briefly in this test.
    let (store, names) = loopback::store(&map_of(&[&first.address, &second.address]), Duration::from_secs(1));
    let error = run(&into(&store, Source::Memory(64 << 30)), &CancelWhenStopped(&second, AtomicBool::new(false))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(names.list().is_empty());
    second.signal(rustix::process::Signal::CONT);
}

/// Writes a payload with an arbitrary checksum.
fn write(connection: &mut Connection, datafile: DatafileId, offset: u64, payload: &[u8], crc: u32) -> Result<IoReply> {
    let request = IoRequest::Write { datafile, offset, durability: Durability::Returned };
    let mut off = Tracer::off();
    connection.post(&mut off, None, Kind::Io, &request, &[std::io::IoSlice::new(payload)], crc)?;
    let reply = connection.complete::<IoReply>(&mut off)?;
    Ok(connection.completed(&mut off, reply, None))
}

#[test]
fn bytes_that_fail_their_checksum_are_never_readable() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    let mut connection = Connection::connect(&servers.map.servers[0].address, &loopback::connect()).unwrap();
    let datafile = DatafileId { file: FileId(9), index: 0, target: TargetId(0), lot: None };
    let good = loopback::noise(2_000_000, 1);
    write(&mut connection, datafile, 0, &good, crc32c(&good)).unwrap();
    let lie = loopback::noise(1_500_000, 2);
    let error = write(&mut connection, datafile, 1_000_000, &lie, crc32c(&lie) ^ 1).unwrap_err();
    assert_eq!((error.kind(), error.server()), (ErrorKind::Corrupt, Some("io0")), "{error}");
    // The connection works, the old bytes are intact, and the file has not grown.
    let read = IoRequest::Read { datafile, offset: 0, length: 4_000_000 };
    let (_, back): (IoReply, Vec<u8>) = connection.call_with(&mut Tracer::off(), Kind::Io, &read, &[]).unwrap();
    assert!(back == good);
    // Nor is a datafile created with such bytes.
    let other = DatafileId { file: FileId(10), ..datafile };
    write(&mut connection, other, 0, &lie, 7).unwrap_err();
    let glimpse = IoRequest::Glimpse { datafiles: vec![other] };
    let reply: IoReply = connection.call(&mut Tracer::off(), Kind::Io, &glimpse).unwrap();
    assert!(matches!(reply, IoReply::Sizes(sizes) if sizes[0].size_bytes == 0));
}

/// A server whose first answers to reads are damaged.
struct Damaging {
    left: AtomicU64,
    verifier: AtomicU64,
}

impl Service for Damaging {
    fn hello(&self, _: &Hello, _: &Arc<Identity>) -> Result<HelloReply> {
        Ok(HelloReply {
            version: 1,
            server: "io0".into(),
            service: ServiceKind::Io,
            node: "here".into(),
            boot_id: String::new(),
            verifier: BootVerifier(1),
            store: loopback::STORE,
            service_start: Default::default(),
            change: 0,
            emulated: None,
        })
    }
    fn kind(&self) -> Kind {
        Kind::Io
    }
    fn session(self: Arc<Self>, _: &Hello, _: &Arc<Identity>) -> Box<dyn Session> {
        Box::new(DamagingSession(self))
    }
}

struct DamagingSession(Arc<Damaging>);

impl Session for DamagingSession {
    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        let take = |n: &AtomicU64| n.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        match exchange.body()? {
            IoRequest::Read { length, .. } => {
                let bytes = vec![7; length as usize];
                let crc = crc32c(&bytes) ^ u32::from(take(&self.0.left));
                exchange.reply_checked(&IoReply::Read, &bytes, crc)
            }
            IoRequest::Glimpse { datafiles } => {
                let size = thalweg_wire::protocol::io::DatafileSize { size_bytes: 3_000_000, allocated_bytes: 0, quiet: false };
                exchange.reply(&IoReply::Sizes(vec![size; datafiles.len()]))
            }
            IoRequest::DataMap { datafiles } => {
                let all = |(_, from, to): &(_, u64, u64)| DataMap { size_bytes: 3_000_000, known_to: *to, data: vec![(*from, to - from)] };
                exchange.reply(&IoReply::DataMaps(datafiles.iter().map(all).collect()))
            }
            IoRequest::Write { .. } => {
                exchange.receive_whole()?;
                exchange.reply(&IoReply::Written { verifier: BootVerifier(self.0.verifier.fetch_add(1, Ordering::SeqCst) / 2) })
            }
            IoRequest::Sync { .. } => exchange.reply(&IoReply::Synced { verifier: BootVerifier(99) }),
            _ => exchange.reply(&IoReply::Done),
        }
    }
}

fn damaging(left: u64) -> (thalweg_wire::Running, Store) {
    let service = Arc::new(Damaging { left: AtomicU64::new(left), verifier: AtomicU64::new(0) });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = serve(listener, service, loopback::serving("io0")).unwrap();
    let (store, _) = loopback::store(&map_of(&[&server.address().to_string()]), PATIENCE);
    (server, store)
}

#[test]
fn bytes_damaged_once_are_asked_for_again_and_damaged_twice_are_an_error() {
    for tuning in both_paths() {
        for (left, whole) in [(1, true), (1000, false)] {
            let (_server, store) = damaging(left);
            store.create("/x", 0o644, Existing::Refuse, &LayoutChoice::default()).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("out");
            let job =
                CopyJob { tuning: tuning.clone(), ..CopyJob::new(Source::Store(store.clone(), "/x".into()), Sink::Local(out.clone())) };
            match run(&job, &Quiet) {
                Ok(_) => assert!(whole && std::fs::read(&out).unwrap() == vec![7; 3_000_000]),
                Err(error) => {
                    assert_eq!((error.kind(), error.server()), (ErrorKind::Corrupt, Some("io0")), "{error}");
                    assert!(!whole && std::fs::read_dir(dir.path()).unwrap().count() == 0);
                }
            }
        }
    }
}

#[test]
fn a_server_that_started_anew_during_a_copy_is_an_error_and_never_silence() {
    let (_server, store) = damaging(0);
    let error = run(&into(&store, Source::Memory(8 << 20)), &Quiet).unwrap_err();
    assert_eq!((error.kind(), error.server(), error.file()), (ErrorKind::Restarted, Some("io0"), Some("/big")), "{error}");
    let file = store.create("/y", 0o644, Existing::Refuse, &LayoutChoice::default()).unwrap();
    let (_server, store) = damaging(0);
    drop(file);
    let file = store.create("/y", 0o644, Existing::Refuse, &LayoutChoice::default()).unwrap();
    file.write_at(b"x", 0).unwrap();
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Restarted);
}

#[test]
fn a_source_that_shrinks_or_goes_is_an_error_and_one_that_grows_is_copied_as_long_as_it_was() {
    type Change<'a> = &'a (dyn Fn(&Path) + Sync);
    let changes: [(&str, Change<'_>); 3] = [
        ("shrinks", &|path| std::fs::File::options().write(true).open(path).unwrap().set_len(30 << 20).unwrap()),
        ("grows", &|path| std::fs::File::options().write(true).open(path).unwrap().write_all_at(b"x", 90 << 20).unwrap()),
        ("vanishes", &|path| std::fs::remove_file(path).unwrap()),
    ];
    for tuning in both_paths() {
        for (what, change) in changes {
            let dir = tempfile::tempdir().unwrap();
            let servers = loopback::servers(dir.path(), 2, 1);
            let (store, names) = loopback::store(&servers.map, PATIENCE);
            let path = dir.path().join("source");
            std::fs::write(&path, vec![1; 80 << 20]).unwrap();
            let job = CopyJob { tuning: tuning.clone(), ..into(&store, Source::Local(path.clone())) };
            let (result, _) = interfere(&job, 8 << 20, &|| change(&path));
            if what == "grows" {
                result.unwrap();
                let attributes = store.names.stat(&mut thalweg_trace::Tracer::off(), "/big").unwrap();
                let handle = thalweg_client::FileHandle::from_attributes("/big", &attributes).unwrap();
                assert_eq!(store.data.size(&mut thalweg_trace::Tracer::off(), &handle).unwrap(), 80 << 20, "{what}");
                continue;
            }
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.file()), (ErrorKind::SourceChanged, path.to_str()), "{what}: {error}");
            assert!(names.list().is_empty(), "{what}");
        }
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_server_and_target_and_each_byte_is_the_old_or_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("t1");
    std::fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "none"]).arg(&small).stderr(Stdio::null()).status_in_time();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("SKIPPED: a small file system needs the right to mount");
        return;
    }
    let servers = loopback::servers(dir.path(), 2, 1);
    let (store, names) = loopback::store(&servers.map, PATIENCE);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for tuning in both_paths() {
            let error = run(&CopyJob { tuning, ..into(&store, Source::Memory(200 << 20)) }, &Quiet).unwrap_err();
            assert_eq!((error.kind(), error.server(), error.file()), (ErrorKind::NoSpace, Some("io1"), Some("/big")), "{error}");
            assert!(error.message().contains("target 1"), "{error}");
            assert!(names.list().is_empty());
        }
        // After a write that does not fit, each byte is the old or the new one: synced bytes are not reverted.
        let mut connection = Connection::connect(&servers.map.servers[1].address, &loopback::connect()).unwrap();
        let call = |connection: &mut Connection, request: IoRequest| -> Vec<u8> {
            connection.call_with::<_, IoReply>(&mut Tracer::off(), Kind::Io, &request, &[]).unwrap().1
        };
        let datafile = |file| DatafileId { file: FileId(file), index: 0, target: TargetId(1), lot: None };
        let (old, new) = (loopback::noise(3_000_000, 5), loopback::noise(6_000_000, 6));
        write(&mut connection, datafile(9), 0, &old, crc32c(&old)).unwrap();
        call(&mut connection, IoRequest::Sync { datafiles: vec![datafile(9)] });
        let mut offset = 0;
        while write(&mut connection, datafile(10), offset, &new[..100_000], crc32c(&new[..100_000])).is_ok() {
            offset += 100_000;
        }
        let error = write(&mut connection, datafile(9), 0, &new, crc32c(&new)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        let back = call(&mut connection, IoRequest::Read { datafile: datafile(9), offset: 0, length: new.len() as u64 });
        assert!((old.len()..new.len()).contains(&back.len()), "{} bytes", back.len());
        for (at, byte) in back.iter().enumerate() {
            let was = old.get(at).copied().unwrap_or(0);
            assert!(*byte == new[at] || *byte == was, "byte {at} is {byte}, and was {was}");
        }
    }));
    drop(servers);
    let unmounted = Command::new("umount").arg("-l").arg(&small).status_in_time().unwrap();
    assert!(unmounted.success());
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_peer_that_stops_in_the_middle_of_a_write_leaves_nothing_and_the_server_lives() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    let address = &servers.map.servers[0].address;
    let mut connection = Connection::connect(address, &loopback::connect()).unwrap();
    let datafile = DatafileId { file: FileId(9), index: 0, target: TargetId(0), lot: None };
    let piece = loopback::noise(1 << 20, 5);
    write(&mut connection, datafile, 0, &piece, crc32c(&piece)).unwrap();
    // A proxy that truncates a message in its payload.
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let front = proxy.local_addr().unwrap().to_string();
    let through = std::thread::spawn({
        let address = address.clone();
        move || {
            let mut client = accepted(&proxy);
            let mut server = TcpStream::connect(address).unwrap();
            let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let answers = std::thread::spawn(move || std::io::copy(&mut { back.0 }, &mut { back.1 }));
            let mut left = 500_000;
            let mut bytes = [0; 4096];
            while left > 0 {
                let n = client.read(&mut bytes).unwrap().min(left);
                server.write_all(&bytes[..n]).unwrap();
                left -= n;
            }
            let _ = server.shutdown(std::net::Shutdown::Both);
            let _ = client.shutdown(std::net::Shutdown::Both);
            let _ = joined(answers);
        }
    });
    let mut cut = Connection::connect(&front, &loopback::connect()).unwrap();
    let error = write(&mut cut, datafile, 1 << 20, &piece, crc32c(&piece)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Reset, "{error}");
    joined(through);
    let read = IoRequest::Read { datafile, offset: 0, length: 3 << 20 };
    let (_, back): (IoReply, Vec<u8>) = connection.call_with(&mut Tracer::off(), Kind::Io, &read, &[]).unwrap();
    assert!(back == piece);
}

#[test]
fn many_large_writes_at_a_time_do_not_take_more_memory_than_there_is_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(dir.path(), 0);
    let payload = loopback::noise(16 << 20, 1);
    let crc = crc32c(&payload);
    std::thread::scope(|scope| {
        for n in 0..48 {
            let (payload, address) = (&payload, &server.address);
            scope.spawn(move || {
                let mut connection = Connection::connect(address, &loopback::connect()).unwrap();
                let datafile = DatafileId { file: FileId(n % 4), index: 0, target: TargetId(0), lot: None };
                write(&mut connection, datafile, 0, payload, crc).unwrap();
            });
        }
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let peak_kib = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB");
    let peak_mib = peak_kib.parse::<u64>().unwrap() / 1024;
    // 64 MiB for large payloads, 1 MiB for each connection, and the program itself; without a bound it would be 768.
    assert!(peak_mib < 64 + 48 + 80, "{peak_mib} MiB");
}

#[test]
fn claims_past_a_file_a_batch_or_a_target_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 2);
    let mut connection = Connection::connect(&servers.map.servers[0].address, &loopback::connect()).unwrap();
    let here = DatafileId { file: FileId(9), index: 0, target: TargetId(0), lot: None };
    let cases = [
        (IoRequest::Read { datafile: here, offset: u64::MAX, length: 1 }, ErrorKind::TooLarge, "largest file"),
        (IoRequest::Read { datafile: here, offset: 0, length: 1 << 40 }, ErrorKind::Invalid, "1099511627776"),
        (IoRequest::Truncate { datafiles: vec![(here, 1 << 63)] }, ErrorKind::TooLarge, "largest file"),
        (IoRequest::Glimpse { datafiles: vec![here; 5000] }, ErrorKind::Invalid, "5000 datafiles"),
        (IoRequest::Glimpse { datafiles: vec![DatafileId { target: TargetId(5), ..here }] }, ErrorKind::Absent, "no target 5"),
    ];
    for (request, kind, text) in cases {
        let error = connection.call::<_, IoReply>(&mut Tracer::off(), Kind::Io, &request).unwrap_err();
        assert!(error.kind() == kind && error.message().contains(text), "{error}");
    }
}

#[test]
fn a_server_of_another_store_or_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 2, 1);
    let mut map = servers.map.clone();
    map.store = 8;
    let (store, _) = loopback::store(&map, PATIENCE);
    let error: Error = run(&into(&store, Source::Memory(5 << 20)), &Quiet).unwrap_err();
    assert!(error.message().contains("belongs to store 0000000000000007"), "{error}");
    let mut map = servers.map.clone();
    map.servers.swap(0, 1);
    map.servers[0].name = "io0".into();
    map.servers[1].name = "io1".into();
    let (store, _) = loopback::store(&map, PATIENCE);
    let error = run(&into(&store, Source::Memory(5 << 20)), &Quiet).unwrap_err();
    assert!(error.message().contains("calls itself io"), "{error}");
}
