//! The rules and spans behind the ledger's entries. Gathered on request only: a few comparisons per charge, and a few stretches per entry,
//! whatever the recording's length.

use crate::rule::{MAX_STRETCHES, RuleId};
use thalweg_trace::SpanKind;

/// The innermost span of the walk's thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandsIn {
    /// The span's number, or 0 between spans.
    pub span: u64,
    /// Its kind.
    pub kind: SpanKind,
    /// Its thread.
    pub track: u32,
}

/// A stretch charged by one rule while the thread was in one span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The rule.
    pub rule: RuleId,
    /// The span.
    pub within: StandsIn,
    /// Start.
    pub start: i64,
    /// End.
    pub end: i64,
}

impl Piece {
    /// Its length.
    pub(crate) fn ns(&self) -> i64 {
        self.end - self.start
    }
}

/// The basis of one entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grounds {
    /// The rules, with the ns charged by each.
    pub rules: Vec<(RuleId, u64)>,
    /// The longest pieces.
    pub longest: Vec<Piece>,
}

/// The basis of all entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Why {
    /// By entry.
    pub grounds: Vec<Grounds>,
}

impl Why {
    /// Adds a charge. Charges come backward in time: one that ends where the last began, in the same span, extends the last piece.
    pub(super) fn add(&mut self, entry: u32, piece: Piece) {
        let entry = entry as usize;
        if self.grounds.len() <= entry {
            self.grounds.resize_with(entry + 1, Grounds::default);
        }
        let grounds = &mut self.grounds[entry];
        let ns = piece.ns() as u64;
        match grounds.rules.iter_mut().find(|(rule, _)| *rule == piece.rule) {
            Some((_, sum)) => *sum += ns,
            None => grounds.rules.push((piece.rule, ns)),
        }
        let same = |known: &&mut Piece| known.start == piece.end && known.within.span == piece.within.span && known.rule == piece.rule;
        if let Some(known) = grounds.longest.iter_mut().find(same) {
            known.start = piece.start;
        } else if grounds.longest.len() < MAX_STRETCHES {
            grounds.longest.push(piece);
        } else if let Some(shortest) = grounds.longest.iter_mut().min_by_key(|known| known.ns())
            && shortest.ns() < piece.ns()
        {
            *shortest = piece;
        }
    }

    /// Charges all of an entry by another rule, as decided later.
    pub(super) fn settle(&mut self, entry: usize, rule: RuleId) {
        let Some(grounds) = self.grounds.get_mut(entry) else { return };
        let all = grounds.rules.iter().map(|(_, ns)| ns).sum();
        grounds.rules = vec![(rule, all)];
        grounds.longest.iter_mut().for_each(|piece| piece.rule = rule);
    }
}
