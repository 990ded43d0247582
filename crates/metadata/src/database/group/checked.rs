//! Group commit under a model checker: in every schedule, a thread that gets its answer has its batch written, and every wait ends.

use super::{Syncs, Turn, Writer};
use crate::database::{Batch, DatabaseError, Unwatched, Watch};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thalweg_base::sync::{Mutex, explore, thread};

const THREADS: u64 = 3;
const EACH: u64 = 2;

/// A log in memory.
#[derive(Default)]
struct Log {
    pending: Mutex<Pending>,
    written: Mutex<Vec<u64>>,
    is_writing: AtomicBool,
    /// Writes fail from this number on.
    full_from: Option<u64>,
    is_broken: AtomicBool,
}

#[derive(Default)]
struct Pending {
    batch: Arc<Batch>,
    numbers: Vec<u64>,
}

fn no_space() -> DatabaseError {
    DatabaseError::new(Path::new("log"), "no space is left")
}

impl Log {
    fn prepare(&self, number: u64) -> Arc<Batch> {
        let mut pending = self.pending.lock();
        pending.numbers.push(number);
        Arc::clone(&pending.batch)
    }

    /// Runs a section that no other thread may run concurrently.
    fn alone(&self) {
        assert!(!self.is_writing.swap(true, Ordering::SeqCst), "two write at a time");
        thread::yield_now();
        self.is_writing.store(false, Ordering::SeqCst);
    }
}

impl Writer for Log {
    fn write_batch(&self, watch: &mut dyn Watch) {
        let Pending { batch, numbers } = std::mem::take(&mut *self.pending.lock());
        self.alone();
        let is_full = self.full_from.is_some_and(|from| numbers.iter().any(|number| *number >= from));
        if is_full || self.is_broken.load(Ordering::SeqCst) {
            self.is_broken.store(true, Ordering::SeqCst);
            return batch.ends(Err(no_space()), watch.track());
        }
        self.written.lock().extend(numbers);
        batch.ends(Ok(()), watch.track());
    }

    fn broken(&self) -> Option<DatabaseError> {
        self.is_broken.load(Ordering::SeqCst).then(no_space)
    }

    fn breaks(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
    }
}

/// Runs one thread for each number below [`THREADS`], and joins them.
fn each_in_a_thread(work: impl Fn(u64) + Send + Sync + 'static) {
    let work = Arc::new(work);
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let work = Arc::clone(&work);
            thread::spawn(move || work(number))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn who_is_answered_has_been_written_once_and_in_order() {
    explore(|| {
        let (log, turn) = (Arc::new(Log::default()), Turn::default());
        let seen = Arc::clone(&log);
        each_in_a_thread(move |of| {
            for number in (0..EACH).map(|n| of * EACH + n) {
                let batch = log.prepare(number);
                turn.commit(&*log, &batch, &mut Unwatched).unwrap();
                assert!(log.written.lock().contains(&number), "answered, and not written");
            }
        });
        let written = seen.written.lock();
        assert_eq!(written.len() as u64, THREADS * EACH, "{written:?}");
        for of in 0..THREADS {
            let own: Vec<u64> = written.iter().copied().filter(|number| number / EACH == of).collect();
            assert_eq!(own, (of * EACH..(of + 1) * EACH).collect::<Vec<_>>());
        }
    });
}

#[test]
fn who_wants_nobody_to_write_meanwhile_is_alone() {
    explore(|| {
        let (log, turn) = (Arc::new(Log::default()), Turn::default());
        each_in_a_thread(move |of| match of {
            0 => turn.exclusively(&*log, || log.alone()),
            _ => turn.commit(&*log, &log.prepare(of), &mut Unwatched).unwrap(),
        });
    });
}

#[test]
fn a_leader_that_fails_leaves_nobody_waiting_and_nothing_is_answered_well_after_it() {
    explore(|| {
        let (log, turn) = (Arc::new(Log { full_from: Some(EACH), ..Log::default() }), Turn::default());
        each_in_a_thread(move |of| {
            for number in (0..EACH).map(|n| of * EACH + n) {
                let batch = log.prepare(number);
                let result = turn.commit(&*log, &batch, &mut Unwatched);
                assert_eq!(result.is_ok(), log.written.lock().contains(&number), "{number}: {result:?}");
            }
        });
    });
}

#[test]
fn who_has_synced_finds_everything_up_to_there_on_stable_storage() {
    explore(|| {
        let (written, stable) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (syncs, is_syncing, fails) = (Syncs::from(0), AtomicBool::new(false), AtomicBool::new(true));
        each_in_a_thread(move |of| {
            let target = written.fetch_add(1, Ordering::SeqCst) + 1;
            let put = |_: &mut dyn Watch| {
                assert!(!is_syncing.swap(true, Ordering::SeqCst), "two sync at a time");
                let reached = written.load(Ordering::SeqCst);
                thread::yield_now();
                is_syncing.store(false, Ordering::SeqCst);
                // The first sync of one of them fails; other threads must not see its error.
                if of == 0 && fails.swap(false, Ordering::SeqCst) {
                    return Err(no_space());
                }
                stable.fetch_max(reached, Ordering::SeqCst);
                Ok(reached)
            };
            let synced = syncs.sync(target, &mut Unwatched, put);
            assert!(of == 0 || synced.is_ok());
            if synced.is_ok() {
                assert!(stable.load(Ordering::SeqCst) >= target && syncs.reached() >= target);
            }
        });
    });
}
