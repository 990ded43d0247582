//! Thresholds for the number behind the rate.

// mod.rs

/// A cause has a number behind it only from this share of the wall time on. Instead: nothing: wording only.
pub(crate) const LEAST_SHARE: f64 = 0.25;
/// A cause with this part of the time also has what is done between its waits. Instead: the purpose of each wait.
pub(crate) const NEARLY_ALL: f64 = 0.75;
/// Factor by which requests in flight are raised where they are the limit. Instead: how many the other side accepts.
pub(crate) const MORE_AT_ONCE: u64 = 4;
/// A ratio this close to a whole number counts as whole: it includes what a program does before and after. Instead: which calls were for
/// which item.
pub(crate) const NEARLY_WHOLE: f64 = 0.1;
/// Two counts this close are of the same things. Instead: which calls were for which item.
pub(crate) const AS_MANY: f64 = 0.9;

// lookups.rs

/// A question given up after no longer than this already had the shortest timeout, 1 s. Instead: `options` of /etc/resolv.conf.
pub(crate) const SHORTEST_TIMEOUT_S: f64 = 1.2;
/// Bound: names printed per outcome.
pub(crate) const NAMES_SHOWN: usize = 3;
/// A second server is named when it took this part of the first one's time. Instead: nothing: wording only.
pub(crate) const SECOND_SERVER: f64 = 0.2;

// held.rs

/// Least part of a server's work done for other clients that matters. Instead: what each request at the server took, and waited for.
pub(crate) const FOR_OTHERS: f64 = 0.3;
/// Least part of the run that this work must take. Instead: as above.
pub(crate) const FOR_OTHERS_OF_RUN: f64 = 0.1;
/// Computing with this part in fsync(2) or synchronous writes belongs to the syncs. Instead: nothing: wording only.
pub(crate) const MOSTLY_SYNC: f64 = 0.5;
/// Least number of waiters for a queue: two or three threads that wake each other may just pass work on. Instead: which futex was waited
/// on.
pub(crate) const SEVERAL_WAIT: u64 = 3;
/// In a queue for a lock every thread holds it about equally long, within this factor; in a pool, the thread that hands out work or wakes
/// idle threads holds it longest. Instead: as above.
pub(crate) const FAIR_PART: f64 = 2.0;

// amount.rs

/// Ratio of bytes moved to file size from which bytes were moved more than once. Instead: offsets of all calls.
pub(crate) const TIMES_OVER: f64 = 2.0 - NEARLY_WHOLE;
/// From this ratio on, the decimal is dropped. Instead: nothing: wording only.
pub(crate) const WHOLE_TIMES: f64 = 10.0;
/// A file with this part of all bytes read or written is what the run was about. Instead: which call moved which bytes.
pub(crate) const MOST_OF_ALL: f64 = 0.6;
/// Assumed size of an opened file that was not seen to move bytes, which then were not moved again. Instead: the bytes of each file.
pub(crate) const UNSEEN_FILE_BYTES: u64 = 256 << 10;
/// Bytes of a file that was written, then read and written to another file are the same if the amounts agree to this part. Instead: the
/// contents.
pub(crate) const COPIED: f64 = 0.95;
/// Least part of all bytes written that such a copy must have. Instead: nothing: wording only.
pub(crate) const COPIED_PART: f64 = 0.3;
/// Fewer repeated bytes explain nothing. Instead: nothing: wording only.
pub(crate) const LEAST_AGAIN_BYTES: u64 = 4 << 20;
/// A smaller body is an answer that may differ each time. Instead: its contents, or its header (`ETag`).
pub(crate) const LEAST_CONTENT_BYTES: u64 = 16 << 10;
/// Bodies whose sizes agree to this part are the same: headers differ by a few characters. Instead: as above.
pub(crate) const SAME_SIZE: f64 = 0.99;
/// From this part of the time on, the number of requests decides, not their bytes. Instead: how long each answer's bytes took.
pub(crate) const MOSTLY_BY_REQUEST: f64 = 0.5;

// round_trips.rs

