//! The replay: programs run, wait for each other, for bytes and for devices, under a [`Scale`].
//!
//! Processors are shared equally: k threads that want n processors each get n/k of one, so queueing comes out. Each machine
//! has a clock of work done per thread, on which a running thread's end is known when it begins; so an
//! event costs a logarithm, however many run. A replay that stands still (a wait for something that, after a change,
//! nobody does any more) is helped on where it stood longest, and counted.

use super::program::{Class, Graph, NO_MARK, Op};
use super::scale::{Rooms, Scale};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// More often than this part of its steps a replay may not be helped on.
const MOST_HELP: f64 = 0.01;

/// Nor more often than this: each time costs a look at all marks.
const MOST_HELPS: f64 = 1_000.0;

/// An instant, ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
struct At(f64);

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &At) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &At) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// One machine's processors.
struct Processors {
    count: f64,
    /// Work done per running thread.
    done: f64,
    updated: f64,
    running: BinaryHeap<Reverse<(At, u32)>>,
}

impl Processors {
    fn speed(&self) -> f64 {
        (self.count / self.running.len().max(1) as f64).min(1.0)
    }

    fn advance(&mut self, now: f64) {
        self.done += (now - self.updated) * self.speed();
        self.updated = now;
    }

    fn next(&self) -> Option<f64> {
        self.running.peek().map(|Reverse((at, _))| self.updated + ((at.0 - self.done) / self.speed()).max(0.0))
    }
}

/// A thread that several programs share.
#[derive(Clone, Debug, Default)]
struct Thread {
    has_it: Option<u32>,
    wait_for_it: VecDeque<u32>,
}

struct Replay<'a> {
    graph: &'a Graph,
    scale: &'a Scale,
    now: f64,
    /// By program: its next operation.
    next: Vec<usize>,
    asleep: BinaryHeap<Reverse<(At, u32)>>,
    machines: Vec<Processors>,
    passed: Vec<f64>,
    /// By mark: the program that waits for it.
    waiting: Vec<u32>,
    way_free: Vec<f64>,
    device_free: Vec<f64>,
    threads: Vec<Thread>,
    /// By program: whether the last wait was taken away, and so what the thread queued for after it.
    skipped: Vec<bool>,
    /// By program: dirty throttling that a change took away, which a later sync has to wait for.
    owed: Vec<f64>,
    ended: Option<f64>,
    helped: usize,
}

/// How long the run is under this scale, in nanoseconds; `None` where the replay does not hold together.
pub(crate) fn simulate(graph: &Graph, scale: &Scale) -> Option<f64> {
    let mut replay = Replay {
        graph,
        scale,
        now: 0.0,
        next: vec![0; graph.programs.len()],
        asleep: BinaryHeap::new(),
        machines: graph
            .cpus
            .iter()
            .map(|&n| Processors { count: f64::from(n) * scale.processors, done: 0.0, updated: 0.0, running: BinaryHeap::new() })
            .collect(),
        passed: vec![f64::NAN; graph.marks],
        waiting: vec![u32::MAX; graph.marks],
        way_free: vec![f64::NEG_INFINITY; graph.latency.len()],
        device_free: vec![f64::NEG_INFINITY; graph.devices.len()],
        threads: vec![Thread::default(); graph.threads as usize],
        skipped: vec![false; graph.programs.len()],
        owed: vec![0.0; graph.programs.len()],
        ended: None,
        helped: 0,
    };
    (0..graph.programs.len() as u32).for_each(|p| replay.go_on(p));
    let steps: usize = graph.programs.iter().map(|p| p.ops.len()).sum();
    let most_help = (1.0 + MOST_HELP * steps as f64).min(MOST_HELPS);
    while replay.ended.is_none() {
        let moved = replay.step() || replay.helped as f64 <= most_help && replay.help();
        if !moved {
            return None;
        }
    }
    replay.ended
}

/// A wait's outcome.
enum Then {
    /// At once.
    Now,
    /// At an instant.
    Until(f64),
    /// When somebody passes a mark.
    Mark(u32),
    /// When somebody gives a thread away.
    Given,
}

