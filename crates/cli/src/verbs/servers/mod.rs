//! Verbs that start and mount stores.

pub(super) mod launch;
pub(super) mod mount;
pub(super) mod serve;
mod starting;
pub(super) mod umount;
pub(super) mod up;
