//! Which machine start of each server a settled size is of.
//!
//! Machine starts are counted over the whole store: the count grows when a server is found to have been restarted, or is met for the first
//! time, and each server is known *since* a count. A size that was settled at a count is of the present start of a server if that is
//! not later. Nothing is lost with a machine that is stopped in good order after this service was: the service leaves word of that.
//!
//! Servers are asked in rounds: a round begins after everybody who waits for it has come, and asks each server that one of them
//! needs once. Whoever comes while it is under way waits for the next.

use crate::error::Result;
use crate::metadata::database::{Database, Table, Unwatched, write};
use crate::metadata::inode::{decode, encode};
use crate::metadata::intents::IoServers;
use crate::protocol::metadata::{ServerEntry, StoreMap, TargetId};
use crate::sync::{Finally, locked};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

/// Key in [`Table::State`].
const BOOTS: &[u8] = b"sizes.boots";
/// Key in [`Table::State`]: there while the service is not running and was stopped in good order.
const STOPPED: &[u8] = b"sizes.stopped";

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
    rounds: Mutex<Rounds>,
    done: Condvar,
}

#[derive(Default)]
struct Rounds {
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
pub struct Proof {
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
    pub fn since(&self, targets: &[TargetId]) -> u32 {
        let of_server = |target: &TargetId| self.server(*target).and_then(|server| self.servers.get(server).copied());
        targets.iter().map(|target| of_server(target).unwrap_or(u32::MAX)).max().unwrap_or(0)
    }

    /// Whether the service itself has not lost what writers said since `boots`: without that no size counts.
    pub fn remembers(&self, boots: u32) -> bool {
        self.service <= boots
    }
}

impl Boots {
    /// The service begins on a machine of this start. Until then nothing is proved.
    ///
    /// # Errors
    /// The database's.
    pub fn start(&self, database: &dyn Database, boot_id: &str) -> Result<()> {
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
            Ok::<_, crate::Error>(known)
        })?;
        database.sync(&mut Unwatched)?;
        *locked(&self.known) = known;
        Ok(())
    }

    /// The service stops in good order: nobody writes through it any more, and everything will be on media.
    ///
    /// # Errors
    /// The database's.
    pub fn stop(&self, database: &dyn Database) -> Result<()> {
        write(database, &mut Unwatched, |t| {
            t.put(Table::State, STOPPED, encode(&()));
            Ok(())
        })
    }

    /// The count that sizes are settled at.
    pub fn now(&self) -> u32 {
        locked(&self.known).now
    }

    /// What can be said without asking any server.
    pub fn unasked(&self, map: &StoreMap) -> Proof {
        let targets = map.targets.iter().map(|t| (t.target, t.server)).collect();
        Proof { service: self.service(), servers: vec![u32::MAX; map.servers.len()], targets }
    }

    fn service(&self) -> u32 {
        match locked(&self.known).service.1 {
            0 => u32::MAX,
            since => since,
        }
    }

    /// Asks the servers at these places in the map, together with whoever else waits for them, after this was called.
    pub fn ask(&self, database: &dyn Database, map: &StoreMap, io: &dyn IoServers, servers: &BTreeSet<usize>) -> Arc<Proof> {
        let mut rounds = locked(&self.rounds);
        rounds.wanted.extend(servers);
        let round = Arc::clone(&rounds.next);
        loop {
            if let Some(outcome) = round.outcome.get() {
                return Arc::clone(outcome);
            }
            if rounds.is_under_way {
                rounds = self.done.wait(rounds).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            rounds.is_under_way = true;
            let ours = std::mem::take(&mut rounds.next);
            let wanted = std::mem::take(&mut rounds.wanted);
            drop(rounds);
            let over = Finally(|| {
                // After a panic: nothing was learned.
                ours.outcome.get_or_init(|| Arc::new(self.unasked(map)));
                locked(&self.rounds).is_under_way = false;
                self.done.notify_all();
            });
            let proof = self.round(database, map, io, &wanted);
            let _ = ours.outcome.set(Arc::new(proof));
            drop(over);
            rounds = locked(&self.rounds);
        }
    }

    fn round(&self, database: &dyn Database, map: &StoreMap, io: &dyn IoServers, wanted: &BTreeSet<usize>) -> Proof {
        let entries: Vec<ServerEntry> = wanted.iter().filter_map(|place| map.servers.get(*place).cloned()).collect();
        let told = if entries.is_empty() { Vec::new() } else { io.boots(&entries) };
        let told: Vec<(usize, &ServerEntry, String)> = wanted
            .iter()
            .zip(&entries)
            .zip(told)
            .filter_map(|((place, entry), boot)| Some((*place, entry, boot.filter(|boot| is_known(boot))?)))
            .collect();
        let mut proof = self.unasked(map);
        let has_changed = |known: &Known| told.iter().any(|(_, s, boot)| known.servers.get(&s.name).is_none_or(|(was, _)| was != boot));
        let before = locked(&self.known).clone();
        let known = if has_changed(&before) {
            let mut after = before;
            after.now += 1;
            for (_, server, boot) in &told {
                if after.servers.get(&server.name).is_none_or(|(was, _)| was != boot) {
                    after.servers.insert(server.name.clone(), (boot.clone(), after.now));
                }
            }
            let kept = write(database, &mut Unwatched, |t| {
                t.put(Table::State, BOOTS, encode(&after));
                Ok::<_, crate::Error>(())
            });
            if kept.is_err() {
                // Nothing is settled at a count that is not kept, and nothing is proved meanwhile.
                return proof;
            }
            *locked(&self.known) = after.clone();
            after
        } else {
            before
        };
        for (place, server, _) in &told {
            proof.servers[*place] = known.servers[&server.name].1;
        }
        proof
    }
}

/// A machine without a number of its start cannot be told from itself after the next.
fn is_known(boot_id: &str) -> bool {
    !boot_id.is_empty() && boot_id != "unknown"
}
