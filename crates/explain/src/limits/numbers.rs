//! When there is a number behind the rate.

// mod.rs

/// A cause from this share of the wall time on has a number to be found behind it. Instead: nothing; it is wording.
pub(crate) const LEAST_SHARE: f64 = 0.25;
/// A cause with this part of the time has what is done between its waits with it. Instead: what each wait was for.
pub(crate) const NEARLY_ALL: f64 = 0.75;
/// How many times as many are under way where a limit of one is raised. Instead: how many the other side takes.
pub(crate) const MORE_AT_ONCE: u64 = 4;
/// A ratio this near to a whole number is one: what a program does before and after is a part of it. Instead: which calls were for which item.
pub(crate) const NEARLY_WHOLE: f64 = 0.1;
/// Two counts this near are of the same things. Instead: which calls were for which item.
pub(crate) const AS_MANY: f64 = 0.9;

// lookups.rs

/// A question that was given up after no more than this had the shortest time limit already, a second. Instead: `options` of /etc/resolv.conf.
pub(crate) const SHORTEST_TIMEOUT_S: f64 = 1.2;
/// Bound: so many names of a kind are said.
pub(crate) const NAMES_SHOWN: usize = 3;
/// A second server is named where it took this part of what the first did. Instead: nothing; it is wording.
pub(crate) const SECOND_SERVER: f64 = 0.2;

// held.rs

/// A server of whose work others have less does not matter to a run. Instead: what each request at the server took, and waited for.
pub(crate) const FOR_OTHERS: f64 = 0.3;
/// And of a run. Instead: as above.
pub(crate) const FOR_OTHERS_OF_RUN: f64 = 0.1;
/// Computing of which this part was found within fsync(2) or synchronous writes is the syncs'. Instead: nothing; it is wording.
pub(crate) const MOSTLY_SYNC: f64 = 0.5;
/// Of two or three threads that wake each other in turn, one may wait for what another brings; with so many that wait there is a queue. Instead: which
/// futex was waited on.
pub(crate) const SEVERAL_WAIT: u64 = 3;
/// Each of a queue has it for as long as the others, within this; one of a pool that shares out work, or whose idle threads it wakes, has it longest.
/// Instead: as above.
pub(crate) const FAIR_PART: f64 = 2.0;

// amount.rs

/// From this ratio of bytes moved to the size of their file on, bytes were moved more than once. Instead: positions of all calls.
pub(crate) const TIMES_OVER: f64 = 2.0 - NEARLY_WHOLE;
/// From so many times over, no part of one is worth saying. Instead: nothing; it is wording.
pub(crate) const WHOLE_TIMES: f64 = 10.0;
/// A file with this part of all bytes that were read or written is what the run was about. Instead: which call moved which bytes.
pub(crate) const MOST_OF_ALL: f64 = 0.6;
/// Files that were opened and not seen to move bytes are taken to have so many each, which then did not come again. Instead: the bytes of each file.
pub(crate) const UNSEEN_FILE_BYTES: u64 = 256 << 10;
/// A file's bytes that were written, and read, and written to another file, are the same where they are as many. Instead: what was in them.
pub(crate) const COPIED: f64 = 0.95;
/// And where they are this part of all that was written. Instead: nothing; it is wording.
pub(crate) const COPIED_PART: f64 = 0.3;
/// Fewer bytes that came again explain nothing. Instead: nothing; it is wording.
pub(crate) const LEAST_AGAIN_BYTES: u64 = 4 << 20;
/// A body of fewer bytes is an answer to a question, and may be another each time. Instead: what was in it, or what its head says of it (`ETag`).
pub(crate) const LEAST_CONTENT_BYTES: u64 = 16 << 10;
/// Bodies of sizes this near are the same: their heads differ by some characters. Instead: as above.
pub(crate) const SAME_SIZE: f64 = 0.99;
/// From this part of the time on, it went by requests and not by their bytes. Instead: how long each answer's bytes took.
pub(crate) const MOSTLY_BY_REQUEST: f64 = 0.5;

// round_trips.rs

