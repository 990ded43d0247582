//! Removes many names: hundreds per request, several requests in flight, directories after their contents.
//!
//! Names must be given in an order in which a directory follows everything in it. Operations within a request are done in order, so a
//! directory may be in the same request as its last entries; it waits only while entries of it are in other unanswered requests. So a deep
//! tree takes no more round trips than a flat one. A name that cannot be removed is reported; the directories above it, which cannot be
//! empty then, are not.

use super::walk::{TreeOptions, Visit, Walker};
use crate::metadata::MetadataClient;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use thalweg_base::sync::Mutex;
use thalweg_trace::{TraceHandle, Tracer};
use thalweg_wire::protocol::metadata::{Attributes, FileId, FileKind, FilePath, Small};
use thalweg_wire::{Error, ErrorKind};

/// Requests in flight.
const IN_FLIGHT: usize = 4;
/// Names per request.
const NAMES: usize = 512;

/// A name to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Directory that holds it.
    pub parent: FileId,
    /// Name in the directory; a path from the root if `parent` is unknown.
    pub name: Vec<u8>,
    /// Path for messages.
    pub path: Vec<u8>,
    /// Number of the entry, if it is a directory.
    pub directory: Option<FileId>,
}

impl Name {
    fn operation(&self) -> Small {
        let place = FilePath { from: self.parent, path: self.name.clone() };
        match self.directory {
            Some(_) => Small::RemoveDirectory { place },
            None => Small::Unlink { place, only: None },
        }
    }
}

/// Called for each path that could not be removed, with the error.
pub type Refused<'a> = dyn FnMut(&[u8], &Error) + 'a;

type Outcomes = Vec<Result<(), Error>>;

/// Removes names and trees.
pub struct Remover {
    order: Ordering,
    names: MetadataClient,
    trace: TraceHandle,
    /// `None` before the first request.
    threads: Option<Threads>,
    in_flight: usize,
    /// Whether a missing name counts as removed.
    force: bool,
}

impl Remover {
    /// Creates a remover for the store with these names.
    pub fn new(names: MetadataClient, trace: &TraceHandle, force: bool) -> Remover {
        Remover { order: Ordering::default(), names, trace: trace.clone(), threads: None, in_flight: 0, force }
    }

    /// Removes a name; a directory must follow everything in it.
    pub fn remove(&mut self, name: Name, refused: &mut Refused<'_>) {
        self.order.add(name);
        while self.order.ready.len() >= NAMES {
            self.send(refused);
        }
    }

    /// Removes a path, including everything in a directory. A store's root is emptied and kept.
    pub fn remove_path(&mut self, tracer: &mut Tracer, walker: &Walker, path: &[u8], known: &Attributes, refused: &mut Refused<'_>) {
        let directory = (known.kind == FileKind::Directory).then_some(known.id);
        if let Some(id) = directory {
            self.below(tracer, walker, path, id, refused);
        }
        if known.id != FileId::ROOT {
            self.remove(Name { parent: FileId::ROOT, name: path.to_vec(), path: path.to_vec(), directory }, refused);
        }
    }

    /// Removes everything in a directory.
    fn below(&mut self, tracer: &mut Tracer, walker: &Walker, path: &[u8], id: FileId, refused: &mut Refused<'_>) {
        let directory = path.strip_suffix(b"/").unwrap_or(path);
        let mut tree = walker.tree(&FilePath::of(id), TreeOptions { leaving: true, ..TreeOptions::default() });
        while let Some(next) = tree.next(tracer) {
            let next = match next {
                Ok(next) => next,
                Err(error) => {
                    refused(path, &error);
                    self.order.stays.insert(id);
                    return;
                }
            };
            let path = [directory, b"/", &next.path].concat();
            let is_directory = next.entry.kind == FileKind::Directory;
            match next.visit {
                // Removed by another client meanwhile.
                Visit::Unreadable(error) if self.force && error.is_gone() => {}
                Visit::Unreadable(error) => {
                    refused(&path, &error);
                    self.order.stays.insert(next.entry.id);
                }
                Visit::Found if is_directory => {}
                Visit::Found | Visit::Left => {
                    let directory = is_directory.then_some(next.entry.id);
                    self.remove(Name { parent: next.parent, name: next.entry.name, path, directory }, refused);
                }
            }
        }
    }

    /// Removes the remaining names and waits for all answers.
    pub fn finish(mut self, refused: &mut Refused<'_>) {
        loop {
            if !self.order.ready.is_empty() {
                self.send(refused);
            } else if self.in_flight > 0 {
                self.answer(refused);
            } else {
                break;
            }
        }
        if let Some(Threads { requests, answers, workers }) = self.threads.take() {
            drop((requests, answers));
            workers.into_iter().for_each(|worker| drop(worker.join()));
        }
    }

