//! Connections added and removed during a copy: bytes stay intact and in place, and a refused connection never fails the copy.

use super::trees::{copy, job, local, start, stored};
use crate::loopback;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_client::Controller;
use thalweg_client::Store;
use thalweg_client::copy::{CopyJob, CopyObserver, DataPath, Sink, Source, TreeJob, Tuning, run};
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::metadata::LayoutChoice;

const PATIENCE: Duration = Duration::from_secs(30);
const SIZE: usize = 160 << 20;

/// Changes the number of connections at each call, and may stop the copy.
struct Turning<'a> {
    job: &'a CopyJob,
    looks: AtomicU32,
    /// The highest and lowest numbers of connections seen.
    most: AtomicU32,
    least_after: AtomicU32,
    stop_when_seen: bool,
}

impl<'a> Turning<'a> {
    fn of(job: &'a CopyJob, stop_when_seen: bool) -> Turning<'a> {
        let (looks, most, least_after) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(u32::MAX));
        Turning { job, looks, most, least_after, stop_when_seen }
    }
}

impl CopyObserver for Turning<'_> {
    fn progress(&self, _: u64, _: Option<u64>) {
        let connections = self.job.control.stages().connections;
        if self.most.fetch_max(connections, Ordering::SeqCst).max(connections) >= 6 {
            self.least_after.fetch_min(connections, Ordering::SeqCst);
        }
        let wanted = [1, 6, 6, 2, 6, 1][self.looks.fetch_add(1, Ordering::SeqCst) as usize % 6];
        self.job.control.set("streams", wanted).unwrap();
    }

    fn cancelled(&self) -> bool {
        self.stop_when_seen && self.least_after.load(Ordering::SeqCst) <= 2
    }
}

fn tuning(data_path: DataPath) -> Tuning {
    // Small flow buffers, so that many are in flight when a connection is added or removed.
    Tuning { data_path, buffer_bytes: Some(64 << 10), request_bytes: Some(4 << 20), depth: Some(4), ..Tuning::default() }
}

#[test]
fn what_is_copied_while_connections_come_and_go_is_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 2, 1);
    let (store, _) = loopback::store(&servers.map, PATIENCE);
    let bytes = loopback::noise(SIZE, 11);
    let (source, back) = (dir.path().join("source"), dir.path().join("back"));
    std::fs::write(&source, &bytes).unwrap();
    for data_path in [DataPath::Direct, DataPath::Buffered] {
        let sink = Sink::Store(store.clone(), "/file".into(), LayoutChoice::default());
        let into = CopyJob { tuning: tuning(data_path), force: true, ..CopyJob::new(Source::Local(source.clone()), sink) };
        run(&into, &Turning::of(&into, false)).unwrap();
        let from = Source::Store(store.clone(), "/file".into());
        let out = CopyJob { tuning: tuning(data_path), force: true, ..CopyJob::new(from, Sink::Local(back.clone())) };
        run(&out, &Turning::of(&out, false)).unwrap();
        assert!(std::fs::read(&back).unwrap() == bytes, "{data_path:?}");
        assert_eq!((into.control.moved_bytes(), out.control.moved_bytes()), (SIZE as u64, SIZE as u64));
        assert_eq!((into.control.stages().connections, out.control.stages().connections), (0, 0), "all of them have ended");
    }
}

#[test]
fn connections_are_made_and_ended_while_a_copy_runs_and_a_cancel_finds_them_all() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    let (store, _) = loopback::store(&servers.map, PATIENCE);
    // A source that lasts until six connections were seen, and then two or fewer.
    let sink = Sink::Store(store.clone(), "/endless".into(), LayoutChoice::default());
    let job = CopyJob { tuning: tuning(DataPath::Direct), ..CopyJob::new(Source::Memory(1 << 40), sink) };
    let turning = Turning::of(&job, true);
    let error = run(&job, &turning).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(turning.most.load(Ordering::SeqCst) >= 6);
    assert_eq!(job.control.stages().connections, 0);
}

/// A proxy that accepts a number of connections and closes others. Until it has refused one, it passes only a few bytes.
struct Door {
    address: String,
    turned_away: Arc<AtomicU32>,
}

