//! Each processor's idle time, interrupts and steal, as counters of its track.

use super::raw::Times;
use crate::bpf::time;
use crate::proc::system::{TICK_NS, cpu_ticks};
use std::collections::HashMap;
use thalweg_trace::{Counter, CounterName, CounterOf, Event, HostId, Role, Track, TrackId, TrackKind};

/// The processors, as they were at the beginning.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    known: HashMap<u32, (TrackId, Times, u64)>,
}

/// What a hypervisor took of each processor so far.
fn steal() -> HashMap<u32, u64> {
    parse_steal(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

fn parse_steal(stat: &str) -> HashMap<u32, u64> {
    cpu_ticks(stat).map(|(cpu, [.., steal])| (cpu, steal.saturating_mul(TICK_NS))).collect()
}

impl Processors {
    /// The track of a processor, once it has one.
    pub(crate) fn track(&self, cpu: u32) -> Option<TrackId> {
        self.known.get(&cpu).map(|(track, ..)| *track)
    }

    /// Tells how the processors stand; at the first time of their tracks too.
    pub(crate) fn emit(&mut self, now: &[(u32, Times)], host: HostId, mut new: impl FnMut() -> TrackId, into: &mut Vec<Event>) {
        let steal = steal();
        for (cpu, times) in now {
            let stolen = steal.get(cpu).copied().unwrap_or(0);
            let (track, first, first_stolen) = *self.known.entry(*cpu).or_insert_with(|| {
                let track = new();
                let (kind, role, name) = (TrackKind::Cpu, Role::None, format!("cpu{cpu}"));
                into.push(Event::Track(Track { track, host, kind, role, pid: None, tid: None, name }));
                (track, *times, stolen)
            });
            let values = [
                (CounterName::CpuIdleNs, times.idle_ns - first.idle_ns),
                (CounterName::CpuHardirqNs, times.hardirq_ns - first.hardirq_ns),
                (CounterName::CpuStealNs, stolen.saturating_sub(first_stolen)),
            ];
            let (of, at) = (CounterOf::Track(track), time(times.last_ns));
            let counter = |(name, value)| Event::Counter(Counter { of, name, at, value: i64::try_from(value).unwrap_or(i64::MAX) });
            into.extend(values.map(counter));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_read_for_each_processor_and_not_for_their_sum() {
        let stat = "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 3 9 10\ncpu12 1 2 3 4 5 6 7 5 9 10\nintr 3\n";
        assert_eq!(parse_steal(stat), HashMap::from([(0, 3 * TICK_NS), (12, 5 * TICK_NS)]));
    }
}
