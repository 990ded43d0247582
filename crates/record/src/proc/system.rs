//! Devices and software interrupts, which belong to the machine rather than a thread, for every recorder without
//! privilege, from files that any user may read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use thalweg_base::proc::processors;
use thalweg_base::proc::stat::tick_ns;
use thalweg_trace::{
    Counter, CounterName, CounterOf, Event, HostId, ObjectId, ObjectKind, Role, Span, SpanId, SpanKind, Time, TraceHandle,
};
use thalweg_trace::{Track, TrackId, TrackKind};

/// The kernel's sector size, whatever the device's is.
const SECTOR_BYTES: u64 = 512;

/// One line of `/proc/diskstats`, accumulated since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Disk {
    reads: u64,
    read_sectors: u64,
    read_ms: u64,
    writes: u64,
    written_sectors: u64,
    write_ms: u64,
    busy_ms: u64,
    flushes: u64,
    flush_ms: u64,
}

fn disk(line: &str) -> Option<(&str, Disk)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse().ok());
    let disk = Disk {
        reads: number(3)?,
        read_sectors: number(5)?,
        read_ms: number(6)?,
        writes: number(7)?,
        written_sectors: number(9)?,
        write_ms: number(10)?,
        busy_ms: number(12)?,
        flushes: number(18).unwrap_or(0),
        flush_ms: number(19).unwrap_or(0),
    };
    Some((fields.get(2)?, disk))
}

/// A device in the recording.
#[derive(Debug)]
struct Device {
    last: Disk,
    at: Time,
    /// Its rows, once it has done something.
    row: Option<(TrackId, ObjectId)>,
}

/// Polls the machine's counters.
#[derive(Debug)]
pub(crate) struct System {
    trace: TraceHandle,
    host: HostId,
    devices: BTreeMap<String, Device>,
    cpus: Vec<TrackId>,
}

impl System {
    /// Reads the counters' initial values.
    pub(crate) fn new(trace: TraceHandle, host: HostId) -> System {
        let mut system = System { trace, host, devices: BTreeMap::new(), cpus: Vec::new() };
        system.poll_disks(Time::now(), &mut Vec::new());
        system
    }

    /// Adds what has happened since the last poll.
    pub(crate) fn poll(&mut self, out: &mut Vec<Event>) {
        let now = Time::now();
        self.poll_disks(now, out);
        self.poll_softirqs(now, out);
    }

    fn track(&self, kind: TrackKind, name: &str, out: &mut Vec<Event>) -> Option<TrackId> {
        let track = TrackId::new(self.trace.fresh())?;
        let name = name.to_owned();
        out.push(Event::Track(Track { track, host: self.host, kind, role: Role::Kernel, pid: None, tid: None, name }));
        Some(track)
    }

    fn poll_disks(&mut self, now: Time, out: &mut Vec<Event>) {
        let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
        for (name, disk) in text.lines().filter_map(disk) {
            let Some(device) = self.devices.get_mut(name) else {
                // A partition's requests are counted for its device.
                if Path::new("/sys/block").join(name).exists() {
                    self.devices.insert(name.to_owned(), Device { last: disk, at: now, row: None });
                }
                continue;
            };
            let (last, since) = (std::mem::replace(&mut device.last, disk), std::mem::replace(&mut device.at, now));
            if last == disk {
                continue;
            }
            let row = device.row;
            let row = row.or_else(|| {
                let object = self.trace.object(ObjectKind::Device, name, &[])?;
                Some((self.track(TrackKind::Device, name, out)?, object))
            });
            let Some((track, object)) = row else { continue };
            if let Some(device) = self.devices.get_mut(name) {
                device.row = row;
            }
            self.requests(track, object, (since, now), (last, disk), out);
        }
    }

