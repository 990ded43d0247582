//! What several kinds of numbers are said and decided with.

use crate::cause::Cause;
use crate::document::{Number, NumberKind};
use crate::limits::numbers as limits;
use thalweg_base::numbers::count;

/// A number of which only its kind and sentence are known.
pub(super) fn number(kind: NumberKind, sentence: String) -> Number {
    Number { kind, sentence, count: None, each_s: None, bytes: None, round_trip_s: None, rate_bytes_per_s: None, items: None }
}

/// Whether a cause is one of waiting for answers: on the way, or at who answers.
pub(super) fn waits_for_answers(cause: Cause) -> bool {
    cause == Cause::NetworkLatency || cause == Cause::ServerUnknown
}

/// `3 syncs`, `one sync`, `2.4 syncs`: how often something was done for each item.
pub(super) fn times_each(ratio: f64, what: &str) -> String {
    let whole = ratio.round().max(1.0);
    let is_whole = (ratio - whole).abs() <= whole * limits::NEARLY_WHOLE;
    match (is_whole, whole as u64) {
        (true, 1) => format!("one {what}"),
        (true, n) => format!("{} {what}s", count(n)),
        (false, _) => format!("{ratio:.1} {what}s"),
    }
}

/// A sentence begins with a capital.
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
