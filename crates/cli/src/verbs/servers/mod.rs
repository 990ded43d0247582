//! Starting and mounting stores.

pub mod mount;
pub mod serve;
pub mod umount;
pub mod up;
