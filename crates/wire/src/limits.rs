//! Every bound on what a peer can make us hold, wait for or allocate. A length that a peer claims is held against its
//! bound here before anything is allocated for it.

use std::time::Duration;

/// Body of a message: the serialised request or reply, without its payload.
pub const BODY_BYTES: u32 = 1 << 20;
/// Payload of a message: the bytes of one flow buffer, or a page of recorded events.
pub const PAYLOAD_BYTES: u64 = 16 << 20;
/// Memory that each connection of a server keeps for payloads.
pub const CONNECTION_MEMORY_BYTES: u64 = 1 << 20;
/// Memory for payloads larger than that, over all connections of a server.
pub const SERVER_MEMORY_BYTES: u64 = 64 << 20;
/// Bytes that a receiver of a payload sleeps for before it is woken: fewer wake-ups, while the wire never runs dry.
pub const WAKE_BYTES: usize = 512 << 10;
/// Text of an error.
pub const ERROR_TEXT_BYTES: usize = 8 << 10;
/// Connections of clients that one server serves at a time: some ten thousand clients, with two or three each, and a thread of some 30 KiB
/// for each. Most servers have fewer descriptors than that allows ([`crate::transport`]), and then fewer connections.
pub const CONNECTIONS: usize = 32_768;
/// Connections of one server at a time whose memory goes back to the machine when most of them have gone.
pub const BURST: usize = 256;
/// Connections of one server that have not said hello, at a time.
pub const NEWCOMERS: usize = 256;
/// How long a connection may take to say hello.
pub const HELLO: Duration = Duration::from_secs(10);
/// How long it may take when others wait for its place.
pub const HELLO_GRACE: Duration = Duration::from_millis(100);
/// The same of one that has proven a credential.
pub const PROVEN_GRACE: Duration = Duration::from_secs(2);
/// How often a connection is tried again that a server closed before it had said who it is, and the pause before that; twice as long each time.
pub const HELLO_AGAIN: (u32, Duration) = (4, Duration::from_millis(20));
/// Bytes of a TLS handshake that a peer may have sent before it is at its end.
pub const TLS_HANDSHAKE_BYTES: usize = 64 << 10;
/// Tickets for TLS sessions that a client keeps, over all servers; eight for each server at most.
pub const TLS_TICKETS: usize = 2048;
/// TLS records in a row that carry no data (tickets, new keys, nothing).
pub const TLS_IDLE_RECORDS: u32 = 32;
/// Body of a hello.
pub const HELLO_BYTES: u32 = 16 << 10;
/// Connections that the kernel keeps until a server takes them; it may have a lower limit (`net.core.somaxconn`).
pub const BACKLOG: i32 = 16_384;
/// Silence in the middle of a message after which a server gives the connection up.
pub const SERVER_SILENCE: Duration = Duration::from_secs(60);
/// Silence after which a client gives a server up, unless set otherwise.
pub const CLIENT_SILENCE: Duration = Duration::from_secs(30);
/// How often a client that has files open looks whether the metadata service knows of them, should it have been started again, and reports what
/// it has closed since it last asked for something.
pub const KEPT_ALIVE: Duration = Duration::from_secs(1);
/// How long a client's attempt to connect again may take that is made for that: longer than two hosts need, and short beside [`RECOVERY`].
pub const KEPT_ALIVE_TRY: Duration = Duration::from_secs(2);
/// How long clients of an earlier start of the metadata service have to say what they have open: several times [`KEPT_ALIVE`] and
/// [`KEPT_ALIVE_TRY`], for machines with much else to do.
pub const RECOVERY: Duration = Duration::from_secs(8);
/// For how many times [`RECOVERY`] a service that was started again takes the partial copies of before for ones that are being written: to
/// remove what a copy writes cannot be undone.
pub const DRAFT_RECOVERIES: u32 = 4;
/// How long a refused connection is retried at most.
pub const REFUSED: Duration = Duration::from_millis(500);
/// Silence after which one of several metadata services is passed over for the next.
pub const ONE_OF_SEVERAL: Duration = Duration::from_secs(2);
/// Between two rounds through them, while none is active.
pub const BETWEEN_SEVERAL: Duration = Duration::from_millis(100);
/// Recording sessions that one server keeps at a time.
pub const SESSIONS: usize = 32;
/// Of those, with one credential.
pub const SESSIONS_OF_CREDENTIAL: usize = 16;
/// Of those, with all credentials but the store's own.
pub const SESSIONS_OF_OTHERS: usize = 24;
/// Events that one server keeps for one session; past it they are counted as lost.
pub const SESSION_EVENTS: usize = 1 << 20;
/// Memory for the events of all sessions of all servers of a process; past it they are counted as lost.
pub const RECORDING_BYTES: u64 = 512 << 20;
/// Events in one page of a session's fetch.
pub const FETCH_EVENTS: usize = 1 << 14;
/// How long a fetch waits for requests of its session that are still being worked on.
pub const SESSION_QUIET: Duration = Duration::from_secs(2);
/// Datafiles of one file.
pub const DATAFILES: usize = 4096;
/// Datafiles in one batched request (glimpse, sync, remove).
pub const BATCH: usize = 4096;
/// Ranges of all data maps in one reply.
pub const MAP_RANGES: usize = 1 << 14;
/// Lines of one client over which it sends requests with numbers to the metadata service.
pub const LINES: u8 = 16;
/// A request is sent again for so long, from when it was sent first.
pub const AGAIN: Duration = Duration::from_secs(60);
/// What became of the requests of a client is remembered for so long after its last connection has ended.
pub const REMEMBERED: Duration = Duration::from_secs(180);
/// Clients of one credential that are gone, and whose requests are remembered: a client is a run of a program.
pub const REMEMBERED_OF_CREDENTIAL: usize = 8192;
/// Files that clients of one credential may have open together, the store's own apart: a place in the service's memory each.
pub const OPEN_FILES_OF_CREDENTIAL: usize = 1 << 20;
/// Operations in one request of many to the metadata service.
pub const MANY: usize = 512;
/// Files that one request to the metadata service may say are closed.
pub const CLOSED: usize = 4096;
/// Bytes of all reads, or all writes, in one request of many.
pub const MANY_BYTES: u64 = 4 << 20;
/// Datafiles of one target whose sizes are kept in memory (32 bytes each).
pub const SIZES_KEPT: usize = 1 << 18;
/// How long a start waits for another process to let go of a target.
pub const TARGET_LOCK: Duration = Duration::from_secs(1);
/// Targets of one I/O server.
pub const TARGETS: usize = 256;
/// Largest file: offsets are 63 bits.
pub const FILE_BYTES: u64 = i64::MAX as u64;
/// A name in a directory.
pub const NAME_BYTES: usize = 255;
/// A path.
pub const PATH_BYTES: usize = 4096;
/// The target of a symbolic link.
pub const SYMLINK_BYTES: usize = 4095;
/// Names of one file.
pub const LINKS: u32 = 1 << 30;
/// The value of one extended attribute.
pub const EXTENDED_VALUE_BYTES: usize = 64 << 10;
/// Names and values of all extended attributes of one file.
pub const EXTENDED_BYTES: usize = 128 << 10;
/// Locked ranges of one file, of each kind of lock.
pub const LOCKS_OF_FILE: usize = 1 << 14;
/// Locked ranges of one client.
pub const LOCKS_OF_CLIENT: usize = 1 << 16;
/// Requests that wait for locks on one file.
pub const LOCK_WAITS_OF_FILE: usize = 1 << 12;
/// Requests of one client that wait for locks.
pub const LOCK_WAITS_OF_CLIENT: usize = 1 << 12;
/// How long a request for a lock that nobody holds is held back for those who have waited longer.
pub const LOCK_COURTESY: Duration = Duration::from_millis(500);
/// How long a turn to append to a file, or to truncate it, lasts at most while another client waits for it. Less than a client is patient, and
/// than the service waits for a turn of its own.
pub const APPEND_TURN: Duration = Duration::from_secs(15);
/// Silence of a machine after which a connection to it is given up, if nothing is awaited on it: probes go unanswered.
pub const KEEP_ALIVE: Duration = Duration::from_secs(50);
/// Memory for all windows of one client of a store, unless set otherwise.
pub const WINDOWS_BYTES: u64 = 256 << 20;
/// How long a thread of a shared engine stays without work.
pub const IDLE_THREAD: Duration = Duration::from_secs(10);
/// How long an I/O server's question for the next change to witness is left unanswered.
pub const WITNESS_WAIT: Duration = Duration::from_secs(2);
/// I/O servers that have witnessed a sync of the metadata before it is answered, where there are as many.
pub const WITNESSES: usize = 3;
/// How long a sync of the metadata waits for I/O servers to witness it.
pub const WITNESS_PATIENCE: Duration = Duration::from_secs(2);
/// How many starts more than the metadata's own a target can have seen: past that, the number was made up.
pub const PLAUSIBLE_STARTS: u64 = 1 << 20;
/// Credentials of one store.
pub const CREDENTIALS: usize = 4096;
/// Lots of one store.
pub const LOTS: usize = 1024;
/// A lot is smaller than this: offsets are 63 bits.
pub const LOT_BYTES: u64 = 1 << 63;
/// For how long a lot can be made or renewed: 100 years of 365 days, in nanoseconds.
pub const LOT_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;
/// For how long a lot of an owner can be made or renewed, where the credential does not say.
pub const LOT_OF_OWNER: Duration = Duration::from_secs(30 * 86_400);
/// What an owner's lots may have together of the store, where the credential does not say: one part in so many.
pub const LOTS_OF_OWNER_PART: u64 = 2;
/// What lots of such owners leave outside of all lots: one part in so many.
pub const OUTSIDE_LOTS_PART: u64 = 4;
/// What of a lot's promise moves to a target at a time, if it needs no more: fewer questions, while little waits where it is not used.
pub const LOT_MOVE_BYTES: u64 = 64 << 20;
/// Of the room at a target, the part that moves to one lot there at a time, if it needs no more: other lots need some too.
pub const LOT_MOVE_PART: u64 = 2;
/// How often a target is asked for a part of its share that is not used, where writes in flight may need it: each time for half as much.
pub const LOT_GIFTS: u32 = 8;
/// How long a reclaim waits for the bytes of removed files to go, before it says what there is: shorter than a client is patient.
pub const LOT_RECLAIM: Duration = Duration::from_secs(20);
/// How long one who needs room waits for removals that are under way, before it is refused: shorter than [`LOT_PATIENCE`], and longer than
/// [`RECOVERY`], in which nothing is removed.
pub const REMOVAL_PATIENCE: Duration = Duration::from_secs(12);
/// How long it waits while none of them ends, as when a server is away, or when a client has the file open: longer than a client takes to report
/// what it has closed ([`KEPT_ALIVE`]).
pub const REMOVAL_STALLED: Duration = Duration::from_millis(1500);
/// Removals that it waits for at most, before it looks whether there is room: more are asked for again.
pub const REMOVALS_AWAITED: usize = 4096;
/// Directories of a lot in its report.
pub const LOT_DIRECTORIES: usize = 16;
/// Removals of expired lots that are remembered.
pub const LOT_NOTES: usize = 256;
/// With more lots promised at a target, their directories are not kept open.
pub const LOTS_OPEN: isize = 32;
/// Lots with a share at one target.
pub const SHARES: usize = 4096;
/// How far a target's clock may be ahead when its machine starts: a lot does not end early then. While the machine runs no wall clock ends one.
pub const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// How much is written outside lots before a file system that has promised space is asked again how much is free.
pub const CREDIT_BYTES: u64 = 64 << 20;
/// The part of what is free and not promised that this is at most: one in so many.
pub const CREDIT_PART: u64 = 8;
/// What is kept free beside what is promised, for directories and for what the store writes beside datafiles: so much, and one part in so
/// many of what is promised.
pub const HEADROOM_BYTES: u64 = 4 << 20;
/// See [`HEADROOM_BYTES`].
pub const HEADROOM_PART: u64 = 64;
/// How much of a preallocated file is given up at a time, ahead of writes into lots.
pub const BALLAST_STEP_BYTES: u64 = 4 << 20;
/// What is preallocated beside what is promised, for the directories of a lot's datafiles, besides one part in [`HEADROOM_PART`].
pub const LOT_NAMES_BYTES: u64 = 1 << 20;
/// By how much a file system's reserved blocks are changed at least: each change is a process.
pub const RESERVE_STEP_BYTES: u64 = 64 << 20;
/// How often shares are held against the clock, and what holds them against other programs is adjusted.
pub const LOT_ROUND: Duration = Duration::from_secs(1);
/// Rounds between two looks at what else is on a file system.
pub const LEVEL_ROUNDS: u32 = 30;
/// How long a question about lots that was refused is not put again.
pub const LOT_REST: Duration = Duration::from_millis(100);
/// How long the metadata service may take to move a promise, or to remove lots that are over.
pub const LOT_PATIENCE: Duration = Duration::from_secs(20);
/// How often a write is tried again when there is more room than before.
pub const LOT_TRIES: u32 = 64;
/// Datafiles of a lot at a target whose blocks are remembered one by one (some 100 bytes each).
pub const LOT_ACCOUNTS: usize = 1 << 16;
/// What may be written to a datafile of a lot before its blocks are looked at, if nobody wants to know them.
pub const LOT_PENDING_BYTES: u64 = 1 << 20;