impl Replay<'_> {
    /// The next event; `false` when there is none.
    fn step(&mut self) -> bool {
        let slept = self.asleep.peek().map(|Reverse((at, _))| at.0);
        let ran = self.machines.iter().enumerate().filter_map(|(i, m)| m.next().map(|at| (at, i))).min_by(|a, b| a.0.total_cmp(&b.0));
        match (slept, ran) {
            (None, None) => return false,
            (Some(at), ran) if ran.is_none_or(|(r, _)| at <= r) => {
                self.now = self.now.max(at);
                if let Some(Reverse((_, program))) = self.asleep.pop() {
                    self.go_on(program);
                }
            }
            (_, Some((at, machine))) => {
                self.now = self.now.max(at);
                self.machines[machine].advance(self.now);
                if let Some(Reverse((_, program))) = self.machines[machine].running.pop() {
                    self.go_on(program);
                }
            }
            (Some(_), None) => unreachable!("the first arm takes it"),
        }
        true
    }

    /// Runs a program's operations until one takes time.
    fn go_on(&mut self, program: u32) {
        let graph = self.graph;
        let code = &graph.programs[program as usize];
        loop {
            let Some(&op) = code.ops.get(self.next[program as usize]) else {
                if program as usize == graph.main {
                    self.ended = Some(self.now);
                }
                return;
            };
            if let Op::Run(ns) = op {
                self.next[program as usize] += 1;
                let stays = if self.scale.no_sync { 1.0 - code.syncing } else { 1.0 };
                let ns = ns * self.scale.run[code.end as usize] * stays;
                self.skipped[program as usize] &= ns <= 0.0;
                if ns > 0.0 {
                    let machine = &mut self.machines[code.machine];
                    machine.advance(self.now);
                    machine.running.push(Reverse((At(machine.done + ns), program)));
                    return;
                }
                continue;
            }
            match self.wait(op, program) {
                Then::Now => self.next[program as usize] += 1,
                Then::Until(at) => {
                    self.next[program as usize] += 1;
                    if at > self.now {
                        self.asleep.push(Reverse((At(at), program)));
                        return;
                    }
                    // Who need not sleep need not be woken, and does not queue after that.
                    self.skipped[program as usize] |= !matches!(op, Op::Follow { .. } | Op::Delay { .. });
                }
                Then::Mark(mark) => {
                    self.waiting[mark as usize] = program;
                    return;
                }
                Then::Given => return,
            }
        }
    }

    fn pass(&mut self, mark: u32) {
        self.passed[mark as usize] = self.now;
        let waiter = std::mem::replace(&mut self.waiting[mark as usize], u32::MAX);
        if waiter != u32::MAX {
            self.asleep.push(Reverse((At(self.now), waiter)));
        }
    }

    fn wait(&mut self, op: Op, program: u32) -> Then {
        match op {
            Op::Run(_) => Then::Now,
            Op::Mark(mark) => {
                self.pass(mark);
                Then::Now
            }
            Op::Delay { class: Class::Foreign | Class::Queue | Class::LongQueue | Class::Recorder, .. }
                if self.skipped[program as usize] =>
            {
                Then::Now
            }
            Op::Delay { class, ns } => {
                // A quota stops a group when it has run for so long: who runs for half as long is stopped half as often.
                let ran = if class == Class::Quota { self.scale.run[self.graph.programs[program as usize].end as usize] } else { 1.0 };
                let factor = self.scale.delay[class as usize] * ran;
                self.skipped[program as usize] |= factor == 0.0;
                if class == Class::Memory {
                    self.owed[program as usize] += ns * (1.0 - factor);
                }
                Then::Until(self.now + ns * factor)
            }
            Op::Follow { lock: true, .. } if self.scale.no_lock => {
                self.skipped[program as usize] = true;
                Then::Now
            }
            Op::Follow { mark, lag, .. } => match self.passed[mark as usize] {
                at if at.is_nan() => Then::Mark(mark),
                at => Then::Until(at + lag),
            },
            Op::Arrive { .. } => self.arrive(op),
            Op::Room { way, mark, wide, lag, regime } => {
                let mark = match self.scale.rooms[regime as usize] {
                    Rooms::AsTheyWere => mark,
                    Rooms::Wide => wide,
                    Rooms::Endless => NO_MARK,
                };
                if mark == NO_MARK {
                    return Then::Now;
                }
                let back = self.graph.latency[way as usize].min(lag) * (1.0 - self.scale.latency);
                match self.passed[mark as usize] {
                    at if at.is_nan() => Then::Mark(mark),
                    at => Then::Until(at + lag - back),
                }
            }
            Op::Serve { .. } => self.serve(op, program),
            Op::Take(thread) => self.take(thread, program),
            Op::Leave(thread) => {
                self.leave(thread);
                Then::Now
            }
        }
    }

    fn take(&mut self, thread: u32, program: u32) -> Then {
        let shared = &mut self.threads[thread as usize];
        if *shared.has_it.get_or_insert(program) == program {
            return Then::Now;
        }
        shared.wait_for_it.push_back(program);
        // A thread that does something else meanwhile does not sleep, and queues for no processor after that.
        self.skipped[program as usize] = true;
        Then::Given
    }

    fn leave(&mut self, thread: u32) {
        let shared = &mut self.threads[thread as usize];
        shared.has_it = shared.wait_for_it.pop_front();
        if let Some(next) = shared.has_it {
            self.asleep.push(Reverse((At(self.now), next)));
        }
    }

    fn arrive(&mut self, op: Op) -> Then {
        let Op::Arrive { mark, way, service, bytes, regime, lag, polls } = op else { return Then::Now };
        let sent = if mark == NO_MARK { self.now } else { self.passed[mark as usize] };
        if sent.is_nan() {
            return Then::Mark(mark);
        }
        let free = self.way_free[way as usize].max(sent) + self.scale.service_ns(regime, service, bytes);
        self.way_free[way as usize] = free;
        let lag = if polls && self.scale.no_polls { lag.min(20_000.0) } else { lag };
        Then::Until(free + self.graph.latency[way as usize] * self.scale.latency + lag)
    }

    fn serve(&mut self, op: Op, program: u32) -> Then {
        let Op::Serve { device, class, service, lag, asked, ahead } = op else { return Then::Now };
        let mut service = self.scale.device_ns(device, class, service);
        if class == Class::Sync && service > 0.0 {
            service += std::mem::take(&mut self.owed[program as usize]);
        }
        if service == 0.0 && self.scale.device[class as usize] == 0.0 {
            self.skipped[program as usize] = true;
            return Then::Now;
        }
        let free = self.device_free[device as usize];
        let asked = if asked == NO_MARK { self.now } else { self.passed[asked as usize].min(self.now) };
        let began = if ahead && free.is_finite() { free } else { free.max(asked) };
        let done = (began + service).max(self.now);
        // What was read ahead while the thread ran is not read for the next one, too.
        self.device_free[device as usize] = if ahead { done + lag } else { done };
        Then::Until(done + lag)
    }

    /// Lets the program go on that has waited longest for a mark.
    fn help(&mut self) -> bool {
        let stuck = self.waiting.iter().enumerate().filter(|(_, p)| **p != u32::MAX);
        let Some((mark, _)) = stuck.min_by_key(|(_, p)| self.next[**p as usize]) else { return false };
        self.helped += 1;
        self.pass(mark as u32);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::graph;
    use super::super::regime::Regime;
    use super::*;

    fn ns(cpus: u32, programs: Vec<Vec<Op>>) -> f64 {
        simulate(&graph(cpus, programs), &Scale::none()).unwrap()
    }

    #[test]
    fn processors_are_shared_equally() {
        assert_eq!(ns(2, vec![vec![Op::Run(100.0)], vec![Op::Run(100.0)]]), 100.0);
        assert_eq!(ns(1, vec![vec![Op::Run(100.0)], vec![Op::Run(100.0)]]), 200.0);
        assert_eq!(ns(1, vec![vec![Op::Run(100.0)], vec![Op::Run(30.0)]]), 130.0);
    }

    #[test]
    fn without_syncs_the_running_inside_of_them_is_gone_too() {
        let mut graph = graph(1, vec![vec![Op::Run(100.0)]]);
        graph.programs[0].syncing = 0.25;
        assert_eq!(simulate(&graph, &Scale::none()), Some(100.0));
        assert_eq!(simulate(&graph, &Scale { no_sync: true, ..Scale::none() }), Some(75.0));
    }

    #[test]
    fn waits_end_when_what_they_depend_on_happens() {
        let giver = vec![Op::Run(100.0), Op::Mark(0), Op::Run(50.0)];
        let taker = vec![Op::Follow { mark: 0, lag: 5.0, lock: false }, Op::Run(10.0)];
        assert_eq!(ns(2, vec![taker, giver]), 115.0);
    }

    #[test]
    fn bytes_arrive_one_after_the_other() {
        let arrive = |mark, service| Op::Arrive { mark, way: 0, service, bytes: 1.0, regime: Regime::Bandwidth, lag: 0.0, polls: false };
        let giver = vec![Op::Mark(0), Op::Mark(1)];
        assert_eq!(ns(2, vec![vec![arrive(0, 40.0), arrive(1, 40.0)], giver.clone()]), 85.0);
        let faster = Scale::none().services(&[Regime::Bandwidth], 0.5);
        assert_eq!(simulate(&graph(2, vec![vec![arrive(0, 40.0), arrive(1, 40.0)], giver]), &faster), Some(45.0));
    }

    #[test]
    fn a_device_serves_one_after_the_other_and_reads_on_while_the_thread_runs() {
        let read = |ahead| Op::Serve { device: 0, class: Class::Read, service: 50.0, lag: 0.0, asked: NO_MARK, ahead };
        assert_eq!(ns(2, vec![vec![read(false), Op::Run(20.0), read(false)]]), 120.0);
        assert_eq!(ns(2, vec![vec![read(false), Op::Run(20.0), read(true)]]), 100.0);
        assert_eq!(ns(2, vec![vec![read(false)], vec![Op::Run(10.0), read(false)]]), 50.0);
    }

    #[test]
    fn a_wait_for_what_nobody_does_is_helped_on_once_and_not_for_ever() {
        let waits = |n: usize| vec![Op::Follow { mark: 3, lag: 0.0, lock: false }; n];
        assert_eq!(ns(1, vec![[vec![Op::Run(1.0)], waits(1)].concat()]), 1.0);
    }

    #[test]
    fn one_thread_is_had_by_one_program_at_a_time_in_the_order_in_which_they_asked() {
        let turn = |ns| vec![Op::Take(0), Op::Run(ns), Op::Leave(0)];
        let mut shared = graph(4, vec![[turn(10.0), turn(1.0)].concat(), turn(20.0), turn(5.0)]);
        shared.threads = 1;
        assert_eq!(simulate(&shared, &Scale::none()), Some(36.0), "the first asks again last");
    }
}
