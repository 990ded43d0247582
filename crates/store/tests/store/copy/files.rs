//! Copies over real sockets: the bytes are preserved with every layout and parameter.

use crate::loopback;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_client::Controller;
use thalweg_client::Store;
use thalweg_client::copy::{CopyJob, DataPath, Quiet, Sink, Source, Tuning, run};
use thalweg_layout::Spec;
use thalweg_wire::protocol::metadata::LayoutChoice;
use thalweg_wire::{Error, ErrorKind};

const PATIENCE: Duration = Duration::from_secs(20);

fn choice(spec: &str, datafiles: Option<u32>) -> LayoutChoice {
    LayoutChoice { spec: Some(spec.parse::<Spec>().unwrap()), datafiles, placement: None, lot: None }
}

fn copy_in(store: &Store, from: &Path, to: &str, layout: LayoutChoice, tuning: Tuning) -> Result<(), Error> {
    let sink = Sink::Store(store.clone(), to.to_owned(), layout);
    run(&CopyJob { tuning, force: true, ..CopyJob::new(Source::Local(from.to_owned()), sink) }, &Quiet).map(|_| ())
}

fn copy_out(store: &Store, from: &str, to: &Path, tuning: Tuning) -> Result<(), Error> {
    let source = Source::Store(store.clone(), from.to_owned());
    run(&CopyJob { tuning, force: true, ..CopyJob::new(source, Sink::Local(to.to_owned())) }, &Quiet).map(|_| ())
}

fn tunings() -> Vec<Tuning> {
    let base = Tuning::default();
    vec![
        base.clone(),
        Tuning { request_bytes: Some(1 << 20), requests: Some(1), buffer_bytes: Some(200_000), ..base.clone() },
        Tuning {
            request_bytes: Some(333_333),
            requests: Some(3),
            buffer_bytes: Some(4096 * 3),
            depth: Some(1),
            streams: Some(2),
            ..base.clone()
        },
        Tuning {
            data_path: DataPath::Direct,
            request_bytes: Some(700_001),
            buffer_bytes: Some(65_537),
            depth: Some(7),
            streams: Some(3),
            ..base
        },
    ]
}

fn file_of(dir: &Path, bytes: &[u8]) -> PathBuf {
    let path = dir.join("source");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn what_goes_in_comes_out() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 3, 2);
    let (store, names) = loopback::store(&servers.map, PATIENCE);
    let layouts = [
        choice("basic_dist", None),
        choice("simple_stripe", None),
        choice("simple_stripe,strip_size=4096", Some(5)),
        choice("simple_stripe,strip_size=1048576", Some(3)),
        choice("twod_stripe,num_groups=2,strip_size=10000,group_strip_factor=3", Some(5)),
        choice("varstrip_dist,strips=0:2K;1:1K;2:100K;0:1K", None),
    ];
    let sizes = [0, 1, 4095, 65_536, 1_000_003, 1 << 20, (1 << 20) + 1, 5_242_881];
    let out = dir.path().join("out");
    for (n, layout) in layouts.iter().enumerate() {
        for size in sizes {
            let bytes = loopback::noise(size, n as u64 + 1);
            let source = file_of(dir.path(), &bytes);
            for (t, tuning) in tunings().iter().enumerate() {
                let name = format!("/l{n}");
                copy_in(&store, &source, &name, layout.clone(), tuning.clone()).unwrap();
                assert_eq!(store.open(&name).unwrap().size().unwrap(), size as u64);
                copy_out(&store, &name, &out, tuning.clone()).unwrap();
                assert!(std::fs::read(&out).unwrap() == bytes, "layout {n}, {size} bytes, tuning {t}");
            }
        }
    }
    assert_eq!(names.list(), ["/l0", "/l1", "/l2", "/l3", "/l4", "/l5"], "nothing partial is left");
}

#[test]
fn memory_and_null_are_ends_too() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 2, 1);
    let (store, _) = loopback::store(&servers.map, PATIENCE);
    for (n, tuning) in tunings().into_iter().enumerate() {
        let path = format!("/m{n}");
        let sink = Sink::Store(store.clone(), path.clone(), LayoutChoice::default());
        run(&CopyJob { tuning: tuning.clone(), ..CopyJob::new(Source::Memory(3_000_001), sink) }, &Quiet).unwrap();
        let source = Source::Store(store.clone(), path.clone());
        let outcome = run(&CopyJob { tuning, ..CopyJob::new(source, Sink::Null) }, &Quiet).unwrap();
        assert_eq!(outcome.size_bytes, 3_000_001);
        let mut bytes = vec![0; 3_000_001];
        assert_eq!(store.open(&path).unwrap().read_at(&mut bytes, 0).unwrap(), 3_000_001);
        assert_eq!(bytes[..1000], bytes[1 << 20..(1 << 20) + 1000], "the pattern repeats");
    }
}

