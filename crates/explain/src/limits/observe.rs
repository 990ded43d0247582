//! What is gathered from spans and from TCP's counters.

// asking.rs

/// Bound: servers whose questions are counted one by one.
pub(crate) const MOST_SERVERS: usize = 256;
/// Of fewer answers than this nothing is concluded. A median of fewer says nothing. Instead: nothing; a count with its own interval.
pub(crate) const FEWEST_ANSWERS: u64 = 8;
/// So many times larger than the others an answer must be to show what bytes cost. From here on the difference in time is that of the
/// bytes, not of noise. Instead: the server's time for each request.
pub(crate) const MUCH_LARGER: f64 = 4.0;

// channels.rs

/// Spans that carry less than this are headers and acknowledgements, not payload. Headers, acknowledgements and most requests of RPC
/// protocols are smaller, blocks of data larger. Instead: which bytes of a message are payload.
pub(crate) const PAYLOAD_BYTES: u64 = 512;
/// Idle intervals shorter than this are never gaps. Calls themselves lie so far apart. Instead: when bytes crossed the wire (TCP's
/// counters).
pub(crate) const LEAST_GAP_NS: i64 = 20_000;
/// Bound: idle intervals of one channel.
pub(crate) const KEPT_INTERVALS: usize = 1 << 16;
/// How far apart the two groups' mean logarithms must be: a factor of four. The logarithm of four: Otsu splits any set in two, and closer
/// means are one group. Instead: when bytes crossed the wire.
pub(crate) const GROUPS_APART: f64 = 1.386;
/// A distance between gaps is the period, or its double or triple, within a tenth. Instead: the program's buffer size.
pub(crate) const PERIOD_NEAR: f64 = 0.1;
/// There is a period where so many tenths of the distances are it. Instead: the program's buffer size.
pub(crate) const PERIOD_TENTHS: usize = 7;
/// Fewer gaps have no period. Instead: the program's buffer size.
pub(crate) const FEWEST_GAPS: usize = 4;

// quantile.rs

/// Sleeps of less than an eighth of the longest are of another kind: the end of a timer, a wait for a thread to end. Instead: why a thread sleeps (the
/// timer's call).
pub(crate) const SHORT_PART: u64 = 8;
/// They are left out of what is said of the others where they have a fiftieth of the time or less. Instead: nothing; a mean is of what is alike.
pub(crate) const NEXT_TO_NONE_PART: u64 = 50;

// curve.rs

/// A rate is steady over a sixteenth of the transfer. Instead: nothing; phases are for the eye.
pub(crate) const STEADY_WINDOW: usize = 16;
/// A ramp ends, and a drain begins, at this part of the mean rate. Instead: nothing; phases are for the eye.
pub(crate) const STEADY_PART: f64 = 0.8;

// exchanges.rs

/// Bound: connections of which turns are counted one by one.
pub(crate) const MOST_CONNECTIONS: usize = 1 << 14;
/// Bound: questions of one end that are held to count how many were under way. Of more, nothing is said of that.
pub(crate) const MOST_QUESTIONS: usize = 1 << 18;
/// Bound: pairs of threads that wait for each other at pipes.
pub(crate) const MOST_PIPES: usize = 1 << 12;
/// Bound: arrivals within one round trip.
pub(crate) const MOST_ARRIVALS: usize = 1 << 14;
/// A turn takes a round trip where it takes this part of the least one: it is measured by TCP, which rounds. Instead: nothing; measured.
pub(crate) const LONG_TURN: f64 = 0.85;

// roles.rs

/// Bound: how far back it is asked who made a process. A process number that was used twice may close a circle.
pub(crate) const MOST_GENERATIONS: usize = 64;
/// Bound: processes at one end of a connection. More than a handful share none.
pub(crate) const MOST_PARTIES: usize = 64;

// feed.rs

