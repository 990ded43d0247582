//! Machine starts: those of each server to which a settled size belongs.
//!
//! Machine starts are counted over the whole store: the count grows when a server is found to have been restarted, or is first met, and
//! each server is known *since* a count. A size settled at a count belongs to a server's current start if the server is not known since a
//! later count. A machine that is stopped in an orderly way after this service loses nothing; the service records this.
//!
//! Servers are queried in rounds: a round starts once all current callers have joined, and queries each server that one of them needs once.
//! A caller that arrives during a round waits for the next.

use super::rounds::{RoundState, Rounds};
use crate::database::{Database, Table, Unwatched, write};
use crate::inode::{Settlement, decode, encode};
use crate::io_servers::IoServers;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Finally, Mutex};
use thalweg_wire::Result;
use thalweg_wire::protocol::metadata::{Lengths, ServerEntry, Settled, StoreMap, TargetId};

/// Key in [`Table::State`].
const BOOTS: &[u8] = b"sizes.boots";
/// Key in [`Table::State`]: present while the service is stopped, if it was stopped in an orderly way.
const STOPPED: &[u8] = b"sizes.stopped";

/// Validity of a server's answer.
const LATELY: Duration = Duration::from_secs(1);

/// The known machine starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct BootState {
    /// The count.
    now: u32,
    /// This service's machine: its boot, and the count since which it is known.
    service: (String, u32),
    /// The I/O servers' machines, by server name.
    servers: HashMap<String, (String, u32)>,
}

/// The known machine starts, and the rounds that query servers.
#[derive(Default)]
pub(crate) struct Boots {
    known: Mutex<BootState>,
    asking: Mutex<Asking>,
    done: Condvar,
    /// When each server last reported its machine start.
    heard: Mutex<HashMap<usize, Instant>>,
    /// Whether every server of the map has reported its machine start once.
    met: AtomicBool,
    /// The rounds that put bytes on stable storage.
    pub rounds: Rounds,
}

#[derive(Default)]
struct Asking {
    is_under_way: bool,
    next: Arc<Round>,
    /// The servers that the next round queries, as indices into the map.
    wanted: BTreeSet<usize>,
}

#[derive(Default)]
struct Round {
    outcome: OnceLock<Arc<Proof>>,
}

/// The counts since which the targets' machine starts are known, as of a time after the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    service: u32,
    /// By index of the server in the map; `u32::MAX` if it did not answer.
    servers: Vec<u32>,
    /// By index of the target in the map.
    targets: Vec<(TargetId, u32)>,
}

impl Proof {
    fn server(&self, target: TargetId) -> Option<usize> {
        // Targets are numbered from 0 on, unless store.toml was edited by hand.
        let place = match self.targets.get(target.0 as usize) {
            Some((id, server)) if *id == target => *server,
            _ => self.targets[self.targets.binary_search_by_key(&target, |(id, _)| *id).ok()?].1,
        };
        Some(place as usize)
    }

    /// Returns the latest count since which the servers of these targets are known; `u32::MAX` if one did not answer. A size settled at an
    /// earlier count is not valid, unless it is 0: an empty file has nothing to lose, and its truncation is durable.
    pub(crate) fn since(&self, targets: &[TargetId]) -> u32 {
        let of_server = |target: &TargetId| self.server(*target).and_then(|server| self.servers.get(server).copied());
        targets.iter().map(|target| of_server(target).unwrap_or(u32::MAX)).max().unwrap_or(0)
    }

    /// Returns whether this server has reported its machine start.
    pub(crate) fn has_said(&self, place: usize) -> bool {
        self.servers.get(place).is_some_and(|since| *since != u32::MAX)
    }

    /// Returns whether this server reported the same machine start in both proofs.
    pub(crate) fn is_same_start(&self, other: &Proof, place: usize) -> bool {
        let since = |proof: &Proof| proof.servers.get(place).copied().filter(|since| *since != u32::MAX);
        since(self).is_some_and(|ours| since(other) == Some(ours))
    }

    /// Returns whether the service's own machine has kept writers' reports since `boots`; otherwise no size is valid.
    pub(crate) fn remembers(&self, boots: u32) -> bool {
        self.service <= boots
    }
}

/// The known machine starts and rounds at a point in time, from which clients' answers on files are derived.
pub(crate) struct KnownStarts<'m> {
    service: u32,
    stored: Arc<RoundState>,
    map: &'m StoreMap,
}

/// The state of a settled file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// On stable storage.
    Durable,
    /// Written, but not on stable storage.
    Pending,
    /// Possibly lost.
    Doubtful,
}

