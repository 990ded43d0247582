//! Determines who ended a wait, if only one thread can have.
//!
//! The thread that ended a wait ran between the two samples around its end, or was gone at the second. So among those
//! that could have ended it (the writers of the pipe, the other threads of the process, the child), those that did
//! not run are excluded; if one thread remains, it is the waker. If several do, none is named.

use super::waits::Ender;
use std::collections::BTreeSet;
use std::rc::Rc;
use thalweg_trace::TrackId;

/// A process's ends of pipes and sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// Its parent process.
    pub parent: u32,
    /// Pipes by inode, and whether it is the write end.
    pub pipes: BTreeSet<(u64, bool)>,
    /// Sockets, by inode.
    pub sockets: BTreeSet<u64>,
}

/// A thread that ran since the last sample, or is gone.
#[derive(Clone, Debug)]
pub(super) struct ActiveThread {
    pub pid: u32,
    pub tid: u32,
    pub track: TrackId,
    pub gone: bool,
    /// At the last sample it waited for another thread of its process.
    pub waited_for_sibling: bool,
    pub ends: Rc<Ends>,
}

/// Returns who ended the wait of a thread of `pid`.
pub(super) fn ended_by(ender: Ender, pid: u32, tid: u32, acted: &[ActiveThread]) -> Option<TrackId> {
    let others = acted.iter().filter(|other| other.tid != tid);
    match ender {
        Ender::Unknown | Ender::Connection => None,
        Ender::Thread(thread) => only(others.filter(|other| other.gone && other.tid == thread)),
        // If several ended between two samples, any of them did to within that time: the last one started is at the
        // end of their pipeline.
        Ender::Child(0) => others.filter(|other| is_gone(other) && other.ends.parent == pid).max_by_key(|other| other.pid).map(|o| o.track),
        Ender::Child(child) => only(others.filter(|other| is_gone(other) && other.pid == child)),
        Ender::Holder(holder) => {
            let siblings: Vec<&ActiveThread> = others.filter(|other| other.pid == pid).collect();
            let owner = siblings.iter().find(|other| other.tid == holder).map(|other| other.track);
            owner.or_else(|| only(siblings.into_iter().filter(|other| !other.waited_for_sibling)))
        }
        Ender::Sibling => only(others.filter(|other| other.pid == pid && !other.waited_for_sibling)),
        // (Event loops wake a thread of their own process through a pipe or a pair of sockets.)
        Ender::Pipe { inode, writes } => last_to_act(others.filter(|other| other.ends.pipes.contains(&(inode, !writes)))),
        Ender::Socket(inode) => last_to_act(others.filter(|other| other.ends.sockets.contains(&inode))),
        Ender::Any(sides) => last_to_act(others.filter(|other| {
            let has = |side: &u64| other.ends.pipes.contains(&(*side, true)) || other.ends.sockets.contains(side);
            sides.iter().any(has)
        })),
        Ender::Process(holder) => only(others.filter(|other| other.pid == holder)),
    }
}

/// Whether a process has ended: its main thread is the last to go.
fn is_gone(thread: &ActiveThread) -> bool {
    thread.gone && thread.tid == thread.pid
}

/// Returns the only candidate. A child that is gone does not count beside its parent, which continued when it ended.
fn last_to_act<'a>(candidates: impl Iterator<Item = &'a ActiveThread>) -> Option<TrackId> {
    let all: Vec<&ActiveThread> = candidates.collect();
    let handed_on = |one: &ActiveThread| one.gone && all.iter().any(|other| other.pid == one.ends.parent);
    only(all.iter().copied().filter(|one| !handed_on(one)))
}

fn only<'a>(mut candidates: impl Iterator<Item = &'a ActiveThread>) -> Option<TrackId> {
    let first = candidates.next()?.track;
    candidates.all(|other| other.track == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(number: u32) -> TrackId {
        TrackId::new(u64::from(number)).expect("not zero")
    }

    fn acted(pid: u32, tid: u32, ends: &Ends) -> ActiveThread {
        ActiveThread { pid, tid, track: track(tid), gone: false, waited_for_sibling: false, ends: Rc::new(ends.clone()) }
    }

    #[test]
    fn the_only_writer_that_ran_ended_a_read_of_a_pipe() {
        let reads = Ends { pipes: BTreeSet::from([(7, false)]), ..Ends::default() };
        let writes = Ends { pipes: BTreeSet::from([(7, true)]), ..Ends::default() };
        let read = Ender::Pipe { inode: 7, writes: false };
        let threads = [acted(1, 1, &reads), acted(2, 2, &writes), acted(3, 3, &reads)];
        assert_eq!(ended_by(read, 1, 1, &threads), Some(track(2)));
        let mut shell = acted(5, 5, &Ends { parent: 2, ..writes.clone() });
        shell.gone = true;
        assert_eq!(ended_by(read, 1, 1, &[&threads[..], &[shell]].concat()), Some(track(2)), "its child ended, and it went on");
        let two = [&threads[..], &[acted(4, 4, &writes)]].concat();
        assert_eq!(ended_by(read, 1, 1, &two), None, "one of two writers, nobody knows which");
        assert_eq!(ended_by(read, 1, 1, &threads[..1]), None);
    }

    #[test]
    fn a_thread_may_be_woken_through_a_pipe_of_its_own_process() {
        let both = Ends { pipes: BTreeSet::from([(7, false), (7, true)]), ..Ends::default() };
        let read = Ender::Pipe { inode: 7, writes: false };
        let threads = [acted(1, 1, &both), acted(1, 2, &both)];
        assert_eq!(ended_by(read, 1, 2, &threads), Some(track(1)));
        assert_eq!(ended_by(read, 1, 2, &[&threads[..], &[acted(1, 3, &both)]].concat()), None, "one of two");
    }

    #[test]
    fn a_child_ends_a_wait_by_its_end_only() {
        let child = Ends { parent: 1, ..Ends::default() };
        let mut threads = [acted(2, 2, &child)];
        assert_eq!(ended_by(Ender::Child(0), 1, 1, &threads), None);
        threads[0].gone = true;
        assert_eq!(ended_by(Ender::Child(0), 1, 1, &threads), Some(track(2)));
        assert_eq!(ended_by(Ender::Child(3), 1, 1, &threads), None);
        assert_eq!(ended_by(Ender::Child(0), 9, 9, &threads), None, "somebody else's child");
    }

    #[test]
    fn of_the_threads_of_a_process_those_that_waited_themselves_ended_nothing() {
        let none = Ends::default();
        let mut threads = [acted(1, 2, &none), acted(1, 3, &none), acted(5, 5, &none)];
        assert_eq!(ended_by(Ender::Sibling, 1, 1, &threads), None);
        threads[1].waited_for_sibling = true;
        assert_eq!(ended_by(Ender::Sibling, 1, 1, &threads), Some(track(2)));
        assert_eq!(ended_by(Ender::Holder(3), 1, 1, &threads), Some(track(3)), "the owner, whatever it waited for");
    }
}
