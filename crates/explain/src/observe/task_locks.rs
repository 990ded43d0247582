//! Waits of goroutines for mutexes of Go, from the marks that the runtime's own functions left: the kernel sees none of these waits.
//!
//! A mark says that a goroutine ("task") waits at a semaphore of the runtime, or that the holder of the mutex releases the semaphore. A release wakes the first waiter
//! and adds a token; a task that arrives before the woken one has run may take the token, and the woken one waits again (Go's `runtime/sema.go`).

use crate::ExplainError;
use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::lock_wait::{Hold, On, Wait};
use crate::observe::tables::Tables;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use thalweg_trace::{Mark, MarkKind, ObjectId, Source};

/// The state of a semaphore at which tasks wait for a mutex, replayed from the marks.
#[derive(Debug, Default)]
struct Semaphore {
    /// Waiting tasks, in order, each with the time at which its wait began.
    waiting: VecDeque<(u32, i64)>,
    /// Tasks woken. One that finds no token waits again, which leaves no mark.
    let_go: Vec<LetGo>,
    /// Releases not yet used by a task.
    tokens: usize,
    /// The last release.
    last: Option<Release>,
    /// Whether one task wakes several in a row (readers). A release of a mutex wakes one, and newcomers wait.
    shared: bool,
    /// Time of the first mark.
    since: i64,
    met: HashSet<u32>,
    /// Number of releases, and of those that woke a task without a mark of its wait.
    releases: usize,
    unseen: usize,
    waits: Vec<Wait>,
    holds: Vec<Hold>,
}

/// A release of the mutex.
#[derive(Clone, Copy, Debug)]
struct Release {
    task: u32,
    at: i64,
    thread: u32,
}

/// A task that was woken.
#[derive(Clone, Copy, Debug)]
struct LetGo {
    task: u32,
    since: i64,
    by: Release,
}

impl Semaphore {
    fn new(since: i64, shared: bool) -> Semaphore {
        Semaphore { since, shared, ..Semaphore::default() }
    }

    fn awaited(&mut self, task: u32, at: i64) {
        self.met.insert(task);
        self.has_gone_on(task);
        if self.shared && self.last.is_some_and(|last| at - last.at > limits::RUNS_WITHIN_NS) {
            self.all_have_gone_on();
        }
        if self.shared && self.tokens > 0 {
            // It takes the token of a task that was woken and has not run yet.
            self.use_token();
        } else {
            self.waiting.push_back((task, at));
        }
    }

    fn awaited_again(&mut self, task: u32, at: i64) {
        self.met.insert(task);
        let place = self.let_go.iter().position(|let_go| let_go.task == task);
        let since = place.map_or(at, |place| self.let_go.remove(place).since);
        self.use_token();
        self.waiting.retain(|(waiting, _)| *waiting != task);
        self.waiting.push_front((task, since));
    }

    fn handed_on(&mut self, task: u32, at: i64, thread: u32) {
        let is_news = self.met.insert(task);
        let in_a_row = self.last.is_some_and(|last| last.task == task);
        if !self.has_gone_on(task) && !in_a_row && self.tokens > 0 {
            // This task held the mutex, not the one woken. A task without marks has waited since before the recording.
            self.use_token();
            if let Some(last) = self.last.filter(|_| is_news) {
                self.waited(LetGo { task, since: self.since, by: last });
            }
        }
        self.held(task, at, thread);
        let by = Release { task, at, thread };
        self.last = Some(by);
        self.tokens += 1;
        self.releases += 1;
        self.unseen += usize::from(self.waiting.is_empty());
        self.let_go.extend(self.waiting.pop_front().map(|(task, since)| LetGo { task, since, by }));
    }

