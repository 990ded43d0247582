//! Every change between running and not running of watched threads, without privilege.
//!
//! The kernel writes a record each time a thread of the user's own is given a CPU or leaves it
//! (`PERF_RECORD_SWITCH`, Linux 4.3), and tells a thread that blocked from one that was preempted; threads and children
//! that begin later are included. It needs `kernel.perf_event_paranoid` of at most 2. Programs that are not watched pay
//! nothing: the events belong to threads.

mod refused;

use crate::perf::{ID, Id, PerfEvent, PerfRecord, PerfRing, flags, online_processors};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;
use thalweg_trace::Time;

pub(crate) use refused::{allowed, is_setting};

/// Pages of a ring on one CPU, tried in this order: what all rings of a user take is limited
/// (`kernel.perf_event_mlock_kb`). At 100,000 switches a second, 128 pages fill in 0.1 s.
const PAGES: [usize; 5] = [128, 64, 32, 16, 8];

/// A record that begins to be written is complete after this time, whatever its CPU does.
const BEING_WRITTEN: Duration = Duration::from_micros(50);

/// Events opened for threads that existed before.
/// Bound: each thread needs one on each CPU, and a process may have a thousand descriptors.
const MOST_EVENTS: usize = 768;

/// One change of a thread's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub pid: u32,
    pub tid: u32,
    pub at: Time,
    pub what: What,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// It was given a CPU.
    In,
    /// It left its CPU; `preempted`: it would have gone on.
    Out { preempted: bool },
    /// It has this name; `exec`: because it executed another program.
    Named { name: String, exec: bool },
    /// It began; made by this thread of process `parent`.
    Began { parent: u32, by: u32 },
    /// It ended.
    Ended,
}

/// The rings of all watched threads, one for each CPU.
#[derive(Debug)]
pub(crate) struct Switches {
    rings: Vec<(u32, PerfRing)>,
    /// Events of threads that existed before, which write into the same rings.
    others: Vec<OwnedFd>,
    /// Changes that are too new to be in order.
    waiting: Vec<Change>,
    lost: u64,
    pages: usize,
    first: u32,
    settled: Time,
}

fn event() -> PerfEvent {
    const DUMMY: u64 = 9;
    let wanted = flags::INHERIT | flags::EXCLUDE_KERNEL | flags::EXCLUDE_HYPERVISOR | flags::ID_IN_ALL;
    let told = flags::SWITCHES | flags::TASK | flags::COMM | flags::COMM_EXEC;
    let mut event = PerfEvent::software(DUMMY);
    event.sample_type = ID;
    event.flags = wanted | told | flags::CLOCK | flags::WATERMARK;
    event.wakeup = 1 << 30;
    event.clock = libc::CLOCK_MONOTONIC;
    event
}

