//! CPU times from /proc/stat: each clock tick is charged to whatever the CPU was in at that moment; idle time is
//! measured.

use std::collections::HashMap;
use thalweg_base::proc::processors::{self, Processor};
use thalweg_base::proc::stat::tick_ns;
use thalweg_trace::{Counter, CounterName, CounterOf, Event, HostId, Role, Time, Track, TrackId, TrackKind};

/// A CPU's times since boot, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks([u64; 6]);

/// Their counters, in the order of [`Ticks`].
const NAMES: [CounterName; 6] = [
    CounterName::CpuIdleNs,
    CounterName::CpuUserNs,
    CounterName::CpuSystemNs,
    CounterName::CpuHardirqNs,
    CounterName::CpuSoftirqNs,
    CounterName::CpuStealNs,
];

impl Ticks {
    /// A CPU without work is idle, even if a process waits for a disk.
    fn of(cpu: &Processor) -> Ticks {
        Ticks([cpu.idle + cpu.waiting, cpu.user + cpu.nice, cpu.system, cpu.hard_interrupts, cpu.soft_interrupts, cpu.stolen])
    }
}

/// All CPUs, with their first readings.
#[derive(Debug, Default)]
pub(super) struct Processors {
    known: HashMap<u32, (TrackId, Ticks)>,
}

impl Processors {
    /// Reads the current times.
    pub(super) fn look(&mut self, at: Time, host: HostId, new: impl FnMut() -> TrackId, into: &mut Vec<Event>) {
        self.enter(processors::here(), at, host, new, into);
    }

    fn enter(&mut self, all: Vec<Processor>, at: Time, host: HostId, mut new: impl FnMut() -> TrackId, into: &mut Vec<Event>) {
        for (cpu, ticks) in all.iter().map(|cpu| (cpu.number, Ticks::of(cpu))) {
            let (track, first) = *self.known.entry(cpu).or_insert_with(|| {
                let track = new();
                let (kind, role, name) = (TrackKind::Cpu, Role::None, format!("cpu{cpu}"));
                into.push(Event::Track(Track { track, host, kind, role, pid: None, tid: None, name }));
                (track, ticks)
            });
            for ((name, now), first) in NAMES.into_iter().zip(ticks.0).zip(first.0) {
                let value = i64::try_from(now.saturating_sub(first).saturating_mul(tick_ns())).unwrap_or(i64::MAX);
                into.push(Event::Counter(Counter { of: CounterOf::Track(track), name, at, value }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_s_ticks_are_counted_from_the_first_look_on() {
        let mut processors = Processors::default();
        let (mut next, mut events) = (0, Vec::new());
        let mut new = || {
            next += 1;
            TrackId::new(next).expect("not 0")
        };
        let at = Time::from_monotonic_ns(1);
        processors.enter(processors::parse("cpu1 10 1 20 100 5 0 2 3 0 0\n").collect(), at, HostId(0), &mut new, &mut events);
        events.clear();
        processors.enter(processors::parse("cpu1 15 2 21 110 7 0 2 4 0 0\n").collect(), at, HostId(0), &mut new, &mut events);
        let values: Vec<_> = events.iter().filter_map(|e| if let Event::Counter(c) = e { Some((c.name, c.value)) } else { None }).collect();
        let ticks = [12, 6, 1, 0, 0, 1].map(|ticks: i64| ticks * tick_ns() as i64);
        assert_eq!(values, NAMES.into_iter().zip(ticks).collect::<Vec<_>>());
    }
}
