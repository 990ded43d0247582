//! What of a capture is taken.

use thalweg_trace::{HostId, IdSpace};

/// What of a capture is taken, and how it is numbered.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only packets from or to these ports, which are the servers'; all, where there are none.
    pub ports: Vec<u16>,
    /// The number of the capturing machine in the recording.
    pub host: HostId,
    /// Identifiers that may be given.
    pub space: IdSpace,
}

impl Default for Options {
    fn default() -> Options {
        Options { ports: Vec::new(), host: HostId(0), space: IdSpace(1) }
    }
}
