//! What came back when a name was asked for: the value of a mark `name.answered`. From 0 on it is a response code of RFC 1035: 0 an answer, 2 a server that
//! failed, 3 a name that does not exist, 5 a refusal.

/// The name exists, and has no record of the kind asked for.
pub const NO_RECORD: i64 = -1;

/// The answer was cut off: it is asked for again over TCP.
pub const CUT: i64 = -2;

/// Nobody listens at the server's address.
pub const NOBODY_LISTENS: i64 = -3;