/// Fewer turns allow no conclusion. Instead: nothing: a median of fewer means nothing.
pub(crate) const LEAST_TURNS: u64 = 10;
/// With this part of the turns a round trip long, one request was in flight at a time. The rest is the start of a session: banners,
/// handshakes, answers in two parts. Instead: which answer belongs to which request.
pub(crate) const ONE_AT_A_TIME: f64 = 0.85;
/// Least part of the connections' used time that turns must explain. Instead: which answer belongs to which request.
pub(crate) const TURNS_EXPLAIN: f64 = 0.33;
/// Connections were used one after the other if their times add up to at most this multiple of the time in which any was used. Instead:
/// nothing: wording only.
pub(crate) const IN_TURN: f64 = 1.3;
/// From this number on, there is one connection per item. Instead: what was asked for on each.
pub(crate) const MANY_CONNECTIONS: u64 = 10;
/// With more turns per connection, its setup hardly matters. Instead: when the first request was sent on each.
pub(crate) const TURNS_TO_SET_UP: f64 = 12.0;
/// A connection with at most this many turns and [`FEW_BYTES`] was for one thing: a handshake, a request and its answer. Instead: what was
/// requested.
pub(crate) const FEW_TURNS: u64 = 5;
/// A connection of few turns carries at most this number of bytes. Instead: what was requested.
pub(crate) const FEW_BYTES: u64 = 64 << 10;
/// Connections in use for this part of the run are what it was about. Instead: what was requested on each.
pub(crate) const CONNECTIONS_EXPLAIN: f64 = 0.5;
/// Delayed small segments explain time in transit from this part on. Instead: nothing: wording only.
pub(crate) const HELD_BACK_PART: f64 = 0.5;
/// From this part on, delayed segments are said to be all of it; below, a part. Instead: nothing: wording only.
pub(crate) const HELD_BACK_ALL: f64 = 0.85;
/// A thread that gave this part of the answers is taken to give all of them. Instead: which thread took each request.
pub(crate) const ALONE_ANSWERS: f64 = 0.95;
/// From this size on, a request's size is printed. Instead: nothing: wording only.
pub(crate) const LARGE_REQUEST: u64 = 4 << 10;
/// A connection that takes this multiple of its turns' time has further round trips (slow start). Instead: how often its sender waited for
/// the window.
pub(crate) const MORE_TRIPS: f64 = 1.25;

// in_flight.rs

/// With less in flight there were messages, and no window was filled. Instead: nothing: wording only.
pub(crate) const LEAST_IN_FLIGHT: u64 = 4 << 10;
/// If nine of ten readings are within this part of a value, the value is a limit, not a peak: a growing or shared window is below its peak
/// for longer. Instead: the program's own window.
pub(crate) const CONSTANT: f64 = 0.88;
/// Part of the readings that must be; the others may be the start of a connection. Instead: as above.
pub(crate) const CONSTANT_PART: f64 = 0.9;
/// A limit is behind the rate if it allows at most this multiple of the observed rate; the rest is startup and end. Instead: the rate of
/// the steady phase alone.
pub(crate) const ALLOWS: f64 = 2.5;
/// A limit that allows this multiple of the observed rate was reached only now and then. Instead: how long it was reached.
pub(crate) const SELDOM: f64 = 1.33;
/// If the observed rate exceeds the limit by this much, it was no limit. Instead: round trips of each message.
pub(crate) const EXCEEDED: f64 = 0.85;

// items.rs

/// Fewer items have no figure per item. Instead: nothing: wording only.
pub(crate) const LEAST_ITEMS: u64 = 16;
/// Processes of one program that fill the run count as one per item from this number on. Instead: what each was started for.
pub(crate) const FEW_PROCESSES: u64 = 5;
/// One of a few processes may last this part of the run: the first fills caches for the others. Instead: what each was started for.
pub(crate) const SHORT_LIVED_OF_FEW: f64 = 0.4;
/// Bound: most nanoseconds of work per byte: compressors at their highest level manage 1 MB/s. A process that works longer on a file of its
/// own does not do so for the file's bytes.
pub(crate) const MOST_NS_PER_BYTE: u64 = 1_000;
/// Most nanoseconds per byte exchanged over a connection: a link of 1 Gb/s. Key exchange and logins go by round trips. Instead: the purpose
/// of each message.
pub(crate) const NS_PER_BYTE_EXCHANGED: u64 = 8;
/// From this share on, one sync for many is worth proposing. Instead: nothing: wording only.
pub(crate) const SYNCED_SHARE: f64 = 0.1;
/// From this size on, a sync is for data and not for a record. Instead: what was written before each.
pub(crate) const SYNCED_BYTES: u64 = 16 << 10;
/// Least number per item to count as done for each item. Instead: which calls were for which item.
pub(crate) const FOR_EACH: f64 = 0.9;
/// A process that lived for a larger part of the run did more than one of many items. Instead: what it was started for.
pub(crate) const SHORT_LIVED: f64 = 0.2;
/// Processes that lived for this part of the run, one after the other, are what it was about. Instead: what each was started for.
pub(crate) const LIVED_PART: f64 = 0.5;

// calls.rs

