//! The direction of bytes.

/// The direction of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The client sends.
    Sent,
    /// The server sends.
    Received,
    /// Both shake hands.
    Connect,
}
