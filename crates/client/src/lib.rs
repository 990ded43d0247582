//! The client of a store: names, files as bytes, locks, walks, copies, and the flows that move bytes.
//!
//! **In:** a store's address and a credential; names, bytes, local files. **Out:** the bytes, at their place in the layout or at a copy's
//! destination, and a trace of every request if requested. **Never:** depends on a server's implementation; prints.
//!
//! | room | what is in it |
//! |---|---|
//! | `files` | connections to I/O servers, files as bytes, flows |
//! | [`metadata`] | calls on names |
//! | [`locks`] | advisory locks and append turns |
//! | [`walk`] | listing directories and trees with prefetching |
//! | [`remove`] | removing thousands of names, and trees |
//! | [`partials`] | unfinished copies |
//! | [`scrub`] | verifying a whole store |
//! | [`copy`] | copying files in, out and between stores |
//! | `controller`, `stages` | live parameters and time per stage of running transfers |

#![warn(unreachable_pub)]

mod controller;
pub mod copy;
mod files;
pub mod locks;
pub mod metadata;
pub mod partials;
pub mod remove;
pub mod scrub;
mod stages;
pub mod walk;

pub use controller::{Controller, Decision, Parameter};
pub use files::*;
pub use stages::Stages;
/// The wire protocol's types used in this API: messages, credentials, errors.
pub use thalweg_wire as wire;
