//! Threads, or processes, of which one at a time proceeds while others wait until it wakes them: a lock that is held, or turns.
//!
//! The thread that ends a wait on a lock held it since its own last such wait, or since the other began to wait. For a lock such stretches
//! never overlap, whatever the holder does in them; a thread that wakes others and runs beside them (a pool that hands out work) has
//! overlapping stretches.
//!
//! A lock on a file is certain, and so is a mutex that the recorder recognised by the futex operation and the value it expects. To the
//! kernel, Java's monitors and Python's locks are conditions or semaphores, and a runtime that moves its tasks between threads parks idle
//! ones on plain futexes.

use crate::ExplainError;
use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::lock_wait::{Hold, On, Wait, is_on_a_file};
use crate::observe::overlap::together_ns;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use crate::observe::task_locks::{self, AtMutex};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use thalweg_base::ranges;
use thalweg_trace::{ObjectKind, Source, SpanKind};

/// The group of waits that are for each other: on one file's lock, or of threads of one kind in one process, on mutexes or on anything
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Among {
    File(u32),
    Threads(u32),
    Mutex(u32),
    /// Tasks of a runtime, for one mutex.
    Tasks(u32),
}

/// Waits on locks that a member of the same group ended.
#[derive(Debug, Default)]
pub(crate) struct LockWaits {
    of: BTreeMap<Among, Vec<Wait>>,
    /// When a task had a mutex, by the object, in order of time.
    held_by_tasks: BTreeMap<u32, Vec<Hold>>,
    /// By machine, process and label: the first thread of the kind.
    kinds: HashMap<(u32, u32, String), u32>,
    count: usize,
}

/// A queue of threads or processes that proceed one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Queue {
    /// The lock on a file, or [`NONE`].
    pub file: u32,
    /// Any of its threads.
    pub of: u32,
    /// Whether the waiters are goroutines.
    pub tasks: bool,
    /// Mean number of waiters.
    pub waiting: f64,
    /// Number of threads or processes.
    pub all: u64,
    /// Number of stretches.
    pub holds: u64,
    /// Time of the requested intervals within them, in nanoseconds.
    pub within_ns: i64,
    /// Total length of these stretches, in nanoseconds.
    pub held_ns: i64,
    /// The object of most waits.
    pub on: On,
    /// The part of it that the longest holder had.
    pub longest: f64,
}

impl LockWaits {
    /// Adds a wait.
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        let on = tables.objects.get(span.object as usize).filter(|object| object.kind == ObjectKind::Lock);
        let by_another = span.kind == SpanKind::WaitLock && span.waker != NONE && span.waker != span.track && span.ending_seen();
        let (Some(on), Some(waker)) = (on, tables.actors.get(span.waker as usize)) else { return };
        if !by_another || span.timed_out() || self.count >= limits::MOST_LOCK_WAITS || span.start >= span.end {
            return;
        }
        let own = &tables.actors[span.track as usize];
        let among = if is_on_a_file(on) {
            Among::File(span.object)
        } else if own.pid != 0 && (own.machine, own.pid, &own.label) == (waker.machine, waker.pid, &waker.label) {
            let kind = *self.kinds.entry((own.machine, own.pid, own.label.clone())).or_insert(span.track);
            if On::of(on) == On::Mutex { Among::Mutex(kind) } else { Among::Threads(kind) }
        } else {
            return;
        };
        self.count += 1;
        let wait = Wait { start: span.start, end: span.end, track: span.track, waker: span.waker, thread: span.waker, on: On::of(on) };
        self.of.entry(among).or_default().push(wait);
    }

    /// Reads the waits of goroutines for mutexes of Go.
    pub(crate) fn read_tasks(&mut self, source: &dyn Source, tables: &mut Tables) -> Result<(), ExplainError> {
        for (object, AtMutex { waits, holds }) in task_locks::read(source, tables)? {
            self.count += waits.len();
            self.of.insert(Among::Tasks(object), waits);
            self.held_by_tasks.insert(object, holds);
        }
        Ok(())
    }

    /// The queue during `asked` (in order of time); `path` has the path's threads and times.
    pub(crate) fn queue(&self, asked: &[(i64, i64)], path: &[(u32, i64, i64)]) -> Option<Queue> {
        if self.count >= limits::MOST_LOCK_WAITS {
            return None;
        }
        let found = self.of.iter().filter_map(|(&among, waits)| {
            let held = if let Among::Tasks(object) = among { self.held_by_tasks.get(&object).cloned() } else { None };
            queue(among, waits, held, asked, path)
        });
        // (The threads of a runtime wait for each other too, while its tasks wait for a mutex.)
        found.max_by_key(|queue| (queue.tasks, queue.within_ns))
    }
}

