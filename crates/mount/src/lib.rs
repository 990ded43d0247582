//! A store as a file system, for programs that know nothing of it (FUSE).
//!
//! **In:** a store's address, a directory to mount on. **Out:** the store's names and bytes under that directory, with the
//! coherence and durability that `docs/MOUNT.md` promises. **Never:** a rule about names, locks or layouts of its own: those
//! are the metadata service's, and the bytes are the I/O servers'; what is here is when the kernel may rely on what it has
//! seen, and when something must be asked again.
//!
//! | room | what is in it |
//! |---|---|
//! | `fuse` | the kernel's protocol; knows nothing of stores |
//! | `inodes` | the inodes that the kernel knows, and what may be answered of them without asking a server |
//! | `handles` | open files and directories |
//! | `filesystem` | what all handlers share |
//! | `handlers` | which handler answers which request; one file for each group of them |
//! | `session` | the mount as a whole: the threads that take requests, and its end |
//! | `circuit_breaker` | servers that do not answer, and are not asked again at once |
//! | `errors`, `log` | what went wrong, as a program sees it, and as an administrator does |

#![warn(unreachable_pub)]

mod circuit_breaker;
mod errors;
mod filesystem;
mod fuse;
mod handlers;
mod handles;
mod inodes;
mod log;
mod options;
mod session;

pub use errors::{MountError, Result};
pub use fuse::mounting::{Honours, Mounted, mounts, unmount};
pub use options::Options;
pub use session::in_use::{MountState, busy_text, mount_state, namespace_holder};
pub use session::{Mount, Unmounter};
