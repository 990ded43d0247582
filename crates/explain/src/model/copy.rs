//! A copy as the simulator runs it: request threads, a thread at each end of every connection, flow
//! buffers between them. The order of stages is a copy's; what each costs comes from the recording.

use super::engine::{Engine, Op, Processors, Program, World};
use std::collections::VecDeque;

/// Cost of a stage: processor time (of an undisturbed processor) and time on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Nanoseconds of processor.
    pub cpu_ns: f64,
    /// Nanoseconds of device.
    pub wait_ns: f64,
}

impl Cost {
    /// So many times this.
    pub(crate) fn times(self, factor: f64) -> Cost {
        Cost { cpu_ns: self.cpu_ns * factor, wait_ns: self.wait_ns * factor }
    }
}

/// What one kind of thread pays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Costs {
    /// Per byte: before bytes go to the connection, or come from it, or are in memory (reading).
    pub read: Cost,
    /// Per byte: computing on them.
    pub compute: Cost,
    /// Per byte: through the connection.
    pub transport: Cost,
    /// Per byte: writing them.
    pub write: Cost,
    /// Per flow buffer (per request, for request threads): everything else.
    pub each: Cost,
    /// Per flow buffer: making data durable.
    pub sync: Cost,
}

/// A copy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Copy {
    /// Whether bytes go from the client to the servers.
    pub inward: bool,
    /// How many bytes.
    pub size_bytes: f64,
    /// How many of them a request asks for.
    pub request_bytes: f64,
    /// Requests in flight.
    pub requests: usize,
    /// A flow buffer's bytes.
    pub buffer_bytes: f64,
    /// Flow buffers in flight on each connection.
    pub depth: usize,
    /// Servers.
    pub servers: usize,
    /// Connections per server.
    pub streams: usize,
    /// What request threads pay.
    pub requester: Costs,
    /// What the client's end of a connection pays.
    pub near: Costs,
    /// What the server's end of a connection pays.
    pub far: Costs,
    /// The client's processors, and the servers', which are the same where `one_machine`.
    pub processors: [Processors; 2],
    /// Whether client and servers share processors.
    pub one_machine: bool,
    /// From what was waited for to running again.
    pub wake_ns: f64,
}

/// A flow buffer crosses the connection in so many pieces, so that both ends can work on it at once.
const PIECES: u64 = 4;

/// What a connection holds under way, in bytes.
const PIPE_BYTES: f64 = 2.0 * 1048576.0;

/// No more flow buffers than this are simulated; a longer copy is as many times longer.
const MOST_BUFFERS: f64 = 4096.0;

/// Below this part of a request for each, not all servers have one.
const SMALLEST_PART_BYTES: f64 = 65536.0;

/// The device of the client's file.
const CLIENT_DEVICE: usize = 0;

/// What the threads of a copy share.
#[derive(Debug)]
struct Shared {
    copy: Copy,
    requests_left: u64,
    buffer_number: usize,
    /// Where a request that is not spread over all servers begins.
    first_server: usize,
    buffers_per_request: u64,
    /// Over how many servers.
    spread: usize,
    /// By connection: whose buffers wait to be sent.
    queues: Vec<VecDeque<usize>>,
    ended: usize,
}

impl Shared {
    fn connections(&self) -> usize {
        self.queues.len()
    }
}

/// Semaphores of a connection.
#[derive(Clone, Copy)]
enum Channel {
    Work,
    Data,
    Space,
    Reply,
}

fn channel(connection: usize, which: Channel) -> usize {
    connection * 4 + which as usize
}

/// Semaphore of a request thread: its buffers that are done.
fn done(shared: &Shared, requester: usize) -> usize {
    shared.connections() * 4 + requester
}

impl Copy {
    /// How a request's bytes are cut: over how many servers, into how many flow buffers on each. A request
    /// is striped, so every server has its part of it, however small the buffers leave that.
    fn cut(&self) -> (usize, usize) {
        let servers = ((self.request_bytes / SMALLEST_PART_BYTES) as usize).clamp(1, self.servers);
        let buffers = (self.request_bytes / servers as f64 / self.buffer_bytes - 0.001).ceil().max(1.0);
        (servers, buffers as usize)
    }

