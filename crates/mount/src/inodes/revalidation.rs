//! Revalidating names: which name a program means when it opens a file.
//!
//! The kernel caches a name's file for the name's lifetime, though another client may have renamed the file meanwhile, and it opens
//! inodes, not names. A program that truncates a name's file on open must not truncate a file that was moved away. So when a file is
//! opened, all names the kernel may have cached for it must still be its own. If one is not, the open fails with ESTALE: the kernel looks
//! the name up again, bypassing its cache, and the same thread's next open is for the name it has just looked up. A thread that retries
//! without a lookup did not use a name (but, for example, a descriptor in /proc), and means the file itself.

use super::dentries::SLACK;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use thalweg_base::sync::Mutex;
use thalweg_client::wire::protocol::metadata::{FileId, FilePath};

/// What a thread means when it retries after ESTALE.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OpenTarget {
    /// The file itself: it did not use a name.
    File,
    /// This name, which it has looked up meanwhile.
    Name(FilePath),
}

/// Threads that got ESTALE and have not retried yet.
#[derive(Default)]
pub(crate) struct StaleRetries {
    /// Number of entries below: mostly zero, which avoids locking.
    count: AtomicUsize,
    threads: Mutex<HashMap<u32, Retry>>,
    /// Threads that tried to create a file that already exists, with the time.
    creates: Mutex<HashMap<u32, Instant>>,
}

struct Retry {
    /// The stale file.
    file: FileId,
    /// FilePath looked up since, and the file found: a file is the last component of its path.
    arrived: Option<(FilePath, FileId)>,
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

    /// Records that this thread gets ESTALE for the file.
    pub(crate) fn went_stale(&self, thread: u32, file: FileId) {
        let mut threads = self.threads.lock();
        threads.retain(|_, retry| retry.at.elapsed() < SLACK);
        threads.insert(thread, Retry { file, arrived: None, at: Instant::now() });
        self.count.store(threads.len(), Ordering::Release);
    }

    /// Records that this thread tried to create a file that exists; returns whether to make the kernel look the name up. The kernel does
    /// so once per system call, and returns the error to the program if that ends the same way.
    pub(crate) fn first_of_create(&self, thread: u32) -> bool {
        let mut creates = self.creates.lock();
        creates.retain(|_, at| at.elapsed() < SLACK);
        match creates.remove(&thread) {
            Some(_) => false,
            None => creates.insert(thread, Instant::now()).is_none(),
        }
    }

    /// Records that this thread looked a name up and found this file; `None`: a directory or link, at which a path does not end.
    pub(crate) fn looked_up(&self, thread: u32, place: &FilePath, file: Option<FileId>) {
        self.with(|threads| {
            let Some(retry) = threads.get_mut(&thread) else { return };
            match (&retry.arrived, file) {
                // The kernel looks a name up twice if the inode is new to it.
                (None, Some(file)) => retry.arrived = Some((place.clone(), file)),
                (Some((arrived, _)), Some(file)) if arrived == place => retry.arrived = Some((place.clone(), file)),
                (None, None) => {}
                // The thread is heading for another file.
                (Some(_), _) => drop(threads.remove(&thread)),
            }
        });
    }

    /// Whether this thread is about to look a name up again.
    pub(crate) fn is_retrying(&self, thread: u32) -> bool {
        self.with(|threads| threads.contains_key(&thread)).unwrap_or(false)
    }

    /// Forgets this thread: it does something else.
    pub(crate) fn abandon(&self, thread: u32) {
        self.with(|threads| threads.remove(&thread));
    }

    /// Returns what this thread means when it opens or truncates a file after ESTALE.
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

    fn place(name: &str) -> FilePath {
        FilePath { from: FileId(1), path: name.into() }
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
        assert_eq!(retries.resume(1, other), None, "it opened another file, by a name that was not looked up");
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
        assert_eq!(retries.resume(1, file), None, "two names were looked up: one of them by a separate stat");
    }
}
