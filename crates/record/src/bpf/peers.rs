//! Processes that the path reaches on this machine: the reader's part of what `bpf/follow.bpf.h` does.
//!
//! The programs take hold of single threads, where they have to do with a recorded one. Here the rest of such a process is taken hold of,
//! what it is (a server, if it listens, serves a file system, or was made by one) is looked up, and the other ends of the pipes and
//! unix sockets that a recorded thread blocks on are found by a walk over all open files, once for each. Who was to accept a call that nobody
//! answers is found by its listening socket.

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

/// Between two walks over all open files lies so many times as long as the last one took.
const WALK_PART: u32 = 50;

/// The processes that were reached.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Their roles.
    known: BTreeMap<u32, u32>,
    /// Calls that nobody answers.
    unaccepted: Unaccepted,
    /// There was no room for some.
    left_out: bool,
    /// What was wanted when all open files were last walked over.
    wanted: u32,
    next_walk: Option<Instant>,
}

impl Peers {
    /// The command is held, with what it was given as input and output: whoever has the other ends of its input is recorded.
    pub(crate) fn begin(&mut self, programs: &Programs) -> Result<(), RecordError> {
        programs.walk("inherited")?;
        self.walk(programs)
    }

    /// Once in each of the reader's rounds, for the processes that are new.
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
            // What one of a server's processes waits for, another may have: a lock of their own, shared memory.
            for kin in made.then_some(process.parent).or(listens.then_some(process.pid)).map(kin).unwrap_or_default() {
                if let Entry::Vacant(new) = self.known.entry(kin) {
                    new.insert(raw::ROLE_SERVER);
                    self.watch(programs, kin, raw::ROLE_SERVER, process.depth);
                }
            }
        }
        for pid in self.unaccepted.round(translator) {
            // (What it is besides is looked up when it has been met.)
            take_hold |= self.watch(programs, pid, raw::ROLE_SERVER, 1);
        }
        if take_hold {
            programs.walk("seed")?;
        }
        self.walk(programs)
    }

    /// Has a process watched; `false`: there is no room for it, and the recording goes on without.
    fn watch(&mut self, programs: &Programs, pid: u32, role: u32, depth: u32) -> bool {
        let watched = programs.watch(pid, role | depth << 8).is_ok();
        self.left_out |= !watched;
        watched
    }

    /// What stands in the recording of those that were not followed any further.
    pub(crate) fn not_followed(&self, control: &Control) -> Option<String> {
        (control.refused > 0 || self.left_out || self.unaccepted.left_out).then(|| {
            "More processes have to do with the command than are followed: what those did that are further away is not recorded.".to_owned()
        })
    }

    /// Whether the next round should come soon.
    pub(crate) fn is_busy(&self, translator: &Translator) -> bool {
        self.unaccepted.is_busy() || translator.connections.has_unanswered()
    }

    /// Looks for the holders of what is wanted, if that is news.
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

/// Whether a process listens, on TCP or a unix socket, or serves a file system.
fn serves(pid: u32) -> bool {
    called_by(pid) != 0
}

/// Whether a process was forked by one that listens, and is the same program: the listener's sockets are closed in it.
fn is_made_by_a_server(process: &Reached) -> bool {
    let name = |pid: u32| Stat::of(pid).map(|process| process.name);
    process.parent > 1 && name(process.pid).is_some_and(|own| name(process.parent) == Some(own)) && serves(process.parent)
}

/// A server's processes: the one that listens, and those of the same program that it made.
fn kin(listener: u32) -> Vec<u32> {
    const MOST: usize = 64;
    let name = |pid: u32| Stat::of(pid).map(|process| process.name);
    let own = name(listener);
    let made = children(listener).into_iter().filter(|child| own.is_some() && name(*child) == own);
    std::iter::once(listener).chain(made).take(MOST).collect()
}