/// Calls of at most this size cost more than the bytes they move: copying a page takes as long as entering the kernel. Instead: nothing:
/// measured.
pub(crate) const SMALL_CALL: u64 = 4 << 10;
/// Least number of calls that are the work of a run; fewer are its startup. Instead: nothing: wording only.
pub(crate) const MANY_CALLS: u64 = 20_000;
/// Least nanoseconds to copy a byte in memory: 32 GB/s. Instead: the cost of copies on this machine.
pub(crate) const LEAST_COPY_NS: f64 = 1.0 / 32.0;
/// Calls with this part of the computing, by samples, explain it. Instead: the time of each call.
pub(crate) const IN_CALLS: f64 = 0.4;

// pool.rs

/// If the average in flight is this part of the usual number, something enforces that number: the rest is startup, end and the time between
/// requests. Instead: the program's own limit.
pub(crate) const HELD: f64 = 0.75;
/// If more are in flight for a larger part of the time, the number is no limit. Instead: the program's own limit.
pub(crate) const BEYOND: f64 = 0.05;
/// Requests in flight for this part of the run are what it waited for. Instead: nothing: wording only.
pub(crate) const ASKED_PART: f64 = 0.5;
/// If one request took this part of the time in which any was in flight, that request matters, not the number. Instead: nothing; it is
/// wording.
pub(crate) const ONE_OF_ALL: f64 = 0.5;
/// Servers that make this many requests per request of the command make several for each. Instead: which request caused which.
pub(crate) const ASKS_ON: f64 = 1.9;

/// Times that each thread of a server must be seen at work on the path before they count as all of its threads. Instead: how many threads
/// wait for requests.
pub(crate) const SEEN_AT_WORK: u64 = 8;

// disks.rs

/// Fewer disk requests allow no conclusion. Instead: nothing: a median of fewer means nothing.
pub(crate) const LEAST_REQUESTS: u64 = 50;
/// A disk that was busy for less than this part of the charged time explains nothing. Instead: nothing: wording only.
pub(crate) const DISK_EXPLAINS: f64 = 0.5;
/// At most this many in flight on average counts as one at a time. Instead: nothing: wording only.
pub(crate) const ONE_UNDER_WAY: f64 = 1.25;
/// A request alone in flight for this part of the time also counts as one at a time, despite brief bursts. Instead: nothing: wording only.
pub(crate) const ALONE_UNDER_WAY: f64 = 0.9;
/// Larger requests keep a disk at its full rate. Instead: the disk's rate by request size.
pub(crate) const SMALL_REQUEST: u64 = 64 << 10;

// processor.rs

/// A thread with this part of the computing does it alone. Instead: nothing: wording only.
pub(crate) const ALONE: f64 = 0.85;
/// If all threads ran for this multiple of the time charged to one thread, it is not one processor's work. Instead: which threads ran when.
pub(crate) const BESIDE: f64 = 1.3;
/// Processors busy with the run itself for this part of the time are its limit. Instead: nothing: wording only.
pub(crate) const ALL_BUSY: f64 = 0.85;
/// Bound: programs named with their part of the processors.
pub(crate) const NAMED: usize = 3;
/// Programs with a smaller part are not named. Instead: nothing: wording only.
pub(crate) const NAMED_PART: f64 = 0.05;
/// From this share on, computing sets the rate. Instead: nothing: wording only.
pub(crate) const COMPUTES: f64 = 0.6;
/// Fewer bytes have no meaningful rate. Instead: nothing: wording only.
pub(crate) const LEAST_BYTES: u64 = 1 << 20;

// stages.rs

/// Least share for each of two stages that take turns. Instead: nothing: wording only.
pub(crate) const STAGE_SHARE: f64 = 0.15;
/// Least number of alternations; fewer are phases of a run. Instead: nothing: wording only.
pub(crate) const LEAST_ALTERNATIONS: u64 = 16;

/// Least part of the shorter stage that overlapping must gain. Instead: nothing: wording only.
pub(crate) const OVERLAPPED: f64 = 0.25;

// questions.rs, and the first line

/// A request that takes this multiple of the median is of another kind, or had to wait. Instead: what was requested.
pub(crate) const SLOW_TIMES: f64 = 4.0;
/// If a larger part is that slow, they are not a few. Instead: as above.
pub(crate) const FEW_ARE_SLOW: f64 = 0.25;
/// If slow requests have less of the time, the mean still describes the others. Instead: nothing: wording only.
pub(crate) const SLOW_PART: f64 = 0.3;
/// With more in flight on average, the time between answers is not the time of each. Instead: nothing: wording only.
pub(crate) const MEAN_OF_ONE: f64 = 1.3;
