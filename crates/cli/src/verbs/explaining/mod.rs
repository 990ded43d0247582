//! Verbs that record, explain, and show recordings.

pub(super) mod diff;
pub(super) mod doctor;
pub(super) mod explain;
pub(super) mod export;
pub(super) mod fleet;
pub(super) mod merge;
pub(super) mod profile;
pub(super) mod recipes;
pub(super) mod record;
pub(super) mod report;
pub(super) mod rpcstat;
