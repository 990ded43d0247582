//! The metadata service in a separate process, killed at work.

use crate::bounded::{BoundedChild, LIMIT, Lines, heard};
use crate::loopback::SmallDisk;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thalweg_client::locks::{Cancel, Wait};
use thalweg_client::metadata::MetadataClient;
use thalweg_store::config::{StoreConfig, StorePath};
use thalweg_store::start::{StartOptions, serve};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::locks::{LockKind, LockRange, LockRequest, LockSpace};
use thalweg_wire::protocol::metadata::{Detail, Existing, FileId, FileKind, FilePath, LayoutChoice, Owner, SetAttributes, SetExtended};
use thalweg_wire::trust::Credentials;

const OWNER: Owner = Owner { mode: 0o644, uid: 1, gid: 2 };
/// Makes the restarted test program run the service.
const SERVED: &str = "THALWEG_TEST_SERVES";

/// The other process: this test program again, running only this test.
#[test]
fn the_service_runs_until_it_is_killed() {
    let Ok(path) = std::env::var(SERVED) else { return };
    let config = StoreConfig::read(Path::new(&path)).unwrap();
    let store = serve(&config, "metadata", StartOptions { initialise: true, ..StartOptions::default() }).unwrap();
    println!("serving {}", store.listens("metadata").unwrap());
    loop {
        std::thread::park();
    }
}

/// A service in a separate process, killed when dropped.
pub(super) struct Served(Child, #[expect(dead_code, reason = "keeps the pipe open")] Lines);

impl Served {
    pub(super) fn start(config: &Path) -> Served {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .args(["--exact", "metadata::process::the_service_runs_until_it_is_killed", "--nocapture"])
            .env(SERVED, config)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = Lines::new(child.stdout.take().unwrap());
        let ready = std::iter::from_fn(|| lines.next(LIMIT).ok()).take(100).any(|line| line.contains("serving "));
        assert!(ready, "the service did not start: {:?}", child.wait_in_time(LIMIT));
        // It writes to the pipe again if it fails.
        Served(child, lines)
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.0.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(super) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait_in_time(LIMIT).unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_in_time(LIMIT);
    }
}

/// Writes a `store.toml` whose I/O server is never started: the metadata service starts without it.
fn store_file(directory: &Path) -> std::path::PathBuf {
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (metadata, io) = {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        (taken.local_addr().unwrap(), free())
    };
    let path = directory.join("store.toml");
    let text = format!(
        "store = \"00000000000000aa\"\n[metadata]\naddress = \"{metadata}\"\ndirectory = \"metadata\"\n[[servers]]\nname = \"io0\"\naddress = \"{io}\"\ntargets = [\"t0\"]\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn connect(config: &Path) -> MetadataClient {
    let StoreConfig { metadata, credential, .. } = StoreConfig::read(config).unwrap();
    let address = metadata.address;
    assert!(StorePath::parse(&format!("thal://{address}/")).unwrap().is_some());
    let options = Connect { timeout: Duration::from_secs(20), credentials: Credentials::file(credential), ..Connect::default() };
    MetadataClient::connect(&mut Tracer::off(), &address, &options).unwrap()
}

#[test]
fn every_acknowledged_name_is_there_after_the_service_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let config = store_file(directory.path());
    let mut acknowledged: Vec<Vec<usize>> = vec![Vec::new(); 3];
    for round in 1..4 {
        let service = Served::start(&config);
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for (thread, names) in acknowledged.iter_mut().enumerate() {
                let (config, made) = (&config, &made);
                scope.spawn(move || {
                    let client = connect(config);
                    for i in names.last().map_or(0, |last| last + 2).. {
                        let (draft, name) = (FilePath::at(format!("/{thread}-{i}.partial")), FilePath::at(format!("/{thread}-{i}")));
                        let tracer = &mut Tracer::off();
                        let done = client
                            .create(tracer, &draft, OWNER, Existing::Refuse, &LayoutChoice::default())
                            .and_then(|_| client.rename(tracer, &draft, &name, false, &SetAttributes::default()));
                        if let Err(error) = done {
                            assert!(matches!(error.kind(), ErrorKind::Reset | ErrorKind::Refused), "{error}");
                            return;
                        }
                        names.push(i);
                        made.fetch_add(1, Ordering::Release);
                    }
                });
            }
            // Killed while the threads are at work.
            while made.load(Ordering::Acquire) < 100 * round {
                std::thread::yield_now();
            }
            service.kill();
        });
    }
    let _service = Served::start(&config);
    let listed = connect(&config).entries(&mut Tracer::off(), &FilePath::at("/"), true).unwrap();
    let there: std::collections::BTreeSet<String> = listed.into_iter().map(|e| String::from_utf8(e.name.into_bytes()).unwrap()).collect();
    for (thread, names) in acknowledged.iter().enumerate() {
        for i in names {
            assert!(there.contains(&format!("{thread}-{i}")), "{thread}-{i} was acknowledged");
            assert!(!there.contains(&format!("{thread}-{i}.partial")), "a rename leaves one name");
        }
    }
}

