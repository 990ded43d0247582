//! Requests in flight, and programs that no longer wait for them.
//!
//! The kernel reports that a program waiting for a request got a signal. A wait for a lock then ends, whatever the signal (`fcntl` returns
//! EINTR). Other requests continue, since programs do not expect an alarm to interrupt a file read. Only if the signal will kill the
//! program is the request answered immediately, with an EINTR the program never sees; otherwise a program reading from a silent server
//! could not be killed before the timeout. The kernel does not report which of the two it is, but a thread that is being killed has
//! SIGKILL pending, whatever the signal was. SIGKILL may follow another signal, and the kernel reports only the first; so interrupted
//! requests are checked every [`POLL_INTERVAL`] until they end.
//!
//! A killed program closes its files while it exits. The kernel no longer reports signals then, so requests made by closing are checked
//! from the beginning.
//!
//! An abandoned request continues, and may still change something, like a request sent by a machine just before it lost power. The request
//! can check for that ([`InFlight::is_abandoned`]), and a resource it grants (an open file) is taken back. Its program may have intended
//! the change under a lock: so no lock of an exiting program is released before such requests have ended ([`AbandonedChanges`]).

use crate::fuse::device::Device;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_base::proc::stat::Stat;
use thalweg_base::proc::status;
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};

/// Interval between checks of an interrupted request.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Bound: interrupts kept that arrived before their request was registered.
const EARLY: usize = 64;

/// A request being served.
pub(crate) struct InFlight {
    unique: u64,
    /// Thread that waits for it.
    pid: u32,
    device: Arc<Device>,
    state: Mutex<State>,
    abandon: Abandon,
    is_abandoned: Arc<AtomicBool>,
    /// Records the request if it is abandoned; `None`: it changes nothing.
    changes: Option<Arc<AbandonedChanges>>,
}

/// Abandoned requests that may still change something.
#[derive(Default)]
pub(crate) struct AbandonedChanges {
    requests: Mutex<HashSet<u64>>,
    ended: Condvar,
}

impl AbandonedChanges {
    /// Waits until all requests abandoned so far have ended. Must not be called by such a request.
    pub(crate) fn wait(&self) {
        let mut requests = self.requests.lock();
        let before = requests.clone();
        while !before.is_disjoint(&requests) {
            self.ended.wait(&mut requests);
        }
    }

    fn end(&self, unique: u64) {
        if self.requests.lock().remove(&unique) {
            self.ended.notify_all();
        }
    }
}

/// Whether a request may be abandoned when its program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandon {
    /// Never: no program waits for it, or a resource it grants could not be taken back.
    Never,
    /// When the kernel reports a signal.
    OnInterrupt,
    /// At any time: the program may already be exiting when it makes the request.
    Anytime,
}

#[derive(Default)]
struct State {
    answered: bool,
    interrupted: bool,
    /// Ends a wait for a lock.
    cancel: Option<Cancel>,
}

/// Ends a wait. Called at most a few times, from another thread; must not block.
pub(crate) type Cancel = Arc<dyn Fn() + Send + Sync>;

impl InFlight {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Answers the request, unless already answered; returns whether the program received the answer.
    pub(crate) fn answer(&self, errno: i32, bytes: &[u8]) -> bool {
        let mut state = self.state();
        // On an error, the program or the mount has ended.
        !std::mem::replace(&mut state.answered, true) && self.device.answer(self.unique, errno, bytes).is_ok()
    }

    /// Returns the flag that is set when the program has left; for the thread that serves the request.
    pub(crate) fn is_abandoned(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_abandoned)
    }

    /// Abandons the request: its program exits.
    fn leave(&self) {
        let mut state = self.state();
        if std::mem::replace(&mut state.answered, true) {
            return;
        }
        self.is_abandoned.store(true, Ordering::Release);
        if let Some(changes) = &self.changes {
            // Before the answer, after which the program continues closing its files.
            changes.requests.lock().insert(self.unique);
        }
        let _ = self.device.answer(self.unique, libc::EINTR, &[]);
    }

    /// Registers `cancel` to be called on a signal; calls it immediately if there was one.
    pub(crate) fn cancels(&self, cancel: Cancel) {
        let mut state = self.state();
        if state.interrupted {
            cancel();
        }
        state.cancel = Some(cancel);
    }

    fn interrupt(&self) -> bool {
        let mut state = self.state();
        state.interrupted = true;
        if let Some(cancel) = &state.cancel {
            cancel();
        }
        state.cancel.is_none() && self.abandon == Abandon::OnInterrupt && !state.answered
    }
}

/// All requests in flight.
#[derive(Default)]
pub(crate) struct Interrupts {
    requests: Mutex<Requests>,
    looking: Condvar,
    abandoned: Arc<AbandonedChanges>,
}

#[derive(Default)]
struct Requests {
    under_way: HashMap<u64, Arc<InFlight>>,
    early: Vec<u64>,
    watched: Vec<Arc<InFlight>>,
    /// Whether the watcher is polling.
    looks: bool,
    ended: bool,
}

