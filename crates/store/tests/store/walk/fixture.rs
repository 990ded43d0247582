//! A store on loopback to be walked, and proxies between it and a client.
#![allow(dead_code)]

use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_client::metadata::MetadataClient;
use thalweg_client::walk::{Detail, WalkMode, WalkOptions, Walker};
use thalweg_client::{DataClient, FileHandle, StoreFile};
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::protocol::metadata::{End, Existing, FilePath, LayoutChoice, Owner};

const OWNER: Owner = Owner { mode: 0o644, uid: 7, gid: 8 };

/// A store and a client of it.
pub struct Fixture {
    pub store: RunningStore,
    pub names: MetadataClient,
    pub data: Arc<DataClient>,
    pub directory: tempfile::TempDir,
}

pub fn off() -> Tracer {
    Tracer::off()
}

fn connect() -> Connect {
    Connect { timeout: Duration::from_secs(20), ..Connect::default() }
}

/// Starts a store with this many servers, of one target each.
pub fn fixture(servers: usize) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&UpOptions { servers: Some(servers), targets: Some(1), ..UpOptions::new([directory.path() as &Path]) }).unwrap();
    let names = MetadataClient::connect(&mut off(), &store.address().service().unwrap(), &connect()).unwrap();
    let data = Arc::new(DataClient::new((*names.map()).clone(), &connect()));
    Fixture { store, names, data, directory }
}

impl Fixture {
    pub fn walker(&self, mode: WalkMode, detail: Detail) -> Walker {
        Walker::new(self.names.clone(), Arc::clone(&self.data), WalkOptions { mode, detail, ..WalkOptions::default() })
    }

    /// Returns a client of the same metadata service through another address.
    pub fn names_at(&self, address: &str) -> MetadataClient {
        MetadataClient::connect(&mut off(), address, &connect()).unwrap()
    }

    /// Returns a client of the same servers, with another address for one of them.
    pub fn data_with(&self, server: usize, address: &str) -> Arc<DataClient> {
        self.data_of(&self.data, server, address)
    }

    pub fn data_of(&self, data: &DataClient, server: usize, address: &str) -> Arc<DataClient> {
        let mut map = data.map().clone();
        address.clone_into(&mut map.servers[server].address);
        Arc::new(DataClient::new(map, &connect()))
    }

    pub fn make(&self, path: &[u8], size: usize) {
        self.make_striped(path, size, None);
    }

    pub fn make_striped(&self, path: &[u8], size: usize, datafiles: Option<u32>) {
        let layout = LayoutChoice { datafiles, ..LayoutChoice::default() };
        let file = self.names.create(&mut off(), &FilePath::at(path), OWNER, Existing::Refuse, &layout).unwrap();
        let handle = FileHandle::from_attributes("f", &file.attributes).unwrap();
        if size > 0 {
            StoreFile::new(Arc::clone(&self.data), handle).write_at(&vec![7; size], 0).unwrap();
        }
        file.ended(End::whole(size as u64, false));
    }

    pub fn make_directory(&self, path: &[u8]) {
        self.names.make_directory(&mut off(), &FilePath::at(path), OWNER, true).unwrap();
    }
}

/// A proxy that copies bytes both ways until it is cut.
pub struct Relay {
    pub address: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    pub fn to(address: &str) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay { address: listener.local_addr().unwrap().to_string(), open: Arc::default() };
        let (open, address) = (Arc::clone(&relay.open), address.to_owned());
        std::thread::spawn(move || {
            for from in listener.incoming() {
                let (Ok(from), Ok(to)) = (from, TcpStream::connect(&address)) else { continue };
                for (mut one, mut other) in [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)] {
                    open.lock().unwrap().push(one.try_clone().unwrap());
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut one, &mut other);
                        let _ = other.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        relay
    }

    /// Closes all connections; new ones are accepted.
    pub fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
