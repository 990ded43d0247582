//! The simulator's programs: each thread's time as operations, with the dependencies of each wait.

use super::flows::Flows;
use super::regime::Regime;
use crate::cause::End;

/// No mark.
pub(crate) const NO_MARK: u32 = u32::MAX;

/// The purpose of a wait of fixed length, or at a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[repr(u8)]
pub(crate) enum Class {
    Read,
    Write,
    Sync,
    Metadata,
    /// Dirty throttling, reclaim.
    Memory,
    ClientThink,
    ServerThink,
    Stopped,
    Lock,
    /// Stopped by a processor quota.
    Quota,
    /// Waiting for a processor for so long that only a quota explains it, without a recorded quota.
    LongQueue,
    /// A processor held by another program.
    Foreign,
    /// A processor held by the recorder.
    Recorder,
    /// A processor held by one of this run's threads while another was free.
    Queue,
    /// Processors all held by this run's threads: simulated by the replay, except for the part that is [`Graph::kept`].
    Ours,
    Connect,
    /// Bytes were lost in transit, and sent again.
    Lost,
    /// An unrecorded far end.
    FarEnd,
    Other,
}

/// Number of classes.
pub(crate) const CLASSES: usize = Class::Other as usize + 1;

/// One step of a thread. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Runs.
    Run(f64),
    /// Passes a mark that others wait for.
    Mark(u32),
    /// Waits for a fixed time.
    Delay {
        /// Purpose.
        class: Class,
        /// Length.
        ns: f64,
    },
    /// Waits for another thread to pass a mark.
    Follow {
        /// The mark.
        mark: u32,
        /// Time from the mark to running again.
        lag: f64,
        /// Whether the wait was for a lock.
        lock: bool,
    },
    /// Waits for bytes: `service` after the later of their sending and the previous bytes, then the transit.
    Arrive {
        /// Mark of their sending; [`NO_MARK`] if it was not recorded: they were in transit when the wait began.
        mark: u32,
        /// Direction of the connection.
        way: u32,
        /// Time the connection took for them.
        service: f64,
        /// Number of bytes.
        bytes: f64,
        /// The regime that determined that time.
        regime: Regime,
        /// Time from their arrival to running again.
        lag: f64,
        /// Whether that was due to polling.
        polls: bool,
    },
    /// Waits for room in a connection: until the far end has taken earlier bytes.
    Room {
        /// Direction of the connection.
        way: u32,
        /// Mark at which the far end had taken enough.
        mark: u32,
        /// The mark with windows four times as large; [`NO_MARK`] if there is no need to wait.
        wide: u32,
        /// Time from the mark to running again.
        lag: f64,
        /// The regime that filled the connection.
        regime: Regime,
    },
    /// Waits for a device.
    Serve {
        /// The device.
        device: u32,
        /// The kind of work.
        class: Class,
        /// Time the device took.
        service: f64,
        /// Part of that time in which it served unrecorded programs.
        foreign: f64,
        /// Time from completion to running again.
        lag: f64,
        /// Mark of the request, if before the wait began; [`NO_MARK`] if at its start.
        asked: u32,
        /// Whether the device began after the previous request by itself (read-ahead).
        ahead: bool,
    },
    /// Continues when no other program has this thread, and keeps it from then on ([`super::edit`]).
    Take(u32),
    /// Gives the thread to the program that has waited longest for it.
    Leave(u32),
}

impl Op {
    /// Waits until another program has passed a mark, and no longer.
    pub(crate) const fn follow(mark: u32) -> Op {
        Op::Follow { mark, lag: 0.0, lock: false }
    }
}

/// A thread's operations.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its machine.
    pub machine: usize,
    /// Its end.
    pub end: End,
    /// Its thread: an actor.
    pub track: u32,
    /// The program that started its process, for a process's first thread.
    pub made_by: Option<u32>,
    /// The part of its running in calls that make data durable, by samples.
    pub syncing: f64,
    /// The operations, in order.
    pub ops: Vec<Op>,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Device {
    /// Its machine.
    pub machine: u32,
    /// Its name.
    pub name: String,
}

/// The recorded run.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// Threads.
    pub programs: Vec<Program>,
    /// Index of the program that ends the run.
    pub main: usize,
    /// Number of marks.
    pub marks: usize,
    /// One-way transit time by direction of a connection, without queueing.
    pub latency: Vec<f64>,
    /// Devices.
    pub devices: Vec<Device>,
    /// Number of processors by machine.
    pub cpus: Vec<u32>,
    /// Length of the run.
    pub wall_ns: f64,
    /// Longest time that reads which were waited for were in progress at one device: no change makes the run shorter.
    pub reading_ns: f64,
    /// By program: marks where an asking thread had taken the last answer before it sent again, in order.
    pub turns: Vec<Vec<u32>>,
    /// The requests of a copy, and their messages ([`super::flows`]).
    pub flows: Flows,
    /// Number of threads that programs share ([`Op::Take`]).
    pub threads: u32,
    /// Marks that must be passed before the run is over.
    pub awaited: Vec<u32>,
    /// Slowdown that each busy processor causes the others of its machine.
    pub slowdown: f64,
    /// Number of each machine's processors used by unknown programs.
    pub foreign: f64,
    /// The part of the recorded queueing for processors that is kept: queueing that a replay does not bring about by itself, because other
    /// programs or the machine's host used the processors as well.
    pub kept: f64,
    /// Nanoseconds per byte with the largest receive window always in flight; 0 if unknown.
    pub window_ns_per_byte: f64,
}

impl Graph {
    /// A new mark, not passed by any program yet.
    pub(crate) fn fresh_mark(&mut self) -> u32 {
        self.marks += 1;
        self.marks as u32 - 1
    }

    /// Adds a program like another one, without requests.
    pub(crate) fn add_program(&mut self, like: usize, ops: Vec<Op>) {
        let Program { machine, end, syncing, track, .. } = self.programs[like];
        self.programs.push(Program { machine, end, track, made_by: None, syncing, ops });
        self.turns.push(Vec::new());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A client's program.
    pub(crate) fn program(ops: Vec<Op>) -> Program {
        Program { machine: 0, end: End::Client, track: 0, made_by: None, syncing: 0.0, ops }
    }

    /// Programs on one machine with this many processors, the first of them the command's own; two directions of 5, a device.
    pub(crate) fn graph(cpus: u32, programs: Vec<Vec<Op>>) -> Graph {
        Graph {
            turns: vec![Vec::new(); programs.len()],
            programs: programs.into_iter().map(program).collect(),
            main: 0,
            marks: 4,
            latency: vec![5.0; 2],
            devices: vec![Device { machine: 0, name: "vda".into() }],
            cpus: vec![cpus],
            wall_ns: 0.0,
            reading_ns: 0.0,
            flows: Flows::default(),
            threads: 0,
            awaited: Vec::new(),
            slowdown: 0.0,
            foreign: 0.0,
            kept: 0.0,
            window_ns_per_byte: 0.0,
        }
    }
}
