//! By which rules, and on which spans, the entries of the ledger rest. It is gathered where it is asked for only: a few comparisons for each
//! charge, and a few stretches for each entry, however long the recording is.

use crate::rule::{MAX_STRETCHES, RuleId};
use thalweg_trace::SpanKind;

/// Where the walk stands: the innermost span of its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandsIn {
    /// The span's number, or 0 between spans.
    pub span: u64,
    /// Its kind.
    pub kind: SpanKind,
    /// Its thread.
    pub track: u32,
}

/// A stretch that was charged by one rule while the thread was in one span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// By which rule.
    pub rule: RuleId,
    /// In which span.
    pub within: StandsIn,
    /// Where it begins.
    pub start: i64,
    /// Where it ends.
    pub end: i64,
}

impl Piece {
    /// Its length.
    pub(crate) fn ns(&self) -> i64 {
        self.end - self.start
    }
}

/// What one entry rests on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grounds {
    /// The rules, and how much was charged by each.
    pub rules: Vec<(RuleId, u64)>,
    /// The longest pieces.
    pub longest: Vec<Piece>,
}

/// What all entries rest on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Why {
    /// By entry.
    pub grounds: Vec<Grounds>,
}

impl Why {
    /// Charges come backward in time: one that ends where the last began, in the same span, is the same piece.
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

    /// All of an entry was charged by another rule, as turned out later.
    pub(super) fn settle(&mut self, entry: usize, rule: RuleId) {
        let Some(grounds) = self.grounds.get_mut(entry) else { return };
        let all = grounds.rules.iter().map(|(_, ns)| ns).sum();
        grounds.rules = vec![(rule, all)];
        grounds.longest.iter_mut().for_each(|piece| piece.rule = rule);
    }
}