/// Bound: looks of a thread that are kept once the path is past them.
pub(crate) const NEXT_LOOKS: usize = 32;
/// Bound: sends kept that began after the cursor; one can be stamped after the receive that it led to.
pub(crate) const LATE_STAMPS: usize = 4;
/// Bound: sends kept for one that is under way for long.
pub(crate) const MANY_SENDS: usize = 4096;
/// Bound: earlier sends that are looked through.
pub(crate) const NOT_LONG_SPANS: usize = 32;
/// Bound: spans held while something is looked for that may not come.
pub(crate) const LOOK_AHEAD_SPANS: usize = 1 << 20;
/// Who computes for longer than an eighth of its pause does more than poll. Instead: why a thread sleeps (the timer's call).
pub(crate) const POLL_WORK_PART: i64 = 8;
/// Bound: waits with stacks, as many as a recorder takes at most.
pub(crate) const MOST_STACKED: usize = 1 << 20;

// holes.rs

/// A running thread is sampled about each ms: one that is not for 20 did not run, or its machine stood still. Instead: every switch of the
/// thread.
pub(crate) const HOLE_NS: i64 = 20_000_000;

// observation.rs

/// Bound: bins of the wall time in which slack is computed.
pub(crate) const BUSY_BINS: usize = 8192;

// on_wire.rs

/// An interval is pause and burst, not one slow burst, from so many times the usual pace on. Between the pace of a steady interval (noise
/// of a fifth) and twice as long, where as much pause as burst is in it. Instead: a point at both ends of each pause.
pub(crate) const SLOWER: f64 = 1.5;
/// From which length on recorders emit both ends of a pause: a shorter one is part of its burst. The recorders' own: from here on they emit
/// both ends of a pause. Instead: recorders that emit shorter ones.
pub(crate) const GRAIN_NS: i64 = 100_000;
/// Two points at almost one instant are one point. The grain of the recorders' stamps. Instead: nothing; it is a fact.
pub(crate) const POINTS_APART_NS: i64 = 1_000;

// overlap.rs

/// Bound: intervals under way at once.
pub(crate) const MOST_OPEN: usize = 1 << 16;

// quantile.rs

/// Bound: powers of two, in eighths.
pub(crate) const BUCKETS: usize = 64 * 8;

// wire.rs

