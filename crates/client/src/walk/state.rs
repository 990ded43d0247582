//! What the walks of a walker share: what they know, and who works for them.

use super::core::Core;
use thalweg_trace::TrackId;

pub(super) struct State {
    pub core: Core,
    /// Somebody works on the connections: on this track.
    pub driver: Option<Option<TrackId>>,
    /// Others who wait.
    pub waiting: u32,
}
