//! State shared by a walker's walks: the core, and which thread does the I/O.

use super::core::Core;
use thalweg_trace::TrackId;

pub(super) struct State {
    pub core: Core,
    /// Track of the thread that does I/O on the connections; outer `None`: no thread does.
    pub driver: Option<Option<TrackId>>,
    /// Number of other threads that wait.
    pub waiting: u32,
}