    /// How long it takes, in nanoseconds; `None` when the simulation does not end.
    pub(crate) fn simulate(&self) -> Option<f64> {
        self.replay().map(|r| r.0)
    }

    /// How long it takes, and how long its threads wait for processors, in nanoseconds.
    pub(crate) fn replay(&self) -> Option<(f64, f64)> {
        let (spread, buffers) = self.cut();
        let buffers_per_request = (spread * buffers) as f64;
        let requests = (self.size_bytes / self.request_bytes).max(1.0);
        let simulated = (MOST_BUFFERS / buffers_per_request).max(self.requests as f64 * 4.0).min(requests).ceil();
        let connections = self.servers * self.streams;
        let shared = Shared {
            copy: Copy { buffer_bytes: self.request_bytes / buffers_per_request, ..self.clone() },
            spread,
            requests_left: simulated as u64,
            buffer_number: 0,
            first_server: 0,
            buffers_per_request: buffers_per_request as u64,
            queues: vec![VecDeque::new(); connections],
            ended: 0,
        };
        let mut world = World::new(connections * 4 + self.requests, 1 + self.servers, shared);
        let piece_bytes = world.shared.copy.buffer_bytes / PIECES as f64;
        let pipe = (PIPE_BYTES / piece_bytes).floor().max(1.0) as u64;
        for connection in 0..connections {
            world.give(channel(connection, Channel::Space), pipe);
        }
        let server_machine = usize::from(!self.one_machine);
        let mut engine = Engine::new(world, self.processors.to_vec(), self.wake_ns);
        for requester in 0..self.requests {
            engine.thread(0, Requester { number: requester, step: 0 });
        }
        for connection in 0..connections {
            engine.thread(0, Near { connection, plan: VecDeque::new(), in_flight: VecDeque::new() });
            let device = 1 + connection / self.streams;
            engine.thread(server_machine, Far { connection, device, plan: VecDeque::new() });
        }
        let end = engine.run()?;
        let longer = requests / simulated;
        (end.world.shared.ended == self.requests).then_some((end.ns * longer, end.queued_ns * longer))
    }
}

/// A request thread: reads, hands buffers out, waits for all, writes.
struct Requester {
    number: usize,
    step: u8,
}

impl Program<Shared> for Requester {
    fn next(&mut self, world: &mut World<Shared>) -> Op {
        let (costs, bytes) = (world.shared.copy.requester, world.shared.copy.request_bytes);
        let before = self.step;
        self.step += 1;
        match before {
            0 if world.shared.requests_left == 0 => {
                world.shared.ended += 1;
                Op::End
            }
            0 => {
                world.shared.requests_left -= 1;
                Op::Run((costs.read.cpu_ns + costs.compute.cpu_ns) * bytes + costs.each.cpu_ns)
            }
            1 => Op::Device(CLIENT_DEVICE, costs.read.wait_ns * bytes),
            2 => {
                for _ in 0..world.shared.buffers_per_request {
                    let shared = &mut world.shared;
                    // In turn over the request's servers; each server's buffers in turn over its connections.
                    let (server, turn) = (shared.buffer_number % shared.spread, shared.buffer_number / shared.spread);
                    let streams = shared.copy.streams;
                    let connection = (server + shared.first_server) % shared.copy.servers * streams + turn % streams;
                    shared.buffer_number += 1;
                    shared.queues[connection].push_back(self.number);
                    world.give(channel(connection, Channel::Work), 1);
                }
                let shared = &mut world.shared;
                shared.first_server = (shared.first_server + shared.spread) % shared.copy.servers;
                Op::Run(0.0)
            }
            3 => Op::Take(done(&world.shared, self.number), world.shared.buffers_per_request),
            4 => Op::Run(costs.write.cpu_ns * bytes),
            _ => {
                self.step = 0;
                Op::Device(CLIENT_DEVICE, costs.write.wait_ns * bytes)
            }
        }
    }
}

/// A step of a connection's thread: what it does, and whom it tells afterwards.
type Step = (Op, Option<(usize, u64)>);

