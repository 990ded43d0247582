//! The service and its parts.

use super::clients::Clients;
use super::drafts::Drafts;
use super::open_counts::OpenCounts;
use crate::background::intents::Intents;
use crate::background::rounds;
use crate::background::settler::Settler;
use crate::credentials::Credentials;
use crate::database::{Unwatched, Watch};
use crate::io_servers::IoServers;
use crate::locks::keeper::Locks;
use crate::lots::Lots;
use crate::namespace::Namespace;
use crate::recovery::{self, Recovery};
use crate::witnesses::Witnesses;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::common::BootVerifier;
use thalweg_wire::protocol::metadata::Status;
use thalweg_wire::trust::Gate;
use thalweg_wire::{Error, Result};

/// The name of the service, its place, and its environment.
#[derive(Clone, Debug)]
pub struct MetadataOptions {
    /// Its name for messages: `metadata`.
    pub name: String,
    /// The node label of its machine.
    pub node: String,
    /// The directory of its database.
    pub directory: PathBuf,
    /// How long clients of an earlier start have to report their open files.
    pub recovery: Duration,
    /// Identifies its machine's boot.
    pub boot_id: String,
    /// The gate, which checks its clients.
    pub gate: Arc<Gate>,
}

impl MetadataOptions {
    /// Returns options without a recovery time, on this machine boot.
    pub fn of_a_test(boot_id: impl Into<String>) -> MetadataOptions {
        MetadataOptions {
            name: "metadata".into(),
            node: "n".into(),
            directory: "/tmp".into(),
            recovery: Duration::ZERO,
            boot_id: boot_id.into(),
            gate: Arc::new(Gate::of_nobody()),
        }
    }
}

/// The metadata service of a store.
pub struct MetadataService {
    pub(super) namespace: Arc<Namespace>,
    pub(super) intents: Arc<Intents>,
    pub(super) lots: Lots,
    pub(super) credentials: Credentials,
    pub(super) settler: Settler,
    pub(super) servers: Arc<dyn IoServers>,
    rounds: rounds::Worker,
    pub(super) locks: Arc<Locks>,
    pub(super) drafts: Drafts,
    pub(super) clients: Clients,
    pub(super) open_counts: OpenCounts,
    pub(super) recovery: Arc<Recovery>,
    /// The number of opens when the service began to stop, if no file was open.
    pub(super) idle: Mutex<Option<u64>>,
    pub(super) witnesses: Arc<Witnesses>,
    /// The number of backups being read.
    pub(super) backups: Arc<AtomicUsize>,
    pub(super) verifier: BootVerifier,
    pub(super) options: MetadataOptions,
}

impl MetadataService {
    /// Creates a service over a namespace. `servers` executes requests to the I/O servers.
    ///
    /// # Errors
    /// A thread cannot be started, or an error of the database.
    pub fn new(namespace: Arc<Namespace>, servers: Arc<dyn IoServers>, options: MetadataOptions) -> Result<MetadataService> {
        namespace.boots.start(&**namespace.database(), &options.boot_id)?;
        let recovery = Arc::new(Recovery::begin(recovery::length(&namespace, options.recovery)?));
        let intents = Arc::new(Intents::start(Arc::clone(&namespace), Arc::clone(&servers), Arc::clone(&recovery))?);
        let lots = Lots::start(Arc::clone(&namespace), Arc::clone(&servers), Arc::clone(&intents))?;
        let settler = Settler::start(Arc::clone(&namespace), Arc::clone(&servers))?;
        let witnesses = Arc::new(Witnesses::default());
        let credentials = Credentials::open(Arc::clone(namespace.database()), Arc::clone(&options.gate), Arc::clone(&witnesses))?;
        let rounds = rounds::Worker::start(Arc::clone(&namespace), Arc::clone(&servers), Arc::clone(&witnesses))?;
        let locks = Locks::start(Arc::clone(namespace.database()), &Recovery::begin(options.recovery))?;
        let drafts = Drafts::new(&namespace, &recovery);
        witnesses.is_quiet_until(namespace.database().synced());
        let (verifier, clients) = (BootVerifier::random(), Clients::of(&namespace)?);
        Ok(MetadataService {
            namespace,
            intents,
            lots,
            credentials,
            settler,
            servers,
            rounds,
            locks,
            drafts,
            clients,
            open_counts: OpenCounts::default(),
            recovery,
            idle: Mutex::default(),
            witnesses,
            backups: Arc::default(),
            verifier,
            options,
        })
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// Prepares for a stop while requests are still answered: puts metadata on stable storage, and files' bytes as far as their servers
    /// respond, and reports the log's progress to those servers.
    ///
    /// # Errors
    /// An error of the database.
    pub fn before_stop(&self) -> Result<()> {
        let database = self.namespace.database();
        database.sync(&mut Unwatched)?;
        let matters = self.witnesses.matters(database.synced());
        self.rounds.end()?;
        if matters { self.sync(&mut Unwatched) } else { Ok(()) }
    }

    /// Puts metadata on stable storage, and has the I/O servers witness the log's progress.
    ///
    /// # Errors
    /// An error of the database.
    pub(super) fn sync(&self, watch: &mut dyn Watch) -> Result<()> {
        let database = self.namespace.database();
        database.sync(watch)?;
        // (Afterwards: if servers witnessed a change that a power loss could take, this metadata would count as old.)
        self.witnesses.report(database.synced(), watch);
        Ok(())
    }

    /// Waits up to `patience` until these servers are ready to witness.
    pub fn wait_for_witnesses(&self, servers: &[String], patience: Duration) {
        self.witnesses.wait_for(servers, patience);
    }

    /// Records an orderly stop, and puts everything on stable storage, including files' bytes as far as their servers respond. All
    /// connections must have ended.
    ///
    /// # Errors
    /// An error of the database.
    pub fn close(&self) -> Result<()> {
        self.rounds.end()?;
        self.namespace.boots.stop(&**self.namespace.database())?;
        if *self.idle.lock() == Some(self.intents.openings()) {
            recovery::is_idle(&self.namespace)?;
        }
        Ok(self.namespace.database().close()?)
    }

    pub(super) fn status(&self) -> Result<Status> {
        let fs = rustix::fs::statvfs(&self.options.directory)
            .map_err(|e| Error::system(format!("space of {}", self.options.directory.display()), e))?;
        let mut pending_intents = 0;
        let mut after = None;
        // Bounded: a client that closes more files than this has an unreachable server.
        for _ in 0..64 {
            let page = self.namespace.intents(after, 1024)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            pending_intents += page.len() as u64;
        }
        let (locks, lock_waits) = self.locks.counts();
        Ok(Status {
            size_bytes: fs.f_blocks.saturating_mul(fs.f_frsize),
            free_bytes: fs.f_bavail.saturating_mul(fs.f_frsize),
            pending_intents,
            open_files: self.intents.open_files() as u64,
            locks: locks as u64,
            lock_waits: lock_waits as u64,
        })
    }
}
