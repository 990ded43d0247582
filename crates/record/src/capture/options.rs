//! Options of a capture.

use thalweg_trace::{HostId, IdSpace};

/// Selects packets of a capture and the identifiers for its events.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ports of servers whose packets are kept; empty keeps all.
    pub ports: Vec<u16>,
    /// The capturing machine's number in the recording.
    pub host: HostId,
    /// The space of identifiers to use.
    pub space: IdSpace,
}

impl Default for Options {
    fn default() -> Options {
        Options { ports: Vec::new(), host: HostId(0), space: IdSpace(1) }
    }
}
