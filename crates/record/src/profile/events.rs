//! perf's records of executable mappings, forks, execs and exits: complete even for processes that live for a
//! millisecond.

use crate::perf::{ID, Id, PerfEvent, PerfRecord, PerfRing, flags, online_processors};
use std::fmt::Write;
use std::os::fd::OwnedFd;

/// The kind of a process event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An executable mapping was made.
    Mapped { start: u64, end: u64, file_offset: u64, path: String, build_id: Option<String> },
    /// A process was forked by another.
    Forked { parent: u32 },
    /// A program was executed: earlier mappings are gone.
    Began,
    /// A thread ended.
    Ended { tid: u32 },
}

/// A process event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    /// Time on the samples' clock.
    pub at_ns: u64,
    pub pid: u32,
    pub what: What,
}

/// Pages of a CPU's ring, a power of two: room for some three thousand mappings.
const RING_PAGES: usize = 64;

/// What an event must ask for, so that the kernel writes these records.
pub(super) const OF_PROCESSES: u64 = flags::MAPPINGS | flags::COMM | flags::COMM_EXEC | flags::TASK | flags::ID_IN_ALL | flags::CLOCK;

/// The rings of all CPUs.
#[derive(Debug, Default)]
pub(crate) struct Events {
    rings: Vec<PerfRing>,
    /// Records lost because a ring was full.
    pub lost: u64,
}

fn open(cpu: u32, build_id: u64) -> std::io::Result<OwnedFd> {
    const DUMMY: u64 = 9;
    let mut event = PerfEvent::software(DUMMY);
    event.sample_type = ID;
    event.flags = OF_PROCESSES | build_id;
    event.clock = libc::CLOCK_MONOTONIC;
    event.open(cpu)
}

impl Events {
    /// Opens a ring for each CPU. Without them, mappings are known only from /proc.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(crate) fn open() -> std::io::Result<Events> {
        let mut rings = Vec::new();
        for cpu in online_processors() {
            // Kernels since 5.12 report build identifiers.
            let event = open(cpu, flags::BUILD_ID).or_else(|_| open(cpu, 0))?;
            rings.push(PerfRing::map(event, RING_PAGES)?);
        }
        Ok(Events { rings, lost: 0 })
    }

    /// Takes the events since the last call, in order of time.
    pub(crate) fn take(&mut self, into: &mut Vec<Happened>) {
        let lost = &mut self.lost;
        for ring in &mut self.rings {
            ring.take(|record| match record {
                PerfRecord::Lost(many) => *lost += many,
                record => into.extend(happened(&record)),
            });
        }
        into.sort_by_key(|happened| happened.at_ns);
    }
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the process event that a record reports; `None` for other records.
pub(super) fn happened(record: &PerfRecord<'_>) -> Option<Happened> {
    let event = |id: &Id, pid: u32, what| Some(Happened { at_ns: u64::try_from(id.at.ns()).unwrap_or(0), pid, what });
    match record {
        PerfRecord::Fork { id, pid, parent, .. } if pid != parent => event(id, *pid, What::Forked { parent: *parent }),
        PerfRecord::Exit { id, pid, tid } => event(id, *pid, What::Ended { tid: *tid }),
        PerfRecord::Comm { id, exec: true, .. } => event(id, id.pid, What::Began),
        PerfRecord::Mapped { id, address, length, offset, path, build_id } => {
            let (end, path) = (address.saturating_add(*length), String::from_utf8_lossy(path).into_owned());
            let build_id = build_id.filter(|id| !id.is_empty()).map(hexadecimal);
            event(id, id.pid, What::Mapped { start: *address, end, file_offset: *offset, path, build_id })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::Time;

    #[test]
    fn forks_programs_and_ends_are_told_apart() {
        let id = Id { pid: 7, tid: 8, at: Time::from_monotonic_ns(99), cpu: 0 };
        let what = |record| happened(&record).map(|happened| (happened.at_ns, happened.pid, happened.what));
        assert_eq!(what(PerfRecord::Fork { id, pid: 9, tid: 9, parent: 7 }), Some((99, 9, What::Forked { parent: 7 })));
        assert_eq!(what(PerfRecord::Fork { id, pid: 7, tid: 9, parent: 7 }), None, "a thread is no process");
        assert_eq!(what(PerfRecord::Comm { id, name: "sleep", exec: true }), Some((99, 7, What::Began)));
        assert_eq!(what(PerfRecord::Comm { id, name: "sleep", exec: false }), None, "only a name");
        assert_eq!(what(PerfRecord::Exit { id, pid: 7, tid: 8 }), Some((99, 7, What::Ended { tid: 8 })));
    }

    #[test]
    fn a_mapping_has_its_path_and_its_build_identifier() {
        let id = Id { pid: 7, tid: 8, at: Time::from_monotonic_ns(99), cpu: 0 };
        let mapped = |build_id| PerfRecord::Mapped { id, address: 0x1000, length: 0x2000, offset: 0x3000, path: b"/bin/x", build_id };
        let what = |build_id| happened(&mapped(build_id)).expect("a mapping").what;
        let expected = |build_id| What::Mapped { start: 0x1000, end: 0x3000, file_offset: 0x3000, path: "/bin/x".into(), build_id };
        assert_eq!(what(Some(&[1, 2])), expected(Some("0102".into())));
        assert_eq!((what(Some(&[])), what(None)), (expected(None), expected(None)));
    }
}
