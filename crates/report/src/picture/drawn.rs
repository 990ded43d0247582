//! What of an explanation the picture draws: its sentence, and the channel whose gaps are shaded.

use thalweg_explain::document::{Channel, Explanation, MAX_SEGMENTS};

/// Returns the sentence that `explain` prints; in its place, how the command ended.
pub(super) fn title(e: &Explanation) -> String {
    match &e.summary.ended {
        _ if !e.summary.sentence.is_empty() => e.summary.sentence.clone(),
        Some(ended) if ended.starts_with("killed") => format!("It was {ended}."),
        Some(ended) => format!("It {ended}."),
        None => e.verdict.sentence.clone(),
    }
}

/// Returns the channel whose gaps are drawn: the sum over the direction that carried most, or else the first connection.
pub(super) fn main_channel(explanation: &Explanation) -> Option<&Channel> {
    let sums = explanation.channels.iter().filter(|c| c.aggregate);
    sums.max_by_key(|c| c.size_bytes).or_else(|| explanation.channels.first())
}

/// Whether the path's segments are exact charges and do not stand for their neighbours. A path too long to keep is cut into steps of equal
/// length; an exact one has shorter segments.
pub(super) fn is_exact(explanation: &Explanation) -> bool {
    let step_s = explanation.wall_s / MAX_SEGMENTS as f64;
    let short = explanation.path.iter().filter(|s| s.end_s - s.start_s < 0.9 * step_s).count();
    explanation.path.len() < MAX_SEGMENTS / 4 || short > 1
}
