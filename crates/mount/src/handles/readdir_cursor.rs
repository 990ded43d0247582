//! Readdir cursors: the names a directory's reader has got, as far as needed for seeking back.
//!
//! The latest names are all kept, so that a short seek back is exact whatever has changed meanwhile. Of earlier names only some are kept,
//! at even distances that double when there are too many. A reader that seeks far back, in a directory of any size, restarts at a name it
//! got before and counts from there.

use std::collections::VecDeque;

/// Bounds: latest names kept, and their bytes.
const LAST: usize = 4096;
const LAST_BYTES: usize = 256 << 10;
/// Bound: earlier names kept.
const ANCHORS: usize = 1024;
/// Smallest distance between two earlier names kept.
const SPACING: u64 = 64;

/// Names listed by a reader.
pub(crate) struct ReaddirCursor {
    /// Number of names listed.
    count: u64,
    last: VecDeque<Vec<u8>>,
    last_bytes: usize,
    /// Earlier names, each with its position, counted from 1.
    anchors: Vec<(u64, Vec<u8>)>,
    spacing: u64,
}

impl Default for ReaddirCursor {
    fn default() -> ReaddirCursor {
        ReaddirCursor { count: 0, last: VecDeque::new(), last_bytes: 0, anchors: Vec::new(), spacing: SPACING }
    }
}

impl ReaddirCursor {
    /// Returns the number of names listed.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the last name listed. `None`: none was.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        self.last.back().or(self.anchors.last().map(|(_, name)| name)).map(Vec::as_slice)
    }

    /// Adds a listed name.
    pub(crate) fn push(&mut self, name: Vec<u8>) {
        self.count += 1;
        self.last_bytes += name.len();
        self.last.push_back(name);
        while self.last.len() > LAST || self.last_bytes > LAST_BYTES && self.last.len() > 1 {
            let number = self.count - self.last.len() as u64 + 1;
            let Some(name) = self.last.pop_front() else { return };
            self.last_bytes -= name.len();
            if number.is_multiple_of(self.spacing) {
                self.anchors.push((number, name));
            }
        }
        if self.anchors.len() > ANCHORS {
            self.spacing *= 2;
            let spacing = self.spacing;
            self.anchors.retain(|(number, _)| number.is_multiple_of(spacing));
        }
    }

    /// Goes back to the position after `count` names, or the nearest known position before it. A count that was not reached yet is
    /// ignored.
    pub(crate) fn go_back(&mut self, count: u64) {
        let first_of_last = self.count - self.last.len() as u64;
        if count > first_of_last || count == first_of_last && self.anchors.last().is_some_and(|(number, _)| *number == count) {
            self.last.truncate((count.saturating_sub(first_of_last)) as usize);
        } else {
            self.last.clear();
            self.anchors.truncate(self.anchors.partition_point(|(number, _)| *number <= count));
            self.count = self.anchors.last().map_or(0, |(number, _)| *number);
            self.last_bytes = 0;
            return;
        }
        self.count = self.count.min(count);
        self.last_bytes = self.last.iter().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u64) -> Vec<u8> {
        format!("name {number:09}").into_bytes()
    }

    fn cursor(count: u64) -> ReaddirCursor {
        let mut cursor = ReaddirCursor::default();
        (1..=count).for_each(|number| cursor.push(name(number)));
        cursor
    }

    fn place(cursor: &ReaddirCursor) -> (u64, Option<Vec<u8>>) {
        (cursor.count(), cursor.last().map(<[u8]>::to_vec))
    }

    fn is_true(cursor: &ReaddirCursor) -> bool {
        let (count, last) = place(cursor);
        last == (count > 0).then(|| name(count))
    }

    #[test]
    fn going_back_by_a_little_is_exact() {
        for count in [1, 2, 100, LAST as u64, LAST as u64 * 3] {
            for back in [1, 2, 50, LAST as u64 - 1] {
                let Some(to) = u64::checked_sub(count, back) else { continue };
                let mut cursor = cursor(count);
                cursor.go_back(to);
                assert_eq!(cursor.count(), to, "from {count}");
                assert!(is_true(&cursor), "from {count} to {to}");
            }
        }
    }

    #[test]
    fn going_far_back_comes_to_a_name_that_was_listed_before_it_and_going_on_to_where_it_was() {
        let count = 3_000_000;
        let mut now = cursor(count);
        assert!(now.anchors.len() <= ANCHORS && now.last.len() <= LAST);
        for to in [2_900_000, 2_000_001, 1_000_000, 77_777, 4096, 63, 1, 0] {
            now.go_back(to);
            assert!(now.count() <= to && to - now.count() < now.spacing, "{to}: {}", now.count());
            assert!(is_true(&now));
        }
        (1..=10_000).for_each(|number| now.push(name(number)));
        assert_eq!(place(&now), (10_000, Some(name(10_000))));
    }

    #[test]
    fn a_count_that_was_never_reached_changes_nothing() {
        let mut now = cursor(10);
        now.go_back(11);
        assert_eq!(place(&now), (10, Some(name(10))));
        let mut none = ReaddirCursor::default();
        none.go_back(5);
        assert_eq!(place(&none), (0, None));
    }

    #[test]
    fn long_names_take_no_more_memory_than_others() {
        let mut cursor = ReaddirCursor::default();
        (0..100_000).for_each(|_| cursor.push(vec![b'x'; 255]));
        assert!(cursor.last_bytes <= LAST_BYTES);
        assert_eq!(cursor.last_bytes, cursor.last.iter().map(Vec::len).sum::<usize>());
        assert!(cursor.anchors.len() <= ANCHORS);
    }
}
