//! Bytes moved more than once: of a file, and of unencrypted requests to a server.
//!
//! Calls that never blocked are merged, and counted for the last file: many files read in one go look like one. So a file counts only if it
//! has most of the bytes, and only with the bytes that certainly belong to it ([`crate::observe::sightings`]); if a recording does not show
//! that, more bytes must have been repeated than the files opened meanwhile could account for.

use crate::cause::{Cause, End};
use crate::facts::Parts;
use crate::limits::numbers as limits;
use crate::observe::observation::Moved;
use crate::observe::tables::Object;
use crate::observe::words::word;
use std::collections::{HashMap, HashSet};
use thalweg_trace::{Meta, ObjectKind};

/// How often a file was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// By this number of processes.
    ByProcesses(u64),
    /// This number of times.
    Times(u64),
}

impl Replaced {
    pub(crate) fn times(self) -> u64 {
        let (Replaced::ByProcesses(times) | Replaced::Times(times)) = self;
        times
    }
}

/// A file of which more bytes moved than its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    /// Index of its object.
    pub object: usize,
    /// Whether the file was written (else read).
    pub out: bool,
    /// Bytes moved.
    pub bytes: u64,
    /// Its size; for a replaced file, the mean bytes moved per version.
    pub file_bytes: u64,
    /// Bytes that may have moved, including those of uncertain files.
    pub likely_bytes: u64,
    /// How often it was replaced by another file of its name.
    pub replaced: Option<Replaced>,
}

impl Again {
    /// How many times over its bytes moved.
    pub(crate) fn times(&self) -> f64 {
        self.bytes as f64 / self.file_bytes as f64
    }

    /// The most times over that its bytes may have moved.
    pub(crate) fn most_times(&self) -> f64 {
        self.likely_bytes.max(self.bytes) as f64 / self.file_bytes as f64
    }

    /// Whether the true number may be larger than the certain one.
    pub(crate) fn is_at_least(&self) -> bool {
        self.likely_bytes as f64 * limits::COPIED > self.bytes as f64
    }

    /// The file with most of the bytes read (or written, if `out`), if they are at least twice its size.
    pub(crate) fn find(parts: &Parts<'_>, out: bool) -> Option<Again> {
        let (tables, moved) = (parts.tables, &parts.seen.moved[End::Client as usize]);
        let files = || moved.iter().enumerate().filter(|(object, _)| tables.objects[*object].kind == ObjectKind::File);
        let all: u64 = files().map(|(_, ways)| ways[usize::from(out)].bytes).sum();
        let all_written: u64 = files().map(|(_, ways)| ways[1].bytes).sum();
        // A file replaced by another of its name is the same file to its writer.
        let mut by_name: HashMap<&str, SameNameFiles> = HashMap::new();
        let names = lasting_names(&tables.objects);
        for (object, ways) in files() {
            let named = &tables.objects[object];
            let sum = by_name.entry(names[object]).or_insert(SameNameFiles { object, ..SameNameFiles::default() });
            if tables.objects[sum.object].name != names[object] {
                sum.object = object;
            }
            sum.add(named, &ways[usize::from(out)], parts.seen.sightings.sure(object, out));
        }
        let most = by_name.into_values().max_by_key(|named| (named.bytes, named.object))?;
        // If it is read for that, it is copied.
        let replaced = most.replaced().filter(|_| out || all_written as f64 >= most.bytes as f64 * limits::COPIED);
        let SameNameFiles { object, bytes, likely_bytes, calls, mut file_bytes, .. } = most;
        if let Some(replaced) = replaced {
            // The recorded size of each version is from its first use, while it was being written.
            file_bytes = bytes / replaced.times();
        }
        let created = parts.around.files.as_ref().map_or(0, |files| files.created);
        if out && file_bytes == 0 && created >= limits::LEAST_ITEMS && calls as f64 >= created as f64 * limits::AS_MANY {
            // A file that is gone at the end, and was created anew each time, to replace another. (A few of those created are others: its
            // target, a log.)
            file_bytes = bytes / created.min(calls);
        }
        // A file smaller than one call's bytes was longer when it was created.
        if file_bytes == 0 || bytes / calls.max(1) > file_bytes {
            return None;
        }
        let others = parts.around.files.as_ref().map_or(0, |files| files.opened.max(files.read));
        // Of a replaced file, each version was recorded; and some recordings show which file bytes certainly belong to.
        let unseen_bytes = if replaced.is_some() || parts.seen.sightings.sure(object, out).is_some() {
            0
        } else {
            others.saturating_mul(limits::UNSEEN_FILE_BYTES)
        };
        let is_most = bytes as f64 >= all as f64 * limits::MOST_OF_ALL;
        let is_twice = bytes as f64 >= file_bytes as f64 * limits::TIMES_OVER;
        (is_most && is_twice && bytes.saturating_sub(file_bytes) > unseen_bytes.max(limits::LEAST_AGAIN_BYTES)).then_some(Again {
            object,
            out,
            bytes,
            file_bytes,
            likely_bytes,
            replaced,
        })
    }
}

