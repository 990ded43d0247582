//! Revalidating names: which of the names that a file was found under a program means when it opens the file.
//!
//! The kernel takes a name for the file it was last given until the name's lifetime has passed, though another client may have moved the
//! file away meanwhile; and it opens files, not names. A program that opens a name to empty it must not empty a file that was moved
//! away from there. So when a file is opened, all names that the kernel may take for it must still be its own. If one is not, the file is
//! stale (ESTALE): the kernel then looks the name up once more, whatever it has cached, and what the same thread opens next is the name
//! that it has just looked up. A thread that retries without a lookup did not use a name (but, say, a descriptor in /proc), and means
//! the file itself.

use super::dentries::SLACK;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use thalweg_base::sync::Mutex;
use thalweg_client::wire::protocol::metadata::{FileId, Place};

/// What a thread means that retries after it got that a file is stale.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OpenTarget {
    /// The file itself: it did not use a name.
    File,
    /// This name, which it has looked up meanwhile.
    Name(Place),
}

/// Threads that got that a file is stale, and have not retried yet.
#[derive(Default)]
pub(crate) struct StaleRetries {
    /// How many there are below: mostly none, and then nobody waits for the lock.
    count: AtomicUsize,
    threads: Mutex<HashMap<u32, Retry>>,
    /// Threads that were to make a file, and got that there is one; and when.
    creates: Mutex<HashMap<u32, Instant>>,
}

struct Retry {
    /// The file that is stale.
    file: FileId,
    /// What it has looked up since, and found: a file is where its path ends.
    arrived: Option<(Place, FileId)>,
    at: Instant,
}

impl StaleRetries {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<u32, Retry>) -> T) -> Option<T> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut threads = self.threads.lock();
        let done = work(&mut threads);
        self.count.store(threads.len(), Ordering::Release);
        Some(done)
    }

    /// This thread gets that the file is stale.
    pub(crate) fn went_stale(&self, thread: u32, file: FileId) {
        let mut threads = self.threads.lock();
        threads.retain(|_, retry| retry.at.elapsed() < SLACK);
        threads.insert(thread, Retry { file, arrived: None, at: Instant::now() });
        self.count.store(threads.len(), Ordering::Release);
    }

    /// This thread was to make a file, and there is one: whether the kernel may be sent to look its name up. It does so once for each request of
    /// a program, which gets the error if that ends the same way.
    pub(crate) fn first_of_create(&self, thread: u32) -> bool {
        let mut creates = self.creates.lock();
        creates.retain(|_, at| at.elapsed() < SLACK);
        match creates.remove(&thread) {
            Some(_) => false,
            None => creates.insert(thread, Instant::now()).is_none(),
        }
    }

    /// This thread has looked a name up, and found this file; `None`: something that a path does not end at.
    pub(crate) fn looked_up(&self, thread: u32, place: &Place, file: Option<FileId>) {
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
    pub(crate) fn is_retrying(&self, thread: u32) -> bool {
        self.with(|threads| threads.contains_key(&thread)).unwrap_or(false)
    }

    /// This thread does something else.
    pub(crate) fn abandon(&self, thread: u32) {
        self.with(|threads| threads.remove(&thread));
    }

    /// This thread opens or truncates a file: what it means, if it just got that a file is stale.
    pub(crate) fn resume(&self, thread: u32, file: FileId) -> Option<OpenTarget> {
        let retry = self.with(|threads| threads.remove(&thread))?.filter(|retry| retry.at.elapsed() < SLACK)?;
        match retry.arrived {
            Some((place, arrived)) => (arrived == file).then_some(OpenTarget::Name(place)),
            None => (retry.file == file).then_some(OpenTarget::File),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> Place {
        Place { from: FileId(1), path: name.into() }
    }

    #[test]
    fn a_retry_means_the_name_it_looked_up_or_the_file_itself() {
        let retries = StaleRetries::default();
        let (file, other) = (FileId(7), FileId(8));
        assert_eq!(retries.resume(1, file), None);
        retries.went_stale(1, file);
        assert_eq!(retries.resume(2, file), None, "another thread got nothing");
        assert_eq!(retries.resume(1, file), Some(OpenTarget::File));
        assert_eq!(retries.resume(1, file), None, "only once");
        retries.went_stale(1, file);
        retries.looked_up(1, &place("directory"), None);
        retries.looked_up(1, &place("name"), Some(file));
        retries.looked_up(1, &place("name"), Some(other));
        assert_eq!(retries.resume(1, other), Some(OpenTarget::Name(place("name"))));
        retries.went_stale(1, file);
        assert_eq!(retries.resume(1, other), None, "it went for another file, by a name nobody looked up");
    }

    #[test]
    fn who_finds_what_was_to_be_made_looks_once_and_then_opens_it() {
        let retries = StaleRetries::default();
        assert!(retries.first_of_create(1) && retries.first_of_create(2));
        assert!(!retries.first_of_create(1));
        assert!(retries.first_of_create(1));
    }

    #[test]
    fn a_thread_that_does_something_else_is_not_retrying() {
        let (retries, file) = (StaleRetries::default(), FileId(7));
        retries.went_stale(1, file);
        retries.abandon(1);
        assert_eq!(retries.resume(1, file), None);
        retries.went_stale(1, file);
        retries.looked_up(1, &place("name"), Some(file));
        retries.looked_up(1, &place("another"), Some(file));
        assert_eq!(retries.resume(1, file), None, "two names were looked up: one of them was looked at for itself");
    }
}