fn run_then_wait(plan: &mut VecDeque<Step>, cost: Cost, factor: f64, device: usize) {
    plan.push_back((Op::Run(cost.cpu_ns * factor), None));
    plan.push_back((Op::Device(device, cost.wait_ns * factor), None));
}

/// Bytes through a connection in pieces: waits on one semaphore before each, gives to another after each.
fn pieces(plan: &mut VecDeque<Step>, cost: Cost, bytes: f64, wait_for: usize, give_to: usize) {
    for _ in 0..PIECES {
        plan.push_back((Op::Take(wait_for, 1), None));
        plan.push_back((Op::Run(cost.cpu_ns * bytes / PIECES as f64), Some((give_to, 1))));
    }
}

/// The plan's next step; signals of a step are given when the next one is asked for.
fn follow(plan: &mut VecDeque<Step>, world: &mut World<Shared>) -> Option<Op> {
    let (op, tell) = plan.pop_front()?;
    match tell {
        Some((semaphore, count)) if op == Op::Run(0.0) => world.give(semaphore, count),
        Some(_) => plan.push_front((Op::Run(0.0), tell)),
        None => {}
    }
    Some(op)
}

/// The client's thread of a connection.
struct Near {
    connection: usize,
    plan: VecDeque<Step>,
    in_flight: VecDeque<usize>,
}

impl Near {
    fn begin_buffer(&mut self, copy: &Copy, requester: usize) {
        let of = |which| channel(self.connection, which);
        let bytes = copy.buffer_bytes;
        self.in_flight.push_back(requester);
        if copy.inward {
            run_then_wait(&mut self.plan, copy.near.read, bytes, CLIENT_DEVICE);
            self.plan.push_back((Op::Run(copy.near.compute.cpu_ns * bytes), None));
            pieces(&mut self.plan, copy.near.transport, bytes, of(Channel::Space), of(Channel::Data));
        } else {
            self.plan.push_back((Op::Run(copy.near.each.cpu_ns / 2.0), Some((of(Channel::Reply), 1))));
        }
    }

    fn end_buffer(&mut self, shared: &Shared, requester: usize) {
        let of = |which| channel(self.connection, which);
        let (copy, bytes) = (&shared.copy, shared.copy.buffer_bytes);
        if copy.inward {
            self.plan.push_back((Op::Take(of(Channel::Reply), 1), None));
            self.plan.push_back((Op::Run(copy.near.each.cpu_ns), None));
        } else {
            pieces(&mut self.plan, copy.near.transport, bytes, of(Channel::Data), of(Channel::Space));
            self.plan.push_back((Op::Run(copy.near.compute.cpu_ns * bytes + copy.near.each.cpu_ns / 2.0), None));
            run_then_wait(&mut self.plan, copy.near.write, bytes, CLIENT_DEVICE);
        }
        self.plan.push_back((Op::Run(0.0), Some((done(shared, requester), 1))));
    }
}

impl Program<Shared> for Near {
    fn next(&mut self, world: &mut World<Shared>) -> Op {
        if let Some(op) = follow(&mut self.plan, world) {
            return op;
        }
        let work = channel(self.connection, Channel::Work);
        let room = self.in_flight.len() < world.shared.copy.depth;
        if let Some(requester) = world.shared.queues[self.connection].pop_front_if(|_| room) {
            self.begin_buffer(&world.shared.copy, requester);
            return Op::Take(work, 1);
        }
        if let Some(requester) = self.in_flight.pop_front() {
            self.end_buffer(&world.shared, requester);
            return Op::Run(0.0);
        }
        if world.shared.ended == world.shared.copy.requests {
            return Op::End;
        }
        // Sleep until there is work, and leave it on the count for the step that takes it.
        self.plan.push_back((Op::Run(0.0), Some((work, 1))));
        Op::Take(work, 1)
    }
}

/// The server's thread of a connection.
struct Far {
    connection: usize,
    device: usize,
    plan: VecDeque<Step>,
}

