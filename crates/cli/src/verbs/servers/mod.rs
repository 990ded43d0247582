//! Starting and mounting stores.

pub mod mount;
pub mod serve;
mod starting;
pub mod umount;
pub mod up;