/// `held`: when who had it, where that is known; else it follows from the waits.
fn queue(among: Among, waits: &[Wait], held: Option<Vec<Hold>>, asked: &[(i64, i64)], path: &[(u32, i64, i64)]) -> Option<Queue> {
    let tasks = matches!(among, Among::Tasks(_));
    let waits = if tasks || matches!(among, Among::File(_)) { waits.to_vec() } else { mutual(waits.to_vec()) };
    let holds = held.unwrap_or_else(|| holds(&waits));
    let held: Vec<(i64, i64)> = holds.iter().map(|hold| (hold.start, hold.end)).collect();
    let all_ns: i64 = held.iter().map(|(start, end)| end - start).sum();
    let is_exclusive = all_ns as f64 <= together_ns(held.clone()) as f64 * limits::HELD_BY_ONE;
    let least = if matches!(among, Among::File(_)) { limits::HANDED_ON_FILE } else { limits::HANDED_ON };
    if holds.len() < least || !is_exclusive {
        return None;
    }
    let (pieces, asked) = (asked, Covered::of(asked.to_vec()));
    let within_ns: i64 = held.iter().map(|&(start, end)| asked.within(start, end)).sum();
    let all_asked_ns = asked.within(i64::MIN, i64::MAX);
    let with_asked = || holds.iter().filter(|hold| asked.within(hold.start, hold.end) > 0);
    let is_on_path = || match tasks {
        true => is_where_the_path_goes(with_asked(), path) || ends_with_what_was_asked(with_asked(), pieces, &asked),
        false => is_on_the_path(with_asked(), &waits, path),
    };
    if (within_ns as f64) < all_asked_ns as f64 * limits::HELD_MEANWHILE || !is_on_path() {
        return None;
    }
    let held_asked = Covered::of(held.iter().flat_map(|&(start, end)| asked.clipped(start, end)).collect());
    let waited_ns: i64 = waits.iter().map(|wait| held_asked.within(wait.start, wait.end)).sum();
    let held_ns = with_asked().map(|hold| hold.end - hold.start).sum();
    let tracks: HashSet<u32> = waits.iter().flat_map(|wait| [wait.track, wait.waker]).collect();
    let waiting = waited_ns as f64 / within_ns.max(1) as f64;
    // Processes come and go: those that wait, and their holder.
    let (file, all) = match among {
        Among::File(object) => (object, waiting.round() as u64 + 1),
        Among::Threads(_) | Among::Mutex(_) | Among::Tasks(_) => (NONE, tracks.len() as u64),
    };
    let on = [On::File, On::Mutex, On::Futex].into_iter().find(|&on| waits.iter().filter(|wait| wait.on == on).count() * 2 > waits.len());
    let on = on.unwrap_or(On::Other);
    let mut by_holder: HashMap<u32, i64> = HashMap::new();
    for hold in &holds {
        *by_holder.entry(hold.holder).or_default() += asked.within(hold.start, hold.end);
    }
    let longest = by_holder.into_values().max().unwrap_or(0) as f64 / within_ns.max(1) as f64;
    Some(Queue { file, longest, of: waits[0].thread, tasks, waiting, all, holds: with_asked().count() as u64, held_ns, within_ns, on })
}

/// The waits of threads that both waited for a member of the group and ended a member's wait.
fn mutual(mut waits: Vec<Wait>) -> Vec<Wait> {
    loop {
        let waited: HashSet<u32> = waits.iter().map(|wait| wait.track).collect();
        let woke: HashSet<u32> = waits.iter().map(|wait| wait.waker).collect();
        let before = waits.len();
        waits.retain(|wait| woke.contains(&wait.track) && waited.contains(&wait.waker));
        if waits.len() == before {
            return waits;
        }
    }
}