impl KnownStarts<'_> {
    /// Returns the answer to clients on a file's bytes. `has_said`: whether a server has just reported its machine start. One that has not
    /// may have been restarted; if the datafiles' lengths are unknown, its losses would read as holes.
    pub(crate) fn settled(&self, of: &Settlement, targets: &[TargetId], has_said: impl Fn(usize) -> bool) -> Settled {
        let unsaid = || {
            let mut servers = targets.iter().filter_map(|target| Some((self.map.target(*target)?.0.server, self.map.target(*target)?.1)));
            servers.find(|(place, server)| !has_said(*place as usize) && !self.stored.has_stored(&server.name, of)).map(|(place, _)| place)
        };
        let is_open_question = of.lengths == Lengths::Unknown && of.size_bytes > 0 && of.unsynced.is_some();
        let doubtful = self.doubtful(of, targets).or_else(|| if is_open_question { unsaid() } else { None });
        Settled { size_bytes: of.size_bytes, lengths: of.lengths.clone(), is_exact: self.service <= of.boots, doubtful }
    }

    /// Returns the state of its bytes.
    pub(crate) fn standing(&self, of: &Settlement, targets: &[TargetId]) -> Standing {
        let is_stored = |target: &TargetId| self.map.target(*target).is_some_and(|(_, server)| self.stored.has_stored(&server.name, of));
        match self.doubtful(of, targets) {
            Some(_) => Standing::Doubtful,
            None if of.unsynced.is_none() || targets.iter().all(is_stored) => Standing::Durable,
            None => Standing::Pending,
        }
    }

    fn doubtful(&self, of: &Settlement, targets: &[TargetId]) -> Option<u32> {
        if of.unsynced.is_none() || self.stored.is_without_restart() {
            return None;
        }
        targets.iter().find_map(|target| {
            let (entry, server) = self.map.target(*target)?;
            self.stored.may_have_lost(&server.name, of).then_some(entry.server)
        })
    }
}

