//! The kernel's file system protocol (FUSE, version 7), as much of it as a mount needs, and nothing of what a store is.
//!
//! It is spoken here directly because three things that programs rely on need parts of it that libraries keep to themselves:
//! which of the two kinds of lock is meant (`flock` and `fcntl` locks of one program must not meet), interrupts (a wait for a
//! lock ends when its program closes it), and `syncfs`.
//!
//! | room | what is in it |
//! |---|---|
//! | [`abi`] | numbers and flags of the protocol |
//! | [`request`] | a request's bytes as an operation |
//! | [`reply`] | answers as bytes |
//! | [`device`] | the file descriptor that both go over |
//! | [`mounting`] | how a descriptor comes to be a mount, and how that ends |
//! | [`handshake`] | what kernel and mount agree on first |
//! | [`interrupts`] | requests under way, and programs that no longer wait for them |

pub(crate) mod abi;
pub(crate) mod device;
pub(crate) mod handshake;
pub(crate) mod interrupts;
pub(crate) mod mounting;
pub(crate) mod reply;
pub(crate) mod request;
