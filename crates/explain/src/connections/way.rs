//! Which way bytes go.

/// What passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The client speaks.
    Sent,
    /// The server speaks.
    Received,
    /// They shake hands.
    Connect,
}