/// The name of each object; for a temporary file (mkstemp(3)), that of the often replaced file beside it, if any: it replaced that file, or
/// was meant to.
pub(crate) fn lasting_names(objects: &[Object]) -> Vec<&str> {
    let mut files_of: HashMap<&str, u64> = HashMap::new();
    for object in objects.iter().filter(|object| object.kind == ObjectKind::File) {
        *files_of.entry(&object.name).or_default() += 1;
    }
    let mut replaced_in: HashMap<&str, Option<&str>> = HashMap::new();
    for name in files_of.into_iter().filter(|(_, files)| *files >= limits::LEAST_ITEMS).map(|(name, _)| name) {
        // Of two in one directory, neither is certain.
        replaced_in.entry(folder(name)).and_modify(|one| *one = None).or_insert(Some(name));
    }
    let lasting = |object: &'_ Object| match object.kind {
        ObjectKind::File if is_temporary(&object.name) => replaced_in.get(folder(&object.name)).copied().flatten(),
        _ => None,
    };
    objects.iter().map(|object| lasting(object).unwrap_or(&object.name)).collect()
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether a path ends like one of mkstemp(3): six letters and digits, among them a letter, and a capital or a digit.
fn is_temporary(path: &str) -> bool {
    let Some(last) = path.len().checked_sub(6).and_then(|at| path.get(at..)) else { return false };
    last.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && last.bytes().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && last.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// The files that had one name.
#[derive(Debug, Default)]
struct SameNameFiles {
    /// Index of the first of them.
    object: usize,
    /// Bytes that certainly moved.
    bytes: u64,
    /// Bytes that may have moved.
    likely_bytes: u64,
    /// Number of calls.
    calls: u64,
    /// Size of the longest.
    file_bytes: u64,
    /// Number of files that moved bytes.
    versions: u64,
    /// The processes.
    pids: HashSet<u32>,
}

impl SameNameFiles {
    fn add(&mut self, object: &Object, way: &Moved, sure_bytes: Option<u64>) {
        let bytes = sure_bytes.unwrap_or(way.bytes);
        self.likely_bytes += way.bytes;
        let size = object.attribute("file_bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        (self.bytes, self.calls, self.file_bytes) = (self.bytes + bytes, self.calls + way.calls, self.file_bytes.max(size));
        if bytes > 0 {
            self.versions += 1;
            self.pids.insert(way.pid);
        }
    }

    /// How often the file was replaced. One file may be two objects, by its name before and after; the processes that moved bytes are
    /// known.
    fn replaced(&self) -> Option<Replaced> {
        let processes = self.pids.len() as u64;
        match self.versions {
            fewer if fewer < limits::LEAST_ITEMS => None,
            _ if processes >= limits::LEAST_ITEMS => Some(Replaced::ByProcesses(processes)),
            versions => Some(Replaced::Times(versions)),
        }
    }
}

/// A file that the command wrote, read again, and wrote to another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The object written first.
    pub from: usize,
    /// The object it was copied to.
    pub to: usize,
    /// Bytes copied.
    pub bytes: u64,
}

impl Copied {
    /// The largest copy, if it is a fair part of all bytes written to files.
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

/// An object of a server that was requested repeatedly (the attributes `asked.again.N`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fetched {
    /// Whether the content was sent to the server each time (else fetched).
    pub out: bool,
    /// The server's address.
    pub server: String,
    /// Its path.
    pub path: String,
    /// Number of requests.
    pub requests: u64,
    /// Number of different requests.
    pub different: u64,
    /// Bytes requested, and those of different requests, if all requests had a range.
    pub bytes: Option<(u64, u64)>,
}

impl Fetched {
    /// How many times over it was requested.
    pub(crate) fn times(&self) -> f64 {
        let (all, different) = self.bytes.unwrap_or((self.requests, self.different));
        all as f64 / different.max(1) as f64
    }

    /// The object requested most often, if at least twice and if its content was repeated. A repeated question for a different answer (the
    /// next task of a queue, a state) does not count: no cache answers it.
    pub(crate) fn find(meta: &Meta, parts: &Parts<'_>) -> Option<Fetched> {
        let values = meta.attributes.iter().filter(|(name, _)| name.starts_with("asked.again."));
        let found = values.filter_map(|(_, value)| Fetched::of(value)).filter(|fetched| fetched.is_content(parts));
        let most = found.max_by_key(|fetched| fetched.requests - fetched.different)?;
        (most.times() >= limits::TIMES_OVER && most.requests - most.different >= limits::LEAST_ITEMS).then_some(most)
    }

    fn of(value: &str) -> Option<Fetched> {
        let (words, path) = value.split_once(" path=")?;
        let word = |name: &str| word(words, name);
        let number = |name: &str| word(name)?.parse::<u64>().ok();
        let (requests, different) = (number("requests")?, number("different")?);
        let bytes = number("bytes").zip(number("different_bytes"));
        let out = match word("method")? {
            "GET" => false,
            "PUT" => true,
            // Other requests have an effect each time.
            _ => return None,
        };
        let server = word("server")?.to_owned();
        (different <= requests).then(|| Fetched { out, server, path: path.to_owned(), requests, different, bytes })
    }

    /// Whether the repeated bytes have some size, and were the same each time: each request gave its range, or the server's connections
    /// have no more sizes than different requests, and the time did not depend on the server's and programs' work per request.
    fn is_content(&self, parts: &Parts<'_>) -> bool {
        if let Some((all, different)) = self.bytes {
            return all.saturating_sub(different) >= limits::LEAST_AGAIN_BYTES;
        }
        let is_servers = |connection: u32| parts.tables.ends(connection).is_some_and(|(_, server)| server == self.server);
        let questions = parts.seen.questions.over_connections().filter(|question| is_servers(question.connection));
        let sizes: Vec<u64> = questions.map(|question| question.bytes).filter(|bytes| *bytes >= limits::LEAST_CONTENT_BYTES).collect();
        self.are_contents(sizes) && by_request(parts) < limits::MOSTLY_BY_REQUEST
    }

    /// Whether bodies of these sizes can be those of the requests, each with the content of an earlier one.
    fn are_contents(&self, mut sizes: Vec<u64>) -> bool {
        sizes.sort_unstable();
        let differ = |pair: &&[u64]| pair[0] as f64 <= pair[1] as f64 * limits::SAME_SIZE;
        let kinds = 1 + sizes.windows(2).filter(differ).count() as u64;
        let again = sizes.iter().sum::<u64>() as f64 * (1.0 - self.different as f64 / self.requests.max(1) as f64);
        let are_all = sizes.len() as f64 >= self.requests as f64 * limits::AS_MANY;
        are_all && kinds <= self.different && again >= limits::LEAST_AGAIN_BYTES as f64
    }
}

/// The part of the time charged to work per request, whatever an answer's size.
fn by_request(parts: &Parts<'_>) -> f64 {
    use Cause as C;
    let goes_by = [C::ServerThink, C::ServerLock, C::ServerUnknown, C::ClientThink, C::ClientLock, C::NetworkLatency];
    let charged = parts.ledger.entries.iter().filter(|entry| goes_by.contains(&entry.cause));
    charged.map(|entry| entry.runs.total_ns).sum::<u64>() as f64 / (parts.end - parts.start).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_again_is_content_where_its_size_stays() {
        let of = |value: &str| Fetched::of(value).expect("a value");
        let asked = of("requests=25 different=1 method=GET server=127.0.0.1:80 path=/o");
        assert!(asked.are_contents(vec![1 << 20; 25]));
        assert!(asked.are_contents((0..25).map(|n| (1 << 20) + n).collect()), "a head may be longer");
        assert!(!asked.are_contents((0..25).map(|n| (1 << 20) + (n << 16)).collect()), "each time it is something else");
        assert!(!asked.are_contents(vec![1 << 20; 5]), "most had no body");
        assert!(!asked.are_contents(vec![64 << 10; 25]), "so little explains nothing");
        let two = of("requests=25 different=2 method=GET server=127.0.0.1:80 path=/o");
        assert!(two.are_contents((0..25).map(|n| (1 << 20) << (n % 2)).collect()));
        assert!(!two.are_contents((0..25).map(|n| (1 << 20) << (n % 3)).collect()), "others were asked for, too");
        assert_eq!(Fetched::of("requests=25 different=1 method=POST server=127.0.0.1:80 path=/o"), None);
    }
}
