//! Starting and mounting stores.

pub(super) mod launch;
pub(super) mod mount;
pub(super) mod serve;
mod starting;
pub(super) mod umount;
pub(super) mod up;
