//! The replay model.

use crate::assemble::Parts;
use crate::document::{Model, WhatIf};

/// What is said when no prediction was asked for.
pub fn not_asked() -> (Model, Vec<WhatIf>) {
    (Model { replayed_wall_s: None, error: None, reason: None }, Vec::new())
}

/// Replays the run, and what changes would give.
pub fn predict(_parts: &Parts<'_>, _meta: &thalweg_trace::Meta) -> (Model, Vec<WhatIf>) {
    not_asked()
}
