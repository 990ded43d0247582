//! Read-ahead and write-behind: their benefit, their cost, and their errors when a server fails.

use crate::loopback;
use proptest::prelude::*;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_client::{BehindOptions, BufferedFile, BufferedOptions, DataClient, FileHandle, StoreFile};
use thalweg_layout::{Layout, Spec};
use thalweg_trace::{Event, HostId, IdSpace, Memory, Role, Sink, SpanKind, TraceHandle, Tracer};
use thalweg_wire::Connect;
use thalweg_wire::protocol::io::{Allocate, FileId, Seek, TargetId};
use thalweg_wire::protocol::metadata::End;
use thalweg_wire::{Error, ErrorKind};

const STRIP: u64 = 65536;

fn client(servers: &loopback::Servers, timeout: Duration) -> Arc<DataClient> {
    Arc::new(DataClient::new(servers.map.clone(), &Connect { timeout, ..loopback::connect() }))
}

/// Returns the handle of file `number` in strips of 64 KiB over these targets.
fn handle(number: u64, targets: &[u32]) -> FileHandle {
    let spec = Spec::new("simple_stripe").with("strip_size", STRIP);
    let layout = Layout::new(&spec, Some(targets.len() as u32), targets.len() as u32).unwrap();
    FileHandle::new(FileId(number), format!("/file{number}"), layout, targets.iter().copied().map(TargetId).collect()).unwrap()
}

fn buffered(data: &Arc<DataClient>, handle: FileHandle) -> BufferedFile {
    buffered_with(data, handle, &BufferedOptions::default())
}

fn buffered_with(data: &Arc<DataClient>, handle: FileHandle, options: &BufferedOptions) -> BufferedFile {
    BufferedFile::new(Arc::new(StoreFile::new(Arc::clone(data), handle)), options)
}

fn off() -> Tracer {
    Tracer::off()
}

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn reading_on_is_answered_from_memory_and_reading_here_and_there_fetches_nothing_more() {
    let directory = tempfile::tempdir().unwrap();
    let servers = loopback::servers(directory.path(), 3, 1);
    let data = client(&servers, PATIENCE);
    let bytes = loopback::noise(24 << 20, 1);
    let size = bytes.len() as u64;
    StoreFile::new(Arc::clone(&data), handle(1, &[0, 1, 2])).write_at(&bytes, 0).unwrap();
    let read = |file: &BufferedFile, offset: u64, length: usize| {
        let view = file.read(&mut off(), offset, length).unwrap();
        let end = (offset as usize + length).min(bytes.len());
        assert!(view[..] == bytes[offset as usize..end], "{length} at {offset}");
    };
    // Sequential, in small and large pieces; alternating between two places; small strided pieces.
    for piece in [4096_usize, 100_000, 1 << 20] {
        let file = buffered(&data, handle(1, &[0, 1, 2]));
        (0..size).step_by(piece).for_each(|offset| read(&file, offset, piece));
        let counters = file.counters();
        assert!(counters.hit_bytes >= size / 10 * 9 && counters.hit_bytes + counters.miss_bytes == size, "{piece}: {counters:?}");
    }
    let file = buffered(&data, handle(1, &[0, 1, 2]));
    for n in 0..128_u64 {
        read(&file, n * 65536, 65536);
        read(&file, (12 << 20) + n * 65536, 65536);
    }
    let counters = file.counters();
    assert!(counters.hit_bytes >= (14 << 20), "interleaved: {counters:?}");
    let file = buffered(&data, handle(1, &[0, 1, 2]));
    (0..200_u64).for_each(|n| read(&file, 777 + n * 100_000, 5000));
    let counters = file.counters();
    assert!(counters.hit_bytes >= 190 * 5000 && counters.wasted_bytes <= 40 * 5000, "strided: {counters:?}");
    let file = buffered(&data, handle(1, &[0, 1, 2]));
    let mut at = 1_u64;
    for _ in 0..200 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        read(&file, 8192 + (at >> 20) % (size - 20_000), 4096);
    }
    let counters = file.counters();
    assert_eq!((counters.hit_bytes, counters.wasted_bytes), (0, 0), "random");
}

