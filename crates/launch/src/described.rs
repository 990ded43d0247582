//! The store over all hosts, and where its description is kept while somebody may need it.
//!
//! The description, the credential and the hosts stand in `launch/STORE` below the user's directory for state, from the start until the store's
//! data is removed: a store whose data was kept is started again from there, with other ports.

use crate::error::{LaunchError, Result};
use crate::hosts::Host;
use crate::words::{Listens, Serve};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use thalweg_store::config::{METADATA_NAME, MetadataConfig, ServerConfig, StoreConfig};
use thalweg_store::protocol::common::random_u64;
use thalweg_store::protocol::metadata::TargetId;
use thalweg_store::trust::{Credential, state_directory};

const STORE: &str = "store.toml";
const CREDENTIAL: &str = "store.credential";
const HOSTS: &str = "hosts.json";

/// Where the description of a job's store is kept.
#[derive(Clone, Debug)]
pub struct Kept {
    directory: PathBuf,
    /// Its hosts, in the order of its servers.
    pub hosts: Vec<String>,
    store: u64,
    again: bool,
}

#[derive(Serialize, Deserialize)]
struct Hosts {
    hosts: Vec<String>,
}

impl Kept {
    /// Of a new store.
    pub(crate) fn new(hosts: &[Host]) -> Result<Kept> {
        let state = state_directory()
            .ok_or_else(|| LaunchError::failed("neither XDG_STATE_HOME nor HOME is set: expected one, for the store's credential"))?;
        let store = random_u64() | 1;
        let directory = state.join("launch").join(format!("{store:016x}"));
        let failed = |e: std::io::Error| LaunchError::failed(format!("{}: {e}", directory.display()));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed)?;
        let hosts: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
        let text = serde_json::to_string(&Hosts { hosts: hosts.clone() }).map_err(LaunchError::failed)?;
        std::fs::write(directory.join(HOSTS), text).map_err(failed)?;
        Credential::new_store(store).write_new(&directory.join(CREDENTIAL))?;
        Ok(Kept { directory, hosts, store, again: false })
    }

    /// Of a store that was kept: by its number, or its directory.
    ///
    /// # Errors
    /// There is none.
    pub fn find(text: &str) -> Result<Kept> {
        let named = state_directory().map(|state| state.join("launch").join(text)).filter(|_| !text.is_empty() && !text.contains('/'));
        let directory = named.unwrap_or_else(|| PathBuf::from(text));
        let wrong = |problem: &dyn std::fmt::Display| {
            LaunchError::usage(format!("--again {text}: {problem}: expected the store that `thalweg launch` has said it kept"))
        };
        let read = std::fs::read_to_string(directory.join(HOSTS)).map_err(|e| wrong(&e))?;
        let Hosts { hosts } = serde_json::from_str(&read).map_err(|e| wrong(&e))?;
        let config = StoreConfig::read(&directory.join(STORE)).map_err(|e| wrong(&e))?;
        if hosts.len() != config.servers.len() {
            return Err(wrong(&format!("{} hosts for {} servers", hosts.len(), config.servers.len())));
        }
        Ok(Kept { directory, hosts, store: config.store, again: true })
    }

    /// Whether the store was there before this job.
    pub(crate) fn is_again(&self) -> bool {
        self.again
    }

    /// What a person gives to [`Kept::find`].
    pub(crate) fn name(&self) -> String {
        format!("{:016x}", self.store)
    }

    /// The store's own credential.
    pub(crate) fn credential(&self) -> PathBuf {
        self.directory.join(CREDENTIAL)
    }

    /// The store is no more.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// Describes the store over what the parts have found, and writes that down.
    pub(crate) fn describe(&self, hosts: &[Host], found: &[Listens], plain: bool) -> Result<StoreConfig> {
        let before = if self.again { Some(StoreConfig::read(&self.directory.join(STORE))?) } else { None };
        let (metadata, servers) = match &before {
            Some(before) => (before.metadata.directory.clone(), before.servers.iter().map(|server| server.targets.clone()).collect()),
            None => self.places(found)?,
        };
        let address = |i: usize, listener: usize| -> Result<String> {
            let port = found[i].ports.get(listener).copied();
            let port = port.ok_or_else(|| LaunchError::failed(format!("host `{}`: it listens on too few ports", hosts[i].name)))?;
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

    /// Where a new store's metadata is, and the targets of each server.
    #[allow(clippy::type_complexity)] // said in the line above
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

    /// What a part is to serve.
    pub(crate) fn serve(&self, config: &StoreConfig, i: usize, publishes: bool, removes: bool) -> Result<Serve> {
        let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| LaunchError::failed(format!("{}: {e}", path.display())));
        let names = if i == 0 { vec![METADATA_NAME.to_owned(), io_name(0)] } else { vec![io_name(i)] };
        let home = home_of(&config.servers[i].targets).ok_or_else(|| LaunchError::failed("a server without targets"))?;
        let (store, credential) = (read(&config.path)?, read(&self.credential())?);
        Ok(Serve { names, home: home.to_owned(), store, credential, again: self.again, publishes, removes })
    }
}

/// The name of a host's I/O server.
pub(crate) fn io_name(host: usize) -> String {
    format!("io{host}")
}

/// The directory of a part: that of its first target.
fn home_of(targets: &[(TargetId, PathBuf)]) -> Option<&Path> {
    targets.first().and_then(|(_, target)| target.parent())
}
