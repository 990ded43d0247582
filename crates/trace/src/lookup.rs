//! What came back when a name was asked for: the value of a mark `name.answered`. From 0 on it is a response code of RFC 1035, 0 being an answer.

/// The server failed (SERVFAIL).
pub const SERVER_FAILED: i64 = 2;

/// The name does not exist (NXDOMAIN).
pub const NO_SUCH_NAME: i64 = 3;

/// The server did not want to answer (REFUSED).
pub const REFUSED: i64 = 5;

/// What is asked for where a name is that of an address: the value of a mark `name.asked`.
pub const POINTER: i64 = 12;

/// The name exists, and has no record of the kind asked for.
pub const NO_RECORD: i64 = -1;

/// The answer was cut off: it is asked for again over TCP.
pub const CUT: i64 = -2;

/// Nobody listens at the server's address.
pub const NOBODY_LISTENS: i64 = -3;
