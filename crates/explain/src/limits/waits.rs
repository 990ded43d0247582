//! The rules of waits: what a thread was doing, and who ended a wait.

// accepting.rs

/// Bound: of the calls on an unaccepted connection only the latest are looked through.
pub(crate) const LAST_CALLS: usize = 16;

// connections.rs

/// A send that ended so shortly before a wait began asked for what the wait was for. Instead: a request number on plain sends and receives.
pub(crate) const JUST_SENT_NS: i64 = 1_000_000;

/// A transit of this length may be a small segment that Nagle's algorithm held back until its peer's delayed acknowledgement: 40 ms and a tick.
/// Instead: marks of Nagle in recordings that have none.
pub(crate) const DELAYED_ACK_NS: std::ops::Range<i64> = 38_000_000..46_000_000;
/// What the kernel takes to hand bytes on within a machine, a turn of the scheduler included: measured in microseconds on an idle machine.
/// Instead: when bytes came to lie at the receiver.
pub(crate) const IN_KERNEL_NS: i64 = 4_000_000;

// doubts.rs

/// A thread's wait for a processor from this much on that no count of the kernel's shows may be something else. A fair scheduler gives a
/// runnable thread its turn within a few ms; longer queueing that the kernel counts nowhere may be another wait. Instead: run-queue times
/// of recorders without privilege (schedstat of each thread at each wait).
pub(crate) const UNCOUNTED_QUEUE_NS: u64 = 4_000_000;
/// From this much on, a stretch between calls of which nobody says that the thread ran may be something else. Programs compute longer than
/// this between calls only when they are busy, and then processor time says so. Instead: `cpu.run` spans in every recording.
pub(crate) const UNCOUNTED_RUN_NS: i64 = 20_000_000;
/// TCP delays an acknowledgement for 40 ms at most, and with it what waits for that; a tick more. Instead: marks of delayed
/// acknowledgements.
pub(crate) const HELD_BACK_NS: i64 = 50_000_000;
/// Devices are sampled some times a second only: what one did may have happened so much before the sample. Instead: block requests in
/// recordings without privilege.
pub(crate) const DEVICE_SAMPLES_NS: i64 = 300_000_000;
/// On loopback nothing takes longer: half of a delayed acknowledgement. Instead: when bytes came to lie at the receiver.
pub(crate) const WITHIN_MACHINE_NS: i64 = 20_000_000;
/// Three round trips (what `longest_ns` gives) of 2 ms: loopback with a path of its own (netem). Instead: the connection's least round trip
/// at both ends.
pub(crate) const PATH_NS: i64 = 6_000_000;
/// What a wait is off by where threads are sampled: their period. Instead: stamps of both ends of each wait.
pub(crate) const SAMPLED_WIRE_NS: i64 = 4_000_000;
/// What a wait is off by where calls are stamped: a turn of the scheduler. Instead: run-queue times of each wait.
pub(crate) const STAMPED_WIRE_NS: i64 = 1_000_000;
/// When a sampled wait ended is known to within its samples, on a busy machine. Instead: stamps of both ends of each wait.
pub(crate) const SAMPLED_WAIT_NS: i64 = 50_000_000;
/// What ending a stamped wait takes: a turn of the scheduler or two. Instead: the waker.
pub(crate) const STAMPED_WAIT_NS: i64 = 5_000_000;

// files.rs

/// A completion and the wait that it ends are stamped by two processors. Instead: the request in the wait (its span's number).
pub(crate) const COMPLETION_NEAR_NS: i64 = 500_000;
/// Ten times what makes a thread stand still: no working device is assumed to take a second for one call. Instead:
/// stops as spans of their own (SIGSTOP, freezer).
pub(crate) const FROZEN_NS: u64 = 10 * STILL_NS;
/// Others of the process stop and go on within this of the one looked at. Instead: stops as spans of their own.
pub(crate) const FROZEN_EDGE_NS: i64 = 5_000_000;
/// One call of more bytes may take a second on a slow device. Instead: stops as spans of their own.
pub(crate) const ONE_CALL_BYTES: u64 = 16 << 20;

// looks.rs

/// Looks are recorded between pauses from this much on. Instead: looks between all pauses.
pub(crate) const LOOKED_BETWEEN_NS: i64 = 1_000_000;
/// Of two threads of a process one looks and the other sleeps within this, where a runtime moves a task between them: a timer's thread polls for a ms
/// before it hands the task on. Instead: which task a thread runs.
pub(crate) const BESIDE_NS: i64 = 3_000_000;
/// So many pauses back a loop that looks for several things looked for each of them. Instead: nothing; it is a bound on what is looked at.
pub(crate) const POLLS_BACK: i64 = 3;
/// Bound: processes that one process made to look for something between two pauses.
pub(crate) const LOOKERS: usize = 64;

// polling.rs