/// Returns the number of calls that `work` makes.
fn calls(work: impl FnOnce(&mut Tracer)) -> usize {
    let sink = Arc::new(Memory::new(10_000));
    let trace = TraceHandle::on(Arc::clone(&sink) as Arc<dyn Sink>, HostId(0), Role::Client, IdSpace(1));
    work(&mut trace.thread("test"));
    let is_call = |event: &Event| matches!(event, Event::Span(span) if span.kind == SpanKind::RpcCall);
    sink.drain().0.iter().filter(|event| is_call(event)).count()
}

#[test]
fn a_read_asks_for_sizes_only_where_it_comes_short() {
    let directory = tempfile::tempdir().unwrap();
    let servers = loopback::servers(directory.path(), 2, 1);
    let data = client(&servers, PATIENCE);
    let file = StoreFile::new(Arc::clone(&data), handle(1, &[0, 1]));
    let bytes = loopback::noise(100_000, 3);
    file.write_at(&bytes, 0).unwrap();
    // A hole at one server, followed by bytes at the other.
    file.write_at(&bytes[..1000], 7 * STRIP).unwrap();
    let read = |offset: u64, length: usize, known: Option<u64>, wanted: usize| {
        let mut buffer = vec![1; length];
        calls(|tracer| assert_eq!(file.read(tracer, &mut buffer, offset, known).unwrap(), wanted, "{length} at {offset}"))
    };
    assert_eq!(read(1000, 50_000, None, 50_000), 1);
    assert_eq!(read(0, 100_000, None, 100_000), 2);
    assert_eq!(read(0, (7 * STRIP + 1000) as usize, None, (7 * STRIP + 1000) as usize), 2, "bytes behind the hole show that it is one");
    assert_eq!(read(7 * STRIP, 5000, None, 1000), 3, "short at one server: both are asked for sizes");
    assert_eq!(read(7 * STRIP, 5000, Some(7 * STRIP + 1000), 1000), 1, "who knows the size need not ask");
    assert_eq!(read(6 * STRIP, 5000, None, 5000), 3, "a hole before the end");
    assert_eq!(read(90 * STRIP, 5000, None, 0), 3);
}

#[test]
fn a_hole_before_bytes_that_are_on_their_way_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let servers = loopback::servers(directory.path(), 2, 1);
    let data = client(&servers, PATIENCE);
    let options = BufferedOptions {
        behind: BehindOptions { age: Duration::from_secs(3600), ..BehindOptions::default() },
        ..BufferedOptions::default()
    };
    let file = buffered_with(&data, handle(1, &[0, 1]), &options);
    let direct = calls(|tracer| assert_eq!(file.file().read(tracer, &mut [1; 5000], 10_000, None).unwrap(), 0));
    file.write(&mut off(), b"far behind", 50 * STRIP).unwrap();
    let through = calls(|tracer| assert!(file.read(tracer, 10_000, 5000).unwrap()[..] == [0; 5000]));
    assert_eq!(through, direct, "whatever is on its way, the servers are asked once");
    let end = 50 * STRIP + 10;
    assert_eq!(file.dirty_end(), Some(end));
    assert_eq!(file.size(&mut off()).unwrap(), end, "who appends writes behind it");
    assert_eq!(&file.read(&mut off(), end - 10, 100).unwrap()[..], b"far behind");
    assert!(matches!(file.take_end(), End::Unknown), "it may not arrive");
    file.flush(&mut off()).unwrap();
    file.write_through(&mut off(), b"!", end).unwrap();
    assert!(matches!(file.take_end(), End::Written { end_bytes, .. } if end_bytes == end + 1));
}

#[test]
fn an_unbuffered_file_has_everything_at_the_servers_when_a_call_returns() {
    let directory = tempfile::tempdir().unwrap();
    let servers = loopback::servers(directory.path(), 2, 1);
    let data = client(&servers, PATIENCE);
    let open = || BufferedFile::unbuffered(Arc::new(StoreFile::new(Arc::clone(&data), handle(1, &[0, 1]))));
    let (one, other) = (open(), open());
    for round in 0..20_u64 {
        let bytes = loopback::noise(100_000, round);
        one.write(&mut off(), &bytes, round * 1000).unwrap();
        assert_eq!(one.dirty_end(), None);
        assert!(other.read(&mut off(), round * 1000, bytes.len()).unwrap()[..] == bytes[..], "round {round}");
    }
    assert_eq!(other.counters(), Default::default());
    assert_eq!(data.budget().lent(), 0);
}

