//! What was moved more often than once: the bytes of a file, and what was asked of a server in clear.
//!
//! Calls that never blocked are counted together, and for the file that was seen last: many files that were read in one go look like one. So a file is
//! believed only where it has most of the bytes, and where more of them came again than the files that were opened meanwhile could have.

use super::parts::Parts;
use crate::cause::End;
use crate::limits::numbers as limits;
use crate::observe::observation::Moved;
use std::collections::HashMap;
use thalweg_trace::{Meta, ObjectKind};

/// A file of which more bytes moved than it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    /// Its object.
    pub object: usize,
    /// Whether it was written.
    pub out: bool,
    /// How many bytes moved.
    pub bytes: u64,
    /// How many it has.
    pub file_bytes: u64,
}

impl Again {
    /// How many times over.
    pub(crate) fn times(&self) -> f64 {
        self.bytes as f64 / self.file_bytes as f64
    }

    /// The file that has most of the bytes read (or written, `out`), where they are twice its size or more.
    pub(crate) fn find(parts: &Parts<'_>, out: bool) -> Option<Again> {
        let (tables, moved) = (parts.tables, &parts.seen.moved[End::Client as usize]);
        let files = || moved.iter().enumerate().filter(|(object, _)| tables.objects[*object].kind == ObjectKind::File);
        let all: u64 = files().map(|(_, ways)| ways[usize::from(out)].bytes).sum();
        // A file that is replaced by another of its name is the same to who writes it.
        let mut by_name: HashMap<&str, (usize, Moved, u64)> = HashMap::new();
        for (object, ways) in files() {
            let (named, way) = (&tables.objects[object], ways[usize::from(out)]);
            let size = named.attribute("file_bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
            let sum = by_name.entry(&named.name).or_insert((object, Moved::default(), 0));
            (sum.1.bytes, sum.1.calls, sum.2) = (sum.1.bytes + way.bytes, sum.1.calls + way.calls, sum.2.max(size));
        }
        let most = by_name.into_values().max_by_key(|(object, moved, _)| (moved.bytes, *object))?;
        let (object, Moved { bytes, calls, .. }, mut file_bytes) = most;
        let created = parts.around.files.as_ref().map_or(0, |files| files.created);
        if out && file_bytes == 0 && created >= limits::LEAST_ITEMS && calls as f64 >= created as f64 * limits::AS_MANY {
            // One that is gone at the end, and was made anew each time, to take another's place. (A few of those that were made are others: its target, a log.)
            file_bytes = bytes / created.min(calls);
        }
        // A file with less than one call moves was longer when it was made.
        if file_bytes == 0 || bytes / calls.max(1) > file_bytes {
            return None;
        }
        let others = parts.around.files.as_ref().map_or(0, |files| files.opened.max(files.read));
        let unseen_bytes = others.saturating_mul(limits::UNSEEN_FILE_BYTES);
        let is_most = bytes as f64 >= all as f64 * limits::MOST_OF_ALL;
        let is_twice = bytes as f64 >= file_bytes as f64 * limits::TIMES_OVER;
        (is_most && is_twice && bytes.saturating_sub(file_bytes) > unseen_bytes.max(limits::LEAST_AGAIN_BYTES)).then_some(Again {
            object,
            out,
            bytes,
            file_bytes,
        })
    }
}

/// A file that the command wrote, read again, and wrote to another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The object that was written first.
    pub from: usize,
    /// The one that it was copied to.
    pub to: usize,
    /// How many bytes.
    pub bytes: u64,
}

impl Copied {
    /// The largest, where it is a fair part of all that files were written.
    pub(crate) fn find(parts: &Parts<'_>) -> Option<Copied> {
        let (tables, moved) = (parts.tables, &parts.seen.moved[End::Client as usize]);
        let files = || moved.iter().enumerate().filter(|(object, _)| tables.objects[*object].kind == ObjectKind::File);
        let all: u64 = files().map(|(_, ways)| ways[1].bytes).sum();
        let as_many = |one: u64, other: u64| one.min(other) as f64 >= one.max(other) as f64 * limits::COPIED;
        let (from, [read, written]) = files()
            .map(|(object, ways)| (object, *ways))
            .filter(|(_, [read, written])| as_many(read.bytes, written.bytes) && read.end > written.start)
            .max_by_key(|(object, [_, written])| (written.bytes, std::cmp::Reverse(*object)))?;
        let is_copy =
            |(object, ways): &(usize, &[Moved; 2])| *object != from && as_many(ways[1].bytes, written.bytes) && ways[1].end > read.start;
        let (to, _) = files().find(is_copy)?;
        let is_fair = written.bytes as f64 >= all as f64 * limits::COPIED_PART && written.bytes >= limits::LEAST_AGAIN_BYTES;
        is_fair.then_some(Copied { from, to, bytes: written.bytes })
    }
}

/// An object of a server that was asked for again and again (the attributes `asked.again.N`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fetched {
    /// Whether it was sent to the server each time.
    pub out: bool,
    /// Its path.
    pub path: String,
    /// How many requests there were, and how many that were not like one before.
    pub requests: u64,
    /// How many of them were different.
    pub different: u64,
    /// The bytes that were asked for, and those of different requests, where all said which.
    pub bytes: Option<(u64, u64)>,
}

impl Fetched {
    /// How many times over.
    pub(crate) fn times(&self) -> f64 {
        let (all, different) = self.bytes.unwrap_or((self.requests, self.different));
        all as f64 / different.max(1) as f64
    }

    /// The object that was asked for again most, where it was twice or more.
    pub(crate) fn find(meta: &Meta) -> Option<Fetched> {
        let values = meta.attributes.iter().filter(|(name, _)| name.starts_with("asked.again."));
        let found = values.filter_map(|(_, value)| Fetched::of(value));
        let most = found.max_by_key(|fetched| fetched.requests - fetched.different)?;
        (most.times() >= limits::TIMES_OVER && most.requests - most.different >= limits::LEAST_ITEMS).then_some(most)
    }

    fn of(value: &str) -> Option<Fetched> {
        let (words, path) = value.split_once(" path=")?;
        let word = |name: &str| words.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str| word(name)?.parse::<u64>().ok();
        let (requests, different) = (number("requests")?, number("different")?);
        let bytes = number("bytes").zip(number("different_bytes"));
        (different <= requests).then(|| Fetched { out: word("method") == Some("PUT"), path: path.to_owned(), requests, different, bytes })
    }
}
