//! A small discrete-event simulator: threads that run, wait for each other and for devices.
//!
//! Processors are shared: k threads that want to run on n processors each run at n/k of a processor's
//! speed when k > n. Processors that work at the same time slow each other down (caches, memory, and
//! hyperthreads are shared), by a factor that was measured from the recording. Time in a run queue is
//! therefore an outcome, never an input.

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    /// Runs for so many nanoseconds of an undisturbed processor.
    Run(f64),
    /// Waits until the semaphore holds so many, and takes them.
    Take(usize, u64),
    /// Is served by a device, first come first served, for so many nanoseconds.
    Device(usize, f64),
    /// Has ended.
    End,
}

/// A thread's doings, as a state machine over the shared state `S`.
pub(crate) trait Program<S> {
    /// What comes next; signals go to `world`.
    fn next(&mut self, world: &mut World<S>) -> Op;
}

/// What threads share.
#[derive(Debug)]
pub(crate) struct World<S> {
    /// Semaphores.
    pub semaphores: Vec<u64>,
    /// When each device is free again.
    devices_free: Vec<f64>,
    /// What the programs share besides.
    pub shared: S,
}

impl<S> World<S> {
    /// With all semaphores at 0.
    pub(crate) fn new(semaphores: usize, devices: usize, shared: S) -> World<S> {
        World { semaphores: vec![0; semaphores], devices_free: vec![0.0; devices], shared }
    }

    /// Adds to a semaphore.
    pub(crate) fn give(&mut self, semaphore: usize, count: u64) {
        self.semaphores[semaphore] += count;
    }
}

/// A machine's processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Processors {
    /// How many.
    pub count: u32,
    /// By which part each further busy processor slows the others' work.
    pub slowdown: f64,
    /// How many threads of other programs want to run beside ours, on average.
    pub foreign: f64,
}

impl Processors {
    /// Which part of the time each of `running` threads has a processor.
    fn share(self, running: usize) -> f64 {
        (f64::from(self.count) / (running as f64 + self.foreign)).min(1.0)
    }

