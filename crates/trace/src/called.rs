//! By what a process can be called, or was: the bits of the value of a mark `process.called`.

/// It listens on a port.
pub const PORT: i64 = 1;

/// It listens on a unix socket.
pub const UNIX_SOCKET: i64 = 2;

/// It serves a file system: the kernel's requests for it (`/dev/fuse`).
pub const FILE_SYSTEM: i64 = 4;

/// A socket for anybody's datagrams has received one before it had sent any.
pub const DATAGRAM: i64 = 8;

/// The port of that socket was chosen by the program.
pub const CHOSEN_PORT: i64 = 16;