impl Program<Shared> for Far {
    fn next(&mut self, world: &mut World<Shared>) -> Op {
        if let Some(op) = follow(&mut self.plan, world) {
            return op;
        }
        let of = |which| channel(self.connection, which);
        let copy = &world.shared.copy;
        let bytes = copy.buffer_bytes;
        if copy.inward {
            pieces(&mut self.plan, copy.far.transport, bytes, of(Channel::Data), of(Channel::Space));
            self.plan.push_back((Op::Run(copy.far.compute.cpu_ns * bytes), None));
            run_then_wait(&mut self.plan, copy.far.write, bytes, self.device);
            run_then_wait(&mut self.plan, copy.far.sync, 1.0, self.device);
            self.plan.push_back((Op::Run(copy.far.each.cpu_ns.max(1.0)), Some((of(Channel::Reply), 1))));
        } else {
            self.plan.push_back((Op::Take(of(Channel::Reply), 1), None));
            self.plan.push_back((Op::Run(copy.far.each.cpu_ns), None));
            run_then_wait(&mut self.plan, copy.far.read, bytes, self.device);
            self.plan.push_back((Op::Run(copy.far.compute.cpu_ns * bytes), None));
            pieces(&mut self.plan, copy.far.transport, bytes, of(Channel::Space), of(Channel::Data));
        }
        Op::Run(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy() -> Copy {
        let per_byte = |ns_per_mib: f64| Cost { cpu_ns: ns_per_mib / 1048576.0, wait_ns: 0.0 };
        Copy {
            inward: true,
            size_bytes: 256.0 * 1048576.0,
            request_bytes: 8.0 * 1048576.0,
            requests: 1,
            buffer_bytes: 1048576.0,
            depth: 8,
            servers: 4,
            streams: 1,
            requester: Costs { read: per_byte(200_000.0), ..Costs::default() },
            near: Costs { transport: per_byte(200_000.0), ..Costs::default() },
            far: Costs { transport: per_byte(100_000.0), write: per_byte(300_000.0), ..Costs::default() },
            processors: [Processors { count: 2, slowdown: 0.0, foreign: 0.0 }; 2],
            one_machine: true,
            wake_ns: 0.0,
        }
    }

    #[test]
    fn a_serial_copy_reads_and_sends_one_after_the_other() {
        // 256 MiB: 51.2 ms of reading alone, then 600 µs a MiB on two processors: 76.8 ms, and a tail a request.
        let ms = copy().simulate().unwrap() / 1e6;
        assert!((128.0..150.0).contains(&ms), "{ms}");
    }

    #[test]
    fn overlap_gives_what_the_processors_have_left() {
        // 800 µs a MiB on two processors: 102.4 ms.
        let ms = Copy { requests: 4, ..copy() }.simulate().unwrap() / 1e6;
        assert!((102.0..112.0).contains(&ms), "{ms}");
    }

    #[test]
    fn a_slow_device_limits_and_twice_as_fast_a_one_halves() {
        let mut slow = copy();
        slow.requester.read.wait_ns = 5_000_000.0 / 1048576.0;
        let once = Copy { requests: 2, ..slow.clone() }.simulate().unwrap();
        assert!((once / 1e6 - 1280.0).abs() < 60.0, "{once}");
        slow.requester.read.wait_ns /= 2.0;
        let twice = Copy { requests: 2, ..slow }.simulate().unwrap();
        assert!((0.48..0.60).contains(&(twice / once)));
    }

    #[test]
    fn copies_out_end_too_and_cost_the_same_work() {
        let mut out = Copy { inward: false, requests: 4, ..copy() };
        out.far.read = out.far.write;
        out.near.write = out.requester.read;
        out.requester = Costs::default();
        let ms = out.simulate().unwrap() / 1e6;
        assert!((102.0..115.0).contains(&ms), "{ms}");
    }

    #[test]
    fn a_long_copy_is_as_many_times_longer() {
        let long = Copy { size_bytes: 100.0 * 256.0 * 1048576.0, ..copy() }.simulate().unwrap();
        let short = copy().simulate().unwrap();
        assert!((long / short / 100.0 - 1.0).abs() < 0.02);
    }
}