    fn send(&mut self, refused: &mut Refused<'_>) {
        while self.in_flight >= IN_FLIGHT {
            self.answer(refused);
        }
        let names = self.order.take(NAMES);
        if names.is_empty() {
            return;
        }
        self.in_flight += 1;
        let threads = self.threads.get_or_insert_with(|| Threads::start(&self.names, &self.trace));
        let unsent = if threads.workers.is_empty() { Err(names) } else { threads.requests.send(names).map_err(|e| e.0) };
        if let Err(names) = unsent {
            let error = Error::new(ErrorKind::TooMany, "no thread could be started to remove it");
            self.in_flight -= 1;
            let outcomes = names.iter().map(|_| Err(error.clone())).collect();
            self.take(names, outcomes, refused);
        }
    }

    fn answer(&mut self, refused: &mut Refused<'_>) {
        let answer = self.threads.as_ref().and_then(|threads| threads.answers.recv().ok());
        if let Some((names, outcomes)) = answer {
            self.in_flight -= 1;
            self.take(names, outcomes, refused);
        } else {
            self.in_flight = 0;
        }
    }

    fn take(&mut self, names: Vec<Name>, outcomes: Outcomes, refused: &mut Refused<'_>) {
        for (name, outcome) in names.into_iter().zip(outcomes) {
            let failed = outcome.err().filter(|error| !(self.force && error.is_gone()));
            if let Some(error) = &failed
                // The caller already knows of a directory in which an entry remains.
                && !name.directory.is_some_and(|id| self.order.stays.contains(&id))
            {
                refused(&name.path, error);
            }
            self.order.answered(&name, failed.is_none());
        }
    }
}

/// Threads that send requests.
struct Threads {
    requests: SyncSender<Vec<Name>>,
    answers: Receiver<(Vec<Name>, Outcomes)>,
    workers: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(names: &MetadataClient, trace: &TraceHandle) -> Threads {
        let (requests, taken) = sync_channel::<Vec<Name>>(0);
        let (answered, answers) = channel();
        let taken = Arc::new(Mutex::new(taken));
        let worker = |number: usize| {
            let (names, taken, answered, trace) = (names.clone(), Arc::clone(&taken), answered.clone(), trace.clone());
            let work = move || work(&names, &taken, &answered, &mut trace.thread(&format!("remover {number}")));
            std::thread::Builder::new().name("remover".to_owned()).spawn(work).ok()
        };
        let workers = (0..IN_FLIGHT).filter_map(worker).collect();
        Threads { requests, answers, workers }
    }
}

/// Sends requests until the queue is closed.
fn work(names: &MetadataClient, taken: &Mutex<Receiver<Vec<Name>>>, answered: &Sender<(Vec<Name>, Outcomes)>, tracer: &mut Tracer) {
    loop {
        let next = taken.lock().recv();
        let Ok(batch) = next else { return };
        let operations: Vec<Small> = batch.iter().map(Name::operation).collect();
        let outcomes = names.many(tracer, &operations, Vec::new()).into_iter().map(|outcome| outcome.map(drop)).collect();
        if answered.send((batch, outcomes)).is_err() {
            return;
        }
    }
}

/// Decides which names may be sent; no I/O, no clock.
#[derive(Debug, Default)]
struct Ordering {
    /// Names to send, in this order.
    ready: Vec<Name>,
    /// Per directory: entries sent and unanswered, plus subdirectories that wait.
    unfinished: HashMap<FileId, usize>,
    /// Directories whose entries were all given, but not all answered.
    waiting: HashMap<FileId, Name>,
    /// Directories in which an entry remains.
    stays: HashSet<FileId>,
}

impl Ordering {
    fn add(&mut self, name: Name) {
        match name.directory {
            Some(id) if self.unfinished.contains_key(&id) => {
                *self.unfinished.entry(name.parent).or_default() += 1;
                self.waiting.insert(id, name);
            }
            Some(id) if self.stays.contains(&id) => self.skip(&name, id),
            _ => self.ready.push(name),
        }
    }

    /// Keeps a directory, and therefore its parent.
    fn skip(&mut self, name: &Name, id: FileId) {
        self.stays.remove(&id);
        self.stays.insert(name.parent);
    }

    fn take(&mut self, most: usize) -> Vec<Name> {
        let many = most.min(self.ready.len());
        let names: Vec<Name> = self.ready.drain(..many).collect();
        for name in &names {
            *self.unfinished.entry(name.parent).or_default() += 1;
        }
        // A name left in the queue may be the parent of one that was sent, and must wait for it.
        std::mem::take(&mut self.ready).into_iter().for_each(|name| self.add(name));
        names
    }

    fn answered(&mut self, name: &Name, gone: bool) {
        if !gone {
            self.stays.insert(name.parent);
        }
        if let Some(id) = name.directory {
            self.stays.remove(&id);
        }
        self.finished(name.parent);
    }

