//! The replay: programs run, wait for each other, for bytes and for devices, under a [`Scale`].
//!
//! Processors are shared in turns: a program that needs one when all are taken waits until the first of their holders waits itself, or has
//! had its turn ([`limits::TURN_NS`]); so queueing is simulated. A stalled replay (a wait for something that, after a change, no program
//! does any more) is helped on where it stalled longest, and the help is counted.

use super::program::{Class, Graph, NO_MARK, Op};
use super::scale::{Rooms, Scale};
use crate::limits::replay as limits;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// No program.
const NOBODY: u32 = u32::MAX;

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
    count: usize,
    /// Slowdown that each further busy one causes.
    slowdown: f64,
    /// Number used by other programs.
    foreign: f64,
    /// Work of each program that ran all the time, and the instant until which it is counted.
    done: f64,
    counted: f64,
    /// Programs that have one, by the work at which they stop or have had their turn.
    running: BinaryHeap<Reverse<(At, u32)>>,
    /// Programs that wait for one.
    queue: VecDeque<u32>,
}

impl Processors {
    fn speed(&self) -> f64 {
        let running = self.running.len().max(1) as f64;
        ((self.count as f64 - self.foreign) / running).min(1.0) / (1.0 + self.slowdown * (running - 1.0))
    }

    fn count_until(&mut self, now: f64) {
        self.done += (now - self.counted) * self.speed();
        self.counted = now;
    }

    /// When the first of them stops.
    fn next(&self) -> Option<f64> {
        self.running.peek().map(|Reverse((at, _))| self.counted + ((at.0 - self.done) / self.speed()).max(0.0))
    }
}

/// A program's running.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    /// The rest of the operation.
    left: f64,
    /// The rest of its turn.
    turn: f64,
}

/// A thread shared by several programs.
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
    /// By program.
    running: Vec<Running>,
    passed: Vec<f64>,
    /// By mark: the program that last began to wait for it, or [`NOBODY`].
    waiting: Vec<u32>,
    /// By program: the one that began to wait for the same mark before it.
    beside: Vec<u32>,
    way_free: Vec<f64>,
    device_free: Vec<f64>,
    threads: Vec<Thread>,
    /// By program: whether the last wait was removed, and so the queueing after it.
    skipped: Vec<bool>,
    /// By program: whether it slept for a mark in this wait.
    slept: Vec<bool>,
    /// By program: dirty throttling that a change removed, which a later sync must wait for.
    owed: Vec<f64>,
    /// By mark: whether the run needs it; and the number of these left.
    awaited: Vec<bool>,
    awaited_left: usize,
    ended: Option<f64>,
    helped: usize,
}

/// Length of the run under this scale, in nanoseconds; `None` if the replay stalls too often.
pub(crate) fn simulate(graph: &Graph, scale: &Scale) -> Option<f64> {
    let steps: usize = graph.programs.iter().map(|p| p.ops.len()).sum();
    replay(graph, scale, (1.0 + limits::MOST_HELP * steps as f64).min(limits::MOST_HELPS))
}

/// Length of an edited run. Its waits must end by themselves, except for the one that the unchanged run may wait for in vain.
pub(crate) fn simulate_edit(graph: &Graph) -> Option<f64> {
    replay(graph, &Scale::none(), 0.0)
}

fn replay(graph: &Graph, scale: &Scale, most_help: f64) -> Option<f64> {
    let mut replay = Replay {
        graph,
        scale,
        now: 0.0,
        next: vec![0; graph.programs.len()],
        asleep: BinaryHeap::new(),
        machines: graph
            .cpus
            .iter()
            .map(|&n| {
                let count = (f64::from(n) * scale.processors).round().max(1.0) as usize;
                let (running, queue) = (BinaryHeap::new(), VecDeque::new());
                Processors { count, slowdown: graph.slowdown, foreign: graph.foreign, done: 0.0, counted: 0.0, running, queue }
            })
            .collect(),
        running: vec![Running::default(); graph.programs.len()],
        passed: vec![f64::NAN; graph.marks],
        waiting: vec![NOBODY; graph.marks],
        beside: vec![NOBODY; graph.programs.len()],
        way_free: vec![f64::NEG_INFINITY; graph.latency.len()],
        device_free: vec![f64::NEG_INFINITY; graph.devices.len()],
        threads: vec![Thread::default(); graph.threads as usize],
        skipped: vec![false; graph.programs.len()],
        slept: vec![false; graph.programs.len()],
        owed: vec![0.0; graph.programs.len()],
        awaited: vec![false; graph.marks],
        awaited_left: graph.awaited.len(),
        ended: None,
        helped: 0,
    };
    graph.awaited.iter().for_each(|&mark| replay.awaited[mark as usize] = true);
    (0..graph.programs.len() as u32).for_each(|p| replay.go_on(p, false));
    while replay.ended.is_none() || replay.awaited_left > 0 {
        let moved = replay.step() || replay.helped as f64 <= most_help && replay.help();
        if !moved {
            return None;
        }
    }
    replay.ended.map(|at| graph.awaited.iter().fold(at, |at, &mark| at.max(replay.passed[mark as usize])))
}

