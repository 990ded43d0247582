//! What clients and the metadata service report to each other of a file's bytes, which are at the I/O servers: how a use of it has ended, and
//! what is known of it when nobody writes any more.

use super::numbers::FileId;
use serde::{Deserialize, Serialize};

/// A file that a client has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Which.
    pub file: FileId,
    /// Whether it was opened for writing.
    pub write: bool,
    /// How.
    pub end: End,
}

/// How a client's use of a file that it had opened has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// It has changed no byte.
    Read,
    /// Everything it wrote is at the I/O servers, and nothing is in flight.
    Written {
        /// Where the last byte ends that it wrote and that no [`super::metadata::Operation::Written`] has reported; 0: there is none.
        #[serde(deserialize_with = "super::checked::bounded_size")]
        end_bytes: u64,
        /// Every byte from here to there was written by it; `end_bytes`: it cannot say.
        whole_from_bytes: u64,
        /// It has synced the file since.
        is_synced: bool,
    },
    /// A write may have failed, or may still be in flight: nobody knows the size now, nor how long it may still change.
    Unknown,
}

impl End {
    /// A new file of `size_bytes` was written from its beginning to its end.
    pub const fn whole(size_bytes: u64, is_synced: bool) -> End {
        End::Written { end_bytes: size_bytes, whole_from_bytes: 0, is_synced }
    }
}

/// What the service knows of a file's datafiles while nobody writes it: what is shorter has lost bytes. It is of the moment when the
/// file's row was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The file's size.
    #[serde(deserialize_with = "super::checked::bounded_size")]
    pub size_bytes: u64,
    /// How long its datafiles are.
    pub lengths: Lengths,
    /// Whether they are not longer either: nobody knows after the service's machine was restarted without being stopped in good order.
    pub is_exact: bool,
    /// The I/O server (its place in the map) whose machine was restarted before the file's bytes were on stable storage.
    pub doubtful: Option<u32>,
}

/// How long the datafiles of a file of known size are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lengths {
    /// Only that the file's last byte is there.
    Unknown,
    /// As in a file without holes: each is as long as its layout says for the file's size.
    Whole,
    /// At least so long, in bytes, one for each datafile.
    AtLeast(Vec<u64>),
}
