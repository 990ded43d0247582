//! Mounts a store as a file system (FUSE), for unmodified programs.
//!
//! **In:** a store's address, a directory to mount on. **Out:** the store's names and bytes under that directory, with the coherence and
//! durability that `docs/MOUNT.md` promises. **Never:** rules of its own about names, locks, layouts or bytes, which are the metadata
//! service's and the I/O servers'. This crate decides when the kernel may use cached data and when a server must be asked again.
//!
//! | room | what is in it |
//! |---|---|
//! | `fuse` | the kernel's protocol; knows nothing of stores |
//! | `inodes` | the inodes the kernel knows, and their cached state |
//! | `handles` | open files and directories |
//! | `filesystem` | state shared by all handlers |
//! | `handlers` | the handlers; one file per group of operations |
//! | `session` | the mount as a whole: the threads that serve requests, and unmounting |
//! | `circuit_breaker` | servers that do not answer, and are not asked again for a while |
//! | `errors`, `log` | errors for programs, and for the administrator |

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
pub use session::in_use::{MountState, busy_text, is_in_use, mount_state, namespace_holder};
pub use session::{Mount, Unmounter};
