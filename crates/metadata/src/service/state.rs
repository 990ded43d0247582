//! What the service is made of.

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
use std::time::Duration;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::common::BootVerifier;
use thalweg_wire::protocol::metadata::Status;
use thalweg_wire::trust::Gate;
use thalweg_wire::{Error, Result};

/// How the service introduces itself, and where it lives.
#[derive(Clone, Debug)]
pub struct MetadataOptions {
    /// Its name, for messages: `metadata`.
    pub name: String,
    /// The label of the machine it is on.
    pub node: String,
    /// Where its database is.
    pub directory: PathBuf,
    /// How long clients of an earlier start have to say what they have open.
    pub recovery: Duration,
    /// Identifies the start of the machine that it is on.
    pub boot_id: String,
    /// What is checked of those who come.
    pub gate: Arc<Gate>,
}

impl MetadataOptions {
    /// Without a time for clients of before, in this start of the machine.
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

/// The metadata service of one store.
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
    /// How often something had been opened when the service began to stop, if nothing was open then.
    pub(super) idle: Mutex<Option<u64>>,
    pub(super) witnesses: Arc<Witnesses>,
    pub(super) verifier: BootVerifier,
    pub(super) options: MetadataOptions,
}

impl MetadataService {
    /// A service over a namespace. `servers` is how it speaks to the I/O servers.
    ///
    /// # Errors
    /// When no thread can be started, and the database's.
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
            verifier,
            options,
        })
    }

    /// The namespace it serves.
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// The service is about to be stopped, and still answers: what was done is put on stable storage, files' bytes too as far as their servers
    /// answer, and those servers are notified how far the log has come.
    ///
    /// # Errors
    /// The database's.
    pub fn before_stop(&self) -> Result<()> {
        let database = self.namespace.database();
        database.sync(&mut Unwatched)?;
        let matters = self.witnesses.matters(database.synced());
        self.rounds.end()?;
        if matters { self.sync(&mut Unwatched) } else { Ok(()) }
    }

    /// Puts names on stable storage, and has the I/O servers witness how far the log has come.
    ///
    /// # Errors
    /// The database's.
    pub(super) fn sync(&self, watch: &mut dyn Watch) -> Result<()> {
        let database = self.namespace.database();
        database.sync(watch)?;
        // (After that: notified of what power may still take, servers would call this metadata old.)
        self.witnesses.report(database.synced(), watch);
        Ok(())
    }

    /// Waits until these servers are there to witness what is done from now on, for a moment.
    pub fn wait_for_witnesses(&self, servers: &[String], patience: Duration) {
        self.witnesses.wait_for(servers, patience);
    }

    /// Leaves word that it was stopped in good order, and puts everything on stable storage, files' bytes too as far as their servers
    /// answer. Nobody may be connected any more.
    ///
    /// # Errors
    /// The database's.
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
        // Bounded: a client that has more than this many has a server that is away.
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