    /// Emits one span each for the reads, writes and flushes of an interval. The kernel reports, to the millisecond,
    /// how long the device was busy and how that time divides among requests: the spans follow one another at the
    /// interval's end.
    fn requests(&self, track: TrackId, object: ObjectId, (since, now): (Time, Time), (last, disk): (Disk, Disk), out: &mut Vec<Event>) {
        let parts = [
            (
                SpanKind::DiskRead,
                disk.reads - last.reads,
                disk.read_sectors.wrapping_sub(last.read_sectors),
                disk.read_ms.wrapping_sub(last.read_ms),
            ),
            (
                SpanKind::DiskWrite,
                disk.writes - last.writes,
                disk.written_sectors.wrapping_sub(last.written_sectors),
                disk.write_ms.wrapping_sub(last.write_ms),
            ),
            (SpanKind::DiskFlush, disk.flushes - last.flushes, 0, disk.flush_ms.wrapping_sub(last.flush_ms)),
        ];
        let interval_ns = now.since(since);
        let busy_ns = (disk.busy_ms.wrapping_sub(last.busy_ms) * 1_000_000).min(interval_ns);
        let request_ms: u64 = parts.iter().map(|part| part.3).sum();
        let mut end = now;
        for (kind, count, sectors, ms) in parts {
            if count == 0 || count > u64::from(u32::MAX) {
                continue;
            }
            let duration_ns = (u128::from(busy_ns) * u128::from(ms)).checked_div(u128::from(request_ms)).unwrap_or(0) as u64;
            let Some(span) = SpanId::new(self.trace.fresh()) else { continue };
            let start = end.plus_ns(-(duration_ns as i64));
            out.push(Event::Span(Span {
                count: count as u32,
                object: Some(object),
                size_bytes: Some(sectors * SECTOR_BYTES),
                ..Span::bare(span, track, kind, start, duration_ns)
            }));
            end = start;
        }
    }

    fn poll_softirqs(&mut self, now: Time, out: &mut Vec<Event>) {
        for (index, cpu) in processors::here().into_iter().enumerate() {
            if self.cpus.len() <= index {
                let Some(track) = self.track(TrackKind::Cpu, &format!("cpu{}", cpu.number), out) else { return };
                self.cpus.push(track);
            }
            let of = CounterOf::Track(self.cpus[index]);
            let value = (cpu.soft_interrupts * tick_ns()) as i64;
            out.push(Event::Counter(Counter { of, name: CounterName::CpuSoftirqNs, at: now, value }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_trace::{IdSpace, Memory, Sink};

    #[test]
    fn an_interval_of_a_device_is_divided_by_what_its_requests_took() {
        let sink = Arc::new(Memory::new(100));
        let trace = TraceHandle::on(Arc::clone(&sink) as Arc<dyn Sink>, HostId(0), Role::Client, IdSpace(1));
        let system = System { trace, host: HostId(0), devices: BTreeMap::new(), cpus: Vec::new() };
        let (_, last) = disk("254 0 vda 10 0 80 5 20 0 160 7 0 9 12 0 0 0 0 1 1").expect("a line");
        let (_, now) = disk("254 0 vda 12 0 4176 11 23 0 184 9 0 17 20 0 0 0 0 1 1").expect("a line");
        let (mut out, id) = (Vec::new(), TrackId::new(1).expect("not zero"));
        let times = (Time::from_monotonic_ns(0), Time::from_monotonic_ns(10_000_000));
        system.requests(id, ObjectId::new(1).expect("not zero"), times, (last, now), &mut out);
        let spans: Vec<Span> = out.into_iter().filter_map(|e| if let Event::Span(s) = e { Some(s) } else { None }).collect();
        assert_eq!(spans.len(), 2);
        assert_eq!((spans[0].kind, spans[0].count, spans[0].size_bytes), (SpanKind::DiskRead, 2, Some(4096 * 512)));
        assert_eq!((spans[0].duration_ns, spans[1].duration_ns), (6_000_000, 2_000_000));
        assert_eq!(spans[1].end(), spans[0].start);
    }
}