#[test]
fn a_client_goes_on_when_the_service_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let config = store_file(directory.path());
    let service = Served::start(&config);
    let client = connect(&config);
    let tracer = &mut Tracer::off();
    let file = client.create(tracer, &FilePath::at("/f"), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap();
    service.kill();
    let error = client.stat(tracer, &FilePath::at("/f")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Refused | ErrorKind::Reset), "{error}");
    let service = Served::start(&config);
    assert_eq!(client.stat(tracer, &FilePath::at("/f")).unwrap().id, file.id());
    // Files open here are reported open to the new service with the new connection.
    let open = |many: u64| {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while client.status(&mut Tracer::off()).unwrap().open_files != many {
            assert!(std::time::Instant::now() < until, "{many} open files");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    open(1);
    client.unlink(tracer, &FilePath::at("/f")).unwrap();
    drop(file);
    open(0);
    // A killed process on a machine that stays up loses nothing.
    client.sync(tracer).unwrap();
    drop(service);
}

#[test]
fn links_attributes_and_orphans_are_there_after_the_service_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let config = store_file(directory.path());
    let mut service = Served::start(&config);
    let client = connect(&config);
    let tracer = &mut Tracer::off();
    let at = |path: &str| FilePath::at(path);
    client.make_symlink(tracer, &at("/link"), b"some/where", OWNER).unwrap();
    client.make_special(tracer, &at("/pipe"), FileKind::Fifo, 0, OWNER).unwrap();
    let made = client.make_file(tracer, &at("/f"), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap();
    client.link(tracer, &at("/f"), &at("/g")).unwrap();
    client.set_extended(tracer, &at("/g"), b"user.a", &[7; 5000], SetExtended::Create).unwrap();
    client.exchange(tracer, &at("/link"), &at("/pipe")).unwrap();
    let open = client.open(tracer, &at("/g"), false).unwrap();
    for round in 0..3 {
        service.kill();
        service = Served::start(&config);
        assert_eq!(client.read_symlink(tracer, &at("/pipe")).unwrap(), b"some/where");
        assert_eq!(client.stat(tracer, &at("/link")).unwrap().kind, FileKind::Fifo);
        assert_eq!(client.get_extended(tracer, &FilePath::of(made.id), b"user.a").unwrap(), Some(vec![7; 5000]));
        assert_eq!(client.stat(tracer, &FilePath::of(made.id)).unwrap().links, 2 - round);
        if round < 2 {
            client.unlink(tracer, &at(["/f", "/g"][round as usize])).unwrap();
        }
    }
    // Its I/O server never runs: the intent to remove it stays, and so does the number.
    drop(open);
    assert_eq!(client.status(tracer).unwrap().pending_intents, 1);
    assert_eq!(client.open(tracer, &at("/g"), false).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn locks_outlive_a_killed_service_and_die_with_their_client() {
    let directory = tempfile::tempdir().unwrap();
    let config = store_file(directory.path());
    let service = Served::start(&config);
    let client = connect(&config);
    let (holder, other) = (client.locks(), client.locks());
    let tracer = &mut Tracer::off();
    let range = LockRange::whole(FileId(9), LockSpace::Flock, 1);
    let request = LockRequest { range, kind: LockKind::Exclusive, pid: 1 };
    holder.lock(tracer, &request, Wait::No).unwrap();
    service.kill();
    let service = Served::start(&config);
    assert_eq!(other.lock(tracer, &request, Wait::No).unwrap_err().kind(), ErrorKind::WouldBlock);
    holder.check(FileId(9)).unwrap();
    drop(holder);
    other.lock(tracer, &request, Wait::Until(&Cancel::new())).unwrap();
    // Killed again, with clients that will not return: the others do not wait for them.
    drop(other);
    service.kill();
    let _service = Served::start(&config);
    client.locks().lock(tracer, &request, Wait::Until(&Cancel::new())).unwrap();
}

#[test]
fn speaking_garbage_harms_nobody() {
    use std::io::Write;
    let directory = tempfile::tempdir().unwrap();
    let config = store_file(directory.path());
    let _service = Served::start(&config);
    let client = connect(&config);
    let address = StoreConfig::read(&config).unwrap().metadata.address;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0xff; 4096]] {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        // Answered or closed, but not left waiting.
        heard(&mut stream);
    }
    let long = FilePath::at(vec![b'x'; 300]);
    assert_eq!(client.stat(&mut Tracer::off(), &long).unwrap_err().kind(), ErrorKind::NameTooLong);
    assert_eq!(client.stat(&mut Tracer::off(), &FilePath::at("/../etc")).unwrap_err().kind(), ErrorKind::Invalid);
    client.stat(&mut Tracer::off(), &FilePath::at("/")).unwrap();
}

#[test]
fn a_service_whose_database_is_damaged_under_it_says_so_and_stops() {
    use std::os::unix::fs::FileExt;
    let directory = tempfile::tempdir().unwrap();
    let config = StoreConfig::read(&store_file(directory.path())).unwrap();
    let start = || serve(&config, "metadata", StartOptions { initialise: true, ..StartOptions::default() }).unwrap();
    let name = |i: u32| FilePath::at(format!("/f{i}"));
    let tracer = &mut Tracer::off();
    let store = start();
    let client = connect(&config.path);
    for i in 0..200 {
        client.make_file(tracer, &name(i), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap();
    }
    store.stop().unwrap();
    let path = config.metadata.directory.join("metadata.redb");
    // The checksums were right when it started.
    for byte in [0, 2, 0xff] {
        let store = start();
        let (notify, notified) = std::sync::mpsc::channel();
        store.on_failure(move || _ = notify.send(()));
        let client = connect(&config.path);
        let good = std::fs::read(&path).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&vec![byte; good.len() - 4096], 4096).unwrap();
        let error = client.stat(tracer, &name(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.message().contains("panic") && error.message().contains("start it again"), "{error}");
        notified.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(client.stat(tracer, &name(1)).unwrap_err(), store.failure().unwrap());
        assert_eq!(store.stop().unwrap_err(), error, "the waiter gets the reason");
        let refused = serve(&config, "metadata", StartOptions::default()).err().unwrap().to_string();
        assert!(refused.contains("metadata.redb") && refused.contains("put back a copy"), "{refused}");
        std::fs::write(&path, &good).unwrap();
    }
    let store = start();
    let client = connect(&config.path);
    (0..200).for_each(|i| drop(client.stat(tracer, &name(i)).unwrap()));
    store.stop().unwrap();
}

#[test]
fn a_service_whose_disk_is_full_starts_for_reading_and_removing_also_after_a_kill_and_goes_on_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&directory.path().join("disk"), "6m") else {
        return println!("SKIPPED: mounting a small file system needs root");
    };
    let config = store_file(&disk.path);
    let tracer = &mut Tracer::off();
    let owner = Owner { mode: 0o755, ..OWNER };
    let place = |i: usize| FilePath::at(format!("/d{i}"));
    let service = Served::start(&config);
    let client = connect(&config);
    (0..60).for_each(|i| drop(client.make_directory(tracer, &place(i), owner, false).unwrap()));
    let mut there = 60;
    let filler = disk.fill();
    // The disk fills while it runs: creating fails, removing works.
    let made = (100..200).find_map(|i| client.make_directory(tracer, &place(i), owner, false).err());
    assert_eq!(made.expect("there is no room").kind(), ErrorKind::NoSpace);
    there -= 1;
    client.remove_directory(tracer, &place(there)).unwrap();
    service.kill();
    for _ in 0..3 {
        return_to(&config, &disk, &mut there);
    }
    std::fs::remove_file(filler).unwrap();
    let service = Served::start(&config);
    let client = connect(&config);
    client.make_directory(tracer, &place(500), owner, false).unwrap();
    assert!(client.stat(tracer, &place(there - 1)).is_ok() && client.stat(tracer, &place(there)).is_err());
    service.kill();
}

/// Starts a service on a full disk, reads, removes, and kills it.
fn return_to(config: &Path, disk: &SmallDisk, there: &mut usize) {
    disk.fill();
    let service = Served::start(config);
    let (client, tracer) = (connect(config), &mut Tracer::off());
    let root = client.list(tracer, &FilePath::at("/"), None, 1000, Detail::Names).unwrap();
    assert!(root.0.len() >= *there, "{} of {there}", root.0.len());
    let error = client.make_directory(tracer, &FilePath::at("/new"), OWNER, false).unwrap_err();
    assert!(error.kind() == ErrorKind::NoSpace && error.message().contains("can only be read and removed"), "{error}");
    for _ in 0..10 {
        *there -= 1;
        client.remove_directory(tracer, &FilePath::at(format!("/d{there}"))).unwrap();
    }
    service.kill();
    drop(client);
}
