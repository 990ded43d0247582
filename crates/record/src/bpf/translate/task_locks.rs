//! Mutexes that goroutines wait for, from the calls of Go's runtime.

use super::output::Output;
use crate::bpf::raw;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use thalweg_trace::{MarkKind, ObjectId, ObjectKind, TrackId};

/// Bound: maximum number of mutexes, and of tasks. Further ones are not recorded.
const MOST_LOCKS: usize = 4_096;
const MOST_TASKS: usize = 1 << 20;

/// A function that grows its stack restarts within this time, with another stack pointer; calls of a loop share one.
const BEGINS_AGAIN_NS: u64 = 100_000;

/// A task and its last call.
#[derive(Debug)]
struct Task {
    number: i64,
    last: raw::TaskLock,
}

/// Mutexes and tasks seen so far.
#[derive(Debug, Default)]
pub(crate) struct TaskLocks {
    /// By process and address.
    locks: HashMap<(u32, u64), ObjectId>,
    tasks: HashMap<(u32, u64), Task>,
    /// Number of calls so far, including those for other semaphores.
    pub recorded: u64,
}

/// Returns whether `call` is `last`, restarted.
fn begins_again(last: &raw::TaskLock, call: &raw::TaskLock) -> bool {
    let is_same = (last.lock, last.what) == (call.lock, call.what) && last.stack != call.stack;
    is_same && call.head.at_ns.saturating_sub(last.head.at_ns) < BEGINS_AGAIN_NS
}

impl TaskLocks {
    /// Records that a task, on `track` of process `pid`, waits for a mutex or releases one.
    pub(super) fn met(&mut self, call: &raw::TaskLock, pid: u32, track: TrackId, output: &mut Output) {
        self.recorded += 1;
        let kind = match call.what {
            0 => MarkKind::TaskLockAwaited,
            1 => MarkKind::TaskLockAwaitedAgain,
            _ => MarkKind::TaskLockHandedOn,
        };
        let key = (pid, call.lock);
        let known = self.locks.get(&key).copied();
        // (A semaphore that is released and was never waited for as a mutex may be anything.)
        if known.is_none() && (kind == MarkKind::TaskLockHandedOn || self.locks.len() >= MOST_LOCKS) {
            return;
        }
        let Some(number) = self.task(call, pid) else { return };
        let lock = known.unwrap_or_else(|| {
            let object = output.object_id();
            output.object(object, ObjectKind::Lock, "mutex", &[("runtime", "go"), ("pid", &pid.to_string())]);
            self.locks.insert(key, object);
            object
        });
        output.mark(track, kind, call.head.at_ns, Some(lock), Some(number));
    }

    /// Returns the number of the calling task; `None` beyond the bound, or if the call is a restart.
    fn task(&mut self, call: &raw::TaskLock, pid: u32) -> Option<i64> {
        let next = self.tasks.len();
        match self.tasks.entry((pid, call.task)) {
            Entry::Occupied(mut task) => {
                let task = task.get_mut();
                let last = std::mem::replace(&mut task.last, *call);
                (!begins_again(&last, call)).then_some(task.number)
            }
            Entry::Vacant(_) if next >= MOST_TASKS => None,
            Entry::Vacant(task) => {
                let number = i64::try_from(next).unwrap_or(i64::MAX).saturating_add(1);
                Some(task.insert(Task { number, last: *call }).number)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::{Event, HostId, IdSpace};

    fn call(what: u32, task: u64, stack: u64, at_ns: u64) -> raw::TaskLock {
        let head = raw::Head { at_ns, ..raw::Head::default() };
        raw::TaskLock { head, lock: 0xc000, task, stack, what, pad: 0 }
    }

    #[test]
    fn a_call_that_begins_again_on_a_larger_stack_is_one_and_releases_of_other_things_are_none() {
        let (mut locks, mut output) = (TaskLocks::default(), Output::new(HostId(0), IdSpace(1)));
        let track = output.track_id();
        let calls = [(2, 1, 80, 5), (0, 2, 80, 10), (0, 3, 80, 20), (0, 3, 160, 30), (2, 1, 80, 40), (2, 1, 80, 50)];
        for (what, task, stack, at_ns) in calls {
            locks.met(&call(what, task, stack, at_ns), 7, track, &mut output);
        }
        let marks: Vec<(MarkKind, i64)> = output
            .events
            .iter()
            .filter_map(|event| if let Event::Mark(mark) = event { Some((mark.kind, mark.value?)) } else { None })
            .collect();
        use MarkKind::{TaskLockAwaited as Awaited, TaskLockHandedOn as HandedOn};
        assert_eq!(marks, [(Awaited, 1), (Awaited, 2), (HandedOn, 3), (HandedOn, 3)]);
        assert_eq!(locks.recorded, 6);
    }
}
