//! Several metadata services on one database: one is active, and when it fails another takes over, while clients wait and continue.

use crate::bounded::{BoundedChild, LIMIT, Lines};
use crate::postgresql::Server;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg_client::metadata::MetadataClient;
use thalweg_store::config::{StoreAddress, StoreConfig};
use thalweg_store::start::{StartOptions, UpOptions, serve, stand_by, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::metadata::{End, Existing, FilePath, LayoutChoice, Owner, SetAttributes, Small};

const OWNER: Owner = Owner { mode: 0o644, uid: 1, gid: 2 };
/// Names to the restarted test program the metadata service to run, and its store.
const SERVES: &str = "THALWEG_TEST_METADATA_SERVICE";
/// The address of the database, if it differs from the one in the file.
const DATABASE: &str = "THALWEG_TEST_METADATA_DATABASE";
/// Time limits of a takeover: after a kill, and after silence. (On an idle machine, 1 s and 11 s.)
const AFTER_KILL: Duration = Duration::from_secs(5);
const AFTER_SILENCE: Duration = Duration::from_secs(15);

/// The other process: this test program again, running only this test.
#[test]
fn one_of_several_services_runs_until_it_is_killed() {
    let Ok(said) = std::env::var(SERVES) else { return };
    let (name, path) = said.split_once(' ').unwrap();
    let mut config = StoreConfig::read(Path::new(path)).unwrap();
    config.metadata.database = std::env::var(DATABASE).ok().or(config.metadata.database);
    let beyond_loopback = !config.metadata.address.starts_with("127.");
    let mut options = StartOptions { beyond_loopback, ..StartOptions::default() };
    let ended = std::sync::Arc::new(AtomicBool::new(false));
    let store = loop {
        match serve(&config, name, options) {
            Err(error) if error.kind() == ErrorKind::Busy => println!("standing by: {error}"),
            other => break other.unwrap(),
        }
        options.take_over = stand_by(&config, &|| false).unwrap();
    };
    println!("serving");
    let notify = std::sync::Arc::clone(&ended);
    store.on_failure(move || notify.store(true, Ordering::SeqCst));
    while !ended.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("ended: {}", store.stop().unwrap_err());
}

/// A metadata service in a separate process, killed when dropped.
pub(super) struct Service(Child, Lines);

impl Service {
    pub(super) fn start(name: &str, config: &Path) -> Service {
        Service::start_in(None, name, config, None)
    }

    /// Starts a service with the database at another address than in the file.
    pub(super) fn start_on(name: &str, config: &Path, database: Option<&str>) -> Service {
        Service::start_in(None, name, config, database)
    }

    /// Starts a service in a network namespace.
    pub(super) fn start_in(namespace: Option<&str>, name: &str, config: &Path, database: Option<&str>) -> Service {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(namespace.map_or(program.as_os_str(), |_| "ip".as_ref()));
        if let Some(namespace) = namespace {
            // (`ip` executes the program in its own place.)
            command.args(["netns", "exec", namespace]).arg(&program);
        }
        let mut child = command
            .envs(database.map(|address| (DATABASE, address)))
            .args(["--exact", "metadata::failover::one_of_several_services_runs_until_it_is_killed", "--nocapture"])
            .env(SERVES, format!("{name} {}", config.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Lines::new(child.stdout.take().unwrap());
        Service(child, lines)
    }

    /// Waits for this output.
    #[track_caller]
    pub(super) fn says(&mut self, what: &str) -> String {
        let lines = &mut self.1;
        let said = std::iter::from_fn(|| lines.next(LIMIT).ok()).take(100).find(|line| line.contains(what));
        said.unwrap_or_else(|| panic!("it did not say `{what}`"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id().cast_signed()).unwrap(), signal).unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_in_time(LIMIT);
    }
}

/// Creates a store whose names are in PostgreSQL, with a second metadata service.
pub(super) fn store_on(server: &Server, directory: &Path) -> StoreConfig {
    let options =
        UpOptions { servers: Some(1), node: Some("n0".into()), database: Some(server.address("names")), ..UpOptions::new([directory]) };
    // Held while the servers choose their ports, so that all differ.
    let standby = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let made = up(&options).unwrap();
    let mut config = made.config().clone();
    made.stop().unwrap();
    config.metadata.standby = vec![standby.local_addr().unwrap().to_string()];
    config.write().unwrap();
    StoreConfig::read(&config.path).unwrap()
}

pub(super) fn connect(config: &StoreConfig) -> MetadataClient {
    connect_within(config, Connect::default().timeout)
}

/// Connects with this timeout for a silent service.
pub(super) fn connect_within(config: &StoreConfig, timeout: Duration) -> MetadataClient {
    let address = StoreAddress::File(config.path.clone());
    let (service, credentials) = (address.service().unwrap(), address.credentials(None).unwrap());
    assert!(service.contains(','), "{service}");
    MetadataClient::connect(&mut Tracer::off(), &service, &Connect { credentials, timeout, ..Connect::default() }).unwrap()
}

pub(super) fn make(names: &MetadataClient, path: &str) -> thalweg_wire::Result<()> {
    let choice = LayoutChoice::default();
    names.make_file(&mut Tracer::off(), &FilePath::at(path), OWNER, Existing::Refuse, &choice).map(drop)
}

/// Creates a name while the active service is unreachable: the standby answers in time.
pub(super) fn is_followed_in_silence(names: &MetadataClient, path: &str, standby: &mut Service) {
    let begun = Instant::now();
    make(names, path).unwrap();
    let took = begun.elapsed();
    println!("the next name after {took:?}");
    assert!(took < AFTER_SILENCE, "{took:?}");
    standby.says("serving");
}

pub(super) fn names_of(names: &MetadataClient) -> Vec<String> {
    let entries = names.entries(&mut Tracer::off(), &FilePath::at("/"), false).unwrap();
    entries.into_iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()).collect()
}

#[test]
fn another_service_takes_over_within_seconds_of_a_kill_and_no_answered_name_is_lost() {
    let Some(server) = Server::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let config = store_on(&server, directory.path());
    let mut active = Service::start("metadata", &config.path);
    active.says("serving");
    let mut standby = Service::start("standby1", &config.path);
    let said = standby.says("standing by");
    assert!(said.contains("in use by another metadata service, metadata on "), "{said}");
    let names = connect(&config);
    let mut made = 0;
    for round in 0..3 {
        for _ in 0..50 {
            make(&names, &format!("/{made:06}")).unwrap();
            made += 1;
        }
        let begun = Instant::now();
        active.signal(Signal::KILL);
        active.0.wait_in_time(LIMIT).unwrap();
        // The client waits, and continues.
        make(&names, &format!("/{made:06}")).unwrap();
        made += 1;
        let took = begun.elapsed();
        println!("took over after {took:?}");
        assert!(took < AFTER_KILL, "round {round}: {took:?}");
        standby.says("serving");
        active = std::mem::replace(&mut standby, Service::start(["metadata", "standby1"][round % 2], &config.path));
        standby.says("standing by");
        assert!(names_of(&names).iter().enumerate().all(|(at, name)| *name == format!("{at:06}")));
        assert_eq!(names_of(&names).len(), made, "round {round}");
    }
}

#[test]
fn another_service_takes_over_from_a_silent_one_which_then_answers_nothing() {
    let Some(server) = Server::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let config = store_on(&server, directory.path());
    let mut active = Service::start("metadata", &config.path);
    active.says("serving");
    let first = connect(&config);
    make(&first, "/before").unwrap();
    let mut standby = Service::start("standby1", &config.path);
    standby.says("standing by");
    active.signal(Signal::STOP);
    let begun = Instant::now();
    let second = connect(&config);
    make(&second, "/after").unwrap();
    let took = begun.elapsed();
    println!("took over after {took:?}");
    assert!(took < AFTER_SILENCE, "{took:?}");
    active.signal(Signal::CONT);
    // A late request to it is refused, or goes to the other service.
    let _ = make(&first, "/late");
    let ended = active.says("ended");
    assert!(ended.contains("another metadata service has taken over"), "{ended}");
    let found = names_of(&second);
    assert!(found.contains(&"before".to_owned()) && found.contains(&"after".to_owned()), "{found:?}");
    make(&first, "/again").unwrap();
    assert_eq!(names_of(&first), names_of(&second));
}

/// One round of a client's requests; each fails if it is executed twice or not at all.
fn one_lap(names: &MetadataClient, above: &str, lap: usize, progress: &AtomicUsize) {
    let (off, choice) = (&mut Tracer::off(), LayoutChoice::default());
    let at = |name: &str| FilePath::at(format!("{above}/{lap:04}{name}"));
    let set = SetAttributes::default();
    let done = || progress.fetch_add(1, Ordering::SeqCst);
    names.make_directory(off, &at(""), OWNER, false).unwrap();
    done();
    names.make_file(off, &at("/f"), OWNER, Existing::Refuse, &choice).unwrap();
    done();
    names.link(off, &at("/f"), &at("/g")).unwrap();
    done();
    names.rename(off, &at("/f"), &at("/h"), false, &set).unwrap();
    done();
    names.unlink(off, &at("/g")).unwrap();
    done();
    names.make_directory(off, &at("/d"), OWNER, false).unwrap();
    done();
    names.remove_directory(off, &at("/d")).unwrap();
    done();
    names.create(off, &at("/o"), OWNER, Existing::Refuse, &choice).unwrap().ended(End::Read);
    done();
    let files = |n| Small::MakeFile(names.new_file(at(&format!("/m{n:02}")), OWNER, Existing::Refuse, &choice));
    let files: Vec<Small> = (0..40).map(files).collect();
    names.many(off, &files, Vec::new()).into_iter().for_each(|done| drop(done.unwrap()));
    done();
}

/// Runs clients while services are killed: `next` kills the active one, and ensures that another serves.
pub(super) fn works_on(connect: impl Fn() -> MetadataClient + Sync, kills: usize, mut next: impl FnMut()) {
    const CLIENTS: usize = 3;
    let (progress, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (connect, progress, is_over) = (&connect, &progress, &is_over);
                scope.spawn(move || {
                    let (names, above) = (connect(), format!("/client{client}"));
                    names.make_directory(&mut Tracer::off(), &FilePath::at(above.as_str()), OWNER, false).unwrap();
                    let mut laps = 0;
                    while !is_over.load(Ordering::SeqCst) {
                        one_lap(&names, &above, laps, progress);
                        laps += 1;
                    }
                    laps
                })
            })
            .collect();
        for kill in 0..kills {
            let (begun, from) = (Instant::now(), progress.load(Ordering::SeqCst));
            while progress.load(Ordering::SeqCst) < from + 60 + 7 * kill && begun.elapsed() < LIMIT {
                assert!(clients.iter().all(|client| !client.is_finished()), "a client has met with an error");
                std::thread::yield_now();
            }
            next();
        }
        is_over.store(true, Ordering::SeqCst);
        let names = connect();
        for (client, worker) in clients.into_iter().enumerate() {
            let laps = worker.join().unwrap();
            let above = FilePath::at(format!("/client{client}"));
            assert_eq!(names.entries(&mut Tracer::off(), &above, false).unwrap().len(), laps);
            for lap in 0..laps {
                let found = names.entries(&mut Tracer::off(), &FilePath::at(format!("/client{client}/{lap:04}")), true).unwrap();
                assert_eq!(found.len(), 42, "{found:?}");
                assert!(found.iter().all(|entry| entry.attributes.as_ref().unwrap().links == 1));
            }
        }
    });
}

