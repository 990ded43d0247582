//! Background threads that complete operations at the I/O servers.
//!
//! | module | content |
//! |---|---|
//! | [`intents`] | removes datafiles of removed files, resizes those of truncated files |
//! | [`orders`] | when a worker runs |
//! | [`rounds`] | syncs bytes that no client synced |
//! | [`settler`] | fetches sizes that only the I/O servers know |

pub(super) mod intents;
pub(super) mod orders;
pub(super) mod rounds;
pub(super) mod settler;
