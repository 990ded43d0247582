//! Thresholds for what is gathered from spans and TCP counters.

// asking.rs

/// Bound: servers whose requests are counted separately.
pub(crate) const MOST_SERVERS: usize = 256;
/// Fewer answers allow no conclusion: a median of fewer means nothing. Instead: nothing; a count with its own interval.
pub(crate) const FEWEST_ANSWERS: u64 = 8;
/// Factor by which an answer must be larger than the others to show the cost of bytes: from here on the difference in time is due to bytes,
/// not noise. Instead: the server's time for each request.
pub(crate) const MUCH_LARGER: f64 = 4.0;

// channels.rs

/// Smaller spans are headers, acknowledgements and most requests of RPC protocols, not payload. Instead: which bytes of a message are
/// payload.
pub(crate) const PAYLOAD_BYTES: u64 = 512;
/// Shorter idle intervals are never gaps: calls themselves are this far apart. Instead: when bytes crossed the wire (TCP's counters).
pub(crate) const LEAST_GAP_NS: i64 = 20_000;
/// Bound: idle intervals kept for one channel.
pub(crate) const KEPT_INTERVALS: usize = 1 << 16;
/// Least distance of the two groups' mean logarithms: the logarithm of four. Otsu's method splits any set in two, and closer means are one
/// group. Instead: when bytes crossed the wire.
pub(crate) const GROUPS_APART: f64 = 1.386;
/// A distance between gaps is the period, or its double or triple, to within this part. Instead: the program's buffer size.
pub(crate) const PERIOD_NEAR: f64 = 0.1;
/// There is a period if this many tenths of the distances match it. Instead: the program's buffer size.
pub(crate) const PERIOD_TENTHS: usize = 7;
/// Fewer gaps have no period. Instead: the program's buffer size.
pub(crate) const FEWEST_GAPS: usize = 4;

// quantile.rs

/// Sleeps shorter than one part in this many of the longest are of another kind: the end of a timer, a wait for a thread to end. Instead:
/// why a thread sleeps (the timer's call).
pub(crate) const SHORT_PART: u64 = 8;
/// They are left out if they have at most one part in this many of the time. Instead: nothing: a mean is of similar values.
pub(crate) const NEXT_TO_NONE_PART: u64 = 50;

// curve.rs

/// A rate is steady over one part in this many of the transfer. Instead: nothing: phases are for display.
pub(crate) const STEADY_WINDOW: usize = 16;
/// A ramp ends, and a drain begins, at this part of the mean rate. Instead: nothing: phases are for display.
pub(crate) const STEADY_PART: f64 = 0.8;

// exchanges.rs

/// Bound: connections whose turns are counted separately.
pub(crate) const MOST_CONNECTIONS: usize = 1 << 14;
/// Bound: requests of one end kept to count how many were in flight. Beyond it, the number in flight is not reported.
pub(crate) const MOST_QUESTIONS: usize = 1 << 18;
/// Bound: pairs of threads that wait for each other at pipes.
pub(crate) const MOST_PIPES: usize = 1 << 12;
/// Bound: arrivals within one round trip.
pub(crate) const MOST_ARRIVALS: usize = 1 << 14;
/// A turn counts as a round trip from this part of the least one on: TCP rounds its measurement. Instead: nothing: measured.
pub(crate) const LONG_TURN: f64 = 0.85;

// roles.rs

/// Bound: generations of parent processes followed; a reused process number can form a cycle.
pub(crate) const MOST_GENERATIONS: usize = 64;
/// Bound: processes at one end of a connection. More than a handful never share one.
pub(crate) const MOST_PARTIES: usize = 64;

// feed.rs

