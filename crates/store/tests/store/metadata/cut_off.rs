//! Loss of PostgreSQL or of the connection to it: a primary fails and its standby is promoted, or a metadata service is cut off from its
//! database.

use super::failover::{Service, connect_within, is_followed_in_silence, make, names_of, store_on};
use super::in_postgresql::options;
use crate::postgresql::Server;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_client::metadata::MetadataClient;
use thalweg_store::start::{RunningStore, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::ErrorKind;

/// A proxy to PostgreSQL that can be cut: then it passes nothing in either direction, and closes nothing.
struct Way {
    directory: tempfile::TempDir,
    is_cut: Arc<AtomicBool>,
}

impl Way {
    fn to(server: &Server) -> Way {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(socket_in(directory.path())).unwrap();
        let (far, is_cut) = (socket_in(server.socket()), Arc::new(AtomicBool::new(false)));
        let cut = Arc::clone(&is_cut);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = UnixStream::connect(&far) else { continue };
                for (from, to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    let cut = Arc::clone(&cut);
                    std::thread::spawn(move || carry(from, to, &cut));
                }
            }
        });
        Way { directory, is_cut }
    }

    fn address(&self, database: &str) -> String {
        format!("postgresql:///{database}?host={}&user=thalweg", self.directory.path().display())
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join(".s.PGSQL.5432")
}

/// Copies bytes until an end is closed; once cut, holds both open.
fn carry(mut from: UnixStream, mut to: UnixStream, is_cut: &AtomicBool) {
    let mut bytes = [0; 1 << 16];
    while let Ok(many @ 1..) = from.read(&mut bytes) {
        while is_cut.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if to.write_all(&bytes[..many]).is_err() {
            break;
        }
    }
    while is_cut.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_service_that_is_cut_off_from_its_database_is_followed_by_another_and_nothing_answered_is_lost() {
    let Some(server) = Server::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let config = store_on(&server, directory.path());
    let way = Way::to(&server);
    let mut active = Service::start_on("metadata", &config.path, Some(&way.address("names")));
    active.says("serving");
    let mut standby = Service::start("standby1", &config.path);
    standby.says("standing by");
    // Then a call in progress waits for the service first.
    let names = connect_within(&config, Duration::from_secs(5));
    for number in 0..50 {
        make(&names, &format!("/{number:06}")).unwrap();
    }
    way.cut();
    is_followed_in_silence(&names, "/after", &mut standby);
    assert_eq!(make(&names, "/after").unwrap_err().kind(), ErrorKind::Exists);
    let found = names_of(&names);
    assert_eq!((found.len(), found[49].as_str(), found[50].as_str()), (51, "000049", "after"));
    // Messages in flight at that time change nothing later, and the service that sent them ends.
    way.mend();
    active.says("ended: ");
    assert_eq!(names_of(&names).len(), 51);
}

fn client_of(store: &RunningStore) -> MetadataClient {
    let connect = Connect { timeout: Duration::from_secs(40), ..Connect::default() };
    MetadataClient::connect(&mut Tracer::off(), &store.address().service().unwrap(), &connect).unwrap()
}

#[test]
fn a_standby_that_is_promoted_when_its_primary_is_gone_is_one_longer_pause() {
    let Some(mut primary) = Server::start() else { return };
    let standby = primary.standby();
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), primary.address_of_both(&standby, "names"))).unwrap();
    let names = client_of(&store);
    for number in 0..200 {
        make(&names, &format!("/{number:06}")).unwrap();
        if number == 100 {
            names.sync(&mut Tracer::off()).unwrap();
        }
    }
    primary.kill();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| make(&names, "/after"));
        std::thread::sleep(Duration::from_secs(1));
        standby.promote();
        waits.join().unwrap().unwrap();
    });
    for number in 200..250 {
        make(&names, &format!("/{number:06}")).unwrap();
    }
    names.sync(&mut Tracer::off()).unwrap();
    assert_eq!(names_of(&names).len(), 251);
    drop(names);
    store.stop().unwrap();
    // All of it is in the promoted database, and not only in the service's memory.
    let store = up(&options(directory.path(), standby.address("names"))).unwrap();
    assert_eq!(names_of(&client_of(&store)).len(), 251);
    store.stop().unwrap();
}

#[test]
fn a_promoted_standby_that_has_lost_synced_names_is_refused_and_the_sentence_says_so() {
    let Some(mut primary) = Server::start() else { return };
    let mut standby = primary.standby();
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), primary.address_of_both(&standby, "names"))).unwrap();
    let names = client_of(&store);
    make(&names, "/both have it").unwrap();
    names.sync(&mut Tracer::off()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    standby.kill();
    for number in 0..20 {
        make(&names, &format!("/{number:06}")).unwrap();
    }
    names.sync(&mut Tracer::off()).unwrap();
    primary.kill();
    standby.begin();
    standby.promote();
    let refused = make(&names, "/after").unwrap_err().to_string();
    println!("{refused}");
    assert!(refused.contains("has gone back from change") && refused.contains("promoted before it has everything"), "{refused}");
    let _ = store.stop();
}
