//! What the simulator runs: each thread's time as operations, with what each wait depends on.

use super::flows::Flows;
use super::regime::Regime;
use crate::cause::End;

/// No mark.
pub(crate) const NO_MARK: u32 = u32::MAX;

/// What a wait of a fixed length, or at a device, was for.
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
    /// Waiting for a processor for so long that only a quota explains it, where none was recorded.
    LongQueue,
    /// A processor held by another program.
    Foreign,
    /// A processor held by the recorder.
    Recorder,
    /// A processor held by a thread of ours while another was free.
    Queue,
    /// Processors, of which threads of ours had all: that comes out of the replay, but for the part of it that is [`Graph::kept`].
    Ours,
    Connect,
    /// Something was lost on its way, and sent again.
    Lost,
    /// The far end, of which nothing was recorded.
    FarEnd,
    Other,
}

/// How many classes there are.
pub(crate) const CLASSES: usize = Class::Other as usize + 1;

/// One step of a thread. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Runs.
    Run(f64),
    /// Passes an instant that others wait for.
    Mark(u32),
    /// Waits so long.
    Delay {
        /// For what.
        class: Class,
        /// How long.
        ns: f64,
    },
    /// Waits for another thread to pass a mark.
    Follow {
        /// The mark.
        mark: u32,
        /// From there to running again.
        lag: f64,
        /// Whether it waited for a lock.
        lock: bool,
    },
    /// Waits for bytes: `service` after the later of their being sent and the bytes before them, then the way there.
    Arrive {
        /// Where they were sent; [`NO_MARK`]: that was not recorded, they were on their way when the wait began.
        mark: u32,
        /// The direction of the connection.
        way: u32,
        /// How long the connection took for them.
        service: f64,
        /// How many they were.
        bytes: f64,
        /// What made it as long.
        regime: Regime,
        /// From their arrival to running again.
        lag: f64,
        /// Whether that was a matter of polling.
        polls: bool,
    },
    /// Waits for room in a connection: for the far end to take what was sent before.
    Room {
        /// The direction of the connection.
        way: u32,
        /// Where the far end had taken enough.
        mark: u32,
        /// The same with windows four times as large; [`NO_MARK`]: no need to wait.
        wide: u32,
        /// From there to running again.
        lag: f64,
        /// What made the connection full.
        regime: Regime,
    },
    /// Waits for a device.
    Serve {
        /// Which.
        device: u32,
        /// Doing what.
        class: Class,
        /// How long the device took.
        service: f64,
        /// For how long of that it served programs that were not recorded.
        foreign: f64,
        /// From there to running again.
        lag: f64,
        /// Where it was asked, before the wait began; [`NO_MARK`]: when the wait began.
        asked: u32,
        /// Whether the device began when it had done the last, without being asked.
        ahead: bool,
    },
    /// Goes on when no other program has this thread, and has it from then on ([`super::edit`]).
    Take(u32),
    /// Gives the thread to the one that has waited longest for it.
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
    /// Whose time it is: an actor.
    pub track: u32,
    /// The program that started its process, where it is the first thread of one.
    pub made_by: Option<u32>,
    /// Which part of its running was in calls that make data durable, as samples say.
    pub syncing: f64,
    /// In order.
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
    /// Which of them ends the run.
    pub main: usize,
    /// How many marks there are.
    pub marks: usize,
    /// One-way time by direction of a connection, without queueing.
    pub latency: Vec<f64>,
    /// Devices.
    pub devices: Vec<Device>,
    /// Processors by machine.
    pub cpus: Vec<u32>,
    /// How long the run was.
    pub wall_ns: f64,
    /// How long reading that was waited for was under way at some device: nothing makes the run shorter than the longest.
    pub reading_ns: f64,
    /// By program: marks where it had taken the last answer before it sent again, in order; of threads that ask.
    pub turns: Vec<Vec<u32>>,
    /// The requests of a copy, and their messages ([`super::flows`]).
    pub flows: Flows,
    /// How many threads programs share ([`Op::Take`]).
    pub threads: u32,
    /// Marks that must have been passed before the run is over.
    pub awaited: Vec<u32>,
    /// By which part each busy processor slows the others of its machine down.
    pub slowdown: f64,
    /// How much of each machine's processors others have that nothing is known of.
    pub foreign: f64,
    /// Which part of the queueing for processors that threads of ours had is kept: what a replay does not bring about by itself, as where other
    /// programs or the machine's host had them as well.
    pub kept: f64,
    /// Nanoseconds a byte takes with the largest receive window in flight all the time; 0: not known.
    pub window_ns_per_byte: f64,
}

impl Graph {
    /// A mark that nobody passes yet.
    pub(crate) fn fresh_mark(&mut self) -> u32 {
        self.marks += 1;
        self.marks as u32 - 1
    }

    /// Adds a program where another one is, which asks nobody.
    pub(crate) fn add_program(&mut self, like: usize, ops: Vec<Op>) {
        let Program { machine, end, syncing, track, .. } = self.programs[like];
        self.programs.push(Program { machine, end, track, made_by: None, syncing, ops });
        self.turns.push(Vec::new());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A program of the client's.
    pub(crate) fn program(ops: Vec<Op>) -> Program {
        Program { machine: 0, end: End::Client, track: 0, made_by: None, syncing: 0.0, ops }
    }

    /// Programs on one machine with so many processors, the first of them the command's own; two directions of 5, a device.
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
