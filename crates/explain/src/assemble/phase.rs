//! Explains one phase of a transfer: before its first byte, until its rate is steady, at that rate, until its last byte, after it. It
//! answers "before it starts" and "stuck at 100 %".
//!
//! The walk covers the whole run, so that what a phase waited for is known beyond its end; only time within the phase is charged. Figures
//! of the whole run (bytes, channels, idle parts) and predictions are omitted.

use super::summary::{self, Of};
use super::{notes, settle, verdict};
use crate::ExplainError;
use crate::cause::End;
use crate::document::{Explanation, Model, PhaseName, SCHEMA};
use crate::facts::Parts;
use thalweg_base::numbers::duration;
use thalweg_trace::Meta;

/// Explains the phase with this name.
///
/// # Errors
/// The run has no such phase: nothing was moved, or the phase has no length.
pub(crate) fn explanation(
    meta: &Meta,
    whole: &Parts<'_>,
    name: PhaseName,
    unrecorded: Option<(End, u32)>,
) -> Result<Explanation, ExplainError> {
    let phases = whole.phases();
    let Some(phase) = phases.iter().find(|phase| phase.name == name) else {
        let there: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
        let there =
            if there.is_empty() { "no phases, since it moved nothing".to_owned() } else { format!("the phases {}", there.join(", ")) };
        return Err(ExplainError::Nothing(format!("there is no phase {}: the run has {there}", name.as_str())));
    };
    let at = |seconds: f64| whole.start + (seconds * 1e9) as i64;
    let (start, end) = (at(phase.start_s), at(phase.end_s));
    let ledger = whole.ledger.within(start, end);
    let parts = Parts { ledger: &ledger, start, end, ..*whole };
    let charges = parts.charges();
    let mut verdict = verdict::verdict(&charges.list, |_| None);
    verdict.settle = settle::settle(&parts, meta, &verdict);
    let of = Of {
        parts: &parts,
        meta,
        charges: &charges,
        verdict: &verdict,
        round_trips: None,
        listed: &[],
        transfers: 0,
        size_bytes: None,
        unrecorded,
    };
    let about = format!("{}, {} of {}", name.as_str(), duration(parts.wall_s()), duration(whole.wall_s()));
    let (summary, sentence) = summary::of_phase(&of, about);
    let unreliable_because = of.is_short().then(summary::too_short);
    verdict.sentence = sentence;
    Ok(Explanation {
        schema: SCHEMA.to_owned(),
        command: meta.command.clone(),
        recorder: meta.recorder.clone(),
        dropped_events: meta.dropped_events,
        start_ns: start,
        wall_s: parts.wall_s(),
        size_bytes: None,
        rate_bytes_per_s: None,
        summary,
        verdict,
        path: parts.path(&charges),
        transfers: Vec::new(),
        unlisted_transfers: None,
        phases: vec![crate::document::Phase { name, start_s: 0.0, end_s: parts.wall_s() }],
        channels: Vec::new(),
        throughput: None,
        tracks: Vec::new(),
        round_trips: None,
        connections: None,
        reliable: unreliable_because.is_none(),
        unreliable_because,
        what_if: Vec::new(),
        advice: Vec::new(),
        repeated: None,
        emulated: notes::emulated(meta),
        model: Model { replayed_wall_s: None, error: None, reason: None },
        notes: notes::notes(&parts, meta, unrecorded),
        critical_path: charges.list,
    })
}
