//! A rank of a job, and its file.

use super::file::Header;
use std::path::PathBuf;

/// One rank's file.
#[derive(Debug)]
pub(crate) struct Rank {
    pub path: PathBuf,
    pub header: Header,
    /// Number of its job in the recording, from 0 on.
    pub job: u32,
}
