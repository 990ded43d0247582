//! The names that files were found under, and which of them a program means.
//!
//! The kernel takes a name for the file it was last told of until the name's lifetime has passed, though another client may have moved the
//! file away meanwhile; and it opens files, not names. Who opens a name to empty it must not empty a file that was moved away
//! from there. So when a file is opened, all names that the kernel may take for it have to be its. If one is not, the file is
//! stale (ESTALE): the kernel then looks the name up once more, whatever it remembers, and what is opened next by the same
//! thread is the name it has just looked up. A thread that comes again without a look has not come by a name (but, say, through a
//! descriptor in /proc), and means the file itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg_store::protocol::metadata::{FileId, Place};

/// How much longer than a name's lifetime a thread may take from its look at the name to its request for the file.
const SLACK: Duration = Duration::from_secs(5);

/// Names of one file that are asked for when it is opened; one with more is looked up again instead.
pub const NAMES_ASKED: usize = 8;

/// The names that one file was found under, the last one last.
#[derive(Default)]
pub struct Names(Vec<(Place, Instant)>);

impl Names {
    /// The kernel is told that this name is the file's.
    pub fn found(&mut self, directory: FileId, name: &[u8], lifetime: Duration) {
        let now = Instant::now();
        if let Some((place, told)) = self.0.last_mut()
            && is(place, directory, name)
        {
            *told = now;
            return;
        }
        self.0.retain(|(place, told)| !is(place, directory, name) && now.duration_since(*told) <= lifetime + SLACK);
        self.0.push((Place { from: directory, path: name.to_vec() }, now));
    }

    /// The kernel knows that this name is not the file's any more.
    pub fn lost(&mut self, directory: FileId, name: &[u8]) {
        self.0.retain(|(place, _)| !is(place, directory, name));
    }

    /// The name it was found under last.
    pub fn last(&self) -> Option<&Place> {
        self.0.last().map(|(place, _)| place)
    }

    /// The names that the kernel may still take for the file, the last one last; that one however long ago it was.
    pub fn believed(&self, lifetime: Duration) -> Vec<Place> {
        let last = self.0.len().saturating_sub(1);
        let is_believed = |(i, (_, told)): &(usize, &(Place, Instant))| *i == last || told.elapsed() <= lifetime + SLACK;
        self.0.iter().enumerate().filter(is_believed).map(|(_, (place, _))| place.clone()).collect()
    }
}

fn is(place: &Place, directory: FileId, name: &[u8]) -> bool {
    place.from == directory && place.path == name
}

/// What a thread means that comes again after it was told that a file is stale.
#[derive(Debug, PartialEq, Eq)]
pub enum Meant {
    /// The file itself: it has not come by a name.
    File,
    /// This name, which it has looked up meanwhile.
    Name(Place),
}

/// Threads that were told that a file is stale, and have not come again.
#[derive(Default)]
pub struct Retries {
    /// As many as there are below: most of the time none, and nobody has to wait for the lock.
    count: AtomicUsize,
    threads: Mutex<HashMap<u32, Retry>>,
}

struct Retry {
    /// What it was told is stale.
    file: FileId,
    /// What it has looked up since, and found: a file is where its path ends.
    arrived: Option<(Place, FileId)>,
    at: Instant,
}

impl Retries {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<u32, Retry>) -> T) -> Option<T> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(&mut threads);
        self.count.store(threads.len(), Ordering::Release);
        Some(done)
    }

    /// This thread is told that the file is stale.
    pub fn refused(&self, thread: u32, file: FileId) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|_, retry| retry.at.elapsed() < SLACK);
        threads.insert(thread, Retry { file, arrived: None, at: Instant::now() });
        self.count.store(threads.len(), Ordering::Release);
    }

    /// This thread has looked a name up, and found this file; `None`: something that a path does not end at.
    pub fn looked_up(&self, thread: u32, place: &Place, file: Option<FileId>) {
        self.with(|threads| {
            let Some(retry) = threads.get_mut(&thread) else { return };
            match (&retry.arrived, file) {
                // A name is looked up twice if what is found is new.
                (None, Some(file)) => retry.arrived = Some((place.clone(), file)),
                (Some((arrived, _)), Some(file)) if arrived == place => retry.arrived = Some((place.clone(), file)),
                (None, None) => {}
                // It is on its way to something else.
                (Some(_), _) => drop(threads.remove(&thread)),
            }
        });
    }

    /// Whether this thread is on its way to look a name up again.
    pub fn is_awaited(&self, thread: u32) -> bool {
        self.with(|threads| threads.contains_key(&thread)).unwrap_or(false)
    }

    /// This thread has come to something else.
    pub fn left(&self, thread: u32) {
        self.with(|threads| threads.remove(&thread));
    }

    /// This thread comes for a file: what it means, if it was just told that a file is stale.
    pub fn comes(&self, thread: u32, file: FileId) -> Option<Meant> {
        let retry = self.with(|threads| threads.remove(&thread))?.filter(|retry| retry.at.elapsed() < SLACK)?;
        match retry.arrived {
            Some((place, arrived)) => (arrived == file).then_some(Meant::Name(place)),
            None => (retry.file == file).then_some(Meant::File),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(1);

    fn place(name: &str) -> Place {
        Place { from: FileId(1), path: name.into() }
    }

    #[test]
    fn names_are_believed_until_the_kernel_knows_better() {
        let mut names = Names::default();
        assert!(names.believed(LIFETIME).is_empty());
        for name in ["a", "b", "a", "c"] {
            names.found(FileId(1), name.as_bytes(), LIFETIME);
        }
        assert_eq!(names.believed(LIFETIME), [place("b"), place("a"), place("c")]);
        names.lost(FileId(2), b"a");
        names.lost(FileId(1), b"c");
        assert_eq!(names.last(), Some(&place("a")));
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        names.0.iter_mut().for_each(|(_, told)| *told = long_ago);
        assert_eq!(names.believed(LIFETIME), [place("a")], "the last one is asked for all the same");
        names.found(FileId(1), b"d", LIFETIME);
        assert_eq!(names.believed(LIFETIME), [place("d")]);
    }

    #[test]
    fn who_comes_again_means_what_it_looked_up_or_the_file_itself() {
        let retries = Retries::default();
        let (file, other) = (FileId(7), FileId(8));
        assert_eq!(retries.comes(1, file), None);
        retries.refused(1, file);
        assert_eq!(retries.comes(2, file), None, "another thread was told nothing");
        assert_eq!(retries.comes(1, file), Some(Meant::File));
        assert_eq!(retries.comes(1, file), None, "only once");
        retries.refused(1, file);
        retries.looked_up(1, &place("directory"), None);
        retries.looked_up(1, &place("name"), Some(file));
        retries.looked_up(1, &place("name"), Some(other));
        assert_eq!(retries.comes(1, other), Some(Meant::Name(place("name"))));
        retries.refused(1, file);
        assert_eq!(retries.comes(1, other), None, "it went for another file, by a name nobody looked up");
    }

    #[test]
    fn who_does_something_else_has_not_come_again() {
        let (retries, file) = (Retries::default(), FileId(7));
        retries.refused(1, file);
        retries.left(1);
        assert_eq!(retries.comes(1, file), None);
        retries.refused(1, file);
        retries.looked_up(1, &place("name"), Some(file));
        retries.looked_up(1, &place("another"), Some(file));
        assert_eq!(retries.comes(1, file), None, "two names were looked up: one of them was looked at for itself");
    }
}