/// The holds in order of time; consecutive ones of one thread without a wait in between are one.
fn holds(waits: &[Wait]) -> Vec<Hold> {
    let mut by_end = waits.to_vec();
    by_end.sort_unstable_by_key(|wait| (wait.end, wait.start, wait.track));
    let mut got: HashMap<u32, i64> = HashMap::new();
    let mut of: BTreeMap<u32, Vec<Hold>> = BTreeMap::new();
    for wait in by_end {
        let start = got.get(&wait.waker).map_or(wait.start, |&got| got.max(wait.start));
        if start < wait.end {
            of.entry(wait.waker).or_default().push(Hold { start, end: wait.end, holder: wait.waker, thread: wait.thread });
        }
        got.insert(wait.track, wait.end);
    }
    let mut all: Vec<Hold> = of.into_values().flat_map(merged).collect();
    all.sort_unstable_by_key(|hold| (hold.start, hold.holder));
    all
}

fn merged(mut holds: Vec<Hold>) -> Vec<Hold> {
    holds.sort_unstable_by_key(|hold| (hold.start, hold.end));
    let mut merged: Vec<Hold> = Vec::with_capacity(holds.len());
    for hold in holds {
        match merged.last_mut() {
            Some(last) if hold.start < last.end => *last = Hold { start: last.start, end: last.end.max(hold.end), ..hold },
            _ => merged.push(hold),
        }
    }
    merged
}

/// Whether the path came to the holder, and hardly to the waiters, in most of these stretches: not so for threads that wait for each other
/// beside what the run waited for.
fn is_on_the_path<'h>(holds: impl Iterator<Item = &'h Hold>, waits: &[Wait], path: &[(u32, i64, i64)]) -> bool {
    let tracks: HashSet<u32> = waits.iter().flat_map(|wait| [wait.track, wait.waker]).collect();
    let mut of: HashMap<u32, Vec<(i64, i64)>> = HashMap::new();
    for &(track, start, end) in path.iter().filter(|(track, ..)| tracks.contains(track)) {
        of.entry(track).or_default().push((start, end));
    }
    let of: HashMap<u32, Covered> = of.into_iter().map(|(track, runs)| (track, Covered::of(runs))).collect();
    let (mut seen, mut all, mut own_ns, mut any_ns) = (0, 0, 0, 0);
    for hold in holds {
        let own = of.get(&hold.holder).map_or(0, |runs| runs.within(hold.start, hold.end));
        seen += usize::from(own > 0);
        all += 1;
        own_ns += own;
        any_ns += of.values().map(|runs| runs.within(hold.start, hold.end)).sum::<i64>();
    }
    seen as f64 >= f64::from(all) * limits::HELD_ON_PATH && own_ns as f64 >= any_ns as f64 * limits::HELD_ON_PATH
}

/// Whether the path was on the holder's thread at the end of most of these stretches: a task may change threads while it holds the mutex, but it runs on the recorded
/// thread when it releases the mutex.
fn is_where_the_path_goes<'h>(holds: impl Iterator<Item = &'h Hold>, path: &[(u32, i64, i64)]) -> bool {
    let mut of: HashMap<u32, Vec<(i64, i64)>> = HashMap::new();
    for &(track, start, end) in path {
        of.entry(track).or_default().push((start, end));
    }
    let of: HashMap<u32, Covered> = of.into_iter().map(|(track, runs)| (track, Covered::of(runs))).collect();
    let (mut seen, mut all) = (0, 0);
    for hold in holds {
        let from = hold.start.max(hold.end - limits::LETS_GO_NS);
        seen += usize::from(of.get(&hold.thread).is_some_and(|runs| runs.within(from, hold.end) > 0));
        all += 1;
    }
    seen as f64 >= f64::from(all) * limits::HELD_ON_PATH
}

/// Whether most of these stretches end together with a piece of `asked` that took most of the stretch and began in it. A task that sleeps or waits for an answer is
/// parked, and may continue on another thread.
fn ends_with_what_was_asked<'h>(holds: impl Iterator<Item = &'h Hold>, pieces: &[(i64, i64)], asked: &Covered) -> bool {
    let (mut seen, mut all) = (0, 0);
    for hold in holds {
        let length = (hold.end - hold.start) as f64;
        let last = pieces.partition_point(|(start, _)| *start < hold.end).checked_sub(1).map(|at| pieces[at]);
        let is_most = asked.within(hold.start, hold.end) as f64 >= length * limits::MOST_OF_A_HOLD;
        let near = length * limits::ENDS_WITH;
        let is_its_own = |(start, end): (i64, i64)| (hold.start - start) as f64 <= near && (end - hold.end).abs() as f64 <= near;
        seen += usize::from(is_most && last.is_some_and(is_its_own));
        all += 1;
    }
    seen as f64 >= f64::from(all) * limits::HELD_ON_PATH
}

