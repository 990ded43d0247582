//! Thresholds of the rules for waits: what a thread was doing, and who ended a wait.

// accepting.rs

/// Bound: latest calls examined on an unaccepted connection.
pub(crate) const LAST_CALLS: usize = 16;

// connections.rs

/// A send that ended this shortly before a wait began requested what the wait was for. Instead: a request number on plain sends and
/// receives.
pub(crate) const JUST_SENT_NS: i64 = 1_000_000;

/// A transit of this length may be a small segment that Nagle's algorithm delayed until the peer's delayed acknowledgement: 40 ms and a
/// tick. Instead: marks of Nagle in recordings that have none.
pub(crate) const DELAYED_ACK_NS: std::ops::Range<i64> = 38_000_000..46_000_000;
/// Most time the kernel takes to pass bytes on within a machine, a scheduler turn included: microseconds on an idle machine. Instead: when
/// bytes arrived at the receiver.
pub(crate) const IN_KERNEL_NS: i64 = 4_000_000;

// doubts.rs

/// Longest queueing of a thread that needs no confirmation by the kernel's counts: a fair scheduler gives a runnable thread its turn within
/// a few ms; longer uncounted queueing may be another wait. Instead: run-queue times of recorders without privilege (schedstat of each
/// thread at each wait).
pub(crate) const UNCOUNTED_QUEUE_NS: u64 = 4_000_000;
/// Longest stretch between calls that counts as running without evidence: programs compute longer than this only when busy, and then
/// processor time shows it. Instead: `cpu.run` spans in every recording.
pub(crate) const UNCOUNTED_RUN_NS: i64 = 20_000_000;
/// TCP delays an acknowledgement, and what waits for it, for at most 40 ms, plus a tick. Instead: marks of delayed acknowledgements.
pub(crate) const HELD_BACK_NS: i64 = 50_000_000;
/// Devices are sampled a few times a second: their work may precede its sample by this much. Instead: block requests in recordings without
/// privilege.
pub(crate) const DEVICE_SAMPLES_NS: i64 = 300_000_000;
/// The kernel's shortest delay of an acknowledgement is 40 ms (`TCP_DELACK_MIN`), in ticks. Instead: when the sender held back, as the
/// kernel recorder sees.
pub(crate) const LEAST_HELD_BACK_NS: i64 = 32_000_000;
/// A pause that begins this soon after a call that failed may be for another attempt. Instead: what programs look for between pauses, which only the kernel recorder sees whole.
pub(crate) const IN_VAIN_NS: i64 = 2_000_000;
/// A thread that sleeps again this soon did next to nothing in between: it looked for something. Instead: as above.
pub(crate) const NOTHING_NS: i64 = 100_000;
/// Errors that may pass by waiting: `ENOENT`, `EAGAIN`, `EBUSY`, `EEXIST`, `ECONNREFUSED`, `EINPROGRESS`. Instead: as above.
pub(crate) const MAY_PASS: [i32; 6] = [2, 11, 16, 17, 111, 115];
/// Those of them that are about a name: `ENOENT`, `EEXIST`. Instead: the name that was looked for each time.
pub(crate) const NAMES: [i32; 2] = [2, 17];
/// Devices read at least this many times as much as they wrote while a write through the page cache waited for what it copies from: a
/// journal's own writes are small. Instead: block requests in recordings without privilege.
pub(crate) const READ_FOR_WRITE: u64 = 10;
/// Longest transit on loopback: half of a delayed acknowledgement. Instead: when bytes arrived at the receiver.
pub(crate) const WITHIN_MACHINE_NS: i64 = 20_000_000;
/// Three round trips (see `longest_ns`) of 2 ms: loopback with a path of its own (netem). Instead: the connection's least round trip at
/// both ends.
pub(crate) const PATH_NS: i64 = 6_000_000;
/// Error of a wait where threads are sampled: the sampling period. Instead: stamps of both ends of each wait.
pub(crate) const SAMPLED_WIRE_NS: i64 = 4_000_000;
/// Error of a wait where calls are stamped: a scheduler turn. Instead: run-queue times of each wait.
pub(crate) const STAMPED_WIRE_NS: i64 = 1_000_000;
/// Error of the end of a sampled wait on a busy machine. Instead: stamps of both ends of each wait.
pub(crate) const SAMPLED_WAIT_NS: i64 = 50_000_000;
/// Time to end a stamped wait: one or two scheduler turns. Instead: the waker.
pub(crate) const STAMPED_WAIT_NS: i64 = 5_000_000;

// files.rs

/// A completion and the wait it ends are stamped by two processors, this far apart. Instead: the request in the wait (its span's number).
pub(crate) const COMPLETION_NEAR_NS: i64 = 500_000;
/// Ten times the least standstill of a thread: no working device is assumed to take 1 s for one call. Instead: stops as spans of their own
/// (SIGSTOP, freezer).
pub(crate) const FROZEN_NS: u64 = 10 * STILL_NS;
/// Other threads of the process stop and resume within this time of the one examined. Instead: stops as spans of their own.
pub(crate) const FROZEN_EDGE_NS: i64 = 5_000_000;
/// A larger single call may take 1 s on a slow device. Instead: stops as spans of their own.
pub(crate) const ONE_CALL_BYTES: u64 = 16 << 20;

// looks.rs

/// Looks are recorded between pauses of at least this length. Instead: looks between all pauses.
pub(crate) const LOOKED_BETWEEN_NS: i64 = 1_000_000;
/// One thread of a process looks and another sleeps within this time where a runtime moves a task between them: a timer thread polls for 1
/// ms before it hands the task on. Instead: which task a thread runs.
pub(crate) const BESIDE_NS: i64 = 3_000_000;
/// A loop that looks for several things looked for each of them within this many pauses. Instead: nothing: it bounds the search.
pub(crate) const POLLS_BACK: i64 = 3;
/// Bound: processes made by one process to look for something between two pauses.
pub(crate) const LOOKERS: usize = 64;

