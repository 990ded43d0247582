//! The names an inode was found under, which the kernel caches for their lifetime.

use std::time::{Duration, Instant};
use thalweg_client::wire::protocol::metadata::{FileId, FilePath};

/// Time beyond a name's lifetime that a thread may take from the lookup to its request for the file.
pub(crate) const SLACK: Duration = Duration::from_secs(5);

/// Bound: names of a file checked when it is opened; a file with more is looked up again instead.
pub(crate) const NAMES_CHECKED: usize = 8;

/// Names a file was found under, latest last.
#[derive(Default)]
pub(crate) struct Dentries(Vec<(FilePath, Instant)>);

impl Dentries {
    /// Adds a name returned to the kernel.
    pub(crate) fn add(&mut self, directory: FileId, name: &[u8], lifetime: Duration) {
        let now = Instant::now();
        if let Some((place, since)) = self.0.last_mut()
            && is(place, directory, name)
        {
            *since = now;
            return;
        }
        self.0.retain(|(place, since)| !is(place, directory, name) && now.duration_since(*since) <= lifetime + SLACK);
        self.0.push((FilePath { from: directory, path: name.to_vec() }, now));
    }

    /// Removes a name the kernel knows to be gone.
    pub(crate) fn remove(&mut self, directory: FileId, name: &[u8]) {
        self.0.retain(|(place, _)| !is(place, directory, name));
    }

    /// Returns the latest name.
    pub(crate) fn last(&self) -> Option<&FilePath> {
        self.0.last().map(|(place, _)| place)
    }

    /// Returns the names the kernel may still have cached, latest last; the latest is included whatever its age.
    pub(crate) fn cached(&self, lifetime: Duration) -> Vec<FilePath> {
        let last = self.0.len().saturating_sub(1);
        let is_believed = |(i, (_, since)): &(usize, &(FilePath, Instant))| *i == last || since.elapsed() <= lifetime + SLACK;
        self.0.iter().enumerate().filter(is_believed).map(|(_, (place, _))| place.clone()).collect()
    }
}

fn is(place: &FilePath, directory: FileId, name: &[u8]) -> bool {
    place.from == directory && place.path == name
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(1);

    fn place(name: &str) -> FilePath {
        FilePath { from: FileId(1), path: name.into() }
    }

    #[test]
    fn names_are_believed_until_the_kernel_knows_better() {
        let mut names = Dentries::default();
        assert!(names.cached(LIFETIME).is_empty());
        for name in ["a", "b", "a", "c"] {
            names.add(FileId(1), name.as_bytes(), LIFETIME);
        }
        assert_eq!(names.cached(LIFETIME), [place("b"), place("a"), place("c")]);
        names.remove(FileId(2), b"a");
        names.remove(FileId(1), b"c");
        assert_eq!(names.last(), Some(&place("a")));
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        names.0.iter_mut().for_each(|(_, since)| *since = long_ago);
        assert_eq!(names.cached(LIFETIME), [place("a")], "the last one is asked for all the same");
        names.add(FileId(1), b"d", LIFETIME);
        assert_eq!(names.cached(LIFETIME), [place("d")]);
    }
}