/// Of fewer turns nothing is concluded. Instead: nothing; a median of fewer says nothing.
pub(crate) const LEAST_TURNS: u64 = 10;
/// With this part of the turns a round trip long, one request was under way at a time. What is not is the start of a session: banners, handshakes,
/// answers in two parts. Instead: which answer is to which request.
pub(crate) const ONE_AT_A_TIME: f64 = 0.85;
/// Turns that explain this part of the time in which connections were used. Instead: which answer is to which request.
pub(crate) const TURNS_EXPLAIN: f64 = 0.33;
/// Connections that were used one after the other: all together for hardly longer than the time in which any was. Instead: nothing; it is wording.
pub(crate) const IN_TURN: f64 = 1.3;
/// So many connections or more are one for each of something. Instead: what was asked for on each.
pub(crate) const MANY_CONNECTIONS: u64 = 10;
/// With more turns on each connection than this, setting them up is by the way. Instead: when the first request was sent on each.
pub(crate) const TURNS_TO_SET_UP: f64 = 12.0;
/// A connection of no more turns than these, and of no more bytes, was for one thing: a handshake, a question and its answer. Instead: what was asked for.
pub(crate) const FEW_TURNS: u64 = 5;
/// And of no more bytes. Instead: what was asked for.
pub(crate) const FEW_BYTES: u64 = 64 << 10;
/// Connections that were used for this part of the run are what it was about. Instead: what was asked for on each.
pub(crate) const CONNECTIONS_EXPLAIN: f64 = 0.5;
/// Segments that were held back for this part of the time in transit explain it. Instead: nothing; it is wording.
pub(crate) const HELD_BACK_PART: f64 = 0.5;
/// From this part on they are all of it, and less than that is said as a part. Instead: nothing; it is wording.
pub(crate) const HELD_BACK_ALL: f64 = 0.85;
/// A thread that gave this part of the answers gives them all. Instead: who took each question.
pub(crate) const ALONE_ANSWERS: f64 = 0.95;
/// From so many bytes on, a request is worth its size. Instead: nothing; it is wording.
pub(crate) const LARGE_REQUEST: u64 = 4 << 10;
/// A connection that takes so many times its turns has round trips besides (slow start). Instead: how often its sender waited for the window.
pub(crate) const MORE_TRIPS: f64 = 1.25;

// in_flight.rs

/// With less than this in flight it was messages, and no window. Instead: nothing; it is wording.
pub(crate) const LEAST_IN_FLIGHT: u64 = 4 << 10;
/// What nine of ten readings come this near to is a limit and not a peak: a window that is grown or shared is below its peak for longer. Instead: the
/// program's own window.
pub(crate) const CONSTANT: f64 = 0.88;
/// Which part of the readings these are; the others may be a connection's beginning. Instead: as above.
pub(crate) const CONSTANT_PART: f64 = 0.9;
/// The limit is behind the rate where it allows no more than so many times the rate that was seen; the rest is starting and ending.
/// Instead: the rate of the steady phase alone.
pub(crate) const ALLOWS: f64 = 2.5;
/// A limit that allows this many times the observed rate was reached only now and then. Instead: how long it was reached.
pub(crate) const SELDOM: f64 = 1.33;
/// More than the limit allows by so much means that it was none. Instead: round trips of each message.
pub(crate) const EXCEEDED: f64 = 0.85;

// items.rs

/// Of fewer items nothing is said for each. Instead: nothing; it is wording.
pub(crate) const LEAST_ITEMS: u64 = 16;
/// So few processes of one program are one for each of something where they fill the run. Instead: what each was started for.
pub(crate) const FEW_PROCESSES: u64 = 5;
/// One of a few may have lived for this part of the run: the first starts what the others find. Instead: what each was started for.
pub(crate) const SHORT_LIVED_OF_FEW: f64 = 0.4;
/// Bound: what work on a byte takes at the most, in nanoseconds: compressors at their hardest do a megabyte in a second. What a process does for longer with
/// a file of its own is not for the file's bytes.
pub(crate) const MOST_NS_PER_BYTE: u64 = 1_000;
/// And of what went over a connection, no more is for its bytes than a link of 1 Gb/s needs: agreeing on keys and logging in go by turns. Instead: which
/// message is for what.
pub(crate) const NS_PER_BYTE_EXCHANGED: u64 = 8;
/// Syncs that take this part of the time are worth doing once for many. Instead: nothing; it is wording.
pub(crate) const SYNCED_SHARE: f64 = 0.1;
/// From so many bytes on, a sync is for them and not for a record. Instead: what was written before each.
pub(crate) const SYNCED_BYTES: u64 = 16 << 10;
/// Done fewer times for an item than this, it was not done for each. Instead: which calls were for which item.
pub(crate) const FOR_EACH: f64 = 0.9;
/// A process that lived for a longer part of the run than this had more to do than one of many items. Instead: what it was started for.
pub(crate) const SHORT_LIVED: f64 = 0.2;
/// Processes that lived for this part of the run, one after the other, are what it was about. Instead: what each was started for.
pub(crate) const LIVED_PART: f64 = 0.5;

// calls.rs

