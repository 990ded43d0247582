//! Knobs: parameters, with what a cause needs to know about their effect on a transfer.

pub use thalweg_recipes::Kind;

/// One parameter: a list of values, known here by index only.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// Name of the knob.
    pub name: String,
    /// Kind of the parameter.
    pub kind: Kind,
    /// Values in order, if all are numbers; `None` for words.
    pub numbers: Option<Vec<f64>>,
    /// Number of values.
    pub values: usize,
}

impl Knob {
    /// Returns the index `steps` from this one, clipped to the list. Words have no order to skip over: one step only.
    pub(super) fn moved(&self, from: usize, steps: isize) -> usize {
        let steps = if self.numbers.is_some() { steps } else { steps.signum() };
        from.saturating_add_signed(steps).min(self.values.saturating_sub(1))
    }

    /// Whether the value at this index is one: a single connection, file or request in flight.
    pub(super) fn is_one(&self, place: usize) -> bool {
        self.numbers.as_ref().and_then(|numbers| numbers.get(place)).is_some_and(|number| (*number - 1.0).abs() < f64::EPSILON)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_where_the_list_does_and_words_go_one_at_a_time() {
        let numbers = Knob { name: "p".into(), kind: Kind::Streams, numbers: Some(vec![1.0, 2.0, 4.0, 8.0]), values: 4 };
        assert_eq!((numbers.moved(1, 4), numbers.moved(1, -4), numbers.moved(1, 1)), (3, 0, 2));
        let words = Knob { numbers: None, ..numbers.clone() };
        assert_eq!((words.moved(0, 4), words.moved(3, -4)), (1, 2));
        assert!(numbers.is_one(0) && !numbers.is_one(1) && !words.is_one(0));
    }
}
