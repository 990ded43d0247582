//! Knobs: what is turned, and what turning it does to a transfer, as far as a cause needs to know.

pub use thalweg_recipes::Kind;

/// One parameter of what is tuned: a list of values, of which only the places are known here.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// Its name.
    pub name: String,
    /// What it turns.
    pub kind: Kind,
    /// The numbers of its values, where all are numbers, in order; `None` for words.
    pub numbers: Option<Vec<f64>>,
    /// How many values it has.
    pub values: usize,
}

impl Knob {
    /// The place `steps` from this one, as far as the list goes. Words have no order to step over: one at a time.
    pub(super) fn moved(&self, from: usize, steps: isize) -> usize {
        let steps = if self.numbers.is_some() { steps } else { steps.signum() };
        from.saturating_add_signed(steps).min(self.values.saturating_sub(1))
    }

    /// Whether this place is a value of one: a single connection, file or request in flight.
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