/// A wait's outcome.
enum Then {
    /// Continues immediately.
    Now,
    /// Continues at an instant.
    Until(f64),
    /// Continues when a mark is passed.
    Mark(u32),
    /// Continues when a thread is given away.
    Given,
}

impl Replay<'_> {
    /// Processes the next event; `false` if there is none.
    fn step(&mut self) -> bool {
        let slept = self.asleep.peek().map(|Reverse((at, _))| at.0);
        let ends = self.machines.iter().enumerate().filter_map(|(i, m)| m.next().map(|at| (at, i)));
        let ran = ends.min_by(|a, b| a.0.total_cmp(&b.0));
        match (slept, ran) {
            (None, None) => return false,
            (Some(at), ran) if ran.is_none_or(|(r, _)| at <= r) => {
                self.now = self.now.max(at);
                if let Some(Reverse((_, program))) = self.asleep.pop() {
                    self.go_on(program, false);
                }
            }
            (_, Some((at, machine))) => {
                self.now = self.now.max(at);
                self.machines[machine].count_until(self.now);
                if let Some(Reverse((_, program))) = self.machines[machine].running.pop() {
                    self.ran(machine, program);
                }
            }
            (Some(_), None) => unreachable!("the first arm takes it"),
        }
        true
    }

    /// Handles a program that reached its stop, or had its turn.
    fn ran(&mut self, machine: usize, program: u32) {
        if self.running[program as usize].left <= 0.0 {
            return self.go_on(program, true);
        }
        self.machines[machine].queue.push_back(program);
        self.give_away(machine);
    }

    /// Gives a processor to the program that has waited longest for one.
    fn give_away(&mut self, machine: usize) {
        if let Some(next) = self.machines[machine].queue.pop_front() {
            self.begin_turn(machine, next);
        }
    }

    fn begin_turn(&mut self, machine: usize, program: u32) {
        self.running[program as usize].turn = limits::TURN_NS;
        self.run(machine, program);
    }

    /// Starts a program that has a processor.
    fn run(&mut self, machine: usize, program: u32) {
        let running = &mut self.running[program as usize];
        let ns = running.left.min(running.turn);
        running.left -= ns;
        running.turn -= ns;
        let machine = &mut self.machines[machine];
        machine.count_until(self.now);
        machine.running.push(Reverse((At(machine.done + ns), program)));
    }

    /// Requests a processor for this long; immediate if the program has one.
    fn want(&mut self, machine: usize, program: u32, ns: f64, has_one: bool) {
        self.running[program as usize].left = ns;
        if has_one {
            return self.run(machine, program);
        }
        if self.machines[machine].running.len() < self.machines[machine].count {
            return self.begin_turn(machine, program);
        }
        self.machines[machine].queue.push_back(program);
    }

    /// Runs a program's operations until one takes time. If it has a processor and does not continue to run, the processor is given away.
    fn go_on(&mut self, program: u32, has_processor: bool) {
        let machine = self.graph.programs[program as usize].machine;
        if !self.operations(program, has_processor) && has_processor {
            self.give_away(machine);
        }
    }

    /// Runs the operations; returns whether the program now runs, or wants to.
    fn operations(&mut self, program: u32, has_processor: bool) -> bool {
        let graph = self.graph;
        let code = &graph.programs[program as usize];
        loop {
            let Some(&op) = code.ops.get(self.next[program as usize]) else {
                if program as usize == graph.main {
                    self.ended = Some(self.now);
                }
                return false;
            };
            if let Op::Run(ns) = op {
                self.next[program as usize] += 1;
                let stays = if self.scale.no_sync { 1.0 - code.syncing } else { 1.0 };
                let ns = ns * self.scale.run[code.end as usize] * stays;
                self.skipped[program as usize] &= ns <= 0.0;
                if ns > 0.0 {
                    self.want(code.machine, program, ns, has_processor);
                    return true;
                }
                continue;
            }
            match self.wait(op, program) {
                Then::Now => self.next[program as usize] += 1,
                Then::Until(at) => {
                    self.next[program as usize] += 1;
                    if at > self.now {
                        self.slept[program as usize] = false;
                        self.asleep.push(Reverse((At(at), program)));
                        return false;
                    }
                    // A program that need not sleep need not be woken, and does not queue after that.
                    let slept = std::mem::take(&mut self.slept[program as usize]);
                    self.skipped[program as usize] |= !slept && !matches!(op, Op::Follow { .. } | Op::Delay { .. });
                }
                Then::Mark(mark) => {
                    self.slept[program as usize] = true;
                    self.beside[program as usize] = std::mem::replace(&mut self.waiting[mark as usize], program);
                    return false;
                }
                Then::Given => return false,
            }
        }
    }

    fn pass(&mut self, mark: u32) {
        self.passed[mark as usize] = self.now;
        self.awaited_left -= usize::from(std::mem::take(&mut self.awaited[mark as usize]));
        let mut waiter = std::mem::replace(&mut self.waiting[mark as usize], NOBODY);
        while waiter != NOBODY {
            self.asleep.push(Reverse((At(self.now), waiter)));
            waiter = std::mem::replace(&mut self.beside[waiter as usize], NOBODY);
        }
    }

    fn wait(&mut self, op: Op, program: u32) -> Then {
        match op {
            Op::Run(_) => Then::Now,
            Op::Mark(mark) => {
                self.pass(mark);
                Then::Now
            }
            Op::Delay { class: Class::Foreign | Class::Queue | Class::Ours | Class::LongQueue | Class::Recorder, .. }
                if self.skipped[program as usize] =>
            {
                Then::Now
            }
            // A queued program goes behind those woken with it.
            Op::Delay { class: Class::Ours, ns } => {
                let kept = self.graph.kept * self.scale.delay[Class::Ours as usize];
                Then::Until(self.now + (ns * kept).max(1.0))
            }
            Op::Delay { class, ns } => {
                // A quota stops a group after a given run time: half the running is stopped half as often.
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
            Op::Follow { mark, lag, .. } => self.after(mark, lag),
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
                self.after(mark, lag - back)
            }
            Op::Serve { .. } => self.serve(op, program),
            Op::Take(thread) => self.take(thread, program),
            Op::Leave(thread) => {
                self.leave(thread);
                Then::Now
            }
        }
    }

    /// The outcome this long after a mark is passed.
    fn after(&self, mark: u32, lag: f64) -> Then {
        match self.passed[mark as usize] {
            at if at.is_nan() => Then::Mark(mark),
            at => Then::Until(at + lag),
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
        let lag = if polls && self.scale.no_polls { lag.min(limits::NO_POLL_LAG_NS) } else { lag };
        Then::Until(free + self.graph.latency[way as usize] * self.scale.latency + lag)
    }

    fn serve(&mut self, op: Op, program: u32) -> Then {
        let Op::Serve { device, class, service, foreign, lag, asked, ahead } = op else { return Then::Now };
        let mut service = self.scale.device_ns(device, class, service, foreign);
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
        // What was read ahead while the thread ran is not also read for the next one.
        self.device_free[device as usize] = if ahead { done + lag } else { done };
        Then::Until(done + lag)
    }

    /// Lets the program continue that has waited longest for a mark.
    fn help(&mut self) -> bool {
        let stuck = self.waiting.iter().enumerate().filter(|(_, p)| **p != NOBODY);
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
    fn processors_are_had_in_turns() {
        let turns = |n: f64| Op::Run(n * limits::TURN_NS);
        assert_eq!(ns(2, vec![vec![Op::Run(100.0)], vec![Op::Run(100.0)]]), 100.0);
        assert_eq!(ns(1, vec![vec![turns(3.0)], vec![turns(3.0)]]), 5.0 * limits::TURN_NS, "the other has had two of its three");
        assert_eq!(ns(1, vec![vec![turns(2.0)], vec![Op::Run(30.0)]]), 2.0 * limits::TURN_NS + 30.0);
        // A program that waits while another has the processor gets it as soon as that one waits itself.
        let giver = vec![Op::Run(100.0), Op::Mark(0), Op::Run(10.0)];
        let taker = vec![Op::Follow { mark: 0, lag: 0.0, lock: false }, Op::Run(5.0)];
        assert_eq!(ns(1, vec![taker, giver]), 115.0);
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
        let read = |ahead| Op::Serve { device: 0, class: Class::Read, service: 50.0, foreign: 0.0, lag: 0.0, asked: NO_MARK, ahead };
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