#[test]
fn holes_and_data_are_found_across_datafiles() {
    let directory = tempfile::tempdir().unwrap();
    let servers = loopback::servers(directory.path(), 3, 1);
    let data = client(&servers, PATIENCE);
    let file = buffered(&data, handle(1, &[2, 0, 1]));
    let mib = 1_u64 << 20;
    let bytes = loopback::noise(mib as usize, 3);
    file.write(&mut off(), &bytes, 0).unwrap();
    file.write(&mut off(), &bytes, 8 * mib).unwrap();
    let seek = |offset: u64, what: Seek| file.seek(&mut off(), offset, what).unwrap();
    assert_eq!(seek(0, Seek::Data), Some(0));
    assert_eq!(seek(12_345, Seek::Hole), Some(mib));
    assert_eq!(seek(mib, Seek::Data), Some(8 * mib));
    assert_eq!(seek(5 * mib, Seek::Hole), Some(5 * mib));
    assert_eq!(seek(8 * mib, Seek::Hole), Some(9 * mib));
    assert_eq!((seek(9 * mib, Seek::Data), seek(9 * mib, Seek::Hole)), (None, None));
    file.allocate(&mut off(), 20 * mib, mib, Allocate::Extend).unwrap();
    assert_eq!(file.size(&mut off()).unwrap(), 21 * mib);
    file.allocate(&mut off(), 30 * mib, mib, Allocate::KeepSize).unwrap();
    assert_eq!(file.size(&mut off()).unwrap(), 21 * mib);
    let allocated = |data: &DataClient| -> u64 {
        data.glimpse(&mut off(), file.file().handle()).unwrap().iter().map(|size| size.allocated_bytes).sum()
    };
    let before = allocated(&data);
    assert!(before >= 4 * mib, "{before}");
    file.allocate(&mut off(), 0, 9 * mib, Allocate::PunchHole).unwrap();
    let after = allocated(&data);
    assert!(before - after >= 2 * mib - 16 * STRIP, "{before} {after}");
    assert_eq!(file.size(&mut off()).unwrap(), 21 * mib);
    assert!(file.read(&mut off(), 0, 1 << 20).unwrap().iter().all(|b| *b == 0));
}

#[test]
fn two_hundred_files_share_a_little_memory() {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let servers = loopback::servers(directory.path(), 2, 1);
    let data = client(&servers, PATIENCE);
    let total = 6 << 20;
    data.budget().set_total(total);
    let files: Vec<BufferedFile> = (0..200).map(|n| buffered(&data, handle(1000 + n, &[0, 1]))).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let most = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(data.budget().lent());
                std::thread::yield_now();
            }
            most
        });
        let work = |which: usize| {
            for round in 0..10_u64 {
                for (n, file) in files.iter().enumerate().skip(which).step_by(4) {
                    file.write(&mut off(), &loopback::noise(20_000, n as u64 + round), round * 20_000).unwrap();
                }
            }
            for (n, file) in files.iter().enumerate().skip(which).step_by(4) {
                file.flush(&mut off()).unwrap();
                for round in 0..10_u64 {
                    let view = file.read(&mut off(), round * 20_000, 20_000).unwrap();
                    assert!(view[..] == loopback::noise(20_000, n as u64 + round), "file {n}, round {round}");
                }
            }
        };
        let workers: Vec<_> = (0..4).map(|which| scope.spawn(move || work(which))).collect();
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        over.store(true, Ordering::Relaxed);
        assert!(ends.iter().all(Result::is_ok));
        let most = most.join().unwrap();
        assert!(most <= total, "{most}");
    });
    drop(files);
    while data.budget().lent() > 0 {
        std::thread::yield_now();
    }
}