/// Bound: looks of a thread kept once the path is past them.
pub(crate) const NEXT_LOOKS: usize = 32;
/// Bound: kept sends that began after the cursor; a send can be stamped after the receive it caused.
pub(crate) const LATE_STAMPS: usize = 4;
/// Bound: sends kept during one long span.
pub(crate) const MANY_SENDS: usize = 4096;
/// Bound: earlier sends examined.
pub(crate) const NOT_LONG_SPANS: usize = 32;
/// Bound: spans held while looking for one that may not come.
pub(crate) const LOOK_AHEAD_SPANS: usize = 1 << 20;
/// A thread that computes for more than one part in this many of its pause does more than poll. Instead: why a thread sleeps (the timer's
/// call).
pub(crate) const POLL_WORK_PART: i64 = 8;
/// Bound: waits with stacks: as many as a recorder takes.
pub(crate) const MOST_STACKED: usize = 1 << 20;

// holes.rs

/// A running thread is sampled about every ms: without a sample for this long it did not run, or the machine stood still. Instead: every
/// switch of the thread.
pub(crate) const HOLE_NS: i64 = 20_000_000;

// observation.rs

/// Bound: bins of the wall time in which slack is computed.
pub(crate) const BUSY_BINS: usize = 8192;

// on_wire.rs

/// Multiple of the usual pace from which an interval is a pause and a burst rather than a slow burst: between the noise of a steady
/// interval (a fifth) and twice as long, where pause and burst are equal. Instead: a point at both ends of each pause.
pub(crate) const SLOWER: f64 = 1.5;
/// Length from which recorders emit both ends of a pause; a shorter pause is part of its burst. Instead: recorders that emit shorter ones.
pub(crate) const GRAIN_NS: i64 = 100_000;
/// Points closer than this are one point: the resolution of recorders' time stamps. Instead: nothing: a fact.
pub(crate) const POINTS_APART_NS: i64 = 1_000;

// overlap.rs

/// Bound: intervals open simultaneously.
pub(crate) const MOST_OPEN: usize = 1 << 16;

// quantile.rs

/// Bound: buckets: powers of two, in eighths.
pub(crate) const BUCKETS: usize = 64 * 8;

// wire.rs

