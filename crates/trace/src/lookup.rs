//! Result of a name lookup: the value of a mark `name.answered`. Values from 0 are response codes of RFC 1035, 0
//! being an answer.

/// The server failed (SERVFAIL).
pub const SERVER_FAILED: i64 = 2;

/// The name does not exist (NXDOMAIN).
pub const NO_SUCH_NAME: i64 = 3;

/// The server refused to answer (REFUSED).
pub const REFUSED: i64 = 5;

/// The record type that asks for the name of an address: the value of a mark `name.asked`.
pub const POINTER: i64 = 12;

/// The name exists but has no record of the requested type.
pub const NO_RECORD: i64 = -1;

/// The answer was truncated: it is requested again over TCP.
pub const CUT: i64 = -2;

/// No process listens at the server's address.
pub const NOBODY_LISTENS: i64 = -3;
