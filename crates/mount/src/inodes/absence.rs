//! Names known to be absent from a directory, without asking, for a moment.
//!
//! The kernel looks up each name a program is about to create, holding the directory's lock, and the service would be asked: a round trip
//! whose answer a mount that creates names in a row already knows. A directory made here is empty, and the reply to each change through
//! this mount has the directory's change counter. While the counter increases by one per change, no other client has changed the directory
//! and every name in it was made here. So any other name is absent, as of the last reply.
//!
//! Absence is believed for a moment only ([`AbsentNames::lacks`]): names made by another machine are seen that much later. A program that
//! creates such a name here as well finds that it exists, since the service decides.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};
use thalweg_client::wire::protocol::metadata::Attributes;

/// How long absence is believed after the reply it follows from.
const MOMENT: Duration = Duration::from_millis(20);
/// Alternative, as a multiple of the reply's round trip, where longer: over a distance, the next name is not made any sooner.
const ANSWERS: u32 = 4;
/// Bound: names per directory.
const MOST: usize = 1 << 20;

/// The names a directory may have.
pub(crate) struct AbsentNames {
    hasher: RandomState,
    /// Hashes of the names. A removed name stays, since another may have the same hash: such a name is looked up.
    made: HashSet<u64>,
    /// Change counter of the directory.
    change: u64,
    /// Upper limit whatever the round trip: the maximum age of cached names.
    longest: Duration,
    until: Instant,
}

impl AbsentNames {
    /// Starts with a newly made directory, requested at `asked` and answered now. `longest`: maximum age of cached names.
    pub(crate) fn of_new(attributes: &Attributes, asked: Instant, longest: Duration) -> AbsentNames {
        let (hasher, made, change) = (RandomState::new(), HashSet::new(), attributes.change);
        AbsentNames { hasher, made, change, longest, until: until(asked, longest) }
    }

    /// Records a change through this mount, which made `name` or removed one; returns whether it was the only one.
    pub(crate) fn changed_here(&mut self, attributes: &Attributes, name: Option<&[u8]>, asked: Instant) -> bool {
        if self.change.checked_add(1) != Some(attributes.change) || self.made.len() >= MOST {
            return false;
        }
        self.made.extend(name.map(|name| self.hasher.hash_one(name)));
        self.change = attributes.change;
        self.until = until(asked, self.longest);
        true
    }

    /// Whether the directory is known not to have this name, as of a moment ago.
    pub(crate) fn lacks(&self, name: &[u8]) -> bool {
        Instant::now() < self.until && !self.made.contains(&self.hasher.hash_one(name))
    }

    /// Compares newly fetched attributes of the directory; returns whether it is unchanged.
    pub(crate) fn seen_again(&mut self, attributes: &Attributes, asked: Instant) -> bool {
        let same = self.change == attributes.change;
        if same {
            self.until = self.until.max(until(asked, self.longest));
        }
        same
    }
}

fn until(asked: Instant, longest: Duration) -> Instant {
    asked + (asked.elapsed() * ANSWERS).max(MOMENT).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inodes::inode::tests::attributes;

    const LONGEST: Duration = Duration::from_secs(1);

    fn asked(ago: Duration) -> Instant {
        Instant::now().checked_sub(ago).unwrap()
    }

    #[test]
    fn a_new_directory_lacks_every_name_that_was_not_made_in_it() {
        let mut names = AbsentNames::of_new(&attributes(1), Instant::now(), LONGEST);
        assert!(names.lacks(b"a") && names.lacks(b"b"));
        assert!(names.changed_here(&attributes(2), Some(b"a"), Instant::now()));
        assert!(!names.lacks(b"a") && names.lacks(b"b"));
        assert!(names.changed_here(&attributes(3), None, Instant::now()), "a is removed");
        assert!(!names.lacks(b"a"), "it may have been another with the same hash: it is asked for");
    }

    #[test]
    fn a_change_by_somebody_else_ends_it() {
        let mut names = AbsentNames::of_new(&attributes(1), Instant::now(), LONGEST);
        assert!(!names.changed_here(&attributes(3), Some(b"a"), Instant::now()), "one of the two changes was another's");
        assert!(!names.seen_again(&attributes(2), Instant::now()));
        assert!(names.seen_again(&attributes(1), Instant::now()));
    }

    #[test]
    fn absence_is_believed_for_a_moment_and_over_a_distance_for_some_answers() {
        let mut names = AbsentNames::of_new(&attributes(1), Instant::now(), LONGEST);
        std::thread::sleep(MOMENT);
        assert!(!names.lacks(b"a"));
        assert!(names.seen_again(&attributes(1), Instant::now()) && names.lacks(b"a"));
        let mut far = AbsentNames::of_new(&attributes(1), asked(10 * MOMENT), LONGEST);
        std::thread::sleep(MOMENT);
        assert!(far.lacks(b"a"));
        assert!(far.changed_here(&attributes(2), Some(b"a"), asked(10 * MOMENT)));
        assert!(!far.lacks(b"a") && far.lacks(b"b"));
    }

    #[test]
    fn absence_is_never_older_than_what_names_may_be_however_slow_the_answer_was() {
        let slow = AbsentNames::of_new(&attributes(1), asked(LONGEST / 2), LONGEST);
        assert!(slow.lacks(b"a") && slow.until <= asked(LONGEST / 2) + LONGEST);
        let slower = AbsentNames::of_new(&attributes(1), asked(LONGEST), LONGEST);
        assert!(!slower.lacks(b"a"), "it may have been made by another while this was answered");
        let at_once = AbsentNames::of_new(&attributes(1), asked(MOMENT / 2), MOMENT / 4);
        assert!(!at_once.lacks(b"a"), "a mount that keeps names for less than a moment");
    }
}
