//! All facts of a run in one place: the document and the replay model are made from them.

use crate::cause::End;
use crate::facts::circumstances::Circumstances;
use crate::facts::sharing::Sharings;
use crate::limits::assemble as limits;
use crate::observe::observation::{Observation, Way};
use crate::observe::on_wire::OnWire;
use crate::observe::tables::{Actor, Tables};
use crate::path::ledger::Ledger;
use crate::waits::view::Facts;
use std::collections::HashSet;
use thalweg_trace::Role;

/// All facts of a run.
pub(crate) struct Parts<'a> {
    /// Actors and objects.
    pub tables: &'a Tables,
    /// The charges.
    pub ledger: &'a Ledger,
    /// TCP's marks and counters, its stalls, and threads' lives.
    pub facts: &'a Facts,
    /// The observations.
    pub seen: &'a Observation,
    /// Circumstances of the charges.
    pub around: &'a Circumstances,
    /// Other users of devices that were waited for.
    pub sharing: &'a Sharings,
    /// The bytes that crossed the wire.
    pub on_wire: &'a OnWire,
    /// Start of the interval.
    pub start: i64,
    /// End of it.
    pub end: i64,
}

impl Parts<'_> {
    /// An instant in seconds, as in the document.
    pub(crate) fn seconds(&self, at: i64) -> f64 {
        (at - self.start) as f64 / 1e9
    }

    /// The wall time in seconds.
    pub(crate) fn wall_s(&self) -> f64 {
        self.seconds(self.end)
    }

    /// Whether no bytes were seen on a connection in either direction: the called end never answered.
    pub(crate) fn is_silent(&self, connection: u32) -> bool {
        let moved = &self.seen.moved;
        let own = self.tables.objects.iter().enumerate().filter(|(_, object)| object.connection == connection);
        own.flat_map(|(number, _)| moved.iter().flat_map(move |by_object| by_object[number])).all(|moved| moved.bytes == 0)
    }

    /// The directions of the transfer's bytes: the one that moved most, and any other with at least a hundredth of it.
    pub(crate) fn ways(&self) -> Vec<Way> {
        let bytes = |way| self.seen.stream(way).all.bytes;
        let back = if bytes(Way::ServerSends) > 0 { Way::ServerSends } else { Way::ClientReceives };
        let mut ways = vec![Way::ClientSends, back];
        // Files are the channel of a run with hardly any network traffic.
        let network: u64 = ways.iter().map(|&w| bytes(w)).sum();
        for files in [Way::ClientWrites, Way::ClientReads] {
            if bytes(files) > limits::FILES_TO_NETWORK * network && ways.len() > 1 {
                ways = vec![files];
            }
        }
        let most = ways.iter().map(|&w| bytes(w)).max().unwrap_or(0);
        ways.retain(|&w| bytes(w) > 0 && bytes(w) * limits::WAY_PART >= most);
        ways.sort_by_key(|&w| std::cmp::Reverse(bytes(w)));
        ways
    }

    /// The part of the time a device was busy, by its track.
    pub(crate) fn device_busy(&self, track: u32) -> Option<f64> {
        let busy_ns = self.seen.devices.get(&track)?.all.finish().busy_ns;
        Some((busy_ns as f64 / (self.end - self.start).max(1) as f64).min(1.0))
    }

    /// Recorded threads, by index, with each one's run time in nanoseconds. For the recorder's own, time without spans is not running.
    pub(crate) fn threads_ran(&self) -> impl Iterator<Item = (u32, &Actor, u64)> {
        let threads = (0..).zip(self.tables.actors.iter().zip(&self.seen.did)).filter(|(_, (actor, _))| actor.thread);
        threads.map(|(number, (actor, did))| {
            let uncovered_ns = if actor.role == Role::Recorder { 0 } else { did.uncovered_ns };
            (number, actor, did.cpu_ns + did.asked_ns + uncovered_ns)
        })
    }

    /// Threads that wait by running, those that polled longest first: in fruitless calls, or by reading memory.
    pub(crate) fn waiting_by_running(&self) -> Vec<u32> {
        let wall_ns = (self.end - self.start) as f64;
        let by_memory = |track: &u32| self.facts.spins.as_ref().is_some_and(|spins| spins.tracks.contains(track));
        let asked_ns = |track: u32| self.seen.did[track as usize].asked_ns;
        let asks = |track: &u32| asked_ns(*track) as f64 >= wall_ns * limits::ASKED_SHARE || by_memory(track);
        let mut found: Vec<u32> = (0..self.tables.actors.len() as u32).filter(asks).collect();
        found.sort_by_key(|&track| (std::cmp::Reverse(asked_ns(track) + self.seen.did[track as usize].cpu_ns), track));
        found
    }

    /// The part of their machines' processors that one end's threads used; `None` if it has no threads.
    pub(crate) fn processors_busy(&self, end: End) -> Option<f64> {
        let own = || self.threads_ran().filter(|(_, actor, _)| actor.end == end && actor.role != Role::Recorder);
        let machines: HashSet<u32> = own().map(|(_, actor, _)| actor.machine).collect();
        let cpus: u32 = machines.iter().map(|&m| self.tables.machines[m as usize].cpus.max(1)).sum();
        let ran_ns: u64 = own().map(|(.., ns)| ns).sum();
        let wall_ns = (self.end - self.start).max(1) as f64;
        (cpus > 0).then(|| (ran_ns as f64 / wall_ns / f64::from(cpus)).min(1.0))
    }

    /// Mean number of processors that these recorded threads used.
    pub(crate) fn processors_of(&self, are_wanted: impl Fn(&Actor) -> bool) -> f64 {
        let ran_ns: u64 = self.threads_ran().filter(|(_, actor, _)| are_wanted(actor)).map(|(.., ns)| ns).sum();
        ran_ns as f64 / (self.end - self.start).max(1) as f64
    }

    /// The part of its processors that the busiest machine's recorded threads used.
    pub(crate) fn busiest_machine(&self) -> f64 {
        let machines = self.tables.machines.iter().zip(0..);
        machines
            .map(|(machine, number)| self.processors_of(|actor| actor.machine == number) / f64::from(machine.cpus.max(1)))
            .fold(0.0, f64::max)
    }
}