/// A message with less than this many bytes has nothing to fill a path with: its transit is latency. TCP's first window is 14 KiB and its
/// usual receive window 64 KiB: less than that fills no path. Instead: the bytes in flight at the time.
pub(crate) const SMALL_BYTES: u64 = 64 << 10;
/// Round trips below this are a machine's own; its processors, not a path, make them longer. Round trips in one machine or rack are
/// shorter, and processors, not a path, make them longer. Instead: whether the peer's address is in the same network.
pub(crate) const LEAST_PATH_US: i64 = 500;
/// A smoothed round trip from here on is no machine's own with itself: delayed acknowledgements and late processors make it so long. Instead: the least round
/// trip, in recordings that have it.
pub(crate) const LATE_US: i64 = 1_000;
/// A window probe is sent within half of the least retransmission timeout (200 ms) after the window closed. Instead: TCP's own probe
/// counter.
pub(crate) const PROBE_AFTER_NS: i64 = 100_000_000;
/// Two ticks of 10 ms, in which the kernel counts what limits a sender. Instead: nothing; it is a fact.
pub(crate) const TICKS_NS: i64 = 20_000_000;
/// More than a program hands to a socket at a time. Instead: the unsent bytes at each wait.
pub(crate) const HANDED_BYTES: i64 = 4 << 20;
/// Loopback's round trips are shorter even on a busy machine; longer ones are made (netem, a tunnel). Instead: the queueing discipline of
/// the path.
pub(crate) const SLOW_PATH_US: i64 = 2_000;
/// A window is reduced for a loss within a few round trips of acknowledgements. Instead: TCP's own slow start threshold.
pub(crate) const REDUCED_WITHIN: usize = 64;
/// A window has recovered from a loss at so many twentieths of what it was. Instead: TCP's own congestion state.
pub(crate) const RECOVERED_TWENTIETHS: i64 = 19;
/// A window that has not grown in this many round trips stands: slow start would have made it sixteen times as wide. Instead: as above.
pub(crate) const STANDS_ROUND_TRIPS: i64 = 4;
/// A round trip of so many halves of its least lies in a queue; acknowledgements alone vary by less. Instead: the queue's own length.
pub(crate) const QUEUE_HALVES: i64 = 3;
/// No queue is dropped from that holds less: eleven segments. Acknowledgements are delayed by two. Instead: the queue's own length.
pub(crate) const QUEUED_BYTES: i64 = 16 << 10;
/// A window or buffer within so many tenths of its widest does not grow any more. Instead: the limit set (tcp_rmem, SO_SNDBUF).
pub(crate) const STANDS_TENTHS: i64 = 8;
/// What limited TCP for half the time is what limited it. Instead: nothing; it is the larger part.
pub(crate) const LIMITED_PART: f64 = 0.5;
/// In flight is what was so within 1.2 round trips. Instead: a sample at each wait.
pub(crate) const IN_FLIGHT_NS_PER_US: i64 = 1200;
/// A window or buffer is full at so many tenths: the rest is less than a segment each way. Instead: TCP's own count of time limited by it.
pub(crate) const FILLED_TENTHS: i64 = 9;
/// A congestion window is full at so many tenths: it is counted in segments, and moves with each acknowledgement. Instead: TCP's own count
/// of time limited by it.
pub(crate) const CWND_TENTHS: i64 = 8;
/// A transit within one and a half round trips is latency. Instead: the queue's own length.
pub(crate) const TRANSIT_NS_PER_US: i64 = 1500;
/// Three round trips: there, back, and a delayed acknowledgement of a path. Instead: marks of delayed acknowledgements.
pub(crate) const LONGEST_NS_PER_US: i64 = 3000;
/// A message within a machine is picked up within a turn of the scheduler. Instead: the receiver's switches.
pub(crate) const USUAL_LAG_NS: u64 = 1_000_000;
/// No link in use is slower. Instead: stops as spans of their own.
pub(crate) const STALL_BYTES_PER_S: f64 = 1_048_576.0;
/// Nor is a connection within one machine, whose round trips show no path, as slow as this. Instead: stops as spans of their own.
pub(crate) const STALL_WITHIN_BYTES_PER_S: f64 = 67_108_864.0;
/// A message that waits for so long on one machine waits for a receiver that stands still. Instead: stops as spans of their own.
pub(crate) const STALL_NS: u64 = 100_000_000;
/// And for so many times what is usual on its connection. Instead: stops as spans of their own.
pub(crate) const STALL_TIMES: u64 = 20;

// served.rs

/// Bound: requests of one device that are kept, the last ones: 10 MiB. Instead: nothing; what a longer run's end shows stands for the rest.
pub(crate) const KEPT_REQUESTS: usize = 1 << 18;
/// Of fewer requests it does not show whether they wait for each other. Instead: how many requests the device works on at a time.
pub(crate) const ENOUGH_REQUESTS: usize = 20;
/// What was under way explains so much of how requests differ from the ones before: of a device that serves them all at once it explains nothing, of one
/// that takes turns nearly all, and half of it where turns are not alike. Instead: how many requests the device works on at a time.
pub(crate) const QUEUE_SHOWS: f64 = 0.2;
/// A device that serves several requests at a time takes longer for each, too, near what it gives at most; from half of what taking turns would make
/// of it, what others ask for is what a request waits for. Instead: how many requests the device works on at a time.
pub(crate) const IN_TURNS: f64 = 0.5;
/// Of a device that serves many at a time what is under way explains less than a quarter of what turns would, with two standard errors. Instead: how many
/// requests the device works on at a time.
pub(crate) const AT_ONCE: f64 = 0.25;

