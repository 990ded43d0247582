//! A rank of a job, and its file.

use super::file::Header;
use std::path::PathBuf;

/// One rank's file.
#[derive(Debug)]
pub(crate) struct Rank {
    pub path: PathBuf,
    pub header: Header,
    /// Which of the recording's jobs it belongs to, from 0 on.
    pub job: u32,
}