/// Stretches of time, indexed for coverage.
struct Covered {
    /// Each with the total length of those before it.
    of: Vec<(i64, i64, i64)>,
}

impl Covered {
    fn of(intervals: Vec<(i64, i64)>) -> Covered {
        let mut ranges: Vec<Range<i64>> = intervals.into_iter().map(|(start, end)| start..end).collect();
        ranges::merge(&mut ranges);
        let mut covered = 0;
        let with_those_before = |Range { start, end }| {
            let before = covered;
            covered += end - start;
            (start, end, before)
        };
        Covered { of: ranges.into_iter().map(with_those_before).collect() }
    }

    fn until(&self, at: i64) -> i64 {
        let next = self.of.partition_point(|&(start, ..)| start < at);
        next.checked_sub(1).map_or(0, |last| {
            let (start, end, before) = self.of[last];
            before + at.min(end) - start
        })
    }

    fn within(&self, start: i64, end: i64) -> i64 {
        self.until(end) - self.until(start)
    }

    fn clipped(&self, from: i64, to: i64) -> Vec<(i64, i64)> {
        let first = self.of.partition_point(|&(_, end, _)| end <= from);
        let within = self.of[first..].iter().take_while(|(start, ..)| *start < to);
        within.map(|&(start, end, _)| (start.max(from), end.min(to))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(track: u32, waker: u32) -> Wait {
        Wait { start: 0, end: 0, track, waker, thread: waker, on: On::Other }
    }

    /// Four threads, each of which wakes the next after 10 ns, forty times.
    fn waits() -> Vec<Wait> {
        let wait = |n: i64| Wait { start: (n - 2).max(0) * 10, end: (n + 1) * 10, ..woken((n as u32 + 1) % 4, n as u32 % 4) };
        (0..40).map(wait).collect()
    }

    #[test]
    fn of_four_that_wake_each_other_in_turn_three_wait() {
        let asked: Vec<(i64, i64)> = (0..40).map(|n| (n * 10 + 1, n * 10 + 9)).collect();
        let path: Vec<(u32, i64, i64)> = (0..40).map(|n| (n as u32 % 4, n * 10, n * 10 + 1)).collect();
        let found = queue(Among::Threads(0), &waits(), None, &asked, &path).expect("they take turns");
        assert!((2.5..=3.0).contains(&found.waiting), "{found:?}");
        assert_eq!((found.all, found.file), (4, NONE));
        let elsewhere: Vec<(u32, i64, i64)> = path.iter().map(|&(track, start, end)| ((track + 1) % 4, start, end)).collect();
        assert_eq!(queue(Among::Threads(0), &waits(), None, &asked, &elsewhere), None, "the path was with those that waited");
        let hardly: Vec<(i64, i64)> = asked.iter().map(|&(start, end)| (start + 350, end + 350)).collect();
        assert_eq!(queue(Among::Threads(0), &waits(), None, &hardly, &path), None, "what the run waited for came after");
    }

    #[test]
    fn who_wakes_others_and_goes_on_beside_them_holds_no_lock() {
        let shared = |n: i64| Wait { start: (n - 2) * 5, end: n * 5, ..woken((n as u32 + 1) % 4, (n as u32 + 3) % 4) };
        let shared: Vec<Wait> = (0..40).map(shared).collect();
        let asked = [(0, 220)];
        let path: Vec<(u32, i64, i64)> = (0..40).map(|n| (n as u32 % 4, n * 5, n * 5 + 5)).collect();
        assert_eq!(queue(Among::Threads(0), &shared, None, &asked, &path), None);
    }

    #[test]
    fn threads_that_only_wait_or_only_wake_take_no_turns() {
        let chain = (0..8).map(|n| Wait { end: n * 10 + 10, ..woken(n as u32 + 1, n as u32) }).collect();
        assert!(mutual(chain).is_empty());
    }
}
