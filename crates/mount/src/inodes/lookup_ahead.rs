//! Lookup read-ahead: names that are looked up in a directory's order are answered by a walk.
//!
//! A program that has listed a directory and then asks for one file after another (`du`, `rm -r`, `tar`, all that sort first) asks when
//! the kernel has no attributes, or only expired ones. One request for each would cost a round trip for each. So when names of a
//! directory that was listed here are looked up in its order, a walk begins after the last of them and answers those that follow, many
//! for each request. A walk whose entries are not wanted ends.
//!
//! It never says that a name does not exist, nor anything that is older than a lifetime or than a change here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use thalweg_base::sync::Mutex;
use thalweg_client::walk::{Walk, WalkEntry, Walker};
use thalweg_client::wire::Operation;
use thalweg_client::wire::protocol::metadata::{FileId, Place};
use thalweg_trace::Tracer;

/// Directories of which it is remembered that they were listed.
const DIRECTORIES: usize = 64;
/// Names in order after which those that follow are asked for.
const IN_ORDER: u32 = 2;
/// Entries that have come and were passed over: programs that work on several at a time ask a little out of order.
const PASSED: usize = 256;
/// Entries that one name may pass over: one further away is asked for by itself.
const FAR: usize = 512;
/// Entries that are taken from a walk at a time.
const BATCH: usize = 64;
/// Names out of order after which a walk ends.
const STRAYS: u32 = 16;

/// The directories that were listed last, the last one last.
#[derive(Default)]
pub(crate) struct LookupAhead {
    directories: Mutex<VecDeque<(FileId, Arc<Mutex<DirectoryLookups>>)>>,
    /// Lookups that were answered by what a walk had brought.
    pub answered: AtomicU64,
}

/// One directory.
#[derive(Default)]
pub(crate) struct DirectoryLookups {
    /// The name that was looked up last, and how many came in order.
    last: Vec<u8>,
    in_order: u32,
    strays: u32,
    walk: Option<Walk>,
    /// What the walk has brought and nobody asked for yet, in order.
    came: VecDeque<WalkEntry>,
    /// Of what the walk brought, how much was wanted and how much not.
    wanted: u64,
    unwanted: u64,
}

impl LookupAhead {
    /// A directory is being listed from its beginning.
    pub(crate) fn listed(&self, directory: FileId) {
        let mut directories = self.directories.lock();
        let known = directories.iter().position(|(id, _)| *id == directory).and_then(|at| directories.remove(at));
        directories.push_back(known.unwrap_or_else(|| (directory, Arc::default())));
        if directories.len() > DIRECTORIES {
            directories.pop_front();
        }
    }

    /// Where a directory is followed, if it was listed here lately.
    pub(crate) fn of(&self, directory: FileId) -> Option<Arc<Mutex<DirectoryLookups>>> {
        let directories = self.directories.lock();
        directories.iter().rev().find(|(id, _)| *id == directory).map(|(_, follow)| Arc::clone(follow))
    }
}

impl DirectoryLookups {
    /// A name is looked up: its entry, if a walk has brought it or is about to. Young enough is what is not older than `lifetime`.
    pub(crate) fn find(&mut self, tracer: &mut Tracer, walker: &Walker, place: &Place, lifetime: Duration) -> Option<WalkEntry> {
        if self.came.front().is_some_and(|entry| entry.asked.elapsed() >= lifetime / 2) {
            // Who asks slowly is answered by a younger walk.
            self.unwanted += self.came.len() as u64;
            self.came.clear();
            self.walk = self.is_worth_it().then(|| walker.directory_after(&Place::of(place.from), Some(&self.last)));
        }
        let found = self.take(&place.path).or_else(|| self.walk_to(tracer, &place.path));
        if found.is_some() {
            self.wanted += 1;
            self.strays = 0;
            self.last.clone_from(&place.path);
            return found;
        }
        self.missed(walker, place);
        None
    }

    /// What has come already.
    fn take(&mut self, name: &[u8]) -> Option<WalkEntry> {
        let at = self.came.binary_search_by(|entry| entry.name.as_slice().cmp(name)).ok()?;
        let found = self.came.remove(at);
        while at.min(self.came.len()) > PASSED && self.came.front().is_some_and(|entry| entry.name.as_slice() < name) {
            self.pass_over();
            if self.came.front().is_none_or(|entry| entry.name.as_slice() >= name) || self.came.len() <= PASSED {
                break;
            }
        }
        found
    }

    fn pass_over(&mut self) {
        if self.came.pop_front().is_some() {
            self.unwanted += 1;
        }
    }

    /// Lets the walk go on to a name that is behind all that has come.
    fn walk_to(&mut self, tracer: &mut Tracer, name: &[u8]) -> Option<WalkEntry> {
        if name <= self.last.as_slice() || self.came.back().is_some_and(|entry| entry.name.as_slice() >= name) {
            return None;
        }
        let mut brought = 0;
        while brought < FAR {
            let batch = self.walk.as_mut()?.next_batch(tracer, BATCH).inspect_err(Operation::met).unwrap_or_default();
            if batch.is_empty() {
                // It has ended, or an error that the caller that asks for the name by itself gets.
                self.walk = None;
                return None;
            }
            brought += batch.len();
            self.came.extend(batch);
            if self.came.back().is_some_and(|entry| entry.name.as_slice() >= name) {
                return self.take(name);
            }
        }
        None
    }

    /// Whether a walk should begin. Where most of what came was not wanted, names are not looked up in order, whatever it looks like.
    fn is_worth_it(&self) -> bool {
        self.in_order >= IN_ORDER && self.unwanted <= self.wanted + 4 * PASSED as u64
    }

    /// A name was not among what came: perhaps it is the one to go on from.
    fn missed(&mut self, walker: &Walker, place: &Place) {
        let name = &place.path;
        let follows = name.as_slice() > self.last.as_slice();
        self.in_order = if follows && !self.last.is_empty() { self.in_order + 1 } else { 0 };
        self.strays += 1;
        self.last.clone_from(name);
        let is_walking = self.walk.is_some() || !self.came.is_empty();
        let is_lost = self.strays >= STRAYS || self.walk.is_none() && self.came.is_empty();
        if is_walking && !is_lost {
            return;
        }
        self.unwanted += self.came.len() as u64;
        self.came.clear();
        self.walk = None;
        if self.is_worth_it() {
            self.strays = 0;
            self.walk = Some(walker.directory_after(&Place::of(place.from), Some(name)));
        }
    }
}
