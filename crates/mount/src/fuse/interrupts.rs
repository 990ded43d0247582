//! Requests in flight, and programs that no longer wait for them.
//!
//! The kernel says that a program that waits for a request got a signal. A wait for a lock ends then, whatever the signal (`fcntl`
//! returns EINTR). Anything else goes on: programs do not expect an alarm to interrupt reading a file. Only when the signal will end the
//! program is the request answered at once, with EINTR that nobody sees; otherwise a program that reads from a silent server could not
//! be killed before the timeout. The kernel does not say which of the two it is; but a thread that is being killed has SIGKILL pending,
//! whatever the signal was. That may come after another signal, and the kernel reports only the first; so requests that were interrupted
//! once are looked at every [`LOOK`] until they end.
//!
//! A killed program closes its files while it ends. The kernel reports nothing more then, so requests that closing makes are looked at
//! from their beginning.
//!
//! An abandoned request goes on, and may still change something, like what a program asked of a server before its machine lost power. It
//! knows that nobody waits ([`InFlight::is_abandoned`]), and what it grants (an open file) is taken back. What it changes, its program may
//! have meant to change under a lock: so no lock of a program that ends is freed before such requests have ended ([`AbandonedChanges`]).

use crate::fuse::device::Device;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_base::proc::stat::Stat;
use thalweg_base::proc::status;
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};

/// How often a request that was interrupted is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Interruptions that came before their request was entered here; more are not remembered.
const EARLY: usize = 64;

/// A request that is being worked on.
pub(crate) struct InFlight {
    unique: u64,
    /// The thread that waits for it.
    pid: u32,
    device: Arc<Device>,
    state: Mutex<State>,
    abandon: Abandon,
    is_abandoned: Arc<AtomicBool>,
    /// Where it is noted if it is abandoned; `None`: it changes nothing.
    changes: Option<Arc<AbandonedChanges>>,
}

/// Requests that were abandoned and may still change something.
#[derive(Default)]
pub(crate) struct AbandonedChanges {
    requests: Mutex<HashSet<u64>>,
    ended: Condvar,
}

impl AbandonedChanges {
    /// Waits until all that were abandoned before have ended. None of them may wait for this.
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

/// Whether a program that ends may be answered before a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandon {
    /// No: nobody waits for it, or nobody could take back what it gives.
    Never,
    /// When the kernel says that a signal has come.
    OnInterrupt,
    /// Whenever it ends: the program may be ending when it asks.
    Anytime,
}

#[derive(Default)]
struct State {
    answered: bool,
    interrupted: bool,
    /// Ends a wait for a lock.
    cancel: Option<Cancel>,
}

/// What ends a wait. Called at most a few times, from another thread; does not wait for anything itself.
pub(crate) type Cancel = Arc<dyn Fn() + Send + Sync>;

impl InFlight {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Answers it, unless that has been done: nobody waits any more then. Whether somebody got the answer.
    pub(crate) fn answer(&self, errno: i32, bytes: &[u8]) -> bool {
        let mut state = self.state();
        // An error: the program or the mount has gone.
        !std::mem::replace(&mut state.answered, true) && self.device.answer(self.unique, errno, bytes).is_ok()
    }

    /// Whether its program has left; for the thread that works on it.
    pub(crate) fn is_abandoned(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_abandoned)
    }

    /// Its program ends, and waits no more.
    fn leave(&self) {
        let mut state = self.state();
        if std::mem::replace(&mut state.answered, true) {
            return;
        }
        self.is_abandoned.store(true, Ordering::Release);
        if let Some(changes) = &self.changes {
            // Before the answer: with it, the program goes on to closing its files.
            changes.requests.lock().insert(self.unique);
        }
        let _ = self.device.answer(self.unique, libc::EINTR, &[]);
    }

    /// From now on a signal calls `cancel`; at once if there was one.
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

/// All requests under way.
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
    /// The watcher looks again by itself.
    looks: bool,
    ended: bool,
}

impl Interrupts {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock()
    }

    /// No request yet; those that are abandoned are noted there.
    pub(crate) fn new(abandoned: Arc<AbandonedChanges>) -> Interrupts {
        Interrupts { abandoned, ..Interrupts::default() }
    }

    /// Enters a request.
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

    /// It is answered, and has ended.
    pub(crate) fn end(&self, unique: u64) {
        self.requests().under_way.remove(&unique);
        self.abandoned.end(unique);
    }

    /// The kernel says that the thread that waits for this request was sent a signal.
    pub(crate) fn interrupt(&self, unique: u64) {
        let mut requests = self.requests();
        match requests.under_way.get(&unique).cloned() {
            Some(one) => self.interrupt_in(&mut requests, &one),
            // Its thread has not come to entering it; or it has just ended, and the oldest of those make room.
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

    /// Looks at interrupted requests until [`Interrupts::finish`]; on a thread of its own.
    pub(crate) fn watch(&self) {
        let mut requests = self.requests();
        while !requests.ended {
            requests.looks = !requests.watched.is_empty();
            if !requests.looks {
                self.looking.wait(&mut requests);
                continue;
            }
            // Most are answered by then.
            self.looking.wait_for(&mut requests, LOOK);
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

    /// Ends the watching.
    pub(crate) fn finish(&self) {
        self.requests().ended = true;
        self.looking.notify_all();
    }
}

/// Whether a thread has a signal pending that will end it, or is being ended by one. One that is gone is ending.
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

/// Whether a thread ends, and by a signal. (One that ends by itself is waited for: the thread that waits for it may look at what it wrote.)
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
        assert!(has_waited.recv_timeout(2 * LOOK).is_err());
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