#[test]
fn changes_in_flight_when_services_are_killed_are_done_once_by_the_next_one() {
    let Some(server) = Server::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let config = store_on(&server, directory.path());
    let mut active = Service::start("metadata", &config.path);
    active.says("serving");
    let mut standby = Service::start("standby1", &config.path);
    standby.says("standing by");
    let mut kills = 0;
    works_on(
        || connect(&config),
        6,
        || {
            active.signal(Signal::KILL);
            active.0.wait_in_time(LIMIT).unwrap();
            standby.says("serving");
            active = std::mem::replace(&mut standby, Service::start(["metadata", "standby1"][kills % 2], &config.path));
            standby.says("standing by");
            kills += 1;
        },
    );
}

#[test]
fn changes_in_flight_when_the_only_service_is_killed_are_done_once_when_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let made = up(&UpOptions { servers: Some(1), node: Some("n0".into()), ..UpOptions::new([directory.path()]) }).unwrap();
    let config = made.config().clone();
    made.stop().unwrap();
    let mut active = Service::start("metadata", &config.path);
    active.says("serving");
    let address = StoreAddress::File(config.path.clone());
    let (service, credentials) = (address.service().unwrap(), address.credentials(None).unwrap());
    let patient = Connect { credentials, refused: LIMIT, ..Connect::default() };
    works_on(
        || MetadataClient::connect(&mut Tracer::off(), &service, &patient).unwrap(),
        6,
        || {
            active.signal(Signal::KILL);
            active.0.wait_in_time(LIMIT).unwrap();
            active = Service::start("metadata", &config.path);
            active.says("serving");
        },
    );
}
