//! Records of a perf ring, as `perf_event_open(2)` describes them.
//!
//! Every event must be opened with [`ID`] in its sample type and [`flags::ID_IN_ALL`](super::flags::ID_IN_ALL): then
//! each record but a sample ends with an [`Id`], and each sample begins with the same fields.

use super::event::sample;
use thalweg_trace::Time;

/// What each record names.
pub(crate) const ID: u64 = sample::THREAD | sample::TIME | sample::CPU;

/// The first eight bytes of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    kind: u32,
    misc: u16,
    pub size: u16,
}

impl Header {
    pub(super) const BYTES: usize = 8;

    pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
        let mut reader = Reader(bytes);
        let kind = reader.u32()?;
        let rest = reader.u32()?;
        Some(Header { kind, misc: rest as u16, size: (rest >> 16) as u16 })
    }
}

/// Which thread, when, and on which CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub pid: u32,
    pub tid: u32,
    pub at: Time,
    pub cpu: u32,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PerfRecord<'a> {
    /// The thread was given a CPU.
    In(Id),
    /// The thread left its CPU; `preempted`: it would have gone on.
    Out { id: Id, preempted: bool },
    /// A thread has a name; `exec`: it executed another program.
    Comm { id: Id, name: &'a str, exec: bool },
    /// A thread began: itself, and who made it.
    Fork { id: Id, pid: u32, tid: u32, parent: u32 },
    /// A thread ended.
    Exit { id: Id, pid: u32, tid: u32 },
    /// A file was mapped. `build_id`: its build identifier, if it was asked for and the file has one.
    Mapped { id: Id, address: u64, length: u64, offset: u64, path: &'a [u8], build_id: Option<&'a [u8]> },
    /// A thread that ended had this count, in the event of the ring's CPU.
    Ran { id: Id, tid: u32, count: u64 },
    /// A sample that begins with the instruction's address and [`ID`]: `rest` is what follows them.
    Sample { instruction: u64, id: Id, rest: &'a [u8] },
    /// As many records did not fit.
    Lost(u64),
}

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const READ: u32 = 8;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const SWITCH: u32 = 14;

const BIT_13: u16 = 1 << 13;
const BIT_14: u16 = 1 << 14;

/// Bytes of an identity.
const ID_BYTES: usize = 24;

/// Bytes of a mapping's record between its offset and its path.
const DEVICE_BYTES: usize = 32;

impl<'a> PerfRecord<'a> {
    /// Parses what follows the header; `None` for other kinds and what is too short.
    pub(super) fn parse(header: Header, bytes: &'a [u8]) -> Option<PerfRecord<'a>> {
        let end = bytes.len().checked_sub(ID_BYTES);
        let id = || Id::parse(&mut Reader(&bytes[end?..]));
        let mut reader = Reader(&bytes[..end.unwrap_or(0)]);
        match header.kind {
            SWITCH if header.misc & BIT_13 == 0 => Some(PerfRecord::In(id()?)),
            SWITCH => Some(PerfRecord::Out { id: id()?, preempted: header.misc & BIT_14 != 0 }),
            COMM => {
                let _process = reader.u64()?;
                Some(PerfRecord::Comm { id: id()?, name: std::str::from_utf8(until_zero(reader.0)).ok()?, exec: header.misc & BIT_13 != 0 })
            }
            FORK | EXIT => {
                let (pid, parent, tid, _parent_thread) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
                let id = id()?;
                Some(if header.kind == FORK { PerfRecord::Fork { id, pid, tid, parent } } else { PerfRecord::Exit { id, pid, tid } })
            }
            MMAP2 => {
                let _process = reader.u64()?;
                let (address, length, offset) = (reader.u64()?, reader.u64()?, reader.u64()?);
                let (device, path) = reader.0.split_at_checked(DEVICE_BYTES)?;
                let build_id = if header.misc & BIT_14 != 0 { build_id(device) } else { None };
                Some(PerfRecord::Mapped { id: id()?, address, length, offset, path: until_zero(path), build_id })
            }
            READ => {
                let (_pid, tid, count) = (reader.u32()?, reader.u32()?, reader.u64()?);
                Some(PerfRecord::Ran { id: id()?, tid, count })
            }
            SAMPLE => {
                let mut reader = Reader(bytes);
                let instruction = reader.u64()?;
                let id = Id::parse(&mut reader)?;
                Some(PerfRecord::Sample { instruction, id, rest: reader.0 })
            }
            LOST => {
                let _event = reader.u64()?;
                reader.u64().map(PerfRecord::Lost)
            }
            _ => None,
        }
    }
}

impl Id {
    fn parse(reader: &mut Reader<'_>) -> Option<Id> {
        let (pid, tid, ns) = (reader.u32()?, reader.u32()?, reader.u64()?);
        let cpu = reader.u32()?;
        let _reserved = reader.u32()?;
        Some(Id { pid, tid, at: Time::from_monotonic_ns(i64::try_from(ns).ok()?), cpu })
    }
}

/// Returns the build identifier that stands in place of the device.
fn build_id(bytes: &[u8]) -> Option<&[u8]> {
    const SIZE: usize = 20;
    let (size, id) = (usize::from(*bytes.first()?), bytes.get(4..4 + SIZE)?);
    id.get(..size.min(SIZE)).filter(|id| !id.is_empty())
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
}

/// Reads numbers of the machine's own byte order.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*number))
    }

    fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, misc: u16, body: &[u32]) -> Vec<u8> {
        let bytes: Vec<u8> = body.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let size = u16::try_from(Header::BYTES + bytes.len()).expect("small");
        [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), &bytes].concat()
    }

    fn parse(bytes: &[u8]) -> Option<PerfRecord<'_>> {
        let header = Header::parse(bytes)?;
        PerfRecord::parse(header, &bytes[Header::BYTES..])
    }

    /// An identity: process 5, thread 6, 7 ns, CPU 1.
    const OF_SIX: [u32; 6] = [5, 6, 7, 0, 1, 0];

    #[test]
    fn switches_forks_and_names_are_told_apart() {
        let id = Id { pid: 5, tid: 6, at: Time::from_monotonic_ns(7), cpu: 1 };
        assert_eq!(parse(&record(SWITCH, 0, &OF_SIX)), Some(PerfRecord::In(id)));
        assert_eq!(parse(&record(SWITCH, BIT_13, &OF_SIX)), Some(PerfRecord::Out { id, preempted: false }));
        assert_eq!(parse(&record(SWITCH, BIT_13 | BIT_14, &OF_SIX)), Some(PerfRecord::Out { id, preempted: true }));
        let fork = [&[8, 5, 9, 6, 7, 0][..], &OF_SIX].concat();
        assert_eq!(parse(&record(FORK, 0, &fork)), Some(PerfRecord::Fork { id, pid: 8, tid: 9, parent: 5 }));
        let comm = [&[5, 6, u32::from_ne_bytes(*b"gzip"), 0][..], &OF_SIX].concat();
        assert_eq!(parse(&record(COMM, BIT_13, &comm)), Some(PerfRecord::Comm { id, name: "gzip", exec: true }));
        let lost = [&[1, 0, 44, 0][..], &OF_SIX].concat();
        assert_eq!(parse(&record(LOST, 0, &lost)), Some(PerfRecord::Lost(44)));
        let read = [&[5, 6, 44, 0][..], &OF_SIX].concat();
        assert_eq!(parse(&record(READ, 0, &read)), Some(PerfRecord::Ran { id, tid: 6, count: 44 }));
    }

    #[test]
    fn a_mapping_has_a_build_identifier_where_it_says_so() {
        let id = Id { pid: 5, tid: 6, at: Time::from_monotonic_ns(7), cpu: 1 };
        let path = u32::from_ne_bytes(*b"/x\0\0");
        let mapping = [&[5, 6, 0x1000, 0, 0x2000, 0, 0x3000, 0, 2, 0x0201, 0, 0, 0, 0, 5, 2, path, 0][..], &OF_SIX].concat();
        let mapped = |build_id| PerfRecord::Mapped { id, address: 0x1000, length: 0x2000, offset: 0x3000, path: b"/x", build_id };
        assert_eq!(parse(&record(MMAP2, BIT_14, &mapping)), Some(mapped(Some(&[1, 2][..]))));
        assert_eq!(parse(&record(MMAP2, 0, &mapping)), Some(mapped(None)));
    }

    proptest! {
        #[test]
        fn nonsense_is_no_record_or_a_harmless_one(kind in 0_u32..20, misc in any::<u16>(), body in prop::collection::vec(any::<u32>(), 0..40)) {
            let bytes = record(kind, misc, &body);
            parse(&bytes);
            parse(&bytes[..bytes.len() / 2]);
        }
    }
}