    /// Records that `holder` held the mutex since the previous release, or since the first wait after it.
    fn held(&mut self, holder: u32, end: i64, thread: u32) {
        let waiting = self.waiting.iter().map(|(_, since)| *since).chain(self.let_go.iter().map(|let_go| let_go.since)).min();
        let last = self.last.map(|last| last.at);
        let is_one = |last: i64| end - last < limits::RUNS_WITHIN_NS && self.last.is_some_and(|last| last.task == holder);
        if let Some(start) = waiting.max(last).filter(|_| !(self.shared && last.is_some_and(is_one))) {
            self.holds.push(Hold { start, end, holder, thread });
        }
    }

    /// Ends the wait of a task that shows up elsewhere; returns whether it was waiting.
    fn has_gone_on(&mut self, task: u32) -> bool {
        let found = match self.let_go.iter().position(|let_go| let_go.task == task) {
            Some(place) => Some(self.let_go.remove(place)),
            None => {
                let place = self.waiting.iter().position(|(waiting, _)| *waiting == task);
                let waited = place.and_then(|place| self.waiting.remove(place));
                waited.zip(self.last).map(|((task, since), by)| LetGo { task, since, by })
            }
        };
        found.into_iter().for_each(|found| {
            self.waited(found);
            self.use_token();
        });
        found.is_some()
    }

    /// Uses a token; a woken task left without one waits again.
    fn use_token(&mut self) {
        self.tokens = self.tokens.saturating_sub(1);
        while self.let_go.len() > self.tokens {
            self.waiting.extend(self.let_go.pop().map(|LetGo { task, since, .. }| (task, since)));
        }
    }

    fn waited(&mut self, LetGo { task, since, by }: LetGo) {
        if since < by.at {
            self.waits.push(Wait { start: since, end: by.at, track: task, waker: by.task, thread: by.thread, on: On::Mutex });
        }
    }

    /// Ends the waits of all woken tasks.
    fn all_have_gone_on(&mut self) {
        self.tokens = 0;
        std::mem::take(&mut self.let_go).into_iter().for_each(|let_go| self.waited(let_go));
    }

    /// Returns the waits that ended, and the stretches in which the mutex was held; nothing if too many woken tasks have no mark of their wait (it began before the
    /// recording).
    fn ended(mut self) -> AtMutex {
        self.all_have_gone_on();
        let is_seen = self.unseen as f64 <= self.releases as f64 * limits::UNSEEN_TASKS;
        if is_seen { AtMutex { waits: self.waits, holds: self.holds } } else { AtMutex::default() }
    }
}

/// What happened at one mutex. `track`, `waker` and `holder` are tasks; `thread` is the thread of the waker or holder.
#[derive(Debug, Default)]
pub(crate) struct AtMutex {
    pub waits: Vec<Wait>,
    /// The stretches in which a task held the mutex while others waited, in order of time.
    pub holds: Vec<Hold>,
}

/// Reads the waits of a recording, by the object of their mutex.
pub(crate) fn read(source: &dyn Source, tables: &mut Tables) -> Result<BTreeMap<u32, AtMutex>, ExplainError> {
    use MarkKind as K;
    let is_of_tasks = |kind| matches!(kind, K::TaskLockAwaited | K::TaskLockAwaitedAgain | K::TaskLockHandedOn);
    let mut marks: Vec<_> = source.marks()?.into_iter().filter(|mark| is_of_tasks(mark.kind)).collect();
    marks.sort_by_key(|mark| mark.at);
    let shared = released_in_a_row(&marks);
    let mut semaphores: BTreeMap<u32, Semaphore> = BTreeMap::new();
    for mark in marks {
        let object = mark.object.map_or(NONE, |object| tables.object_rows.get(object.number()));
        let (thread, task) = (tables.tracks.get(mark.track.number()), mark.value.and_then(|task| u32::try_from(task).ok()));
        let Some(task) = task.filter(|_| object != NONE && thread != NONE) else { continue };
        let at = mark.at.ns();
        let semaphore = semaphores.entry(object).or_insert_with(|| Semaphore::new(at, shared.contains(&mark.object)));
        match mark.kind {
            K::TaskLockAwaited => semaphore.awaited(task, at),
            K::TaskLockAwaitedAgain => semaphore.awaited_again(task, at),
            _ => semaphore.handed_on(task, at, thread),
        }
    }
    let waits = semaphores.into_iter().map(|(object, semaphore)| (object, semaphore.ended()));
    Ok(waits.filter(|(_, at)| !at.waits.is_empty()).collect())
}

