//! Reports between clients and the metadata service about file data, which is on the I/O servers: how a client's use of a file
//! ended, and what is known of a file without writers.

use super::numbers::FileId;
use serde::{Deserialize, Serialize};

/// A file that a client has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The file.
    pub file: FileId,
    /// Whether it was opened for writing.
    pub write: bool,
    /// How the use ended.
    pub end: End,
}

/// How a client's use of an open file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The client changed no byte.
    Read,
    /// All its writes have reached the I/O servers; none is in flight.
    Written {
        /// End of the last byte written and not yet reported by [`super::metadata::Operation::Written`]; 0: none.
        #[serde(deserialize_with = "super::checked::bounded_size")]
        end_bytes: u64,
        /// The client wrote every byte from here to `end_bytes`; equal to `end_bytes`: not known.
        whole_from_bytes: u64,
        /// Whether the client has synced the file since.
        is_synced: bool,
    },
    /// A write may have failed or may still be in flight: the size is unknown, and may keep changing for an unknown time.
    Unknown,
}

impl End {
    /// Returns the end of writing a new file of `size_bytes` from beginning to end.
    pub const fn whole(size_bytes: u64, is_synced: bool) -> End {
        End::Written { end_bytes: size_bytes, whole_from_bytes: 0, is_synced }
    }
}

/// What the service knows of a file's datafiles while the file has no writer; a shorter datafile has lost bytes. Valid when the
/// file's row was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The file's size.
    #[serde(deserialize_with = "super::checked::bounded_size")]
    pub size_bytes: u64,
    /// The lengths of its datafiles.
    pub lengths: Lengths,
    /// Whether it is known that the datafiles are not longer either; unknown after an unclean restart of the service's machine.
    pub is_exact: bool,
    /// The I/O server (index in the map) whose machine restarted before the file was on stable storage.
    pub doubtful: Option<u32>,
}

/// The lengths of the datafiles of a file of known size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lengths {
    /// Known only: the file's last byte exists.
    Unknown,
    /// No holes: each datafile is as long as the layout gives for the file's size.
    Whole,
    /// Minimum length of each datafile, bytes.
    AtLeast(Vec<u64>),
}
