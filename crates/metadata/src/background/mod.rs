//! Threads that do at the I/O servers what operations have left to do.
//!
//! | room | what is in it |
//! |---|---|
//! | [`intents`] | datafiles of removed files go, those of truncated files get their sizes |
//! | [`orders`] | when a worker works |
//! | [`rounds`] | bytes that nobody synced are put on stable storage |
//! | [`settler`] | sizes that only the I/O servers know are asked for |

pub(super) mod intents;
pub(super) mod orders;
pub(super) mod rounds;
pub(super) mod settler;