/// A poll reads a status, a directory or a small file. Instead: what the calls of a poll are for.
pub(crate) const POLL_BYTES: u64 = 64 << 10;
/// A question over a connection fits into one page. Instead: requests and replies of the protocol.
pub(crate) const QUESTION_BYTES: u64 = 4 << 10;
/// A shell takes about this long to see its child begin; shorter idle moments are those of a busy thread. Instead: why a thread sleeps (the
/// timer's call).
pub(crate) const SHORTEST_PAUSE_NS: i64 = 300_000;
/// So many alike in a row are no coincidence. Instead: the loop itself (call stacks of sleeps).
pub(crate) const MANY_PAUSES: usize = 4;
/// Bound: how far back earlier pauses are looked for.
pub(crate) const FURTHEST_PAUSES_NS: i64 = 4_000_000_000;
/// A program that is made only to pause (`sleep`) begins to within this. Instead: the program's name.
pub(crate) const MADE_TO_PAUSE_NS: i64 = 20_000_000;
/// Pauses are alike within a factor of three: a timer's, and what delays it. Instead: the timer's own value.
pub(crate) const ALIKE_TIMES: i64 = 3;
/// Bound: pauses' lengths that are looked back.
pub(crate) const EARLIER_PAUSES: i64 = 16;

// ranks.rs

/// Below, MPI libraries send eagerly, and the transit is what counts; the same limit as for TCP. Instead: the library's own eager limit.
pub(crate) const MPI_DATA_BYTES: u64 = 64 << 10;
/// Bound: calls of another rank that are looked through.
pub(crate) const NEAR_SPANS: usize = 64;

// rules.rs

/// From here on, a thread that neither ran nor was runnable nor in a call that waits is said to stand still, not to fault pages in: a fault
/// from a disk takes some ms. Instead: stops and faults as spans of their own.
pub(crate) const STILL_NS: u64 = 100_000_000;
/// Blocked time that is no more than what the clocks of a span are off by. Instead: how each wait ended.
pub(crate) const GRAIN_NS: u64 = 5_000;
/// And 2 % of the span: the kernel's run times are updated at ticks. Instead: how each wait ended.
pub(crate) const GRAIN_PART: u64 = 50;

// threads.rs

/// A thread seen for the first time after it had run for longer than this was not started just now. Instead: `thread.start` for every
/// thread.
pub(crate) const STARTED_LONG_NS: i64 = 20_000_000;
/// A server's thread between two requests computes less than this; what is longer is the wait for the next one. Instead: waits of threads
/// that were asleep when recording began.
pub(crate) const SERVED_LONG_NS: i64 = 200_000;

// timeouts.rs

/// Bound: threads that wait for each other in a row.
pub(crate) const LONGEST_CHAIN: usize = 16;
/// Who came to an end within an eighth of a pause was not what the pause was for. Instead: what a poll reads.
pub(crate) const EARLY_PART: i64 = 8;
/// Shorter time limits are intervals at which a program polls. Instead: the limit that a call was given, and what the program does when that ends.
pub(crate) const TIME_LIMIT_NS: i64 = 50_000_000;
/// What comes for a socket without connections within a quarter of a time limit that ended is an answer to what was asked then, and no late one. Instead:
/// what was sent in between.
pub(crate) const ANSWERED_PART: i64 = 4;

/// Stretches of a wait at full speed that are no further apart are one wait: the way back from a preemption, and what a sample left over. Instead: every call.
pub(crate) const BETWEEN_STRETCHES_NS: i64 = 100_000;

// unanswered.rs

/// What is sent last over a connection and is shorter says good-bye (a protocol's QUIT, TLS's close_notify with its record). Instead: what the bytes say.
pub(crate) const FAREWELL_BYTES: u64 = 40;
/// What is sent within this is one request in pieces. Instead: requests and replies of the protocol.
pub(crate) const SAME_REQUEST_NS: i64 = 20_000_000;

// lives.rs

/// A stretch of which nothing is recorded was a sleep where it is as long, to within a tenth, as what the thread's process slept each time afterwards.
/// Instead: waits that were under way when a thread was met.
pub(crate) const SLEPT_ALIKE_PART: i64 = 10;

// stopped.rs

/// Who stops another program when its time limit has ended does so within this. Instead: why a program sends a signal.
pub(crate) const STOPPED_SOON_NS: i64 = 50_000_000;
/// Bound: programs that wait for each other's end, from a shell to what it runs.
pub(crate) const NESTED_PROGRAMS: usize = 8;

// tunnels.rs

/// A program that carries a connection had all to do with its packets where it was idle for a quarter of their way or less. Instead: which packet a program works on.
pub(crate) const CARRIER_IDLE_PART: i64 = 4;
/// Bound: programs that carry a connection one after the other.
pub(crate) const CARRIERS: usize = 4;