impl Switches {
    /// Watches a thread with all threads and children that it will have. A held command is one thread.
    ///
    /// # Errors
    /// The kernel refuses the event, or its smallest ring.
    pub(crate) fn of(tid: u32) -> std::io::Result<Switches> {
        let mut refused = std::io::Error::from_raw_os_error(libc::ENODEV);
        for pages in PAGES {
            match Switches::with_rings(tid, pages) {
                Ok(rings) if !rings.is_empty() => {
                    return Ok(Switches {
                        rings,
                        others: Vec::new(),
                        waiting: Vec::new(),
                        lost: 0,
                        pages,
                        first: tid,
                        settled: Time::now(),
                    });
                }
                Ok(_) => return Err(refused),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn with_rings(tid: u32, pages: usize) -> std::io::Result<Vec<(u32, PerfRing)>> {
        let event = event();
        let one = |cpu: u32| Ok((cpu, PerfRing::map(event.open_of(tid.cast_signed(), cpu.cast_signed(), None)?, pages)?));
        online_processors().into_iter().map(one).collect()
    }

    /// Watches another existing thread too; returns whether that is possible.
    pub(crate) fn add(&mut self, tid: u32) -> bool {
        const SET_OUTPUT: libc::Ioctl = 0x2405;
        if self.others.len() + self.rings.len() > MOST_EVENTS {
            return false;
        }
        let event = event();
        let mut opened = Vec::new();
        for (cpu, ring) in &self.rings {
            let Ok(fd) = event.open_of(tid.cast_signed(), (*cpu).cast_signed(), None) else { return false };
            // SAFETY: both descriptors are open, and the call takes numbers only.
            if unsafe { libc::ioctl(fd.as_raw_fd(), SET_OUTPUT, ring.event().as_raw_fd()) } != 0 {
                return false;
            }
            opened.push(fd);
        }
        self.others.append(&mut opened);
        true
    }

    /// Until when all changes have been returned.
    pub(crate) fn settled(&self) -> Time {
        self.settled
    }

    /// The first thread.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// Records that did not fit since the last call.
    pub(crate) fn lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Bytes of the ring on each CPU.
    pub(crate) fn ring_bytes(&self) -> usize {
        self.pages * rustix::param::page_size()
    }

    /// Returns the changes since the last call, in the order in which they happened; `all`: also those so new that an
    /// older one may still be on its way.
    pub(crate) fn take(&mut self, all: bool) -> Vec<Change> {
        let begun = Time::now();
        let (mut taken, mut lost) = (std::mem::take(&mut self.waiting), 0);
        for (_, ring) in &mut self.rings {
            ring.take(|record| match record {
                PerfRecord::Lost(many) => lost += many,
                record => taken.extend(change(record)),
            });
        }
        self.lost += lost;
        taken.sort_by_key(|change| change.at);
        self.settled = begun;
        if !all {
            let until = begun.plus_ns(-(BEING_WRITTEN.as_nanos() as i64));
            let settled = taken.partition_point(|change| change.at <= until);
            self.waiting = taken.split_off(settled);
            self.settled = until;
        }
        taken
    }
}

fn change(record: PerfRecord<'_>) -> Option<Change> {
    let of = |id: Id, what| Some(Change { pid: id.pid, tid: id.tid, at: id.at, what });
    match record {
        PerfRecord::In(id) => of(id, What::In),
        PerfRecord::Out { id, preempted } => of(id, What::Out { preempted }),
        PerfRecord::Comm { id, name, exec } => of(id, What::Named { name: name.to_owned(), exec }),
        PerfRecord::Fork { id, pid, tid, parent } => Some(Change { pid, tid, at: id.at, what: What::Began { parent, by: id.tid } }),
        PerfRecord::Exit { id, pid, tid } => Some(Change { pid, tid, at: id.at, what: What::Ended }),
        PerfRecord::Mapped { .. } | PerfRecord::Ran { .. } | PerfRecord::Sample { .. } | PerfRecord::Lost(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_that_waits_is_seen_to_leave_and_to_return() {
        if let Err(why) = allowed() {
            println!("SKIPPED: {why}");
            return;
        }
        let mut child = Command::new("sh").args(["-c", "read x; sleep 0.05; true"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let child = child.as_mut().expect("sh runs");
        let mut switches = Switches::of(child.id()).expect("allowed");
        let began = Time::now();
        child.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
        child.wait().expect("it ends");
        let changes = switches.take(true);
        assert!(changes.is_sorted_by_key(|change| change.at));
        assert!(changes.iter().all(|change| change.at >= began));
        let began_one = changes.iter().find(|change| matches!(change.what, What::Began { parent, .. } if parent == child.id()));
        let sleeper = began_one.expect("sleep is a child").pid;
        let of_sleeper = |wanted: fn(&What) -> bool| changes.iter().filter(|c| c.pid == sleeper && wanted(&c.what)).count();
        assert_eq!(of_sleeper(|what| matches!(what, What::Ended)), 1);
        assert!(of_sleeper(|what| matches!(what, What::Named { name, exec: true } if name == "sleep")) == 1);
        assert!(of_sleeper(|what| matches!(what, What::Out { preempted: false })) >= 1, "it slept");
        assert_eq!(switches.lost(), 0);
    }

    #[test]
    fn a_thread_that_existed_can_be_added() {
        if let Err(why) = allowed() {
            println!("SKIPPED: {why}");
            return;
        }
        let cat = || Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat runs");
        let (mut one, mut other) = (cat(), cat());
        let mut switches = Switches::of(one.id()).expect("allowed");
        assert!(switches.add(other.id()));
        other.stdin.as_mut().expect("piped").write_all(b"x").expect("it reads");
        other.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("it writes");
        drop((one.stdin.take(), other.stdin.take()));
        one.wait().and_then(|_| other.wait()).expect("they end");
        assert!(switches.take(true).iter().any(|change| change.tid == other.id() && change.what == What::In));
    }
}
