//! What requests work on.

use super::opened::Opened;
use crate::operand::StoreFlags;
use crate::session::Session;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A store, and what a session has open in it.
pub(super) struct Served {
    pub session: Session,
    pub opened: Opened,
    pub flags: StoreFlags,
    /// Raised by a signal: copies end.
    pub stopping: Arc<AtomicBool>,
}