impl Door {
    fn before(server: &str, admits: u32) -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (turned_away, passed) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
        let (server, away) = (server.to_owned(), Arc::clone(&turned_away));
        std::thread::spawn(move || {
            for number in 0.. {
                let Ok((client, _)) = listener.accept() else { return };
                if number >= admits {
                    away.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                let inside = TcpStream::connect(&server).unwrap();
                let there = (client.try_clone().unwrap(), inside.try_clone().unwrap());
                let (away, passed) = (Arc::clone(&away), Arc::clone(&passed));
                std::thread::spawn(move || pass(there.0, there.1, Some((&away, &passed))));
                std::thread::spawn(move || pass(inside, client, None));
            }
        });
        Door { address, turned_away }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, held_back: Option<(&AtomicU32, &AtomicU64)>) {
    const FEW_BYTES: u64 = 8 << 20;
    let (mut buffer, begun) = (vec![0; 256 << 10], Instant::now());
    while let Ok(many @ 1..) = from.read(&mut buffer) {
        if let Some((away, passed)) = held_back {
            let sum = passed.fetch_add(many as u64, Ordering::SeqCst);
            while sum > FEW_BYTES && away.load(Ordering::SeqCst) == 0 && begun.elapsed() < PATIENCE / 2 {
                std::thread::yield_now();
            }
        }
        if to.write_all(&buffer[..many]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn through_a_door(dir: &Path, admits: u32) -> (Store, Door, loopback::Servers) {
    let servers = loopback::servers(dir, 1, 1);
    let door = Door::before(&servers.map.servers[0].address, admits);
    let mut map = servers.map.clone();
    map.servers[0].address = door.address.clone();
    let (store, _) = loopback::store(&map, PATIENCE);
    (store, door, servers)
}

#[test]
fn a_server_that_takes_no_more_connections_does_not_fail_a_copy_that_wants_them() {
    let dir = tempfile::tempdir().unwrap();
    let (store, door, _servers) = through_a_door(dir.path(), 3);
    let bytes = loopback::noise(48 << 20, 5);
    let source = dir.path().join("source");
    std::fs::write(&source, &bytes).unwrap();
    let sink = Sink::Store(store.clone(), "/file".into(), LayoutChoice::default());
    let job = CopyJob { tuning: tuning(DataPath::Direct), ..CopyJob::new(Source::Local(source), sink) };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while job.control.moved_bytes() == 0 && !over.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            job.control.set("streams", 8).unwrap();
        });
        let copied = run(&job, &thalweg_client::copy::Quiet);
        over.store(true, Ordering::SeqCst);
        copied.unwrap();
    });
    assert!(door.turned_away.load(Ordering::SeqCst) > 0 && job.control.stages().lost_connections > 0);
    let streams = job.control.parameters().into_iter().find(|p| p.name == "streams").unwrap();
    assert!(streams.value.is_some_and(|value| value < 8), "no more are tried: {streams:?}");
    drop(door);
    let mut back = vec![0; bytes.len()];
    store.open("/file").unwrap().read_at(&mut back, 0).unwrap();
    assert!(back == bytes);
}

#[test]
fn a_tree_is_whole_whose_workers_and_connections_come_and_go() {
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_up, store) = start(dir.path(), 2);
    let tree = here.path().join("tree");
    for directory in 0..12_u64 {
        let inside = tree.join(format!("{directory}"));
        std::fs::create_dir_all(&inside).unwrap();
        for file in 0..120_u64 {
            std::fs::write(inside.join(format!("{file}")), loopback::noise(3000, directory * 1000 + file)).unwrap();
        }
        std::fs::write(inside.join("large"), loopback::noise(3 << 20, directory)).unwrap();
    }
    let turned = |job: &TreeJob| {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut turns = 0_u64;
                while !over.load(Ordering::SeqCst) {
                    turns += 1;
                    job.control.set("workers", 1 + turns % 9).unwrap();
                    job.control.set("streams", 1 + turns % 4).unwrap();
                    std::thread::yield_now();
                }
            });
            let outcome = copy(job);
            over.store(true, Ordering::SeqCst);
            assert_eq!((outcome.files, outcome.directories), (12 * 121, 12));
            assert_eq!(job.control.moved_bytes(), outcome.size_bytes);
        });
    };
    let out = here.path().join("out");
    turned(&job(local(&tree), stored(&store, "/tree")));
    turned(&job(stored(&store, "/tree"), local(&out)));
    for directory in 0..12_u64 {
        for name in (0..120).map(|file| file.to_string()).chain(["large".to_owned()]) {
            let at = format!("{directory}/{name}");
            assert!(std::fs::read(out.join(&at)).unwrap() == std::fs::read(tree.join(&at)).unwrap(), "{at}");
        }
    }
}
