//! The kernel's file system protocol (FUSE, version 7), as much of it as a mount needs; independent of stores.
//!
//! It is implemented here because three features that programs rely on need parts of it that libraries do not expose: the kind of lock
//! (`flock` and `fcntl` locks of one program must not conflict), interrupts (a wait for a lock ends when its program closes the file), and
//! `syncfs`.
//!
//! | room | what is in it |
//! |---|---|
//! | [`abi`] | numbers and flags of the protocol |
//! | [`request`] | decoding requests |
//! | [`reply`] | encoding answers |
//! | [`device`] | the descriptor for both |
//! | [`mounting`] | mounting and unmounting |
//! | [`handshake`] | the negotiation with the kernel |
//! | [`interrupts`] | requests in flight, and programs that no longer wait for them |

pub(crate) mod abi;
pub(crate) mod device;
pub(crate) mod handshake;
pub(crate) mod interrupts;
pub(crate) mod mounting;
pub(crate) mod reply;
pub(crate) mod request;
