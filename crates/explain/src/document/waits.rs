//! Where the longest waits of a charge waited.

use serde::{Deserialize, Serialize};

/// A stack in which a thread of the critical path waited, and its waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitStack {
    /// How many waits of this charge had it, of those of which stacks were taken: long ones.
    pub count: u64,
    /// How long the path lay in them.
    pub seconds: f64,
    /// How long it lay in the longest.
    pub longest_s: f64,
    /// When that began.
    pub at_s: f64,
    /// The track that waited then, as its number in the recording.
    pub track: u64,
    /// The program's functions, innermost first: `fdatasync`, ..., `main`; a module and place in brackets where a name is not known. Empty of
    /// a thread of the kernel.
    pub functions: Vec<String>,
    /// The kernel's functions that the longest waited in, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kernel: Vec<String>,
}
