//! A machine: CPUs, a link in each direction, and the server's serialised resources.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Several identical resources; work goes to the one that is free first.
pub(super) struct Pool(BinaryHeap<Reverse<u64>>);

impl Pool {
    pub(super) fn of(many: u64) -> Pool {
        Pool((0..many.max(1)).map(|_| Reverse(0)).collect())
    }

    fn free_ns(&self) -> u64 {
        self.0.peek().map_or(0, |free| free.0)
    }

    fn take_until(&mut self, end_ns: u64) {
        if let Some(mut first) = self.0.peek_mut() {
            *first = Reverse(end_ns);
        }
    }
}

/// The serialised resource that a piece of work needs besides a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    /// The acceptor's thread.
    Accept,
    /// A slot to read a directory: half as many as CPUs.
    Read,
    /// The database's single writer.
    Write,
}

pub(super) struct Host {
    processors: Pool,
    accepting: Pool,
    reading: Pool,
    writing: Pool,
    out_ns: u64,
    in_ns: u64,
    /// CPU time used.
    pub(super) busy_ns: u64,
    /// Bytes sent.
    pub(super) out_bytes: u64,
}

impl Host {
    pub(super) fn new(processors: u64) -> Host {
        Host {
            processors: Pool::of(processors),
            accepting: Pool::of(1),
            reading: Pool::of(processors.div_ceil(2)),
            writing: Pool::of(1),
            out_ns: 0,
            in_ns: 0,
            busy_ns: 0,
            out_bytes: 0,
        }
    }

    /// Runs for `cost_ns`, from `from_ns` or once a CPU and the resource are free; returns the end time.
    pub(super) fn work(&mut self, from_ns: u64, cost_ns: u64, turn: Turn) -> u64 {
        let pool = match turn {
            Turn::Nothing => None,
            Turn::Accept => Some(&mut self.accepting),
            Turn::Read => Some(&mut self.reading),
            Turn::Write => Some(&mut self.writing),
        };
        let turn_ns = pool.as_ref().map_or(0, |pool| pool.free_ns());
        let end_ns = from_ns.max(self.processors.free_ns()).max(turn_ns) + cost_ns;
        self.processors.take_until(end_ns);
        if let Some(pool) = pool {
            pool.take_until(end_ns);
        }
        self.busy_ns += cost_ns;
        end_ns
    }

    /// Sends; returns the time when the last byte is on the link.
    pub(super) fn send(&mut self, from_ns: u64, bytes: usize, bits_per_s: u64) -> u64 {
        self.out_bytes += bytes as u64;
        self.out_ns = self.out_ns.max(from_ns) + on_link(bytes, bits_per_s);
        self.out_ns
    }

    /// Receives a message that arrives at `at_ns`; returns the time when its last byte has been received.
    pub(super) fn receive(&mut self, at_ns: u64, bytes: usize, bits_per_s: u64) -> u64 {
        self.in_ns = at_ns.max(self.in_ns + on_link(bytes, bits_per_s));
        self.in_ns
    }
}

fn on_link(bytes: usize, bits_per_s: u64) -> u64 {
    (bytes as u64 * 8).saturating_mul(1_000_000_000) / bits_per_s.max(1)
}
