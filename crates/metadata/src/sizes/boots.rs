//! Which machine start of each server a settled size is of.
//!
//! Machine starts are counted over the whole store: the count grows when a server is found to have been restarted, or is met for the first
//! time, and each server is known *since* a count. A size that was settled at a count is of the present start of a server if that is
//! not later. Nothing is lost with a machine that is stopped in good order after this service was: the service leaves word of that.
//!
//! Servers are asked in rounds: a round begins after everybody who waits for it has come, and asks each server that one of them
//! needs once. A caller that comes while it is under way waits for the next.

use super::rounds::{Known as Stored, Rounds};
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
/// Key in [`Table::State`]: there while the service is not running and was stopped in good order.
const STOPPED: &[u8] = b"sizes.stopped";

/// What a server has said so long ago still holds.
const LATELY: Duration = Duration::from_secs(1);

/// What is known of machine starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// The count.
    now: u32,
    /// This service's machine.
    service: (String, u32),
    /// The I/O servers', by name.
    servers: HashMap<String, (String, u32)>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Boots {
    known: Mutex<Known>,
    asking: Mutex<Asking>,
    done: Condvar,
    /// When each server has last said which start this is.
    heard: Mutex<HashMap<usize, Instant>>,
    /// Whether every server of the map has said which start this is, once.
    met: AtomicBool,
    /// Which bytes are on stable storage.
    pub rounds: Rounds,
}

#[derive(Default)]
struct Asking {
    is_under_way: bool,
    next: Arc<Round>,
    /// Whom the next round asks: places in the map.
    wanted: BTreeSet<usize>,
}

#[derive(Default)]
struct Round {
    outcome: OnceLock<Arc<Proof>>,
}

/// Since which count each target's machine start is known, as of a moment after the question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    service: u32,
    /// By place in the map's list of servers; `u32::MAX`: it did not say.
    servers: Vec<u32>,
    /// By place in the map's list of targets.
    targets: Vec<(TargetId, u32)>,
}

impl Proof {
    fn server(&self, target: TargetId) -> Option<usize> {
        // Targets are numbered from 0 on, unless somebody wrote store.toml by hand.
        let place = match self.targets.get(target.0 as usize) {
            Some((id, server)) if *id == target => *server,
            _ => self.targets[self.targets.binary_search_by_key(&target, |(id, _)| *id).ok()?].1,
        };
        Some(place as usize)
    }

    /// The latest count since which the servers of these targets are known; `u32::MAX`: one of them did not say. A size that was
    /// settled at an earlier count does not count, unless it is 0: a file without bytes has nothing to lose, and was truncated on
    /// media.
    pub(crate) fn since(&self, targets: &[TargetId]) -> u32 {
        let of_server = |target: &TargetId| self.server(*target).and_then(|server| self.servers.get(server).copied());
        targets.iter().map(|target| of_server(target).unwrap_or(u32::MAX)).max().unwrap_or(0)
    }

    /// Whether the server at this place has said which start of its machine this is.
    pub(crate) fn has_said(&self, place: usize) -> bool {
        self.servers.get(place).is_some_and(|since| *since != u32::MAX)
    }

    /// Whether the server at this place has said, both times, that this is the same start of its machine.
    pub(crate) fn is_same_start(&self, other: &Proof, place: usize) -> bool {
        let since = |proof: &Proof| proof.servers.get(place).copied().filter(|since| *since != u32::MAX);
        since(self).is_some_and(|ours| since(other) == Some(ours))
    }

    /// Whether the service itself has not lost what writers said since `boots`: without that no size counts.
    pub(crate) fn remembers(&self, boots: u32) -> bool {
        self.service <= boots
    }
}

/// What is known of machine starts and rounds at a moment, by which clients are answered what files' rows say.
pub(crate) struct KnownStarts<'m> {
    service: u32,
    stored: Arc<Stored>,
    map: &'m StoreMap,
}

/// What has become of the bytes of a file that was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// They are on stable storage.
    Durable,
    /// They are where they were written.
    Pending,
    /// They may have been lost.
    Doubtful,
}

impl KnownStarts<'_> {
    /// What a file's row says, as clients are answered. `has_said`: whether the server at a place has just said which start of its machine this
    /// is. One that has not may have been restarted; where nobody knows how long the datafiles are, what it lost would be read as a hole.
    pub(crate) fn settled(&self, of: &Settlement, targets: &[TargetId], has_said: impl Fn(usize) -> bool) -> Settled {
        let unsaid = || {
            let mut servers = targets.iter().filter_map(|target| Some((self.map.target(*target)?.0.server, self.map.target(*target)?.1)));
            servers.find(|(place, server)| !has_said(*place as usize) && !self.stored.has_stored(&server.name, of)).map(|(place, _)| place)
        };
        let is_open_question = of.lengths == Lengths::Unknown && of.size_bytes > 0 && of.unsynced.is_some();
        let doubtful = self.doubtful(of, targets).or_else(|| if is_open_question { unsaid() } else { None });
        Settled { size_bytes: of.size_bytes, lengths: of.lengths.clone(), is_exact: self.service <= of.boots, doubtful }
    }

    /// What has become of its bytes, and what only the present starts of its servers have taken.
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
    /// The service begins on a machine of this start. Until then nothing is proved.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn start(&self, database: &dyn Database, boot_id: &str) -> Result<()> {
        let known = write(database, &mut Unwatched, |t| {
            let value = t.get(Table::State, BOOTS)?;
            let mut known: Known = value.map(|value| decode(Table::State, BOOTS, &value)).transpose()?.unwrap_or_default();
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

    /// The service stops in good order: nobody writes through it any more, and everything will be durable.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn stop(&self, database: &dyn Database) -> Result<()> {
        write(database, &mut Unwatched, |t| {
            t.put(Table::State, STOPPED, encode(&()));
            Ok(())
        })
    }

    /// The count that sizes are settled at.
    pub(crate) fn now(&self) -> u32 {
        self.known.lock().now
    }

    /// What can be said without asking any server.
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

    /// What is to be said of files' rows now.
    pub(crate) fn known_starts<'m>(&self, map: &'m StoreMap) -> KnownStarts<'m> {
        KnownStarts { service: self.service(), stored: self.rounds.known(), map }
    }

    /// Asks the servers that were never met: what is written to one before cannot be distinguished from what it has lost. (One that is away is asked
    /// again with the next file.)
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

    /// Asks the servers with parts of a file whose bytes may not be on stable storage, unless they have said lately which start of their machine
    /// this is: no machine restarts faster than that. What is to be said of the file's row then.
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

    /// Asks the servers at these places in the map, together with all others that wait for them, after this was called.
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
                // After a panic: nothing was learned.
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
        let has_changed = |known: &Known| reported.iter().any(|(_, s, boot)| known.servers.get(&s.name).is_none_or(|(was, _)| was != boot));
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
            // A start that is forgotten again, with the service's power, would hide the next one.
            let kept = kept.and_then(|()| if has_met { Ok(database.sync(&mut Unwatched)?) } else { Ok(()) });
            if kept.is_err() {
                // Nothing is settled at a count that is not kept, and nothing is proved meanwhile.
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

/// A machine without a number of its start cannot be distinguished from itself after the next.
fn is_known(boot_id: &str) -> bool {
    !boot_id.is_empty() && boot_id != "unknown"
}
