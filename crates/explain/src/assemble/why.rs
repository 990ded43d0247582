//! The rules behind a charge, and the spans it rests on.

use crate::facts::Parts;
use crate::observe::index::NONE;
use crate::path::why::Piece;
use crate::rule::{Applied, MAX_STRETCHES, RuleId, Stretch};

impl Parts<'_> {
    /// The rules of a charge, most time first; empty unless requested. `part` of the members' time is the charge's; `instead` is the rule
    /// by which all of that was taken out of them.
    pub(super) fn rules(&self, members: &[usize], part: f64, instead: Option<RuleId>) -> Vec<Applied> {
        let Some(why) = &self.ledger.why else { return Vec::new() };
        let grounds = || members.iter().filter_map(|&member| why.grounds.get(member));
        let mut applied: Vec<Applied> = Vec::new();
        for &(rule, ns) in grounds().flat_map(|g| &g.rules) {
            let (rule, seconds) = (instead.unwrap_or(rule), ns as f64 * part / 1e9);
            match applied.iter_mut().find(|known| known.rule == rule) {
                Some(known) => known.seconds += seconds,
                None => applied.push(Applied { rule, seconds, rests_on: Vec::new() }),
            }
        }
        applied.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.rule.cmp(&b.rule)));
        let mut longest: Vec<&Piece> = grounds().flat_map(|g| &g.longest).collect();
        longest.sort_by_key(|piece| (std::cmp::Reverse(piece.ns()), piece.start));
        for piece in longest.into_iter().take(MAX_STRETCHES) {
            let rule = instead.unwrap_or(piece.rule);
            let of_rule = applied.iter_mut().find(|known| known.rule == rule);
            of_rule.into_iter().for_each(|known| known.rests_on.push(self.stretch(piece)));
        }
        applied
    }

    fn stretch(&self, piece: &Piece) -> Stretch {
        let (within, s) = (piece.within, |at: i64| (at - self.start) as f64 / 1e9);
        let known = within.span != 0;
        Stretch {
            span: known.then_some(within.span),
            kind: known.then(|| within.kind.name().to_owned()),
            track: (within.track != NONE).then(|| self.tables.actors[within.track as usize].id),
            start_s: s(piece.start),
            end_s: s(piece.end),
        }
    }
}