// polling.rs

/// Most bytes of a poll: it reads a status, a directory or a small file. Instead: the purpose of a poll's calls.
pub(crate) const POLL_BYTES: u64 = 64 << 10;
/// A request over a connection fits in one page. Instead: requests and replies of the protocol.
pub(crate) const QUESTION_BYTES: u64 = 4 << 10;
/// A shell takes about this long to see its child start; shorter idle moments are those of a busy thread. Instead: why a thread sleeps (the
/// timer's call).
pub(crate) const SHORTEST_PAUSE_NS: i64 = 300_000;
/// This many similar pauses in a row are no coincidence. Instead: the loop itself (call stacks of sleeps).
pub(crate) const MANY_PAUSES: usize = 4;
/// Bound: how far back earlier pauses are searched.
pub(crate) const FURTHEST_PAUSES_NS: i64 = 4_000_000_000;
/// A program started only to pause (`sleep`) starts up within this time. Instead: the program's name.
pub(crate) const MADE_TO_PAUSE_NS: i64 = 20_000_000;
/// Pauses are alike within this factor: a timer and its delays. Instead: the timer's own value.
pub(crate) const ALIKE_TIMES: i64 = 3;
/// Bound: earlier pauses whose lengths are examined.
pub(crate) const EARLIER_PAUSES: i64 = 16;

// ranks.rs

/// Smaller messages are sent eagerly by MPI libraries, and only the transit counts; the same limit as for TCP. Instead: the library's own
/// eager limit.
pub(crate) const MPI_DATA_BYTES: u64 = 64 << 10;
/// Bound: calls of another rank examined.
pub(crate) const NEAR_SPANS: usize = 64;

// replies.rs

/// A reply comes no sooner than this many tenths of the least round trip after its request: round trips vary. Instead: both ends.
pub(crate) const ANSWERED_TENTHS: i64 = 9;
/// A reply that comes a round trip and one part in this many of it after a request was in transit all the time. Instead: both ends.
pub(crate) const ON_TIME_PART: i64 = 4;
/// Time in which a server that waits for requests answers one, and either end takes it from the kernel. Instead: both ends.
pub(crate) const ON_TIME_NS: i64 = 500_000;

// rules.rs

/// A thread that for this long neither ran, nor was runnable, nor was in a call that waits stands still and is not faulting pages in: a
/// fault from a disk takes some ms. Instead: stops and faults as spans of their own.
pub(crate) const STILL_NS: u64 = 100_000_000;
/// Blocked time within the clock error of a span is ignored. Instead: how each wait ended.
pub(crate) const GRAIN_NS: u64 = 5_000;
/// One part in this many of the span (2 %) is ignored too: the kernel updates run times at ticks. Instead: how each wait ended.
pub(crate) const GRAIN_PART: u64 = 50;

// threads.rs

/// A thread first seen after running for longer than this was not just started. Instead: `thread.start` for every thread.
pub(crate) const STARTED_LONG_NS: i64 = 20_000_000;
/// A server's thread between two requests computes for less; a longer stretch is the wait for the next one. Instead: waits of threads that
/// were asleep when recording began.
pub(crate) const SERVED_LONG_NS: i64 = 200_000;

// timeouts.rs

/// Bound: threads in a chain of waits.
pub(crate) const LONGEST_CHAIN: usize = 16;
/// A thread that ended within one part in this many of a pause was not what the pause was for. Instead: what a poll reads.
pub(crate) const EARLY_PART: i64 = 8;
/// Shorter timeouts are polling intervals. Instead: the timeout given to a call, and what the program does when it expires.
pub(crate) const TIME_LIMIT_NS: i64 = 50_000_000;
/// A datagram within one part in this many of an expired timeout's length answers the question asked then; a later one is a late answer.
/// Instead: what was sent in between.
pub(crate) const ANSWERED_PART: i64 = 4;

/// Stretches of a wait at full speed that are no further apart are one wait: the return from a preemption, and the remainder of a sample.
/// Instead: every call.
pub(crate) const BETWEEN_STRETCHES_NS: i64 = 100_000;

// unanswered.rs

/// A shorter last message over a connection is a farewell (a protocol's QUIT, TLS's close_notify with its record). Instead: what the bytes
/// say.
pub(crate) const FAREWELL_BYTES: u64 = 40;
/// Sends within this time are one request in pieces. Instead: requests and replies of the protocol.
pub(crate) const SAME_REQUEST_NS: i64 = 20_000_000;

// lives.rs

/// An unrecorded stretch was a sleep if its length agrees, to within one part in this many, with every later sleep of the thread's process.
/// Instead: waits that were in progress when a thread was first seen.
pub(crate) const SLEPT_ALIKE_PART: i64 = 10;

// stopped.rs

/// A program that stops another when its time limit ends does so within this time. Instead: why a program sends a signal.
pub(crate) const STOPPED_SOON_NS: i64 = 50_000_000;
/// Bound: programs that wait for each other's end, from a shell to what it runs.
pub(crate) const NESTED_PROGRAMS: usize = 8;

// tunnels.rs

/// A program that carries a connection spent the whole transit on its packets if it was idle for at most one part in this many of it.
/// Instead: which packet a program works on.
pub(crate) const CARRIER_IDLE_PART: i64 = 4;
/// Bound: programs in a row that carry a connection.
pub(crate) const CARRIERS: usize = 4;