/// Returns the semaphores that one task releases several times in a row.
fn released_in_a_row(marks: &[Mark]) -> HashSet<Option<ObjectId>> {
    let (mut last, mut found) = (HashMap::new(), HashSet::new());
    for mark in marks {
        let before = last.insert(mark.object, (mark.kind, mark.value));
        if mark.kind == MarkKind::TaskLockHandedOn && before == Some((mark.kind, mark.value)) {
            found.insert(mark.object);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn who_waited(mut semaphore: Semaphore) -> Vec<(u32, u32, i64, i64)> {
        semaphore.all_have_gone_on();
        semaphore.waits.iter().map(|wait| (wait.track, wait.waker, wait.start, wait.end)).collect()
    }

    #[test]
    fn the_first_that_waits_goes_on_and_one_that_came_too_late_goes_on_waiting() {
        let mut mutex = Semaphore::new(0, false);
        mutex.awaited(1, 0);
        mutex.awaited(2, MS);
        mutex.awaited(3, 2 * MS);
        mutex.handed_on(1, 10 * MS, 7);
        // The one that had it took it again, before the one that was let go on could.
        mutex.awaited_again(2, 11 * MS);
        mutex.handed_on(1, 20 * MS, 7);
        mutex.handed_on(2, 30 * MS, 8);
        mutex.handed_on(3, 40 * MS, 8);
        assert_eq!(who_waited(mutex), [(2, 1, MS, 20 * MS), (3, 2, 2 * MS, 30 * MS)]);
    }

    #[test]
    fn readers_that_a_writer_lets_go_on_have_all_waited_for_it() {
        let mut readers = Semaphore::new(0, true);
        (2..5).for_each(|task| readers.awaited(task, i64::from(task) * 10));
        (0..3).for_each(|n| readers.handed_on(1, 1_000 + n, 7));
        (2..5).for_each(|task| readers.awaited(task, 2_000));
        let held: Vec<(i64, i64)> = readers.holds.iter().map(|hold| (hold.start, hold.end)).collect();
        assert_eq!(held, [(20, 1_000)]);
        assert_eq!(who_waited(readers), [(2, 1, 20, 1_000), (3, 1, 30, 1_001), (4, 1, 40, 1_002)]);
    }

    #[test]
    fn nothing_is_known_where_those_that_go_on_were_not_seen_to_wait() {
        let mut mutex = Semaphore::new(0, false);
        mutex.awaited(2, 10);
        (0..4).for_each(|n| mutex.handed_on(1 + n, 1_000 * i64::from(n + 1), 7));
        assert!(mutex.ended().waits.is_empty());
    }

    #[test]
    fn who_comes_before_those_that_were_let_go_on_makes_them_wait_on() {
        let mut readers = Semaphore::new(0, true);
        readers.awaited(2, 10);
        readers.awaited(3, 20);
        readers.handed_on(1, 1_000, 7);
        readers.handed_on(1, 1_001, 7);
        readers.awaited(4, 1_002);
        readers.handed_on(1, 2_000, 7);
        assert_eq!(who_waited(readers), [(2, 1, 10, 1_000), (3, 1, 20, 2_000)]);
    }

    #[test]
    fn who_had_waited_before_the_recording_waited_since_it_began() {
        let mut mutex = Semaphore::new(100_000, false);
        mutex.handed_on(1, 100_000, 7);
        mutex.handed_on(2, 200_000, 7);
        mutex.awaited(1, 210_000);
        mutex.handed_on(3, 300_000, 7);
        mutex.handed_on(1, 400_000, 7);
        assert_eq!(who_waited(mutex), [(2, 1, 100_000, 100_000), (3, 2, 100_000, 200_000), (1, 3, 210_000, 300_000)][1..]);
    }
}