// observation.rs

/// A device that was at work for half of a wait is what it was for. Others' work rarely fills half of just those times. Instead: which requests a call
/// set off.
pub(crate) const BEHIND_PART: f64 = 0.5;

// spins.rs

/// From this part of the run on, computing is worth asking what it was for. Instead: nothing; it saves a second walk.
pub(crate) const SPINS_PART: f64 = 0.1;
/// Questions that were under way for this part of the run left no time for anything else. Instead: which memory a thread looks at.
pub(crate) const QUIET_PART: f64 = 0.8;
/// A process that ran for more than this many times as long had several threads at work. Instead: as above.
pub(crate) const RUNS_ALONE: f64 = 1.6;
/// Fewer requests to a device than this are no loop of them. Instead: nothing; a median of fewer says little.
pub(crate) const MANY_REQUESTS: usize = 200;
/// Requests that follow the last by this part of what one takes, or less, are made as soon as that is done. Instead: completions as programs see them.
pub(crate) const FOLLOWS_AT_ONCE: f64 = 0.2;
/// A thread that was blocked in calls on files for this part of the time in which a device worked for it waits in them. Instead: which request each call was for.
pub(crate) const BLOCKED_MEANWHILE: f64 = 0.5;
/// A process that asked something itself in more of the stretches than this may have brought the answers about. Instead: what a server answered for.
pub(crate) const ASKS_MEANWHILE: f64 = 0.2;
/// A thread that ran, or queued, for this part of the time in which questions were under way waited by running. Instead: as above.
pub(crate) const RUNS_MEANWHILE: f64 = 0.9;

// holds.rs

/// A wait that is shorter is over before a lock has gone from one to the next. Instead: which memory a thread looks at.
pub(crate) const LONG_HOLD_NS: i64 = 1_000_000;
/// Bound: long waits that are kept; of more nothing is said.
pub(crate) const MOST_HOLDS: usize = 200_000;
/// A thread that waited for others for a larger part of the run than this is let through by what it waited for. Instead: as above.
pub(crate) const WAITS_FOR_OTHERS: f64 = 0.02;
/// Threads whose running adds up to more than this many times the run had more than one processor. Instead: as above.
pub(crate) const RAN_BESIDE: f64 = 1.2;
/// Chance must lead to at least this many simultaneous waits; of fewer, seeing none proves nothing. Instead: as above.
pub(crate) const EXPECTED_TOGETHER: f64 = 20.0;
/// Threads that wait at the same time for this part of what chance would have them let one through at a time. Instead: as above.
pub(crate) const SELDOM_TOGETHER: f64 = 0.1;
/// They take turns so often at the least; fewer are phases of a run. Instead: nothing; it is wording.
pub(crate) const MANY_TURNS: usize = 32;

// attempts.rs

/// Bound: objects on which calls failed, by their errors.
pub(crate) const MOST_ATTEMPTED: usize = 1 << 14;

// children.rs

/// Bound: children that threads look for.
pub(crate) const MOST_CHILDREN: usize = 1 << 12;
/// Looks that follow each other faster than this leave no time for work that is worth looking in between. Instead: what a thread computes between two looks.
pub(crate) const FAST_LOOK_NS: i64 = 200_000;
/// Of fewer looks it does not show how fast they follow each other. Instead: as above.
pub(crate) const MANY_LOOKS: u64 = 200;

// try_locks.rs

/// Fewer samples that found a thread trying for a lock are chance. Instead: which memory a thread looks at.
pub(crate) const MANY_TRIES: usize = 100;
/// Of a thread that was found trying in this part of its samples, the rest is the loop around it. Instead: as above.
pub(crate) const TRIES_PART: f64 = 0.5;

// locks.rs

