//! Recording, explaining, and what comes of recordings.

pub mod doctor;
pub mod explain;
pub mod export;
pub mod merge;
pub mod record;
pub mod report;
pub mod rpcstat;
