//! Wording and decisions common to several kinds of numbers.

use crate::cause::Cause;
use crate::document::{Number, NumberKind};
use crate::limits::numbers as limits;
use thalweg_base::numbers::count;

/// A number with only its kind and sentence.
pub(super) fn number(kind: NumberKind, sentence: String) -> Number {
    Number { kind, sentence, count: None, each_s: None, bytes: None, round_trip_s: None, rate_bytes_per_s: None, items: None }
}

/// Whether a cause is waiting for answers: in transit, or at the answering end.
pub(super) fn waits_for_answers(cause: Cause) -> bool {
    cause == Cause::NetworkLatency || cause == Cause::ServerUnknown
}

/// How often something was done per item: `3 syncs`, `one sync`, `2.4 syncs`.
pub(super) fn times_each(ratio: f64, what: &str) -> String {
    let whole = ratio.round().max(1.0);
    let is_whole = (ratio - whole).abs() <= whole * limits::NEARLY_WHOLE;
    match (is_whole, whole as u64) {
        (true, 1) => format!("one {what}"),
        (true, n) => format!("{} {what}s", count(n)),
        (false, _) => format!("{ratio:.1} {what}s"),
    }
}

/// Capitalises a sentence.
pub(super) fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_is_whole_where_it_nearly_is() {
        assert_eq!(times_each(1.04, "sync"), "one sync");
        assert_eq!(times_each(2.96, "sync"), "3 syncs");
        assert_eq!(times_each(2.4, "round trip"), "2.4 round trips");
        assert_eq!(capital("one sync"), "One sync");
    }
}
