//! The store over all hosts, and its description saved for a later job.
//!
//! The description, the credential and the hosts are in `launch/STORE` below the user's state directory from the start until the store's
//! data is removed. A later job can serve kept data again from there, with other ports. A job holds a lock on its hosts file while it
//! lives; the next job removes the directories of killed jobs whose data went with them.

use crate::error::{LaunchError, Result};
use crate::hosts::Host;
use crate::messages::{Listens, Serve};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_base::machine;
use thalweg_base::private;
use thalweg_store::config::{METADATA_NAME, MetadataConfig, ServerConfig, StoreConfig};
use thalweg_store::wire::protocol::common::random_u64;
use thalweg_store::wire::protocol::metadata::TargetId;
use thalweg_store::wire::trust::{Credential, state_directory};

const STORE: &str = "store.toml";
const CREDENTIAL: &str = "store.credential";
const HOSTS: &str = "hosts.json";

/// A job's store, as saved in the state directory.
#[derive(Clone, Debug)]
pub struct SavedStore {
    directory: PathBuf,
    /// Its hosts, in the order of its servers.
    pub hosts: Vec<String>,
    store: u64,
    again: bool,
    /// The hosts file, locked while the job lives.
    _locked: Option<Arc<File>>,
}

#[derive(Serialize, Deserialize)]
struct Hosts {
    hosts: Vec<String>,
    /// The machine of a job whose data is always removed at its end; `None` if the data may be needed again.
    #[serde(default)]
    goes_with: Option<String>,
}

impl SavedStore {
    /// Creates the directory of a new store. `goes`: its data is removed with the job, however the job ends.
    pub(crate) fn new(hosts: &[Host], goes: bool) -> Result<SavedStore> {
        let state = state_directory()
            .ok_or_else(|| LaunchError::failed("neither XDG_STATE_HOME nor HOME is set: expected one, for the store's credential"))?;
        let store = random_u64() | 1;
        let all = state.join("launch");
        remove_left_behind(&all);
        let directory = all.join(format!("{store:016x}"));
        let failed = |e: std::io::Error| LaunchError::failed(format!("{}: {e}", directory.display()));
        private::make_directory(&directory).map_err(failed)?;
        let hosts: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
        let goes_with = goes.then(machine::host_name);
        let text = serde_json::to_string(&Hosts { hosts: hosts.clone(), goes_with }).map_err(LaunchError::failed)?;
        let locked = write_locked(&text, &directory.join(HOSTS)).map_err(failed)?;
        Credential::new_store(store).write_new(&directory.join(CREDENTIAL))?;
        Ok(SavedStore { directory, hosts, store, again: false, _locked: Some(Arc::new(locked)) })
    }

    /// Finds the kept store with this number or directory.
    ///
    /// # Errors
    /// There is no such store, or its files cannot be read.
    pub fn find(text: &str) -> Result<SavedStore> {
        let named = state_directory().map(|state| state.join("launch").join(text)).filter(|_| !text.is_empty() && !text.contains('/'));
        let directory = named.unwrap_or_else(|| PathBuf::from(text));
        let wrong = |problem: &dyn std::fmt::Display| {
            LaunchError::usage(format!("--again {text}: {problem}: expected a store that `thalweg launch` kept"))
        };
        let read = std::fs::read_to_string(directory.join(HOSTS)).map_err(|e| wrong(&e))?;
        let Hosts { hosts, .. } = serde_json::from_str(&read).map_err(|e| wrong(&e))?;
        let config = StoreConfig::read(&directory.join(STORE)).map_err(|e| wrong(&e))?;
        if hosts.len() != config.servers.len() {
            return Err(wrong(&format!("{} hosts for {} servers", hosts.len(), config.servers.len())));
        }
        Ok(SavedStore { directory, hosts, store: config.store, again: true, _locked: None })
    }

    /// Returns whether the store existed before this job.
    pub(crate) fn is_again(&self) -> bool {
        self.again
    }

    /// Returns the name to give to [`SavedStore::find`].
    pub(crate) fn name(&self) -> String {
        format!("{:016x}", self.store)
    }

    /// Returns the path of the store's credential.
    pub(crate) fn credential(&self) -> PathBuf {
        self.directory.join(CREDENTIAL)
    }

