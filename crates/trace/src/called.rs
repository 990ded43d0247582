//! How a process can be, or could be, contacted: the bits in the value of a `process.called` mark.

/// The process listens on a port.
pub const PORT: i64 = 1;

/// The process listens on a Unix socket.
pub const UNIX_SOCKET: i64 = 2;

/// The process serves a file system: requests of the kernel through `/dev/fuse`.
pub const FILE_SYSTEM: i64 = 4;

/// An unconnected datagram socket received a datagram before it sent any.
pub const DATAGRAM: i64 = 8;

/// The program chose that socket's port.
pub const CHOSEN_PORT: i64 = 16;
