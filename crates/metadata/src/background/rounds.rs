//! Ends the rounds of [`crate::sizes::rounds`].

use crate::database::Unwatched;
use crate::io_servers::IoServers;
use crate::namespace::Namespace;
use crate::witnesses::Witnesses;
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_base::sync::Mutex;
use thalweg_wire::{Error, Result};

/// The thread that ends rounds.
pub(crate) struct Worker {
    namespace: Arc<Namespace>,
    io: Arc<dyn IoServers>,
    witnesses: Arc<Witnesses>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Worker {
    /// Starts idle.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(namespace: Arc<Namespace>, io: Arc<dyn IoServers>, witnesses: Arc<Witnesses>) -> Result<Worker> {
        let (theirs, their_io, their_witnesses) = (Arc::clone(&namespace), Arc::clone(&io), Arc::clone(&witnesses));
        let work = move || {
            while theirs.boots.rounds.is_due() {
                if !end(&theirs, &*their_io, &their_witnesses).unwrap_or(false) {
                    // A server is away: its data is synced in a later round.
                    theirs.boots.rounds.wanted();
                }
            }
        };
        let thread = std::thread::Builder::new().name("metadata rounds".into()).spawn(work);
        let thread = thread.map_err(|e| Error::system("starting a thread", e))?;
        Ok(Worker { namespace, io, witnesses, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the current round, if it contains a file, and the thread, so that a store that was stopped has no unsynced data.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn end(&self) -> Result<()> {
        self.join();
        if self.namespace.boots.rounds.take_wanted() {
            end(&self.namespace, &*self.io, &self.witnesses)?;
        }
        Ok(())
    }

    fn join(&self) {
        self.namespace.boots.rounds.stop();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.join();
    }
}

/// Ends the current round: puts all earlier writes on stable storage at every server that responds, and earlier metadata changes too, and
/// has them witnessed. Returns whether all servers responded.
///
/// # Errors
/// An error of the database.
fn end(namespace: &Namespace, io: &dyn IoServers, witnesses: &Witnesses) -> Result<bool> {
    let (map, boots, database) = (namespace.map(), &namespace.boots, &*namespace.database);
    database.sync(&mut Unwatched)?;
    let matters = witnesses.matters(database.synced());
    let rounds = &boots.rounds;
    let everybody: BTreeSet<usize> = (0..map.servers.len()).collect();
    let before = boots.ask(database, &map, io, &everybody);
    // A file settled from here on belongs to the next round.
    let round = rounds.turn();
    rounds.keep(database)?;
    let synced: Vec<bool> = std::thread::scope(|scope| {
        let asked: Vec<_> = map.servers.iter().map(|server| scope.spawn(|| io.sync_all(server).is_ok())).collect();
        asked.into_iter().map(|asked| asked.join().unwrap_or(false)).collect()
    });
    // A machine that was restarted in between has lost unsynced data.
    let after = boots.ask(database, &map, io, &everybody);
    let is_stored = |place: usize| synced[place] && after.is_same_start(&before, place);
    let stored = map.servers.iter().enumerate().filter(|(place, _)| is_stored(*place));
    rounds.ended(round, stored.map(|(_, server)| server.name.as_str()));
    rounds.keep(database)?;
    if matters {
        database.sync(&mut Unwatched)?;
        witnesses.report(database.synced(), &mut Unwatched);
    }
    Ok((0..map.servers.len()).all(is_stored))
}