/// Calls that move at most so many bytes cost more than what they move: copying a page takes as long as entering the kernel. Instead: nothing; measured.
pub(crate) const SMALL_CALL: u64 = 4 << 10;
/// So many calls are what a run does; fewer are its starting. Instead: nothing; it is wording.
pub(crate) const MANY_CALLS: u64 = 20_000;
/// What copying a byte within memory takes at the least, in nanoseconds: 32 GB/s. Instead: what copies at this machine cost.
pub(crate) const LEAST_COPY_NS: f64 = 1.0 / 32.0;
/// Calls that take this part of the computing, by samples, explain it. Instead: the time of each call.
pub(crate) const IN_CALLS: f64 = 0.4;

// pool.rs

/// With so large a part of the number under way that is usual on average, something holds to that number: beginning, ending and what goes between questions are the
/// rest. Instead: the program's own limit.
pub(crate) const HELD: f64 = 0.75;
/// With more under way for a larger part of the time than this, it is no limit. Instead: the program's own limit.
pub(crate) const BEYOND: f64 = 0.05;
/// Questions that were under way for this part of the run are what it waited for. Instead: nothing; it is wording.
pub(crate) const ASKED_PART: f64 = 0.5;
/// Where one question took this part of the time in which any was under way, it is that one, and not how many. Instead: nothing; it is wording.
pub(crate) const ONE_OF_ALL: f64 = 0.5;
/// Servers that ask so many times for each question of the command ask several times for each. Instead: which question was for which.
pub(crate) const ASKS_ON: f64 = 1.9;

/// A server's threads of which each was seen at work so often, by the path, are all that serve. Instead: how many threads wait for requests.
pub(crate) const SEEN_AT_WORK: u64 = 8;

// disks.rs

/// Of fewer requests of a disk nothing is concluded. Instead: nothing; a median of fewer says nothing.
pub(crate) const LEAST_REQUESTS: u64 = 50;
/// A disk that was busy for less than this part of the time that is charged was used by the way. Instead: nothing; it is wording.
pub(crate) const DISK_EXPLAINS: f64 = 0.5;
/// So many under way on average are one at a time. Instead: nothing; it is wording.
pub(crate) const ONE_UNDER_WAY: f64 = 1.25;
/// One alone for this part of the time is one at a time as well, whatever there was at once for a moment. Instead: nothing; it is wording.
pub(crate) const ALONE_UNDER_WAY: f64 = 0.9;
/// Larger requests keep a disk at its rate. Instead: the disk's rate by size of request.
pub(crate) const SMALL_REQUEST: u64 = 64 << 10;

// processor.rs

/// A thread with this part of the computing does it alone. Instead: nothing; it is wording.
pub(crate) const ALONE: f64 = 0.85;
/// Threads that ran for so many times the time that the one is charged for ran beside it: that is no longer one processor's work. Instead: which
/// threads ran when.
pub(crate) const BESIDE: f64 = 1.3;
/// Processors that the run itself kept busy for this part of the time are what limits it. Instead: nothing; it is wording.
pub(crate) const ALL_BUSY: f64 = 0.85;
/// Bound: programs that are named with their part of the processors.
pub(crate) const NAMED: usize = 3;
/// A program with less of them is not. Instead: nothing; it is wording.
pub(crate) const NAMED_PART: f64 = 0.05;
/// Computing from this share on is what the rate is. Instead: nothing; it is wording.
pub(crate) const COMPUTES: f64 = 0.6;
/// Fewer bytes than this say nothing of a rate. Instead: nothing; it is wording.
pub(crate) const LEAST_BYTES: u64 = 1 << 20;

// stages.rs

/// Each of two stages that take turns has this share at the least. Instead: nothing; it is wording.
pub(crate) const STAGE_SHARE: f64 = 0.15;
/// They take turns so often at the least; fewer are phases of a run. Instead: nothing; it is wording.
pub(crate) const LEAST_ALTERNATIONS: u64 = 16;

/// Of two stages that take turns, so much of the shorter must be left to gain. Instead: nothing; it is wording.
pub(crate) const OVERLAPPED: f64 = 0.25;

// questions.rs, and the first line

/// A question that takes four times as long as the median is of another kind, or had to wait. Instead: what was asked.
pub(crate) const SLOW_TIMES: f64 = 4.0;
/// Where more are so slow, they are no few. Instead: as above.
pub(crate) const FEW_ARE_SLOW: f64 = 0.25;
/// Where they have less of the time, the mean still describes the others. Instead: nothing; it is wording.
pub(crate) const SLOW_PART: f64 = 0.3;
/// With more under way on average than this, the time between answers is not what each took. Instead: nothing; it is wording.
pub(crate) const MEAN_OF_ONE: f64 = 1.3;
