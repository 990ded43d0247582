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
/// Connections that one server serves at a time.
pub const CONNECTIONS: usize = 1024;
/// Silence in the middle of a message after which a server gives the connection up.
pub const SERVER_SILENCE: Duration = Duration::from_secs(60);
/// Silence after which a client gives a server up, unless told otherwise.
pub const CLIENT_SILENCE: Duration = Duration::from_secs(30);
/// How long a refused connection is retried at most.
pub const REFUSED: Duration = Duration::from_millis(500);
/// Recording sessions that one server keeps at a time.
pub const SESSIONS: usize = 16;
/// Events that one server keeps for one session; past it they are counted as lost.
pub const SESSION_EVENTS: usize = 1 << 20;
/// Events in one page of a session's fetch.
pub const FETCH_EVENTS: usize = 1 << 14;
/// How long a fetch waits for requests of its session that are still being worked on.
pub const SESSION_QUIET: Duration = Duration::from_secs(2);
/// Datafiles of one file.
pub const DATAFILES: usize = 4096;
/// Datafiles in one batched request (glimpse, sync, remove).
pub const BATCH: usize = 4096;
/// Targets of one I/O server.
pub const TARGETS: usize = 256;
/// Largest file: offsets are 63 bits.
pub const FILE_BYTES: u64 = i64::MAX as u64;
/// A name in a directory.
pub const NAME_BYTES: usize = 255;
/// A path.
pub const PATH_BYTES: usize = 4096;