    /// Removes the saved description.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// Describes the store from what the parts report, and saves the description.
    pub(crate) fn describe(&self, hosts: &[Host], found: &[Listens], plain: bool) -> Result<StoreConfig> {
        let before = if self.again { Some(StoreConfig::read(&self.directory.join(STORE))?) } else { None };
        let (metadata, servers) = match &before {
            Some(before) => (before.metadata.directory.clone(), before.servers.iter().map(|server| server.targets.clone()).collect()),
            None => self.places(found)?,
        };
        let address = |i: usize, listener: usize| -> Result<String> {
            let port = found[i].ports.get(listener).copied();
            let port = port.ok_or_else(|| LaunchError::failed(format!("host `{}`: it reported too few ports", hosts[i].name)))?;
            Ok(SocketAddr::new(hosts[i].address, port).to_string())
        };
        let server = |(i, targets): (usize, Vec<(TargetId, PathBuf)>)| -> Result<ServerConfig> {
            Ok(ServerConfig {
                name: io_name(i),
                node: found[i].node.clone(),
                address: address(i, usize::from(i == 0))?,
                targets,
                key: None,
            })
        };
        let config = StoreConfig {
            path: self.directory.join(STORE),
            store: self.store,
            metadata: MetadataConfig {
                address: address(0, 0)?,
                directory: metadata,
                database: None,
                standby: Vec::new(),
                node: Some(found[0].node.clone()),
                key: None,
            },
            servers: Vec::into_iter(servers).enumerate().map(server).collect::<Result<_>>()?,
            credential: self.credential(),
            plain: before.map_or(plain, |before| before.plain),
        };
        config.write()?;
        Ok(config)
    }

    /// Returns the directory of a new store's metadata, and the targets of each server.
    #[allow(clippy::type_complexity)] // the comment above names the parts
    fn places(&self, found: &[Listens]) -> Result<(PathBuf, Vec<Vec<(TargetId, PathBuf)>>)> {
        let own = format!("thalweg-{}", self.name());
        let mut numbers = (0..).map(TargetId);
        let targets = |(i, host): (usize, &Listens)| {
            let place = |(k, directory): (usize, &PathBuf)| directory.join(&own).join(io_name(i)).join(format!("target{k}"));
            host.targets.iter().enumerate().map(|at| (numbers.next().expect("an endless range"), place(at))).collect()
        };
        let servers: Vec<Vec<(TargetId, PathBuf)>> = found.iter().enumerate().map(targets).collect();
        let home = servers.first().and_then(|targets| home_of(targets));
        let home = home.ok_or_else(|| LaunchError::failed("no directory for the store: expected --targets DIR"))?;
        Ok((home.join("metadata"), servers))
    }

    /// Returns the message that starts a part's servers.
    pub(crate) fn serve(&self, config: &StoreConfig, i: usize, publishes: bool, removes: bool) -> Result<Serve> {
        let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| LaunchError::failed(format!("{}: {e}", path.display())));
        let names = if i == 0 { vec![METADATA_NAME.to_owned(), io_name(0)] } else { vec![io_name(i)] };
        let home = home_of(&config.servers[i].targets).ok_or_else(|| LaunchError::failed("a server without targets"))?;
        let (store, credential) = (read(&config.path)?, read(&self.credential())?);
        Ok(Serve { names, home: home.to_owned(), store, credential, again: self.again, publishes, removes })
    }
}

/// Creates a file that is locked before anything is written to it.
fn write_locked(text: &str, path: &Path) -> std::io::Result<File> {
    let mut file = private::files().write(true).create_new(true).open(path)?;
    // On a file system without locks, no directory is considered left over.
    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Removes the directories left by killed jobs of this machine whose data went with them.
fn remove_left_behind(all: &Path) {
    for directory in std::fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let path = directory.join(HOSTS);
        let Ok(hosts) = std::fs::read_to_string(&path).map_err(drop).and_then(|text| serde_json::from_str::<Hosts>(&text).map_err(drop))
        else {
            continue;
        };
        let went = hosts.goes_with.is_some_and(|host| host == machine::host_name());
        if went && File::open(&path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok()) {
            let _ = std::fs::remove_dir_all(&directory);
        }
    }
}

/// Returns the name of a host's I/O server.
pub(crate) fn io_name(host: usize) -> String {
    format!("io{host}")
}

/// Returns a part's directory: the parent of its first target.
fn home_of(targets: &[(TargetId, PathBuf)]) -> Option<&Path> {
    targets.first().and_then(|(_, target)| target.parent())
}
