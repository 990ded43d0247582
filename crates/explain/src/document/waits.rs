//! Where the longest waits of a charge waited.

use serde::{Deserialize, Serialize};

/// A stack in which a thread of the critical path waited, and its waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitStack {
    /// Number of this charge's waits with this stack; stacks are taken of long waits only.
    pub count: u64,
    /// Time of the path in them.
    pub seconds: f64,
    /// Time of the path in the longest.
    pub longest_s: f64,
    /// Start of the longest.
    pub at_s: f64,
    /// The track that waited then, by its number in the recording.
    pub track: u64,
    /// The program's functions, innermost first: `fdatasync`, ..., `main`; a module and offset in brackets if a name is not known. Empty
    /// for a kernel thread.
    pub functions: Vec<String>,
    /// The kernel functions in which the longest waited, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kernel: Vec<String>,
}