    /// Counts down a directory's unfinished entries.
    fn finished(&mut self, directory: FileId) {
        let Some(count) = self.unfinished.get_mut(&directory) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.unfinished.remove(&directory);
        if let Some(name) = self.waiting.remove(&directory) {
            let parent = name.parent;
            if self.stays.contains(&directory) {
                self.skip(&name, directory)
            } else {
                self.ready.push(name)
            }
            self.finished(parent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(parent: u64, name: &str) -> Name {
        Name { parent: FileId(parent), name: name.into(), path: name.into(), directory: None }
    }

    fn directory(parent: u64, id: u64) -> Name {
        Name { directory: Some(FileId(id)), ..file(parent, &format!("d{id}")) }
    }

    fn taken(order: &mut Ordering, most: usize) -> Vec<String> {
        order.take(most).iter().map(|name| String::from_utf8_lossy(&name.name).into_owned()).collect()
    }

    #[test]
    fn a_deep_tree_goes_in_one_request() {
        let mut order = Ordering::default();
        for name in [file(4, "f"), directory(3, 4), directory(2, 3), directory(1, 2)] {
            order.add(name);
        }
        assert_eq!(taken(&mut order, 512), ["f", "d4", "d3", "d2"]);
    }

    #[test]
    fn a_directory_waits_for_names_of_it_that_are_unanswered_and_so_do_those_above() {
        let mut order = Ordering::default();
        order.add(file(3, "a"));
        order.add(file(3, "b"));
        assert_eq!(taken(&mut order, 1), ["a"]);
        order.add(directory(2, 3));
        order.add(directory(1, 2));
        assert_eq!(taken(&mut order, 512), ["b"]);
        assert!(taken(&mut order, 512).is_empty());
        order.answered(&file(3, "a"), true);
        assert!(taken(&mut order, 512).is_empty());
        order.answered(&file(3, "b"), true);
        assert_eq!(taken(&mut order, 512), ["d3", "d2"]);
        order.answered(&directory(2, 3), true);
        order.answered(&directory(1, 2), true);
        assert!(order.unfinished.is_empty() && order.waiting.is_empty());
    }

    #[test]
    fn a_request_that_ends_between_a_name_and_its_directory_keeps_the_order() {
        let mut order = Ordering::default();
        for name in [file(3, "a"), file(2, "x"), directory(2, 3), file(2, "b"), directory(1, 2)] {
            order.add(name);
        }
        // The directory is already queued when its entry is sent separately.
        assert_eq!(taken(&mut order, 2), ["a", "x"]);
        assert_eq!(taken(&mut order, 512), ["b"]);
        order.answered(&file(2, "b"), true);
        order.answered(&file(2, "x"), true);
        assert!(taken(&mut order, 512).is_empty());
        order.answered(&file(3, "a"), true);
        assert_eq!(taken(&mut order, 512), ["d3", "d2"]);
    }

    #[test]
    fn what_stays_keeps_the_directories_above_it() {
        let mut order = Ordering::default();
        order.add(file(3, "a"));
        assert_eq!(taken(&mut order, 512), ["a"]);
        for name in [directory(2, 3), file(2, "b"), directory(1, 2)] {
            order.add(name);
        }
        assert_eq!(taken(&mut order, 512), ["b"]);
        order.answered(&file(2, "b"), true);
        order.answered(&file(3, "a"), false);
        assert!(taken(&mut order, 512).is_empty());
        assert!(order.waiting.is_empty() && order.unfinished.is_empty());
        assert_eq!(order.stays, HashSet::from([FileId(1)]));
    }

    #[test]
    fn every_order_of_answers_removes_everything_children_first() {
        // A small nested tree, split into requests at every position and answered in many orders.
        for cut in 1..8 {
            for seed in 0..50u64 {
                let mut order = Ordering::default();
                let (mut flying, mut done): (Vec<Vec<Name>>, Vec<String>) = (Vec::new(), Vec::new());
                let mut given: Vec<Name> = Vec::new();
                for d in 0..4 {
                    (0..5).for_each(|f| given.push(file(10 + d, &format!("{}-{f}", 10 + d))));
                    given.push(directory(2, 10 + d));
                }
                given.push(directory(1, 2));
                let many = given.len();
                let (mut given, mut state) = (given.into_iter(), seed);
                loop {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    if state >> 60 & 1 == 0
                        && let Some(name) = given.next()
                    {
                        order.add(name);
                    } else if state >> 61 & 1 == 0 && !order.ready.is_empty() {
                        let names = order.take(cut);
                        flying.extend((!names.is_empty()).then_some(names));
                    } else if !flying.is_empty() {
                        let at = (state >> 33) as usize % flying.len();
                        for name in flying.swap_remove(at) {
                            order.answered(&name, true);
                            done.push(String::from_utf8(name.name).unwrap());
                        }
                    } else if given.len() == 0 && order.ready.is_empty() {
                        break;
                    }
                }
                assert_eq!(done.len(), many, "cut {cut}, seed {seed}");
                let at = |name: &str| done.iter().position(|d| d == name).unwrap();
                for d in 10..14 {
                    assert!((0..5).all(|f| at(&format!("{d}-{f}")) < at(&format!("d{d}"))), "{done:?}");
                    assert!(at(&format!("d{d}")) < at("d2"));
                }
            }
        }
    }
}