/// Bound: waits on locks that are kept; of more nothing is said.
pub(crate) const MOST_LOCK_WAITS: usize = 1 << 18;
/// Stretches in which one thread had what others waited for overlap by less than this where it is one at a time. Instead: which futex was waited on.
pub(crate) const HELD_BY_ONE: f64 = 1.1;
/// Of fewer stretches it does not show whether threads take turns. Instead: as above.
pub(crate) const HANDED_ON: usize = 8;
/// And of a lock on a file, which is one whatever is done under it. Instead: nothing; it is wording.
pub(crate) const HANDED_ON_FILE: usize = 3;
/// A cause of which this part lay in such stretches is what the lock was held across. Instead: what was done under which lock.
pub(crate) const HELD_MEANWHILE: f64 = 0.75;
/// The path came to who had it in this part of the stretches, and with this part of the time of all who waited for it. Instead: as above.
pub(crate) const HELD_ON_PATH: f64 = 0.75;
/// A task that lets another go on was on its thread for this long before, if it had the mutex for as long. Instead: where the runtime's scheduler puts tasks.
pub(crate) const LETS_GO_NS: i64 = 100_000;
/// A stretch in which a task had a mutex ends with a sleep or an answer that took this part of the stretch, where the two ends are no more than the second part of
/// the stretch apart. Instead: as above.
pub(crate) const MOST_OF_A_HOLD: f64 = 0.5;
pub(crate) const ENDS_WITH: f64 = 0.1;

// task_locks.rs

/// Readers that were let go on have run after this time. Instead: a mark when a task has gone on.
pub(crate) const RUNS_WITHIN_NS: i64 = 1_000_000;
/// Where more of the releases than this let tasks go on that were not seen to wait, it is not known how many wait. Instead: the runtime's own list of tasks.
pub(crate) const UNSEEN_TASKS: f64 = 0.2;

// turns.rs

/// Bound: waits that are kept to see whether two threads ran at once; of more nothing is said.
pub(crate) const MOST_TURNS: usize = 1 << 19;
/// A wait that is shorter may be for a moment in which the other has its pipe. Instead: what was written and read, and when.
pub(crate) const LONG_TURN_NS: i64 = 50_000;
/// Of fewer waits with a processor each it does not show whether two take turns. Instead: as above.
pub(crate) const MANY_LONG_TURNS: u64 = 16;
/// Threads that ran at once for this part of what they waited for each other compute in turn. Instead: as above.
pub(crate) const RAN_AT_ONCE: f64 = 0.1;
/// Queueing of those that take turns that is less of a run is not looked at. Instead: nothing; it saves a second walk.
pub(crate) const HANDED_OVER_PART: f64 = 0.02;

// pipes.rs, two of them

/// Answers and questions that are waited for this nearly as often belong to each other. Instead: what was written and read, and when.
pub(crate) const AS_MANY_BACK: f64 = 0.9;
/// Where one of two waits for the other for this part of the time, no question is asked ahead. Instead: as above.
pub(crate) const ONE_WAITS: f64 = 0.75;
/// Questions that go on for this part of the run are what it is about. Instead: nothing; it is wording.
pub(crate) const ASKED_PART: f64 = 0.5;

// sustained.rs

/// What arrived is looked at in so many parts of the run at the most, each at least as long as recorders count. Instead: every packet.
pub(crate) const SUSTAINED_BINS: i64 = 4_096;
/// Recorders count arrivals once in this time while they go on. Instead: every packet.
pub(crate) const SUSTAINED_GRAIN_NS: i64 = 1_000_000;
/// Each part holds at least this many bytes on average. Instead: every packet.
pub(crate) const SUSTAINED_BYTES: u64 = 64 << 10;
/// In fewer parts with arrivals nothing is sustained. Instead: nothing; a median of fewer says nothing.
pub(crate) const SUSTAINED_LEAST: usize = 16;

// last_connections.rs

/// Bound: so many connections that did not come about are looked at. Instead: nothing; the last says why.
pub(crate) const MOST_REFUSED: usize = 8;