/// Uses one file while another is disturbed.
fn keeps_working(file: &BufferedFile, over: &AtomicBool) -> u64 {
    let bytes = loopback::noise(200_000, 5);
    let mut rounds = 0;
    while !over.load(Ordering::Relaxed) || rounds < 3 {
        let offset = rounds % 20 * 200_000;
        file.write(&mut off(), &bytes, offset).unwrap();
        file.flush(&mut off()).unwrap();
        assert!(file.read(&mut off(), offset, bytes.len()).unwrap()[..] == bytes[..]);
        rounds += 1;
    }
    rounds
}

/// Checks that reads, writes and flushes of many files fail within `within`; returns the errors.
fn all_fail(files: &[BufferedFile], within: Duration) -> Vec<Error> {
    let mut errors = Vec::new();
    for file in files {
        let begun = Instant::now();
        let bytes = loopback::noise(3 << 20, 7);
        // Accepted, unless an earlier write is known to have failed.
        let _ = file.write(&mut off(), &bytes, 0);
        errors.push(file.flush(&mut off()).unwrap_err());
        errors.push(file.read(&mut off(), 40 << 20, 1 << 20).map(drop).unwrap_err());
        assert!(begun.elapsed() < within, "{:?}", begun.elapsed());
        file.flush(&mut off()).expect("reported once");
    }
    errors
}

/// Returns whether an error names this server.
fn is_of(error: &Error, server: &str) -> bool {
    error.server() == Some(server)
}

#[test]
fn a_server_that_goes_fails_its_files_at_once_and_no_others_and_works_again_when_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = loopback::servers(directory.path(), 2, 1);
    let data = client(&servers, PATIENCE);
    let lucky = buffered(&data, handle(1, &[0]));
    let files: Vec<BufferedFile> = (2..6).map(|n| buffered(&data, handle(n, &[1, 0]))).collect();
    // Establishes idle connections.
    for file in &files {
        file.write(&mut off(), &loopback::noise(1 << 20, 1), 0).unwrap();
        file.flush(&mut off()).unwrap();
        assert_eq!(file.read(&mut off(), 0, 1 << 20).unwrap().len(), 1 << 20);
    }
    servers.stop(1);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let goes_on = scope.spawn(|| keeps_working(&lucky, &over));
        let errors = all_fail(&files, Duration::from_secs(4));
        over.store(true, Ordering::Relaxed);
        assert!(errors.iter().all(|e| (is_of(e, "io1") || e.kind() == ErrorKind::Lost) && e.file().is_some()), "{errors:?}");
        assert!(errors.iter().any(|e| is_of(e, "io1")), "{errors:?}");
        assert!(goes_on.join().unwrap() >= 3);
    });
    servers.start(1, directory.path());
    for file in &files {
        // Earlier writes may be lost: that is reported once, and reading is an error until all of it is written again.
        let _ = file.sync(&mut off());
        let bytes = loopback::noise(3 << 20, 9);
        file.write(&mut off(), &bytes, 0).unwrap();
        file.sync(&mut off()).unwrap();
        assert!(file.read(&mut off(), 0, bytes.len()).unwrap()[..] == bytes[..]);
    }
}

#[test]
fn many_readers_and_writers_of_a_server_that_is_gone_do_not_wait_for_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = loopback::servers(directory.path(), 1, 1);
    let data = client(&servers, PATIENCE);
    let files: Vec<BufferedFile> = (0..24).map(|n| buffered(&data, handle(n, &[0]))).collect();
    for file in &files {
        file.write(&mut off(), &loopback::noise(2 << 20, 1), 0).unwrap();
        file.flush(&mut off()).unwrap();
    }
    servers.stop(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(|| {
                let _ = file.write(&mut off(), &loopback::noise(1 << 20, 2), 0);
                file.flush(&mut off()).unwrap_err();
            });
            scope.spawn(|| file.read(&mut off(), 8 << 20, 1 << 20).map(drop).unwrap_err());
        }
    });
    // Half a second for a refused connection; sequentially it would be 24.
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

