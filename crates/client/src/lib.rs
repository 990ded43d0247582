//! The client's end of a store: names, files as bytes, locks, walks, copies, and the flows that move bytes.
//!
//! **In:** a store's address and a credential; names, bytes, local files. **Out:** the same bytes, wherever their layout put them or wherever a
//! copy was to go, and, where it is asked for, a trace of every request. **Never:** knows how a server does what it is asked for, and what to print.
//!
//! | room | what is in it |
//! |---|---|
//! | `files` | connections to I/O servers, files as bytes, flows |
//! | [`metadata`] | calls on names |
//! | [`locks`] | advisory locks and append turns |
//! | [`walk`] | directories and trees, fetched before they are read |
//! | [`remove`] | names removed by the thousand, trees with them |
//! | [`partials`] | copies that were begun and not finished |
//! | [`copy`] | copying files in, out and between stores |
//! | `controller`, `stages` | what can be turned and seen while bytes move |

#![warn(unreachable_pub)]

mod controller;
pub mod copy;
mod files;
pub mod locks;
pub mod metadata;
pub mod partials;
pub mod remove;
mod stages;
pub mod walk;

pub use controller::{Controller, Decision, Parameter};
pub use files::*;
pub use stages::Stages;
/// What a client and its callers speak of: messages' types, credentials, errors.
pub use thalweg_wire as wire;
