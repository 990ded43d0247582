//! Lots over simulated I/O servers: promises after a kill at any step, with or without a power loss, and permissions.

mod kills;
mod life;
pub(crate) mod simulated;
