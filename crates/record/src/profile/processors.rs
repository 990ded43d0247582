//! Each CPU's idle time, interrupts and steal, as counters of its track.

use super::raw::Times;
use crate::kernel::clock::time;
use std::collections::HashMap;
use thalweg_base::proc::processors;
use thalweg_base::proc::stat::tick_ns;
use thalweg_trace::{Counter, CounterName, CounterOf, Event, HostId, Role, Track, TrackId, TrackKind};

/// The CPUs, with their initial times.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    known: HashMap<u32, (TrackId, Times, u64)>,
}

/// Returns each CPU's steal time so far.
fn steal() -> HashMap<u32, u64> {
    processors::here().into_iter().map(|cpu| (cpu.number, cpu.stolen.saturating_mul(tick_ns()))).collect()
}

impl Processors {
    /// Returns a CPU's track, once it has one.
    pub(crate) fn track(&self, cpu: u32) -> Option<TrackId> {
        self.known.get(&cpu).map(|(track, ..)| *track)
    }

    /// Emits the CPUs' current times, and the first time their tracks.
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