/// The transit of a smaller message is latency: TCP's first window is 14 KiB and its usual receive window 64 KiB, so less fills no path.
/// Instead: the bytes in flight at the time.
pub(crate) const SMALL_BYTES: u64 = 64 << 10;
/// A wait for an answer is one for the request to arrive if, for this part of it, bytes of the request were unacknowledged. The kernel counts
/// in ticks of up to 10 ms. Instead: the answering end.
pub(crate) const ASKS_PART: f64 = 0.75;
/// A congestion window that limits, and was never reduced, doubles with each round trip: it grows among this many readings, if they span some
/// round trips. Instead: TCP's own time limited by it.
pub(crate) const GREW_READINGS: usize = 4;
/// Shorter round trips are within one machine or rack, where processors, not a path, make them longer. Instead: whether the peer's address
/// is in the same network.
pub(crate) const LEAST_PATH_US: i64 = 500;
/// Smoothed round trips from this length on say nothing of a machine's connection with itself: delayed acknowledgements and late processors
/// cause them. Instead: the least round trip, in recordings that have it.
pub(crate) const LATE_US: i64 = 1_000;
/// A window probe is sent within half of the least retransmission timeout (200 ms) after the window closed. Instead: TCP's own probe
/// counter.
pub(crate) const PROBE_AFTER_NS: i64 = 100_000_000;
/// Two ticks of 10 ms, the unit in which the kernel counts what limits a sender. Instead: nothing: a fact.
pub(crate) const TICKS_NS: i64 = 20_000_000;
/// More than a program hands to a socket at a time. Instead: the unsent bytes at each wait.
pub(crate) const HANDED_BYTES: i64 = 4 << 20;
/// Loopback's round trips are shorter even on a busy machine; longer ones are artificial (netem, a tunnel). Instead: the queueing
/// discipline of the path.
pub(crate) const SLOW_PATH_US: i64 = 2_000;
/// A window is reduced after a loss within this many acknowledgements: a few round trips. Instead: TCP's own slow start threshold.
pub(crate) const REDUCED_WITHIN: usize = 64;
/// A window has recovered from a loss at this many twentieths of its former size. Instead: TCP's own congestion state.
pub(crate) const RECOVERED_TWENTIETHS: i64 = 19;
/// A window that has not grown in this many round trips is constant: slow start would have grown it sixteenfold. Instead: as above.
pub(crate) const STANDS_ROUND_TRIPS: i64 = 4;
/// A round trip of this many halves of the least one includes a queue; acknowledgements alone vary by less. Instead: the queue's own
/// length.
pub(crate) const QUEUE_HALVES: i64 = 3;
/// A queue with fewer bytes (eleven segments) drops nothing; acknowledgements are delayed by two segments. Instead: the queue's own length.
pub(crate) const QUEUED_BYTES: i64 = 16 << 10;
/// A window or buffer at this many tenths of its widest no longer grows. Instead: the limit set (tcp_rmem, SO_SNDBUF).
pub(crate) const STANDS_TENTHS: i64 = 8;
/// Part of the time from which what limited TCP is the limit. Instead: nothing: it is the larger part.
pub(crate) const LIMITED_PART: f64 = 0.5;
/// Nanoseconds per microsecond of round trip for which a reading of bytes in flight is valid: 1.2 round trips. Instead: a sample at each
/// wait.
pub(crate) const IN_FLIGHT_NS_PER_US: i64 = 1200;
/// A window or buffer is full at this many tenths: the rest is less than a segment each way. Instead: TCP's own count of time limited by
/// it.
pub(crate) const FILLED_TENTHS: i64 = 9;
/// A congestion window is full at this many tenths: it is counted in segments and moves with each acknowledgement. Instead: TCP's own count
/// of time limited by it.
pub(crate) const CWND_TENTHS: i64 = 8;
/// Nanoseconds per microsecond of round trip up to which a transit is latency: 1.5 round trips. Instead: the queue's own length.
pub(crate) const TRANSIT_NS_PER_US: i64 = 1500;
/// Nanoseconds per microsecond of round trip: three round trips, for both directions and a delayed acknowledgement. Instead: marks of
/// delayed acknowledgements.
pub(crate) const LONGEST_NS_PER_US: i64 = 3000;
/// A message within a machine is picked up within one scheduler turn. Instead: the receiver's switches.
pub(crate) const USUAL_LAG_NS: u64 = 1_000_000;
/// No link in use is slower. Instead: stops as spans of their own.
pub(crate) const STALL_BYTES_PER_S: f64 = 1_048_576.0;
/// No connection within one machine, whose round trips show no path, is slower. Instead: stops as spans of their own.
pub(crate) const STALL_WITHIN_BYTES_PER_S: f64 = 67_108_864.0;
/// A message that waits this long on one machine waits for a stopped receiver. Instead: stops as spans of their own.
pub(crate) const STALL_NS: u64 = 100_000_000;
/// Least multiple of the connection's usual wait for the same conclusion. Instead: stops as spans of their own.
pub(crate) const STALL_TIMES: u64 = 20;

// served.rs

/// Bound: last requests kept for one device: 10 MiB. Instead: nothing; the end of a longer run stands for the rest.
pub(crate) const KEPT_REQUESTS: usize = 1 << 18;
/// With fewer requests, whether they wait for each other cannot be seen. Instead: how many requests the device works on at a time.
pub(crate) const ENOUGH_REQUESTS: usize = 20;
/// Least part of the variation between successive requests that the number in flight explains on a device that takes turns: it explains
/// nothing on a device that serves all simultaneously, nearly all on one that takes turns, half if turns differ. Instead: how many requests
/// the device works on at a time.
pub(crate) const QUEUE_SHOWS: f64 = 0.2;
/// From this part of the slope of strict turns on, a request waits for others' requests: a device that serves several simultaneously also
/// slows down near its maximum. Instead: how many requests the device works on at a time.
pub(crate) const IN_TURNS: f64 = 0.5;
/// On a device that serves many simultaneously, the number in flight explains less than this part of what turns would, with two standard
/// errors. Instead: how many requests the device works on at a time.
pub(crate) const AT_ONCE: f64 = 0.25;