    /// How fast each of `running` threads goes, as a part of an undisturbed processor.
    fn speed(self, running: usize) -> f64 {
        let busy = (running as f64 + self.foreign).clamp(1.0, f64::from(self.count));
        self.share(running) / (1.0 + self.slowdown * (busy - 1.0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Ready,
    Running(f64),
    Waiting(usize, u64),
    /// Until then, asleep: on a device, or on its way back to a processor.
    Asleep(f64),
    Ended,
}

struct Thread<S> {
    program: Box<dyn Program<S>>,
    machine: usize,
    state: State,
}

/// A simulation.
pub(crate) struct Engine<S> {
    /// What its threads share.
    pub world: World<S>,
    machines: Vec<Processors>,
    threads: Vec<Thread<S>>,
    now: f64,
    wake_ns: f64,
    queued_ns: f64,
    running: Vec<usize>,
    speeds: Vec<f64>,
}

/// How a simulation ended.
pub(crate) struct Ended<S> {
    /// When.
    pub ns: f64,
    /// How long its threads were runnable and not running, all together.
    pub queued_ns: f64,
    /// What they shared.
    pub world: World<S>,
}

/// A simulation that takes more steps than this has lost its way.
const MOST_STEPS: u64 = 20_000_000;

impl<S> Engine<S> {
    /// At time 0. A thread that had to wait runs `wake_ns` after what it waited for.
    pub(crate) fn new(world: World<S>, machines: Vec<Processors>, wake_ns: f64) -> Engine<S> {
        let (running, speeds) = (vec![0; machines.len()], vec![1.0; machines.len()]);
        Engine { world, machines, threads: Vec::new(), now: 0.0, wake_ns, queued_ns: 0.0, running, speeds }
    }

    /// Adds a thread.
    pub(crate) fn thread(&mut self, machine: usize, program: impl Program<S> + 'static) {
        self.threads.push(Thread { program: Box::new(program), machine, state: State::Ready });
    }

    /// Runs until nothing can happen any more. `None` when that takes too long.
    pub(crate) fn run(mut self) -> Option<Ended<S>> {
        for _ in 0..MOST_STEPS {
            self.dispatch();
            self.share_processors();
            let Some(step) = self.until_next() else { return Some(Ended { ns: self.now, queued_ns: self.queued_ns, world: self.world }) };
            self.advance(step);
        }
        None
    }

    /// Lets every thread that can act do so, until all run, wait, sleep or have ended.
    fn dispatch(&mut self) {
        let mut acted = true;
        while acted {
            acted = false;
            for thread in &mut self.threads {
                if let State::Waiting(semaphore, count) = thread.state
                    && self.world.semaphores[semaphore] >= count
                {
                    self.world.semaphores[semaphore] -= count;
                    thread.state = State::Asleep(self.now + self.wake_ns);
                }
                while thread.state == State::Ready {
                    acted = true;
                    thread.state = match thread.program.next(&mut self.world) {
                        Op::Run(ns) if ns < 1.0 => State::Ready,
                        Op::Run(ns) => State::Running(ns),
                        Op::Take(semaphore, count) if self.world.semaphores[semaphore] >= count => {
                            self.world.semaphores[semaphore] -= count;
                            State::Ready
                        }
                        Op::Take(semaphore, count) => State::Waiting(semaphore, count),
                        Op::Device(_, ns) if ns < 1.0 => State::Ready,
                        Op::Device(device, ns) => {
                            let free = &mut self.world.devices_free[device];
                            *free = free.max(self.now) + ns;
                            State::Asleep(*free)
                        }
                        Op::End => State::Ended,
                    };
                }
            }
        }
    }

    /// Counts who runs on each machine, and how fast that lets each go.
    fn share_processors(&mut self) {
        self.running.fill(0);
        self.threads.iter().filter(|t| matches!(t.state, State::Running(_))).for_each(|t| self.running[t.machine] += 1);
        for ((speed, machine), &running) in self.speeds.iter_mut().zip(&self.machines).zip(&self.running) {
            *speed = machine.speed(running);
        }
    }

    fn until_next(&self) -> Option<f64> {
        let speeds = &self.speeds;
        let times = self.threads.iter().filter_map(|t| match t.state {
            State::Running(left) => Some(left / speeds[t.machine]),
            State::Asleep(until) => Some((until - self.now).max(0.0)),
            _ => None,
        });
        times.reduce(f64::min)
    }

    fn advance(&mut self, step: f64) {
        let speeds = &self.speeds;
        let queued = self.machines.iter().zip(&self.running).map(|(m, &k)| k as f64 * (1.0 - m.share(k)));
        self.queued_ns += step * queued.sum::<f64>();
        self.now += step;
        for thread in &mut self.threads {
            thread.state = match thread.state {
                State::Running(left) => {
                    let left = left - step * speeds[thread.machine];
                    if left < 0.5 { State::Ready } else { State::Running(left) }
                }
                State::Asleep(until) if until <= self.now + 0.5 => State::Ready,
                other => other,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Steps(Vec<Op>, Option<usize>);

    impl Program<()> for Steps {
        fn next(&mut self, world: &mut World<()>) -> Op {
            if self.0.is_empty() {
                if let Some(s) = self.1.take() {
                    world.give(s, 1);
                }
                return Op::End;
            }
            self.0.remove(0)
        }
    }

    fn time(cpus: u32, slowdown: f64, threads: Vec<Steps>) -> f64 {
        let world = World::new(1, 1, ());
        let mut engine = Engine::new(world, vec![Processors { count: cpus, slowdown, foreign: 0.0 }], 5.0);
        threads.into_iter().for_each(|t| engine.thread(0, t));
        engine.run().unwrap().ns
    }

    #[test]
    fn processors_are_shared_equally() {
        let run = |ns| Steps(vec![Op::Run(ns)], None);
        assert!((time(2, 0.0, vec![run(100.0), run(100.0)]) - 100.0).abs() < 1.0);
        assert!((time(1, 0.0, vec![run(100.0), run(100.0)]) - 200.0).abs() < 1.0);
        assert!((time(2, 0.0, vec![run(100.0), run(100.0), run(100.0)]) - 150.0).abs() < 1.0);
    }

    #[test]
    fn busy_neighbours_slow_each_other_down() {
        let run = |ns| Steps(vec![Op::Run(ns)], None);
        assert!((time(2, 0.5, vec![run(100.0), run(100.0)]) - 150.0).abs() < 1.0);
        assert!((time(2, 0.5, vec![run(100.0)]) - 100.0).abs() < 1.0);
    }

    #[test]
    fn waiting_costs_the_way_back_and_devices_serve_one_at_a_time() {
        let giver = Steps(vec![Op::Run(100.0)], Some(0));
        let taker = Steps(vec![Op::Take(0, 1), Op::Run(10.0)], None);
        assert!((time(2, 0.0, vec![giver, taker]) - 115.0).abs() < 1.0);
        let device = || Steps(vec![Op::Device(0, 50.0)], None);
        assert!((time(2, 0.0, vec![device(), device()]) - 100.0).abs() < 1.0);
    }
}
