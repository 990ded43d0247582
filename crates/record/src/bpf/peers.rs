//! Local processes that the path reaches: the reader's part of `bpf/follow.bpf.h`.
//!
//! The programs attach to single threads that interact with a recorded one. Here the rest of such a process is
//! attached to, its kind is looked up (a server, if it listens, serves a file system, or was started by a server),
//! and the other ends of the pipes and Unix sockets that a recorded thread blocks on are found by a walk over all
//! open files, once each. The process that should accept an unanswered call is found by its listening socket.

use super::load::Programs;
use super::raw::{self, Control};
use super::translate::{Reached, Translator};
use super::unanswered::Unaccepted;
use crate::RecordError;
use crate::proc::processes::children;
use crate::proc::serving::called_by;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};
use thalweg_base::proc::stat::Stat;

/// Minimum interval between two walks over all open files, as a multiple of the last one's duration.
const WALK_PART: u32 = 50;

/// The processes reached.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Their roles.
    known: BTreeMap<u32, u32>,
    /// Unanswered calls.
    unaccepted: Unaccepted,
    /// Some did not fit.
    left_out: bool,
    /// Number of requests at the last walk over all open files.
    wanted: u32,
    next_walk: Option<Instant>,
}

impl Peers {
    /// Records the processes with the other ends of the held command's input and output.
    pub(crate) fn begin(&mut self, programs: &Programs) -> Result<(), RecordError> {
        programs.walk("inherited")?;
        self.walk(programs)
    }

    /// Handles new processes, once per round of the reader.
    pub(crate) fn round(&mut self, programs: &Programs, translator: &mut Translator) -> Result<(), RecordError> {
        let reached = std::mem::take(&mut translator.threads.reached);
        let mut take_hold = false;
        for process in reached {
            if self.known.contains_key(&process.pid) {
                continue;
            }
            let listens = serves(process.pid);
            let made = !listens && is_made_by_a_server(&process);
            let of_server = self.known.get(&process.parent) == Some(&raw::ROLE_SERVER);
            let serves = process.role == raw::ROLE_SERVER || of_server || listens || made;
            let role = if serves { raw::ROLE_SERVER } else { process.role };
            self.known.insert(process.pid, role);
            if role != process.role {
                translator.threads.serves(process.pid, &mut translator.output);
            }
            take_hold |= self.watch(programs, process.pid, role, process.depth);
            // What one of a server's processes waits for, another may have: a private lock, shared memory.
            for kin in made.then_some(process.parent).or(listens.then_some(process.pid)).map(kin).unwrap_or_default() {
                if let Entry::Vacant(new) = self.known.entry(kin) {
                    new.insert(raw::ROLE_SERVER);
                    self.watch(programs, kin, raw::ROLE_SERVER, process.depth);
                }
            }
        }
        for pid in self.unaccepted.round(translator) {
            // (The rest about it is looked up when it has been met.)
            take_hold |= self.watch(programs, pid, raw::ROLE_SERVER, 1);
        }
        if take_hold {
            programs.walk("seed")?;
        }
        self.walk(programs)
    }

    /// Watches a process; `false` if it does not fit, and the recording continues without it.
    fn watch(&mut self, programs: &Programs, pid: u32, role: u32, depth: u32) -> bool {
        let watched = programs.watch(pid, role | depth << 8).is_ok();
        self.left_out |= !watched;
        watched
    }

    /// Returns the note on processes that were not followed.
    pub(crate) fn not_followed(&self, control: &Control) -> Option<String> {
        (control.refused > 0 || self.left_out || self.unaccepted.left_out)
            .then(|| "The command interacts with more processes than are followed; more distant ones are not recorded.".to_owned())
    }

    /// Whether the next round should come soon.
    pub(crate) fn is_busy(&self, translator: &Translator) -> bool {
        self.unaccepted.is_busy() || translator.connections.has_unanswered()
    }

    /// Searches for the holders of requested ends, if there are new requests.
    fn walk(&mut self, programs: &Programs) -> Result<(), RecordError> {
        let wanted = programs.control().wanted;
        let begun = Instant::now();
        if wanted == self.wanted || self.next_walk.is_some_and(|at| begun < at) {
            return Ok(());
        }
        programs.walk("peers")?;
        self.wanted = wanted;
        self.next_walk = Some(begun + begun.elapsed().max(Duration::from_micros(1)) * WALK_PART);
        Ok(())
    }
}

/// Whether a process listens on TCP or a Unix socket, or serves a file system.
fn serves(pid: u32) -> bool {
    called_by(pid) != 0
}

/// Whether a process was forked by one that listens and runs the same program: it has closed the listener's sockets.
fn is_made_by_a_server(process: &Reached) -> bool {
    let name = |pid: u32| Stat::of(pid).map(|process| process.name);
    process.parent > 1 && name(process.pid).is_some_and(|own| name(process.parent) == Some(own)) && serves(process.parent)
}

/// Returns a server's processes: the listener, and its children running the same program.
fn kin(listener: u32) -> Vec<u32> {
    const MOST: usize = 64;
    let name = |pid: u32| Stat::of(pid).map(|process| process.name);
    let own = name(listener);
    let made = children(listener).into_iter().filter(|child| own.is_some() && name(*child) == own);
    std::iter::once(listener).chain(made).take(MOST).collect()
}