// observation.rs

/// A device at work for this part of a wait is what the wait was for: others' work rarely fills half of exactly those times. Instead: which
/// requests a call caused.
pub(crate) const BEHIND_PART: f64 = 0.5;

// spins.rs

/// Computing from this part of the run on is checked for spinning. Instead: nothing: it saves a second walk.
pub(crate) const SPINS_PART: f64 = 0.1;
/// Requests in flight for this part of the run left no time for anything else. Instead: which memory a thread polls.
pub(crate) const QUIET_PART: f64 = 0.8;
/// A process that ran for more than this multiple of the time had several threads at work. Instead: as above.
pub(crate) const RUNS_ALONE: f64 = 1.6;
/// Fewer device requests form no loop. Instead: nothing: a median of fewer means little.
pub(crate) const MANY_REQUESTS: usize = 200;
/// A request that follows within this part of a request's length was made as soon as the previous one finished. Instead: completions as
/// programs see them.
pub(crate) const FOLLOWS_AT_ONCE: f64 = 0.2;
/// A thread blocked in file calls for this part of the device's busy time waits in them. Instead: which request each call was for.
pub(crate) const BLOCKED_MEANWHILE: f64 = 0.5;
/// A process that made requests itself in a larger part of the stretches may have caused the answers. Instead: what a server answered for.
pub(crate) const ASKS_MEANWHILE: f64 = 0.2;
/// A thread that ran or queued for this part of the time in which requests were in flight waited by running. Instead: as above.
pub(crate) const RUNS_MEANWHILE: f64 = 0.9;

// holds.rs

/// A shorter wait ends before a lock has passed from one thread to the next. Instead: which memory a thread polls.
pub(crate) const LONG_HOLD_NS: i64 = 1_000_000;
/// Bound: long waits kept; beyond it, no spinning for locks is reported.
pub(crate) const MOST_HOLDS: usize = 200_000;
/// A thread that waited for others for a larger part of the run is paced by what it waited for. Instead: as above.
pub(crate) const WAITS_FOR_OTHERS: f64 = 0.02;
/// Threads whose running adds up to more than this multiple of the run had more than one processor. Instead: as above.
pub(crate) const RAN_BESIDE: f64 = 1.2;
/// Chance must lead to at least this many simultaneous waits; of fewer, seeing none proves nothing. Instead: as above.
pub(crate) const EXPECTED_TOGETHER: f64 = 20.0;
/// Threads that wait simultaneously for at most this part of what chance would give pass a lock between them. Instead: as above.
pub(crate) const SELDOM_TOGETHER: f64 = 0.1;
/// Least number of turns; fewer are phases of a run. Instead: nothing: wording only.
pub(crate) const MANY_TURNS: usize = 32;

// attempts.rs

/// Bound: objects on which calls failed, kept with their errors.
pub(crate) const MOST_ATTEMPTED: usize = 1 << 14;

// children.rs

/// Bound: children that threads poll for.
pub(crate) const MOST_CHILDREN: usize = 1 << 12;
/// Polls that follow each other faster leave no time for work in between. Instead: what a thread computes between two polls.
pub(crate) const FAST_LOOK_NS: i64 = 200_000;
/// With fewer polls, their pace cannot be seen. Instead: as above.
pub(crate) const MANY_LOOKS: u64 = 200;

// try_locks.rs

/// Fewer samples of a thread trying for a lock are chance. Instead: which memory a thread polls.
pub(crate) const MANY_TRIES: usize = 100;
/// A thread found trying in this part of its samples spends the rest in the loop around it. Instead: as above.
pub(crate) const TRIES_PART: f64 = 0.5;

// locks.rs