impl Interrupts {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock()
    }

    /// Starts without requests; abandoned ones are added to `abandoned`.
    pub(crate) fn new(abandoned: Arc<AbandonedChanges>) -> Interrupts {
        Interrupts { abandoned, ..Interrupts::default() }
    }

    /// Registers a request.
    pub(crate) fn begin(&self, (unique, pid): (u64, u32), device: &Arc<Device>, abandon: Abandon, changes: bool) -> Arc<InFlight> {
        let (device, is_abandoned) = (Arc::clone(device), Arc::default());
        let changes = changes.then(|| Arc::clone(&self.abandoned));
        let one = Arc::new(InFlight { unique, pid, device, state: Mutex::default(), abandon, is_abandoned, changes });
        let mut requests = self.requests();
        if abandon == Abandon::Anytime {
            self.watch_in(&mut requests, &one);
        }
        requests.under_way.insert(unique, Arc::clone(&one));
        if let Some(at) = requests.early.iter().position(|u| *u == unique) {
            requests.early.swap_remove(at);
            self.interrupt_in(&mut requests, &one);
        }
        one
    }

    /// Unregisters a request that has ended.
    pub(crate) fn end(&self, unique: u64) {
        self.requests().under_way.remove(&unique);
        self.abandoned.end(unique);
    }

    /// Handles the kernel's report of a signal to the thread that waits for this request.
    pub(crate) fn interrupt(&self, unique: u64) {
        let mut requests = self.requests();
        match requests.under_way.get(&unique).cloned() {
            Some(one) => self.interrupt_in(&mut requests, &one),
            // The request is not registered yet; or it has just ended, and such entries are evicted oldest first.
            None => {
                if requests.early.len() == EARLY {
                    requests.early.remove(0);
                }
                requests.early.push(unique);
            }
        }
    }

    fn interrupt_in(&self, requests: &mut Requests, one: &Arc<InFlight>) {
        if one.interrupt() {
            self.watch_in(requests, one);
        }
    }

    fn watch_in(&self, requests: &mut Requests, one: &Arc<InFlight>) {
        requests.watched.push(Arc::clone(one));
        if !requests.looks {
            self.looking.notify_one();
        }
    }

    /// Checks interrupted requests until [`Interrupts::finish`]; runs on its own thread.
    pub(crate) fn watch(&self) {
        let mut requests = self.requests();
        while !requests.ended {
            requests.looks = !requests.watched.is_empty();
            if !requests.looks {
                self.looking.wait(&mut requests);
                continue;
            }
            // Most requests are answered by then.
            self.looking.wait_for(&mut requests, POLL_INTERVAL);
            let watched = std::mem::take(&mut requests.watched);
            drop(requests);
            let still = watched.into_iter().filter(|one| {
                if one.state().answered {
                    return false;
                }
                let ends = is_ending(one.pid);
                if ends {
                    one.leave();
                }
                !ends
            });
            let still: Vec<_> = still.collect();
            requests = self.requests();
            requests.watched.extend(still);
        }
    }

    /// Ends the watcher.
    pub(crate) fn finish(&self) {
        self.requests().ended = true;
        self.looking.notify_all();
    }
}

/// Whether a thread has a fatal signal pending or is being killed. A thread that does not exist counts as ending.
fn is_ending(tid: u32) -> bool {
    if tid == 0 {
        return false;
    }
    match status::of(tid) {
        Ok(status) => {
            let pending = |name: &str| status.bits(name).is_some_and(has_kill);
            pending("SigPnd") || pending("ShdPnd") || Stat::of(tid).is_some_and(|stat| is_killed(&stat))
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Whether a thread is exiting because of a signal. (One that exits normally is waited for: another thread that joins it may read its
/// results.)
fn is_killed(stat: &Stat) -> bool {
    stat.is_exiting() && stat.exit_code & 0x7f != 0
}

fn has_kill(signals: u64) -> bool {
    signals & (1 << (libc::SIGKILL - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_changes_are_waited_for_and_later_ones_are_not() {
        let changes = Arc::new(AbandonedChanges::default());
        changes.wait();
        changes.requests.lock().insert(1);
        let (ours, (waited, has_waited)) = (Arc::clone(&changes), std::sync::mpsc::channel());
        let waiter = std::thread::spawn(move || {
            ours.wait();
            waited.send(()).unwrap();
        });
        assert!(has_waited.recv_timeout(2 * POLL_INTERVAL).is_err());
        changes.requests.lock().insert(2);
        changes.end(1);
        has_waited.recv_timeout(Duration::from_secs(30)).unwrap();
        waiter.join().unwrap();
    }

    #[test]
    fn a_thread_that_goes_on_is_not_ending_and_one_that_is_gone_is() {
        assert!(!is_ending(std::process::id()));
        assert!(!is_ending(0), "a thread that cannot be seen is left alone");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(is_ending(child.id()));
        let stat = |flags: u64, exit_code: u64| Stat { flags, exit_code, ..Stat::default() };
        assert!(is_killed(&stat(0x0040_0004, 9)) && is_killed(&stat(4, 15 | 0x80)));
        assert!(!is_killed(&stat(0x0040_0000, 9)) && !is_killed(&stat(4, 0x100)));
        assert!(has_kill(0x100) && !has_kill(0x4002));
    }
}
