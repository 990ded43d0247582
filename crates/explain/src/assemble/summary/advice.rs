//! Recipes' changes against what was charged, where no what-if predicts their effect: they are given without a number.

use super::Of;
use super::groups::Group;
use crate::cause::Cause;
use crate::document::{Advice, MAX_ADVICE, Number, NumberKind, WhatIf};
use crate::facts::for_recipes::facts;
use crate::facts::mounts::mounts;
use crate::limits::summary as limits;
use crate::replay::Prediction;
use thalweg_recipes::{Advised, Asked, Fact};

/// Advice for the largest charges first, without what a what-if says, or would have said of a replayed run.
pub(super) fn advice(of: &Of<'_>, groups: &[Group<'_>], prediction: &Prediction, numbers: &[Number]) -> Vec<Advice> {
    if of.is_short() {
        return Vec::new();
    }
    let (what_if, replayed) = (&prediction.what_if, prediction.model.reason.is_none());
    let mut facts = facts(of.meta, of.parts, &mounts(of.meta));
    // The limit is known, and its size tells whose it is.
    let in_flight = numbers.iter().find(|number| number.kind == NumberKind::InFlight).and_then(|number| number.bytes);
    facts.extend(in_flight.map(|bytes| Fact { name: "in_flight", value: bytes.to_string() }));
    let asked = Asked { command: &of.meta.command, facts: &facts };
    let mut found: Vec<Advice> = Vec::new();
    for group in groups.iter().filter(|group| group.share >= limits::ADVISED_SHARE) {
        for advised in group.names.first().map(|who| asked.for_cause(group.cause.name(), who, replayed)).unwrap_or_default() {
            let says = advised.says;
            let is_said = what_if.iter().any(|w| w.how == says || !w.command.is_empty() && w.command == advised.command);
            if !is_said && found.iter().all(|earlier| earlier.says != says) {
                let (command, gives_up) = (advised.command, advised.gives_up);
                found.push(Advice { cause: group.cause, says, command, gives_up, recipe: advised.recipe, source: advised.source });
            }
        }
    }
    let more = groups.first().and_then(|largest| more_in_flight(largest.cause, &asked, what_if, numbers));
    found.extend(more.filter(|more| found.iter().all(|earlier| earlier.says != more.says)).into_iter().collect::<Vec<_>>());
    found.truncate(MAX_ADVICE);
    found
}

/// Advice for more requests in flight, if the number in flight is behind messages in transit and no replay predicts the effect: a program
/// that hands requests to another one makes none itself.
fn more_in_flight(cause: Cause, asked: &Asked<'_>, what_if: &[WhatIf], numbers: &[Number]) -> Option<Advice> {
    const CHANGE: &str = "requests.x4";
    let is_limit = numbers.first().is_some_and(|number| matches!(number.kind, NumberKind::InFlight | NumberKind::OneAtATime));
    if !is_limit || cause != Cause::NetworkLatency || what_if.iter().any(|w| w.id == CHANGE) {
        return None;
    }
    let Advised { says, command, gives_up, recipe, source, .. } = asked.for_change(CHANGE)?;
    Some(Advice { cause, says, command, gives_up, recipe, source })
}