#[test]
fn parameters_can_be_turned_while_a_copy_runs() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 2, 1);
    let (store, _) = loopback::store(&servers.map, PATIENCE);
    let sink = Sink::Store(store.clone(), "/turned".into(), LayoutChoice::default());
    let tuning = Tuning { request_bytes: Some(1 << 20), requests: Some(1), ..Tuning::default() };
    let job = CopyJob { tuning, ..CopyJob::new(Source::Memory(200 << 20), sink) };
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turns = 0_u64;
            while !over.load(std::sync::atomic::Ordering::SeqCst) {
                turns += 1;
                job.control.set("requests", 1 + turns % 5).unwrap();
                job.control.set("depth", 1 + turns % 7).unwrap();
                job.control.set("streams", 1 + turns % 5).unwrap();
                job.control.set("buffer", 4096 + turns * 4099 % 900_000).unwrap();
                std::thread::yield_now();
            }
        });
        let outcome = run(&job, &Quiet);
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(outcome.unwrap().size_bytes, 200 << 20);
    });
    assert_eq!(job.control.moved_bytes(), 200 << 20);
    let (mut all, mut first) = (vec![0; 200 << 20], vec![0; 1 << 20]);
    let file = store.open("/turned").unwrap();
    file.read_at(&mut all, 0).unwrap();
    file.read_at(&mut first, 0).unwrap();
    assert!(all.chunks(1 << 20).all(|part| part == first), "the pattern repeats");
}

#[test]
fn between_two_stores() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, second) = (loopback::servers(a.path(), 2, 1), loopback::servers(b.path(), 3, 1));
    let ((from, _), (to, _)) = (loopback::store(&first.map, PATIENCE), loopback::store(&second.map, PATIENCE));
    let bytes = loopback::noise(7_000_000, 3);
    copy_in(&from, &file_of(a.path(), &bytes), "/x", LayoutChoice::default(), Tuning::default()).unwrap();
    let sink = Sink::Store(to.clone(), "/y".into(), choice("simple_stripe,strip_size=12345", None));
    let tuning = Tuning { request_bytes: Some(1_000_000), requests: Some(3), ..Tuning::default() };
    run(&CopyJob { tuning, sync: true, ..CopyJob::new(Source::Store(from, "/x".into()), sink) }, &Quiet).unwrap();
    let mut back = vec![0; bytes.len()];
    to.open("/y").unwrap().read_at(&mut back, 0).unwrap();
    assert!(back == bytes);
}

#[test]
fn holes_stay_holes_and_read_as_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 3, 1);
    let (store, _) = loopback::store(&servers.map, PATIENCE);
    let file = store
        .create("/holes", 0o644, thalweg_wire::protocol::metadata::Existing::Refuse, &choice("simple_stripe,strip_size=1000", None))
        .unwrap();
    file.write_at(b"end", 5_000_000).unwrap();
    file.write_at(b"begin", 10).unwrap();
    file.sync().unwrap();
    assert_eq!(file.size().unwrap(), 5_000_003);
    let mut expected = vec![0; 5_000_003];
    expected[10..15].copy_from_slice(b"begin");
    expected[5_000_000..].copy_from_slice(b"end");
    let mut bytes = vec![1; 5_000_003];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 5_000_003);
    assert!(bytes == expected);
    for tuning in tunings() {
        let out = dir.path().join("out");
        copy_out(&store, "/holes", &out, tuning).unwrap();
        assert!(std::fs::read(&out).unwrap() == expected);
    }
}

#[test]
fn an_existing_file_is_replaced_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 2, 1);
    let (store, names) = loopback::store(&servers.map, PATIENCE);
    for size in [10, 3_000_000] {
        let source = file_of(dir.path(), &loopback::noise(size, 1));
        let job = |force| {
            let sink = Sink::Store(store.clone(), "/f".into(), LayoutChoice::default());
            CopyJob { force, ..CopyJob::new(Source::Local(source.clone()), sink) }
        };
        run(&job(true), &Quiet).unwrap();
        let error = run(&job(false), &Quiet).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Exists, Some("/f")), "{error}");
        run(&job(true), &Quiet).unwrap();
        assert_eq!(names.list(), ["/f"]);
    }
}

#[test]
fn what_has_no_bytes_of_its_own_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    let (store, names) = loopback::store(&servers.map, PATIENCE);
    let cases = [(dir.path().to_owned(), ErrorKind::IsDirectory), (dir.path().join("missing"), ErrorKind::NotFound)];
    for (path, kind) in cases {
        let error = copy_in(&store, &path, "/f", LayoutChoice::default(), Tuning::default()).unwrap_err();
        assert_eq!((error.kind(), error.file()), (kind, path.to_str()), "{error}");
    }
    assert!(names.list().is_empty());
}

#[test]
fn senseless_parameters_are_refused_with_their_name() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    let (store, _) = loopback::store(&servers.map, PATIENCE);
    let source = file_of(dir.path(), b"abc");
    let base = Tuning::default;
    let cases = [
        ("request", Tuning { request_bytes: Some(0), ..base() }),
        ("requests", Tuning { requests: Some(0), ..base() }),
        ("buffer", Tuning { buffer_bytes: Some(0), ..base() }),
        ("buffer", Tuning { buffer_bytes: Some(1 << 40), ..base() }),
        ("depth", Tuning { depth: Some(100_000), ..base() }),
        ("streams", Tuning { streams: Some(0), ..base() }),
    ];
    for (name, tuning) in cases {
        let error = copy_in(&store, &source, "/f", LayoutChoice::default(), tuning).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.message().starts_with(name), "{error}");
    }
}
