//! Limits on what a peer can make this process hold, wait for or allocate. A length claimed by a peer is checked here before
//! anything is allocated for it.

use std::time::Duration;

/// Maximum body of a message: the serialised request or reply, without its payload.
pub const BODY_BYTES: u32 = 1 << 20;
/// Maximum payload of a message: the bytes of one flow buffer, or a page of recorded events.
pub const PAYLOAD_BYTES: u64 = 16 << 20;
/// Payload memory that each connection of a server keeps.
pub const CONNECTION_MEMORY_BYTES: u64 = 1 << 20;
/// Memory for larger payloads, shared by all connections of a server.
pub const SERVER_MEMORY_BYTES: u64 = 64 << 20;
/// Bytes that must arrive before a receiver of a payload is woken: fewer wake-ups, while the wire never runs dry.
pub const WAKE_BYTES: usize = 512 << 10;
/// Maximum text of an error.
pub const ERROR_TEXT_BYTES: usize = 8 << 10;
/// Maximum client connections of one server: about ten thousand clients with two or three connections each. Each connection has a thread of
/// about 30 KiB. Most servers may open fewer descriptors ([`crate::transport`]), and then have fewer connections.
pub const CONNECTIONS: usize = 32_768;
/// Connections of one server whose memory is returned to the system when most of them have closed.
pub const BURST: usize = 256;
/// Maximum connections of one server that have not greeted yet.
pub const NEWCOMERS: usize = 256;
/// Time limit for the greeting of a connection.
pub const HELLO: Duration = Duration::from_secs(10);
/// Time limit for the greeting while other connections wait for its place.
pub const HELLO_GRACE: Duration = Duration::from_millis(100);
/// Time limit for the greeting while others wait, if the connection has proven a credential.
pub const PROVEN_GRACE: Duration = Duration::from_secs(2);
/// Retries of a connection that the server closed before the greeting, and the first pause; each pause is twice as long.
pub const HELLO_AGAIN: (u32, Duration) = (4, Duration::from_millis(20));
/// Maximum bytes of a TLS handshake from a peer.
pub const TLS_HANDSHAKE_BYTES: usize = 64 << 10;
/// TLS session tickets kept by a client, over all servers; at most eight per server.
pub const TLS_TICKETS: usize = 2048;
/// Maximum consecutive TLS records without data (tickets, key updates, empty).
pub const TLS_IDLE_RECORDS: u32 = 32;
/// Maximum body of a greeting.
pub const HELLO_BYTES: u32 = 16 << 10;
/// Backlog of connections that the kernel holds for a server; the kernel's limit may be lower (`net.core.somaxconn`).
pub const BACKLOG: i32 = 16_384;
/// Silence within a message after which a server closes the connection.
pub const SERVER_SILENCE: Duration = Duration::from_secs(60);
/// Silence after which a client gives up a server, unless set otherwise.
pub const CLIENT_SILENCE: Duration = Duration::from_secs(30);
/// How often a client with open files checks that a restarted metadata service knows of them, and reports files it has closed
/// since its last request.
pub const KEPT_ALIVE: Duration = Duration::from_secs(1);
/// Time limit for a reconnection made for [`KEPT_ALIVE`]: longer than two hosts need, and short compared with [`RECOVERY`].
pub const KEPT_ALIVE_TRY: Duration = Duration::from_secs(2);
/// How long clients may take to declare their open files after the metadata service was restarted. Several times [`KEPT_ALIVE`] and
/// [`KEPT_ALIVE_TRY`], for busy machines.
pub const RECOVERY: Duration = Duration::from_secs(8);
/// How many times [`RECOVERY`] a restarted service treats earlier partial copies as still being written: removing a live copy's
/// file cannot be undone.
pub const DRAFT_RECOVERIES: u32 = 4;
/// How long a refused connection is retried.
pub const REFUSED: Duration = Duration::from_millis(500);
/// Silence after which one of several metadata services is skipped for the next.
pub const ONE_OF_SEVERAL: Duration = Duration::from_secs(2);
/// Pause between two rounds over several services, while none is active.
pub const BETWEEN_SEVERAL: Duration = Duration::from_millis(100);
/// Maximum recording sessions of one server.
pub const SESSIONS: usize = 32;
/// Maximum recording sessions of one server with one credential.
pub const SESSIONS_OF_CREDENTIAL: usize = 16;
/// Maximum recording sessions of one server with all credentials except the store's own.
pub const SESSIONS_OF_OTHERS: usize = 24;
/// Events that one server keeps for a session; further ones are counted as lost.
pub const SESSION_EVENTS: usize = 1 << 20;
/// Memory for the events of all sessions of all servers of a process; further events are counted as lost.
pub const RECORDING_BYTES: u64 = 512 << 20;
/// Maximum events in one page of a session's fetch.
pub const FETCH_EVENTS: usize = 1 << 14;
/// How long a fetch waits for its session's requests in progress.
pub const SESSION_QUIET: Duration = Duration::from_secs(2);
/// Maximum datafiles of one file.
pub const DATAFILES: usize = 4096;
/// Maximum datafiles in one batched request (glimpse, sync, remove).
pub const BATCH: usize = 4096;
/// Maximum ranges of all data maps in one reply.
pub const MAP_RANGES: usize = 1 << 14;
/// Maximum lines of one client for numbered requests to the metadata service.
pub const LINES: u8 = 16;
/// How long a request is retried, from its first transmission.
pub const AGAIN: Duration = Duration::from_secs(60);
/// How long the results of a client's requests are remembered after its last connection ended.
pub const REMEMBERED: Duration = Duration::from_secs(180);
/// Maximum departed clients of one credential whose requests are remembered; a client is one run of a program.
pub const REMEMBERED_OF_CREDENTIAL: usize = 8192;
/// Maximum files that clients of one credential may have open together, except the store's own: each takes memory in the service.
pub const OPEN_FILES_OF_CREDENTIAL: usize = 1 << 20;
/// Maximum operations in one batch to the metadata service.
pub const MANY: usize = 512;
/// Maximum files that one request to the metadata service may report closed.
pub const CLOSED: usize = 4096;
/// Maximum bytes of all reads, or all writes, in one batch.
pub const MANY_BYTES: u64 = 4 << 20;
/// Datafiles of one target whose sizes are cached (32 bytes each).
pub const SIZES_KEPT: usize = 1 << 18;
/// How long a start waits for another process to release a target.
pub const TARGET_LOCK: Duration = Duration::from_secs(1);
/// Maximum targets of one I/O server.
pub const TARGETS: usize = 256;
/// Maximum file size: offsets have 63 bits.
pub const FILE_BYTES: u64 = i64::MAX as u64;
/// Maximum length of a name in a directory.
pub const NAME_BYTES: usize = 255;
/// Maximum length of a path.
pub const PATH_BYTES: usize = 4096;
/// Maximum length of a symbolic link's target.
pub const SYMLINK_BYTES: usize = 4095;
/// Maximum hard links of one file.
pub const LINKS: u32 = 1 << 30;
/// Maximum value of one extended attribute.
pub const EXTENDED_VALUE_BYTES: usize = 64 << 10;
/// Maximum names and values of all extended attributes of one file.
pub const EXTENDED_BYTES: usize = 128 << 10;
/// Maximum locked ranges of one file, for each kind of lock.
pub const LOCKS_OF_FILE: usize = 1 << 14;
/// Maximum locked ranges of one client.
pub const LOCKS_OF_CLIENT: usize = 1 << 16;
/// Maximum requests waiting for locks on one file.
pub const LOCK_WAITS_OF_FILE: usize = 1 << 12;
/// Maximum requests of one client waiting for locks.
pub const LOCK_WAITS_OF_CLIENT: usize = 1 << 12;
/// How long a request for a free lock waits behind earlier waiting requests, for fairness.
pub const LOCK_COURTESY: Duration = Duration::from_millis(500);
/// Maximum turn to append to a file, or to truncate it, while another client waits for it. Shorter than a client's timeout, and
/// than the service waits for a turn of its own.
pub const APPEND_TURN: Duration = Duration::from_secs(15);
/// Silence of a machine after which an idle connection to it is closed: keep-alive probes go unanswered.
pub const KEEP_ALIVE: Duration = Duration::from_secs(50);
/// Memory for all windows of one client of a store, unless set otherwise.
pub const WINDOWS_BYTES: u64 = 256 << 20;
/// How long an idle thread of a shared engine stays.
pub const IDLE_THREAD: Duration = Duration::from_secs(10);
/// How long the metadata service may leave an I/O server's `Witness` request unanswered.
pub const WITNESS_WAIT: Duration = Duration::from_secs(2);
/// I/O servers that must witness a sync of the metadata before it is answered, if there are as many.
pub const WITNESSES: usize = 3;
/// How long a sync of the metadata waits for I/O servers to witness it.
pub const WITNESS_PATIENCE: Duration = Duration::from_secs(2);
/// How many more starts a target can plausibly have seen than the metadata records; a greater number is taken as forged.
pub const PLAUSIBLE_STARTS: u64 = 1 << 20;
/// Maximum credentials of one store.
pub const CREDENTIALS: usize = 4096;
/// Maximum lots of one store.
pub const LOTS: usize = 1024;
/// Upper bound on the size of a lot: offsets have 63 bits.
pub const LOT_BYTES: u64 = 1 << 63;
/// Maximum duration of a lot at creation or renewal: 100 years of 365 days, in ns.
pub const LOT_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;
/// Maximum duration of an owner's lot at creation or renewal, if the credential sets none.
pub const LOT_OF_OWNER: Duration = Duration::from_secs(30 * 86_400);
/// Divisor of the store's space for the lots of one owner together, if the credential sets no limit.
pub const LOTS_OF_OWNER_PART: u64 = 2;
/// Divisor of the store's space that the lots of owners without a limit must leave outside lots.
pub const OUTSIDE_LOTS_PART: u64 = 4;
/// Promise moved to a target in one step, unless more is needed. A large step saves requests; a small one leaves less space where it is not
/// used.
pub const LOT_MOVE_BYTES: u64 = 64 << 20;
/// Divisor of the room at a target that one move of a lot's promise may take, unless more is needed, since other lots need room too.
pub const LOT_MOVE_PART: u64 = 2;
/// How often a target is asked for a part of its unused share, each time for half as much, since writes in flight may need some of it.
pub const LOT_GIFTS: u32 = 8;
/// How long a reclaim waits for the bytes of removed files to be freed, before it reports the space: shorter than a client's
/// timeout.
pub const LOT_RECLAIM: Duration = Duration::from_secs(20);
/// How long a request that needs room waits for removals in progress, before it is refused: shorter than [`LOT_PATIENCE`], and
/// longer than [`RECOVERY`], during which nothing is removed.
pub const REMOVAL_PATIENCE: Duration = Duration::from_secs(12);
/// How long such a request waits while no removal finishes, for instance because a server is away or a client has the file open. Longer
/// than a client takes to report closed files ([`KEPT_ALIVE`]).
pub const REMOVAL_STALLED: Duration = Duration::from_millis(1500);
/// Maximum removals that such a request waits for before it checks for room; if it needs more, it asks again.
pub const REMOVALS_AWAITED: usize = 4096;
/// Maximum directories of a lot in its report.
pub const LOT_DIRECTORIES: usize = 16;
/// Maximum removals of expired lots that are remembered.
pub const LOT_NOTES: usize = 256;
/// Maximum lots promised at a target for which their directories are kept open.
pub const LOTS_OPEN: isize = 32;
/// Maximum lots with a share at one target.
pub const SHARES: usize = 4096;
/// How far ahead a target's clock may be at boot without ending a lot early. While the machine runs, no wall clock ends a lot.
pub const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// Bytes written outside lots before a file system with promises is asked again for its free space.
pub const CREDIT_BYTES: u64 = 64 << 20;
/// Divisor of the free and unpromised space that limits [`CREDIT_BYTES`].
pub const CREDIT_PART: u64 = 8;
/// Space kept free beside promised space, for directories and the store's other files: this many bytes plus the promised space
/// divided by [`HEADROOM_PART`].
pub const HEADROOM_BYTES: u64 = 4 << 20;
/// See [`HEADROOM_BYTES`].
pub const HEADROOM_PART: u64 = 64;
/// Bytes of the ballast file given up at a time, ahead of writes into lots.
pub const BALLAST_STEP_BYTES: u64 = 4 << 20;
/// Bytes preallocated beside promised space for the directories of lots' datafiles, plus the promised space divided by
/// [`HEADROOM_PART`].
pub const LOT_NAMES_BYTES: u64 = 1 << 20;
/// Minimum change of a file system's reserved blocks: each change starts a process.
pub const RESERVE_STEP_BYTES: u64 = 64 << 20;
/// Interval between checks of shares for expiry, and adjustments of what holds them against other programs.
pub const LOT_ROUND: Duration = Duration::from_secs(1);
/// Rounds between two checks of what else is on a file system.
pub const LEVEL_ROUNDS: u32 = 30;
/// Minimum time before a refused request about lots is repeated.
pub const LOT_REST: Duration = Duration::from_millis(100);
/// How long the metadata service may take to move a promise, or to remove expired lots.
pub const LOT_PATIENCE: Duration = Duration::from_secs(20);
/// Maximum retries of a write after room has been made for it.
pub const LOT_TRIES: u32 = 64;
/// Datafiles of a lot at a target whose blocks are accounted individually (some 100 bytes each).
pub const LOT_ACCOUNTS: usize = 1 << 16;
/// Bytes written to a lot's datafile before its blocks are looked at, unless the exact use is needed.
pub const LOT_PENDING_BYTES: u64 = 1 << 20;
/// Connections that read a backup of the names at a time. Each keeps pages of the database that have been replaced since.
pub const BACKUPS: usize = 4;
/// Bytes of rows after which a part of a backup ends.
pub const BACKUP_PART_BYTES: usize = 1 << 20;
/// Datafiles of a target that are remembered for becoming clean, and as many for their checksums to be recomputed (some 50 bytes each). Bound:
/// one more stays dirty until it is changed again, or unverified until it is opened again.
pub const SUMS_DUE: usize = 1 << 16;
/// How long a datafile's checksums have been dirty before they are synced: longer than the kernel keeps bytes that were written, so that
/// the sync has little to do.
pub const SUMS_AFTER: Duration = Duration::from_secs(35);
/// Interval between looks for datafiles whose checksums are due.
pub const SUMS_ROUND: Duration = Duration::from_secs(1);
/// Bytes per second read at each target for recomputing checksums after a crash.
pub const SUMS_RATE: u64 = 200 << 20;
/// Maximum bytes read for one page of a scrub.
pub const SCRUB_PAGE: u64 = 32 << 20;
