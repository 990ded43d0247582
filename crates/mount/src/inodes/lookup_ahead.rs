//! Lookup read-ahead: names looked up in a directory's order are answered from a walk.
//!
//! A program that lists a directory and then stats one file after the other (`du`, `rm -r`, `tar`, all that sort first) asks when the
//! kernel has no attributes, or expired ones. A request for each would cost a round trip each. So when names of a directory that was
//! listed here are looked up in its order, a walk begins after the last of them and answers the following ones, many per request. A walk
//! whose entries are not used ends.
//!
//! It never answers that a name does not exist, and never with data older than its lifetime or than a change made here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use thalweg_base::sync::Mutex;
use thalweg_client::walk::{Walk, WalkEntry, Walker};
use thalweg_client::wire::Operation;
use thalweg_client::wire::protocol::metadata::{FileId, FilePath};
use thalweg_trace::Tracer;

/// Bound: directories remembered as listed.
const DIRECTORIES: usize = 64;
/// Number of names in order after which a walk begins.
const IN_ORDER: u32 = 2;
/// Bound: fetched entries kept after being skipped: programs that process several files in parallel ask slightly out of order.
const PASSED: usize = 256;
/// Bound: entries one lookup may skip; a name further away is looked up separately.
const FAR: usize = 512;
/// Entries taken from a walk together.
const BATCH: usize = 64;
/// Number of names out of order after which a walk ends.
const STRAYS: u32 = 16;

/// Recently listed directories, latest last.
#[derive(Default)]
pub(crate) struct LookupAhead {
    directories: Mutex<VecDeque<(FileId, Arc<Mutex<DirectoryLookups>>)>>,
    /// Lookups answered from a walk.
    pub answered: AtomicU64,
}

/// Lookups in one directory.
#[derive(Default)]
pub(crate) struct DirectoryLookups {
    /// Last name looked up, and the number of names in order.
    last: Vec<u8>,
    in_order: u32,
    strays: u32,
    walk: Option<Walk>,
    /// Entries fetched by the walk and not requested yet, in order.
    came: VecDeque<WalkEntry>,
    /// Numbers of fetched entries that were used, and not used.
    wanted: u64,
    unwanted: u64,
}

impl LookupAhead {
    /// Records that a directory is being listed from its beginning.
    pub(crate) fn listed(&self, directory: FileId) {
        let mut directories = self.directories.lock();
        let known = directories.iter().position(|(id, _)| *id == directory).and_then(|at| directories.remove(at));
        directories.push_back(known.unwrap_or_else(|| (directory, Arc::default())));
        if directories.len() > DIRECTORIES {
            directories.pop_front();
        }
    }

    /// Returns the lookup state of a recently listed directory.
    pub(crate) fn of(&self, directory: FileId) -> Option<Arc<Mutex<DirectoryLookups>>> {
        let directories = self.directories.lock();
        directories.iter().rev().find(|(id, _)| *id == directory).map(|(_, follow)| Arc::clone(follow))
    }
}

impl DirectoryLookups {
    /// Returns a name's entry, if a walk has fetched it or is about to, no older than `lifetime`.
    pub(crate) fn find(&mut self, tracer: &mut Tracer, walker: &Walker, place: &FilePath, lifetime: Duration) -> Option<WalkEntry> {
        if self.came.front().is_some_and(|entry| entry.asked.elapsed() >= lifetime / 2) {
            // A slow program is answered by a younger walk.
            self.unwanted += self.came.len() as u64;
            self.came.clear();
            self.walk = self.is_worth_it().then(|| walker.directory_after(&FilePath::of(place.from), Some(&self.last)));
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

    /// Takes an entry already fetched.
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

    /// Advances the walk to a name beyond the entries fetched.
    fn walk_to(&mut self, tracer: &mut Tracer, name: &[u8]) -> Option<WalkEntry> {
        if name <= self.last.as_slice() || self.came.back().is_some_and(|entry| entry.name.as_slice() >= name) {
            return None;
        }
        let mut brought = 0;
        while brought < FAR {
            let batch = self.walk.as_mut()?.next_batch(tracer, BATCH).inspect_err(Operation::met).unwrap_or_default();
            if batch.is_empty() {
                // The walk ended, or failed; a separate lookup of the name gets the error.
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

    /// Whether a walk should begin: not if most of the fetched entries were unused, since lookups are then not in order.
    fn is_worth_it(&self) -> bool {
        self.in_order >= IN_ORDER && self.unwanted <= self.wanted + 4 * PASSED as u64
    }

    /// Handles a name that was not fetched: a walk may begin after it.
    fn missed(&mut self, walker: &Walker, place: &FilePath) {
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
            self.walk = Some(walker.directory_after(&FilePath::of(place.from), Some(name)));
        }
    }
}
