//! A store as a file system, for programs that know nothing of it (FUSE).
//!
//! **In:** a store's address, a directory to mount on. **Out:** the store's names and bytes under that directory, with the
//! coherence and durability that `docs/MOUNT.md` promises. **Never:** a rule about names, locks or layouts of its own: those
//! are the metadata service's, and the bytes are the I/O servers'; what is here is when the kernel may rely on what it has
//! seen, and when something must be asked again.
//!
//! | room | what is in it |
//! |---|---|
//! | [`fuse`] | the kernel's protocol; knows nothing of stores |
//! | [`session`] | the mount as a whole: threads that take requests, and its end |
//! | [`interrupts`] | requests under way, and programs that no longer wait for them |
//! | [`filesystem`] | which room answers which request |
//! | [`table`] | the files and directories the kernel knows |
//! | [`attributes`] | attributes and sizes, from both kinds of server |
//! | [`found`] | the names that files were found under, and which of them a program means |
//! | [`names`] | lookup, create, link, rename, remove |
//! | [`directories`] | reading directories |
//! | [`told`] | how far a directory was read, and going back in it |
//! | [`following`] | names that are looked up in a directory's order, answered ahead |
//! | [`recent`] | what was changed here lately, and must not be told as it was before |
//! | [`silence`] | servers that do not answer, and are not asked at once again |
//! | [`trimming`] | the kernel forgets what is more than the mount will keep |
//! | [`open`] | open files: what is shared by all who have one open |
//! | [`data`] | read, write, flush, sync, allocate |
//! | [`closes`] | what was closed is told when nothing else is asked |
//! | [`locks`] | `flock` and `fcntl` locks |
//! | [`extended`] | extended attributes, those that are made up among them |
//! | [`layout_text`] | a layout as one line of text |
//! | [`record`] | a mount that records itself |
//! | [`errors`] | what went wrong, as a program sees it |
//! | [`busy`] | who is in a mount |

pub mod circuit_breaker;
pub mod errors;
pub mod filesystem;
pub mod fuse;
pub mod handlers;
pub mod handles;
pub mod inodes;
pub mod options;
pub mod session;

pub use errors::{MountError, Result};
pub use options::Options;
pub use session::Mount;