#[test]
fn a_silent_server_is_given_up_after_the_timeout_and_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = loopback::servers(directory.path(), 2, 1);
    servers.stop(1);
    // The kernel accepts connections, but no server answers on them.
    let silent = TcpListener::bind(&servers.map.servers[1].address).unwrap();
    let data = client(&servers, Duration::from_millis(600));
    let lucky = buffered(&data, handle(1, &[0]));
    let file = buffered(&data, handle(2, &[1]));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let goes_on = scope.spawn(|| keeps_working(&lucky, &over));
        let errors = all_fail(std::slice::from_ref(&file), Duration::from_secs(20));
        over.store(true, Ordering::Relaxed);
        // Reading bytes that could not be written is an error of the file.
        let (lost, others): (Vec<_>, Vec<_>) = errors.iter().partition(|e| e.kind() == ErrorKind::Lost && e.file().is_some());
        assert!(others.iter().all(|e| e.kind() == ErrorKind::TimedOut && is_of(e, "io1")) && !others.is_empty(), "{others:?} {lost:?}");
        goes_on.join().unwrap();
    });
    drop(silent);
    servers.start(1, directory.path());
    let bytes = loopback::noise(2 << 20, 9);
    file.write(&mut off(), &bytes, 0).unwrap();
    file.sync(&mut off()).unwrap();
}

#[test]
fn bytes_that_a_restart_may_have_lost_are_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = loopback::servers(directory.path(), 2, 1);
    let data = client(&servers, PATIENCE);
    let file = buffered(&data, handle(1, &[0, 1]));
    let bytes = loopback::noise(300_000, 1);
    let write = |offset: u64| file.write(&mut off(), &bytes, offset).unwrap();
    // Written, flushed, restarted: the sync reports it.
    write(0);
    file.flush(&mut off()).unwrap();
    servers.stop(1);
    servers.start(1, directory.path());
    let error = file.sync(&mut off()).unwrap_err();
    assert_eq!((error.kind(), error.server(), error.file()), (ErrorKind::Restarted, Some("io1"), Some("/file1")), "{error}");
    file.sync(&mut off()).unwrap();
    // Restarted between two writes: the next flush reports it, since the second answer shows it.
    write(0);
    file.flush(&mut off()).unwrap();
    servers.stop(0);
    servers.start(0, directory.path());
    write(1 << 20);
    assert_eq!(file.flush(&mut off()).unwrap_err().kind(), ErrorKind::Restarted);
    file.flush(&mut off()).unwrap();
    file.sync(&mut off()).unwrap();
    // Restarted after a sync: nothing is lost or reported.
    write(0);
    file.sync(&mut off()).unwrap();
    servers.stop(0);
    servers.start(0, directory.path());
    write(0);
    file.sync(&mut off()).unwrap();
}

/// An event of a history with faults.
#[derive(Clone, Debug)]
enum HistoryEvent {
    Write(u64, usize, u64),
    WriteThrough(u64, usize, u64),
    Clear(u64, u64),
    Read(u64, usize),
    Flush,
    Sync,
    /// A server is killed and restarted; if its machine is too, unsynced writes are lost.
    Restart(usize, bool),
}