/// Bound: waits on locks kept; beyond it, no lock queue is reported.
pub(crate) const MOST_LOCK_WAITS: usize = 1 << 18;
/// Stretches in which a thread held what others waited for may add up to at most this multiple of the time they cover, if there is one
/// holder at a time. Instead: which futex was waited on.
pub(crate) const HELD_BY_ONE: f64 = 1.1;
/// With fewer stretches, whether threads take turns cannot be seen. Instead: as above.
pub(crate) const HANDED_ON: usize = 8;
/// Least number of stretches for a lock on a file, which is certainly a lock. Instead: nothing: wording only.
pub(crate) const HANDED_ON_FILE: usize = 3;
/// A cause with this part in such stretches is what the lock was held across. Instead: what was done under which lock.
pub(crate) const HELD_MEANWHILE: f64 = 0.75;
/// Part of the stretches, and of the waiters' time, in which the path must come to the holder. Instead: as above.
pub(crate) const HELD_ON_PATH: f64 = 0.75;
/// A task that releases a mutex has run on its thread for this long before, if it held the mutex for as long. Instead: the runtime's scheduling of tasks.
pub(crate) const LETS_GO_NS: i64 = 100_000;
/// A sleep or an answer that took this share of a stretch may be what the task held the mutex for. Instead: which task slept.
pub(crate) const MOST_OF_A_HOLD: f64 = 0.5;
/// ... if the two end within this share of the stretch. Instead: as above.
pub(crate) const ENDS_WITH: f64 = 0.1;

// task_locks.rs

/// Readers that were woken have run after this time. Instead: a mark when a task runs again.
pub(crate) const RUNS_WITHIN_NS: i64 = 1_000_000;
/// If more than this share of the releases woke tasks not seen to wait, the number of waiters is unknown. Instead: the runtime's own list of tasks.
pub(crate) const UNSEEN_TASKS: f64 = 0.2;

// turns.rs

/// Bound: waits kept to see whether two threads ran simultaneously; beyond it, no turns are reported.
pub(crate) const MOST_TURNS: usize = 1 << 19;
/// A shorter wait may be for a moment in which the other thread has the pipe. Instead: what was written and read, and when.
pub(crate) const LONG_TURN_NS: i64 = 50_000;
/// With fewer waits, each with a processor of its own, whether two threads take turns cannot be seen. Instead: as above.
pub(crate) const MANY_LONG_TURNS: u64 = 16;
/// Threads that ran simultaneously for at most this part of what they waited for each other take turns. Instead: as above.
pub(crate) const RAN_AT_ONCE: f64 = 0.1;
/// A smaller share of queueing by threads that take turns is not examined. Instead: nothing: it saves a second walk.
pub(crate) const HANDED_OVER_PART: f64 = 0.02;

// pipes.rs, two of them

/// Requests and answers whose counts agree to this part belong together. Instead: what was written and read, and when.
pub(crate) const AS_MANY_BACK: f64 = 0.9;
/// If one of two programs waits for the other for this part of the time, no request is sent ahead. Instead: as above.
pub(crate) const ONE_WAITS: f64 = 0.75;
/// Requests that last for this part of the run are what it is about. Instead: nothing: wording only.
pub(crate) const ASKED_PART: f64 = 0.5;

// sustained.rs

/// Bound on the parts of the run in which arrivals are counted, each at least as long as recorders' counting interval. Instead: every
/// packet.
pub(crate) const SUSTAINED_BINS: i64 = 4_096;
/// Interval at which recorders count arrivals while they continue. Instead: every packet.
pub(crate) const SUSTAINED_GRAIN_NS: i64 = 1_000_000;
/// Least average bytes per part. Instead: every packet.
pub(crate) const SUSTAINED_BYTES: u64 = 64 << 10;
/// With arrivals in fewer parts, no rate is sustained. Instead: nothing: a median of fewer means nothing.
pub(crate) const SUSTAINED_LEAST: usize = 16;

// last_connections.rs

/// Bound: failed connections examined. Instead: nothing; the last one has the reason.
pub(crate) const MOST_REFUSED: usize = 8;
