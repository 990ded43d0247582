//! The names that an inode was found under, which the kernel takes for it until their lifetime has passed.

use std::time::{Duration, Instant};
use thalweg_client::wire::protocol::metadata::{FileId, Place};

/// How much longer than a name's lifetime a thread may take from its look at the name to its request for the file.
pub(crate) const SLACK: Duration = Duration::from_secs(5);

/// Names of one file that are asked for when it is opened; one with more is looked up again instead.
pub(crate) const NAMES_CHECKED: usize = 8;

/// The names that one file was found under, the last one last.
#[derive(Default)]
pub(crate) struct Dentries(Vec<(Place, Instant)>);

impl Dentries {
    /// The kernel is answered that this name is the file's.
    pub(crate) fn add(&mut self, directory: FileId, name: &[u8], lifetime: Duration) {
        let now = Instant::now();
        if let Some((place, since)) = self.0.last_mut()
            && is(place, directory, name)
        {
            *since = now;
            return;
        }
        self.0.retain(|(place, since)| !is(place, directory, name) && now.duration_since(*since) <= lifetime + SLACK);
        self.0.push((Place { from: directory, path: name.to_vec() }, now));
    }

    /// The kernel knows that this name is not the file's any more.
    pub(crate) fn remove(&mut self, directory: FileId, name: &[u8]) {
        self.0.retain(|(place, _)| !is(place, directory, name));
    }

    /// The name it was found under last.
    pub(crate) fn last(&self) -> Option<&Place> {
        self.0.last().map(|(place, _)| place)
    }

    /// The names that the kernel may still take for the file, the last one last; that one however long ago it was.
    pub(crate) fn cached(&self, lifetime: Duration) -> Vec<Place> {
        let last = self.0.len().saturating_sub(1);
        let is_believed = |(i, (_, since)): &(usize, &(Place, Instant))| *i == last || since.elapsed() <= lifetime + SLACK;
        self.0.iter().enumerate().filter(is_believed).map(|(_, (place, _))| place.clone()).collect()
    }
}

fn is(place: &Place, directory: FileId, name: &[u8]) -> bool {
    place.from == directory && place.path == name
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