fn happening() -> impl Strategy<Value = HistoryEvent> {
    let (offset, length) = (0_u64..2_000_000, 1_usize..200_000);
    prop_oneof![
        6 => (offset.clone(), length.clone(), any::<u64>()).prop_map(|(o, l, s)| HistoryEvent::Write(o, l, s)),
        2 => (offset.clone(), length.clone(), any::<u64>()).prop_map(|(o, l, s)| HistoryEvent::WriteThrough(o, l, s)),
        1 => (offset.clone(), 1_u64..500_000).prop_map(|(o, l)| HistoryEvent::Clear(o, l)),
        3 => (offset, length).prop_map(|(o, l)| HistoryEvent::Read(o, l)),
        2 => Just(HistoryEvent::Flush),
        3 => Just(HistoryEvent::Sync),
        3 => (0_usize..3, any::<bool>()).prop_map(|(n, m)| HistoryEvent::Restart(n, m)),
    ]
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Replays a history. Servers are stopped in between; with their machine, they return to their state at the last sync.
#[expect(clippy::too_many_lines, reason = "one arm for each thing that happens")]
fn survive(history: &[HistoryEvent]) {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (dir, kept) = (directory.path().join("live"), directory.path().join("synced"));
    let mut servers = loopback::servers(&dir, 3, 1);
    let data = client(&servers, PATIENCE);
    let options = BufferedOptions { behind: BehindOptions { window_bytes: Some(2 << 20), age: PATIENCE }, ..BufferedOptions::default() };
    let file = buffered_with(&data, handle(1, &[0, 1, 2]), &options);
    let keep = || {
        let _ = std::fs::remove_dir_all(&kept);
        copy_tree(&dir, &kept);
    };
    keep();
    // The contents without losses; and the synced contents, with a mark on each byte changed since.
    let mut model = vec![0_u8; 2_500_000];
    let (mut synced, mut changed) = (model.clone(), vec![false; model.len()]);
    // Unsynced bytes may have been lost, which has not been reported yet.
    let mut may_be_lost = false;
    let mut unsynced = false;
    let change = |model: &mut Vec<u8>, changed: &mut Vec<bool>, offset: u64, bytes: &[u8]| {
        let range = offset as usize..offset as usize + bytes.len();
        model[range.clone()].copy_from_slice(bytes);
        changed[range].fill(true);
    };
    for happening in history {
        let mut reported: Option<Error> = None;
        match happening {
            HistoryEvent::Write(offset, length, seed) => {
                let bytes = loopback::noise(*length, *seed);
                reported = file.write(&mut off(), &bytes, *offset).err();
                change(&mut model, &mut changed, *offset, &bytes);
                unsynced = true;
            }
            HistoryEvent::WriteThrough(offset, length, seed) => {
                let bytes = loopback::noise(*length, *seed);
                file.write_through(&mut off(), &bytes, *offset).unwrap();
                change(&mut model, &mut changed, *offset, &bytes);
                unsynced = true;
            }
            HistoryEvent::Clear(offset, length) => {
                file.allocate(&mut off(), *offset, *length, Allocate::ZeroRangeKeepSize).unwrap();
                change(&mut model, &mut changed, *offset, &vec![0; *length as usize]);
                unsynced = true;
            }
            HistoryEvent::Read(offset, length) => {
                let found = file.read(&mut off(), *offset, *length).unwrap();
                let right = &model[*offset as usize..*offset as usize + found.len()];
                assert!(may_be_lost || found[..] == *right, "{length} at {offset}");
            }
            HistoryEvent::Flush => reported = file.flush(&mut off()).err(),
            HistoryEvent::Sync => match file.sync(&mut off()) {
                Err(error) => reported = Some(error),
                Ok(()) => {
                    let mut all = vec![0; model.len()];
                    file.file().read_at(&mut all, 0).unwrap();
                    assert!(all == model, "a sync said that everything is there");
                    keep();
                    (synced, changed) = (model.clone(), vec![false; model.len()]);
                    (may_be_lost, unsynced) = (false, false);
                }
            },
            HistoryEvent::Restart(server, with_machine) => {
                // Messages in flight must not arrive on both sides of the restart, since the model could not tell which did.
                file.settle(&mut off());
                servers.stop(*server);
                if *with_machine {
                    let target = dir.join(format!("t{server}"));
                    std::fs::remove_dir_all(&target).unwrap();
                    copy_tree(&kept.join(format!("t{server}")), &target);
                    may_be_lost |= unsynced;
                    file.forget_all();
                }
                servers.start(*server, &dir);
            }
        }
        if let Some(error) = reported {
            assert_eq!(error.kind(), ErrorKind::Restarted, "{error}");
            // Reported: the current contents stand, in which synced and unchanged bytes must be intact.
            file.settle(&mut off());
            let mut all = vec![0; model.len()];
            file.file().read_at(&mut all, 0).unwrap();
            let wrong = (0..all.len()).find(|n| !changed[*n] && all[*n] != synced[*n]);
            assert!(wrong.is_none(), "synced byte {wrong:?} is not what it was");
            model = all;
            may_be_lost = false;
            file.forget_all();
            if matches!(happening, HistoryEvent::Sync) {
                // The current contents are durable.
                keep();
                (synced, changed) = (model.clone(), vec![false; model.len()]);
                unsynced = false;
            }
        }
    }
}

fn cases(default: u32) -> u32 {
    std::env::var("THALWEG_MODEL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(40), max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_was_synced_is_there_and_what_was_not_is_there_or_reported(history in prop::collection::vec(happening(), 1..40)) {
        survive(&history);
    }
}