impl Boots {
    /// Starts on a machine with this boot. Nothing is provable before.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn start(&self, database: &dyn Database, boot_id: &str) -> Result<()> {
        let known = write(database, &mut Unwatched, |t| {
            let value = t.get(Table::State, BOOTS)?;
            let mut known: BootState = value.map(|value| decode(Table::State, BOOTS, &value)).transpose()?.unwrap_or_default();
            let stopped = t.get(Table::State, STOPPED)?.is_some();
            let same = known.service.0 == boot_id && is_known(boot_id);
            if known.service.1 == 0 || !(same || stopped) {
                known.now += 1;
                known.service.1 = known.now;
            }
            boot_id.clone_into(&mut known.service.0);
            t.delete(Table::State, STOPPED);
            t.put(Table::State, BOOTS, encode(&known));
            self.rounds.read(t)?;
            Ok::<_, thalweg_wire::Error>(known)
        })?;
        database.sync(&mut Unwatched)?;
        *self.known.lock() = known;
        Ok(())
    }

    /// Records an orderly stop: there are no more writers, and everything will be durable.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn stop(&self, database: &dyn Database) -> Result<()> {
        write(database, &mut Unwatched, |t| {
            t.put(Table::State, STOPPED, encode(&()));
            Ok(())
        })
    }

    /// Returns the count at which sizes are settled.
    pub(crate) fn now(&self) -> u32 {
        self.known.lock().now
    }

    /// Returns the proof that needs no query of a server.
    pub(crate) fn unasked(&self, map: &StoreMap) -> Proof {
        let targets = map.targets.iter().map(|t| (t.target, t.server)).collect();
        Proof { service: self.service(), servers: vec![u32::MAX; map.servers.len()], targets }
    }

    fn service(&self) -> u32 {
        match self.known.lock().service.1 {
            0 => u32::MAX,
            since => since,
        }
    }

    /// Returns the current state, from which answers on files are derived.
    pub(crate) fn known_starts<'m>(&self, map: &'m StoreMap) -> KnownStarts<'m> {
        KnownStarts { service: self.service(), stored: self.rounds.known(), map }
    }

    /// Queries servers that were never met: earlier writes to such a server cannot be distinguished from losses. (An unreachable server is
    /// queried again with the next file.)
    pub(crate) fn meet(&self, database: &dyn Database, map: &StoreMap, io: &dyn IoServers) {
        if self.met.load(Ordering::Acquire) {
            return;
        }
        let known = self.known.lock().clone();
        let strangers = map.servers.iter().enumerate().filter(|(_, server)| !known.servers.contains_key(&server.name));
        let strangers: BTreeSet<usize> = strangers.map(|(place, _)| place).collect();
        let proof = if strangers.is_empty() { None } else { Some(self.ask(database, map, io, &strangers)) };
        let has_said = |place: &usize| proof.as_ref().is_some_and(|proof| proof.servers[*place] != u32::MAX);
        self.met.store(strangers.iter().all(has_said), Ordering::Release);
    }

    /// Queries the servers of a file whose bytes may not be on stable storage, unless they have reported their machine starts recently,
    /// within less time than a restart takes. Returns the answer on the file.
    pub(crate) fn ask_again(
        &self,
        database: &dyn Database,
        map: &StoreMap,
        io: &dyn IoServers,
        (of, targets): (&Settlement, &[TargetId]),
    ) -> Settled {
        if self.known_starts(map).standing(of, targets) != Standing::Pending {
            return self.known_starts(map).settled(of, targets, |_| true);
        }
        let places: BTreeSet<usize> = targets.iter().filter_map(|target| Some(map.target(*target)?.0.server as usize)).collect();
        let heard = self.heard.lock().clone();
        let is_due = |place: &usize| heard.get(place).is_none_or(|when| when.elapsed() >= LATELY);
        let due: BTreeSet<usize> = places.into_iter().filter(is_due).collect();
        let proof = if due.is_empty() { None } else { Some(self.ask(database, map, io, &due)) };
        let has_said = |place: usize| !due.contains(&place) || proof.as_ref().is_some_and(|proof| proof.has_said(place));
        self.known_starts(map).settled(of, targets, has_said)
    }

    /// Queries these servers (indices into the map) after this call, together with all other waiting callers.
    pub(crate) fn ask(&self, database: &dyn Database, map: &StoreMap, io: &dyn IoServers, servers: &BTreeSet<usize>) -> Arc<Proof> {
        let mut asking = self.asking.lock();
        asking.wanted.extend(servers);
        let round = Arc::clone(&asking.next);
        loop {
            if let Some(outcome) = round.outcome.get() {
                return Arc::clone(outcome);
            }
            if asking.is_under_way {
                self.done.wait(&mut asking);
                continue;
            }
            asking.is_under_way = true;
            let ours = std::mem::take(&mut asking.next);
            let wanted = std::mem::take(&mut asking.wanted);
            drop(asking);
            let over = Finally(|| {
                // After a panic nothing was learned.
                ours.outcome.get_or_init(|| Arc::new(self.unasked(map)));
                self.asking.lock().is_under_way = false;
                self.done.notify_all();
            });
            let proof = self.round(database, map, io, &wanted);
            let _ = ours.outcome.set(Arc::new(proof));
            drop(over);
            asking = self.asking.lock();
        }
    }

    fn round(&self, database: &dyn Database, map: &StoreMap, io: &dyn IoServers, wanted: &BTreeSet<usize>) -> Proof {
        let entries: Vec<ServerEntry> = wanted.iter().filter_map(|place| map.servers.get(*place).cloned()).collect();
        let reported = if entries.is_empty() { Vec::new() } else { io.boots(&entries) };
        let reported: Vec<(usize, &ServerEntry, String)> = wanted
            .iter()
            .zip(&entries)
            .zip(reported)
            .filter_map(|((place, entry), boot)| Some((*place, entry, boot.filter(|boot| is_known(boot))?)))
            .collect();
        let mut proof = self.unasked(map);
        let has_changed =
            |known: &BootState| reported.iter().any(|(_, s, boot)| known.servers.get(&s.name).is_none_or(|(was, _)| was != boot));
        let before = self.known.lock().clone();
        let known = if has_changed(&before) {
            let mut after = before;
            after.now += 1;
            let (mut restarted, mut has_met) = (Vec::new(), false);
            for (_, server, boot) in &reported {
                if after.servers.get(&server.name).is_none_or(|(was, _)| was != boot) {
                    match after.servers.insert(server.name.clone(), (boot.clone(), after.now)) {
                        Some(_) => restarted.push((server.name.clone(), after.now)),
                        None => has_met = true,
                    }
                }
            }
            let kept = write(database, &mut Unwatched, |t| {
                t.put(Table::State, BOOTS, encode(&after));
                if !restarted.is_empty() {
                    let (key, value) = self.rounds.restarted(&restarted);
                    t.put(Table::State, &key, value);
                }
                Ok::<_, thalweg_wire::Error>(())
            });
            // If a start is forgotten in a power loss of the service, the next one would be overlooked.
            let kept = kept.and_then(|()| if has_met { Ok(database.sync(&mut Unwatched)?) } else { Ok(()) });
            if kept.is_err() {
                // Nothing may be settled at a count that is not stored, and nothing is proved meanwhile.
                return proof;
            }
            *self.known.lock() = after.clone();
            after
        } else {
            before
        };
        let now = Instant::now();
        let mut heard = self.heard.lock();
        for (place, server, _) in &reported {
            proof.servers[*place] = known.servers[&server.name].1;
            heard.insert(*place, now);
        }
        proof
    }
}

/// Returns whether a machine reports its boot; otherwise a restart cannot be detected.
fn is_known(boot_id: &str) -> bool {
    !boot_id.is_empty() && boot_id != "unknown"
}
