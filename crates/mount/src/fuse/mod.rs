//! The kernel's file system protocol (FUSE, version 7), as much of it as a mount needs, and nothing of what a store is.
//!
//! It is spoken here directly because three things that programs rely on need parts of it that libraries keep to themselves:
//! which of the two kinds of lock is meant (`flock` and `fcntl` locks of one program must not meet), interrupts (a wait for a
//! lock ends when its program is told to), and `syncfs`.
//!
//! | room | what is in it |
//! |---|---|
//! | [`abi`] | numbers and flags of the protocol |
//! | [`request`] | a request's bytes as an operation |
//! | [`reply`] | answers as bytes |
//! | [`device`] | the file descriptor that both go over |
//! | [`mounting`] | how a descriptor comes to be a mount, and how that ends |
//! | [`handshake`] | what kernel and mount agree on first |

pub mod abi;
pub mod device;
pub mod handshake;
pub mod interrupts;
pub mod mounting;
pub mod reply;
pub mod request;
